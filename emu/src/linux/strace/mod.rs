//! Calls as text, from the kinds in the table: what `--strace` prints, called by the dispatcher before
//! and after a call.
//!
//! Numbers are Alpha's: they are looked up in the guest's values, not in the host's.
//!
//! * `names`: of numbers and flags; `structs`: what pointers point to

pub mod names;
pub mod structs;

use self::names::{Names, bits, one};
use self::structs::{Known, Shape};
use super::abi::signal_name;
use super::errno::{Errno, SysResult};
use super::table::{Arg, Syscall};
use crate::mem::AddressSpace;

/// Strings and buffers longer than this are cut.
const SHOWN: usize = 64;
/// Alpha's level of options that all sockets have.
const SOL_SOCKET: u64 = 0xffff;
/// Vectors longer than this are cut.
const WORDS: u64 = 16;

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

/// Signals of a mask in memory.
fn signals(mem: &AddressSpace, va: u64) -> String {
    mem.load_u64(va).map_or_else(|_| format!("{va:#x}"), structs::mask)
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

/// A call's arguments as text; those that the call fills in come later.
pub struct Line {
    row: &'static Syscall,
    args: [u64; 6],
    shown: Vec<Option<String>>,
}

impl Line {
    /// Name and arguments, as they are at entry.
    pub fn new(row: &'static Syscall, args: &[u64; 6], mem: &AddressSpace) -> Self {
        let shown = (0..row.args.len()).map(|i| at_entry(row, args, i, mem)).collect();
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
        let kind = |i: usize| kind_of(row, &args, i);
        let known = |i: usize| known(&args, i, outcome.ok());
        let show = |(i, text): (usize, Option<String>)| {
            text.unwrap_or_else(|| match (kind(i), outcome) {
                (_, _) if args[i] == 0 => "NULL".to_owned(),
                (Arg::Data, Ok(len)) if *len <= known(i).next => buffer(mem, args[i], *len),
                (Arg::Out(shape), Ok(_)) => shape.text(mem, args[i], known(i)),
                _ => format!("{:#x}", args[i]),
            })
        };
        let shown: Vec<String> = shown.into_iter().enumerate().map(show).collect();
        // What the call has changed of what it was given.
        let changed = |i: usize| match (kind(i), outcome) {
            (Arg::Both(_, after), Ok(1..)) if args[i] != 0 => {
                Some(after.text(mem, args[i], known(i)))
            }
            _ => None,
        };
        let changed: Vec<String> = (0..row.args.len()).filter_map(changed).collect();
        let changed =
            if changed.is_empty() { String::new() } else { format!(" ({})", changed.join(", ")) };
        format!("{}({}){}{changed}", row.name, shown.join(", "), result(row, outcome))
    }
}

fn known(args: &[u64; 6], i: usize, result: Option<u64>) -> Known {
    Known { first: args[0], next: args.get(i + 1).copied().unwrap_or(0), result }
}

/// The kind of an argument; some depend on the argument before them.
fn kind_of(row: &Syscall, args: &[u64; 6], i: usize) -> Arg {
    match row.args[i] {
        Arg::ByCommand => fcntl_argument(args[1]),
        Arg::ByRequest => ioctl_argument(args[1] & 0xffff_ffff),
        Arg::ByLevel if args[1] == SOL_SOCKET => Arg::Name(names::OPTION),
        kind => kind,
    }
}

fn fcntl_argument(command: u64) -> Arg {
    match command {
        0 | 5 | 1030 => Arg::Int,
        1 | 3 | 6 => Arg::Unused,
        2 => Arg::Flags(names::CLOEXEC),
        4 => Arg::Open,
        7 => Arg::Both(Shape::One(&structs::FLOCK), Shape::One(&structs::FLOCK)),
        8 | 9 => Arg::In(Shape::One(&structs::FLOCK)),
        _ => Arg::Hex,
    }
}

fn ioctl_argument(request: u64) -> Arg {
    match names::IOCTL.iter().find(|(known, _)| *known == request).map(|(_, name)| *name) {
        Some("TIOCGWINSZ") => Arg::Out(Shape::One(&structs::WINSIZE)),
        Some("TIOCSWINSZ") => Arg::In(Shape::One(&structs::WINSIZE)),
        Some("TIOCGPGRP" | "FIONREAD") => Arg::Out(Shape::Longwords(1)),
        Some("TIOCSPGRP" | "FIONBIO") => Arg::In(Shape::Longwords(1)),
        Some("FIOCLEX" | "FIONCLEX") => Arg::Unused,
        _ => Arg::Hex,
    }
}

/// An argument as it is at entry, or `None` if the call fills it in.
fn at_entry(row: &Syscall, args: &[u64; 6], i: usize, mem: &AddressSpace) -> Option<String> {
    let value = args[i];
    let text = match kind_of(row, args, i) {
        Arg::Data | Arg::Out(_) => return None,
        Arg::ByCommand | Arg::ByRequest | Arg::ByLevel | Arg::Hex => format!("{value:#x}"),
        Arg::Unused => "-".to_owned(),
        Arg::Int => (value as i64).to_string(),
        Arg::Oct => format!("0{value:o}"),
        Arg::Fd if value as i32 == libc::AT_FDCWD => "AT_FDCWD".to_owned(),
        Arg::Fd => (value as i32).to_string(),
        Arg::Sig => signal_name(value as i32),
        Arg::Open => {
            let modes = ["O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE"];
            with_flags(modes[value as usize & 3], value & !3, names::OPEN)
        }
        Arg::Map => {
            let sharing = ["MAP_FILE", "MAP_SHARED", "MAP_PRIVATE", "MAP_SHARED_VALIDATE"];
            with_flags(sharing[value as usize & 3], value & !3, names::MAP)
        }
        Arg::Socket => {
            with_flags(&one(value & 0xf, names::SOCKET), value & !0xf, names::SOCKET_FLAGS)
        }
        Arg::Prot => bits(value, names::PROT, "PROT_NONE"),
        Arg::Access => bits(value, names::ACCESS, "F_OK"),
        Arg::Clone => {
            let signal = value & 0xff;
            let name = if signal == 0 { "0".to_owned() } else { signal_name(signal as i32) };
            bits(value & !0xff, names::CLONE, "0") + "|" + &name
        }
        Arg::Futex => {
            let private = if value & 0x80 != 0 { "|FUTEX_PRIVATE_FLAG" } else { "" };
            one(value & 0x7f, names::FUTEX) + private
        }
        Arg::Ioctl => one(value & 0xffff_ffff, names::IOCTL),
        Arg::Name(names) => one(value, names),
        Arg::Flags(names) => bits(value, names, "0"),
        _ if value == 0 => "NULL".to_owned(),
        Arg::Ptr => format!("{value:#x}"),
        Arg::Str => string(mem, value),
        Arg::Text => buffer(mem, value, known(args, i, None).next),
        Arg::Strs => strings(mem, value),
        Arg::In(shape) | Arg::Both(shape, _) => shape.text(mem, value, known(args, i, None)),
    };
    Some(text)
}

/// A name and what is set beside it.
fn with_flags(name: &str, rest: u64, names: Names) -> String {
    if rest == 0 { name.to_owned() } else { format!("{name}|{}", bits(rest, names, "")) }
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
        assert_eq!(bits(0o10001000, names::OPEN, "0"), "O_CREAT|O_CLOEXEC");
        assert_eq!(bits(0x8000_0000, names::PROT, "PROT_NONE"), "0x80000000");
        assert_eq!(bits(0, names::PROT, "PROT_NONE"), "PROT_NONE");
        assert_eq!(one(3, names::HOW), "SIG_SETMASK");
        assert_eq!(one(77, names::HOW), "77");
        assert_eq!(quoted(b"a\"\n\xff", false), "\"a\\\"\\n\\xff\"...");
    }
}
