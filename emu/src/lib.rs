//! The Alpha AXP architecture: instructions, semantics, memory, interpreter and personalities.

pub mod mem;
