//! Tests of lockstep and trace, with the interpreter's two loops and one that is made to fail.

use std::sync::Arc;

use super::lockstep::{Difference, Options, Side, lockstep};
use super::trace::{Change, TraceRecord, trace};
use super::{Engine, EngineStats, Environment, Flow, Limit, Outcome};
use crate::cpu::{Exit, Vcpu};
use crate::interp::{Dispatch, Interpreter};
use crate::isa::CpuModel;
use crate::mem::{AddressSpace, MapRequest, PAGE_SIZE, Place, Prot};

const CODE: u64 = 0x1_2000_0000;

/// CALLSYS ends the guest with R0.
struct Ends;

impl Environment for Ends {
    fn handle(&mut self, vcpu: &mut Vcpu, exit: Exit) -> Flow {
        match exit {
            Exit::CallPal(0x83) => Flow::Stop(Outcome::Exited(vcpu.cpu.r[0] as i32)),
            _ => Flow::Continue,
        }
    }

    fn take_code_change(&mut self) -> Option<(u64, u64)> {
        None
    }
}

/// Gets one instruction wrong.
struct Wrong {
    right: Interpreter,
    at: u64,
    break_it: fn(&mut Vcpu),
}

impl Engine for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }

    fn run(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Exit {
        let before = vcpu.cpu.count;
        let exit = self.right.run(vcpu, limit);
        if before < self.at && self.at <= vcpu.cpu.count {
            (self.break_it)(vcpu);
        }
        exit
    }

    fn invalidate(&mut self, start: u64, end: u64) {
        self.right.invalidate(start, end);
    }

    fn stats(&self) -> EngineStats {
        self.right.stats()
    }
}

/// Adds up 1000 to 1 in R2, stores each sum, and ends.
const WORDS: [u32; 6] = [
    0x203f_03e8, // lda r1, 1000
    0x4022_0402, // addq r1, r2, r2
    0xb450_0000, // stq r2, 0(r16)
    0x4020_3521, // subq r1, 1, r1
    0xf43f_fffc, // bne r1, -4
    0x0000_0083, // callsys
];
const TOTAL: u64 = 1 + 4 * 1000 + 1;

fn guest() -> Vcpu {
    let mem = AddressSpace::based().unwrap();
    mem.map(&MapRequest::anonymous(PAGE_SIZE, Prot::all()).at(Place::Fixed(CODE))).unwrap();
    for (i, &word) in WORDS.iter().enumerate() {
        mem.store_u32(CODE + 4 * i as u64, word).unwrap();
    }
    let mut vcpu = Vcpu::new(Arc::new(mem), CpuModel::Ev67);
    vcpu.cpu.pc = CODE;
    vcpu.cpu.r[16] = CODE + PAGE_SIZE - 8;
    vcpu
}

fn side(engine: impl Engine + 'static) -> Side {
    Side { engine: Box::new(engine), env: Box::new(Ends), vcpu: guest() }
}

fn good(dispatch: Dispatch) -> impl FnMut() -> Side {
    move || side(Interpreter::new(dispatch))
}

#[test]
fn engines_that_agree_reach_the_same_end() {
    for slice in [7, 1 << 20] {
        let options = Options { slice, memory: true, ..Options::default() };
        let (mut left, mut right) = (good(Dispatch::Threaded), good(Dispatch::Match));
        let end = lockstep(&mut left, &mut right, options).unwrap();
        assert_eq!((end.count, end.outcome), (TOTAL, Some(Outcome::Exited(0))));
        assert_eq!(end.r[2], 500_500);
        let options = Options { limit: 100, ..options };
        let end = lockstep(&mut left, &mut right, options).unwrap();
        assert_eq!((end.count, end.outcome), (100, None));
    }
}

#[test]
fn the_first_wrong_instruction_is_found() {
    for at in [1, 2, 1000, 2345, TOTAL - 1] {
        for slice in [1, 100, 1 << 20] {
            let options = Options { slice, ..Options::default() };
            let break_it = |v: &mut Vcpu| v.cpu.r[9] ^= 5;
            let right = Interpreter::new;
            let mut wrong = || side(Wrong { right: right(Dispatch::Match), at, break_it });
            let found = lockstep(&mut good(Dispatch::Threaded), &mut wrong, options).unwrap_err();
            assert_eq!(found.count, at - 1);
            let mut reference = guest();
            Interpreter::new(Dispatch::Match).run(&mut reference, Limit::Count(at - 1));
            assert_eq!(found.pc, reference.cpu.pc);
            assert_eq!(found.word, Some(WORDS[(found.pc - CODE) as usize / 4]));
            assert_eq!(found.what, [Difference::R(9, 0, 5)]);
            assert_eq!((found.before.count, found.left.count), (at - 1, at));
        }
    }
}

#[test]
fn a_wrong_store_is_found_if_memory_is_compared() {
    let va = CODE + PAGE_SIZE - 16;
    let break_it = |v: &mut Vcpu| v.mem.store_u8(CODE + PAGE_SIZE - 16, 1).unwrap();
    let options = Options { slice: 500, memory: true, ..Options::default() };
    let mut wrong = || side(Wrong { right: Interpreter::new(Dispatch::Match), at: 1234, break_it });
    let found = lockstep(&mut good(Dispatch::Threaded), &mut wrong, options).unwrap_err();
    assert_eq!((found.count, &found.what[..]), (1233, &[Difference::Memory(va, 0, 1)][..]));
    let options = Options { memory: false, ..options };
    assert!(lockstep(&mut good(Dispatch::Threaded), &mut wrong, options).is_ok());
}

#[test]
fn a_trace_has_every_instruction_and_what_it_changed() {
    let mut records = Vec::new();
    let mut vcpu = guest();
    let mut engine = Interpreter::new(Dispatch::Threaded);
    let mut sink = |record: &TraceRecord| {
        records.push(record.clone());
        true
    };
    let outcome = trace(&mut engine, &mut Ends, &mut vcpu, u64::MAX, &mut sink);
    assert_eq!(outcome, Outcome::Exited(0));
    assert_eq!(records.len() as u64, TOTAL);
    assert_eq!(records[0].changes, [Change::R(1, 1000)]);
    assert_eq!(records[3].changes, [Change::R(1, 999)]);
    for (i, pair) in records.windows(2).enumerate() {
        assert_eq!((pair[0].count, pair[0].next), (i as u64, pair[1].pc));
        assert_eq!(pair[0].word, Some(WORDS[(pair[0].pc - CODE) as usize / 4]));
    }
    let mut vcpu = guest();
    let mut left = 5;
    let mut sink = |_: &TraceRecord| {
        left -= 1;
        left != 0
    };
    trace(&mut engine, &mut Ends, &mut vcpu, u64::MAX, &mut sink);
    assert_eq!(vcpu.cpu.count, 5);
}
