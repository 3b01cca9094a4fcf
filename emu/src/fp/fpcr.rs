//! The floating-point control register, the exception summary, and Linux's software control word.
//!
//! The arithmetic uses the constants; the interpreter MT_FPCR and MF_FPCR; the Linux personality
//! the mapping between FPCR and SWCR that its system calls and signal codes need.

use super::Qual;
use bitflags::bitflags;

bitflags! {
    /// The FPCR (AARM 4.7.8). The two-bit field DYN is read by [`Fpcr::rounding`].
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Fpcr: u64 {
        /// Summary: the OR of the six status bits.
        const SUM = 1 << 63;
        /// Inexact trap disable.
        const INED = 1 << 62;
        /// Underflow trap disable.
        const UNFD = 1 << 61;
        /// With UNFD: underflow gives true zero instead of a denormal.
        const UNDZ = 1 << 60;
        /// Both bits of the dynamic rounding mode.
        const DYN = 3 << 58;
        /// Integer overflow happened.
        const IOV = 1 << 57;
        /// An inexact result happened.
        const INE = 1 << 56;
        /// Underflow happened.
        const UNF = 1 << 55;
        /// Overflow happened.
        const OVF = 1 << 54;
        /// Division by zero happened.
        const DZE = 1 << 53;
        /// An invalid operation happened.
        const INV = 1 << 52;
        /// Overflow trap disable.
        const OVFD = 1 << 51;
        /// Division-by-zero trap disable.
        const DZED = 1 << 50;
        /// Invalid-operation trap disable.
        const INVD = 1 << 49;
        /// Denormal operands count as zeros of their sign.
        const DNZ = 1 << 48;
        /// Denormal-operand trap disable.
        const DNOD = 1 << 47;
    }
}

/// Where DYN starts.
pub const DYN_SHIFT: u32 = 58;

/// The six status bits.
pub const STATUS: u64 = 0x3f << 52;

/// What control arithmetic: trap disables, rounding, and what becomes of denormals.
pub const CONTROL: u64 = KEPT & !STATUS;

/// Bits that MT_FPCR stores; SUM is derived.
pub const KEPT: u64 = 0x7fff_8000_0000_0000;

/// The FPCR of a program at its start under Linux: all traps disabled, round to nearest.
pub const INITIAL: u64 = 0x680e_8000_0000_0000;

/// Distance from a condition's bit in EXC_SUM to its FPCR status bit.
pub const STATUS_SHIFT: u32 = 51;

impl Fpcr {
    /// The dynamic rounding mode.
    #[inline]
    pub const fn rounding(self) -> Rounding {
        Rounding::from_code(self.bits() >> DYN_SHIFT)
    }

    /// The same register with another dynamic rounding mode; VAX rounding has no code and gives nearest.
    #[inline]
    pub const fn with_rounding(self, mode: Rounding) -> Self {
        let code = match mode {
            Rounding::Chopped => 0,
            Rounding::Minus => 1,
            Rounding::Nearest | Rounding::VaxNormal => 2,
            Rounding::Plus => 3,
        };
        Self::from_bits_retain(self.bits() & !Self::DYN.bits() | code << DYN_SHIFT)
    }
}

/// A rounding mode; the first four in the order of the DYN codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// Toward zero.
    Chopped,
    /// Toward minus infinity.
    Minus,
    /// To nearest, ties to even.
    Nearest,
    /// Toward plus infinity.
    Plus,
    /// To nearest, ties away from zero: VAX normal rounding (AARM 4.7.5).
    VaxNormal,
}

impl Rounding {
    /// From the low two bits of a DYN code.
    #[inline(always)]
    pub const fn from_code(code: u64) -> Self {
        match code & 3 {
            0 => Self::Chopped,
            1 => Self::Minus,
            2 => Self::Nearest,
            _ => Self::Plus,
        }
    }
}

/// Bits of the trap summary (EXC_SUM), as the low bits of [`super::FpResult::exc`].
pub mod exc {
    /// Software completion: every instruction that trapped has /S.
    pub const SWC: u64 = 1 << 0;
    /// Invalid operation.
    pub const INV: u64 = 1 << 1;
    /// Division by zero.
    pub const DZE: u64 = 1 << 2;
    /// Overflow.
    pub const OVF: u64 = 1 << 3;
    /// Underflow.
    pub const UNF: u64 = 1 << 4;
    /// Inexact result.
    pub const INE: u64 = 1 << 5;
    /// Integer overflow.
    pub const IOV: u64 = 1 << 6;
    /// All of them.
    pub const SUMMARY: u64 = 0x7f;
}

/// A denormal operand under /S with DNOD clear, in a set of raised conditions.
///
/// It has no bit of its own in EXC_SUM; in the sets that the arithmetic passes to [`report`] it
/// sits where SWC is, which no condition uses.
pub(super) const DNO: u64 = exc::SWC;

/// Turns raised conditions (bits as in EXC_SUM, and [`DNO`]) into the `exc` of an IEEE instruction.
///
/// A condition that the qualifiers do not ask for is neither recorded nor trapped: UNF and IOV
/// need /U or /V, INE needs /I. Without /S all others trap. With /S the FPCR's disable bits decide;
/// integer overflow goes by INVD, since completion treats it as an invalid operation (AARM Table B-2).
///
/// DNO is recorded as the kernel does it: SWCR bit 22, which its mapping puts at FPCR<57>. It is
/// raised only while DNOD is clear, which under Linux means that the program enabled it. With DNOD
/// set, as it is at start, this is a processor that handles denormals itself, as AARM 4.7.8 allows;
/// hence no flag, and compiled code need not look for denormal operands where the result is normal.
/// Its trap has the summary SWC alone, from which [`sigfpe_code`] knows it.
#[inline]
pub(super) fn report(raised: u64, q: Qual, fpcr: u64) -> u64 {
    let seen = visible(raised, q);
    if seen == 0 {
        return 0;
    }
    let status =
        ((seen & !DNO) << STATUS_SHIFT) | if seen & DNO != 0 { Fpcr::IOV.bits() } else { 0 };
    if !q.completion() {
        return status | (seen & !DNO);
    }
    let mut disabled = (fpcr >> 48) & (exc::INV | exc::DZE | exc::OVF);
    disabled |= (fpcr >> 57) & (exc::UNF | exc::INE);
    if disabled & exc::INV != 0 {
        disabled |= exc::IOV;
    }
    let trap = seen & !disabled;
    status | if trap != 0 { trap | exc::SWC } else { 0 }
}

/// The same for a VAX instruction, whose traps no FPCR bit disables (AARM 4.7.7.10). Whether these
/// set FPCR status bits is UNPREDICTABLE (AARM 4.7.8); here they do.
#[inline]
pub(super) fn report_vax(raised: u64, q: Qual) -> u64 {
    let seen = visible(raised, q);
    if seen == 0 {
        return 0;
    }
    (seen << STATUS_SHIFT) | seen | if q.completion() { exc::SWC } else { 0 }
}

#[inline(always)]
fn visible(raised: u64, q: Qual) -> u64 {
    let mut seen = raised;
    if !q.underflow() {
        seen &= !(exc::UNF | exc::IOV);
    }
    if !q.inexact() {
        seen &= !exc::INE;
    }
    seen
}

/// What MF_FPCR reads of a stored FPCR: <46:0> are zero, SUM is derived (AARM 4.7.8).
#[inline]
pub const fn mf_fpcr(stored: u64) -> u64 {
    let kept = stored & KEPT;
    if kept & STATUS != 0 { kept | Fpcr::SUM.bits() } else { kept }
}

/// What MT_FPCR stores of a register value: <46:0> and SUM are ignored, SUM is derived.
#[inline]
pub const fn mt_fpcr(value: u64) -> u64 {
    mf_fpcr(value)
}

bitflags! {
    /// Linux's software control word (the IEEE floating-point control quadword, AARM B.2.1).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Swcr: u64 {
        /// Enable SIGFPE for invalid operations.
        const ENABLE_INV = 1 << 1;
        /// Enable SIGFPE for division by zero.
        const ENABLE_DZE = 1 << 2;
        /// Enable SIGFPE for overflow.
        const ENABLE_OVF = 1 << 3;
        /// Enable SIGFPE for underflow.
        const ENABLE_UNF = 1 << 4;
        /// Enable SIGFPE for inexact results.
        const ENABLE_INE = 1 << 5;
        /// Enable SIGFPE for denormal operands.
        const ENABLE_DNO = 1 << 6;
        /// Denormal operands count as zero.
        const MAP_DMZ = 1 << 12;
        /// Underflow gives zero.
        const MAP_UMZ = 1 << 13;
        /// An invalid operation happened.
        const STATUS_INV = 1 << 17;
        /// A division by zero happened.
        const STATUS_DZE = 1 << 18;
        /// An overflow happened.
        const STATUS_OVF = 1 << 19;
        /// An underflow happened.
        const STATUS_UNF = 1 << 20;
        /// An inexact result happened.
        const STATUS_INE = 1 << 21;
        /// A denormal operand happened (or an integer overflow: they share FPCR<57>).
        const STATUS_DNO = 1 << 22;
    }
}

impl Swcr {
    /// The six enable bits.
    pub const ENABLE: u64 = 0x7e;
    /// The six status bits.
    pub const STATUS: u64 = 0x7e << 16;
    /// All bits a program can set.
    pub const MASK: u64 = 0x7e_307e;
}

const SWCR_STATUS_TO_FPCR: u32 = 35;

/// The FPCR that stands for a SWCR, without the rounding mode (DYN is zero).
pub const fn fpcr_from_swcr(swcr: u64) -> u64 {
    let off = !swcr;
    let mut fpcr = (swcr & Swcr::STATUS) << SWCR_STATUS_TO_FPCR;
    if fpcr != 0 {
        fpcr |= Fpcr::SUM.bits();
    }
    fpcr |= (swcr & Swcr::MAP_DMZ.bits()) << 36;
    if swcr & Swcr::MAP_UMZ.bits() != 0 {
        // UNDZ acts only where underflow traps are disabled too.
        fpcr |= Fpcr::UNDZ.bits() | Fpcr::UNFD.bits();
    }
    fpcr |= (off & (exc::INV | exc::DZE | exc::OVF)) << 48;
    fpcr |= (off & (exc::UNF | exc::INE)) << 57;
    fpcr | (off & Swcr::ENABLE_DNO.bits()) << 41
}

/// The SWCR that an FPCR stands for, the inverse of [`fpcr_from_swcr`].
pub const fn swcr_from_fpcr(fpcr: u64) -> u64 {
    let on = !fpcr;
    let mut swcr = (fpcr >> SWCR_STATUS_TO_FPCR) & Swcr::STATUS;
    swcr |= (fpcr >> 36) & Swcr::MAP_DMZ.bits();
    swcr |= (fpcr >> 47) & Swcr::MAP_UMZ.bits();
    swcr |= (on >> 48) & (exc::INV | exc::DZE | exc::OVF);
    swcr |= (on >> 57) & (exc::UNF | exc::INE);
    swcr | (on >> 41) & Swcr::ENABLE_DNO.bits()
}

/// The SWCR with its status replaced by the FPCR's, as Linux reads it on a 21264 (IMPLVER 2).
pub const fn update_status(swcr: u64, fpcr: u64) -> u64 {
    (swcr & !Swcr::STATUS) | ((fpcr >> SWCR_STATUS_TO_FPCR) & Swcr::STATUS)
}

/// The FPCR after osf_setsysinfo wrote the SWCR: only DYN of the old one survives.
pub const fn set_swcr(fpcr: u64, swcr: u64) -> u64 {
    (fpcr & Fpcr::DYN.bits()) | fpcr_from_swcr(swcr & Swcr::MASK)
}

/// si_code of SIGFPE values.
pub mod sigfpe {
    /// Floating-point division by zero.
    pub const FLTDIV: i32 = 3;
    /// Floating-point overflow.
    pub const FLTOVF: i32 = 4;
    /// Floating-point underflow.
    pub const FLTUND: i32 = 5;
    /// Inexact result.
    pub const FLTRES: i32 = 6;
    /// Invalid floating-point operation.
    pub const FLTINV: i32 = 7;
}

/// The si_code that Linux gives an arithmetic trap with this summary.
///
/// Without SWC it is FLTINV whatever happened. With it, the code is the first enabled condition's
/// in the order INV, DZE, OVF, UNF, INE, denormal operand; integer overflow counts as INV.
pub const fn sigfpe_code(summary: u64) -> i32 {
    if summary & exc::SWC == 0 || summary & (exc::INV | exc::IOV) != 0 {
        sigfpe::FLTINV
    } else if summary & exc::DZE != 0 {
        sigfpe::FLTDIV
    } else if summary & exc::OVF != 0 {
        sigfpe::FLTOVF
    } else if summary & exc::UNF != 0 {
        sigfpe::FLTUND
    } else if summary & exc::INE != 0 {
        sigfpe::FLTRES
    } else {
        sigfpe::FLTUND
    }
}
