//! The user's terminal as a guest's console: raw while the guest runs, and as it was afterwards, by
//! whatever way this program ends.

use std::io;
use std::os::fd::AsFd;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// Standard input in raw mode. Dropping it brings the old settings back.
#[derive(Debug)]
pub struct Raw(Termios);

impl Raw {
    /// Makes standard input raw; `None` if it is no terminal.
    pub fn enter() -> io::Result<Option<Raw>> {
        let input = io::stdin();
        let Ok(before) = tcgetattr(input.as_fd()) else { return Ok(None) };
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(input.as_fd(), OptionalActions::Now, &raw)?;
        Ok(Some(Raw(before)))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs no settings.
        let _ = tcsetattr(io::stdin().as_fd(), OptionalActions::Now, &self.0);
    }
}
