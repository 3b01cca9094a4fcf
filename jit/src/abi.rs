//! How compiled regions are called, how they return, and where they find the processor's state.
//!
//! A region is a host function of Cranelift's tail-call convention: it takes the [`Cpu`] pointer
//! and the guest registers in [`ARGS`] in host registers, everything else in memory. It returns the
//! next guest pc and the guest registers in [`RESULTS`]. A guest call is a host call: after it the
//! caller compares the returned pc with the guest's return address and, where they differ, returns
//! itself; so any control flow of the guest unwinds to the dispatcher with a consistent state. A region
//! that stops puts the reason into [`Cpu::engine`] and leaves through `axp_jit_unwind`, which drops all
//! frames: whoever entered gets [`STOPPED`].

use std::arch::global_asm;
use std::mem::offset_of;

use axp_emu::cpu::Cpu;
use axp_emu::isa::RegSet;

use crate::palcode;

/// Guest integer registers passed to a region, in the order of the host's argument registers
/// RSI, RDX, RCX, R8, R9 (RDI is the [`Cpu`] pointer): SP, first two arguments, RA, first saved.
pub const ARGS: [u8; 5] = [30, 16, 17, 26, 9];

/// Guest integer registers returned by a region, in the order of the host's result registers
/// RCX, RDX, RSI, RDI, R8, R9 (RAX is the next pc). Five of them lie where [`ARGS`] has them.
pub const RESULTS: [u8; 6] = [17, 16, 30, 0, 26, 9];

/// What [`word::SITE`] holds when a region stopped, which has no number: minus one.
pub const REGION_SITE: i32 = -1;

/// Returned instead of a pc: [`word::EXIT`] says why. No pc is odd.
pub const STOPPED: u64 = 1;

/// Numbers words one behind the other, so that no two share a place: `NAME[2]` takes two.
macro_rules! number_words {
    ($next:expr;) => {
        /// How many words there are.
        pub const COUNT: usize = $next;
    };
    ($next:expr; $(#[$doc:meta])* $name:ident[$size:literal], $($more:tt)*) => {
        $(#[$doc])*
        pub const $name: usize = $next;
        number_words!($next + $size; $($more)*);
    };
    ($next:expr; $(#[$doc:meta])* $name:ident, $($more:tt)*) => {
        number_words!($next; $(#[$doc])* $name[1], $($more)*);
    };
}

/// Indices into [`Cpu::engine`].
pub mod word {
    number_words! { 0;
        /// An `ExitKind` as a number.
        EXIT,
        /// Stack pointer of the entry trampoline.
        HOST_SP,
        /// Lowest stack address at which a region may still call.
        STACK_LIMIT,
        /// Value of `Cpu::count` at which a counted run stops.
        COUNT_LIMIT,
        /// The running engine's `Runtime`.
        RUNTIME,
        /// Size of the guest's window in bytes.
        WINDOW,
        /// Host address of guest address 0.
        BASE,
        /// Host pc of an access that faulted.
        FAULT_RIP,
        /// Host address of an access that faulted; 0 if the host does not tell.
        FAULT_ADDR,
        /// Of an access that faulted: bit 0 if it was a store, bit 1 if the host sent SIGBUS; from bit 8 on its
        /// bytes, if a region made it.
        FAULT_WRITE,
        /// Host address at which an access of a region that faulted began.
        FAULT_START,
        /// The first quadword that it was to store, if it was of an octaword.
        FAULT_VALUE,
        /// Number of the place at which baseline code was left.
        SITE,
        /// The jump cache that baseline code looks targets up in.
        JUMPS,
        /// The places of baseline code, an array of `baseline::Place`.
        PLACES,
        /// One more than the number of the place of the last indirect jump, with heat only.
        JUMP_PLACE,
        /// The two results of a host function that compiled code called.
        RESULT[2],
        /// Top of the stack that regions run on.
        STACK_TOP,
        /// PROBEs that compiled code has answered.
        PROBES,
        /// Instructions that regions had done by a call, since somebody looked.
        CALLS,
        /// The same of baseline code.
        BASELINE_CALLS,
        /// Low half: the SSE control register of compiled code; high half: that of Rust code.
        MXCSR,
        /// Host floating-point exceptions since [`FPE_SINCE`]; high half: how often there were too many.
        FPE_COUNT,
        /// When the count began.
        FPE_SINCE,
        /// When host exceptions may be unmasked again; 0 while they may.
        FPE_UNTIL,
        /// Where a region goes that ends in CALL_PAL, with the function code as second argument.
        PAL,
        /// PROBEs that compiled code has left out.
        ELIDED,
        /// An access of a region has faulted and was skipped: [`STORE`](crate::fault::STORE) or another.
        FAULTED,
        /// Regions look at [`FAULTED`]: accesses that fault are to be skipped.
        SKIPS,
        /// Not zero: no other thread writes the guest's memory.
        ALONE,
    }
    const _: () = assert!(COUNT <= axp_emu::cpu::ENGINE_WORDS);
}

/// Why compiled code gave [`STOPPED`]; `Cpu::pc` is set in each case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum ExitKind {
    /// `Cpu::poll` was found set.
    Poll = 1,
    /// The interpreter is to execute one instruction at `Cpu::pc`.
    Step = 2,
    /// A helper left an exit in the runtime.
    Pending = 3,
    /// A guest access faulted; the host pc says where.
    HostFault = 4,
    /// A counted run is within one block of its limit.
    Count = 5,
    /// Baseline code met an edge that is not linked.
    Link = 6,
    /// Baseline code met an entry whose heat has run out.
    Hot = 7,
    /// A region ended in CALL_PAL; its function code is the first word of the results.
    Pal = 8,
}

impl ExitKind {
    /// The kind with this number.
    pub fn from_word(word: u64) -> Option<ExitKind> {
        use ExitKind::*;
        [Poll, Step, Pending, HostFault, Count, Link, Hot, Pal]
            .into_iter()
            .find(|k| *k as u64 == word)
    }
}

/// Byte offset of integer register `r` (0..=32) in [`Cpu`].
pub const fn int_offset(r: u8) -> i32 {
    (offset_of!(Cpu, r) + 8 * r as usize) as i32
}

/// Byte offset of floating-point register `r` (0..=32) in [`Cpu`].
pub const fn fp_offset(r: u8) -> i32 {
    (offset_of!(Cpu, f) + 8 * r as usize) as i32
}

/// Byte offset of a word of [`Cpu::engine`].
pub const fn word_offset(w: usize) -> i32 {
    (offset_of!(Cpu, engine) + 8 * w) as i32
}

const fn set_of(regs: &[u8]) -> RegSet {
    let mut int = 0;
    let mut i = 0;
    while i < regs.len() {
        int |= 1 << regs[i];
        i += 1;
    }
    RegSet { int, fp: 0 }
}

/// [`ARGS`] as a set.
pub const fn arg_set() -> RegSet {
    set_of(&ARGS)
}

/// [`RESULTS`] as a set.
pub const fn result_set() -> RegSet {
    set_of(&RESULTS)
}

// The entry trampoline changes to the engine's own stack, so that how deep guest calls nest does not
// depend on the thread. It keeps the Cpu pointer in RBX, which regions preserve as every callee-saved
// register of the System V ABI. `axp_jit_unwind` is where a region goes that stops, and where the fault
// handler sends one whose guest access faulted: it drops all host frames above the trampoline's.
global_asm!(
    ".globl axp_jit_enter",
    ".type axp_jit_enter, @function",
    "axp_jit_enter:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    "mov [rdi + {host_sp}], rsp",
    "mov rsp, [rdi + {stack_top}]",
    "ldmxcsr [rdi + {mxcsr}]",
    "mov rbx, rdi",
    "mov rax, rsi",
    "3:",
    "mov rsi, [rdi + 8*30]",
    "mov rdx, [rdi + 8*16]",
    "mov rcx, [rdi + 8*17]",
    "mov r8, [rdi + 8*26]",
    "mov r9, [rdi + 8*9]",
    "call rax",
    "mov [rbx + 8*17], rcx",
    "mov [rbx + 8*16], rdx",
    "mov [rbx + 8*30], rsi",
    "mov [rbx + 8*0], rdi",
    "mov [rbx + 8*26], r8",
    "mov [rbx + 8*9], r9",
    "ldmxcsr [rbx + {mxcsr} + 4]",
    "mov rsp, [rbx + {host_sp}]",
    "2:",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    ".globl axp_jit_pal",
    "axp_jit_pal:",
    "mov [rdi + {result}], rsi",
    "mov rbx, rdi",
    // The regions' frames go: a pc in another mode must not be taken for a return.
    "mov rsp, [rdi + {stack_top}]",
    "call {at_once}",
    "mov rdi, rbx",
    "cmp edx, {to_region}",
    "je 3b",
    "ja 4f",
    "mov qword ptr [rdi + {exit}], {pal}",
    ".globl axp_jit_unwind",
    "axp_jit_unwind:",
    "mov eax, {stopped}",
    "4:",
    "mov qword ptr [rdi + {site}], {region}",
    "ldmxcsr [rdi + {mxcsr} + 4]",
    "mov rsp, [rdi + {host_sp}]",
    "jmp 2b",
    host_sp = const word_offset(word::HOST_SP),
    stack_top = const word_offset(word::STACK_TOP),
    stopped = const STOPPED,
    site = const word_offset(word::SITE),
    region = const REGION_SITE,
    mxcsr = const word_offset(word::MXCSR),
    result = const word_offset(word::RESULT),
    exit = const word_offset(word::EXIT),
    pal = const ExitKind::Pal as u64,
    at_once = sym palcode::at_once,
    to_region = const palcode::went::TO_REGION,
);

// Host functions are called through `axp_jit_helper`, which takes the function in R8 and the Cpu
// pointer in R9, leaves the results in `word::RESULT` and keeps every register: so a call in a cold
// path costs the hot path no register. At its entry RSP is 8 modulo 16.
global_asm!(
    ".globl axp_jit_helper",
    ".type axp_jit_helper, @function",
    "axp_jit_helper:",
    "inc qword ptr [r9 + {calls}]",
    "push rax",
    "push rdx",
    "push rcx",
    "push rsi",
    "push rdi",
    "push r8",
    "push r10",
    "push r11",
    "push r9",
    "sub rsp, 256",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movups [rsp + 16*\\n], xmm\\n",
    ".endr",
    "ldmxcsr [r9 + {mxcsr} + 4]",
    "call r8",
    "mov r9, [rsp + 256]",
    "ldmxcsr [r9 + {mxcsr}]",
    "mov [r9 + {result}], rax",
    "mov [r9 + {result} + 8], rdx",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movups xmm\\n, [rsp + 16*\\n]",
    ".endr",
    "add rsp, 256",
    "pop r9",
    "pop r11",
    "pop r10",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rcx",
    "pop rdx",
    "pop rax",
    "ret",
    result = const word_offset(word::RESULT),
    calls = const word_offset(word::CALLS),
    mxcsr = const word_offset(word::MXCSR),
);

const _: () = assert!(offset_of!(Cpu, r) == 0);

unsafe extern "C" {
    /// Runs the region at `code` on `cpu`; returns the next pc or [`STOPPED`].
    pub fn axp_jit_enter(cpu: *mut Cpu, code: *const u8) -> u64;
    /// Leaves all regions with [`STOPPED`]: RDI is the [`Cpu`] pointer. Never called, only jumped to.
    pub fn axp_jit_unwind();
    /// Has the CALL_PAL performed whose function code is in RSI, and goes on in the region that it leads
    /// to; or leaves as `axp_jit_unwind`, or as a region that returns, for [`ExitKind::Pal`] if it was not performed.
    pub fn axp_jit_pal();
    /// Calls the host function in R8 and keeps all registers. Called by regions.
    pub fn axp_jit_helper();
}
