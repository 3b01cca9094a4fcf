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

fn word(text: &OsStr) -> Option<u32> {
    let text = text.to_str()?;
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let plain = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, 16).ok())?
}

fn file(out: &mut dyn Write, path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    // A pipe may never end, and neither does /dev/zero.
    if std::fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        bail!("`{shown}` is no regular file; name an Alpha ELF file");
    }
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
        // A section that no symbol opens is headed by its own name, which no operand refers to.
        if !names.contains_key(&section.address()) {
            writeln!(out, "\n{:016x} <{name}>:", section.address())?;
        }
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
    let mut words = data
        .chunks_exact(4)
        .map(|bytes| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte)));
    let mut pc = start;
    let mut zeros = 0u64;
    loop {
        let word = words.next();
        let named = names.contains_key(&pc);
        // As objdump does: two or more words of zero are padding, up to the next name.
        if zeros > 0 && (word != Some(0) || named) {
            match zeros {
                1 => line(out, pc.wrapping_sub(4), 0, names)?,
                _ => writeln!(out, "\t...")?,
            }
            zeros = 0;
        }
        let Some(word) = word else { break };
        if let Some(name) = names.get(&pc) {
            writeln!(out, "\n{pc:016x} <{name}>:")?;
        }
        match word {
            0 => zeros += 1,
            _ => line(out, pc, word, names)?,
        }
        pc = pc.wrapping_add(4);
    }
    let rest = data.len() % 4;
    if rest > 0 {
        writeln!(out, "{pc:12x}:\t{rest} bytes left over")?;
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
    write!(out, "{pc:12x}:\t{a:02x} {b:02x} {c:02x} {d:02x} \t")?;
    let text = axp_emu::isa::disasm(word, pc).to_string();
    match with_symbol(&text, names) {
        Some(text) => writeln!(out, "{text}"),
        None => writeln!(out, "{text}"),
    }
}

/// A target address becomes `120000480 <name+0x10>`, as objdump writes it when there are symbols.
fn with_symbol(text: &str, names: &BTreeMap<u64, String>) -> Option<String> {
    let (before, digits) = text.rsplit_once("0x")?;
    // Of the operands only targets are written with 0x; `.long` is no operand.
    if before.starts_with('.') || before.starts_with("call_pal") {
        return None;
    }
    let target = u64::from_str_radix(digits, 16).ok()?;
    let (start, name) = names.range(..=target).next_back()?;
    Some(match target - start {
        0 => format!("{before}{target:x} <{name}>"),
        offset => format!("{before}{target:x} <{name}+{offset:#x}>"),
    })
}

/// The names of places in executable sections: functions before labels, global before weak and local ones.
fn symbols(elf: &ElfFile64<LittleEndian>) -> BTreeMap<u64, String> {
    let executable = |index| {
        elf.section_by_index(index).is_ok_and(|section| {
            matches!(section.flags(), SectionFlags::Elf { sh_flags } if sh_flags & u64::from(elf::SHF_EXECINSTR) != 0)
        })
    };
    let mut names = BTreeMap::new();
    for symbol in elf.symbols() {
        let Ok(name) = symbol.name() else { continue };
        if name.is_empty() || !symbol.section_index().is_some_and(executable) {
            continue;
        }
        let rank = (symbol.kind() == SymbolKind::Text, symbol.is_global() && !symbol.is_weak());
        let place = names.entry(symbol.address()).or_insert((rank, name));
        if rank > place.0 {
            *place = (rank, name);
        }
    }
    names.into_iter().map(|(address, (_, name))| (address, name.to_owned())).collect()
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
    fn targets_and_nothing_else_get_their_symbol() {
        let names = BTreeMap::from([(0x1000, "main".to_owned())]);
        let text = |text| with_symbol(text, &names);
        assert_eq!(text("beq\tt12,0x1010").unwrap(), "beq\tt12,1010 <main+0x10>");
        assert_eq!(text("jsr\tra,(t12),0x1000").unwrap(), "jsr\tra,(t12),1000 <main>");
        for other in ["br\t0x8", ".long 0x4001000", "call_pal\t0x4000", "lda\tat,-1076(at)"] {
            assert_eq!(text(other), None, "{other}");
        }
    }
}
