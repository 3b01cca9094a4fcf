//! The command line as clap sees it: definitions and help only; `cmd/` says what each command does.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// A performance lab for the Alpha AXP architecture.
#[derive(Debug, Parser)]
#[command(
    name = "axplab",
    version,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        axplab bench --quick                     every row on every engine, one table\n  \
        axplab bench md5-8192 --engines native,auto,qemu-alpha --json md5.json\n  \
        axplab run ./hello                       run an Alpha Linux program\n  \
        axplab report old.json --format csv      a record in another form
  \
        axplab compare old.json new.json         is it slower?
  \
        axplab list                              what can be measured, and on what\n\n\
        Exit status: 0 done, 1 a wrong result or a slow-down, 2 something to correct in the call,\n\
        130 interrupted. `axplab run` ends as the guest program ends."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure rows on engines and print the comparison table
    Bench(BenchArgs),
    /// List the rows, their units and classes, and the engines found here
    List(ListArgs),
    /// Run an Alpha Linux program
    Run(RunArgs),
    /// Disassemble an Alpha ELF file or instruction words
    Disasm(DisasmArgs),
    /// Print records in another form, merge shards, set hosts side by side
    Report(crate::cmd::ReportArgs),
    /// Judge, row by row, whether a run is slower than another
    Compare(crate::cmd::CompareArgs),
    /// Measure what a baseline record holds again and judge the change
    Check(crate::cmd::CheckArgs),
    /// Print a completion script for a shell
    Completions(crate::cmd::CompletionsArgs),
    /// Write the manual pages into a folder
    Man(crate::cmd::ManArgs),
}

/// Arguments of `axplab bench`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    axplab bench --quick\n  \
    axplab bench numeric-sort idea --engines native,interp,auto\n  \
    axplab bench --samples 15 --json run.json\n  \
    axplab bench --config lab.toml --engines native,ds10\n\n\
    A configuration file adds engines of your own; {elf} is the Alpha program, {native} its\n\
    native twin, {args} its arguments:\n  \
    [engine.ds10]\n  \
    run = \"ssh ds10 {elf} {args}\"\n\n\
    Exit status: 0 all results right, 1 a wrong result or a failed run, 2 a wrong call,\n\
    130 interrupted (what was measured by then is kept).")]
pub struct BenchArgs {
    /// Rows to measure [default: all of `axplab list`]
    pub rows: Vec<String>,
    /// Engines to measure, by name, separated by commas [default: all built in]
    #[arg(long, short, value_name = "LIST", value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Measure part K of N of the rows; `axplab report` puts the parts together
    #[arg(long, value_name = "K/N", value_parser = shard)]
    pub shard: Option<(usize, usize)>,
    /// Samples of each row on each engine [default: 7, quick 5]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub samples: Option<u32>,
    /// Short samples and reduced inputs: the whole table within five minutes
    #[arg(long, short)]
    pub quick: bool,
    /// Write the record of the run to FILE (`-`: to standard output, instead of the table)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = crate::report::Format::Table)]
    pub format: crate::report::Format,
    /// The CPU whose build of the guest programs is run, where a row has one
    #[arg(long, default_value = "ev56")]
    pub cpu: String,
    /// The work loop's aimed-at time in one sample [default: 1, quick 0.25]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub sample_time: Option<f64>,
    /// Give a run up after this time [default: 300, quick 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<f64>,
    /// Configuration with further engines [default: axplab/config.toml in the user's configuration folder]
    #[arg(long, value_name = "FILE", env = "AXPLAB_CONFIG")]
    pub config: Option<PathBuf>,
}

/// Arguments of `axplab list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Configuration with further engines
    #[arg(long, value_name = "FILE", env = "AXPLAB_CONFIG")]
    pub config: Option<PathBuf>,
}

/// Arguments of `axplab run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    axplab run ./hello --with its own --dashes\n  \
    axplab run -L /usr/alpha-linux-gnu --engine interp ./dynamic\n  \
    axplab run --stats -E LANG=C ./sort file\n\n\
    Exit status: the guest's; a guest killed by a signal ends axplab by that signal;\n\
    2 when the program cannot be started.")]
pub struct RunArgs {
    /// The engine
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub engine: String,
    /// The CPU the program sees: ev4, ev5, ev56, pca56, ev6 or ev67
    #[arg(long, value_name = "CPU", default_value = "ev67")]
    pub cpu: String,
    /// Where the guest's absolute paths are looked up first (its ld.so, libraries)
    #[arg(short = 'L', value_name = "SYSROOT", env = "AXPLAB_SYSROOT")]
    pub sysroot: Option<PathBuf>,
    /// Set a variable of the guest's environment; without `=`, remove it
    #[arg(short = 'E', value_name = "VAR=VAL")]
    pub env: Vec<OsString>,
    /// The name that the guest is called by, its argument 0 [default: PROG]
    #[arg(short = '0', value_name = "ARGV0")]
    pub argv0: Option<OsString>,
    /// Print instructions, MIPS, times and code size on standard error at the end
    #[arg(long)]
    pub stats: bool,
    /// Write these figures to FILE as JSON
    #[arg(long, value_name = "FILE")]
    pub stats_json: Option<PathBuf>,
    /// The Alpha program and its arguments; all that follows PROG belongs to the guest
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROG"
    )]
    pub program: Vec<OsString>,
}

/// Arguments of `axplab disasm`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    axplab disasm ./hello            the executable sections of an Alpha ELF file\n  \
    axplab disasm 47ff041f 6bfa8001  instruction words, in hexadecimal")]
pub struct DisasmArgs {
    /// An Alpha ELF file, or instruction words of eight hexadecimal digits
    #[arg(required = true, value_name = "FILE|WORD")]
    pub what: Vec<OsString>,
}

/// `K/N` with K from 1 to N.
fn shard(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    match parts {
        Some((k, n)) if (1..=n).contains(&k) => Ok((k, n)),
        _ => Err("expected K/N with K from 1 to N, as in 2/8".into()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 && value <= 86_400.0 => Ok(value),
        _ => Err("expected a number of seconds above 0".into()),
    }
}
