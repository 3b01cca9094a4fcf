//! brk, mmap and relatives: flags and errors here, the work in [`AddressSpace`].
//!
//! [`AddressSpace`]: crate::mem::AddressSpace

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;

use super::abi::map;
use super::call::Call;
use super::errno::{Errno, SysResult};
use super::process::lock;
use crate::mem::{
    Advice, Backing, MapError, MapRequest, PAGE_SIZE, Place, Prot, RemapPlace, WINDOW_SIZE,
};

impl From<MapError> for Errno {
    fn from(error: MapError) -> Self {
        error.errno().into()
    }
}

fn page_up(value: u64) -> Option<u64> {
    Some(value.checked_add(PAGE_SIZE - 1)? & !(PAGE_SIZE - 1))
}

fn prot(bits: u64) -> Result<Prot, Errno> {
    // PROT_SEM 8 is accepted and means nothing; GROWSDOWN and GROWSUP are refused.
    if bits & !0xf != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(Prot::from_bits_truncate(bits as u8 & 7))
}

/// RLIMIT_AS and RLIMIT_DATA of the guest, which the host cannot keep for it: whether `more` bytes
/// still fit when what lies in `[start, end)` is replaced. `data`: private and writable.
fn fits(c: &Call<'_>, more: u64, data: bool, replaced: (u64, u64)) -> bool {
    let process = &c.linux.process;
    let limit = |resource: u32| process.remembered_limit(resource.into()).unwrap_or(u64::MAX);
    let (space, for_data) = (limit(libc::RLIMIT_AS), limit(libc::RLIMIT_DATA));
    if space == u64::MAX && (for_data == u64::MAX || !data) {
        return true;
    }
    // The stack is mapped whole, unlike the kernel's, and left out.
    let stack = |name: &std::ffi::OsStr| name == "[stack]";
    let regions = c.vcpu.mem.regions();
    let counted = regions.iter().filter(|r| !r.name.as_deref().is_some_and(stack));
    let (mut all, mut private) = (more, if data { more } else { 0 });
    for r in counted {
        let gone = r.end.min(replaced.1).saturating_sub(r.start.max(replaced.0));
        let size = r.end - r.start - gone;
        all = all.saturating_add(size);
        if !r.shared && r.prot.contains(Prot::WRITE) {
            private = private.saturating_add(size);
        }
    }
    all <= space && private <= for_data
}

/// brk: 0 asks; a failure is ENOMEM, unlike on other ports.
pub fn brk(c: &mut Call<'_>) -> SysResult {
    let wanted = c.a[0];
    let mut brk = lock(&c.linux.process.brk);
    if wanted == 0 {
        return Ok(brk.now);
    }
    if wanted < brk.start || wanted > WINDOW_SIZE {
        return Err(Errno::ENOMEM);
    }
    let (old, new) = (page_up(brk.now), page_up(wanted));
    let (Some(old), Some(new)) = (old, new) else { return Err(Errno::ENOMEM) };
    let mem = &c.vcpu.mem;
    if new > old {
        if !fits(c, new - old, true, (0, 0)) {
            return Err(Errno::ENOMEM);
        }
        let request = MapRequest::anonymous(new - old, Prot::READ | Prot::WRITE)
            .at(Place::FixedNoReplace(old))
            .named("[heap]");
        mem.map(&request).map_err(|_| Errno::ENOMEM)?;
    } else if new < old {
        mem.unmap(new, old - new).map_err(|_| Errno::ENOMEM)?;
    }
    brk.now = wanted;
    Ok(wanted)
}

/// mmap: all six arguments, the offset in bytes.
pub fn mmap(c: &mut Call<'_>) -> SysResult {
    let [addr, len, protection, flags, fd, offset] = c.a;
    let shared = match flags & map::TYPE {
        map::SHARED | map::SHARED_VALIDATE => true,
        map::PRIVATE => false,
        _ => return Err(Errno::EINVAL),
    };
    if offset % PAGE_SIZE != 0 {
        return Err(Errno::EINVAL);
    }
    let place = if flags & map::FIXED_NOREPLACE != 0 {
        Place::FixedNoReplace(addr)
    } else if flags & map::FIXED != 0 {
        Place::Fixed(addr)
    } else {
        Place::Anywhere(addr)
    };
    let mut request = MapRequest::anonymous(len, prot(protection & 7)?).at(place);
    request.shared = shared;
    let replaced = match place {
        Place::Fixed(at) => (at, at.saturating_add(len)),
        _ => (0, 0),
    };
    let data = !shared && request.prot.contains(Prot::WRITE);
    if !fits(c, page_up(len).unwrap_or(u64::MAX), data, replaced) {
        return Err(Errno::ENOMEM);
    }
    request.no_reserve = flags & 0x10000 != 0;
    request.populate = flags & 0x20000 != 0;
    if flags & map::ANONYMOUS == 0 {
        let fd = fd as i32;
        if fd < 0 {
            return Err(Errno::EBADF);
        }
        // The name is for /proc/self/maps; a descriptor that is not open fails in the mapping.
        request.name = std::fs::read_link(format!("/proc/self/fd/{fd}"))
            .ok()
            .map(|path| OsString::from_vec(path.into_os_string().into_vec()).into());
        if request.name.is_none() {
            return Err(Errno::EBADF);
        }
        let fd = super::host::borrow_fd(fd);
        return map_file(c, request, fd, offset);
    }
    Ok(c.vcpu.mem.map(&request)?)
}

fn map_file(c: &Call<'_>, request: MapRequest<'_>, fd: BorrowedFd<'_>, offset: u64) -> SysResult {
    let request = MapRequest { backing: Backing::File { fd, offset }, ..request };
    Ok(c.vcpu.mem.map(&request)?)
}

/// munmap.
pub fn munmap(c: &mut Call<'_>) -> SysResult {
    c.vcpu.mem.unmap(c.a[0], c.a[1])?;
    Ok(0)
}

/// mprotect.
pub fn mprotect(c: &mut Call<'_>) -> SysResult {
    let protection = prot(c.a[2])?;
    if !c.a[0].is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    if c.a[1] == 0 {
        return Ok(0);
    }
    c.vcpu.mem.protect(c.a[0], c.a[1], protection)?;
    Ok(0)
}

/// mremap.
pub fn mremap(c: &mut Call<'_>) -> SysResult {
    let [addr, old, new, flags, to, _] = c.a;
    let place = match flags {
        0 => RemapPlace::InPlace,
        1 => RemapPlace::MayMove,
        3 => RemapPlace::Fixed(to),
        _ => return Err(Errno::EINVAL),
    };
    let more = new.saturating_sub(old);
    let private = c.vcpu.mem.region_at(addr).is_some_and(|r| !r.shared);
    if more > 0 && !fits(c, page_up(more).unwrap_or(u64::MAX), private, (0, 0)) {
        return Err(Errno::ENOMEM);
    }
    Ok(c.vcpu.mem.remap(addr, old, new, place)?)
}

/// madvise.
pub fn madvise(c: &mut Call<'_>) -> SysResult {
    let Some(advice) = advice(c.a[2]) else { return Err(Errno::EINVAL) };
    if c.a[1] == 0 {
        return Ok(0);
    }
    c.vcpu.mem.advise(c.a[0], c.a[1], advice)?;
    Ok(0)
}

/// Checks a range of pages and gives its host address: for calls that the host does alone.
fn pages(c: &Call<'_>) -> Result<[u64; 2], Errno> {
    let [addr, len, ..] = c.a;
    if addr % PAGE_SIZE != 0 {
        return Err(Errno::EINVAL);
    }
    let len = page_up(len).ok_or(Errno::ENOMEM)?;
    Ok([c.buf(addr, len).map_err(|_| Errno::ENOMEM)?, len])
}

/// msync: MS_ASYNC 1, MS_SYNC 2, MS_INVALIDATE 4.
pub fn msync(c: &mut Call<'_>) -> SysResult {
    let [at, len] = pages(c)?;
    let flags = c.a[2];
    if flags & !7 != 0 || flags & 3 == 3 {
        return Err(Errno::EINVAL);
    }
    let mut host = 0;
    for (bit, flag) in [(1, libc::MS_ASYNC), (2, libc::MS_SYNC), (4, libc::MS_INVALIDATE)] {
        if flags & bit != 0 {
            host |= flag as u64;
        }
    }
    c.host(libc::SYS_msync, &[at, len, host])
}

/// mlock and mlock2.
pub fn mlock(c: &mut Call<'_>) -> SysResult {
    let [at, len] = pages(c)?;
    c.host(libc::SYS_mlock, &[at, len])
}

/// munlock.
pub fn munlock(c: &mut Call<'_>) -> SysResult {
    let [at, len] = pages(c)?;
    c.host(libc::SYS_munlock, &[at, len])
}

/// mincore: one byte per guest page, from two of the host's.
pub fn mincore(c: &mut Call<'_>) -> SysResult {
    let [at, len] = pages(c)?;
    // In parts: the range may be the whole window.
    const PART: u64 = 64 << 20;
    let mut host = vec![0u8; (len.min(PART) / 4096) as usize];
    for done in (0..len).step_by(PART as usize) {
        let part = (len - done).min(PART);
        c.host(libc::SYS_mincore, &[at + done, part, host.as_mut_ptr() as u64])?;
        let pairs = host[..(part / 4096) as usize].chunks(2);
        let guest: Vec<u8> = pairs.map(|pair| pair.iter().fold(0, |a, b| a | b) & 1).collect();
        c.write(c.a[2].wrapping_add(done / PAGE_SIZE), &guest)?;
    }
    Ok(0)
}

/// Numbers of madvise: DONTNEED is 6 on Alpha; from 8 on they are generic. What only tunes the
/// host and has no counterpart in the list is accepted as normal.
fn advice(value: u64) -> Option<Advice> {
    Some(match value {
        0 | 5 | 10..=13 | 16 | 17 | 20..=23 => Advice::Normal,
        1 => Advice::Random,
        2 => Advice::Sequential,
        3 => Advice::WillNeed,
        6 => Advice::DontNeed,
        8 => Advice::Free,
        9 => Advice::Remove,
        14 => Advice::HugePage,
        15 => Advice::NoHugePage,
        18 => Advice::WipeOnFork,
        19 => Advice::KeepOnFork,
        _ => return None,
    })
}
