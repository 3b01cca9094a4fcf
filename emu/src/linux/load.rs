//! From a file to a processor ready to run: options, errors, mapping of images, start-up state.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::private::Private;
use super::process::{BeforeExec, Process, ProcessParts, Runner, Tracer, lock};
use super::stack::{self, ProgramFacts, STACK_SIZE, STACK_TOP};
use super::{Linux, Task, abi, host};
use crate::cpu::Vcpu;
use crate::isa::CpuModel;
use crate::load::{ElfError, Image, ImageKind, parse};
use crate::mem::{AddressSpace, MapError, MapRequest, PAGE_SIZE, Place, Prot};

/// Where position-independent executables go: ELF_ET_DYN_BASE.
const DYN_BASE: u64 = 0x200_0100_0000;
/// The processor flag that asks for 32-bit addresses.
const EF_ALPHA_32BIT: u32 = 1;
/// A stack is not made larger than this, whatever the limit says.
const MAX_STACK: u64 = 1 << 30;
/// End of the address range of such programs.
const LIMIT_32BIT: u64 = 0x8000_0000;

/// How a program is to be run.
#[derive(Clone, Default)]
pub struct LinuxOptions {
    /// Directory that absolute paths are looked up in first (`-L`).
    pub sysroot: Option<PathBuf>,
    /// Processor model.
    pub model: CpuModel,
    /// Runs the guest's other threads; without it clone fails.
    pub runner: Option<Runner>,
    /// Command that runs another Alpha program, for execve; the program's path and arguments are
    /// appended after `-0 ARGV0`. Without it execve of Alpha programs fails.
    pub exec_prefix: Vec<OsString>,
    /// Takes the lines of `--strace`.
    pub strace: Option<Tracer>,
    /// Files, and folders with all in them, that the guest's calls do not reach.
    pub private: Vec<PathBuf>,
    /// Called before another program takes the process's place.
    pub before_exec: Option<BeforeExec>,
    /// Whether guest addresses shall differ from the host's: for tests and several guests.
    pub based: bool,
}

impl std::fmt::Debug for LinuxOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinuxOptions")
            .field("sysroot", &self.sysroot)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// Why a program cannot be started. Each is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No such file.
    #[error("{}: no such file", .0.display())]
    Missing(PathBuf),
    /// A directory.
    #[error("{}: is a directory, not a program", .0.display())]
    Directory(PathBuf),
    /// Not readable.
    #[error("{}: permission denied; make it readable", .0.display())]
    Denied(PathBuf),
    /// Neither file nor directory.
    #[error("{}: not a regular file; give an Alpha ELF program", .0.display())]
    NotRegular(PathBuf),
    /// Another error of the host.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the host said.
        error: io::Error,
    },
    /// Not an Alpha program.
    #[error("{}: {error}; give an Alpha ELF program", .path.display())]
    Elf {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: ElfError,
    },
    /// The sysroot is no directory.
    #[error("sysroot {}: no such directory; check -L or AXPLAB_SYSROOT", .0.display())]
    Sysroot(PathBuf),
    /// The dynamic linker is not there.
    #[error(
        "{}: needs the interpreter {interp}, which {}; use -L DIR or set \
         AXPLAB_SYSROOT to a directory with Alpha libraries", .path.display(), 
        .sysroot.as_ref().map_or("was not found".to_owned(),
            |root| format!("is not in {}", root.display()))
    )]
    Interpreter {
        /// The program.
        path: PathBuf,
        /// The interpreter's path.
        interp: String,
        /// The sysroot, if one was given.
        sysroot: Option<PathBuf>,
    },
    /// Arguments and environment need more than a quarter of the stack.
    #[error("arguments and environment are too long: {0} bytes")]
    ArgumentsTooLong(u64),
    /// A string with a NUL inside.
    #[error("an argument or environment string contains a NUL byte")]
    NulInArgument,
    /// The window could not be reserved.
    #[error("cannot reserve the guest's address space: {0}")]
    Window(#[from] crate::mem::WindowError),
    /// A segment could not be mapped.
    #[error("{}: cannot map {size:#x} bytes at {at:#x}: {error}", .path.display())]
    Map {
        /// The file.
        path: PathBuf,
        /// Address.
        at: u64,
        /// Bytes.
        size: u64,
        /// Why not.
        error: MapError,
    },
    /// The stack could not be written.
    #[error("cannot write the initial stack: {0}")]
    Stack(#[from] crate::mem::MemFault),
}

fn read_file(path: &Path) -> Result<Vec<u8>, LoadError> {
    let own = || path.to_path_buf();
    let classify = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => LoadError::Missing(own()),
        io::ErrorKind::PermissionDenied => LoadError::Denied(own()),
        io::ErrorKind::IsADirectory => LoadError::Directory(own()),
        _ => LoadError::Io { path: own(), error },
    };
    // Asked first: opening a FIFO would wait.
    let meta = fs::metadata(path).map_err(classify)?;
    if meta.is_dir() {
        return Err(LoadError::Directory(own()));
    }
    if !meta.is_file() {
        return Err(LoadError::NotRegular(own()));
    }
    fs::read(path).map_err(classify)
}

/// An image in guest memory.
struct Mapped {
    image: Image,
    base: u64,
    entry: u64,
    end: u64,
}

fn page_down(value: u64) -> u64 {
    value & !(PAGE_SIZE - 1)
}

fn page_up(value: u64) -> u64 {
    page_down(value.saturating_add(PAGE_SIZE - 1))
}

/// Maps the segments. Two segments may share a page; it gets the rights of both.
fn map_image(
    mem: &AddressSpace,
    image: Image,
    path: &Path,
    dyn_base: u64,
) -> Result<Mapped, LoadError> {
    let (low, high) = (page_down(image.low()), page_up(image.high()));
    let fail = |at, size| move |error| LoadError::Map { path: path.to_path_buf(), at, size, error };
    let base = match image.kind {
        ImageKind::Fixed => 0,
        ImageKind::Relocatable => {
            let size = high - low;
            let at = mem.find_free(dyn_base, size).ok_or(MapError::NoMemory);
            at.map_err(fail(dyn_base, size))? - low
        }
    };
    let mut mapped_to = 0;
    for segment in &image.segments {
        let start = page_down(segment.vaddr).max(mapped_to);
        let end = page_up(segment.end());
        if start < end {
            let request = MapRequest::anonymous(end - start, Prot::READ | Prot::WRITE)
                .at(Place::FixedNoReplace(base + start))
                .named(path);
            let request = MapRequest { no_reserve: true, ..request };
            mem.map(&request).map_err(fail(base + start, end - start))?;
            mapped_to = end;
        }
        mem.write_bytes(base + segment.vaddr, &segment.data)?;
    }
    // Rights last, page ranges merged where segments share a page.
    let rights = |page: u64| {
        let covering =
            image.segments.iter().filter(|s| s.vaddr < page + PAGE_SIZE && s.end() > page);
        covering.fold(Prot::empty(), |prot, s| {
            let mut own = Prot::empty();
            own.set(Prot::READ, s.read);
            own.set(Prot::WRITE, s.write);
            own.set(Prot::EXEC, s.execute);
            prot | own
        })
    };
    let mut edges: Vec<u64> = Vec::new();
    for s in &image.segments {
        edges.extend([page_down(s.vaddr), page_down(s.vaddr) + PAGE_SIZE]);
        edges.extend([page_down(s.end() - 1), page_up(s.end())]);
    }
    edges.sort_unstable();
    edges.dedup();
    for pair in edges.windows(2) {
        let [from, to] = [pair[0], pair[1]];
        if mem.region_at(base + from).is_some()
            && image.segments.iter().any(|s| s.vaddr < from + PAGE_SIZE && s.end() > from)
        {
            mem.protect(base + from, to - from, rights(from))
                .map_err(fail(base + from, to - from))?;
        }
    }
    let entry = base.wrapping_add(image.entry);
    let end = base + image.high();
    Ok(Mapped { image, base, entry, end })
}

/// The soft limit of the stack, within reason: it is reserved at once instead of growing.
fn stack_size() -> u64 {
    let mut limit = [STACK_SIZE; 2];
    let at = limit.as_mut_ptr() as u64;
    let args = [0, u64::from(libc::RLIMIT_STACK), 0, at, 0, 0];
    let _ = host::call(libc::SYS_prlimit64, args);
    page_down(limit[0].clamp(STACK_SIZE, MAX_STACK))
}

/// The name that `ps` shows: the program's, as execve sets it.
fn set_name(path: &Path) {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let mut bytes = [0u8; 16];
    let len = name.len().min(15);
    bytes[..len].copy_from_slice(&name[..len]);
    let args = [libc::PR_SET_NAME as u64, bytes.as_ptr() as u64, 0, 0, 0, 0];
    let _ = host::call(libc::SYS_prctl, args);
}

fn joined(strings: &[Vec<u8>]) -> Vec<u8> {
    strings.iter().flat_map(|s| s.iter().copied().chain([0])).collect()
}

impl Linux {
    /// Reads the program at `path` and builds its process: memory, stack, first thread.
    pub fn load(
        path: &Path,
        argv: &[OsString],
        envp: &[OsString],
        options: LinuxOptions,
    ) -> Result<(Linux, Vcpu), LoadError> {
        if let Some(root) = options.sysroot.as_ref().filter(|root| !root.is_dir()) {
            return Err(LoadError::Sysroot(root.clone()));
        }
        let bytes = read_file(path)?;
        Self::load_bytes(path, &bytes, argv, envp, options)
    }

    /// The same for a file that was read already; `path` names it.
    pub fn load_bytes(
        path: &Path,
        bytes: &[u8],
        argv: &[OsString],
        envp: &[OsString],
        options: LinuxOptions,
    ) -> Result<(Linux, Vcpu), LoadError> {
        let elf = |path: &Path| {
            let path = path.to_path_buf();
            move |error| LoadError::Elf { path, error }
        };
        let image = parse(bytes).map_err(elf(path))?;
        let interp = match &image.interp {
            None => None,
            Some(interp) => Some(find_interpreter(path, interp, options.sysroot.as_deref())?),
        };
        let interpreter = interp.as_ref().map(|(at, _)| at.clone());
        let mem = Arc::new(if options.based {
            AddressSpace::based()?
        } else {
            AddressSpace::identity()?
        });
        let mut stack_top = STACK_TOP;
        if image.e_flags & EF_ALPHA_32BIT != 0 {
            stack_top = LIMIT_32BIT;
            mem.set_search(LIMIT_32BIT / 2, LIMIT_32BIT);
        }
        let argv: Vec<Vec<u8>> = argv.iter().map(|s| s.clone().into_vec()).collect();
        let envp: Vec<Vec<u8>> = envp.iter().map(|s| s.clone().into_vec()).collect();
        if argv.iter().chain(&envp).any(|s| s.contains(&0)) {
            return Err(LoadError::NulInArgument);
        }
        let total: u64 = argv.iter().chain(&envp).map(|s| s.len() as u64 + 9).sum();
        if total > STACK_SIZE / 4 {
            return Err(LoadError::ArgumentsTooLong(total));
        }

        let exec_stack = image.exec_stack;
        let program = map_image(&mem, image, path, DYN_BASE)?;
        let linker = match interp {
            None => None,
            Some((at, image)) => {
                let base = mem.find_free(0, image.high() - image.low()).unwrap_or(DYN_BASE);
                Some(map_image(&mem, image, &at, base)?)
            }
        };
        let mut rights = Prot::READ | Prot::WRITE;
        rights.set(Prot::EXEC, exec_stack);
        let stack_size = stack_size();
        let stack_at = stack_top - stack_size;
        let request = MapRequest::anonymous(stack_size, rights)
            .at(Place::FixedNoReplace(stack_at))
            .named("[stack]");
        mem.map(&MapRequest { no_reserve: true, ..request }).map_err(|error| LoadError::Map {
            path: path.to_path_buf(),
            at: stack_at,
            size: stack_size,
            error,
        })?;

        let mut random = [0; 16];
        let args = [random.as_mut_ptr() as u64, 16, 0, 0, 0, 0];
        let _ = host::call(libc::SYS_getrandom, args);
        let id = |nr| host::call(nr, [0; 6]).unwrap_or(0);
        let facts = ProgramFacts {
            phdr: program.image.phdr.map_or(0, |at| at + program.base),
            phnum: u64::from(program.image.phnum),
            base: linker.as_ref().map_or(0, |l| l.base + page_down(l.image.low())),
            entry: program.entry,
            ids: [libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid].map(id),
            exec_name: path.as_os_str().as_bytes(),
            random,
        };
        let image = stack::build(&mem, stack_top, options.model, &argv, &envp, &facts)?;

        let mut vcpu = Vcpu::new(mem.clone(), options.model);
        // A new program has no handlers and one thread.
        vcpu.observed = false;
        mem.set_alone(true);
        vcpu.cpu.pc = linker.as_ref().map_or(program.entry, |l| l.entry);
        vcpu.cpu.r[30] = image.sp;

        let exe = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let process = Process::new(ProcessParts {
            mem,
            model: options.model,
            sysroot: options.sysroot,
            exec_prefix: options.exec_prefix,
            private: Private::new(&options.private),
            before_exec: options.before_exec,
            strace: options.strace,
            runner: options.runner,
            interpreter,
            exe,
            cmdline: joined(&argv),
            environ: joined(&envp),
            auxv: image.auxv,
            brk: page_up(program.end),
        });
        host::install();
        // The Rust runtime ignores SIGPIPE for itself; the program expects the default.
        host::set_action(libc::SIGPIPE, host::HostAction::Default, 0);
        lock(&process.actions)[abi::sig::PIPE as usize] = Default::default();
        set_name(path);
        let tid = host::gettid();
        lock(&process.threads).alive.push(tid);
        let mask = abi::mask_from_host(host::mask());
        Ok((Linux { process: Arc::new(process), task: Task::new(tid, mask, true) }, vcpu))
    }
}

fn find_interpreter(
    program: &Path,
    interp: &[u8],
    sysroot: Option<&Path>,
) -> Result<(PathBuf, Image), LoadError> {
    let plain = PathBuf::from(OsString::from_vec(interp.to_vec()));
    let inside = sysroot.map(|root| root.join(plain.strip_prefix("/").unwrap_or(&plain)));
    let missing = || LoadError::Interpreter {
        path: program.to_path_buf(),
        interp: plain.display().to_string(),
        sysroot: sysroot.map(Path::to_path_buf),
    };
    let found = inside.filter(|path| path.exists()).unwrap_or_else(|| plain.clone());
    let bytes = match read_file(&found) {
        Err(LoadError::Missing(_)) => return Err(missing()),
        other => other?,
    };
    match parse(&bytes) {
        Ok(image) => Ok((found, image)),
        // The host's own dynamic linker of the same name.
        Err(ElfError::WrongMachine { .. }) if found == plain => Err(missing()),
        Err(error) => Err(LoadError::Elf { path: found, error }),
    }
}
