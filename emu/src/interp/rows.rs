//! From rows of the instruction table to effects: what `kind(semantics)` means to the interpreter.

/// The semantic modules by the names that the instruction table uses.
pub(super) mod names {
    pub use crate::fp::{convert, ieee, vax};
    pub use crate::sem::{branch, byte, count, int, logic, mvi};

    /// Moves are defined beside the formats' conversions.
    pub mod memfmt {
        pub use crate::fp::memfmt::*;
        pub use crate::fp::{cpys, cpyse, cpysn};
    }
}

/// `effect!(kind(semantics), exec, b)`: the effect of a row that always goes on to the next
/// instruction, with `b` as the way to fetch the second operand.
macro_rules! effect {
    (lea($shift:tt), $x:expr, $b:ident) => {
        $x.lea($shift)
    };
    (load(U8), $x:expr, $b:ident) => {
        $x.load(1, |mem, va| mem.load_u8(va).map(u64::from))
    };
    (load(U16), $x:expr, $b:ident) => {
        $x.load(2, |mem, va| mem.load_u16(va).map(u64::from))
    };
    (load(I32), $x:expr, $b:ident) => {
        $x.load(4, |mem, va| mem.load_u32(va).map(|v| v as i32 as i64 as u64))
    };
    (load(U64), $x:expr, $b:ident) => {
        $x.load(8, |mem, va| mem.load_u64(va))
    };
    (load_unaligned(), $x:expr, $b:ident) => {
        $x.load_unaligned()
    };
    (load_locked(I32), $x:expr, $b:ident) => {
        $x.load_locked(LockSize::Longword)
    };
    (load_locked(U64), $x:expr, $b:ident) => {
        $x.load_locked(LockSize::Quadword)
    };
    (store(U8), $x:expr, $b:ident) => {
        $x.store(1, |mem, va, v| mem.store_u8(va, v as u8))
    };
    (store(U16), $x:expr, $b:ident) => {
        $x.store(2, |mem, va, v| mem.store_u16(va, v as u16))
    };
    (store(I32), $x:expr, $b:ident) => {
        $x.store(4, |mem, va, v| mem.store_u32(va, v as u32))
    };
    (store(U64), $x:expr, $b:ident) => {
        $x.store(8, |mem, va, v| mem.store_u64(va, v))
    };
    (store_unaligned(), $x:expr, $b:ident) => {
        $x.store_unaligned()
    };
    (store_conditional(I32), $x:expr, $b:ident) => {
        $x.store_conditional(LockSize::Longword)
    };
    (store_conditional(U64), $x:expr, $b:ident) => {
        $x.store_conditional(LockSize::Quadword)
    };
    (fload(F), $x:expr, $b:ident) => {
        $x.fload(4, true, |mem, va| mem.load_u32(va).map(memfmt::f_to_register))
    };
    (fload(G), $x:expr, $b:ident) => {
        $x.fload(8, true, |mem, va| mem.load_u64(va).map(memfmt::g_to_register))
    };
    (fload(S), $x:expr, $b:ident) => {{
        let x = $x;
        let strict = x.strict;
        x.fload(4, strict, |mem, va| mem.load_u32(va).map(memfmt::s_to_register))
    }};
    (fload(T), $x:expr, $b:ident) => {{
        let x = $x;
        let strict = x.strict;
        x.fload(8, strict, |mem, va| mem.load_u64(va))
    }};
    (fstore(F), $x:expr, $b:ident) => {
        $x.fstore(4, true, |mem, va, v| mem.store_u32(va, memfmt::register_to_f(v)))
    };
    (fstore(G), $x:expr, $b:ident) => {
        $x.fstore(8, true, |mem, va, v| mem.store_u64(va, memfmt::register_to_g(v)))
    };
    (fstore(S), $x:expr, $b:ident) => {{
        let x = $x;
        let strict = x.strict;
        x.fstore(4, strict, |mem, va, v| mem.store_u32(va, memfmt::register_to_s(v)))
    }};
    (fstore(T), $x:expr, $b:ident) => {{
        let x = $x;
        let strict = x.strict;
        x.fstore(8, strict, |mem, va, v| mem.store_u64(va, v))
    }};
    (alu($f:path), $x:expr, $b:ident) => {{
        let x = $x;
        let b = x.$b();
        x.alu(b, $f)
    }};
    (alu_v($f:path), $x:expr, $b:ident) => {{
        let x = $x;
        let b = x.$b();
        x.alu_v(b, $f)
    }};
    (cmov($f:path), $x:expr, $b:ident) => {{
        let x = $x;
        let b = x.$b();
        x.cmov(b, $f)
    }};
    (amask(), $x:expr, $b:ident) => {{
        let x = $x;
        let b = x.$b();
        x.amask(b)
    }};
    (intr_flag($after:tt), $x:expr, $b:ident) => {
        $x.intr_flag($after)
    };
    ($kind:ident($f:path), $x:expr, $b:ident) => {
        $x.$kind($f)
    };
    ($kind:ident(), $x:expr, $b:ident) => {
        $x.$kind()
    };
}
pub(super) use effect;
