//! Instruction word to [`Insn`], by tables computed from the instruction table at compile time.

use super::format::{Format, func};
use super::insn::{Insn, SINK, ZERO};
use super::opcode::{FORMATS, Opcode};
use crate::fp::Qual;

const ILLEGAL: u8 = 0xff;

/// Number of slots in [`SLOTS`] that each opcode owns, and where they start.
const fn slots_of(opcode: usize) -> usize {
    match opcode {
        0x10..=0x13 | 0x1c => 128,
        0x14..=0x17 => 2048,
        0x18 => 64,
        0x1a => 4,
        _ => 1,
    }
}

const fn starts() -> [u16; 65] {
    let mut starts = [0u16; 65];
    let mut opcode = 0;
    while opcode < 64 {
        starts[opcode + 1] = starts[opcode] + slots_of(opcode) as u16;
        opcode += 1;
    }
    starts
}

static STARTS: [u16; 65] = starts();
const SLOT_COUNT: usize = starts()[64] as usize;

/// Slot number within an opcode. All function codes of opcode 0x18 are multiples of 0x400.
const fn slot(opcode: usize, func: u16) -> usize {
    if opcode == 0x18 { (func >> 10) as usize } else { func as usize }
}

/// Row number for each opcode and function code, `ILLEGAL` where there is none.
static SLOTS: [u8; SLOT_COUNT] = {
    let starts = starts();
    let mut slots = [ILLEGAL; SLOT_COUNT];
    let mut row = 0;
    while row < FORMATS.len() {
        let format = FORMATS[row];
        let opcode = format.opcode() as usize;
        let mut i = 0;
        while i < slots_of(opcode) {
            let func = if opcode == 0x18 { (i as u16) << 10 } else { i as u16 };
            if format.matches(func) {
                let s = starts[opcode] as usize + slot(opcode, func);
                assert!(slots[s] == ILLEGAL, "two rows share an encoding");
                slots[s] = row as u8;
            }
            i += 1;
        }
        row += 1;
    }
    slots
};

/// Decodes an instruction word; `None` is an illegal instruction (OPCDEC).
///
/// PALmode opcodes (0x19, 0x1b, 0x1d..=0x1f) and reserved ones (0x01..=0x07) are illegal here.
pub fn decode(word: u32) -> Option<Insn> {
    use Format::*;
    let opcode = (word >> 26) as usize;
    let func = func(word);
    if opcode == 0x18 && func & 0x3ff != 0 {
        return None;
    }
    let row = SLOTS[STARTS[opcode] as usize + slot(opcode, func)];
    if row == ILLEGAL {
        return None;
    }
    let op = Opcode::ALL[row as usize];
    let ra = (word >> 21 & 31) as u8;
    let rb = (word >> 16 & 31) as u8;
    let rc = (word & 31) as u8;
    let dest = |r: u8| if r == 31 { SINK } else { r };
    let insn = Insn { op, a: ZERO, b: ZERO, c: SINK, lit: false, qual: Qual(0), imm: 0 };
    Some(match FORMATS[row as usize] {
        Mem(_) | MemF(_) => {
            // STx_C reads `ra` through `a` and writes it through `c`.
            let kind = op.kind();
            let reads = kind.is_store() || kind.is_store_conditional();
            let c = if kind.is_store_conditional() { dest(ra) } else { SINK };
            Insn { a: if reads { ra } else { dest(ra) }, b: rb, c, imm: word as i16 as i32, ..insn }
        }
        Bra(_) | BraF(_) => {
            let a = if op.info().kind.is_cond_branch() { ra } else { dest(ra) };
            Insn { a, imm: (word << 11) as i32 >> 11, ..insn }
        }
        Jump(..) => Insn { a: dest(ra), b: rb, imm: (word & 0x3fff) as i32, ..insn },
        Opr(..) | OprR(..) | OprB(..) | OprC(..) | FtoI(..) => {
            let lit = word & 0x1000 != 0;
            let imm = if lit { (word >> 13 & 0xff) as i32 } else { 0 };
            // Bits 15:13 of a register operand should be zero and are ignored (AARM 3.3.3).
            Insn { a: ra, b: if lit { ZERO } else { rb }, c: dest(rc), lit, imm, ..insn }
        }
        FpcrMove(..) => {
            let a = if op == Opcode::MfFpcr { dest(ra) } else { ra };
            Insn { a, b: rb, c: dest(rc), ..insn }
        }
        Fp(..) | Fp1(..) | ItoF(..) => {
            Insn { a: ra, b: rb, c: dest(rc), qual: Qual((func >> 6) as u8), ..insn }
        }
        Misc(..) | MiscB(..) => Insn { a: ra, b: rb, ..insn },
        MiscA(..) => Insn { a: dest(ra), b: rb, ..insn },
        Pal(_) => Insn { imm: (word & 0x03ff_ffff) as i32, ..insn },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_reachable_and_reserved_opcodes_are_not() {
        let mut seen = vec![false; Opcode::ALL.len()];
        for opcode in 0u32..64 {
            for i in 0..slots_of(opcode as usize) as u32 {
                let word = match opcode {
                    0x10..=0x17 | 0x1c => opcode << 26 | i << 5,
                    0x18 => opcode << 26 | i << 10,
                    0x1a => opcode << 26 | i << 14,
                    _ => opcode << 26,
                };
                if let Some(insn) = decode(word) {
                    seen[insn.op as usize] = true;
                }
            }
        }
        assert!(seen.iter().all(|&s| s));
        for opcode in [1u32, 2, 3, 4, 5, 6, 7, 0x19, 0x1b, 0x1d, 0x1e, 0x1f] {
            assert_eq!(decode(opcode << 26 | 0x1234), None);
        }
    }
}
