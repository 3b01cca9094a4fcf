//! LDx_L and STx_C (AARM 4.2.4, 4.2.5).

use super::words::*;
use super::*;
use crate::cpu::LOCK_FREE;
use std::thread;

/// R1 is what is stored; R9 is 7.
fn locked(words: &[u32]) -> Vcpu {
    let (vcpu, exit) = run_with(words, |v| {
        v.cpu.r[1] = 0x1111_2222_3333_4444;
        v.cpu.r[9] = 7;
        v.cpu.r[3] = 0x5555;
    });
    assert_eq!(exit, END);
    vcpu
}

#[test]
fn a_pair_stores_once() {
    let words = [mem(LDQ_L, 2, 16, 8), mem(STQ_C, 1, 16, 8), mem(STQ_C, 3, 16, 8), CALLSYS];
    let vcpu = locked(&words);
    assert_eq!(vcpu.mem.load_u64(DATA + 8), Ok(0x1111_2222_3333_4444));
    assert_eq!((vcpu.cpu.r[1], vcpu.cpu.r[3]), (1, 0));
    assert_eq!(vcpu.cpu.lock_addr, LOCK_FREE);
}

#[test]
fn a_store_without_a_lock_fails() {
    let vcpu = locked(&[mem(STQ_C, 1, 16, 0), mem(STL_C, 3, 16, 0), CALLSYS]);
    assert_eq!((vcpu.cpu.r[1], vcpu.cpu.r[3], vcpu.mem.load_u64(DATA)), (0, 0, Ok(0)));
}

#[test]
fn any_offset_and_size_in_the_block_of_16_bytes_stores() {
    for (load, at) in [(LDQ_L, 0), (LDQ_L, 8), (LDL_L, 0), (LDL_L, 4), (LDL_L, 8), (LDL_L, 12)] {
        for to in [0, 4, 8, 12] {
            for store in [STL_C, STQ_C] {
                if store == STQ_C && to % 8 != 0 {
                    continue;
                }
                let vcpu = locked(&[mem(load, 2, 16, at), mem(store, 1, 16, to), CALLSYS]);
                assert_eq!(vcpu.cpu.r[1], 1, "{load:#x} {at}, {store:#x} {to}");
                let mut expected = [0; 16];
                let value = 0x1111_2222_3333_4444_u64.to_le_bytes();
                let size = if store == STL_C { 4 } else { 8 };
                expected[to as usize..][..size].copy_from_slice(&value[..size]);
                assert_eq!(vcpu.mem.read_array::<16>(DATA), Ok(expected));
            }
        }
    }
}

#[test]
fn outside_the_block_nothing_is_stored() {
    for to in [-8, 16, 24, 0x4000] {
        let words = [mem(LDQ_L, 2, 16, 0x10), mem(STQ_C, 1, 16, 0x10 + to), CALLSYS];
        let vcpu = locked(&words);
        // The first quadword behind the block is 16 behind its start.
        assert_eq!((vcpu.cpu.r[1], vcpu.mem.load_u64(DATA + 0x10)), (0, Ok(0)), "{to}");
    }
}

#[test]
fn a_change_of_the_locked_block_makes_the_store_fail() {
    for (load, store) in [(LDQ_L, STQ_C), (LDL_L, STL_C), (LDL_L, STQ_C), (LDQ_L, STL_C)] {
        let words = [mem(load, 2, 16, 0), mem(STL, 9, 16, 4), mem(store, 1, 16, 0), CALLSYS];
        let vcpu = locked(&words);
        assert_eq!((vcpu.cpu.r[1], vcpu.mem.load_u64(DATA)), (0, Ok(7 << 32)));
        let words = [mem(load, 2, 16, 0), mem(STL, 9, 16, 4), mem(store, 1, 16, 8), CALLSYS];
        assert_eq!(locked(&words).cpu.r[1], 0, "the locked half changed");
    }
}

#[test]
fn ldl_l_extends_and_stl_c_keeps_the_neighbour() {
    let words = [mem(LDL_L, 2, 16, 4), mem(STL_C, 1, 16, 4), CALLSYS];
    let (vcpu, _) = run_with(&words, |v| {
        v.mem.store_u64(DATA, 0x8765_4321_aaaa_bbbb).unwrap();
        v.cpu.r[1] = 9;
    });
    assert_eq!(vcpu.cpu.r[2], 0xffff_ffff_8765_4321);
    assert_eq!(vcpu.mem.load_u64(DATA), Ok(9 << 32 | 0xaaaa_bbbb));
}

#[test]
fn a_store_that_faults_gives_up_the_lock() {
    for dispatch in LOOPS {
        let mut vcpu = machine(&[mem(LDQ_L, 2, 16, 0), mem(STQ_C, 1, 16, 0), CALLSYS]);
        vcpu.mem.protect(DATA, PAGE_SIZE, Prot::READ).unwrap();
        let mut engine = Interpreter::new(dispatch);
        let exit = engine.run(&mut vcpu, Limit::None);
        assert_eq!(exit, Exit::Fault(fault(DATA, Access::Store, FaultKind::Protected)));
        assert_eq!((vcpu.cpu.pc, vcpu.cpu.lock_addr), (CODE + 4, LOCK_FREE));
        // Restarted on a page that is writable by now, it must not store.
        vcpu.mem.protect(DATA, PAGE_SIZE, Prot::READ | Prot::WRITE).unwrap();
        vcpu.cpu.r[1] = 5;
        assert_eq!(engine.run(&mut vcpu, Limit::None), END);
        assert_eq!((vcpu.cpu.r[1], vcpu.mem.load_u64(DATA)), (0, Ok(0)));
    }
}

#[test]
fn threads_count_without_losing_any() {
    const EACH: u64 = 100_000;
    // Longwords that share a quadword, and a quadword beside them.
    for (load, store, offsets) in [(LDL_L, STL_C, [0, 4]), (LDQ_L, STQ_C, [8, 8])] {
        let mem_ = memory();
        let threads = LOOPS.map(|dispatch| {
            let offset = offsets[usize::from(dispatch == Dispatch::Match)];
            let mem_ = mem_.clone();
            thread::spawn(move || {
                let words = [
                    mem(load, 2, 16, offset),
                    addq(2, 1, 2),
                    mem(store, 2, 16, offset),
                    bra(BEQ, 2, -4),
                    subq(1, 1, 1),
                    bra(BNE, 1, -6),
                    CALLSYS,
                ];
                let at = CODE + 0x1000 * u64::from(dispatch == Dispatch::Match);
                write_words(&mem_, at, &words);
                let mut vcpu = Vcpu::new(mem_, CpuModel::Ev67);
                vcpu.cpu.pc = at;
                vcpu.cpu.r[16] = DATA;
                vcpu.cpu.r[1] = EACH;
                assert_eq!(Interpreter::new(dispatch).run(&mut vcpu, Limit::None), END);
            })
        });
        threads.into_iter().for_each(|t| t.join().unwrap());
        let sum: u64 = if load == LDQ_L {
            mem_.load_u64(DATA + 8).unwrap()
        } else {
            u64::from(mem_.load_u32(DATA).unwrap()) + u64::from(mem_.load_u32(DATA + 4).unwrap())
        };
        assert_eq!(sum, 2 * EACH);
    }
}
