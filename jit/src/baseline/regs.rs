//! Where baseline code keeps the guest's registers: some in host registers everywhere, the others in
//! memory. The templates and the stubs that enter and leave compiled code go by these tables.

use std::mem::offset_of;

use axp_emu::cpu::Cpu;
use axp_emu::isa::ZERO;

use crate::abi;

/// Host registers by number. RAX, RCX and RDX are scratch, RBP points into the [`Cpu`].
pub const RAX: u8 = 0;
pub const RCX: u8 = 1;
pub const RDX: u8 = 2;

/// Guest integer registers that live in host registers, and in which: those that the kernels use
/// most, which follows the compilers' order of allocation (temporaries, arguments, SP, V0, RA).
pub const PINS: [(u8, u8); 11] = [
    (1, 3),
    (2, 6),
    (3, 7),
    (4, 8),
    (5, 9),
    (16, 10),
    (17, 11),
    (0, 12),
    (9, 13),
    (26, 14),
    (30, 15),
];

/// Guest floating-point registers that live in host registers XMM4 to XMM15.
pub const FP_PINS: [(u8, u8); 12] = [
    (0, 4),
    (1, 5),
    (10, 6),
    (11, 7),
    (12, 8),
    (13, 9),
    (14, 10),
    (15, 11),
    (22, 12),
    (23, 13),
    (24, 14),
    (2, 15),
];

/// RBP minus the address of the [`Cpu`]: brings R2 to R31 and the poll flag within a byte's reach.
pub const BIAS: i32 = 144;

const NONE: u8 = 0xff;

const fn table(pins: &[(u8, u8)]) -> [u8; 33] {
    let mut table = [NONE; 33];
    let mut i = 0;
    while i < pins.len() {
        table[pins[i].0 as usize] = pins[i].1;
        i += 1;
    }
    table
}

static INT: [u8; 33] = table(&PINS);
static FP: [u8; 33] = table(&FP_PINS);

// R0 and R1 are out of a byte's reach.
const _: () = assert!(table(&PINS)[0] != NONE && table(&PINS)[1] != NONE);

/// Host register of a guest integer register.
pub fn pin(r: u8) -> Option<u8> {
    Some(INT[r as usize]).filter(|&h| h != NONE)
}

/// Host register of a guest floating-point register.
pub fn fp_pin(r: u8) -> Option<u8> {
    Some(FP[r as usize]).filter(|&h| h != NONE)
}

/// Distance of a guest integer register, one of R2 to R30, from RBP.
pub fn disp(r: u8) -> i8 {
    debug_assert!((2..ZERO).contains(&r), "R{r} is not in memory");
    (abi::int_offset(r) - BIAS) as i8
}

/// Distance of a guest floating-point register from RBP.
pub const fn fp_disp(r: u8) -> i32 {
    abi::fp_offset(r) - BIAS
}

/// Distance of a word of [`Cpu::engine`] from RBP.
pub const fn word_disp(word: usize) -> i32 {
    abi::word_offset(word) - BIAS
}

/// Distance of the poll flag from RBP.
pub const POLL: i8 = (offset_of!(Cpu, poll) as i32 - BIAS) as i8;
/// Distance of the program counter from RBP.
pub const PC: i32 = offset_of!(Cpu, pc) as i32 - BIAS;
/// Distance of the instruction count from RBP.
pub const COUNT: i32 = offset_of!(Cpu, count) as i32 - BIAS;
/// Distance of the process-unique value from RBP.
pub const UNIQUE: i32 = offset_of!(Cpu, unique) as i32 - BIAS;
/// Distance of the floating-point control register from RBP.
pub const FPCR: i32 = offset_of!(Cpu, fpcr) as i32 - BIAS;
/// Distance of the flag of RC and RS from RBP.
pub const INTR_FLAG: i32 = offset_of!(Cpu, intr_flag) as i32 - BIAS;
