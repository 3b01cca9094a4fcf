//! The user's configuration file: engines of their own, and defaults for what the command line leaves open.
//!
//! Commands that measure or judge read it once, at their start; `axplab run` does not, so that a
//! sample never depends on it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

use crate::cli::BenchArgs;
use crate::engines::{self, EngineSpec};

/// What is in force: the built-in engines and the file's.
#[derive(Debug)]
pub struct Config {
    /// All engines, in the order of columns.
    pub engines: Vec<EngineSpec>,
    /// Defaults of `axplab bench`.
    pub bench: Bench,
    /// Defaults of `axplab check` and `axplab compare`.
    pub check: Check,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    engine: toml::Table,
    bench: Bench,
    check: Check,
}

/// The table `[bench]`; the names are those of the options.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Bench {
    engines: Vec<String>,
    samples: Option<u32>,
    sample_time: Option<f64>,
    timeout: Option<f64>,
    cpu: Option<String>,
    jit: Vec<String>,
    scratch: Option<PathBuf>,
}

/// The table `[check]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Check {
    /// Per cent of change that is let pass.
    pub threshold: Option<f64>,
    /// The engine that times are divided by.
    pub base: Option<String>,
    /// Samples of each row on each engine.
    pub samples: Option<u32>,
}

impl Config {
    /// Reads the file the user named; without it, the one in the usual place, if there is one.
    pub fn load(named: Option<&Path>) -> anyhow::Result<Self> {
        let usual = || usual_place().filter(|path| path.is_file());
        let Some(path) = named.map(Path::to_owned).or_else(usual) else {
            return Self::new("");
        };
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read the configuration `{}`", path.display()))?;
        Self::new(&text).with_context(|| format!("in the configuration `{}`", path.display()))
    }

    fn new(text: &str) -> anyhow::Result<Self> {
        let file: File = toml::from_str(text)?;
        file.bench.check()?;
        file.check.check()?;
        let mut engines = engines::built_in()?;
        for spec in engines::specs(file.engine)? {
            match engines.iter_mut().find(|known| known.name == spec.name) {
                Some(known) => *known = spec,
                None => engines.push(spec),
            }
        }
        Ok(Self { engines, bench: file.bench, check: file.check })
    }
}

impl Bench {
    /// The same limits as on the command line, said by the same name.
    fn check(&self) -> anyhow::Result<()> {
        within("[bench] samples", self.samples, 1..=1000)?;
        for (name, seconds) in [("sample-time", self.sample_time), ("timeout", self.timeout)] {
            let fine = seconds.is_none_or(|s| s.is_finite() && s > 0.0 && s <= 86_400.0);
            anyhow::ensure!(fine, "[bench] {name} is no number of seconds above 0");
        }
        Ok(())
    }

    /// Fills in what the call leaves open.
    pub fn fill(&self, args: &mut BenchArgs) {
        if args.engines.is_empty() {
            args.engines.clone_from(&self.engines);
        }
        if args.jit.is_empty() {
            args.jit.clone_from(&self.jit);
        }
        args.samples = args.samples.or(self.samples);
        args.sample_time = args.sample_time.or(self.sample_time);
        args.timeout = args.timeout.or(self.timeout);
        args.cpu = args.cpu.take().or_else(|| self.cpu.clone());
        args.scratch = args.scratch.take().or_else(|| self.scratch.clone());
    }
}

impl Check {
    fn check(&self) -> anyhow::Result<()> {
        within("[check] samples", self.samples, 5..=1000)?;
        let fine = self.threshold.is_none_or(|x| (0.0..=1000.0).contains(&x));
        anyhow::ensure!(fine, "[check] threshold is no number of per cent from 0 to 1000");
        Ok(())
    }
}

fn within(
    name: &str,
    value: Option<u32>,
    limits: std::ops::RangeInclusive<u32>,
) -> anyhow::Result<()> {
    let fine = value.is_none_or(|value| limits.contains(&value));
    anyhow::ensure!(fine, "{name} is not from {} to {}", limits.start(), limits.end());
    Ok(())
}

/// The folder of what is the user's own.
pub fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("XDG_CONFIG_HOME")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".config")))?;
    Some(folder.join("axplab"))
}

fn usual_place() -> Option<PathBuf> {
    Some(folder()?.join("config.toml"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn bench(words: &[&str]) -> BenchArgs {
        match Cli::try_parse_from(["axplab", "bench"].iter().chain(words)).unwrap().command {
            Command::Bench(args) => args,
            other => panic!("not bench: {other:?}"),
        }
    }

    #[test]
    fn the_call_goes_before_the_file() {
        let text = "[bench]\nengines = ['native', 'auto']\nsamples = 9\nsample-time = 0.5\n\
            cpu = 'ev6'\njit = ['sync']\nscratch = '/s'\ntimeout = 7";
        let config = Config::new(text).unwrap();
        let mut args = bench(&[]);
        config.bench.fill(&mut args);
        assert_eq!((args.engines.len(), args.samples, args.sample_time), (2, Some(9), Some(0.5)));
        assert_eq!((args.cpu.as_deref(), args.timeout), (Some("ev6"), Some(7.0)));
        assert_eq!(
            (args.jit.as_slice(), args.scratch),
            (&["sync".to_owned()][..], Some("/s".into()))
        );
        let mut args = bench(&["-e", "opt", "-n", "3", "--cpu", "ev56"]);
        config.bench.fill(&mut args);
        assert_eq!((args.engines.len(), args.samples), (1, Some(3)));
        assert_eq!(args.cpu.as_deref(), Some("ev56"));
    }

    #[test]
    fn an_engine_of_the_same_name_takes_the_place_of_the_built_in_one() {
        let config = Config::new("engine.qemu-alpha.run = 'q {args}'\nengine.x.run = 'x {args}'");
        let config = config.unwrap();
        let built_in = engines::built_in().unwrap();
        assert_eq!(config.engines.len(), built_in.len() + 1);
        let at = built_in.iter().position(|engine| engine.name == "qemu-alpha").unwrap();
        assert_eq!(config.engines[at].command, ["q", "{args}"]);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for (text, say) in [
            ("[bench]\nsample = 3", "sample"),
            ("[bench]\nsamples = 0", "samples"),
            ("[bench]\nsamples = 'x'", "samples"),
            ("[bench]\nsample-time = nan", "sample-time"),
            ("[bench]\ntimeout = -1.0", "timeout"),
            ("[check]\nthreshold = -2.0", "threshold"),
            ("[check]\nsamples = 4", "samples"),
            ("[checks]", "checks"),
        ] {
            let error = format!("{:#}", Config::new(text).unwrap_err());
            assert!(error.contains(say), "{text}: {error}");
        }
    }
}
