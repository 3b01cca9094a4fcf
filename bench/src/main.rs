//! The `axplab` command: parses the command line, runs one command of `cmd/`, and turns its outcome into an exit status.

mod booted;
mod cache;
mod catalogue;
mod cli;
mod cli_boot;
mod cli_debug;
mod cmd;
mod collect;
mod compare;
mod config;
mod count;
mod debug;
mod delay;
mod engines;
mod fingerprint;
mod guest;
mod layout;
mod machine;
mod measure;
mod plan;
mod profile;
mod record;
mod records;
mod report;
mod sandbox;
mod stats;
mod symbols;
mod terminal;
mod translation;
mod vups;
mod warning;

use std::io;
use std::process::ExitCode;

use clap::Parser;

/// How a command ended, short of an error that the user has to correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Ends with this exit status.
    Status(u8),
    /// Ends by this signal, as the guest did.
    Signal(i32),
}

impl Outcome {
    /// All went well.
    pub const DONE: Self = Self::Status(0);
    /// A measured program gave a wrong result.
    pub const WRONG_RESULT: Self = Self::Status(1);
    /// The user interrupted.
    pub const INTERRUPTED: Self = Self::Status(130);
}

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_env("AXPLAB_LOG"))
        .with_writer(io::stderr)
        .init();
    match cmd::dispatch(cli.command) {
        Ok(Outcome::Status(status)) => ExitCode::from(status),
        Ok(Outcome::Signal(signal)) => {
            // The shell sees the guest's signal; where the kernel would not end us by it, 128 + n says the same.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            ExitCode::from(128u8.wrapping_add(signal as u8))
        }
        // `axplab list | head` is no failure.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("axplab: {}", one_line(&error));
            ExitCode::from(2)
        }
    }
}

/// Help and version as clap prints them; a wrong call as one line, like every other error.
fn usage(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Nobody is left to tell if this cannot be written.
        let _ = error.print();
        return ExitCode::from(error.exit_code() as u8);
    }
    let text = error.render().to_string();
    let said = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let said: Vec<&str> = said.map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = said.join("; ").replace(":; ", ": ");
    eprintln!("axplab: {}; see --help", said.trim_start_matches("error: "));
    ExitCode::from(2)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The whole chain of causes on one line: scripts and people read errors by the line.
fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}").lines().map(str::trim).collect::<Vec<_>>().join("; ")
}
