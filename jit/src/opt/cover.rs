//! How many regions contain a guest instruction: what keeps regions from being made again and again
//! from the same code.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use axp_emu::block::PcHasher;

use crate::region::Region;

/// Counts by guest pc, of one mode.
#[derive(Debug, Default)]
pub struct Cover(HashMap<u64, u32, BuildHasherDefault<PcHasher>>);

impl Cover {
    /// Instructions of a region, those of leaves that it has taken in excepted: they are called from
    /// elsewhere too.
    pub fn of(region: &Region) -> Vec<(u64, u64)> {
        let own = region.blocks.iter().filter(|b| !b.inlined);
        own.map(|b| (b.pc, b.end())).collect()
    }

    /// A region that covers `blocks` has been made.
    pub fn add(&mut self, blocks: &[(u64, u64)]) {
        for pc in addresses(blocks) {
            *self.0.entry(pc).or_default() += 1;
        }
    }

    /// It has been dropped.
    pub fn remove(&mut self, blocks: &[(u64, u64)]) {
        for pc in addresses(blocks) {
            if let Some(count) = self.0.get_mut(&pc) {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// How often `pc` must be arrived at before a region is made that starts there: at once where no
    /// region has it. Where one has, control has come here by another way than its entry - a callee
    /// returned elsewhere, the guest was interrupted - and will soon be at an entry again: then the
    /// number starts at `patience` and grows eightfold with each further region.
    pub fn patience(&self, pc: u64, patience: u32) -> u32 {
        match self.0.get(&pc).copied().unwrap_or(0) {
            0 => 0,
            n => patience.saturating_mul(8u32.saturating_pow(n - 1)),
        }
    }
}

fn addresses(blocks: &[(u64, u64)]) -> impl Iterator<Item = u64> {
    blocks.iter().flat_map(|&(start, end)| (start..end).step_by(4))
}
