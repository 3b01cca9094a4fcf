//! Blocks at the edges of pages, and code that changes.

use super::words::*;
use super::*;
use crate::block::MAX_BLOCK;

fn dialect() -> Dialect {
    Dialect { model: CpuModel::Ev67, pal: Default::default(), fp: true }
}

#[test]
fn a_block_ends_at_the_page_and_execution_goes_on() {
    let start = CODE + PAGE_SIZE - 8;
    for dispatch in LOOPS {
        let mut vcpu = machine(&[]);
        write_words(&vcpu.mem, start, &[addq(1, 1, 1), addq(1, 1, 1), addq(1, 1, 1), CALLSYS]);
        let block = Block::build(&vcpu.mem, start, dialect());
        assert_eq!((block.insns.len(), block.end), (2, BlockEnd::Fallthrough(CODE + PAGE_SIZE)));
        vcpu.cpu.pc = start;
        let mut engine = Interpreter::new(dispatch);
        assert_eq!(engine.run(&mut vcpu, Limit::Count(100)), END);
        assert_eq!((vcpu.cpu.r[1], vcpu.cpu.count), (3, 4));
        // Now the second page may not be executed: the fault comes when it is reached.
        vcpu.mem.protect(CODE + PAGE_SIZE, PAGE_SIZE, Prot::READ).unwrap();
        vcpu.cpu.pc = start;
        let exit = engine.run(&mut vcpu, Limit::Count(100));
        let what = fault(CODE + PAGE_SIZE, Access::Fetch, FaultKind::Protected);
        assert_eq!((exit, vcpu.cpu.pc), (Exit::Fault(what), CODE + PAGE_SIZE));
        assert_eq!((vcpu.cpu.r[1], vcpu.cpu.count), (5, 6));
        // The limit counts before the fault.
        vcpu.cpu.pc = start;
        assert_eq!(engine.run(&mut vcpu, Limit::Count(2)), Exit::Limit);
        assert_eq!(vcpu.cpu.pc, CODE + PAGE_SIZE);
    }
}

#[test]
fn a_branch_may_be_the_last_instruction_of_a_page() {
    let start = CODE + PAGE_SIZE - 4;
    for (word, to) in [(bra(BEQ, 31, 1), CODE + PAGE_SIZE + 4), (bra(BNE, 31, 1), CODE + PAGE_SIZE)]
    {
        for dispatch in LOOPS {
            let mut vcpu = machine(&[]);
            write_words(&vcpu.mem, start, &[word, CALLSYS, CALLSYS]);
            vcpu.cpu.pc = start;
            assert_eq!(Interpreter::new(dispatch).run(&mut vcpu, Limit::None), END);
            assert_eq!(vcpu.cpu.pc, to + 4);
        }
    }
}

#[test]
fn blocks_know_how_they_end() {
    let vcpu = machine(&[addq(1, 1, 1), bra(BNE, 1, -2), 0x9e, 7 << 26]);
    let build = |pc| Block::build(&vcpu.mem, pc, dialect());
    let block = build(CODE);
    assert_eq!((block.insns.len(), block.end, block.end_pc()), (2, BlockEnd::Ender, CODE + 8));
    // RDUNIQ goes on; the illegal word does not belong to the block, but is remembered.
    let block = build(CODE + 8);
    assert_eq!((block.insns.len(), block.words.len()), (1, 2));
    assert_eq!(block.end, BlockEnd::Illegal(7 << 26));
    assert!(block.overlaps(CODE + 12, CODE + 16) && !block.overlaps(CODE + 16, u64::MAX));
    let block = build(NOWHERE + 2);
    let what = fault(NOWHERE, Access::Fetch, FaultKind::Unmapped);
    assert_eq!((block.insns.len(), block.end), (0, BlockEnd::FetchFault(what)));
    write_words(&vcpu.mem, CODE, &[addq(1, 1, 1); 2 * MAX_BLOCK]);
    let end = BlockEnd::Fallthrough(CODE + 4 * MAX_BLOCK as u64);
    assert_eq!((build(CODE).insns.len(), build(CODE).end), (MAX_BLOCK, end));
}

#[test]
fn changed_code_is_seen_after_invalidation_and_unchanged_code_is_kept() {
    for dispatch in LOOPS {
        // A loop of three blocks that is linked when the change comes.
        let words = [addq(1, 1, 1), bra(BR, 31, 0), subq(2, 1, 2), bra(BNE, 2, -4), CALLSYS];
        let mut vcpu = machine(&words);
        let mut engine = Interpreter::new(dispatch);
        let rounds = |engine: &mut Interpreter, vcpu: &mut Vcpu| {
            vcpu.cpu.pc = CODE;
            vcpu.cpu.r[1] = 0;
            vcpu.cpu.r[2] = 10;
            assert_eq!(engine.run(vcpu, Limit::None), END);
            vcpu.cpu.r[1]
        };
        assert_eq!(rounds(&mut engine, &mut vcpu), 10);
        let built = engine.stats().translations;
        engine.invalidate(0, u64::MAX);
        assert_eq!(rounds(&mut engine, &mut vcpu), 10);
        assert_eq!((engine.stats().translations, engine.cache_stats().dropped), (built, 0));
        assert_eq!(engine.cache_stats().kept, built);
        for i in 1..200u64 {
            write_words(&vcpu.mem, CODE, &[addq(1, i as u32, 1)]);
            engine.invalidate(CODE, CODE + 4);
            assert_eq!(rounds(&mut engine, &mut vcpu), 10 * i, "{dispatch:?}");
        }
        assert_eq!(engine.cache_stats().dropped, 198);
        // Elsewhere: nothing is looked at, so the old code may still run.
        write_words(&vcpu.mem, CODE, &[addq(1, 1, 1)]);
        engine.invalidate(CODE + 8, CODE + 12);
        assert_eq!(rounds(&mut engine, &mut vcpu), 1990);
    }
}

#[test]
fn a_patch_inside_the_running_block_is_seen_after_the_imb() {
    const IMB: u32 = 0x86;
    for dispatch in LOOPS {
        // Stores R3 over the instruction after the IMB.
        let words = [mem(STL, 3, 4, 8), IMB, addq(1, 1, 1), CALLSYS];
        let mut vcpu = machine(&words);
        let mut engine = Interpreter::new(dispatch);
        for i in 2..100u64 {
            vcpu.cpu.pc = CODE;
            vcpu.cpu.r[4] = CODE;
            vcpu.cpu.r[1] = 0;
            vcpu.cpu.r[3] = u64::from(addq(1, i as u32, 1));
            assert_eq!(engine.run(&mut vcpu, Limit::None), Exit::CallPal(IMB));
            engine.invalidate(0, u64::MAX);
            assert_eq!(engine.run(&mut vcpu, Limit::None), END);
            assert_eq!(vcpu.cpu.r[1], i);
        }
    }
}

#[test]
fn a_new_mapping_or_protection_is_noticed_at_entry() {
    for dispatch in LOOPS {
        let mut vcpu = machine(&[bra(BR, 31, 0), addq(31, 1, 1), CALLSYS]);
        let mut engine = Interpreter::new(dispatch);
        assert_eq!(engine.run(&mut vcpu, Limit::None), END);
        vcpu.mem.protect(CODE, PAGE_SIZE, Prot::READ).unwrap();
        vcpu.cpu.pc = CODE;
        let exit = engine.run(&mut vcpu, Limit::None);
        assert_eq!(exit, Exit::Fault(fault(CODE, Access::Fetch, FaultKind::Protected)));
        vcpu.mem.protect(CODE, PAGE_SIZE, Prot::all()).unwrap();
        assert_eq!(engine.run(&mut vcpu, Limit::None), END);
        vcpu.mem.unmap(CODE, PAGE_SIZE).unwrap();
        let again = MapRequest::anonymous(PAGE_SIZE, Prot::all()).at(Place::Fixed(CODE));
        vcpu.mem.map(&again).unwrap();
        write_words(&vcpu.mem, CODE, &[bra(BR, 31, 0), addq(31, 2, 1), CALLSYS]);
        vcpu.cpu.pc = CODE;
        assert_eq!(engine.run(&mut vcpu, Limit::None), END);
        assert_eq!(vcpu.cpu.r[1], 2);
    }
}

#[test]
fn the_cpu_model_may_change_between_runs() {
    for dispatch in LOOPS {
        let mut vcpu = machine(&[mem(LDBU, 1, 16, 0), CALLSYS]);
        let mut engine = Interpreter::new(dispatch);
        for model in [CpuModel::Ev67, CpuModel::Ev4, CpuModel::Ev56] {
            vcpu.model = model;
            vcpu.cpu.pc = CODE;
            let exit = engine.run(&mut vcpu, Limit::None);
            assert_eq!(exit == END, model != CpuModel::Ev4);
        }
    }
}

#[test]
fn a_thousand_targets_of_one_jump() {
    // Blocks of two instructions in three pages, a third of which collide in the table.
    let count = 1000u64;
    let body = CODE + PAGE_SIZE;
    for dispatch in LOOPS {
        let words = [
            addq(1, 0, 1),
            jump(1, 26, 27),
            addq(27, 16, 27),
            subq(2, 1, 2),
            bra(BNE, 2, -4),
            CALLSYS,
        ];
        let mut vcpu = machine(&words);
        for i in 0..count {
            write_words(&vcpu.mem, body + 16 * i, &[addq(1, (i % 251) as u32, 1), jump(2, 31, 26)]);
        }
        let mut engine = Interpreter::new(dispatch);
        for _ in 0..3 {
            vcpu.cpu.pc = CODE;
            vcpu.cpu.r[1] = 0;
            vcpu.cpu.r[2] = count;
            vcpu.cpu.r[27] = body;
            assert_eq!(engine.run(&mut vcpu, Limit::None), END);
            assert_eq!(vcpu.cpu.r[1], (0..count).map(|i| i % 251).sum::<u64>());
        }
    }
}

#[test]
fn a_dropped_block_is_not_reached_through_the_table_of_jumps() {
    // One jump with two targets in turn: the table serves it.
    let (one, two) = (CODE + 0x100, CODE + 0x200);
    for dispatch in LOOPS {
        let words = [
            opr(0x11, 0x20, 31, 3, 27), // target in r27
            opr(0x11, 0x20, 31, 4, 3),  // exchange r3 and r4
            opr(0x11, 0x20, 31, 27, 4),
            jump(1, 26, 27),
            subq(2, 1, 2),
            bra(BNE, 2, -6),
            CALLSYS,
        ];
        let mut vcpu = machine(&words);
        let mut engine = Interpreter::new(dispatch);
        for i in 1..20 {
            write_words(&vcpu.mem, one, &[addq(1, i, 1), jump(2, 31, 26)]);
            write_words(&vcpu.mem, two, &[addq(5, i, 5), jump(2, 31, 26)]);
            engine.invalidate(one, two + 8);
            vcpu.cpu.pc = CODE;
            vcpu.cpu.r[1..6].copy_from_slice(&[0, 10, one, two, 0]);
            assert_eq!(engine.run(&mut vcpu, Limit::None), END);
            assert_eq!((vcpu.cpu.r[1], vcpu.cpu.r[5]), (5 * u64::from(i), 5 * u64::from(i)));
        }
    }
}
