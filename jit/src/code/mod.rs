//! Host code and how control reaches it: the arena, entry slots, the jump cache.

mod arena;
mod table;

pub use arena::{Arena, ArenaError};
pub use table::{CodeTable, JUMP_CACHE_ENTRIES, JUMP_CACHE_FOLD, Slot};
