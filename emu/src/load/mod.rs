//! Loading: the bytes of an executable become an [`Image`], plain data that a personality maps.

mod elf;
mod image;
#[cfg(test)]
mod tests;

pub use elf::{ElfError, MAX_ADDRESS, parse, parse_kernel};
pub use image::{Image, ImageKind, Segment, Symbol};
