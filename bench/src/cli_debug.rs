//! The command line of the commands that look into a run: `lockstep`, `trace`, `profile`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// A program to run, as in `axplab run`.
#[derive(Debug, Args)]
pub struct GuestArgs {
    /// The CPU the program sees: ev4, ev5, ev56, pca56, ev6 or ev67
    #[arg(long, value_name = "CPU", default_value = "ev67")]
    pub cpu: String,
    /// Where the guest's absolute paths are looked up first (its ld.so, libraries)
    #[arg(short = 'L', value_name = "SYSROOT", env = "AXPLAB_SYSROOT")]
    pub sysroot: Option<PathBuf>,
    /// Set a variable of the guest's environment; without `=`, remove it
    #[arg(short = 'E', value_name = "VAR=VAL")]
    pub env: Vec<OsString>,
    /// The Alpha program and its arguments; all that follows PROG belongs to the guest
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROG"
    )]
    pub program: Vec<OsString>,
}

/// Arguments of `axplab lockstep`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    axplab lockstep ./prog                        the interpreter against `auto`\n  \
    axplab lockstep --engines baseline,opt --every 10000 ./prog args\n\n\
    System calls are carried out once, for the first engine, and repeated for the second.\n\
    One thread is followed; a program that starts another is refused. Processes that it\n\
    forks run on unwatched.\n\n\
    Exit status: 0 the engines agree, 1 they differ, 2 the program cannot be followed.")]
pub struct LockstepArgs {
    /// The two engines
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_value = "interp,auto")]
    pub engines: Vec<String>,
    /// Compare after every N instructions
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub every: u64,
    /// Stop after N instructions
    #[arg(long, value_name = "N", default_value_t = u64::MAX)]
    pub limit: u64,
    /// Compare registers only, not memory
    #[arg(long)]
    pub no_memory: bool,
    /// Make the second engine wrong after N instructions
    #[arg(long, value_name = "N", hide = true)]
    pub plant: Option<u64>,
    /// What to run
    #[command(flatten)]
    pub guest: GuestArgs,
}

/// Arguments of `axplab trace`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    axplab trace --symbol main ./prog             instructions of one function\n  \
    axplab trace --range 0x120000500-0x120000600 -o trace.txt ./prog\n  \
    axplab trace --from 1000000 --limit 50 ./prog the 50 instructions after a million\n\n\
    Each line is: instructions retired before, address, word, text, what it changed.\n\n\
    Exit status: the guest's, 0 when the limit was reached; 2 for something to correct.")]
pub struct TraceArgs {
    /// The engine
    #[arg(long, value_name = "NAME", default_value = "interp")]
    pub engine: String,
    /// Only instructions in START-END (END is not in it); may be repeated
    #[arg(long, value_name = "START-END", value_parser = range)]
    pub range: Vec<(u64, u64)>,
    /// Only instructions of this function of the program; may be repeated
    #[arg(long, value_name = "NAME")]
    pub symbol: Vec<String>,
    /// Begin after N instructions of the program
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub from: u64,
    /// End after N lines
    #[arg(long, value_name = "N", default_value_t = u64::MAX)]
    pub limit: u64,
    /// Write to FILE instead of standard error
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What to run
    #[command(flatten)]
    pub guest: GuestArgs,
}

/// Arguments of `axplab profile`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    axplab profile ./prog                         a table of functions and the hottest blocks\n  \
    axplab profile --flame-graph prog.svg --firefox prog.json ./prog\n  \
    perf record -k mono axplab profile --jitdump . ./prog   then perf inject --jit\n  \
    axplab profile --flame-graph vups.svg VUPS.COM    a DCL procedure, by access mode\n  \
    axplab profile --probe walk --iterations 3000000 getsyi\n  \
    axplab profile boot --kernel vmlinux --initrd initramfs.gz    a booted kernel\n  \
    axplab profile machine kernel.elf             a program for the OpenVMS processor\n\n\
    On the privileged machine, functions, blocks and frames carry their access mode, and PALcode is\n\
    a column and a frame of its own. Options stand before PROG.\n\n\
    The report goes to standard error, or to the file of -o. Open the file of --firefox at\n\
    https://profiler.firefox.com. Overhead is below 5 % at the default rate.\n\n\
    Exit status: the guest's; 2 for something to correct.")]
pub struct ProfileArgs {
    /// The engine
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub engine: String,
    /// Samples in a second of each thread's CPU time, as far as the host's kernel times it
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub hz: u64,
    /// Functions in the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Blocks that are listed with their host code
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub blocks: usize,
    /// Write the report to FILE
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write a flame graph to FILE (SVG)
    #[arg(long, value_name = "FILE")]
    pub flame_graph: Option<PathBuf>,
    /// Write a profile for the Firefox Profiler to FILE (JSON)
    #[arg(long, value_name = "FILE")]
    pub firefox: Option<PathBuf>,
    /// Write /tmp/perf-PID.map: names of translated code for tools that look addresses up there (perf
    /// itself does so for anonymous memory only, which this is not: use --jitdump)
    #[arg(long)]
    pub perf_map: bool,
    /// Write jit-PID.dump to DIR, for `perf inject --jit`
    #[arg(long, value_name = "DIR")]
    pub jitdump: Option<PathBuf>,
    /// How PROBE finds its answers on the privileged machine: walk, inline, cached or elided
    #[arg(long, value_name = "NAME", default_value = "inline")]
    pub probe: String,
    /// Rounds of getsyi, chmk and probe
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub iterations: u64,
    /// What to run
    #[command(flatten)]
    pub guest: GuestArgs,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| {
        let text = text.trim();
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    };
    let pair = text.split_once('-').and_then(|(a, b)| Some((number(a)?, number(b)?)));
    match pair {
        Some((start, end)) if start < end => Ok((start, end)),
        _ => Err("expected START-END, two addresses such as 0x120000000-0x120000100".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_are_two_addresses_in_order() {
        assert_eq!(range("0x10-0x20"), Ok((16, 32)));
        assert_eq!(range("8 - 0x20"), Ok((8, 32)));
        for bad in ["", "0x20-0x10", "1-1", "main", "0x10", "0xg-3"] {
            assert!(range(bad).is_err(), "{bad}");
        }
    }
}
