//! Structures of the guest as text: what lies where, and how it reads.

use super::names::{self, Names, bits, one};
use super::{WORDS, address, buffer, signals, string};
use crate::linux::abi::signal_name;
use crate::mem::AddressSpace;

/// A structure of Linux/Alpha, or what of it is worth reading.
#[derive(Debug)]
pub struct Layout {
    size: u64,
    /// Name, offset, kind.
    fields: &'static [(&'static str, u64, Kind)],
    /// There is more than the fields say.
    more: bool,
}

/// How a field reads.
#[derive(Clone, Copy, Debug)]
enum Kind {
    U32,
    I32,
    U64,
    I64,
    /// Quadword in hexadecimal.
    Hex,
    /// Word of flags.
    Flags16(Names),
    /// Longword of flags.
    Flags32(Names),
    /// Quadword of flags.
    Flags64(Names),
    /// Word with a name.
    Name16(Names),
    /// Type and permissions of a file, a longword or (statx) a word.
    Mode,
    Mode16,
    /// What a signal does: a quadword.
    Handler,
    /// A signal mask.
    Mask,
    /// A limit of a resource.
    Limit,
    /// A string of at most this many bytes.
    Text(u64),
    /// A structure inside this one.
    Of(&'static Layout),
}

/// What an argument points to.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// One structure.
    One(&'static Layout),
    /// Two of them.
    Two(&'static Layout),
    /// As many as the next argument says.
    Array(&'static Layout),
    /// As many as the call returns.
    Returned(&'static Layout),
    /// Pieces of memory, as readv and writev take them; the next argument says how many.
    Pieces,
    /// What sendmsg and recvmsg take.
    Message,
    /// The address of a socket.
    Address,
    /// How a child has ended.
    Status,
    /// Entries of a directory, as many bytes as the call returns.
    Entries,
    /// Descriptors below the first argument.
    Descriptors,
    /// Signals.
    Signals,
    /// So many longwords.
    Longwords(u64),
}

use Kind::*;

const fn layout(size: u64, fields: &'static [(&'static str, u64, Kind)]) -> Layout {
    Layout { size, fields, more: false }
}

const fn part(size: u64, fields: &'static [(&'static str, u64, Kind)]) -> Layout {
    Layout { size, fields, more: true }
}

pub static TIMESPEC: Layout = layout(16, &[("tv_sec", 0, I64), ("tv_nsec", 8, I64)]);
pub static TIMEVAL: Layout = layout(16, &[("tv_sec", 0, I64), ("tv_usec", 8, I64)]);
pub static TIMEVAL32: Layout = layout(8, &[("tv_sec", 0, I32), ("tv_usec", 4, I32)]);
pub static ITIMERVAL: Layout =
    layout(32, &[("it_interval", 0, Of(&TIMEVAL)), ("it_value", 16, Of(&TIMEVAL))]);
pub static ITIMERVAL32: Layout =
    layout(16, &[("it_interval", 0, Of(&TIMEVAL32)), ("it_value", 8, Of(&TIMEVAL32))]);
pub static ITIMERSPEC: Layout =
    layout(32, &[("it_interval", 0, Of(&TIMESPEC)), ("it_value", 16, Of(&TIMESPEC))]);
pub static TMS: Layout = layout(
    32,
    &[
        ("tms_utime", 0, I64),
        ("tms_stime", 8, I64),
        ("tms_cutime", 16, I64),
        ("tms_cstime", 24, I64),
    ],
);
pub static RUSAGE: Layout = part(
    144,
    &[("ru_utime", 0, Of(&TIMEVAL)), ("ru_stime", 16, Of(&TIMEVAL)), ("ru_maxrss", 32, I64)],
);
pub static RUSAGE32: Layout = part(
    128,
    &[("ru_utime", 0, Of(&TIMEVAL32)), ("ru_stime", 8, Of(&TIMEVAL32)), ("ru_maxrss", 16, I64)],
);
pub static RLIMIT: Layout = layout(16, &[("rlim_cur", 0, Limit), ("rlim_max", 8, Limit)]);
pub static STAT64: Layout = part(
    136,
    &[
        ("st_ino", 8, U64),
        ("st_mode", 40, Mode),
        ("st_nlink", 56, U32),
        ("st_uid", 44, U32),
        ("st_gid", 48, U32),
        ("st_size", 24, I64),
        ("st_mtime", 80, I64),
    ],
);
pub static STAT: Layout = part(
    80,
    &[
        ("st_ino", 4, U32),
        ("st_mode", 8, Mode),
        ("st_nlink", 12, U32),
        ("st_uid", 16, U32),
        ("st_gid", 20, U32),
        ("st_size", 32, I64),
        ("st_mtime", 48, I64),
    ],
);
pub static STATX: Layout = part(
    256,
    &[
        ("stx_ino", 32, U64),
        ("stx_mode", 28, Mode16),
        ("stx_nlink", 16, U32),
        ("stx_uid", 20, U32),
        ("stx_gid", 24, U32),
        ("stx_size", 40, U64),
        ("stx_mtime", 112, I64),
    ],
);
pub static STATFS: Layout = part(
    64,
    &[("f_bsize", 4, U32), ("f_blocks", 8, U32), ("f_bfree", 12, U32), ("f_namelen", 36, U32)],
);
pub static STATFS64: Layout = part(
    88,
    &[("f_bsize", 4, U32), ("f_blocks", 8, U64), ("f_bfree", 16, U64), ("f_namelen", 56, U32)],
);
pub static SIGACTION: Layout = layout(
    24,
    &[
        ("sa_handler", 0, Handler),
        ("sa_mask", 16, Mask),
        ("sa_flags", 8, Flags64(names::SIGACTION)),
    ],
);
pub static SIGACTION_OSF: Layout = layout(
    20,
    &[
        ("sa_handler", 0, Handler),
        ("sa_mask", 8, Mask),
        ("sa_flags", 16, Flags32(names::SIGACTION)),
    ],
);
pub static ALTSTACK: Layout = layout(
    24,
    &[("ss_sp", 0, Hex), ("ss_flags", 8, Flags32(names::ALTSTACK)), ("ss_size", 16, U64)],
);
pub static POLLFD: Layout = layout(8, &[("fd", 0, I32), ("events", 4, Flags16(names::POLL))]);
pub static POLLED: Layout = layout(8, &[("fd", 0, I32), ("revents", 6, Flags16(names::POLL))]);
pub static EPOLL_EVENT: Layout =
    layout(16, &[("events", 0, Flags32(names::EPOLL)), ("data", 8, Hex)]);
pub static UTSNAME: Layout = part(
    390,
    &[
        ("sysname", 0, Text(65)),
        ("nodename", 65, Text(65)),
        ("release", 130, Text(65)),
        ("machine", 260, Text(65)),
    ],
);
pub static FLOCK: Layout = layout(
    32,
    &[
        ("l_type", 0, Name16(names::LOCK)),
        ("l_whence", 2, Name16(names::WHENCE)),
        ("l_start", 8, I64),
        ("l_len", 16, I64),
    ],
);
pub static WINSIZE: Layout = part(8, &[("ws_row", 0, Name16(&[])), ("ws_col", 2, Name16(&[]))]);
pub static SYSINFO: Layout = part(
    112,
    &[("uptime", 0, I64), ("totalram", 32, U64), ("freeram", 40, U64), ("mem_unit", 104, U32)],
);

/// A field's bytes as a number.
fn number(bytes: &[u8], at: u64, size: usize) -> u64 {
    let at = at as usize;
    bytes[at..at + size].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

impl Layout {
    /// The structure in these bytes, which are `size`.
    fn text(&self, bytes: &[u8]) -> String {
        let mut out: Vec<String> = self
            .fields
            .iter()
            .map(|(name, at, kind)| format!("{name}={}", kind.text(bytes, *at)))
            .collect();
        if self.more {
            out.push("...".to_owned());
        }
        format!("{{{}}}", out.join(", "))
    }

    fn read(&self, mem: &AddressSpace, va: u64) -> Option<String> {
        let mut bytes = vec![0; self.size as usize];
        mem.read_bytes(va, &mut bytes).ok()?;
        Some(self.text(&bytes))
    }
}

impl Kind {
    fn text(self, bytes: &[u8], at: u64) -> String {
        let mode =
            |value: u64| format!("{}|0{:o}", one(value & 0o170000, names::FILE), value & 0o7777);
        match self {
            U32 => number(bytes, at, 4).to_string(),
            I32 => (number(bytes, at, 4) as i32).to_string(),
            U64 => number(bytes, at, 8).to_string(),
            I64 => (number(bytes, at, 8) as i64).to_string(),
            Hex => format!("{:#x}", number(bytes, at, 8)),
            Flags16(names) => bits(number(bytes, at, 2), names, "0"),
            Flags32(names) => bits(number(bytes, at, 4), names, "0"),
            Flags64(names) => bits(number(bytes, at, 8), names, "0"),
            Name16(names) => one(number(bytes, at, 2), names),
            Mode => mode(number(bytes, at, 4)),
            Mode16 => mode(number(bytes, at, 2)),
            Handler => match number(bytes, at, 8) {
                0 => "SIG_DFL".to_owned(),
                1 => "SIG_IGN".to_owned(),
                address => format!("{address:#x}"),
            },
            Mask => mask(number(bytes, at, 8)),
            Limit => match number(bytes, at, 8) {
                0x7fff_ffff_ffff_ffff | u64::MAX => "RLIM_INFINITY".to_owned(),
                value => value.to_string(),
            },
            Text(len) => {
                let bytes = &bytes[at as usize..(at + len) as usize];
                let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
                super::quoted(&bytes[..end], true)
            }
            Of(layout) => layout.text(&bytes[at as usize..(at + layout.size) as usize]),
        }
    }
}

/// Signals of a mask; of one that is almost full those that are not in it.
pub fn mask(mask: u64) -> String {
    let (sign, mask) = if mask.count_ones() > 32 { ("~", !mask) } else { ("", mask) };
    let names = (1..=64).filter(|s| mask >> (s - 1) & 1 != 0).map(signal_name);
    format!("{sign}[{}]", names.collect::<Vec<_>>().join(" "))
}

/// What is known about a call besides the address.
#[derive(Clone, Copy)]
pub struct Known {
    /// The first argument.
    pub first: u64,
    /// The argument after the pointer.
    pub next: u64,
    /// The result, if the call has returned one.
    pub result: Option<u64>,
}

impl Shape {
    /// What lies at `va`; its address, if that cannot be read.
    pub fn text(self, mem: &AddressSpace, va: u64, known: Known) -> String {
        self.read(mem, va, known).unwrap_or_else(|| format!("{va:#x}"))
    }

    fn read(self, mem: &AddressSpace, va: u64, known: Known) -> Option<String> {
        match self {
            Shape::One(layout) => layout.read(mem, va),
            Shape::Two(layout) => array(mem, va, 2, layout),
            Shape::Array(layout) => array(mem, va, known.next, layout),
            Shape::Returned(layout) => array(mem, va, known.result.unwrap_or(0), layout),
            Shape::Pieces => pieces(mem, va, known.next, known.result),
            Shape::Message => message(mem, va, known.result),
            Shape::Address => Some(address(mem, va)),
            Shape::Status => status(mem.load_u32(va).ok()?, known.result),
            Shape::Entries => entries(mem, va, known.result?),
            Shape::Descriptors => descriptors(mem, va, known.first),
            Shape::Signals => Some(signals(mem, va)),
            Shape::Longwords(count) => {
                let at = |i| mem.load_u32(va.wrapping_add(4 * i)).ok();
                let items: Option<Vec<String>> =
                    (0..count).map(|i| Some((at(i)? as i32).to_string())).collect();
                Some(list(items?, false))
            }
        }
    }
}

fn list(items: Vec<String>, more: bool) -> String {
    format!("[{}{}]", items.join(", "), if more { ", ..." } else { "" })
}

fn array(mem: &AddressSpace, va: u64, count: u64, layout: &Layout) -> Option<String> {
    let at = |i: u64| layout.read(mem, va.wrapping_add(i * layout.size));
    let items: Option<Vec<String>> = (0..count.min(WORDS)).map(at).collect();
    Some(list(items?, count > WORDS))
}

/// With `total`, so many bytes have been transferred; otherwise all of them are there.
fn pieces(mem: &AddressSpace, va: u64, count: u64, total: Option<u64>) -> Option<String> {
    let mut left = total.unwrap_or(u64::MAX);
    let mut items = Vec::new();
    for i in 0..count.min(WORDS) {
        let at = va.wrapping_add(16 * i);
        let (base, len) = (mem.load_u64(at).ok()?, mem.load_u64(at.wrapping_add(8)).ok()?);
        let filled = len.min(left);
        left -= filled;
        items.push(format!("{{iov_base={}, iov_len={len}}}", buffer(mem, base, filled)));
    }
    Some(list(items, count > WORDS))
}

fn message(mem: &AddressSpace, va: u64, total: Option<u64>) -> Option<String> {
    let field = |at: u64| mem.load_u64(va.wrapping_add(at)).ok();
    let name = match field(0)? {
        0 => "NULL".to_owned(),
        at => address(mem, at),
    };
    let data = pieces(mem, field(16)?, field(24)?, total)?;
    let flags = bits(field(48)? & 0xffff_ffff, names::MESSAGE, "0");
    let control = field(40)?;
    Some(format!(
        "{{msg_name={name}, msg_iov={data}, msg_controllen={control}, msg_flags={flags}}}"
    ))
}

/// Status of a child that wait has found: nothing, if it has found none.
fn status(status: u32, found: Option<u64>) -> Option<String> {
    found.filter(|&pid| pid != 0)?;
    let (low, high) = (status & 0x7f, status >> 8 & 0xff);
    Some(match low {
        0 => format!("[{{WIFEXITED(s) && WEXITSTATUS(s) == {high}}}]"),
        0x7f if status == 0xffff => "[{WIFCONTINUED(s)}]".to_owned(),
        0x7f => format!("[{{WIFSTOPPED(s) && WSTOPSIG(s) == {}}}]", signal_name(high as i32)),
        signal => {
            let core = if status & 0x80 != 0 { " && WCOREDUMP(s)" } else { "" };
            let name = signal_name(signal as i32);
            format!("[{{WIFSIGNALED(s) && WTERMSIG(s) == {name}{core}}}]")
        }
    })
}

/// Names in a directory: what getdents64 has stored.
fn entries(mem: &AddressSpace, va: u64, bytes: u64) -> Option<String> {
    let (mut at, mut names) = (0, Vec::new());
    let mut count = 0;
    while at < bytes {
        let entry = va.wrapping_add(at);
        let low = u64::from(mem.load_u8(entry.wrapping_add(16)).ok()?);
        let length = low | u64::from(mem.load_u8(entry.wrapping_add(17)).ok()?) << 8;
        if count < WORDS {
            names.push(string(mem, entry.wrapping_add(19)));
        }
        count += 1;
        // Shorter than any: somebody has written over it.
        if length < 24 {
            break;
        }
        at += length;
    }
    Some(list(names, count > WORDS))
}

fn descriptors(mem: &AddressSpace, va: u64, below: u64) -> Option<String> {
    let mut set = Vec::new();
    for fd in 0..below.min(1024) {
        if mem.load_u64(va.wrapping_add(fd / 64 * 8)).ok()? >> (fd % 64) & 1 != 0 {
            set.push(fd.to_string());
        }
    }
    Some(format!("[{}]", set.join(" ")))
}
