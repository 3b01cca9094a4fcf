//! Compiles the native twins of the guest kernels with the host's C compiler and embeds both
//! them and the prebuilt Alpha ELF files; run by cargo before the crate itself.
//!
//! A missing or failing C compiler is not an error: the reason is embedded instead, and the
//! lab's native columns show it. Flags and programs come from `catalogue.toml`, so that guest
//! and host are built from one list.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, thread};

/// How one variant is compiled: its name, flags and libraries.
struct Variant {
    name: &'static str,
    flags: Vec<String>,
    libraries: &'static [&'static str],
}

/// One program as it is compiled for the host.
struct Source<'a> {
    name: &'a str,
    /// Its own source, then those it needs besides the run-time.
    files: Vec<&'a str>,
    /// Why it is not compiled, by the variant's name.
    refused: Vec<(&'a str, &'a str)>,
}

impl<'a> Source<'a> {
    fn new(program: &'a toml::Value) -> Self {
        let mut files = vec![program["source"].as_str().expect("source is a string")];
        if let Some(also) = program.get("also").and_then(toml::Value::as_array) {
            files.extend(also.iter().map(|file| file.as_str().expect("also is a list of strings")));
        }
        let refused = program.get("no_native").and_then(toml::Value::as_table);
        let refused = refused.into_iter().flatten();
        Self {
            name: program["name"].as_str().expect("name is a string"),
            files,
            refused: refused
                .map(|(name, why)| (name.as_str(), why.as_str().expect("a reason is a string")))
                .collect(),
        }
    }
}

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for watched in ["build.rs", "catalogue.toml", "catalogue-system.toml", "rt", "kernels", "elf"] {
        println!("cargo:rerun-if-changed={watched}");
    }
    let read = |name| fs::read_to_string(root.join(name)).expect("the catalogue is readable");
    let text = read("catalogue.toml") + "\n" + &read("catalogue-system.toml");
    let catalogue: toml::Table = text.parse().expect("catalogue.toml is TOML");
    let programs = catalogue["program"].as_array().expect("[[program]] exists");

    let mut code = String::new();
    code.push_str(
        "/// File name and contents of each prebuilt ELF; empty where the file is missing.\n",
    );
    code.push_str("pub(crate) static PREBUILT: &[(&str, &[u8])] = &[\n");
    for elf in programs.iter().flat_map(|p| p["elf"].as_array().expect("elf is a list")) {
        let file = elf["file"].as_str().expect("elf.file is a string");
        let path = root.join("elf").join(file);
        if path.is_file() {
            writeln!(code, "    ({file:?}, include_bytes!({path:?})),").expect("string");
        } else {
            writeln!(code, "    ({file:?}, &[]),").expect("string");
        }
    }
    code.push_str("];\n");

    let names: Vec<Source> = programs.iter().map(Source::new).collect();
    let common = strings(&catalogue["flags"]["common"]);
    let variants = [
        Variant { name: "native", flags: common, libraries: &[] },
        Variant {
            name: "native-o3",
            flags: strings(&catalogue["flags"]["native_o3"]),
            libraries: &["-lm"],
        },
    ];
    let compiler = find_compiler();
    match &compiler {
        Ok((_, version)) => {
            writeln!(code, "pub(crate) static COMPILER: Option<&str> = Some({version:?});")
        }
        Err(_) => writeln!(code, "pub(crate) static COMPILER: Option<&str> = None;"),
    }
    .expect("string");
    code.push_str("/// Program, variant, and the executable or the reason why there is none.\n");
    code.push_str("pub(crate) type Twin = (&'static str, &'static str, Result<&'static [u8], &'static str>);\n");
    code.push_str("pub(crate) static NATIVE: &[Twin] = &[\n");
    for variant in &variants {
        let built: Vec<Result<PathBuf, String>> = match &compiler {
            Ok((command, _)) => build_variant(command, variant, &names, &root, &out),
            Err(why) => names.iter().map(|_| Err(why.clone())).collect(),
        };
        for (Source { name, .. }, result) in names.iter().zip(built) {
            let value = match result {
                Ok(path) => format!("Ok(include_bytes!({path:?}))"),
                Err(why) => format!("Err({why:?})"),
            };
            writeln!(code, "    ({name:?}, {:?}, {value}),", variant.name).expect("string");
        }
    }
    code.push_str("];\n");
    fs::write(out.join("embedded.rs"), code).expect("OUT_DIR is writable");
}

fn strings(list: &toml::Value) -> Vec<String> {
    let list = list.as_array().expect("flags are a list");
    list.iter().map(|v| v.as_str().expect("flags are strings").to_owned()).collect()
}

/// The host's C compiler (the CC variables, else `cc`) and the first line of its version.
fn find_compiler() -> Result<(PathBuf, String), String> {
    let tool = cc::Build::new()
        .opt_level(2)
        .try_get_compiler()
        .map_err(|e| format!("no C compiler on this host when axplab was built: {e}"))?;
    let path = tool.path().to_owned();
    let output = Command::new(&path).arg("--version").output().map_err(|e| {
        format!("no C compiler on this host when axplab was built ({}: {e})", path.display())
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().next() {
        Some(line) if output.status.success() => Ok((path, line.to_owned())),
        _ => Err(format!("the C compiler {} does not tell its version", path.display())),
    }
}

/// Compiles the run-time once and each kernel against it, on as many threads as cargo grants.
fn build_variant(
    compiler: &Path,
    variant: &Variant,
    names: &[Source],
    root: &Path,
    out: &Path,
) -> Vec<Result<PathBuf, String>> {
    let folder = out.join(variant.name);
    let compile = |arguments: &[&std::ffi::OsStr]| -> Result<(), String> {
        let output = Command::new(compiler)
            .args(&variant.flags)
            .arg("-I")
            .arg(root.join("rt"))
            .args(arguments)
            .output()
            .map_err(|e| format!("{}: {e}", compiler.display()))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let line = text.lines().find(|l| l.contains("error")).unwrap_or("no message");
        Err(format!("the C compiler failed when axplab was built: {line}"))
    };
    let runtime = || -> Result<Vec<PathBuf>, String> {
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut objects = Vec::new();
        for unit in ["mini", "lab"] {
            let source = root.join("rt").join(format!("{unit}.c"));
            let object = folder.join(format!("{unit}.o"));
            compile(&["-c".as_ref(), source.as_ref(), "-o".as_ref(), object.as_ref()])?;
            objects.push(object);
        }
        Ok(objects)
    };
    let objects = match runtime() {
        Ok(objects) => objects,
        Err(why) => return names.iter().map(|_| Err(why.clone())).collect(),
    };
    let one = |program: &Source| -> Result<PathBuf, String> {
        if let Some((_, why)) = program.refused.iter().find(|(name, _)| *name == variant.name) {
            return Err((*why).to_owned());
        }
        let sources: Vec<PathBuf> = program.files.iter().map(|file| root.join(file)).collect();
        let target = folder.join(program.name);
        let mut arguments: Vec<&std::ffi::OsStr> =
            vec!["-s".as_ref(), "-pthread".as_ref(), "-o".as_ref(), target.as_ref()];
        arguments.extend(sources.iter().map(|source| source.as_os_str()));
        arguments.extend(objects.iter().map(|o| o.as_os_str()));
        arguments.extend(variant.libraries.iter().map(std::ffi::OsStr::new));
        compile(&arguments)?;
        Ok(target)
    };
    let jobs: usize = env::var("NUM_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let share = names.len().div_ceil(jobs.max(1));
    thread::scope(|scope| {
        let parts: Vec<_> = names
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(one).collect::<Vec<_>>()))
            .collect();
        parts.into_iter().flat_map(|p| p.join().expect("no panic in a compile job")).collect()
    })
}
