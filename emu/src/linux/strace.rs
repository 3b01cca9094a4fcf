//! Calls as text, from the kinds in the table.

use super::abi::signal_name;
use super::errno::{Errno, SysResult};
use super::table::{Arg, Syscall};
use crate::mem::AddressSpace;

/// Strings longer than this are cut.
const SHOWN: usize = 64;

fn string(mem: &AddressSpace, va: u64) -> String {
    if va == 0 {
        return "NULL".to_owned();
    }
    let mut bytes = Vec::new();
    while bytes.len() <= SHOWN {
        match mem.load_u8(va.wrapping_add(bytes.len() as u64)) {
            Ok(0) => return format!("{:?}", String::from_utf8_lossy(&bytes)),
            Ok(byte) => bytes.push(byte),
            Err(_) => return format!("{va:#x}"),
        }
    }
    format!("{:?}...", String::from_utf8_lossy(&bytes[..SHOWN]))
}

/// Name and arguments, as they were at entry.
pub fn call(row: &Syscall, a: &[u64; 6], mem: &AddressSpace) -> String {
    let show = |(kind, &value): (&Arg, &u64)| match kind {
        Arg::Int => (value as i64).to_string(),
        Arg::Hex => format!("{value:#x}"),
        Arg::Oct => format!("0{value:o}"),
        Arg::Fd if value as i32 == libc::AT_FDCWD => "AT_FDCWD".to_owned(),
        Arg::Fd => (value as i32).to_string(),
        Arg::Str => string(mem, value),
        Arg::Ptr if value == 0 => "NULL".to_owned(),
        Arg::Ptr => format!("{value:#x}"),
        Arg::Sig => signal_name(value as i32),
    };
    let args: Vec<String> = row.args.iter().zip(a).map(show).collect();
    format!("{}({})", row.name, args.join(", "))
}

/// The result, with the equals sign.
pub fn result(row: &Syscall, result: &SysResult) -> String {
    match result {
        Ok(value) if *value >= 1 << 32 => format!(" = {value:#x}"),
        Ok(value) => format!(" = {value}"),
        Err(Errno::NO_RESULT) => " = ?".to_owned(),
        Err(Errno::INTERRUPTED) if row.restarts => " = ? (interrupted, may restart)".to_owned(),
        Err(Errno::INTERRUPTED) => " = -1 EINTR".to_owned(),
        Err(errno) => format!(" = -1 {errno}"),
    }
}
