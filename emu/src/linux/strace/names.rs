//! Names of the numbers that arguments and structures hold, in Alpha's values.

/// Values with their names.
pub type Names = &'static [(u64, &'static str)];

pub const OPEN: Names = &[
    (0o100100000, "O_TMPFILE"),
    (0o20040000, "O_SYNC"),
    (0o1000, "O_CREAT"),
    (0o2000, "O_TRUNC"),
    (0o4000, "O_EXCL"),
    (0o10000, "O_NOCTTY"),
    (0o4, "O_NONBLOCK"),
    (0o10, "O_APPEND"),
    (0o20000, "O_ASYNC"),
    (0o40000, "O_DSYNC"),
    (0o100000, "O_DIRECTORY"),
    (0o200000, "O_NOFOLLOW"),
    (0o400000, "O_LARGEFILE"),
    (0o2000000, "O_DIRECT"),
    (0o4000000, "O_NOATIME"),
    (0o10000000, "O_CLOEXEC"),
    (0o40000000, "O_PATH"),
];

pub const PROT: Names = &[(1, "PROT_READ"), (2, "PROT_WRITE"), (4, "PROT_EXEC")];

pub const MAP: Names = &[
    (0x200000, "MAP_FIXED_NOREPLACE"),
    (0x10, "MAP_ANONYMOUS"),
    (0x100, "MAP_FIXED"),
    (0x1000, "MAP_GROWSDOWN"),
    (0x2000, "MAP_DENYWRITE"),
    (0x4000, "MAP_EXECUTABLE"),
    (0x8000, "MAP_LOCKED"),
    (0x10000, "MAP_NORESERVE"),
    (0x20000, "MAP_POPULATE"),
    (0x40000, "MAP_NONBLOCK"),
    (0x80000, "MAP_STACK"),
    (0x100000, "MAP_HUGETLB"),
];

pub const AT: Names = &[
    (0x100, "AT_SYMLINK_NOFOLLOW"),
    (0x200, "AT_REMOVEDIR"),
    (0x400, "AT_SYMLINK_FOLLOW"),
    (0x800, "AT_NO_AUTOMOUNT"),
    (0x1000, "AT_EMPTY_PATH"),
];

pub const ACCESS: Names = &[(4, "R_OK"), (2, "W_OK"), (1, "X_OK")];

pub const WAIT: Names = &[(1, "WNOHANG"), (2, "WUNTRACED"), (4, "WEXITED"), (8, "WCONTINUED")];

pub const CLONE: Names = &[
    (0x100, "CLONE_VM"),
    (0x200, "CLONE_FS"),
    (0x400, "CLONE_FILES"),
    (0x800, "CLONE_SIGHAND"),
    (0x4000, "CLONE_VFORK"),
    (0x10000, "CLONE_THREAD"),
    (0x40000, "CLONE_SYSVSEM"),
    (0x80000, "CLONE_SETTLS"),
    (0x100000, "CLONE_PARENT_SETTID"),
    (0x200000, "CLONE_CHILD_CLEARTID"),
    (0x1000000, "CLONE_CHILD_SETTID"),
];

pub const WHENCE: Names = &[(0, "SEEK_SET"), (1, "SEEK_CUR"), (2, "SEEK_END")];

pub const HOW: Names = &[(1, "SIG_BLOCK"), (2, "SIG_UNBLOCK"), (3, "SIG_SETMASK")];

pub const CLOCK: Names =
    &[(0, "CLOCK_REALTIME"), (1, "CLOCK_MONOTONIC"), (2, "CLOCK_PROCESS_CPUTIME_ID")];

pub const FCNTL: Names = &[
    (0, "F_DUPFD"),
    (1, "F_GETFD"),
    (2, "F_SETFD"),
    (3, "F_GETFL"),
    (4, "F_SETFL"),
    (5, "F_SETOWN"),
    (6, "F_GETOWN"),
    (7, "F_GETLK"),
    (8, "F_SETLK"),
    (9, "F_SETLKW"),
    (1030, "F_DUPFD_CLOEXEC"),
];

pub const FUTEX: Names = &[
    (0, "FUTEX_WAIT"),
    (1, "FUTEX_WAKE"),
    (3, "FUTEX_REQUEUE"),
    (4, "FUTEX_CMP_REQUEUE"),
    (5, "FUTEX_WAKE_OP"),
    (6, "FUTEX_LOCK_PI"),
    (7, "FUTEX_UNLOCK_PI"),
    (9, "FUTEX_WAIT_BITSET"),
    (10, "FUTEX_WAKE_BITSET"),
];

pub const IOCTL: Names = &[
    (0x402c_7413, "TCGETS"),
    (0x802c_7414, "TCSETS"),
    (0x802c_7415, "TCSETSW"),
    (0x802c_7416, "TCSETSF"),
    (0x4008_7468, "TIOCGWINSZ"),
    (0x8008_7467, "TIOCSWINSZ"),
    (0x4004_7477, "TIOCGPGRP"),
    (0x8004_7476, "TIOCSPGRP"),
    (0x4004_667f, "FIONREAD"),
    (0x8004_667e, "FIONBIO"),
    (0x2000_6601, "FIOCLEX"),
    (0x2000_6602, "FIONCLEX"),
];

pub const FAMILY: Names = &[(1, "AF_UNIX"), (2, "AF_INET"), (10, "AF_INET6"), (16, "AF_NETLINK")];

pub const ADVICE: Names =
    &[(0, "MADV_NORMAL"), (1, "MADV_RANDOM"), (2, "MADV_SEQUENTIAL"), (6, "MADV_DONTNEED")];

pub const RESOURCE: Names = &[
    (0, "RLIMIT_CPU"),
    (1, "RLIMIT_FSIZE"),
    (2, "RLIMIT_DATA"),
    (3, "RLIMIT_STACK"),
    (4, "RLIMIT_CORE"),
    (5, "RLIMIT_RSS"),
    (6, "RLIMIT_NOFILE"),
    (7, "RLIMIT_AS"),
    (8, "RLIMIT_NPROC"),
    (9, "RLIMIT_MEMLOCK"),
    (10, "RLIMIT_LOCKS"),
    (11, "RLIMIT_SIGPENDING"),
    (12, "RLIMIT_MSGQUEUE"),
    (13, "RLIMIT_NICE"),
    (14, "RLIMIT_RTPRIO"),
    (15, "RLIMIT_RTTIME"),
];

pub const WHO: Names = &[
    (0, "RUSAGE_SELF"),
    (u64::MAX, "RUSAGE_CHILDREN"),
    (0xffff_ffff, "RUSAGE_CHILDREN"),
    (1, "RUSAGE_THREAD"),
];

pub const TIMER: Names = &[(0, "ITIMER_REAL"), (1, "ITIMER_VIRTUAL"), (2, "ITIMER_PROF")];

pub const EPOLL_OP: Names = &[(1, "EPOLL_CTL_ADD"), (2, "EPOLL_CTL_DEL"), (3, "EPOLL_CTL_MOD")];

/// Events of poll; those of epoll have the same bits and some more.
pub const POLL: Names = &[
    (0x1, "POLLIN"),
    (0x2, "POLLPRI"),
    (0x4, "POLLOUT"),
    (0x8, "POLLERR"),
    (0x10, "POLLHUP"),
    (0x20, "POLLNVAL"),
    (0x40, "POLLRDNORM"),
    (0x80, "POLLRDBAND"),
    (0x100, "POLLWRNORM"),
    (0x200, "POLLWRBAND"),
    (0x2000, "POLLRDHUP"),
];

pub const EPOLL: Names = &[
    (0x1, "EPOLLIN"),
    (0x2, "EPOLLPRI"),
    (0x4, "EPOLLOUT"),
    (0x8, "EPOLLERR"),
    (0x10, "EPOLLHUP"),
    (0x40, "EPOLLRDNORM"),
    (0x80, "EPOLLRDBAND"),
    (0x100, "EPOLLWRNORM"),
    (0x200, "EPOLLWRBAND"),
    (0x2000, "EPOLLRDHUP"),
    (0x1000_0000, "EPOLLEXCLUSIVE"),
    (0x2000_0000, "EPOLLWAKEUP"),
    (0x4000_0000, "EPOLLONESHOT"),
    (0x8000_0000, "EPOLLET"),
];

pub const SIGACTION: Names = &[
    (0x1, "SA_ONSTACK"),
    (0x2, "SA_RESTART"),
    (0x4, "SA_NOCLDSTOP"),
    (0x8, "SA_NODEFER"),
    (0x10, "SA_RESETHAND"),
    (0x20, "SA_NOCLDWAIT"),
    (0x40, "SA_SIGINFO"),
];

pub const ALTSTACK: Names = &[(1, "SS_ONSTACK"), (2, "SS_DISABLE")];

pub const SOCKET: Names = &[
    (1, "SOCK_STREAM"),
    (2, "SOCK_DGRAM"),
    (3, "SOCK_RAW"),
    (4, "SOCK_RDM"),
    (5, "SOCK_SEQPACKET"),
];

pub const SOCKET_FLAGS: Names = &[(0o10000000, "SOCK_CLOEXEC"), (0x4000_0000, "SOCK_NONBLOCK")];

pub const LEVEL: Names =
    &[(0xffff, "SOL_SOCKET"), (0, "SOL_IP"), (6, "SOL_TCP"), (17, "SOL_UDP"), (41, "SOL_IPV6")];

/// Options of the level SOL_SOCKET.
pub const OPTION: Names = &[
    (0x1, "SO_DEBUG"),
    (0x4, "SO_REUSEADDR"),
    (0x8, "SO_KEEPALIVE"),
    (0x10, "SO_DONTROUTE"),
    (0x20, "SO_BROADCAST"),
    (0x80, "SO_LINGER"),
    (0x100, "SO_OOBINLINE"),
    (0x200, "SO_REUSEPORT"),
    (0x1001, "SO_SNDBUF"),
    (0x1002, "SO_RCVBUF"),
    (0x1007, "SO_ERROR"),
    (0x1008, "SO_TYPE"),
    (0x1010, "SO_RCVLOWAT"),
    (0x1011, "SO_SNDLOWAT"),
    (0x1012, "SO_RCVTIMEO"),
    (0x1013, "SO_SNDTIMEO"),
    (0x1014, "SO_ACCEPTCONN"),
    (0x1028, "SO_PROTOCOL"),
    (0x1029, "SO_DOMAIN"),
];

pub const MESSAGE: Names = &[
    (0x1, "MSG_OOB"),
    (0x2, "MSG_PEEK"),
    (0x4, "MSG_DONTROUTE"),
    (0x8, "MSG_CTRUNC"),
    (0x20, "MSG_TRUNC"),
    (0x40, "MSG_DONTWAIT"),
    (0x80, "MSG_EOR"),
    (0x100, "MSG_WAITALL"),
    (0x4000, "MSG_NOSIGNAL"),
    (0x8000, "MSG_MORE"),
    (0x4000_0000, "MSG_CMSG_CLOEXEC"),
];

pub const SHUT: Names = &[(0, "SHUT_RD"), (1, "SHUT_WR"), (2, "SHUT_RDWR")];

pub const RANDOM: Names = &[(1, "GRND_NONBLOCK"), (2, "GRND_RANDOM"), (4, "GRND_INSECURE")];

pub const CLOEXEC: Names = &[(1, "FD_CLOEXEC")];

pub const LOCK: Names = &[(1, "F_RDLCK"), (2, "F_WRLCK"), (8, "F_UNLCK")];

pub const ABSOLUTE: Names = &[(1, "TIMER_ABSTIME")];

pub const REMAP: Names = &[(1, "MREMAP_MAYMOVE"), (2, "MREMAP_FIXED"), (4, "MREMAP_DONTUNMAP")];

/// Types of files, as the mode has them.
pub const FILE: Names = &[
    (0o010000, "S_IFIFO"),
    (0o020000, "S_IFCHR"),
    (0o040000, "S_IFDIR"),
    (0o060000, "S_IFBLK"),
    (0o100000, "S_IFREG"),
    (0o120000, "S_IFLNK"),
    (0o140000, "S_IFSOCK"),
];

/// Operations of osf_getsysinfo.
pub const GETSYSINFO: Names = &[
    (8, "GSI_UACPROC"),
    (45, "GSI_IEEE_FP_CONTROL"),
    (60, "GSI_PROC_TYPE"),
    (101, "GSI_GET_HWRPB"),
];

/// Operations of osf_setsysinfo.
pub const SETSYSINFO: Names =
    &[(1, "SSI_NVPAIRS"), (14, "SSI_IEEE_FP_CONTROL"), (1001, "SSI_IEEE_RAISE_EXCEPTION")];

/// The name of a value, or the value.
pub fn one(value: u64, names: Names) -> String {
    match names.iter().find(|(known, _)| *known == value) {
        Some((_, name)) => (*name).to_owned(),
        None if value < 256 => value.to_string(),
        None => format!("{value:#x}"),
    }
}

/// The names of bits, and what is left as a number; `zero` for none.
pub fn bits(mut value: u64, names: Names, zero: &str) -> String {
    let mut out = Vec::new();
    for (bit, name) in names {
        if value & bit == *bit {
            out.push((*name).to_owned());
            value &= !bit;
        }
    }
    if value != 0 {
        out.push(format!("{value:#x}"));
    }
    if out.is_empty() { zero.to_owned() } else { out.join("|") }
}
