//! Micro-programs for the privileged machine: modes and frames, PROBE, queues, ASTs, faults, the
//! translation buffer, and what a guest that cannot go on leaves behind. Every engine, every event.

use axp_emu::machine::HaltReason;
use axp_emu::mem::{ProbeStrategy, pte};
use axp_tests::machine::{ALL_RIGHTS, CODE, DATA, RESULTS, Rig, SCB_ARGUMENT, STACKS};

const STRATEGIES: [ProbeStrategy; 4] =
    [ProbeStrategy::Walk, ProbeStrategy::Inline, ProbeStrategy::Cached, ProbeStrategy::Elided];

/// Reports SP, the saved PC and PS, and the current PS; goes back.
const TELL: &str = "
    out sp
    ldq r2, 48(sp)
    out r2
    ldq r2, 56(sp)
    out r2
    pal rd_ps
    out r0
    pal rei";

#[test]
fn chmk_saves_eight_registers_and_rei_brings_them_back() {
    let handler = "
        out r2
        out r3
        out sp
        ldq r8, 0(sp)
        out r8
        ldq r8, 40(sp)
        out r8
        ldq r8, 48(sp)
        out r8
        ldq r8, 56(sp)
        out r8
        pal rd_ps
        out r0
        li r2, 99
        li r7, 99
        pal rei";
    let program = "
        li r2, 2
        li r3, 3
        li r4, 4
        li r5, 5
        li r6, 6
        li r7, 7
        lda sp, -24(sp)
        pal chmk
        out r2
        out r3
        out r7
        out sp
        pal chmk
        pal halt";
    let rig = Rig::new(3, program).stack(0, STACKS[0] - 40).handler(0x480, 0x1_2000, handler);
    let top = STACKS[0] - 40;
    let frame = (top & !63) - 64;
    // What SP_ALIGN holds are the low bits of the new mode's stack pointer.
    let saved_ps = 3 << 3 | (top & 63) << 56;
    let chmk = CODE + 4 * 14;
    let once =
        |r2: u64, pc: u64| [0x1_2000, SCB_ARGUMENT + 0x480, frame, r2, 7, pc, saved_ps, 0].to_vec();
    let mut expected = once(2, chmk);
    expected.extend([2, 3, 7, STACKS[3] - 24]);
    expected.extend(once(2, chmk + 4 * 9));
    assert_eq!(rig.results(), expected);
}

#[test]
fn every_mode_is_entered_and_left_but_never_outwards() {
    let program = "
        pal chms
        pal chme
        pal chmk
        pal chmu
        pal halt";
    let deeper = "
        out sp
        ldq r2, 56(sp)
        out r2
        pal chmu
        pal rei";
    let rig = Rig::new(3, program)
        .handler(0x480, 0x1_2000, TELL)
        .handler(0x490, 0x1_2400, TELL)
        .handler(0x4a0, 0x1_2800, deeper)
        .handler(0x4b0, 0x1_2c00, TELL);
    let user = 3 << 3;
    let supervisor = 2 << 3;
    let s = STACKS[2] - 64;
    let expected = [
        // CHMS from user mode, and CHMU in it: the mode stays.
        vec![s, user],
        vec![s - 64, 0x1_2800 + 4 * 6, supervisor, supervisor],
        vec![STACKS[1] - 64, CODE + 8, user, 1 << 3],
        vec![STACKS[0] - 64, CODE + 12, user, 0],
        vec![STACKS[3] - 64, CODE + 16, user, user],
    ];
    assert_eq!(rig.results(), expected.concat());
}

#[test]
fn rei_refuses_what_would_gain_privilege() {
    // A frame for kernel mode, for IPL 5, for an unaligned stack.
    for (ps, sp_off) in [(0, 0), (3 << 3 | 5 << 8, 0), (3 << 3 | 4, 0), (3 << 3, 8)] {
        let program = format!(
            "lda sp, -64(sp)
             li r2, {CODE}
             stq r2, 48(sp)
             li r2, {ps}
             stq r2, 56(sp)
             lda sp, {sp_off}(sp)
             pal rei
             pal halt"
        );
        let tell = "
            ldq r2, 48(sp)
            out r2
            pal halt";
        let rig = Rig::new(3, &program).handler(0x430, 0x1_2000, tell);
        assert_eq!(rig.results(), [CODE + 4 * 9], "PS {ps:#x}");
    }
}

/// A page's rights and what is below them.
#[derive(Clone, Copy)]
struct Page {
    bits: u64,
}

const PAGE: u64 = 8192;

/// What PROBE says of one byte: the enable bit alone (AARM II-A 4.1.7).
fn verdict(page: Page, mode: u64, write: bool) -> bool {
    let enable = if write { pte::KWE } else { pte::KRE };
    page.bits & enable << mode != 0
}

#[test]
fn probe_tests_both_ends_by_the_enable_bits_of_the_less_privileged_mode() {
    // Rights of the pages from DATA on: graded by mode, invalid, fault-on bits, none.
    let pages = [
        Page { bits: pte::V | 0x7f00 },
        Page { bits: pte::V | 0x3700 },
        Page { bits: 0x1f00 },
        Page { bits: pte::V | pte::FOR | pte::FOW | 0xff00 },
        Page { bits: pte::V | 0x1100 },
        Page { bits: 0 },
    ];
    let mut records = Vec::new();
    for first in 0..pages.len() as u64 {
        for (offset, last) in [(8, first), (PAGE, first + 1), (2 * PAGE + 5, first + 2)] {
            if last < pages.len() as u64 {
                for mode in 0..4 {
                    for write in [0, 1] {
                        records.push((first, offset, last, mode, write));
                    }
                }
            }
        }
    }
    let program = format!(
        "li r9, {}
         li r10, {}
        again:
         ldq r16, 0(r9)
         ldq r17, 8(r9)
         ldq r18, 16(r9)
         ldq r11, 24(r9)
         blbs r11, write
         pal prober
         br r31, next
        write:
         pal probew
        next:
         out r0
         lda r9, 32(r9)
         subq r10, 1, r10
         bgt r10, again
         pal halt",
        0x10_0000,
        records.len()
    );
    for strategy in STRATEGIES {
        for current in [0, 1, 3] {
            let mut rig = Rig::new(current, &program);
            rig.strategy = strategy;
            for (i, page) in pages.iter().enumerate() {
                let va = DATA + i as u64 * PAGE;
                rig = rig.pte(va, Rig::entry(va, page.bits));
            }
            let mut expected = Vec::new();
            for (i, &(first, offset, last, mode, write)) in records.iter().enumerate() {
                let values = [DATA + first * PAGE, offset, mode | 0x70, write];
                for (j, value) in values.into_iter().enumerate() {
                    rig = rig.data(0x10_0000 + 32 * i as u64 + 8 * j as u64, value);
                }
                let mode = mode.max(current);
                let both =
                    [first, last].iter().all(|&p| verdict(pages[p as usize], mode, write != 0));
                expected.push(u64::from(both));
            }
            assert_eq!(rig.results(), expected, "{strategy:?} from mode {current}");
        }
    }
}

#[test]
fn probe_beyond_a_page_table_faults_or_says_no() {
    let program = "
        li r16, 0x1000000
        li r17, 0
        li r18, 3
        li r0, 77
        pal prober
        out r0
        ; Not the sign extension of bit 42.
        li r16, 0x80000
        sll r16, 30, r16
        pal prober
        out r0
        pal halt";
    let not_valid = "
        out r4
        out r5
        out r0
        ldq r2, 48(sp)
        addq r2, 4, r2
        stq r2, 48(sp)
        pal rei";
    // The second entry of the second level: readable by the kernel, but not valid; or neither.
    let l2_entry = (17 << 13) + 2 * 8;
    for strategy in STRATEGIES {
        let mut rig = Rig::new(0, program).handler(0x90, 0x1_2000, not_valid);
        rig.strategy = strategy;
        let faulting = rig.clone().data(l2_entry, pte::KRE);
        assert_eq!(faulting.results(), [0x100_0000, 0, 77, 77, 0], "{strategy:?}");
        assert_eq!(rig.data(l2_entry, 0).results(), [0, 0], "{strategy:?}");
    }
}

/// The first proof of a strategy: between probes, entries, modes and address spaces change, with the
/// invalidates that the architecture demands and no others.
#[test]
fn probe_strategies_agree_while_page_tables_change() {
    let entry = Rig::pte_address(DATA);
    let program = format!(
        "li r9, {entry}
         li r16, {DATA}
         li r17, 8
         li r18, 3
         ldq r10, 0(r9)
         li r11, 40
        again:
         pal probew
         out r0
         ; User write off, with the invalidate that a valid entry demands.
         li r12, 0x8000
         bic r10, r12, r13
         stq r13, 0(r9)
         pal mtpr_tbis
         pal probew
         out r0
         ; Invalid and without rights; then rights again: no invalidate for a change from V = 0.
         li r12, 0xff01
         bic r10, r12, r13
         stq r13, 0(r9)
         pal mtpr_tbis
         pal probew
         out r0
         bic r10, 1, r13
         stq r13, 0(r9)
         pal probew
         out r0
         stq r10, 0(r9)
         pal prober
         out r0
         pal probew
         out r0
         subq r11, 1, r11
         bgt r11, again
         pal halt"
    );
    for strategy in STRATEGIES {
        let mut rig = Rig::new(0, &program);
        rig.strategy = strategy;
        let results = rig.results();
        assert_eq!(results, [1, 0, 0, 1, 1, 1].repeat(40), "{strategy:?}");
    }
}

/// Probes of the same bytes one after another, which one may prove and the other leave out - unless
/// the entry was invalid, whose change demands no invalidate - and in other modes, which it proves not.
#[test]
fn probes_that_others_seem_to_prove_see_what_has_changed() {
    let entry = Rig::pte_address(DATA);
    let program = format!(
        "li r9, {entry}
         ldq r10, 0(r9)
         li r11, 30
        again:
         li r16, {DATA}
         li r17, 8
         li r18, 3
         pal probew
         out r0
         pal probew
         out r0
         lda r16, 2(r16)
         li r17, 3
         pal probew
         out r0
         ; One byte more, another direction, an inner mode.
         li r17, 7
         pal probew
         out r0
         pal prober
         out r0
         li r18, 1
         pal probew
         out r0
         ; No user write: what was proved is not any more.
         li r18, 3
         li r12, 0x8000
         bic r10, r12, r13
         stq r13, 0(r9)
         pal mtpr_tbis
         pal probew
         out r0
         pal probew
         out r0
         li r18, 2
         pal probew
         out r0
         ; Invalid, with rights; then without, which no invalidate tells.
         li r18, 3
         bic r10, 1, r13
         stq r13, 0(r9)
         pal mtpr_tbis
         pal probew
         out r0
         stq r31, 0(r9)
         pal probew
         out r0
         pal prober
         out r0
         stq r13, 0(r9)
         pal probew
         out r0
         stq r10, 0(r9)
         pal probew
         out r0
         subq r11, 1, r11
         bgt r11, again
         pal halt"
    );
    let once = [1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1];
    for strategy in STRATEGIES {
        let mut rig = Rig::new(0, &program);
        rig.strategy = strategy;
        assert_eq!(rig.results(), once.repeat(30), "{strategy:?}");
    }
}

#[test]
fn absolute_queues_link_and_unlink() {
    let program = format!(
        "li r16, {DATA}
         stl r16, 0(r16)
         stl r16, 4(r16)
         mov r16, r20
         ; Two entries behind the header, unaligned ones.
         li r17, {}
         pal insquel
         out r0
         mov r17, r16
         li r17, {}
         pal insquel
         out r0
         ldl r1, 0(r20)
         out r1
         ldl r1, 4(r20)
         out r1
         ; Remove the first, then the second, then nothing.
         li r16, {}
         pal remquel
         out r0
         out r1
         ldl r1, 4(r20)
         out r1
         li r16, {}
         pal remquel
         out r0
         mov r20, r16
         pal remquel
         out r0
         pal halt",
        DATA + 0x101,
        DATA + 0x203,
        DATA + 0x101,
        DATA + 0x203
    );
    let expected = [1, 0, DATA + 0x101, DATA + 0x203, 1, DATA + 0x101, DATA + 0x203, 0, u64::MAX];
    assert_eq!(Rig::new(3, &program).results(), expected);
}

/// INSQxI and REMQxI of both widths, checked and resident, from both ends.
#[test]
fn interlocked_queues_tell_what_became_of_them() {
    for (width, resident) in [("l", ""), ("l", "r"), ("q", ""), ("q", "r")] {
        let call = |name: &str| format!("pal {name}{width}{resident}");
        let (insh, inst) = (call("insqhi"), call("insqti"));
        let (remh, remt) = (call("remqhi"), call("remqti"));
        let (a, b, c) = (DATA + 0x100, DATA + 0x200, DATA + 0x300);
        let program = format!(
            "li r16, {DATA}
             {remh}
             out r0
             li r17, {a}
             {insh}
             out r0
             li r17, {b}
             {inst}
             out r0
             li r17, {c}
             {insh}
             out r0
             ; c a b: take the tail, the head, the last.
             {remt}
             out r0
             out r1
             {remh}
             out r0
             out r1
             {remt}
             out r0
             out r1
             {remt}
             out r0
             ldq r1, 0(r16)
             out r1
             ; With the secondary interlock held nothing happens.
             li r1, 1
             stq r1, 0(r16)
             {insh}
             out r0
             {remh}
             out r0
             ldq r1, 0(r16)
             out r1
             pal halt"
        );
        let busy = u64::MAX;
        let expected = [0, 1, 0, 0, 1, b, 1, c, 2, a, 0, 0, busy, busy, 1];
        assert_eq!(Rig::new(2, &program).results(), expected, "{width}{resident}");
    }
}

#[test]
fn queue_operands_are_checked_unless_resident() {
    let skip = "
        lda r19, 1(r19)
        pal rei";
    let program = format!(
        "li r19, 0
         li r16, {}
         li r17, {}
         pal insqhil
         li r16, {DATA}
         mov r16, r17
         pal insqhil
         lda r17, 8(r16)
         pal insqhiq
         pal insqueq
         out r19
         pal halt",
        DATA + 4,
        DATA + 0x100
    );
    assert_eq!(Rig::new(3, &program).handler(0x430, 0x1_2000, skip).results(), [4]);
}

/// All 16 enables by all 16 requests, seen from each mode.
#[test]
fn asts_go_to_the_innermost_mode_that_may_have_them() {
    let tell = "
        mov r0, r8
        out r3
        pal rd_ps
        out r0
        mov r8, r0
        pal rei";
    // In kernel mode at IPL 2: set ASTSR and ASTEN, then lower IPL.
    for (enable, request) in [(15, 15), (0, 15), (15, 0), (1, 1), (2, 2), (9, 15), (8, 8)] {
        let program = format!(
            "li r16, 2
             pal mtpr_ipl
             li r16, {}
             pal mtpr_astsr
             li r16, {}
             pal mtpr_asten
             pal mfpr_astsr
             out r0
             pal mfpr_asten
             out r0
             li r16, 0
             pal mtpr_ipl
             out r0
             pal mfpr_astsr
             out r0
             ; On to user mode, where all may come.
             lda sp, -64(sp)
             li r2, 0x18
             stq r2, 56(sp)
             br r2, here
            here:
             lda r2, 16(r2)
             stq r2, 48(sp)
             pal rei
             pal halt
             pal halt",
            request << 4,
            enable << 4
        );
        let mut rig = Rig::new(0, &program);
        for mode in 0..4 {
            rig = rig.handler(0x240 + 16 * mode, 0x1_2000 + 0x400 * mode, tell);
        }
        let pending = enable & request;
        let ipl = 2 << 8;
        let mut expected = vec![request, enable];
        let deliver = |mode: u64| [SCB_ARGUMENT + 0x240 + 16 * mode, ipl];
        let now = pending & 1;
        if now != 0 {
            expected.extend(deliver(0));
        }
        expected.extend([2, request & !now]);
        for mode in 1..4 {
            if pending >> mode & 1 != 0 {
                expected.extend(deliver(mode));
            }
        }
        assert_eq!(rig.results(), expected, "ASTEN {enable} ASTSR {request}");
    }
}

#[test]
fn swasten_speaks_of_the_current_mode() {
    let program = "
        li r16, 1
        pal swasten
        out r0
        pal swasten
        out r0
        li r16, 0
        pal swasten
        out r0
        pal swasten
        out r0
        pal halt";
    assert_eq!(Rig::new(2, program).results(), [0, 1, 1, 0]);
}

#[test]
fn software_interrupts_come_by_level_as_ipl_falls() {
    let tell = "
        mov r0, r8
        out r3
        pal rd_ps
        out r0
        mov r8, r0
        pal rei";
    let program = "
        li r16, 3
        pal mtpr_sirr
        li r16, 9
        pal mtpr_sirr
        li r16, 1
        pal mtpr_sirr
        pal mfpr_sisr
        out r0
        li r16, 4
        pal mtpr_ipl
        out r0
        pal mfpr_sisr
        out r0
        li r16, 0
        pal mtpr_ipl
        pal mfpr_sisr
        out r0
        pal halt";
    let mut rig = Rig::new(0, program);
    for level in 1..16 {
        rig = rig.handler(0x500 + 16 * level, 0x1_2000 + 0x100 * level, tell);
    }
    let at = |level: u64| [SCB_ARGUMENT + 0x500 + 16 * level, level << 8 | 4];
    let mut expected = vec![1 << 9 | 1 << 3 | 1 << 1];
    expected.extend(at(9));
    expected.extend([31, 1 << 3 | 1 << 1]);
    expected.extend(at(3));
    expected.extend(at(1));
    expected.push(0);
    assert_eq!(rig.results(), expected);
}

#[test]
fn faults_and_traps_find_their_vectors() {
    let tell = "
        out r3
        out r4
        out r5
        ldq r2, 48(sp)
        out r2
        pal halt";
    let at = |words: u64| CODE + 4 * words;
    let odd = DATA + 4;
    let far = 1 << 24;
    let write = 1 << 63;
    // Program of one instruction after the set-up of R16 (two words); vector, R4, R5, saved PC.
    let cases: &[(&str, u64, u64, u64, u64, u64)] = &[
        ("ldq r1, 0(r16)", odd, 0x280, odd, 0, at(3)),
        ("stl r1, 1(r16)", DATA, 0x280, DATA + 1, 1, at(3)),
        (".long 0x04000000", 0, 0x420, 0, 0, at(3)),
        ("pal mfpr_ipl", 0, 0x420, 0, 0, at(3)),
        ("call_pal 0xbf", 0, 0x420, 0, 0, at(3)),
        ("addt f1, f2, f3", 0, 0x010, 0, 0, at(2)),
        ("ldt f1, 0(r16)", DATA, 0x010, 0, 0, at(2)),
        ("pal bpt", 0, 0x400, 0, 0, at(3)),
        ("pal bugchk", 0, 0x410, 0, 0, at(3)),
        ("pal gentrap", 123, 0x440, 123, 0, at(3)),
        ("addq/v r20, r20, r1", 0, 0x200, 2, 1 << 6, at(3)),
        ("ldq r1, 0(r16)", far, 0x080, far, 0, at(2)),
        ("ldq r1, 0(r16)", 0x20_0000, 0x090, 0x20_0000, 0, at(2)),
        ("ldq r1, 0(r16)", 0x20_2000, 0x080, 0x20_2000, 0, at(2)),
        ("stq r1, 0(r16)", 0x20_4000, 0x080, 0x20_4000, write, at(2)),
        ("ldq r1, 0(r16)", 0x20_6000, 0x0a0, 0x20_6000, 0, at(2)),
        ("stq r1, 0(r16)", 0x20_6000, 0x0b0, 0x20_6000, write, at(2)),
        ("jmp r31, (r16)", 0x20_6000, 0x0c0, 0x20_6000, 1, 0x20_6000),
        ("jmp r31, (r16)", 0x20_0000, 0x090, 0x20_0000, 1, 0x20_0000),
    ];
    for &(insn, r16, vector, r4, r5, pc) in cases {
        let mut high = String::new();
        if vector == 0x200 {
            // R20 + R20 overflows.
            high = "li r20, 0x4000\nsll r20, 48, r20\nbr r31, go\n".into();
        }
        let program = format!("{high}go: li r16, {r16}\n{insn}\npal halt");
        let skew = if high.is_empty() { 0 } else { 4 * 4 };
        let mut rig = Rig::new(3, &program).handler(vector, 0x1_2000, tell);
        if vector == 0x10 {
            rig = rig.without_fen();
        }
        for (va, bits) in [
            (0x20_0000, 0xff00),
            (0x20_2000, pte::V | 0x7700),
            (0x20_4000, pte::V | 0x7f00),
            (0x20_6000, pte::V | pte::FOR | pte::FOW | pte::FOE | ALL_RIGHTS),
        ] {
            rig = rig.pte(va, Rig::entry(va, bits));
        }
        let got = rig.results();
        let pc = if pc >= 0x20_0000 { pc } else { pc + skew };
        assert_eq!(got, [SCB_ARGUMENT + vector, r4, r5, pc], "{insn} with {r16:#x}");
    }
}

/// Entries live until their invalidate, at most; address spaces have their own; ASM does not leak.
#[test]
fn the_translation_buffer_forgets_what_it_is_told_to() {
    let entry = Rig::pte_address(DATA);
    for invalidate in ["mtpr_tbis", "mtpr_tbisd", "mtpr_tbia", "mtpr_tbiap"] {
        let program = format!(
            "li r16, {DATA}
             li r9, {entry}
             li r10, {}
             ldq r11, 0(r9)
             li r12, 8
            again:
             ldq r1, 0(r16)
             out r1
             stq r10, 0(r9)
             pal {invalidate}
             ldq r1, 0(r16)
             out r1
             stq r11, 0(r9)
             pal {invalidate}
             subq r12, 1, r12
             bgt r12, again
             pal halt",
            // The same address leads to the next page.
            0x40
        );
        let other = Rig::entry(DATA + PAGE, pte::V | ALL_RIGHTS);
        let program = program.replace("li r10, 64", "ldq r10, 1024(r15)");
        let rig =
            Rig::new(0, &program).data(RESULTS + 1024, other).data(DATA, 1).data(DATA + PAGE, 2);
        assert_eq!(rig.results(), [1, 2].repeat(8), "{invalidate}");
    }
}

/// Accesses with one base whose pages are apart in memory, or of which the second is not to be had.
#[test]
fn accesses_of_a_block_may_lie_in_two_pages() {
    const FIRST: u64 = 0x20_0000;
    const SECOND: u64 = FIRST + PAGE;
    let program = |start: u64, rounds: u64| {
        format!(
            "li r16, {start}
             li r12, {rounds}
            again:
             stq r16, 0(r16)
             stq r12, 8(r16)
             stl r12, 20(r16)
             stq r16, 24(r16)
             ldq r1, 0(r16)
             ldq r2, 8(r16)
             ldl r3, 20(r16)
             ldbu r4, 25(r16)
             ldq r5, -8(r16)
             lda r16, 8(r16)
             ldq r6, 16(r16)
             addq r1, r2, r1
             addq r3, r4, r3
             addq r5, r6, r5
             addq r17, r1, r17
             addq r17, r3, r17
             addq r17, r5, r17
             subq r12, 1, r12
             bgt r12, again
             out r17
             pal halt"
        )
    };
    let rig = |second: u64| {
        // The later page comes first.
        Rig::new(0, &program(SECOND - 64, 16))
            .pte(FIRST, Rig::entry(DATA + PAGE, pte::V | ALL_RIGHTS))
            .pte(SECOND, Rig::entry(DATA, second))
    };
    let mut memory = vec![0; 2 * PAGE as usize];
    let mut sum = 0u64;
    for round in 0..16 {
        let (base, left) = (SECOND - 64 + 8 * round, 16 - round);
        let at = (base - FIRST) as usize;
        let mut put = |at: usize, bytes: &[u8]| memory[at..at + bytes.len()].copy_from_slice(bytes);
        put(at, &base.to_le_bytes());
        put(at + 8, &left.to_le_bytes());
        put(at + 20, &(left as u32).to_le_bytes());
        put(at + 24, &base.to_le_bytes());
        let quadword = |at: usize| u64::from_le_bytes(memory[at..at + 8].try_into().unwrap());
        let read = [quadword(at), left, left, memory[at + 25].into(), quadword(at - 8), base];
        sum = read.into_iter().fold(sum, u64::wrapping_add);
    }
    assert_eq!(rig(pte::V | ALL_RIGHTS).results(), [sum]);

    let tell = "
        out r4
        out r5
        ldq r2, 48(sp)
        out r2
        pal halt";
    // The store at 24 is the first to come to the second page; the instructions are two and two, and one each.
    let write = 1 << 63;
    for (bits, vector) in [(pte::V | 0x0f00, 0x080), (0xff00, 0x090)] {
        let got = rig(bits).handler(vector, 0x1_2000, tell).results();
        assert_eq!(got, [SECOND, write, CODE + 4 * 7], "{bits:#x}");
    }
}

/// Accesses of several blocks at distances from one address, which moves over a page's end.
#[test]
fn accesses_of_several_blocks_may_lie_in_two_pages() {
    const FIRST: u64 = 0x20_0000;
    const SECOND: u64 = FIRST + PAGE;
    const START: u64 = SECOND - 8 * 280;
    let program = format!(
        "li r16, {START}
         li r12, 300
        again:
         ldq r1, 0(r16)
         blbs r12, odd
         addq r17, 1, r17
        odd:
         stq r12, 24(r16)
         blbc r12, even
         ldl r2, 24(r16)
         addq r17, r2, r17
        even:
         ldq r3, 16(r16)
         addq r1, r3, r1
         addq r17, r1, r17
         lda r16, 8(r16)
         subq r12, 1, r12
         bgt r12, again
         out r17
         pal halt"
    );
    let rig = |second: u64| {
        Rig::new(0, &program)
            .pte(FIRST, Rig::entry(DATA + PAGE, pte::V | ALL_RIGHTS))
            .pte(SECOND, Rig::entry(DATA, second))
    };
    // What was stored three rounds ago, and one; the count where it is odd, 1 where it is not.
    let ago = |n: u64, back: u64| if n + back <= 300 { n + back } else { 0 };
    let sum: u64 = (1..=300).map(|n| ago(n, 3) + ago(n, 1) + if n % 2 == 1 { n } else { 1 }).sum();
    assert_eq!(rig(pte::V | ALL_RIGHTS).results(), [sum]);
    for (bits, vector) in [(pte::V | 0x0f00, 0x080), (0xff00, 0x090)] {
        let tell = "out r4\n out r5\n ldq r2, 48(sp)\n out r2\n pal halt";
        let got = rig(bits).handler(vector, 0x1_2000, tell).results();
        assert_eq!(got, [SECOND, 1 << 63, CODE + 4 * 7], "{bits:#x}");
    }
}

/// Two contexts with page tables of their own that share an address: data and code.
#[test]
fn address_spaces_do_not_mix() {
    // A second set of tables at frames 32 to 34, in which the page at 0x100000 is the one behind.
    let (l1, l2, l3) = (32, 33, 34);
    let table = |pfn: u64| pfn << pte::PFN_SHIFT | pte::V | ALL_RIGHTS;
    let shared = 0x10_0000;
    let subroutine = |value: i32| format!("lda r1, {value}(r31)\njmp r31, (r26)");
    let program = format!(
        "li r20, 30
        again:
         li r13, {shared}
         jsr r26, (r13)
         out r1
         ldq r1, 512(r13)
         out r1
         ; The other context, which comes back the same way.
         li r16, 0x60080
         blbc r20, go
         li r16, 0x60000
        go:
         pal swpctx
         subq r20, 1, r20
         bgt r20, again
         pal halt"
    );
    let mut rig = Rig::new(0, &program)
        .code(shared, &subroutine(1))
        .code(shared + PAGE, &subroutine(2))
        .data(shared + 512, 10)
        .data(shared + PAGE + 512, 20)
        .data(l1 << 13, table(l2))
        .data(l2 << 13, table(l3))
        .data(0x6_0080, STACKS[0])
        .data(0x6_0080 + 0x20, l1)
        .data(0x6_0080 + 0x28, 2)
        .data(0x6_0080 + 0x38, 1);
    for page in 0..0x100 {
        let va = page * PAGE;
        let to = if va == shared { va + PAGE } else { va };
        rig = rig.data((l3 << 13) + page * 8, Rig::entry(to, pte::V | ALL_RIGHTS));
    }
    let mut expected = Vec::new();
    let mut second = false;
    for left in (1..=30).rev() {
        expected.extend(if second { [2, 20] } else { [1, 10] });
        second = left % 2 == 0;
    }
    assert_eq!(rig.results(), expected);
}

#[test]
fn imb_makes_new_code_visible() {
    let program = "li r9, 0x100000
         li r20, 40
        again:
         jsr r26, (r9)
         out r1
         ldl r2, 0(r9)
         addl r2, 1, r2
         stl r2, 0(r9)
         pal imb
         subq r20, 1, r20
         bgt r20, again
         pal halt";
    let rig = Rig::new(3, program).code(0x10_0000, "lda r1, 5(r31)\njmp r31, (r26)");
    assert_eq!(rig.results(), (5..45).collect::<Vec<u64>>());
}

#[test]
fn a_guest_that_cannot_go_on_is_reported() {
    // The boot code needs a stack itself: take it away in a handler.
    let lost = Rig::new(0, "li sp, 0x300040\npal bpt").pte(0x30_0000, 0);
    let ran = lost.run();
    assert!(matches!(ran.reason, Some(HaltReason::KernelStack(_, 0x400))), "{ran:?}");
    for part in ["kernel stack not valid", "pc 0x10008", "kernel mode", "IPL 31", "bpt@0x10008"] {
        assert!(ran.report.contains(part), "{part}: {}", ran.report);
    }
    // Page tables that lead nowhere, and an SCB that does not exist.
    let lost = Rig::new(0, "li r16, 0x7fffff\npal mtpr_scbb\npal bpt").run();
    assert_eq!(lost.reason, Some(HaltReason::NoVector(0x400)));
    let nowhere = Rig::entry(0, pte::V | ALL_RIGHTS) | 0x7fff_ffff << pte::PFN_SHIFT;
    let lost = Rig::new(0, "li r1, 0x400000\nldq r1, 0(r1)").pte(0x40_0000, nowhere).run();
    assert_eq!(lost.reason, Some(HaltReason::Halted), "the machine-check stub: {}", lost.report);
}
