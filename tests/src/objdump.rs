//! GNU objdump as an oracle for the disassembler. Tests that use it pass without it, saying so.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Address of the first word that [`text_of_words`] is given.
pub const BASE: u64 = 0x1_2000_0000;

const TOOL: &str = "alpha-linux-gnu-objdump";

/// The tool, or `None` after a message that `what` is skipped.
///
/// # Panics
/// If the tool is missing although `AXPLAB_REQUIRE_TOOLS=1` asks for it.
pub fn find(what: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(TOOL)).find(|p| p.is_file());
    if found.is_none() {
        let required = std::env::var_os("AXPLAB_REQUIRE_TOOLS").is_some_and(|v| v == "1");
        assert!(!required, "{what} needs {TOOL}, which is not in PATH");
        // Written past the test harness, which would swallow the output of a test that passes.
        let _ = writeln!(std::io::stderr(), "skipped: {what} ({TOOL} is not installed)");
    }
    found
}

/// One line of a disassembly.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Where the instruction stands.
    pub pc: u64,
    /// The instruction word.
    pub word: u32,
    /// Its text, with targets as plain hexadecimal addresses.
    pub text: String,
}

/// What objdump prints for words that stand from [`BASE`] on.
pub fn text_of_words(tool: &Path, words: &[u32]) -> Vec<String> {
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = dir.path().join("words.bin");
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    std::fs::write(&file, bytes).expect("write words");
    let base = format!("--adjust-vma={BASE:#x}");
    let lines = run(tool, &["-D", "-z", "-b", "binary", "-m", "alpha", &base], &file);
    assert_eq!(lines.len(), words.len(), "objdump skipped words");
    lines.into_iter().map(|line| line.text).collect()
}

/// The disassembly of the code sections of an ELF file.
pub fn text_of_elf(tool: &Path, file: &Path) -> Vec<Line> {
    run(tool, &["-d", "-z"], file)
}

fn run(tool: &Path, args: &[&str], file: &Path) -> Vec<Line> {
    let output = Command::new(tool).args(args).arg(file).output().expect("run objdump");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().filter_map(parse).collect()
}

/// Parses `  120000000:\t1f 04 ff 47 \tnop\t`; headings give `None`.
fn parse(line: &str) -> Option<Line> {
    let mut parts = line.splitn(3, '\t');
    let pc = u64::from_str_radix(parts.next()?.trim().strip_suffix(':')?, 16).ok()?;
    let mut bytes = [0; 4];
    let mut fields = parts.next()?.split_whitespace();
    for byte in &mut bytes {
        *byte = u8::from_str_radix(fields.next()?, 16).ok()?;
    }
    let text = without_symbol(parts.next()?);
    Some(Line { pc, word: u32::from_le_bytes(bytes), text })
}

/// `br\t1200 <main+0x10>` becomes `br\t0x1200`: the file's symbols are not part of the instruction.
fn without_symbol(text: &str) -> String {
    let Some((plain, _)) = text.split_once(" <").filter(|_| text.ends_with('>')) else {
        return text.to_owned();
    };
    let digits = plain.rfind(['\t', ',']).map_or(0, |i| i + 1);
    format!("{}0x{}", &plain[..digits], &plain[digits..])
}
