//! Reads the workspace's own source as text, for `tests/tidy.rs` and the documentation generator.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace")
}

/// A source file.
#[derive(Debug)]
pub struct Source {
    /// Path from the root, with forward slashes.
    pub path: String,
    /// The text as it stands.
    pub text: String,
    /// The text with comments and literals blanked, line structure kept.
    pub code: String,
}

impl Source {
    /// The code before the first `#[cfg(test)]` that opens a module: what is compiled into the crate.
    pub fn shipped(&self) -> &str {
        let mut from = 0;
        while let Some(at) = self.code[from..].find("#[cfg(test)]").map(|at| at + from) {
            let rest = self.code[at + "#[cfg(test)]".len()..].trim_start();
            if rest.starts_with("mod ") && rest.find('{') < rest.find(';').or(Some(usize::MAX)) {
                return &self.code[..at];
            }
            from = at + 1;
        }
        &self.code
    }

    /// Line number, from 1, of a byte offset in `code`.
    pub fn line(&self, offset: usize) -> usize {
        self.code[..offset].matches('\n').count() + 1
    }
}

/// All Rust files of the workspace, in order of path.
pub fn rust_files() -> Vec<Source> {
    let mut files = Vec::new();
    for dir in ["emu", "jit", "guest-programs", "bench", "tests"] {
        walk(&root().join(dir), "rs", &mut files);
    }
    files.sort();
    files.into_iter().map(read).collect()
}

/// All files below `dir` with that extension, in order of path.
pub fn files_below(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    walk(dir, extension, &mut files);
    files.sort();
    files
}

fn walk(dir: &Path, extension: &str, out: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|n| n != "target") {
                walk(&path, extension, out);
            }
        } else if path.extension().is_some_and(|e| e == extension) {
            out.push(path);
        }
    }
}

/// The path from the root, with forward slashes.
pub fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

fn read(path: PathBuf) -> Source {
    let text = fs::read_to_string(&path).expect("source files are UTF-8");
    Source { path: relative(&path), code: blank(&text), text }
}

/// Replaces comments, strings and character literals by spaces, so that a text scan sees code only.
pub fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut i = 0;
    while i < bytes.len() {
        let end = match bytes[i] {
            b'/' if bytes[i..].starts_with(b"//") => line_end(bytes, i),
            b'/' if bytes[i..].starts_with(b"/*") => block_comment_end(bytes, i),
            b'"' => string_end(bytes, i),
            b'r' if is_raw_string(bytes, i) => raw_string_end(bytes, i),
            b'\'' => char_end(bytes, i),
            _ => i,
        };
        for byte in &mut out[i..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        i = end.max(i + 1);
    }
    String::from_utf8(out).expect("whole literals are blanked")
}

fn line_end(b: &[u8], i: usize) -> usize {
    b[i..].iter().position(|&c| c == b'\n').map_or(b.len(), |n| i + n)
}

fn block_comment_end(b: &[u8], mut i: usize) -> usize {
    let mut depth = 0;
    while i < b.len() {
        if b[i..].starts_with(b"/*") {
            depth += 1;
            i += 2;
        } else if b[i..].starts_with(b"*/") {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += 1;
        }
    }
    i
}

fn string_end(b: &[u8], mut i: usize) -> usize {
    i += 1;
    while i < b.len() && b[i] != b'"' {
        i += if b[i] == b'\\' { 2 } else { 1 };
    }
    (i + 1).min(b.len())
}

fn is_raw_string(b: &[u8], i: usize) -> bool {
    let ident = i > 0 && (b[i - 1].is_ascii_alphanumeric() || b[i - 1] == b'_') && b[i - 1] != b'b';
    !ident && b[i + 1..].iter().find(|&&c| c != b'#') == Some(&b'"')
}

fn raw_string_end(b: &[u8], i: usize) -> usize {
    let hashes = b[i + 1..].iter().take_while(|&&c| c == b'#').count();
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = i + 2 + hashes;
    b[body..]
        .windows(close.len())
        .position(|w| w == close)
        .map_or(b.len(), |n| body + n + close.len())
}

/// End of a character literal, or `i` where the quote opens a lifetime.
fn char_end(b: &[u8], i: usize) -> usize {
    if b.get(i + 1) == Some(&b'\\') {
        return b[i + 3..].iter().position(|&c| c == b'\'').map_or(b.len(), |n| i + n + 4);
    }
    // A literal holds one character of at most four bytes.
    (2..=5)
        .map(|n| i + n)
        .find(|&e| b.get(e) == Some(&b'\''))
        .filter(|&e| std::str::from_utf8(&b[i + 1..e]).is_ok_and(|s| s.chars().count() == 1))
        .map_or(i, |e| e + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_code_is_kept() {
        let text = "a // x\n/* y /* z */ */b \"s\\\"t\" r#\"q\"# 'c' '\\n' fn f<'a>(x: &'a str)";
        let code = blank(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(
            code.split_whitespace().collect::<Vec<_>>().join(" "),
            "a b fn f<'a>(x: &'a str)"
        );
    }
}
