//! Entries into baseline code by guest pc, the direct branches that lead to them, and the jump cache.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use crate::code::{Arena, JUMP_CACHE_ENTRIES, JumpCache, empty_jump_cache};

/// Hash of an address: one multiplication.
#[derive(Default)]
struct PcHasher(u64);

impl Hasher for PcHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u64(u64::from(b)));
    }

    fn write_u64(&mut self, value: u64) {
        let product = (self.0 ^ value >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

/// A direct branch in host code.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// Guest pc that it leads to.
    pub target: u64,
    /// Address of its 32-bit displacement.
    pub at: u64,
    /// Host code that it leads to as long as the target is not compiled.
    pub stub: u64,
}

/// A guest pc that code was compiled for, or that a branch leads to.
#[derive(Debug, Default)]
struct Target {
    /// Templates, 0 if there are none.
    code: u64,
    /// Host code that takes their place, 0 if there is none.
    instead: u64,
    sites: Vec<u32>,
}

impl Target {
    fn entry(&self) -> u64 {
        if self.instead != 0 { self.instead } else { self.code }
    }
}

/// No instruction has this address.
const EMPTY: [u64; 2] = [u64::MAX, 0];

/// All entries of one mode and the branches to them.
#[derive(Debug)]
pub struct Links {
    targets: HashMap<u64, Target, BuildHasherDefault<PcHasher>>,
    sites: Vec<Site>,
    jumps: JumpCache,
}

impl Default for Links {
    fn default() -> Self {
        Links { targets: HashMap::default(), sites: Vec::new(), jumps: empty_jump_cache() }
    }
}

fn jump_index(pc: u64) -> usize {
    (pc >> 2) as usize & (JUMP_CACHE_ENTRIES - 1)
}

fn point(arena: &mut Arena, site: &Site, to: u64) {
    arena.patch(site.at, to.wrapping_sub(site.at + 4) as i32);
}

impl Links {
    /// Host code for `pc`.
    pub fn lookup(&self, pc: u64) -> Option<u64> {
        self.targets.get(&pc).map(Target::entry).filter(|&code| code != 0)
    }

    /// Whether templates exist for `pc`.
    pub fn has_code(&self, pc: u64) -> bool {
        self.targets.get(&pc).is_some_and(|t| t.code != 0)
    }

    /// Number that the next site gets.
    pub fn next_site(&self) -> u32 {
        self.sites.len() as u32
    }

    /// Adds a branch, which leads to its stub, and links it if its target is known.
    pub fn add_site(&mut self, site: Site, arena: &mut Arena) {
        let number = self.next_site();
        self.sites.push(site);
        let target = self.targets.entry(site.target).or_default();
        target.sites.push(number);
        if target.entry() != 0 {
            point(arena, &site, target.entry());
        }
    }

    /// The branch with a number.
    pub fn site(&self, number: u64) -> Option<&Site> {
        self.sites.get(number as usize)
    }

    /// Publishes templates for `pc`.
    pub fn define(&mut self, pc: u64, code: u64, arena: &mut Arena) {
        self.change(pc, arena, |t| t.code = code);
    }

    /// Takes the templates for `pc` out of use if they lie in `code`, and what took their place.
    pub fn undefine(&mut self, pc: u64, code: &Range<u64>, arena: &mut Arena) {
        if self.targets.get(&pc).is_some_and(|t| code.contains(&t.code)) {
            self.change(pc, arena, |t| (t.code, t.instead) = (0, 0));
        }
    }

    /// Publishes code that takes the place of templates for `pc`; 0 takes it back.
    pub fn define_instead(&mut self, pc: u64, code: u64, arena: &mut Arena) {
        self.change(pc, arena, |t| t.instead = code);
    }

    fn change(&mut self, pc: u64, arena: &mut Arena, change: impl FnOnce(&mut Target)) {
        let target = self.targets.entry(pc).or_default();
        let before = target.entry();
        change(target);
        let after = target.entry();
        if after == before {
            return;
        }
        for &number in &target.sites {
            let site = &self.sites[number as usize];
            point(arena, site, if after == 0 { site.stub } else { after });
        }
        let jump = &mut self.jumps[jump_index(pc)];
        if jump[0] == pc {
            *jump = if after == 0 { EMPTY } else { [pc, after] };
        }
    }

    /// Takes the branches with these numbers out of use: their code is gone.
    pub fn drop_sites(&mut self, numbers: Range<u32>) {
        for number in numbers {
            let target = self.sites[number as usize].target;
            if let Some(target) = self.targets.get_mut(&target) {
                target.sites.retain(|&n| n != number);
            }
        }
    }

    /// Makes indirect jumps to `pc` find `code` inline.
    pub fn cache_jump(&mut self, pc: u64, code: u64) {
        self.jumps[jump_index(pc)] = [pc, code];
    }

    /// Address of the jump cache.
    pub fn jump_cache(&self) -> u64 {
        self.jumps.as_ptr() as u64
    }

    /// Forgets everything; the arena has been emptied.
    pub fn clear(&mut self) {
        self.targets.clear();
        self.sites.clear();
        self.jumps = empty_jump_cache();
    }
}
