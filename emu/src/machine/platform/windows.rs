//! How a device on PCI reaches memory: the windows of a Pchip, which turn addresses on the bus into
//! physical addresses (21272 chipset manual, chapter 10). Four windows are given by registers, direct
//! or by a table in memory; above 4 GB the monster window shows all memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vm_memory::guest_memory::{Error, GuestMemorySliceIterator, Result};
use vm_memory::{Bytes, GuestAddress, GuestMemory, GuestMemoryMmap, Permissions, VolatileSlice};

use crate::mem::{PAGE_SIZE, Ram};

/// Registers of a Pchip: base, mask and translated base of window 0, 64 bytes apart from the next ones.
const BASE: u64 = 0;
const MASK: u64 = 0x100;
const TABLE: u64 = 0x200;
const CONTROL: u64 = 0x300;

/// Bits of a window's base.
const ENABLE: u64 = 1;
const SCATTER: u64 = 2;
/// What base and mask say: address bits 31 to 20.
const FIELD: u64 = 0xfff0_0000;
/// Bits that a window of 1 MB leaves.
const WITHIN: u64 = 0xf_ffff;
/// The monster window: enabled by this bit of the control register, selected by that of an address.
const MONSTER: u64 = 1 << 6;
const MONSTER_BIT: u64 = 1 << 40;
/// Physical addresses that fit into it.
const MONSTER_MASK: u64 = (1 << 35) - 1;

/// The registers, as devices see them: without the platform's lock.
#[derive(Debug, Default)]
pub(super) struct Windows {
    base: [AtomicU64; 4],
    mask: [AtomicU64; 4],
    table: [AtomicU64; 4],
    control: AtomicU64,
}

impl Windows {
    /// A write to a register of the Pchip.
    pub(super) fn write(&self, offset: u64, value: u64) {
        let index = (offset >> 6 & 3) as usize;
        let register = match offset & !0xff {
            BASE => &self.base[index],
            MASK => &self.mask[index],
            TABLE => &self.table[index],
            CONTROL if index == 0 => &self.control,
            _ => return,
        };
        register.store(value, Ordering::Relaxed);
    }

    /// The physical address behind an address on the bus, and how many bytes from there on are.
    fn translate(&self, ram: &Ram, address: u64) -> Option<(u64, u64)> {
        let get = |register: &AtomicU64| register.load(Ordering::Relaxed);
        if address >> 32 != 0 {
            let monster =
                address & !MONSTER_MASK == MONSTER_BIT && get(&self.control) & MONSTER != 0;
            let pa = address & MONSTER_MASK;
            return monster.then_some((pa, MONSTER_MASK + 1 - pa));
        }
        (0..4).find_map(|i| {
            let (base, mask) = (get(&self.base[i]), get(&self.mask[i]) & FIELD | WITHIN);
            let inside = base & ENABLE != 0 && (address ^ base) & FIELD & !mask == 0;
            if !inside {
                return None;
            }
            let (at, table) = (address & mask, get(&self.table[i]));
            if base & SCATTER == 0 {
                // The mask need not be a run of bits; within a megabyte there is no doubt.
                return Some(((table & !mask & MONSTER_MASK) | at, WITHIN + 1 - (at & WITHIN)));
            }
            let entry_at = (table & MONSTER_MASK & !(mask >> 10)) | (at / PAGE_SIZE * 8);
            let entry = ram.slice(entry_at, 8)?.read_obj::<u64>(0).ok()?;
            let within = at & (PAGE_SIZE - 1);
            (entry & 1 != 0)
                .then(|| ((entry >> 1 << 13 & MONSTER_MASK) | within, PAGE_SIZE - within))
        })
    }
}

/// Memory as a device sees it.
#[derive(Debug, Clone)]
pub(super) struct Dma {
    ram: Arc<Ram>,
    windows: Arc<Windows>,
    /// Addresses go through the windows; otherwise they are physical, which is how a driver addresses
    /// memory that has not accepted VIRTIO_F_ACCESS_PLATFORM.
    pub(super) translated: bool,
}

impl Dma {
    pub(super) fn new(ram: Arc<Ram>, windows: Arc<Windows>) -> Self {
        Dma { ram, windows, translated: false }
    }
}

/// The pieces of a range.
struct Pieces<'a> {
    dma: &'a Dma,
    address: u64,
    left: u64,
}

impl<'a> Pieces<'a> {
    fn piece(&self) -> Option<(VolatileSlice<'a>, u64)> {
        let (pa, most) = if self.dma.translated {
            self.dma.windows.translate(&self.dma.ram, self.address)?
        } else {
            (self.address, u64::MAX)
        };
        let len = self.left.min(most);
        Some((self.dma.ram.slice(pa, len)?, len))
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Result<VolatileSlice<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let Some((slice, len)) = self.piece() else {
            // No items come after an error.
            self.left = 0;
            return Some(Err(Error::InvalidGuestAddress(GuestAddress(self.address))));
        };
        self.left -= len;
        self.address = self.address.wrapping_add(len);
        Some(Ok(slice))
    }
}

impl std::iter::FusedIterator for Pieces<'_> {}

impl<'a> GuestMemorySliceIterator<'a, ()> for Pieces<'a> {}

impl GuestMemory for Dma {
    // Not used: what stands for memory here is `Ram`.
    type PhysicalMemory = GuestMemoryMmap;
    type Bitmap = ();

    fn check_range(&self, address: GuestAddress, count: usize, _: Permissions) -> bool {
        Pieces { dma: self, address: address.0, left: count as u64 }.all(|piece| piece.is_ok())
    }

    fn get_slices<'a>(
        &'a self,
        address: GuestAddress,
        count: usize,
        _: Permissions,
    ) -> Result<impl GuestMemorySliceIterator<'a, ()>> {
        Ok(Pieces { dma: self, address: address.0, left: count as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::Physical;

    fn dma() -> Dma {
        let physical = Physical::new(4 << 20).unwrap();
        let mut dma = Dma::new(physical.ram(), Arc::default());
        dma.translated = true;
        dma
    }

    fn lengths(dma: &Dma, address: u64, count: usize) -> Option<Vec<usize>> {
        let slices = dma.get_slices(GuestAddress(address), count, Permissions::Read).unwrap();
        slices.map(|slice| slice.ok().map(|slice| slice.len())).collect()
    }

    #[test]
    fn without_windows_nothing_is_reached() {
        let mut dma = dma();
        assert_eq!(lengths(&dma, 0, 8), None);
        assert_eq!(lengths(&dma, MONSTER_BIT, 8), None);
        dma.translated = false;
        assert_eq!(lengths(&dma, 0, 8), Some(vec![8]));
        assert_eq!(lengths(&dma, (4 << 20) - 8, 9), None);
        assert_eq!(lengths(&dma, u64::MAX, 9), None);
    }

    #[test]
    fn a_direct_window_shows_memory_up_to_its_end() {
        let dma = dma();
        // As Linux sets it: 2 GB at 2 GB.
        dma.windows.write(0x80, 0x8000_0001);
        dma.windows.write(0x180, 0x7ff0_0000);
        dma.ram.slice(0x12_3456, 8).unwrap().write_obj(42u64, 0).unwrap();
        assert_eq!(dma.read_obj::<u64>(GuestAddress(0x8012_3456)).unwrap(), 42);
        assert_eq!(lengths(&dma, 0x800f_fff0, 0x20), Some(vec![16, 16]));
        assert_eq!(lengths(&dma, 0x803f_fff0, 0x11), None, "the end of RAM");
        assert_eq!(lengths(&dma, 0x12_3456, 8), None, "below the window");
        // Somewhere else in memory.
        dma.windows.write(0x280, 0x8000_0000);
        assert_eq!(lengths(&dma, 0x8012_3456, 8), None);
    }

    #[test]
    fn the_monster_window_has_a_bit_of_its_own() {
        let dma = dma();
        dma.windows.write(0x300, MONSTER);
        assert_eq!(lengths(&dma, MONSTER_BIT + 16, 8), Some(vec![8]));
        assert_eq!(lengths(&dma, 2 * MONSTER_BIT + 16, 8), None);
        assert_eq!(lengths(&dma, MONSTER_BIT + (1 << 36), 8), None);
    }

    #[test]
    fn a_table_scatters_pages() {
        let dma = dma();
        // 8 MB at 8 MB, the table at 0x10000.
        dma.windows.write(0x00, 0x80_0003);
        dma.windows.write(0x100, 0x70_0000);
        dma.windows.write(0x200, 0x1_0000);
        let enter = |index: u64, pa: u64, valid: u64| {
            let entry = dma.ram.slice(0x1_0000 + 8 * index, 8).unwrap();
            entry.write_obj(pa >> 12 | valid, 0).unwrap();
        };
        enter(0, 0x20_0000, 1);
        enter(1, 0x10_0000, 1);
        enter(2, 0x30_0000, 0);
        dma.write_obj(0x1122_3344_5566_7788u64, GuestAddress(0x80_1ffc)).unwrap();
        let at = |pa| dma.ram.slice(pa, 4).unwrap().read_obj::<u32>(0).unwrap();
        assert_eq!((at(0x20_1ffc), at(0x10_0000)), (0x5566_7788, 0x1122_3344));
        assert_eq!(lengths(&dma, 0x80_3ffc, 4), Some(vec![4]));
        assert_eq!(lengths(&dma, 0x80_3ffc, 5), None, "an entry that is not valid");
        // A table outside memory.
        dma.windows.write(0x200, 1 << 30);
        assert_eq!(lengths(&dma, 0x80_0000, 4), None);
    }
}
