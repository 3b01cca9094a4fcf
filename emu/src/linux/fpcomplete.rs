//! Arithmetic traps: silent completion or SIGFPE, and what GENTRAP codes mean.
//!
//! The engine has written the IEEE result before the trap, so that completing is to record the
//! status and to decide by the software control word (SWCR) whether the program wants a signal.

use super::Linux;
use super::abi::sig;
use super::signals::{SigInfo, TRAP_UNK};
use crate::cpu::{ArithTrap, Vcpu};
use crate::fp::fpcr::{Swcr, exc, fpcr_from_swcr, sigfpe_code};

/// SIGFPE: the operation has no other code.
const FPE_FLTUNK: i32 = 14;

/// Conditions of a summary as SWCR enable bits; integer overflow of a conversion is an invalid
/// operation, and a summary of SWC alone is a denormal operand.
fn conditions(summary: u64) -> u64 {
    let mut seen = summary & (exc::INV | exc::DZE | exc::OVF | exc::UNF | exc::INE);
    if summary & exc::IOV != 0 {
        seen |= exc::INV;
    }
    if summary & exc::SUMMARY == exc::SWC { Swcr::ENABLE_DNO.bits() } else { seen }
}

/// Handles an arithmetic trap as Linux does: without software completion always SIGFPE.
pub fn arithmetic_trap(linux: &mut Linux, vcpu: &mut Vcpu, trap: ArithTrap) {
    let pc = vcpu.cpu.pc;
    let mut wanted = trap.summary;
    if trap.summary & exc::SWC != 0 {
        let seen = conditions(trap.summary);
        vcpu.cpu.fpcr |= fpcr_from_swcr(seen << 16) & (0x3f << 52);
        let enabled = seen & linux.task.swcr;
        if enabled == 0 {
            return;
        }
        let enabled_conditions = enabled & !Swcr::ENABLE_DNO.bits();
        wanted = exc::SWC | enabled_conditions;
    }
    let mut info = SigInfo::fault(sig::FPE, sigfpe_code(wanted), pc);
    info.trap_args = [trap.summary, trap.write_mask, 0];
    linux.raise(info);
}

/// Signal and code of a GENTRAP code (arch/alpha/kernel/traps.c).
pub fn gentrap(code: i64) -> (i32, i32) {
    let fpe = match code {
        -1 => 2,
        -2 => 1,
        -3 => 4,
        -4 => 3,
        -5 => 5,
        -6 => 7,
        -7 => 6,
        -11 => FPE_FLTUNK,
        _ => return (sig::TRAP, TRAP_UNK),
    };
    (sig::FPE, fpe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gentrap_codes_are_the_kernels() {
        assert_eq!(gentrap(-2), (sig::FPE, 1));
        assert_eq!(gentrap(-11), (sig::FPE, 14));
        assert_eq!(gentrap(-18), (sig::TRAP, 5));
        assert_eq!(gentrap(0), (sig::TRAP, 5));
    }

    #[test]
    fn integer_overflow_of_a_conversion_completes_as_invalid() {
        assert_eq!(conditions(exc::SWC | exc::IOV), exc::INV);
        assert_eq!(conditions(exc::SWC), Swcr::ENABLE_DNO.bits());
    }
}
