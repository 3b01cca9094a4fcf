//! The registers of a host thread that faulted, for resolvers to read and change.

/// A view of the handler's `ucontext_t`. What is written takes effect when the handler returns.
pub struct HostContext {
    context: *mut libc::ucontext_t,
}

/// Where the kernel's frame keeps the general registers, in the hardware's numbering
/// (0 rax, 1 rcx, 2 rdx, 3 rbx, 4 rsp, 5 rbp, 6 rsi, 7 rdi, 8-15 r8-r15).
const GPR: [i32; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Bit 1 of the page-fault error code: the access was a write (Intel SDM 3A 4.7).
const ERR_WRITE: i64 = 2;
/// The page-fault exception's vector.
const TRAP_PAGE_FAULT: i64 = 14;

impl HostContext {
    /// Wraps the third argument of an `SA_SIGINFO` handler.
    ///
    /// # Safety
    /// `context` must be valid, and used by nobody else, as long as the view exists.
    pub(super) unsafe fn new(context: *mut libc::ucontext_t) -> Self {
        HostContext { context }
    }

    fn greg(&self, index: i32) -> i64 {
        // SAFETY: valid by the contract of `new`; the indices are libc's.
        unsafe { (&(*self.context).uc_mcontext.gregs)[index as usize] }
    }

    fn set_greg(&mut self, index: i32, value: i64) {
        // SAFETY: as in `greg`, and exclusive through `&mut self`.
        unsafe { (&mut (*self.context).uc_mcontext.gregs)[index as usize] = value }
    }

    /// General register `n` (0-15) in the hardware's numbering.
    pub fn gpr(&self, n: usize) -> u64 {
        self.greg(GPR[n & 15]) as u64
    }

    /// Sets general register `n` (0-15).
    pub fn set_gpr(&mut self, n: usize, value: u64) {
        self.set_greg(GPR[n & 15], value as i64);
    }

    /// Address of the faulting instruction.
    pub fn rip(&self) -> u64 {
        self.greg(libc::REG_RIP) as u64
    }

    /// Sets where to go on.
    pub fn set_rip(&mut self, value: u64) {
        self.set_greg(libc::REG_RIP, value as i64);
    }

    /// The flags of the integer unit.
    pub fn rflags(&self) -> u64 {
        self.greg(libc::REG_EFL) as u64
    }

    /// Sets the flags of the integer unit.
    pub fn set_rflags(&mut self, value: u64) {
        self.set_greg(libc::REG_EFL, value as i64);
    }

    /// Whether the fault is a page fault of a store.
    pub(super) fn is_write(&self) -> bool {
        self.greg(libc::REG_TRAPNO) == TRAP_PAGE_FAULT && self.greg(libc::REG_ERR) & ERR_WRITE != 0
    }

    fn fp(&self) -> *mut libc::_libc_fpstate {
        // SAFETY: valid by the contract of `new`; the kernel always saves the FP state on x86-64.
        unsafe { (*self.context).uc_mcontext.fpregs }
    }

    /// Register xmm`n` (0-15).
    pub fn xmm(&self, n: usize) -> u128 {
        // SAFETY: the FP state is part of the frame; the index is masked to its 16 registers.
        let e = unsafe { (&(*self.fp())._xmm)[n & 15].element };
        e.iter().rev().fold(0, |value, &part| value << 32 | u128::from(part))
    }

    /// Sets register xmm`n` (0-15); the upper half of ymm`n` keeps its value.
    pub fn set_xmm(&mut self, n: usize, value: u128) {
        let element = std::array::from_fn(|i| (value >> (32 * i)) as u32);
        // SAFETY: as in `xmm`, and exclusive through `&mut self`.
        unsafe { (&mut (*self.fp())._xmm)[n & 15].element = element }
    }

    /// The SSE control and status register at the fault (the handler itself runs with a reset one).
    pub fn mxcsr(&self) -> u32 {
        // SAFETY: as in `xmm`.
        unsafe { (*self.fp()).mxcsr }
    }

    /// Sets the SSE control and status register. Reserved bits must be 0.
    pub fn set_mxcsr(&mut self, value: u32) {
        // SAFETY: as in `set_xmm`.
        unsafe { (*self.fp()).mxcsr = value }
    }
}
