//! Files of the emulator's that a guest's own calls do not open, change or move.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::errno::Errno;
use super::host;

/// Files and folders, by what they are and not by their names.
#[derive(Clone, Debug, Default)]
pub struct Private(Vec<(u64, u64)>);

impl Private {
    /// These, and all that the folders among them hold.
    pub fn new(paths: &[PathBuf]) -> Self {
        Private(paths.iter().filter_map(|path| identity(path)).collect())
    }

    /// EACCES for a path from the directory `dir`, by whatever links, to one of them; a path to something
    /// that is not there yet is judged by its folder.
    pub fn check(&self, dir: u64, path: &CStr) -> Result<(), Errno> {
        if self.0.is_empty() {
            return Ok(());
        }
        let folder = match path.to_bytes().iter().rposition(|&byte| byte == b'/') {
            Some(0) => CString::from(c"/"),
            Some(end) => CString::new(&path.to_bytes()[..end]).unwrap_or_default(),
            None => CString::from(c"."),
        };
        let held =
            [(path, 0), (path, libc::O_NOFOLLOW), (&*folder, 0)].into_iter().any(|(at, how)| {
                let flags = (libc::O_PATH | libc::O_CLOEXEC | how) as u64;
                let Ok(fd) =
                    host::call(libc::SYS_openat, [dir, at.as_ptr() as u64, flags, 0, 0, 0])
                else {
                    return false;
                };
                let held = self.holds(fd);
                let _ = host::call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
                held
            });
        if held { Err(Errno::EACCES) } else { Ok(()) }
    }

    /// Whether what a descriptor stands for is one of them or lies in one.
    pub fn holds(&self, fd: u64) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let link = format!("/proc/self/fd/{fd}");
        let known = |path: &Path| identity(path).is_some_and(|id| self.0.contains(&id));
        known(link.as_ref()) || {
            let path = std::fs::read_link(link).unwrap_or_default();
            let is_path = path.as_os_str().as_bytes().first() == Some(&b'/');
            is_path && path.ancestors().skip(1).any(known)
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}
