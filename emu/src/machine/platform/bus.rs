//! The half of physical address space that is not memory: which register an address is.
//!
//! | physical address | |
//! |---|---|
//! | 0x800_0000_0000 | PCI memory, hose 0 |
//! | 0x801_8000_0000 | Pchip 0 |
//! | 0x801_a000_0000 | Cchip |
//! | 0x801_b000_0000 | Dchip |
//! | 0x801_f800_0000 | interrupt acknowledge |
//! | 0x801_fc00_0000 | PCI I/O ports, ISA's among them |
//! | 0x801_fe00_0000 | PCI configuration |
//!
//! Hose 1 lies 0x2_0000_0000 behind, and has nothing on it.

use super::chips::Chip;
use super::{Clipper, State, lock};
use crate::mem::Device;

/// Where I/O begins.
pub(super) const IO: u64 = 0x800_0000_0000;
/// Bytes of it.
pub(super) const IO_SIZE: u64 = 0x800_0000_0000;

/// What an offset from [`IO`] is.
enum Register {
    Chip(Chip, u64),
    Acknowledge,
    Port(u64),
    Config,
    Nothing,
}

fn decode(offset: u64) -> Register {
    let (hose, low) = (offset >> 33, offset & 0x1_ffff_ffff);
    match low {
        0x1_8000_0000..0x1_9000_0000 if hose < 2 => {
            Register::Chip(Chip::P(hose as u8), low & 0xfff)
        }
        0x1_a000_0000..0x1_b000_0000 if hose == 0 => Register::Chip(Chip::C, low & 0xfff),
        0x1_b000_0000..0x1_c000_0000 if hose == 0 => Register::Chip(Chip::D, low & 0xfff),
        0x1_f800_0000..0x1_fc00_0000 if hose == 0 => Register::Acknowledge,
        0x1_fc00_0000..0x1_fe00_0000 if hose == 0 => Register::Port(low & 0x1ff_ffff),
        0x1_fe00_0000..0x1_ff00_0000 if hose < 2 => Register::Config,
        _ => Register::Nothing,
    }
}

impl State {
    fn count_unknown(&mut self, offset: u64) {
        self.unknown += 1;
        self.first_unknown.get_or_insert(IO + offset);
    }

    /// The vector of the device interrupt that a processor takes.
    pub(super) fn acknowledge(&mut self, processor: usize) -> u64 {
        match self.chips.device(processor) {
            Some(55) => {
                let line = self.pic.acknowledge();
                self.chips.set_isa(self.pic.requests());
                0x800 + 16 * line
            }
            Some(bit) => 0x900 + 16 * u64::from(bit),
            None => 0x800 + 16 * 7,
        }
    }

    fn read_port(&mut self, port: u64, now: u64) -> Option<u8> {
        Some(match port {
            0x20 | 0x21 | 0xa0 | 0xa1 | 0x4d0 | 0x4d1 => self.pic.read(port),
            0x40..=0x43 | 0x61 => self.pit.read(port, now),
            0x70 | 0x71 => self.rtc.read(port, now),
            0x3f8..=0x3ff => self.uart.read(port & 7),
            // DMA controllers, which nothing uses.
            0x00..=0x0f | 0x80..=0x8f | 0xc0..=0xdf | 0x40a..=0x40b | 0x4d4..=0x4d6 => 0,
            _ => return None,
        })
    }

    /// Writes a port; gives the character that goes to the console. `None` where nothing is.
    fn write_port(&mut self, port: u64, value: u8, now: u64) -> Option<Option<u8>> {
        match port {
            0x20 | 0x21 | 0xa0 | 0xa1 | 0x4d0 | 0x4d1 => self.pic.write(port, value),
            0x40..=0x43 | 0x61 => self.pit.write(port, value, now),
            0x70 | 0x71 => {
                // What was due by the old setting.
                self.refresh(now);
                self.rtc.write(port, value, now);
            }
            0x3f8..=0x3ff => return Some(self.uart.write(port & 7, value)),
            0x00..=0x0f | 0x80..=0x8f | 0xc0..=0xdf | 0x40a..=0x40b | 0x4d4..=0x4d6 => {}
            _ => return None,
        }
        Some(None)
    }
}

impl Device for Clipper {
    fn read(&self, offset: u64, size: u64) -> u64 {
        let mut state = lock(&self.state);
        match decode(offset) {
            Register::Chip(chip, at) => state.chips.read(chip, at, 0),
            Register::Acknowledge => {
                let vector = state.acknowledge(0);
                self.settle(&mut state);
                vector
            }
            Register::Port(port) => {
                let now = self.now();
                let bytes = (0..size).map(|i| match state.read_port(port + i, now) {
                    Some(byte) => u64::from(byte) << (8 * i),
                    None => {
                        if i == 0 {
                            state.count_unknown(offset);
                        }
                        0xff << (8 * i)
                    }
                });
                let value = bytes.sum();
                // Reading is what ends some requests.
                self.settle(&mut state);
                value
            }
            // No device is there: the master abort of a configuration read gives ones.
            Register::Config => u64::MAX,
            Register::Nothing => {
                state.count_unknown(offset);
                u64::MAX
            }
        }
    }

    fn write(&self, offset: u64, size: u64, value: u64) {
        let mut state = lock(&self.state);
        match decode(offset) {
            Register::Chip(chip, at) => {
                state.chips.write(chip, at, value);
                self.settle(&mut state);
            }
            Register::Port(port) => {
                let now = self.now();
                for i in 0..size {
                    match state.write_port(port + i, (value >> (8 * i)) as u8, now) {
                        Some(Some(character)) => lock(&self.output).put(&[character]),
                        Some(None) => {}
                        None if i == 0 => state.count_unknown(offset),
                        None => {}
                    }
                }
                self.settle(&mut state);
            }
            Register::Acknowledge | Register::Config => {}
            Register::Nothing => state.count_unknown(offset),
        }
    }
}
