//! Parses ELF64 files for Alpha. Everything a file claims is checked against its length and the
//! user address range before it is used, so that no file can panic or exhaust the loader.

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use std::ops::Range;

use object::{Endianness, Object, ObjectSymbol, SymbolKind};

use super::image::{Image, ImageKind, Segment, Symbol};

/// End of the user address range (TASK_SIZE of Linux on Alpha).
pub const MAX_ADDRESS: u64 = 1 << 42;

/// Lowest address that a program may ask for: page 0 is never mapped.
const MIN_ADDRESS: u64 = 0x2000;
/// Where kernels are linked: the superpage's half that is memory.
const KERNEL_ADDRESSES: Range<u64> = 0xffff_fc00_0000_0000..0xffff_fd00_0000_0000;
/// Largest memory image that is not absurd.
const MAX_SEGMENT: u64 = 1 << 36;
/// More program headers than any linker makes.
const MAX_HEADERS: usize = 512;
/// Linux's limit for the path of an interpreter.
const MAX_INTERP: u64 = 4096;
/// Symbols beyond this are ignored: they only name addresses in reports.
const MAX_SYMBOLS: usize = 1 << 20;

/// Machine number of Alpha, official numbers having stopped at "fake Alpha".
const EM_ALPHA: u16 = 0x9026;

/// Positions in `e_ident` (ELF specification, figure 1-4).
const EI_CLASS: usize = 4;
const EI_DATA: usize = 5;

/// Why a file is no executable for us.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ElfError {
    /// No bytes at all.
    #[error("the file is empty")]
    Empty,
    /// No ELF magic.
    #[error("not an ELF file")]
    NotElf,
    /// Ends within something that its headers promise.
    #[error("the file is truncated: its {what} ends at byte {end:#x}, the file at {len:#x}")]
    Truncated {
        /// What is cut off.
        what: &'static str,
        /// Where it should end.
        end: u64,
        /// Length of the file.
        len: u64,
    },
    /// A 32-bit file.
    #[error("a 32-bit ELF file for {machine}, not 64-bit Alpha")]
    Not64Bit {
        /// Architecture by name.
        machine: String,
    },
    /// A big-endian file.
    #[error("a big-endian ELF file for {machine}, not little-endian Alpha")]
    BigEndian {
        /// Architecture by name.
        machine: String,
    },
    /// Another architecture's file.
    #[error("an ELF file for {machine}, not for Alpha")]
    WrongMachine {
        /// Architecture by name.
        machine: String,
    },
    /// An object file, core dump or the like.
    #[error("an ELF {kind}, not an executable")]
    NotExecutable {
        /// What it is instead.
        kind: String,
    },
    /// A header that contradicts itself.
    #[error("malformed ELF file: {what}")]
    Malformed {
        /// What is wrong.
        what: String,
    },
    /// No PT_LOAD.
    #[error("malformed ELF file: it has no loadable segment")]
    NoSegments,
    /// Two segments claim an address.
    #[error("malformed ELF file: segments at {first:#x} and {second:#x} overlap")]
    Overlap {
        /// Start of the lower segment.
        first: u64,
        /// Start of the higher one.
        second: u64,
    },
    /// A segment that no Alpha program can have.
    #[error(
        "segment at {vaddr:#x} of {size:#x} bytes lies outside the user address range \
         (0x2000 to {MAX_ADDRESS:#x})"
    )]
    OutsideWindow {
        /// Start.
        vaddr: u64,
        /// Size in memory.
        size: u64,
    },
    /// A kernel's segment lies outside the part of the address space that kernels are linked to.
    #[error(
        "segment at {vaddr:#x} lies outside the kernel's part of the address space \
         (0xfffffc0000000000 to 0xfffffd0000000000); it is no Linux kernel for Alpha"
    )]
    NotKernel {
        /// First address.
        vaddr: u64,
    },
}

/// Name of a machine number, for messages.
fn machine_name(machine: u16) -> String {
    let name = match machine {
        elf::EM_386 => "i386",
        elf::EM_68K => "m68k",
        elf::EM_AARCH64 => "AArch64",
        elf::EM_ARM => "ARM",
        elf::EM_IA_64 => "IA-64",
        elf::EM_LOONGARCH => "LoongArch",
        elf::EM_MIPS => "MIPS",
        elf::EM_PARISC => "PA-RISC",
        elf::EM_PPC => "PowerPC",
        elf::EM_PPC64 => "PowerPC64",
        elf::EM_RISCV => "RISC-V",
        elf::EM_S390 => "S/390",
        elf::EM_SH => "SuperH",
        elf::EM_SPARC => "SPARC",
        elf::EM_SPARCV9 => "SPARC V9",
        elf::EM_X86_64 => "x86-64",
        EM_ALPHA => "Alpha",
        other => return format!("machine number {other:#x}"),
    };
    name.to_owned()
}

fn kind_name(kind: u16) -> String {
    match kind {
        elf::ET_REL => "object file".to_owned(),
        elf::ET_CORE => "core dump".to_owned(),
        elf::ET_NONE => "file without a type".to_owned(),
        other => format!("file of type {other:#x}"),
    }
}

fn malformed(what: impl Into<String>) -> ElfError {
    ElfError::Malformed { what: what.into() }
}

/// The bytes that a header promises at `offset`.
fn slice<'a>(
    data: &'a [u8],
    offset: u64,
    size: u64,
    what: &'static str,
) -> Result<&'a [u8], ElfError> {
    let end = offset
        .checked_add(size)
        .ok_or_else(|| malformed(format!("the offset of its {what} overflows")))?;
    usize::try_from(offset)
        .ok()
        .zip(usize::try_from(end).ok())
        .and_then(|(start, end)| data.get(start..end))
        .ok_or(ElfError::Truncated { what, end, len: data.len() as u64 })
}

/// Checks what the identification bytes and the machine say, in the order a reader of the message
/// would ask: is it ELF, for which machine, of which kind.
fn check_ident(data: &[u8]) -> Result<(), ElfError> {
    if data.is_empty() {
        return Err(ElfError::Empty);
    }
    let magic = &elf::ELFMAG[..];
    if !data.starts_with(&magic[..magic.len().min(data.len())]) {
        return Err(ElfError::NotElf);
    }
    let head = slice(data, 0, 20, "ELF header")?;
    let big_endian = head[EI_DATA] == elf::ELFDATA2MSB;
    let bytes = [head[18], head[19]];
    let machine = if big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) };
    let name = || machine_name(machine);
    if machine != EM_ALPHA {
        return Err(ElfError::WrongMachine { machine: name() });
    }
    if head[EI_CLASS] != elf::ELFCLASS64 {
        return Err(ElfError::Not64Bit { machine: name() });
    }
    if big_endian || head[EI_DATA] != elf::ELFDATA2LSB {
        return Err(ElfError::BigEndian { machine: name() });
    }
    slice(data, 0, 64, "ELF header").map(|_| ())
}

/// Reads an executable or shared object for user mode.
pub fn parse(data: &[u8]) -> Result<Image, ElfError> {
    parse_within(data, MIN_ADDRESS..MAX_ADDRESS)
}

/// Reads a kernel, which is linked to the superpage.
pub fn parse_kernel(data: &[u8]) -> Result<Image, ElfError> {
    parse_within(data, KERNEL_ADDRESSES)
}

fn parse_within(data: &[u8], addresses: Range<u64>) -> Result<Image, ElfError> {
    check_ident(data)?;
    let header = elf::FileHeader64::<Endianness>::parse(data)
        .map_err(|error| malformed(error.to_string()))?;
    let endian = Endianness::Little;
    let kind = match header.e_type(endian) {
        elf::ET_EXEC => ImageKind::Fixed,
        elf::ET_DYN => ImageKind::Relocatable,
        other => return Err(ElfError::NotExecutable { kind: kind_name(other) }),
    };
    let phoff = header.e_phoff(endian);
    let phnum = header.e_phnum(endian);
    if phoff == 0 || phnum == 0 {
        return Err(ElfError::NoSegments);
    }
    if usize::from(header.e_phentsize(endian)) != 56 {
        return Err(malformed("program headers are not 56 bytes long"));
    }
    if usize::from(phnum) > MAX_HEADERS {
        return Err(malformed(format!("{phnum} program headers")));
    }
    slice(data, phoff, u64::from(phnum) * 56, "program header table")?;
    let headers =
        header.program_headers(endian, data).map_err(|error| malformed(error.to_string()))?;

    let mut segments = Vec::new();
    let mut interp = None;
    let mut phdr = None;
    let mut exec_stack = true;
    for ph in headers {
        match ph.p_type(endian) {
            elf::PT_LOAD => {
                let relocatable = kind == ImageKind::Relocatable;
                if let Some(segment) = load_segment(data, ph, endian, relocatable, &addresses)? {
                    // The segment that holds the table of headers shows where it is in memory.
                    let offset = ph.p_offset(endian);
                    let size = u64::from(phnum) * 56;
                    if phdr.is_none()
                        && offset <= phoff
                        && phoff - offset + size <= segment.data.len() as u64
                    {
                        phdr = Some(segment.vaddr + (phoff - offset));
                    }
                    segments.push(segment);
                }
            }
            elf::PT_INTERP => interp = Some(interpreter(data, ph, endian)?),
            elf::PT_GNU_STACK => exec_stack = ph.p_flags(endian) & elf::PF_X != 0,
            _ => {}
        }
    }
    segments.sort_by_key(|s| s.vaddr);
    if segments.is_empty() {
        return Err(ElfError::NoSegments);
    }
    for pair in segments.windows(2) {
        if pair[0].end() > pair[1].vaddr {
            return Err(ElfError::Overlap { first: pair[0].vaddr, second: pair[1].vaddr });
        }
    }
    Ok(Image {
        kind,
        entry: header.e_entry(endian),
        interp,
        phdr,
        phnum,
        e_flags: header.e_flags(endian),
        exec_stack,
        symbols: symbols(data),
        segments,
    })
}

type Header64 = elf::ProgramHeader64<Endianness>;

fn load_segment(
    data: &[u8],
    ph: &Header64,
    endian: Endianness,
    relocatable: bool,
    addresses: &Range<u64>,
) -> Result<Option<Segment>, ElfError> {
    let (vaddr, size) = (ph.p_vaddr(endian), ph.p_memsz(endian));
    if size == 0 {
        return Ok(None);
    }
    let file_size = ph.p_filesz(endian);
    if file_size > size {
        return Err(malformed(format!(
            "segment at {vaddr:#x} has more bytes in the file than in memory"
        )));
    }
    let fits = vaddr.checked_add(size).is_some_and(|end| end <= addresses.end);
    let fits = fits && (vaddr >= addresses.start || relocatable);
    if !fits || size > MAX_SEGMENT {
        let user = addresses.end == MAX_ADDRESS;
        let outside = if user {
            ElfError::OutsideWindow { vaddr, size }
        } else {
            ElfError::NotKernel { vaddr }
        };
        return Err(outside);
    }
    let bytes = slice(data, ph.p_offset(endian), file_size, "segment")?;
    let flags = ph.p_flags(endian);
    Ok(Some(Segment {
        vaddr,
        mem_size: size,
        data: bytes.to_vec(),
        read: flags & elf::PF_R != 0,
        write: flags & elf::PF_W != 0,
        execute: flags & elf::PF_X != 0,
    }))
}

fn interpreter(data: &[u8], ph: &Header64, endian: Endianness) -> Result<Vec<u8>, ElfError> {
    let size = ph.p_filesz(endian);
    if !(2..=MAX_INTERP).contains(&size) {
        return Err(malformed(format!("interpreter path of {size} bytes")));
    }
    let bytes = slice(data, ph.p_offset(endian), size, "interpreter path")?;
    match bytes.split(|&b| b == 0).next() {
        Some(path) if !path.is_empty() && path.len() < bytes.len() => Ok(path.to_vec()),
        _ => Err(malformed("the interpreter path is not a terminated string")),
    }
}

/// Named addresses. A broken symbol table costs names, not the program.
fn symbols(data: &[u8]) -> Vec<Symbol> {
    let Ok(file) = object::read::elf::ElfFile64::<Endianness>::parse(data) else {
        return Vec::new();
    };
    let convert = |symbol: object::read::elf::ElfSymbol64<'_, '_, Endianness>| {
        let is_function = symbol.kind() == SymbolKind::Text;
        if !symbol.is_definition() || !(is_function || symbol.kind() == SymbolKind::Data) {
            return None;
        }
        let name = String::from_utf8_lossy(symbol.name_bytes().ok()?).into_owned();
        Some(Symbol { address: symbol.address(), size: symbol.size(), name, is_function })
    };
    let mut found: Vec<_> = file.symbols().take(MAX_SYMBOLS).filter_map(convert).collect();
    if found.is_empty() {
        found = file.dynamic_symbols().take(MAX_SYMBOLS).filter_map(convert).collect();
    }
    found.sort_by_key(|s| s.address);
    found
}
