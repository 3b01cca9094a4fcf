//! Calls of the host's kernel: the only unsafe code of the personality.
//!
//! Pointers that get here were made from guest addresses by
//! [`AddressSpace::host_range`](crate::mem::AddressSpace::host_range), which keeps them inside the
//! guest's window, or point to values of the caller; the kernel answers EFAULT for the rest.

use std::arch::{asm, naked_asm};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::abi;
use super::errno::{Errno, SysResult};

/// What a signal handler of the host leaves for the guest thread it ran in.
///
/// The handler blocks all signals in the context it returns to, so one signal at a time is in
/// flight; the personality opens the mask again when it has built the guest's frame.
#[derive(Debug)]
pub struct Mailbox {
    /// A signal waits in `info`, or somebody wants the thread to look around.
    pub attention: AtomicU32,
    /// One slot for asynchronous signals, one for fault signals that somebody sent: those come by
    /// another door and cannot be held back.
    slots: [Slot; 2],
    /// `cpu.poll` of the thread's processor.
    poll: Cell<*const AtomicU32>,
}

#[derive(Debug)]
struct Slot {
    full: AtomicBool,
    info: Cell<[u8; abi::SIGINFO_SIZE]>,
}

impl Default for Slot {
    fn default() -> Self {
        Slot { full: AtomicBool::new(false), info: Cell::new([0; abi::SIGINFO_SIZE]) }
    }
}

impl Slot {
    fn take(&self) -> Option<[u8; abi::SIGINFO_SIZE]> {
        if !self.full.load(Ordering::Acquire) {
            return None;
        }
        let info = self.info.get();
        self.full.store(false, Ordering::Release);
        Some(info)
    }
}

// SAFETY: `info` and `poll` are written by the owning thread and its signal handler only, ordered
// by `full`; other threads touch the atomics, and `poll`'s target lives as long as the thread
// (`leave_thread` is called before it goes).
unsafe impl Sync for Mailbox {}
// SAFETY: as for `Sync`; nothing in it is bound to a thread before `enter_thread`.
unsafe impl Send for Mailbox {}

impl Default for Mailbox {
    fn default() -> Self {
        Mailbox {
            attention: AtomicU32::new(0),
            slots: [Slot::default(), Slot::default()],
            poll: Cell::new(ptr::null()),
        }
    }
}

thread_local! {
    /// Constant initialisation and no destructor: safe to read in a signal handler.
    static CURRENT: Cell<*const Mailbox> = const { Cell::new(ptr::null()) };
}

impl Mailbox {
    /// Takes a signal that a handler left: the host's siginfo, untranslated.
    pub fn take(&self) -> Option<[u8; abi::SIGINFO_SIZE]> {
        self.slots.iter().find_map(Slot::take)
    }

    /// Makes this the mailbox of signals that arrive in the calling thread.
    pub fn enter_thread(&self, poll: &AtomicU32) {
        self.poll.set(poll);
        CURRENT.set(self);
    }

    /// The calling thread runs no guest any more.
    pub fn leave_thread(&self) {
        CURRENT.set(ptr::null());
        self.poll.set(ptr::null());
    }
}

/// Runs in the guest thread that the host's kernel chose. Also the hook for fault signals that a
/// process sent.
fn receive(signal: i32, info: &libc::siginfo_t) -> bool {
    let mailbox = CURRENT.get();
    if mailbox.is_null() {
        return pass_on(signal, info);
    }
    // SAFETY: set by `enter_thread`, cleared by `leave_thread` while the mailbox lives.
    let mailbox = unsafe { &*mailbox };
    let slot = &mailbox.slots[usize::from(FAULT_SIGNALS.contains(&signal))];
    if signal != poke_signal() && !slot.full.load(Ordering::Acquire) {
        // SAFETY: siginfo_t is 128 bytes of plain data.
        slot.info.set(unsafe { ptr::from_ref(info).cast::<[u8; 128]>().read() });
        slot.full.store(true, Ordering::Release);
    }
    mailbox.attention.store(1, Ordering::Release);
    let poll = mailbox.poll.get();
    if !poll.is_null() {
        // SAFETY: `poll` belongs to the processor that this thread runs.
        unsafe { (*poll).fetch_or(1, Ordering::Release) };
    }
    true
}

/// A signal for the process came to a thread that runs no guest (an engine's compiler): sends it
/// again. The handler has closed this thread to signals, so it goes to another one.
fn pass_on(signal: i32, info: &libc::siginfo_t) -> bool {
    // SAFETY: getpid is async-signal-safe.
    let pid = unsafe { libc::getpid() };
    let info = ptr::from_ref(info) as u64;
    let (pid, nr) = (pid as u64, signal as u64);
    // The kernel lets only the first thread repeat an origin that it vouches for; from others the
    // signal goes on without it. That happens once per thread: afterwards it is closed.
    let sent = if !FAULT_SIGNALS.contains(&signal) {
        call(libc::SYS_rt_sigqueueinfo, [pid, nr, info, 0, 0, 0])
            .or_else(|_| call(libc::SYS_kill, [pid, nr, 0, 0, 0, 0]))
    } else if gettid() as u64 != pid {
        // Cannot be blocked here: goes to the first thread.
        call(libc::SYS_tgkill, [pid, pid, nr, 0, 0, 0])
    } else {
        return false;
    };
    sent.is_ok()
}

/// Signals that mean a fault are never blocked on the host: a blocked fault ends the process.
pub const FAULT_SIGNALS: [i32; 5] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes valid pointers to an SA_SIGINFO handler.
    unsafe {
        let context = &mut *context.cast::<libc::ucontext_t>();
        if signal == poke_signal() && CURRENT.get().is_null() {
            return;
        }
        // Not sent: an instruction of the emulator's own. It ends as it would have without us.
        if (*info).si_code > 0 && [libc::SIGILL, libc::SIGTRAP].contains(&signal) {
            set_action(signal, HostAction::Default, 0);
            let _ = call(libc::SYS_tkill, [gettid() as u64, signal as u64, 0, 0, 0, 0]);
            return;
        }
        receive(signal, &*info);
        if signal != poke_signal() {
            // One in flight: the kernel keeps the rest pending until the guest has this one.
            libc::sigfillset(&mut context.uc_sigmask);
            for fault in FAULT_SIGNALS.iter().chain(&[poke_signal()]) {
                libc::sigdelset(&mut context.uc_sigmask, *fault);
            }
        }
        // Between the look at `attention` and the SYSCALL instruction: do not enter the kernel.
        let rip = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
        let start = interruptible as *const () as i64;
        // The window reaches from the function's first byte to its SYSCALL, which is not done yet
        // while rip is at it.
        if *rip >= start && *rip <= start + SYSCALL_OFFSET {
            *rip = start + ABORT_OFFSET;
        }
    }
}

/// Highest real-time signal: wakes a thread up, carries nothing. The guest cannot use it.
pub fn poke_signal() -> i32 {
    64
}

/// Offsets in `interruptible`, held by the test `the_stub_has_the_assumed_layout`.
const SYSCALL_OFFSET: i64 = 38;
const ABORT_OFFSET: i64 = 41;

/// A system call that a signal can keep from beginning: `(attention, nr, args)` in rdi, rsi, rdx.
/// Returns what the kernel does, or -EINTR without a call if `attention` is set.
#[unsafe(naked)]
unsafe extern "C" fn interruptible(
    attention: *const AtomicU32,
    nr: i64,
    args: *const [u64; 6],
) -> i64 {
    naked_asm!(
        "mov rax, rsi",           // 0, 3 bytes
        "mov r11, rdi",           // 3, 3
        "mov rcx, rdx",           // 6, 3
        "mov rdi, [rcx]",         // 9, 3
        "mov rsi, [rcx + 8]",     // 12, 4
        "mov rdx, [rcx + 16]",    // 16, 4
        "mov r10, [rcx + 24]",    // 20, 4
        "mov r8, [rcx + 32]",     // 24, 4
        "mov r9, [rcx + 40]",     // 28, 4
        "cmp dword ptr [r11], 0", // 32, 4
        "jne 2f",                 // 36, 2
        "syscall",                // 38, 2
        "ret",                    // 40, 1
        "2: mov rax, -4",         // 41
        "ret",
    )
}

fn answer(value: i64) -> SysResult {
    match value {
        -4 => Err(Errno::INTERRUPTED),
        -4095..=-1 => Err(Errno::from_host(-value as i32)),
        _ => Ok(value as u64),
    }
}

/// A host system call that may block. A signal that arrived before it begins is not slept over.
pub fn blocking(mailbox: &Mailbox, nr: i64, args: [u64; 6]) -> SysResult {
    // SAFETY: see the module's words on pointers; the stub touches caller-saved registers only.
    answer(unsafe { interruptible(&mailbox.attention, nr, &args) })
}

/// A host system call that does not wait for long.
pub fn call(nr: i64, args: [u64; 6]) -> SysResult {
    let value: i64;
    // SAFETY: see the module's words on pointers; rcx and r11 are what SYSCALL changes.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") nr => value,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    answer(value)
}

/// Installs an action for a host signal: the default, ignoring, or the mailbox's handler.
/// `flags` are SA_NOCLDSTOP and SA_NOCLDWAIT in the host's numbers.
pub fn set_action(signal: i32, action: HostAction, flags: i32) {
    // SAFETY: plain data for which zeros are a value; valid pointers.
    unsafe {
        let mut new: libc::sigaction = MaybeUninit::zeroed().assume_init();
        new.sa_sigaction = match action {
            HostAction::Default => libc::SIG_DFL,
            HostAction::Ignore => libc::SIG_IGN,
            HostAction::Handle => handler as *const () as usize,
        };
        new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | flags;
        libc::sigfillset(&mut new.sa_mask);
        for fault in FAULT_SIGNALS {
            libc::sigdelset(&mut new.sa_mask, fault);
        }
        raw_sigaction(signal, &new);
    }
}

/// glibc refuses its own real-time signals 32 and 33, which the guest's library uses as well.
unsafe fn raw_sigaction(signal: i32, new: &libc::sigaction) {
    #[repr(C)]
    struct Kernel {
        handler: usize,
        flags: u64,
        restorer: usize,
        mask: u64,
    }
    const SA_RESTORER: u64 = 0x0400_0000;
    let kernel = Kernel {
        handler: new.sa_sigaction,
        flags: new.sa_flags as u32 as u64 | SA_RESTORER,
        restorer: restorer as *const () as usize,
        mask: set_to_word(&new.sa_mask),
    };
    let _ = call(libc::SYS_rt_sigaction, [signal as u64, &raw const kernel as u64, 0, 8, 0, 0]);
}

#[unsafe(naked)]
unsafe extern "C" fn restorer() {
    naked_asm!("mov eax, 15", "syscall") // rt_sigreturn
}

fn set_to_word(set: &libc::sigset_t) -> u64 {
    // SAFETY: the kernel's set is the first word of the library's.
    unsafe { ptr::from_ref(set).cast::<u64>().read() }
}

/// What the host does with a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostAction {
    /// SIG_DFL.
    Default,
    /// SIG_IGN.
    Ignore,
    /// Into the mailbox.
    Handle,
}

/// Whether the process was started with the signal ignored.
pub fn is_ignored(signal: i32) -> bool {
    let mut kernel = [0u64; 4];
    let args = [signal as u64, 0, kernel.as_mut_ptr() as u64, 8, 0, 0];
    call(libc::SYS_rt_sigaction, args).is_ok() && kernel[0] == libc::SIG_IGN as u64
}

/// Replaces the calling thread's signal mask (host numbering, bit 0 is signal 1); returns the old.
pub fn set_mask(mask: u64) -> u64 {
    let new = without_faults(mask);
    let mut old = 0u64;
    let args = [libc::SIG_SETMASK as u64, &raw const new as u64, &raw mut old as u64, 8, 0, 0];
    let _ = call(libc::SYS_rt_sigprocmask, args);
    old
}

fn poke_bit() -> u64 {
    1 << (poke_signal() - 1)
}

/// The calling thread's signal mask.
pub fn mask() -> u64 {
    let mut old = 0u64;
    let _ = call(libc::SYS_rt_sigprocmask, [0, 0, &raw mut old as u64, 8, 0, 0]);
    old
}

/// Signals of the host that wait for this thread.
pub fn pending() -> u64 {
    let mut set = 0u64;
    let _ = call(libc::SYS_rt_sigpending, [&raw mut set as u64, 8, 0, 0, 0, 0]);
    set
}

/// Installs the hooks that every guest process needs: sent fault signals and the poke.
pub fn install() {
    crate::mem::set_sent_hook(receive);
    // Gives sent SIGFPEs the same door as SIGSEGV and SIGBUS; resolves nothing itself.
    crate::mem::register_fpe_resolver(|_, _| false);
    // Never blocked on the host, so a sent one must come here even if the guest has no handler.
    set_action(libc::SIGILL, HostAction::Handle, 0);
    set_action(libc::SIGTRAP, HostAction::Handle, 0);
    set_action(poke_signal(), HostAction::Handle, 0);
}

/// Wakes a thread of this process: its blocking call ends, its engine polls.
pub fn poke(tid: i32) {
    let pid = std::process::id();
    let _ = call(libc::SYS_tgkill, [u64::from(pid), tid as u64, poke_signal() as u64, 0, 0, 0]);
}

/// The calling thread's id.
pub fn gettid() -> i32 {
    call(libc::SYS_gettid, [0; 6]).map_or(0, |tid| tid as i32)
}

/// fork() of the library, so that its locks and `pthread_atfork` handlers (an engine's) take part.
pub fn fork() -> Result<i32, Errno> {
    // SAFETY: the child goes on in this thread alone; engines register what they must undo.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error().into()),
        pid => Ok(pid),
    }
}

/// Stack of a process that shares our memory: an engine may compile on it.
const SHARING_STACK: usize = 8 << 20;

/// Runs `child` in a new process that shares this one's memory, while the calling thread waits
/// until it has ended or executed a program: vfork. Gives the new process's id.
///
/// The child has its own descriptors and signal actions but the calling thread's thread-local
/// storage, which is safe because that thread is suspended. Nothing unwinds into this frame.
pub fn vfork_sharing(child: Box<dyn FnOnce() -> i32>) -> Result<i32, Errno> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    extern "C" fn entry(argument: *mut libc::c_void) -> i32 {
        // SAFETY: the pointer is the box below, taken once.
        let child = unsafe { Box::from_raw(argument.cast::<Box<dyn FnOnce() -> i32>>()) };
        let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        // SAFETY: ends this process without destructors and exit handlers, which are the parent's.
        unsafe { libc::_exit(status.unwrap_or(127)) }
    }
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh mapping, given back when nobody runs on it any more: CLONE_VFORK has the
    // caller wait. The closure is owned by the child; if there is none, it is leaked.
    unsafe {
        let stack = mmap_anonymous(ptr::null_mut(), SHARING_STACK, protection, flags)?;
        let argument = Box::into_raw(Box::new(child));
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let pid = libc::clone(entry, stack.byte_add(SHARING_STACK), flags, argument.cast());
        let failed = (pid < 0).then(|| std::io::Error::last_os_error().into());
        let _ = munmap(stack, SHARING_STACK);
        failed.map_or(Ok(pid), Err)
    }
}

/// A zeroed host structure that the kernel is about to fill in.
///
/// Only for plain C structures, for which zeros are a value.
pub fn fill<T: Copy>(nr: i64, args: impl FnOnce(u64) -> [u64; 6]) -> Result<T, Errno> {
    let mut value = MaybeUninit::<T>::zeroed();
    call(nr, args(value.as_mut_ptr() as u64))?;
    // SAFETY: zeros, then what the kernel wrote; callers name structures of integers only.
    Ok(unsafe { value.assume_init() })
}

/// The two words of a file system's id as one.
pub fn fsid(st: &libc::statfs) -> u64 {
    // SAFETY: fsid_t is two longwords.
    unsafe { ptr::from_ref(&st.f_fsid).cast::<u64>().read_unaligned() }
}

/// The mount flags, which the library keeps to itself: the eleventh quadword.
pub fn statfs_flags(st: &libc::statfs) -> u64 {
    // SAFETY: the structure is 120 bytes of plain data.
    unsafe { ptr::from_ref(st).cast::<u64>().add(10).read() }
}

/// A usage that the kernel wrote as bytes.
pub fn rusage_from(bytes: [u8; size_of::<libc::rusage>()]) -> libc::rusage {
    // SAFETY: a structure of integers of the same size.
    unsafe { std::mem::transmute(bytes) }
}

/// A descriptor of the guest, which may be closed or mean another file: only for one call.
pub fn borrow_fd<'a>(fd: i32) -> BorrowedFd<'a> {
    // SAFETY: not -1 (checked by the caller); descriptors are the guest's to close, and nothing
    // but a kernel call is done with this one.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// A mask without the signals that must stay deliverable on the host.
pub fn without_faults(mask: u64) -> u64 {
    let keep = FAULT_SIGNALS.iter().fold(poke_bit(), |keep, signal| keep | 1 << (signal - 1));
    mask & !keep
}

/// Ends the process by a signal of the host, for which the default action is put back; no core
/// file is left, since it would be the emulator's.
pub fn die_by_signal(signal: i32) -> ! {
    let none = [0u64; 2];
    let core = u64::from(libc::RLIMIT_CORE);
    let _ = call(libc::SYS_prlimit64, [0, core, none.as_ptr() as u64, 0, 0, 0]);
    set_action(signal, HostAction::Default, 0);
    let unblocked = 0u64;
    let mask = [libc::SIG_SETMASK as u64, &raw const unblocked as u64, 0, 8, 0, 0];
    let _ = call(libc::SYS_rt_sigprocmask, mask);
    let _ = call(libc::SYS_tkill, [gettid() as u64, signal as u64, 0, 0, 0, 0]);
    std::process::exit(128 + signal)
}

/// Nice value of a process; the library's convention, where -1 can be a value.
pub fn getpriority(which: u64, who: u64) -> SysResult {
    call(libc::SYS_getpriority, [which, who, 0, 0, 0, 0]).map(|value| 20u64.wrapping_sub(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stub_has_the_assumed_layout() {
        let start = interruptible as *const () as usize;
        // SAFETY: reads bytes of code of this crate.
        let byte = |offset: i64| unsafe { *((start + offset as usize) as *const u8) };
        assert_eq!([byte(SYSCALL_OFFSET), byte(SYSCALL_OFFSET + 1)], [0x0f, 0x05]);
        assert_eq!(byte(SYSCALL_OFFSET + 2), 0xc3);
        assert_eq!([byte(ABORT_OFFSET), byte(ABORT_OFFSET + 1)], [0x48, 0xc7]);
    }

    #[test]
    fn a_pending_signal_keeps_a_call_from_beginning() {
        let mailbox = Mailbox::default();
        mailbox.attention.store(1, Ordering::Relaxed);
        let pid = blocking(&mailbox, libc::SYS_getpid, [0; 6]);
        assert_eq!(pid, Err(Errno::INTERRUPTED));
        mailbox.attention.store(0, Ordering::Relaxed);
        let pid = blocking(&mailbox, libc::SYS_getpid, [0; 6]);
        assert_eq!(pid, Ok(u64::from(std::process::id())));
    }
}
