//! Register format from and to memory format: bit shuffles, never conversions (AARM 2.2.5, 2.2.6).
//!
//! Called for the FP loads and stores and for the FIX register moves. Integers in FP registers pass
//! through them unharmed, which is why no value may be looked at.

/// The exponent map of LDS and LDF, 8 bits to 11. Only LDS keeps an exponent of all ones.
const fn expand_exponent(exp: u32, ieee: bool) -> u64 {
    let low = exp & 0x7f;
    (match (exp >> 7, low) {
        (0, 0) => 0,
        (0, _) => 0x380 | low,
        (_, 0x7f) if ieee => 0x7ff,
        _ => 0x400 | low,
    }) as u64
}

/// A longword with sign at 31, exponent at 30:23 and fraction at 22:0, in register format.
#[inline(always)]
const fn expand(bits: u32, ieee: bool) -> u64 {
    let sign = ((bits >> 31) as u64) << 63;
    let exp = expand_exponent((bits >> 23) & 0xff, ieee) << 52;
    sign | exp | ((bits & 0x7f_ffff) as u64) << 29
}

/// LDS.
#[inline]
pub const fn s_to_register(memory: u32) -> u64 {
    expand(memory, true)
}

/// STS: bits <63:62> and <58:29>.
#[inline]
pub const fn register_to_s(register: u64) -> u32 {
    (((register >> 32) & 0xc000_0000) | ((register >> 29) & 0x3fff_ffff)) as u32
}

/// LDF: like LDS with the words swapped.
#[inline]
pub const fn f_to_register(memory: u32) -> u64 {
    expand(memory.rotate_left(16), false)
}

/// STF.
#[inline]
pub const fn register_to_f(register: u64) -> u32 {
    register_to_s(register).rotate_left(16)
}

/// LDG: the four words in reverse order. D_floating data are moved by it too.
#[inline]
pub const fn g_to_register(memory: u64) -> u64 {
    let x = memory.rotate_left(32);
    ((x & 0xffff_0000_ffff_0000) >> 16) | ((x & 0x0000_ffff_0000_ffff) << 16)
}

/// STG, its own inverse.
#[inline]
pub const fn register_to_g(register: u64) -> u64 {
    g_to_register(register)
}

/// ITOFS: the low longword as by LDS.
#[inline]
pub const fn itofs(a: u64) -> u64 {
    expand(a as u32, true)
}

/// ITOFF: the exponent map of LDF, but the sign is at <31>, so the words are not swapped
/// (AARM 4.10, ITOFx; some emulators take the memory layout here).
#[inline]
pub const fn itoff(a: u64) -> u64 {
    expand(a as u32, false)
}

/// ITOFT.
#[inline]
pub const fn itoft(a: u64) -> u64 {
    a
}

/// FTOIS: what STS would store, sign-extended.
#[inline]
pub const fn ftois(a: u64) -> u64 {
    register_to_s(a) as i32 as u64
}

/// FTOIT.
#[inline]
pub const fn ftoit(a: u64) -> u64 {
    a
}
