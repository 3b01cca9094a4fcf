//! Where the processor stands at each guest event, and what has happened by then.

use super::words::*;
use super::*;
use crate::cpu::{ArithTrap, UnalignedPolicy};
use crate::fp::exc;

const IOV_IN_FPCR: u64 = 1 << 57;

#[test]
fn a_fault_stops_before_the_instruction() {
    let (vcpu, exit) = run(&[addq(31, 1, 1), mem(LDQ, 2, 17, 8), addq(1, 1, 1), CALLSYS]);
    assert_eq!(exit, Exit::Fault(fault(NOWHERE + 8, Access::Load, FaultKind::Unmapped)));
    assert_eq!((vcpu.cpu.pc, vcpu.cpu.r[1], vcpu.cpu.r[2]), (CODE + 4, 1, 0));
    assert_eq!(vcpu.cpu.count, 1);

    for store in [STQ, STL, 0x0d, 0x0e, STQ_U, STT, 0x26] {
        let (vcpu, exit) = run(&[addq(31, 1, 1), mem(store, 1, 17, -8), addq(1, 1, 1), CALLSYS]);
        assert_eq!(exit, Exit::Fault(fault(NOWHERE - 8, Access::Store, FaultKind::Unmapped)));
        assert_eq!((vcpu.cpu.pc, vcpu.cpu.r[1], vcpu.cpu.count), (CODE + 4, 1, 1));
    }
}

#[test]
fn addresses_outside_the_window_fault() {
    for base in [1 << 42, u64::MAX - 100, 1 << 63] {
        let (_, exit) = run_with(&[mem(LDQ, 2, 3, 0), CALLSYS], |v| v.cpu.r[3] = base);
        assert_eq!(exit, Exit::Fault(fault(base, Access::Load, FaultKind::OutOfWindow)));
    }
}

#[test]
fn loads_to_register_31_never_fault() {
    for load in [LDBU, LDWU, LDL, LDQ, LDF, LDG, LDS, LDT, LDQ_U] {
        for policy in [UnalignedPolicy::Fixup, UnalignedPolicy::Trap] {
            let words = [mem(load, 31, 17, 1), addq(31, 1, 1), CALLSYS];
            let (vcpu, exit) = run_with(&words, |v| v.unaligned = policy);
            assert_eq!((exit, vcpu.cpu.r[1], vcpu.cpu.count), (END, 1, 3));
        }
    }
    for load in [LDL_L, LDQ_L] {
        let (vcpu, exit) = run(&[mem(load, 31, 17, 0), CALLSYS]);
        assert!(matches!(exit, Exit::Fault(_)));
        assert_eq!(vcpu.cpu.pc, CODE);
    }
}

#[test]
fn hints_never_fault() {
    for func in [0x8000, 0xa000, 0xe800, 0xf800, 0xfc00, 0x0000, 0x0400, 0x4000, 0x4400] {
        let (vcpu, exit) = run(&[misc(func, 0) | 17 << 16, CALLSYS]);
        assert_eq!((exit, vcpu.cpu.count), (END, 2));
    }
}

#[test]
fn integer_overflow_traps_after_the_truncated_result() {
    let words = [opr(0x10, 0x40, 1, 2, 3), addq(31, 9, 3), CALLSYS];
    let (vcpu, exit) = run_with(&words, |v| {
        v.cpu.r[1] = 0x7fff_ffff;
        v.cpu.r[2] = 1;
    });
    let trap = ArithTrap { summary: exc::IOV, write_mask: 1 << 3, pc: CODE };
    assert_eq!(exit, Exit::Arith(trap));
    assert_eq!((vcpu.cpu.pc, vcpu.cpu.r[3]), (CODE + 4, 0xffff_ffff_8000_0000));
    assert_eq!((vcpu.cpu.count, vcpu.cpu.fpcr & IOV_IN_FPCR), (1, IOV_IN_FPCR));
    // Into R31, and with a literal.
    let (vcpu, exit) = run_with(&[addq(31, 1, 4), lit(0x10, 0x69, 1, 1, 31), CALLSYS], |v| {
        v.cpu.r[1] = 1 << 63;
    });
    let trap = ArithTrap { summary: exc::IOV, write_mask: 1 << 31, pc: CODE + 4 };
    assert_eq!((exit, vcpu.cpu.pc, vcpu.cpu.count), (Exit::Arith(trap), CODE + 8, 2));
}

#[test]
fn floating_traps_stop_after_the_instruction() {
    // DIVT without /S: 1.0 / 0.0.
    let words = [opr(0x16, 0x0a3, 1, 31, 5), addq(31, 1, 1), CALLSYS];
    let (vcpu, exit) = run_with(&words, |v| v.cpu.f[1] = 1f64.to_bits());
    let trap = ArithTrap { summary: exc::DZE, write_mask: 1 << 37, pc: CODE };
    assert_eq!((exit, vcpu.cpu.pc, vcpu.cpu.r[1]), (Exit::Arith(trap), CODE + 4, 0));
    assert_eq!(vcpu.cpu.f[5], f64::INFINITY.to_bits());
    // With /SU: completed; the status bit is set.
    let words = [opr(0x16, 0x5a3, 1, 31, 5), mem(STT, 5, 16, 0), CALLSYS];
    let (vcpu, exit) = run_with(&words, |v| v.cpu.f[1] = 1f64.to_bits());
    assert_eq!(exit, END);
    assert_ne!(vcpu.cpu.fpcr & 1 << 53, 0);
    assert_eq!(vcpu.mem.load_u64(DATA), Ok(f64::INFINITY.to_bits()));
}

#[test]
fn unaligned_data_are_fixed_up_or_trap_as_the_policy_says() {
    let size = |op| match op {
        LDWU | 0x0d => 2,
        LDL | STL | LDS | 0x26 => 4,
        _ => 8u64,
    };
    for op in [LDWU, LDL, LDQ, LDS, LDT, 0x0d, STL, STQ, 0x26, STT] {
        for off in 0..9 {
            let words = [mem(op, 1, 16, off), CALLSYS];
            let (_, exit) = run(&words);
            assert_eq!(exit, END);
            let (vcpu, exit) = run_with(&words, |v| v.unaligned = UnalignedPolicy::Trap);
            if (off as u64).is_multiple_of(size(op)) {
                assert_eq!(exit, END);
            } else {
                let store = matches!(op, 0x0d | STL | STQ | 0x26 | STT);
                let access = if store { Access::Store } else { Access::Load };
                let what = fault(DATA + off as u64, access, FaultKind::Unaligned);
                assert_eq!((exit, vcpu.cpu.pc), (Exit::Unaligned(what), CODE));
            }
        }
    }
    // Nobody fixes these up.
    for op in [LDL_L, LDQ_L, STL_C, STQ_C, LDF, LDG, STF, STG] {
        let (vcpu, exit) = run(&[mem(op, 1, 16, 1), CALLSYS]);
        assert!(matches!(exit, Exit::Unaligned(f) if f.va == DATA + 1), "{op:#x}: {exit}");
        assert_eq!((vcpu.cpu.pc, vcpu.cpu.count), (CODE, 0));
    }
}

#[test]
fn the_policy_may_change_between_runs() {
    for dispatch in LOOPS {
        let mut vcpu = machine(&[mem(LDQ, 1, 16, 1), CALLSYS]);
        let mut engine = Interpreter::new(dispatch);
        for _ in 0..2 {
            vcpu.cpu.pc = CODE;
            vcpu.unaligned = UnalignedPolicy::Fixup;
            assert_eq!(engine.run(&mut vcpu, Limit::None), END);
            vcpu.cpu.pc = CODE;
            vcpu.unaligned = UnalignedPolicy::Trap;
            assert!(matches!(engine.run(&mut vcpu, Limit::None), Exit::Unaligned(_)));
        }
    }
}

#[test]
fn a_fault_over_the_end_of_a_page_names_the_datum_and_stores_nothing() {
    let end = DATA + 4 * PAGE_SIZE;
    for back in 1..8 {
        let prepare = |v: &mut Vcpu| {
            v.cpu.r[3] = end - back;
            v.cpu.r[1] = u64::MAX;
        };
        let (vcpu, exit) = run_with(&[mem(STQ, 1, 3, 0), CALLSYS], prepare);
        assert!(matches!(exit, Exit::Fault(_)));
        assert_eq!(vcpu.mem.load_u8(end - 1), Ok(0));
        let (_, exit) = run_with(&[mem(LDQ, 1, 3, 0), CALLSYS], prepare);
        assert!(matches!(exit, Exit::Fault(_)));
    }
}

#[test]
fn illegal_words_and_missing_extensions_stop_at_the_instruction() {
    for word in [0x07 << 26, 0x04 << 26, 0x1f << 26 | 3, 0x1c << 26 | 0x7f << 5] {
        let (vcpu, exit) = run(&[addq(31, 1, 1), word, CALLSYS]);
        assert_eq!((exit, vcpu.cpu.pc), (Exit::Illegal(word), CODE + 4));
        assert_eq!((vcpu.cpu.count, vcpu.cpu.r[1]), (1, 1));
    }
    let ctpop = opr(0x1c, 0x30, 31, 1, 2);
    let ldbu = mem(LDBU, 1, 16, 0);
    let itoft = opr(0x14, 0x024, 1, 31, 2);
    let perr = opr(0x1c, 0x31, 1, 2, 3);
    for model in CpuModel::ALL {
        for (word, bit) in [(ldbu, 0), (itoft, 1), (ctpop, 2), (perr, 8)] {
            let (vcpu, exit) = run_with(&[word, CALLSYS], |v| v.model = model);
            if model.amask() >> bit & 1 != 0 {
                assert_eq!(exit, END);
            } else {
                assert_eq!((exit, vcpu.cpu.pc), (Exit::Illegal(word), CODE), "{model:?}");
            }
        }
    }
}

#[test]
fn call_pal_exits_behind_itself_but_for_the_inline_calls() {
    for code in [0, 0x80, 0x81, 0x83, 0x86, 0xaa, 0xae, 0x3ff_ffff] {
        let (vcpu, exit) = run(&[code, addq(31, 1, 1), CALLSYS]);
        assert_eq!((exit, vcpu.cpu.pc), (Exit::CallPal(code), CODE + 4));
        assert_eq!((vcpu.cpu.count, vcpu.cpu.r[1]), (1, 0));
    }
    let words = [0x9e, opr(0x11, 0x20, 31, 0, 1), 0x9f, 0x9e, CALLSYS];
    let (vcpu, exit) = run_with(&words, |v| {
        v.cpu.unique = 77;
        v.cpu.r[0] = 1;
    });
    assert_eq!((exit, vcpu.cpu.r[1], vcpu.cpu.r[0]), (END, 77, DATA));
    assert_eq!((vcpu.cpu.unique, vcpu.cpu.count), (DATA, 5));
}

#[test]
fn a_jump_to_nowhere_faults_at_its_target() {
    for kind in 0..4 {
        let (vcpu, exit) = run(&[jump(kind, 26, 17), CALLSYS]);
        assert_eq!(exit, Exit::Fault(fault(NOWHERE, Access::Fetch, FaultKind::Unmapped)));
        assert_eq!((vcpu.cpu.pc, vcpu.cpu.r[26], vcpu.cpu.count), (NOWHERE, CODE + 4, 1));
    }
    // Data cannot be executed.
    let (vcpu, exit) = run(&[jump(0, 31, 16), CALLSYS]);
    assert_eq!(exit, Exit::Fault(fault(DATA, Access::Fetch, FaultKind::Protected)));
    assert_eq!(vcpu.cpu.pc, DATA);
}
