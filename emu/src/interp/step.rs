//! One instruction by a match over the opcode: the slow path of every engine, the rest of a block
//! that does not fit a limit, and the body of the match loop.

use super::effect::{Checked, Env, Exec, Stop};
use super::rows::effect;
use super::rows::names::*;
use crate::block::Dialect;
use crate::cpu::lock::LockSize;
use crate::cpu::{Cpu, Exit, UnalignedPolicy, Vcpu};
use crate::for_each_insn;
use crate::isa::{Insn, Opcode};
use crate::mem::AddressSpace;

/// `arm!(kind(semantics), exec, pc, next)`: the address to go on at, or why not.
macro_rules! arm {
    (branch(), $x:expr, $pc:ident, $next:ident) => {{
        let mut x = $x;
        x.link($next);
        Ok(x.insn.insn().branch_target($pc))
    }};
    (cond_branch($f:path), $x:expr, $pc:ident, $next:ident) => {{
        let x = $x;
        Ok(if x.taken($f) { x.insn.insn().branch_target($pc) } else { $next })
    }};
    (cond_branch_f($f:path), $x:expr, $pc:ident, $next:ident) => {{
        let x = $x;
        Ok(if x.taken_f($f) { x.insn.insn().branch_target($pc) } else { $next })
    }};
    (jump(), $x:expr, $pc:ident, $next:ident) => {{
        let mut x = $x;
        Ok(x.jump($next))
    }};
    ($k:ident $s:tt, $x:expr, $pc:ident, $next:ident) => {
        effect!($k $s, $x, operand).map(|()| $next)
    };
}

macro_rules! define_execute {
    ($($v:ident = $m:literal, $f:ident $e:tt, $k:ident $s:tt, $x:ident;)*) => {
        /// Executes the instruction at `pc`; gives the address to go on at.
        #[inline(always)]
        pub(super) fn execute(
            cpu: &mut Cpu,
            mem: &AddressSpace,
            env: &Env,
            insn: Checked<'_>,
            strict: bool,
            pc: u64,
        ) -> Result<u64, Stop> {
            let next = pc.wrapping_add(4);
            let x = Exec { cpu, mem, env, insn, strict };
            match insn.insn().op {
                $(Opcode::$v => arm!($k $s, x, pc, next),)*
            }
        }
    };
}
for_each_insn!(define_execute);

/// Executes exactly one instruction, which stands at `cpu.pc`, and moves `cpu.pc` on.
///
/// For engines that meet an instruction they have no code for. `Err` is the guest event, with
/// `cpu.pc` as [`Exit`] says. Does not touch `cpu.count`, which must be up to date before an RPCC
/// of a counted run. Whether the CPU model has the instruction is for the caller to know
/// ([`Block`](crate::block::Block) ends before one that it lacks).
pub fn step(vcpu: &mut Vcpu, insn: &Insn) -> Result<(), Exit> {
    let Some(checked) = Checked::new(insn) else {
        return Err(Exit::Illegal(0));
    };
    let env = Env { dialect: Dialect::of(vcpu), counted: vcpu.counted };
    let strict = vcpu.unaligned == UnalignedPolicy::Trap;
    let pc = vcpu.cpu.pc;
    match execute(&mut vcpu.cpu, &vcpu.mem, &env, checked, strict, pc) {
        Ok(next) => {
            vcpu.cpu.pc = next;
            Ok(())
        }
        Err(stop) => Err(stop.into_exit(&mut vcpu.cpu, pc)),
    }
}
