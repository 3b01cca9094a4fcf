//! Alpha's error numbers (BSD's, not those of other Linux ports) and the results of system calls.

use std::fmt;

/// An error number as an Alpha program sees it, or one of the internal values above 511.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Errno(pub u16);

/// What a system call gives: v0 with a3 clear, or an error with a3 set.
pub type SysResult = Result<u64, Errno>;

macro_rules! errnos {
    ($($name:ident = $value:literal;)*) => {
        #[allow(missing_docs, reason = "each is the error of its name")]
        impl Errno {
            $(pub const $name: Errno = Errno($value);)*

            /// The Alpha number for the host's.
            pub fn from_host(host: i32) -> Errno {
                match host {
                    $(libc::$name => Errno::$name,)*
                    _ => Errno::EINVAL,
                }
            }

            /// Its name, as `strace` prints it.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Errno::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// The host's number.
            pub fn to_host(self) -> i32 {
                match self {
                    $(Errno::$name => libc::$name,)*
                    _ => libc::EINVAL,
                }
            }
        }
    };
}

errnos! {
    EPERM = 1;
    ENOENT = 2;
    ESRCH = 3;
    EINTR = 4;
    EIO = 5;
    ENXIO = 6;
    E2BIG = 7;
    ENOEXEC = 8;
    EBADF = 9;
    ECHILD = 10;
    EDEADLK = 11;
    ENOMEM = 12;
    EACCES = 13;
    EFAULT = 14;
    ENOTBLK = 15;
    EBUSY = 16;
    EEXIST = 17;
    EXDEV = 18;
    ENODEV = 19;
    ENOTDIR = 20;
    EISDIR = 21;
    EINVAL = 22;
    ENFILE = 23;
    EMFILE = 24;
    ENOTTY = 25;
    ETXTBSY = 26;
    EFBIG = 27;
    ENOSPC = 28;
    ESPIPE = 29;
    EROFS = 30;
    EMLINK = 31;
    EPIPE = 32;
    EDOM = 33;
    ERANGE = 34;
    EAGAIN = 35;
    EINPROGRESS = 36;
    EALREADY = 37;
    ENOTSOCK = 38;
    EDESTADDRREQ = 39;
    EMSGSIZE = 40;
    EPROTOTYPE = 41;
    ENOPROTOOPT = 42;
    EPROTONOSUPPORT = 43;
    ESOCKTNOSUPPORT = 44;
    EOPNOTSUPP = 45;
    EPFNOSUPPORT = 46;
    EAFNOSUPPORT = 47;
    EADDRINUSE = 48;
    EADDRNOTAVAIL = 49;
    ENETDOWN = 50;
    ENETUNREACH = 51;
    ENETRESET = 52;
    ECONNABORTED = 53;
    ECONNRESET = 54;
    ENOBUFS = 55;
    EISCONN = 56;
    ENOTCONN = 57;
    ESHUTDOWN = 58;
    ETOOMANYREFS = 59;
    ETIMEDOUT = 60;
    ECONNREFUSED = 61;
    ELOOP = 62;
    ENAMETOOLONG = 63;
    EHOSTDOWN = 64;
    EHOSTUNREACH = 65;
    ENOTEMPTY = 66;
    EUSERS = 68;
    EDQUOT = 69;
    ESTALE = 70;
    EREMOTE = 71;
    ENOLCK = 77;
    ENOSYS = 78;
    ENOMSG = 80;
    EIDRM = 81;
    ENOSR = 82;
    ETIME = 83;
    EBADMSG = 84;
    EPROTO = 85;
    ENODATA = 86;
    ENOSTR = 87;
    ECHRNG = 88;
    EL2NSYNC = 89;
    EL3HLT = 90;
    EL3RST = 91;
    ENOPKG = 92;
    ELNRNG = 93;
    EUNATCH = 94;
    ENOCSI = 95;
    EL2HLT = 96;
    EBADE = 97;
    EBADR = 98;
    EXFULL = 99;
    ENOANO = 100;
    EBADRQC = 101;
    EBADSLT = 102;
    EBFONT = 104;
    ENONET = 105;
    ENOLINK = 106;
    EADV = 107;
    ESRMNT = 108;
    ECOMM = 109;
    EMULTIHOP = 110;
    EDOTDOT = 111;
    EOVERFLOW = 112;
    ENOTUNIQ = 113;
    EBADFD = 114;
    EREMCHG = 115;
    EILSEQ = 116;
    EUCLEAN = 117;
    ENOTNAM = 118;
    ENAVAIL = 119;
    EISNAM = 120;
    EREMOTEIO = 121;
    ELIBACC = 122;
    ELIBBAD = 123;
    ELIBSCN = 124;
    ELIBMAX = 125;
    ELIBEXEC = 126;
    ERESTART = 127;
    ESTRPIPE = 128;
    ENOMEDIUM = 129;
    EMEDIUMTYPE = 130;
    ECANCELED = 131;
    ENOKEY = 132;
    EKEYEXPIRED = 133;
    EKEYREVOKED = 134;
    EKEYREJECTED = 135;
    EOWNERDEAD = 136;
    ENOTRECOVERABLE = 137;
    ERFKILL = 138;
    EHWPOISON = 139;
}

impl Errno {
    /// Internal: the host call was interrupted, or not begun because a signal was pending. Becomes
    /// EINTR or a restart.
    pub const INTERRUPTED: Errno = Errno(512);
    /// Internal: leave v0, a3 and the rest as the handler of the call set them.
    pub const NO_RESULT: Errno = Errno(513);
}

impl From<rustix::io::Errno> for Errno {
    fn from(host: rustix::io::Errno) -> Self {
        Errno::from_host(host.raw_os_error())
    }
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        Errno::from_host(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<crate::mem::MemFault> for Errno {
    fn from(_: crate::mem::MemFault) -> Self {
        Errno::EFAULT
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_the_way_to_the_host_and_back() {
        for number in 1..140 {
            let errno = Errno(number);
            if errno.name().is_some() {
                assert_eq!(Errno::from_host(errno.to_host()), errno);
            }
        }
        assert_eq!(Errno::from_host(libc::EAGAIN), Errno(35));
        assert_eq!(Errno::from_host(libc::ENOSYS), Errno(78));
        assert_eq!(Errno::from_host(libc::ENOTSUP), Errno(45));
    }
}
