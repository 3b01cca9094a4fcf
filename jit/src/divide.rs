//! Division routines that guest programs bring along, recognised by their instructions.
//!
//! Alpha has no divide instruction: compilers call `__divqu` and its kin, which take the dividend in
//! R24, the divisor in R25 and the return address in R23, and give the result in R27. A call of a
//! routine that is found here word for word, tables included, is translated to the host's divide with
//! the same effects on every register and on the stack. Division by zero runs the guest's own code.

use std::sync::OnceLock;

use axp_emu::isa::assemble_block;

/// The register that holds the return address of these routines.
pub const LINK: u8 = 23;
/// What they read: dividend and divisor, the registers that they save, the stack pointer.
pub const READS: u32 = 1 << 24 | 1 << 25 | 1 << 0 | 1 << 1 | 1 << 2 | 1 << 30;
/// What a call changes.
pub const WRITES: u32 = 1 << LINK | 1 << 27 | 1 << 28;

/// A recognised routine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Division {
    /// Operands are signed.
    pub signed: bool,
    /// Operands are longwords, the result is a sign-extended longword.
    pub long: bool,
    /// The result is the remainder.
    pub remainder: bool,
    /// Address of its first instruction.
    pub entry: u64,
    /// Address of its tables, which the unsigned forms leave in R28.
    pub tables: u64,
    /// Guest addresses of its code and of its tables: start, end.
    pub ranges: [(u64, u64); 2],
}

impl Division {
    /// Bytes of stack below R30 that the routine uses.
    pub fn frame(&self) -> i32 {
        if self.long { 80 } else { 48 }
    }
}

/// The routine's code as words, with the bits of each that may differ.
struct Pattern {
    signed: bool,
    long: bool,
    remainder: bool,
    /// Bytes of tables.
    tables: u64,
    words: Vec<(u32, u32)>,
    /// Index of the instruction that adds the distance of the tables.
    anchor: usize,
}

/// Loads of table entries by models with byte loads and by those without.
const BYTE_LOADS: [&str; 2] = ["ldbu $T,AT($B)", "lda $1,AT($B)\nldq_u $T,0($1)\nextbl $T,$1,$T"];
const WORD_LOADS: [&str; 2] = ["ldwu $T,AT($B)", "lda $1,AT($B)\nldq_u $T,0($1)\nextwl $T,$1,$T"];

/// The common core: quotient to R0, remainder to R1. `model` is 0 with byte loads and no counts, 1
/// without either, 2 with both.
fn core(model: usize) -> String {
    let load = |forms: [&str; 2], to: &str, base: &str, at: i32| {
        let form = forms[usize::from(model == 1)];
        form.replace("$T", to).replace("$B", base).replace("AT", &at.to_string())
    };
    let normalise = if model == 2 {
        "ctlz $25,$2\nsll $25,$2,$27".to_owned()
    } else {
        let bytes = load(BYTE_LOADS, "$2", "$2", 512);
        let bits = load(BYTE_LOADS, "$0", "$0", 768);
        format!(
            "cmpbge $31,$25,$2\naddq $28,$2,$2\n{bytes}\nsll $25,$2,$27\nsrl $27,56,$0\n\
             addq $28,$0,$0\n{bits}\nsll $27,$0,$27\naddq $2,$0,$2"
        )
    };
    let seed = load(WORD_LOADS, "$0", "$0", -512);
    let newton = "umulh $27,$0,$1\nornot $31,$1,$1\numulh $0,$1,$0\naddq $0,$0,$0\n".repeat(3);
    format!(
        "beq $25,0\nbr $28,next\nnext: lda $28,0($28)\n{normalise}\nsrl $27,55,$0\naddq $0,$0,$0\n\
         addq $28,$0,$0\n{seed}\nsll $0,48,$0\n{newton}umulh $24,$0,$0\nlda $1,63($31)\n\
         subq $1,$2,$2\nsrl $0,$2,$0\nmulq $0,$25,$1\nsubq $24,$1,$1\nmore: cmpule $25,$1,$2\n\
         beq $2,done\nsubq $1,$25,$1\naddq $0,1,$0\nbr $31,more\ndone:"
    )
}

fn source(signed: bool, long: bool, remainder: bool, model: usize) -> String {
    let core = core(model);
    let result = if remainder { "$1" } else { "$0" };
    let core = match (signed, remainder) {
        (false, _) => core,
        (true, _) => {
            let sign = if remainder {
                "subq $31,$1,$28\ncmovlt $24,$28,$1"
            } else {
                "xor $24,$25,$2\nsubq $31,$0,$28\ncmovlt $2,$28,$0"
            };
            format!(
                "stq $24,24($30)\nstq $25,32($30)\nsubq $31,$24,$28\ncmovlt $24,$28,$24\n\
                 subq $31,$25,$28\ncmovlt $25,$28,$25\n{core}\nldq $24,24($30)\n\
                 ldq $25,32($30)\n{sign}"
            )
        }
    };
    let save = "stq $0,0($30)\nstq $1,8($30)\nstq $2,16($30)";
    let restore = "ldq $0,0($30)\nldq $1,8($30)\nldq $2,16($30)";
    if !long {
        return format!(
            "lda $30,-48($30)\n{save}\n{core}\nbis $31,{result},$27\n{restore}\n\
             lda $30,48($30)\nret $31,($23),1"
        );
    }
    let extend = if signed {
        "addl $24,0,$24\naddl $25,0,$25"
    } else {
        "zapnot $24,15,$24\nzapnot $25,15,$25"
    };
    format!(
        "lda $30,-80($30)\n{save}\nstq $24,48($30)\nstq $25,56($30)\n{extend}\n{core}\n\
         addl {result},0,$27\n{restore}\nldq $24,48($30)\nldq $25,56($30)\nlda $30,80($30)\n\
         ret $31,($23),1"
    )
}

/// Masks of displacements that depend on where the linker puts things.
const BRANCH_DISP: u32 = 0x001f_ffff;
const MEMORY_DISP: u32 = 0xffff;

fn patterns() -> &'static [Pattern] {
    static PATTERNS: OnceLock<Vec<Pattern>> = OnceLock::new();
    PATTERNS.get_or_init(|| {
        let mut all = Vec::new();
        for model in 0..3 {
            for kind in 0..8 {
                let [signed, long, remainder] = [0, 1, 2].map(|bit| kind >> bit & 1 != 0);
                let text = source(signed, long, remainder, model);
                let words = assemble_block(&text, 0).expect("the routines' own text");
                let mut words: Vec<(u32, u32)> = words.into_iter().map(|w| (w, 0)).collect();
                // BEQ R25 leads to the trap; the LDA two words on adds the tables' distance.
                let zero = words.iter().position(|(w, _)| w >> 21 == 0x39 << 5 | 25);
                let zero = zero.expect("a test for zero");
                words[zero].1 = BRANCH_DISP;
                words[zero + 2].1 = MEMORY_DISP;
                all.push(Pattern {
                    signed,
                    long,
                    remainder,
                    tables: if model == 2 { 512 } else { 1024 },
                    words,
                    anchor: zero + 2,
                });
            }
        }
        all
    })
}

/// The division routine at `entry`, if there is one; `word` reads guest code.
pub fn recognise(entry: u64, mut word: impl FnMut(u64) -> Option<u32>) -> Option<Division> {
    let first = word(entry)?;
    patterns().iter().filter(|p| p.words[0].0 == first).find_map(|p| p.matches(entry, &mut word))
}

impl Pattern {
    fn matches(&self, entry: u64, word: &mut impl FnMut(u64) -> Option<u32>) -> Option<Division> {
        let mut at = entry;
        let mut distance = 0;
        for (i, &(wanted, free)) in self.words.iter().enumerate() {
            let found = word(at)?;
            if (found ^ wanted) & !free != 0 {
                return None;
            }
            if i == self.anchor {
                distance = i64::from(found as u16 as i16);
            }
            at += 4;
        }
        let tables = (entry + 4 * self.anchor as u64).wrapping_add_signed(distance);
        (tables % 4 == 0 && self.tables_match(tables, word)).then_some(Division {
            signed: self.signed,
            long: self.long,
            remainder: self.remainder,
            entry,
            tables,
            ranges: [(entry, at), (tables, tables + self.tables)],
        })
    }

    /// Whether the reciprocals and leading-zero counts are what the routine's correctness rests on.
    fn tables_match(&self, tables: u64, word: &mut impl FnMut(u64) -> Option<u32>) -> bool {
        let reciprocal = |i: u32| (1 << 25) / (2 * i + 1);
        let bytes = |i: u32| 8 * (i as u8).leading_ones().min(7) as u8;
        let bits = |i: u32| (i as u8).leading_zeros() as u8;
        (0..self.tables / 4).all(|n| {
            let i = n as u32;
            let expected = match i {
                0..128 => reciprocal(256 + 2 * i) | reciprocal(257 + 2 * i) << 16,
                128..192 => u32::from_le_bytes([0, 1, 2, 3].map(|k| bytes(4 * (i - 128) + k))),
                _ => u32::from_le_bytes([0, 1, 2, 3].map(|k| bits(4 * (i - 192) + k))),
            };
            word(tables + 4 * n) == Some(expected)
        })
    }
}
