//! From guest pc to host code: entry slots that calls and branches go through, and a
//! direct-mapped cache that indirect jumps look up inline.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use axp_emu::block::PcHasher;

use super::{Arena, ArenaError};

/// Where control for one guest pc enters. Compiled code loads `code` and calls it; until the pc is
/// compiled that is a stub which returns the pc to the dispatcher.
#[derive(Debug)]
#[repr(C)]
pub struct Slot {
    /// Host code: a region's or a stub's.
    pub code: *const u8,
    stub: *const u8,
}

/// Entries of the jump cache, a power of two. The index is `(pc >> 2 ^ pc >> JUMP_CACHE_FOLD)` modulo
/// this number, in compiled code too.
pub const JUMP_CACHE_ENTRIES: usize = 16384;
/// See [`JUMP_CACHE_ENTRIES`].
pub const JUMP_CACHE_FOLD: u32 = 12;

/// The jump cache of an engine: pairs of pc and host code. Fresh memory of the host's, which holds
/// zeros, so that a program uses no more of it than it has jumps; only for pc 0 a zero is no mark.
pub type JumpCache = Box<[[u64; 2]]>;

/// A pc that no instruction has.
const NO_PC: u64 = u64::MAX;

/// A jump cache without entries.
pub fn empty_jump_cache() -> JumpCache {
    let mut jumps = vec![[0; 2]; JUMP_CACHE_ENTRIES].into_boxed_slice();
    jumps[0][0] = NO_PC;
    jumps
}

/// Stubs that are made in advance.
const SPARE: usize = 256;

/// All entries into host code.
#[derive(Debug)]
pub struct CodeTable {
    /// Stubs without a pc, for targets that running code meets: where they execute, and where they are
    /// written.
    spare: Vec<(*const u8, *mut u8)>,
    slots: HashMap<u64, Box<Slot>, BuildHasherDefault<PcHasher>>,
    jumps: JumpCache,
}

impl Default for CodeTable {
    fn default() -> Self {
        CodeTable { spare: Vec::new(), slots: HashMap::default(), jumps: empty_jump_cache() }
    }
}

impl CodeTable {
    /// Host code compiled for `pc`.
    pub fn lookup(&self, pc: u64) -> Option<*const u8> {
        self.compiled(pc)
    }

    /// Where an indirect jump to `pc` leads, the stub that returns `pc` included; it finds that inline
    /// from now on. Null if there is no room for the stub.
    pub fn target(&mut self, pc: u64) -> *const u8 {
        let code = match self.slots.get(&pc) {
            Some(slot) => slot.code,
            None => {
                let Some((stub, write)) = self.spare.pop() else { return std::ptr::null() };
                // SAFETY: a stub in the arena that these entries lead into, which nobody executes yet.
                unsafe { write.cast::<[u8; STUB]>().write(return_stub(pc)) };
                self.slots.insert(pc, Box::new(Slot { code: stub, stub }));
                stub
            }
        };
        self.cache_jump(pc, code);
        code
    }

    /// Makes stubs for [`target`](Self::target) to use.
    pub fn stock(&mut self, arena: &mut Arena) -> Result<(), ArenaError> {
        while self.spare.len() < SPARE {
            let stub = arena.place(&return_stub(0), 8, 0)?;
            self.spare.push((stub, arena.writable(stub)));
        }
        Ok(())
    }

    fn compiled(&self, pc: u64) -> Option<*const u8> {
        let slot = self.slots.get(&pc)?;
        (slot.code != slot.stub).then_some(slot.code)
    }

    /// Address of the slot for `pc`, made with a stub if it is new.
    pub fn slot(&mut self, pc: u64, arena: &mut Arena) -> Result<*const Slot, ArenaError> {
        if let Some(slot) = self.slots.get(&pc) {
            return Ok(&raw const **slot);
        }
        let stub = arena.place(&return_stub(pc), 8, 0)?;
        let slot = self.slots.entry(pc).or_insert(Box::new(Slot { code: stub, stub }));
        Ok(&raw const **slot)
    }

    /// Publishes host code for `pc`.
    pub fn install(
        &mut self,
        pc: u64,
        code: *const u8,
        arena: &mut Arena,
    ) -> Result<(), ArenaError> {
        self.slot(pc, arena)?;
        if let Some(slot) = self.slots.get_mut(&pc) {
            slot.code = code;
        }
        self.cache_jump(pc, code);
        Ok(())
    }

    /// Lets indirect jumps to `pc` find its code inline.
    pub fn cache_jump(&mut self, pc: u64, code: *const u8) {
        self.jumps[jump_index(pc)] = [pc, code as u64];
    }

    /// Takes the code of `pc` out of use.
    pub fn remove(&mut self, pc: u64) {
        if let Some(slot) = self.slots.get_mut(&pc) {
            slot.code = slot.stub;
        }
        let entry = &mut self.jumps[jump_index(pc)];
        if entry[0] == pc {
            entry[0] = NO_PC;
        }
    }

    /// Address of the jump cache, an array of (pc, code) pairs.
    pub fn jump_cache(&self) -> *const u8 {
        self.jumps.as_ptr().cast()
    }
}

/// Functions are often laid out at a regular distance: the higher bits keep them apart.
pub fn jump_index(pc: u64) -> usize {
    (pc >> 2 ^ pc >> JUMP_CACHE_FOLD) as usize & (JUMP_CACHE_ENTRIES - 1)
}

/// Bytes of a stub.
const STUB: usize = 14;

/// `mov rax, pc; mov rdi, [rdi]; ret`: a region that returns at once with `pc` as the next pc. The
/// other result registers already hold what the arguments brought (`abi::RESULTS`).
fn return_stub(pc: u64) -> [u8; STUB] {
    let mut code = [0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0x48, 0x8b, 0x3f, 0xc3];
    code[2..10].copy_from_slice(&pc.to_le_bytes());
    code
}
