//! The signal handlers: resolvers, nesting, and what is not ours. Children run what must die.

use super::*;
use std::arch::asm;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::AtomicU64;

/// The host address whose faults the test's resolver answers.
static WATCHED: AtomicU64 = AtomicU64::new(u64::MAX);
/// A window for it to read from.
static READABLE: AtomicU64 = AtomicU64::new(0);

/// `mov rax, [rcx]`, the only instruction that the test lets fault without a fix-up.
const LOAD_LEN: u64 = 3;

fn resolver(fault: &HostFault, context: &mut HostContext) -> bool {
    if fault.addr != WATCHED.load(Ordering::SeqCst) || fault.signal != libc::SIGSEGV {
        return false;
    }
    assert!(!fault.is_write);
    assert_eq!(context.gpr(1), fault.addr);
    // A faulting accessor inside the handler comes back too.
    // SAFETY: an address of a window that the test keeps.
    let nested = unsafe { raw::load_u64(READABLE.load(Ordering::SeqCst)) };
    context.set_gpr(0, if nested.is_none() { 42 } else { 0 });
    let xmm = context.xmm(3);
    context.set_xmm(3, xmm + (7 << 64));
    let rip = context.rip() + LOAD_LEN;
    context.set_rip(rip);
    true
}

#[test]
fn a_resolver_sees_and_changes_the_registers() {
    let mem = AddressSpace::based().unwrap();
    assert!(register_resolver(resolver) && register_resolver(resolver));
    WATCHED.store(mem.host_base() + AT + 8, Ordering::SeqCst);
    READABLE.store(mem.host_base() + AT, Ordering::SeqCst);
    let run = || {
        install_alt_stack().unwrap();
        install_alt_stack().unwrap();
        let (rax, low, high): (u64, u64, u64);
        // SAFETY: a load that faults and is resolved; the registers are declared.
        unsafe {
            asm!(
                "movq xmm3, {five}",
                "mov rax, [rcx]",
                "movq {low}, xmm3",
                "psrldq xmm3, 8",
                "movq {high}, xmm3",
                five = in(reg) 5_u64,
                in("rcx") WATCHED.load(Ordering::SeqCst),
                out("rax") rax,
                low = out(reg) low,
                high = out(reg) high,
                out("xmm3") _,
            );
        }
        assert_eq!((rax, low, high), (42, 5, 7));
    };
    run();
    // Threads come and go with their stacks.
    for _ in 0..20 {
        std::thread::scope(|scope| {
            scope.spawn(run);
            scope.spawn(run);
        });
    }
}

/// Set in a child: what it shall do.
const MODE: &str = "AXP_EMU_MEM_TEST_MODE";

/// The part that runs in a child; a plain success otherwise.
#[test]
fn child() {
    let Ok(mode) = std::env::var(MODE) else { return };
    let limit = |resource, value| {
        let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
        // SAFETY: a valid structure.
        assert_eq!(unsafe { libc::setrlimit(resource, &limit) }, 0);
    };
    limit(libc::RLIMIT_CORE, 0);
    match mode.as_str() {
        "identity" => identity(),
        "limited" => {
            limit(libc::RLIMIT_AS, 1 << 30);
            assert!(matches!(AddressSpace::based(), Err(WindowError::Host(_))));
            assert!(matches!(AddressSpace::identity(), Err(WindowError::Host(_))));
        }
        "in the way" => {
            let wanted = 0x10_0000_0000_usize;
            // SAFETY: a page where nothing else is.
            let got = unsafe {
                rustix::mm::mmap_anonymous(
                    wanted as *mut _,
                    4096,
                    rustix::mm::ProtFlags::READ,
                    rustix::mm::MapFlags::PRIVATE | rustix::mm::MapFlags::FIXED_NOREPLACE,
                )
            };
            assert_eq!(got.unwrap() as usize, wanted);
            match AddressSpace::identity() {
                Err(WindowError::InTheWay { start, end, .. }) => {
                    assert_eq!((start, end), (wanted as u64, wanted as u64 + 4096));
                }
                other => panic!("{:?}", other.err()),
            }
            assert!(AddressSpace::based().is_ok());
        }
        "bug" => {
            let _mem = AddressSpace::based().unwrap();
            // SAFETY: none: this must kill the process.
            unsafe { asm!("mov {0}, [{0}]", inout(reg) 8_u64 => _) };
        }
        "bug bus" => {
            let _mem = AddressSpace::based().unwrap();
            let fd = rustix::fs::memfd_create("empty", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
            // SAFETY: a mapping without a file behind it; the load must kill the process.
            unsafe {
                let page = rustix::mm::mmap(
                    std::ptr::null_mut(),
                    4096,
                    rustix::mm::ProtFlags::READ,
                    rustix::mm::MapFlags::SHARED,
                    &fd,
                    0,
                );
                asm!("mov {0}, [{0}]", inout(reg) page.unwrap() => _);
            }
        }
        "sent" => {
            let _mem = AddressSpace::based().unwrap();
            // SAFETY: no memory is involved.
            unsafe { libc::raise(libc::SIGSEGV) };
        }
        "hook" => {
            static SEEN: AtomicU64 = AtomicU64::new(0);
            let _mem = AddressSpace::based().unwrap();
            set_sent_hook(|signal, _| {
                SEEN.store(signal as u64, Ordering::SeqCst);
                true
            });
            // SAFETY: no memory is involved.
            unsafe { libc::raise(libc::SIGBUS) };
            assert_eq!(SEEN.load(Ordering::SeqCst), libc::SIGBUS as u64);
        }
        "fpe" => {
            assert!(register_fpe_resolver(|fault, context| {
                context.set_gpr(0, fault.code as u64);
                let rip = context.rip() + 2;
                context.set_rip(rip);
                fault.signal == libc::SIGFPE
            }));
            let code: u64;
            // SAFETY: `div ecx`, two bytes, by zero: resolved.
            unsafe {
                asm!("div ecx", in("ecx") 0, inout("eax") 1_u32 => _, inout("edx") 0 => _,
                     options(nostack));
                asm!("div ecx", in("ecx") 0, inout("rax") 1_u64 => code, inout("edx") 0 => _,
                     options(nostack));
            }
            // FPE_INTDIV.
            assert_eq!(code, 1);
        }
        other => panic!("mode {other}"),
    }
}

fn in_child(mode: &str) -> std::process::ExitStatus {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "mem::tests::handlers::child", "--test-threads=1"])
        .env(MODE, mode)
        .output()
        .unwrap();
    eprintln!("{}", String::from_utf8_lossy(&output.stdout));
    output.status
}

#[test]
fn a_bug_of_the_emulator_still_kills_it_by_its_signal() {
    assert_eq!(in_child("bug").signal(), Some(libc::SIGSEGV));
    assert_eq!(in_child("bug bus").signal(), Some(libc::SIGBUS));
}

#[test]
fn a_signal_that_was_sent_kills_unless_a_hook_takes_it() {
    assert_eq!(in_child("sent").signal(), Some(libc::SIGSEGV));
    assert!(in_child("hook").success());
}

#[test]
fn arithmetic_faults_of_the_host_reach_their_resolver() {
    assert!(in_child("fpe").success());
}

#[test]
fn a_window_that_does_not_fit_is_an_error_with_a_reason() {
    assert!(in_child("limited").success());
    assert!(in_child("in the way").success());
}

#[test]
fn the_identity_window_works_once_in_a_process() {
    assert!(in_child("identity").success());
}

fn identity() {
    let mem = AddressSpace::identity().unwrap();
    assert_eq!((mem.host_base(), mem.kind()), (0, WindowKind::Identity));
    assert!(matches!(AddressSpace::identity(), Err(WindowError::AlreadyTaken)));
    let low = mem.lowest_address();
    for va in [low, AT, WINDOW_SIZE - PAGE_SIZE] {
        assert_eq!(mem.map(&fixed(PAGE_SIZE, RW, va)), Ok(va));
        mem.store_u64(va + 16, va).unwrap();
        assert_eq!(mem.load_u64(va + 16), Ok(va));
        assert_eq!(mem.host_range(va, 8, Access::Load).unwrap() as u64, va);
        assert_eq!(mem.load_u64(va - 8), fault(va - 8, Access::Load, FaultKind::Unmapped));
    }
    // Nothing of the emulator's can be reached, changed or removed.
    let own = Box::new(7_u64);
    let own_at = &raw const *own as u64;
    let page = own_at & !(PAGE_SIZE - 1);
    assert_eq!(mem.store_u64(own_at, 1), fault(own_at, Access::Store, FaultKind::OutOfWindow));
    assert_eq!(mem.load_u64(own_at), fault(own_at, Access::Load, FaultKind::OutOfWindow));
    assert_eq!(mem.map(&fixed(PAGE_SIZE, RW, page)), Err(MapError::NoMemory));
    assert_eq!(mem.unmap(page, PAGE_SIZE), Err(MapError::Invalid));
    assert!(mem.host_range(AT, own_at - AT, Access::Load).is_err());
    for va in [0, 8, low - 8, u64::MAX, 1 << 63] {
        assert!(mem.load_u64(va).is_err() && mem.store_u64(va, 1).is_err());
    }
    assert_eq!(*own, 7);
    mem.unmap_all().unwrap();
    assert_eq!(mem.load_u64(AT), fault(AT, Access::Load, FaultKind::Unmapped));
    // Given back when it goes; based windows do not mind.
    assert!(AddressSpace::based().is_ok());
    drop(mem);
    drop(AddressSpace::identity().unwrap());
}
