//! Random programs on both loops, in slices of random length and by single steps.

use super::words::*;
use super::*;
use crate::engine::lockstep::memory_difference;
use crate::isa::{Kind, Opcode, decode};
use proptest::prelude::*;

/// Kept by generated programs: R16 points to data, R20 counts rounds.
const KEPT: u32 = 1 << 16 | 1 << 20;

/// A word for a row of the table with random fields, if it is one that a straight line can hold.
fn usable(op: Opcode, bits: u32, func: u32) -> Option<u32> {
    let format = op.info().format;
    let opcode = u32::from(format.opcode()) << 26;
    // Finding the function code by trial keeps this independent of the encoder.
    let width = crate::isa::func_bits(format.opcode());
    let word = match width {
        7 => opcode | bits & 0x03ff_f01f | (func & 0x7f) << 5,
        11 => opcode | bits & 0x03ff_001f | (func & 0x7ff) << 5,
        16 => opcode | bits & 0x03ff_0000 | func & 0xffff,
        _ => opcode | bits & 0x03ff_ffff,
    };
    let insn = decode(word).filter(|insn| insn.op == op)?;
    match op.kind() {
        Kind::Pal | Kind::Jump | Kind::Branch => return None,
        // Forward over a few instructions.
        Kind::CondBranch | Kind::CondBranchF => return Some(word & !0x1f_ffff | bits & 7),
        Kind::Load
        | Kind::LoadUnaligned
        | Kind::LoadLocked
        | Kind::Store
        | Kind::StoreUnaligned
        | Kind::StoreConditional
        | Kind::Fload
        | Kind::Fstore => {
            // Around the middle of the data; aligned in two of three cases.
            let disp = if bits & 0x300 == 0 { bits & 0xff } else { bits & 0xf8 };
            let word = word & 0xffe0_0000 | 16 << 16 | disp;
            let insn = decode(word)?;
            return (insn.writes().int & KEPT == 0).then_some(word);
        }
        _ => {}
    }
    (insn.writes().int & KEPT == 0).then_some(word)
}

/// All function codes of a row.
fn functions(op: Opcode) -> Vec<u32> {
    let format = op.info().format;
    let all = 1u32 << crate::isa::func_bits(format.opcode());
    (0..all).filter(|&f| format.matches(f as u16)).collect()
}

fn line() -> impl Strategy<Value = u32> {
    let rows: Vec<(Opcode, Vec<u32>)> = Opcode::ALL.iter().map(|&op| (op, functions(op))).collect();
    (0..rows.len(), any::<u32>(), any::<u32>()).prop_filter_map("usable", move |(i, bits, pick)| {
        let (op, functions) = &rows[i];
        usable(*op, bits, functions[pick as usize % functions.len()])
    })
}

/// Three rounds of random instructions.
fn program() -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(line(), 1..40).prop_map(|lines| {
        let mut words = vec![addq(31, 3, 20)];
        words.extend(&lines);
        // Branches over the end of the lines fall here.
        words.extend([opr(0x11, 0x20, 31, 31, 31); 7]);
        words.push(subq(20, 1, 20));
        words.push(bra(BNE, 20, -(words.len() as i32)));
        words.push(CALLSYS);
        words
    })
}

fn prepare(vcpu: &mut Vcpu, seed: &[u64; 16]) {
    for i in 0..31 {
        vcpu.cpu.r[i] = seed[i % 16].rotate_left(i as u32);
        vcpu.cpu.f[i] = seed[(i + 5) % 16].rotate_right(3 * i as u32);
    }
    vcpu.cpu.r[16] = DATA + 0x100;
    for i in 0..64 {
        vcpu.mem.store_u64(DATA + 8 * i, seed[i as usize % 16].wrapping_mul(i + 1)).unwrap();
    }
}

/// Runs to the end, through traps; the events.
fn drive(engine: &mut dyn Engine, vcpu: &mut Vcpu, slices: &[u64]) -> Vec<(u64, Exit)> {
    let mut events = Vec::new();
    for &slice in slices.iter().cycle() {
        if vcpu.cpu.count > 5000 {
            break;
        }
        match engine.run(vcpu, Limit::Count(slice)) {
            Exit::Limit => continue,
            exit @ (Exit::Unaligned(_) | Exit::Fault(_)) => {
                events.push((vcpu.cpu.count, exit));
                vcpu.cpu.pc += 4;
            }
            exit @ Exit::Arith(_) => events.push((vcpu.cpu.count, exit)),
            exit => {
                events.push((vcpu.cpu.count, exit));
                break;
            }
        }
    }
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn both_loops_agree_on_random_programs(
        words in program(),
        seed in any::<[u64; 16]>(),
        slices in proptest::collection::vec(1u64..60, 1..8),
    ) {
        let mut reference = machine(&words);
        prepare(&mut reference, &seed);
        let expected = drive(&mut Interpreter::new(Dispatch::Match), &mut reference, &[1]);
        for dispatch in LOOPS {
            for slices in [&slices[..], &[10_000]] {
                let mut vcpu = machine(&words);
                prepare(&mut vcpu, &seed);
                let events = drive(&mut Interpreter::new(dispatch), &mut vcpu, slices);
                prop_assert_eq!(&events, &expected);
                same(&vcpu, &reference);
                prop_assert_eq!(memory_difference(&vcpu, &reference), None);
            }
        }
    }
}
