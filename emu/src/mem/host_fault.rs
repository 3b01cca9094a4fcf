//! Turns SIGSEGV, SIGBUS (and, on request, SIGFPE) of the host into something the emulator decides.
//!
//! Three steps, in the signal handler: a fault in an accessor of `raw` continues at its fix-up; a
//! fault in compiled code is offered to the resolvers that the compiler registered; anything else
//! is a bug of the emulator, for which the previous action is put back, so that the process dies
//! as it would have, with its core. Everything the handler does is async-signal-safe.
//!
//! Threads that touch guest memory must not block these signals: the kernel kills a process that
//! faults with the signal blocked. Compiled code whose fault a resolver redirected learns the
//! reason by doing the access once more through `AddressSpace`, outside the handler.

use super::context::HostContext;
use rustix::io::Errno;
use std::cell::RefCell;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A fault of the host, as told to a resolver.
#[derive(Clone, Copy, Debug)]
pub struct HostFault {
    /// Host address of the access. 0 when the hardware does not tell: a non-canonical address, or
    /// an alignment check; then only the faulting instruction's registers know.
    pub addr: u64,
    /// Whether it was a store; meaningful for page faults only.
    pub is_write: bool,
    /// The host's signal: SIGSEGV, SIGBUS or SIGFPE.
    pub signal: i32,
    /// The signal's `si_code`.
    pub code: i32,
}

/// Asked about a fault; `true` means that the context was changed and execution may go on.
///
/// Runs in a signal handler, on the alternate stack where there is one: no allocation, no lock, no
/// unwinding. It may use the accessors of `AddressSpace` as far as they do not fault.
pub type Resolver = fn(&HostFault, &mut HostContext) -> bool;

/// Told about a SIGSEGV, SIGBUS or SIGFPE that some process *sent* (kill, tgkill, sigqueue);
/// `true` means that it was taken care of.
pub type SentHook = fn(i32, &libc::siginfo_t) -> bool;

/// Few are ever needed: one per kind of compiled code.
const MAX_RESOLVERS: usize = 8;

struct Slots([AtomicPtr<()>; MAX_RESOLVERS]);

impl Slots {
    const fn new() -> Self {
        Slots([const { AtomicPtr::new(ptr::null_mut()) }; MAX_RESOLVERS])
    }

    /// Adds `f` unless it is there already; `false` when all slots are taken.
    fn add(&self, f: Resolver) -> bool {
        let new = f as *mut ();
        self.0.iter().any(|slot| {
            match slot.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => true,
                Err(present) => present == new,
            }
        })
    }

    fn resolve(&self, fault: &HostFault, context: &mut HostContext) -> bool {
        self.0.iter().map(|slot| slot.load(Ordering::Acquire)).take_while(|p| !p.is_null()).any(
            |p| {
                // SAFETY: only `add` writes a slot, and only with a `Resolver`.
                let f = unsafe { std::mem::transmute::<*mut (), Resolver>(p) };
                f(fault, context)
            },
        )
    }
}

static MEMORY_RESOLVERS: Slots = Slots::new();
static FPE_RESOLVERS: Slots = Slots::new();
static SENT_HOOK: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// The action that was in force before ours, and whether ours could be installed.
struct Handled {
    previous: OnceLock<libc::sigaction>,
    result: OnceLock<Result<(), Errno>>,
}

impl Handled {
    const fn new() -> Self {
        Handled { previous: OnceLock::new(), result: OnceLock::new() }
    }

    fn install(&self, signal: i32) -> Result<(), Errno> {
        *self.result.get_or_init(|| {
            // SAFETY: sigaction is plain data for which all zeros is a value; the calls get valid
            // pointers. The previous action is stored before ours can run.
            unsafe {
                let mut previous: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(signal, ptr::null(), &mut previous) != 0 {
                    return Err(last_errno());
                }
                let _ = self.previous.set(previous);
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as *const () as usize;
                // NODEFER: a resolver that reads guest memory may fault in turn.
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
                // Handlers of asynchronous signals wait until the fault is dealt with.
                libc::sigfillset(&mut action.sa_mask);
                for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL] {
                    libc::sigdelset(&mut action.sa_mask, fault);
                }
                if libc::sigaction(signal, &action, ptr::null_mut()) != 0 {
                    return Err(last_errno());
                }
            }
            Ok(())
        })
    }
}

static SEGV: Handled = Handled::new();
static BUS: Handled = Handled::new();
static FPE: Handled = Handled::new();

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

/// Installs the handlers of SIGSEGV and SIGBUS; later calls do nothing. Every window calls it.
pub(super) fn install() -> Result<(), Errno> {
    SEGV.install(libc::SIGSEGV)?;
    BUS.install(libc::SIGBUS)
}

/// Adds a resolver for memory faults in compiled code. `false` if there are too many.
pub fn register_resolver(f: Resolver) -> bool {
    MEMORY_RESOLVERS.add(f)
}

/// Adds a resolver for SIGFPE and installs the handler for it. `false` if that was impossible.
pub fn register_fpe_resolver(f: Resolver) -> bool {
    FPE_RESOLVERS.add(f) && FPE.install(libc::SIGFPE).is_ok()
}

/// Sets who is told about fault signals that a process sent, which mean the guest, not a fault.
pub fn set_sent_hook(f: SentHook) {
    SENT_HOOK.store(f as *mut (), Ordering::Release);
}

/// An entry of the table that `raw::fixup!` fills; both fields are relative to their own address.
#[repr(C)]
struct Fixup {
    insn: i32,
    target: i32,
}

unsafe extern "C" {
    // The linker defines both for any section whose name is an identifier.
    #[link_name = "__start_axp_fixups"]
    static FIXUPS_START: Fixup;
    #[link_name = "__stop_axp_fixups"]
    static FIXUPS_END: Fixup;
}

/// Where to go on after a fault at `rip`, if that is an accessor.
fn fixup_for(rip: u64) -> Option<u64> {
    let start = &raw const FIXUPS_START;
    let count = (&raw const FIXUPS_END as usize - start as usize) / size_of::<Fixup>();
    // Linear: the table has some hundred entries, the fault itself costs more.
    for i in 0..count {
        // SAFETY: the linker's bounds enclose `count` entries of read-only data.
        let entry = unsafe { &*start.add(i) };
        let relative = |field: &i32| (ptr::from_ref(field) as u64).wrapping_add(*field as u64);
        if relative(&entry.insn) == rip {
            return Some(relative(&entry.target));
        }
    }
    None
}

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo and ucontext to an SA_SIGINFO handler, ours for
    // its duration.
    let (info, mut host) = unsafe { (&*info, HostContext::new(context.cast())) };
    // Codes above 0 are the kernel's own: real faults.
    if info.si_code <= 0 {
        let hook = SENT_HOOK.load(Ordering::Acquire);
        if !hook.is_null() {
            // SAFETY: only `set_sent_hook` writes it, and only with a `SentHook`.
            let hook = unsafe { std::mem::transmute::<*mut (), SentHook>(hook) };
            if hook(signal, info) {
                return;
            }
        }
        // Nothing will fault again by itself: raise it anew. Under the default action, since the
        // standard library's handler would only look for a stack overflow and return.
        set_action(signal, None);
        // SAFETY: raise is async-signal-safe.
        unsafe { libc::raise(signal) };
        return;
    }
    if signal != libc::SIGFPE
        && let Some(target) = fixup_for(host.rip())
    {
        host.set_rip(target);
        return;
    }
    // SAFETY: si_addr is valid for the three signals handled here.
    let addr = unsafe { info.si_addr() } as u64;
    let fault = HostFault { addr, is_write: host.is_write(), signal, code: info.si_code };
    let slots = if signal == libc::SIGFPE { &FPE_RESOLVERS } else { &MEMORY_RESOLVERS };
    if !slots.resolve(&fault, &mut host) {
        // Return and fault again, now under the previous action.
        give_back(signal);
    }
}

/// Restores the action that was in force before ours.
fn give_back(signal: i32) {
    let handled = match signal {
        libc::SIGSEGV => &SEGV,
        libc::SIGBUS => &BUS,
        _ => &FPE,
    };
    set_action(signal, handled.previous.get());
}

/// Sets an action, or the default one.
fn set_action(signal: i32, action: Option<&libc::sigaction>) {
    // SAFETY: sigaction is async-signal-safe and gets a valid action; zeros are the default.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, action.unwrap_or(&default), ptr::null_mut());
    }
}

/// Usable bytes of an alternate stack: a frame with AVX-512 state needs about 3 KB, a resolver
/// that looks up a table much less than the rest.
const ALT_STACK: usize = 64 << 10;

/// The alternate stack of one thread, with a guard page below.
struct AltStack(*mut libc::c_void);

const ALT_GUARD: usize = super::page::HOST_PAGE as usize;

impl AltStack {
    fn new() -> Result<Self, Errno> {
        use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
        // SAFETY: a fresh mapping of our own; its lowest page becomes the guard; the stack lies
        // above it and stays until `drop` has taken it out of use.
        unsafe {
            let all = mmap_anonymous(
                ptr::null_mut(),
                ALT_GUARD + ALT_STACK,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?;
            let stack = AltStack(all);
            mprotect(all, ALT_GUARD, MprotectFlags::empty())?;
            let alt =
                libc::stack_t { ss_sp: all.byte_add(ALT_GUARD), ss_flags: 0, ss_size: ALT_STACK };
            if libc::sigaltstack(&alt, ptr::null_mut()) != 0 {
                return Err(last_errno());
            }
            Ok(stack)
        }
    }
}

impl Drop for AltStack {
    fn drop(&mut self) {
        // SAFETY: the stack is taken out of use only if it is still the current one; then nothing
        // refers to the mapping any more. A failing call leaves it mapped, which is harmless.
        unsafe {
            let mut current: libc::stack_t = std::mem::zeroed();
            let ours = self.0.byte_add(ALT_GUARD);
            if libc::sigaltstack(ptr::null(), &mut current) == 0 && current.ss_sp == ours {
                current.ss_flags = libc::SS_DISABLE;
                if libc::sigaltstack(&current, ptr::null_mut()) != 0 {
                    return;
                }
            }
            let _ = rustix::mm::munmap(self.0, ALT_GUARD + ALT_STACK);
        }
    }
}

thread_local! {
    static STACK: RefCell<Option<AltStack>> = const { RefCell::new(None) };
}

/// Gives the calling thread an alternate signal stack until it ends; later calls do nothing.
///
/// Needed by threads that run compiled code, whose stack pointer or stack depth may be unfit for
/// a handler's frame.
pub fn install_alt_stack() -> Result<(), Errno> {
    STACK.with(|stack| {
        let mut stack = stack.borrow_mut();
        if stack.is_none() {
            *stack = Some(AltStack::new()?);
        }
        Ok(())
    })
}
