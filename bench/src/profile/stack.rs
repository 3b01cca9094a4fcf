//! Callers of a guest program counter. Alpha code has no frame pointer; a function's prologue says how
//! large its frame is and where the return address lies, as debuggers read it.

use axp_emu::cpu::Vcpu;
use axp_emu::mem::AddressSpace;

use crate::symbols::Symbols;

/// Frames at most.
const DEPTH: usize = 100;
/// Instructions of a function that are looked at.
const PROLOGUE: u64 = 400;
const SP: u32 = 30;
const RA: u32 = 26;

/// What a function has done to the stack when it comes to `pc`.
#[derive(Default)]
struct Frame {
    size: u64,
    /// Where the return address is, from the stack pointer on.
    saved: Option<u64>,
}

fn frame(mem: &AddressSpace, start: u64, pc: u64) -> Frame {
    let mut frame = Frame::default();
    let from = start.max(pc.saturating_sub(4 * PROLOGUE));
    let mut at = from;
    while at < pc {
        let Ok(word) = mem.fetch_u32(at) else { break };
        let (opcode, a, b) = (word >> 26, word >> 21 & 31, word >> 16 & 31);
        let disp = i64::from(word as i16);
        match (opcode, a, b) {
            // lda sp, -N(sp)
            (0x08, SP, SP) if disp < 0 => frame.size += disp.unsigned_abs(),
            // stq ra, K(sp)
            (0x2d, RA, SP) if disp >= 0 => frame.saved = Some(disp as u64),
            _ => {}
        }
        at += 4;
    }
    frame
}

/// Program counters from `pc` outwards.
pub fn walk(vcpu: &Vcpu, pc: u64, symbols: &Symbols) -> Vec<u64> {
    let mem = &*vcpu.mem;
    let mut stack = vec![pc];
    let (mut pc, mut sp) = (pc, vcpu.cpu.r[SP as usize]);
    let mut innermost = true;
    while stack.len() < DEPTH {
        let Some(place) = symbols.find(pc) else { break };
        let known = !place.function.is_empty();
        let frame = if known { frame(mem, place.start, pc) } else { Frame::default() };
        let back = match frame.saved {
            Some(at) => mem.load_u64(sp.wrapping_add(at)).ok(),
            None if innermost => Some(vcpu.cpu.r[RA as usize]),
            None => None,
        };
        innermost = false;
        // The instruction that called is the one before.
        let Some(caller) = back.map(|at| (at & !3).wrapping_sub(4)) else { break };
        if symbols.find(caller).is_none() {
            break;
        }
        sp = sp.wrapping_add(frame.size);
        stack.push(caller);
        pc = caller;
    }
    stack
}

/// The stack of a sample at `pc` that was walked a little later, from another place: the function of
/// `pc` has called or has returned meanwhile, or is the same.
pub fn under(pc: u64, later: &[u64], symbols: &Symbols) -> Vec<u64> {
    let function = |pc| symbols.find(pc).map(|place| place.start);
    let own = function(pc);
    let mut stack = vec![pc];
    match later.iter().position(|&at| own.is_some() && function(at) == own) {
        Some(i) => stack.extend(&later[i + 1..]),
        None if later.first() == Some(&pc) => stack.extend(&later[1..]),
        None => stack.extend(later),
    }
    stack
}
