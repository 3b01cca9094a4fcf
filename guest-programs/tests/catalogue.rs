//! Holds the catalogue, the committed ELF files and the native twins together: hashes match,
//! and each twin gives the recorded result.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use axp_guests::{Catalogue, Cpu, LineError, ResultLine, Variant, native, sha256_hex};

/// The row names users and records rely on, in the order of the report.
const KERNELS: [&str; 20] = [
    "md5-8192",
    "rsa4096-sign",
    "rsa4096-verify",
    "pi-40000",
    "numeric-sort",
    "string-sort",
    "bitfield",
    "fp-emulation",
    "fourier",
    "assignment",
    "idea",
    "huffman",
    "neural-net",
    "lu-decomposition",
    "call-recursive",
    "dispatch-1000",
    "string-bytes",
    "memory-copy",
    "mul-128",
    "int-divide",
];

/// Further rows; between `file-transfer` and the rest lie those of ttcp.
const SYSTEM: [&str; 10] = [
    "ll-sc",
    "indirect-calls",
    "unaligned-quad",
    "syscalls",
    "signals",
    "trap-addlv",
    "smc-imb",
    "first-result",
    "octet-stream",
    "file-transfer",
];
const DISK: [&str; 15] = [
    "diskblock-100",
    "diskblock-100-cached",
    "diskblock-200",
    "diskblock-200-cached",
    "diskblock-300",
    "diskblock-300-cached",
    "files-create-200",
    "files-create-200-fsync",
    "files-open-close-200",
    "files-delete-200",
    "files-delete-200-fsync",
    "files-list-300",
    "files-copy-8mb",
    "files-copy-8mb-fsync",
    "files-read-4mb",
];
/// Message sizes of the published ttcp sweep.
const TTCP: [u64; 27] = [
    1, 64, 108, 112, 224, 512, 1024, 1460, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 9216, 10240,
    11264, 12288, 13312, 14336, 15360, 16384, 17408, 18432, 32768, 65536,
];

#[test]
fn row_names_are_fixed() {
    let names: Vec<&str> = Catalogue::builtin().rows().map(|(_, r)| r.name.as_str()).collect();
    let ttcp: Vec<String> = TTCP.iter().map(|bytes| format!("ttcp-{bytes}")).collect();
    let ttcp = ttcp.iter().map(String::as_str);
    let all: Vec<&str> = KERNELS.into_iter().chain(SYSTEM).chain(ttcp).chain(DISK).collect();
    assert_eq!(names, all);
    let size = |bytes: &u64| Catalogue::builtin().find(&format!("ttcp-{bytes}")).unwrap().1.size;
    assert!(TTCP.iter().all(|bytes| size(bytes) == *bytes));
}

#[test]
fn an_unknown_row_is_named_in_the_error() {
    let text = Catalogue::builtin().find("no-such-row").unwrap_err().to_string();
    assert!(text.contains("no-such-row") && text.contains("md5-8192"), "{text}");
}

#[test]
fn committed_elf_files_have_the_recorded_hashes() {
    for program in &Catalogue::builtin().programs {
        for elf in &program.elf {
            let bytes = program.elf_bytes(elf.cpu).unwrap();
            assert_eq!(sha256_hex(bytes), elf.sha256, "{}", elf.file);
            assert!(bytes.len() < 64 << 10, "{} is large", elf.file);
        }
    }
}

#[test]
fn the_build_for_an_older_machine_is_the_newest_it_can_run() {
    let (program, _) = Catalogue::builtin().find("string-bytes").unwrap();
    assert_eq!(program.best_elf_for(Cpu::Ev4).unwrap().cpu, Cpu::Ev4);
    let (program, _) = Catalogue::builtin().find("numeric-sort").unwrap();
    assert_eq!(program.best_elf_for(Cpu::Ev67).unwrap().cpu, Cpu::Ev56);
    assert!(program.best_elf_for(Cpu::Ev4).is_none());
}

#[test]
fn contradictions_are_refused() {
    let good = Catalogue::TEXT;
    let twice = good.replacen("\"rsa4096-sign\"", "\"md5-8192\"", 1);
    let short = good.replacen("sha256 = \"", "sha256 = \"0", 1);
    let direction = good.replacen("better = \"higher\"", "better = \"lower\"", 1);
    for bad in [twice, short, direction, good.replacen("[flags]", "[flag]", 1)] {
        assert!(Catalogue::parse(&bad).is_err());
    }
}

/// Runs a twin with `arguments` and gives its status and output.
fn run(path: &std::path::Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    // Some rows make files where they are started.
    let folder = path.parent().unwrap().join("scratch");
    fs::create_dir_all(&folder).unwrap();
    let output = Command::new(path).args(arguments).current_dir(&folder).output().unwrap();
    let left: Vec<_> = fs::read_dir(&folder).unwrap().collect();
    assert!(left.is_empty(), "{arguments:?} left {left:?}");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn native_twins_give_the_recorded_results() {
    let folder = tempfile::tempdir().unwrap();
    for program in &Catalogue::builtin().programs {
        for variant in [Variant::Same, Variant::O3] {
            let bytes = match native(program, variant) {
                Ok(bytes) => bytes,
                Err(missing) if axp_guests::native_compiler().is_none() => {
                    eprintln!("skipped: {missing}");
                    continue;
                }
                Err(missing) if program.no_native.contains_key(variant.name()) => {
                    assert_eq!(missing.reason, program.no_native[variant.name()]);
                    continue;
                }
                Err(missing) => panic!("{missing}"),
            };
            let path = folder.path().join(format!("{}.{}", program.name, variant.name()));
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            for row in &program.rows {
                let size = row.quick_size.to_string();
                for reps in ["1", "2"] {
                    let (status, out, err) = run(&path, &[&row.name, reps, &size]);
                    assert_eq!((status, err.as_str()), (Some(0), ""), "{} {out}", row.name);
                    let line = ResultLine::parse(&out).unwrap();
                    assert_eq!(
                        line.checksum,
                        row.quick_checksum,
                        "{} {}",
                        row.name,
                        variant.name()
                    );
                    assert_eq!(
                        (&line.row, &line.unit, line.size, line.reps.to_string().as_str()),
                        (&row.name, &row.unit, row.quick_size, reps)
                    );
                    assert!(line.work > 0 && line.work.is_multiple_of(line.reps));
                }
            }
            for bad in [&["nonsense"][..], &[&program.rows[0].name, "0"], &["", "", "", ""]] {
                let (status, out, err) = run(&path, bad);
                assert_eq!((status, out.as_str(), err.lines().count()), (Some(2), "", 1));
            }
        }
    }
}

#[test]
fn a_line_parses_only_if_it_is_whole() {
    let good =
        "AXPLAB1 row=a size=1 reps=2 work=6 unit=bits seconds=0.500000000 checksum=ab new=1\n";
    let line = ResultLine::parse(good).unwrap();
    assert_eq!(line.extra, [("new".to_owned(), 1.0)].into());
    assert_eq!((line.work, line.seconds, line.checksum.as_str()), (6, 0.5, "ab"));
    assert_eq!(ResultLine::parse(&good.replace("work=6", "work=x")), Err(LineError::Field("work")));
    assert_eq!(ResultLine::parse(&good.replace("0.5", "-0.5")), Err(LineError::Field("seconds")));
    assert!(ResultLine::parse(&format!("{good}more")).is_err());
    assert!(ResultLine::parse("").is_err());
}
