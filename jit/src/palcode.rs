//! CALL_PAL without leaving compiled code: whom to ask, and where code of the new mode is found.
//!
//! A personality lends its PALcode to an engine for one run (`Engine::run_with`). A call in compiled
//! code then asks it, and baseline code goes on by the jump cache of the code space that the call has
//! led to. Counted runs leave at every call, since their limit is exact.

use axp_emu::cpu::{Cpu, Exit, Vcpu};
use axp_emu::engine::{Answer, Palcode};

use crate::abi::{ExitKind, STOPPED, word};
use crate::opt::Mode;
use crate::runtime::Runtime;

/// Code spaces that exist; a power of two.
const SPACES: usize = 64;

/// What a running engine knows of CALL_PAL.
#[derive(Debug)]
pub struct Calls {
    palcode: Option<*mut (dyn Palcode + 'static)>,
    /// Jump caches by code space, 0 where none is known.
    routes: [u64; SPACES],
    /// The mode that they belong to, in code space 0.
    of: Mode,
}

impl Default for Calls {
    fn default() -> Self {
        Calls { palcode: None, routes: [0; SPACES], of: Mode::default() }
    }
}

impl Calls {
    /// Lends the PALcode to the run that follows.
    ///
    /// # Safety
    /// [`take_back`](Self::take_back) is called before `palcode` is used otherwise or goes away.
    pub unsafe fn lend(&mut self, palcode: &mut dyn Palcode) {
        let palcode: *mut (dyn Palcode + '_) = palcode;
        // SAFETY: the two types differ in a lifetime only, which the caller sees to.
        let palcode = unsafe {
            std::mem::transmute::<*mut (dyn Palcode + '_), *mut (dyn Palcode + 'static)>(palcode)
        };
        self.palcode = Some(palcode);
    }

    /// Ends the loan.
    pub fn take_back(&mut self) {
        self.palcode = None;
    }

    /// Code of `mode` is found by the jump cache at `jumps`.
    pub fn know(&mut self, mode: Mode, jumps: u64) {
        let of = Mode { space: 0, ..mode };
        if self.of != of {
            (self.of, self.routes) = (of, [0; SPACES]);
        }
        self.routes[mode.space as usize % SPACES] = jumps;
    }

    /// Jump caches have moved.
    pub fn forget(&mut self) {
        self.routes = [0; SPACES];
    }

    /// Has the call that ended at `cpu.pc` performed; the exit that it makes otherwise.
    pub fn ask(&mut self, vcpu: &mut Vcpu, code: u32) -> Result<(), Exit> {
        let Some(palcode) = self.palcode else { return Err(Exit::CallPal(code)) };
        // SAFETY: lent until `take_back`, to this engine alone.
        match unsafe { (*palcode).answer(vcpu, code) } {
            Answer::Done => Ok(()),
            Answer::Look => Err(Exit::Poll),
            Answer::Leave => Err(Exit::CallPal(code)),
        }
    }
}

/// Whether compiled code of `vcpu` asks for CALL_PAL instead of leaving.
pub fn asks(vcpu: &Vcpu) -> bool {
    !vcpu.counted
}

/// Performs CALL_PAL `code`, behind which `cpu.pc` stands; registers are in memory. Returns the pc at
/// which the jump cache in [`word::JUMPS`] is to be asked, or [`STOPPED`].
///
/// # Safety
/// As for [`step`](crate::runtime::step).
pub unsafe extern "C" fn call_pal(cpu: *mut Cpu, code: u64) -> u64 {
    // SAFETY: the dispatcher set the word before it entered compiled code and both outlive it.
    let runtime = unsafe { &mut *((*cpu).engine[word::RUNTIME] as *mut Runtime) };
    // SAFETY: the dispatcher does not touch the Vcpu while compiled code runs.
    let vcpu = unsafe { &mut *runtime.vcpu };
    let exit = runtime.calls.ask(vcpu, code as u32).err();
    let route = runtime.calls.routes[vcpu.mem.code_space() as usize % SPACES];
    if exit.is_none() && route != 0 {
        vcpu.cpu.engine[word::JUMPS] = route;
        vcpu.cpu.engine[word::BASE] = vcpu.mem.host_base();
        return vcpu.cpu.pc;
    }
    // Without an exit the dispatcher goes on, and knows the route from then on.
    runtime.pending = exit;
    vcpu.cpu.engine[word::EXIT] = ExitKind::Pending as u64;
    STOPPED
}
