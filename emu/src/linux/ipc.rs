//! System V shared memory, semaphores and messages. Structures are those of the 64-bit ABI, which
//! differ from the host's in the order of their fields.

use super::abi::Layout;
use super::call::Call;
use super::errno::{Errno, SysResult};
use super::host;
use super::process::lock;
use crate::mem::{MapRequest, PAGE_SIZE, Place, Prot};

const IPC_64: u64 = 0x100;
const IPC_RMID: u64 = 0;
const IPC_SET: u64 = 1;
const IPC_STAT: u64 = 2;
/// Operations in one call.
const SEMOPM: u64 = 500;
const SHM_RDONLY: u64 = 0o10000;
const SHM_RND: u64 = 0o20000;
const SHM_REMAP: u64 = 0o40000;

/// shmat: a place in the window is taken first, then the segment replaces it.
///
/// While it is looked at, the segment is attached outside the window as well: its number cannot
/// mean another, larger one then.
pub fn shmat(c: &mut Call<'_>) -> SysResult {
    let [id, _, flags, ..] = c.a;
    let held = c.host(libc::SYS_shmat, &[id, 0, flags & SHM_RDONLY])?;
    let result = attach(c);
    let _ = c.host(libc::SYS_shmdt, &[held]);
    result
}

fn attach(c: &Call<'_>) -> SysResult {
    let [id, addr, flags, ..] = c.a;
    let info = host::fill::<libc::shmid_ds>(libc::SYS_shmctl, |p| [id, IPC_STAT, p, 0, 0, 0])?;
    let size = info.shm_segsz as u64;
    let place = match addr {
        0 => Place::Anywhere(0),
        _ if addr % PAGE_SIZE == 0 || flags & SHM_RND != 0 => {
            let addr = addr & !(PAGE_SIZE - 1);
            if flags & SHM_REMAP != 0 { Place::Fixed(addr) } else { Place::FixedNoReplace(addr) }
        }
        _ => return Err(Errno::EINVAL),
    };
    let mut prot = Prot::READ;
    prot.set(Prot::WRITE, flags & SHM_RDONLY == 0);
    let request = MapRequest::anonymous(size, prot).at(place).shared().named("/SYSV");
    let at = c.vcpu.mem.map(&request).map_err(|error| match Errno::from(error) {
        Errno::EEXIST => Errno::EINVAL,
        other => other,
    })?;
    let host_at = c.buf(at, size)?;
    let host_flags = flags & SHM_RDONLY | SHM_REMAP;
    if let Err(errno) = c.host(libc::SYS_shmat, &[id, host_at, host_flags]) {
        let _ = c.vcpu.mem.unmap(at, size);
        return Err(errno);
    }
    lock(&c.linux.process.attached).insert(at, size);
    Ok(at)
}

/// shmdt: unmapping detaches.
pub fn shmdt(c: &mut Call<'_>) -> SysResult {
    let at = c.a[0];
    let size = lock(&c.linux.process.attached).remove(&at).ok_or(Errno::EINVAL)?;
    c.vcpu.mem.unmap(at, size)?;
    Ok(0)
}

/// ipc64_perm of 48 bytes: key, uid, gid, cuid, cgid, mode as longwords, seq at 24.
fn write_perm(out: &mut Layout<128>, perm: &libc::ipc_perm) {
    out.u32(0, perm.__key as u32);
    out.u32(4, perm.uid);
    out.u32(8, perm.gid);
    out.u32(12, perm.cuid);
    out.u32(16, perm.cgid);
    out.u32(20, u32::from(perm.mode));
    out.u32(24, u32::from(perm.__seq));
}

/// What IPC_SET takes from the guest: owner and mode.
fn read_perm(c: &Call<'_>, at: u64, perm: &mut libc::ipc_perm) -> Result<(), Errno> {
    let bytes = Layout(c.read::<48>(at)?);
    (perm.uid, perm.gid) = (bytes.get_u32(4), bytes.get_u32(8));
    perm.mode = bytes.get_u32(20) as u16;
    Ok(())
}

/// shmctl.
pub fn shmctl(c: &mut Call<'_>) -> SysResult {
    let [id, command, buffer, ..] = c.a;
    let stat = || host::fill::<libc::shmid_ds>(libc::SYS_shmctl, |p| [id, IPC_STAT, p, 0, 0, 0]);
    match command & !IPC_64 {
        IPC_RMID => c.host(libc::SYS_shmctl, &[id, IPC_RMID, 0]),
        IPC_STAT => {
            let info = stat()?;
            let mut out = Layout::<128>::new();
            write_perm(&mut out, &info.shm_perm);
            out.u64(48, info.shm_segsz as u64);
            out.u64(56, info.shm_atime as u64);
            out.u64(64, info.shm_dtime as u64);
            out.u64(72, info.shm_ctime as u64);
            out.u32(80, info.shm_cpid as u32);
            out.u32(84, info.shm_lpid as u32);
            out.u64(88, info.shm_nattch);
            c.write(buffer, &out.0[..112])?;
            Ok(0)
        }
        IPC_SET => {
            let mut info = stat()?;
            read_perm(c, buffer, &mut info.shm_perm)?;
            c.host(libc::SYS_shmctl, &[id, IPC_SET, &raw const info as u64])
        }
        11 | 12 => c.host(libc::SYS_shmctl, &[id, command & !IPC_64, 0]),
        _ => Err(Errno::EINVAL),
    }
}

/// semctl: GETPID 11, GETVAL 12, GETALL 13, GETNCNT 14, GETZCNT 15, SETVAL 16, SETALL 17.
pub fn semctl(c: &mut Call<'_>) -> SysResult {
    let [id, number, command, argument, ..] = c.a;
    let stat = || host::fill::<libc::semid_ds>(libc::SYS_semctl, |p| [id, 0, IPC_STAT, p, 0, 0]);
    match command & !IPC_64 {
        IPC_RMID => c.host(libc::SYS_semctl, &[id, 0, IPC_RMID]),
        IPC_STAT => {
            let info = stat()?;
            let mut out = Layout::<128>::new();
            write_perm(&mut out, &info.sem_perm);
            out.u64(48, info.sem_otime as u64);
            out.u64(56, info.sem_ctime as u64);
            out.u64(64, info.sem_nsems);
            c.write(argument, &out.0[..88])?;
            Ok(0)
        }
        IPC_SET => {
            let mut info = stat()?;
            read_perm(c, argument, &mut info.sem_perm)?;
            c.host(libc::SYS_semctl, &[id, 0, IPC_SET, &raw const info as u64])
        }
        13 | 17 => {
            let count = stat()?.sem_nsems;
            let at = c.buf(argument, 2 * count)?;
            c.host(libc::SYS_semctl, &[id, 0, command & !IPC_64, at])
        }
        11 | 12 | 14 | 15 | 16 => {
            c.host(libc::SYS_semctl, &[id, number, command & !IPC_64, argument])
        }
        _ => Err(Errno::EINVAL),
    }
}

/// semop and semtimedop: sembuf of six bytes is generic.
pub fn semop(c: &mut Call<'_>, timeout: u64) -> SysResult {
    // SEMOPM as the kernel has it; the host's may be larger, and would read beyond what is checked.
    if c.a[2] > SEMOPM {
        return Err(Errno::E2BIG);
    }
    let operations = c.buf(c.a[1], 6 * c.a[2])?;
    let timeout = c.opt(timeout, 16)?;
    c.wait(libc::SYS_semtimedop, &[c.a[0], operations, c.a[2], timeout])
}

/// msgsnd and msgrcv: a quadword of type, then the text.
pub fn message(c: &mut Call<'_>, nr: i64) -> SysResult {
    let [id, buffer, size, third, fourth, _] = c.a;
    let at = c.buf(buffer, size.checked_add(8).ok_or(Errno::EINVAL)?)?;
    c.wait(nr, &[id, at, size, third, fourth])
}

/// msgctl.
pub fn msgctl(c: &mut Call<'_>) -> SysResult {
    let [id, command, buffer, ..] = c.a;
    let stat = || host::fill::<libc::msqid_ds>(libc::SYS_msgctl, |p| [id, IPC_STAT, p, 0, 0, 0]);
    match command & !IPC_64 {
        IPC_RMID => c.host(libc::SYS_msgctl, &[id, IPC_RMID, 0]),
        IPC_STAT => {
            let info = stat()?;
            let mut out = Layout::<128>::new();
            write_perm(&mut out, &info.msg_perm);
            out.u64(48, info.msg_stime as u64);
            out.u64(56, info.msg_rtime as u64);
            out.u64(64, info.msg_ctime as u64);
            out.u64(72, info.__msg_cbytes);
            out.u64(80, info.msg_qnum);
            out.u64(88, info.msg_qbytes);
            out.u32(96, info.msg_lspid as u32);
            out.u32(100, info.msg_lrpid as u32);
            c.write(buffer, &out.0[..120])?;
            Ok(0)
        }
        IPC_SET => {
            let mut info = stat()?;
            read_perm(c, buffer, &mut info.msg_perm)?;
            info.msg_qbytes = c.read_u64(buffer + 88)?;
            c.host(libc::SYS_msgctl, &[id, IPC_SET, &raw const info as u64])
        }
        _ => Err(Errno::EINVAL),
    }
}
