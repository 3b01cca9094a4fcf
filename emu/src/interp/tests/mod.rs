//! Tests of both loops by instruction words: every way to stop, limits, locks, changing code, and
//! the loops against each other.

mod code;
mod differential;
mod exits;
mod limits;
mod locks;
mod values;
mod words;

use std::sync::Arc;

use super::*;
use crate::isa::CpuModel;
use crate::mem::{Access, FaultKind, MapRequest, MemFault, PAGE_SIZE, Place, Prot};

/// Four pages that may be executed (and written).
pub const CODE: u64 = 0x1_2000_0000;
/// Four pages of data, with nothing after them.
pub const DATA: u64 = 0x1_4000_0000;
/// Nothing is mapped here.
pub const NOWHERE: u64 = 0x2_0000_0000;
/// Ends a test program.
pub const CALLSYS: u32 = 0x83;
/// The event of [`CALLSYS`].
pub const END: Exit = Exit::CallPal(CALLSYS);

pub const LOOPS: [Dispatch; 2] = [Dispatch::Threaded, Dispatch::Match];

pub fn memory() -> Arc<AddressSpace> {
    let mem = AddressSpace::based().unwrap();
    let code = MapRequest::anonymous(4 * PAGE_SIZE, Prot::all()).at(Place::Fixed(CODE));
    mem.map(&code).unwrap();
    let data = MapRequest::anonymous(4 * PAGE_SIZE, Prot::READ | Prot::WRITE);
    mem.map(&data.at(Place::Fixed(DATA))).unwrap();
    Arc::new(mem)
}

pub fn write_words(mem: &AddressSpace, at: u64, words: &[u32]) {
    for (i, &word) in words.iter().enumerate() {
        mem.store_u32(at + 4 * i as u64, word).unwrap();
    }
}

/// A processor at the start of `words`, with R16 at [`DATA`] and R17 at [`NOWHERE`].
pub fn machine(words: &[u32]) -> Vcpu {
    let mem = memory();
    write_words(&mem, CODE, words);
    let mut vcpu = Vcpu::new(mem, CpuModel::Ev67);
    vcpu.cpu.pc = CODE;
    vcpu.cpu.r[16] = DATA;
    vcpu.cpu.r[17] = NOWHERE;
    vcpu
}

/// Runs `words` by both loops and by single steps, which must agree; the processor and the event.
pub fn run_with(words: &[u32], prepare: impl Fn(&mut Vcpu)) -> (Vcpu, Exit) {
    let mut results = LOOPS.map(|dispatch| {
        let mut vcpu = machine(words);
        prepare(&mut vcpu);
        let exit = Interpreter::new(dispatch).run(&mut vcpu, Limit::Count(1 << 20));
        (vcpu, exit)
    });
    let mut single = machine(words);
    prepare(&mut single);
    let mut engine = Interpreter::new(Dispatch::Threaded);
    let exit = loop {
        match engine.run(&mut single, Limit::Count(1)) {
            Exit::Limit => {}
            exit => break exit,
        }
    };
    results.iter().for_each(|(vcpu, e)| {
        same(vcpu, &single);
        assert_eq!(*e, exit);
    });
    let mut uncounted = machine(words);
    prepare(&mut uncounted);
    let mut engine = Interpreter::new(Dispatch::Threaded);
    assert_eq!(engine.run(&mut uncounted, Limit::None), exit);
    assert_eq!(uncounted.cpu.pc, single.cpu.pc);
    std::mem::replace(&mut results[0], (single, exit))
}

pub fn run(words: &[u32]) -> (Vcpu, Exit) {
    run_with(words, |_| {})
}

/// Asserts that two processors are in the same state.
pub fn same(a: &Vcpu, b: &Vcpu) {
    use crate::engine::lockstep::{Snapshot, differences};
    let what = differences(&Snapshot::of(&a.cpu, None), &Snapshot::of(&b.cpu, None));
    assert!(what.is_empty(), "{what:x?}");
    assert_eq!(a.cpu.lock_addr, b.cpu.lock_addr);
    assert_eq!((a.cpu.r[31], a.cpu.f[31]), (0, 0));
    assert_eq!((b.cpu.r[31], b.cpu.f[31]), (0, 0));
}

pub fn fault(va: u64, access: Access, why: FaultKind) -> MemFault {
    MemFault { va, access, why }
}
