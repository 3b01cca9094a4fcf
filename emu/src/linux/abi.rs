//! Numbers and layouts of Linux on Alpha where they differ from the host's: signals, open and map
//! flags, structures. Pure translations, used by the files of calls.
//!
//! Sources: the kernel's `arch/alpha/include/uapi/asm` headers.

use super::errno::Errno;

/// Bytes of a siginfo, the same on both sides.
pub const SIGINFO_SIZE: usize = 128;

/// Signal numbers of Alpha.
pub mod sig {
    #![allow(missing_docs, reason = "each is the signal of its name")]
    pub const ILL: i32 = 4;
    pub const TRAP: i32 = 5;
    pub const FPE: i32 = 8;
    pub const KILL: i32 = 9;
    pub const BUS: i32 = 10;
    pub const SEGV: i32 = 11;
    pub const URG: i32 = 16;
    pub const STOP: i32 = 17;
    pub const TSTP: i32 = 18;
    pub const CONT: i32 = 19;
    pub const CHLD: i32 = 20;
    pub const TTIN: i32 = 21;
    pub const TTOU: i32 = 22;
    pub const WINCH: i32 = 28;
}

/// Host number of each Alpha signal, index 0 unused; EMT (7) has none.
const SIGNAL_TO_HOST: [i32; 32] = [
    0,
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSTKFLT,
    libc::SIGFPE,
    libc::SIGKILL,
    libc::SIGBUS,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGURG,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGCONT,
    libc::SIGCHLD,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGIO,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGWINCH,
    libc::SIGPWR,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

const SIGNAL_NAMES: [&str; 32] = [
    "0", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "EMT", "FPE", "KILL", "BUS", "SEGV", "SYS",
    "PIPE", "ALRM", "TERM", "URG", "STOP", "TSTP", "CONT", "CHLD", "TTIN", "TTOU", "IO", "XCPU",
    "XFSZ", "VTALRM", "PROF", "WINCH", "INFO", "USR1", "USR2",
];

/// Name of an Alpha signal.
pub fn signal_name(signal: i32) -> String {
    match SIGNAL_NAMES.get(signal as usize) {
        Some(name) => format!("SIG{name}"),
        None => format!("SIGRT{}", signal - 32),
    }
}

/// The host's number of an Alpha signal. SIGEMT travels as SIGSTKFLT, which nothing raises.
pub fn signal_to_host(signal: i32) -> i32 {
    SIGNAL_TO_HOST.get(signal as usize).copied().unwrap_or(signal)
}

/// The Alpha number of a host signal.
pub fn signal_from_host(signal: i32) -> i32 {
    match SIGNAL_TO_HOST.iter().position(|&host| host == signal) {
        Some(guest) => guest as i32,
        None => signal,
    }
}

fn map_mask(mask: u64, map: fn(i32) -> i32) -> u64 {
    let mut out = mask & !0x7fff_ffff;
    for signal in 1..32 {
        if mask & 1 << (signal - 1) != 0 {
            out |= 1 << (map(signal) - 1);
        }
    }
    out
}

/// A signal set in the host's numbering.
pub fn mask_to_host(mask: u64) -> u64 {
    map_mask(mask, signal_to_host)
}

/// A signal set of the host in Alpha's numbering.
pub fn mask_from_host(mask: u64) -> u64 {
    map_mask(mask, signal_from_host)
}

/// A wait status with the signal number of Alpha in it.
pub fn status_from_host(status: i32) -> i32 {
    let low = status & 0x7f;
    if low == 0x7f && status & 0xff00 != 0 && status != 0xffff {
        let stop = status >> 8 & 0xff;
        return status & !0xff00 | signal_from_host(stop) << 8;
    }
    if low != 0 && low != 0x7f {
        return status & !0x7f | signal_from_host(low);
    }
    status
}

/// A siginfo of the host as the guest sees it.
pub fn siginfo_from_host(mut info: [u8; SIGINFO_SIZE]) -> [u8; SIGINFO_SIZE] {
    let word = |info: &[u8], at: usize| {
        i32::from_le_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]])
    };
    let signal = word(&info, 0);
    let guest = signal_from_host(signal);
    info[..4].copy_from_slice(&guest.to_le_bytes());
    let errno = word(&info, 4);
    if errno > 0 {
        let errno = i32::from(Errno::from_host(errno).0);
        info[4..8].copy_from_slice(&errno.to_le_bytes());
    }
    // CLD_KILLED 2, CLD_DUMPED 3, CLD_TRAPPED 4, CLD_STOPPED 5, CLD_CONTINUED 6: a signal number.
    if signal == libc::SIGCHLD && (2..=6).contains(&word(&info, 8)) {
        let status = signal_from_host(word(&info, 24));
        info[24..28].copy_from_slice(&status.to_le_bytes());
    }
    info
}

/// Pairs of single bits (or groups) that correspond, guest first.
type Pairs = &'static [(u64, i32)];

fn bits_to_host(value: u64, pairs: Pairs) -> u64 {
    pairs.iter().filter(|p| value & p.0 == p.0).fold(0, |out, p| out | p.1 as u32 as u64)
}

fn bits_from_host(value: u64, pairs: Pairs) -> u64 {
    pairs
        .iter()
        .filter(|p| value & p.1 as u32 as u64 == p.1 as u32 as u64)
        .fold(0, |out, p| out | p.0)
}

/// O_LARGEFILE of the kernel, which every open of a 64-bit system implies.
const O_LARGEFILE: u64 = 0o400000;

const OPEN: Pairs = &[
    (0o1000, libc::O_CREAT),
    (0o2000, libc::O_TRUNC),
    (0o4000, libc::O_EXCL),
    (0o10000, libc::O_NOCTTY),
    (0o4, libc::O_NONBLOCK),
    (0o10, libc::O_APPEND),
    (0o20000, libc::O_ASYNC),
    (0o40000, libc::O_DSYNC),
    (0o20040000, libc::O_SYNC),
    (0o100000, libc::O_DIRECTORY),
    (0o200000, libc::O_NOFOLLOW),
    (0o2000000, libc::O_DIRECT),
    (0o4000000, libc::O_NOATIME),
    (0o10000000, libc::O_CLOEXEC),
    (0o40000000, libc::O_PATH),
    (0o100100000, libc::O_TMPFILE),
];

/// Open flags for the host.
pub fn open_flags_to_host(flags: u64) -> u64 {
    flags & 3 | bits_to_host(flags, OPEN)
}

/// Open flags as F_GETFL gives them; a 64-bit kernel shows O_LARGEFILE.
pub fn open_flags_from_host(flags: u64) -> u64 {
    let large = if flags & 0o100000 != 0 { O_LARGEFILE } else { 0 };
    flags & 3 | bits_from_host(flags, OPEN) | large
}

/// The two flags that pipe2, dup3, eventfd, accept4 and the like take.
pub fn fd_flags_to_host(flags: u64) -> Result<u64, Errno> {
    const KNOWN: Pairs = &[(0o10000000, libc::O_CLOEXEC), (0o4, libc::O_NONBLOCK)];
    if flags & !(0o10000000 | 0o4) != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(bits_to_host(flags, KNOWN))
}

/// Socket type with SOCK_CLOEXEC and SOCK_NONBLOCK.
pub fn socket_type_to_host(kind: u64) -> u64 {
    const FLAGS: Pairs = &[(0o10000000, libc::SOCK_CLOEXEC), (0x4000_0000, libc::SOCK_NONBLOCK)];
    kind & 0xf | bits_to_host(kind, FLAGS)
}

/// Map flags of mmap.
pub mod map {
    #![allow(missing_docs, reason = "each is the flag of its name")]
    pub const SHARED: u64 = 1;
    pub const PRIVATE: u64 = 2;
    pub const SHARED_VALIDATE: u64 = 3;
    pub const TYPE: u64 = 0xf;
    pub const ANONYMOUS: u64 = 0x10;
    pub const FIXED: u64 = 0x100;
    pub const FIXED_NOREPLACE: u64 = 0x20_0000;
}

/// `stat64` (136 bytes) from the host's stat.
pub fn stat64(st: &libc::stat) -> [u8; 136] {
    let mut out = Layout::new();
    out.u64(0, st.st_dev);
    out.u64(8, st.st_ino);
    out.u64(16, st.st_rdev);
    out.u64(24, st.st_size as u64);
    out.u64(32, st.st_blocks as u64);
    out.u32(40, st.st_mode);
    out.u32(44, st.st_uid);
    out.u32(48, st.st_gid);
    out.u32(52, st.st_blksize as u32);
    out.u32(56, st.st_nlink as u32);
    out.u64(64, st.st_atime as u64);
    out.u64(72, st.st_atime_nsec as u64);
    out.u64(80, st.st_mtime as u64);
    out.u64(88, st.st_mtime_nsec as u64);
    out.u64(96, st.st_ctime as u64);
    out.u64(104, st.st_ctime_nsec as u64);
    out.0
}

/// The old `stat` (80 bytes), whose device and inode numbers are longwords.
pub fn stat_old(st: &libc::stat) -> [u8; 80] {
    let mut out = Layout::new();
    out.u32(0, st.st_dev as u32);
    out.u32(4, st.st_ino as u32);
    out.u32(8, st.st_mode);
    out.u32(12, st.st_nlink as u32);
    out.u32(16, st.st_uid);
    out.u32(20, st.st_gid);
    out.u32(24, st.st_rdev as u32);
    out.u64(32, st.st_size as u64);
    out.u64(40, st.st_atime as u64);
    out.u64(48, st.st_mtime as u64);
    out.u64(56, st.st_ctime as u64);
    out.u32(64, st.st_blksize as u32);
    out.u32(68, st.st_blocks as u32);
    out.0
}

/// `statfs` (64 bytes of longwords).
pub fn statfs(st: &libc::statfs) -> [u8; 64] {
    let mut out = Layout::new();
    let clamp = |value: u64| value.min(u64::from(u32::MAX)) as u32;
    out.u32(0, st.f_type as u32);
    out.u32(4, st.f_bsize as u32);
    out.u32(8, clamp(st.f_blocks));
    out.u32(12, clamp(st.f_bfree));
    out.u32(16, clamp(st.f_bavail));
    out.u32(20, clamp(st.f_files));
    out.u32(24, clamp(st.f_ffree));
    out.u64(28, super::host::fsid(st));
    out.u32(36, st.f_namelen as u32);
    out.u32(40, st.f_frsize as u32);
    out.u32(44, super::host::statfs_flags(st) as u32);
    out.0
}

/// `statfs64` (88 bytes).
pub fn statfs64(st: &libc::statfs) -> [u8; 88] {
    let mut out = Layout::new();
    out.u32(0, st.f_type as u32);
    out.u32(4, st.f_bsize as u32);
    out.u64(8, st.f_blocks);
    out.u64(16, st.f_bfree);
    out.u64(24, st.f_bavail);
    out.u64(32, st.f_files);
    out.u64(40, st.f_ffree);
    out.u64(48, super::host::fsid(st));
    out.u32(56, st.f_namelen as u32);
    out.u32(60, st.f_frsize as u32);
    out.u32(64, super::host::statfs_flags(st) as u32);
    out.0
}

/// A structure of the guest being filled in, at fixed offsets.
pub struct Layout<const N: usize>(pub [u8; N]);

impl<const N: usize> Layout<N> {
    /// All zeros.
    #[allow(clippy::new_without_default, reason = "zeros are no default value of a structure")]
    pub fn new() -> Self {
        Layout([0; N])
    }

    /// Sets a longword.
    pub fn u32(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// Sets a quadword.
    pub fn u64(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Reads a longword.
    pub fn get_u32(&self, at: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.0[at..at + 4]);
        u32::from_le_bytes(bytes)
    }

    /// Reads a quadword.
    pub fn get_u64(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[at..at + 8]);
        u64::from_le_bytes(bytes)
    }

    /// Sets bytes.
    pub fn bytes(&mut self, at: usize, value: &[u8]) {
        self.0[at..at + value.len()].copy_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_map_one_to_one() {
        let mut seen = std::collections::BTreeSet::new();
        for signal in 1..=64 {
            let host = signal_to_host(signal);
            assert!(seen.insert(host), "{signal}");
            assert_eq!(signal_from_host(host), signal);
        }
        assert_eq!(mask_to_host(1 << (sig::CHLD - 1)), 1 << (libc::SIGCHLD - 1));
        assert_eq!(mask_from_host(u64::MAX), u64::MAX);
    }

    #[test]
    fn wait_statuses_name_guest_signals() {
        assert_eq!(status_from_host(libc::SIGUSR1), 0x1e);
        assert_eq!(status_from_host(libc::SIGSTOP << 8 | 0x7f), 0x117f);
        assert_eq!(status_from_host(libc::SIGBUS | 0x80), 0x8a);
        assert_eq!(status_from_host(3 << 8), 3 << 8);
        assert_eq!(status_from_host(0xffff), 0xffff);
    }

    #[test]
    fn open_flags_survive_the_way_to_the_host_and_back() {
        for flags in [0, 0o1001, 0o2002, 0o10000000, 0o20040000, 0o40000, 0o100100000 | 2] {
            assert_eq!(
                open_flags_from_host(open_flags_to_host(flags)) & !0o40000,
                flags & !0o40000
            );
        }
        assert_eq!(open_flags_to_host(0o400000), 0);
    }
}
