//! The host's divide in the place of the guest's division routines: the same registers, the same
//! stack, the same trap as the routines' own code under the interpreter.

use std::collections::BTreeSet;

use axp_emu::cpu::UnalignedPolicy;
use axp_emu::engine::{Engine, Limit};
use axp_emu::isa::{CpuModel, assemble_at};
use axp_guests::{Catalogue, Cpu};
use axp_jit::divide::{Division, recognise};
use axp_jit::region::select;
use axp_tests::engines::ENGINES;
use axp_tests::state::{CODE, DATA, STOP, STOPPED, State, TestMachine};
use axp_tests::words::Random;

/// Instructions before the routines.
const CALLER: usize = 4;

/// The words of a guest program, wherever in the file they are.
fn words(cpu: Cpu) -> Vec<u32> {
    let (program, _) = Catalogue::builtin().find("string-bytes").expect("a row");
    let file = program.elf_bytes(cpu).expect("built for all models");
    file.chunks_exact(4).map(|w| u32::from_le_bytes(w.try_into().unwrap())).collect()
}

/// All routines in a file, their addresses being file offsets.
fn routines(words: &[u32]) -> Vec<Division> {
    let word = |at: u64| words.get(at as usize / 4).copied();
    (0..words.len() as u64).filter_map(|i| recognise(4 * i, word)).collect()
}

/// Operands at which quotients, signs and widths go wrong.
const CORNERS: [u64; 16] = [
    0,
    1,
    2,
    7,
    10,
    0xff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x1_0000_0001,
    i64::MAX as u64,
    i64::MIN as u64,
    i64::MIN as u64 + 1,
    u64::MAX - 1,
    u64::MAX,
];

struct Operands {
    machine: TestMachine,
    registers: [u64; 31],
}

impl Operands {
    fn run(&mut self, engine: &mut dyn Engine, n: u64, d: u64, observed: bool) -> State {
        self.machine.observed = observed;
        self.machine.precise = observed;
        self.machine.reset(CpuModel::default());
        self.machine.vcpu.cpu.r[..31].copy_from_slice(&self.registers);
        (self.machine.vcpu.cpu.r[24], self.machine.vcpu.cpu.r[25]) = (n, d);
        self.machine.run(engine, Limit::None)
    }
}

#[test]
fn same_effects_as_the_guests_code() {
    for cpu in [Cpu::Ev4, Cpu::Ev56, Cpu::Ev67] {
        let words = words(cpu);
        let found = routines(&words);
        let kinds: BTreeSet<_> = found.iter().map(|d| (d.signed, d.long, d.remainder)).collect();
        assert_eq!((found.len(), kinds.len()), (8, 8), "{cpu:?}: {found:?}");
        let first = found.iter().map(|d| d.entry).min().unwrap() as usize / 4;
        let last = found.iter().map(|d| d.ranges[1].1).max().unwrap() as usize / 4;
        for division in &found {
            let at = CODE + 4 * (CALLER + division.entry as usize / 4 - first) as u64;
            let mut code = vec![assemble_at(&format!("bsr $23,{at:#x}"), CODE).unwrap()];
            code.resize(CALLER, STOP);
            code.extend(&words[first..last]);
            check(division, &code);
        }
    }
}

fn check(division: &Division, code: &[u32]) {
    let mut random = Random::new(division.entry);
    let registers = std::array::from_fn(|i| if i == 30 { DATA + 512 } else { random.next_u64() });
    let mut bench = Operands { machine: TestMachine::new(), registers };
    bench.machine.load(code);
    // Without this the comparison below would hold of code that divides as the guest does.
    let of_region = |machine: &TestMachine, inline| {
        let region = select(&machine.vcpu, CODE, 100, inline, &|_| true);
        region.blocks[0].division
    };
    let kind = |d: Division| (d.signed, d.long, d.remainder);
    assert_eq!(of_region(&bench.machine, true).map(kind), Some(kind(*division)));
    assert_eq!(of_region(&bench.machine, false), None, "counted runs count the guest's code");
    bench.machine.vcpu.unaligned = UnalignedPolicy::Trap;
    assert_eq!(of_region(&bench.machine, true), None, "its stores may trap");
    bench.machine.vcpu.unaligned = UnalignedPolicy::Fixup;
    let mut engines: Vec<_> = ENGINES.iter().map(|e| (e.name, (e.make)())).collect();
    let corners = CORNERS.iter().flat_map(|&n| CORNERS.map(|d| (n, d)));
    let drawn: Vec<_> = (0..400)
        .map(|_| {
            let [n, d] = [0, 1].map(|_| random.next_u64() >> random.below(64));
            (n, if random.below(4) == 0 { d.wrapping_neg() } else { d })
        })
        .collect();
    for (n, d) in corners.chain(drawn) {
        let want = bench.run(&mut *engines[0].1, n, d, true);
        let zero = if division.long { d as u32 == 0 } else { d == 0 };
        assert_eq!(want.exit == STOPPED, !zero, "{n:#x} / {d:#x}: {:?}", want.exit);
        if !zero {
            assert_eq!(want.r[27], quotient_or_remainder(division, n, d), "{n:#x} / {d:#x}");
        }
        for (name, engine) in &mut engines[1..] {
            for observed in [true, false] {
                let got = bench.run(&mut **engine, n, d, observed);
                let lines = got.diff(&want).join("\n");
                assert!(lines.is_empty(), "{name}: {division:?}: {n:#x} / {d:#x}\n{lines}");
            }
        }
    }
}

/// What the result is by definition.
fn quotient_or_remainder(division: &Division, n: u64, d: u64) -> u64 {
    let pick = |q: u64, r: u64| if division.remainder { r } else { q };
    let pick_signed = |q: i64, r: i64| pick(q as u64, r as u64);
    match (division.signed, division.long) {
        (false, false) => pick(n / d, n % d),
        (true, false) => {
            let (n, d) = (n as i64, d as i64);
            pick_signed(n.wrapping_div(d), n.wrapping_rem(d))
        }
        (false, true) => {
            let (n, d) = (n as u32, d as u32);
            pick_signed(i64::from((n / d) as i32), i64::from((n % d) as i32))
        }
        (true, true) => {
            let (n, d) = (n as i32, d as i32);
            pick_signed(n.wrapping_div(d).into(), n.wrapping_rem(d).into())
        }
    }
}
