//! A rig for programs on the privileged machine: page tables, SCB and stacks made by hand, code from
//! the line assembler, results in memory; every engine, compared after every guest event.

use std::sync::Arc;

use axp_emu::cpu::{Exit, Vcpu};
use axp_emu::engine::{Engine, Environment, Flow, Limit};
use axp_emu::isa::{Vms, assemble_block};
use axp_emu::machine::{Board, Console, Disk, HaltReason, Machine, Settings};
use axp_emu::mem::{PAGE_SIZE, Physical, ProbeStrategy, pte};

use crate::engines::ENGINES;

/// Where the program starts.
pub const CODE: u64 = 0x1_0000;
/// Where results go.
pub const RESULTS: u64 = 0x7_0000;
/// Data for the program, one page.
pub const DATA: u64 = 0x8_0000;
/// Tops of the stacks by mode.
pub const STACKS: [u64; 4] = [0x5_0000, 0x5_4000, 0x5_8000, 0x5_c000];
/// The hardware process context block.
pub const PCB: u64 = 0x6_0000;
/// Argument of every SCB entry, less its vector.
pub const SCB_ARGUMENT: u64 = 0xa000_0000;
/// Every right of every mode.
pub const ALL_RIGHTS: u64 = 0xff00;

const L1: u64 = 16;
const L3: u64 = 18;
const SCB: u64 = 20;
const BOOT: u64 = 0x3_0000;
const STUBS: u64 = 0x3_2000;
const MEMORY: u64 = 8 << 20;

/// A program and the machine around it.
#[derive(Clone, Debug)]
pub struct Rig {
    blocks: Vec<(u64, Vec<u32>)>,
    vectors: Vec<(u64, u64)>,
    ptes: Vec<(u64, u64)>,
    data: Vec<(u64, u64)>,
    mode: u64,
    sp: [u64; 4],
    fen: u64,
    /// How PROBE finds its answers.
    pub strategy: ProbeStrategy,
}

/// What a run left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Quadwords that the program put out.
    pub results: Vec<u64>,
    /// Why it ended.
    pub reason: Option<HaltReason>,
    /// The report's text.
    pub report: String,
}

/// Expands the rig's macros for OpenVMS PALcode.
fn expand(text: &str) -> String {
    expand_with(text, |name| {
        (0..256).filter_map(Vms::from_code).find(|c| c.name() == name).map(|call| call as u32)
    })
}

/// Expands the macros of rigs: `li r, value`, `out r`, `pal name`, whose number `code_of` knows.
pub(crate) fn expand_with(text: &str, code_of: impl Fn(&str) -> Option<u32>) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let code = line.split(';').next().unwrap_or("");
        let (label, code) = match code.split_once(':') {
            Some((label, rest)) => (format!("{label}:\n"), rest),
            None => (String::new(), code),
        };
        lines += &label;
        let words: Vec<&str> =
            code.split([' ', ',']).map(str::trim).filter(|w| !w.is_empty()).collect();
        match words[..] {
            ["li", r, value] => {
                let value = number(value);
                let low = value as i16;
                let high = (value - i64::from(low)) >> 16;
                lines += &format!("ldah {r},{high}(r31)\nlda {r},{low}({r})\n");
            }
            ["out", r] => lines += &format!("stq {r},0(r15)\nlda r15,8(r15)\n"),
            ["pal", name] => {
                let call = code_of(name).unwrap_or_else(|| panic!("no PALcode call {name}"));
                lines += &format!("call_pal {call:#x}\n");
            }
            _ => {
                lines += code;
                lines.push('\n');
            }
        }
    }
    lines
}

fn number(text: &str) -> i64 {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).expect("a number"),
        None => text.parse().expect("a number"),
    }
}

impl Rig {
    /// A program that starts at [`CODE`] in an access mode, with R15 at [`RESULTS`].
    pub fn new(mode: u64, text: &str) -> Self {
        let rig = Rig {
            blocks: Vec::new(),
            vectors: Vec::new(),
            ptes: Vec::new(),
            data: Vec::new(),
            mode,
            sp: STACKS,
            fen: 1,
            strategy: ProbeStrategy::default(),
        };
        rig.code(CODE, text)
    }

    /// More code.
    pub fn code(mut self, at: u64, text: &str) -> Self {
        let words = assemble_block(&expand(text), at).unwrap_or_else(|e| panic!("{e}"));
        self.blocks.push((at, words));
        self
    }

    /// A handler for a vector, which otherwise halts the machine.
    pub fn handler(mut self, vector: u64, at: u64, text: &str) -> Self {
        self.vectors.push((vector, at));
        self.code(at, text)
    }

    /// Another page table entry for the page of `va`.
    pub fn pte(mut self, va: u64, entry: u64) -> Self {
        self.ptes.push((va, entry));
        self
    }

    /// A quadword of memory.
    pub fn data(mut self, at: u64, value: u64) -> Self {
        self.data.push((at, value));
        self
    }

    /// Another stack pointer for a mode.
    pub fn stack(mut self, mode: usize, sp: u64) -> Self {
        self.sp[mode] = sp;
        self
    }

    /// Starts with floating point disabled.
    pub fn without_fen(mut self) -> Self {
        self.fen = 0;
        self
    }

    /// Physical address of the leaf entry of `va`, which programs may change.
    pub fn pte_address(va: u64) -> u64 {
        (L3 << 13) + (va >> 13) * 8
    }

    /// The entry that maps a page to itself with these bits.
    pub fn entry(va: u64, bits: u64) -> u64 {
        va >> 13 << pte::PFN_SHIFT | bits
    }

    fn build(&self) -> (Machine, Vcpu, Arc<Physical>) {
        let physical = Arc::new(Physical::new(MEMORY).expect("memory"));
        let put = |at: u64, value: u64| assert!(physical.store(at, 8, value).is_some());
        let table = |pfn: u64| pfn << pte::PFN_SHIFT | pte::V | ALL_RIGHTS;
        put(L1 << 13, table(17));
        put(17 << 13, table(L3));
        for page in 0..MEMORY / PAGE_SIZE {
            let va = page * PAGE_SIZE;
            put(Rig::pte_address(va), Rig::entry(va, pte::V | ALL_RIGHTS));
        }
        for &(va, entry) in &self.ptes {
            put(Rig::pte_address(va), entry);
        }
        for vector in (0..0x1000).step_by(16) {
            put((SCB << 13) + vector, STUBS + vector);
            put((SCB << 13) + vector + 8, SCB_ARGUMENT + vector);
            put(STUBS + vector, 0);
        }
        for &(vector, at) in &self.vectors {
            put((SCB << 13) + vector, at);
        }
        for &(at, value) in &self.data {
            put(at, value);
        }
        let boot = "
            li r16, 20
            pal mtpr_scbb
            li r16, 0x60000
            pal swpctx
            li r15, 0x70000
            pal rei";
        let words = assemble_block(&expand(boot), BOOT).expect("boot code");
        for (at, words) in self.blocks.iter().chain([&(BOOT, words)]) {
            for (i, word) in words.iter().enumerate() {
                assert!(physical.store(at + 4 * i as u64, 4, u64::from(*word)).is_some());
            }
        }
        // The frame that the boot code's REI takes.
        let frame = (self.sp[0] & !63) - 64;
        put(frame + 48, CODE);
        let ipl = if self.mode == 0 { 31 << 8 } else { 0 };
        put(frame + 56, self.mode << 3 | ipl | (self.sp[0] & 63) << 56);
        for (i, sp) in [frame, self.sp[1], self.sp[2], self.sp[3]].into_iter().enumerate() {
            put(PCB + 8 * i as u64, sp);
        }
        put(PCB + 0x20, L1);
        put(PCB + 0x28, 1);
        put(PCB + 0x38, self.fen);
        let settings = Settings { memory: MEMORY, probe: self.strategy, ..Settings::default() };
        let mut vcpu = Machine::vcpu(physical.clone(), &settings).expect("a processor");
        vcpu.cpu.pc = BOOT;
        let board = Arc::new(Board::new(Console::Kept, Disk::default(), &[]));
        (Machine::new(board, 0), vcpu, physical)
    }

    /// Runs on one engine, with a line of state for every guest event.
    pub fn run_on(&self, engine: &mut dyn Engine) -> (Ran, Vec<String>) {
        let (mut machine, mut vcpu, physical) = self.build();
        let mut trace = Vec::new();
        let mut left = 2_000_000;
        loop {
            let before = vcpu.cpu.count;
            let exit = engine.run(&mut vcpu, Limit::Count(left));
            left -= vcpu.cpu.count - before;
            if exit == Exit::Limit {
                break;
            }
            let flow = machine.handle(&mut vcpu, exit);
            if let Some((start, end)) = machine.take_code_change() {
                engine.invalidate(start, end);
            }
            let cpu = &vcpu.cpu;
            trace.push(format!(
                "{exit} pc {:x} count {} r {:x?} unique {:x} {}",
                cpu.pc,
                cpu.count,
                &cpu.r[..31],
                cpu.unique,
                machine.snapshot()
            ));
            if let Flow::Stop(_) = flow {
                break;
            }
        }
        (ran(&machine, &vcpu, &physical), trace)
    }

    /// Runs on one engine as it runs when nobody counts: it asks for PALcode itself. Also gives the
    /// state at the end.
    fn run_freely(&self, engine: &mut dyn Engine) -> (Ran, String) {
        let (mut machine, mut vcpu, physical) = self.build();
        machine.run(engine, &mut vcpu, None, u64::MAX);
        let state = format!("{:x} {:x?} {}", vcpu.cpu.pc, &vcpu.cpu.r[..31], machine.snapshot());
        (ran(&machine, &vcpu, &physical), state)
    }

    /// Runs on every engine; they must agree after every event, and at the end when nobody counts.
    pub fn run(&self) -> Ran {
        let mut first: Option<(Ran, Vec<String>)> = None;
        for engine in ENGINES {
            let (ran, trace) = self.run_on(&mut *(engine.make)());
            match &first {
                None => first = Some((ran, trace)),
                Some((reference, expected)) => {
                    for (i, (want, got)) in expected.iter().zip(&trace).enumerate() {
                        assert_eq!(got, want, "{} at event {i}", engine.name);
                    }
                    assert_eq!(trace.len(), expected.len(), "{}", engine.name);
                    assert_eq!(&ran, reference, "{}", engine.name);
                }
            }
        }
        let ran = first.expect("there are engines").0;
        if ran.reason.is_some() {
            let mut first: Option<String> = None;
            for engine in ENGINES {
                let (free, state) = self.run_freely(&mut *(engine.make)());
                assert_eq!(free, ran, "{} uncounted", engine.name);
                let first = first.get_or_insert_with(|| state.clone());
                assert_eq!(&state, first, "{} uncounted", engine.name);
            }
        }
        ran
    }

    /// Runs on every engine to a HALT; what the program put out.
    pub fn results(&self) -> Vec<u64> {
        let ran = self.run();
        assert_eq!(ran.reason, Some(HaltReason::Halted), "{}", ran.report);
        ran.results
    }
}

fn ran(machine: &Machine, vcpu: &Vcpu, physical: &Physical) -> Ran {
    let length = (vcpu.cpu.r[15].saturating_sub(RESULTS) / 8).min(1000);
    let results = (0..length).map(|i| physical.quadword(RESULTS + 8 * i).unwrap_or(0)).collect();
    Ran {
        results,
        reason: machine.report().map(|r| r.reason.clone()),
        report: machine.report().map(ToString::to_string).unwrap_or_default(),
    }
}
