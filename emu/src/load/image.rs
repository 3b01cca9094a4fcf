//! What an executable says about itself. Made by [`parse`](super::parse), used by personalities
//! to build an address space and by tools to name addresses.

/// How the addresses of an image are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageKind {
    /// Linked for fixed addresses.
    Fixed,
    /// Position independent: a base is added to every address.
    Relocatable,
}

/// A loadable part of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First address.
    pub vaddr: u64,
    /// Bytes in memory; what `data` does not cover is zero.
    pub mem_size: u64,
    /// Initialised bytes, from `vaddr` on; never longer than `mem_size`.
    pub data: Vec<u8>,
    /// May be read.
    pub read: bool,
    /// May be written.
    pub write: bool,
    /// May be executed.
    pub execute: bool,
}

impl Segment {
    /// First address behind the segment.
    pub fn end(&self) -> u64 {
        self.vaddr + self.mem_size
    }
}

/// A function or datum with a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// Address without load base.
    pub address: u64,
    /// Size in bytes, zero when unknown.
    pub size: u64,
    /// Name, lossily decoded.
    pub name: String,
    /// Whether it is code.
    pub is_function: bool,
}

/// An executable or shared object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// Fixed or relocatable.
    pub kind: ImageKind,
    /// Loadable segments in ascending order, not overlapping, not empty.
    pub segments: Vec<Segment>,
    /// First instruction, without load base.
    pub entry: u64,
    /// Path of the program interpreter (the dynamic linker), if one is asked for.
    pub interp: Option<Vec<u8>>,
    /// Address of the program headers in memory, where a segment covers them.
    pub phdr: Option<u64>,
    /// Number of program headers.
    pub phnum: u16,
    /// Processor flags; bit 0 asks for 32-bit addresses.
    pub e_flags: u32,
    /// Whether the program headers ask for an executable stack. True when they say nothing, as
    /// for the kernel.
    pub exec_stack: bool,
    /// Named addresses, ascending.
    pub symbols: Vec<Symbol>,
}

impl Image {
    /// First address of the lowest segment.
    pub fn low(&self) -> u64 {
        self.segments.first().map_or(0, |s| s.vaddr)
    }

    /// First address behind the highest segment.
    pub fn high(&self) -> u64 {
        self.segments.last().map_or(0, Segment::end)
    }

    /// The symbol that covers `address`, or the nearest sizeless one below it, and the distance.
    pub fn symbol_at(&self, address: u64) -> Option<(&Symbol, u64)> {
        let upper = self.symbols.partition_point(|s| s.address <= address);
        self.symbols[..upper]
            .iter()
            .rev()
            .take(8)
            .find(|s| s.size == 0 || address - s.address < s.size)
            .map(|s| (s, address - s.address))
    }
}
