//! `axplab run --cache` end to end: a second run translates next to nothing, whatever does not fit is refused
//! with a warning while the run goes on, and the guest does not reach what is kept.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use axp_guests::{Catalogue, Cpu};
use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;

use common::{COMPILER, has, sysroot, text};

const AXPLAB: &str = env!("CARGO_BIN_EXE_axplab");

/// A folder with an Alpha program, a place for translations and a home for the secret.
struct Lab {
    dir: tempfile::TempDir,
    program: PathBuf,
}

impl Lab {
    fn new(row: &str) -> Lab {
        let lab = Lab::empty();
        let (program, _) = Catalogue::builtin().find(row).unwrap();
        fs::write(&lab.program, program.elf_bytes(Cpu::Ev56).unwrap()).unwrap();
        fs::set_permissions(&lab.program, fs::Permissions::from_mode(0o755)).unwrap();
        lab
    }

    fn empty() -> Lab {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        let program = dir.path().join("work").join("program");
        Lab { dir, program }
    }

    fn compile(source: &Path, test: &str) -> Option<Lab> {
        if !has(COMPILER, test) {
            return None;
        }
        let lab = Lab::empty();
        let mut command = Command::new(COMPILER);
        command.args(["-w", "-O1", "-mieee", "-o"]).args([&lab.program, source]);
        let output = command.args(["-lutil", "-pthread"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Some(lab)
    }

    fn kept(&self) -> PathBuf {
        self.dir.path().join("kept")
    }

    fn secret(&self) -> PathBuf {
        self.dir.path().join("home/axplab/cache-secret")
    }

    /// The one file of translations.
    fn file(&self) -> PathBuf {
        let mut all = fs::read_dir(self.kept()).unwrap().map(|entry| entry.unwrap().path());
        let file = all.next().expect("a file was written");
        assert_eq!(all.next(), None, "something else was left");
        file
    }

    fn run(&self, options: &[&str], args: &[&str]) -> Output {
        let mut command = Command::new(AXPLAB);
        command.arg("run").args(options).args(["-L", &sysroot()]).arg("--cache").arg(self.kept());
        command.arg(&self.program).args(args).current_dir(self.dir.path().join("work"));
        command.env("XDG_CONFIG_HOME", self.dir.path().join("home")).output().unwrap()
    }

    /// Instructions that were translated and that came from the cache, and what the guest printed, without
    /// its times.
    fn counts(&self, options: &[&str], args: &[&str]) -> (u64, u64, String) {
        let json = self.dir.path().join("stats.json");
        let options = [options, &["--stats-json", json.to_str().unwrap()]].concat();
        let output = self.run(&options, args);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(text(&output.stderr), "");
        let stats: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
        let count = |name: &str| stats[name].as_u64().unwrap();
        (count("compiled_instructions"), count("kept_instructions"), printed(&output))
    }

    /// Runs, expects the right result, and gives what was warned of.
    fn warning(&self, expected: &str) -> String {
        let output = self.run(&["--jit", "sync"], &[]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(printed(&output), expected);
        text(&output.stderr).to_owned()
    }
}

fn printed(output: &Output) -> String {
    let words = text(&output.stdout).split_whitespace();
    words.filter(|word| !word.starts_with("seconds=")).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_second_run_translates_next_to_nothing() {
    for row in ["md5-8192", "huffman", "fourier"] {
        let all: [&[&str]; 4] = [
            &["--jit", "sync"],
            &["--jit", "off"],
            &["--engine", "baseline"],
            &["--engine", "opt"],
        ];
        for options in all {
            let lab = Lab::new(row);
            let (first, none, result) = lab.counts(options, &[]);
            assert!(first > 100 && none == 0, "{row} {options:?}: {first}, {none}");
            let (second, kept, again) = lab.counts(options, &[]);
            assert_eq!(again, result);
            assert!(second * 20 < first, "{row} {options:?}: {first}, then {second}");
            assert!(kept * 2 > first, "{row} {options:?}: {kept} of {first}");
            lab.file();
        }
    }
}

#[test]
fn statistics_tell_what_came_from_the_cache() {
    let lab = Lab::new("huffman");
    let options = ["--stats", "--jit", "sync"];
    let first = lab.run(&options, &[]);
    assert!(!text(&first.stderr).contains("from cache"), "{}", text(&first.stderr));
    let second = lab.run(&options, &[]);
    assert_eq!(text(&second.stderr).matches("from cache").count(), 2, "{}", text(&second.stderr));
    assert_eq!(printed(&first), printed(&second));
    // Counted runs count the same.
    let count = |output: &Output| {
        let lines = text(&output.stderr).lines().find(|line| line.starts_with("instructions"));
        lines.unwrap().split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(count(&first), count(&second));
    // And what they keep is not for runs that do not count.
    let (translated, ..) = lab.counts(&["--jit", "sync"], &[]);
    assert!(translated > 100);
}

#[test]
fn what_does_not_fit_is_refused_and_written_anew() {
    let lab = Lab::new("md5-8192");
    let (_, _, right) = lab.counts(&["--jit", "sync"], &[]);
    let file = lab.file();
    let good = fs::read(&file).unwrap();
    let secret = fs::read(lab.secret()).unwrap();
    let resigned = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        let signed = bytes.len() - 32;
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(&secret).unwrap();
        mac.update(file.file_name().unwrap().as_encoded_bytes());
        mac.update(&bytes[..signed]);
        bytes[signed..].copy_from_slice(&mac.finalize().into_bytes());
        bytes
    };
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    for (bytes, say) in [
        (flipped(0), "it was changed"),
        (flipped(20), "it was changed"),
        (flipped(good.len() / 2), "it was changed"),
        (flipped(good.len() - 1), "it was changed"),
        (good[..good.len() - 40].to_vec(), "it was changed"),
        (good[..50].to_vec(), "cut off"),
        (Vec::new(), "cut off"),
        (resigned(0), "format"),
        (resigned(8), "another build"),
        (resigned(40), "another processor"),
        (resigned(72), "length"),
        (resigned(82), "damaged"),
    ] {
        fs::write(&file, &bytes).unwrap();
        let warning = lab.warning(&right);
        assert!(warning.contains(say), "{say}: {warning}");
        assert_eq!(warning.lines().count(), 1, "{warning}");
        let (translated, kept, again) = lab.counts(&["--jit", "sync"], &[]);
        assert!(again == right && kept > 20 * translated, "{say}: {translated}, {kept}");
    }
    // With another secret the file has another name, and under that it is somebody else's.
    let aside = lab.dir.path().join("aside");
    fs::rename(&file, &aside).unwrap();
    fs::write(lab.secret(), [7; 32]).unwrap();
    assert_eq!(lab.warning(&right), "");
    let file = lab.file();
    fs::rename(&aside, &file).unwrap();
    assert!(lab.warning(&right).contains("not signed with your secret"));
    fs::set_permissions(lab.secret(), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(lab.warning(&right).contains("cache-secret`: its mode is 644"));
    fs::set_permissions(lab.secret(), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(lab.warning(&right).contains("its mode is 666"));
    // The file is a link; the folder is others' too; the folder is a link.
    fs::rename(&file, &aside).unwrap();
    symlink(&aside, &file).unwrap();
    assert!(lab.warning(&right).contains("symbolic link"));
    fs::set_permissions(lab.kept(), fs::Permissions::from_mode(0o750)).unwrap();
    assert!(lab.warning(&right).contains("its mode is 750, not 700"));
    fs::set_permissions(lab.kept(), fs::Permissions::from_mode(0o700)).unwrap();
    let real = lab.dir.path().join("real");
    fs::rename(lab.kept(), &real).unwrap();
    symlink(&real, lab.kept()).unwrap();
    assert!(lab.warning(&right).contains("symbolic link"));
}

#[test]
fn threads_children_signals_and_changing_code_go_on_as_without() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/linux");
    for name in ["code", "threads", "processes", "faults"] {
        let Some(lab) = Lab::compile(&sources.join(name).with_extension("c"), "cache") else {
            return;
        };
        for engine in ["baseline", "opt", "auto"] {
            let plain = Command::new(AXPLAB)
                .args(["run", "--engine", engine, "-L", &sysroot()])
                .arg(&lab.program)
                .current_dir(lab.dir.path().join("work"))
                .output()
                .unwrap();
            for round in 0..3 {
                let output = lab.run(&["--engine", engine], &[]);
                assert_eq!(output.status, plain.status, "{name} on {engine}, round {round}");
                let (here, there) = (text(&output.stdout), text(&plain.stdout));
                assert_eq!(here, there, "{name} on {engine}, round {round}");
                assert!(!text(&output.stderr).contains("--cache"), "{}", text(&output.stderr));
            }
        }
    }
}

#[test]
fn runs_at_the_same_time_leave_a_whole_file() {
    let lab = Lab::new("numeric-sort");
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let output = lab.run(&["--jit", "sync"], &[]);
                assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
            });
        }
    });
    lab.file();
    let (translated, kept, _) = lab.counts(&["--jit", "sync"], &[]);
    assert!(kept > 20 * translated, "{translated}, {kept}");
}

#[test]
fn a_sandboxed_program_keeps_translations_too() {
    let lab = Lab::new("huffman");
    let options = ["--sandbox", "--stats", "--jit", "sync"];
    let first = lab.run(&options, &[]);
    if text(&first.stderr).contains("host's kernel") {
        return eprintln!("skipped: the sandbox needs Landlock");
    }
    assert!(first.status.success(), "{first:?}");
    let second = lab.run(&options, &[]);
    assert_eq!(printed(&first), printed(&second));
    assert_eq!(text(&second.stderr).matches("from cache").count(), 2, "{}", text(&second.stderr));
    let near = lab.run(&["--sandbox", "--allow-read", lab.dir.path().to_str().unwrap()], &[]);
    assert_eq!(near.status.code(), Some(2), "{near:?}");
    assert!(text(&near.stderr).contains("could reach"), "{near:?}");
}

#[test]
fn a_guest_does_not_reach_what_is_kept() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/reach.c");
    let Some(lab) = Lab::compile(&source, "cache") else { return };
    lab.run(&[], &["/x/y", "/x/y/z", "/x/y"]);
    let (kept, file, secret) = (lab.kept(), lab.file(), lab.secret());
    let args = [&kept, &file, &secret].map(|path| path.to_str().unwrap().to_owned());
    let args = [&*args[0], &*args[1], &*args[2]];
    let work = lab.dir.path().join("work");
    for options in [&[][..], &["--engine", "opt"], &["--sandbox", "--allow-write"]] {
        fs::write(work.join("mine"), "mine").unwrap();
        let mut options = options.to_vec();
        if options.contains(&"--sandbox") {
            options.push(work.to_str().unwrap());
        }
        let (kept_before, secret_before) = (fs::read(&file).unwrap(), fs::read(&secret).unwrap());
        let output = lab.run(&options, &args);
        if text(&output.stderr).contains("host's kernel") {
            continue;
        }
        assert!(output.status.success(), "{output:?}");
        let out = text(&output.stdout);
        assert!(!out.contains("REACHED"), "{options:?}: {out}");
        assert!(out.contains("own files work"), "{options:?}: {out}");
        for what in
            ["secret", "write-secret", "folder", "file", "dots", "from-above", "link", "new"]
        {
            let refused = format!("{what} EACCES\n");
            // In the sandbox the folder above is not opened in the first place.
            let fine =
                out.contains(&refused) || what == "from-above" && options.contains(&"--sandbox");
            assert!(fine, "{options:?}, {what}: {out}");
        }
        assert_eq!(fs::read(&secret).unwrap(), secret_before);
        assert!(fs::read(lab.file()).unwrap().len() >= kept_before.len());
    }
}
