//! The system calls, one row each: number, name, kinds of the arguments, whether an interrupted
//! call is restarted (`again`) or fails (`once`), and the function that carries it out.
//!
//! The dispatcher, `strace` and the documentation come from it.

use super::call::Call;
use super::errno::{Errno, SysResult};
use super::missing::MISSING;
use super::strace::names::{self, Names};
use super::strace::structs::{self, Shape};
use super::{
    exec, fdcalls, files, frame, ioctl, ipc, memory, net, osf, process, signals, threads, time,
};

/// How an argument reads in a trace.
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    /// A signed number.
    Int,
    /// A number in hexadecimal.
    Hex,
    /// Mode bits, in octal.
    Oct,
    /// A descriptor or AT_FDCWD.
    Fd,
    /// A string in guest memory.
    Str,
    /// An address in guest memory.
    Ptr,
    /// A signal number.
    Sig,
    /// Flags of open.
    Open,
    /// Protection of memory.
    Prot,
    /// Flags of mmap.
    Map,
    /// Type and flags of a socket.
    Socket,
    /// What access asks for.
    Access,
    /// Flags of clone.
    Clone,
    /// An operation on a futex.
    Futex,
    /// A request of ioctl.
    Ioctl,
    /// The argument of fcntl's command.
    ByCommand,
    /// The argument of ioctl's request.
    ByRequest,
    /// An option of a socket, by its level.
    ByLevel,
    /// An argument that the call does not look at.
    Unused,
    /// One of these.
    Name(Names),
    /// Some of these.
    Flags(Names),
    /// Bytes that the call reads; the next argument is how many.
    Text,
    /// Bytes that the call stores; its result is how many.
    Data,
    /// A vector of strings.
    Strs,
    /// What the call reads.
    In(Shape),
    /// What the call stores.
    Out(Shape),
    /// What the call reads, and what of it it changes.
    Both(Shape, Shape),
}

/// Kinds that many calls have.
impl Arg {
    const AT: Arg = Arg::Flags(names::AT);
    const WAIT: Arg = Arg::Flags(names::WAIT);
    const WHENCE: Arg = Arg::Name(names::WHENCE);
    const HOW: Arg = Arg::Name(names::HOW);
    const CLOCK: Arg = Arg::Name(names::CLOCK);
    const FCNTL: Arg = Arg::Name(names::FCNTL);
    const FAMILY: Arg = Arg::Name(names::FAMILY);
    const ADVICE: Arg = Arg::Name(names::ADVICE);
    const RESOURCE: Arg = Arg::Name(names::RESOURCE);
    const WHO: Arg = Arg::Name(names::WHO);
    const TIMER: Arg = Arg::Name(names::TIMER);
    const EPOLL_OP: Arg = Arg::Name(names::EPOLL_OP);
    const LEVEL: Arg = Arg::Name(names::LEVEL);
    const SHUT: Arg = Arg::Name(names::SHUT);
    const GETSYSINFO: Arg = Arg::Name(names::GETSYSINFO);
    const SETSYSINFO: Arg = Arg::Name(names::SETSYSINFO);
    const MSG: Arg = Arg::Flags(names::MESSAGE);
    const RANDOM: Arg = Arg::Flags(names::RANDOM);
    const CLOEXEC: Arg = Arg::Flags(names::OPEN);
    const ABSOLUTE: Arg = Arg::Flags(names::ABSOLUTE);
    const REMAP: Arg = Arg::Flags(names::REMAP);
    const EVENT: Arg = Arg::In(Shape::One(&structs::EPOLL_EVENT));
    const EVENTS: Arg = Arg::Out(Shape::Returned(&structs::EPOLL_EVENT));
    const POLLS: Arg = Arg::Both(Shape::Array(&structs::POLLFD), Shape::Array(&structs::POLLED));
    const SET: Arg = Arg::Both(Shape::Descriptors, Shape::Descriptors);
    const MASK: Arg = Arg::In(Shape::Signals);
    const OLDMASK: Arg = Arg::Out(Shape::Signals);
    const ACTION: Arg = Arg::In(Shape::One(&structs::SIGACTION));
    const OLDACTION: Arg = Arg::Out(Shape::One(&structs::SIGACTION));
    const OSFACTION: Arg = Arg::In(Shape::One(&structs::SIGACTION_OSF));
    const OLDOSFACTION: Arg = Arg::Out(Shape::One(&structs::SIGACTION_OSF));
    const STACK: Arg = Arg::In(Shape::One(&structs::ALTSTACK));
    const OLDSTACK: Arg = Arg::Out(Shape::One(&structs::ALTSTACK));
    const TIME: Arg = Arg::In(Shape::One(&structs::TIMESPEC));
    const NOW: Arg = Arg::Out(Shape::One(&structs::TIMESPEC));
    const TIMES: Arg = Arg::In(Shape::Two(&structs::TIMESPEC));
    const TIMEVAL: Arg = Arg::In(Shape::One(&structs::TIMEVAL));
    const NOWVAL: Arg = Arg::Out(Shape::One(&structs::TIMEVAL));
    const TIMEVALS: Arg = Arg::In(Shape::Two(&structs::TIMEVAL));
    const TIMEVAL32: Arg = Arg::In(Shape::One(&structs::TIMEVAL32));
    const NOWVAL32: Arg = Arg::Out(Shape::One(&structs::TIMEVAL32));
    const TIMEVALS32: Arg = Arg::In(Shape::Two(&structs::TIMEVAL32));
    const ITIMER: Arg = Arg::In(Shape::One(&structs::ITIMERVAL));
    const OLDITIMER: Arg = Arg::Out(Shape::One(&structs::ITIMERVAL));
    const ITIMER32: Arg = Arg::In(Shape::One(&structs::ITIMERVAL32));
    const OLDITIMER32: Arg = Arg::Out(Shape::One(&structs::ITIMERVAL32));
    const TIMERSPEC: Arg = Arg::In(Shape::One(&structs::ITIMERSPEC));
    const OLDTIMERSPEC: Arg = Arg::Out(Shape::One(&structs::ITIMERSPEC));
    const TMS: Arg = Arg::Out(Shape::One(&structs::TMS));
    const RUSAGE: Arg = Arg::Out(Shape::One(&structs::RUSAGE));
    const RUSAGE32: Arg = Arg::Out(Shape::One(&structs::RUSAGE32));
    const RLIMIT: Arg = Arg::In(Shape::One(&structs::RLIMIT));
    const OLDRLIMIT: Arg = Arg::Out(Shape::One(&structs::RLIMIT));
    const STAT: Arg = Arg::Out(Shape::One(&structs::STAT));
    const STAT64: Arg = Arg::Out(Shape::One(&structs::STAT64));
    const STATX: Arg = Arg::Out(Shape::One(&structs::STATX));
    const STATFS: Arg = Arg::Out(Shape::One(&structs::STATFS));
    const STATFS64: Arg = Arg::Out(Shape::One(&structs::STATFS64));
    const UTSNAME: Arg = Arg::Out(Shape::One(&structs::UTSNAME));
    const SYSINFO: Arg = Arg::Out(Shape::One(&structs::SYSINFO));
    const ENTRIES: Arg = Arg::Out(Shape::Entries);
    const STATUS: Arg = Arg::Out(Shape::Status);
    const PIECES: Arg = Arg::In(Shape::Pieces);
    const FILLED: Arg = Arg::Out(Shape::Pieces);
    const MESSAGE: Arg = Arg::In(Shape::Message);
    const RECEIVED: Arg = Arg::Out(Shape::Message);
    const ADDRESS: Arg = Arg::In(Shape::Address);
    const PEER: Arg = Arg::Out(Shape::Address);
    const VALUE: Arg = Arg::In(Shape::Longwords(1));
    const WORD: Arg = Arg::Out(Shape::Longwords(1));
    const PAIR: Arg = Arg::Out(Shape::Longwords(2));
}

/// A row of the table.
#[derive(Clone, Copy)]
pub struct Syscall {
    /// Number in v0.
    pub number: u64,
    /// Name as the kernel's table has it.
    pub name: &'static str,
    /// Kinds of the arguments.
    pub args: &'static [Arg],
    /// Whether SA_RESTART applies.
    pub restarts: bool,
    pub(super) handler: fn(&mut Call<'_>) -> SysResult,
}

impl Syscall {
    /// Whether the program that calls it is gone when it succeeds.
    pub(super) fn replaces(&self) -> bool {
        self.name.starts_with("execve")
    }

    /// Whether the caller goes on behind the call in the same process: not those that end a thread,
    /// make one, or load all its registers.
    pub(super) fn goes_on(&self) -> bool {
        !matches!(
            self.name,
            "exit"
                | "exit_group"
                | "fork"
                | "vfork"
                | "clone"
                | "execve"
                | "execveat"
                | "sigreturn"
                | "rt_sigreturn"
        )
    }
}

impl std::fmt::Debug for Syscall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.name, self.number)
    }
}

/// What is answered on purpose with an error: dangerous in a guest, or obsolete.
fn refused(_: &mut Call<'_>) -> SysResult {
    Err(Errno::EPERM)
}

/// Known to be missing; programs have another way.
fn absent(_: &mut Call<'_>) -> SysResult {
    Err(Errno::ENOSYS)
}

/// Passes plain numbers through.
macro_rules! plain {
    ($nr:ident) => {
        |c| c.host(libc::$nr, &c.a)
    };
}

/// Passes numbers and buffers of known size through: `size` per argument, 0 for a number.
macro_rules! sized {
    ($nr:ident, $($size:literal),*) => {
        |c| {
            let mut args = c.a;
            for (i, size) in [$($size),*].into_iter().enumerate() {
                if size != 0 {
                    args[i] = c.arg(i, size)?;
                }
            }
            c.wait(libc::$nr, &args)
        }
    };
}

macro_rules! again {
    (again) => {
        true
    };
    (once) => {
        false
    };
}

macro_rules! for_each_syscall {
    ($consumer:ident) => {
        $consumer! {
            // Processes and threads.
            1 exit (Int) once process::exit;
            2 fork () again threads::fork;
            7 osf_wait4 (Int, STATUS, WAIT, RUSAGE32) again threads::osf_wait4;
            20 getxpid () once process::getxpid;
            24 getxuid () once process::getxuid;
            26 ptrace (Int, Int, Ptr, Ptr) once refused;
            39 setpgid (Int, Int) once plain!(SYS_setpgid);
            47 getxgid () once process::getxgid;
            59 execve (Str, Strs, Ptr) once exec::execve;
            63 getpgrp () once plain!(SYS_getpgrp);
            66 vfork () again threads::vfork;
            147 setsid () once plain!(SYS_setsid);
            233 getpgid (Int) once plain!(SYS_getpgid);
            234 getsid (Int) once plain!(SYS_getsid);
            312 clone (Clone, Ptr, Ptr, Ptr, Hex) again threads::clone;
            365 wait4 (Int, STATUS, WAIT, RUSAGE) again threads::wait4;
            378 gettid () once |c| Ok(c.linux.task.tid as u64);
            394 futex (Ptr, Futex, Int, Ptr, Ptr, Hex) again threads::futex;
            405 exit_group (Int) once process::exit_group;
            411 set_tid_address (Ptr) once threads::set_tid_address;
            438 waitid (Int, Int, Ptr, WAIT, RUSAGE) again threads::waitid;
            465 unshare (Hex) once refused;
            466 set_robust_list (Ptr, Int) once threads::set_robust_list;
            467 get_robust_list (Int, Ptr, Ptr) once threads::get_robust_list;
            513 execveat (Fd, Str, Strs, Ptr, AT) once exec::execveat;
            527 rseq (Ptr, Int, Hex, Hex) once absent;
            530 getegid () once plain!(SYS_getegid);
            531 geteuid () once plain!(SYS_geteuid);
            532 getppid () once plain!(SYS_getppid);
            544 pidfd_open (Int, Hex) once plain!(SYS_pidfd_open);
            545 clone3 (Ptr, Int) once absent;
            // Identity and limits.
            23 setuid (Int) once plain!(SYS_setuid);
            79 getgroups (Int, Ptr) once |c| {
                let at = c.opt(c.a[1], c.a[0].min(65536) * 4)?;
                c.host(libc::SYS_getgroups, &[c.a[0], at])
            };
            80 setgroups (Int, Ptr) once |c| {
                let at = c.opt(c.a[1], c.a[0].min(65536) * 4)?;
                c.host(libc::SYS_setgroups, &[c.a[0], at])
            };
            64 getpagesize () once |_| Ok(crate::mem::PAGE_SIZE);
            87 gethostname (Ptr, Int) once process::gethostname;
            89 getdtablesize () once process::getdtablesize;
            96 setpriority (Int, Int, Int) once plain!(SYS_setpriority);
            100 getpriority (Int, Int) once process::getpriority;
            126 setreuid (Int, Int) once plain!(SYS_setreuid);
            127 setregid (Int, Int) once plain!(SYS_setregid);
            132 setgid (Int) once plain!(SYS_setgid);
            144 getrlimit (RESOURCE, OLDRLIMIT) once process::getrlimit;
            145 setrlimit (RESOURCE, RLIMIT) once process::setrlimit;
            207 osf_utsname (Ptr) once process::osf_utsname;
            318 sysinfo (SYSINFO) once process::sysinfo;
            325 setfsuid (Int) once plain!(SYS_setfsuid);
            326 setfsgid (Int) once plain!(SYS_setfsgid);
            330 sched_setparam (Int, Ptr) once sized!(SYS_sched_setparam, 0, 4);
            331 sched_getparam (Int, Ptr) once sized!(SYS_sched_getparam, 0, 4);
            332 sched_setscheduler (Int, Int, Ptr) once sized!(SYS_sched_setscheduler, 0, 0, 4);
            333 sched_getscheduler (Int) once plain!(SYS_sched_getscheduler);
            334 sched_yield () once plain!(SYS_sched_yield);
            335 sched_get_priority_max (Int) once plain!(SYS_sched_get_priority_max);
            336 sched_get_priority_min (Int) once plain!(SYS_sched_get_priority_min);
            337 sched_rr_get_interval (Int, NOW) once sized!(SYS_sched_rr_get_interval, 0, 16);
            339 uname (UTSNAME) once process::uname;
            343 setresuid (Int, Int, Int) once plain!(SYS_setresuid);
            344 getresuid (WORD, WORD, WORD) once sized!(SYS_getresuid, 4, 4, 4);
            348 prctl (Int, Hex, Hex, Hex, Hex) once process::prctl;
            364 getrusage (WHO, RUSAGE) once sized!(SYS_getrusage, 0, 144);
            371 setresgid (Int, Int, Int) once plain!(SYS_setresgid);
            372 getresgid (WORD, WORD, WORD) once sized!(SYS_getresgid, 4, 4, 4);
            368 capget (Ptr, Ptr) once sized!(SYS_capget, 8, 24);
            369 capset (Ptr, Ptr) once sized!(SYS_capset, 8, 24);
            395 sched_setaffinity (Int, Int, Ptr) once |c| {
                let at = c.buf(c.a[2], c.a[1])?;
                c.host(libc::SYS_sched_setaffinity, &[c.a[0], c.a[1], at])
            };
            396 sched_getaffinity (Int, Int, Ptr) once process::sched_getaffinity;
            473 getcpu (WORD, WORD) once sized!(SYS_getcpu, 4, 4);
            496 prlimit64 (Int, RESOURCE, RLIMIT, OLDRLIMIT) once process::prlimit64;
            504 process_vm_readv (Int, Ptr, Int, Ptr, Int, Hex) once refused;
            505 process_vm_writev (Int, Ptr, Int, Ptr, Int, Hex) once refused;
            517 membarrier (Int, Hex, Int) once plain!(SYS_membarrier);
            // OSF/1's own.
            43 osf_set_program_attributes (Hex, Hex, Hex, Hex) once |_| Ok(0);
            83 osf_setitimer (TIMER, ITIMER32, OLDITIMER32) once osf::setitimer;
            86 osf_getitimer (TIMER, OLDITIMER32) once osf::getitimer;
            93 osf_select (Int, SET, SET, SET, TIMEVAL32) once osf::select;
            116 osf_gettimeofday (NOWVAL32, Ptr) once osf::gettimeofday;
            117 osf_getrusage (WHO, RUSAGE32) once osf::getrusage;
            138 osf_utimes (Str, TIMEVALS32) once osf::utimes;
            256 osf_getsysinfo (GETSYSINFO, Ptr, Int, Ptr, Ptr) once osf::getsysinfo;
            257 osf_setsysinfo (SETSYSINFO, Ptr, Int, Ptr, Ptr) once osf::setsysinfo;
            301 sethae (Hex) once |_| Ok(0);
            324 personality (Hex) once |_| Ok(0);
            // Memory.
            17 brk (Hex) once memory::brk;
            71 mmap (Ptr, Int, Prot, Map, Fd, Hex) once memory::mmap;
            73 munmap (Ptr, Int) once memory::munmap;
            74 mprotect (Ptr, Int, Prot) once memory::mprotect;
            75 madvise (Ptr, Int, ADVICE) once memory::madvise;
            217 msync (Ptr, Int, Hex) once memory::msync;
            314 mlock (Ptr, Int) once memory::mlock;
            315 munlock (Ptr, Int) once memory::munlock;
            316 mlockall (Hex) once |_| Ok(0);
            317 munlockall () once |_| Ok(0);
            341 mremap (Ptr, Int, Int, REMAP, Ptr) once memory::mremap;
            375 mincore (Ptr, Int, Ptr) once memory::mincore;
            516 userfaultfd (Hex) once absent;
            518 mlock2 (Ptr, Int, Hex) once memory::mlock;
            535 io_uring_setup (Int, Ptr) once absent;
            // Descriptors.
            3 read (Fd, Data, Int) again |c| fdcalls::transfer(c, libc::SYS_read);
            4 write (Fd, Text, Int) again |c| fdcalls::transfer(c, libc::SYS_write);
            6 close (Fd) once plain!(SYS_close);
            19 lseek (Fd, Int, WHENCE) once plain!(SYS_lseek);
            36 sync () once plain!(SYS_sync);
            41 dup (Fd) once plain!(SYS_dup);
            42 pipe () once fdcalls::pipe;
            54 ioctl (Fd, Ioctl, ByRequest) again ioctl::ioctl;
            90 dup2 (Fd, Fd) once fdcalls::dup2;
            92 fcntl (Fd, FCNTL, ByCommand) again fdcalls::fcntl;
            94 poll (POLLS, Int, Int) once fdcalls::poll;
            95 fsync (Fd) once plain!(SYS_fsync);
            120 readv (Fd, FILLED, Int) again |c| fdcalls::vector(c, libc::SYS_readv);
            121 writev (Fd, PIECES, Int) again |c| fdcalls::vector(c, libc::SYS_writev);
            130 ftruncate (Fd, Int) once plain!(SYS_ftruncate);
            131 flock (Fd, Int) again |c| c.wait(libc::SYS_flock, &[c.a[0], c.a[1]]);
            349 pread64 (Fd, Data, Int, Int) again |c| fdcalls::transfer(c, libc::SYS_pread64);
            350 pwrite64 (Fd, Text, Int, Int) again |c| fdcalls::transfer(c, libc::SYS_pwrite64);
            358 select (Int, SET, SET, SET, TIMEVAL) once fdcalls::select;
            370 sendfile (Fd, Fd, Ptr, Int) again fdcalls::sendfile;
            379 readahead (Fd, Int, Int) once plain!(SYS_readahead);
            407 epoll_create (Int) once plain!(SYS_epoll_create);
            408 epoll_ctl (Fd, EPOLL_OP, Fd, EVENT) once fdcalls::epoll_ctl;
            409 epoll_wait (Fd, EVENTS, Int, Int) once fdcalls::epoll_wait;
            413 fadvise64 (Fd, Int, Int, Int) once |c| {
                // Advice 6 and 7 of Alpha are NOREUSE and DONTNEED as on most ports.
                c.host(libc::SYS_fadvise64, &c.a[..4])
            };
            444 inotify_init () once |c| c.host(libc::SYS_inotify_init1, &[0]);
            445 inotify_add_watch (Fd, Str, Hex) once files::inotify_add_watch;
            446 inotify_rm_watch (Fd, Int) once plain!(SYS_inotify_rm_watch);
            447 fdatasync (Fd) once plain!(SYS_fdatasync);
            463 pselect6 (Int, SET, SET, SET, TIME, Ptr) once fdcalls::pselect6;
            464 ppoll (POLLS, Int, TIME, MASK, Int) once fdcalls::ppoll;
            468 splice (Fd, Ptr, Fd, Ptr, Int, Hex) again |c| fdcalls::splice(c, libc::SYS_splice);
            469 sync_file_range (Fd, Int, Int, Hex) once plain!(SYS_sync_file_range);
            470 tee (Fd, Fd, Int, Hex) again |c| c.wait(libc::SYS_tee, &c.a[..4]);
            471 vmsplice (Fd, Ptr, Int, Hex) again |c| fdcalls::vector(c, libc::SYS_vmsplice);
            474 epoll_pwait (Fd, EVENTS, Int, Int, MASK, Int) once fdcalls::epoll_pwait;
            476 signalfd (Fd, MASK, Int) once |c| fdcalls::signalfd(c, 0);
            478 eventfd (Int) once |c| c.host(libc::SYS_eventfd2, &[c.a[0], 0]);
            480 fallocate (Fd, Hex, Int, Int) once plain!(SYS_fallocate);
            484 signalfd4 (Fd, MASK, Int, CLOEXEC) once |c| fdcalls::signalfd(c, c.a[3]);
            485 eventfd2 (Int, CLOEXEC) once fdcalls::eventfd2;
            486 epoll_create1 (CLOEXEC) once
                |c| fdcalls::create_with_flags(c, libc::SYS_epoll_create1, None, c.a[0]);
            487 dup3 (Fd, Fd, CLOEXEC) once fdcalls::dup3;
            488 pipe2 (PAIR, CLOEXEC) once fdcalls::pipe2;
            489 inotify_init1 (CLOEXEC) once
                |c| fdcalls::create_with_flags(c, libc::SYS_inotify_init1, None, c.a[0]);
            490 preadv (Fd, FILLED, Int, Int) again |c| fdcalls::vector(c, libc::SYS_preadv);
            491 pwritev (Fd, PIECES, Int, Int) again |c| fdcalls::vector(c, libc::SYS_pwritev);
            500 syncfs (Fd) once plain!(SYS_syncfs);
            512 memfd_create (Str, Hex) once files::memfd_create;
            519 copy_file_range (Fd, Ptr, Fd, Ptr, Int, Hex) once
                |c| fdcalls::splice(c, libc::SYS_copy_file_range);
            520 preadv2 (Fd, FILLED, Int, Int, Int, Hex) again |c| fdcalls::vector(c, libc::SYS_preadv2);
            521 pwritev2 (Fd, PIECES, Int, Int, Int, Hex) again
                |c| fdcalls::vector(c, libc::SYS_pwritev2);
            546 close_range (Fd, Fd, Hex) once plain!(SYS_close_range);
            551 epoll_pwait2 (Fd, EVENTS, Int, TIME, MASK, Int) once fdcalls::epoll_pwait2;
            // Files.
            9 link (Str, Str) once |c| files::two_paths(c, libc::SYS_link);
            10 unlink (Str) once |c| files::path_first(c, libc::SYS_unlink);
            12 chdir (Str) once |c| files::path_first(c, libc::SYS_chdir);
            13 fchdir (Fd) once plain!(SYS_fchdir);
            14 mknod (Str, Oct, Hex) once |c| files::path_first(c, libc::SYS_mknod);
            15 chmod (Str, Oct) once |c| files::path_first(c, libc::SYS_chmod);
            16 chown (Str, Int, Int) once |c| files::path_first(c, libc::SYS_chown);
            33 access (Str, Access) once |c| files::path_first(c, libc::SYS_access);
            45 open (Str, Open, Oct) again files::open;
            57 symlink (Str, Str) once files::symlink;
            58 readlink (Str, Data, Int) once files::readlink;
            60 umask (Oct) once plain!(SYS_umask);
            61 chroot (Str) once |c| files::path_first(c, libc::SYS_chroot);
            67 stat (Str, STAT) once files::stat;
            68 lstat (Str, STAT) once files::lstat;
            91 fstat (Fd, STAT) once files::fstat;
            123 fchown (Fd, Int, Int) once plain!(SYS_fchown);
            124 fchmod (Fd, Oct) once plain!(SYS_fchmod);
            128 rename (Str, Str) once |c| files::two_paths(c, libc::SYS_rename);
            129 truncate (Str, Int) once files::truncate;
            136 mkdir (Str, Oct) once |c| files::path_first(c, libc::SYS_mkdir);
            137 rmdir (Str) once |c| files::path_first(c, libc::SYS_rmdir);
            208 lchown (Str, Int, Int) once |c| files::path_first(c, libc::SYS_lchown);
            224 osf_stat (Str, STAT) once files::stat;
            225 osf_lstat (Str, STAT) once files::lstat;
            226 osf_fstat (Fd, STAT) once files::fstat;
            328 statfs (Str, STATFS) once files::statfs;
            329 fstatfs (Fd, STATFS) once files::fstatfs;
            363 utimes (Str, TIMEVALS) once files::utimes;
            367 getcwd (Data, Int) once files::getcwd;
            377 getdents64 (Fd, ENTRIES, Int) once files::getdents64;
            382 setxattr (Str, Str, Ptr, Int, Hex) once
                |c| files::xattr(c, libc::SYS_setxattr, true);
            383 lsetxattr (Str, Str, Ptr, Int, Hex) once
                |c| files::xattr(c, libc::SYS_lsetxattr, true);
            384 fsetxattr (Fd, Str, Ptr, Int, Hex) once
                |c| files::xattr(c, libc::SYS_fsetxattr, false);
            385 getxattr (Str, Str, Ptr, Int) once |c| files::xattr(c, libc::SYS_getxattr, true);
            386 lgetxattr (Str, Str, Ptr, Int) once |c| files::xattr(c, libc::SYS_lgetxattr, true);
            387 fgetxattr (Fd, Str, Ptr, Int) once |c| files::xattr(c, libc::SYS_fgetxattr, false);
            388 listxattr (Str, Ptr, Int) once |c| files::list_xattr(c, libc::SYS_listxattr, true);
            389 llistxattr (Str, Ptr, Int) once
                |c| files::list_xattr(c, libc::SYS_llistxattr, true);
            390 flistxattr (Fd, Ptr, Int) once
                |c| files::list_xattr(c, libc::SYS_flistxattr, false);
            391 removexattr (Str, Str) once |c| files::xattr(c, libc::SYS_removexattr, true);
            392 lremovexattr (Str, Str) once |c| files::xattr(c, libc::SYS_lremovexattr, true);
            393 fremovexattr (Fd, Str) once |c| files::xattr(c, libc::SYS_fremovexattr, false);
            425 stat64 (Str, STAT64) once files::stat64;
            426 lstat64 (Str, STAT64) once files::lstat64;
            427 fstat64 (Fd, STAT64) once files::fstat64;
            450 openat (Fd, Str, Open, Oct) again files::openat;
            451 mkdirat (Fd, Str, Oct) once |c| files::path_second(c, libc::SYS_mkdirat);
            452 mknodat (Fd, Str, Oct, Hex) once |c| files::path_second(c, libc::SYS_mknodat);
            453 fchownat (Fd, Str, Int, Int, AT) once |c| files::path_second(c, libc::SYS_fchownat);
            454 futimesat (Fd, Str, TIMEVALS) once files::futimesat;
            455 fstatat64 (Fd, Str, STAT64, AT) once files::fstatat64;
            456 unlinkat (Fd, Str, AT) once |c| files::path_second(c, libc::SYS_unlinkat);
            457 renameat (Fd, Str, Fd, Str) once |c| files::two_paths_at(c, libc::SYS_renameat);
            458 linkat (Fd, Str, Fd, Str, AT) once |c| files::two_paths_at(c, libc::SYS_linkat);
            459 symlinkat (Str, Fd, Str) once files::symlinkat;
            460 readlinkat (Fd, Str, Data, Int) once files::readlinkat;
            461 fchmodat (Fd, Str, Oct) once |c| files::path_second(c, libc::SYS_fchmodat);
            462 faccessat (Fd, Str, Access) once |c| files::path_second(c, libc::SYS_faccessat);
            475 utimensat (Fd, Str, TIMES, AT) once files::utimensat;
            510 renameat2 (Fd, Str, Fd, Str, Hex) once
                |c| files::two_paths_at(c, libc::SYS_renameat2);
            522 statx (Fd, Str, AT, Hex, STATX) once files::statx;
            528 statfs64 (Str, Int, STATFS64) once files::statfs64;
            529 fstatfs64 (Fd, Int, STATFS64) once files::fstatfs64;
            547 openat2 (Fd, Str, Ptr, Int) again files::openat2;
            549 faccessat2 (Fd, Str, Access, AT) once
                |c| files::path_second(c, libc::SYS_faccessat2);
            // Signals.
            37 kill (Int, Sig) once signals::kill;
            48 osf_sigprocmask (HOW, Hex) once signals::osf_sigprocmask;
            52 sigpending (OLDMASK) once signals::sigpending;
            103 sigreturn (Ptr) once frame::sigreturn;
            111 sigsuspend (Hex) once signals::sigsuspend;
            156 sigaction (Sig, OSFACTION, OLDOSFACTION) once signals::sigaction;
            235 sigaltstack (STACK, OLDSTACK) once signals::sigaltstack;
            351 rt_sigreturn (Ptr) once frame::rt_sigreturn;
            352 rt_sigaction (Sig, ACTION, OLDACTION, Int, Ptr) once signals::rt_sigaction;
            353 rt_sigprocmask (HOW, MASK, OLDMASK, Int) once signals::rt_sigprocmask;
            354 rt_sigpending (OLDMASK, Int) once signals::sigpending;
            355 rt_sigtimedwait (MASK, Ptr, TIME, Int) once signals::rt_sigtimedwait;
            356 rt_sigqueueinfo (Int, Sig, Ptr) once signals::rt_sigqueueinfo;
            357 rt_sigsuspend (MASK, Int) once signals::rt_sigsuspend;
            381 tkill (Int, Sig) once signals::tkill;
            424 tgkill (Int, Int, Sig) once signals::tgkill;
            492 rt_tgsigqueueinfo (Int, Int, Sig, Ptr) once signals::rt_tgsigqueueinfo;
            412 restart_syscall () once |_| Err(Errno::EINTR);
            534 pidfd_send_signal (Fd, Sig, Ptr, Hex) once signals::pidfd_send_signal;
            // Time.
            323 times (TMS) once time::times;
            340 nanosleep (TIME, NOW) once time::nanosleep;
            359 gettimeofday (NOWVAL, Ptr) once time::gettimeofday;
            360 settimeofday (TIMEVAL, Ptr) once sized!(SYS_settimeofday, 16, 8);
            361 getitimer (TIMER, OLDITIMER) once sized!(SYS_getitimer, 0, 32);
            362 setitimer (TIMER, ITIMER, OLDITIMER) once sized!(SYS_setitimer, 0, 32, 32);
            366 adjtimex (Ptr) once sized!(SYS_adjtimex, 208);
            414 timer_create (CLOCK, Ptr, WORD) once time::timer_create;
            415 timer_settime (Int, ABSOLUTE, TIMERSPEC, OLDTIMERSPEC) once sized!(SYS_timer_settime, 0, 0, 32, 32);
            416 timer_gettime (Int, OLDTIMERSPEC) once sized!(SYS_timer_gettime, 0, 32);
            417 timer_getoverrun (Int) once plain!(SYS_timer_getoverrun);
            418 timer_delete (Int) once plain!(SYS_timer_delete);
            419 clock_settime (CLOCK, TIME) once sized!(SYS_clock_settime, 0, 16);
            420 clock_gettime (CLOCK, NOW) once sized!(SYS_clock_gettime, 0, 16);
            421 clock_getres (CLOCK, NOW) once sized!(SYS_clock_getres, 0, 16);
            422 clock_nanosleep (CLOCK, ABSOLUTE, TIME, NOW) once time::clock_nanosleep;
            481 timerfd_create (CLOCK, CLOEXEC) once
                |c| fdcalls::create_with_flags(c, libc::SYS_timerfd_create, Some(c.a[0]), c.a[1]);
            482 timerfd_settime (Fd, ABSOLUTE, TIMERSPEC, OLDTIMERSPEC) once sized!(SYS_timerfd_settime, 0, 0, 32, 32);
            483 timerfd_gettime (Fd, OLDTIMERSPEC) once sized!(SYS_timerfd_gettime, 0, 32);
            511 getrandom (Data, Int, RANDOM) once |c| {
                let len = c.a[1].min(0x7fff_ffff);
                c.wait(libc::SYS_getrandom, &[c.buf(c.a[0], len)?, len, c.a[2]])
            };
            // System V IPC.
            200 msgctl (Int, Hex, Ptr) once ipc::msgctl;
            201 msgget (Hex, Oct) once plain!(SYS_msgget);
            202 msgrcv (Int, Ptr, Int, Int, Oct) once |c| ipc::message(c, libc::SYS_msgrcv);
            203 msgsnd (Int, Ptr, Int, Oct) once |c| ipc::message(c, libc::SYS_msgsnd);
            204 semctl (Int, Int, Hex, Hex) once ipc::semctl;
            205 semget (Hex, Int, Oct) once plain!(SYS_semget);
            206 semop (Int, Ptr, Int) once |c| ipc::semop(c, 0);
            209 shmat (Int, Ptr, Oct) once ipc::shmat;
            210 shmctl (Int, Hex, Ptr) once ipc::shmctl;
            211 shmdt (Ptr) once ipc::shmdt;
            212 shmget (Hex, Int, Oct) once plain!(SYS_shmget);
            423 semtimedop (Int, Ptr, Int, TIME) once |c| ipc::semop(c, c.a[3]);
            // Sockets.
            97 socket (FAMILY, Socket, Int) once net::socket;
            98 connect (Fd, ADDRESS, Int) again |c| net::with_address(c, libc::SYS_connect);
            99 accept (Fd, PEER, WORD) again |c| net::fetch_address(c, libc::SYS_accept, 0);
            101 send (Fd, Text, Int, MSG) again net::send;
            102 recv (Fd, Data, Int, MSG) again net::recv;
            104 bind (Fd, ADDRESS, Int) once |c| net::with_address(c, libc::SYS_bind);
            105 setsockopt (Fd, LEVEL, ByLevel, VALUE, Int) once net::setsockopt;
            106 listen (Fd, Int) once plain!(SYS_listen);
            113 recvmsg (Fd, RECEIVED, MSG) again net::recvmsg;
            114 sendmsg (Fd, MESSAGE, MSG) again net::sendmsg;
            118 getsockopt (Fd, LEVEL, ByLevel, Ptr, WORD) once net::getsockopt;
            125 recvfrom (Fd, Data, Int, MSG, PEER, WORD) again net::recvfrom;
            133 sendto (Fd, Text, Int, MSG, ADDRESS, Int) again net::sendto;
            134 shutdown (Fd, SHUT) once plain!(SYS_shutdown);
            135 socketpair (FAMILY, Socket, Int, PAIR) once net::socketpair;
            141 getpeername (Fd, PEER, WORD) once |c| net::fetch_address(c, libc::SYS_getpeername, 0);
            150 getsockname (Fd, PEER, WORD) once |c| net::fetch_address(c, libc::SYS_getsockname, 0);
            479 recvmmsg (Fd, Ptr, Int, MSG, TIME) again net::recvmmsg;
            502 accept4 (Fd, PEER, WORD, Socket) again net::accept4;
            503 sendmmsg (Fd, Ptr, Int, MSG) again net::sendmmsg;
        }
    };
}

macro_rules! define_rows {
    ($($number:literal $name:ident ($($kind:ident),*) $mode:ident $handler:expr;)*) => {
        static ROWS: &[Syscall] = &[$(Syscall {
            number: $number,
            name: stringify!($name),
            args: &[$(Arg::$kind),*],
            restarts: again!($mode),
            handler: $handler,
        },)*];
    };
}
for_each_syscall!(define_rows);

/// One more than the highest number.
const LIMIT: usize = 564;

/// Position in `ROWS` plus one, by number.
static INDEX: [u16; LIMIT] = {
    let mut index = [0; LIMIT];
    let mut i = 0;
    while i < ROWS.len() {
        let at = ROWS[i].number as usize;
        assert!(index[at] == 0, "two rows with one number");
        index[at] = i as u16 + 1;
        i += 1;
    }
    index
};

/// The row of a number.
pub(super) fn row(number: u64) -> Option<&'static Syscall> {
    let index = *INDEX.get(usize::try_from(number).ok()?)?;
    ROWS.get(usize::from(index).checked_sub(1)?)
}

/// Name of a call, whether it has a row or not.
pub fn name_of(number: u64) -> Option<&'static str> {
    let missing = || {
        let at = MISSING.binary_search_by_key(&number, |entry| entry.0).ok()?;
        MISSING.get(at).map(|entry| entry.1)
    };
    row(number).map(|row| row.name).or_else(missing)
}

/// All calls that the kernel has and this table has not: number and name.
pub fn missing_calls() -> &'static [(u64, &'static str)] {
    MISSING
}

/// All implemented calls, in the order of the table.
pub fn known_calls() -> &'static [Syscall] {
    ROWS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_either_done_or_missing() {
        assert!(MISSING.is_sorted_by_key(|entry| entry.0));
        for (number, name) in MISSING {
            assert!(row(*number).is_none(), "{name} is done");
        }
        for done in known_calls() {
            assert_eq!(name_of(done.number), Some(done.name));
        }
        assert_eq!(name_of(5), Some("osf_old_open"));
        assert_eq!(name_of(9999), None);
    }
}
