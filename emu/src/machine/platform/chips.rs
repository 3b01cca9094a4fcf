//! The chipset's registers: the Cchip, which routes interrupts, and two Pchips, of which the first one's
//! windows are in use (21272 chipset, the Tsunami's manual).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::MAX_PROCESSORS;
use super::windows::Windows;

/// Cchip registers by offset.
mod cchip {
    pub const MISC: u64 = 0x80;
    /// Mask and masked requests of processors 0 and 1; those of 2 and 3 lie 0x400 behind.
    pub const DIM: u64 = 0x200;
    pub const DIR: u64 = 0x280;
    pub const DRIR: u64 = 0x300;
}

/// The request line of the ISA bridge.
const ISA: u64 = 1 << 55;
/// Lines of PCI devices.
const PCI: u64 = 0x0000_ffff_ffff_ff00;

/// Which chip.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Chip {
    /// Memory and interrupt control.
    C,
    /// Data paths.
    D,
    /// PCI, hose 0 or 1.
    P(u8),
}

/// The registers.
#[derive(Debug, Default)]
pub(super) struct Chips {
    stored: BTreeMap<(Chip, u64), u64>,
    windows: Arc<Windows>,
    requests: u64,
    masks: [u64; MAX_PROCESSORS],
}

/// Which processor's mask or request register an offset is.
fn processor(offset: u64, first: u64) -> Option<usize> {
    (0..MAX_PROCESSORS).find(|&i| first + 0x40 * (i as u64 & 1) + 0x400 * (i as u64 >> 1) == offset)
}

impl Chips {
    /// The windows of hose 0.
    pub(super) fn windows(&self) -> Arc<Windows> {
        self.windows.clone()
    }

    /// Level of the ISA bridge's request.
    pub(super) fn set_isa(&mut self, on: bool) {
        self.set_requests(ISA, on);
    }

    /// Level of request lines.
    pub(super) fn set_requests(&mut self, lines: u64, on: bool) {
        self.requests = if on { self.requests | lines } else { self.requests & !lines };
    }

    /// The highest request that a processor's mask lets through.
    pub(super) fn device(&self, processor: usize) -> Option<u32> {
        let wanted = self.requests & self.masks[processor] & (ISA | PCI);
        (wanted != 0).then(|| 63 - wanted.leading_zeros())
    }

    pub(super) fn read(&self, chip: Chip, offset: u64, asking: usize) -> u64 {
        if chip == Chip::C {
            if let Some(i) = processor(offset, cchip::DIM) {
                return self.masks[i];
            }
            if let Some(i) = processor(offset, cchip::DIR) {
                return self.requests & self.masks[i];
            }
            match offset {
                cchip::DRIR => return self.requests,
                // Who reads, and the revision of a Tsunami.
                cchip::MISC => return asking as u64 | 8 << 32,
                _ => {}
            }
        }
        self.stored.get(&(chip, offset)).copied().unwrap_or(0)
    }

    pub(super) fn write(&mut self, chip: Chip, offset: u64, value: u64) {
        if chip == Chip::C {
            if let Some(i) = processor(offset, cchip::DIM) {
                self.masks[i] = value;
                return;
            }
            // Requests of the interval timer and between processors are PALcode's here.
            if matches!(offset, cchip::MISC | cchip::DRIR)
                || processor(offset, cchip::DIR).is_some()
            {
                return;
            }
        }
        if chip == Chip::P(0) {
            self.windows.write(offset & 0xfc0, value);
        }
        // As many registers as a chip decodes.
        self.stored.insert((chip, offset & 0xfc0), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_route_requests_to_processors() {
        let mut chips = Chips::default();
        chips.set_isa(true);
        chips.set_requests(1 << 12, true);
        assert_eq!(chips.device(0), None);
        chips.write(Chip::C, 0x200, 1 << 12);
        chips.write(Chip::C, 0x640, 1 << 55);
        assert_eq!((chips.device(0), chips.device(3)), (Some(12), Some(55)));
        assert_eq!(chips.read(Chip::C, 0x280, 0), 1 << 12);
        assert_eq!(chips.read(Chip::C, 0x6c0, 0), 1 << 55);
        assert_eq!(chips.read(Chip::C, 0x300, 0), 1 << 55 | 1 << 12);
        chips.set_requests(1 << 12, false);
        assert_eq!(chips.device(0), None);
    }

    #[test]
    fn windows_of_the_pchips_are_stored() {
        let mut chips = Chips::default();
        chips.write(Chip::P(0), 0x100, 0x3ff0_0000);
        assert_eq!(chips.read(Chip::P(0), 0x100, 0), 0x3ff0_0000);
        assert_eq!(chips.read(Chip::P(1), 0x100, 0), 0);
    }
}
