//! Signal frames: how a handler is entered and how it returns.
//!
//! Layouts of `arch/alpha/include/uapi/asm/{sigcontext,ucontext}.h`; unwinders depend on them.

use super::Linux;
use super::abi::Layout;
use super::call::Call;
use super::errno::{Errno, SysResult};
use super::signals::{Action, SA_SIGINFO, SigInfo};
use crate::cpu::{LOCK_FREE, Vcpu};
use crate::fp::fpcr::{mf_fpcr, mt_fpcr};

/// `struct sigcontext`.
const SIGCONTEXT: usize = 648;
/// The sigcontext of an rt frame: siginfo 128, ucontext header 48.
const RT_CONTEXT: usize = 176;
const RT_SIGMASK: usize = 824;
const RT_RETCODE: usize = 832;
const RT_FRAME: usize = 848;
/// sigcontext, then the return code.
const OLD_FRAME: usize = SIGCONTEXT + 16;

const NR_SIGRETURN: u32 = 103;
const NR_RT_SIGRETURN: u32 = 351;

/// `mov $30,$16; ldi $0,nr; callsys`.
fn return_code(number: u32) -> [u8; 12] {
    let words = [0x47fe_0410, 0x201f_0000 | number, 0x0000_0083u32];
    let mut out = [0; 12];
    for (i, word) in words.iter().enumerate() {
        out[4 * i..4 * i + 4].copy_from_slice(&word.to_le_bytes());
    }
    out
}

fn sigcontext(vcpu: &Vcpu, info: &SigInfo, mask: u64, on_stack: bool) -> Layout<SIGCONTEXT> {
    let cpu = &vcpu.cpu;
    let mut out = Layout::new();
    out.u64(0, u64::from(on_stack));
    out.u64(8, mask);
    out.u64(16, cpu.pc);
    out.u64(24, 8);
    for i in 0..31 {
        out.u64(32 + 8 * i, cpu.r[i]);
        out.u64(296 + 8 * i, cpu.f[i]);
    }
    out.u64(288, 1);
    out.u64(552, mf_fpcr(cpu.fpcr));
    for (i, arg) in info.trap_args.iter().enumerate() {
        out.u64(600 + 8 * i, *arg);
    }
    out
}

/// Builds a frame below `top` and enters the handler. Gives the range of code it wrote, if any.
pub fn build(
    linux: &Linux,
    vcpu: &mut Vcpu,
    info: &SigInfo,
    action: &Action,
    old_mask: u64,
    top: u64,
) -> Result<Option<(u64, u64)>, Errno> {
    let rt = action.flags & SA_SIGINFO != 0;
    let size = if rt { RT_FRAME } else { OLD_FRAME } as u64;
    let frame = top.wrapping_sub(size) & !31;
    let on_stack = linux.task.altstack.holds(vcpu.cpu.r[30]);
    let context = sigcontext(vcpu, info, old_mask, on_stack);
    let (image, context_at, code_at, number) = if rt {
        let mut out = Layout::<RT_FRAME>::new();
        out.bytes(0, &info.bytes);
        // ucontext: flags 0, link 8, osf_sigmask 16, stack 24, mcontext 48.
        out.u64(128 + 16, old_mask);
        out.u64(128 + 24, linux.task.altstack.sp);
        out.u32(128 + 32, linux.task.altstack.flags_at(vcpu.cpu.r[30]));
        out.u64(128 + 40, linux.task.altstack.size);
        out.bytes(RT_CONTEXT, &context.0);
        out.u64(RT_SIGMASK, old_mask);
        out.bytes(RT_RETCODE, &return_code(NR_RT_SIGRETURN));
        (out.0.to_vec(), 128, RT_RETCODE as u64, NR_RT_SIGRETURN)
    } else {
        let mut out = Layout::<OLD_FRAME>::new();
        out.bytes(0, &context.0);
        out.bytes(SIGCONTEXT, &return_code(NR_SIGRETURN));
        (out.0.to_vec(), 0, SIGCONTEXT as u64, NR_SIGRETURN)
    };
    debug_assert!(number > 0);
    vcpu.mem.write_bytes(frame, &image)?;
    let code = frame + code_at;
    let cpu = &mut vcpu.cpu;
    cpu.r[16] = info.signal() as u64;
    cpu.r[17] = if rt { frame } else { 0 };
    cpu.r[18] = frame + context_at;
    cpu.r[26] = if action.restorer != 0 { action.restorer } else { code };
    cpu.r[27] = action.handler;
    cpu.r[30] = frame;
    cpu.pc = action.handler & !3;
    Ok((action.restorer == 0).then_some((code, code + 12)))
}

/// Loads a processor from a sigcontext.
fn restore(c: &mut Call<'_>, at: u64) -> Result<(), Errno> {
    let context = Layout(c.read::<SIGCONTEXT>(at)?);
    let cpu = &mut c.vcpu.cpu;
    cpu.pc = context.get_u64(16) & !3;
    for i in 0..31 {
        cpu.r[i] = context.get_u64(32 + 8 * i);
        cpu.f[i] = context.get_u64(296 + 8 * i);
    }
    cpu.fpcr = mt_fpcr(context.get_u64(552));
    // The return from the trap breaks a lock (AARM 4.2.5).
    cpu.lock_addr = LOCK_FREE;
    Ok(())
}

fn bad_frame(c: &mut Call<'_>) -> Errno {
    let sp = c.vcpu.cpu.r[30];
    c.linux.raise(SigInfo::fault(super::abi::sig::SEGV, super::signals::SEGV_MAPERR, sp));
    Errno::NO_RESULT
}

/// sigreturn: $16 is a sigcontext anywhere, as setcontext uses it.
pub fn sigreturn(c: &mut Call<'_>) -> SysResult {
    let at = c.a[0];
    let Ok(mask) = c.read_u64(at.wrapping_add(8)) else { return Err(bad_frame(c)) };
    if restore(c, at).is_err() {
        return Err(bad_frame(c));
    }
    c.linux.set_mask(mask);
    Err(Errno::NO_RESULT)
}

/// rt_sigreturn: $16 is the frame.
pub fn rt_sigreturn(c: &mut Call<'_>) -> SysResult {
    let frame = c.a[0];
    let Ok(mask) = c.read_u64(frame.wrapping_add(RT_SIGMASK as u64)) else {
        return Err(bad_frame(c));
    };
    if restore(c, frame.wrapping_add(RT_CONTEXT as u64)).is_err() {
        return Err(bad_frame(c));
    }
    c.linux.set_mask(mask);
    Err(Errno::NO_RESULT)
}
