//! What the end-to-end tests share: a folder with engines of its own, which outside tools there are, and where
//! Alpha's libraries lie.
#![allow(dead_code, reason = "each test program uses a part")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The cross compiler.
pub const COMPILER: &str = "alpha-linux-gnu-gcc";

/// Whether a test has its tool. Without it the test says by name that it is skipped, past the harness;
/// where tools are required that is a failure.
pub fn has(tool: &str, test: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        assert!(std::env::var_os("AXPLAB_REQUIRE_TOOLS").is_none(), "{test} needs {tool}");
        eprintln!("skipped: {test} needs {tool}");
    }
    found
}

/// The folder of the kernels, if these files were built.
pub fn kernels_with(files: &[&str]) -> Option<PathBuf> {
    let named = std::env::var_os("AXPLAB_KERNELS").map(PathBuf::from);
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/kernel");
    let folder = named.unwrap_or(here);
    let Some(missing) = files.iter().find(|file| !folder.join(file).exists()) else {
        return Some(folder);
    };
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("skipped: {test} needs {missing} in {}: `cargo xtask kernel`", folder.display());
    None
}

/// The folder of the kernels, if the small ones were built; they have to be where tools are required.
pub fn kernels() -> Option<PathBuf> {
    let folder = kernels_with(&[
        "minimal/vmlinux",
        "smp/vmlinux",
        "initramfs.cpio",
        "busybox.cpio",
        "commands.txt",
    ]);
    let required = std::env::var_os("AXPLAB_REQUIRE_TOOLS").is_some();
    assert!(folder.is_some() || !required, "a kernel is required: `cargo xtask kernel`");
    folder
}

/// Root of the files that a dynamically linked guest needs.
pub fn sysroot() -> String {
    std::env::var("AXPLAB_SYSROOT").unwrap_or_else(|_| "/usr/alpha-linux-gnu".to_owned())
}

/// Output that is text.
pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A folder of its own: commands run in `out`, and `tmp`, for temporary files, must be empty in the end.
pub struct Folder {
    dir: tempfile::TempDir,
}

impl Folder {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        fs::write(dir.path().join("config.toml"), "").unwrap();
        Self { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Adds an engine by its command line.
    pub fn engine(&self, name: &str, run: &str) {
        let config = self.path("config.toml");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(config, format!("{text}[engine.{name}]\nrun = '''{run}'''\n")).unwrap();
    }

    /// Adds an engine that runs a shell script with the arguments ROW REPS SIZE.
    pub fn scripted(&self, name: &str, script: &str) {
        let file = self.path(&format!("{name}.sh"));
        fs::write(&file, script).unwrap();
        self.engine(name, &format!("sh '{}' {{args}}", file.display()));
    }

    /// A program of this text.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// The catalogue's result of a row at its full size.
    pub fn checksum(&self, row: &str) -> String {
        let list: Value = serde_json::from_slice(&self.run(&["list", "--json"]).stdout).unwrap();
        let rows = list["rows"].as_array().unwrap();
        let row = rows.iter().find(|entry| entry["name"] == row).unwrap();
        row["checksums"][row["size"].to_string()].as_str().unwrap().to_owned()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.within(Command::new(env!("CARGO_BIN_EXE_axplab")));
        command.args(args);
        command
    }

    /// The command in this folder and its environment.
    pub fn within(&self, mut command: Command) -> Command {
        command
            .current_dir(self.path("out"))
            .env("TMPDIR", self.path("tmp"))
            .env("XDG_CONFIG_HOME", self.path("no-config"))
            .env("AXPLAB_CONFIG", self.path("config.toml"))
            .env_remove("AXPLAB_SYSROOT")
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub fn record(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path("out").join(name)).unwrap()).unwrap()
    }

    /// Files left in the working folder, and none in the temporary one.
    pub fn left(&self) -> Vec<String> {
        assert_eq!(names(&self.path("tmp")), [""; 0], "temporary files are left");
        names(&self.path("out"))
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
