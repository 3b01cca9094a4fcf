//! Templates of floating point: SSE2 arithmetic whose results are classified, moves, conversions.
//!
//! The conditions are those of the optimising tier: where the bits of operands and result leave no
//! doubt that nothing exceptional happened, the host's result stands; else the interpreter executes
//! the instruction from its operands, which nothing has overwritten yet.

use axp_emu::fp::fpcr::{CONTROL, KEPT, STATUS};
use axp_emu::isa::{Insn, Opcode, ZERO};
use dynasmrt::{DynasmApi, dynasm};

use super::emit::{Cold, Emitter, Operand, cc};
use super::regs::*;
use crate::opt::Mode;

/// Tells F0 from R0 in [`Emitter::fused`].
const FLOATING: u8 = 64;
/// Scratch registers.
const XMM0: u8 = 0;
const XMM1: u8 = 1;

/// Rounding and trap qualifiers, taken apart.
struct Quals {
    software: bool,
    inexact: bool,
    nearest: bool,
    chopped: bool,
}

impl Quals {
    fn of(insn: &Insn, mode: Mode) -> Quals {
        let q = insn.qual.0;
        let dynamic = q & 3 == 3;
        Quals {
            software: q & 16 != 0,
            inexact: q & 8 != 0,
            nearest: q & 3 == 2 || dynamic && mode.dynamic_nearest,
            chopped: q & 3 == 0,
        }
    }
}

/// Biased exponents of results that were certainly not rounded from a tiny number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Exponents {
    first: i32,
    last: i32,
}

const NORMAL_T: Exponents = Exponents { first: 2, last: 2046 };
const NORMAL_S: Exponents = Exponents { first: 898, last: 1150 };

/// Emits an SSE instruction on a host register and a guest register.
macro_rules! sse {
    ($e:ident, $r:expr, $mnemonic:ident $xmm:expr $(, $imm:expr)?) => {
        match fp_pin($r) {
            Some(host) => dynasm!($e.asm ; .arch x64 ; $mnemonic Rx($xmm), Rx(host) $(, $imm)?),
            None => dynasm!($e.asm ; .arch x64
                ; $mnemonic Rx($xmm), [DWORD rbp + fp_disp($r)] $(, $imm)?),
        }
    };
}

impl Emitter<'_> {
    // Registers

    /// Bits of a floating-point register in a host register.
    pub(super) fn fetch_bits(&mut self, host: u8, r: u8) {
        match fp_pin(r) {
            _ if r >= ZERO => self.fetch(host, Operand::Imm(0)),
            Some(xmm) => dynasm!(self.asm ; .arch x64 ; movq Rq(host), Rx(xmm)),
            None => dynasm!(self.asm ; .arch x64 ; mov Rq(host), [DWORD rbp + fp_disp(r)]),
        }
    }

    /// Writes a floating-point register from a host register; changes no flags.
    pub(super) fn put_bits(&mut self, r: u8, host: u8) {
        match fp_pin(r) {
            _ if r >= ZERO => {}
            Some(xmm) => dynasm!(self.asm ; .arch x64 ; movq Rx(xmm), Rq(host)),
            None => dynasm!(self.asm ; .arch x64 ; mov [DWORD rbp + fp_disp(r)], Rq(host)),
        }
    }

    /// Loads a floating-point register into XMM0 to XMM3.
    fn fetch_f(&mut self, xmm: u8, r: u8) {
        match fp_pin(r) {
            Some(host) => dynasm!(self.asm ; .arch x64 ; movaps Rx(xmm), Rx(host)),
            None => dynasm!(self.asm ; .arch x64 ; movsd Rx(xmm), [DWORD rbp + fp_disp(r)]),
        }
    }

    fn put_f(&mut self, r: u8, xmm: u8) {
        match fp_pin(r) {
            _ if r >= ZERO => {}
            Some(host) => dynasm!(self.asm ; .arch x64 ; movaps Rx(host), Rx(xmm)),
            None => dynasm!(self.asm ; .arch x64 ; movsd [DWORD rbp + fp_disp(r)], Rx(xmm)),
        }
    }

    // The control register

    pub(super) fn lower_mf_fpcr(&mut self, insn: &Insn) {
        dynasm!(self.asm ; .arch x64 ; mov rax, [DWORD rbp + FPCR]);
        self.derive_summary();
        self.put_bits(insn.a, RAX);
    }

    /// Ends its unit, which is left where what it was compiled for has changed.
    pub(super) fn lower_mt_fpcr(&mut self, insn: &Insn) {
        self.fetch_bits(RAX, insn.a);
        self.derive_summary();
        dynasm!(self.asm ; .arch x64
            ; mov rcx, [DWORD rbp + FPCR]
            ; xor rcx, rax
            ; mov [DWORD rbp + FPCR], rax
            ; mov rax, QWORD CONTROL as i64
            ; test rcx, rax
        );
        let same = self.jcc8(cc::E);
        self.leave(self.stubs.poll, self.pc.wrapping_add(4));
        self.bind8(same);
    }

    /// In RAX, keeps the bits that the FPCR has and derives SUM from them.
    fn derive_summary(&mut self) {
        const { assert!(KEPT.trailing_zeros() == 47 && STATUS == 0x3f << 52) };
        dynasm!(self.asm ; .arch x64
            ; shr rax, 47
            ; and eax, 0xffff
            ; mov ecx, eax
            ; and ecx, 0x3f << 5
            ; neg ecx
            ; sbb ecx, ecx
            ; and ecx, 0x1_0000
            ; or eax, ecx
            ; shl rax, 47
        );
    }

    // Arithmetic

    pub(super) fn lower_fp(&mut self, insn: &Insn) {
        use Opcode::*;
        let q = Quals::of(insn, self.mode);
        let usual = q.nearest && !q.inexact;
        match insn.op {
            _ if self.mode.exact_fp => self.interpret(insn),
            Addt | Subt | Mult | Divt | Sqrtt if usual => self.arithmetic(insn, &q, NORMAL_T),
            Adds | Subs | Muls | Divs | Sqrts | Cvtts if usual => {
                self.arithmetic(insn, &q, NORMAL_S);
            }
            Divt if q.chopped && !q.inexact && self.host.fma => self.divide_chopped(insn),
            Cmpteq | Cmptlt | Cmptle | Cmptun => self.compare_f(insn, &q),
            Cvtqt if usual => {
                self.fetch_bits(RAX, insn.b);
                dynasm!(self.asm ; .arch x64 ; xorps xmm0, xmm0 ; cvtsi2sd xmm0, rax);
                self.put_f(insn.c, XMM0);
            }
            Cvtqs if usual => {
                self.fetch_bits(RAX, insn.b);
                dynasm!(self.asm ; .arch x64
                    ; xorps xmm0, xmm0
                    ; cvtsi2ss xmm0, rax
                    ; cvtss2sd xmm0, xmm0
                );
                self.put_f(insn.c, XMM0);
            }
            Cvttq if q.chopped && !q.inexact => {
                self.finite_operand(insn.b, !q.software);
                sse!(self, insn.b, movsd XMM0);
                dynasm!(self.asm ; .arch x64
                    ; cvttsd2si rax, xmm0
                    // What does not fit, and what is no number, gives the lowest quadword.
                    ; cmp rax, BYTE 1
                );
                self.cold_if(cc::O);
                self.put_bits(insn.c, RAX);
            }
            Cvtst => {
                self.finite_operand(insn.b, true);
                self.fetch_f(XMM0, insn.b);
                self.put_f(insn.c, XMM0);
            }
            Cvtlq => {
                self.fetch_bits(RAX, insn.b);
                self.call(self.stubs.store_s);
                dynasm!(self.asm ; .arch x64 ; movsxd rax, eax);
                self.put_bits(insn.c, RAX);
            }
            Cvtql => self.cvtql(insn),
            _ => self.interpret(insn),
        }
    }

    /// Leaves an operand that is denormal, infinite or NaN to the interpreter.
    fn finite_operand(&mut self, r: u8, check: bool) {
        if !check || r >= ZERO {
            return;
        }
        self.fetch_bits(RAX, r);
        dynasm!(self.asm ; .arch x64 ; add rax, rax);
        let zero = self.jcc8(cc::E);
        dynasm!(self.asm ; .arch x64
            ; shr rax, 53
            ; sub eax, BYTE 1
            ; cmp eax, DWORD 2046
        );
        self.cold_if(cc::AE);
        self.bind8(zero);
    }

    /// Leaves the instruction to the interpreter unless the exponent of XMM0 is in a range.
    fn exponent_in(&mut self, range: Exponents) {
        let (first, count) = (range.first << 4, (range.last - range.first + 1) << 4);
        dynasm!(self.asm ; .arch x64
            ; pextrw eax, xmm0, 3
            ; and eax, DWORD 0x7ff0
            ; sub eax, DWORD first
            ; cmp eax, DWORD count
        );
        self.cold_if(cc::AE);
    }

    fn arithmetic(&mut self, insn: &Insn, q: &Quals, range: Exponents) {
        use Opcode::*;
        let single = range == NORMAL_S;
        let unary = matches!(insn.op, Sqrts | Sqrtt | Cvtts);
        let (a, b) = (insn.a, insn.b);
        if !unary {
            // A denormal single looks much smaller to the host than it is, and the other operand may
            // be no single, so the result need not show it. Without /S such operands trap anyway.
            let check = !q.software || single;
            self.finite_operand(a, check);
            self.finite_operand(b, check && a != b);
        } else {
            self.finite_operand(b, !q.software);
        }
        if single && insn.op != Cvtts {
            // For operands that are exact singles the second rounding changes nothing.
            self.fetch_bits(RAX, b);
            if !unary {
                self.fetch_bits(RCX, a);
                dynasm!(self.asm ; .arch x64 ; or eax, ecx);
            }
            dynasm!(self.asm ; .arch x64 ; shl eax, 3);
            self.cold_if(cc::NE);
        }
        match insn.op {
            Sqrts | Sqrtt => sse!(self, b, sqrtsd XMM0),
            Cvtts => self.fetch_f(XMM0, b),
            _ => {
                self.fetch_f(XMM0, a);
                match insn.op {
                    Adds | Addt => sse!(self, b, addsd XMM0),
                    Subs | Subt => sse!(self, b, subsd XMM0),
                    Muls | Mult => sse!(self, b, mulsd XMM0),
                    _ => sse!(self, b, divsd XMM0),
                }
            }
        }
        if single {
            dynasm!(self.asm ; .arch x64 ; cvtsd2ss xmm0, xmm0 ; cvtss2sd xmm0, xmm0);
        }
        self.exponent_in(range);
        if q.software && matches!(insn.op, Addt | Subt | Mult | Divt) {
            self.cold_kind = Cold::ZeroResult;
        }
        self.put_f(insn.c, XMM0);
    }

    /// DIVT/C: the host rounds to nearest; a remainder of the other sign than the dividend's says that
    /// this was one unit too far.
    fn divide_chopped(&mut self, insn: &Insn) {
        /// Exponent from which on dividends have remainders that are normal numbers.
        const WIDE: i32 = 128;
        let (a, b) = (insn.a, insn.b);
        self.finite_operand(a, true);
        self.finite_operand(b, a != b);
        self.fetch_f(XMM0, a);
        dynasm!(self.asm ; .arch x64 ; movaps xmm1, xmm0);
        sse!(self, b, divsd XMM0);
        self.exponent_in(NORMAL_T);
        self.fetch_bits(RCX, a);
        dynasm!(self.asm ; .arch x64
            ; lea rax, [rcx + rcx]
            ; shr rax, 53
            ; cmp eax, DWORD WIDE
        );
        self.cold_if(cc::B);
        match fp_pin(b) {
            Some(host) => {
                dynasm!(self.asm ; .arch x64 ; vfnmadd231sd xmm1, xmm0, Rx(host));
            }
            None => dynasm!(self.asm ; .arch x64
                ; vfnmadd231sd xmm1, xmm0, [DWORD rbp + fp_disp(b)]),
        }
        dynasm!(self.asm ; .arch x64
            ; movq rax, xmm1
            ; xor rcx, rax
            ; shr rcx, 63
            ; add rax, rax
            ; setne al
            ; movzx eax, al
            ; and ecx, eax
            ; movq rax, xmm0
            ; sub rax, rcx
        );
        self.put_bits(insn.c, RAX);
    }

    /// In a cold path of T arithmetic with /S: a zero that is a sum, or comes from a zero operand,
    /// is exact; goes on at `resume` then.
    pub(super) fn zero_is_exact(&mut self, insn: &Insn, resume: usize) {
        let mut not = Vec::with_capacity(3);
        let is_zero = |e: &mut Self, xmm: u8| {
            dynasm!(e.asm ; .arch x64 ; xorps xmm2, xmm2 ; ucomisd Rx(xmm), xmm2);
        };
        match insn.op {
            Opcode::Mult => {
                // Zero if the smaller of both is.
                self.fetch_bits(RAX, insn.a);
                self.fetch_bits(RCX, insn.b);
                dynasm!(self.asm ; .arch x64 ; add rax, rax);
                let zero = self.jcc8(cc::E);
                dynasm!(self.asm ; .arch x64 ; add rcx, rcx);
                not.push(self.jcc8(cc::NE));
                self.bind8(zero);
            }
            Opcode::Divt => {
                self.fetch_bits(RAX, insn.a);
                dynasm!(self.asm ; .arch x64 ; add rax, rax);
                not.push(self.jcc8(cc::NE));
            }
            _ => {}
        }
        is_zero(self, XMM0);
        not.push(self.jcc8(cc::P));
        not.push(self.jcc8(cc::NE));
        self.put_f(insn.c, XMM0);
        self.jump_back_if(cc::E, resume);
        for at in not {
            self.bind8(at);
        }
    }

    fn compare_f(&mut self, insn: &Insn, q: &Quals) {
        let (a, b) = (insn.a, insn.b);
        self.finite_operand(a, !q.software);
        self.finite_operand(b, !q.software && a != b);
        self.fetch_f(XMM0, a);
        sse!(self, b, ucomisd XMM0);
        self.cold_if(cc::P);
        let cc = match insn.op {
            Opcode::Cmpteq => cc::E,
            Opcode::Cmptlt => cc::B,
            Opcode::Cmptle => cc::BE,
            // Never: NaNs were left to the interpreter. The zero comes from an immediate.
            _ => {
                self.fetch(RAX, Operand::Imm(0));
                return self.put_bits(insn.c, RAX);
            }
        };
        // The host's masks and the constant 2.0, without touching the flags.
        match insn.op {
            Opcode::Cmpteq => sse!(self, b, cmpsd XMM0, 0),
            Opcode::Cmptlt => sse!(self, b, cmpsd XMM0, 1),
            _ => sse!(self, b, cmpsd XMM0, 2),
        }
        let two = self.stubs.two;
        self.and_memory(two);
        self.put_f(insn.c, XMM0);
        if q.software && insn.c < ZERO {
            self.fused = Some((insn.c | FLOATING, cc));
            self.cold_kind = Cold::Unordered;
        }
    }

    /// `andpd xmm0, [address]` for an address in the arena.
    fn and_memory(&mut self, address: u64) {
        self.asm.ops.extend_from_slice(&[0x66, 0x0f, 0x54, 0x05]);
        self.rel32_to(address);
    }

    /// CVTQL: what does not fit overflows, which counts with /V only.
    fn cvtql(&mut self, insn: &Insn) {
        self.fetch_bits(RAX, insn.b);
        dynasm!(self.asm ; .arch x64 ; movsxd rcx, eax ; cmp rcx, rax);
        self.cold_if(cc::NE);
        // The two top bits of the longword and the other thirty.
        dynasm!(self.asm ; .arch x64
            ; mov ecx, eax
            ; and eax, DWORD 0x3fff_ffff
            ; and ecx, DWORD 0xc000_0000u32 as i32
            ; shl rax, 29
            ; shl rcx, 32
            ; or rax, rcx
        );
        self.put_bits(insn.c, RAX);
    }

    // Moves

    pub(super) fn lower_fmove(&mut self, insn: &Insn) {
        if Self::is_sink(insn.c) {
            return;
        }
        let (a, b) = (insn.a, insn.b);
        if insn.op == Opcode::Cpys && a == b {
            if a >= ZERO {
                self.fetch(RAX, Operand::Imm(0));
                return self.put_bits(insn.c, RAX);
            }
            self.fetch_f(XMM1, b);
            return self.put_f(insn.c, XMM1);
        }
        self.fetch_bits(RAX, b);
        match insn.op {
            Opcode::Cpysn if a == b => dynasm!(self.asm ; .arch x64 ; btc rax, BYTE 63),
            Opcode::Cpys if a >= ZERO => dynasm!(self.asm ; .arch x64 ; btr rax, BYTE 63),
            Opcode::Cpysn if a >= ZERO => dynasm!(self.asm ; .arch x64 ; bts rax, BYTE 63),
            Opcode::Cpys | Opcode::Cpysn => {
                self.fetch_bits(RCX, a);
                if insn.op == Opcode::Cpysn {
                    dynasm!(self.asm ; .arch x64 ; not rcx);
                }
                dynasm!(self.asm ; .arch x64
                    ; shr rcx, 63
                    ; add rax, rax
                    ; shl rcx, 63
                    ; shr rax, 1
                    ; or rax, rcx
                );
            }
            _ => {
                self.fetch_bits(RCX, a);
                dynasm!(self.asm ; .arch x64
                    ; shr rcx, 52
                    ; shl rax, 12
                    ; shl rcx, 52
                    ; shr rax, 12
                    ; or rax, rcx
                );
            }
        }
        self.put_bits(insn.c, RAX);
    }

    pub(super) fn lower_fcmov(&mut self, insn: &Insn) {
        use Opcode::*;
        if Self::is_sink(insn.c) {
            return;
        }
        let branch = match insn.op {
            Fcmoveq => Fbeq,
            Fcmovne => Fbne,
            Fcmovlt => Fblt,
            Fcmovge => Fbge,
            Fcmovle => Fble,
            _ => Fbgt,
        };
        let cc = self.condition_f(branch, insn.a);
        let skip = self.jcc8(cc ^ 1);
        self.fetch_bits(RAX, insn.b);
        self.put_bits(insn.c, RAX);
        self.bind8(skip);
    }

    /// Sets the flags from a register for a floating-point branch; gives the condition of taking it.
    pub(super) fn branch_condition_f(&mut self, insn: &Insn, fused: Option<(u8, u8)>) -> u8 {
        match (fused, insn.op) {
            (Some((r, cc)), Opcode::Fbne) if r == insn.a | FLOATING => cc,
            (Some((r, cc)), Opcode::Fbeq) if r == insn.a | FLOATING => cc ^ 1,
            _ => self.condition_f(insn.op, insn.a),
        }
    }

    /// Only sign and zero count, -0 is zero.
    fn condition_f(&mut self, branch: Opcode, r: u8) -> u8 {
        self.fetch_bits(RAX, r);
        match branch {
            Opcode::Fbeq | Opcode::Fbne => {
                dynasm!(self.asm ; .arch x64 ; add rax, rax);
                if branch == Opcode::Fbeq { cc::E } else { cc::NE }
            }
            Opcode::Fblt | Opcode::Fbge => {
                // Above -0 as an unsigned number: negative and not zero.
                self.set_const(RCX, i64::MIN);
                dynasm!(self.asm ; .arch x64 ; cmp rax, rcx);
                if branch == Opcode::Fblt { cc::A } else { cc::BE }
            }
            _ => {
                dynasm!(self.asm ; .arch x64 ; test rax, rax);
                if branch == Opcode::Fbgt { cc::G } else { cc::LE }
            }
        }
    }

    pub(super) fn lower_itof(&mut self, insn: &Insn) {
        match insn.op {
            Opcode::Itoft => {
                let a = self.operand(insn.a);
                let a = self.in_reg(a, RAX);
                self.put_bits(insn.c, a);
            }
            Opcode::Itofs => {
                let a = self.operand(insn.a);
                self.fetch_long(RAX, a);
                self.call(self.stubs.load_s);
                self.put_bits(insn.c, RAX);
            }
            _ => self.interpret(insn),
        }
    }

    pub(super) fn lower_ftoi(&mut self, insn: &Insn) {
        let host = if insn.op == Opcode::Ftoit { self.target(insn.c) } else { RAX };
        self.fetch_bits(host, insn.a);
        if insn.op != Opcode::Ftoit {
            self.call(self.stubs.store_s);
            dynasm!(self.asm ; .arch x64 ; movsxd rax, eax);
        }
        self.put(insn.c, host);
    }
}
