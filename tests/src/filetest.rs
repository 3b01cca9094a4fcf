//! Reads and runs the text tests: one-line vectors (`vectors/**.axp`) and programs
//! (`filetests/run/*.axp`). `docs/adding.md` describes both forms for those who write them.
//!
//! A vector checks decoder, disassembler and semantics at once:
//!
//! ```text
//! 40220003 "addl t0,t1,t2"  t0=0x7fffffff t1=1 => t2=0xffffffff80000000
//! ```
//!
//! What stands right of `=>` is all that may change; the rest must be as before.

use std::fmt;
use std::path::Path;

use axp_emu::cpu::lock::{LockSize, load_locked};
use axp_emu::cpu::{Exit, LOCK_FREE};
use axp_emu::engine::{Engine, Limit};
use axp_emu::fp;
use axp_emu::isa::{CpuModel, INT_NAMES, Opcode, assemble_block, decode, disasm};

use crate::state::{CODE, CODE_PAGE, CODE_SIZE, DATA, STOPPED, State, TestMachine, listing};

/// Something that a test sets or expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Integer register.
    Int(usize),
    /// Floating-point register.
    Fp(usize),
    /// Program counter.
    Pc,
    /// FPCR.
    Fpcr,
    /// Process-unique value.
    Unique,
    /// Flag of RC and RS.
    IntrFlag,
    /// LDx_L lock.
    Lock,
    /// Instructions retired.
    Count,
    /// Quadword at this offset in data memory.
    Memory(u64),
    /// The same, changed between LDx_L and STx_C.
    Changed(u64),
}

/// What a place has or shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// This number.
    Number(u64),
    /// Nothing (of a lock).
    None,
    /// Anything.
    Any,
}

/// How a run shall end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By running on: the limit of one instruction, or the end of the program.
    Next,
    /// An arithmetic trap with this summary and register mask.
    Arith(u64, u64),
    /// An arithmetic trap with at least these summary bits.
    ArithWith(u64),
    /// An illegal instruction.
    Illegal,
    /// An alignment trap at this address.
    Unaligned(u64),
    /// A memory fault at this address.
    Fault(u64),
    /// A PAL call.
    CallPal(u64),
}

impl Ending {
    /// Whether `exit` is this ending; `next` is the exit of code that runs on.
    fn fits(&self, exit: &Exit, next: Exit) -> bool {
        match (self, exit) {
            (Ending::Next, _) => *exit == next,
            (Ending::Arith(summary, mask), Exit::Arith(trap)) => {
                (trap.summary, trap.write_mask) == (*summary, *mask)
            }
            (Ending::ArithWith(bits), Exit::Arith(trap)) => trap.summary & bits == *bits,
            (Ending::Illegal, Exit::Illegal(_)) => true,
            (Ending::Unaligned(va), Exit::Unaligned(fault))
            | (Ending::Fault(va), Exit::Fault(fault)) => fault.va == *va,
            (Ending::CallPal(code), Exit::CallPal(got)) => u64::from(*got) == *code,
            _ => false,
        }
    }

    /// Whether the instruction retires: traps and calls do, faults do not.
    fn retires(&self) -> bool {
        !matches!(self, Ending::Illegal | Ending::Unaligned(_) | Ending::Fault(_))
    }
}

/// One line of a vector file.
#[derive(Clone, Debug)]
pub struct Vector {
    /// Where it stands, for reports.
    pub place: String,
    /// The instruction.
    pub word: u32,
    /// Its disassembly.
    pub text: String,
    setup: Setup,
    expect: Expect,
}

#[derive(Clone, Debug, Default)]
struct Setup {
    cpu: CpuModel,
    values: Vec<(Place, Value)>,
}

#[derive(Clone, Debug)]
struct Expect {
    ending: Ending,
    values: Vec<(Place, Value)>,
}

/// A file that is not written as it should be: place and reason.
#[derive(Debug)]
pub struct SyntaxError(String);

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SyntaxError {}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x");
    let parsed = match digits {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse::<i64>().map(|v| v as u64),
    };
    parsed.map_err(|_| format!("`{text}` is no number"))
}

fn place(name: &str) -> Result<Place, String> {
    if let Some(i) = INT_NAMES.iter().position(|&n| n == name) {
        return Ok(Place::Int(i));
    }
    let indexed =
        |prefix: char| name.strip_prefix(prefix)?.parse::<usize>().ok().filter(|&i| i < 31);
    if let Some(i) = indexed('r') {
        return Ok(Place::Int(i));
    }
    if let Some(i) = indexed('f') {
        return Ok(Place::Fp(i));
    }
    let offset =
        |text: &str| u64::from_str_radix(text, 16).map_err(|_| format!("`{text}` is no offset"));
    match name {
        "pc" => Ok(Place::Pc),
        "fpcr" => Ok(Place::Fpcr),
        "unique" => Ok(Place::Unique),
        "intr" => Ok(Place::IntrFlag),
        "lock" => Ok(Place::Lock),
        "count" => Ok(Place::Count),
        _ => match name.split_at(name.len().min(1)) {
            ("@", at) => Ok(Place::Memory(offset(at)?)),
            ("!", at) => Ok(Place::Changed(offset(at)?)),
            _ => Err(format!("`{name}` names nothing")),
        },
    }
}

fn ending(text: &str) -> Result<Ending, String> {
    if let Some(bits) = text.strip_prefix("arith+") {
        return Ok(Ending::ArithWith(number(bits)?));
    }
    let mut parts = text.split(':');
    let kind = parts.next().unwrap_or_default();
    let mut argument = || parts.next().ok_or(format!("`{text}` lacks a value")).and_then(number);
    match kind {
        "arith" => Ok(Ending::Arith(argument()?, argument()?)),
        "illegal" => Ok(Ending::Illegal),
        "unaligned" => Ok(Ending::Unaligned(argument()?)),
        "fault" => Ok(Ending::Fault(argument()?)),
        "call_pal" => Ok(Ending::CallPal(argument()?)),
        _ => Err(format!("`{text}` is no ending")),
    }
}

/// Reads `name=value` pairs; `cpu` and `exit` go where they belong.
fn settings(text: &str) -> Result<(Setup, Expect), String> {
    let mut setup = Setup::default();
    let mut expect = Expect { ending: Ending::Next, values: Vec::new() };
    for pair in text.split_whitespace() {
        let (name, value) = pair.split_once('=').ok_or(format!("`{pair}` is not name=value"))?;
        match name {
            "cpu" => {
                let model = CpuModel::from_name(value);
                setup.cpu = model.ok_or(format!("`{value}` is no CPU model"))?;
            }
            "exit" => expect.ending = ending(value)?,
            _ => {
                let value = match value {
                    "?" => Value::Any,
                    "none" => Value::None,
                    _ => Value::Number(number(value)?),
                };
                expect.values.push((place(name)?, value));
            }
        }
    }
    setup.values = expect.values.clone();
    Ok((setup, expect))
}

/// Reads a vector file.
pub fn parse_vectors(path: &Path, text: &str) -> Result<Vec<Vector>, SyntaxError> {
    let name = crate::source::relative(path);
    let lines = text.lines().enumerate().map(|(i, line)| (i, line.trim()));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with(';'))
        .map(|(i, line)| {
            let place = format!("{name}:{}", i + 1);
            parse_vector(line, &place).map_err(|why| SyntaxError(format!("{place}: {why}")))
        })
        .collect()
}

fn parse_vector(line: &str, at: &str) -> Result<Vector, String> {
    let (word, rest) = line.split_once(" \"").ok_or("no text in quotes")?;
    let word = u32::from_str_radix(word, 16).map_err(|_| format!("`{word}` is no word"))?;
    let (text, rest) = rest.split_once('"').ok_or("no closing quote")?;
    let (inputs, outputs) = rest.split_once("=>").ok_or("no `=>`")?;
    let (setup, _) = settings(inputs)?;
    let (_, expect) = settings(outputs)?;
    Ok(Vector { place: at.to_string(), word, text: text.to_string(), setup, expect })
}

impl Vector {
    /// The row of the table that the word belongs to, if it decodes.
    pub fn opcode(&self) -> Option<Opcode> {
        decode(self.word).map(|insn| insn.op)
    }

    /// Checks the disassembly.
    pub fn check_text(&self) -> Result<(), String> {
        let got = disasm(self.word, CODE).to_string().replace('\t', " ");
        if got.trim_end() == self.text {
            return Ok(());
        }
        Err(format!("{}: {:08x}: expected \"{}\", got \"{got}\"", self.place, self.word, self.text))
    }

    /// Runs the instruction on `engine`, counted and uncounted, and reports what is not as it
    /// should be.
    pub fn check(&self, machine: &mut TestMachine, engine: &mut dyn Engine) -> Result<(), String> {
        for limit in [Limit::Count(1), Limit::None] {
            let (before, after) = self.run(machine, engine, limit);
            let Some(after) = after else { continue };
            let mut found = compare(&self.expect, &before, &after, CODE + 4, limit);
            if !found.is_empty() {
                let title = format!("{}: {} ({limit:?})", self.place, engine.name());
                found.insert(0, format!("{title}\n{}", listing(&[self.word]).trim_end()));
                return Err(found.join("\n    "));
            }
        }
        Ok(())
    }

    /// State before and after; no state after where the run would leave the test's code memory.
    fn run(
        &self,
        machine: &mut TestMachine,
        engine: &mut dyn Engine,
        limit: Limit,
    ) -> (State, Option<State>) {
        machine.reset(self.setup.cpu);
        machine.load(&[self.word]);
        apply(&self.setup, machine);
        let before = State::capture(&machine.vcpu, Exit::Limit, true);
        let target = self.expect.values.iter().find(|(place, _)| *place == Place::Pc);
        let target =
            target.map_or(CODE + 4, |(_, v)| if let Value::Number(n) = v { *n } else { 0 });
        let inside = (CODE_PAGE..CODE_PAGE + CODE_SIZE).contains(&target);
        // RPCC counts instructions in counted runs and is a clock otherwise; both are "?".
        let stays = self.expect.ending != Ending::Next || inside;
        if limit == Limit::None && !stays {
            return (before, None);
        }
        (before, Some(machine.run(engine, limit)))
    }
}

/// Puts what a test asks for into the machine.
fn apply(setup: &Setup, machine: &mut TestMachine) {
    let numbers = || {
        setup.values.iter().map(|(place, value)| match value {
            Value::Number(n) => (place, *n),
            Value::None | Value::Any => panic!("an input needs a number"),
        })
    };
    let mem = std::sync::Arc::clone(&machine.vcpu.mem);
    let cpu = &mut machine.vcpu.cpu;
    cpu.lock_addr = LOCK_FREE;
    for (place, value) in numbers() {
        match *place {
            Place::Int(i) => cpu.r[i] = value,
            Place::Fp(i) => cpu.f[i] = value,
            Place::Pc => cpu.pc = value,
            Place::Fpcr => cpu.fpcr = fp::mt_fpcr(value),
            Place::Unique => cpu.unique = value,
            Place::IntrFlag => cpu.intr_flag = value,
            Place::Count => cpu.count = value,
            Place::Memory(at) => mem.store_u64(DATA + at, value).expect("offset in data memory"),
            Place::Lock | Place::Changed(_) => {}
        }
    }
    // The lock remembers what memory held before it changed.
    for (_, value) in numbers().filter(|(place, _)| **place == Place::Lock) {
        load_locked(cpu, &mem, value, LockSize::Longword).expect("an aligned datum");
    }
    for (place, value) in numbers() {
        if let Place::Changed(at) = *place {
            mem.store_u64(DATA + at, value).expect("offset in data memory");
        }
    }
}

/// What differs between the state that a test expects, `before` with the expected changes, and
/// `after`.
fn compare(
    expect: &Expect,
    before: &State,
    after: &State,
    next_pc: u64,
    limit: Limit,
) -> Vec<String> {
    let mut want = before.clone();
    let mut got = after.clone();
    let counted = limit != Limit::None;
    want.pc = next_pc;
    let end = if counted { Exit::Limit } else { STOPPED };
    let ends = expect.ending.fits(&after.exit, end);
    let retires = expect.ending.retires();
    // A count that a test does not mention is that of a vector: its one instruction, if it retired.
    want.count = Some(before.count.unwrap_or(0) + u64::from(retires));
    for (place, value) in &expect.values {
        let number = if let Value::Number(n) = value { *n } else { 0 };
        let (w, g) = match *place {
            Place::Int(i) => (&mut want.r[i], &mut got.r[i]),
            Place::Fp(i) => (&mut want.f[i], &mut got.f[i]),
            Place::Pc => (&mut want.pc, &mut got.pc),
            Place::Fpcr => (&mut want.fpcr, &mut got.fpcr),
            Place::Unique => (&mut want.unique, &mut got.unique),
            Place::IntrFlag => (&mut want.intr_flag, &mut got.intr_flag),
            Place::Count => {
                want.count = if *value == Value::Any { got.count } else { Some(number) };
                continue;
            }
            Place::Lock => {
                want.lock = match value {
                    Value::Number(n) => Some(*n),
                    Value::None => None,
                    Value::Any => got.lock,
                };
                continue;
            }
            Place::Memory(at) | Place::Changed(at) => {
                let at = at as usize;
                if *value == Value::Any {
                    want.memory[at..at + 8].copy_from_slice(&got.memory[at..at + 8]);
                } else {
                    want.memory[at..at + 8].copy_from_slice(&number.to_le_bytes());
                }
                continue;
            }
        };
        *w = if *value == Value::Any { *g } else { number };
    }
    if expect.ending == Ending::Next && !counted {
        // The run went on into the STOP at the expected pc.
        want.pc = want.pc.wrapping_add(4);
    }
    let mut out = Vec::new();
    if !ends {
        out.push(format!("expected ending {:?}, got: {}", expect.ending, after.exit));
    }
    want.exit = got.exit;
    out.extend(got.diff(&want));
    out
}

/// A program with what it shall leave behind, of `filetests/run`.
#[derive(Clone, Debug)]
pub struct Program {
    /// File name, for reports.
    pub name: String,
    words: Vec<u32>,
    setup: Setup,
    expect: Expect,
}

/// Reads a program file: assembly, with `;set name=value ...` and `;expect name=value ...` lines.
/// Registers that `expect` does not name may have any value; `exit` other than the end of the
/// program, and memory, are checked where named.
pub fn parse_program(path: &Path, text: &str) -> Result<Program, SyntaxError> {
    let name = crate::source::relative(path);
    let fail = |why: String| SyntaxError(format!("{name}: {why}"));
    let lines_of = |key: &str| {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix(key));
        lines.collect::<Vec<_>>().join(" ")
    };
    let (setup, _) = settings(&lines_of(";set ")).map_err(fail)?;
    let expected = lines_of(";expect ");
    if expected.is_empty() {
        return Err(fail("no `;expect` line".to_string()));
    }
    let (_, expect) = settings(&expected).map_err(fail)?;
    let words = assemble_block(text, CODE).map_err(|error| fail(error.to_string()))?;
    Ok(Program { name, words, setup, expect })
}

impl Program {
    /// Runs the program, counted and uncounted, and reports what is not as it should be. A program
    /// that has not ended after ten million instructions is reported, too.
    ///
    /// # Panics
    /// If the test asks for impossible inputs.
    pub fn check(
        &self,
        machine: &mut TestMachine,
        engine: &mut dyn Engine,
    ) -> Result<State, String> {
        let mut last = None;
        for limit in [Limit::Count(10_000_000), Limit::None] {
            machine.reset(self.setup.cpu);
            machine.load(&self.words);
            apply(&self.setup, machine);
            let after = machine.run(engine, limit);
            let found = self.compare(&after);
            if !found.is_empty() {
                let title = format!("{}: {} ({limit:?})", self.name, engine.name());
                return Err(format!("{title}\n    {}", found.join("\n    ")));
            }
            if limit != Limit::None {
                last = Some(after);
            }
        }
        Ok(last.expect("the counted run"))
    }

    fn compare(&self, after: &State) -> Vec<String> {
        let ends = self.expect.ending.fits(&after.exit, STOPPED);
        let mut out = Vec::new();
        if !ends {
            let (want, got) = (&self.expect.ending, &after.exit);
            out.push(format!("expected ending {want:?}, got: {got} at {:#x}", after.pc));
        }
        for (place, value) in &self.expect.values {
            let Value::Number(want) = *value else { continue };
            let got = match *place {
                Place::Int(i) => after.r[i],
                Place::Fp(i) => after.f[i],
                Place::Pc => after.pc,
                Place::Fpcr => after.fpcr,
                Place::Unique => after.unique,
                Place::IntrFlag => after.intr_flag,
                Place::Lock => after.lock.unwrap_or(LOCK_FREE),
                Place::Count => after.count.unwrap_or(want),
                Place::Memory(at) | Place::Changed(at) => after.quadword(at as usize),
            };
            if got != want {
                out.push(format!("{place:?}: expected {want:#x}, got {got:#x}"));
            }
        }
        out
    }
}
