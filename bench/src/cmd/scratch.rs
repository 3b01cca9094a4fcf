//! The folder in which rows that need a disk make their files: made when the first of them is
//! measured, removed with this value, whatever became of the programs. Used by `cmd/bench.rs`.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;

/// MiB that stay free beside what a row needs.
const MARGIN: u64 = 256;

/// The folder, once it is needed.
pub struct Scratch {
    place: Option<PathBuf>,
    folder: OnceCell<TempDir>,
}

impl Scratch {
    /// `place` is where the user wants it.
    pub fn new(place: Option<PathBuf>) -> Self {
        Self { place, folder: OnceCell::new() }
    }

    /// The folder, if `mib` of disk are free there; the inner error says why not.
    pub fn folder(&self, mib: u64) -> anyhow::Result<Result<PathBuf, String>> {
        let folder = match self.folder.get() {
            Some(folder) => folder,
            None => {
                let place = std::path::absolute(self.place())?;
                let made = tempfile::Builder::new().prefix("axplab-scratch-").tempdir_in(&place);
                let made = made.with_context(|| {
                    format!(
                        "cannot make files in `{}`; name another folder with --scratch",
                        place.display()
                    )
                })?;
                self.folder.get_or_init(|| made)
            }
        };
        Ok(room(folder.path(), mib).map(|()| folder.path().to_owned()))
    }

    /// /var/tmp lies on a disk where /tmp is often memory.
    fn place(&self) -> PathBuf {
        if let Some(place) = &self.place {
            return place.clone();
        }
        let disk = Path::new("/var/tmp");
        match std::env::var_os("TMPDIR").filter(|value| !value.is_empty()) {
            Some(place) => place.into(),
            None if disk.is_dir() => disk.to_owned(),
            None => std::env::temp_dir(),
        }
    }
}

fn room(folder: &Path, mib: u64) -> Result<(), String> {
    let stat =
        rustix::fs::statvfs(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize) >> 20;
    match free >= mib + MARGIN {
        true => Ok(()),
        false => Err(format!(
            "not measured: {mib} MiB are needed in `{}`, {free} are free; name another folder with --scratch",
            folder.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_once_and_removed() {
        let place = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(Some(place.path().to_owned()));
        let folder = scratch.folder(0).unwrap().unwrap();
        std::fs::write(folder.join("left"), "x").unwrap();
        assert_eq!(scratch.folder(0).unwrap().unwrap(), folder);
        assert!(scratch.folder(1 << 40).unwrap().unwrap_err().contains("are needed"));
        drop(scratch);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        let error = Scratch::new(Some("/nonexistent".into())).folder(0).unwrap_err();
        assert!(error.to_string().contains("--scratch"));
    }
}
