//! Real programs: fetches Debian's source packages, builds them for Alpha outside the repository, lets
//! them do real work on each engine and compares output and status with qemu-alpha's or the native
//! build's. Called by `cargo xtask programs`; recipes and work stand in `tests/programs/`.
//!
//! All work is a script of the guest's own bash, so each item forks, executes and waits, too. Nothing that
//! is built or fetched is part of the repository.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use crate::process;
use crate::source::root;

/// Sources only, whatever the machine's own list says.
const APT_SOURCES: &str = "deb-src http://deb.debian.org/debian bookworm main\n";
/// The slowest engine gets this long for one item.
const LIMIT: Duration = Duration::from_secs(1800);

/// What to do, from the command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where everything is fetched, built and run.
    pub dir: PathBuf,
    /// Build for the host as well, and make that the reference instead of qemu-alpha.
    pub native: bool,
    /// Engines to run.
    pub engines: Vec<String>,
    /// Only these items of work; all if empty.
    pub only: Vec<String>,
    /// The small sizes for all engines.
    pub small: bool,
    /// The program `axplab`.
    pub axplab: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Recipes {
    program: Vec<Program>,
    work: Vec<Work>,
}

#[derive(Debug, Deserialize)]
struct Program {
    name: String,
    source: String,
    build: String,
    files: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Work {
    name: String,
    small: u64,
    full: u64,
}

/// What programs are built for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Alpha,
    Native,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Target::Alpha => "alpha",
            Target::Native => "native",
        }
    }

    fn variables(self) -> [(&'static str, &'static str); 4] {
        match self {
            Target::Alpha => [
                ("CC", "alpha-linux-gnu-gcc -mieee"),
                ("CROSS", "alpha-linux-gnu-"),
                ("HOST", "--host=alpha-linux-gnu"),
                ("OPENSSL_TARGET", "linux-alpha-gcc"),
            ],
            Target::Native => [
                ("CC", "gcc"),
                ("CROSS", ""),
                ("HOST", ""),
                // The same generic C code as on Alpha.
                ("OPENSSL_TARGET", "linux-generic64"),
            ],
        }
    }
}

fn succeed(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    Ok(())
}

/// Lets apt fetch the source package, without the machine's lists and without being root.
fn fetch(dir: &Path, package: &str) -> Result<PathBuf> {
    let apt = dir.join("apt");
    let sources = dir.join("sources");
    let description = || -> Result<Option<PathBuf>> {
        let mut files = fs::read_dir(&sources)?.filter_map(|entry| Some(entry.ok()?.path()));
        let prefix = format!("{package}_");
        Ok(files.find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&prefix) && name.ends_with(".dsc")
        }))
    };
    fs::create_dir_all(&sources)?;
    if let Some(found) = description()? {
        return Ok(found);
    }
    let config = apt.join("apt.conf");
    if !config.exists() {
        for folder in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(apt.join(folder))?;
        }
        fs::write(apt.join("sources.list"), APT_SOURCES)?;
        let place = apt.display();
        let text = format!(
            "Dir::Etc::sourcelist \"{place}/sources.list\";\nDir::Etc::sourceparts \"-\";\n\
             Dir::State::lists \"{place}/lists\";\nDir::Cache \"{place}/cache\";\n"
        );
        // In its place only once the lists are there: an update that failed is tried again.
        let new = apt.join("apt.conf.new");
        fs::write(&new, text)?;
        succeed(Command::new("apt-get").arg("update").env("APT_CONFIG", &new))?;
        fs::rename(&new, &config)?;
    }
    println!("fetching {package}");
    let mut source = Command::new("apt-get");
    source.args(["source", "--download-only", package]).current_dir(&sources);
    succeed(source.env("APT_CONFIG", &config))?;
    description()?.with_context(|| format!("apt-get brought no {package}"))
}

/// Unpacks and builds a program unless its files are there.
fn build(dir: &Path, program: &Program, target: Target) -> Result<()> {
    let place = |file: &str| {
        let folder = if file.contains(".so") { "lib" } else { "bin" };
        let name = Path::new(file).file_name().unwrap_or_default();
        dir.join(target.name()).join(folder).join(name)
    };
    if program.files.iter().all(|file| place(file).exists()) {
        return Ok(());
    }
    let description = fetch(dir, &program.source)?;
    let tree = dir.join("build").join(format!("{}-{}", program.name, target.name()));
    fs::create_dir_all(tree.parent().context("a folder")?)?;
    if !tree.exists() {
        let mut unpack = Command::new("dpkg-source");
        succeed(unpack.args(["--no-check", "-x"]).arg(description).arg(&tree))?;
    }
    println!("building {} for {}", program.name, target.name());
    let log = dir.join(format!("{}-{}.log", program.name, target.name()));
    let mut command = Command::new("sh");
    command
        .args(["-ec", &program.build])
        .current_dir(&tree)
        .envs(target.variables())
        .env("NOAUTO", "ACLOCAL=: AUTOCONF=: AUTOMAKE=: AUTOHEADER=: MAKEINFO=:")
        .env("FILES", program.files.join(" "))
        .stdout(fs::File::create(&log)?)
        .stderr(fs::OpenOptions::new().append(true).open(&log)?);
    let status = command.status().context("sh")?;
    ensure!(status.success(), "building {}: {status}; see {}", program.name, log.display());
    for file in &program.files {
        let to = place(file);
        fs::create_dir_all(to.parent().context("a folder")?)?;
        fs::copy(tree.join(file), to)
            .with_context(|| format!("{} makes no {file}", program.name))?;
    }
    Ok(())
}

/// Makes host programs that run the Alpha ones by qemu-alpha: it cannot execute them itself.
fn launchers(dir: &Path, sysroot: &str) -> Result<PathBuf> {
    let bin = dir.join("qemu/bin");
    if bin.exists() {
        return Ok(bin);
    }
    fs::create_dir_all(&bin)?;
    let source = dir.join("qemu/launcher.c");
    let alpha = dir.join("alpha/bin");
    let text = format!(
        "#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n\
         int main(int n, char **v) {{\n\
         char me[4096], to[8192], *a[n + 6]; long l = readlink(\"/proc/self/exe\", me, 4095);\n\
         me[l < 0 ? 0 : l] = 0; char *s = strrchr(me, '/');\n\
         snprintf(to, sizeof to, \"%s/%s\", {:?}, s ? s + 1 : me);\n\
         char *h[] = {{\"qemu-alpha\", \"-L\", {:?}, \"-0\", v[0], to}};\n\
         memcpy(a, h, sizeof h); memcpy(a + 6, v + 1, n * sizeof *v);\n\
         execvp(*a, a); perror(*a); return 127; }}\n",
        alpha, sysroot
    );
    fs::write(&source, text)?;
    for program in fs::read_dir(&alpha)? {
        let name = program?.file_name();
        succeed(Command::new("gcc").args(["-O1", "-o"]).arg(bin.join(name)).arg(&source))?;
    }
    Ok(bin)
}

/// A way of running a script.
struct Way {
    name: String,
    /// What comes before the script.
    command: Vec<PathBuf>,
    /// Where its commands are found.
    bin: PathBuf,
    lib: PathBuf,
}

fn run(way: &Way, script: &Path, n: u64) -> Result<(Output, Duration)> {
    let dir = tempfile::tempdir()?;
    let mut command = Command::new(&way.command[0]);
    command
        .args(&way.command[1..])
        .arg(script)
        .current_dir(dir.path())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", way.bin.display()))
        .env("LD_LIBRARY_PATH", &way.lib)
        .env("LC_ALL", "C")
        .env("TZ", "UTC0")
        .env("N", n.to_string());
    let start = Instant::now();
    let output = process::output(&mut command, b"", LIMIT)
        .with_context(|| format!("{} runs {} for ever", way.name, script.display()))?;
    Ok((output, start.elapsed()))
}

fn verdict(output: &Output, reference: &Output) -> String {
    if output.status != reference.status {
        return format!("status {} instead of {}", output.status, reference.status);
    }
    let lines = |bytes: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
    };
    if output.stdout == reference.stdout {
        return "same".to_owned();
    }
    let (ours, theirs) = (lines(&output.stdout), lines(&reference.stdout));
    let at = ours.iter().zip(&theirs).position(|(a, b)| a != b);
    let at = at.unwrap_or(ours.len().min(theirs.len()));
    format!("line {}: {:?} instead of {:?}", at + 1, ours.get(at), theirs.get(at))
}

/// Builds what is not built, runs all, prints a table; fails if something differs.
pub fn programs(options: &Options) -> Result<()> {
    let file = root().join("tests/programs/recipes.toml");
    let recipes: Recipes = toml::from_str(&fs::read_to_string(file)?)?;
    fs::create_dir_all(&options.dir)?;
    let dir = options.dir.canonicalize()?;
    ensure!(!dir.starts_with(root()), "{} is inside the repository", dir.display());
    for name in &options.only {
        ensure!(recipes.work.iter().any(|work| work.name == *name), "no work is named {name}");
    }
    for program in &recipes.program {
        build(&dir, program, Target::Alpha)?;
        if options.native {
            build(&dir, program, Target::Native)?;
        }
    }
    let sysroot = std::env::var("AXPLAB_SYSROOT").unwrap_or("/usr/alpha-linux-gnu".to_owned());
    let alpha = dir.join("alpha");
    let way = |name: &str, command: &[&str], bin: PathBuf, lib: PathBuf| Way {
        name: name.to_owned(),
        command: command
            .iter()
            .map(PathBuf::from)
            .chain([lib.with_file_name("bin/bash")])
            .collect(),
        bin,
        lib,
    };
    let (bin, lib) = (alpha.join("bin"), alpha.join("lib"));
    let mut ways = Vec::new();
    if options.native {
        let place = dir.join("native");
        let native = way("native", &["env"], place.join("bin"), place.join("lib"));
        ways.push(native);
    }
    let launchers = launchers(&dir, &sysroot)?;
    ways.push(way("qemu-alpha", &["qemu-alpha", "-L", &sysroot], launchers, lib.clone()));
    let axplab = options.axplab.display().to_string();
    for engine in &options.engines {
        let command = [&axplab, "run", "--engine", engine, "-L", &sysroot];
        ways.push(way(engine, &command, bin.clone(), lib.clone()));
    }
    let mut differences = 0;
    let mut references: BTreeMap<u64, Output> = BTreeMap::new();
    println!("{:12} {:>9} {:12} {:>9}  verdict", "work", "N", "engine", "seconds");
    for work in &recipes.work {
        if !options.only.is_empty() && !options.only.contains(&work.name) {
            continue;
        }
        references.clear();
        let script = root().join(format!("tests/programs/work/{}.sh", work.name));
        for way in &ways {
            let slow = options.small || way.name.starts_with("interp");
            let n = if slow { work.small } else { work.full };
            if let Entry::Vacant(place) = references.entry(n) {
                let (output, time) = run(&ways[0], &script, n)?;
                let row = (&work.name, n, &ways[0].name, time.as_secs_f64());
                println!("{:12} {:>9} {:12} {:>9.2}  reference", row.0, row.1, row.2, row.3);
                place.insert(output);
            }
            if way.name == ways[0].name {
                continue;
            }
            let (output, time) = run(way, &script, n)?;
            let verdict = verdict(&output, &references[&n]);
            differences += u32::from(verdict != "same");
            let time = time.as_secs_f64();
            println!("{:12} {n:>9} {:12} {time:>9.2}  {verdict}", work.name, way.name);
            if verdict != "same" {
                print!("{}", String::from_utf8_lossy(&output.stderr));
            }
        }
    }
    if differences != 0 {
        bail!("{differences} differences");
    }
    Ok(())
}
