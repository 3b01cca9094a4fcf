//! Callers of a guest program counter. Alpha code has no frame pointer; a function's prologue says how
//! large its frame is and where the return address lies, as debuggers read it. On the privileged machine
//! a handler's frame leads on to what it interrupted, in another mode.

use std::collections::HashMap;

use axp_emu::cpu::Vcpu;
use axp_emu::machine::{Interrupted, Mode};
use axp_emu::mem::AddressSpace;

use super::Frame;
use super::subject::Subject;
use crate::symbols::Symbols;

/// Frames at most.
const DEPTH: usize = 100;
/// Instructions of a function that its prologue is looked for in.
const PROLOGUE: u64 = 400;
const SP: u32 = 30;
const RA: u32 = 26;
/// Exception frames lie at multiples of this.
const ALIGNED: u64 = 64;

/// Where the guest is, and what its callers are found from.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    /// The instruction and its mode.
    pub frame: Frame,
    sp: u64,
    ra: u64,
}

impl Spot {
    /// At `pc`, with the registers that the processor has now.
    #[inline]
    pub fn new(vcpu: &Vcpu, pc: u64, mode: Option<Mode>) -> Self {
        let r = &vcpu.cpu.r;
        Spot { frame: Frame { pc, mode }, sp: r[SP as usize], ra: r[RA as usize] }
    }
}

/// What a function has done to the stack when it comes to some instruction.
#[derive(Clone, Copy, Debug, Default)]
struct Prologue {
    size: u64,
    /// Where the return address is, from the stack pointer on.
    saved: Option<u64>,
}

/// Prologues that have been read: most samples have most of their callers in common.
#[derive(Debug, Default)]
pub struct Prologues(HashMap<u64, Prologue>);

impl Prologues {
    /// Forgets them: code has changed.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// What the function at `start` has done when it comes to `pc`.
    fn at(&mut self, mem: &AddressSpace, start: u64, pc: u64) -> Prologue {
        *self.0.entry(pc).or_insert_with(|| {
            let mut prologue = Prologue::default();
            let mut at = start;
            while at < pc.min(start.saturating_add(4 * PROLOGUE)) {
                let Some(word) = word(mem, at) else { break };
                let (opcode, a, b) = (word >> 26, word >> 21 & 31, word >> 16 & 31);
                let disp = i64::from(word as i16);
                match (opcode, a, b) {
                    // lda sp, -N(sp)
                    (0x08, SP, SP) if disp < 0 => prologue.size += disp.unsigned_abs(),
                    // stq ra, K(sp)
                    (0x2d, RA, SP) if disp >= 0 => prologue.saved = Some(disp as u64),
                    _ => {}
                }
                at += 4;
            }
            prologue
        })
    }
}

/// An instruction of the guest, read without a trace in its translation buffer.
pub fn word(mem: &AddressSpace, va: u64) -> Option<u32> {
    if mem.system().is_none() {
        return mem.fetch_u32(va).ok();
    }
    Some((quadword(mem, va & !7)? >> (8 * (va & 4))) as u32)
}

fn quadword(mem: &AddressSpace, va: u64) -> Option<u64> {
    match mem.system() {
        None => mem.load_u64(va).ok(),
        Some(system) => system.physical().quadword(system.peek(va)?),
    }
}

/// Frames from `spot` outwards.
pub fn walk(
    subject: &impl Subject,
    vcpu: &Vcpu,
    spot: Spot,
    symbols: &Symbols,
    prologues: &mut Prologues,
) -> Vec<Frame> {
    let mem = &*vcpu.mem;
    let handlers = subject.handlers(vcpu);
    let Spot { mut frame, mut sp, ra } = spot;
    // Known of the innermost function, and of one that a handler interrupted.
    let mut ra = Some(ra);
    let mut stack = vec![frame];
    while stack.len() < DEPTH {
        let Some(place) = symbols.find(frame.pc) else { break };
        let known = !place.function.is_empty();
        let prologue =
            if known { prologues.at(mem, place.start, frame.pc) } else { Prologue::default() };
        let back = match prologue.saved {
            Some(at) => quadword(mem, sp.wrapping_add(at)),
            None => ra,
        };
        if handlers.binary_search(&place.start).is_ok() {
            let top = match sp.wrapping_add(prologue.size) {
                top if top.is_multiple_of(ALIGNED) => top,
                // The handler has given its own part back already.
                _ => sp.next_multiple_of(ALIGNED),
            };
            let Some(outer) = subject.interrupted(vcpu, top, frame.mode) else { break };
            let Interrupted { pc, mode, sp: outer_sp } = outer;
            // CALL_PAL has been executed; what else led here has not, or not to its end.
            let called = word(mem, pc.wrapping_sub(4)).is_some_and(|word| word >> 26 == 0);
            frame = Frame { pc: if called { pc.wrapping_sub(4) } else { pc }, mode: Some(mode) };
            (sp, ra) = (outer_sp, back);
        } else {
            // The instruction that called is the one before.
            let Some(caller) = back.map(|at| (at & !3).wrapping_sub(4)) else { break };
            frame.pc = caller;
            (sp, ra) = (sp.wrapping_add(prologue.size), None);
        }
        if symbols.find(frame.pc).is_none() {
            break;
        }
        stack.push(frame);
    }
    stack
}

/// The stack of a sample at `frame` that was walked a little later, from another place: its function
/// has called or has returned meanwhile, or is the same.
pub fn under(frame: Frame, later: &[Frame], symbols: &Symbols) -> Vec<Frame> {
    let function = |frame: &Frame| symbols.find(frame.pc).map(|place| (place.start, frame.mode));
    let own = function(&frame);
    let mut stack = vec![frame];
    match later.iter().position(|at| own.is_some() && function(at) == own) {
        Some(i) => stack.extend(&later[i + 1..]),
        None if later.first() == Some(&frame) => stack.extend(&later[1..]),
        None => stack.extend(later),
    }
    stack
}
