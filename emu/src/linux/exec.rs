//! execve: an Alpha program runs on a new instance of the emulator, a host program directly, a
//! script through its interpreter.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::call::Call;
use super::errno::{Errno, SysResult};
use super::host;

/// Limits against absurd vectors; Linux bounds the bytes in total.
const MAX_STRINGS: usize = 1 << 20;
const MAX_BYTES: usize = 6 << 20;
/// Length of one string: MAX_ARG_STRLEN, 32 pages.
const MAX_STRING: usize = 32 * 8192;
/// Interpreters of scripts may be scripts, but not for ever.
const MAX_SCRIPT_DEPTH: usize = 4;

fn strings(c: &Call<'_>, at: u64) -> Result<Vec<Vec<u8>>, Errno> {
    let mut out = Vec::new();
    let mut total = 0;
    if at == 0 {
        return Ok(out);
    }
    loop {
        let pointer = c.read_u64(at + 8 * out.len() as u64)?;
        if pointer == 0 {
            return Ok(out);
        }
        let string = c.string(pointer, MAX_STRING).map_err(|errno| match errno {
            Errno::ENAMETOOLONG => Errno::E2BIG,
            other => other,
        })?;
        total += string.len() + 9;
        if out.len() >= MAX_STRINGS || total > MAX_BYTES {
            return Err(Errno::E2BIG);
        }
        out.push(string);
    }
}

/// What the first bytes of a file say.
enum Kind {
    Alpha,
    Script { interpreter: Vec<u8>, argument: Option<Vec<u8>> },
    Other,
}

fn kind_of(path: &Path) -> Result<Kind, Errno> {
    let mut head = [0u8; 256];
    // A program may be executable without being readable; then the host decides.
    let Ok(mut file) = File::open(path) else { return Ok(Kind::Other) };
    let mut len = 0;
    while len < head.len() {
        match file.read(&mut head[len..])? {
            0 => break,
            n => len += n,
        }
    }
    let head = &head[..len];
    if head.len() >= 20 && head.starts_with(b"\x7fELF") && head[18..20] == [0x26, 0x90] {
        return Ok(Kind::Alpha);
    }
    let Some(line) = head.strip_prefix(b"#!") else { return Ok(Kind::Other) };
    let line = line.split(|&b| b == b'\n').next().unwrap_or_default();
    let line = line.trim_ascii();
    let split = line.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(line.len());
    let (interpreter, rest) = line.split_at(split);
    if interpreter.is_empty() {
        return Err(Errno::ENOEXEC);
    }
    let rest = rest.trim_ascii();
    let argument = (!rest.is_empty()).then(|| rest.to_vec());
    Ok(Kind::Script { interpreter: interpreter.to_vec(), argument })
}

fn c_strings(strings: Vec<Vec<u8>>) -> Result<Vec<CString>, Errno> {
    strings.into_iter().map(|s| CString::new(s).map_err(|_| Errno::EINVAL)).collect()
}

/// Replaces the process. Only returns if that fails.
fn replace(c: &Call<'_>, path: &CString, argv: Vec<Vec<u8>>, envp: Vec<Vec<u8>>) -> Errno {
    let (argv, envp) = match (c_strings(argv), c_strings(envp)) {
        (Ok(argv), Ok(envp)) => (argv, envp),
        _ => return Errno::EINVAL,
    };
    let pointers = |strings: &[CString]| {
        let all = strings.iter().map(|s| s.as_ptr() as u64);
        all.chain([0]).collect::<Vec<_>>()
    };
    let (argv, envp) = (pointers(&argv), pointers(&envp));
    let args = [path.as_ptr() as u64, argv.as_ptr() as u64, envp.as_ptr() as u64];
    if let Some(before) = &c.linux.process.before_exec {
        before();
    }
    match c.host(libc::SYS_execve, &args) {
        Err(errno) => errno,
        Ok(_) => Errno::EIO,
    }
}

fn run(c: &mut Call<'_>, guest_path: Vec<u8>, argv: u64, envp: u64) -> SysResult {
    let mut argv = strings(c, argv)?;
    let envp = strings(c, envp)?;
    if argv.is_empty() {
        argv.push(Vec::new());
    }
    let mut guest_path = guest_path;
    for _ in 0..MAX_SCRIPT_DEPTH {
        let host_path = c.linux.process.host_path_at(libc::AT_FDCWD as u64, &guest_path);
        // The host's checks: existence, type, permission.
        let access = [host_path.as_ptr() as u64, libc::X_OK as u64];
        c.host(libc::SYS_access, &access)?;
        let as_path = OsString::from_vec(host_path.as_bytes().to_vec());
        let as_path = Path::new(&as_path);
        if as_path.is_dir() {
            return Err(Errno::EACCES);
        }
        match kind_of(as_path)? {
            Kind::Script { interpreter, argument } => {
                let mut new = vec![interpreter.clone()];
                new.extend(argument);
                new.push(guest_path);
                new.extend(argv.into_iter().skip(1));
                argv = new;
                guest_path = interpreter;
            }
            Kind::Alpha => {
                let prefix = &c.linux.process.exec_prefix;
                let Some(command) = prefix.first() else { return Err(Errno::ENOEXEC) };
                let command = CString::new(command.as_bytes()).map_err(|_| Errno::EINVAL)?;
                let mut new: Vec<Vec<u8>> = prefix.iter().map(|s| s.as_bytes().to_vec()).collect();
                let mut rest = argv.into_iter();
                new.push(b"-0".to_vec());
                new.push(rest.next().unwrap_or_default());
                new.push(host_path.as_bytes().to_vec());
                new.extend(rest);
                return Err(replace(c, &command, new, envp));
            }
            Kind::Other => return Err(replace(c, &host_path, argv, envp)),
        }
    }
    Err(Errno::ELOOP)
}

/// execve.
pub fn execve(c: &mut Call<'_>) -> SysResult {
    let path = c.guest_path(c.a[0])?;
    run(c, path, c.a[1], c.a[2])
}

/// execveat: relative to a descriptor, or the descriptor itself.
pub fn execveat(c: &mut Call<'_>) -> SysResult {
    let [dir, path, argv, envp, flags, _] = c.a;
    let path = c.guest_path(path)?;
    let at_cwd = dir as i32 == libc::AT_FDCWD;
    let full = if path.is_empty() && flags as i32 & libc::AT_EMPTY_PATH != 0 {
        format!("/proc/self/fd/{}", dir as i32).into_bytes()
    } else if path.first() == Some(&b'/') || at_cwd {
        path
    } else {
        let mut full = format!("/proc/self/fd/{}/", dir as i32).into_bytes();
        full.extend_from_slice(&path);
        full
    };
    // The descriptor must survive into the emulator that loads the program.
    if full.starts_with(b"/proc/self/fd/") {
        let flags = host::call(libc::SYS_fcntl, [dir, libc::F_GETFD as u64, 0, 0, 0, 0])?;
        let keep = flags & !(libc::FD_CLOEXEC as u64);
        host::call(libc::SYS_fcntl, [dir, libc::F_SETFD as u64, keep, 0, 0, 0])?;
    }
    run(c, full, argv, envp)
}
