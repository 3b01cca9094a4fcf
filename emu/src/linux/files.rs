//! Calls that name files: open, stat, links, directories, ownership, times.

use std::ffi::CString;

use super::abi;
use super::call::Call;
use super::errno::{Errno, SysResult};
use super::host;
use super::procfs::{self, Special};

const AT_FDCWD: u64 = libc::AT_FDCWD as u64;

/// openat and, with AT_FDCWD, open.
fn open_at(c: &mut Call<'_>, dir: u64, path: u64, flags: u64, mode: u64) -> SysResult {
    let guest = c.guest_path(path)?;
    let host_flags = abi::open_flags_to_host(flags);
    match procfs::special(&c.linux.process, &guest) {
        Some(Special::Refused(errno)) => return Err(errno),
        Some(Special::Bytes(bytes)) => {
            if flags & 3 != 0 {
                return Err(Errno::EACCES);
            }
            return procfs::memory_file(&bytes, host_flags & libc::O_CLOEXEC as u64 != 0);
        }
        None => {}
    }
    let path = c.linux.process.host_path_at(dir, &guest);
    c.linux.process.private.check(dir, &path)?;
    let fd = c.wait(libc::SYS_openat, &[dir, path.as_ptr() as u64, host_flags, mode])?;
    procfs::check_opened(&c.linux.process, fd, host_flags)
}

/// open.
pub fn open(c: &mut Call<'_>) -> SysResult {
    open_at(c, AT_FDCWD, c.a[0], c.a[1], c.a[2])
}

/// openat.
pub fn openat(c: &mut Call<'_>) -> SysResult {
    open_at(c, c.a[0], c.a[1], c.a[2], c.a[3])
}

/// openat2: struct open_how of flags, mode, resolve.
pub fn openat2(c: &mut Call<'_>) -> SysResult {
    let [dir, path, how, size, ..] = c.a;
    if size < 24 {
        return Err(Errno::EINVAL);
    }
    let (flags, mode, resolve) = (c.read_u64(how)?, c.read_u64(how + 8)?, c.read_u64(how + 16)?);
    if resolve != 0 {
        let path = CString::new(c.guest_path(path)?).map_err(|_| Errno::EINVAL)?;
        c.linux.process.private.check(dir, &path)?;
        let how = [abi::open_flags_to_host(flags), mode, resolve];
        let args = [dir, path.as_ptr() as u64, how.as_ptr() as u64, 24];
        let fd = c.wait(libc::SYS_openat2, &args)?;
        return procfs::check_opened(&c.linux.process, fd, how[0]);
    }
    open_at(c, dir, path, flags, mode)
}

/// The host's stat of a path.
fn stat_path(c: &Call<'_>, dir: u64, path: u64, flags: u64) -> Result<libc::stat, Errno> {
    let guest = c.guest_path(path)?;
    let path = match flags & NOFOLLOW {
        0 => c.linux.process.host_path_at(dir, &guest),
        _ => c.linux.process.host_path(&guest),
    };
    host::fill(libc::SYS_newfstatat, |p| [dir, path.as_ptr() as u64, p, flags, 0, 0])
}

fn stat_fd(fd: u64) -> Result<libc::stat, Errno> {
    host::fill(libc::SYS_fstat, |p| [fd, p, 0, 0, 0, 0])
}

const NOFOLLOW: u64 = libc::AT_SYMLINK_NOFOLLOW as u64;

/// stat64.
pub fn stat64(c: &mut Call<'_>) -> SysResult {
    let st = stat_path(c, AT_FDCWD, c.a[0], 0)?;
    c.write(c.a[1], &abi::stat64(&st))?;
    Ok(0)
}

/// lstat64.
pub fn lstat64(c: &mut Call<'_>) -> SysResult {
    let st = stat_path(c, AT_FDCWD, c.a[0], NOFOLLOW)?;
    c.write(c.a[1], &abi::stat64(&st))?;
    Ok(0)
}

/// fstat64.
pub fn fstat64(c: &mut Call<'_>) -> SysResult {
    let st = stat_fd(c.a[0])?;
    c.write(c.a[1], &abi::stat64(&st))?;
    Ok(0)
}

/// fstatat64.
pub fn fstatat64(c: &mut Call<'_>) -> SysResult {
    let st = stat_path(c, c.a[0], c.a[1], c.a[3])?;
    c.write(c.a[2], &abi::stat64(&st))?;
    Ok(0)
}

/// stat with longword device numbers.
pub fn stat(c: &mut Call<'_>) -> SysResult {
    let st = stat_path(c, AT_FDCWD, c.a[0], 0)?;
    c.write(c.a[1], &abi::stat_old(&st))?;
    Ok(0)
}

/// lstat with longword device numbers.
pub fn lstat(c: &mut Call<'_>) -> SysResult {
    let st = stat_path(c, AT_FDCWD, c.a[0], NOFOLLOW)?;
    c.write(c.a[1], &abi::stat_old(&st))?;
    Ok(0)
}

/// fstat with longword device numbers.
pub fn fstat(c: &mut Call<'_>) -> SysResult {
    let st = stat_fd(c.a[0])?;
    c.write(c.a[1], &abi::stat_old(&st))?;
    Ok(0)
}

/// statx: the layout is the same everywhere.
pub fn statx(c: &mut Call<'_>) -> SysResult {
    let guest = c.guest_path(c.a[1])?;
    let path = c.linux.process.host_path_at(c.a[0], &guest);
    let to = c.buf(c.a[4], 256)?;
    c.host(libc::SYS_statx, &[c.a[0], path.as_ptr() as u64, c.a[2], c.a[3], to])
}

fn statfs_of(c: &Call<'_>, path: bool) -> Result<libc::statfs, Errno> {
    if path {
        let path = c.path(0)?;
        return host::fill(libc::SYS_statfs, |p| [path.as_ptr() as u64, p, 0, 0, 0, 0]);
    }
    let fd = c.a[0];
    host::fill(libc::SYS_fstatfs, |p| [fd, p, 0, 0, 0, 0])
}

/// statfs.
pub fn statfs(c: &mut Call<'_>) -> SysResult {
    let st = statfs_of(c, true)?;
    c.write(c.a[1], &abi::statfs(&st))?;
    Ok(0)
}

/// fstatfs.
pub fn fstatfs(c: &mut Call<'_>) -> SysResult {
    let st = statfs_of(c, false)?;
    c.write(c.a[1], &abi::statfs(&st))?;
    Ok(0)
}

/// statfs64: (path, size, buffer).
pub fn statfs64(c: &mut Call<'_>) -> SysResult {
    let st = statfs_of(c, true)?;
    if c.a[1] != 88 {
        return Err(Errno::EINVAL);
    }
    c.write(c.a[2], &abi::statfs64(&st))?;
    Ok(0)
}

/// fstatfs64.
pub fn fstatfs64(c: &mut Call<'_>) -> SysResult {
    let st = statfs_of(c, false)?;
    if c.a[1] != 88 {
        return Err(Errno::EINVAL);
    }
    c.write(c.a[2], &abi::statfs64(&st))?;
    Ok(0)
}

fn read_link(c: &mut Call<'_>, dir: u64, path: u64, to: u64, size: u64) -> SysResult {
    let guest = c.guest_path(path)?;
    if (size as i32) <= 0 {
        return Err(Errno::EINVAL);
    }
    let path = c.linux.process.host_path(&guest);
    if procfs::own(&guest).is_some_and(|rest| rest == b"exe") || procfs::is_own_exe(dir, &path) {
        let name = c.linux.process.exe_name.clone();
        let len = name.len().min(size as usize);
        c.write(to, &name[..len])?;
        return Ok(len as u64);
    }
    let to = c.buf(to, size)?;
    c.host(libc::SYS_readlinkat, &[dir, path.as_ptr() as u64, to, size])
}

/// readlink.
pub fn readlink(c: &mut Call<'_>) -> SysResult {
    read_link(c, AT_FDCWD, c.a[0], c.a[1], c.a[2])
}

/// readlinkat.
pub fn readlinkat(c: &mut Call<'_>) -> SysResult {
    read_link(c, c.a[0], c.a[1], c.a[2], c.a[3])
}

/// A call of the shape `(path, ...)` whose other arguments are plain numbers.
pub fn path_first(c: &mut Call<'_>, nr: i64) -> SysResult {
    let path = c.path(0)?;
    c.host(nr, &[path.as_ptr() as u64, c.a[1], c.a[2], c.a[3]])
}

/// A call of the shape `(dirfd, path, ...)` whose other arguments are plain numbers.
pub fn path_second(c: &mut Call<'_>, nr: i64) -> SysResult {
    let path = c.path_from(c.a[0], 1)?;
    c.host(nr, &[c.a[0], path.as_ptr() as u64, c.a[2], c.a[3], c.a[4]])
}

/// A call of the shape `(path, path)`.
pub fn two_paths(c: &mut Call<'_>, nr: i64) -> SysResult {
    let (from, to) = (c.path(0)?, c.path(1)?);
    c.host(nr, &[from.as_ptr() as u64, to.as_ptr() as u64])
}

/// A call of the shape `(dirfd, path, dirfd, path, flags)`.
pub fn two_paths_at(c: &mut Call<'_>, nr: i64) -> SysResult {
    let (from, to) = (c.path_from(c.a[0], 1)?, c.path_from(c.a[2], 3)?);
    c.host(nr, &[c.a[0], from.as_ptr() as u64, c.a[2], to.as_ptr() as u64, c.a[4]])
}

/// symlink: the first string is contents, not a path to translate.
pub fn symlink(c: &mut Call<'_>) -> SysResult {
    let contents = CString::new(c.guest_path(c.a[0])?).map_err(|_| Errno::EINVAL)?;
    let path = c.path(1)?;
    c.host(libc::SYS_symlink, &[contents.as_ptr() as u64, path.as_ptr() as u64])
}

/// symlinkat.
pub fn symlinkat(c: &mut Call<'_>) -> SysResult {
    let contents = CString::new(c.guest_path(c.a[0])?).map_err(|_| Errno::EINVAL)?;
    let path = c.path_from(c.a[1], 2)?;
    c.host(libc::SYS_symlinkat, &[contents.as_ptr() as u64, c.a[1], path.as_ptr() as u64])
}

/// truncate may wait for a lease.
pub fn truncate(c: &mut Call<'_>) -> SysResult {
    let path = c.path(0)?;
    c.wait(libc::SYS_truncate, &[path.as_ptr() as u64, c.a[1]])
}

/// getcwd: the length with its terminator.
pub fn getcwd(c: &mut Call<'_>) -> SysResult {
    c.host(libc::SYS_getcwd, &[c.buf(c.a[0], c.a[1])?, c.a[1]])
}

/// utimensat: path may be NULL.
pub fn utimensat(c: &mut Call<'_>) -> SysResult {
    let path = if c.a[1] == 0 { None } else { Some(c.path_from(c.a[0], 1)?) };
    let path = path.as_ref().map_or(0, |p| p.as_ptr() as u64);
    c.host(libc::SYS_utimensat, &[c.a[0], path, c.arg(2, 32)?, c.a[3]])
}

/// utimes.
pub fn utimes(c: &mut Call<'_>) -> SysResult {
    let path = c.path(0)?;
    c.host(libc::SYS_utimes, &[path.as_ptr() as u64, c.arg(1, 32)?])
}

/// futimesat.
pub fn futimesat(c: &mut Call<'_>) -> SysResult {
    let path = c.path_from(c.a[0], 1)?;
    c.host(libc::SYS_futimesat, &[c.a[0], path.as_ptr() as u64, c.arg(2, 32)?])
}

/// getdents64: the layout is the same everywhere.
pub fn getdents64(c: &mut Call<'_>) -> SysResult {
    c.host(libc::SYS_getdents64, &[c.a[0], c.buf(c.a[1], c.a[2])?, c.a[2]])
}

/// Extended attributes: `(path or fd, name, value, size, flags)`.
pub fn xattr(c: &mut Call<'_>, nr: i64, by_path: bool) -> SysResult {
    let path = if by_path { Some(c.path(0)?) } else { None };
    let first = path.as_ref().map_or(c.a[0], |p| p.as_ptr() as u64);
    let name = CString::new(c.string(c.a[1], 256)?).map_err(|_| Errno::EINVAL)?;
    let value = c.opt(c.a[2], c.a[3])?;
    c.host(nr, &[first, name.as_ptr() as u64, value, c.a[3], c.a[4]])
}

/// listxattr and relatives: `(path or fd, list, size)`.
pub fn list_xattr(c: &mut Call<'_>, nr: i64, by_path: bool) -> SysResult {
    let path = if by_path { Some(c.path(0)?) } else { None };
    let first = path.as_ref().map_or(c.a[0], |p| p.as_ptr() as u64);
    c.host(nr, &[first, c.opt(c.a[1], c.a[2])?, c.a[2]])
}

/// inotify_add_watch.
pub fn inotify_add_watch(c: &mut Call<'_>) -> SysResult {
    let path = c.path(1)?;
    c.host(libc::SYS_inotify_add_watch, &[c.a[0], path.as_ptr() as u64, c.a[2]])
}

/// memfd_create: MFD_ flags are generic.
pub fn memfd_create(c: &mut Call<'_>) -> SysResult {
    let name = CString::new(c.string(c.a[0], 256)?).map_err(|_| Errno::EINVAL)?;
    c.host(libc::SYS_memfd_create, &[name.as_ptr() as u64, c.a[1]])
}
