//! Builds the prebuilt guest ELF files with the Alpha cross compiler: `cargo xtask guests`
//! writes them and their hashes, `cargo xtask guests --check` and the tests only compare.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context, Result, bail};
use axp_guests::{Catalogue, Elf, Program, sha256_hex};

/// How every part of the executive is compiled.
const EXECUTIVE_FLAGS: [&str; 10] = [
    "-O2",
    "-std=gnu17",
    "-ffreestanding",
    "-nostdlib",
    "-static",
    "-fno-pic",
    "-fno-builtin",
    "-fno-tree-loop-distribute-patterns",
    "-mcpu=ev56",
    "-Wall",
];

/// The run-time that every guest is linked with, below `guest-programs`.
const RUNTIME: [&str; 4] = ["rt/crt0.S", "rt/div.S", "rt/mini.c", "rt/lab.c"];

/// The `guest-programs` folder of this checkout.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-programs")
}

/// What the cross compiler found on this machine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CrossCompiler {
    /// The recorded version: builds are byte for byte comparable.
    Recorded,
    /// Another version; both lines are the first of `--version`.
    Other {
        /// What the catalogue records.
        recorded: String,
        /// What is installed.
        found: String,
    },
    /// Not installed.
    Missing,
}

/// Looks for the cross compiler and compares its and its linker's version with the record.
pub fn cross_compiler(catalogue: &Catalogue) -> Result<CrossCompiler> {
    let tools = &catalogue.toolchain;
    let linker = tools.command.replace("gcc", "ld");
    for (command, recorded) in [(&tools.command, &tools.compiler), (&linker, &tools.linker)] {
        let found = match Command::new(command).arg("--version").output() {
            Ok(output) => String::from_utf8_lossy(&output.stdout).lines().next().map(String::from),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(CrossCompiler::Missing),
            Err(e) => return Err(e).with_context(|| format!("cannot run {command}")),
        };
        let found = found.unwrap_or_default();
        if found != *recorded {
            return Ok(CrossCompiler::Other { recorded: recorded.clone(), found });
        }
    }
    Ok(CrossCompiler::Recorded)
}

/// Compiles one build of one program to `target`.
pub fn compile(catalogue: &Catalogue, program: &Program, elf: &Elf, target: &Path) -> Result<()> {
    let tools = &catalogue.toolchain;
    // Relative paths and a fixed directory: nothing of this machine enters the file.
    let output = Command::new(&tools.command)
        .current_dir(folder())
        .args(&catalogue.flags.common)
        .args(&catalogue.flags.guest)
        .arg(format!("-mcpu={}", elf.cpu))
        .args(["-I", "rt", "-o"])
        .arg(target)
        .args(RUNTIME)
        .arg(&program.source)
        .args(&program.also)
        .output()
        .with_context(|| format!("cannot run {}", tools.command))?;
    if !output.status.success() {
        bail!("{} does not compile:\n{}", elf.file, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Compiles a hosted C program of `guest-programs/c` (name without `.c`) for Alpha, against
/// glibc, with further `flags` such as `-static`; tests do this when they run, since such files
/// are not committed.
pub fn compile_hosted(
    catalogue: &Catalogue,
    name: &str,
    flags: &[&str],
    target: &Path,
) -> Result<()> {
    let command = &catalogue.toolchain.command;
    let output = Command::new(command)
        .args(["-O2", "-std=gnu17", "-mieee"])
        .args(flags)
        .arg("-o")
        .arg(target)
        .arg(folder().join("c").join(format!("{name}.c")))
        .arg("-lm")
        .output()
        .with_context(|| format!("cannot run {command}"))?;
    if !output.status.success() {
        bail!("{name}.c does not compile:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Compiles the executive: its parts by name, since its linker script places them by that.
fn compile_executive(catalogue: &Catalogue, scratch: &Path, target: &Path) -> Result<()> {
    let tools = &catalogue.toolchain;
    let source = folder().join("exec");
    let build = |args: &[&str], files: &[PathBuf], to: &Path| -> Result<()> {
        let output = Command::new(&tools.command)
            .current_dir(&source)
            .args(EXECUTIVE_FLAGS)
            .args(args)
            .args(files)
            .arg("-o")
            .arg(to)
            .output()
            .with_context(|| format!("cannot run {}", tools.command))?;
        if !output.status.success() {
            bail!("the executive: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    };
    let mut objects = Vec::new();
    for part in ["start.S", "kernel.c", "rms.c", "dcl.c", "user.c", "../rt/div.S"] {
        let name = Path::new(part).file_name().context("a file's name")?;
        let object = scratch.join(name).with_extension("o");
        build(&["-c"], &[PathBuf::from(part)], &object)?;
        objects.push(object);
    }
    // Its functions' names stay, for profiles.
    build(
        &["-Wl,--build-id=none", "-Wl,-z,max-page-size=8192", "-Wl,-T,exec.ld", "-Wl,-S"],
        &objects,
        target,
    )
}

/// Rebuilds every guest; with `check`, only compares with the committed files.
pub fn guests(check: bool) -> Result<()> {
    let folder = folder();
    let paths = Catalogue::FILES.map(|file| folder.join(file));
    let mut texts = Vec::new();
    for path in &paths {
        texts.push(fs::read_to_string(path).with_context(|| path.display().to_string())?);
    }
    let catalogue = Catalogue::parse(&texts.join("\n"))?;
    match cross_compiler(&catalogue)? {
        CrossCompiler::Recorded => {}
        CrossCompiler::Missing => bail!(
            "{} is not installed (Debian: apt-get install gcc-alpha-linux-gnu); \
             the committed ELF files stay as they are",
            catalogue.toolchain.command
        ),
        CrossCompiler::Other { recorded, found } => bail!(
            "another cross toolchain: recorded is '{recorded}', installed is '{found}'; \
             to change to it, record it in guest-programs/catalogue.toml [toolchain] first"
        ),
    }
    let scratch = tempfile::tempdir()?;
    let mut wrong = Vec::new();
    let mut built = Vec::new();
    for program in &catalogue.programs {
        for elf in &program.elf {
            let target = scratch.path().join(&elf.file);
            compile(&catalogue, program, elf, &target)?;
            let bytes = fs::read(&target)?;
            let committed = folder.join("elf").join(&elf.file);
            if fs::read(&committed).ok().as_deref() != Some(&bytes[..]) {
                wrong.push(format!("{}: the rebuilt file differs", elf.file));
            } else if sha256_hex(&bytes) != elf.sha256 {
                wrong.push(format!("{}: sha256 in the catalogue differs", elf.file));
            }
            built.push((elf, committed, bytes));
        }
    }
    let executive = folder.join("elf/exec.elf");
    let target = scratch.path().join("exec.elf");
    compile_executive(&catalogue, scratch.path(), &target)?;
    let bytes = fs::read(&target)?;
    if fs::read(&executive).ok().as_deref() != Some(&bytes[..]) {
        wrong.push("exec.elf: the rebuilt file differs".into());
        if !check {
            fs::write(&executive, &bytes).with_context(|| executive.display().to_string())?;
        }
    }
    if check {
        if !wrong.is_empty() {
            bail!("{}\nrun `cargo xtask guests` and commit the result", wrong.join("\n"));
        }
        println!("{} guest files rebuilt byte for byte", built.len());
        return Ok(());
    }
    fs::create_dir_all(folder.join("elf"))?;
    for (elf, committed, bytes) in &built {
        fs::write(committed, bytes).with_context(|| committed.display().to_string())?;
        // qemu-alpha and the kernel only run what is executable.
        fs::set_permissions(committed, fs::Permissions::from_mode(0o755))?;
        let text = texts.iter_mut().find(|text| text.contains(&format!("\"{}\"", elf.file)));
        let text = text.with_context(|| format!("no line for {} in the catalogue", elf.file))?;
        *text = with_hash(text, &elf.file, &sha256_hex(bytes))?;
    }
    Catalogue::parse(&texts.join("\n"))?;
    for (path, text) in paths.iter().zip(texts) {
        fs::write(path, text)?;
    }
    println!("{} guest files built, {} of them new", built.len(), wrong.len());
    Ok(())
}

/// The catalogue's text with the sha256 on the line of `file` replaced; comments and layout
/// stay, which a TOML writer would not keep.
fn with_hash(text: &str, file: &str, hash: &str) -> Result<String> {
    let mark = format!("file = \"{file}\", sha256 = \"");
    let at = text.find(&mark).with_context(|| format!("no line for {file} in the catalogue"))?;
    let start = at + mark.len();
    let end = start + text[start..].find('"').context("unfinished sha256")?;
    Ok(format!("{}{hash}{}", &text[..start], &text[end..]))
}
