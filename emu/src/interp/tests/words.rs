//! Instruction words, by format.

pub const LDA: u32 = 0x08;
pub const LDAH: u32 = 0x09;
pub const LDBU: u32 = 0x0a;
pub const LDQ_U: u32 = 0x0b;
pub const LDWU: u32 = 0x0c;
pub const STQ_U: u32 = 0x0f;
pub const LDF: u32 = 0x20;
pub const LDG: u32 = 0x21;
pub const LDS: u32 = 0x22;
pub const LDT: u32 = 0x23;
pub const STF: u32 = 0x24;
pub const STG: u32 = 0x25;
pub const STT: u32 = 0x27;
pub const LDL: u32 = 0x28;
pub const LDQ: u32 = 0x29;
pub const LDL_L: u32 = 0x2a;
pub const LDQ_L: u32 = 0x2b;
pub const STL: u32 = 0x2c;
pub const STQ: u32 = 0x2d;
pub const STL_C: u32 = 0x2e;
pub const STQ_C: u32 = 0x2f;
pub const BR: u32 = 0x30;
pub const BSR: u32 = 0x34;
pub const BEQ: u32 = 0x39;
pub const BNE: u32 = 0x3d;

/// Memory format.
pub const fn mem(op: u32, a: u32, b: u32, disp: i32) -> u32 {
    op << 26 | a << 21 | b << 16 | (disp as u32 & 0xffff)
}

/// Branch format; `disp` in instructions from the next one.
pub const fn bra(op: u32, a: u32, disp: i32) -> u32 {
    op << 26 | a << 21 | (disp as u32 & 0x1f_ffff)
}

/// Operate format with registers.
pub const fn opr(op: u32, func: u32, a: u32, b: u32, c: u32) -> u32 {
    op << 26 | a << 21 | b << 16 | func << 5 | c
}

/// Operate format with a literal.
pub const fn lit(op: u32, func: u32, a: u32, l: u32, c: u32) -> u32 {
    op << 26 | a << 21 | l << 13 | 1 << 12 | func << 5 | c
}

/// JMP 0, JSR 1, RET 2, JSR_COROUTINE 3.
pub const fn jump(kind: u32, a: u32, b: u32) -> u32 {
    0x1a << 26 | a << 21 | b << 16 | kind << 14
}

/// ADDQ with a literal.
pub const fn addq(a: u32, l: u32, c: u32) -> u32 {
    lit(0x10, 0x20, a, l, c)
}

/// SUBQ with a literal.
pub const fn subq(a: u32, l: u32, c: u32) -> u32 {
    lit(0x10, 0x29, a, l, c)
}

/// Miscellaneous format.
pub const fn misc(func: u32, a: u32) -> u32 {
    0x18 << 26 | a << 21 | func
}
