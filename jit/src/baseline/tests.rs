//! Units, links, invalidation, polls, heat and installed regions of the template tier.

use std::sync::Arc;
use std::time::Duration;

use axp_emu::cpu::{Exit, Vcpu};
use axp_emu::engine::{Engine, Limit};
use axp_emu::interp::{Dispatch, Interpreter};
use axp_emu::isa::{CpuModel, assemble_block};
use axp_emu::mem::{Access, AddressSpace, FaultKind, MapRequest, MemFault, PAGE_SIZE, Place, Prot};

use super::{Baseline, Host, Stop};
use crate::auto::{Auto, Tuning};

const CODE: u64 = 0x1_2000_0000;
const DATA: u64 = 0x1_4000_0000;
const DONE: Exit = Exit::CallPal(0x80);

/// A loop of 1000 rounds that calls a function in each and sums what it returns.
const CALLS: &str = "
        lda     r9, 1000(r31)
        lda     r10, 0(r31)
loop:   mov     r9, r16
        bsr     r26, double
        addq    r10, r0, r10
        subq    r9, 1, r9
        bne     r9, loop
        call_pal 0x80
double: addq    r16, r16, r0
        ret     r31, (r26), 1
";

fn put(vcpu: &Vcpu, pc: u64, text: &str) {
    let words = assemble_block(text, pc).unwrap();
    for (i, word) in words.iter().enumerate() {
        vcpu.mem.store_u32(pc + 4 * i as u64, *word).unwrap();
    }
}

fn machine(text: &str) -> Vcpu {
    let mem = AddressSpace::based().unwrap();
    let map = |at, prot| {
        mem.map(&MapRequest::anonymous(4 * PAGE_SIZE, prot).at(Place::Fixed(at))).unwrap();
    };
    map(CODE, Prot::all());
    map(DATA, Prot::READ | Prot::WRITE);
    let mut vcpu = Vcpu::new(Arc::new(mem), CpuModel::Ev67);
    vcpu.cpu.pc = CODE;
    put(&vcpu, CODE, text);
    vcpu
}

fn engine() -> Baseline {
    Baseline::new().unwrap()
}

#[test]
fn linked_code_stays_inside() {
    let mut vcpu = machine(CALLS);
    let mut engine = engine();
    assert_eq!(engine.run(&mut vcpu, Limit::None), DONE);
    assert_eq!(vcpu.cpu.r[10], 1000 * 1001);
    let first = engine.stats();
    // Once more with everything compiled: one entry, no translation.
    vcpu.cpu.pc = CODE;
    assert_eq!(engine.run(&mut vcpu, Limit::None), DONE);
    assert_eq!(engine.stats().translations, first.translations);
    assert!(first.translations <= 5, "{first:?}");
}

#[test]
fn a_count_is_exact_everywhere() {
    let mut reference = machine(CALLS);
    let mut vcpu = machine(CALLS);
    let (mut interp, mut engine) = (Interpreter::new(Dispatch::Match), engine());
    for n in (1..40).cycle().take(300) {
        assert_eq!(interp.run(&mut reference, Limit::Count(n)), Exit::Limit);
        assert_eq!(engine.run(&mut vcpu, Limit::Count(n)), Exit::Limit);
        assert_eq!(vcpu.cpu.r[..31], reference.cpu.r[..31]);
        assert_eq!((vcpu.cpu.pc, vcpu.cpu.count), (reference.cpu.pc, reference.cpu.count));
    }
}

#[test]
fn changed_code_is_compiled_anew_and_linked_again() {
    let mut vcpu = machine(CALLS);
    let mut engine = engine();
    assert_eq!(engine.run(&mut vcpu, Limit::None), DONE);
    let before = engine.stats().translations;
    let double = CODE + 8 * 4;
    put(&vcpu, double, "lda r0, 1(r16)");
    engine.invalidate(double, double + 4);
    vcpu.cpu.pc = CODE;
    assert_eq!(engine.run(&mut vcpu, Limit::None), DONE);
    assert_eq!(vcpu.cpu.r[10], 1000 * 1001 / 2 + 1000);
    assert_eq!(engine.stats().translations, before + 1, "only the function was compiled again");
}

#[test]
fn unchanged_code_survives_an_imb() {
    let mut vcpu = machine(CALLS);
    let mut engine = engine();
    assert_eq!(engine.run(&mut vcpu, Limit::None), DONE);
    let before = engine.stats().translations;
    engine.invalidate(0, u64::MAX);
    vcpu.cpu.pc = CODE;
    assert_eq!(engine.run(&mut vcpu, Limit::None), DONE);
    assert_eq!(engine.stats().translations, before);
}

#[test]
fn a_full_arena_is_emptied() {
    // A chain of blocks that takes far more room than there is, twice.
    let mut text = String::from("lda r1, 0(r31)\n");
    for i in 1..=1000 {
        text += &format!("br r31, l{i}\nl{i}: addq r1, 1, r1\n");
    }
    text += "call_pal 0x80";
    let mut vcpu = machine(&text);
    let mut engine = Baseline::with_arena(Host::detect(), 8 << 10).unwrap();
    for _ in 0..2 {
        vcpu.cpu.pc = CODE;
        assert_eq!(engine.run(&mut vcpu, Limit::None), DONE);
        assert_eq!(vcpu.cpu.r[1], 1000);
    }
    assert!(engine.generation() > 4);
}

#[test]
fn a_forked_child_has_code_of_its_own() {
    let mut vcpu = machine(CALLS);
    let mut engine = engine();
    assert_eq!(engine.run(&mut vcpu, Limit::None), DONE);
    vcpu.cpu.pc = CODE;
    // SAFETY: the child does nothing but run the engine, and leaves without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // Would change the parent's links if they were shared.
        put(&vcpu, CODE + 32, "lda r0, 1(r16)");
        engine.invalidate(0, u64::MAX);
        let exit = engine.run(&mut vcpu, Limit::None);
        let right = exit == DONE && vcpu.cpu.r[10] == 1000 * 1001 / 2 + 1000;
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
    let before = engine.stats().translations;
    assert_eq!(engine.run(&mut vcpu, Limit::None), DONE);
    assert_eq!(vcpu.cpu.r[10], 1000 * 1001);
    assert_eq!(engine.stats().translations, before);
}

#[test]
fn unmapped_code_is_not_executed() {
    let mut vcpu = machine(CALLS);
    let mut engine = engine();
    assert_eq!(engine.run(&mut vcpu, Limit::None), DONE);
    vcpu.mem.unmap(CODE, 4 * PAGE_SIZE).unwrap();
    vcpu.cpu.pc = CODE;
    let fault = MemFault { va: CODE, access: Access::Fetch, why: FaultKind::Unmapped };
    assert_eq!(engine.run(&mut vcpu, Limit::None), Exit::Fault(fault));
}

#[test]
fn endless_loops_end_at_a_poll() {
    let loops = [
        "loop: br r31, loop",
        "loop: addq r1, 1, r1\n bne r31, loop\n beq r31, loop",
        "loop: br r1, next\nnext: lda r1, -4(r1)\n jmp r31, (r1)",
        "loop: fbeq f31, loop",
    ];
    for text in loops {
        let mut vcpu = machine(text);
        let poll = &raw const vcpu.cpu.poll as usize;
        let waker = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            // SAFETY: the processor outlives the thread, which is joined below.
            let poll = unsafe { &*(poll as *const std::sync::atomic::AtomicU32) };
            poll.store(1, std::sync::atomic::Ordering::Release);
        });
        assert_eq!(engine().run(&mut vcpu, Limit::None), Exit::Poll, "{text}");
        waker.join().unwrap();
        assert!((CODE..CODE + 16).contains(&vcpu.cpu.pc));
    }
}

#[test]
fn state_is_exact_at_a_fault() {
    let mut vcpu = machine(
        "       lda     r1, 1(r31)
                lda     r7, 7(r31)
                ldq     r2, 0(r16)
                addq    r1, r1, r1
                stq     r1, 0(r17)
                lda     r1, 99(r31)
                lda     r7, 99(r31)
                call_pal 0x80",
    );
    (vcpu.cpu.r[16], vcpu.cpu.r[17]) = (DATA, DATA + 4 * PAGE_SIZE);
    let va = vcpu.cpu.r[17];
    let fault = MemFault { va, access: Access::Store, why: FaultKind::Unmapped };
    for limit in [Limit::None, Limit::Count(100)] {
        (vcpu.cpu.pc, vcpu.cpu.count) = (CODE, 0);
        assert_eq!(engine().run(&mut vcpu, limit), Exit::Fault(fault));
        assert_eq!((vcpu.cpu.pc, vcpu.cpu.r[1], vcpu.cpu.r[7]), (CODE + 16, 2, 7));
        assert_eq!(vcpu.cpu.count, if limit == Limit::None { 0 } else { 4 });
    }
}

#[test]
fn heat_reports_loop_heads_and_callees_and_learns_targets() {
    let mut vcpu = machine(CALLS);
    let mut engine = Baseline::with_heat(100).unwrap();
    let mut hot = Vec::new();
    loop {
        match engine.run_until(&mut vcpu, Limit::None) {
            Stop::Hot => hot.push(vcpu.cpu.pc),
            stop => {
                assert_eq!(stop, Stop::Exit(DONE));
                break;
            }
        }
    }
    assert_eq!(vcpu.cpu.r[10], 1000 * 1001);
    let (head, double) = (CODE + 8, CODE + 32);
    assert!(hot.contains(&double) && hot.contains(&head), "{hot:x?}");

    let mut vcpu = machine(
        "       lda     r2, 64(r16)
                jmp     r31, (r2)",
    );
    vcpu.cpu.r[16] = CODE;
    put(&vcpu, CODE + 64, "call_pal 0x80");
    engine.invalidate(0, u64::MAX);
    assert_eq!(engine.run_until(&mut vcpu, Limit::None), Stop::Exit(DONE));
    assert_eq!(engine.learned(CODE + 4).collect::<Vec<_>>(), [CODE + 64]);
}

#[test]
fn what_a_hot_region_calls_is_soon_a_region() {
    // Each of the two is called in every other round: 500 times, which alone is not enough.
    let mut vcpu = machine(
        "       lda     r9, 1000(r31)
                lda     r10, 0(r31)
        loop:   lda     r27, 64(r16)
                sll     r9, 4, r1
                and     r1, 16, r1
                addq    r27, r1, r27
                jsr     r26, (r27)
                subq    r9, 1, r9
                bne     r9, loop
                call_pal 0x80",
    );
    vcpu.cpu.r[16] = CODE;
    put(&vcpu, CODE + 64, "addq r10, 1, r10\n ret r31, (r26), 1");
    put(&vcpu, CODE + 80, "addq r10, 2, r10\n ret r31, (r26), 1");
    let tuning = Tuning { threshold: Some(600), sync: true, off: false };
    let mut auto = Auto::with_tuning(tuning).unwrap();
    assert_eq!(auto.run(&mut vcpu, Limit::None), DONE);
    assert_eq!(vcpu.cpu.r[10], 500 * 3);
    let (_, regions) = auto.tiers()[1];
    assert_eq!(regions.translations, 3);
}

/// A region that sets R0 to twice R16 and returns to R26: `abi` says what is where.
fn region(next: &[u8]) -> Vec<u8> {
    let mut code = vec![
        0x48, 0x89, 0xc8, // mov rax, rcx: R17, kept
        0x48, 0x8d, 0x3c, 0x12, // lea rdi, [rdx + rdx]
        0x48, 0x89, 0xd0, // mov rax, rdx
        0x48, 0x87, 0xf2, // xchg rsi, rdx: results want R30 in RSI, R16 in RDX
        0x48, 0x87, 0xf2,
    ];
    code.extend_from_slice(next);
    code.push(0xc3);
    code
}

#[test]
fn an_installed_region_takes_over_and_gives_back() {
    let mut vcpu = machine(CALLS);
    let mut engine = engine();
    assert_eq!(engine.run(&mut vcpu, Limit::None), DONE);
    let mode = Baseline::mode(&vcpu, Limit::None);
    // Adds nothing but 5: mov edi, 5; mov rax, r8 (R26).
    let mut arena = crate::code::Arena::new(4096).unwrap();
    let code = region(&[0xbf, 5, 0, 0, 0, 0x4c, 0x89, 0xc0]);
    let code = arena.place(&code, 16, 0).unwrap();
    engine.set_regions(Some(arena.range()), std::ptr::null());
    let double = CODE + 32;
    // SAFETY: the code keeps to the convention and outlives the engine's use of it.
    unsafe { engine.install_entry(mode, double, code).unwrap() };
    for (installed, sum) in [(true, 5 * 1000), (false, 1000 * 1001)] {
        if !installed {
            engine.remove_entry(mode, double);
        }
        vcpu.cpu.pc = CODE;
        assert_eq!(engine.run(&mut vcpu, Limit::None), DONE);
        assert_eq!(vcpu.cpu.r[10], sum);
    }
}

#[test]
fn a_host_without_extensions_gives_the_same() {
    let text = "
        ldah    r16, 0x1234(r31)
        lda     r16, 0x5678(r16)
        lda     r17, 13(r31)
        sll     r16, r17, r1
        sra     r1, r17, r2
        srl     r1, r17, r3
        extwh   r1, r17, r4
        inslh   r16, r17, r5
        mskql   r16, r17, r6
        extbl   r1, r17, r7
        zap     r16, r17, r8
        ctpop   r16, r20
        ctlz    r16, r21
        cttz    r16, r22
        cvtqt   f1, f4
        cvtqt   f2, f5
        divt/c  f5, f4, f6
        call_pal 0x80";
    let machine = |text| {
        let mut vcpu = machine(text);
        (vcpu.cpu.f[1], vcpu.cpu.f[2]) = (1_000_003, 999_983_000_000_000_007);
        vcpu
    };
    let mut reference = machine(text);
    Interpreter::new(Dispatch::Match).run(&mut reference, Limit::None);
    for old in [true, false] {
        let oldest = Host { bmi2: false, counts: false, fma: false };
        let host = if old { oldest } else { Host::detect() };
        let mut vcpu = machine(text);
        assert_eq!(Baseline::for_host(host).unwrap().run(&mut vcpu, Limit::None), DONE);
        assert_eq!(vcpu.cpu.r[..31], reference.cpu.r[..31]);
        assert_eq!(vcpu.cpu.f[..31], reference.cpu.f[..31]);
    }
}
