//! Names for guest addresses: the functions of the program and, as they appear in its memory, of the
//! libraries that it maps. Called by `trace`, `lockstep` and `profile`.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use axp_emu::mem::{AddressSpace, Prot};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSegment, ObjectSymbol, SymbolKind};

/// A function of a file, by addresses of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    start: u64,
    end: u64,
    name: String,
}

/// The functions of one file, in order.
#[derive(Clone, Debug, Default)]
struct FileSymbols {
    functions: Vec<Function>,
    /// Address of the first byte, on a page boundary.
    low: u64,
}

const PAGE: u64 = 8192;

impl FileSymbols {
    /// Of an ELF file; empty for anything else.
    fn read(path: &Path) -> FileSymbols {
        let bytes = std::fs::read(path).unwrap_or_default();
        let elf = ElfFile64::<LittleEndian>::parse(bytes.as_slice());
        elf.map(|elf| FileSymbols::of(&elf)).unwrap_or_default()
    }

    fn of(elf: &ElfFile64<'_, LittleEndian>) -> FileSymbols {
        let mut functions: Vec<Function> = elf
            .symbols()
            .chain(elf.dynamic_symbols())
            .filter(|s| s.kind() == SymbolKind::Text && s.is_definition())
            .filter_map(|s| {
                let (start, name) = (s.address(), s.name().ok()?.to_owned());
                Some(Function { start, end: start.saturating_add(s.size()), name })
            })
            .collect();
        // Of several names of one place the longest extent, then the first in the alphabet.
        functions.sort_by(|a, b| {
            (a.start, std::cmp::Reverse(a.end), &a.name).cmp(&(
                b.start,
                std::cmp::Reverse(b.end),
                &b.name,
            ))
        });
        functions.dedup_by_key(|f| f.start);
        let low = elf.segments().map(|s| s.address()).min().unwrap_or(0) & !(PAGE - 1);
        FileSymbols { functions, low }
    }

    fn find(&self, at: u64) -> Option<&Function> {
        let i = self.functions.partition_point(|f| f.start <= at);
        let last = self.functions.get(i.checked_sub(1)?)?;
        // A symbol without a size reaches to the next one.
        (at < last.end || last.end == last.start).then_some(last)
    }
}

/// A part of a file in guest memory.
#[derive(Clone, Debug)]
struct Placed {
    start: u64,
    end: u64,
    /// What is added to addresses of the file.
    bias: u64,
    path: PathBuf,
}

/// A place by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The function, or an empty string.
    pub function: &'a str,
    /// Where it starts.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// The file that it is of.
    pub file: &'a str,
}

/// What is known of the code of one guest.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    files: HashMap<PathBuf, FileSymbols>,
    placed: Vec<Placed>,
}

impl Symbols {
    /// Of what is mapped now. Files are looked for in `sysroot`, too.
    pub fn of(mem: &AddressSpace, sysroot: Option<&Path>) -> Self {
        let mut symbols = Symbols::default();
        symbols.update(mem, sysroot);
        symbols
    }

    /// Of an ELF image that is where its segments say, for good.
    pub fn of_image(name: &str, bytes: &[u8]) -> object::Result<Self> {
        // A copy, since the parser wants an aligned header.
        let bytes = bytes.to_vec();
        let elf = ElfFile64::<LittleEndian>::parse(bytes.as_slice())?;
        let path = PathBuf::from(name);
        let placed = elf.segments().map(|segment| {
            let (start, end) = (segment.address(), segment.address() + segment.size());
            Placed { start, end, bias: 0, path: path.clone() }
        });
        let placed = placed.collect();
        Ok(Symbols { files: HashMap::from([(path, FileSymbols::of(&elf))]), placed })
    }

    /// Adds what has been mapped since.
    pub fn update(&mut self, mem: &AddressSpace, sysroot: Option<&Path>) {
        let mut first: HashMap<PathBuf, u64> = HashMap::new();
        self.placed.clear();
        for region in mem.regions() {
            let Some(name) = region.name.as_deref() else { continue };
            let Some(path) = find_file(name, sysroot) else { continue };
            let base = *first.entry(path.clone()).or_insert(region.start);
            if !region.prot.contains(Prot::EXEC) {
                continue;
            }
            let file = self.files.entry(path.clone()).or_insert_with(|| FileSymbols::read(&path));
            let bias = base.wrapping_sub(file.low);
            self.placed.push(Placed { start: region.start, end: region.end, bias, path });
        }
    }

    /// The name of the place at `pc`.
    pub fn find(&self, pc: u64) -> Option<Place<'_>> {
        let placed = self.placed.iter().find(|p| (p.start..p.end).contains(&pc))?;
        let file = placed.path.file_name().and_then(OsStr::to_str).unwrap_or("?");
        let found = self.files.get(&placed.path)?.find(pc.wrapping_sub(placed.bias));
        Some(match found {
            Some(f) => {
                let (start, end) = (f.start.wrapping_add(placed.bias), f.end.max(f.start + 4));
                Place { function: &f.name, start, end: end.wrapping_add(placed.bias), file }
            }
            None => Place { function: "", start: placed.start, end: placed.end, file },
        })
    }

    /// `function+0x10`, `file+0x10`, or the bare address.
    pub fn describe(&self, pc: u64) -> String {
        match self.find(pc) {
            Some(place) => {
                let name = if place.function.is_empty() { place.file } else { place.function };
                match pc - place.start {
                    0 => name.to_owned(),
                    offset => format!("{name}+{offset:#x}"),
                }
            }
            None => format!("{pc:#x}"),
        }
    }

    /// Address ranges of functions of this name.
    pub fn ranges_of(&self, name: &str) -> Vec<(u64, u64)> {
        let mut ranges = Vec::new();
        for placed in &self.placed {
            let Some(file) = self.files.get(&placed.path) else { continue };
            for (i, f) in file.functions.iter().enumerate().filter(|(_, f)| f.name == name) {
                let next = file.functions.get(i + 1).map_or(u64::MAX, |next| next.start);
                let end = if f.end > f.start { f.end } else { next };
                ranges.push((f.start.wrapping_add(placed.bias), end.wrapping_add(placed.bias)));
            }
        }
        ranges.sort_unstable();
        ranges.dedup();
        ranges
    }
}

fn find_file(name: &OsStr, sysroot: Option<&Path>) -> Option<PathBuf> {
    let path = Path::new(name);
    if path.is_file() {
        return Some(path.to_path_buf());
    }
    let inside = sysroot?.join(path.strip_prefix("/").ok()?);
    inside.is_file().then_some(inside)
}
