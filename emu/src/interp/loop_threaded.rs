//! The fast loop: each pre-decoded instruction carries the address of its handler, and every
//! handler ends by calling the next one in tail position.
//!
//! All handlers have one signature and keep no local alive across that call, so that LLVM makes a
//! jump of it from opt-level 2 on, which the workspace's profiles force for this crate; a test runs
//! 10^8 instructions on a small stack. The six arguments live in host registers from instruction to
//! instruction.
//!
//! A block's translation is [`Code`]: operations in a row, the last of which leads to the next
//! block through a [`Link`]. The instruction limit is kept by blocks: entering one takes its length
//! from the budget, leaving it early gives the rest back.

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use super::effect::names::*;
use super::effect::{Checked, Env, Exec, Memory, Quick, Stop, effect};
use super::step::execute;
use crate::block::{Block, BlockEnd};
use crate::cpu::Cpu;
use crate::cpu::lock::LockSize;
use crate::for_each_insn;
use crate::isa::{Insn, Kind, Opcode, SINK, ZERO};
use crate::mem::AddressSpace;

/// Arguments: processor, this operation, memory, instructions left, this block, the run.
type Handler =
    unsafe extern "C" fn(*mut Cpu, *const Op, *const AddressSpace, i64, *mut Code, *mut Run<'_>);

/// A pre-decoded instruction.
#[repr(C)]
struct Op {
    run: Handler,
    insn: Insn,
    /// Position of the instruction in its block.
    index: u32,
}

/// The way to another block; null until it has been taken once.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Link {
    op: *const Op,
    code: *mut Code,
}

const UNLINKED: Link = Link { op: ptr::null(), code: ptr::null_mut() };

/// A translated block.
#[repr(C)]
pub(super) struct Code {
    /// Address of the first instruction.
    pc: u64,
    /// Number of instructions.
    len: i64,
    /// Address after the last instruction.
    end: u64,
    /// Where the last instruction branches to; for a jump, where it went when `taken` was linked.
    target: u64,
    /// The block at `target`.
    taken: Link,
    /// The block at `end`.
    next: Link,
    ops: Box<[Op]>,
}

/// Owner of a [`Code`], which has a fixed address and is reached through raw pointers only.
pub(super) struct CodeBox(NonNull<Code>);

impl CodeBox {
    fn new(code: Code) -> Self {
        CodeBox(NonNull::from(Box::leak(Box::new(code))))
    }

    /// Where to enter the block.
    pub fn entry(&self) -> Link {
        // SAFETY: the block is ours; handlers, which change its links, do not run meanwhile.
        let ops = unsafe { &self.0.as_ref().ops };
        Link { op: ops.as_ptr(), code: self.0.as_ptr() }
    }

    /// Forgets which blocks follow.
    pub fn unlink(&mut self) {
        // SAFETY: the block is ours and no handler runs while we are borrowed.
        let code = unsafe { self.0.as_mut() };
        code.taken = UNLINKED;
        code.next = UNLINKED;
    }
}

impl Drop for CodeBox {
    fn drop(&mut self) {
        // SAFETY: made by `Box::leak` in `new`, dropped once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Entries of [`JumpTable`].
const JUMPS: usize = 4096;

/// Recent targets of jumps, by address.
pub(super) struct JumpTable(Box<[(u64, Link)]>);

impl JumpTable {
    pub fn new() -> Self {
        JumpTable(vec![(u64::MAX, UNLINKED); JUMPS].into())
    }

    pub fn clear(&mut self) {
        self.0.fill((u64::MAX, UNLINKED));
    }

    fn slot(pc: u64) -> usize {
        (pc >> 2) as usize & (JUMPS - 1)
    }

    /// Notes the block at `pc`.
    pub fn insert(&mut self, pc: u64, link: Link) {
        self.0[Self::slot(pc)] = (pc, link);
    }
}

/// How the handlers gave control back.
#[derive(Debug)]
pub(super) enum Outcome {
    /// To go on at `Run::pc`: the way is not linked, or the next block does not fit the budget.
    Leave,
    /// `cpu.poll` is set; to go on at `Run::pc`.
    Poll,
    /// The block ends before a word that is no instruction, at `Run::pc`.
    Illegal(u32),
    /// The instruction at `Run::pc` stopped.
    Stop(Stop),
}

/// What handlers know beside their arguments, and what they leave behind.
pub(super) struct Run<'a> {
    pub env: &'a Env,
    /// Unaligned data trap.
    pub strict: bool,
    pub jumps: *mut JumpTable,
    /// `cpu.count` plus the budget at the start: their difference is what has retired.
    pub goal: u64,
    pub outcome: Outcome,
    pub pc: u64,
    pub budget: i64,
    /// The link that was found empty, to be filled with the block at `pc`.
    pub link: *mut Link,
}

/// Runs from the start of a block, whose length has not been taken from `budget` yet, until an
/// outcome.
///
/// # Safety
/// `link` must come from [`CodeBox::entry`] of a block that, like all that it is linked with, lives on.
pub(super) unsafe fn enter(
    cpu: &mut Cpu,
    mem: &AddressSpace,
    link: Link,
    budget: i64,
    run: &mut Run<'_>,
) {
    // SAFETY: by the contract; the first operation of a block always exists.
    unsafe { ((*link.op).run)(cpu, link.op, mem, budget - (*link.code).len, link.code, run) }
}

/// Fills the link that a run found empty.
///
/// # Safety
/// `run.link` must be null or point into a live block.
pub(super) unsafe fn connect(run: &mut Run<'_>, to: Link) {
    // SAFETY: by the contract.
    unsafe {
        if let Some(link) = run.link.as_mut() {
            *link = to;
        }
    }
    run.link = ptr::null_mut();
}

/// Leaves a block at operation `op` because of `stop`.
#[cold]
#[inline(never)]
unsafe extern "C" fn halt(
    op: *const Op,
    budget: i64,
    code: *mut Code,
    run: *mut Run<'_>,
    stop: &Stop,
) {
    // SAFETY: the handler's own arguments.
    unsafe {
        let index = (*op).index;
        let retired = i64::from(index) + i64::from(stop.retired());
        (*run).pc = (*code).pc.wrapping_add(4 * u64::from(index));
        (*run).budget = budget + (*code).len - retired;
        (*run).outcome = Outcome::Stop(*stop);
    }
}

/// Leaves for `pc` after a whole block.
#[cold]
#[inline(never)]
unsafe extern "C" fn leave(pc: u64, budget: i64, run: *mut Run<'_>, link: *mut Link, poll: bool) {
    // SAFETY: the handler's own arguments.
    unsafe {
        (*run).pc = pc;
        (*run).budget = budget;
        (*run).link = link;
        (*run).outcome = if poll { Outcome::Poll } else { Outcome::Leave };
    }
}

/// Goes on with the operation after this one.
macro_rules! next {
    ($cpu:ident, $op:ident, $mem:ident, $budget:ident, $code:ident, $run:ident) => {{
        let op = $op.add(1);
        ((*op).run)($cpu, op, $mem, $budget, $code, $run)
    }};
}

/// Goes on in another block.
macro_rules! go {
    ($cpu:ident, $mem:ident, $budget:ident, $code:ident, $run:ident,
     $link:ident, $pc:expr, $poll:expr) => {{
        if $poll && (*$cpu).poll.load(Ordering::Relaxed) != 0 {
            return leave($pc, $budget, $run, ptr::null_mut(), true);
        }
        let link = (*$code).$link;
        if link.code.is_null() {
            return leave($pc, $budget, $run, &raw mut (*$code).$link, false);
        }
        let budget = $budget - (*link.code).len;
        if budget < 0 {
            return leave($pc, $budget, $run, ptr::null_mut(), false);
        }
        ((*link.op).run)($cpu, link.op, $mem, budget, link.code, $run)
    }};
}

/// Body of a handler. `$alt` chooses between the two forms that a row has: literal instead of
/// register, backward instead of forward, trapping on unaligned data instead of not.
macro_rules! body {
    (branch(), $alt:ident, $cpu:ident, $op:ident, $mem:ident, $b:ident, $code:ident, $run:ident) => {{
        exec!($cpu, $op, $mem, $run, false).link((*$code).end);
        go!($cpu, $mem, $b, $code, $run, taken, (*$code).target, $alt)
    }};
    (cond_branch($f:path), $alt:ident, $cpu:ident, $op:ident, $mem:ident, $b:ident, $code:ident, $run:ident) => {{
        if exec!($cpu, $op, $mem, $run, false).taken($f) {
            go!($cpu, $mem, $b, $code, $run, taken, (*$code).target, $alt)
        } else {
            go!($cpu, $mem, $b, $code, $run, next, (*$code).end, false)
        }
    }};
    (cond_branch_f($f:path), $alt:ident, $cpu:ident, $op:ident, $mem:ident, $b:ident, $code:ident, $run:ident) => {{
        if exec!($cpu, $op, $mem, $run, false).taken_f($f) {
            go!($cpu, $mem, $b, $code, $run, taken, (*$code).target, $alt)
        } else {
            go!($cpu, $mem, $b, $code, $run, next, (*$code).end, false)
        }
    }};
    (jump(), $alt:ident, $cpu:ident, $op:ident, $mem:ident, $b:ident, $code:ident, $run:ident) => {{
        let target = exec!($cpu, $op, $mem, $run, false).jump((*$code).end);
        if target == (*$code).target {
            go!($cpu, $mem, $b, $code, $run, taken, target, true)
        } else {
            jump_elsewhere($cpu, target, $mem, $b, $code, $run)
        }
    }};
    (rpcc(), $alt:ident, $cpu:ident, $op:ident, $mem:ident, $b:ident, $code:ident, $run:ident) => {{
        // What is left of this block has been taken from the budget already.
        let left = $b + (*$code).len - i64::from((*$op).index);
        if (*$run).env.counted {
            (*$cpu).count = (*$run).goal.wrapping_sub(left as u64);
        }
        let _ = exec!($cpu, $op, $mem, $run, false).rpcc();
        next!($cpu, $op, $mem, $b, $code, $run)
    }};
    ($k:ident $s:tt, $alt:ident, $cpu:ident, $op:ident, $mem:ident, $b:ident, $code:ident, $run:ident) => {{
        let done = if $alt {
            effect!($k $s, exec!($cpu, $op, $mem, $run, true), literal)
        } else {
            effect!($k $s, exec!($cpu, $op, $mem, $run, false), register)
        };
        match done {
            Ok(()) => next!($cpu, $op, $mem, $b, $code, $run),
            Err(Stop::Retry) => again($cpu, $op, $mem, $b, $code, $run),
            Err(stop) => halt($op, $b, $code, $run, &stop),
        }
    }};
}

macro_rules! exec {
    ($cpu:ident, $op:ident, $mem:ident, $run:ident, $strict:expr) => {
        Exec {
            cpu: &mut *$cpu,
            mem: Quick(&*$mem),
            env: (*$run).env,
            insn: Checked::new_unchecked(&(*$op).insn),
            strict: $strict,
        }
    };
}

/// Performs an instruction that its handler could not, and goes on.
#[cold]
unsafe extern "C" fn again(
    cpu: *mut Cpu,
    op: *const Op,
    mem: *const AddressSpace,
    budget: i64,
    code: *mut Code,
    run: *mut Run<'_>,
) {
    // SAFETY: the handler's own arguments.
    unsafe {
        if perform(cpu, op, mem, budget, code, run) {
            next!(cpu, op, mem, budget, code, run)
        }
    }
}

/// Executes an instruction with the real memory; false if it stopped.
#[inline(never)]
unsafe extern "C" fn perform(
    cpu: *mut Cpu,
    op: *const Op,
    mem: *const AddressSpace,
    budget: i64,
    code: *mut Code,
    run: *mut Run<'_>,
) -> bool {
    // SAFETY: the handler's own arguments; the instruction was checked by `translate`.
    unsafe {
        let insn = Checked::new_unchecked(&(*op).insn);
        match execute(&mut *cpu, &*mem, (*run).env, insn, (*run).strict, 0) {
            Ok(_) => true,
            Err(stop) => {
                halt(op, budget, code, run, &stop);
                false
            }
        }
    }
}

/// A jump that does not go where it went when it was linked.
unsafe extern "C" fn jump_elsewhere(
    cpu: *mut Cpu,
    target: u64,
    mem: *const AddressSpace,
    budget: i64,
    code: *mut Code,
    run: *mut Run<'_>,
) {
    // SAFETY: the handler's own arguments; links in the table are of live blocks.
    unsafe {
        if (*cpu).poll.load(Ordering::Relaxed) != 0 {
            return leave(target, budget, run, ptr::null_mut(), true);
        }
        let jumps = &*(*run).jumps;
        let (pc, link) = *jumps.0.get_unchecked(JumpTable::slot(target));
        if pc != target {
            // The new target takes the place of the old one.
            (*code).target = target;
            (*code).taken = UNLINKED;
            return leave(target, budget, run, &raw mut (*code).taken, false);
        }
        let left = budget - (*link.code).len;
        if left < 0 {
            return leave(target, budget, run, ptr::null_mut(), false);
        }
        ((*link.op).run)(cpu, link.op, mem, left, link.code, run)
    }
}

/// Ends a block that goes on after its last instruction.
unsafe extern "C" fn fall_through(
    cpu: *mut Cpu,
    _op: *const Op,
    mem: *const AddressSpace,
    budget: i64,
    code: *mut Code,
    run: *mut Run<'_>,
) {
    // SAFETY: the handler's own arguments; links are of live blocks.
    unsafe { go!(cpu, mem, budget, code, run, next, (*code).end, false) }
}

/// Ends a block before a word that is no instruction.
unsafe extern "C" fn illegal(
    _cpu: *mut Cpu,
    op: *const Op,
    _mem: *const AddressSpace,
    budget: i64,
    code: *mut Code,
    run: *mut Run<'_>,
) {
    // SAFETY: the handler's own arguments.
    unsafe {
        (*run).pc = (*code).end;
        (*run).budget = budget;
        (*run).outcome = Outcome::Illegal((*op).insn.imm as u32);
    }
}

macro_rules! define_handlers {
    ($($v:ident = $m:literal, $f:ident $e:tt, $k:ident $s:tt, $x:ident;)*) => {
        /// A handler for each row of the table, in two forms.
        #[allow(non_snake_case, reason = "named by opcode variants")]
        mod handlers {
            use super::*;
            $(pub(super) unsafe extern "C" fn $v<const ALT: bool>(
                cpu: *mut Cpu,
                op: *const Op,
                mem: *const AddressSpace,
                budget: i64,
                code: *mut Code,
                run: *mut Run<'_>,
            ) {
                // SAFETY: `cpu`, `mem` and `run` are those of `enter`; `op` is an operation of
                // `code`, its instruction checked by `translate`, and not the last where the
                // handler goes on to the next; links are of live blocks.
                unsafe { body!($k $s, ALT, cpu, op, mem, budget, code, run) }
            })*
        }

        static HANDLERS: &[[Handler; 2]] =
            &[$([handlers::$v::<false>, handlers::$v::<true>],)*];
    };
}
for_each_insn!(define_handlers);

/// Whether an instruction has no effect at all and needs no operation.
fn is_nothing(insn: &Insn) -> bool {
    match insn.op.kind() {
        Kind::LoadUnaligned | Kind::Lea => insn.a == SINK,
        Kind::Alu | Kind::Cmov => insn.c == SINK,
        Kind::Fmove | Kind::Fcmov => insn.c == SINK,
        Kind::Barrier | Kind::Hint => true,
        _ => false,
    }
}

/// Translates a block. `strict`: unaligned data trap.
pub(super) fn translate(block: &Block, strict: bool) -> CodeBox {
    let mut ops = Vec::with_capacity(block.insns.len() + 1);
    let mut target = u64::MAX;
    for (i, insn) in block.insns.iter().enumerate() {
        assert!(Checked::new(insn).is_some(), "decode makes valid slots");
        if is_nothing(insn) {
            continue;
        }
        let alt = match insn.op.kind() {
            Kind::Branch | Kind::CondBranch | Kind::CondBranchF => {
                target = insn.branch_target(block.pc.wrapping_add(4 * i as u64));
                insn.imm < 0
            }
            Kind::Load | Kind::Store | Kind::Fload | Kind::Fstore => strict,
            _ => insn.lit,
        };
        let run = HANDLERS[insn.op as usize][usize::from(alt)];
        ops.push(Op { run, insn: *insn, index: i as u32 });
    }
    let filler = Insn {
        op: Opcode::Bis,
        a: ZERO,
        b: ZERO,
        c: SINK,
        lit: false,
        qual: crate::fp::Qual(0),
        imm: 0,
    };
    let index = block.insns.len() as u32;
    match block.end {
        BlockEnd::Ender => {}
        BlockEnd::Fallthrough(_) => ops.push(Op { run: fall_through, insn: filler, index }),
        BlockEnd::Illegal(word) => {
            ops.push(Op { run: illegal, insn: Insn { imm: word as i32, ..filler }, index });
        }
        // Never translated: the fault is reported and the block forgotten.
        BlockEnd::FetchFault(_) => ops.push(Op { run: illegal, insn: filler, index }),
    }
    CodeBox::new(Code {
        pc: block.pc,
        len: block.insns.len() as i64,
        end: block.end_pc(),
        target,
        taken: UNLINKED,
        next: UNLINKED,
        ops: ops.into(),
    })
}
