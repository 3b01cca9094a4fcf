//! The registry of engines: each is a command line with placeholders, so in-tree, native and foreign ones are measured alike.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

const BUILT_IN: &str = include_str!("../definitions/engines.toml");

/// One engine as defined by `definitions/engines.toml` or the user's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineSpec {
    /// Column name.
    pub name: String,
    /// One line for `axplab list`.
    pub about: String,
    /// The command line, split into words, placeholders not yet replaced.
    pub command: Vec<String>,
    /// Run by this program itself.
    pub in_tree: bool,
    /// Measured when the user names no engines.
    pub default: bool,
    /// How to get it, said when it is missing.
    pub install: Option<String>,
}

/// Which build of the kernel a command line runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// The Alpha ELF file.
    Guest,
    /// The host's, same flags.
    Native,
    /// The host's, all optimisations.
    NativeO3,
}

/// What the placeholders of a command line stand for in one run.
#[derive(Debug)]
pub struct Values<'a> {
    /// This program.
    pub axplab: &'a Path,
    /// The file that `{elf}`, `{native}` or `{native-o3}` stands for.
    pub program: &'a Path,
    /// Where to leave statistics.
    pub stats: &'a Path,
    /// CPU model of the guest build.
    pub cpu: &'a str,
    /// The kernel's arguments.
    pub args: &'a [OsString],
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    run: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    in_tree: bool,
    #[serde(default = "yes")]
    default: bool,
    install: Option<String>,
}

fn yes() -> bool {
    true
}

/// The engines that every build knows, in the order of columns.
pub fn built_in() -> anyhow::Result<Vec<EngineSpec>> {
    parse(BUILT_IN).context("built-in engine definitions")
}

/// The engines of that name, in the user's order; without names, the default ones.
pub fn select(all: &[EngineSpec], names: &[String]) -> anyhow::Result<Vec<EngineSpec>> {
    if names.is_empty() {
        return Ok(all.iter().filter(|engine| engine.default).cloned().collect());
    }
    let mut chosen: Vec<EngineSpec> = Vec::new();
    for name in names {
        let Some(engine) = all.iter().find(|engine| engine.name == *name) else {
            let known: Vec<&str> = all.iter().map(|engine| engine.name.as_str()).collect();
            bail!("unknown engine `{name}`; choose among {}", known.join(", "));
        };
        if !chosen.contains(engine) {
            chosen.push(engine.clone());
        }
    }
    Ok(chosen)
}

fn parse(text: &str) -> anyhow::Result<Vec<EngineSpec>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        engine: toml::Table,
    }
    specs(toml::from_str::<File>(text)?.engine)
}

/// The engines of a file's tables `[engine.NAME]`.
pub fn specs(tables: toml::Table) -> anyhow::Result<Vec<EngineSpec>> {
    let spec = |(name, value): (String, toml::Value)| {
        spec(&name, value).with_context(|| format!("engine `{name}`"))
    };
    tables.into_iter().map(spec).collect()
}

fn spec(name: &str, value: toml::Value) -> anyhow::Result<EngineSpec> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(plain) {
        bail!("a name is made of letters, digits, `-`, `_` and `.`");
    }
    let entry: Entry = value.try_into()?;
    let command = shlex::split(&entry.run).context("`run` has an unclosed quote")?;
    if command.is_empty() || !command.iter().any(|word| word == "{args}") {
        bail!("`run` needs the word {{args}}, as in `qemu-alpha {{elf}} {{args}}`");
    }
    Ok(EngineSpec {
        name: name.to_owned(),
        about: entry.about,
        command,
        in_tree: entry.in_tree,
        default: entry.default,
        install: entry.install,
    })
}

impl EngineSpec {
    /// Which build of the kernel it runs.
    pub fn build(&self) -> Build {
        let uses = |what: &str| self.command.iter().any(|word| word.contains(what));
        match () {
            () if uses("{native}") => Build::Native,
            () if uses("{native-o3}") => Build::NativeO3,
            () => Build::Guest,
        }
    }

    /// Why it cannot run here; `None` if it can. (Whether a native twin was built is the catalogue's to say.)
    pub fn missing(&self) -> Option<String> {
        if self.in_tree {
            return (!crate::guest::is_built(&self.name))
                .then(|| "not part of this build".to_owned());
        }
        let tool = &self.command[0];
        if tool.contains('{') || find(tool) {
            return None;
        }
        let hint = self.install.as_ref().map_or(String::new(), |hint| format!("; {hint}"));
        Some(match tool.contains('/') {
            true => format!("no program `{tool}`{hint}"),
            false => format!("`{tool}` is not on PATH{hint}"),
        })
    }

    /// The words to execute.
    pub fn argv(&self, values: &Values) -> Vec<OsString> {
        let paths = [
            ("{axplab}", values.axplab),
            ("{elf}", values.program),
            ("{native}", values.program),
            ("{native-o3}", values.program),
            ("{stats}", values.stats),
            ("{cpu}", Path::new(values.cpu)),
        ];
        let mut argv = Vec::new();
        for word in &self.command {
            if word == "{args}" {
                argv.extend(values.args.iter().cloned());
            } else {
                argv.push(replace(word, &paths));
            }
        }
        argv
    }
}

/// Replaces placeholders anywhere in a word; paths stay bytes.
fn replace(word: &str, paths: &[(&str, &Path)]) -> OsString {
    let mut out = OsString::new();
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        out.push(&rest[..at]);
        rest = &rest[at..];
        match paths.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, path)) => {
                out.push(path);
                rest = &rest[name.len()..];
            }
            None => {
                out.push("{");
                rest = &rest[1..];
            }
        }
    }
    out.push(rest);
    out
}

fn find(tool: &str) -> bool {
    let executable = |path: &Path| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    if tool.contains('/') {
        return executable(Path::new(tool));
    }
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| executable(&dir.join(tool))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_engines_come_in_column_order() {
        let engines = parse(BUILT_IN).unwrap();
        let names: Vec<&str> = engines.iter().map(|engine| engine.name.as_str()).collect();
        assert_eq!(
            names,
            ["native", "native-o3", "interp", "baseline", "opt", "auto", "qemu-alpha"]
        );
        for engine in &engines {
            assert_eq!(engine.in_tree, crate::cmd::run::ENGINES.contains(&engine.name.as_str()));
        }
        assert_eq!(engines[0].build(), Build::Native);
        assert_eq!(engines[1].build(), Build::NativeO3);
        assert_eq!(engines[6].build(), Build::Guest);
    }

    #[test]
    fn placeholders_are_replaced_and_others_left() {
        let engine = &parse(r#"engine.x.run = "sh -c 'e {elf}' --to={stats}:{cpu} {odd {args}""#)
            .unwrap()[0];
        let argv = engine.argv(&Values {
            axplab: Path::new("a"),
            program: Path::new("/p q"),
            stats: Path::new("s"),
            cpu: "ev56",
            args: &["idea".into(), "3".into()],
        });
        assert_eq!(argv, ["sh", "-c", "e /p q", "--to=s:ev56", "{odd", "idea", "3"]);
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        for (text, say) in [
            ("engine.x.run = 'qemu {elf}'", "{args}"),
            ("engine.x.run = \"a ' {args}\"", "quote"),
            ("engine.'x y'.run = 'a {args}'", "x y"),
            ("engine.x.rum = 'a {args}'", "rum"),
            ("engines.x.run = 'a {args}'", "engines"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(say), "{error}");
        }
        let all = parse(BUILT_IN).unwrap();
        let error = select(&all, &["warp".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("`warp`") && error.contains("qemu-alpha"), "{error}");
    }

    #[test]
    fn a_tool_that_is_not_there_is_missing_with_the_way_to_get_it() {
        let text = "engine.x = { run = 'no-such-tool-here {args}', install = 'fetch it' }";
        let why = parse(text).unwrap()[0].missing().unwrap();
        assert!(why.contains("no-such-tool-here") && why.contains("fetch it"), "{why}");
        assert_eq!(parse("engine.x.run = 'sh {args}'").unwrap()[0].missing(), None);
    }
}
