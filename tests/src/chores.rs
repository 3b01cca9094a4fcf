//! The chores of `cargo xtask` other than the guest programs' build.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::fuzz::{Campaign, Lab};
use crate::source::root;
use crate::{coverage, fuzz, programs, syscalls};

fn run(command: &mut Command) -> Result<()> {
    let status = command.current_dir(root()).status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// Format, lints and tests as in continuous integration, but nothing is installed.
pub fn ci() -> Result<()> {
    run(Command::new(".ci/run").arg("--local"))
}

/// Rewrites objdump's golden and the generated pages.
pub fn bless() -> Result<()> {
    let mut goldens = Command::new(env!("CARGO"));
    goldens.args(["test", "--quiet", "-p", "axp-tests", "--test", "isa"]);
    run(goldens.env("AXPLAB_BLESS", "1"))?;
    docs(false)
}

/// Writes the generated pages, or with `check` reports one that is out of date.
pub fn docs(check: bool) -> Result<()> {
    let pages = [("docs/isa-coverage.md", coverage::page()?), ("docs/linux.md", syscalls::page()?)];
    for (name, text) in pages {
        let path = root().join(name);
        let committed = fs::read_to_string(&path).unwrap_or_default();
        if committed == text {
            continue;
        }
        if check {
            let line = committed.lines().zip(text.lines()).find(|(old, new)| old != new);
            bail!("{name} is out of date (first difference: {line:?}); run `cargo xtask docs`");
        }
        fs::write(&path, text).with_context(|| name.to_string())?;
    }
    Ok(())
}

/// Builds the runner and lets random programs run on all engines.
pub fn fuzz(what: Campaign) -> Result<()> {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "-p", "axp-tests", "--bin", "run-guest"]);
    let debug = cfg!(debug_assertions);
    run(if debug { &mut build } else { build.arg("--release") })?;
    let sysroot = std::env::var("AXPLAB_SYSROOT").unwrap_or("/usr/alpha-linux-gnu".to_owned());
    let me = std::env::current_exe().context("cannot find this program's own file")?;
    let lab = Lab { runner: me.with_file_name("run-guest"), sysroot, thorough: what.thorough };
    fuzz::campaign(&lab, what, &root().join("target/fuzz"))
}

/// Measures everything by a release build; an interrupted run goes on when called again.
pub fn results(name: &str, small: bool) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    ensure!(!name.is_empty() && name.chars().all(plain), "`{name}`: letters, digits, `-` and `_`");
    run(Command::new(env!("CARGO")).args(["build", "--quiet", "--release", "-p", "axplab"]))?;
    let axplab = root().join("target/release/axplab");
    let folder = root().join(if small { "target/results" } else { "docs/results" });
    fs::create_dir_all(&folder)?;
    let record = folder.join(name).with_extension("json");
    let mut bench = Command::new(&axplab);
    bench.args(["bench", "--all"]);
    if small {
        bench.args(["--quick", "--samples", "1", "--sample-time", "0.01"]);
    }
    bench.arg(if record.exists() { "--resume" } else { "--json" }).arg(&record);
    run(&mut bench)?;
    let page = folder.join(name).with_extension("html");
    run(Command::new(&axplab).args(["report", "--format", "html", "-o"]).args([&page, &record]))
}

/// Builds axplab unless one is given, and lets real programs work on it.
pub fn programs(
    dir: PathBuf,
    native: bool,
    engines: Vec<String>,
    only: Vec<String>,
    small: bool,
    axplab: Option<PathBuf>,
) -> Result<()> {
    let axplab = match axplab {
        Some(given) => given.canonicalize().with_context(|| given.display().to_string())?,
        None => {
            let mut build = Command::new(env!("CARGO"));
            run(build.args(["build", "--quiet", "--release", "-p", "axplab"]))?;
            root().join("target/release/axplab")
        }
    };
    programs::programs(&programs::Options { dir, native, engines, only, small, axplab })
}
