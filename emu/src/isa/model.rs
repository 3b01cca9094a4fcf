//! CPU models: which extensions exist, what AMASK and IMPLVER answer, how precise traps are.

use super::opcode::Ext;

/// An Alpha implementation that `--cpu` can name (AARM 4.11, appendix D.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CpuModel {
    /// 21064.
    Ev4,
    /// 21164.
    Ev5,
    /// 21164A: adds BWX.
    Ev56,
    /// 21164PC: adds MVI.
    Pca56,
    /// 21264: adds FIX.
    Ev6,
    /// 21264A: adds CIX.
    #[default]
    Ev67,
}

/// AMASK bit 0.
const BWX: u64 = 1 << 0;
/// AMASK bit 1.
const FIX: u64 = 1 << 1;
/// AMASK bit 2.
const CIX: u64 = 1 << 2;
/// AMASK bit 8.
const MVI: u64 = 1 << 8;
/// AMASK bit 9: arithmetic traps are reported precisely.
const PRECISE_TRAPS: u64 = 1 << 9;
/// AMASK bit 12: prefetch with modify intent (WH64 and friends).
const PREFETCH_MODIFY: u64 = 1 << 12;

impl CpuModel {
    /// All models, oldest first.
    pub const ALL: [CpuModel; 6] = [
        CpuModel::Ev4,
        CpuModel::Ev5,
        CpuModel::Ev56,
        CpuModel::Pca56,
        CpuModel::Ev6,
        CpuModel::Ev67,
    ];

    /// Name as the command line and AT_PLATFORM spell it.
    pub const fn name(self) -> &'static str {
        match self {
            CpuModel::Ev4 => "ev4",
            CpuModel::Ev5 => "ev5",
            CpuModel::Ev56 => "ev56",
            CpuModel::Pca56 => "pca56",
            CpuModel::Ev6 => "ev6",
            CpuModel::Ev67 => "ev67",
        }
    }

    /// The model of that name.
    pub fn from_name(name: &str) -> Option<CpuModel> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    /// Feature mask: the bits that AMASK clears (AARM 4.11.1).
    pub const fn amask(self) -> u64 {
        match self {
            CpuModel::Ev4 | CpuModel::Ev5 => 0,
            CpuModel::Ev56 => BWX,
            CpuModel::Pca56 => BWX | MVI,
            CpuModel::Ev6 => BWX | FIX | MVI | PRECISE_TRAPS,
            CpuModel::Ev67 => BWX | FIX | CIX | MVI | PRECISE_TRAPS | PREFETCH_MODIFY,
        }
    }

    /// Value of IMPLVER (AARM 4.11.7).
    pub const fn implver(self) -> u64 {
        match self {
            CpuModel::Ev4 => 0,
            CpuModel::Ev5 | CpuModel::Ev56 | CpuModel::Pca56 => 1,
            CpuModel::Ev6 | CpuModel::Ev67 => 2,
        }
    }

    /// Whether instructions of the extension execute; otherwise they trap as OPCDEC.
    pub const fn has(self, ext: Ext) -> bool {
        let bit = match ext {
            Ext::Base => return true,
            Ext::Bwx => BWX,
            Ext::Fix => FIX,
            Ext::Cix => CIX,
            Ext::Mvi => MVI,
        };
        self.amask() & bit != 0
    }
}
