//! What the table says of each instruction: `Opcode`, its format, kind and extension, and which
//! registers an [`Insn`] reads and writes.

use super::format::{Format, FpSet};
use super::insn::{Insn, SINK, ZERO};
use crate::for_each_insn;

/// How an instruction fetches its operands and delivers its results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// LDA, LDAH: `ra <- rb + (disp << shift)`.
    Lea,
    /// Integer load of a naturally aligned datum.
    Load,
    /// LDQ_U.
    LoadUnaligned,
    /// LDx_L.
    LoadLocked,
    /// Integer store of a naturally aligned datum.
    Store,
    /// STQ_U.
    StoreUnaligned,
    /// STx_C.
    StoreConditional,
    /// BR and BSR.
    Branch,
    /// Integer conditional branch.
    CondBranch,
    /// Floating-point conditional branch.
    CondBranchF,
    /// JMP, JSR, RET, JSR_COROUTINE.
    Jump,
    /// `rc <- f(ra, rb)`.
    Alu,
    /// `rc <- f(ra, rb)` with an integer-overflow trap.
    AluV,
    /// CMOVxx.
    Cmov,
    /// Floating-point load.
    Fload,
    /// Floating-point store.
    Fstore,
    /// Floating-point operate with rounding, flags and traps.
    Fp,
    /// CPYSx: a bit move between floating-point registers.
    Fmove,
    /// FCMOVxx.
    Fcmov,
    /// MT_FPCR.
    MtFpcr,
    /// MF_FPCR.
    MfFpcr,
    /// ITOFx.
    Itof,
    /// FTOIx.
    Ftoi,
    /// TRAPB, EXCB.
    Barrier,
    /// MB, WMB.
    Fence,
    /// FETCH, FETCH_M, ECB, WH64, WH64EN.
    Hint,
    /// RPCC.
    Rpcc,
    /// RC, RS.
    IntrFlag,
    /// AMASK.
    Amask,
    /// IMPLVER.
    Implver,
    /// CALL_PAL.
    Pal,
}

impl Kind {
    /// Whether FEN has to be set (AARM 4.8 to 4.10).
    pub const fn is_floating_point(self) -> bool {
        use Kind::*;
        matches!(
            self,
            Fload | Fstore | Fp | Fmove | Fcmov | CondBranchF | MtFpcr | MfFpcr | Itof | Ftoi
        )
    }

    /// Writes memory unconditionally.
    pub const fn is_store(self) -> bool {
        matches!(self, Kind::Store | Kind::StoreUnaligned | Kind::Fstore)
    }

    /// STx_C, whose `ra` is both source and destination.
    pub const fn is_store_conditional(self) -> bool {
        matches!(self, Kind::StoreConditional)
    }

    /// Conditional branch of either register file.
    pub const fn is_cond_branch(self) -> bool {
        matches!(self, Kind::CondBranch | Kind::CondBranchF)
    }

    /// Whether control may go elsewhere than to the next instruction without a fault or trap.
    pub const fn ends_block(self) -> bool {
        use Kind::*;
        matches!(self, Branch | CondBranch | CondBranchF | Jump | Pal)
    }
}

/// AMASK feature that an instruction belongs to (AARM 4.11.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ext {
    /// In every implementation.
    Base,
    /// Byte and word loads and stores (AMASK bit 0).
    Bwx,
    /// Square root and register-file moves (AMASK bit 1).
    Fix,
    /// Counts (AMASK bit 2).
    Cix,
    /// Multimedia (AMASK bit 8).
    Mvi,
}

/// Row of the instruction table as data.
#[derive(Clone, Copy, Debug)]
pub struct OpcodeInfo {
    /// Mnemonic without floating-point qualifiers.
    pub mnemonic: &'static str,
    /// Fields and encoding.
    pub format: Format,
    /// Operand pattern.
    pub kind: Kind,
    /// Feature that must be present.
    pub ext: Ext,
}

/// Kind of a row, from the word that the table uses for it.
macro_rules! kind_of {
    (lea) => {
        Kind::Lea
    };
    (load) => {
        Kind::Load
    };
    (load_unaligned) => {
        Kind::LoadUnaligned
    };
    (load_locked) => {
        Kind::LoadLocked
    };
    (store) => {
        Kind::Store
    };
    (store_unaligned) => {
        Kind::StoreUnaligned
    };
    (store_conditional) => {
        Kind::StoreConditional
    };
    (branch) => {
        Kind::Branch
    };
    (cond_branch) => {
        Kind::CondBranch
    };
    (cond_branch_f) => {
        Kind::CondBranchF
    };
    (jump) => {
        Kind::Jump
    };
    (alu) => {
        Kind::Alu
    };
    (alu_v) => {
        Kind::AluV
    };
    (cmov) => {
        Kind::Cmov
    };
    (fload) => {
        Kind::Fload
    };
    (fstore) => {
        Kind::Fstore
    };
    (fp) => {
        Kind::Fp
    };
    (fmove) => {
        Kind::Fmove
    };
    (fcmov) => {
        Kind::Fcmov
    };
    (mt_fpcr) => {
        Kind::MtFpcr
    };
    (mf_fpcr) => {
        Kind::MfFpcr
    };
    (itof) => {
        Kind::Itof
    };
    (ftoi) => {
        Kind::Ftoi
    };
    (barrier) => {
        Kind::Barrier
    };
    (fence) => {
        Kind::Fence
    };
    (hint) => {
        Kind::Hint
    };
    (rpcc) => {
        Kind::Rpcc
    };
    (intr_flag) => {
        Kind::IntrFlag
    };
    (amask) => {
        Kind::Amask
    };
    (implver) => {
        Kind::Implver
    };
    (pal) => {
        Kind::Pal
    };
}

macro_rules! define_opcode {
    ($($v:ident = $m:literal, $f:ident $e:tt, $k:ident $s:tt, $x:ident;)*) => {
        /// An instruction, named by its mnemonic.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "each variant is the mnemonic beside it in the table")]
        pub enum Opcode { $($v,)* }

        impl Opcode {
            /// All instructions in table order: `ALL[op as usize] == op`.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$v,)*];
        }

        static INFO: &[OpcodeInfo] = {
            use Format::*;
            use FpSet::*;
            &[$(OpcodeInfo { mnemonic: $m, format: $f $e, kind: kind_of!($k), ext: Ext::$x },)*]
        };

        /// Formats in table order, for tables computed at compile time.
        pub(super) const FORMATS: &[Format] = {
            use Format::*;
            use FpSet::*;
            &[$($f $e,)*]
        };
    };
}
for_each_insn!(define_opcode);

impl Opcode {
    /// The row of the table.
    #[inline]
    pub fn info(self) -> &'static OpcodeInfo {
        &INFO[self as usize]
    }

    /// The operand pattern.
    #[inline]
    pub fn kind(self) -> Kind {
        self.info().kind
    }
}

/// A set of registers: bit n of `int` is Rn, bit n of `fp` is Fn; slots 31 and 32 never appear.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RegSet {
    /// Integer registers.
    pub int: u32,
    /// Floating-point registers.
    pub fp: u32,
}

impl RegSet {
    /// The empty set.
    pub const NONE: RegSet = RegSet { int: 0, fp: 0 };

    /// All registers.
    pub const ALL: RegSet = RegSet { int: !(1 << ZERO), fp: !(1 << ZERO) };

    const fn with_int(self, r: u8) -> RegSet {
        if r < ZERO { RegSet { int: self.int | 1 << r, ..self } } else { self }
    }

    const fn with_fp(self, r: u8) -> RegSet {
        if r < ZERO { RegSet { fp: self.fp | 1 << r, ..self } } else { self }
    }

    /// Union of two sets.
    pub const fn union(self, o: RegSet) -> RegSet {
        RegSet { int: self.int | o.int, fp: self.fp | o.fp }
    }

    /// Members of `self` that are not in `o`.
    pub const fn minus(self, o: RegSet) -> RegSet {
        RegSet { int: self.int & !o.int, fp: self.fp & !o.fp }
    }

    /// Registers in both sets.
    #[must_use]
    pub const fn intersection(self, o: RegSet) -> RegSet {
        RegSet { int: self.int & o.int, fp: self.fp & o.fp }
    }
}

const _: () = assert!(SINK == 32 && ZERO == 31);

impl Insn {
    /// Registers whose value the instruction uses.
    pub fn reads(&self) -> RegSet {
        use Kind::*;
        let none = RegSet::NONE;
        match self.op.kind() {
            Lea | Load | LoadUnaligned | LoadLocked | Fload | Jump => none.with_int(self.b),
            Store | StoreUnaligned | StoreConditional => none.with_int(self.a).with_int(self.b),
            Fstore => none.with_fp(self.a).with_int(self.b),
            CondBranch => none.with_int(self.a),
            CondBranchF => none.with_fp(self.a),
            Alu | AluV => none.with_int(self.a).with_int(self.b),
            Cmov => none.with_int(self.a).with_int(self.b).with_int(self.c),
            Fp | Fmove => none.with_fp(self.a).with_fp(self.b),
            Fcmov => none.with_fp(self.a).with_fp(self.b).with_fp(self.c),
            MtFpcr | Ftoi => none.with_fp(self.a),
            Itof => none.with_int(self.a),
            Amask => none.with_int(self.b),
            Branch | MfFpcr | Barrier | Fence | Hint | Rpcc | IntrFlag | Implver | Pal => none,
        }
    }

    /// Registers that the instruction writes.
    pub fn writes(&self) -> RegSet {
        use Kind::*;
        let none = RegSet::NONE;
        match self.op.kind() {
            Lea | Load | LoadUnaligned | LoadLocked | Branch | Jump | Rpcc | IntrFlag => {
                none.with_int(self.a)
            }
            Alu | AluV | Cmov | Ftoi | Amask | Implver | StoreConditional => none.with_int(self.c),
            Fload => none.with_fp(self.a),
            Fp | Fmove | Fcmov | Itof => none.with_fp(self.c),
            MfFpcr => none.with_fp(self.a),
            Store | StoreUnaligned | Fstore | CondBranch | CondBranchF | MtFpcr | Barrier
            | Fence | Hint | Pal => none,
        }
    }
}
