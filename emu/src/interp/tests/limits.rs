//! Counting, limits, polls, and the depth of the host's stack.

use super::words::*;
use super::*;
use crate::cpu::LOCK_FREE;
use std::thread;
use std::time::Duration;

/// Loops, calls, memory, no-operations that the translator drops, jumps to several places.
fn program() -> Vec<u32> {
    vec![
        mem(LDA, 1, 31, 5),          // 0
        bra(BSR, 26, 9),             // 1  -> 11
        mem(LDQ_U, 31, 30, 0),       // 2  nop
        subq(1, 1, 1),               // 3
        opr(0x11, 0x20, 31, 31, 31), // 4  nop
        bra(BNE, 1, -5),             // 5  -> 1
        bra(BR, 27, 0),              // 6
        addq(27, 20, 27),            // 7  r27 = address of 12
        jump(0, 31, 27),             // 8  -> 12
        CALLSYS,                     // 9
        CALLSYS,                     // 10
        mem(LDQ, 2, 16, 8),          // 11
        addq(2, 3, 2),               // 12
        mem(STQ, 2, 16, 8),          // 13
        opr(0x11, 0x40, 3, 2, 3),    // 14
        misc(0xc000, 4),             // 15 rpcc
        bra(BEQ, 1, 1),              // 16 -> 18
        jump(2, 31, 26),             // 17 ret
        CALLSYS,                     // 18
    ]
}

#[test]
fn a_limit_is_exact_at_every_count() {
    let (whole, exit) = super::run(&program());
    assert_eq!(exit, END);
    let total = whole.cpu.count;
    assert!(total > 50);
    let mut single = machine(&program());
    let mut stepper = Interpreter::new(Dispatch::Match);
    for n in 0..total {
        for dispatch in LOOPS {
            let mut vcpu = machine(&program());
            let mut engine = Interpreter::new(dispatch);
            assert_eq!(engine.run(&mut vcpu, Limit::Count(n)), Exit::Limit, "{n}");
            assert_eq!(vcpu.cpu.count, n);
            same(&vcpu, &single);
            // The rest in one go ends where the whole does.
            assert_eq!(engine.run(&mut vcpu, Limit::Count(total - n)), END);
            same(&vcpu, &whole);
            assert_eq!(engine.run(&mut vcpu, Limit::Count(0)), Exit::Limit);
            same(&vcpu, &whole);
        }
        assert_eq!(
            stepper.run(&mut single, Limit::Count(1)),
            if n + 1 < total { Exit::Limit } else { END }
        );
    }
}

#[test]
fn step_executes_one_instruction_and_agrees() {
    let mut stepped = machine(&program());
    stepped.counted = true;
    let (whole, _) = super::run(&program());
    loop {
        let pc = stepped.cpu.pc;
        let insn = crate::isa::decode(stepped.mem.fetch_u32(pc).unwrap()).unwrap();
        let result = step(&mut stepped, &insn);
        stepped.cpu.count += 1;
        if result.is_err() {
            assert_eq!(result, Err(END));
            break;
        }
    }
    same(&stepped, &whole);
}

#[test]
fn uncounted_runs_leave_the_count_alone() {
    for dispatch in LOOPS {
        let mut vcpu = machine(&program());
        assert_eq!(Interpreter::new(dispatch).run(&mut vcpu, Limit::None), END);
        assert_eq!(vcpu.cpu.count, 0);
        assert_eq!(vcpu.cpu.lock_addr, LOCK_FREE);
    }
}

/// 10^8 instructions on a stack that would hold less than 10^5 frames.
#[test]
fn the_threaded_loop_needs_no_stack() {
    let words = [
        mem(LDQ, 2, 16, 0),
        mem(STQ, 2, 16, 8),
        opr(0x10, 0x20, 2, 1, 4),
        mem(LDBU, 5, 16, 3),
        opr(0x16, 0x5a0, 1, 2, 3), // addt/su
        bra(BSR, 26, 4),           // -> 10
        mem(LDT, 2, 16, 16),
        subq(1, 1, 1),
        bra(BNE, 1, -9),
        CALLSYS,
        opr(0x12, 0x39, 4, 4, 6),
        jump(2, 31, 26),
    ];
    let run = move || {
        let mut vcpu = machine(&words);
        vcpu.cpu.r[1] = u64::MAX / 2;
        let mut engine = Interpreter::new(Dispatch::Threaded);
        assert_eq!(engine.run(&mut vcpu, Limit::Count(100_000_000)), Exit::Limit);
        assert_eq!(vcpu.cpu.count, 100_000_000);
    };
    thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap().join().unwrap();
}

#[test]
fn a_poll_ends_loops_of_branches_and_of_jumps() {
    let by_branch = vec![addq(1, 1, 1), bra(BR, 31, -2)];
    let by_condition = vec![addq(1, 1, 1), bra(BEQ, 31, -2)];
    let by_jump = vec![bra(BR, 27, 0), addq(1, 1, 1), jump(0, 31, 27)];
    // A jump whose target changes each time.
    let by_two = vec![
        bra(BR, 27, 0),
        mem(LDA, 28, 27, 12),
        jump(0, 31, 27),
        jump(0, 31, 28), // unreachable
        opr(0x11, 0x20, 31, 28, 29),
        jump(0, 31, 27),
    ];
    for words in [by_branch, by_condition, by_jump, by_two] {
        for dispatch in LOOPS {
            let mut vcpu = machine(&words);
            let poll = std::ptr::addr_of!(vcpu.cpu.poll) as usize;
            let waker = thread::spawn(move || {
                thread::sleep(Duration::from_millis(5));
                // SAFETY: the processor outlives this thread, which is joined below.
                let poll = unsafe { &*(poll as *const std::sync::atomic::AtomicU32) };
                poll.store(1, std::sync::atomic::Ordering::Release);
            });
            let mut engine = Interpreter::new(dispatch);
            assert_eq!(engine.run(&mut vcpu, Limit::None), Exit::Poll);
            waker.join().unwrap();
            assert!((CODE..CODE + 24).contains(&vcpu.cpu.pc));
            assert!(vcpu.cpu.take_poll());
            assert_eq!(engine.run(&mut vcpu, Limit::Count(100)), Exit::Limit);
        }
    }
}

/// A handler that called the next one instead of jumping to it would fill this stack in each loop.
#[test]
fn no_handler_needs_stack() {
    use crate::isa::{Kind, Opcode, func_bits};
    let run = || {
        let mut engine = Interpreter::new(Dispatch::Threaded);
        let mut vcpu = machine(&[]);
        for &op in Opcode::ALL {
            let format = op.info().format;
            let opcode = u32::from(format.opcode());
            let func = (0..1u32 << func_bits(format.opcode()))
                .find(|&f| format.matches(f as u16))
                .unwrap();
            let word = match op.kind() {
                Kind::Branch | Kind::CondBranch | Kind::CondBranchF => bra(opcode, 2, 0),
                Kind::Jump | Kind::Pal => continue,
                _ => match func_bits(format.opcode()) {
                    0 => mem(opcode, 2, 3, 16),
                    16 => misc(func, 2) | 3 << 16,
                    _ => opr(opcode, func, 2, 3, 4),
                },
            };
            write_words(&vcpu.mem, CODE, &[word, subq(1, 1, 1), bra(BNE, 1, -3)]);
            engine.invalidate(0, u64::MAX);
            vcpu.cpu.pc = CODE;
            vcpu.cpu.r[1] = u64::MAX;
            vcpu.cpu.r[2] = 1;
            vcpu.cpu.r[3] = DATA;
            vcpu.cpu.f[2] = 1f64.to_bits();
            vcpu.cpu.f[3] = 2f64.to_bits();
            assert_eq!(engine.run(&mut vcpu, Limit::Count(150_000)), Exit::Limit, "{op:?}");
        }
    };
    thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap().join().unwrap();
}
