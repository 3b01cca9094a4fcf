//! The instruction table from outside: text against GNU objdump, and round trips between words,
//! decoded instructions and text for every row.
//!
//! `goldens/objdump.txt` holds objdump's answers, so that this passes without the tool; where the
//! tool is installed, it is asked again. `AXPLAB_BLESS=1` rewrites the golden from the tool.

use axp_emu::isa::{self, Format, Opcode, decode, disasm, encode};
use axp_tests::{objdump, words};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Words per hashed chunk, and how many chunks of random words there are.
const CHUNK: usize = 10_000;
const CHUNKS: u64 = 10;
/// Seed of the words that stand in the golden with their text, and how many there are.
const EXPLICIT_SEED: u64 = 0x0a1f;
const EXPLICIT: usize = 4_000;

fn golden_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("goldens/objdump.txt")
}

/// Our text of words that stand from [`objdump::BASE`] on.
fn our_text(words: &[u32]) -> Vec<String> {
    let pcs = (objdump::BASE..).step_by(4);
    words.iter().zip(pcs).map(|(&word, pc)| disasm(word, pc).to_string()).collect()
}

/// The golden file: a hash per chunk of words that the generator repeats, then words with text.
fn render_golden(mut text_of: impl FnMut(&[u32]) -> Vec<String>) -> String {
    let mut out = String::from(
        "; What `objdump -d` of GNU binutils 2.40 prints, the first word of each list standing at\n\
         ; 0x120000000. Hashed lists come from tests/src/words.rs. Rewrite: AXPLAB_BLESS=1.\n",
    );
    let mut hashed = |name: String, words: &[u32], out: &mut String| {
        let mut hash = Sha256::new();
        for line in text_of(words) {
            hash.update(line.as_bytes());
            hash.update(b"\n");
        }
        let hex: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
        let _ = writeln!(out, "sha256 {name} {} {hex}", words.len());
    };
    hashed("function-codes".to_owned(), &words::all_function_codes(), &mut out);
    for seed in 0..CHUNKS {
        hashed(format!("rows-seed-{seed}"), &words::over_all_rows(seed, CHUNK), &mut out);
    }
    let explicit = words::over_all_rows(EXPLICIT_SEED, EXPLICIT);
    for (word, text) in explicit.iter().zip(text_of(&explicit)) {
        // The tab between mnemonic and operands stays, the first one of the line is ours.
        let _ = writeln!(out, "{word:08x}\t{text}");
    }
    out
}

/// Fails on the first line that differs, not with two files of 4000 lines.
fn assert_same_lines(ours: &str, golden: &str) {
    for (i, (a, b)) in ours.lines().zip(golden.lines()).enumerate() {
        assert_eq!(a, b, "line {} of the golden", i + 1);
    }
    assert_eq!(ours.lines().count(), golden.lines().count());
}

#[test]
fn disassembly_equals_the_objdump_golden() {
    let golden = std::fs::read_to_string(golden_path()).expect("tests/goldens/objdump.txt");
    assert_same_lines(&render_golden(our_text), &golden);
}

#[test]
fn golden_is_what_objdump_prints() {
    let Some(tool) = objdump::find("comparison of the disassembly golden with objdump") else {
        return;
    };
    let fresh = render_golden(|words| objdump::text_of_words(&tool, words));
    if std::env::var_os("AXPLAB_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(golden_path(), &fresh).expect("write the golden");
    }
    let golden = std::fs::read_to_string(golden_path()).expect("tests/goldens/objdump.txt");
    assert_same_lines(&fresh, &golden);
}

#[test]
fn disassembly_equals_objdump_on_fresh_words() {
    let Some(tool) =
        objdump::find("disassembly of 100 000 words and all function codes by objdump")
    else {
        return;
    };
    let count = std::env::var("AXPLAB_OBJDUMP_WORDS").ok().and_then(|n| n.parse().ok());
    // Another seed on every run, named by a failure through the word itself.
    let seed = u64::from(std::process::id()) << 20;
    for words in [words::over_all_rows(seed, count.unwrap_or(100_000)), words::all_function_codes()]
    {
        let theirs = objdump::text_of_words(&tool, &words);
        for ((word, ours), theirs) in words.iter().zip(our_text(&words)).zip(theirs) {
            assert_eq!(ours, theirs, "{word:#010x}");
        }
    }
}

/// Where Debian's libc6.1-alpha-cross installs.
const LIBRARIES: &str = "/usr/alpha-linux-gnu/lib";

#[test]
fn disassembly_equals_objdump_on_programs() {
    let Some(tool) = objdump::find("disassembly of the guest programs by objdump") else {
        return;
    };
    let guests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../guest-programs/elf");
    let guests = std::fs::read_dir(guests).into_iter().flatten().flatten().map(|e| e.path());
    let guests = guests.filter(|p| p.extension().is_some_and(|e| e == "elf"));
    // Libraries of Debian's cross compiler, where it is installed: much code by a real compiler.
    let libraries = ["libc.so.6.1", "libm.so.6.1"].map(|l| Path::new(LIBRARIES).join(l));
    for file in guests.chain(libraries.into_iter().filter(|p| p.is_file())) {
        for line in objdump::text_of_elf(&tool, &file) {
            let ours = disasm(line.word, line.pc).to_string();
            assert_eq!(ours, line.text, "{} at {:#x}", file.display(), line.pc);
        }
    }
}

/// Words that a decoded instruction cannot tell apart: bits 15:13 of a register operand.
fn without_ignored_bits(word: u32) -> u32 {
    let operate = matches!(word >> 26, 0x10..=0x13 | 0x1c);
    if operate && word & 0x1000 == 0 { word & !0xe000 } else { word }
}

/// Instructions whose text leaves out register fields that have no effect on it, or that have two
/// encodings with one text (`mov` of a register).
fn text_hides_fields(op: Opcode, word: u32) -> bool {
    let (ra, rb) = (word >> 21 & 31, word >> 16 & 31);
    let unop = op == Opcode::LdqU && ra == 31;
    let mov = op == Opcode::Bis && ra == rb;
    unop || mov || matches!(op.info().format, Format::Misc(..) | Format::MiscA(..))
}

/// word -> Insn -> word, and word -> text -> word.
fn check_round_trips(word: u32) {
    let pc = objdump::BASE;
    let text = disasm(word, pc).to_string();
    let assembled = isa::assemble_at(&text, pc);
    let assembled = assembled.unwrap_or_else(|e| panic!("{word:#010x} {text:?}: {e}"));
    assert_eq!(disasm(assembled, pc).to_string(), text, "{word:#010x}");
    let Some(insn) = decode(word) else {
        assert_eq!(assembled, word, "{text}");
        return;
    };
    let encoded = encode(&insn);
    assert_eq!(encoded, without_ignored_bits(word), "{insn:?}");
    assert_eq!(decode(encoded), Some(insn), "{word:#010x}");
    if !text_hides_fields(insn.op, word) {
        assert_eq!(without_ignored_bits(assembled), encoded, "{text}");
    }
    // What the text names as an instruction is that instruction.
    assert_eq!(decode(assembled).map(|i| i.op), Some(insn.op), "{text}");
}

#[test]
fn every_row_round_trips_through_words_and_text() {
    let mut random = words::Random::new(7);
    for &op in Opcode::ALL {
        let mut own = 0;
        for _ in 0..200 {
            let word = words::word_of_row(op, &mut random);
            own += u32::from(decode(word).is_some_and(|insn| insn.op == op));
            check_round_trips(word);
        }
        assert!(own > 150, "{op:?} decodes as itself in only {own} of 200 words");
    }
    words::all_function_codes().into_iter().for_each(check_round_trips);
}

proptest! {
    #[test]
    fn any_word_round_trips_through_text(word: u32) {
        check_round_trips(word);
    }

    /// Guest bytes and test files are input: no text may bring the assembler down.
    #[test]
    fn the_assembler_refuses_any_nonsense_gracefully(
        text in "[a-z.$]{1,6}( |\t)[-+a-z0-9$(),x:;\\PC]{0,24}"
    ) {
        let _ = isa::assemble_block(&text, 0x1000);
    }
}

#[test]
fn reserved_opcodes_and_function_codes_are_illegal() {
    for opcode in [1, 2, 3, 4, 5, 6, 7, 0x19, 0x1b, 0x1d, 0x1e, 0x1f] {
        for low in [0, 1, 0x03ff_ffff] {
            assert_eq!(decode(opcode << 26 | low), None, "opcode {opcode:#x}");
        }
    }
    // Codes that exist in each opcode, qualifiers included (AARM appendix C).
    let legal = |opcode: u32| {
        (0..2048).filter(|func| decode(opcode << 26 | 31 << 21 | func << 5).is_some()).count()
    };
    assert_eq!([0x14, 0x15, 0x16, 0x17].map(legal), FP_CODES);
}

/// Number of legal function codes of opcodes 0x14 to 0x17.
const FP_CODES: [usize; 4] = [51, 106, 186, 15];
