//! Micro-programs over OSF/1 PALcode: one or more for each call and each entry of the kernel, and
//! interrupts of the platform around it. Every engine.

use axp_emu::machine::osf::{Entry, Halt};
use axp_emu::mem::pte;
use axp_tests::osf::{ALL, CODE, DATA, KGP, KSP, PCB, Rig, USP};

/// Rights of the kernel alone.
const KERNEL_ONLY: u64 = pte::V | 0x1100;
/// Puts out the arguments of an entry, and the frame's PS and PC.
const TELL: &str = "
    out r16
    out r17
    out r18
    ldq r28, 0(sp)
    out r28
    ldq r28, 8(sp)
    out r28
";

fn tell_and(then: &str) -> String {
    format!("{TELL}\n{then}")
}

#[test]
fn callsys_enters_the_kernel_and_retsys_goes_back() {
    let program = "
        li r29, 77
        li r16, 5
        pal callsys
        out r0
        out sp
        out r29
        out r16
        pal callsys";
    let handler = "
        out sp
        ldq r1, 0(sp)
        out r1
        ldq r1, 8(sp)
        out r1
        ldq r1, 16(sp)
        out r1
        out r29
        pal rdps
        out r0
        pal rdusp
        out r0
        li r0, 42
        cmpeq r16, 5, r2
        li r16, 6
        bne r2, back
        pal halt
        back: pal retsys";
    let results = Rig::user(program).entry("sys", handler).results();
    let once = |pc: u64| vec![KSP - 48, 8, pc, 77, KGP, 0, USP];
    let back = vec![42, USP, 77, 6];
    assert_eq!(results, [once(CODE + 20), back, once(CODE + 20 + 4 * 9)].concat());
}

#[test]
fn callsys_in_the_kernel_stops_the_machine() {
    assert_eq!(Rig::kernel("pal callsys").run().halt, Some(Halt::KernelCallsys));
}

#[test]
fn rti_restores_what_the_frame_holds() {
    let at = CODE + 0x800;
    let program = "
        li r16, 1
        li r17, 2
        li r18, 3
        lda sp, -48(sp)
        li r1, 5
        stq r1, 0(sp)
        li r1, 0x10000
        lda r1, 0x800(r1)
        stq r1, 8(sp)
        stq r1, 16(sp)
        stq r16, 24(sp)
        stq r17, 32(sp)
        stq r18, 40(sp)
        li r16, 9
        li r17, 9
        li r18, 9
        pal rti";
    let there = "
        out r16
        out r17
        out r18
        out r29
        out sp
        pal rdps
        out r0
        pal halt";
    let results = Rig::kernel(program).code(at, there).results();
    assert_eq!(results, [1, 2, 3, at, KSP, 5]);
}

#[test]
fn swpipl_returns_the_old_level_and_registers_keep_what_is_written() {
    let program = "
        li r16, 3
        pal swpipl
        out r0
        li r16, 0xff
        pal swpipl
        out r0
        pal rdps
        out r0
        li r16, 0x777
        pal wrval
        pal rdval
        out r0
        li r16, 0x5550
        pal wrusp
        pal rdusp
        out r0
        li r16, 0x1f
        pal wrmces
        pal rdmces
        out r0
        pal whami
        out r0
        li r16, 99
        pal wrunique
        pal rdunique
        out r0
        li r16, 0x20000
        pal wrvptptr
        pal cflush
        pal draina
        pal imb
        pal wrperfmon
        out r0
        pal swppal
        out r0
        pal halt";
    let results = Rig::kernel(program).results();
    assert_eq!(results, [7, 3, 7, 0x777, 0x5550, 0x18, 0, 99, 0, 1]);
}

#[test]
fn instruction_faults_say_which_and_where() {
    // Kind, and how far the saved PC is from the instruction.
    for (text, kind, distance) in [
        ("pal bpt", 0, 4),
        ("pal bugchk", 1, 4),
        ("pal gentrap", 2, 4),
        // Privileged, unknown, and a word that is no instruction.
        ("pal swpipl", 4, 4),
        ("call_pal 0xbf", 4, 4),
        (".long 0x04000000", 4, 4),
    ] {
        let rig = Rig::user(text).entry("if", &tell_and("pal halt"));
        let results = rig.results();
        assert_eq!(results[0], kind, "{text}");
        assert_eq!(results[3..], [8, CODE + distance], "{text}");
    }
}

#[test]
fn floating_point_waits_for_its_enable_and_starts_again() {
    let program = "
        addt f31, f31, f1
        li r1, 11
        out r1
        pal clrfen
        itoft r1, f2
        ftoit f2, r2
        out r2
        pal callsys";
    let handler = tell_and(
        "li r16, 1
         pal wrfen
         pal rti",
    );
    let rig = Rig::user(program).without_fen().entry("if", &handler).entry("sys", "pal halt");
    let results = rig.results();
    let (first, second) = (CODE, CODE + 4 * 6);
    assert_eq!(results[0], 3);
    assert_eq!(results[3..6], [8, first, 11]);
    assert_eq!(results[6], 3);
    assert_eq!(results[9..], [8, second, 11]);
}

#[test]
fn memory_faults_say_where_why_and_how() {
    let load = format!("li r1, {DATA}\nldq r2, 8(r1)\npal callsys");
    let store = format!("li r1, {DATA}\nstq r1, 8(r1)\npal callsys");
    let fetch = format!("li r1, {DATA}\njmp r31, (r1)\npal callsys");
    let superpage = "lda r1, -1(r31)\nsll r1, 42, r1\nldq r2, 8(r1)\npal callsys".to_owned();
    let page = |bits| Rig::page(DATA, bits);
    let cases = [
        (&load, page(0x3300), 0, 0, 0),
        (&load, 0, 0, 0, 0),
        (&load, page(KERNEL_ONLY), 1, 0, 0),
        (&store, page(pte::V | 0x1300), 1, 1, 0),
        (&load, page(ALL | pte::FOR), 2, 0, 0),
        (&store, page(ALL | pte::FOW), 4, 1, 0),
        (&fetch, page(ALL | pte::FOE), 3, u64::MAX, 0),
        (&fetch, page(0), 0, u64::MAX, 0),
        (&superpage, page(ALL), 1, 0, u64::MAX << 42),
    ];
    for (text, entry, why, how, base) in cases {
        let rig = Rig::user(text).pte(DATA, entry).entry("mm", &tell_and("pal halt"));
        let results = rig.results();
        let va = match (how, base) {
            (u64::MAX, _) => DATA,
            (_, 0) => DATA + 8,
            _ => base + 8,
        };
        let pc = if how == u64::MAX { DATA } else { CODE + 8 };
        assert_eq!(results, [va, why, how, 8, pc], "{text} {entry:#x}");
    }
}

#[test]
fn a_page_that_the_handler_maps_is_there_when_it_returns() {
    let text = format!("li r1, {DATA}\nldq r2, 8(r1)\nout r2\nstq r2, 16(r1)\npal callsys");
    // Read-only at first; a store finds that out and makes it writable.
    let at = Rig::pte_address(DATA);
    let handler = format!(
        "out r17
         li r21, {at}
         ldq r22, 0(r21)
         bne r22, writable
         li r22, {}
         sll r22, 32, r22
         lda r22, {}(r22)
         br r31, set
         writable: li r23, {}
         bic r22, r23, r22
         set: stq r22, 0(r21)
         bis r16, r31, r17
         li r16, 2
         pal tbi
         pal rti",
        DATA >> 13,
        ALL | pte::FOW,
        pte::FOW
    );
    let rig = Rig::user(&text).pte(DATA, 0).data(DATA + 8, 1234);
    let results = rig.entry("mm", &handler).entry("sys", "pal halt").results();
    assert_eq!(results, [0, 1234, 4]);
}

#[test]
fn unaligned_accesses_name_opcode_and_register() {
    for (text, opcode, ra) in [
        ("ldq r7, 1(r1)", 0x29, 7),
        ("ldl r8, 2(r1)", 0x28, 8),
        ("stq r9, 3(r1)", 0x2d, 9),
        ("stw r10, 5(r1)", 0x0d, 10),
        ("ldt f11, 4(r1)", 0x23, 11),
    ] {
        let program = format!("li r1, {DATA}\n{text}\npal callsys");
        let handler = tell_and("pal rti");
        let rig = Rig::user(&program).entry("una", &handler).entry("sys", "pal halt");
        let results = rig.results();
        let offset = u64::from(text.split(", ").nth(1).unwrap().as_bytes()[0] - b'0');
        // It goes on behind the instruction.
        assert_eq!(results, [DATA + offset, opcode, ra, 8, CODE + 12], "{text}");
    }
}

#[test]
fn arithmetic_traps_bring_summary_and_registers() {
    let program = "
        li r1, -1
        srl r1, 1, r1
        addq/v r1, r1, r5
        trapb
        pal callsys";
    let rig = Rig::user(program).entry("arith", &tell_and("pal rti")).entry("sys", "pal halt");
    let results = rig.results();
    assert_eq!(results[..2], [1 << 6, 1 << 5]);
    assert_eq!(results[3], 8);
}

#[test]
fn contexts_are_swapped_with_stacks_unique_values_and_address_spaces() {
    // A second context with a page table of its own, where DATA is another page.
    let second = 0x6_0100;
    let (l1, l2, l3) = (0x20_0000u64, 0x20_2000, 0x20_4000);
    let entry = |pa: u64, bits: u64| pa >> 13 << pte::PFN_SHIFT | bits;
    let mut rig = Rig::kernel(&format!(
        "li r16, 11
         pal wrunique
         li r16, 0x700
         pal wrusp
         li r10, {DATA}
         ldq r1, 0(r10)
         out r1
         li r16, {second}
         pal swpctx
         out r0
         out sp
         pal rdunique
         out r0
         pal rdusp
         out r0
         ldq r1, 0(r10)
         out r1
         li r16, 22
         pal wrunique
         li r16, {PCB}
         pal swpctx
         out r0
         out sp
         pal rdunique
         out r0
         pal rdusp
         out r0
         ldq r1, 0(r10)
         out r1
         pal halt"
    ));
    for page in (0..0x10_0000u64).step_by(0x2000) {
        rig = rig.data(l3 + (page >> 13) * 8, entry(page, ALL));
    }
    rig = rig
        .data(l1, entry(l2, ALL))
        .data(l2, entry(l3, ALL))
        .data(l3 + (DATA >> 13) * 8, entry(0x20_6000, ALL))
        .data(second, 0x4_f000)
        .data(second + 8, 0x900)
        .data(second + 0x10, l1 >> 13)
        .data(second + 0x18, 2 << 32)
        .data(second + 0x20, 21)
        .data(second + 0x28, 1)
        .data(DATA, 1)
        .data(0x20_6000, 2);
    let expected = [1, PCB, 0x4_f000, 21, 0x900, 2, second, KSP, 11, 0x700, 1];
    assert_eq!(rig.results(), expected);
}

#[test]
fn a_context_outside_memory_stops_the_machine() {
    let rig = Rig::kernel("li r16, 0x7fff0000\npal swpctx");
    assert_eq!(rig.run().halt, Some(Halt::Context(0x7fff_0000)));
}

#[test]
fn tbi_makes_every_change_of_a_page_seen() {
    // The page of DATA becomes that of DATA + 0x2000; without an invalidate it need not.
    for what in [-2, -1, 2, 3] {
        let at = Rig::pte_address(DATA);
        let program = format!(
            "li r10, {DATA}
             ldq r1, 0(r10)
             out r1
             li r2, {at}
             ldq r3, 8(r2)
             stq r3, 0(r2)
             li r16, {what}
             bis r10, r31, r17
             pal tbi
             ldq r1, 0(r10)
             out r1
             pal halt"
        );
        let rig = Rig::kernel(&program).data(DATA, 1).data(DATA + 0x2000, 2);
        assert_eq!(rig.results(), [1, 2], "{what}");
    }
}

#[test]
fn code_behind_another_page_is_executed_after_an_invalidate() {
    let at = Rig::pte_address(DATA);
    let program = format!(
        "li r10, {DATA}
         jsr r26, (r10)
         out r1
         li r2, {at}
         ldq r3, 8(r2)
         stq r3, 0(r2)
         li r16, 3
         bis r10, r31, r17
         pal tbi
         jsr r26, (r10)
         out r1
         pal halt"
    );
    let rig =
        Rig::kernel(&program).code(DATA, "li r1, 5\nret").code(DATA + 0x2000, "li r1, 6\nret");
    assert_eq!(rig.results(), [5, 6]);
}

#[test]
fn a_stack_that_takes_no_frame_stops_the_machine() {
    let rig = Rig::kernel("li sp, 0x40000000\npal bpt").entry("if", "pal halt");
    let ran = rig.run();
    assert!(matches!(ran.halt, Some(Halt::KernelStack(_, Entry::Instruction))), "{}", ran.report);
    for part in ["kernel stack not valid", "entIF", "pc 0x", "last PALcode calls", "bpt@"] {
        assert!(ran.report.contains(part), "{}", ran.report);
    }
}

#[test]
fn memory_that_is_not_there_is_a_machine_check() {
    // Beyond RAM, by way of the superpage.
    let program =
        "lda r1, -1(r31)\nsll r1, 42, r1\nldah r2, 0x7000(r31)\naddq r1, r2, r1\nldq r3, 0(r1)";
    let ran = Rig::kernel(program).run();
    assert!(matches!(ran.halt, Some(Halt::MachineCheck(_))), "{}", ran.report);
}

/// Addresses of port 0 and of the Cchip by way of the superpage, in R21 and R22.
const IO: &str = "
    lda r20, -3(r31)
    sll r20, 40, r20
    li r21, 0x7f000
    sll r21, 14, r21
    addq r20, r21, r21
    li r22, 0x68000
    sll r22, 14, r22
    addq r20, r22, r22
";

#[test]
fn the_interval_clock_interrupts_at_the_level_that_lets_it() {
    // The date's clock at 8192 Hz; two interrupts, of which each waits for a low level.
    let program = format!(
        "{IO}
         li r1, 10
         stb r1, 0x70(r21)
         li r1, 0x23
         stb r1, 0x71(r21)
         li r1, 11
         stb r1, 0x70(r21)
         li r1, 0x42
         stb r1, 0x71(r21)
         li r2, 150000
         wait: subq r2, 1, r2
         bgt r2, wait
         out r2
         li r16, 5
         pal swpipl
         li r16, 4
         pal swpipl
         again: pal wtint
         br r31, again"
    );
    let handler = "
        out r16
        pal rdps
        out r0
        ldq r1, 0(sp)
        out r1
        addq r9, 1, r9
        cmpeq r9, 2, r1
        bne r1, enough
        pal rti
        enough: pal halt";
    let results = Rig::kernel(&program).entry("int", handler).results();
    assert_eq!(results, [0, 1, 5, 4, 1, 5, 4]);
}

#[test]
fn the_serial_port_interrupts_through_its_controllers() {
    let program = format!(
        "{IO}
         li r1, 1
         sll r1, 55, r1
         stq r1, 0x200(r22)       ; mask of processor 0
         li r1, 0xef
         stb r1, 0x21(r21)        ; line 4 of the first 8259
         li r1, 8
         stb r1, 0x3fc(r21)       ; OUT2
         li r1, 0x58
         stb r1, 0x3f8(r21)       ; X
         li r1, 2
         stb r1, 0x3f9(r21)       ; interrupt when empty
         li r16, 3
         pal swpipl
         li r3, 1
         out r3
         li r16, 0
         pal swpipl
         li r2, 30000
         wait: subq r2, 1, r2
         bgt r2, wait
         out r2
         pal halt"
    );
    let handler = tell_and(
        "pal rdps
         out r0
         ldbu r1, 0x3fa(r21)      ; the cause: ends the request
         and r1, 15, r1
         out r1
         li r1, 0x64
         stb r1, 0x20(r21)        ; end of interrupt
         pal rti",
    );
    let results = Rig::kernel(&program).entry("int", &handler).results();
    assert_eq!(results[0], 1);
    assert_eq!(results[1..3], [3, 0x840]);
    assert_eq!(results[4], 0);
    assert_eq!(results[6..], [3, 2, 0]);
}

#[test]
fn what_is_not_there_reads_as_ones() {
    let program = format!(
        "{IO}
         li r1, 0x2000
         sll r1, 12, r1
         addq r21, r1, r1         ; configuration of device 0
         ldl r2, 0(r1)
         out r2
         ldbu r2, 0x2f8(r21)
         out r2
         ldwu r2, 0x300(r21)
         out r2
         pal halt"
    );
    assert_eq!(Rig::kernel(&program).results(), [u64::MAX, 0xff, 0xffff]);
}
