//! Builds busybox for Alpha, dynamically linked, from the source that Debian keeps, and of it an initial
//! RAM disk with a shell, for `axplab boot` and its tests. Called by `kernel`.
//!
//! What the shell's test is to print is made here, too: by the same programs under qemu-alpha.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest, Sha256};

use crate::guests_build;
use crate::kernel::{Archive, CROSS, folder, run};

/// The upstream archive of Debian's source package, and its hash.
const SOURCE: &str = "http://deb.debian.org/debian/pool/main/b/busybox/busybox_1.35.0.orig.tar.bz2";
const SHA256: &str = "faeeb244c35a348a334f4a59e44626ee870fb07b6884d68c10ae8bc19f83a694";
/// Where the cross compiler's libraries are, under the name that qemu-alpha is told.
const SYSROOT: &str = "/usr/alpha-linux-gnu";
/// What a dynamically linked program of busybox needs.
const LIBRARIES: [&str; 4] = ["ld-linux.so.2", "libc.so.6.1", "libm.so.6.1", "libresolv.so.2.1"];

/// Builds `busybox.cpio` and `commands.txt`, unless the program is there: then only these.
pub fn build(jobs: usize) -> Result<()> {
    let tree = folder().join("busybox");
    if !tree.join("busybox").exists() || !tree.join("busybox.links").exists() {
        compile(&tree, jobs)?;
    }
    let links = fs::read_to_string(tree.join("busybox.links"))?;
    let archive = folder().join("busybox.cpio");
    fs::write(&archive, ram_disk(&tree.join("busybox"), &links)?)?;
    println!("{}", archive.display());
    let golden = folder().join("commands.txt");
    fs::write(&golden, reference(&tree.join("busybox"), &links)?)?;
    println!("{}", golden.display());
    Ok(())
}

/// Fetches the archive, once, and says what is wrong with it.
fn fetch() -> Result<PathBuf> {
    let archive = folder().join("busybox.tar.bz2");
    if !archive.exists() {
        let partial = folder().join("busybox.partial");
        run(Command::new("curl").args(["-fsSL", "--retry", "3", "-o"]).arg(&partial).arg(SOURCE))?;
        fs::rename(&partial, &archive)?;
    }
    let hash = Sha256::digest(fs::read(&archive)?);
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(hash == SHA256, "{} is not the source that is asked for: {hash}", archive.display());
    Ok(archive)
}

fn compile(tree: &Path, jobs: usize) -> Result<()> {
    let archive = fetch()?;
    if tree.exists() {
        fs::remove_dir_all(tree)?;
    }
    fs::create_dir_all(tree)?;
    run(Command::new("tar")
        .args(["--extract", "--strip-components=1", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(tree))?;
    let make = |arguments: &[&str]| {
        let mut make = Command::new("make");
        make.current_dir(tree).args(["--silent", "ARCH=alpha"]).args(arguments);
        // It asks where its default configuration leaves something open, and takes the default.
        make.arg(format!("CROSS_COMPILE={CROSS}")).stdin(Stdio::null());
        let log = fs::File::create(tree.join("build.log"))?;
        make.stdout(log.try_clone()?).stderr(log);
        run(&mut make).with_context(|| format!("see {}", tree.join("build.log").display()))
    };
    make(&["defconfig"])?;
    let path = tree.join(".config");
    let config = fs::read_to_string(&path)?
        // Its sources are older than the headers of today's kernels.
        .replace("CONFIG_TC=y", "# CONFIG_TC is not set")
        // awk's arithmetic.
        .replace("CONFIG_EXTRA_CFLAGS=\"\"", "CONFIG_EXTRA_CFLAGS=\"-mieee\"");
    fs::write(&path, config)?;
    make(&["-j", &jobs.to_string(), "busybox"])?;
    make(&["busybox.links"])
}

/// The RAM disk: busybox under all its names, its libraries, the scripts.
fn ram_disk(busybox: &Path, links: &str) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for name in ["bin", "dev", "etc", "lib", "proc", "root", "sbin", "sys", "tmp", "usr"] {
        archive.add(name, 0o040_755, (0, 0), &[]);
    }
    for name in ["usr/bin", "usr/sbin"] {
        archive.add(name, 0o040_755, (0, 0), &[]);
    }
    archive.add("dev/console", 0o020_600, (5, 1), &[]);
    archive.add("bin/busybox", 0o100_755, (0, 0), &fs::read(busybox)?);
    for link in links.lines().filter_map(|line| line.trim().strip_prefix('/')) {
        // Those outside the folders above are for systems that boot by them.
        if link.contains('/') && link != "bin/busybox" {
            archive.add(link, 0o120_777, (0, 0), b"/bin/busybox");
        }
    }
    for name in LIBRARIES {
        let path = Path::new(SYSROOT).join("lib").join(name);
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        archive.add(&format!("lib/{name}"), 0o100_755, (0, 0), &bytes);
    }
    let scripts = [("init", "init.sh"), ("commands", "commands.sh"), ("parallel", "parallel.sh")];
    for (name, file) in scripts {
        let text = fs::read(guests_build::folder().join("boot").join(file))?;
        archive.add(name, 0o100_755, (0, 0), &text);
    }
    Ok(archive.finish())
}

/// What the commands print under qemu-alpha, which runs each program by itself.
fn reference(busybox: &Path, links: &str) -> Result<Vec<u8>> {
    let scratch = tempfile::tempdir()?;
    let (bin, work) = (scratch.path().join("bin"), scratch.path().join("work"));
    fs::create_dir(&bin)?;
    fs::create_dir(&work)?;
    let busybox = busybox.display();
    let qemu = qemu()?;
    let qemu = qemu.display();
    for name in links.lines().filter_map(|line| line.trim().rsplit('/').next()) {
        let launcher = bin.join(name);
        let text = format!("#!/bin/sh\nexec {qemu} -L {SYSROOT} -0 {name} {busybox} \"$@\"\n");
        fs::write(&launcher, text)?;
        fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755))?;
    }
    let output = Command::new(bin.join("ash"))
        .arg(guests_build::folder().join("boot/commands.sh"))
        .current_dir(&work)
        .env_clear()
        .env("PATH", &bin)
        .envs([("HOME", "/"), ("TZ", "UTC"), ("LC_ALL", "C")])
        .stdin(Stdio::null())
        .output()
        .context("the commands under qemu-alpha")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        text.ends_with("commands: 200\n"),
        "the commands did not end under qemu-alpha:\n{text}"
    );
    Ok(output.stdout)
}

/// Where qemu-alpha is: the commands find nothing but themselves.
fn qemu() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("qemu-alpha"));
    found.into_iter().find(|p| p.exists()).context("qemu-alpha is not there: Debian's qemu-user")
}
