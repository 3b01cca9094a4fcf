//! CALL_PAL without leaving compiled code: whom to ask, and where code of the new mode is found.
//!
//! A personality lends its PALcode to an engine for one run (`Engine::run_with`). A call in compiled
//! code then asks it, and goes on with the region or, by the jump cache of the code space that the call
//! has led to, with the unit that is there. Counted runs leave at every call, since their limit is exact.

use std::sync::atomic::Ordering;

use axp_emu::cpu::{Cpu, Exit, Vcpu};
use axp_emu::engine::{Answer, Palcode};

use crate::abi::{ExitKind, STOPPED, word};
use crate::code::jump_index;
use crate::opt::Mode;
use crate::runtime::{Pair, Runtime};

/// Code spaces that exist; a power of two.
const SPACES: usize = 64;

/// What a running engine knows of CALL_PAL.
#[derive(Debug)]
pub struct Calls {
    palcode: Option<*mut (dyn Palcode + 'static)>,
    /// Jump caches by code space, 0 where none is known: of units, and of regions.
    routes: [u64; SPACES],
    regions: [u64; SPACES],
    /// The mode that they belong to, in code space 0.
    of: Mode,
}

impl Default for Calls {
    fn default() -> Self {
        let none = [0; SPACES];
        Calls { palcode: None, routes: none, regions: none, of: Mode::default() }
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
        self.of(mode);
        self.routes[mode.space as usize % SPACES] = jumps;
    }

    /// Regions of `mode` are found by the jump cache of a `CodeTable`, until
    /// [`forget_regions`](Self::forget_regions).
    pub fn know_regions(&mut self, mode: Mode, jumps: u64) {
        self.of(mode);
        self.regions[mode.space as usize % SPACES] = jumps;
    }

    fn of(&mut self, mode: Mode) {
        let of = Mode { space: 0, ..mode };
        if self.of != of {
            self.forget();
            self.of = of;
        }
    }

    /// Jump caches have moved.
    pub fn forget(&mut self) {
        self.routes = [0; SPACES];
        self.forget_regions();
    }

    /// Those of regions have.
    pub fn forget_regions(&mut self) {
        self.regions = [0; SPACES];
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

/// What [`at_once`] says beside a pc or an address of host code.
pub mod went {
    /// The call was not performed.
    pub const NOWHERE: u64 = 0;
    /// On with this region.
    pub const TO_REGION: u64 = 1;
    /// On at this pc, for which the jump cache in [`word::JUMPS`](crate::abi::word::JUMPS) is to be asked.
    pub const TO_UNIT: u64 = 2;
    /// Back to the dispatcher, with this as the next pc.
    pub const BACK: u64 = 3;
}

/// Performs CALL_PAL `code` if that can be done under compiled code's floating-point control register,
/// as [`call_pal`].
///
/// # Safety
/// As for [`step`](crate::runtime::step).
pub unsafe extern "C" fn at_once(cpu: *mut Cpu, code: u64) -> Pair {
    // SAFETY: as in `call_pal`.
    let runtime = unsafe { &mut *((*cpu).engine[word::RUNTIME] as *mut Runtime) };
    // SAFETY: as in `call_pal`.
    let vcpu = unsafe { &mut *runtime.vcpu };
    let calls = &runtime.calls;
    let Some(palcode) = calls.palcode else { return Pair(0, went::NOWHERE) };
    // SAFETY: lent until `take_back`, to this engine alone.
    match unsafe { (*palcode).answer_at_once(vcpu, code as u32) } {
        Some(Answer::Done) => {}
        Some(Answer::Look) => {
            runtime.pending = Some(Exit::Poll);
            vcpu.cpu.engine[word::EXIT] = ExitKind::Pending as u64;
            return Pair(STOPPED, went::BACK);
        }
        Some(Answer::Leave) | None => return Pair(0, went::NOWHERE),
    }
    let pc = vcpu.cpu.pc;
    let space = vcpu.mem.code_space() as usize % SPACES;
    let (units, regions) = (calls.routes[space], calls.regions[space]);
    if units == 0 || vcpu.cpu.poll.load(Ordering::Relaxed) != 0 {
        return Pair(pc, went::BACK);
    }
    vcpu.cpu.engine[word::JUMPS] = units;
    vcpu.cpu.engine[word::BASE] = vcpu.mem.host_base();
    if regions != 0 {
        // SAFETY: a jump cache, which stays in place until it is forgotten; the index is one of its.
        let [at, code] = unsafe { *(regions as *const [u64; 2]).add(jump_index(pc)) };
        if at == pc {
            return Pair(code, went::TO_REGION);
        }
    }
    Pair(pc, went::TO_UNIT)
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
