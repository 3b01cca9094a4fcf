//! Host code and how control reaches it: the arena, its stack, entry slots, the jump cache.

mod arena;
mod stack;
mod table;

pub use arena::{Arena, ArenaError, forks};
pub use stack::Stack;
pub use table::{
    CodeTable, JUMP_CACHE_ENTRIES, JUMP_CACHE_FOLD, JumpCache, Slot, empty_jump_cache, jump_index,
};
