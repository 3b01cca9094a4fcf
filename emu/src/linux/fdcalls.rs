//! Calls on descriptors: reading, writing, vectors, pipes, fcntl, waiting for readiness.
//!
//! A guest's descriptors are the host's: they are inherited, duplicated and closed as they are.

use super::abi::{self, Layout};
use super::call::Call;
use super::errno::{Errno, SysResult};

/// Linux's limit for one transfer.
const MAX_TRANSFER: u64 = 0x7fff_e000;
/// Descriptors that a call may name at once: /proc/sys/fs/nr_open as the kernel sets it.
const MAX_FILES: u64 = 1 << 20;
/// UIO_MAXIOV.
const MAX_VECTOR: u64 = 1024;

/// read, write, pread64, pwrite64: `(fd, buffer, length, offset)`.
pub fn transfer(c: &mut Call<'_>, nr: i64) -> SysResult {
    let len = c.a[2].min(MAX_TRANSFER);
    let buffer = c.buf(c.a[1], len)?;
    c.wait(nr, &[c.a[0], buffer, len, c.a[3]])
}

/// An array of (base, length) with host addresses.
pub fn io_vector(c: &Call<'_>, at: u64, count: u64) -> Result<Vec<[u64; 2]>, Errno> {
    if count > MAX_VECTOR {
        return Err(Errno::EINVAL);
    }
    let words = c.read_quadwords(at, 2 * count as usize)?;
    let mut left = MAX_TRANSFER;
    let mut out = Vec::with_capacity(count as usize);
    for pair in words.chunks_exact(2) {
        if pair[1] > i64::MAX as u64 {
            return Err(Errno::EINVAL);
        }
        let len = pair[1].min(left);
        left -= len;
        out.push([if len == 0 { 0 } else { c.buf(pair[0], len)? }, len]);
    }
    Ok(out)
}

/// readv, writev and the forms with an offset and flags.
pub fn vector(c: &mut Call<'_>, nr: i64) -> SysResult {
    let vector = io_vector(c, c.a[1], c.a[2])?;
    let args = [c.a[0], vector.as_ptr() as u64, c.a[2], c.a[3], c.a[4], c.a[5]];
    c.wait(nr, &args)
}

/// pipe: both descriptors in registers.
pub fn pipe(c: &mut Call<'_>) -> SysResult {
    let mut fds = [0i32; 2];
    c.host(libc::SYS_pipe2, &[fds.as_mut_ptr() as u64, 0])?;
    c.second(fds[1] as u64);
    Ok(fds[0] as u64)
}

/// pipe2: both descriptors in memory.
pub fn pipe2(c: &mut Call<'_>) -> SysResult {
    let mut fds = [0i32; 2];
    let mut flags = c.a[1];
    let direct = flags & 0o2000000;
    flags &= !direct;
    let mut host = abi::fd_flags_to_host(flags)?;
    if direct != 0 {
        host |= libc::O_DIRECT as u64;
    }
    c.host(libc::SYS_pipe2, &[fds.as_mut_ptr() as u64, host])?;
    for (i, fd) in fds.into_iter().enumerate() {
        if let Err(errno) = c.write_u32(c.a[0] + 4 * i as u64, fd as u32) {
            let _ = c.host(libc::SYS_close, &[fds[0] as u64]);
            let _ = c.host(libc::SYS_close, &[fds[1] as u64]);
            return Err(errno);
        }
    }
    Ok(0)
}

/// dup2 with itself only checks the descriptor.
pub fn dup2(c: &mut Call<'_>) -> SysResult {
    c.host(libc::SYS_dup2, &[c.a[0], c.a[1]])
}

/// dup3.
pub fn dup3(c: &mut Call<'_>) -> SysResult {
    c.host(libc::SYS_dup3, &[c.a[0], c.a[1], abi::fd_flags_to_host(c.a[2])?])
}

/// Creation with (value, flags) where the flags are CLOEXEC and NONBLOCK.
pub fn create_with_flags(c: &mut Call<'_>, nr: i64, value: Option<u64>, flags: u64) -> SysResult {
    let host = abi::fd_flags_to_host(flags)?;
    match value {
        Some(value) => c.host(nr, &[value, host]),
        None => c.host(nr, &[host]),
    }
}

/// eventfd2: EFD_SEMAPHORE 1 beside the common flags.
pub fn eventfd2(c: &mut Call<'_>) -> SysResult {
    let host = abi::fd_flags_to_host(c.a[1] & !1)? | c.a[1] & 1;
    c.host(libc::SYS_eventfd2, &[c.a[0], host])
}

const F_UNLCK_GUEST: u16 = 8;

/// struct flock with host numbers: RDLCK 1, WRLCK 2, UNLCK 8 on Alpha, 0, 1, 2 here.
fn flock_to_host(c: &Call<'_>, at: u64) -> Result<[u8; 32], Errno> {
    let mut bytes = c.read::<32>(at)?;
    let kind = match u16::from_le_bytes([bytes[0], bytes[1]]) {
        1 => libc::F_RDLCK,
        2 => libc::F_WRLCK,
        F_UNLCK_GUEST => libc::F_UNLCK,
        _ => return Err(Errno::EINVAL),
    };
    bytes[..2].copy_from_slice(&(kind as u16).to_le_bytes());
    Ok(bytes)
}

fn flock_from_host(bytes: &mut [u8; 32]) {
    let kind = match i32::from(u16::from_le_bytes([bytes[0], bytes[1]])) {
        libc::F_RDLCK => 1u16,
        libc::F_WRLCK => 2,
        _ => F_UNLCK_GUEST,
    };
    bytes[..2].copy_from_slice(&kind.to_le_bytes());
}

/// fcntl.
pub fn fcntl(c: &mut Call<'_>) -> SysResult {
    let [fd, command, argument, ..] = c.a;
    let pass = |c: &Call<'_>, host: i32, argument: u64| {
        c.host(libc::SYS_fcntl, &[fd, host as u64, argument])
    };
    match command {
        // DUPFD, GETFD, SETFD, DUPFD_CLOEXEC, pipe sizes, seals, leases: generic.
        0..=2 | 1024..=1026 | 1030..=1034 => pass(c, command as i32, argument),
        3 => pass(c, libc::F_GETFL, 0).map(abi::open_flags_from_host),
        4 => pass(c, libc::F_SETFL, abi::open_flags_to_host(argument)),
        5 => pass(c, libc::F_SETOWN, argument),
        6 => pass(c, libc::F_GETOWN, 0),
        7..=9 | 36..=38 => {
            let host = match command {
                7 => libc::F_GETLK,
                8 => libc::F_SETLK,
                9 => libc::F_SETLKW,
                36 => libc::F_OFD_GETLK,
                37 => libc::F_OFD_SETLK,
                _ => libc::F_OFD_SETLKW,
            };
            let mut lock = flock_to_host(c, argument)?;
            let args = [fd, host as u64, lock.as_mut_ptr() as u64];
            let result = c.wait(libc::SYS_fcntl, &args)?;
            if host == libc::F_GETLK || host == libc::F_OFD_GETLK {
                flock_from_host(&mut lock);
                c.write(argument, &lock)?;
            }
            Ok(result)
        }
        10 => pass(c, 10, abi::signal_to_host(argument as i32) as u64),
        11 => pass(c, 11, 0).map(|signal| abi::signal_from_host(signal as i32) as u64),
        15 | 16 => {
            let at = c.buf(argument, 8)?;
            pass(c, command as i32, at)
        }
        1035..=1038 => {
            let at = c.buf(argument, 8)?;
            pass(c, command as i32, at)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// Host addresses of the three sets of select.
pub fn fd_sets(c: &Call<'_>) -> Result<[u64; 3], Errno> {
    // As many as the host has room for at most; what is below 0 it refuses.
    let count = (c.a[0] as i32).clamp(0, MAX_FILES as i32) as u64;
    let bytes = count.div_ceil(64) * 8;
    Ok([c.arg(1, bytes)?, c.arg(2, bytes)?, c.arg(3, bytes)?])
}

/// select: the timeout is written back, as by the kernel.
pub fn select(c: &mut Call<'_>) -> SysResult {
    let sets = fd_sets(c)?;
    c.wait(libc::SYS_select, &[c.a[0], sets[0], sets[1], sets[2], c.arg(4, 16)?])
}

/// The pollfds of poll and ppoll: their host address and number.
fn poll_fds(c: &Call<'_>) -> Result<[u64; 2], Errno> {
    let count = c.a[1] & 0xffff_ffff;
    if count > MAX_FILES {
        return Err(Errno::EINVAL);
    }
    Ok([c.opt(c.a[0], count * 8)?, count])
}

/// poll.
pub fn poll(c: &mut Call<'_>) -> SysResult {
    let [at, count] = poll_fds(c)?;
    c.wait(libc::SYS_poll, &[at, count, c.a[2]])
}

/// Waits under another signal mask: what ppoll, pselect6 and epoll_pwait have in common.
fn masked(
    c: &mut Call<'_>,
    mask_at: u64,
    wait: impl FnOnce(&Call<'_>, Option<&u64>) -> SysResult,
) -> SysResult {
    if mask_at == 0 {
        return wait(c, None);
    }
    let mask = c.read_u64(mask_at)? & !(1 << 8 | 1 << 16);
    let old = std::mem::replace(&mut c.linux.task.mask, mask);
    let host = super::host::without_faults(abi::mask_to_host(mask));
    let result =
        if c.linux.has_deliverable() { Err(Errno::INTERRUPTED) } else { wait(c, Some(&host)) };
    if result == Err(Errno::INTERRUPTED) {
        // The handler runs under the temporary mask and returns to the old one.
        c.linux.task.saved_mask = Some(old);
    } else {
        c.linux.task.mask = old;
    }
    result
}

/// ppoll.
pub fn ppoll(c: &mut Call<'_>) -> SysResult {
    let [_, _, timeout, mask, ..] = c.a;
    let [at, count] = poll_fds(c)?;
    let timeout = c.opt(timeout, 16)?;
    masked(c, mask, |c, mask| {
        let mask = mask.map_or(0, |m| &raw const *m as u64);
        c.wait(libc::SYS_ppoll, &[at, count, timeout, mask, 8])
    })
}

/// pselect6: the sixth argument points to (mask, size).
pub fn pselect6(c: &mut Call<'_>) -> SysResult {
    let sets = fd_sets(c)?;
    let timeout = c.arg(4, 16)?;
    let mask_at = if c.a[5] == 0 { 0 } else { c.read_u64(c.a[5])? };
    let count = c.a[0];
    masked(c, mask_at, |c, mask| {
        let pair = [mask.map_or(0, |m| &raw const *m as u64), 8];
        c.wait(
            libc::SYS_pselect6,
            &[count, sets[0], sets[1], sets[2], timeout, pair.as_ptr() as u64],
        )
    })
}

/// epoll_ctl: Alpha's event is not packed (16 bytes), the host's is (12).
pub fn epoll_ctl(c: &mut Call<'_>) -> SysResult {
    let [epfd, op, fd, event, ..] = c.a;
    let mut host = [0u8; 12];
    if event != 0 {
        let guest = c.read::<16>(event)?;
        host[..4].copy_from_slice(&guest[..4]);
        host[4..].copy_from_slice(&guest[8..]);
    }
    let at = if event == 0 { 0 } else { host.as_ptr() as u64 };
    c.host(libc::SYS_epoll_ctl, &[epfd, op, fd, at])
}

fn epoll(c: &mut Call<'_>, mask_at: u64, nr: i64, timeout: u64) -> SysResult {
    let [epfd, to, max, ..] = c.a;
    if max as i32 <= 0 {
        return Err(Errno::EINVAL);
    }
    let max = max.min(4096);
    let mut events = vec![[0u8; 12]; max as usize];
    let at = events.as_mut_ptr() as u64;
    let count = masked(c, mask_at, |c, mask| {
        let mask = mask.map_or(0, |m| &raw const *m as u64);
        c.wait(nr, &[epfd, at, max, timeout, mask, 8])
    })?;
    for (i, event) in events.iter().take(count as usize).enumerate() {
        let mut out = Layout::<16>::new();
        out.bytes(0, &event[..4]);
        out.bytes(8, &event[4..]);
        c.write(to + 16 * i as u64, &out.0)?;
    }
    Ok(count)
}

/// epoll_wait.
pub fn epoll_wait(c: &mut Call<'_>) -> SysResult {
    epoll(c, 0, libc::SYS_epoll_pwait, c.a[3])
}

/// epoll_pwait.
pub fn epoll_pwait(c: &mut Call<'_>) -> SysResult {
    epoll(c, c.a[4], libc::SYS_epoll_pwait, c.a[3])
}

/// epoll_pwait2: the timeout is a timespec.
pub fn epoll_pwait2(c: &mut Call<'_>) -> SysResult {
    let timeout = c.arg(3, 16)?;
    epoll(c, c.a[4], libc::SYS_epoll_pwait2, timeout)
}

/// signalfd and signalfd4: the siginfo it reads carries the host's numbers (a known difference).
pub fn signalfd(c: &mut Call<'_>, flags: u64) -> SysResult {
    let mask = abi::mask_to_host(c.read_u64(c.a[1])?);
    let flags = abi::fd_flags_to_host(flags)?;
    c.host(libc::SYS_signalfd4, &[c.a[0], &raw const mask as u64, 8, flags])
}

/// sendfile and splice-like calls: offsets are optional quadwords.
pub fn sendfile(c: &mut Call<'_>) -> SysResult {
    c.wait(libc::SYS_sendfile, &[c.a[0], c.a[1], c.arg(2, 8)?, c.a[3]])
}

/// splice and copy_file_range: `(in, *offset, out, *offset, length, flags)`.
pub fn splice(c: &mut Call<'_>, nr: i64) -> SysResult {
    c.wait(nr, &[c.a[0], c.arg(1, 8)?, c.a[2], c.arg(3, 8)?, c.a[4], c.a[5]])
}
