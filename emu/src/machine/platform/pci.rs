//! The PCI bus of hose 0: configuration space, memory, and the interrupt lines of the one slot that is
//! used. Its card has a function for each device.
//!
//! The slot is device 6, which both a Clipper and a DP264 have, so that kernels for either find the
//! card. Its lines are wired to the request lines that Linux expects of the one and of the other: a
//! kernel enables only those that it knows.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::lock;
use super::transport::{BAR_SIZE, Transport};

/// The device number.
const SLOT: u64 = 6;
/// Functions that a card can have.
pub(super) const MAX_FUNCTIONS: usize = 8;

/// Offsets in configuration space.
mod reg {
    pub const COMMAND: usize = 0x04;
    pub const STATUS: usize = 0x06;
    pub const HEADER_TYPE: usize = 0x0e;
    pub const BAR: usize = 0x10;
    pub const CAPABILITIES: usize = 0x34;
    pub const LINE: usize = 0x3c;
    pub const PIN: usize = 0x3d;
    /// The first capability; the others follow.
    pub const FIRST: usize = 0x40;
}

/// Command bits.
const MEMORY: u8 = 2;
const MASTER: u8 = 4;
/// Of the second byte: no interrupts.
const NO_INTERRUPTS: u8 = 4;
/// Status bits of the first byte: an interrupt is wanted; there are capabilities.
const INTERRUPT: u8 = 8;
const HAS_CAPABILITIES: u8 = 0x10;

/// The request lines of a function: those of slot 6 of a Clipper, 28 to 31, and those that a DP264 has
/// for the device there, 19 for INTA and 18 for the others.
pub(super) fn request_lines(function: usize) -> u64 {
    let pin = function % 4;
    1 << (28 + pin) | if pin == 0 { 1 << 19 } else { 1 << 18 }
}

/// A function of the card.
#[derive(Debug)]
pub(super) struct Function {
    config: [u8; 256],
    /// What a driver may change in it.
    writable: [u8; 256],
    pub(super) device: Transport,
    /// Where the capability is that shows the BAR through configuration space.
    access: usize,
}

impl Function {
    fn new(device: Transport, index: usize, several: bool) -> Self {
        let mut config = [0; 256];
        let mut writable = [0; 256];
        let (id, class) = device.identity();
        config[..2].copy_from_slice(&0x1af4u16.to_le_bytes());
        config[2..4].copy_from_slice(&(0x1040 + id).to_le_bytes());
        config[reg::STATUS] = HAS_CAPABILITIES;
        // Revision 1: a device without the registers of old.
        config[8] = 1;
        config[9..12].copy_from_slice(&class.to_le_bytes()[..3]);
        config[reg::HEADER_TYPE] = if several { 0x80 } else { 0 };
        config[0x2c..0x2e].copy_from_slice(&0x1af4u16.to_le_bytes());
        config[0x2e..0x30].copy_from_slice(&(0x40 + id).to_le_bytes());
        config[reg::CAPABILITIES] = reg::FIRST as u8;
        config[reg::PIN] = index as u8 % 4 + 1;
        writable[reg::COMMAND] = MEMORY | MASTER;
        writable[reg::COMMAND + 1] = NO_INTERRUPTS;
        writable[reg::LINE] = 0xff;
        // Cache line size and latency timer: kept, without meaning.
        writable[0x0c..0x0e].fill(0xff);
        let size_mask = !(BAR_SIZE as u32 - 1);
        writable[reg::BAR..reg::BAR + 4].copy_from_slice(&size_mask.to_le_bytes());
        let (mut at, mut access) = (reg::FIRST, 0);
        for capability in super::transport::CAPABILITIES {
            let bytes = capability.bytes();
            let next = at + bytes.len();
            config[at..next].copy_from_slice(&bytes);
            if capability.is_access() {
                access = at;
                // BAR, offset, length and data.
                writable[at + 4] = 0xff;
                writable[at + 8..next].fill(0xff);
            } else {
                config[at + 1] = next as u8;
            }
            at = next;
        }
        Function { config, writable, device, access }
    }

    /// Where its memory is, if it may be accessed.
    fn base(&self) -> u64 {
        let bar = &self.config[reg::BAR..reg::BAR + 4];
        let base = u32::from_le_bytes([bar[0], bar[1], bar[2], bar[3]]);
        if self.config[reg::COMMAND] & MEMORY == 0 { NOWHERE } else { u64::from(base) }
    }

    /// Level of its interrupt line.
    pub(super) fn interrupts(&self) -> bool {
        self.config[reg::COMMAND + 1] & NO_INTERRUPTS == 0 && self.device.interrupts()
    }

    /// What the capability for accesses through configuration space names: offset and size.
    fn window(&self) -> Option<(u64, u64)> {
        let word = |at: usize| {
            let b = &self.config[self.access + at..self.access + at + 4];
            u64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        };
        let (bar, offset, size) = (self.config[self.access + 4], word(8), word(12));
        let right = bar == 0 && matches!(size, 1 | 2 | 4) && offset.is_multiple_of(size);
        (right && offset < BAR_SIZE).then_some((offset, size))
    }

    fn read_config(&mut self, at: usize, size: usize) -> u64 {
        if at == self.access + 16
            && let Some((offset, wanted)) = self.window()
        {
            let value = self.device.read(offset, wanted) as u32;
            self.config[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let mut bytes = [0; 8];
        let end = (at + size).min(self.config.len());
        bytes[..end - at].copy_from_slice(&self.config[at..end]);
        if (at..end).contains(&reg::STATUS) && self.device.interrupts() {
            bytes[reg::STATUS - at] |= INTERRUPT;
        }
        u64::from_le_bytes(bytes)
    }

    fn write_config(&mut self, at: usize, size: usize, value: u64) {
        for (i, byte) in value.to_le_bytes()[..size].iter().enumerate() {
            let Some(kept) = self.config.get_mut(at + i) else { break };
            let mask = self.writable[at + i];
            *kept = *kept & !mask | byte & mask;
        }
        self.device.set_master(self.config[reg::COMMAND] & MASTER != 0);
        if at == self.access + 16
            && let Some((offset, wanted)) = self.window()
        {
            self.device.write(offset, wanted, value);
        }
    }
}

/// A function and where its memory is, which is asked for without its lock.
#[derive(Debug)]
struct Place {
    base: AtomicU64,
    function: Mutex<Function>,
}

const NOWHERE: u64 = u64::MAX;

/// The bus.
#[derive(Debug, Default)]
pub(super) struct Bus(Vec<Place>);

impl Bus {
    /// A bus with a card of these functions.
    pub(super) fn new(devices: Vec<Transport>) -> Self {
        let several = devices.len() > 1;
        let functions = devices.into_iter().take(MAX_FUNCTIONS).enumerate();
        let place = |(i, device)| Place {
            base: AtomicU64::new(NOWHERE),
            function: Mutex::new(Function::new(device, i, several)),
        };
        Bus(functions.map(place).collect())
    }

    /// How many functions there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The function and register that an offset in configuration space is.
    pub(super) fn config(&self, offset: u64) -> Option<(usize, usize)> {
        let function = (offset >> 8 & 7) as usize;
        let there = offset >> 16 == 0 && offset >> 11 == SLOT && function < self.0.len();
        there.then_some((function, (offset & 0xff) as usize))
    }

    /// The function and offset that an address in its memory is.
    pub(super) fn memory(&self, address: u64) -> Option<(usize, u64)> {
        let offset = |place: &Place| {
            let base = place.base.load(Ordering::Acquire);
            address.checked_sub(base).filter(|&offset| offset < BAR_SIZE)
        };
        self.0.iter().enumerate().find_map(|(i, place)| Some((i, offset(place)?)))
    }

    /// Works with a function and hands the level of its interrupt line on, before anyone else can
    /// change it.
    pub(super) fn with<T>(
        &self,
        index: usize,
        work: impl FnOnce(&mut Function) -> T,
        tell: impl FnOnce(bool),
    ) -> T {
        let place = &self.0[index];
        let mut function = lock(&place.function);
        let result = work(&mut function);
        place.base.store(function.base(), Ordering::Release);
        tell(function.interrupts());
        result
    }

    pub(super) fn read_config(function: &mut Function, at: usize, size: u64) -> u64 {
        function.read_config(at, size as usize)
    }

    pub(super) fn write_config(function: &mut Function, at: usize, size: u64, value: u64) {
        function.write_config(at, size as usize, value);
    }
}
