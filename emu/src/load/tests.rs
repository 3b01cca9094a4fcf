//! The loader on good, bad and mutated files. The files are built here, so no tool is needed.

use proptest::prelude::*;

use super::{ElfError, ImageKind, MAX_ADDRESS, parse};

/// A program header: type, flags, offset, address, file size, memory size.
#[derive(Clone, Copy)]
struct Header(u32, u32, u64, u64, u64, u64);

const TEXT: u64 = 0x1_2000_0000;

fn elf(headers: &[Header], payload: &[u8]) -> Vec<u8> {
    let mut out = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    out.extend(2u16.to_le_bytes());
    out.extend(0x9026u16.to_le_bytes());
    out.extend(1u32.to_le_bytes());
    out.extend((TEXT + 0x100).to_le_bytes());
    out.extend(64u64.to_le_bytes());
    out.extend(0u64.to_le_bytes());
    out.extend(0u32.to_le_bytes());
    for half in [64u16, 56, headers.len() as u16, 64, 0, 0] {
        out.extend(half.to_le_bytes());
    }
    for Header(kind, flags, offset, vaddr, file_size, mem_size) in headers.iter().copied() {
        out.extend(kind.to_le_bytes());
        out.extend(flags.to_le_bytes());
        for quad in [offset, vaddr, vaddr, file_size, mem_size, 0x10000] {
            out.extend(quad.to_le_bytes());
        }
    }
    out.resize(0x100, 0);
    out.extend(payload);
    out
}

const GOOD: [Header; 3] = [
    Header(1, 5, 0, TEXT, 0x108, 0x108),
    Header(1, 6, 0x100, TEXT + 0x10000, 8, 0x4000),
    Header(0x6474_e551, 6, 0, 0, 0, 0),
];

fn good() -> Vec<u8> {
    elf(&GOOD, &[1, 2, 3, 4, 5, 6, 7, 8])
}

fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = good();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

#[test]
fn a_good_file_gives_its_segments() {
    let image = parse(&good()).unwrap();
    assert_eq!(image.kind, ImageKind::Fixed);
    assert_eq!(image.entry, TEXT + 0x100);
    assert_eq!(image.phdr, Some(TEXT + 64));
    assert_eq!(image.phnum, 3);
    assert!(!image.exec_stack);
    let [text, data] = &image.segments[..] else { panic!("two segments") };
    assert_eq!((text.vaddr, text.mem_size, text.data.len()), (TEXT, 0x108, 0x108));
    assert!(text.read && text.execute && !text.write);
    assert_eq!((data.mem_size, &data.data[..]), (0x4000, &[1, 2, 3, 4, 5, 6, 7, 8][..]));
    assert!(data.write && !data.execute);
    assert_eq!((image.low(), image.high()), (TEXT, TEXT + 0x14000));
    // Bytes that were built into a program lie anywhere.
    let shifted = [&[0], &good()[..]].concat();
    assert_eq!(parse(&shifted[1..]).unwrap().entry, image.entry);
}

#[test]
fn bad_files_are_named() {
    let message = |file: &[u8]| parse(file).unwrap_err().to_string();
    assert_eq!(parse(b""), Err(ElfError::Empty));
    assert_eq!(parse(b"#!/bin/sh\n"), Err(ElfError::NotElf));
    assert!(message(b"\x7fELF").contains("truncated"));
    assert!(message(&good()[..63]).contains("ELF header"));
    assert!(message(&good()[..100]).contains("program header table"));
    assert!(message(&good()[..0x104]).contains("segment"));
    assert!(message(&with(18, &[62, 0])).contains("x86-64"));
    assert!(message(&with(18, &[183, 0])).contains("AArch64"));
    assert!(message(&with(18, &[0x34, 0x12])).contains("0x1234"));
    assert!(message(&with(4, &[1])).contains("32-bit"));
    assert!(message(&with(5, &[2])).contains("ELF file for"));
    assert!(message(&with(16, &[1, 0])).contains("object file"));
    assert!(message(&with(56, &[0, 0])).contains("no loadable segment"));
    let big_endian = {
        let mut file = with(5, &[2]);
        file[18..20].copy_from_slice(&[0x90, 0x26]);
        file
    };
    assert!(matches!(parse(&big_endian), Err(ElfError::BigEndian { .. })));
}

#[test]
fn absurd_segments_are_refused() {
    let parse_with = |second: Header| parse(&elf(&[GOOD[0], second], &[0; 8]));
    let outside = |vaddr, size| {
        matches!(parse_with(Header(1, 6, 0, vaddr, 0, size)), Err(ElfError::OutsideWindow { .. }))
    };
    assert!(outside(MAX_ADDRESS - 8, 16));
    assert!(outside(u64::MAX - 8, 16));
    assert!(outside(TEXT + 0x10000, 1 << 40));
    assert!(outside(0, 1 << 16));
    let overlap = parse_with(Header(1, 6, 0, TEXT + 0x100, 0, 16));
    assert!(matches!(overlap, Err(ElfError::Overlap { .. })), "{overlap:?}");
    let longer = parse_with(Header(1, 6, 0, TEXT + 0x10000, 16, 8));
    assert!(matches!(longer, Err(ElfError::Malformed { .. })));
    let beyond = parse_with(Header(1, 6, u64::MAX - 4, TEXT + 0x10000, 8, 8));
    assert!(matches!(beyond, Err(ElfError::Malformed { .. })));
    let interp = parse_with(Header(3, 4, 0x100, 0, 8, 8));
    assert!(matches!(interp, Err(ElfError::Malformed { .. })), "{interp:?}");
}

#[test]
fn an_interpreter_is_found() {
    let headers = [GOOD[0], Header(3, 4, 0x100, 0, 8, 8)];
    let image = parse(&elf(&headers, b"/lib/ld\0")).unwrap();
    assert_eq!(image.interp.as_deref(), Some(&b"/lib/ld"[..]));
}

/// What holds for every image that the loader accepts.
fn check(bytes: &[u8]) {
    let Ok(image) = parse(bytes) else { return };
    assert!(!image.segments.is_empty());
    let mut last = 0;
    for segment in &image.segments {
        assert!(segment.vaddr >= last && segment.mem_size > 0);
        assert!(segment.data.len() as u64 <= segment.mem_size);
        assert!(segment.end() <= MAX_ADDRESS);
        last = segment.end();
    }
    for symbol in image.symbols.iter().take(10) {
        let _ = image.symbol_at(symbol.address);
    }
}

proptest! {
    #[test]
    fn mutated_files_never_panic(
        changes in proptest::collection::vec((0usize..0x108, any::<u8>()), 1..12),
        cut in 0usize..0x120,
    ) {
        let mut file = good();
        for (at, value) in changes {
            file[at] = value;
        }
        file.truncate(cut.max(1));
        check(&file);
    }

    #[test]
    fn mutated_headers_never_panic(
        at in 0usize..29,
        value in prop_oneof![
            Just(0u64), Just(u64::MAX), Just(1 << 63), Just(MAX_ADDRESS), any::<u64>(),
        ],
    ) {
        let mut file = good();
        file[8 * at..8 * at + 8].copy_from_slice(&value.to_le_bytes());
        check(&file);
    }

    #[test]
    fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..400)) {
        check(&noise);
        let mut file = good();
        file.truncate(64);
        file.extend(noise);
        check(&file);
    }
}
