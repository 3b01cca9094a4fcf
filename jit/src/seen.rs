//! Which guest code has been executed, or was about to be: what the engines confine regions to.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use axp_emu::block::PcHasher;
use axp_emu::mem::PAGE_SIZE;

/// Words of 64 instructions in a page.
const WORDS: usize = PAGE_SIZE as usize / 4 / 64;

/// A bit for each instruction of the pages that hold code.
#[derive(Debug, Default)]
pub struct Seen(HashMap<u64, Box<[u64; WORDS]>, BuildHasherDefault<PcHasher>>);

fn place(pc: u64) -> (u64, usize, u64) {
    let index = (pc % PAGE_SIZE) as usize / 4;
    (pc & !(PAGE_SIZE - 1), index / 64, 1 << (index % 64))
}

impl Seen {
    /// Notes `len` instructions from `pc` on.
    pub fn add(&mut self, pc: u64, len: usize) {
        for i in 0..len as u64 {
            let (page, word, bit) = place(pc.wrapping_add(4 * i));
            self.0.entry(page).or_insert_with(|| Box::new([0; WORDS]))[word] |= bit;
        }
    }

    /// Whether the instruction at `pc` has been noted.
    pub fn contains(&self, pc: u64) -> bool {
        let (page, word, bit) = place(pc);
        self.0.get(&page).is_some_and(|words| words[word] & bit != 0)
    }
}
