//! Sockets. Addresses and message flags are generic; option numbers of SOL_SOCKET are BSD's.

use super::abi;
use super::call::Call;
use super::errno::{Errno, SysResult};
use super::fdcalls::io_vector;

const SOL_SOCKET: u64 = 0xffff;

/// Longest address or option value that is passed on.
const MAX_VALUE: u64 = 1 << 16;

/// The host's number of a SOL_SOCKET option.
fn option_to_host(option: u64) -> Result<u64, Errno> {
    Ok(match option {
        0x0001 => 1,
        0x0004 => 2,
        0x0008 => 9,
        0x0010 => 5,
        0x0020 => 6,
        0x0080 => 13,
        0x0100 => 10,
        0x0200 => 15,
        0x1001 => 7,
        0x1002 => 8,
        0x1007 => 4,
        0x1008 => 3,
        0x100a => 32,
        0x100b => 33,
        0x1010 => 18,
        0x1011 => 19,
        0x1012 => 20,
        0x1013 => 21,
        0x1014 => 30,
        0x1028 => 38,
        0x1029 => 39,
        // From 11 on most agree; these moved on Alpha.
        17 => 16,
        18 => 17,
        30 => 31,
        11 | 12 | 14 | 25..=29 | 34..=37 | 40..=75 => option,
        _ => return Err(Errno::ENOPROTOOPT),
    })
}

/// socket.
pub fn socket(c: &mut Call<'_>) -> SysResult {
    c.host(libc::SYS_socket, &[c.a[0], abi::socket_type_to_host(c.a[1]), c.a[2]])
}

/// socketpair.
pub fn socketpair(c: &mut Call<'_>) -> SysResult {
    let kind = abi::socket_type_to_host(c.a[1]);
    c.host(libc::SYS_socketpair, &[c.a[0], kind, c.a[2], c.buf(c.a[3], 8)?])
}

/// bind and connect: `(fd, address, length)`.
pub fn with_address(c: &mut Call<'_>, nr: i64) -> SysResult {
    if c.a[2] > MAX_VALUE {
        return Err(Errno::EINVAL);
    }
    let address = unix_path(c, c.a[1], c.a[2])?;
    match &address {
        Some(bytes) => c.wait(nr, &[c.a[0], bytes.as_ptr() as u64, bytes.len() as u64]),
        None => c.wait(nr, &[c.a[0], c.opt(c.a[1], c.a[2])?, c.a[2]]),
    }
}

/// A Unix socket's path is looked up like other paths, if it exists in the sysroot.
fn unix_path(c: &Call<'_>, at: u64, len: u64) -> Result<Option<Vec<u8>>, Errno> {
    if c.linux.process.sysroot.is_none() || !(3..=110).contains(&len) {
        return Ok(None);
    }
    let mut bytes = vec![0; len as usize];
    c.vcpu.mem.read_bytes(at, &mut bytes)?;
    if bytes[..2] != (libc::AF_UNIX as u16).to_le_bytes() || bytes[2] != b'/' {
        return Ok(None);
    }
    let path = bytes[2..].split(|&b| b == 0).next().unwrap_or_default();
    let host = c.linux.process.host_path(path);
    let mut out = bytes[..2].to_vec();
    out.extend_from_slice(host.as_bytes_with_nul());
    Ok((out.len() <= 110).then_some(out))
}

/// getsockname, getpeername, accept: `(fd, address, *length)`.
pub fn fetch_address(c: &mut Call<'_>, nr: i64, flags: u64) -> SysResult {
    let address = c.opt(c.a[1], 0)?;
    let len = c.arg(2, 4)?;
    if c.a[2] != 0 && c.a[1] != 0 {
        let size = c.read_u32(c.a[2])?;
        c.buf(c.a[1], u64::from(size))?;
    }
    c.wait(nr, &[c.a[0], address, len, flags])
}

/// accept4.
pub fn accept4(c: &mut Call<'_>) -> SysResult {
    let flags = abi::socket_type_to_host(c.a[3] & !0xf);
    fetch_address(c, libc::SYS_accept4, flags)
}

/// sendto: `(fd, buffer, length, flags, address, length)`.
pub fn sendto(c: &mut Call<'_>) -> SysResult {
    let [fd, buffer, len, flags, address, address_len] = c.a;
    if address_len > MAX_VALUE {
        return Err(Errno::EINVAL);
    }
    let translated = if address == 0 { None } else { unix_path(c, address, address_len)? };
    let (at, size) = match &translated {
        Some(bytes) => (bytes.as_ptr() as u64, bytes.len() as u64),
        None => (c.opt(address, address_len)?, address_len),
    };
    c.wait(libc::SYS_sendto, &[fd, c.buf(buffer, len)?, len, flags, at, size])
}

/// send: sendto without an address.
pub fn send(c: &mut Call<'_>) -> SysResult {
    let [fd, buffer, len, flags, ..] = c.a;
    c.wait(libc::SYS_sendto, &[fd, c.buf(buffer, len)?, len, flags, 0, 0])
}

/// recvfrom.
pub fn recvfrom(c: &mut Call<'_>) -> SysResult {
    let [fd, buffer, len, flags, address, size] = c.a;
    if address != 0 && size != 0 {
        c.buf(address, u64::from(c.read_u32(size)?))?;
    }
    let args = [fd, c.buf(buffer, len)?, len, flags, c.opt(address, 0)?, c.opt(size, 4)?];
    c.wait(libc::SYS_recvfrom, &args)
}

/// recv: recvfrom without an address.
pub fn recv(c: &mut Call<'_>) -> SysResult {
    let [fd, buffer, len, flags, ..] = c.a;
    c.wait(libc::SYS_recvfrom, &[fd, c.buf(buffer, len)?, len, flags, 0, 0])
}

/// A msghdr of the guest with host addresses in it. Control messages are generic but for the
/// level, which is SOL_SOCKET in Alpha's number.
struct Message {
    header: [u64; 7],
    _vector: Vec<[u64; 2]>,
    _name: Option<Vec<u8>>,
    control: Vec<u8>,
    guest: [u64; 7],
}

fn relevel(control: &mut [u8], from: u32, to: u32) {
    let mut at = 0;
    while at + 16 <= control.len() {
        let mut len = [0; 8];
        len.copy_from_slice(&control[at..at + 8]);
        let len = u64::from_le_bytes(len) as usize;
        if control[at + 8..at + 12] == from.to_le_bytes() {
            control[at + 8..at + 12].copy_from_slice(&to.to_le_bytes());
        }
        if len < 16 || len > control.len() - at {
            break;
        }
        at += len.next_multiple_of(8);
    }
}

fn message(c: &Call<'_>, at: u64, sending: bool) -> Result<Message, Errno> {
    let words = c.read_quadwords(at, 7)?;
    let mut guest = [0; 7];
    guest.copy_from_slice(&words);
    let [name, name_len, vector, count, control, control_len, _] = guest;
    let name_len = name_len & 0xffff_ffff;
    if name_len > MAX_VALUE || control_len > 1 << 20 {
        return Err(Errno::EINVAL);
    }
    let vector = io_vector(c, vector, count).map_err(|errno| match errno {
        Errno::EINVAL => Errno::EMSGSIZE,
        other => other,
    })?;
    let mut bytes = vec![0; if control == 0 { 0 } else { control_len as usize }];
    if sending && !bytes.is_empty() {
        c.vcpu.mem.read_bytes(control, &mut bytes)?;
        relevel(&mut bytes, SOL_SOCKET as u32, libc::SOL_SOCKET as u32);
    }
    let own_name = if sending && name != 0 { unix_path(c, name, name_len)? } else { None };
    let (name_at, name_len) = match &own_name {
        Some(bytes) => (bytes.as_ptr() as u64, bytes.len() as u64),
        None => (c.opt(name, name_len)?, name_len),
    };
    let header = [
        name_at,
        name_len,
        vector.as_ptr() as u64,
        count,
        if bytes.is_empty() { 0 } else { bytes.as_mut_ptr() as u64 },
        bytes.len() as u64,
        guest[6],
    ];
    Ok(Message { header, _vector: vector, _name: own_name, control: bytes, guest })
}

fn finish(c: &Call<'_>, at: u64, message: &mut Message) -> Result<(), Errno> {
    let used = (message.header[5] as usize).min(message.control.len());
    relevel(&mut message.control[..used], libc::SOL_SOCKET as u32, SOL_SOCKET as u32);
    if used > 0 {
        c.write(message.guest[4], &message.control[..used])?;
    }
    c.write_u32(at + 8, message.header[1] as u32)?;
    c.write_u64(at + 40, message.header[5])?;
    c.write_u32(at + 48, message.header[6] as u32)
}

/// sendmsg.
pub fn sendmsg(c: &mut Call<'_>) -> SysResult {
    let message = message(c, c.a[1], true)?;
    c.wait(libc::SYS_sendmsg, &[c.a[0], message.header.as_ptr() as u64, c.a[2]])
}

/// recvmsg.
pub fn recvmsg(c: &mut Call<'_>) -> SysResult {
    let at = c.a[1];
    let mut message = message(c, at, false)?;
    let flags = c.a[2] | 0;
    let got = c.wait(libc::SYS_recvmsg, &[c.a[0], message.header.as_mut_ptr() as u64, flags])?;
    finish(c, at, &mut message)?;
    Ok(got)
}

/// sendmmsg, one message at a time.
pub fn sendmmsg(c: &mut Call<'_>) -> SysResult {
    let [fd, at, count, flags, ..] = c.a;
    many(c, at, count.min(1024), |c, at| {
        let message = message(c, at, true)?;
        c.wait(libc::SYS_sendmsg, &[fd, message.header.as_ptr() as u64, flags])
    })
}

/// recvmmsg, one message at a time; after the first it does not wait.
pub fn recvmmsg(c: &mut Call<'_>) -> SysResult {
    let [fd, at, count, mut flags, ..] = c.a;
    let wait_for_one = flags & 0x10000 != 0;
    flags &= !0x10000;
    let mut done = 0;
    many(c, at, count.min(1024), |c, at| {
        let mut message = message(c, at, false)?;
        let now = if done > 0 && wait_for_one { libc::MSG_DONTWAIT as u64 } else { 0 };
        let args = [fd, message.header.as_mut_ptr() as u64, flags | now];
        let got = c.wait(libc::SYS_recvmsg, &args)?;
        finish(c, at, &mut message)?;
        done += 1;
        Ok(got)
    })
}

/// Entries of 64 bytes: a msghdr and the length transferred.
fn many(
    c: &mut Call<'_>,
    at: u64,
    count: u64,
    mut one: impl FnMut(&mut Call<'_>, u64) -> SysResult,
) -> SysResult {
    for i in 0..count {
        let entry = at + 64 * i;
        match one(c, entry) {
            Ok(len) => c.write_u32(entry + 56, len as u32)?,
            Err(errno) if i == 0 => return Err(errno),
            Err(_) => return Ok(i),
        }
    }
    Ok(count)
}

fn level(c: &Call<'_>) -> Result<[u64; 2], Errno> {
    match c.a[1] {
        SOL_SOCKET => Ok([libc::SOL_SOCKET as u64, option_to_host(c.a[2])?]),
        other => Ok([other, c.a[2]]),
    }
}

/// setsockopt.
pub fn setsockopt(c: &mut Call<'_>) -> SysResult {
    let [level, option] = level(c)?;
    let [.., value, len, _] = c.a;
    if len > MAX_VALUE {
        return Err(Errno::EINVAL);
    }
    c.host(libc::SYS_setsockopt, &[c.a[0], level, option, c.opt(value, len)?, len])
}

/// getsockopt; SO_ERROR gives an error number.
pub fn getsockopt(c: &mut Call<'_>) -> SysResult {
    let [level, option] = level(c)?;
    let [.., value, len, _] = c.a;
    let size = c.read_u32(len)?;
    let to = c.buf(value, u64::from(size))?;
    let args = [c.a[0], level, option, to, c.buf(len, 4)?];
    c.host(libc::SYS_getsockopt, &args)?;
    if c.a[1] == SOL_SOCKET && c.a[2] == 0x1007 && size >= 4 {
        let error = c.read_u32(value)? as i32;
        if error != 0 {
            c.write_u32(value, u32::from(Errno::from_host(error).0))?;
        }
    }
    Ok(0)
}
