//! `axplab run --cache DIR`: keeps translations of a program in a file, for its next run.
//!
//! What is in such a file will be executed. So it is believed only if it is signed with the user's secret
//! (HMAC-SHA256), was written by this very build of axplab on a host with the same features, for the program
//! of this path, and lies in a folder that is the user's alone. Everything else is refused with a warning,
//! and the run goes on without it. `docs/jit.md` has the format, `docs/isolation.md` what a guest may do to it.

mod secret;

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use axp_emu::linux::Aside;
use axp_jit::cache::{Library, MOST_BYTES, host_features};
use hmac::{Hmac, Mac};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

const MAGIC: &[u8; 8] = b"AXPKEPT1";
/// Magic, build, features, length.
const HEADER: usize = 8 + 32 + 32 + 8;
const SIGNATURE: usize = 32;
/// Bytes of all files in a folder: the oldest make room.
const MOST_IN_FOLDER: u64 = 512 << 20;
/// How long a confined process waits for the one that writes.
const PATIENCE: Duration = Duration::from_secs(10);
const EXTENSION: &str = ".kept";

/// What code in a file was made by and for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    build: [u8; 32],
    features: [u8; 32],
}

/// The translations of one program and the file that they are kept in.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    secret_place: PathBuf,
    secret: [u8; secret::SIZE],
    identity: Identity,
    /// Of the file.
    name: String,
    library: Arc<Library>,
    /// The file as it was read: device, inode, time of change.
    read: Option<Stamp>,
    process: u32,
    /// Who writes the file, if not this process.
    aside: Option<Aside>,
}

type Stamp = (u64, u64, i64, i64);

impl Cache {
    /// The cache of `program` in `folder`, which is made if need be. `None`, after a warning, where nothing
    /// can be kept there; what is there but does not fit is warned of and will be written anew.
    pub fn open(folder: &Path, program: &Path) -> Option<Self> {
        let opened = secret::place()
            .context("no folder for the secret: HOME is not set")
            .and_then(|place| Self::open_with(folder, program, place, Identity::this()?));
        match opened {
            Ok(cache) => Some(cache),
            Err(error) => {
                eprintln!("axplab: --cache is not used: {error:#}");
                None
            }
        }
    }

    fn open_with(
        folder: &Path,
        program: &Path,
        secret_place: PathBuf,
        identity: Identity,
    ) -> anyhow::Result<Self> {
        // Whatever the guest makes of the current folder. Without a slash at the end a link is none to follow.
        let folder: PathBuf = std::path::absolute(folder)?.components().collect();
        let open = || open_folder(&folder).with_context(|| format!("`{}`", folder.display()));
        let directory = match open() {
            Err(error) if error.downcast_ref::<Errno>() == Some(&Errno::NOENT) => {
                let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
                made.with_context(|| format!("cannot make `{}`", folder.display()))?;
                open()?
            }
            opened => opened?,
        };
        let secret = secret::read(&secret_place)?;
        let program = std::fs::canonicalize(program)?;
        let name = file_name(&secret, &program);
        let mut cache = Cache {
            folder,
            secret_place,
            secret,
            identity,
            name,
            library: Arc::default(),
            read: None,
            process: std::process::id(),
            aside: None,
        };
        let (library, read) = match cache.read(&directory) {
            Ok(Some((library, stamp))) => (library, Some(stamp)),
            Ok(None) => (Library::new(), None),
            Err(error) => {
                let path = cache.folder.join(&cache.name);
                eprintln!("axplab: --cache: `{}` is not used: {error:#}", path.display());
                (Library::new(), None)
            }
        };
        (cache.library, cache.read) = (Arc::new(library), read);
        Ok(cache)
    }

    /// What engines use and add to.
    pub fn library(&self) -> Arc<Library> {
        self.library.clone()
    }

    /// What the guest's own calls must not reach.
    pub fn private(&self) -> Vec<PathBuf> {
        vec![self.folder.clone(), self.secret_place.clone()]
    }

    /// Refuses paths by which a confined guest would reach the files or the secret.
    pub fn keep_from<'a>(&self, paths: impl Iterator<Item = &'a PathBuf>) -> anyhow::Result<()> {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let own = [real(&self.folder), real(&self.secret_place)];
        for path in paths {
            let reached = real(path);
            ensure!(
                !own.iter().any(|own| own.starts_with(&reached) || reached.starts_with(own)),
                "--cache: the sandboxed program could reach `{}` or the secret by `{}`",
                self.folder.display(),
                path.display()
            );
        }
        Ok(())
    }

    /// Writes the file if there is something new: whoever reads it meanwhile gets the old one or the new
    /// one whole. Of what another run has written since, nothing is lost. A forked child keeps nothing.
    pub fn keep(&self) -> anyhow::Result<()> {
        if std::process::id() != self.process {
            return Ok(());
        }
        let Some(body) = self.library.to_bytes() else { return Ok(()) };
        match &self.aside {
            None => self.write(&body),
            Some(aside) => {
                ensure!(
                    aside.give(&body, PATIENCE),
                    "the process that writes them does not answer"
                );
                Ok(())
            }
        }
    }

    /// Has a process aside write, since this one is going to be confined. It must have one thread.
    pub fn write_aside(self) -> anyhow::Result<Self> {
        let work = |body: &[u8]| {
            // Whoever gave it has no way to tell of it any more.
            let _ = self.write(body);
        };
        let aside = Some(Aside::start(MOST_BYTES, work).context("--cache: no process aside")?);
        Ok(Cache { aside, ..self })
    }

    fn write(&self, body: &[u8]) -> anyhow::Result<()> {
        let directory = open_folder(&self.folder)?;
        let mut bytes = self.sign(body);
        if self.stamp(&directory) != self.read
            && let Ok(Some((theirs, _))) = self.read(&directory)
            && let Some(mine) = Library::from_bytes(body.to_vec())
        {
            bytes = self.sign(&mine.joined(&theirs));
        }
        // A guest's limit is no reason to end by SIGXFSZ.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        ensure!(
            limit.is_none_or(|limit| limit >= bytes.len() as u64),
            "the file would be too large"
        );
        make_room(&directory, &self.name, bytes.len() as u64)?;
        let new = format!(".{}-{}", self.name, std::process::id());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let _ = rustix::fs::unlinkat(&directory, &new, AtFlags::empty());
        let file = rustix::fs::openat(&directory, &new, flags, Mode::RUSR | Mode::WUSR)?;
        let written = rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)
            .map_err(std::io::Error::from)
            .and_then(|()| File::from(file).write_all(&bytes))
            .and_then(|()| Ok(rustix::fs::renameat(&directory, &new, &directory, &self.name)?));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&directory, &new, AtFlags::empty());
        }
        Ok(written?)
    }

    fn stamp(&self, directory: &OwnedFd) -> Option<Stamp> {
        let stat = rustix::fs::statat(directory, &self.name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((stat.st_dev, stat.st_ino, stat.st_mtime, stat.st_mtime_nsec as i64))
    }

    /// Reads the file, if there is one.
    fn read(&self, directory: &OwnedFd) -> anyhow::Result<Option<(Library, Stamp)>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(directory, &self.name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => bail!("it is a symbolic link"),
            Err(error) => return Err(error.into()),
        };
        let stat = rustix::fs::fstat(&file)?;
        secret::is_own(&stat, FileType::RegularFile, 0o600)?;
        ensure!(stat.st_nlink == 1, "it has another name");
        let most = MOST_BYTES + HEADER + SIGNATURE;
        ensure!(stat.st_size <= most as i64, "it is too large");
        let mut bytes = Vec::with_capacity(stat.st_size as usize);
        file.take(most as u64 + 1).read_to_end(&mut bytes)?;
        let stamp = (stat.st_dev, stat.st_ino, stat.st_mtime, stat.st_mtime_nsec as i64);
        Ok(Some((self.open_signed(bytes)?, stamp)))
    }

    fn signature(&self) -> Hmac<Sha256> {
        let mut mac = keyed(&self.secret);
        // So that no program's file serves another.
        mac.update(self.name.as_bytes());
        mac
    }

    fn sign(&self, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + body.len() + SIGNATURE);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.identity.build);
        bytes.extend_from_slice(&self.identity.features);
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(body);
        let signature = self.signature().chain_update(&bytes).finalize().into_bytes();
        bytes.extend_from_slice(&signature);
        bytes
    }

    fn open_signed(&self, mut bytes: Vec<u8>) -> anyhow::Result<Library> {
        let signed = bytes.len().checked_sub(SIGNATURE).filter(|&len| len >= HEADER);
        let signed = signed.context("it is cut off")?;
        let signature = self.signature().chain_update(&bytes[..signed]);
        let authentic = signature.verify_slice(&bytes[signed..]).is_ok();
        ensure!(authentic, "it was changed, or not signed with your secret");
        let mut rest = &bytes[..HEADER];
        let mut field = |len: usize| {
            let (field, others) = rest.split_at(len);
            rest = others;
            field
        };
        ensure!(field(8) == MAGIC, "its format is another");
        ensure!(field(32) == self.identity.build, "another build of axplab has made it");
        ensure!(field(32) == self.identity.features, "it was made for another processor");
        let len = (signed - HEADER) as u64;
        ensure!(field(8) == len.to_le_bytes(), "its length is wrong");
        bytes.truncate(signed);
        bytes.drain(..HEADER);
        Library::from_bytes(bytes).context("its contents are damaged")
    }
}

fn keyed(secret: &[u8]) -> Hmac<Sha256> {
    // Keys of any length are fine.
    <Hmac<Sha256> as Mac>::new_from_slice(secret)
        .unwrap_or_else(|_| unreachable!("HMAC takes any key"))
}

/// The name of a program's file, which tells nothing of the program.
fn file_name(secret: &[u8], program: &Path) -> String {
    let mac = keyed(secret).chain_update(b"program").chain_update(program.as_os_str().as_bytes());
    let digest = mac.finalize().into_bytes();
    let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    hex + EXTENSION
}

/// Opens the folder, which must be the user's alone.
fn open_folder(path: &Path) -> anyhow::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::LOOP | Errno::NOTDIR) => {
            bail!("it is a symbolic link or no folder; name the folder itself")
        }
        Err(error) => return Err(anyhow!(error)),
    };
    secret::is_own(&rustix::fs::fstat(&folder)?, FileType::Directory, 0o700)?;
    Ok(folder)
}

/// Removes the oldest files of translations until `bytes` more fit, but not the one that is to be replaced.
fn make_room(directory: &OwnedFd, own: &str, bytes: u64) -> anyhow::Result<()> {
    let mut files: Vec<(i64, u64, OsString)> = Vec::new();
    for entry in Dir::read_from(directory.as_fd())? {
        let name = OsString::from(std::ffi::OsStr::from_bytes(entry?.file_name().to_bytes()));
        // With what was left of runs that were killed.
        let kept = name.to_string_lossy().contains(EXTENSION) && name != own;
        if let Ok(stat) = rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW)
            && kept
        {
            files.push((stat.st_mtime, stat.st_size as u64, name));
        }
    }
    files.sort();
    let mut total = bytes + files.iter().map(|file| file.1).sum::<u64>();
    for (_, size, name) in files {
        if total <= MOST_IN_FOLDER {
            break;
        }
        rustix::fs::unlinkat(directory, &name, AtFlags::empty())?;
        total -= size;
    }
    Ok(())
}

impl Identity {
    /// This program's and this host's.
    fn this() -> anyhow::Result<Self> {
        let features = Sha256::digest(host_features()).into();
        Ok(Identity { build: build().context("this program's own file")?, features })
    }
}

/// A number that is another for each build: the linker's, a hash of all code; without it a hash of the file.
fn build() -> anyhow::Result<[u8; 32]> {
    // The link leads to the file even if another has taken its name.
    let mut file = File::open("/proc/self/exe")?;
    let mut hash = Sha256::new();
    hash.update(env!("CARGO_PKG_VERSION"));
    match linkers_number(&file) {
        Some(number) => hash.update(number),
        None => {
            std::io::copy(&mut file, &mut hash)?;
        }
    }
    Ok(hash.finalize().into())
}

fn linkers_number(file: &File) -> Option<Vec<u8>> {
    use object::read::elf::{FileHeader, ProgramHeader};
    use object::{LittleEndian, ReadCache, elf};
    let cache = ReadCache::new(file);
    let header = elf::FileHeader64::<LittleEndian>::parse(&cache).ok()?;
    for segment in header.program_headers(LittleEndian, &cache).ok()? {
        let Ok(Some(mut notes)) = segment.notes(LittleEndian, &cache) else { continue };
        while let Ok(Some(note)) = notes.next() {
            let id = note.n_type(LittleEndian) == elf::NT_GNU_BUILD_ID;
            if id && note.name() == elf::ELF_NOTE_GNU && note.desc().len() >= 8 {
                return Some(note.desc().to_vec());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
