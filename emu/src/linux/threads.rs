//! Threads and processes: clone, fork, vfork, wait, futex, and what happens when a thread ends.

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use super::abi;
use super::call::Call;
use super::errno::{Errno, SysResult};
use super::host;
use super::osf;
use super::process::{Process, lock};
use super::{Linux, Task};
use crate::cpu::{Cpu, LOCK_FREE, Vcpu};
use crate::engine::Outcome;

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_SETTLS: u64 = 0x8_0000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
const CLONE_CHILD_SETTID: u64 = 0x100_0000;

/// What a child starts with: v0 = 0, a3 = 0, a4 = 1.
fn child_registers(cpu: &mut Cpu) {
    cpu.r[0] = 0;
    cpu.r[19] = 0;
    cpu.r[20] = 1;
    cpu.lock_addr = LOCK_FREE;
}

/// fork in its three forms. The child is a copy of this host process in which this thread goes on.
fn fork_with(c: &mut Call<'_>, flags: u64, stack: u64, child_tid: u64, tls: u64) -> SysResult {
    // vfork: the parent waits until the child has ended or executed a program, which closes this.
    let mut gate = [-1i32; 2];
    if flags & CLONE_VFORK != 0 {
        let cloexec = libc::O_CLOEXEC as u64;
        c.host(libc::SYS_pipe2, &[gate.as_mut_ptr() as u64, cloexec])?;
    }
    // Signals wait: between the copy and the child's own bookkeeping nothing may be delivered.
    let mask = host::set_mask(u64::MAX);
    let forked = {
        let process = c.linux.process.clone();
        let _map = process.mem.freeze();
        let _actions = lock(&process.actions);
        let _threads = lock(&process.threads);
        let _brk = lock(&process.brk);
        host::fork()
    };
    let pid = match forked {
        Ok(pid) => pid,
        Err(errno) => {
            host::set_mask(mask);
            return Err(errno);
        }
    };
    if pid == 0 {
        if gate[0] >= 0 {
            // The write end stays open in the child until it executes or ends.
            let _ = c.host(libc::SYS_close, &[gate[0] as u64]);
        }
        let task = &mut c.linux.task;
        task.tid = host::gettid();
        task.is_main = true;
        task.queue.clear();
        task.robust_list = (0, 0);
        let mut threads = lock(&c.linux.process.threads);
        threads.alive = vec![c.linux.task.tid];
        threads.end = None;
        c.linux.process.end_decided.store(false, Ordering::Release);
        drop(threads);
        c.linux.process.forget_unknown();
        child_registers(&mut c.vcpu.cpu);
        if stack != 0 {
            c.vcpu.cpu.r[30] = stack;
        }
        if flags & CLONE_SETTLS != 0 {
            c.vcpu.cpu.unique = tls;
        }
        if flags & CLONE_CHILD_SETTID != 0 {
            let _ = c.write_u32(child_tid, c.linux.task.tid as u32);
        }
        c.linux.task.clear_child_tid =
            if flags & CLONE_CHILD_CLEARTID != 0 { child_tid } else { 0 };
        host::set_mask(mask);
        return Err(Errno::NO_RESULT);
    }
    host::set_mask(mask);
    if gate[0] >= 0 {
        let _ = c.host(libc::SYS_close, &[gate[1] as u64]);
        let mut byte = 0u8;
        // Returns 0 at the end of file; a signal does not end the wait of a vfork.
        while c.host(libc::SYS_read, &[gate[0] as u64, &raw mut byte as u64, 1])
            == Err(Errno::INTERRUPTED)
        {}
        let _ = c.host(libc::SYS_close, &[gate[0] as u64]);
    }
    c.second(0);
    Ok(pid as u64)
}

/// fork.
pub fn fork(c: &mut Call<'_>) -> SysResult {
    fork_with(c, 0, 0, 0, 0)
}

/// vfork.
pub fn vfork(c: &mut Call<'_>) -> SysResult {
    vfork_with(c, CLONE_VM | CLONE_VFORK, 0, 0, 0)
}

/// Stack of a guest thread's host thread: an engine may compile there. The host gives it memory as
/// it is touched.
const STACK: usize = 8 << 20;

/// vfork with shared memory: what the child stores (posix_spawn's error) the parent sees.
fn vfork_with(c: &mut Call<'_>, flags: u64, stack: u64, child_tid: u64, tls: u64) -> SysResult {
    let Some(runner) = c.linux.process.runner.clone() else {
        return fork_with(c, flags, stack, child_tid, tls);
    };
    let vcpu = child_vcpu(c.vcpu, flags, stack, tls);
    let (process, mask, swcr) = (c.linux.process.clone(), c.linux.task.mask, c.linux.task.swcr);
    let altstack = c.linux.task.altstack;
    let host_mask = host::set_mask(u64::MAX);
    let child = move || {
        let tid = host::gettid();
        let process = Arc::new(process.sharing_child(tid));
        let mut task = Task::new(tid, mask, true);
        (task.swcr, task.altstack) = (swcr, altstack);
        if flags & CLONE_CHILD_CLEARTID != 0 {
            task.clear_child_tid = child_tid;
        }
        if flags & CLONE_CHILD_SETTID != 0 {
            let _ = vcpu.mem.write_bytes(child_tid, &tid.to_le_bytes());
        }
        let mut linux = Linux { process: process.clone(), task };
        linux.enter(&vcpu);
        host::set_mask(abi::mask_to_host(mask));
        runner(vcpu, linux);
        exit_status(&process)
    };
    let forked = host::vfork_sharing(Box::new(child));
    // The child used this thread's storage for its own mailbox.
    c.linux.task.mailbox.enter_thread(&c.vcpu.cpu.poll);
    host::set_mask(host_mask);
    c.second(0);
    forked.map(|pid| pid as u64)
}

/// The status of a process whose only thread has ended; one that a signal ended dies by it here.
fn exit_status(process: &Process) -> i32 {
    match process.ending() {
        Some(Outcome::Signalled { signal, .. }) => host::die_by_signal(abi::signal_to_host(signal)),
        Some(Outcome::Exited(status)) => status,
        _ => 127,
    }
}

/// A processor for a child of this one.
fn child_vcpu(parent: &Vcpu, flags: u64, stack: u64, tls: u64) -> Vcpu {
    let mut vcpu = Vcpu::new(parent.mem.clone(), parent.model);
    (vcpu.pal, vcpu.unaligned) = (parent.pal, parent.unaligned);
    (vcpu.precise, vcpu.observed) = (parent.precise, parent.observed);
    let cpu = &mut vcpu.cpu;
    (cpu.r, cpu.f) = (parent.cpu.r, parent.cpu.f);
    (cpu.pc, cpu.fpcr, cpu.unique) = (parent.cpu.pc, parent.cpu.fpcr, parent.cpu.unique);
    child_registers(cpu);
    if stack != 0 {
        cpu.r[30] = stack;
    }
    if flags & CLONE_SETTLS != 0 {
        cpu.unique = tls;
    }
    vcpu
}

/// clone(flags, stack, parent_tid, child_tid, tls).
pub fn clone(c: &mut Call<'_>) -> SysResult {
    let [flags, stack, parent_tid, child_tid, tls, _] = c.a;
    if flags & CLONE_THREAD == 0 {
        // Sharing memory without being a thread is done for vfork-like callers only.
        let pid = match (flags & CLONE_VM != 0, flags & CLONE_VFORK != 0) {
            (true, false) => return Err(Errno::EINVAL),
            (true, true) => vfork_with(c, flags, stack, child_tid, tls)?,
            _ => fork_with(c, flags, stack, child_tid, tls)?,
        };
        if flags & CLONE_PARENT_SETTID != 0 {
            c.write_u32(parent_tid, pid as u32)?;
        }
        return Ok(pid);
    }
    if flags & CLONE_VM == 0 {
        return Err(Errno::EINVAL);
    }
    let Some(runner) = c.linux.process.runner.clone() else { return Err(Errno::ENOSYS) };
    c.vcpu.mem.set_alone(false);
    let vcpu = child_vcpu(c.vcpu, flags, stack, tls);
    let mut task = Task::new(0, c.linux.task.mask, false);
    task.swcr = c.linux.task.swcr;
    if flags & CLONE_CHILD_CLEARTID != 0 {
        task.clear_child_tid = child_tid;
    }
    let process = c.linux.process.clone();
    let (announce, announced) = mpsc::sync_channel(1);
    let (go, may_go) = mpsc::sync_channel::<()>(1);
    // The new thread inherits a closed mask and opens it when its mailbox is in place.
    let mask = host::set_mask(u64::MAX);
    let pid = std::process::id();
    let spawned = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        task.tid = host::gettid();
        let mut linux = Linux { process, task };
        lock(&linux.process.threads).alive.push(linux.task.tid);
        let _ = announce.send(linux.task.tid);
        let _ = may_go.recv();
        if flags & CLONE_CHILD_SETTID != 0 {
            let _ = vcpu.mem.write_bytes(child_tid, &linux.task.tid.to_le_bytes());
        }
        linux.enter(&vcpu);
        host::set_mask(abi::mask_to_host(linux.task.mask));
        let process = linux.process.clone();
        runner(vcpu, linux);
        // If it has forked, this is the child's only thread, and its end is the child's.
        if std::process::id() != pid {
            std::process::exit(exit_status(&process));
        }
    });
    host::set_mask(mask);
    if spawned.is_err() {
        return Err(Errno::EAGAIN);
    }
    let Ok(tid) = announced.recv() else { return Err(Errno::EAGAIN) };
    if flags & CLONE_PARENT_SETTID != 0 {
        let _ = c.write_u32(parent_tid, tid as u32);
    }
    let _ = go.send(());
    c.second(0);
    Ok(tid as u64)
}

const FUTEX_OWNER_DIED: u32 = 0x4000_0000;
const FUTEX_WAITERS: u32 = 0x8000_0000;
const FUTEX_TID_MASK: u32 = 0x3fff_ffff;
/// The kernel's bound against circular lists.
const ROBUST_LIMIT: usize = 2048;

fn wake(vcpu: &Vcpu, va: u64, count: u64) {
    if let Ok(at) = vcpu.mem.host_range(va, 4, crate::mem::Access::Load) {
        let wake = libc::FUTEX_WAKE as u64;
        let _ = host::call(libc::SYS_futex, [at as u64, wake, count, 0, 0, 0]);
    }
}

/// What the kernel does for an ending thread: robust mutexes, the join word.
pub fn release(linux: &mut Linux, vcpu: &Vcpu) {
    let (head, _) = linux.task.robust_list;
    if head != 0 {
        release_robust(linux, vcpu, head);
    }
    let word = linux.task.clear_child_tid;
    if word != 0 && vcpu.mem.write_bytes(word, &[0; 4]).is_ok() {
        wake(vcpu, word, 1);
    }
}

fn release_robust(linux: &Linux, vcpu: &Vcpu, head: u64) {
    let quad = |va: u64| vcpu.mem.load_u64(va).ok();
    let (Some(mut entry), Some(offset), Some(pending)) =
        (quad(head), quad(head.wrapping_add(8)), quad(head.wrapping_add(16)))
    else {
        return;
    };
    let tid = linux.task.tid as u32;
    let die = |entry: u64| {
        let at = (entry & !1).wrapping_add(offset);
        while let Ok(word) = vcpu.mem.load_u32(at) {
            if word & FUTEX_TID_MASK != tid {
                return;
            }
            let new = word & FUTEX_WAITERS | FUTEX_OWNER_DIED;
            match vcpu.mem.compare_exchange_u32(at, word, new) {
                Ok(true) => {
                    if word & FUTEX_WAITERS != 0 {
                        wake(vcpu, at, 1);
                    }
                    return;
                }
                Ok(false) => {}
                Err(_) => return,
            }
        }
    };
    for _ in 0..ROBUST_LIMIT {
        if entry & !1 == head {
            break;
        }
        let next = quad(entry & !1);
        if entry & !1 != pending & !1 {
            die(entry);
        }
        match next {
            Some(next) => entry = next,
            None => break,
        }
    }
    if pending != 0 {
        die(pending);
    }
}

/// set_tid_address.
pub fn set_tid_address(c: &mut Call<'_>) -> SysResult {
    c.linux.task.clear_child_tid = c.a[0];
    Ok(c.linux.task.tid as u64)
}

/// set_robust_list: the emulator walks it itself, the host's list is its own library's.
pub fn set_robust_list(c: &mut Call<'_>) -> SysResult {
    if c.a[1] != 24 {
        return Err(Errno::EINVAL);
    }
    c.linux.task.robust_list = (c.a[0], c.a[1]);
    Ok(0)
}

/// get_robust_list of the calling thread.
pub fn get_robust_list(c: &mut Call<'_>) -> SysResult {
    if c.a[0] != 0 && c.a[0] as i32 != c.linux.task.tid {
        return Err(Errno::EPERM);
    }
    let (head, size) = c.linux.task.robust_list;
    c.write_u64(c.a[1], head)?;
    c.write_u64(c.a[2], size)?;
    Ok(0)
}

/// futex: numbers are generic; the word and a second word are guest memory.
pub fn futex(c: &mut Call<'_>) -> SysResult {
    let [word, op, value, timeout, word2, value3] = c.a;
    let word = c.buf(word, 4)?;
    let command = op as i32 & 0x7f;
    let (fourth, fifth) = match command {
        // WAIT 0, LOCK_PI 6, WAIT_BITSET 9, LOCK_PI2 13: a timeout.
        0 | 6 | 9 | 13 => (c.opt(timeout, 16)?, 0),
        // WAIT_REQUEUE_PI 11: both.
        11 => (c.opt(timeout, 16)?, c.buf(word2, 4)?),
        // REQUEUE 3, CMP_REQUEUE 4, WAKE_OP 5, CMP_REQUEUE_PI 12: a count and a word.
        3 | 4 | 5 | 12 => (timeout, c.buf(word2, 4)?),
        // WAKE 1, UNLOCK_PI 7, TRYLOCK_PI 8, WAKE_BITSET 10.
        _ => (0, 0),
    };
    c.wait(libc::SYS_futex, &[word, op, value, fourth, fifth, value3])
}

fn write_status(c: &Call<'_>, at: u64, status: i32) -> Result<(), Errno> {
    if at != 0 {
        c.write_u32(at, abi::status_from_host(status) as u32)?;
    }
    Ok(())
}

/// wait4: the status names Alpha's signals.
pub fn wait4(c: &mut Call<'_>) -> SysResult {
    let [pid, status_at, options, usage, ..] = c.a;
    let mut status = 0i32;
    let args = [pid, &raw mut status as u64, options, c.opt(usage, 144)?];
    let child = c.wait(libc::SYS_wait4, &args)?;
    if child != 0 {
        write_status(c, status_at, status)?;
    }
    Ok(child)
}

/// wait4 of OSF/1: 32-bit times in the usage.
pub fn osf_wait4(c: &mut Call<'_>) -> SysResult {
    let [pid, status_at, options, usage_at, ..] = c.a;
    let mut status = 0i32;
    let mut usage = [0u8; size_of::<libc::rusage>()];
    let args = [pid, &raw mut status as u64, options, usage.as_mut_ptr() as u64];
    let child = c.wait(libc::SYS_wait4, &args)?;
    if child != 0 {
        write_status(c, status_at, status)?;
        if usage_at != 0 {
            osf::write_rusage32(c, usage_at, &host::rusage_from(usage))?;
        }
    }
    Ok(child)
}

/// waitid: the siginfo of a child, and its usage.
pub fn waitid(c: &mut Call<'_>) -> SysResult {
    let [which, id, info_at, options, usage, _] = c.a;
    let mut info = [0u8; abi::SIGINFO_SIZE];
    let args = [which, id, info.as_mut_ptr() as u64, options, c.opt(usage, 144)?];
    let result = c.wait(libc::SYS_waitid, &args)?;
    if info_at != 0 {
        c.write(info_at, &abi::siginfo_from_host(info))?;
    }
    Ok(result)
}
