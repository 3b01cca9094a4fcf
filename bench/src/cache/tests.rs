//! Files of translations: what is believed and what is refused.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

const HERE: Identity = Identity { build: [1; 32], features: [2; 32] };

/// One record: its length, its key, its contents.
fn body(contents: &[u8]) -> Vec<u8> {
    let mut bytes = (contents.len() as u32).to_le_bytes().to_vec();
    bytes.extend([1; 13]);
    bytes.extend(contents);
    bytes
}

struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let lab = Lab { dir: tempfile::tempdir().unwrap() };
        for program in ["one", "two"] {
            fs::write(lab.path(program), "").unwrap();
        }
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn open_as(&self, program: &str, identity: Identity) -> anyhow::Result<Cache> {
        let secret = self.path("home").join("secret");
        Cache::open_with(&self.path("kept"), &self.path(program), secret, identity)
    }

    /// A cache in whose file something has been written.
    fn written(&self) -> (Cache, PathBuf) {
        let cache = self.open_as("one", HERE).unwrap();
        cache.write(&body(b"code")).unwrap();
        let file = cache.folder.join(&cache.name);
        (cache, file)
    }
}

/// Why a cache refuses its file.
fn refusal(cache: &Cache) -> String {
    let folder = open_folder(&cache.folder).unwrap();
    format!("{:#}", cache.read(&folder).expect_err("the file was believed"))
}

#[test]
fn what_was_written_is_read_again_by_the_same() {
    let lab = Lab::new();
    let (cache, file) = lab.written();
    assert!(cache.library().is_empty());
    assert!(!lab.open_as("one", HERE).unwrap().library().is_empty());
    assert!(lab.open_as("two", HERE).unwrap().library().is_empty());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&cache.folder), mode(&file)), (0o700, 0o600));
    assert_eq!(fs::read_dir(&cache.folder).unwrap().count(), 1);
}

#[test]
fn what_another_run_has_written_meanwhile_is_not_lost() {
    let lab = Lab::new();
    let (first, second) = (lab.open_as("one", HERE).unwrap(), lab.open_as("one", HERE).unwrap());
    first.write(&body(b"code")).unwrap();
    second.write(&body(b"other code")).unwrap();
    let folder = open_folder(&first.folder).unwrap();
    let (both, _) = first.read(&folder).unwrap().unwrap();
    let most = [body(b"other code"), body(b"code")].concat();
    assert_eq!(both.joined(&Library::new()), most);
}

#[test]
fn a_bit_that_was_changed_anywhere_is_noticed() {
    let lab = Lab::new();
    let (cache, file) = lab.written();
    let bytes = fs::read(&file).unwrap();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&file, changed).unwrap();
        let why = refusal(&cache);
        assert!(why.contains("it was changed"), "byte {at}: {why}");
    }
    for len in 0..bytes.len() {
        fs::write(&file, &bytes[..len]).unwrap();
        refusal(&cache);
    }
    fs::write(&file, [&bytes[..], &[0]].concat()).unwrap();
    refusal(&cache);
    // It is written anew, and then believed again.
    assert!(lab.open_as("one", HERE).unwrap().library().is_empty());
    lab.written();
    assert!(!lab.open_as("one", HERE).unwrap().library().is_empty());
}

#[test]
fn what_was_signed_by_or_for_somebody_else_is_refused() {
    let lab = Lab::new();
    let (cache, file) = lab.written();
    let other = |build, features| lab.open_as("one", Identity { build, features }).unwrap();
    assert!(refusal(&other([9; 32], [2; 32])).contains("another build"));
    assert!(refusal(&other([1; 32], [9; 32])).contains("another processor"));
    // Another program's file under this one's name.
    let two = lab.open_as("two", HERE).unwrap();
    fs::rename(&file, two.folder.join(&two.name)).unwrap();
    assert!(refusal(&two).contains("not signed"));
    let (cache, file) = (cache, lab.written().1);
    fs::remove_file(&cache.secret_place).unwrap();
    let stranger = lab.open_as("one", HERE).unwrap();
    fs::rename(&file, stranger.folder.join(&stranger.name)).unwrap();
    assert!(refusal(&stranger).contains("not signed"));
}

#[test]
fn files_that_others_may_have_their_hands_in_are_refused() {
    let lab = Lab::new();
    let (cache, file) = lab.written();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o620)).unwrap();
    assert!(refusal(&cache).contains("mode is 620"));
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    fs::hard_link(&file, lab.path("second")).unwrap();
    assert!(refusal(&cache).contains("another name"));
    fs::remove_file(&file).unwrap();
    symlink(lab.path("second"), &file).unwrap();
    assert!(refusal(&cache).contains("symbolic link"));
    // A link is replaced, not written through.
    let before = fs::read(lab.path("second")).unwrap();
    cache.write(&body(b"new code")).unwrap();
    assert_eq!(fs::read(lab.path("second")).unwrap(), before);
    assert!(!lab.open_as("one", HERE).unwrap().library().is_empty());
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(refusal(&cache).contains("no more"));
}

#[test]
fn a_folder_that_is_not_the_users_alone_is_refused() {
    let lab = Lab::new();
    let (cache, _) = lab.written();
    let refused = |say: &str| {
        let error = format!("{:#}", lab.open_as("one", HERE).unwrap_err());
        assert!(error.contains(say), "{error}");
    };
    for mode in [0o755, 0o770, 0o1700, 0o500] {
        fs::set_permissions(&cache.folder, PermissionsExt::from_mode(mode)).unwrap();
        refused(&format!("mode is {mode:o}"));
        assert!(cache.write(&body(b"code")).is_err());
    }
    fs::set_permissions(&cache.folder, PermissionsExt::from_mode(0o700)).unwrap();
    fs::rename(&cache.folder, lab.path("real")).unwrap();
    symlink(lab.path("real"), &cache.folder).unwrap();
    refused("symbolic link");
    let secret = lab.path("home").join("secret");
    let slash = lab.path("kept/");
    assert!(Cache::open_with(&slash, &lab.path("one"), secret, HERE).is_err(), "followed a link");
    fs::remove_file(&cache.folder).unwrap();
    fs::write(&cache.folder, "").unwrap();
    refused("no folder");
}

#[test]
fn somebody_elses_folder_is_refused() {
    let lab = Lab::new();
    let kept = lab.path("kept");
    fs::create_dir(&kept).unwrap();
    fs::set_permissions(&kept, PermissionsExt::from_mode(0o700)).unwrap();
    // Only root can give it away.
    let Ok(()) = std::os::unix::fs::chown(&kept, Some(12345), None) else { return };
    let error = format!("{:#}", lab.open_as("one", HERE).unwrap_err());
    assert!(error.contains("not yours"), "{error}");
}

#[test]
fn a_sandbox_that_would_hold_the_folder_or_the_secret_is_refused() {
    let lab = Lab::new();
    let cache = lab.open_as("one", HERE).unwrap();
    let (root, inside) = (lab.path(""), cache.folder.join("x"));
    fs::write(&inside, "").unwrap();
    for path in [&root, &cache.folder, &inside, &lab.path("home"), &cache.secret_place] {
        assert!(cache.keep_from([path].into_iter()).is_err(), "{}", path.display());
    }
    assert!(cache.keep_from([&lab.path("one"), &lab.path("kep")].into_iter()).is_ok());
}

#[test]
fn the_oldest_files_make_room_for_new_ones() {
    let lab = Lab::new();
    let (cache, file) = lab.written();
    let folder = open_folder(&cache.folder).unwrap();
    let old = cache.folder.join("old.kept");
    fs::File::create(&old).unwrap().set_len(MOST_IN_FOLDER).unwrap();
    fs::write(cache.folder.join("notes"), "mine").unwrap();
    make_room(&folder, &cache.name, 0).unwrap();
    assert!(old.exists());
    make_room(&folder, &cache.name, 1).unwrap();
    assert!(!old.exists() && file.exists() && cache.folder.join("notes").exists());
}

#[test]
fn a_build_has_a_number_of_its_own() {
    let this = Identity::this().unwrap();
    assert_eq!(Identity::this().unwrap(), this);
    assert_ne!(this.build, HERE.build);
    // The linker gives one: hashing the whole file each time would take long.
    assert!(linkers_number(&File::open("/proc/self/exe").unwrap()).is_some());
}
