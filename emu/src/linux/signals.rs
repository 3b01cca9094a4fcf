//! Signals: actions, masks, what is delivered when, and the calls about them.
//!
//! Dispositions and masks are mirrored on the host, so that its kernel keeps what is pending,
//! stops and continues, and ends the process where that is the default. A signal with a guest
//! handler arrives in the [`Mailbox`](super::host::Mailbox) and waits there for the next event.

use std::sync::atomic::Ordering;

use super::Linux;
use super::abi::{self, Layout, SIGINFO_SIZE, sig};
use super::call::Call;
use super::errno::{Errno, SysResult};
use super::frame;
use super::host::{self, HostAction};
use super::process::lock;
use super::table::Syscall;
use crate::cpu::Vcpu;
use crate::engine::Outcome;
use crate::mem::{FaultKind, MemFault};

/// Handler value: the default action.
pub const SIG_DFL: u64 = 0;
/// Handler value: ignore.
pub const SIG_IGN: u64 = 1;

const SA_ONSTACK: u64 = 1;
const SA_RESTART: u64 = 2;
const SA_NOCLDSTOP: u64 = 4;
const SA_NODEFER: u64 = 8;
const SA_RESETHAND: u64 = 0x10;
const SA_NOCLDWAIT: u64 = 0x20;
/// The handler takes a siginfo and a ucontext.
pub const SA_SIGINFO: u64 = 0x40;

/// SIGILL: illegal opcode.
pub const ILL_ILLOPC: i32 = 1;
/// SIGTRAP: breakpoint.
pub const TRAP_BRKPT: i32 = 1;
/// SIGTRAP: undiagnosed.
pub const TRAP_UNK: i32 = 5;
/// SIGSEGV: nothing mapped.
pub const SEGV_MAPERR: i32 = 1;
/// SIGSEGV: protected.
pub const SEGV_ACCERR: i32 = 2;
/// SIGBUS: unaligned.
pub const BUS_ADRALN: i32 = 1;
/// SIGBUS: no such object.
pub const BUS_ADRERR: i32 = 2;

const SS_ONSTACK: u32 = 1;
const SS_DISABLE: u32 = 2;
const MINSIGSTKSZ: u64 = 4096;

/// Signals that cannot be blocked, caught or ignored.
const UNBLOCKABLE: u64 = bit(sig::KILL) | bit(sig::STOP);

/// The bit of a signal in a set.
pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// What a program wants done with a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// Address, or [`SIG_DFL`] or [`SIG_IGN`].
    pub handler: u64,
    /// SA_ flags.
    pub flags: u64,
    /// Blocked while the handler runs.
    pub mask: u64,
    /// Where the handler returns to, or 0.
    pub restorer: u64,
}

/// The alternate stack of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AltStack {
    /// Lowest address.
    pub sp: u64,
    /// SS_ flags as set.
    pub flags: u32,
    /// Bytes.
    pub size: u64,
}

impl Default for AltStack {
    fn default() -> Self {
        AltStack { sp: 0, flags: SS_DISABLE, size: 0 }
    }
}

impl AltStack {
    /// Whether `sp` lies on it.
    pub fn holds(&self, sp: u64) -> bool {
        self.size != 0 && sp.wrapping_sub(self.sp) < self.size
    }

    /// The flags as a program reads them.
    pub fn flags_at(&self, sp: u64) -> u32 {
        if self.size == 0 {
            SS_DISABLE
        } else if self.holds(sp) {
            SS_ONSTACK
        } else {
            0
        }
    }
}

/// A signal on its way, in the guest's layout and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SigInfo {
    /// The siginfo of 128 bytes.
    pub bytes: [u8; SIGINFO_SIZE],
    /// Raised by an instruction: kills the program if it is blocked or ignored.
    pub forced: bool,
    /// The three trap arguments of the PALcode, for the frame.
    pub trap_args: [u64; 3],
}

impl SigInfo {
    /// A signal raised by an instruction.
    pub fn fault(signal: i32, code: i32, addr: u64) -> Self {
        let mut out = Layout::<SIGINFO_SIZE>::new();
        out.u32(0, signal as u32);
        out.u32(8, code as u32);
        out.u64(16, addr);
        SigInfo { bytes: out.0, forced: true, trap_args: [0; 3] }
    }

    /// The same with si_trapno.
    pub fn with_trapno(mut self, trapno: i32) -> Self {
        self.bytes[24..28].copy_from_slice(&trapno.to_le_bytes());
        self
    }

    /// What the kernel makes of a memory-management fault.
    pub fn memory(fault: &MemFault) -> Self {
        let (signal, code) = match fault.why {
            FaultKind::Protected => (sig::SEGV, SEGV_ACCERR),
            FaultKind::Unmapped | FaultKind::OutOfWindow => (sig::SEGV, SEGV_MAPERR),
            FaultKind::BusError | FaultKind::MachineCheck => (sig::BUS, BUS_ADRERR),
            FaultKind::AccessViolation
            | FaultKind::NotValid
            | FaultKind::OnRead
            | FaultKind::OnWrite
            | FaultKind::OnExecute => (sig::SEGV, SEGV_ACCERR),
            FaultKind::Unaligned => (sig::BUS, BUS_ADRALN),
        };
        // MMCSR (AARM II-B 3.7.3): 0 translation not valid, 1 access violation.
        let mmcsr = u64::from(fault.why == FaultKind::Protected);
        let cause = match fault.access {
            crate::mem::Access::Fetch => u64::MAX,
            crate::mem::Access::Load => 0,
            crate::mem::Access::Store => 1,
        };
        SigInfo { trap_args: [fault.va, mmcsr, cause], ..Self::fault(signal, code, fault.va) }
    }

    /// A signal that the host's kernel delivered.
    pub fn from_host(info: [u8; SIGINFO_SIZE]) -> Self {
        SigInfo { bytes: abi::siginfo_from_host(info), forced: false, trap_args: [0; 3] }
    }

    /// The same with another number.
    pub fn renumbered(mut self, signal: i32) -> Self {
        self.bytes[..4].copy_from_slice(&signal.to_le_bytes());
        self
    }

    /// Number.
    pub fn signal(&self) -> i32 {
        Layout(self.bytes).get_u32(0) as i32
    }

    /// Address, for signals that have one.
    pub fn addr(&self) -> u64 {
        if self.forced { Layout(self.bytes).get_u64(16) } else { 0 }
    }
}

/// What the default action of a signal is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DefaultAction {
    Ignore,
    Stop,
    Terminate,
}

pub(super) fn default_action(signal: i32) -> DefaultAction {
    match signal {
        sig::CHLD | sig::URG | sig::WINCH | sig::CONT => DefaultAction::Ignore,
        sig::STOP | sig::TSTP | sig::TTIN | sig::TTOU => DefaultAction::Stop,
        _ => DefaultAction::Terminate,
    }
}

impl Linux {
    /// Queues a signal for this thread; it is delivered when the event has been handled.
    pub(super) fn raise(&mut self, info: SigInfo) {
        if info.forced {
            let signal = info.signal();
            let action = &mut lock(&self.process.actions)[signal as usize];
            // A blocked or ignored fault is fatal: the kernel resets the action and the mask.
            if self.task.mask & bit(signal) != 0 || action.handler == SIG_IGN {
                action.handler = SIG_DFL;
                self.task.mask &= !bit(signal);
            }
            self.task.queue.push_front(info);
        } else {
            self.task.queue.push_back(info);
        }
    }

    /// Moves what the host delivered into the queue.
    fn collect(&mut self) -> bool {
        super::clear_attention(&self.task);
        let mut any = false;
        while let Some(info) = self.task.mailbox.take() {
            any = true;
            self.task.queue.push_back(SigInfo::from_host(info));
        }
        any
    }

    fn next_index(&self) -> Option<usize> {
        let mask = self.task.mask;
        self.task.queue.iter().position(|s| mask & bit(s.signal()) == 0)
    }

    /// Whether a queued signal is not blocked.
    pub(super) fn has_deliverable(&self) -> bool {
        self.next_index().is_some()
    }

    /// Whether an interrupted call is executed again: if no handler will run, or if its action says
    /// so and the call is one of those that restart.
    pub(super) fn restarts(&mut self, row: &Syscall) -> bool {
        self.collect();
        let actions = *lock(&self.process.actions);
        let next = self.task.queue.iter().find(|s| {
            let signal = s.signal();
            self.task.mask & bit(signal) == 0 && actions[signal as usize].handler > SIG_IGN
        });
        match next {
            None => true,
            Some(s) => row.restarts && actions[s.signal() as usize].flags & SA_RESTART != 0,
        }
    }

    /// Delivers what is pending and not blocked: builds frames, or ends the program.
    pub(super) fn deliver(&mut self, vcpu: &mut Vcpu) {
        let mut mask_closed = self.collect();
        while self.task.stop.is_none() {
            let Some(index) = self.next_index() else {
                if let Some(saved) = self.task.saved_mask.take() {
                    self.task.mask = saved;
                    mask_closed = true;
                    continue;
                }
                if !mask_closed {
                    break;
                }
                // Opening the mask may bring the next one at once.
                host::set_mask(abi::mask_to_host(self.task.mask));
                mask_closed = self.collect();
                if !mask_closed {
                    break;
                }
                continue;
            };
            let Some(info) = self.task.queue.remove(index) else { break };
            self.deliver_one(vcpu, &info);
            mask_closed = true;
        }
    }

    fn deliver_one(&mut self, vcpu: &mut Vcpu, info: &SigInfo) {
        let mut signal = info.signal();
        if let Some(watcher) = self.process.watcher.get() {
            let Some(chosen) = watcher(vcpu, self.task.tid, signal) else { return };
            signal = chosen.clamp(1, 64);
        }
        let info = &info.renumbered(signal);
        let action = lock(&self.process.actions)[signal as usize];
        match action.handler {
            SIG_IGN => return,
            SIG_DFL => {
                match default_action(signal) {
                    DefaultAction::Ignore => {}
                    DefaultAction::Stop => {
                        let pid = u64::from(std::process::id());
                        let _ = host::call(libc::SYS_kill, [pid, libc::SIGSTOP as u64, 0, 0, 0, 0]);
                    }
                    DefaultAction::Terminate => {
                        let (pc, addr) = (vcpu.cpu.pc, info.addr());
                        self.task.stop = Some(Outcome::Signalled { signal, pc, addr });
                    }
                }
                return;
            }
            _ => {}
        }
        let old_mask = self.task.saved_mask.take().unwrap_or(self.task.mask);
        let on_alt =
            action.flags & SA_ONSTACK != 0 && self.task.altstack.flags_at(vcpu.cpu.r[30]) == 0;
        let top = if on_alt {
            self.task.altstack.sp.wrapping_add(self.task.altstack.size)
        } else {
            vcpu.cpu.r[30]
        };
        match frame::build(self, vcpu, info, &action, old_mask, top) {
            Ok(code) => {
                if let Some(range) = code {
                    self.task.code_change.get_or_insert(range);
                }
                if action.flags & SA_RESETHAND != 0 {
                    self.set_action(signal, Action::default());
                }
                // During sigsuspend the temporary mask is the base, as in the kernel.
                let mut mask = self.task.mask | action.mask;
                if action.flags & SA_NODEFER == 0 {
                    mask |= bit(signal);
                }
                self.task.mask = mask & !UNBLOCKABLE;
            }
            Err(_) => {
                // No room for the frame: SIGSEGV, and if that was the signal, the end.
                let (pc, addr) = (vcpu.cpu.pc, vcpu.cpu.r[30]);
                if signal == sig::SEGV {
                    self.task.stop = Some(Outcome::Signalled { signal, pc, addr });
                } else {
                    self.raise(SigInfo::fault(sig::SEGV, SEGV_MAPERR, addr));
                }
            }
        }
    }

    /// Sets an action, here and on the host.
    pub(super) fn set_action(&mut self, signal: i32, action: Action) {
        let mut actions = lock(&self.process.actions);
        actions[signal as usize] = action;
        let is_handled = |action: &Action| action.handler > SIG_IGN;
        let handled = [sig::SEGV, sig::BUS].iter().any(|&s| is_handled(&actions[s as usize]));
        let observed = actions.iter().any(is_handled);
        drop(actions);
        self.process.precise.store(handled, Ordering::Release);
        self.process.observed.store(observed, Ordering::Release);
        let host = abi::signal_to_host(signal);
        // Those come here always.
        if host::FAULT_SIGNALS.contains(&host) || host == host::poke_signal() {
            return;
        }
        let what = match action.handler {
            SIG_DFL if self.process.comes_here(signal) => HostAction::Handle,
            SIG_DFL => HostAction::Default,
            SIG_IGN => HostAction::Ignore,
            _ => HostAction::Handle,
        };
        let mut flags = 0;
        if signal == sig::CHLD && action.flags & SA_NOCLDSTOP != 0 {
            flags |= libc::SA_NOCLDSTOP;
        }
        if signal == sig::CHLD && action.flags & SA_NOCLDWAIT != 0 {
            flags |= libc::SA_NOCLDWAIT;
        }
        host::set_action(host, what, flags);
    }

    /// Sets the mask, here and on the host.
    pub(super) fn set_mask(&mut self, mask: u64) {
        self.task.mask = mask & !UNBLOCKABLE;
        host::set_mask(abi::mask_to_host(self.task.mask));
    }
}

fn changed_mask(how: u64, old: u64, set: u64) -> Result<u64, Errno> {
    match how {
        1 => Ok(old | set),
        2 => Ok(old & !set),
        3 => Ok(set),
        _ => Err(Errno::EINVAL),
    }
}

/// sigprocmask of OSF/1: the set by value, the old one as the result.
pub fn osf_sigprocmask(c: &mut Call<'_>) -> SysResult {
    let old = c.linux.task.mask;
    let new = changed_mask(c.a[0], old, c.a[1])?;
    c.linux.set_mask(new);
    Ok(old)
}

/// rt_sigprocmask.
pub fn rt_sigprocmask(c: &mut Call<'_>) -> SysResult {
    let [how, set, oset, size, ..] = c.a;
    if size != 8 {
        return Err(Errno::EINVAL);
    }
    let old = c.linux.task.mask;
    if set != 0 {
        let new = changed_mask(how, old, c.read_u64(set)?)?;
        c.linux.set_mask(new);
    }
    if oset != 0 {
        c.write_u64(oset, old)?;
    }
    Ok(0)
}

fn change_action(c: &mut Call<'_>, signal: u64, new: Option<Action>) -> Result<Action, Errno> {
    if !(1..=64).contains(&signal) || new.is_some() && UNBLOCKABLE & 1 << (signal - 1) != 0 {
        return Err(Errno::EINVAL);
    }
    let old = lock(&c.linux.process.actions)[signal as usize];
    if let Some(mut new) = new {
        new.mask &= !UNBLOCKABLE;
        c.linux.set_action(signal as i32, new);
    }
    Ok(old)
}

/// rt_sigaction: five arguments, the restorer is the fifth.
pub fn rt_sigaction(c: &mut Call<'_>) -> SysResult {
    let [signal, act, oact, size, restorer, _] = c.a;
    if size != 8 {
        return Err(Errno::EINVAL);
    }
    let new = match act {
        0 => None,
        at => {
            let [handler, flags, mask] =
                [c.read_u64(at)?, c.read_u64(at + 8)?, c.read_u64(at + 16)?];
            Some(Action { handler, flags, mask, restorer })
        }
    };
    let old = change_action(c, signal, new)?;
    if oact != 0 {
        for (i, value) in [old.handler, old.flags, old.mask].into_iter().enumerate() {
            c.write_u64(oact + 8 * i as u64, value)?;
        }
    }
    Ok(0)
}

/// sigaction of OSF/1: handler, mask, flags (a longword).
pub fn sigaction(c: &mut Call<'_>) -> SysResult {
    let [signal, act, oact, ..] = c.a;
    let new = match act {
        0 => None,
        at => Some(Action {
            handler: c.read_u64(at)?,
            mask: c.read_u64(at + 8)?,
            flags: u64::from(c.read_u32(at + 16)?),
            restorer: 0,
        }),
    };
    let old = change_action(c, signal, new)?;
    if oact != 0 {
        c.write_u64(oact, old.handler)?;
        c.write_u64(oact + 8, old.mask)?;
        c.write_u32(oact + 16, old.flags as u32)?;
    }
    Ok(0)
}

/// sigaltstack.
pub fn sigaltstack(c: &mut Call<'_>) -> SysResult {
    let [new, old, ..] = c.a;
    let current = c.linux.task.altstack;
    let sp = c.vcpu.cpu.r[30];
    let mut set = None;
    if new != 0 {
        let stack = AltStack {
            sp: c.read_u64(new)?,
            flags: c.read_u32(new + 8)?,
            size: c.read_u64(new + 16)?,
        };
        if current.holds(sp) {
            return Err(Errno::EPERM);
        }
        set = Some(match stack.flags {
            SS_DISABLE => AltStack::default(),
            0 | SS_ONSTACK if stack.size < MINSIGSTKSZ => return Err(Errno::ENOMEM),
            0 | SS_ONSTACK => stack,
            _ => return Err(Errno::EINVAL),
        });
    }
    if old != 0 {
        let mut out = Layout::<24>::new();
        out.u64(0, current.sp);
        out.u32(8, current.flags_at(sp));
        out.u64(16, current.size);
        c.write(old, &out.0)?;
    }
    if let Some(stack) = set {
        c.linux.task.altstack = stack;
    }
    Ok(0)
}

/// Waits on the host with another mask in force; the handler returns to the old one.
pub fn suspended(c: &mut Call<'_>, mask: u64) -> SysResult {
    let old = c.linux.task.mask;
    c.linux.task.mask = mask & !UNBLOCKABLE;
    c.linux.task.saved_mask = Some(old);
    let host = host::without_faults(abi::mask_to_host(c.linux.task.mask));
    // What the host cannot know of is looked at first.
    if c.linux.next_index().is_some() {
        return Err(Errno::INTERRUPTED);
    }
    c.wait(libc::SYS_rt_sigsuspend, &[&raw const host as u64, 8])
}

/// sigsuspend: the mask by value.
pub fn sigsuspend(c: &mut Call<'_>) -> SysResult {
    suspended(c, c.a[0])
}

/// rt_sigsuspend.
pub fn rt_sigsuspend(c: &mut Call<'_>) -> SysResult {
    let mask = c.read_u64(c.a[0])?;
    suspended(c, mask)
}

/// sigpending and rt_sigpending.
pub fn sigpending(c: &mut Call<'_>) -> SysResult {
    let mut set = abi::mask_from_host(host::pending());
    for info in &c.linux.task.queue {
        set |= bit(info.signal());
    }
    c.write_u64(c.a[0], set & c.linux.task.mask)?;
    Ok(0)
}

/// rt_sigtimedwait.
pub fn rt_sigtimedwait(c: &mut Call<'_>) -> SysResult {
    let [set, info, timeout, ..] = c.a;
    let set = c.read_u64(set)? & !UNBLOCKABLE;
    let queued = c.linux.task.queue.iter().position(|s| set & bit(s.signal()) != 0);
    let got = match queued.and_then(|i| c.linux.task.queue.remove(i)) {
        Some(got) => got,
        None => {
            let host_set = abi::mask_to_host(set);
            let mut raw = [0u8; SIGINFO_SIZE];
            let timeout = c.opt(timeout, 16)?;
            let args = [&raw const host_set as u64, raw.as_mut_ptr() as u64, timeout, 8];
            c.wait(libc::SYS_rt_sigtimedwait, &args)?;
            SigInfo::from_host(raw)
        }
    };
    if info != 0 {
        c.write(info, &got.bytes)?;
    }
    Ok(got.signal() as u64)
}

fn host_signal(signal: u64) -> Result<u64, Errno> {
    if signal > 64 { Err(Errno::EINVAL) } else { Ok(abi::signal_to_host(signal as i32) as u64) }
}

/// A signal to oneself that ends the program: known here, so that the end can be reported.
fn ends_self(c: &mut Call<'_>, signal: u64) -> bool {
    let signal = signal as i32;
    let watched = c.linux.process.watcher.get().is_some();
    if watched || !(1..=64).contains(&signal) || c.linux.task.mask & bit(signal) != 0 {
        return false;
    }
    let fatal = lock(&c.linux.process.actions)[signal as usize].handler == SIG_DFL
        && default_action(signal) == DefaultAction::Terminate;
    if fatal {
        let pc = c.vcpu.cpu.pc;
        c.linux.task.stop = Some(Outcome::Signalled { signal, pc, addr: 0 });
    }
    fatal
}

/// kill.
pub fn kill(c: &mut Call<'_>) -> SysResult {
    let [pid, signal, ..] = c.a;
    if pid as i32 == std::process::id() as i32 && ends_self(c, signal) {
        return Ok(0);
    }
    c.host(libc::SYS_kill, &[pid, host_signal(signal)?])
}

/// tkill.
pub fn tkill(c: &mut Call<'_>) -> SysResult {
    let [tid, signal, ..] = c.a;
    if tid as i32 == c.linux.task.tid && ends_self(c, signal) {
        return Ok(0);
    }
    c.host(libc::SYS_tkill, &[tid, host_signal(signal)?])
}

/// tgkill.
pub fn tgkill(c: &mut Call<'_>) -> SysResult {
    let [pid, tid, signal, ..] = c.a;
    if tid as i32 == c.linux.task.tid && ends_self(c, signal) {
        return Ok(0);
    }
    c.host(libc::SYS_tgkill, &[pid, tid, host_signal(signal)?])
}

fn host_info(c: &Call<'_>, at: u64, signal: u64) -> Result<[u8; SIGINFO_SIZE], Errno> {
    let mut info = c.read::<SIGINFO_SIZE>(at)?;
    info[..4].copy_from_slice(&(host_signal(signal)? as u32).to_le_bytes());
    Ok(info)
}

/// What becomes of a queued signal that says it comes from the kernel (a code above 0).
enum Origin {
    /// It goes to the host.
    Plain,
    /// It has been queued for this thread.
    Queued,
}

/// The kernel lets a process send itself what looks like a fault. Sent on the host it would be taken
/// for a fault of the emulator's: to the calling thread it is queued here, to others not sent.
fn sent_fault(c: &mut Call<'_>, info: &[u8; SIGINFO_SIZE], to_me: bool) -> Result<Origin, Errno> {
    let code = Layout(*info).get_u32(8) as i32;
    let signal = Layout(*info).get_u32(0) as i32;
    if code <= 0 || !host::FAULT_SIGNALS.contains(&signal) {
        return Ok(Origin::Plain);
    }
    if !to_me {
        return Err(Errno::EPERM);
    }
    c.linux.raise(SigInfo::from_host(*info));
    Ok(Origin::Queued)
}

/// rt_sigqueueinfo.
pub fn rt_sigqueueinfo(c: &mut Call<'_>) -> SysResult {
    let info = host_info(c, c.a[2], c.a[1])?;
    let to_me = c.a[0] as i32 == std::process::id() as i32;
    if let Origin::Queued = sent_fault(c, &info, to_me)? {
        return Ok(0);
    }
    let args = [c.a[0], host_signal(c.a[1])?, info.as_ptr() as u64];
    c.host(libc::SYS_rt_sigqueueinfo, &args)
}

/// rt_tgsigqueueinfo.
pub fn rt_tgsigqueueinfo(c: &mut Call<'_>) -> SysResult {
    let info = host_info(c, c.a[3], c.a[2])?;
    let to_me = c.a[1] as i32 == c.linux.task.tid;
    if let Origin::Queued = sent_fault(c, &info, to_me)? {
        return Ok(0);
    }
    let args = [c.a[0], c.a[1], host_signal(c.a[2])?, info.as_ptr() as u64];
    c.host(libc::SYS_rt_tgsigqueueinfo, &args)
}

/// pidfd_send_signal.
pub fn pidfd_send_signal(c: &mut Call<'_>) -> SysResult {
    let [fd, signal, info, flags, ..] = c.a;
    let info = match info {
        0 => None,
        at => Some(host_info(c, at, signal)?),
    };
    if let Some(info) = &info {
        sent_fault(c, info, false)?;
    }
    let info = info.as_ref().map_or(0, |bytes| bytes.as_ptr() as u64);
    c.host(libc::SYS_pidfd_send_signal, &[fd, host_signal(signal)?, info, flags])
}
