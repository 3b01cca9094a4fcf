//! What an instruction means: pure functions over register values, the source of truth for every engine.
//!
//! The interpreter inlines them, a JIT tier calls them until it has a native lowering, and tests hold
//! each lowering against them. Nothing here has state, allocates or can panic. A function is called
//! by the lower-case mnemonic; operands are `Rav` and `Rbv` (or the literal) of the Alpha
//! Architecture Reference Manual, cited as AARM. The result is what is written to `Rc`.
//!
//! * [`int`]: arithmetic and comparison, with the `/V` forms that report overflow
//! * [`logic`]: Boolean functions and shifts
//! * [`byte`]: extract, insert, mask, zap and sign extension
//! * [`count`]: population and zero counts (CIX)
//! * [`mvi`]: motion-video instructions
//! * [`branch`]: conditions of branches and conditional moves, integer and floating

pub mod branch;
pub mod byte;
pub mod count;
pub mod int;
pub mod logic;
pub mod mvi;
#[cfg(test)]
mod testing;
