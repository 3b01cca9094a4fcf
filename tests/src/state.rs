//! A small guest machine for tests, and snapshots of everything that a program could observe.
//!
//! Vectors and differential tests run one instruction or block on every engine in a [`TestMachine`]
//! and compare [`State`]s; [`State::diff`] names what differs in the words of the manual.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use axp_emu::cpu::{Exit, LOCK_FREE, Vcpu};
use axp_emu::engine::{Engine, Limit};
use axp_emu::fp;
use axp_emu::isa::{CpuModel, INT_NAMES, disasm};
use axp_emu::mem::{AddressSpace, MapRequest, PAGE_SIZE, Place, Prot};

/// Start of the code page pair.
pub const CODE_PAGE: u64 = 0x1_2000_0000;
/// Where test code starts, with room for branches in both directions.
pub const CODE: u64 = CODE_PAGE + 0x1000;
/// Bytes of code memory.
pub const CODE_SIZE: u64 = 2 * PAGE_SIZE;
/// Start of the data window; what follows it is not mapped.
pub const DATA: u64 = 0x1_4000_0000;
/// Bytes of data memory.
pub const DATA_SIZE: u64 = 2 * PAGE_SIZE;

/// A page that the guest may write and execute, for code that changes.
pub const SCRATCH: u64 = 0x1_6000_0000;

/// `call_pal bpt`: fills unused code memory, so that code that strays stops.
pub const STOP: u32 = 0x80;
/// The exit by which test code ends.
pub const STOPPED: Exit = Exit::CallPal(STOP);

/// A processor with two pages of code, which the guest cannot write, and two of data.
pub struct TestMachine {
    /// The processor.
    pub vcpu: Vcpu,
    /// What [`Vcpu::precise`] is after a reset.
    pub precise: bool,
    /// What [`Vcpu::observed`] is after a reset.
    pub observed: bool,
    /// The host's door to read-only memory.
    door: File,
    /// Code memory that is all [`STOP`].
    stops: Vec<u8>,
}

impl Default for TestMachine {
    fn default() -> Self {
        Self::new()
    }
}

impl TestMachine {
    /// A machine whose code memory is all [`STOP`] and whose data memory is zero.
    ///
    /// # Panics
    /// If the host has no address space for it.
    pub fn new() -> Self {
        let mem = AddressSpace::based().expect("a window of address space");
        let map = |at, len, prot| {
            mem.map(&MapRequest::anonymous(len, prot).at(Place::Fixed(at))).expect("test memory");
        };
        // Random code that stored into itself without IMB would differ between engines rightly.
        map(CODE_PAGE, CODE_SIZE, Prot::READ | Prot::EXEC);
        map(DATA, DATA_SIZE, Prot::READ | Prot::WRITE);
        map(SCRATCH, PAGE_SIZE, Prot::READ | Prot::WRITE | Prot::EXEC);
        let vcpu = Vcpu::new(Arc::new(mem), CpuModel::default());
        let door = OpenOptions::new().write(true).open("/proc/self/mem").expect("/proc/self/mem");
        let stops = STOP.to_le_bytes().repeat(CODE_SIZE as usize / 4);
        let mut machine = TestMachine { vcpu, precise: true, observed: true, door, stops };
        machine.vcpu.precise = true;
        machine.load(&[]);
        machine
    }

    /// Puts `words` at [`CODE`], [`STOP`] everywhere else, and the program counter at `CODE`.
    ///
    /// # Panics
    /// If the code is longer than its memory.
    pub fn load(&mut self, words: &[u32]) {
        self.load_at(CODE, words);
    }

    /// As [`load`](Self::load), with the code elsewhere in code memory.
    ///
    /// # Panics
    /// If the code does not lie in its memory.
    pub fn load_at(&mut self, start: u64, words: &[u32]) {
        let mut image = self.stops.clone();
        let at = (start - CODE_PAGE) as usize;
        for (place, word) in image[at..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        assert!(at + 4 * words.len() < image.len(), "the code is too long");
        let host = self.vcpu.mem.host_base() + CODE_PAGE;
        self.door.write_all_at(&image, host).expect("code memory is mapped");
        self.vcpu.cpu.pc = start;
    }

    /// Puts registers and data memory back to a known state, the start-up state of a program.
    pub fn reset(&mut self, model: CpuModel) {
        let mem = Arc::clone(&self.vcpu.mem);
        mem.zero_bytes(DATA, DATA_SIZE).expect("data memory is mapped");
        self.vcpu = Vcpu::new(mem, model);
        self.vcpu.precise = self.precise;
        self.vcpu.observed = self.observed;
        self.vcpu.cpu.pc = CODE;
    }

    /// Runs until a guest event or the limit; code loaded before is taken up.
    pub fn run(&mut self, engine: &mut dyn Engine, limit: Limit) -> State {
        engine.invalidate(CODE_PAGE, CODE_PAGE + CODE_SIZE);
        let exit = engine.run(&mut self.vcpu, limit);
        State::capture(&self.vcpu, exit, limit != Limit::None)
    }
}

/// Everything about a machine that a program could observe, after a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// R0..R30.
    pub r: [u64; 31],
    /// F0..F30.
    pub f: [u64; 31],
    /// Program counter.
    pub pc: u64,
    /// FPCR as MF_FPCR reads it.
    pub fpcr: u64,
    /// Process-unique value.
    pub unique: u64,
    /// Flag of RC and RS.
    pub intr_flag: u64,
    /// Locked address, `None` when no lock is held.
    pub lock: Option<u64>,
    /// Instructions retired; `None` in an uncounted run.
    pub count: Option<u64>,
    /// Why the run ended.
    pub exit: Exit,
    /// Data memory.
    pub memory: Vec<u8>,
}

impl State {
    /// Takes the state of a processor whose last run ended with `exit`.
    ///
    /// # Panics
    /// If the processor is not a [`TestMachine`]'s, or breaks the rule that slot 31 is zero.
    pub fn capture(vcpu: &Vcpu, exit: Exit, counted: bool) -> State {
        let cpu = &vcpu.cpu;
        assert_eq!((cpu.r[31], cpu.f[31]), (0, 0), "R31 and F31 read as zero");
        let mut memory = vec![0; DATA_SIZE as usize];
        vcpu.mem.read_bytes(DATA, &mut memory).expect("data memory is mapped");
        let first_31 = |file: &[u64; 33]| std::array::from_fn(|i| file[i]);
        State {
            r: first_31(&cpu.r),
            f: first_31(&cpu.f),
            pc: cpu.pc,
            fpcr: fp::mf_fpcr(cpu.fpcr),
            unique: cpu.unique,
            intr_flag: cpu.intr_flag,
            lock: (cpu.lock_addr != LOCK_FREE).then_some(cpu.lock_addr),
            count: counted.then_some(cpu.count),
            exit,
            memory,
        }
    }

    /// The quadword at `offset` in data memory.
    pub fn quadword(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.memory[offset..offset + 8].try_into().expect("eight bytes"))
    }

    /// Lines `what: expected X, got Y` for all that differs; empty when equal. A count is compared
    /// only where both runs kept one.
    pub fn diff(&self, expected: &State) -> Vec<String> {
        let mut out = Vec::new();
        let mut line = |what: &str, want: &dyn std::fmt::Display, got: &dyn std::fmt::Display| {
            out.push(format!("{what}: expected {want}, got {got}"));
        };
        let hex = |v: u64| format!("{v:#018x}");
        for (i, register) in INT_NAMES.iter().enumerate().take(31) {
            if self.r[i] != expected.r[i] {
                let name = format!("r{i} ({register})");
                line(&name, &hex(expected.r[i]), &hex(self.r[i]));
            }
        }
        for i in 0..31 {
            if self.f[i] != expected.f[i] {
                line(&format!("f{i}"), &hex(expected.f[i]), &hex(self.f[i]));
            }
        }
        for (what, want, got) in [
            ("pc", expected.pc, self.pc),
            ("fpcr", expected.fpcr, self.fpcr),
            ("unique", expected.unique, self.unique),
            ("intr_flag", expected.intr_flag, self.intr_flag),
        ] {
            if want != got {
                line(what, &hex(want), &hex(got));
            }
        }
        if self.lock != expected.lock {
            line("lock", &format!("{:x?}", expected.lock), &format!("{:x?}", self.lock));
        }
        if let (Some(want), Some(got)) = (expected.count, self.count)
            && want != got
        {
            line("count", &want, &got);
        }
        if self.exit != expected.exit {
            line("exit", &expected.exit, &self.exit);
        }
        if self.memory == expected.memory {
            return out;
        }
        for (i, (want, got)) in expected.memory.chunks(8).zip(self.memory.chunks(8)).enumerate() {
            if want != got {
                line(&format!("memory at data+{:#x}", 8 * i), &bytes(want), &bytes(got));
            }
        }
        out
    }
}

fn bytes(b: &[u8]) -> String {
    format!("{:#018x}", u64::from_le_bytes(b.try_into().expect("eight bytes")))
}

/// The disassembly of `words` as they stand at [`CODE`], for reports.
pub fn listing(words: &[u32]) -> String {
    let mut out = String::new();
    for (pc, &word) in (CODE..).step_by(4).zip(words) {
        let text = disasm(word, pc).to_string();
        let _ = writeln!(out, "  {pc:9x}: {word:08x}  {}", text.replace('\t', " "));
    }
    out
}
