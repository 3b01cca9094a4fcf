//! Holds the architecture invariants of `docs/architecture.md` by a plain text scan of the source,
//! so that a layer violation fails a test and not a review.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use axp_tests::source::{Source, files_below, relative, root, rust_files};

/// Modules of `emu` with their level; a module uses only lower levels.
const LEVELS: &[(&str, u32)] = &[
    ("isa", 0),
    ("sem", 0),
    ("fp", 0),
    ("cpu", 1),
    ("mem", 1),
    ("engine", 2),
    ("block", 2),
    ("interp", 3),
    ("load", 3),
    ("linux", 4),
    ("machine", 4),
    ("machine", 4),
];

/// Uses between modules of one level, each with its reason.
const SIBLINGS: &[(&str, &str, &str)] = &[
    ("isa", "fp", "a decoded instruction holds its qualifiers"),
    ("cpu", "mem", "an exit carries a memory fault, a processor its memory"),
    ("mem", "cpu", "a doorbell leads to a processor's poll word"),
];

/// Modules of `emu` that `jit` may use: levels 0 to 2 and, for cold code, the interpreter.
const JIT_MAY_USE: &[&str] = &["isa", "sem", "fp", "cpu", "mem", "engine", "block", "interp"];

/// Workspace packages that each package may depend on.
const DEPENDENCIES: &[(&str, &[&str])] = &[
    ("emu", &[]),
    ("guest-programs", &[]),
    ("jit", &["axp-emu"]),
    ("bench", &["axp-emu", "axp-jit", "axp-guests"]),
    ("tests", &["axp-emu", "axp-jit", "axp-guests", "axplab"]),
];

/// Where `unsafe` may stand.
const UNSAFE: &[&str] = &[
    "emu/src/mem/",
    "emu/src/interp/",
    "emu/src/linux/host",
    "emu/src/machine/platform/net/tap.rs",
    "jit/",
];

/// Files that are one table and may exceed the size cap.
const TABLES: &[&str] = &["emu/src/isa/table.rs", "emu/src/linux/table.rs"];

const MAX_LINES: usize = 900;

fn check(what: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

fn each(test: impl Fn(&Source) -> Vec<String>) -> Vec<String> {
    rust_files().iter().flat_map(test).collect()
}

/// Offsets at which `word` stands as a whole word in `code`.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        !code[..at].ends_with(part) && !code[at + word.len()..].starts_with(part)
    })
}

/// First path segments after `prefix`, groups in braces included: `crate::{a::b, c}` gives a and c.
fn segments_after(code: &str, prefix: &str) -> Vec<(usize, String)> {
    let ident = |s: &str| s.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect();
    let mut out = Vec::new();
    for at in words(code, prefix) {
        let Some(rest) = code[at + prefix.len()..].strip_prefix("::") else { continue };
        if let Some(group) = rest.strip_prefix('{') {
            let (mut depth, mut start) = (0, true);
            for (i, c) in group.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => start = true,
                    c if start && !c.is_whitespace() => {
                        out.push((at, ident(&group[i..])));
                        start = false;
                    }
                    _ => {}
                }
            }
        } else {
            out.push((at, ident(rest)));
        }
    }
    out
}

/// The module of `emu` that a file belongs to, and how many `super` lead from it to the root.
fn emu_module(path: &str) -> Option<(&str, usize)> {
    let inner = path.strip_prefix("emu/src/")?;
    let module = inner.split(['/', '.']).next()?;
    let depth = inner.split('/').count() - usize::from(inner.ends_with("/mod.rs"));
    Some((module, depth))
}

fn level(module: &str) -> Option<u32> {
    LEVELS.iter().find(|(name, _)| *name == module).map(|&(_, level)| level)
}

#[test]
fn a_module_of_emu_uses_only_lower_levels() {
    check(
        "layer violations",
        each(|source| {
            let Some((module, depth)) = emu_module(&source.path) else { return vec![] };
            if module == "lib" {
                return vec![];
            }
            let Some(own) = level(module) else {
                return vec![format!("{}: module `{module}` has no level", source.path)];
            };
            let code = source.shipped();
            let mut used = segments_after(code, "crate");
            used.extend(segments_after(code, &vec!["super"; depth].join("::")));
            used.into_iter()
                .filter_map(|(at, name)| {
                    let other = level(&name)?;
                    let listed = SIBLINGS.iter().any(|&(a, b, _)| a == module && b == name);
                    let fine = name == module || other < own || listed;
                    (!fine).then(|| {
                        format!("{}:{}: {module} uses {name}", source.path, source.line(at))
                    })
                })
                .collect()
        }),
    );
}

#[test]
fn jit_sees_no_personality() {
    check(
        "layer violations",
        each(|source| {
            if !source.path.starts_with("jit/") {
                return vec![];
            }
            segments_after(source.shipped(), "axp_emu")
                .into_iter()
                .filter(|(_, name)| level(name).is_some() && !JIT_MAY_USE.contains(&name.as_str()))
                .map(|(at, name)| format!("{}:{}: uses emu::{name}", source.path, source.line(at)))
                .collect()
        }),
    );
}

#[test]
fn packages_depend_in_one_direction() {
    let mut found = Vec::new();
    for (dir, allowed) in DEPENDENCIES {
        let path = root().join(dir).join("Cargo.toml");
        let manifest: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(names) = manifest.get(section).and_then(|s| s.as_table()) else { continue };
            for name in names.keys().filter(|n| n.starts_with("axp")) {
                if !allowed.contains(&name.as_str()) {
                    found.push(format!("{dir} depends on {name}"));
                }
            }
        }
        let lints = manifest.get("lints").and_then(|l| l.get("workspace")?.as_bool());
        if lints != Some(true) {
            found.push(format!("{dir}/Cargo.toml: no `[lints] workspace = true`"));
        }
    }
    check("package dependencies", found);
}

#[test]
fn semantics_are_pure() {
    const BANNED: &[&str] = &[
        "std::io",
        "std::fs",
        "std::env",
        "std::time",
        "std::sync",
        "std::cell",
        "static mut",
        "thread_local!",
        "Vec",
        "Box",
        "String",
        "format!",
        "vec!",
        "HashMap",
    ];
    check(
        "impure semantics",
        each(|source| {
            if !(source.path.starts_with("emu/src/sem/") || source.path.starts_with("emu/src/fp/"))
                || source.path.ends_with("/testing.rs")
            {
                return vec![];
            }
            let code = source.shipped();
            BANNED
                .iter()
                .flat_map(|word| words(code, word).map(move |at| (at, word)))
                .map(|(at, word)| format!("{}:{}: {word}", source.path, source.line(at)))
                .collect()
        }),
    );
}

#[test]
fn engines_do_no_input_or_output() {
    // The profile writer serves `perf` at the user's wish; the arena maps one memory file twice.
    const EXEMPT: &[&str] = &["jit/src/profile.rs", "jit/src/code/arena.rs"];
    const BANNED: &[&str] = &["std::net", "std::fs", "std::io", "std::process", "rustix::fs"];
    check(
        "input or output in an engine",
        each(|source| {
            let engine = source.path.starts_with("jit/src/")
                || source.path.starts_with("emu/src/interp/")
                || source.path.starts_with("emu/src/block/");
            if !engine || EXEMPT.contains(&source.path.as_str()) {
                return vec![];
            }
            let code = source.shipped();
            BANNED
                .iter()
                .flat_map(|word| words(code, word).map(move |at| (at, word)))
                // `io::Error` as the type of a failed mmap is data, not input or output.
                .filter(|&(at, _)| !code[at..].starts_with("std::io::Error"))
                .map(|(at, word)| format!("{}:{}: {word}", source.path, source.line(at)))
                .collect()
        }),
    );
}

#[test]
fn reports_read_records_only() {
    const BANNED: &[&str] = &["measure", "engines", "cmd", "definition", "fingerprint"];
    check(
        "a report that measures",
        each(|source| {
            if !source.path.starts_with("bench/src/report/") {
                return vec![];
            }
            segments_after(source.shipped(), "crate")
                .into_iter()
                .filter(|(_, name)| BANNED.contains(&name.as_str()))
                .map(|(at, name)| format!("{}:{}: uses {name}", source.path, source.line(at)))
                .collect()
        }),
    );
}

#[test]
fn unsafe_stands_only_where_it_may_and_says_why() {
    check(
        "unsafe code",
        each(|source| {
            let mut found = Vec::new();
            let lines: Vec<&str> = source.text.lines().collect();
            for at in words(&source.code, "unsafe") {
                let line = source.line(at);
                let place = format!("{}:{line}", source.path);
                if !UNSAFE.iter().any(|dir| source.path.starts_with(dir)) {
                    found.push(format!(
                        "{place}: `unsafe` outside mem, interp, linux::host, net::tap and jit"
                    ));
                }
                let after = source.code[at + "unsafe".len()..].trim_start();
                if !(after.starts_with('{') || after.starts_with("impl")) {
                    continue;
                }
                // Within a macro or a statement the note may stand some lines above.
                let from = line.saturating_sub(12);
                if !lines[from..line].iter().any(|l| l.contains("SAFETY:")) {
                    found.push(format!("{place}: no `// SAFETY:` above"));
                }
            }
            found
        }),
    );
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    check(
        "files without `//!` in the first line",
        each(|source| {
            let first = source.text.lines().next().unwrap_or_default();
            let said = first.starts_with("//! ") && first.len() > 24;
            if said { vec![] } else { vec![source.path.clone()] }
        }),
    );
}

#[test]
fn no_file_outgrows_its_reader() {
    check(
        "files over the cap",
        each(|source| {
            let lines = source.text.lines().count();
            if lines <= MAX_LINES || TABLES.contains(&source.path.as_str()) {
                return vec![];
            }
            vec![format!("{}: {lines} lines", source.path)]
        }),
    );
}

#[test]
fn libraries_do_not_print_and_leave_nothing_undone() {
    check(
        "macros that do not belong there",
        each(|source| {
            let prints = source.path.starts_with("bench/")
                || source.path.starts_with("tests/")
                || source.path.contains("/tests/")
                || source.path.ends_with("/tests.rs")
                || source.path.contains("/src/bin/")
                || source.path.ends_with("build.rs");
            let printing = ["println", "eprintln", "print", "eprint"].map(|w| (w, !prints));
            let undone = ["todo", "unimplemented", "dbg"].map(|w| (w, true));
            let code = source.shipped();
            printing
                .into_iter()
                .chain(undone)
                .filter(|&(_, banned)| banned)
                .flat_map(|(word, _)| words(code, word).map(move |at| (at, word)))
                .filter(|&(at, word)| code[at + word.len()..].starts_with('!'))
                .map(|(at, word)| format!("{}:{}: {word}!", source.path, source.line(at)))
                .collect()
        }),
    );
}

/// Names at the top of the repository: from git where there is one, so that a stray local file
/// is nobody's failure; otherwise (an unpacked archive) from the folder.
fn top_level() -> BTreeSet<String> {
    let listed = Command::new("git").args(["ls-files"]).current_dir(root()).output();
    if let Ok(out) = listed
        && out.status.success()
        && !out.stdout.is_empty()
    {
        let text = String::from_utf8(out.stdout).unwrap();
        return text.lines().map(|l| l.split('/').next().unwrap().to_string()).collect();
    }
    let entries = fs::read_dir(root()).unwrap().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn the_top_level_holds_what_it_should_and_no_more() {
    const FOLDERS: &[&str] = &["bench", "docs", "emu", "guest-programs", "jit", "tests"];
    const FILES: &[&str] = &[
        "CHANGELOG.md",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE",
        "README.md",
        "rust-toolchain.toml",
    ];
    let mut found = Vec::new();
    for name in top_level() {
        let known = FOLDERS.contains(&name.as_str()) || FILES.contains(&name.as_str());
        if !known && !name.starts_with('.') && name != "target" {
            found.push(format!("unexpected: {name}"));
        }
    }
    for name in FOLDERS.iter().chain(&FILES[..5]) {
        if !root().join(name).exists() {
            found.push(format!("missing: {name}"));
        }
    }
    check("top level", found);
}

/// Targets of Markdown links in `text` that are paths.
fn links(text: &str) -> Vec<String> {
    let starts = text.match_indices("](").map(|(at, _)| at + 2);
    starts
        .filter_map(|at| text[at..].split(')').next())
        .filter(|target| !target.contains("://") && !target.starts_with('#'))
        .map(|target| target.split('#').next().unwrap().to_string())
        .collect()
}

#[test]
fn documents_are_reachable_and_their_links_lead_somewhere() {
    let docs = root().join("docs");
    let mut pages = files_below(&docs, "md");
    pages.push(root().join("README.md"));
    let mut found = Vec::new();
    let mut reached = BTreeSet::new();
    for page in &pages {
        let dir = page.parent().unwrap();
        for link in links(&fs::read_to_string(page).unwrap()) {
            match fs::canonicalize(dir.join(&link)) {
                Ok(target) => {
                    reached.insert(target);
                }
                Err(_) => found.push(format!("{}: dead link {link}", relative(page))),
            }
        }
    }
    let index = docs.join("architecture.md");
    let summary = docs.join("SUMMARY.md");
    let is_entry = |page: &Path| [&index, &summary].iter().any(|entry| *entry == page);
    for page in pages.iter().filter(|p| p.starts_with(&docs) && !is_entry(p)) {
        if !reached.contains(&fs::canonicalize(page).unwrap()) {
            found.push(format!("{}: no page links to it", relative(page)));
        }
    }
    check("documents", found);
}

#[test]
fn the_book_has_every_page_once() {
    let docs = root().join("docs");
    let listed = links(&fs::read_to_string(docs.join("SUMMARY.md")).unwrap());
    let mut found = Vec::new();
    for page in files_below(&docs, "md").iter().filter(|page| !page.ends_with("SUMMARY.md")) {
        let name = relative(page).trim_start_matches("docs/").to_owned();
        let count = listed.iter().filter(|link| **link == name).count();
        if count != 1 {
            found.push(format!("{name} is {count} times in docs/SUMMARY.md, not once"));
        }
    }
    check("the book", found);
}

#[test]
fn every_test_file_is_declared() {
    let manifest = fs::read_to_string(root().join("tests/Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let declared: BTreeSet<String> = manifest["test"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|t| t.get("path")?.as_str().map(str::to_string))
        .collect();
    let there: BTreeSet<String> = fs::read_dir(root().join("tests"))
        .unwrap()
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "rs"))
        .map(|p| Path::new(p.file_name().unwrap()).to_string_lossy().into_owned())
        .collect();
    assert_eq!(declared, there, "left: declared in tests/Cargo.toml; right: files in tests/");
}
