//! Calls as text, from the kinds in the table: what `--strace` prints, called by the dispatcher before
//! and after a call.
//!
//! Numbers are Alpha's: the names here are looked up in the guest's values, not in the host's.

use super::abi::signal_name;
use super::errno::{Errno, SysResult};
use super::table::{Arg, Syscall};
use crate::mem::AddressSpace;

/// Strings and buffers longer than this are cut.
const SHOWN: usize = 64;
/// Vectors of strings longer than this are cut.
const WORDS: u64 = 16;

/// Values with their names.
type Names = &'static [(u64, &'static str)];

const OPEN: Names = &[
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

const PROT: Names = &[(1, "PROT_READ"), (2, "PROT_WRITE"), (4, "PROT_EXEC")];

const MAP: Names = &[
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

const AT: Names = &[
    (0x100, "AT_SYMLINK_NOFOLLOW"),
    (0x200, "AT_REMOVEDIR"),
    (0x400, "AT_SYMLINK_FOLLOW"),
    (0x800, "AT_NO_AUTOMOUNT"),
    (0x1000, "AT_EMPTY_PATH"),
];

const ACCESS: Names = &[(4, "R_OK"), (2, "W_OK"), (1, "X_OK")];

const WAIT: Names = &[(1, "WNOHANG"), (2, "WUNTRACED"), (4, "WEXITED"), (8, "WCONTINUED")];

const CLONE: Names = &[
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

const WHENCE: Names = &[(0, "SEEK_SET"), (1, "SEEK_CUR"), (2, "SEEK_END")];

const HOW: Names = &[(1, "SIG_BLOCK"), (2, "SIG_UNBLOCK"), (3, "SIG_SETMASK")];

const CLOCK: Names =
    &[(0, "CLOCK_REALTIME"), (1, "CLOCK_MONOTONIC"), (2, "CLOCK_PROCESS_CPUTIME_ID")];

const FCNTL: Names = &[
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

const FUTEX: Names = &[
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

const IOCTL: Names = &[
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

const FAMILY: Names = &[(1, "AF_UNIX"), (2, "AF_INET"), (10, "AF_INET6"), (16, "AF_NETLINK")];

const ADVICE: Names =
    &[(0, "MADV_NORMAL"), (1, "MADV_RANDOM"), (2, "MADV_SEQUENTIAL"), (6, "MADV_DONTNEED")];

/// The name of a value, or the value.
fn one(value: u64, names: Names) -> String {
    match names.iter().find(|(known, _)| *known == value) {
        Some((_, name)) => (*name).to_owned(),
        None if value < 256 => value.to_string(),
        None => format!("{value:#x}"),
    }
}

/// The names of bits, and what is left as a number; `zero` for none.
fn bits(mut value: u64, names: Names, zero: &str) -> String {
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

fn quoted(bytes: &[u8], whole: bool) -> String {
    let text: String =
        bytes.iter().flat_map(|&b| std::ascii::escape_default(b)).map(char::from).collect();
    let more = if whole { "" } else { "..." };
    format!("\"{text}\"{more}")
}

fn string(mem: &AddressSpace, va: u64) -> String {
    let mut bytes = Vec::new();
    while bytes.len() <= SHOWN {
        match mem.load_u8(va.wrapping_add(bytes.len() as u64)) {
            Ok(0) => return quoted(&bytes, true),
            Ok(byte) => bytes.push(byte),
            Err(_) => return format!("{va:#x}"),
        }
    }
    quoted(&bytes[..SHOWN], false)
}

fn buffer(mem: &AddressSpace, va: u64, len: u64) -> String {
    let shown = len.min(SHOWN as u64);
    let mut bytes = vec![0; shown as usize];
    match mem.read_bytes(va, &mut bytes) {
        Ok(()) => quoted(&bytes, shown == len),
        Err(_) => format!("{va:#x}"),
    }
}

/// A vector of strings, as execve takes it.
fn strings(mem: &AddressSpace, va: u64) -> String {
    let mut out = Vec::new();
    for i in 0..=WORDS {
        match mem.load_u64(va.wrapping_add(8 * i)) {
            Ok(0) => break,
            Ok(_) if i == WORDS => out.push("...".to_owned()),
            Ok(at) => out.push(string(mem, at)),
            Err(_) => return format!("{va:#x}"),
        }
    }
    format!("[{}]", out.join(", "))
}

/// Signals of a mask in memory; of one that is almost full those that are not in it.
fn signals(mem: &AddressSpace, va: u64) -> String {
    let Ok(mask) = mem.load_u64(va) else { return format!("{va:#x}") };
    let (sign, mask) = if mask.count_ones() > 32 { ("~", !mask) } else { ("", mask) };
    let names = (1..=64).filter(|s| mask >> (s - 1) & 1 != 0).map(signal_name);
    format!("{sign}[{}]", names.collect::<Vec<_>>().join(" "))
}

/// Two quadwords: seconds and a fraction of them.
fn time(mem: &AddressSpace, va: u64) -> String {
    match (mem.load_u64(va), mem.load_u64(va.wrapping_add(8))) {
        (Ok(seconds), Ok(part)) => format!("{{{}, {}}}", seconds as i64, part as i64),
        _ => format!("{va:#x}"),
    }
}

/// An address of the Internet or of a file.
fn address(mem: &AddressSpace, va: u64) -> String {
    let mut head = [0u8; 8];
    if mem.read_bytes(va, &mut head).is_err() {
        return format!("{va:#x}");
    }
    let port = u16::from_be_bytes([head[2], head[3]]);
    match u16::from_le_bytes([head[0], head[1]]) {
        1 => format!("{{AF_UNIX, {}}}", string(mem, va.wrapping_add(2))),
        2 => format!("{{AF_INET, {}.{}.{}.{}:{port}}}", head[4], head[5], head[6], head[7]),
        10 => format!("{{AF_INET6, port {port}}}"),
        other => format!("{{family {other}}}"),
    }
}

/// Two descriptors in memory, as pipe2 and socketpair store them.
fn pair(mem: &AddressSpace, va: u64) -> String {
    match (mem.load_u32(va), mem.load_u32(va.wrapping_add(4))) {
        (Ok(first), Ok(second)) => format!("[{}, {}]", first as i32, second as i32),
        _ => format!("{va:#x}"),
    }
}

/// A call's arguments as text; those that the call fills in come later.
pub struct Line {
    row: &'static Syscall,
    args: [u64; 6],
    shown: Vec<Option<String>>,
}

impl Line {
    /// Name and arguments, as they are at entry.
    pub fn new(row: &'static Syscall, args: &[u64; 6], mem: &AddressSpace) -> Self {
        let show = |(i, kind): (usize, &Arg)| {
            let value = args[i];
            let next = args.get(i + 1).copied().unwrap_or(0);
            let text = match kind {
                Arg::Data | Arg::Pair => return None,
                Arg::Int => (value as i64).to_string(),
                Arg::Hex => format!("{value:#x}"),
                Arg::Oct => format!("0{value:o}"),
                Arg::Fd if value as i32 == libc::AT_FDCWD => "AT_FDCWD".to_owned(),
                Arg::Fd => (value as i32).to_string(),
                Arg::Sig => signal_name(value as i32),
                Arg::Open => {
                    let modes = ["O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE"];
                    let mode = modes[value as usize & 3];
                    match value & !3 {
                        0 => mode.to_owned(),
                        rest => format!("{mode}|{}", bits(rest, OPEN, "")),
                    }
                }
                Arg::Prot => bits(value, PROT, "PROT_NONE"),
                Arg::Map => {
                    let sharing = ["MAP_FILE", "MAP_SHARED", "MAP_PRIVATE", "MAP_SHARED_VALIDATE"];
                    match value & !3 {
                        0 => sharing[value as usize & 3].to_owned(),
                        rest => format!("{}|{}", sharing[value as usize & 3], bits(rest, MAP, "")),
                    }
                }
                Arg::At => bits(value, AT, "0"),
                Arg::Access => bits(value, ACCESS, "F_OK"),
                Arg::Wait => bits(value, WAIT, "0"),
                Arg::Clone => {
                    let signal = value & 0xff;
                    let name =
                        if signal == 0 { "0".to_owned() } else { signal_name(signal as i32) };
                    bits(value & !0xff, CLONE, "0") + "|" + &name
                }
                Arg::Whence => one(value, WHENCE),
                Arg::How => one(value, HOW),
                Arg::Clock => one(value, CLOCK),
                Arg::Fcntl => one(value, FCNTL),
                Arg::Futex => {
                    let private = if value & 0x80 != 0 { "|FUTEX_PRIVATE_FLAG" } else { "" };
                    one(value & 0x7f, FUTEX) + private
                }
                Arg::Ioctl => one(value & 0xffff_ffff, IOCTL),
                Arg::Family => one(value, FAMILY),
                Arg::Advice => one(value, ADVICE),
                _ if value == 0 => "NULL".to_owned(),
                Arg::Ptr => format!("{value:#x}"),
                Arg::Str => string(mem, value),
                Arg::Text => buffer(mem, value, next),
                Arg::Strs => strings(mem, value),
                Arg::Mask => signals(mem, value),
                Arg::Time => time(mem, value),
                Arg::Addr => address(mem, value),
            };
            Some(text)
        };
        let shown = row.args.iter().enumerate().map(show).collect();
        Line { row, args: *args, shown }
    }

    /// The line of a call that has not returned.
    pub fn begun(&self) -> String {
        let args: Vec<&str> = self.shown.iter().map(|arg| arg.as_deref().unwrap_or("?")).collect();
        format!("{}({}) ...", self.row.name, args.join(", "))
    }

    /// The whole line: what the call has stored, and its result.
    pub fn done(self, outcome: &SysResult, mem: &AddressSpace) -> String {
        let Line { row, args, shown } = self;
        let show = |(i, text): (usize, Option<String>)| {
            text.unwrap_or_else(|| match (row.args[i], outcome) {
                (_, _) if args[i] == 0 => "NULL".to_owned(),
                (Arg::Data, Ok(len)) if *len <= args.get(i + 1).copied().unwrap_or(0) => {
                    buffer(mem, args[i], *len)
                }
                (Arg::Pair, Ok(_)) => pair(mem, args[i]),
                _ => format!("{:#x}", args[i]),
            })
        };
        let args: Vec<String> = shown.into_iter().enumerate().map(show).collect();
        format!("{}({}){}", row.name, args.join(", "), result(row, outcome))
    }
}

/// The result, with the equals sign.
fn result(row: &Syscall, result: &SysResult) -> String {
    match result {
        Ok(value) if *value >= 1 << 32 => format!(" = {value:#x}"),
        Ok(value) => format!(" = {value}"),
        Err(Errno::NO_RESULT) => " = ?".to_owned(),
        Err(Errno::INTERRUPTED) if row.restarts => " = ? (interrupted, may restart)".to_owned(),
        Err(Errno::INTERRUPTED) => " = -1 EINTR".to_owned(),
        Err(errno) => format!(" = -1 {errno}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_read_as_names_and_what_is_left() {
        assert_eq!(bits(0o10001000, OPEN, "0"), "O_CREAT|O_CLOEXEC");
        assert_eq!(bits(0x8000_0000, PROT, "PROT_NONE"), "0x80000000");
        assert_eq!(bits(0, PROT, "PROT_NONE"), "PROT_NONE");
        assert_eq!(one(3, HOW), "SIG_SETMASK");
        assert_eq!(one(77, HOW), "77");
        assert_eq!(quoted(b"a\"\n\xff", false), "\"a\\\"\\n\\xff\"...");
    }
}
