//! Instructions whose effect lies in this module rather than in `sem` or `fp`.

use super::words::*;
use super::*;

#[test]
fn jumps_read_the_target_before_they_write_the_link() {
    for kind in 0..4 {
        // The low bits of the target are ignored.
        for low in 0..4 {
            let words = [jump(kind, 27, 27), CALLSYS, addq(31, 1, 1), CALLSYS];
            let (vcpu, exit) = run_with(&words, |v| v.cpu.r[27] = CODE + 8 + low);
            assert_eq!((exit, vcpu.cpu.r[1], vcpu.cpu.r[27]), (END, 1, CODE + 4));
        }
    }
}

#[test]
fn branches_link_and_go_both_ways() {
    let words = [
        bra(BR, 31, 2),   // 0 -> 3
        addq(1, 1, 1),    // 1
        CALLSYS,          // 2
        addq(1, 2, 1),    // 3
        bra(BSR, 26, -4), // 4 -> 1
    ];
    let (vcpu, exit) = run(&words);
    assert_eq!((exit, vcpu.cpu.r[1], vcpu.cpu.r[26]), (END, 3, CODE + 20));
    // To itself, until the limit.
    for dispatch in LOOPS {
        let mut vcpu = machine(&[bra(BR, 31, -1)]);
        let mut engine = Interpreter::new(dispatch);
        assert_eq!(engine.run(&mut vcpu, Limit::Count(1000)), Exit::Limit);
        assert_eq!((vcpu.cpu.pc, vcpu.cpu.count), (CODE, 1000));
    }
}

#[test]
fn rpcc_advances() {
    let words = [misc(0xc000, 1), misc(0xc000, 2), misc(0xc000, 3), CALLSYS];
    let (vcpu, _) = run(&words);
    // Counted: the instructions before it.
    assert_eq!(vcpu.cpu.r[1..4], [0, 1, 2]);
    for dispatch in LOOPS {
        let mut vcpu = machine(&words);
        let mut engine = Interpreter::new(dispatch);
        let mut last = None;
        for _ in 0..1000 {
            vcpu.cpu.pc = CODE;
            engine.run(&mut vcpu, Limit::None);
            for value in &vcpu.cpu.r[1..4] {
                assert!(*value < 1 << 32);
                let advance = last.map_or(1, |last| (*value as u32).wrapping_sub(last));
                assert!((1..1 << 31).contains(&advance));
                last = Some(*value as u32);
            }
        }
    }
}

#[test]
fn rc_and_rs_read_the_flag_and_change_it() {
    let (rc, rs) = (0xe000, 0xf000);
    let (vcpu, _) = run(&[misc(rs, 1), misc(rs, 2), misc(rc, 3), misc(rc, 4), CALLSYS]);
    assert_eq!(vcpu.cpu.r[1..5], [0, 1, 1, 0]);
    assert_eq!(vcpu.cpu.intr_flag, 0);
}

#[test]
fn amask_clears_what_the_model_has_and_implver_names_it() {
    for model in CpuModel::ALL {
        let words = [
            opr(0x11, 0x61, 31, 5, 1),
            lit(0x11, 0x61, 31, 0xff, 2),
            lit(0x11, 0x6c, 31, 1, 3),
            CALLSYS,
        ];
        let (vcpu, _) = run_with(&words, |v| {
            v.model = model;
            v.cpu.r[5] = u64::MAX;
        });
        let amask = model.amask();
        assert_eq!(vcpu.cpu.r[1..4], [!amask, 0xff & !amask, model.implver()]);
    }
}

#[test]
fn unaligned_quadword_accesses_ignore_the_low_bits() {
    for off in 0..8 {
        let words = [mem(LDQ_U, 1, 16, off), mem(STQ_U, 1, 16, 8 + off), CALLSYS];
        let (vcpu, exit) = run_with(&words, |v| v.mem.store_u64(DATA, 0x1122_3344).unwrap());
        assert_eq!((exit, vcpu.cpu.r[1]), (END, 0x1122_3344));
        assert_eq!(vcpu.mem.load_u64(DATA + 8), Ok(0x1122_3344));
    }
}

#[test]
fn loads_extend_as_the_manual_says() {
    let words = [
        mem(LDBU, 1, 16, 0),
        mem(LDWU, 2, 16, 0),
        mem(LDL, 3, 16, 0),
        mem(LDQ, 4, 16, 0),
        mem(LDAH, 5, 31, -1),
        mem(LDA, 6, 5, -1),
        CALLSYS,
    ];
    let (vcpu, _) = run_with(&words, |v| v.mem.store_u64(DATA, 0x8877_6655_f443_f2f1).unwrap());
    assert_eq!(vcpu.cpu.r[1..5], [0xf1, 0xf2f1, 0xffff_ffff_f443_f2f1, 0x8877_6655_f443_f2f1]);
    assert_eq!(vcpu.cpu.r[5..7], [(-0x1_0000i64) as u64, (-0x1_0001i64) as u64]);
}

#[test]
fn floating_moves_and_the_control_register() {
    let words = [
        opr(0x17, 0x025, 1, 1, 1), // mf_fpcr f1
        mem(STT, 1, 16, 0),
        opr(0x17, 0x024, 2, 2, 2),  // mt_fpcr f2
        opr(0x17, 0x020, 3, 4, 5),  // cpys
        opr(0x17, 0x02a, 31, 3, 6), // fcmoveq: f31 is zero
        opr(0x17, 0x02b, 31, 3, 7), // fcmovne
        opr(0x14, 0x024, 8, 31, 8), // itoft
        opr(0x1c, 0x070, 8, 31, 9), // ftoit
        CALLSYS,
    ];
    let (vcpu, exit) = run_with(&words, |v| {
        v.cpu.f[2] = 0x8000_0000_0000_0000;
        v.cpu.f[3] = (-1f64).to_bits();
        v.cpu.f[4] = 2f64.to_bits();
        v.cpu.r[8] = 0x0123_4567_89ab_cdef;
    });
    assert_eq!(exit, END);
    assert_eq!(vcpu.mem.load_u64(DATA), Ok(0x680e_8000_0000_0000));
    assert_eq!(vcpu.cpu.fpcr, crate::fp::mt_fpcr(0x8000_0000_0000_0000));
    assert_eq!(vcpu.cpu.f[5], (-2f64).to_bits());
    assert_eq!(vcpu.cpu.f[6..8], [(-1f64).to_bits(), 0]);
    assert_eq!((vcpu.cpu.f[8], vcpu.cpu.r[9]), (0x0123_4567_89ab_cdef, 0x0123_4567_89ab_cdef));
}
