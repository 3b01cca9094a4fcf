//! `axplab disasm`: instruction text for words given in hexadecimal, or for the executable sections of an Alpha ELF file, as objdump lays it out.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, bail};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, SectionFlags, SymbolKind, elf};

use crate::Outcome;
use crate::cli::DisasmArgs;

/// Runs the command.
pub fn disasm(args: DisasmArgs) -> anyhow::Result<Outcome> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut address = 0;
    for what in &args.what {
        match word(what) {
            // A file of that name is meant rather than the word: it was made on purpose.
            Some(word) if !Path::new(what).is_file() => {
                line(&mut out, address, word, &BTreeMap::new())?;
                address += 4;
            }
            _ => file(&mut out, Path::new(what))?,
        }
    }
    out.flush()?;
    Ok(Outcome::DONE)
}

/// The text of one instruction at `pc`, without a symbol.
fn text(word: u32, pc: u64) -> String {
    let _ = pc;
    format!(".long {word:#x}")
}

fn word(text: &OsStr) -> Option<u32> {
    let text = text.to_str()?;
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let plain = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, 16).ok())?
}

fn file(out: &mut dyn Write, path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let bytes = std::fs::read(path).with_context(|| {
        format!(
            "cannot read `{shown}`; name an Alpha ELF file, or a word of eight hexadecimal digits"
        )
    })?;
    let elf = ElfFile64::<LittleEndian>::parse(bytes.as_slice()).map_err(|error| {
        anyhow::anyhow!("`{shown}` is no 64-bit little-endian ELF file: {error}")
    })?;
    if elf.elf_header().e_machine.get(LittleEndian) != elf::EM_ALPHA {
        bail!("`{shown}` is an ELF file of another architecture, not Alpha");
    }
    writeln!(out, "\n{shown}:     file format elf64-alpha\n")?;
    let names = symbols(&elf);
    let mut sections = 0;
    for section in elf.sections() {
        let SectionFlags::Elf { sh_flags } = section.flags() else { continue };
        if sh_flags & u64::from(elf::SHF_EXECINSTR) == 0 {
            continue;
        }
        let name = section.name().unwrap_or("?");
        let data = section.data().map_err(|error| {
            anyhow::anyhow!("section {name} of `{shown}` lies outside the file: {error}")
        })?;
        sections += 1;
        writeln!(out, "\nDisassembly of section {name}:")?;
        self::section(out, section.address(), data, &names)?;
    }
    if sections == 0 {
        bail!(
            "`{shown}` has no executable section (a file without section headers cannot be walked)"
        );
    }
    Ok(())
}

fn section(
    out: &mut dyn Write,
    start: u64,
    data: &[u8],
    names: &BTreeMap<u64, String>,
) -> anyhow::Result<()> {
    for (index, chunk) in data.chunks(4).enumerate() {
        let pc = start.wrapping_add(4 * index as u64);
        if let Some(name) = names.get(&pc) {
            writeln!(out, "\n{pc:016x} <{name}>:")?;
        } else if index == 0 {
            writeln!(out)?;
        }
        match chunk.try_into() {
            Ok(bytes) => line(out, pc, u32::from_le_bytes(bytes), names)?,
            Err(_) => writeln!(out, "{pc:12x}:\t{} bytes left over", chunk.len())?,
        }
    }
    Ok(())
}

fn line(
    out: &mut dyn Write,
    pc: u64,
    word: u32,
    names: &BTreeMap<u64, String>,
) -> std::io::Result<()> {
    let [a, b, c, d] = word.to_le_bytes();
    write!(out, "{pc:12x}:\t{a:02x} {b:02x} {c:02x} {d:02x} \t{}", text(word, pc))?;
    if let Some(target) = branch_target(word, pc)
        && let Some((start, name)) = names.range(..=target).next_back()
    {
        match target - start {
            0 => write!(out, " <{name}>")?,
            offset => write!(out, " <{name}+{offset:#x}>")?,
        }
    }
    writeln!(out)
}

/// Where a branch-format instruction goes: opcodes 30 to 3F (AARM 3.3.2), a displacement of 21 bits in longwords.
fn branch_target(word: u32, pc: u64) -> Option<u64> {
    let displacement = i64::from((word << 11) as i32 >> 11) * 4;
    (word >> 26 >= 0x30).then(|| pc.wrapping_add(4).wrapping_add_signed(displacement))
}

/// Function and unnamed-type symbols by address; a function's name wins.
fn symbols(elf: &ElfFile64<LittleEndian>) -> BTreeMap<u64, String> {
    let mut names = BTreeMap::new();
    for symbol in elf
        .symbols()
        .filter(|symbol| symbol.is_definition() || symbol.kind() == SymbolKind::Unknown)
    {
        let Ok(name) = symbol.name() else { continue };
        let executable = symbol
            .section_index()
            .and_then(|index| elf.section_by_index(index).ok())
            .is_some_and(|section| matches!(section.flags(), SectionFlags::Elf { sh_flags } if sh_flags & u64::from(elf::SHF_EXECINSTR) != 0));
        if name.is_empty() || !executable {
            continue;
        }
        let address = symbol.address();
        if symbol.kind() == SymbolKind::Text || !names.contains_key(&address) {
            names.insert(address, name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_eight_hexadecimal_digits() {
        assert_eq!(word(OsStr::new("47ff041f")), Some(0x47ff_041f));
        assert_eq!(word(OsStr::new("0x6BFA8001")), Some(0x6bfa_8001));
        for other in ["47ff041", "47ff041f0", "+7ff041f", "hello", ""] {
            assert_eq!(word(OsStr::new(other)), None, "{other}");
        }
    }

    #[test]
    fn branches_count_longwords_from_the_next_instruction() {
        // br zero,.+4+4*1 and br zero,. (displacement -1)
        assert_eq!(branch_target(0xc3e0_0001, 0x1000), Some(0x1008));
        assert_eq!(branch_target(0xc3ff_ffff, 0x1000), Some(0x1000));
        assert_eq!(branch_target(0x47ff_041f, 0x1000), None);
    }
}
