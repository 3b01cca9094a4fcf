//! What each kind of instruction does to a processor and memory: the one definition behind both
//! loops of the interpreter and [`step`](super::step).
//!
//! [`Exec`] has a method for each [`Kind`](crate::isa::Kind); `rows` maps the instruction table to
//! them. All are inlined; what is constant at the call folds away.

use std::sync::atomic::{Ordering, compiler_fence, fence};

use super::clock;
use super::memory::Memory;
use crate::block::Dialect;
use crate::cpu::lock::{self, LockSize};
use crate::cpu::{ArithTrap, Cpu, Exit};
use crate::fp::{self, FpFn, exc};
use crate::isa::{Insn, Opcode, PalVariant, SINK, Vms, ZERO};
use crate::mem::{Access, FaultKind, MemFault};

/// FPCR bit 57, integer overflow (AARM 4.7.8).
const FPCR_IOV: u64 = 1 << 57;

/// An instruction whose register fields are known to be slots of the register files.
#[derive(Clone, Copy)]
pub(super) struct Checked<'a>(&'a Insn);

impl<'a> Checked<'a> {
    /// The instruction, if its fields are in range; all that [`decode`](crate::isa::decode) makes
    /// are.
    pub fn new(insn: &'a Insn) -> Option<Self> {
        (insn.a <= SINK && insn.b <= SINK && insn.c <= SINK).then_some(Checked(insn))
    }

    /// The instruction without a test.
    ///
    /// # Safety
    /// [`Checked::new`] must have accepted this instruction.
    #[inline(always)]
    pub unsafe fn new_unchecked(insn: &'a Insn) -> Self {
        Checked(insn)
    }

    /// The instruction.
    #[inline(always)]
    pub fn insn(self) -> &'a Insn {
        self.0
    }
}

/// Why an instruction did not simply lead to the next one. Becomes an [`Exit`] where the program
/// counter is known.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// Nothing was done.
    Fault(MemFault),
    /// Nothing was done.
    Unaligned(MemFault),
    /// The result is written.
    Arith {
        /// EXC_SUM.
        summary: u64,
        /// Register write mask.
        write_mask: u64,
    },
    /// CALL_PAL with this function.
    CallPal(u32),
    /// Nothing was done; [`Quick`] memory could not do it. Repeat with the real memory.
    Retry,
}

impl Stop {
    /// Whether the instruction has retired: it is counted, and `pc` is the next one.
    pub fn retired(&self) -> bool {
        matches!(self, Stop::Arith { .. } | Stop::CallPal(_))
    }

    /// The guest event of the instruction at `pc`; sets `cpu.pc`.
    pub fn into_exit(self, cpu: &mut Cpu, pc: u64) -> Exit {
        cpu.pc = if self.retired() { pc.wrapping_add(4) } else { pc };
        match self {
            Stop::Fault(fault) => Exit::Fault(fault),
            Stop::Unaligned(fault) => Exit::Unaligned(fault),
            Stop::Arith { summary, write_mask } => {
                Exit::Arith(ArithTrap { summary, write_mask, pc })
            }
            Stop::CallPal(code) => Exit::CallPal(code),
            Stop::Retry => unreachable!("only quick memory asks for it"),
        }
    }
}

/// What an effect may depend on beside registers and memory; constant during a run.
#[derive(Clone, Copy)]
pub(super) struct Env {
    pub dialect: Dialect,
    pub counted: bool,
}

/// One instruction about to execute. Short-lived: made, used by one method, gone.
pub(super) struct Exec<'a, M> {
    pub cpu: &'a mut Cpu,
    pub mem: M,
    pub env: &'a Env,
    pub insn: Checked<'a>,
    /// Unaligned data trap.
    pub strict: bool,
}

type Done = Result<(), Stop>;

/// Bit of a destination slot in the register write mask, which knows R31 but no sink.
const fn mask_bit(slot: u8) -> u64 {
    1 << if slot == SINK { ZERO } else { slot }
}

impl<M: Memory> Exec<'_, M> {
    #[inline(always)]
    fn r(&self, slot: u8) -> u64 {
        // SAFETY: `Checked` vouches for the slot.
        unsafe { *self.cpu.r.get_unchecked(slot as usize) }
    }

    #[inline(always)]
    fn set_r(&mut self, slot: u8, value: u64) {
        // SAFETY: `Checked` vouches for the slot.
        unsafe { *self.cpu.r.get_unchecked_mut(slot as usize) = value }
    }

    #[inline(always)]
    fn f(&self, slot: u8) -> u64 {
        // SAFETY: `Checked` vouches for the slot.
        unsafe { *self.cpu.f.get_unchecked(slot as usize) }
    }

    #[inline(always)]
    fn set_f(&mut self, slot: u8, value: u64) {
        // SAFETY: `Checked` vouches for the slot.
        unsafe { *self.cpu.f.get_unchecked_mut(slot as usize) = value }
    }

    #[inline(always)]
    fn ra(&self) -> u64 {
        self.r(self.insn.0.a)
    }

    #[inline(always)]
    fn fa(&self) -> u64 {
        self.f(self.insn.0.a)
    }

    #[inline(always)]
    fn fb(&self) -> u64 {
        self.f(self.insn.0.b)
    }

    /// The register form of the second operand.
    #[inline(always)]
    pub fn register(&self) -> u64 {
        self.r(self.insn.0.b)
    }

    /// The literal form of the second operand.
    #[inline(always)]
    pub fn literal(&self) -> u64 {
        self.insn.0.imm as u64
    }

    /// The second operand of either form: the one that is absent is zero.
    #[inline(always)]
    pub fn operand(&self) -> u64 {
        self.register() | self.literal()
    }

    #[inline(always)]
    fn address(&self) -> u64 {
        self.register().wrapping_add(self.insn.0.imm as i64 as u64)
    }

    #[inline(always)]
    pub fn lea(mut self, shift: u32) -> Done {
        let disp = (self.insn.0.imm as i64 as u64) << shift;
        self.set_r(self.insn.0.a, self.register().wrapping_add(disp));
        Ok(())
    }

    /// Whether the datum at `va` must trap.
    #[inline(always)]
    fn misaligned(&self, va: u64, size: u64) -> bool {
        va & (size - 1) != 0
    }

    #[inline(always)]
    fn checked_load<T>(
        &self,
        size: u64,
        strict: bool,
        load: impl FnOnce(M, u64) -> Result<T, M::Failure>,
    ) -> Result<T, Stop> {
        let va = self.address();
        if strict && self.misaligned(va, size) {
            return Err(unaligned(va, Access::Load));
        }
        load(self.mem, va).map_err(Into::into)
    }

    /// A load to R31 or F31 is a prefetch and never faults (AARM 4.11.4, A.3).
    #[inline(always)]
    fn or_prefetch(&self, stop: Stop) -> Done {
        match stop {
            Stop::Fault(_) | Stop::Unaligned(_) if self.insn.0.a == SINK => Ok(()),
            stop => Err(stop),
        }
    }

    #[inline(always)]
    pub fn load(mut self, size: u64, load: impl FnOnce(M, u64) -> Result<u64, M::Failure>) -> Done {
        match self.checked_load(size, self.strict, load) {
            Ok(value) => {
                self.set_r(self.insn.0.a, value);
                Ok(())
            }
            Err(stop) => self.or_prefetch(stop),
        }
    }

    #[inline(always)]
    pub fn load_unaligned(mut self) -> Done {
        // LDQ_U to R31 is UNOP: it touches nothing.
        if self.insn.0.a != SINK {
            let value = self.mem.load_u64(self.address() & !7).map_err(Into::into)?;
            self.set_r(self.insn.0.a, value);
        }
        Ok(())
    }

    #[inline(always)]
    pub fn load_locked(mut self, size: LockSize) -> Done {
        let va = self.address();
        let value = lock::load_locked(self.cpu, self.mem.space()?, va, size).map_err(lock_stop)?;
        self.set_r(self.insn.0.a, value);
        Ok(())
    }

    #[inline(always)]
    fn checked_store(
        &self,
        size: u64,
        strict: bool,
        store: impl FnOnce(M, u64) -> Result<(), M::Failure>,
    ) -> Done {
        let va = self.address();
        if strict && self.misaligned(va, size) {
            return Err(unaligned(va, Access::Store));
        }
        store(self.mem, va).map_err(Into::into)
    }

    #[inline(always)]
    pub fn store(
        self,
        size: u64,
        store: impl FnOnce(M, u64, u64) -> Result<(), M::Failure>,
    ) -> Done {
        let value = self.ra();
        self.checked_store(size, self.strict, |mem, va| store(mem, va, value))
    }

    #[inline(always)]
    pub fn store_unaligned(self) -> Done {
        self.mem.store_u64(self.address() & !7, self.ra()).map_err(Into::into)
    }

    #[inline(always)]
    pub fn store_conditional(mut self, size: LockSize) -> Done {
        let (va, value) = (self.address(), self.ra());
        let mem = self.mem.space()?;
        let stored = lock::store_conditional(self.cpu, mem, va, value, size).map_err(lock_stop)?;
        self.set_r(self.insn.0.c, u64::from(stored));
        Ok(())
    }

    #[inline(always)]
    pub fn alu(mut self, b: u64, f: impl FnOnce(u64, u64) -> u64) -> Done {
        self.set_r(self.insn.0.c, f(self.ra(), b));
        Ok(())
    }

    #[inline(always)]
    pub fn alu_v(mut self, b: u64, f: impl FnOnce(u64, u64) -> (u64, bool)) -> Done {
        let c = self.insn.0.c;
        let (value, overflow) = f(self.ra(), b);
        self.set_r(c, value);
        if overflow {
            self.cpu.fpcr |= FPCR_IOV;
            return Err(Stop::Arith { summary: exc::IOV, write_mask: mask_bit(c) });
        }
        Ok(())
    }

    #[inline(always)]
    pub fn cmov(mut self, b: u64, condition: impl FnOnce(u64) -> bool) -> Done {
        if condition(self.ra()) {
            self.set_r(self.insn.0.c, b);
        }
        Ok(())
    }

    /// A floating-point load; `strict` for the VAX formats, whose unaligned data nobody fixes up.
    #[inline(always)]
    pub fn fload(
        mut self,
        size: u64,
        strict: bool,
        load: impl FnOnce(M, u64) -> Result<u64, M::Failure>,
    ) -> Done {
        match self.checked_load(size, strict, load) {
            Ok(value) => {
                self.set_f(self.insn.0.a, value);
                Ok(())
            }
            Err(stop) => self.or_prefetch(stop),
        }
    }

    #[inline(always)]
    pub fn fstore(
        self,
        size: u64,
        strict: bool,
        store: impl FnOnce(M, u64, u64) -> Result<(), M::Failure>,
    ) -> Done {
        let value = self.fa();
        self.checked_store(size, strict, |mem, va| store(mem, va, value))
    }

    #[inline(always)]
    pub fn fp(mut self, f: FpFn) -> Done {
        let c = self.insn.0.c;
        let result = f(self.fa(), self.fb(), self.insn.0.qual, self.cpu.fpcr);
        self.set_f(c, result.value);
        self.cpu.fpcr |= result.status();
        if result.trap() != 0 {
            return Err(Stop::Arith { summary: result.trap(), write_mask: mask_bit(c) << 32 });
        }
        Ok(())
    }

    #[inline(always)]
    pub fn fmove(mut self, f: impl FnOnce(u64, u64) -> u64) -> Done {
        self.set_f(self.insn.0.c, f(self.fa(), self.fb()));
        Ok(())
    }

    #[inline(always)]
    pub fn fcmov(mut self, condition: impl FnOnce(u64) -> bool) -> Done {
        if condition(self.fa()) {
            self.set_f(self.insn.0.c, self.fb());
        }
        Ok(())
    }

    #[inline(always)]
    pub fn mt_fpcr(self) -> Done {
        self.cpu.fpcr = fp::mt_fpcr(self.fa());
        Ok(())
    }

    #[inline(always)]
    pub fn mf_fpcr(mut self) -> Done {
        self.set_f(self.insn.0.a, fp::mf_fpcr(self.cpu.fpcr));
        Ok(())
    }

    #[inline(always)]
    pub fn itof(mut self, f: impl FnOnce(u64) -> u64) -> Done {
        self.set_f(self.insn.0.c, f(self.ra()));
        Ok(())
    }

    #[inline(always)]
    pub fn ftoi(mut self, f: impl FnOnce(u64) -> u64) -> Done {
        self.set_r(self.insn.0.c, f(self.fa()));
        Ok(())
    }

    /// TRAPB and EXCB: traps are precise, there is nothing to wait for.
    #[inline(always)]
    pub fn barrier(self) -> Done {
        Ok(())
    }

    /// MB orders everything. WMB orders stores, which the host does by itself.
    #[inline(always)]
    pub fn fence(self) -> Done {
        if self.insn.0.op == Opcode::Mb {
            fence(Ordering::SeqCst);
        } else {
            compiler_fence(Ordering::SeqCst);
        }
        Ok(())
    }

    /// FETCH, FETCH_M, ECB, WH64, WH64EN: advice, which never faults.
    #[inline(always)]
    pub fn hint(self) -> Done {
        Ok(())
    }

    #[inline(always)]
    pub fn rpcc(mut self) -> Done {
        let value = clock::rpcc(self.cpu, self.env.counted);
        self.set_r(self.insn.0.a, value);
        Ok(())
    }

    /// RC and RS: read the flag, then clear or set it (AARM 4.12).
    #[inline(always)]
    pub fn intr_flag(mut self, after: u64) -> Done {
        let before = std::mem::replace(&mut self.cpu.intr_flag, after);
        self.set_r(self.insn.0.a, before);
        Ok(())
    }

    #[inline(always)]
    pub fn amask(mut self, b: u64) -> Done {
        self.set_r(self.insn.0.c, b & !self.env.dialect.model.amask());
        Ok(())
    }

    #[inline(always)]
    pub fn implver(mut self) -> Done {
        self.set_r(self.insn.0.c, self.env.dialect.model.implver());
        Ok(())
    }

    #[inline(always)]
    pub fn pal(self) -> Done {
        let code = self.insn.0.imm as u32;
        let pal = self.env.dialect.pal;
        if !pal.performs(code) {
            return Err(Stop::CallPal(code));
        }
        // Both variants give the unique value the same numbers.
        match Vms::from_code(code) {
            Some(Vms::ReadUnq) => self.cpu.r[0] = self.cpu.unique,
            Some(Vms::WriteUnq) => self.cpu.unique = self.cpu.r[16],
            Some(Vms::Prober | Vms::Probew) if pal == PalVariant::Vms => {
                let [base, offset, mode] = [16, 17, 18].map(|r| self.cpu.r[r]);
                let write = code == Vms::Probew as u32;
                let space = self.mem.space()?;
                let Some(system) = space.system() else { return Err(Stop::CallPal(code)) };
                let accessible = system.probe_range(base, offset, mode, write)?;
                self.cpu.r[0] = u64::from(accessible);
            }
            _ => return Err(Stop::CallPal(code)),
        }
        Ok(())
    }

    /// BR and BSR: writes the link.
    #[inline(always)]
    pub fn link(&mut self, next: u64) {
        self.set_r(self.insn.0.a, next);
    }

    #[inline(always)]
    pub fn taken(&self, condition: impl FnOnce(u64) -> bool) -> bool {
        condition(self.ra())
    }

    #[inline(always)]
    pub fn taken_f(&self, condition: impl FnOnce(u64) -> bool) -> bool {
        condition(self.fa())
    }

    /// JMP, JSR, RET, JSR_COROUTINE: the target, read before the link is written.
    #[inline(always)]
    pub fn jump(&mut self, next: u64) -> u64 {
        let target = self.register() & !3;
        self.set_r(self.insn.0.a, next);
        target
    }
}

#[cold]
fn unaligned(va: u64, access: Access) -> Stop {
    Stop::Unaligned(MemFault { va, access, why: FaultKind::Unaligned })
}

#[cold]
fn lock_stop(fault: MemFault) -> Stop {
    if fault.why == FaultKind::Unaligned { Stop::Unaligned(fault) } else { Stop::Fault(fault) }
}
