//! What an instruction is: table, formats, decoder, encoder, assembler, disassembler.
//!
//! Pure, without state. Everything here derives from [`for_each_insn!`](crate::for_each_insn).

mod asm;
mod decode;
mod disasm;
mod encode;
mod format;
mod insn;
mod model;
mod opcode;
mod pal;
mod syntax;
mod table;

pub use asm::{AsmError, AsmErrorKind, assemble, assemble_at, assemble_block};
pub use decode::decode;
pub use disasm::{Disasm, disasm};
pub use encode::encode;
pub use format::{Format, FpSet, func, func_bits};
pub use insn::{Insn, SINK, ZERO};
pub use model::CpuModel;
pub use opcode::{Ext, Kind, Opcode, OpcodeInfo, RegSet};
pub use pal::{Osf, OsfSystem, PalVariant, Vms};
pub use syntax::{Form, IDIOMS, INT_NAMES, Idiom, Operand, qualifier_letters};
