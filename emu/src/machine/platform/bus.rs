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
use super::pci::Bus;
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
    /// PCI memory and configuration of hose 0.
    Memory(u64),
    Config(u64),
    /// Configuration of hose 1.
    NoConfig,
    Nothing,
}

fn decode(offset: u64) -> Register {
    let (hose, low) = (offset >> 33, offset & 0x1_ffff_ffff);
    match low {
        0..0x1_0000_0000 if hose == 0 => Register::Memory(low),
        0x1_8000_0000..0x1_9000_0000 if hose < 2 => {
            Register::Chip(Chip::P(hose as u8), low & 0xfff)
        }
        0x1_a000_0000..0x1_b000_0000 if hose == 0 => Register::Chip(Chip::C, low & 0xfff),
        0x1_b000_0000..0x1_c000_0000 if hose == 0 => Register::Chip(Chip::D, low & 0xfff),
        0x1_f800_0000..0x1_fc00_0000 if hose == 0 => Register::Acknowledge,
        0x1_fc00_0000..0x1_fe00_0000 if hose == 0 => Register::Port(low & 0x1ff_ffff),
        0x1_fe00_0000..0x1_ff00_0000 if hose == 0 => Register::Config(low & 0xff_ffff),
        0x1_fe00_0000..0x1_ff00_0000 if hose == 1 => Register::NoConfig,
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

/// An access of up to eight bytes as those of up to four that PCI has: offset, size, and the shift of
/// its part.
fn parts(offset: u64, size: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    (0..size.div_ceil(4)).map(move |i| (offset + 4 * i, size.min(4), 32 * i))
}

impl Clipper {
    /// Reads configuration space; where no device is, the master abort gives ones.
    fn read_config(&self, offset: u64, size: u64) -> u64 {
        let Some((function, at)) = self.pci.get().and_then(|bus| bus.config(offset)) else {
            return u64::MAX;
        };
        let read = |f: &mut super::pci::Function| {
            parts(0, size)
                .map(|(i, n, shift)| {
                    let part = at + i as usize;
                    if part < 256 { Bus::read_config(f, part, n) << shift } else { 0 }
                })
                .sum()
        };
        self.with_function(function, read).unwrap_or(u64::MAX)
    }

    fn write_config(&self, offset: u64, size: u64, value: u64) {
        let Some((function, at)) = self.pci.get().and_then(|bus| bus.config(offset)) else {
            return;
        };
        self.with_function(function, |f| {
            for (i, n, shift) in parts(0, size) {
                let part = at + i as usize;
                if part < 256 {
                    Bus::write_config(f, part, n, value >> shift);
                }
            }
        });
    }

    /// Reads PCI memory; `None` where nothing is.
    fn read_memory(&self, address: u64, size: u64) -> Option<u64> {
        let (function, offset) = self.pci.get()?.memory(address)?;
        self.with_function(function, |f| {
            parts(offset, size).map(|(at, n, shift)| f.device.read(at, n) << shift).sum()
        })
    }

    fn write_memory(&self, address: u64, size: u64, value: u64) -> Option<()> {
        let (function, offset) = self.pci.get()?.memory(address)?;
        self.with_function(function, |f| {
            for (at, n, shift) in parts(offset, size) {
                let mask = u64::MAX >> (64 - 8 * n);
                f.device.write(at, n, value >> shift & mask);
            }
        })
    }
}

impl Device for Clipper {
    fn read(&self, offset: u64, size: u64) -> u64 {
        let register = decode(offset);
        // Before the lock of the state, which functions take while they have their own.
        match register {
            Register::Config(at) => return self.read_config(at, size),
            Register::Memory(at) => {
                return self.read_memory(at, size).unwrap_or_else(|| {
                    lock(&self.state).count_unknown(offset);
                    u64::MAX
                });
            }
            _ => {}
        }
        let mut state = lock(&self.state);
        match register {
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
            Register::NoConfig => u64::MAX,
            Register::Nothing | Register::Memory(_) | Register::Config(_) => {
                state.count_unknown(offset);
                u64::MAX
            }
        }
    }

    fn write(&self, offset: u64, size: u64, value: u64) {
        let register = decode(offset);
        match register {
            Register::Config(at) => return self.write_config(at, size, value),
            Register::Memory(at) => {
                if self.write_memory(at, size, value).is_none() {
                    lock(&self.state).count_unknown(offset);
                }
                return;
            }
            _ => {}
        }
        let mut state = lock(&self.state);
        match register {
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
            Register::Acknowledge | Register::NoConfig => {}
            Register::Nothing | Register::Memory(_) | Register::Config(_) => {
                state.count_unknown(offset)
            }
        }
    }
}
