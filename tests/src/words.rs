//! Instruction words for tests: random ones over all rows of the table, and exhaustive ones over
//! the function codes. Deterministic, because goldens store only the hash of their text.

use axp_emu::isa::{Form, Opcode};

/// SplitMix64: small, good enough, and fixed for ever, which a crate's generator need not be.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that repeats itself for the same seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u32) -> u32 {
        (self.next_u64() >> 32) as u32 % bound
    }

    /// A register number; 31 and repetitions are what idioms hang on, so 31 is frequent.
    fn register(&mut self) -> u32 {
        if self.below(4) == 0 { 31 } else { self.below(32) }
    }
}

/// A word of that row whose operands are random, mostly with the fixed fields as they should be.
pub fn word_of_row(op: Opcode, random: &mut Random) -> u32 {
    let form = Form::of(op.info().format);
    let (a, mut b, mut c) = (random.register(), random.register(), random.register());
    if random.below(8) == 0 {
        b = a;
        c = if random.below(2) == 0 { b } else { c };
    }
    // A small literal in place of register fields now and then; the rest is displacement.
    let noise = random.next_u64() as u32 & 0xffe0;
    let mut word = form.value | (a << 21 | b << 16 | c | noise) & !form.mask;
    if let Some(set) = form.qualifiers {
        let quals: Vec<u16> = (0..32).filter(|&q| set.contains(q)).collect();
        let qual = quals[random.below(quals.len() as u32) as usize];
        word = word & !(0x1f << 11) | u32::from(qual) << 11;
    } else if form.mask & 0xffe0 == 0 {
        word |= random.next_u64() as u32 & 0x1f & !form.mask;
    }
    // Sometimes a register field that ought to be 31 is not.
    if random.below(16) == 0 { word & !(3 << (16 + random.below(8))) } else { word }
}

/// `count` words: every row of the table in turn, and every sixteenth one wholly random.
pub fn over_all_rows(seed: u64, count: usize) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut rows = Opcode::ALL.iter().cycle();
    (0..count)
        .map(|i| match rows.next() {
            Some(&op) if i % 16 != 15 => word_of_row(op, &mut random),
            _ => random.next_u64() as u32,
        })
        .collect()
}

/// Every function code of every opcode that has one, with several register patterns each.
pub fn all_function_codes() -> Vec<u32> {
    // Plain; `ra` absent; `rb` absent; only `rc`; all absent; two and three fields equal.
    let patterns = [
        (1, 2, 3),
        (31, 2, 3),
        (1, 31, 3),
        (31, 31, 3),
        (31, 31, 31),
        (2, 2, 3),
        (2, 2, 2),
        (31, 2, 31),
    ];
    let mut words = Vec::new();
    for (a, b, c) in patterns {
        let registers = a << 21 | b << 16;
        for opcode in [0x10u32, 0x11, 0x12, 0x13, 0x1c] {
            for func in 0..128 {
                let word = opcode << 26 | registers | func << 5 | c;
                // Register, register with bits that are ignored, two literals.
                words.extend([word, word | 0xe000, word | 0x1000]);
                words.push(opcode << 26 | a << 21 | 1 << 13 | 0x1000 | func << 5 | c);
            }
        }
        for opcode in [0x14u32, 0x15, 0x16, 0x17] {
            words.extend((0..2048).map(|func| opcode << 26 | registers | func << 5 | c));
        }
        for func in 0..64 {
            words.extend([0, 1, 0x200].map(|low| 0x18 << 26 | registers | func << 10 | low));
        }
        for kind in 0..4 {
            words.extend(
                [0, 1, 2, 0x1fff, 0x2000, 0x3fff]
                    .map(|hint| 0x1a << 26 | registers | kind << 14 | hint),
            );
        }
    }
    words.extend(0..0x200);
    words.extend((0..64).flat_map(|opcode| [0, 1, 0x03ff_ffff].map(|x| opcode << 26 | x)));
    words
}
