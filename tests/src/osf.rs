//! A rig for programs over OSF/1 PALcode: page tables and contexts made by hand, code from the line
//! assembler, results in memory; every engine, compared where it ends.

use std::sync::Arc;

use axp_emu::engine::Engine;
use axp_emu::isa::{CpuModel, Osf, OsfSystem, assemble_block};
use axp_emu::machine::Console;
use axp_emu::machine::osf::{Halt, Processor};
use axp_emu::machine::platform::Clipper;
use axp_emu::mem::{PAGE_SIZE, Physical, pte};

use crate::engines::ENGINES;
use crate::machine::expand_with;

/// Where the program starts.
pub const CODE: u64 = 0x1_0000;
/// Where results go.
pub const RESULTS: u64 = 0x7_0000;
/// Data for the program, one page.
pub const DATA: u64 = 0x8_0000;
/// Top of the kernel's stack.
pub const KSP: u64 = 0x5_0000;
/// Top of the user's.
pub const USP: u64 = 0x5_4000;
/// The process control block that runs.
pub const PCB: u64 = 0x6_0000;
/// What the kernel's GP is set to.
pub const KGP: u64 = 0x1234;
/// V and every right of both modes.
pub const ALL: u64 = pte::V | 0x3300;

const L1: u64 = 16;
const L3: u64 = 18;
const BOOT: u64 = 0x3_0000;
/// A handler that halts, for the entries that a test does not name.
const STOP: u64 = 0x3_2000;
const MEMORY: u64 = 8 << 20;
const LIMIT: u64 = 3_000_000;
/// Names of the entries in the order of WRENT.
const ENTRIES: [&str; 6] = ["int", "arith", "mm", "if", "una", "sys"];

/// A program and the processor around it.
#[derive(Clone, Debug)]
pub struct Rig {
    blocks: Vec<(u64, String)>,
    entries: [u64; 6],
    ptes: Vec<(u64, u64)>,
    data: Vec<(u64, u64)>,
    user: bool,
    fen: u64,
}

/// What a run left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Quadwords that the program put out.
    pub results: Vec<u64>,
    /// Why it ended.
    pub halt: Option<Halt>,
    /// The report's text.
    pub report: String,
    state: String,
}

fn expand(text: &str) -> String {
    expand_with(text, |name| {
        let system = (0..256).filter_map(OsfSystem::from_code).find(|c| c.name() == name);
        let user = (0..256).filter_map(Osf::from_code).find(|c| c.name() == name);
        system.map(|c| c as u32).or(user.map(|c| c as u32))
    })
}

impl Rig {
    fn new(user: bool, text: &str) -> Self {
        let rig = Rig {
            blocks: Vec::new(),
            entries: [STOP; 6],
            ptes: Vec::new(),
            data: Vec::new(),
            user,
            fen: 1,
        };
        rig.code(CODE, text)
    }

    /// A program that starts at [`CODE`] in kernel mode at IPL 7, with R15 at [`RESULTS`].
    pub fn kernel(text: &str) -> Self {
        Rig::new(false, text)
    }

    /// One that starts in user mode.
    pub fn user(text: &str) -> Self {
        Rig::new(true, text)
    }

    /// More code.
    pub fn code(mut self, at: u64, text: &str) -> Self {
        self.blocks.push((at, text.to_owned()));
        self
    }

    /// What an entry does: int, arith, mm, if, una, sys. Others end the machine.
    pub fn entry(mut self, name: &str, text: &str) -> Self {
        let index = ENTRIES.iter().position(|n| *n == name).expect("an entry's name");
        self.entries[index] = 0x1_2000 + 0x400 * index as u64;
        let at = self.entries[index];
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
    pub fn page(va: u64, bits: u64) -> u64 {
        va >> 13 << pte::PFN_SHIFT | bits
    }

    fn memory(&self, platform: &Arc<Clipper>) -> Arc<Physical> {
        let mut physical = Physical::new(MEMORY).expect("memory");
        platform.attach(&mut physical);
        let put = |at: u64, value: u64| assert!(physical.store(at, 8, value).is_some());
        let table = |pfn: u64| pfn << pte::PFN_SHIFT | ALL;
        put(L1 << 13, table(17));
        put(17 << 13, table(L3));
        for page in 0..MEMORY / PAGE_SIZE {
            let va = page * PAGE_SIZE;
            put(Rig::pte_address(va), Rig::page(va, ALL));
        }
        for &(va, entry) in &self.ptes {
            put(Rig::pte_address(va), entry);
        }
        for &(at, value) in &self.data {
            put(at, value);
        }
        let entries: String = self
            .entries
            .iter()
            .enumerate()
            .map(|(i, at)| format!("li r16, {at}\nli r17, {i}\npal wrent\n"))
            .collect();
        let start = if self.user {
            // The frame of a return to user mode.
            format!(
                "lda sp, -48(sp)
                 li r1, 8
                 stq r1, 0(sp)
                 li r1, {CODE}
                 stq r1, 8(sp)
                 pal rti"
            )
        } else {
            format!("li r1, {CODE}\njmp r31, (r1)")
        };
        let boot = format!(
            "{entries}
             li r16, {KGP}
             pal wrkgp
             li r16, {USP}
             pal wrusp
             li r15, {RESULTS}
             {start}"
        );
        let fixed = [(BOOT, boot), (STOP, "pal halt".to_owned())];
        for (at, text) in self.blocks.iter().chain(&fixed) {
            let words = assemble_block(&expand(text), *at).unwrap_or_else(|e| panic!("{e}"));
            for (i, word) in words.iter().enumerate() {
                assert!(physical.store(at + 4 * i as u64, 4, u64::from(*word)).is_some());
            }
        }
        put(PCB, KSP);
        put(PCB + 0x10, L1);
        put(PCB + 0x18, 1 << 32);
        put(PCB + 0x28, self.fen);
        Arc::new(physical)
    }

    /// Runs on one engine.
    pub fn run_on(&self, engine: &mut dyn Engine) -> Ran {
        let platform = Arc::new(Clipper::new(Console::Kept, 1));
        let physical = self.memory(&platform);
        let mut vcpu = Processor::vcpu(physical.clone(), CpuModel::Ev67).expect("a processor");
        let mut processor = Processor::new(platform.clone(), 0, &mut vcpu, PCB);
        vcpu.cpu.pc = BOOT;
        let outcome = processor.run(engine, &mut vcpu, Some(LIMIT));
        let cpu = &vcpu.cpu;
        let length = (cpu.r[15].saturating_sub(RESULTS) / 8).min(1000);
        let results =
            (0..length).map(|i| physical.quadword(RESULTS + 8 * i).unwrap_or(0)).collect();
        let state = format!(
            "{outcome:?} pc {:x} count {} r {:x?} f {:x?} unique {:x} {} {:?} {:?}",
            cpu.pc,
            cpu.count,
            &cpu.r[..31],
            &cpu.f[..31],
            cpu.unique,
            processor.snapshot(),
            processor.counters(),
            platform.take_output(),
        );
        Ran {
            results,
            halt: processor.report().map(|r| r.halt.clone()),
            report: processor.report().map(ToString::to_string).unwrap_or_default(),
            state,
        }
    }

    /// Runs on every engine; they must agree.
    pub fn run(&self) -> Ran {
        let mut first: Option<Ran> = None;
        for engine in ENGINES {
            let ran = self.run_on(&mut *(engine.make)());
            match &first {
                None => first = Some(ran),
                Some(reference) => assert_eq!(&ran, reference, "{}", engine.name),
            }
        }
        first.expect("there are engines")
    }

    /// Runs on every engine to a HALT; what the program put out.
    pub fn results(&self) -> Vec<u64> {
        let ran = self.run();
        assert_eq!(ran.halt, Some(Halt::Halted), "{}", ran.report);
        ran.results
    }
}
