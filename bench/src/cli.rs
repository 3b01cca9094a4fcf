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
    /// Turn the lines that guest programs printed elsewhere into a record
    Import(ImportArgs),
    /// Run an Alpha Linux program
    Run(RunArgs),
    /// Disassemble an Alpha ELF file or instruction words
    Disasm(DisasmArgs),
    /// Run a DCL command procedure on the privileged machine
    Dcl(DclArgs),
    /// Boot a Linux kernel on the machine
    Boot(crate::cli_boot::BootArgs),
    /// Boot a program of your own on the privileged machine
    Machine(MachineArgs),
    /// Measure what validating buffers by PROBE costs on the privileged machine
    Probe(ProbeArgs),
    /// Show in which access modes a program of the privileged machine spends its time
    Modes(ModesArgs),
    /// Run a program on two engines side by side and find where they part
    Lockstep(crate::cli_debug::LockstepArgs),
    /// Show where a program's time goes, by function and block
    Profile(crate::cli_debug::ProfileArgs),
    /// Print the instructions of a program as they are executed
    Trace(crate::cli_debug::TraceArgs),
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

/// Arguments of `axplab probe`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    axplab probe                             every strategy on interp and auto\n  \
    axplab probe --engines auto --probe walk,inline --iterations 1500000\n  \
    axplab probe --sweep                     PROBE alone: direction, pages, hit or miss\n\n\
    Exit status: 0 done, 1 a run that did not end well, 2 a wrong call.")]
pub struct ProbeArgs {
    /// Calls of the service in one run
    #[arg(long, value_name = "N", default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub iterations: u64,
    /// Engines, separated by commas
    #[arg(long, short, value_name = "LIST", value_delimiter = ',', default_value = "interp,auto")]
    pub engines: Vec<String>,
    /// How PROBE finds its answers: walk, inline, cached, elided [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub probe: Vec<String>,
    /// Runs of each, of which the fastest counts
    #[arg(long, short = 'n', value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub samples: u32,
    /// PROBE alone instead of the service
    #[arg(long)]
    pub sweep: bool,
    /// Write the record of the run to FILE
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Arguments of `axplab dcl`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    axplab dcl VUPS.COM                      the command interpreter's speed; our DCL, not VMS's")]
pub struct DclArgs {
    /// The command procedure
    pub procedure: PathBuf,
    /// The engine
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub engine: String,
    /// How PROBE finds its answers: walk, inline, cached or elided
    #[arg(long, value_name = "NAME", default_value = "inline")]
    pub probe: String,
}

/// Arguments of `axplab machine`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    axplab machine hello.s                   assemble it at 0x10000 and start it there\n  \
    axplab machine kernel.elf --disk disk.img --parameters 3,100\n\n\
    Exit status: the program's; 70 when the machine had to stop (the report is on standard\n\
    error); 2 when it cannot be started.")]
pub struct MachineArgs {
    /// An ELF file for physical addresses, or lines for the built-in assembler
    pub program: PathBuf,
    /// The engine
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub engine: String,
    /// Megabytes of memory
    #[arg(long, value_name = "MB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub memory: u64,
    /// Processors; the program starts all but the first (CSERVE 13)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub processors: usize,
    /// Image of the disk: a number of 512-byte blocks; the machine changes a copy
    #[arg(long, value_name = "FILE")]
    pub disk: Option<PathBuf>,
    /// How PROBE finds its answers: walk, inline, cached or elided
    #[arg(long, value_name = "NAME", default_value = "inline")]
    pub probe: String,
    /// Numbers that the program can ask the console for
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub parameters: Vec<u64>,
    /// Count instructions, so that runs repeat exactly; the clock ticks every N of them
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1000000", value_parser = clap::value_parser!(u64).range(1..))]
    pub deterministic: Option<u64>,
}

/// Arguments of `axplab modes`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    axplab modes getsyi --probe walk\n  \
    axplab modes VUPS.COM\n  \
    axplab modes -L /usr/alpha-linux-gnu ./prog -- its arguments\n  \
    axplab modes boot -- --kernel vmlinux --initrd initramfs.gz\n  \
    axplab modes machine -- kernel.elf\n\n\
    A Linux program ends as under `axplab run`; its times are sampled, on all its threads but not in\n\
    the processes that it forks.")]
pub struct ModesArgs {
    /// The program: getsyi, chmk, probe, a DCL command procedure (FILE.COM), the path of an Alpha
    /// program for Linux, or `boot` or `machine` with their arguments
    #[arg(default_value = "getsyi")]
    pub program: String,
    /// Arguments of a Linux program, of `boot` or of `machine`
    #[arg(last = true, value_name = "ARGS")]
    pub args: Vec<OsString>,
    /// Where a Linux program's absolute paths are looked up first (its ld.so, libraries)
    #[arg(short = 'L', value_name = "SYSROOT", env = "AXPLAB_SYSROOT")]
    pub sysroot: Option<PathBuf>,
    /// The engine
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub engine: String,
    /// How PROBE finds its answers: walk, inline, cached or elided
    #[arg(long, value_name = "NAME", default_value = "inline")]
    pub probe: String,
    /// Rounds of its loop
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub iterations: u64,
}

/// Arguments of `axplab bench`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    axplab bench --quick\n  \
    axplab bench numeric-sort idea --engines native,interp,auto\n  \
    axplab bench --samples 15 --json run.json\n  \
    axplab bench --all --json all.json       every row of every published table\n  \
    axplab bench --all --resume all.json     go on with it after an interruption\n  \
    axplab bench --booted                    a booted kernel beside qemu-system-alpha\n  \
    axplab bench --program ./mine.alpha --native-twin ./mine -- its arguments\n  \
    axplab bench --config lab.toml --engines native,ds10\n\n\
    A configuration file adds engines of your own and defaults; {elf} is the Alpha program,\n\
    {native} its native twin, {args} its arguments:\n  \
    [bench]\n  \
    engines = [\"native\", \"auto\", \"ds10\"]\n  \
    [engine.ds10]\n  \
    run = \"ssh ds10 {elf} {args}\"\n\n\
    Exit status: 0 all results right, 1 a wrong result or a failed run, 2 a wrong call,\n\
    130 interrupted (what was measured by then is kept).")]
pub struct BenchArgs {
    /// Rows to measure [default: the kernels; see --all]
    pub rows: Vec<String>,
    /// Every row of `axplab list`: also traps, system calls, streams, disk and files
    #[arg(long)]
    pub all: bool,
    /// Rows on a booted Linux kernel, beside qemu-system-alpha (`cargo xtask kernel` builds one; in --all, too)
    #[arg(long)]
    pub booted: bool,
    /// Keep the rows that FILE, the record of an interrupted run, already has; the result replaces it
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Measure an Alpha program of your own, from its start to its end; may be repeated
    #[arg(long = "program", value_name = "ELF")]
    pub programs: Vec<PathBuf>,
    /// The same program compiled for this host, for the native column; one for each --program
    #[arg(long = "native-twin", value_name = "FILE")]
    pub native_twins: Vec<PathBuf>,
    /// Arguments of these programs
    #[arg(last = true, value_name = "ARGS")]
    pub program_args: Vec<OsString>,
    /// Where rows that need a disk make their files [default: TMPDIR, else /var/tmp]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
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
    /// [default: ev56]
    #[arg(long, value_name = "MODEL")]
    pub cpu: Option<String>,
    /// The work loop's aimed-at time in one sample [default: 1, quick 0.25]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub sample_time: Option<f64>,
    /// Give a run up after this time [default: 300, quick 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<f64>,
    /// How the engine `auto` is to translate, as for `axplab run`
    #[arg(long, value_name = "HOW", value_delimiter = ',')]
    pub jit: Vec<String>,
    /// Configuration: further engines and defaults [default: axplab/config.toml in the user's configuration folder]
    #[arg(long, value_name = "FILE", env = "AXPLAB_CONFIG")]
    pub config: Option<PathBuf>,
}

/// Arguments of `axplab import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    ssh ds10 'for i in 1 2 3 4 5; do ./md5.elf md5-8192 100; done' > ds10.txt\n  \
    axplab import ds10.txt --engine ds10 --host 'AlphaServer DS10' --json ds10.json\n\n\
    Exit status: 0 all results right, 1 a wrong result among them, 2 nothing to import.")]
pub struct ImportArgs {
    /// Files with the lines, among whatever else (`-`: standard input)
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The name of the column
    #[arg(long, short, value_name = "NAME")]
    pub engine: String,
    /// The machine that they were printed on
    #[arg(long, value_name = "TEXT", default_value = "unknown")]
    pub host: String,
    /// Write the record to FILE (`-`: to standard output)
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub json: PathBuf,
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
    axplab run --stats -E LANG=C ./sort file\n  \
    axplab run --gdb :1234 ./crash           then in gdb-multiarch: target remote :1234\n  \
    axplab run --cache ~/.cache/axplab ./tool   keep translations for the next run\n  \
    axplab run --sandbox --allow-read data --allow-write out ./untrusted\n\n\
    Exit status: the guest's; a guest killed by a signal ends axplab by that signal;\n\
    2 when the program cannot be started.")]
pub struct RunArgs {
    /// The engine
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub engine: String,
    /// How the engine `auto` translates: `threshold=N` compiles what was entered N times, `sync` does so
    /// at once instead of on a second thread, `off` uses templates only
    #[arg(long, value_name = "HOW", value_delimiter = ',')]
    pub jit: Vec<String>,
    /// The name that the guest is called by, its argument 0 [default: PROG]
    #[arg(short = '0', value_name = "ARGV0")]
    pub argv0: Option<OsString>,
    /// Print instructions, MIPS, times and code size on standard error at the end
    #[arg(long)]
    pub stats: bool,
    /// Print the guest's system calls on standard error as they return
    #[arg(long)]
    pub strace: bool,
    /// Wait for gdb at HOST:PORT, :PORT or the path of a socket, and run the program under it
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["stats", "stats_json"])]
    pub gdb: Option<String>,
    /// Write these figures to FILE as JSON
    #[arg(long, value_name = "FILE")]
    pub stats_json: Option<PathBuf>,
    /// Keep translations in DIR, a folder of yours alone (mode 700), for the next run of the same program;
    /// made if it is not there. Files that are not your own axplab's work are refused
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Confine the program, and all that it starts, to its own file, the sysroot and what is allowed;
    /// no files and no network otherwise. Refuses to run where the host's kernel cannot do that
    #[arg(long, conflicts_with = "stats_json")]
    pub sandbox: bool,
    /// In the sandbox: PATH and all below it may be read and executed; may be repeated
    #[arg(long, value_name = "PATH", requires = "sandbox")]
    pub allow_read: Vec<PathBuf>,
    /// In the sandbox: PATH and all below it may also be changed, created and removed
    #[arg(long, value_name = "PATH", requires = "sandbox")]
    pub allow_write: Vec<PathBuf>,
    /// In the sandbox: TCP may be used; UDP, local and all other sockets may not
    #[arg(long, requires = "sandbox")]
    pub allow_net: bool,
    /// What to run
    #[command(flatten)]
    pub guest: crate::cli_debug::GuestArgs,
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
