//! What the console leaves in memory for a kernel: the hardware restart parameter block with its
//! processor slots, memory descriptors and console routine block (AARM III 2), the console's code,
//! the first page table and the first context.

use std::sync::atomic::{Ordering, fence};

use super::MAX_PROCESSORS;
use crate::interp::CYCLES_PER_SECOND;
use crate::mem::{PAGE_SIZE, Physical, pte};

/// Physical addresses.
const HWRPB: u64 = 0x2000;
/// The console's code, in the last page of the block's mapping.
const CODE: u64 = 0x8000;
const TABLES: [u64; 3] = [0xa000, 0xc000, 0xe000];
const STACK: u64 = 0x1_4000;
/// What belongs to the console and stays so.
pub(super) const RESERVED: u64 = 0x2_0000;

/// Where the block is seen at first (AARM III 3.4.1.2).
const VIRTUAL: u64 = 0x1000_0000;
/// Base of the page tables' own mapping.
const VPTB: u64 = 0xffff_fffe_0000_0000;

/// Offsets in the block.
const SLOTS: u64 = 0x180;
const SLOT: u64 = 0x280;
const CRB: u64 = SLOTS + SLOT * MAX_PROCESSORS as u64;
const MEMORY: u64 = CRB + 0x100;
const SIZE: u64 = MEMORY + 0x100;
const CHECKSUM: u64 = 0x120;
/// Where the kernel says at which address a further processor starts, and with what.
const RESTART: u64 = 0x100;
/// Bits of processors for whose console there is a command.
const COMMANDS: u64 = 0x128;
/// Offset of the state flags in a slot.
const FLAGS: u64 = 0x80;
/// The flag of a processor that starts.
const BOOTSTRAP: u64 = 1;
/// Offsets in a slot of a command for the console: its length, then the characters.
const COMMAND: u64 = 0x128;
/// Offsets of descriptors and code in the page of [`CODE`].
const FIXUP_CODE: u64 = 0x100;
const DISPATCH: u64 = 0x200;
const FIXUP: u64 = 0x240;

/// Function of CSERVE by which FIXUP's code asks for [`move_routines`], with the address in R18.
pub(super) const FIXUP_CALL: u64 = 0x7f00;

/// A system of Tsunami's family, of the kind Clipper.
const SYSTEM_TYPE: u64 = 34;
const SYSTEM_VARIATION: u64 = 5 << 10;
/// EV68CB: what runs at the rate that the cycle counter has.
const PROCESSOR_TYPE: u64 = 13;
/// Present, available, and with PALcode loaded.
const PROCESSOR_FLAGS: u64 = 0x1cc;
/// Interval clock interrupts per second, times 4096.
const CLOCK_RATE: u64 = 1024 << 12;

/// Why the kernel halted: the field that it leaves in its slot.
pub(super) fn halt_request(physical: &Physical, processor: u64) -> u64 {
    let slot = HWRPB + SLOTS + SLOT * (processor % MAX_PROCESSORS as u64);
    physical.quadword(slot + FLAGS).unwrap_or(0) >> 16 & 0xff
}

/// Where a further processor starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub pc: u64,
    pub argument: u64,
}

/// The command for a processor's console, if it is the one that starts it; others are thrown away.
pub(super) fn take_start(physical: &Physical, processor: u64) -> Option<Start> {
    let bit = 1 << processor;
    let waiting = physical.quadword(HWRPB + COMMANDS)?;
    if waiting & bit == 0 {
        return None;
    }
    // What was written before the bit is seen after it.
    fence(Ordering::Acquire);
    let slot = context(processor);
    let length = physical.load(slot + COMMAND, 4)?;
    let text = physical.quadword(slot + COMMAND + 8)?.to_le_bytes();
    let starts = length >= 5 && text.starts_with(b"START");
    let start = Start {
        pc: physical.quadword(HWRPB + RESTART)?,
        argument: physical.quadword(HWRPB + RESTART + 8)?,
    };
    change(physical, HWRPB + COMMANDS, |word| word & !bit);
    starts.then_some(start)
}

/// Tells the kernel that a processor starts.
pub(super) fn acknowledge_start(physical: &Physical, processor: u64) {
    change(physical, context(processor) + FLAGS, |flags| flags | BOOTSTRAP);
}

/// Changes a quadword that processors change, too.
fn change(physical: &Physical, at: u64, how: impl Fn(u64) -> u64) {
    while let Some(old) = physical.quadword(at) {
        if physical.compare_exchange(at, old, how(old)) != Some(false) {
            return;
        }
    }
}

/// Physical address of the context that a processor starts with, which is in its slot.
pub(super) fn context(processor: u64) -> u64 {
    HWRPB + SLOTS + SLOT * (processor % MAX_PROCESSORS as u64)
}

/// Writes all of it, for so many processors over memory of at least [`RESERVED`] bytes.
pub(super) fn build(physical: &Physical, processors: u64) {
    let put = |at: u64, value: u64| {
        let stored = physical.store(at, 8, value);
        debug_assert!(stored.is_some());
    };
    block(&put, physical.size(), processors);
    routines(&put);
    page_tables(&put);
    for processor in 0..processors {
        slot(&put, processor);
    }
    let words = (0..CHECKSUM).step_by(8).map(|at| physical.quadword(HWRPB + at).unwrap_or(0));
    put(HWRPB + CHECKSUM, words.fold(0, u64::wrapping_add));
}

fn block(put: &impl Fn(u64, u64), memory: u64, processors: u64) {
    let fields = [
        (0x00, HWRPB),
        (0x08, u64::from_le_bytes(*b"HWRPB\0\0\0")),
        (0x10, 6),
        (0x18, SIZE),
        (0x28, PAGE_SIZE),
        // Bits of a physical address, as far as memory has them.
        (0x30, 40),
        (0x38, 255),
        (0x50, SYSTEM_TYPE),
        (0x58, SYSTEM_VARIATION),
        (0x68, CLOCK_RATE),
        (0x70, CYCLES_PER_SECOND),
        (0x78, VPTB),
        (0x90, processors),
        (0x98, SLOT),
        (0xa0, SLOTS),
        (0xc0, CRB),
        (0xc8, MEMORY),
    ];
    for (offset, value) in fields {
        put(HWRPB + offset, value);
    }
    // Memory: the console's pages, then what is free.
    let clusters = [(0, RESERVED, 1), (RESERVED, memory - RESERVED, 0)];
    put(HWRPB + MEMORY + 0x10, clusters.len() as u64);
    for (i, (start, bytes, usage)) in clusters.into_iter().enumerate() {
        let cluster = HWRPB + MEMORY + 0x18 + 0x38 * i as u64;
        put(cluster, start / PAGE_SIZE);
        put(cluster + 0x08, bytes / PAGE_SIZE);
        put(cluster + 0x10, bytes / PAGE_SIZE);
        put(cluster + 0x30, usage);
    }
}

/// The console routine block, its code, and the procedure descriptors that lead there.
fn routines(put: &impl Fn(u64, u64)) {
    let va = |pa: u64| VIRTUAL + pa - HWRPB;
    let crb = HWRPB + CRB;
    put(crb, va(CODE + DISPATCH));
    put(crb + 0x08, CODE + DISPATCH);
    put(crb + 0x10, va(CODE + FIXUP));
    put(crb + 0x18, CODE + FIXUP);
    put(crb + 0x20, 1);
    let pages = (CODE + PAGE_SIZE - HWRPB) / PAGE_SIZE;
    put(crb + 0x28, pages);
    put(crb + 0x30, VIRTUAL);
    put(crb + 0x38, HWRPB);
    put(crb + 0x40, pages);
    put(CODE + DISPATCH + 8, va(CODE));
    put(CODE + FIXUP + 8, va(CODE + FIXUP_CODE));
    // DISPATCH: call_pal cserve; ret.
    const CSERVE: u64 = 9;
    const RETURN: u64 = 0x6bfa_8001;
    put(CODE, RETURN << 32 | CSERVE);
    // FIXUP: mov r16, r18; lda r16, FIXUP_CALL(r31); call_pal cserve; ret.
    put(CODE + FIXUP_CODE, (0x221f_0000 | FIXUP_CALL) << 32 | 0x47f0_0412);
    put(CODE + FIXUP_CODE + 8, RETURN << 32 | CSERVE);
}

/// FIXUP: the block will be seen at another address, where its descriptors are to lead.
pub(super) fn move_routines(physical: &Physical, base: u64) {
    let va = |pa: u64| base.wrapping_add(pa - HWRPB);
    for (descriptor, code) in [(DISPATCH, CODE), (FIXUP, CODE + FIXUP_CODE)] {
        physical.store(CODE + descriptor + 8, 8, va(code));
    }
}

fn page_tables(put: &impl Fn(u64, u64)) {
    const RIGHTS: u64 = pte::V | pte::ASM | pte::KRE | pte::KWE;
    let entry = |pa: u64| (pa / PAGE_SIZE) << pte::PFN_SHIFT | RIGHTS;
    let [first, second, third] = TABLES;
    put(first + 8 * (VIRTUAL >> 33 & 1023), entry(second));
    put(first + 8 * (VPTB >> 33 & 1023), entry(first));
    put(second + 8 * (VIRTUAL >> 23 & 1023), entry(third));
    for (i, pa) in (HWRPB..CODE + PAGE_SIZE).step_by(PAGE_SIZE as usize).enumerate() {
        put(third + 8 * ((VIRTUAL >> 13 & 1023) + i as u64), entry(pa));
    }
}

/// A processor's slot; its first part is the context that the processor starts with.
fn slot(put: &impl Fn(u64, u64), processor: u64) {
    let slot = context(processor);
    // The superpage's address of a stack.
    put(slot, 0xffff_fc00_0000_0000 + STACK + PAGE_SIZE * processor);
    put(slot + 0x10, TABLES[0] / PAGE_SIZE);
    put(slot + 0x28, 1);
    put(slot + FLAGS, PROCESSOR_FLAGS);
    put(slot + 0xb0, PROCESSOR_TYPE);
    // The instructions beyond the first processors': BWX, FIX, CIX, MVI; IEEE formats as well as VAX's.
    put(slot + 0xb8, 7);
}
