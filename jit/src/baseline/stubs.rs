//! Host code that all units share: entering and leaving, a call of the interpreter, the lookup of an
//! indirect jump, the conversions of S format, the way into regions of the optimising tier.

use axp_emu::cpu::Cpu;
use dynasmrt::{DynasmApi, SimpleAssembler, dynasm};

use super::Place;
use super::emit::cc;
use super::regs::{BIAS, FP_PINS, PINS, POLL, fp_disp, word_disp};
use crate::abi::{self, ARGS, ExitKind, STOPPED, word};
use crate::code::{Arena, ArenaError, JUMP_CACHE_ENTRIES};
use crate::palcode::{self, went};
use crate::runtime;

/// Addresses of the shared code.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stubs {
    /// Called by the dispatcher as [`Enter`].
    pub enter: u64,
    /// Where a fault in a unit leads.
    pub unwind: u64,
    /// Calls the interpreter for the place whose number is in EAX; returns if it retired.
    pub step: u64,
    /// Goes on at the guest pc in RAX.
    pub lookup: u64,
    /// Leave with the number of a place or a link in EAX.
    pub poll: u64,
    /// As `poll`.
    pub count: u64,
    /// As `poll`.
    pub hot: u64,
    /// As `poll`.
    pub stop: u64,
    /// As `poll`.
    pub link: u64,
    /// S format in EAX to register format in RAX; changes RCX and XMM0.
    pub load_s: u64,
    /// Register format in RAX to S format in EAX; changes RCX.
    pub store_s: u64,
    /// Calls the region at RAX and goes on where it returns to.
    pub region: u64,
    /// Has PALcode perform the call whose function code is in EAX, behind which `Cpu::pc` stands, and
    /// goes on where it leads.
    pub pal: u64,
    /// The same for a region: jumped to with the processor in RDI, the code in RSI, and all registers in memory.
    pub region_pal: u64,
    /// Two quadwords of 2.0 and zero: what a compare that is true writes.
    pub two: u64,
    /// Bytes of the arena that the stubs take.
    pub size: usize,
}

/// Runs the unit at `code`; returns the next pc or [`STOPPED`].
pub type Enter = unsafe extern "C" fn(cpu: *mut Cpu, code: *const u8) -> u64;

/// Has the interpreter execute the instruction of a place; registers are in memory.
///
/// # Safety
/// As for [`runtime::step`]; `place` is the number of one of the running engine's places.
unsafe extern "C" fn step_at(cpu: *mut Cpu, place: u64) -> u64 {
    // SAFETY: the dispatcher has set the word to the array that the number is an index into.
    unsafe {
        let place = &*((*cpu).engine[word::PLACES] as *const Place).add(place as usize);
        (*cpu).pc = place.pc;
        (*cpu).engine[word::BASELINE_CALLS] += 1;
        runtime::step(cpu, &place.insn, u64::from(place.after))
    }
}

struct Maker {
    asm: SimpleAssembler,
    base: u64,
}

impl Maker {
    fn here(&self) -> u64 {
        self.base + self.asm.ops.len() as u64
    }

    fn align(&mut self) {
        self.asm.align(16, 0xcc);
    }

    fn jump(&mut self, to: u64) {
        let rel = to.wrapping_sub(self.here() + 5) as i32;
        dynasm!(self.asm ; .arch x64 ; .u8 0xe9 ; .i32 rel);
    }

    fn jump_if(&mut self, cond: u8, to: u64) {
        let rel = to.wrapping_sub(self.here() + 6) as i32;
        dynasm!(self.asm ; .arch x64 ; .u8 0x0f ; .u8 0x80 | cond ; .i32 rel);
    }

    /// Moves all pinned registers to memory; changes no other register, no flag.
    fn save(&mut self) {
        for (guest, host) in PINS {
            let d = abi::int_offset(guest) - BIAS;
            dynasm!(self.asm ; .arch x64 ; mov [DWORD rbp + d], Rq(host));
        }
        for (guest, host) in FP_PINS {
            dynasm!(self.asm ; .arch x64 ; movsd [DWORD rbp + fp_disp(guest)], Rx(host));
        }
    }

    fn load(&mut self) {
        for (guest, host) in PINS {
            let d = abi::int_offset(guest) - BIAS;
            dynasm!(self.asm ; .arch x64 ; mov Rq(host), [DWORD rbp + d]);
        }
        for (guest, host) in FP_PINS {
            dynasm!(self.asm ; .arch x64 ; movsd Rx(host), [DWORD rbp + fp_disp(guest)]);
        }
    }

    /// Leaves for `kind` with a number in EAX.
    fn leave_at(&mut self, kind: ExitKind, leave_stopped: u64) -> u64 {
        let at = self.here();
        dynasm!(self.asm ; .arch x64
            ; mov eax, eax
            ; mov [DWORD rbp + word_disp(word::SITE)], rax
            ; mov QWORD [DWORD rbp + word_disp(word::EXIT)], kind as i32
        );
        self.jump(leave_stopped);
        at
    }
}

impl Stubs {
    /// Makes the stubs at the start of an empty arena.
    pub fn make(arena: &mut Arena) -> Result<Stubs, ArenaError> {
        let mut m = Maker { asm: SimpleAssembler::new(), base: arena.next(64) };
        let mut s = Stubs { two: m.here(), ..Stubs::default() };
        dynasm!(m.asm ; .arch x64 ; .i64 0x4000_0000_0000_0000 ; .i64 0);
        s.enter = m.here();
        dynasm!(m.asm ; .arch x64
            ; push rbp ; push rbx ; push r12 ; push r13 ; push r14 ; push r15
            ; sub rsp, 8
            ; mov [rdi + abi::word_offset(word::HOST_SP)], rsp
            ; mov rsp, [rdi + abi::word_offset(word::STACK_TOP)]
            ; ldmxcsr [rdi + abi::word_offset(word::MXCSR)]
            ; lea rbp, [rdi + BIAS]
            ; mov rax, rsi
        );
        m.load();
        dynasm!(m.asm ; .arch x64 ; jmp rax);

        m.align();
        s.unwind = m.here();
        dynasm!(m.asm ; .arch x64 ; mov eax, STOPPED as i32);
        let leave = m.here();
        m.save();
        let leave_saved = m.here();
        dynasm!(m.asm ; .arch x64
            ; ldmxcsr [DWORD rbp + word_disp(word::MXCSR) + 4]
            ; mov rsp, [DWORD rbp + word_disp(word::HOST_SP)]
            ; add rsp, 8
            ; pop r15 ; pop r14 ; pop r13 ; pop r12 ; pop rbx ; pop rbp
            ; ret
        );
        s.poll = m.leave_at(ExitKind::Poll, s.unwind);
        s.count = m.leave_at(ExitKind::Count, s.unwind);
        s.hot = m.leave_at(ExitKind::Hot, s.unwind);
        s.stop = m.leave_at(ExitKind::Step, s.unwind);
        s.link = m.leave_at(ExitKind::Link, s.unwind);

        m.align();
        s.step = m.here();
        let step = step_at as *const () as i64;
        dynasm!(m.asm ; .arch x64 ; sub rsp, 8);
        m.save();
        dynasm!(m.asm ; .arch x64
            ; lea rdi, [rbp - BIAS]
            ; mov esi, eax
            ; mov rax, QWORD step
            ; ldmxcsr [DWORD rbp + word_disp(word::MXCSR) + 4]
            ; call rax
            ; ldmxcsr [DWORD rbp + word_disp(word::MXCSR)]
        );
        m.load();
        dynasm!(m.asm ; .arch x64
            ; add rsp, 8
            ; test eax, eax
            ; jnz BYTE 1
            ; ret
            // The interpreter has left an exit; memory holds all registers.
            ; add rsp, 8
            ; mov eax, STOPPED as i32
        );
        m.jump(leave_saved);

        m.align();
        s.lookup = m.here();
        let mask = (JUMP_CACHE_ENTRIES as i32 - 1) << 2;
        dynasm!(m.asm ; .arch x64
            ; mov rdx, [DWORD rbp + word_disp(word::JUMPS)]
            ; mov ecx, eax
            ; and ecx, DWORD mask
            ; cmp DWORD [BYTE rbp + POLL], BYTE 0
            ; jne BYTE 10
            ; cmp [rdx + rcx * 4], rax
            ; jne BYTE 4
            ; jmp QWORD [BYTE rdx + rcx * 4 + 8]
        );
        m.jump(leave);

        m.align();
        s.region = m.here();
        m.save();
        let region_saved = m.here();
        dynasm!(m.asm ; .arch x64 ; sub rsp, 16 ; mov [rsp], rbp ; lea rdi, [rbp - BIAS]);
        for (guest, host) in ARGS.into_iter().zip([6, 2, 1, 8, 9]) {
            dynasm!(m.asm ; .arch x64 ; mov Rq(host), [rdi + abi::int_offset(guest)]);
        }
        dynasm!(m.asm ; .arch x64 ; call rax ; mov rbp, [rsp] ; add rsp, 16);
        for (guest, host) in abi::RESULTS.into_iter().zip([1, 2, 6, 7, 8, 9]) {
            let d = abi::int_offset(guest) - BIAS;
            dynasm!(m.asm ; .arch x64 ; mov [DWORD rbp + d], Rq(host));
        }
        m.load();
        m.jump(s.lookup);

        m.align();
        let performed = m.here();
        // At once, but no region is there.
        dynasm!(m.asm ; .arch x64 ; cmp edx, went::TO_UNIT as i32);
        m.jump_if(cc::NE, leave_saved);
        m.load();
        m.jump(s.lookup);
        m.align();
        s.pal = m.here();
        m.save();
        dynasm!(m.asm ; .arch x64 ; mov esi, eax);
        let asked = m.here();
        let at_once = palcode::at_once as *const () as i64;
        let call_pal = palcode::call_pal as *const () as i64;
        dynasm!(m.asm ; .arch x64
            ; mov [DWORD rbp + word_disp(word::RESULT)], rsi
            ; lea rdi, [rbp - BIAS]
            ; mov rax, QWORD at_once
            ; call rax
            ; cmp edx, went::TO_REGION as i32
        );
        m.jump_if(cc::E, region_saved);
        m.jump_if(cc::A, performed);
        dynasm!(m.asm ; .arch x64
            ; mov rsi, [DWORD rbp + word_disp(word::RESULT)]
            ; ldmxcsr [DWORD rbp + word_disp(word::MXCSR) + 4]
            ; lea rdi, [rbp - BIAS]
            ; mov rax, QWORD call_pal
            ; call rax
            ; ldmxcsr [DWORD rbp + word_disp(word::MXCSR)]
        );
        m.load();
        dynasm!(m.asm ; .arch x64 ; test al, BYTE STOPPED as i8 ; jnz BYTE 5);
        m.jump(s.lookup);
        m.jump(leave_saved);
        m.align();
        s.region_pal = m.here();
        // The regions' frames go: a pc in another mode must not be taken for a return.
        dynasm!(m.asm ; .arch x64
            ; lea rbp, [rdi + BIAS]
            ; mov rsp, [rdi + abi::word_offset(word::STACK_TOP)]
        );
        m.jump(asked);

        m.align();
        s.load_s = m.here();
        load_s(&mut m);
        m.align();
        s.store_s = m.here();
        dynasm!(m.asm ; .arch x64
            ; mov rcx, rax
            ; shr rcx, 32
            ; and ecx, DWORD 0xc000_0000u32 as i32
            ; shr rax, 29
            ; and eax, DWORD 0x3fff_ffff
            ; or eax, ecx
            ; ret
        );
        m.align();
        let placed = arena.place(&m.asm.ops, 64, 0)?;
        assert_eq!(placed as u64, m.base, "nothing else was placed meanwhile");
        s.size = arena.used();
        Ok(s)
    }
}

/// Normal numbers are what the host's conversion makes of them; denormals, infinities and NaNs only
/// move their fields (AARM 4.8.1: the exponent's special values are mapped, nothing is quieted).
fn load_s(m: &mut Maker) {
    dynasm!(m.asm ; .arch x64
        ; lea ecx, [rax + rax]
        ; sub ecx, DWORD 0x0100_0000
        ; cmp ecx, DWORD 0xfe00_0000u32 as i32
        ; jae BYTE 14
        ; movd xmm0, eax
        ; cvtss2sd xmm0, xmm0
        ; movq rax, xmm0
        ; ret
    );
    // Exponent 0 or 255.
    dynasm!(m.asm ; .arch x64
        ; mov ecx, eax
        ; and ecx, DWORD 0x8000_0000u32 as i32
        ; shl rcx, 32
        ; and eax, DWORD 0x7fff_ffff
        ; shl rax, 29
        ; or rcx, rax
        ; shr rax, 52
        ; jz BYTE 13
        ; mov rax, QWORD (2047 - 255) << 52
        ; add rcx, rax
        ; mov rax, rcx
        ; ret
    );
}
