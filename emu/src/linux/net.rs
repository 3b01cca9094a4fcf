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
        // Not the classic filters (26, 51): they are passed by a pointer inside the value.
        11 | 12 | 14 | 25 | 27..=29 | 34..=37 | 40..=50 | 52..=75 => option,
        _ => return Err(Errno::ENOPROTOOPT),
    })
}

/// Address families whose sockets take no addresses of memory inside options and messages, as those
/// of RDS, XDP or CAN do: local, internet, netlink, packets of a link, the kernel's ciphers, hosts of
/// virtual machines.
fn is_known_family(family: u64) -> bool {
    let known = [
        libc::AF_UNIX,
        libc::AF_INET,
        libc::AF_INET6,
        libc::AF_NETLINK,
        libc::AF_PACKET,
        libc::AF_ALG,
        libc::AF_VSOCK,
    ];
    known.contains(&(family as i32))
}

/// socket.
pub fn socket(c: &mut Call<'_>) -> SysResult {
    if !is_known_family(c.a[0]) {
        return Err(Errno::EAFNOSUPPORT);
    }
    c.host(libc::SYS_socket, &[c.a[0], abi::socket_type_to_host(c.a[1]), c.a[2]])
}

/// socketpair.
pub fn socketpair(c: &mut Call<'_>) -> SysResult {
    if !is_known_family(c.a[0]) {
        return Err(Errno::EAFNOSUPPORT);
    }
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

/// Room for an address that the kernel writes: no family's is longer.
struct Address {
    bytes: [u8; size_of::<libc::sockaddr_storage>()],
    len: u32,
}

impl Address {
    /// The guest's room at `size`, read once: another thread may change it while the call waits.
    fn room(c: &Call<'_>, address: u64, size: u64) -> Result<Option<Self>, Errno> {
        if address == 0 {
            return Ok(None);
        }
        let bytes = [0; size_of::<libc::sockaddr_storage>()];
        let len = c.read_u32(size)?;
        if len as i32 >= 0 { Ok(Some(Address { bytes, len })) } else { Err(Errno::EINVAL) }
    }

    /// The two arguments of the host's call. `len` becomes what the kernel says.
    fn arguments(this: &mut Option<Self>, len: &mut u32) -> [u64; 2] {
        let Some(this) = this else { return [0, 0] };
        *len = this.len.min(this.bytes.len() as u32);
        [this.bytes.as_mut_ptr() as u64, &raw mut *len as u64]
    }

    /// Hands the guest what fits, and the whole length.
    fn hand_over(&self, c: &Call<'_>, address: u64, size: u64, len: u32) -> Result<(), Errno> {
        let fits = self.len.min(len).min(self.bytes.len() as u32) as usize;
        c.write(address, &self.bytes[..fits])?;
        c.write_u32(size, len)
    }
}

/// getsockname, getpeername, accept: `(fd, address, *length)`.
pub fn fetch_address(c: &mut Call<'_>, nr: i64, flags: u64) -> SysResult {
    let [fd, address, size, ..] = c.a;
    let accepts = nr == libc::SYS_accept || nr == libc::SYS_accept4;
    // Without an address only the accepting calls have something to do.
    if address == 0 && !accepts {
        return Err(Errno::EFAULT);
    }
    let (mut room, mut len) = (Address::room(c, address, size)?, 0);
    let [at, len_at] = Address::arguments(&mut room, &mut len);
    let result = c.wait(nr, &[fd, at, len_at, flags])?;
    if let Some(room) = room
        && let Err(errno) = room.hand_over(c, address, size, len)
    {
        if accepts {
            let _ = c.host(libc::SYS_close, &[result]);
        }
        return Err(errno);
    }
    Ok(result)
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
    let (mut room, mut address_len) = (Address::room(c, address, size)?, 0);
    let [at, len_at] = Address::arguments(&mut room, &mut address_len);
    let got = c.wait(libc::SYS_recvfrom, &[fd, c.buf(buffer, len)?, len, flags, at, len_at])?;
    if let Some(room) = room {
        room.hand_over(c, address, size, address_len)?;
    }
    Ok(got)
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
    let flags = c.a[2];
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

/// The host's level and option for arguments 1 and 2, of which the kernel takes the low halves.
///
/// Refused is what names memory by a pointer inside the value, which nobody has checked, and every
/// level that is not known to have no such options: the host's own SOL_SOCKET (1) among them, under
/// which filters go.
fn level(c: &Call<'_>, sets: bool) -> Result<[u64; 2], Errno> {
    const TCP_ZEROCOPY_RECEIVE: u64 = 35;
    const PACKET_FANOUT_DATA: u64 = 22;
    let (level, option) = (c.a[1] & 0xffff_ffff, c.a[2] & 0xffff_ffff);
    let refused = match level as i32 {
        0xffff => return Ok([libc::SOL_SOCKET as u64, option_to_host(option)?]),
        // From 64 on: tables of the packet filter.
        libc::SOL_IP => sets && option >= 64,
        libc::SOL_IPV6 => sets && matches!(option, 64 | 65),
        libc::SOL_TCP => option == TCP_ZEROCOPY_RECEIVE,
        libc::SOL_PACKET => option == PACKET_FANOUT_DATA,
        libc::SOL_UDP | libc::SOL_ICMPV6 | libc::SOL_RAW | libc::SOL_NETLINK => false,
        libc::SOL_ALG | libc::SOL_TLS | libc::AF_VSOCK => false,
        _ => true,
    };
    if refused { Err(Errno::ENOPROTOOPT) } else { Ok([level, option]) }
}

/// setsockopt.
pub fn setsockopt(c: &mut Call<'_>) -> SysResult {
    let [level, option] = level(c, true)?;
    let [.., value, len, _] = c.a;
    let len = len & 0xffff_ffff;
    if len > MAX_VALUE {
        return Err(Errno::EINVAL);
    }
    c.host(libc::SYS_setsockopt, &[c.a[0], level, option, c.opt(value, len)?, len])
}

/// getsockopt; SO_ERROR gives an error number. The length is read once, the value goes by a copy.
pub fn getsockopt(c: &mut Call<'_>) -> SysResult {
    let [level, option] = level(c, false)?;
    let [.., value, len, _] = c.a;
    let size = c.read_u32(len)?;
    if (size as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    let mut got = size.min(MAX_VALUE as u32);
    let mut bytes = vec![0; got as usize];
    // Some options read the value first; what is not there shows when it is written.
    let _ = c.vcpu.mem.read_bytes(value, &mut bytes);
    let args = [c.a[0], level, option, bytes.as_mut_ptr() as u64, &raw mut got as u64];
    c.host(libc::SYS_getsockopt, &args)?;
    if c.a[1] as i32 == SOL_SOCKET as i32 && c.a[2] as u32 == 0x1007 && got >= 4 {
        let error = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        if error != 0 {
            let error = u32::from(Errno::from_host(error).0);
            bytes[..4].copy_from_slice(&error.to_le_bytes());
        }
    }
    c.write(value, &bytes[..(got as usize).min(bytes.len())])?;
    c.write_u32(len, got)?;
    Ok(0)
}
