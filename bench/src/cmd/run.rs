//! `axplab run`: checks what the user asked for, then hands one plain value to `guest::execute`.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, bail};
use axp_jit::auto::Tuning;

use crate::cli::RunArgs;
use crate::cli_debug::GuestArgs;
use crate::sandbox::Sandbox;
use crate::{Outcome, guest};

/// The engines that `--engine` takes.
pub const ENGINES: &[&str] = &["interp", "interp-match", "baseline", "opt", "auto"];

/// The CPU models that `--cpu` takes.
pub const CPUS: &[&str] = &["ev4", "ev5", "ev56", "pca56", "ev6", "ev67"];

/// What to run and how: checked names, no clap types.
#[derive(Debug)]
pub struct RunOptions {
    /// One of `ENGINES`.
    pub engine: String,
    /// How `auto` translates.
    pub tuning: Tuning,
    /// One of `CPUS`.
    pub cpu: String,
    /// Where the guest's absolute paths are looked up first; an existing folder.
    pub sysroot: Option<PathBuf>,
    /// Changes to the environment that the guest inherits, in order; `None` removes the variable.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// The guest's argument 0, if it is not `program`.
    pub argv0: Option<OsString>,
    /// Print the statistics on standard error.
    pub stats: bool,
    /// Print system calls on standard error.
    pub strace: bool,
    /// Write the statistics to this file (see `measure::RunStats` for the form the lab reads).
    pub stats_json: Option<PathBuf>,
    /// Where to wait for a debugger.
    pub gdb: Option<String>,
    /// Where translations are kept.
    pub cache: Option<PathBuf>,
    /// What the guest is confined to, if it is.
    pub sandbox: Option<Sandbox>,
    /// The Alpha program; an existing file, not yet read.
    pub program: PathBuf,
    /// Its arguments from 1 onwards.
    pub args: Vec<OsString>,
}

/// How the guest ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this status.
    Exited(u8),
    /// A signal, by its host number, killed it.
    Signalled(i32),
}

/// Runs the guest program and ends as it ends.
pub fn run(args: RunArgs) -> anyhow::Result<Outcome> {
    Ok(ended(guest::execute(options(args)?)?))
}

/// How `axplab` ends when its guest ends like this.
pub fn ended(status: ExitStatus) -> Outcome {
    match status {
        ExitStatus::Exited(status) => Outcome::Status(status),
        ExitStatus::Signalled(signal) => Outcome::Signal(signal),
    }
}

/// The options of a plain run of a program on an engine, for what another command runs.
pub fn options_for(guest: &GuestArgs, engine: &str) -> anyhow::Result<RunOptions> {
    one_of("engine", engine, ENGINES)?;
    one_of("cpu", &guest.cpu, CPUS)?;
    let mut words = guest.program.iter().cloned();
    let program = PathBuf::from(words.next().context("name the Alpha program to run")?);
    let meta = std::fs::metadata(&program).with_context(|| {
        format!("cannot run `{}`; give the path of an Alpha ELF program", program.display())
    })?;
    if meta.is_dir() {
        bail!("`{}` is a directory; give the path of an Alpha ELF program", program.display());
    }
    if let Some(sysroot) = &guest.sysroot
        && !sysroot.is_dir()
    {
        bail!(
            "sysroot `{}` is no folder; give -L the root of an Alpha file system",
            sysroot.display()
        );
    }
    Ok(RunOptions {
        engine: engine.to_owned(),
        tuning: Tuning::default(),
        cpu: guest.cpu.clone(),
        sysroot: guest.sysroot.clone(),
        env: guest.env.iter().cloned().map(variable).collect::<anyhow::Result<_>>()?,
        argv0: None,
        stats: false,
        strace: false,
        stats_json: None,
        gdb: None,
        cache: None,
        sandbox: None,
        program,
        args: words.collect(),
    })
}

fn options(args: RunArgs) -> anyhow::Result<RunOptions> {
    let tuning = tuning(&args.jit)?;
    if !args.jit.is_empty() && args.engine != "auto" {
        bail!("--jit is for the engine `auto`, not `{}`", args.engine);
    }
    let plain = options_for(&args.guest, &args.engine)?;
    if args.cache.is_some() && args.engine.starts_with("interp") {
        bail!("--cache keeps translations, which the engine `{}` does not make", args.engine);
    }
    if let Some(path) = &args.stats_json {
        crate::record::check_writable(path)?;
    }
    let sandbox = args.sandbox.then_some(Sandbox {
        read: args.allow_read,
        write: args.allow_write,
        net: args.allow_net,
    });
    Ok(RunOptions {
        tuning,
        argv0: args.argv0,
        stats: args.stats,
        strace: args.strace,
        stats_json: args.stats_json,
        gdb: args.gdb,
        cache: args.cache,
        sandbox,
        ..plain
    })
}

/// What the words of `--jit` ask for.
pub fn tuning(words: &[String]) -> anyhow::Result<Tuning> {
    let mut tuning = Tuning::default();
    for word in words {
        match word.split_once('=') {
            None if word == "sync" => tuning.sync = true,
            None if word == "off" => tuning.off = true,
            Some(("threshold", number)) => {
                let parsed = number
                    .parse()
                    .ok()
                    .filter(|n| (1..=i32::MAX as u32).contains(n))
                    .with_context(|| format!("--jit threshold: `{number}` is no number from 1"))?;
                tuning.threshold = Some(parsed);
            }
            _ => bail!("unknown --jit `{word}`; choose of sync, threshold=N, off"),
        }
    }
    if tuning.off && words.iter().any(|word| word != "off") {
        bail!("--jit off leaves nothing to choose");
    }
    Ok(tuning)
}

/// `tuning` as words for `--jit`.
pub fn jit_words(tuning: Tuning) -> String {
    let words = [
        tuning.threshold.map(|n| format!("threshold={n}")),
        tuning.off.then(|| "off".to_owned()),
        tuning.sync.then(|| "sync".to_owned()),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(",")
}

fn one_of(what: &str, name: &str, known: &[&str]) -> anyhow::Result<()> {
    if !known.contains(&name) {
        bail!("unknown {what} `{name}`; choose one of {}", known.join(", "));
    }
    Ok(())
}

fn variable(text: OsString) -> anyhow::Result<(OsString, Option<OsString>)> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let bytes = text.as_bytes();
    let (name, value) = match bytes.iter().position(|&byte| byte == b'=') {
        Some(at) => (&bytes[..at], Some(OsString::from_vec(bytes[at + 1..].to_vec()))),
        None => (bytes, None),
    };
    if name.is_empty() {
        bail!("-E `{}` names no variable; write -E NAME=VALUE", text.to_string_lossy());
    }
    Ok((OsString::from_vec(name.to_vec()), value))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn parse(words: &[&str]) -> RunArgs {
        match Cli::try_parse_from(["axplab", "run"].iter().chain(words)).unwrap().command {
            Command::Run(args) => args,
            other => panic!("not run: {other:?}"),
        }
    }

    #[test]
    fn everything_after_the_program_belongs_to_the_guest() {
        let args =
            parse(&["--stats", "-E", "A=b", "prog", "--engine", "x", "-L", "--", "-0", "--help"]);
        assert!(args.stats && args.engine == "auto");
        assert_eq!(args.guest.program, ["prog", "--engine", "x", "-L", "--", "-0", "--help"]);
    }

    #[test]
    fn a_variable_is_set_removed_or_refused() {
        assert_eq!(variable("A=b=c".into()).unwrap(), ("A".into(), Some("b=c".into())));
        assert_eq!(variable("A=".into()).unwrap(), ("A".into(), Some("".into())));
        assert_eq!(variable("A".into()).unwrap(), ("A".into(), None));
        assert!(variable("=b".into()).is_err());
    }

    #[test]
    fn what_jit_asks_for_is_kept_or_refused() {
        for (words, threshold, sync, off) in [
            (&["--jit", "sync", "x"][..], None, true, false),
            (&["--jit", "sync,threshold=7", "x"], Some(7), true, false),
            (&["--jit", "threshold=9", "--jit", "sync", "x"], Some(9), true, false),
            (&["--jit", "threshold=2000", "x"], Some(2000), false, false),
            (&["--jit", "off", "x"], None, false, true),
        ] {
            let args = parse(words);
            let tuning = tuning(&args.jit).unwrap();
            assert_eq!(tuning, Tuning { threshold, sync, off });
            let again: Vec<String> = jit_words(tuning).split(',').map(str::to_owned).collect();
            assert_eq!(super::tuning(&again).unwrap(), tuning);
        }
    }

    #[test]
    fn unknown_names_and_missing_files_are_named() {
        for (words, say) in [
            (&["--engine", "warp", "x"][..], "unknown engine `warp`"),
            (&["--cpu", "ev8", "x"], "unknown cpu `ev8`"),
            (&["--jit", "warm", "x"], "unknown --jit `warm`"),
            (&["--jit", "threshold=0", "x"], "`0` is no number"),
            (&["--jit", "threshold", "x"], "unknown --jit `threshold`"),
            (&["--jit", "off,sync", "x"], "nothing to choose"),
            (&["--engine", "interp", "--jit", "sync", "x"], "not `interp`"),
            (&["--engine", "interp", "--cache", "c", "/dev/null"], "the engine `interp` does not"),
            (&["/nonexistent/prog"], "`/nonexistent/prog`"),
            (&["/"], "`/` is a directory"),
            (&["-L", "/nonexistent", "/dev/null"], "sysroot `/nonexistent`"),
        ] {
            let error = format!("{:#}", options(parse(words)).unwrap_err());
            assert!(error.contains(say), "{error}");
        }
    }
}
