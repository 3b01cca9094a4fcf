//! `axplab run` end to end: how guests start, what they see, how they end, and what a shell makes of
//! it. Guests that need an Alpha compiler are compiled here; without one, their tests skip by name.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use axp_guests::{Catalogue, Cpu, ResultLine};

use common::{COMPILER, has, sysroot};

const AXPLAB: &str = env!("CARGO_BIN_EXE_axplab");
const ENGINES: &[&str] = &["interp", "interp-match", "baseline", "opt", "auto"];
/// Signal numbers that Alpha and the host share.
const SIGSEGV: i32 = 11;
const SIGTERM: i32 = 15;

/// A folder with one Alpha program.
struct Guest {
    dir: tempfile::TempDir,
    program: PathBuf,
}

impl Guest {
    /// Compiles a C file, named from this package's folder, against the Alpha glibc.
    fn compile(source: &str, test: &str) -> Option<Guest> {
        if !has(COMPILER, test) {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let program = dir.path().join(source.file_stem().unwrap());
        let output = Command::new(COMPILER)
            .args(["-w", "-O1", "-mieee", "-o"])
            .args([&program, &source])
            .args(["-lutil", "-pthread"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        Some(Guest { dir, program })
    }

    /// A program of the catalogue, which needs neither a compiler nor a library.
    fn prebuilt(row: &str) -> Guest {
        let dir = tempfile::tempdir().unwrap();
        let (program, _) = Catalogue::builtin().find(row).unwrap();
        let path = dir.path().join("prebuilt");
        fs::write(&path, program.elf_bytes(Cpu::Ev56).unwrap()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Guest { dir, program: path }
    }

    /// The program as the guest is started with it.
    fn name(&self) -> String {
        format!("./{}", self.program.file_name().unwrap().display())
    }

    /// `axplab run OPTIONS PROGRAM ARGS`, ready to start.
    fn command(&self, options: &[&str], args: &[&str]) -> Command {
        let mut command = Command::new(AXPLAB);
        command
            .arg("run")
            .args(options)
            .arg(self.name())
            .args(args)
            .current_dir(self.dir.path())
            .env("AXPLAB_SYSROOT", sysroot())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, options: &[&str], args: &[&str]) -> Output {
        self.command(options, args).output().unwrap()
    }
}

fn probe(test: &str) -> Option<Guest> {
    Guest::compile("tests/run/probe.c", test)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn lines(output: &Output) -> Vec<&str> {
    text(&output.stdout).lines().collect()
}

#[test]
fn a_dynamically_linked_hello_runs_on_every_engine() {
    let test = "a_dynamically_linked_hello_runs_on_every_engine";
    let Some(guest) = Guest::compile("../guest-programs/c/hello.c", test) else { return };
    for engine in ENGINES {
        let output = guest.run(&["--engine", engine], &[]);
        assert_eq!(text(&output.stdout), "hello, world\n", "{engine}: {output:?}");
        assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)), "{engine}");
    }
}

#[test]
fn the_sysroot_is_an_option_or_a_variable_and_its_lack_is_explained() {
    let test = "the_sysroot_is_an_option_or_a_variable_and_its_lack_is_explained";
    let Some(guest) = probe(test) else { return };
    let root = sysroot();
    let mut without = guest.command(&[], &[]);
    let output = without.env_remove("AXPLAB_SYSROOT").output().unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(error.contains("AXPLAB_SYSROOT") && error.contains("-L"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    let mut option = guest.command(&["-L", &root], &[]);
    let output = option.env_remove("AXPLAB_SYSROOT").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // The option wins.
    let mut both = guest.command(&["-L", &root], &[]);
    assert!(both.env("AXPLAB_SYSROOT", "/nonexistent").output().unwrap().status.success());
}

#[test]
fn everything_after_the_program_is_the_guests() {
    let Some(guest) = probe("everything_after_the_program_is_the_guests") else { return };
    let args = ["--engine", "nothing", "-L", "--", "-0", "--help", "", "a b", "-E"];
    let output = guest.run(&["--engine", "auto"], &args);
    let (name, path) = (guest.name(), guest.program.display());
    let said = lines(&output);
    let expected: Vec<String> = [name.as_str()]
        .iter()
        .chain(&args)
        .enumerate()
        .map(|(i, arg)| format!("argv[{i}] {arg}"))
        .collect();
    assert_eq!(said[..expected.len()], expected, "{output:?}");
    let output = guest.run(&["-0", "another name"], &[]);
    assert_eq!(lines(&output)[0], "argv[0] another name", "{output:?}");
    // The name changes, the file does not.
    assert!(lines(&output).contains(&format!("exe {path}").as_str()), "{output:?}");
}

#[test]
fn variables_are_inherited_set_and_removed() {
    let Some(guest) = probe("variables_are_inherited_set_and_removed") else { return };
    let options = ["-E", "PROBE_SET=a=b c", "-E", "PROBE_GONE", "-E", "PROBE_EMPTY="];
    let mut command = guest.command(&options, &[]);
    let output = command.env("PROBE_KEPT", "1").env("PROBE_GONE", "2").output().unwrap();
    let mut said: Vec<&str> = lines(&output);
    said.retain(|line| line.starts_with("PROBE_"));
    said.sort_unstable();
    assert_eq!(said, ["PROBE_EMPTY=", "PROBE_KEPT=1", "PROBE_SET=a=b c"], "{output:?}");
}

#[test]
fn a_guest_sees_an_alpha() {
    let Some(guest) = probe("a_guest_sees_an_alpha") else { return };
    for (cpu, model) in [("ev67", "EV67"), ("ev4", "EV4")] {
        let output = guest.run(&["--cpu", cpu], &[]);
        let said = lines(&output);
        for line in [
            "uname Linux alpha".to_owned(),
            format!("exe {}", guest.program.display()),
            format!("cpu model\t\t: {model}"),
        ] {
            assert!(said.contains(&line.as_str()), "{line:?} in {said:?}");
        }
    }
}

#[test]
fn the_guests_status_is_axplabs() {
    let Some(guest) = probe("the_guests_status_is_axplabs") else { return };
    let status_of = |engine, status: i32| {
        let output = guest.run(&["--engine", engine], &["exit", &status.to_string()]);
        assert_eq!(text(&output.stderr), "", "{engine}");
        output.status.code().unwrap()
    };
    for engine in ENGINES {
        assert_eq!(status_of(engine, 42), 42, "{engine}");
    }
    for status in [0, 1, 2, 127, 255, 258] {
        assert_eq!(status_of("interp", status), status & 0xff);
    }
}

#[test]
fn a_guest_that_a_signal_kills_ends_axplab_by_that_signal() {
    let test = "a_guest_that_a_signal_kills_ends_axplab_by_that_signal";
    let Some(guest) = probe(test) else { return };
    for engine in ENGINES {
        let term = guest.run(&["--engine", engine], &["kill", &SIGTERM.to_string()]);
        assert_eq!(term.status.signal(), Some(SIGTERM), "{engine}: {term:?}");
        let crash = guest.run(&["--engine", engine], &["crash"]);
        assert_eq!(crash.status.signal(), Some(SIGSEGV), "{engine}: {crash:?}");
        let error = text(&crash.stderr);
        for say in ["axplab: ", "SIGSEGV", "pc 0x", "address 0x10"] {
            assert!(error.contains(say), "{engine}: {error}");
        }
        // What was written before is not lost.
        assert!(text(&crash.stdout).contains("uname"), "{engine}");
    }
    let script = "\"$0\" run \"$1\" crash 2>&-; echo $?; \"$0\" run \"$1\" exit 9; echo $?";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, AXPLAB]).arg(&guest.program).env("AXPLAB_SYSROOT", sysroot());
    let output = shell.current_dir(guest.dir.path()).output().unwrap();
    let statuses: Vec<i32> = lines(&output).iter().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(statuses, [128 + SIGSEGV, 9], "{output:?}");
}

/// What further host threads and processes of the guest do, on the engine's own threads.
#[test]
fn threads_and_processes_of_a_guest_run_on_every_engine() {
    let test = "threads_and_processes_of_a_guest_run_on_every_engine";
    for (name, status) in [("threads", 9), ("processes", 0)] {
        let source = format!("../tests/linux/{name}.c");
        let Some(guest) = Guest::compile(&source, test) else { return };
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(source).with_extension("out");
        for engine in ["interp", "baseline", "opt", "auto"] {
            let output = guest.run(&["--engine", engine], &[]);
            let expected = fs::read_to_string(&golden).unwrap();
            assert_eq!(text(&output.stdout), expected, "{engine} {name}: {output:?}");
            assert_eq!(output.status.code(), Some(status), "{engine} {name}: {output:?}");
            // A script that the program writes.
            fs::remove_file(guest.dir.path().join("scr")).ok();
        }
    }
}

#[test]
fn figures_are_asked_for_and_count_alike_on_every_engine() {
    let row = "call-recursive";
    let guest = Guest::prebuilt(row);
    let (_, row) = Catalogue::builtin().find(row).unwrap();
    let args = [row.name.as_str(), "1", &row.quick_size.to_string()];
    let plain = guest.run(&[], &args);
    assert_eq!(text(&plain.stderr), "", "no figures unless asked for");
    let mut counts = Vec::new();
    for engine in ENGINES {
        let options = ["--engine", engine, "--stats", "--stats-json", "stats.json"];
        let output = guest.run(&options, &args);
        let line = ResultLine::parse(text(&output.stdout)).unwrap();
        assert_eq!(line.checksum, row.quick_checksum, "{engine}");
        let error = text(&output.stderr);
        for say in ["engine ", "instructions ", "MIPS", "load ", "translate ", "bytes for "] {
            assert!(error.contains(say), "{engine}: {say:?} in {error}");
        }
        let json = fs::read(guest.dir.path().join("stats.json")).unwrap();
        let stats: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(stats["engine"].as_str(), Some(*engine));
        assert!(stats["translations"].as_u64() > Some(0), "{engine}");
        assert_eq!(stats["code_bytes"].as_u64() > Some(0), !engine.starts_with("interp"));
        counts.push(stats["instructions"].as_u64().unwrap());
    }
    assert!(counts[0] > 1000 && counts.iter().all(|&n| n == counts[0]), "{counts:?}");
}

/// A guest that tries everything, in a folder with a secret, an input and an output.
fn confined(options: &[&str]) -> Option<(Guest, String)> {
    let guest = Guest::compile("tests/run/confined.c", "sandbox")?;
    let at = |name: &str| guest.dir.path().join(name);
    fs::create_dir(at("in")).unwrap();
    fs::create_dir(at("out")).unwrap();
    fs::write(at("secret"), "secret").unwrap();
    fs::write(at("in/data"), "data").unwrap();
    std::os::unix::fs::symlink("../secret", at("in/link")).unwrap();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let output = guest.run(options, &[&port]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read(at("secret")).unwrap(), b"secret");
    assert_eq!(fs::read(at("in/data")).unwrap(), b"data");
    Some((guest, text))
}

fn says(text: &str, what: &str, answer: &str) {
    assert!(
        text.lines().any(|line| line == format!("{what} {answer}")),
        "{what} {answer}:\n{text}"
    );
}

#[test]
fn the_sandbox_gives_nothing_that_was_not_allowed() {
    for engine in ["interp", "auto"] {
        let Some((guest, text)) = confined(&["--sandbox", "--engine", engine]) else { return };
        let secret = fs::metadata(guest.dir.path().join("secret")).unwrap();
        assert_ne!(secret.permissions().mode() & 0o777, 0o777);
        for what in [
            "reads the secret",
            "by way of links",
            "by way of dots",
            "by /proc",
            "lists the folder",
            "reads what is allowed",
            "writes what is to be read",
            "creates beside it",
            "removes it",
            "truncates the secret",
            "creates what is allowed",
            "makes a folder",
            "its parent's map",
            "TCP",
            "TCP over IPv6",
            "UDP",
            "UDP over IPv6",
            "raw",
            "SCTP",
            "local",
            "netlink",
            "packet",
            "connects",
            "serves",
            "child reads the secret",
            "child's socket",
        ] {
            says(&text, what, "EACCES");
        }
        for what in ["changes its mode", "types for the user", "mode of a descriptor"] {
            says(&text, what, "EPERM");
        }
        says(&text, "from a thread", "refused");
        says(&text, "its own map", "yes");
        says(&text, "pair", "yes");
        says(&text, "itself", "42");
        says(&text, "a host program", "113");
    }
}

#[test]
fn the_sandbox_gives_what_was_allowed_and_no_more() {
    let options = ["--sandbox", "--allow-read", "in", "--allow-write", "out", "--allow-net"];
    let programs = ["--allow-read", "/bin", "--allow-read", "/lib", "--allow-read", "/lib64"];
    let mut all = options.to_vec();
    all.extend(programs);
    let Some((_, text)) = confined(&all) else { return };
    for what in [
        "reads what is allowed",
        "creates what is allowed",
        "makes a folder",
        "removes what is allowed",
        "TCP",
        "TCP over IPv6",
        "connects",
        "serves",
        "pair",
    ] {
        says(&text, what, "yes");
    }
    for what in [
        "reads the secret",
        "by way of links",
        "by way of dots",
        "writes what is to be read",
        "creates beside it",
        "removes it",
        "truncates the secret",
        "UDP",
        "UDP over IPv6",
        "raw",
        "SCTP",
        "local",
        "netlink",
        "packet",
        "child reads the secret",
        "child's socket",
    ] {
        says(&text, what, "EACCES");
    }
    says(&text, "itself", "42");
    says(&text, "a host program", "0");
}

#[test]
fn a_sandbox_that_cannot_be_is_refused() {
    let guest = Guest::prebuilt("call-recursive");
    for (options, say) in [
        (&["--sandbox", "--allow-read", "nowhere"][..], "cannot allow `nowhere`"),
        (&["--allow-net"], "--sandbox"),
        (&["--sandbox", "--stats-json", "x"], "--stats-json"),
    ] {
        let output = guest.run(options, &[]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(say) && output.stdout.is_empty(), "{errors}");
    }
}

/// Run under a filter that takes Landlock away, as an older kernel would.
#[test]
fn without_landlock_nothing_runs_unconfined() {
    let guest = Guest::prebuilt("call-recursive");
    let none = "import ctypes,os,struct,sys\n\
        libc=ctypes.CDLL(None)\n\
        def op(c,t,f,k): return struct.pack('HBBI',c,t,f,k)\n\
        # Landlock's three calls, 444 to 446, answer ENOSYS.\n\
        code=op(0x20,0,0,0)+op(0x35,0,2,444)+op(0x25,1,0,446)+op(6,0,0,0x50026)+op(6,0,0,0x7fff0000)\n\
        buf=ctypes.create_string_buffer(code)\n\
        prog=struct.pack('HxxxxxxQ',5,ctypes.addressof(buf))\n\
        assert libc.prctl(38,1,0,0,0)==0\n\
        assert libc.prctl(22,2,ctypes.create_string_buffer(prog),0,0)==0\n\
        os.execv(sys.argv[1],sys.argv[1:])\n";
    if !has("python3", "sandbox without Landlock") {
        return;
    }
    let output = Command::new("python3")
        .args(["-c", none, AXPLAB, "run", "--sandbox", &guest.name()])
        .current_dir(guest.dir.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("needs Landlock") && output.stdout.is_empty(), "{errors}");
}

#[test]
fn modes_says_between_what_a_linux_program_divides_its_time() {
    let guest = Guest::prebuilt("numeric-sort");
    let output = Command::new(AXPLAB)
        .args(["modes", &guest.name(), "--", "numeric-sort", "60"])
        .current_dir(guest.dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("AXPLAB1 row=numeric-sort"));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let average = |row: &str| -> f64 {
        let line =
            text.lines().find(|line| line.starts_with(row)).unwrap_or_else(|| panic!("{text}"));
        line[row.len()..].split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let rows =
        ["User, regions", "User, templates", "User, interpreter", "Translation", "System calls"];
    let total: f64 = rows.iter().map(|row| average(row)).sum();
    assert!((99.0..=101.0).contains(&total), "{text}");
    assert!(average("User, regions") > 0.0, "{text}");
}
