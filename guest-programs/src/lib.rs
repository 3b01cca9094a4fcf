//! The lab's own guest programs as data: which kernels exist, their prebuilt Alpha ELF files,
//! their native twins and the results they must give. Called by the lab (axplab) and the tests.
//!
//! The catalogue, `catalogue.toml` and `catalogue-system.toml`, says everything about a row; this crate parses it once,
//! validates it and adds the embedded executables. It knows nothing of the emulator.
//!
//! ```
//! use axp_guests::{Catalogue, Cpu};
//!
//! let (program, row) = Catalogue::builtin().find("md5-8192").expect("a fixed row name");
//! assert_eq!(row.unit, "bytes");
//! let elf = program.elf_bytes(Cpu::Ev56).expect("ev56 builds exist throughout");
//! assert_eq!(&elf[..4], b"\x7fELF");
//! ```

mod catalogue;
mod line;
mod native;

/// Executables embedded by the build script.
mod embedded {
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

pub use catalogue::{
    Better, Catalogue, CatalogueError, Class, Cpu, Elf, Flags, Nbench, Program, Published,
    Reference, Row, Toolchain, Value, sha256_hex,
};
/// The executive of the privileged machine and the images that it runs (`exec/`), as one ELF file for
/// physical memory.
pub const EXECUTIVE: &[u8] = include_bytes!("../elf/exec.elf");

pub use line::{LineError, ResultLine};
pub use native::{NativeMissing, Variant, native, native_compiler};
