//! The console of the system: where output goes, and the callbacks that a kernel reaches through the
//! console routine block (AARM III 2.3), which arrive here as CSERVE.

use std::io::Write;

use super::{Clipper, hwrpb, lock};
use crate::machine::Console;
use crate::mem::SystemMap;

/// Callbacks, in R16 (AARM III table 2-2).
mod callback {
    pub const GETC: u64 = 0x01;
    pub const PUTS: u64 = 0x02;
    pub const RESET_TERM: u64 = 0x03;
    pub const SET_TERM_INT: u64 = 0x04;
    pub const SET_TERM_CTL: u64 = 0x05;
    pub const OPEN_CONSOLE: u64 = 0x07;
    pub const CLOSE_CONSOLE: u64 = 0x08;
}

/// Status in bits 63:61 of an answer: no character, or no such variable, device, or callback.
const NO_CHARACTER: u64 = 4 << 61;
const FAILED: u64 = 6 << 61;
/// Characters that one callback writes at most; the caller repeats it for the rest.
const MOST: u64 = 512;
/// What a Linux kernel says before it gives up.
const PANIC: &[u8] = b"Kernel panic - not syncing";

/// Where output goes, and what was seen in it.
#[derive(Debug)]
pub(super) struct Output {
    console: Console,
    kept: Vec<u8>,
    /// Characters of [`PANIC`] that came last.
    matched: usize,
    panicked: bool,
}

impl Output {
    pub(super) fn new(console: Console) -> Self {
        Output { console, kept: Vec::new(), matched: 0, panicked: false }
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            // No prefix of the text but its first letter occurs in it again at the wrong place.
            self.matched = match byte {
                _ if PANIC.get(self.matched) == Some(&byte) => self.matched + 1,
                _ => usize::from(byte == PANIC[0]),
            };
            if self.matched == PANIC.len() {
                (self.panicked, self.matched) = (true, 0);
            }
        }
        match &mut self.console {
            Console::Kept => self.kept.extend(bytes),
            // A terminal that is gone does not stop the machine.
            Console::File(file) => drop(file.write_all(bytes)),
        }
    }
}

impl Clipper {
    /// Console output that was kept.
    pub fn take_output(&self) -> Vec<u8> {
        std::mem::take(&mut lock(&self.output).kept)
    }

    /// Whether a Linux kernel has said that it panics.
    pub fn panicked(&self) -> bool {
        lock(&self.output).panicked
    }

    /// A callback; `arguments` are R16 to R19.
    pub(in crate::machine) fn console_call(&self, memory: &SystemMap, arguments: [u64; 4]) -> u64 {
        use callback::*;
        let [function, _unit, address, length] = arguments;
        match function {
            GETC => {
                let character = lock(&self.state).uart.take();
                character.map_or(NO_CHARACTER, u64::from)
            }
            PUTS => {
                let mut text = Vec::new();
                for i in 0..length.min(MOST) {
                    let va = address.wrapping_add(i);
                    let byte = memory.peek(va).and_then(|pa| memory.physical().load(pa, 1));
                    let Some(byte) = byte else { break };
                    text.push(byte as u8);
                }
                lock(&self.output).put(&text);
                text.len() as u64
            }
            hwrpb::FIXUP_CALL => {
                hwrpb::move_routines(memory.physical(), address);
                0
            }
            RESET_TERM | SET_TERM_INT | SET_TERM_CTL | OPEN_CONSOLE | CLOSE_CONSOLE => 0,
            _ => FAILED,
        }
    }
}
