//! Builds Linux kernels for `axplab boot` and its tests: `cargo xtask kernel`. From Debian's source
//! package and the cross compiler, with configurations of `guest-programs/boot`; nothing that is built
//! is committed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::source::root;
use crate::{busybox, guests_build};

/// Where Debian's package puts the source.
const SOURCES: &str = "/usr/src/linux-source-6.1.tar.xz";
pub(crate) const CROSS: &str = "alpha-linux-gnu-";

/// The kernels by name; the configuration is `guest-programs/boot/NAME.config`.
pub const KERNELS: [&str; 4] = ["minimal", "generic", "smp", "devices"];

/// Where everything is built: `target/kernel`, with a folder for each kernel.
pub fn folder() -> PathBuf {
    root().join("target/kernel")
}

/// What to build, and from what.
#[derive(Debug, Clone)]
pub struct Wish {
    /// One of [`KERNELS`].
    pub kernel: String,
    /// The source, packed or unpacked.
    pub source: Option<PathBuf>,
    /// Compilations at a time.
    pub jobs: usize,
}

/// Builds a kernel and the initial RAM disks of the tests.
pub fn build(wish: &Wish) -> Result<()> {
    ensure!(
        KERNELS.contains(&wish.kernel.as_str()),
        "no kernel `{}`; there are {}",
        wish.kernel,
        KERNELS.join(", ")
    );
    fs::create_dir_all(folder())?;
    initramfs(&folder().join("initramfs.cpio"))?;
    busybox::build(wish.jobs)?;
    let source = unpacked(wish.source.as_deref())?;
    complete(&source)?;
    let build = folder().join(&wish.kernel);
    fs::create_dir_all(&build)?;
    let out = format!("O={}", build.display());
    let config = guests_build::folder().join(format!("boot/{}.config", wish.kernel));
    let make = |arguments: &[&str]| {
        let mut make = Command::new("make");
        make.current_dir(&source).args(["--silent", &out]).args(arguments);
        run(make.env("ARCH", "alpha").env("CROSS_COMPILE", CROSS))
    };
    make(&["tinyconfig"])?;
    let config = config.canonicalize().with_context(|| format!("{}", config.display()))?;
    run(Command::new("scripts/kconfig/merge_config.sh")
        .current_dir(&source)
        .args(["-m", "-O"])
        .arg(&build)
        .arg(build.join(".config"))
        .arg(config))?;
    make(&["olddefconfig"])?;
    make(&["-j", &wish.jobs.to_string(), "vmlinux"])?;
    println!("{}", build.join("vmlinux").display());
    Ok(())
}

/// Runs a command that has to succeed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// The folder of the source, which is unpacked once.
fn unpacked(source: Option<&Path>) -> Result<PathBuf> {
    let source = source.unwrap_or(Path::new(SOURCES));
    if source.is_dir() {
        return Ok(source.to_owned());
    }
    let tree = folder().join("source");
    if tree.join("Makefile").exists() {
        return Ok(tree);
    }
    ensure!(
        source.exists(),
        "`{}` is not there; install Debian's linux-source-6.1, bison, flex and bc, or name a source \
         by --source",
        source.display()
    );
    // Renamed when complete, so that an interrupted build starts afresh.
    let partial = folder().join("source.partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    fs::create_dir_all(&partial)?;
    run(Command::new("tar")
        .arg("--extract")
        .arg("--strip-components=1")
        .arg("--file")
        .arg(source)
        .arg("--directory")
        .arg(&partial))?;
    fs::rename(&partial, &tree)?;
    Ok(tree)
}

/// Two files that a kernel for one EV6 system includes and no version has: their routines are those of
/// the older processors.
fn complete(source: &Path) -> Result<()> {
    for name in ["strcat", "strncat"] {
        let path = source.join(format!("arch/alpha/lib/ev6-{name}.S"));
        if !path.exists() {
            fs::write(&path, format!("#include \"{name}.S\"\n"))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

/// The initial RAM disk of the tests: the first program, and the console that it speaks to.
pub fn initramfs(target: &Path) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let init = scratch.path().join("init");
    let output = Command::new(format!("{CROSS}gcc"))
        .args(["-O2", "-std=gnu17", "-nostdlib", "-static", "-ffreestanding", "-fno-builtin"])
        .args(["-fno-stack-protector", "-fno-tree-loop-distribute-patterns", "-mcpu=ev56", "-Wall"])
        .args(["-Wl,-e,_start", "-s", "-o"])
        .arg(&init)
        .arg(guests_build::folder().join("boot/init.c"))
        .output()
        .with_context(|| format!("cannot run {CROSS}gcc"))?;
    if !output.status.success() {
        bail!("init.c does not compile:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let mut archive = Archive::default();
    archive.add("dev", 0o040_755, (0, 0), &[]);
    archive.add("dev/console", 0o020_600, (5, 1), &[]);
    archive.add("init", 0o100_755, (0, 0), &fs::read(&init)?);
    fs::write(target, archive.finish()).with_context(|| target.display().to_string())
}

/// A cpio archive in the form that the kernel unpacks ("newc"): devices need no privilege this way.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a file, device, folder or, with its target for data, symbolic link.
    pub(crate) fn add(&mut self, name: &str, mode: u32, device: (u32, u32), data: &[u8]) {
        self.entries += 1;
        // Number, mode, user, group, links, time, size, device, its own device, length of name, sum.
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            data.len() as u32,
            0,
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(data);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }
}
