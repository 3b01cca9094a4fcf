//! What an instruction is: table, formats, decoder, encoder, assembler, disassembler.
//!
//! Pure, without state. Everything here derives from [`for_each_insn!`](crate::for_each_insn).

mod decode;
mod format;
mod insn;
mod model;
mod opcode;
mod pal;
mod table;

pub use decode::decode;
pub use format::{Format, FpSet, func, func_bits};
pub use insn::{Insn, SINK, ZERO};
pub use model::CpuModel;
pub use opcode::{Ext, Kind, Opcode, OpcodeInfo, RegSet};
pub use pal::{Osf, PalVariant};
