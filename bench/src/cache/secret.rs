//! The user's secret, which only files of translations that this user's axplab has written are signed with.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Bytes of the secret.
pub const SIZE: usize = 32;

/// Where it is kept.
pub fn place() -> Option<PathBuf> {
    Some(crate::config::folder()?.join("cache-secret"))
}

/// Reads the secret, which is made if there is none yet.
pub fn read(path: &Path) -> anyhow::Result<[u8; SIZE]> {
    let what = || format!("the secret `{}`", path.display());
    match open(path) {
        Err(Errno::NOENT) => {
            make(path).with_context(what)?;
            check(open(path).with_context(what)?).with_context(what)
        }
        opened => check(opened.with_context(what)?).with_context(what),
    }
}

fn open(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::openat(CWD, path, flags, Mode::empty()).map(File::from)
}

fn check(mut file: File) -> anyhow::Result<[u8; SIZE]> {
    let stat = rustix::fs::fstat(&file)?;
    is_own(&stat, FileType::RegularFile, 0o600)?;
    ensure!(stat.st_nlink == 1, "it has another name");
    ensure!(stat.st_size == SIZE as i64, "it has not {SIZE} bytes");
    let mut secret = [0; SIZE];
    file.read_exact(&mut secret)?;
    Ok(secret)
}

/// Whether something is of this type and the user's alone, with this mode.
pub fn is_own(stat: &Stat, kind: FileType, mode: RawMode) -> anyhow::Result<()> {
    ensure!(FileType::from_raw_mode(stat.st_mode) == kind, "it is {kind:?} no more");
    ensure!(stat.st_uid == rustix::process::geteuid().as_raw(), "it is not yours");
    let found = stat.st_mode & 0o7777;
    ensure!(found == mode, "its mode is {found:o}, not {mode:o}");
    Ok(())
}

/// Makes a secret, in one step: of several that try it at once, one succeeds.
fn make(path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().context("it has no folder")?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let (mut secret, mut name) = ([0; SIZE], [0; 8]);
    for buffer in [&mut secret[..], &mut name] {
        let got = getrandom(&mut *buffer, GetRandomFlags::empty())?;
        ensure!(got == buffer.len(), "the host has no random numbers");
    }
    let new = folder.join(format!(".cache-secret-{:016x}", u64::from_le_bytes(name)));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let mut file = File::from(rustix::fs::openat(CWD, &new, flags, mode)?);
    let written = rustix::fs::fchmod(&file, mode)
        .map_err(std::io::Error::from)
        .and_then(|()| file.write_all(&secret))
        .and_then(|()| file.sync_all())
        .and_then(|()| match rustix::fs::linkat(CWD, &new, CWD, path, AtFlags::empty()) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        });
    let removed = std::fs::remove_file(&new);
    written?;
    Ok(removed?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn it_is_made_once_and_kept_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("secret");
        let secret = read(&path).unwrap();
        assert_eq!(read(&path).unwrap(), secret);
        assert_ne!(secret, [0; SIZE]);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        let other = folder.path().join("other");
        assert_ne!(read(&other).unwrap(), secret);
    }

    #[test]
    fn what_others_may_know_is_refused_and_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let secret = read(&path).unwrap();
        let refused = |say: &str| {
            let error = format!("{:#}", read(&path).unwrap_err());
            assert!(error.contains(say), "{error}");
        };
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        refused("mode is 640");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let second = folder.path().join("second");
        std::fs::hard_link(&path, &second).unwrap();
        refused("another name");
        std::fs::remove_file(&path).unwrap();
        symlink(&second, &path).unwrap();
        refused("symbolic links");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&second, &secret[1..]).unwrap();
        std::fs::rename(&second, &path).unwrap();
        refused("32 bytes");
    }
}
