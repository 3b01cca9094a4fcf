//! What the threads of a guest process share, and the calls about identity and limits.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use super::Linux;
use super::abi::{self, Layout};
use super::call::Call;
use super::errno::{Errno, SysResult};
use super::host;
use super::private::Private;
use super::signals::Action;
use super::watch::SignalWatcher;
use crate::cpu::Vcpu;
use crate::engine::Outcome;
use crate::isa::CpuModel;
use crate::mem::AddressSpace;

/// Runs a guest thread to its end, on the calling host thread: gets an engine, calls
/// [`run`](crate::engine::run). Handed in, so that a personality does not name an engine.
pub type Runner = Arc<dyn Fn(Vcpu, Linux) + Send + Sync>;

/// Takes a line of `--strace`.
pub type Tracer = Arc<dyn Fn(&str) + Send + Sync>;

/// See [`LinuxOptions::before_exec`](super::LinuxOptions::before_exec).
pub type BeforeExec = Arc<dyn Fn() + Send + Sync>;

/// The process as a whole.
pub struct Process {
    /// Guest memory.
    pub mem: Arc<AddressSpace>,
    pub(super) model: CpuModel,
    pub(super) sysroot: Option<PathBuf>,
    /// Command that runs an Alpha program on this emulator: `axplab run ...`.
    pub(super) exec_prefix: Vec<OsString>,
    pub(super) before_exec: Option<BeforeExec>,
    pub(super) private: Private,
    pub(super) strace: Option<Tracer>,
    pub(super) runner: Option<Runner>,
    /// See `is_sharing`.
    sharing: bool,
    /// Host path of the dynamic linker, if the program has one.
    pub interpreter: Option<PathBuf>,
    /// Host path of the executable.
    pub(super) exe: PathBuf,
    /// The guest's name for it.
    pub(super) exe_name: Vec<u8>,
    pub(super) cmdline: Vec<u8>,
    pub(super) environ: Vec<u8>,
    pub(super) auxv: Vec<u8>,
    /// Shared with processes that share the memory.
    pub(super) brk: Arc<Mutex<Brk>>,
    pub(super) actions: Mutex<[Action; 65]>,
    /// The guest can see the registers at a fault: it handles SIGSEGV or SIGBUS.
    pub(super) precise: AtomicBool,
    /// Whether some signal has a handler, which can look at registers ([`Vcpu::observed`]).
    ///
    /// [`Vcpu::observed`]: crate::cpu::Vcpu::observed
    pub(super) observed: AtomicBool,
    pub(super) threads: Mutex<Threads>,
    pub(super) thread_ended: Condvar,
    /// Whether `threads` says how the process ends: asked after every guest event, without its lock.
    pub(super) end_decided: AtomicBool,
    /// Calls without an implementation: number and how often.
    unknown: Mutex<BTreeMap<u64, u64>>,
    /// Attached shared-memory segments: address and size.
    pub(super) attached: Mutex<BTreeMap<u64, u64>>,
    /// Limits that the host is not told of: soft and hard.
    limits: Mutex<BTreeMap<u64, [u64; 2]>>,
    /// Bits of prctl PR_SET_UNALIGN and UACPROC, in the kernel's thread-info order.
    pub(super) unaligned: AtomicU64,
    /// Asked about each signal before it is delivered.
    pub(super) watcher: OnceLock<SignalWatcher>,
}

/// The heap.
#[derive(Clone, Copy, Debug)]
pub struct Brk {
    /// Lowest break.
    pub start: u64,
    /// Current break.
    pub now: u64,
}

/// Who is there, and whether all must go.
#[derive(Debug, Default)]
pub struct Threads {
    /// Thread ids.
    pub alive: Vec<i32>,
    /// How the process ends, once that is decided.
    pub end: Option<Outcome>,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("exe", &self.exe).finish_non_exhaustive()
    }
}

/// A lock whose holder cannot have left nonsense behind: all updates are single stores.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits on a condition with the same tolerance as [`lock`].
pub(super) fn lock_again<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// What the constructor needs.
pub(super) struct ProcessParts {
    pub mem: Arc<AddressSpace>,
    pub model: CpuModel,
    pub sysroot: Option<PathBuf>,
    pub exec_prefix: Vec<OsString>,
    pub before_exec: Option<BeforeExec>,
    pub private: Private,
    pub strace: Option<Tracer>,
    pub runner: Option<Runner>,
    pub interpreter: Option<PathBuf>,
    pub exe: PathBuf,
    pub cmdline: Vec<u8>,
    pub environ: Vec<u8>,
    pub auxv: Vec<u8>,
    pub brk: u64,
}

impl Process {
    pub(super) fn new(parts: ProcessParts) -> Self {
        let mut actions = [Action::default(); 65];
        for signal in 1..64 {
            if host::is_ignored(abi::signal_to_host(signal)) {
                actions[signal as usize].handler = super::signals::SIG_IGN;
            }
        }
        let exe_name = match &parts.sysroot {
            Some(root) => match parts.exe.strip_prefix(root) {
                Ok(inside) => Path::new("/").join(inside),
                Err(_) => parts.exe.clone(),
            },
            None => parts.exe.clone(),
        };
        Process {
            mem: parts.mem,
            model: parts.model,
            sysroot: parts.sysroot,
            exec_prefix: parts.exec_prefix,
            before_exec: parts.before_exec,
            private: parts.private,
            strace: parts.strace,
            runner: parts.runner,
            sharing: false,
            interpreter: parts.interpreter,
            exe: parts.exe,
            exe_name: exe_name.into_os_string().into_vec(),
            cmdline: parts.cmdline,
            environ: parts.environ,
            auxv: parts.auxv,
            brk: Arc::new(Mutex::new(Brk { start: parts.brk, now: parts.brk })),
            actions: Mutex::new(actions),
            precise: AtomicBool::new(false),
            observed: AtomicBool::new(false),
            threads: Mutex::default(),
            thread_ended: Condvar::new(),
            end_decided: AtomicBool::new(false),
            unknown: Mutex::default(),
            attached: Mutex::default(),
            limits: Mutex::default(),
            unaligned: AtomicU64::new(0),
            watcher: OnceLock::new(),
        }
    }

    /// The host's path for a path of the guest: absolute ones are looked for in the sysroot first,
    /// `/proc/self/exe` is the guest's executable.
    pub fn host_path(&self, guest: &[u8]) -> CString {
        let plain = |bytes: &[u8]| CString::new(bytes).unwrap_or_default();
        if guest.first() != Some(&b'/') {
            return plain(guest);
        }
        if super::procfs::own(guest).is_some_and(|rest| rest == b"exe") {
            return plain(self.exe.as_os_str().as_bytes());
        }
        if let Some(root) = &self.sysroot {
            let mut inside = root.as_os_str().as_bytes().to_vec();
            inside.extend_from_slice(guest);
            let inside = plain(&inside);
            let flags = libc::AT_SYMLINK_NOFOLLOW as u64;
            let args = [libc::AT_FDCWD as u64, inside.as_ptr() as u64, 0, flags, 0, 0];
            if host::call(libc::SYS_faccessat2, args).is_ok() {
                return inside;
            }
        }
        plain(guest)
    }

    /// The same for a path from the directory `dir`, where the program's own `exe` is found by
    /// whatever name.
    pub(super) fn host_path_at(&self, dir: u64, guest: &[u8]) -> CString {
        let path = self.host_path(guest);
        if super::procfs::is_own_exe(dir, &path) {
            return CString::new(self.exe.as_os_str().as_bytes()).unwrap_or_default();
        }
        path
    }

    /// The soft value of a limit that is kept here, if the guest has set it (the host's number).
    pub(super) fn remembered_limit(&self, resource: u64) -> Option<u64> {
        lock(&self.limits).get(&resource).map(|pair| pair[0])
    }

    /// Counts a call that has no implementation.
    pub(super) fn count_unknown(&self, number: u64) {
        *lock(&self.unknown).entry(number).or_default() += 1;
    }

    /// The process of a child that shares memory and nothing else.
    pub(super) fn sharing_child(&self, tid: i32) -> Process {
        Process {
            mem: self.mem.clone(),
            model: self.model,
            sysroot: self.sysroot.clone(),
            exec_prefix: self.exec_prefix.clone(),
            // It is another process, in the same memory.
            before_exec: None,
            private: self.private.clone(),
            strace: self.strace.clone(),
            runner: self.runner.clone(),
            interpreter: self.interpreter.clone(),
            exe: self.exe.clone(),
            exe_name: self.exe_name.clone(),
            cmdline: self.cmdline.clone(),
            environ: self.environ.clone(),
            auxv: self.auxv.clone(),
            brk: self.brk.clone(),
            actions: Mutex::new(*lock(&self.actions)),
            precise: AtomicBool::new(self.precise.load(Ordering::Acquire)),
            observed: AtomicBool::new(self.observed.load(Ordering::Acquire)),
            threads: Mutex::new(Threads { alive: vec![tid], end: None }),
            thread_ended: Condvar::new(),
            end_decided: AtomicBool::new(false),
            unknown: Mutex::default(),
            attached: Mutex::new(lock(&self.attached).clone()),
            limits: Mutex::new(lock(&self.limits).clone()),
            unaligned: AtomicU64::new(self.unaligned_bits()),
            watcher: OnceLock::new(),
            sharing: true,
        }
    }

    /// Whether this process shares its parent's memory until it executes a program or ends (vfork): what
    /// it allocates stays behind in its parent, so an engine should be small, and start no thread.
    pub fn is_sharing(&self) -> bool {
        self.sharing
    }

    /// Forgets the counts: a forked child starts its own.
    pub(super) fn forget_unknown(&self) {
        lock(&self.unknown).clear();
    }

    /// Calls that were answered with ENOSYS because nobody wrote them: name and count.
    pub fn unknown_calls(&self) -> Vec<(String, u64)> {
        let name = |&nr: &u64| match super::table::name_of(nr) {
            Some(name) => name.to_owned(),
            None => format!("#{nr}"),
        };
        lock(&self.unknown).iter().map(|(nr, n)| (name(nr), *n)).collect()
    }

    /// Decides how the process ends and wakes every other thread.
    pub fn end(&self, outcome: Outcome) {
        let mut threads = lock(&self.threads);
        threads.end.get_or_insert(outcome);
        // Before the others are woken: one that misses it here is woken by its signal and asks again.
        self.end_decided.store(true, Ordering::Release);
        let me = host::gettid();
        for &tid in threads.alive.iter().filter(|&&tid| tid != me) {
            host::poke(tid);
        }
        self.thread_ended.notify_all();
    }

    /// How the process ends, if that is decided.
    pub(super) fn ending(&self) -> Option<Outcome> {
        if !self.end_decided.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.threads).end
    }

    pub(super) fn unaligned_bits(&self) -> u64 {
        self.unaligned.load(Ordering::Relaxed)
    }
}

/// Exit of one thread; of the process, if it is the last.
pub fn exit(c: &mut Call<'_>) -> SysResult {
    c.linux.end_thread(c.vcpu, c.a[0] as i32 & 0xff);
    Err(Errno::NO_RESULT)
}

/// Exit of all threads.
pub fn exit_group(c: &mut Call<'_>) -> SysResult {
    let outcome = Outcome::Exited(c.a[0] as i32 & 0xff);
    c.linux.process.end(outcome);
    c.linux.task.stop = Some(outcome);
    Err(Errno::NO_RESULT)
}

fn two(c: &mut Call<'_>, first: i64, second: i64) -> SysResult {
    let other = c.host(second, &[])?;
    c.second(other);
    c.host(first, &[])
}

/// getpid and getppid in one.
pub fn getxpid(c: &mut Call<'_>) -> SysResult {
    two(c, libc::SYS_getpid, libc::SYS_getppid)
}

/// getuid and geteuid in one.
pub fn getxuid(c: &mut Call<'_>) -> SysResult {
    two(c, libc::SYS_getuid, libc::SYS_geteuid)
}

/// getgid and getegid in one.
pub fn getxgid(c: &mut Call<'_>) -> SysResult {
    two(c, libc::SYS_getgid, libc::SYS_getegid)
}

/// The five or six names of the system, as the guest sees it.
fn uts() -> [Vec<u8>; 6] {
    let host = rustix::system::uname();
    let own = |name: &std::ffi::CStr| name.to_bytes().to_vec();
    [
        own(host.sysname()),
        own(host.nodename()),
        own(host.release()),
        own(host.version()),
        b"alpha".to_vec(),
        own(host.domainname()),
    ]
}

/// uname.
pub fn uname(c: &mut Call<'_>) -> SysResult {
    let mut out = Layout::<390>::new();
    for (i, name) in uts().iter().enumerate() {
        out.bytes(65 * i, &name[..name.len().min(64)]);
    }
    c.write(c.a[0], &out.0)?;
    Ok(0)
}

/// uname of OSF/1: five names of 32 bytes.
pub fn osf_utsname(c: &mut Call<'_>) -> SysResult {
    let mut out = Layout::<160>::new();
    for (i, name) in uts().iter().take(5).enumerate() {
        out.bytes(32 * i, &name[..name.len().min(31)]);
    }
    c.write(c.a[0], &out.0)?;
    Ok(0)
}

/// gethostname.
pub fn gethostname(c: &mut Call<'_>) -> SysResult {
    let mut name = uts()[1].clone();
    name.push(0);
    name.truncate(c.a[1].min(65) as usize);
    c.write(c.a[0], &name)?;
    Ok(0)
}

/// Limits by Alpha's numbers: NOFILE 6, AS 7, NPROC 8, MEMLOCK 9; the others agree.
fn resource_to_host(resource: u64) -> u64 {
    match resource {
        6 => u64::from(libc::RLIMIT_NOFILE),
        7 => u64::from(libc::RLIMIT_AS),
        8 => u64::from(libc::RLIMIT_NPROC),
        9 => u64::from(libc::RLIMIT_MEMLOCK),
        other => other,
    }
}

/// RLIM_INFINITY of Alpha's getrlimit and setrlimit; prlimit64 has all ones, as everywhere.
const INFINITY: u64 = i64::MAX as u64;

/// Limits that would bound the emulator's memory as well as the guest's: kept here. `memory` applies
/// those of the address space and of data; the stack has its size from the start.
fn bounds_the_emulator(resource: u64) -> bool {
    [libc::RLIMIT_AS, libc::RLIMIT_DATA, libc::RLIMIT_STACK].map(u64::from).contains(&resource)
}

fn limits(c: &Call<'_>, pid: u64, resource: u64, new: u64, old: u64, infinity: u64) -> SysResult {
    let limit_to_host = |value| if value >= infinity { u64::MAX } else { value };
    let resource = resource_to_host(resource);
    let mut set = None;
    if new != 0 {
        set = Some([c.read_u64(new)?, c.read_u64(new + 8)?].map(limit_to_host));
    }
    let mut got = [0u64; 2];
    let apply = set.as_ref().filter(|_| !bounds_the_emulator(resource));
    let set_at = apply.map_or(0, |s| s.as_ptr() as u64);
    c.host(libc::SYS_prlimit64, &[pid, resource, set_at, got.as_mut_ptr() as u64])?;
    if bounds_the_emulator(resource) {
        let mut limits = lock(&c.linux.process.limits);
        got = limits.get(&resource).copied().unwrap_or(got);
        if let Some([soft, hard]) = set {
            if soft > hard {
                return Err(Errno::EINVAL);
            }
            limits.insert(resource, [soft, hard]);
        }
    }
    if old != 0 {
        c.write_u64(old, got[0].min(infinity))?;
        c.write_u64(old + 8, got[1].min(infinity))?;
    }
    Ok(0)
}

/// getrlimit.
pub fn getrlimit(c: &mut Call<'_>) -> SysResult {
    limits(c, 0, c.a[0], 0, c.a[1], INFINITY)
}

/// setrlimit.
pub fn setrlimit(c: &mut Call<'_>) -> SysResult {
    limits(c, 0, c.a[0], c.a[1], 0, INFINITY)
}

/// prlimit64.
pub fn prlimit64(c: &mut Call<'_>) -> SysResult {
    limits(c, c.a[0], c.a[1], c.a[2], c.a[3], u64::MAX)
}

/// sysinfo: the layout is the host's.
pub fn sysinfo(c: &mut Call<'_>) -> SysResult {
    c.host(libc::SYS_sysinfo, &[c.buf(c.a[0], 112)?])
}

/// prctl: what concerns this thread and is harmless goes to the host.
pub fn prctl(c: &mut Call<'_>) -> SysResult {
    const PR_GET_UNALIGN: i32 = 5;
    const PR_SET_UNALIGN: i32 = 6;
    let [option, x, ..] = c.a;
    match option as i32 {
        // prctl counts NOPRINT 1, SIGBUS 2, NOFIX 4.
        PR_SET_UNALIGN => {
            let bits = x & 1 | (x & 2) << 1 | (x & 4) >> 1;
            c.linux.process.unaligned.store(bits, Ordering::Relaxed);
            Ok(0)
        }
        PR_GET_UNALIGN => {
            let bits = c.linux.process.unaligned_bits();
            c.write_u32(x, (bits & 1 | (bits & 2) << 1 | (bits & 4) >> 1) as u32)?;
            Ok(0)
        }
        libc::PR_SET_PDEATHSIG => {
            c.host(libc::SYS_prctl, &[option, abi::signal_to_host(x as i32) as u64])
        }
        libc::PR_GET_PDEATHSIG => {
            let mut signal = 0i32;
            c.host(libc::SYS_prctl, &[option, &raw mut signal as u64])?;
            c.write_u32(x, abi::signal_from_host(signal) as u32)?;
            Ok(0)
        }
        libc::PR_SET_NAME | libc::PR_GET_NAME => c.host(libc::SYS_prctl, &[option, c.buf(x, 16)?]),
        libc::PR_GET_DUMPABLE
        | libc::PR_SET_DUMPABLE
        | libc::PR_GET_KEEPCAPS
        | libc::PR_SET_KEEPCAPS
        | libc::PR_SET_NO_NEW_PRIVS
        | libc::PR_GET_NO_NEW_PRIVS
        | libc::PR_SET_TIMERSLACK
        | libc::PR_GET_TIMERSLACK
        | libc::PR_CAPBSET_READ
        | libc::PR_SET_CHILD_SUBREAPER => c.host(libc::SYS_prctl, &c.a[..5]),
        libc::PR_SET_MM => Err(Errno::EPERM),
        _ => Err(Errno::EINVAL),
    }
}

/// getpriority gives the nice value itself, which may be negative without being an error.
pub fn getpriority(c: &mut Call<'_>) -> SysResult {
    host::getpriority(c.a[0], c.a[1])
}

/// getdtablesize.
pub fn getdtablesize(c: &mut Call<'_>) -> SysResult {
    let mut got = [0u64; 2];
    let nofile = u64::from(libc::RLIMIT_NOFILE);
    c.host(libc::SYS_prlimit64, &[0, nofile, 0, got.as_mut_ptr() as u64])?;
    Ok(got[0].min(INFINITY))
}

/// sched_getaffinity: the set is bits in quadwords on both sides.
pub fn sched_getaffinity(c: &mut Call<'_>) -> SysResult {
    c.host(libc::SYS_sched_getaffinity, &[c.a[0], c.a[1], c.buf(c.a[2], c.a[1])?])
}
