//! `axplab completions` and `axplab man`: both made from the command line's own definition, so that they cannot disagree with it.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};

use crate::Outcome;
use crate::cli::Cli;

/// Arguments of `axplab completions`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    axplab completions bash > ~/.local/share/bash-completion/completions/axplab")]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// Arguments of `axplab man`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  axplab man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// An existing folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Prints the script.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<Outcome> {
    // In memory first: the generator panics where it cannot write.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "axplab", &mut text);
    let mut out = std::io::stdout().lock();
    out.write_all(&text)?;
    out.flush()?;
    Ok(Outcome::DONE)
}

/// Writes `axplab.1` and a page for each command.
pub fn man(args: &ManArgs) -> anyhow::Result<Outcome> {
    let folder = args.folder.display();
    let hint = || format!("cannot write manual pages into `{folder}`; name a writable folder");
    clap_mangen::generate_to(Cli::command(), &args.folder).with_context(hint)?;
    Ok(Outcome::DONE)
}
