//! Translated memory of the privileged machine, as one processor sees it: page tables walked on a
//! miss of the translation buffer, protection by access mode, address space numbers.
//!
//! `AddressSpace` puts it behind the interface that engines know; the machine changes mode, page
//! table and address space number, and invalidates. Both PALcode variants use it: OpenVMS with four
//! modes, OSF/1 with two and the superpage.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::page::{Access, FaultKind, MemFault, PAGE_SIZE};
use super::physical::Physical;
use super::raw;
use super::tb::{Bank, TB_BANK};

/// Bits of a page table entry (AARM II-A 3.4).
pub mod pte {
    /// Valid.
    pub const V: u64 = 1 << 0;
    /// Fault on read.
    pub const FOR: u64 = 1 << 1;
    /// Fault on write.
    pub const FOW: u64 = 1 << 2;
    /// Fault on execute.
    pub const FOE: u64 = 1 << 3;
    /// Address space match: valid in all address spaces.
    pub const ASM: u64 = 1 << 4;
    /// Granularity hint.
    pub const GH: u64 = 3 << 5;
    /// Kernel read enable; the outer modes' follow.
    pub const KRE: u64 = 1 << 8;
    /// Kernel write enable; the outer modes' follow.
    pub const KWE: u64 = 1 << 12;
    /// Where the page frame number starts.
    pub const PFN_SHIFT: u32 = 32;
}

/// OSF/1's superpage.
const SUPERPAGE: u64 = 0xffff_fc00_0000_0000;
const SUPERPAGE_END: u64 = 0xffff_fe00_0000_0000;
/// Address spaces that the translation buffer holds at a time.
const SLOTS: usize = 4;
/// Entries of the stash of PROBE's verdicts.
const VERDICTS: usize = 1024;

/// The part of the PALcode's rules that translation depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Translation {
    /// Physical addresses are virtual ones: a machine before its page tables exist.
    #[default]
    Off,
    /// OpenVMS: four modes.
    Vms,
    /// OSF/1: kernel and user mode, and a superpage that only the kernel sees.
    Osf,
}

/// An answer of PROBE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeWay {
    /// The page table was read.
    Walked,
    /// The translation buffer knew.
    Buffer,
    /// A stashed verdict was found.
    Stash,
}

/// How PROBE finds its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProbeStrategy {
    /// The page table, for both bytes, every time.
    Walk,
    /// The translation buffer first, in compiled code where there is some.
    #[default]
    Inline,
    /// Verdicts by page, mode and direction, from valid entries only.
    Cached,
    /// As `Inline`; regions leave out what an earlier probe on the way has proved.
    Elided,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    asn: u64,
    ptbr: u64,
    used: u64,
    /// Something is in its banks.
    dirty: bool,
}

/// One processor's view of physical memory.
pub struct SystemMap {
    physical: Arc<Physical>,
    banks: Box<[Bank]>,
    slots: Cell<[Slot; SLOTS]>,
    clock: Cell<u64>,
    slot: Cell<usize>,
    mode: Cell<u64>,
    ptbr: Cell<u64>,
    translation: Cell<Translation>,
    fp_enabled: Cell<bool>,
    /// Rises when fetched-from memory may have changed its translation.
    epoch: Cell<u64>,
    /// What it was when it last rose for all address spaces, and for that in each slot.
    common_epoch: Cell<u64>,
    slot_epochs: Cell<[u64; SLOTS]>,
    /// The kernel has executed a page that is not in all address spaces.
    process_code: Cell<bool>,
    /// Code was fetched from behind OSF/1's superpage.
    high_code: Cell<bool>,
    /// Some entry had a granularity hint.
    hinted: Cell<bool>,
    /// Verdicts of PROBE: page | direction << 2 | mode, with bit 12 for "filled".
    verdicts: Box<[Cell<u64>]>,
    walks: Cell<u64>,
    strategy: Cell<ProbeStrategy>,
    /// Bytes asked about, by the way in which the answer was found.
    probes: Cell<[u64; 3]>,
    /// Pages that code was fetched from, one bit for several.
    code_pages: Box<[Cell<u64>; 64]>,
}

// SAFETY: a `SystemMap` belongs to one processor, whose thread alone calls it; it is shared in an
// `Arc` only because the processor's `AddressSpace` is. `AddressSpace::for_machine` hands out one
// per processor, and its owner must not give it to another processor.
unsafe impl Sync for SystemMap {}
// SAFETY: nothing in it is tied to a thread.
unsafe impl Send for SystemMap {}

/// A quadword of RAM, which others may access at the same time.
///
/// # Safety
/// `host` is the address of an aligned quadword of RAM that lives as long as the result.
unsafe fn ram<'a>(host: u64) -> &'a AtomicU64 {
    // SAFETY: the caller's promise.
    unsafe { AtomicU64::from_ptr(super::user::host_ptr(host).cast()) }
}

fn fault(va: u64, access: Access, why: FaultKind) -> MemFault {
    MemFault { va, access, why }
}

impl SystemMap {
    pub(super) fn new(physical: Arc<Physical>) -> Self {
        SystemMap {
            physical,
            banks: Bank::many(4 * SLOTS),
            slots: Cell::default(),
            clock: Cell::new(0),
            slot: Cell::new(0),
            mode: Cell::new(0),
            ptbr: Cell::new(0),
            translation: Cell::default(),
            fp_enabled: Cell::new(true),
            epoch: Cell::new(1),
            common_epoch: Cell::new(1),
            slot_epochs: Cell::default(),
            process_code: Cell::new(false),
            high_code: Cell::new(false),
            hinted: Cell::new(false),
            verdicts: vec![Cell::new(0); VERDICTS].into(),
            walks: Cell::new(0),
            strategy: Cell::default(),
            probes: Cell::default(),
            code_pages: Box::new([const { Cell::new(0) }; 64]),
        }
    }

    /// Physical memory.
    pub fn physical(&self) -> &Physical {
        &self.physical
    }

    /// Physical memory, for another processor.
    pub fn shared_physical(&self) -> Arc<Physical> {
        self.physical.clone()
    }

    /// The current access mode: 0 kernel to 3 user.
    pub fn mode(&self) -> u64 {
        self.mode.get()
    }

    /// Changes the access mode.
    pub fn set_mode(&self, mode: u64) {
        self.mode.set(mode & 3);
    }

    /// Changes what translation means. Everything buffered is dropped.
    pub fn set_translation(&self, translation: Translation) {
        self.translation.set(translation);
        self.invalidate_all();
    }

    /// Whether floating-point instructions execute: a part of what code was translated for.
    pub fn set_fp_enabled(&self, on: bool) {
        self.fp_enabled.set(on);
    }

    /// Whether floating-point instructions execute.
    pub fn fp_enabled(&self) -> bool {
        self.fp_enabled.get()
    }

    /// Frame number of the first page table.
    pub fn ptbr(&self) -> u64 {
        self.ptbr.get()
    }

    /// Walks of the page table so far.
    pub fn walks(&self) -> u64 {
        self.walks.get()
    }

    /// Enters an address space. Nothing is invalidated: entries are tagged by number. A page table
    /// that comes with a number that another one had is a slot of its own, which the architecture
    /// does not demand and no guest can tell from an invalidated buffer.
    pub fn set_address_space(&self, ptbr: u64, asn: u64) {
        let mut slots = self.slots.get();
        let now = self.clock.get() + 1;
        self.clock.set(now);
        let found = slots.iter().position(|s| s.used != 0 && s.asn == asn && s.ptbr == ptbr);
        let slot = found.unwrap_or_else(|| {
            // A page table under a new number, which is how Linux invalidates what belongs to it, takes
            // the place of its old number: most of the code there is still true.
            let same = slots.iter().position(|s| s.used != 0 && s.ptbr == ptbr);
            let oldest = || (0..SLOTS).min_by_key(|&i| slots[i].used).unwrap_or(0);
            let slot = same.unwrap_or_else(oldest);
            if slots[slot].dirty {
                self.clear_slot(slot);
            }
            if slots[slot].used != 0 {
                // Code of the address space that had the slot may be other code in this one.
                self.epoch.set(self.epoch.get() + 1);
                let mut epochs = self.slot_epochs.get();
                epochs[slot] = self.epoch.get();
                self.slot_epochs.set(epochs);
            }
            slots[slot] = Slot { asn, ptbr, used: 0, dirty: false };
            slot
        });
        slots[slot].used = now;
        self.slots.set(slots);
        self.slot.set(slot);
        if self.ptbr.replace(ptbr) != ptbr {
            self.forget_verdicts();
        }
    }

    /// What code is translated for, beside its address: mode, address space, floating point.
    #[inline]
    pub fn code_space(&self) -> u32 {
        let mode = self.mode.get() as u32;
        // The kernel's code is the same in all address spaces, unless one has been seen to differ.
        let shared = mode == 0 && !self.process_code.get();
        let slot = if shared { 0 } else { self.slot.get() as u32 };
        (slot << 3) + (mode << 1) + u32::from(self.fp_enabled.get()) + 1
    }

    /// The mode that code of this [`code_space`](Self::code_space) runs in; `None` for a program's.
    pub fn mode_of(space: u32) -> Option<u64> {
        space.checked_sub(1).map(|space| u64::from(space >> 1 & 3))
    }

    /// Host address of the current mode's bank.
    #[inline]
    pub fn bank(&self) -> u64 {
        &raw const self.banks[0] as u64 + (self.slot.get() as u64 * 4 + self.mode.get()) * TB_BANK
    }

    #[inline(always)]
    fn bank_of(&self, mode: u64) -> &Bank {
        &self.banks[self.slot.get() * 4 + (mode & 3) as usize]
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// Addresses of which a change of the epoch may tell: all but OSF/1's superpage, where what an
    /// address means does not change. That is mostly the kernel, and most of the code there is.
    pub(super) fn epoch_range(&self) -> (u64, u64) {
        let fixed = self.translation.get() == Translation::Osf && !self.high_code.get();
        (0, if fixed { SUPERPAGE } else { u64::MAX })
    }

    /// The epoch in which the code of a [`code_space`](Self::code_space) may last have become other code.
    pub(super) fn epoch_of(&self, space: u32) -> u64 {
        let slot = (space.wrapping_sub(1) >> 3) as usize % SLOTS;
        self.common_epoch.get().max(self.slot_epochs.get()[slot])
    }

    fn bump_epoch(&self) {
        self.epoch.set(self.epoch.get() + 1);
        self.common_epoch.set(self.epoch.get());
    }

    fn clear_slot(&self, slot: usize) {
        self.banks[4 * slot..4 * slot + 4].iter().for_each(Bank::clear);
    }

    fn forget_verdicts(&self) {
        self.verdicts.iter().for_each(|v| v.set(0));
    }

    /// TBIA and TBIAP. The second may keep entries with ASM; nothing says that it must.
    pub fn invalidate_all(&self) {
        let mut slots = self.slots.get();
        for (i, slot) in slots.iter_mut().enumerate() {
            if std::mem::replace(&mut slot.dirty, false) {
                self.clear_slot(i);
            }
        }
        self.slots.set(slots);
        self.forget_verdicts();
        self.bump_epoch();
    }

    /// TBIS, TBISD (`code` false), TBISI: one page in all address spaces, or, where granularity hints
    /// are in use, everything.
    pub fn invalidate_page(&self, va: u64, code: bool) {
        if self.hinted.get() {
            return self.invalidate_all();
        }
        self.banks.iter().for_each(|bank| bank.drop_page(va));
        self.forget_verdicts();
        if code && self.code_page(va) {
            self.bump_epoch();
        }
    }

    /// Whether code may have been fetched from the page of `va`.
    fn code_page(&self, va: u64) -> bool {
        self.code_pages[(va >> 19 & 63) as usize].get() >> (va >> 13 & 63) & 1 != 0
    }

    /// The leaf entry of `va`, or why there is none (AARM II-A 3.5). An invalid entry of an upper level
    /// is an access violation where it does not let the kernel read, else a translation not valid.
    fn walk(&self, ptbr: u64, va: u64) -> Result<u64, FaultKind> {
        self.walks.set(self.walks.get() + 1);
        Self::walk_in(&self.physical, self.translation.get(), ptbr, va)
    }

    fn walk_in(
        physical: &Physical,
        translation: Translation,
        ptbr: u64,
        va: u64,
    ) -> Result<u64, FaultKind> {
        if (va as i64) << 21 >> 21 != va as i64 {
            return Err(FaultKind::AccessViolation);
        }
        let mut table = ptbr << 13;
        for shift in [33, 23] {
            let at = table + (va >> shift & 1023) * 8;
            let entry = physical.quadword(at).ok_or(FaultKind::MachineCheck)?;
            if entry & pte::V == 0 {
                let allowed = entry & pte::KRE != 0 || translation == Translation::Osf;
                return Err(if allowed { FaultKind::NotValid } else { FaultKind::AccessViolation });
            }
            table = entry >> pte::PFN_SHIFT << 13;
        }
        physical.quadword(table + (va >> 13 & 1023) * 8).ok_or(FaultKind::MachineCheck)
    }

    /// A pseudo entry for what is not translated by page tables; OSF/1's is for the kernel alone.
    fn superpage(&self, va: u64) -> Option<u64> {
        Self::superpage_in(self.translation.get(), va)
    }

    fn superpage_in(translation: Translation, va: u64) -> Option<u64> {
        const ALL: u64 = pte::V | pte::ASM | 0xff00;
        match translation {
            Translation::Off => Some(ALL | va >> 13 << pte::PFN_SHIFT),
            // VA<42:41> = 2 maps 41 bits; bit 40 selects the other half of physical space.
            Translation::Osf if (va as i64) >> 41 == -2 => {
                let low = va & ((1 << 41) - 1);
                let pa = low & ((1 << 40) - 1) | (low >> 40) << 43;
                Some(pte::V | pte::ASM | pte::KRE | pte::KWE | pa >> 13 << pte::PFN_SHIFT)
            }
            _ => None,
        }
    }

    /// Whether an entry allows an access; ACV wins over TNV, TNV over the fault-on bits.
    fn check(entry: u64, access: Access, mode: u64) -> Result<(), FaultKind> {
        let (enable, on, why) = match access {
            Access::Load => (pte::KRE, pte::FOR, FaultKind::OnRead),
            Access::Store => (pte::KWE, pte::FOW, FaultKind::OnWrite),
            Access::Fetch => (pte::KRE, pte::FOE, FaultKind::OnExecute),
        };
        if entry & enable << mode == 0 {
            Err(FaultKind::AccessViolation)
        } else if entry & pte::V == 0 {
            Err(FaultKind::NotValid)
        } else if entry & on != 0 {
            Err(why)
        } else {
            Ok(())
        }
    }

    /// Physical address of `va` for an access in `mode`, through the page tables; fills the buffer.
    fn translate(&self, va: u64, access: Access, mode: u64) -> Result<u64, MemFault> {
        let why = |why| fault(va, access, why);
        let entry = match self.superpage(va) {
            Some(entry) => entry,
            None => self.walk(self.ptbr.get(), va).map_err(why)?,
        };
        Self::check(entry, access, mode).map_err(why)?;
        if access == Access::Fetch {
            if mode == 0 && entry & pte::ASM == 0 && !self.process_code.replace(true) {
                self.bump_epoch();
            }
            let word = &self.code_pages[(va >> 19 & 63) as usize];
            word.set(word.get() | 1 << (va >> 13 & 63));
            self.high_code.set(self.high_code.get() || va >= SUPERPAGE_END);
        }
        self.enter(va, entry, mode, access == Access::Fetch);
        Ok((entry >> pte::PFN_SHIFT << 13) + (va & (PAGE_SIZE - 1)))
    }

    /// Enters a valid leaf entry for `mode`, if it leads to RAM. The right to fetch is entered by
    /// fetches only, so that each first one comes by `translate`.
    fn enter(&self, va: u64, entry: u64, mode: u64, fetch: bool) {
        let Some(host) = self.physical.host(entry >> pte::PFN_SHIFT << 13, PAGE_SIZE) else {
            return;
        };
        if entry & pte::GH != 0 {
            self.hinted.set(true);
        }
        let rights = [Access::Load, Access::Store, Access::Fetch]
            .map(|a| (fetch || a != Access::Fetch) && Self::check(entry, a, mode).is_ok());
        let mut slots = self.slots.get();
        slots[self.slot.get()].dirty = true;
        self.slots.set(slots);
        self.bank_of(mode).fill(va, host, rights);
    }

    /// Host address of an aligned datum that the buffer knows in the current mode.
    #[inline(always)]
    pub(super) fn quick(&self, va: u64, size: u64, access: Access) -> Option<u64> {
        self.bank_of(self.mode.get()).host(va, size, access)
    }

    /// Loads `size` bytes.
    pub(super) fn load(&self, va: u64, size: u64) -> Result<u64, MemFault> {
        if let Some(host) = self.quick(va, size, Access::Load) {
            // SAFETY: the buffer leads to RAM, which lives as long as `physical`.
            let value = unsafe {
                match size {
                    1 => raw::load_u8(host).map(u64::from),
                    2 => raw::load_u16(host).map(u64::from),
                    4 => raw::load_u32(host).map(u64::from),
                    _ => raw::load_u64(host),
                }
            };
            if let Some(value) = value {
                return Ok(value);
            }
        }
        if va & (size - 1) != 0 {
            return Err(fault(va, Access::Load, FaultKind::Unaligned));
        }
        let pa = self.translate(va, Access::Load, self.mode.get())?;
        let value = self.physical.load(pa, size);
        value.ok_or(fault(va, Access::Load, FaultKind::MachineCheck))
    }

    /// Stores `size` bytes.
    pub(super) fn store(&self, va: u64, size: u64, value: u64) -> Result<(), MemFault> {
        if let Some(host) = self.quick(va, size, Access::Store) {
            // SAFETY: as in `load`.
            let stored = unsafe {
                match size {
                    1 => raw::store_u8(host, value as u8),
                    2 => raw::store_u16(host, value as u16),
                    4 => raw::store_u32(host, value as u32),
                    _ => raw::store_u64(host, value),
                }
            };
            if stored {
                return Ok(());
            }
        }
        if va & (size - 1) != 0 {
            return Err(fault(va, Access::Store, FaultKind::Unaligned));
        }
        let pa = self.translate(va, Access::Store, self.mode.get())?;
        let stored = self.physical.store(pa, size, value);
        stored.ok_or(fault(va, Access::Store, FaultKind::MachineCheck))
    }

    /// Stores a frame of eight quadwords at a multiple of its size, so in one page: all or nothing.
    #[inline]
    pub fn store_frame(&self, va: u64, frame: &[u64; 8]) -> Result<(), MemFault> {
        if let Some(host) = self.quick(va, 8, Access::Store) {
            for (i, &value) in frame.iter().enumerate() {
                // SAFETY: the buffer leads to a page of RAM, which holds the whole frame; the
                // datum is aligned.
                unsafe { ram(host + 8 * i as u64) }.store(value, Relaxed);
            }
            return Ok(());
        }
        self.store_frame_slowly(va, frame)
    }

    #[cold]
    fn store_frame_slowly(&self, va: u64, frame: &[u64; 8]) -> Result<(), MemFault> {
        let at = |i: usize| va.wrapping_add(8 * i as u64);
        frame.iter().enumerate().try_for_each(|(i, &value)| self.store(at(i), 8, value))
    }

    /// Loads a frame.
    #[inline]
    pub fn load_frame(&self, va: u64) -> Result<[u64; 8], MemFault> {
        let mut frame = [0; 8];
        if let Some(host) = self.quick(va, 8, Access::Load) {
            for (i, value) in frame.iter_mut().enumerate() {
                // SAFETY: as in `store_frame`.
                *value = unsafe { ram(host + 8 * i as u64) }.load(Relaxed);
            }
            return Ok(frame);
        }
        self.load_frame_slowly(va)
    }

    #[cold]
    fn load_frame_slowly(&self, va: u64) -> Result<[u64; 8], MemFault> {
        let mut frame = [0; 8];
        for (i, value) in frame.iter_mut().enumerate() {
            *value = self.load(va.wrapping_add(8 * i as u64), 8)?;
        }
        Ok(frame)
    }

    /// Stores quadwords from an aligned address on: all or nothing, in at most two pages.
    pub fn store_quadwords(&self, va: u64, values: &[u64]) -> Result<(), MemFault> {
        let at = |i: usize| va.wrapping_add(8 * i as u64);
        let Some(last) = values.len().checked_sub(1) else { return Ok(()) };
        if va >> 13 == at(last) >> 13 {
            if let Some(host) = self.quick(va, 8, Access::Store) {
                for (i, &value) in values.iter().enumerate() {
                    // SAFETY: the buffer leads to a page of RAM, which holds all of them.
                    unsafe { raw::store_u64(host + 8 * i as u64, value) };
                }
                return Ok(());
            }
        } else if va & 7 == 0 {
            self.translate(at(last), Access::Store, self.mode.get())?;
        }
        values.iter().enumerate().try_for_each(|(i, &value)| self.store(at(i), 8, value))
    }

    /// Loads quadwords from an aligned address on.
    pub fn load_quadwords(&self, va: u64, values: &mut [u64]) -> Result<(), MemFault> {
        let at = |i: usize| va.wrapping_add(8 * i as u64);
        let last = at(values.len().saturating_sub(1));
        if va >> 13 == last >> 13
            && let Some(host) = self.quick(va, 8, Access::Load)
        {
            for (i, value) in values.iter_mut().enumerate() {
                // SAFETY: as in `store_quadwords`.
                *value = unsafe { raw::load_u64(host + 8 * i as u64) }.unwrap_or(0);
            }
            return Ok(());
        }
        for (i, value) in values.iter_mut().enumerate() {
            *value = self.load(at(i), 8)?;
        }
        Ok(())
    }

    /// Replaces an aligned longword or quadword that holds `old`.
    pub(super) fn exchange(
        &self,
        va: u64,
        size: u64,
        old: u64,
        new: u64,
    ) -> Result<bool, MemFault> {
        let pa = self.translate(va, Access::Store, self.mode.get())?;
        let done = if size == 8 {
            self.physical.compare_exchange(pa, old, new)
        } else {
            self.physical.compare_exchange_longword(pa, old as u32, new as u32)
        };
        done.ok_or(fault(va, Access::Store, FaultKind::MachineCheck))
    }

    /// Fetches the instruction at an aligned address.
    #[inline]
    pub(super) fn fetch(&self, va: u64) -> Result<u32, MemFault> {
        if let Some(host) = self.quick(va, 4, Access::Fetch) {
            // SAFETY: the buffer leads to RAM, which lives as long as `physical`.
            if let Some(word) = unsafe { raw::load_u32(host) } {
                return Ok(word);
            }
        }
        let pa = self.translate(va, Access::Fetch, self.mode.get())?;
        let word = self.physical.host(pa, 4).and_then(|_| self.physical.load(pa, 4));
        word.map(|w| w as u32).ok_or(fault(va, Access::Fetch, FaultKind::MachineCheck))
    }

    /// Reads the words that `space` executes from the aligned address `va` on now, as many as there are:
    /// to find out whether code that was made for an address space that need not be the current one is
    /// still true.
    pub(super) fn code_in(&self, space: u32, va: u64, words: &mut [u32]) -> usize {
        let (slot, mode) = ((space - 1) >> 3, u64::from((space - 1) >> 1 & 3));
        let ptbr = if mode == 0 && !self.process_code.get() {
            self.ptbr.get()
        } else {
            self.slots.get().get(slot as usize).map_or(0, |slot| slot.ptbr)
        };
        let mut done = 0;
        // The page table is read once for each page.
        while done < words.len() {
            let from = va.wrapping_add(4 * done as u64);
            let entry = self.superpage(from).or_else(|| self.walk(ptbr, from).ok());
            let Some(entry) = entry.filter(|&e| Self::check(e, Access::Fetch, mode).is_ok()) else {
                break;
            };
            let pa = (entry >> pte::PFN_SHIFT << 13) + from % PAGE_SIZE;
            let room = (PAGE_SIZE - from % PAGE_SIZE) as usize / 4;
            let end = words.len().min(done + room);
            for (i, word) in words[done..end].iter_mut().enumerate() {
                let Some(now) = self.physical.load(pa + 4 * i as u64, 4) else { return done + i };
                *word = now as u32;
            }
            done = end;
        }
        done
    }

    /// Whether `mode` may read or write the byte at `va`, by the rule of PROBE (AARM II-A 4.1.7): the
    /// enable bit of the leaf decides, valid or not; fault-on bits do not count. An upper level that
    /// is invalid but readable is a fault of its own.
    pub fn probe(
        &self,
        va: u64,
        write: bool,
        mode: u64,
        strategy: ProbeStrategy,
    ) -> Result<(bool, ProbeWay), MemFault> {
        let access = if write { Access::Store } else { Access::Load };
        let stash = || {
            let tag = va & !(PAGE_SIZE - 1) | u64::from(write) << 2 | mode | 1 << 12;
            let index = (va >> 13 ^ mode << 8 ^ u64::from(write) << 7) as usize;
            (&self.verdicts[index % VERDICTS], tag)
        };
        match strategy {
            ProbeStrategy::Walk => {}
            ProbeStrategy::Inline | ProbeStrategy::Elided => {
                if self.bank_of(mode).host(va, 1, access).is_some() {
                    return Ok((true, ProbeWay::Buffer));
                }
            }
            ProbeStrategy::Cached => {
                let (cell, tag) = stash();
                if cell.get() & !8 == tag {
                    return Ok((cell.get() & 8 != 0, ProbeWay::Stash));
                }
            }
        }
        let entry = match self.superpage(va) {
            Some(entry) => entry,
            None => match self.walk(self.ptbr.get(), va) {
                Ok(entry) => entry,
                Err(FaultKind::AccessViolation) => return Ok((false, ProbeWay::Walked)),
                Err(why) => return Err(fault(va, access, why)),
            },
        };
        let enable = if write { pte::KWE } else { pte::KRE };
        let allowed = entry & enable << mode != 0;
        if entry & pte::V != 0 {
            match strategy {
                ProbeStrategy::Walk => {}
                ProbeStrategy::Inline | ProbeStrategy::Elided => {
                    self.enter(va, entry, mode, false);
                }
                ProbeStrategy::Cached => {
                    let (cell, tag) = stash();
                    cell.set(tag | u64::from(allowed) << 3);
                }
            }
        }
        Ok((allowed, ProbeWay::Walked))
    }

    /// PROBE: whether the bytes at `base` and `base + offset` may be accessed in the less privileged
    /// of `mode` and the current mode.
    pub fn probe_range(
        &self,
        base: u64,
        offset: u64,
        mode: u64,
        write: bool,
    ) -> Result<bool, MemFault> {
        let mode = (mode & 3).max(self.mode.get());
        let strategy = self.strategy.get();
        let mut accessible = true;
        let mut probes = self.probes.get();
        for va in [base, base.wrapping_add(offset)] {
            let (allowed, way) = self.probe(va, write, mode, strategy)?;
            probes[way as usize] += 1;
            accessible &= allowed;
            if strategy != ProbeStrategy::Walk
                && (!allowed || base >> 13 == base.wrapping_add(offset) >> 13)
            {
                break;
            }
        }
        self.probes.set(probes);
        Ok(accessible)
    }

    /// Whether compiled code answers PROBE from the translation buffer.
    pub fn probes_inline(&self) -> bool {
        matches!(self.strategy.get(), ProbeStrategy::Inline | ProbeStrategy::Elided)
    }

    /// Whether regions leave out probes that an earlier one has proved.
    pub fn elides_probes(&self) -> bool {
        self.strategy.get() == ProbeStrategy::Elided
    }

    /// What, added to the address of an aligned datum, gives the host's, after the translation has
    /// been brought into the buffer; `None` if it is a fault or not RAM.
    pub fn addend(&self, va: u64, size: u64, access: Access) -> Option<u64> {
        if va & (size - 1) != 0 {
            return None;
        }
        if self.quick(va, size, access).is_none() {
            self.translate(va, access, self.mode.get()).ok()?;
        }
        Some(self.quick(va, size, access)?.wrapping_sub(va))
    }

    /// Chooses how PROBE finds its answers.
    pub fn set_probe_strategy(&self, strategy: ProbeStrategy) {
        self.strategy.set(strategy);
    }

    /// How PROBE finds its answers.
    pub fn probe_strategy(&self) -> ProbeStrategy {
        self.strategy.get()
    }

    /// Bytes asked about outside compiled code: by walks, by the buffer, by the stash.
    pub fn probes(&self) -> [u64; 3] {
        self.probes.get()
    }

    /// Physical address that the current mode reads at `va`, without a trace: for reports.
    pub fn peek(&self, va: u64) -> Option<u64> {
        let entry = self.superpage(va).or_else(|| self.walk(self.ptbr.get(), va).ok())?;
        (entry & pte::V != 0).then_some((entry >> pte::PFN_SHIFT << 13) + (va & (PAGE_SIZE - 1)))
    }

    /// Physical address of `va` in the kernel's view of a page table of OSF/1, whatever a processor is at:
    /// for debuggers.
    pub fn osf_address(physical: &Physical, ptbr: u64, va: u64) -> Option<u64> {
        let superpage = Self::superpage_in(Translation::Osf, va);
        let walked = || Self::walk_in(physical, Translation::Osf, ptbr, va).ok();
        let entry = superpage.or_else(walked)?;
        (entry & pte::V != 0).then_some((entry >> pte::PFN_SHIFT << 13) + (va & (PAGE_SIZE - 1)))
    }
}
