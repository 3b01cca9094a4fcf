//! `axplab boot` end to end: a Linux kernel boots, its first program checks it or a shell works in it, the
//! machine ends. Tests skip where no kernel was built (`cargo xtask kernel`, or `AXPLAB_KERNELS` names the
//! folder), and fail for it under `AXPLAB_REQUIRE_TOOLS`.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use common::{kernels, kernels_with};

const AXPLAB: &str = env!("CARGO_BIN_EXE_axplab");

fn boot(arguments: &[&str]) -> Output {
    Command::new(AXPLAB).arg("boot").args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn boot_kernel(folder: &Path, more: &[&str]) -> Output {
    let kernel = folder.join("minimal/vmlinux");
    let initrd = folder.join("initramfs.cpio");
    let files =
        ["--kernel", kernel.to_str().unwrap(), "--initrd", initrd.to_str().unwrap(), "--stats"];
    boot(&[&files, more].concat())
}

#[test]
fn the_minimal_kernel_boots_checks_itself_and_powers_off_on_every_engine() {
    let Some(folder) = kernels() else { return };
    // Not `opt`, which compiles all that is executed more than a few times: half a minute.
    for engine in ["interp", "baseline", "auto"] {
        let out = boot_kernel(&folder, &["--engine", engine, "--memory", "32"]);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert_eq!(out.status.code(), Some(0), "{engine}: {out:?}");
        for line in ["Linux version 6.1", "init: started", "init: all is well", "Power down"] {
            assert!(text.contains(line), "{engine}: no `{line}` in\n{text}");
        }
    }
}

/// Boots the shell's RAM disk, with words for its first program, and gives what it printed.
fn shell(folder: &Path, kernel: &str, engine: &str, words: &str, more: &[&str]) -> String {
    let (kernel, initrd) = (folder.join(kernel).join("vmlinux"), folder.join("busybox.cpio"));
    let files = ["--kernel", kernel.to_str().unwrap(), "--initrd", initrd.to_str().unwrap()];
    let append = format!("console=ttyS0 quiet {words}");
    let rest = ["--append", &append, "--engine", engine];
    let out = boot(&[&files, &rest, more].concat());
    let text = String::from_utf8_lossy(&out.stdout).replace('\r', "");
    assert_eq!(out.status.code(), Some(0), "{engine}: {out:?}");
    text
}

#[test]
fn two_hundred_commands_of_a_shell_print_what_they_should_on_every_engine() {
    let Some(folder) = kernels() else { return };
    let right = fs::read_to_string(folder.join("commands.txt")).unwrap();
    // Not `opt` alone, which compiles for minutes what these many short programs execute once.
    for engine in ["interp", "baseline", "auto"] {
        let text = shell(&folder, "minimal", engine, "commands", &[]);
        let printed =
            text.split_once("init: commands\n").and_then(|(_, t)| t.split_once("init: done"));
        let printed = printed.unwrap_or_else(|| panic!("{engine}: no end in\n{text}")).0;
        for (i, (got, expected)) in printed.lines().zip(right.lines()).enumerate() {
            assert_eq!(got, expected, "{engine}, line {}", i + 1);
        }
        assert_eq!(printed.lines().count(), right.lines().count(), "{engine}");
    }
}

#[test]
fn four_processors_compute_in_parallel_and_agree() {
    let Some(folder) = kernels() else { return };
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|line| *line != "init: parallel");
        lines.take_while(|line| *line != "init: done").map(str::to_owned).collect()
    };
    for engine in ["interp", "baseline", "auto"] {
        let four = lines(&shell(&folder, "smp", engine, "parallel", &["--cpus", "4"]));
        let sum = "70ddd804d786c18f77f38bb2ee9bb91c  -";
        assert_eq!(four, ["init: parallel", "parallel: processors 4", sum, "5000"], "{engine}");
        for cpus in ["2", "4"] {
            let (kernel, initrd) = (folder.join("smp/vmlinux"), folder.join("initramfs.cpio"));
            let files =
                ["--kernel", kernel.to_str().unwrap(), "--initrd", initrd.to_str().unwrap()];
            let more = ["--append", "console=ttyS0 parallel", "--cpus", cpus, "--engine", engine];
            let out = boot(&[&files[..], &more].concat());
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            assert_eq!(out.status.code(), Some(0), "{engine}: {out:?}");
            assert!(text.contains(&format!("SMP: Total of {cpus} processors")), "{engine}: {text}");
            assert!(text.contains("init: four agree"), "{engine}: {text}");
            assert!(text.contains("init: all is well"), "{engine}: {text}");
        }
    }
}

#[test]
fn a_kernel_for_one_processor_leaves_the_others_alone() {
    let Some(folder) = kernels() else { return };
    let out = boot_kernel(&folder, &["--cpus", "3"]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("init: all is well"), "{text}");
}

#[test]
fn twenty_boots_in_a_row_end_in_a_clean_power_off() {
    let Some(folder) = kernels() else { return };
    for i in 0..20 {
        let out = boot_kernel(&folder, &[]);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert_eq!(out.status.code(), Some(0), "boot {i}: {out:?}");
        assert!(text.contains("init: all is well") && text.contains("Power down"), "{i}: {text}");
    }
}

#[test]
fn a_deterministic_boot_is_the_same_on_every_engine() {
    let Some(folder) = kernels() else { return };
    let counted = |engine: &str| {
        // Without the calibration of the delay loop, which is a tenth of a second of guest time.
        let append = "console=ttyS0 lpj=1000000";
        let out =
            boot_kernel(&folder, &["--engine", engine, "--deterministic", "--append", append]);
        assert_eq!(out.status.code(), Some(0), "{engine}: {out:?}");
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        let count = told.lines().find(|line| line.contains("instructions:")).map(str::to_owned);
        (String::from_utf8_lossy(&out.stdout).into_owned(), count.expect("counted"))
    };
    assert_eq!(counted("interp"), counted("auto"));
}

/// Runs a command on a boot of the minimal kernel, and gives its standard error.
fn observed(folder: &Path, command: &[&str], kernel: &str, more: &[&str]) -> String {
    let (kernel, initrd) = (folder.join(kernel), folder.join("initramfs.cpio"));
    let files = ["--kernel", kernel.to_str().unwrap(), "--initrd", initrd.to_str().unwrap()];
    let mut axplab = Command::new(AXPLAB);
    axplab.args(command).args(files).args(more).stdin(Stdio::null());
    let out = axplab.output().unwrap();
    let (text, told) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr).into_owned());
    assert_eq!(out.status.code(), Some(0), "{told}");
    assert!(text.contains("init: all is well"), "{text}");
    told
}

#[test]
fn a_profile_names_the_functions_of_the_kernel_and_tags_them_with_their_mode() {
    let Some(folder) = kernels() else { return };
    let files = tempfile::tempdir().unwrap();
    let graph = files.path().join("graph.svg");
    let command = ["profile", "--flame-graph", graph.to_str().unwrap(), "boot"];
    let append = ["--append", "console=ttyS0"];
    let told = observed(&folder, &command, "minimal/vmlinux", &append);
    // Without lpj= the kernel measures its delay loop for most of the time.
    let row = told.lines().find(|line| line.contains("  calibrate_delay"));
    let row = row.unwrap_or_else(|| panic!("{told}"));
    assert!(row.contains("kernel") && row.contains("vmlinux"), "{row}");
    for call in ["swpipl", "callsys", "rti"] {
        assert!(told.lines().any(|line| line.trim_end().ends_with(call)), "{call}: {told}");
    }
    assert!(!told.contains("executive"), "{told}");
    assert!(fs::read_to_string(graph).unwrap().contains("calibrate_delay_[kernel]"));
}

#[test]
fn modes_of_a_booted_kernel_add_up_with_its_sleep() {
    let Some(folder) = kernels() else { return };
    for (kernel, cpus) in [("minimal/vmlinux", "1"), ("smp/vmlinux", "3")] {
        let more = ["--append", "console=ttyS0 lpj=1000000 sleep", "--cpus", cpus];
        let told = observed(&folder, &["modes", "boot", "--"], kernel, &more);
        let share = |name: &str| -> f64 {
            let row = told.lines().find(|line| line.starts_with(name));
            let row = row.unwrap_or_else(|| panic!("no {name}: {told}"));
            row[name.len()..].split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let kinds = ["Kernel Mode", "User Mode", "PALcode", "Translation", "Idle Time"].map(share);
        let sum: f64 = kinds.iter().sum();
        assert!((99.0..101.0).contains(&sum), "{sum}: {told}");
        // The first program sleeps for three seconds.
        assert!(kinds[0] > 0.0 && kinds[4] > 30.0, "{told}");
        let plural = if cpus == "1" { "1 processor" } else { "3 processors" };
        assert!(told.lines().any(|line| line.ends_with(plural)), "{told}");
    }
}

#[test]
fn what_is_typed_reaches_the_guest() {
    let Some(folder) = kernels() else { return };
    let (kernel, initrd) = (folder.join("minimal/vmlinux"), folder.join("initramfs.cpio"));
    let mut child = Command::new(AXPLAB)
        .args(["boot", "--append", "console=ttyS0 lpj=1000000 echo", "--kernel"])
        .arg(kernel)
        .arg("--initrd")
        .arg(initrd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Typed ahead: it waits in the serial port until somebody reads.
    child.stdin.take().unwrap().write_all(b"forty-two\n").unwrap();
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(0), "{text}");
    assert!(text.contains("init: read forty-two"), "{text}");
    assert!(text.contains("init: all is well"), "{text}");
}

#[test]
fn a_kernel_without_a_first_program_panics_and_that_is_told() {
    let Some(folder) = kernels() else { return };
    let kernel = folder.join("minimal/vmlinux");
    let out = boot(&["--kernel", kernel.to_str().unwrap(), "--append", "console=ttyS0 panic=-1"]);
    assert_eq!(out.status.code(), Some(70), "{out:?}");
    assert!(String::from_utf8_lossy(&out.stderr).contains("panicked"), "{out:?}");
}

#[test]
fn what_cannot_be_started_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let native = fs::read(AXPLAB).unwrap();
    let cases = [
        ("/nonexistent".to_owned(), "/nonexistent"),
        (write("empty", b""), "empty"),
        (write("text", b"hello"), "ELF"),
        (write("packed", &[0x1f, 0x8b, 8, 0]), "compressed"),
        (write("native", &native[..4096]), "x86-64"),
    ];
    for (kernel, say) in &cases {
        let out = boot(&["--kernel", kernel]);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{kernel}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains(say), "{told}");
    }
    let Some(folder) = kernels() else { return };
    let bytes = fs::read(folder.join("minimal/vmlinux")).unwrap();
    let truncated = write("truncated", &bytes[..bytes.len() / 4]);
    let out = boot(&["--kernel", &truncated]);
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    for more in [
        &["--memory", "1"][..],
        &["--initrd", "/nonexistent"],
        &["--initrd", &cases[1].0],
        &["--engine", "warp"],
        &["--append", &"x".repeat(300)],
        &["--cpus", "2", "--deterministic"],
    ] {
        let out = boot_kernel(&folder, more);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{more:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

/// Boots the kernel with devices, with a disk and words for the first program.
fn boot_disk(folder: &Path, disk: &Path, words: &str) -> Command {
    let mut command = Command::new(AXPLAB);
    command.args(["boot", "--append", &format!("console=ttyS0 lpj=1000000 {words}"), "--kernel"]);
    command.arg(folder.join("devices/vmlinux")).arg("--initrd").arg(folder.join("initramfs.cpio"));
    command.arg("--disk").arg(disk).stdin(Stdio::null());
    command
}

/// The folder, if it has a kernel with devices and there are tools for file systems; they have to be there
/// where tools are required.
fn disk_kernels() -> Option<PathBuf> {
    let tools = Command::new("mke2fs").arg("-V").output().is_ok();
    if !tools {
        eprintln!("skipped: no mke2fs");
    }
    let folder = kernels_with(&["devices/vmlinux", "initramfs.cpio"]).filter(|_| tools);
    let required = std::env::var_os("AXPLAB_REQUIRE_TOOLS").is_some();
    assert!(folder.is_some() || !required, "required: mke2fs, `cargo xtask kernel devices`");
    folder
}

fn image(path: &Path) {
    fs::File::create(path).unwrap().set_len(16 << 20).unwrap();
    let made = Command::new("mke2fs").args(["-q", "-F", "-t", "ext4"]).arg(path).output().unwrap();
    assert!(made.status.success(), "{made:?}");
}

fn expect(out: &Output, line: &str) {
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains(line) && text.contains("init: all is well"), "no `{line}` in\n{text}");
}

#[test]
fn a_disk_holds_what_was_written_and_its_file_system_is_clean() {
    let Some(folder) = disk_kernels() else { return };
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    image(&disk);
    for line in ["init: the file is written", "init: the file is there from last time"] {
        expect(&boot_disk(&folder, &disk, "files").output().unwrap(), line);
        let check = Command::new("e2fsck").arg("-fn").arg(&disk).output().unwrap();
        assert!(check.status.success(), "{check:?}");
    }
    let raw = boot_disk(&folder, &disk, "disk").output().unwrap();
    expect(&raw, "init: the disk holds what was written");
    let before = fs::read(&disk).unwrap();
    let mut name = disk.clone().into_os_string();
    name.push(",ro");
    let read = boot_disk(&folder, Path::new(&name), "").output().unwrap();
    expect(&read, "init: bytes read from /dev/vda: 65536");
    assert!(fs::read(&disk).unwrap() == before);
}

#[test]
fn a_killed_machine_loses_nothing_that_was_synced() {
    let Some(folder) = disk_kernels() else { return };
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    image(&disk);
    let mut child = boot_disk(&folder, &disk, "log").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let synced = lines.find(|line| line.contains("init: synced 40"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(synced.is_some(), "the guest never came so far");
    let last =
        lines.filter_map(|line| line.trim().strip_prefix("init: synced ")?.parse().ok()).last();
    let last: u64 = last.unwrap_or(40);
    // The journal is replayed, as after any power failure.
    let check = Command::new("e2fsck").arg("-fy").arg(&disk).output().unwrap();
    assert!(check.status.code().is_some_and(|code| code < 4), "{check:?}");
    let dump = Command::new("debugfs").args(["-R", "cat /log"]).arg(&disk).output().unwrap();
    let words: Vec<u64> =
        dump.stdout.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().unwrap())).collect();
    assert!(words.len() as u64 > last, "{} words, {last} was told", words.len());
    assert!(words.iter().copied().eq(0..words.len() as u64));
}

/// Boots the kernel with devices on a network of its own, with words for the first program.
fn boot_net(folder: &Path, net: &str, engine: &str, words: &str) -> Command {
    let ip = "ip=10.0.2.15::10.0.2.2:255.255.255.0::eth0:off";
    let mut command = Command::new(AXPLAB);
    command.args(["boot", "--net", net, "--engine", engine, "--stats"]);
    command.args(["--append", &format!("console=ttyS0 lpj=1000000 {ip} {words}"), "--kernel"]);
    command.arg(folder.join("devices/vmlinux")).arg("--initrd").arg(folder.join("initramfs.cpio"));
    command.stdin(Stdio::null());
    command
}

/// What the first program sends: pieces of 64 KB, each from the number of the piece.
fn stream() -> Vec<u8> {
    let piece = |seed: u64| {
        std::iter::successors(Some(seed), |&x| {
            let x = x ^ x << 13;
            let x = x ^ x >> 7;
            Some(x ^ x << 17)
        })
        .skip(1)
        .take(8192)
        .flat_map(u64::to_le_bytes)
    };
    (1..=128).flat_map(piece).collect()
}

#[test]
fn the_guest_streams_to_the_host_and_back() {
    let Some(folder) = disk_kernels() else { return };
    for engine in ["interp", "auto"] {
        // The same port for both protocols.
        let (listener, datagrams) = loop {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            if let Ok(datagrams) = UdpSocket::bind(listener.local_addr().unwrap()) {
                break (listener, datagrams);
            }
        };
        let port = listener.local_addr().unwrap().port();
        let echo = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            stream.write_all(&all).unwrap();
            all
        });
        thread::spawn(move || {
            let mut one = [0; 2000];
            while let Ok((length, from)) = datagrams.recv_from(&mut one) {
                datagrams.send_to(&one[..length], from).unwrap();
            }
        });
        let out = boot_net(&folder, "user", engine, &format!("net{port}")).output().unwrap();
        expect(&out, "init: the network carries what was sent");
        assert!(echo.join().unwrap() == stream(), "{engine}: other bytes came");
    }
}

#[test]
fn ports_of_the_host_lead_to_the_guest() {
    let Some(folder) = disk_kernels() else { return };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let net = format!("user,hostfwd=tcp:{port}-80");
    let mut child =
        boot_net(&folder, &net, "auto", "serve80").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("init: listening")), "the guest never came so far");
    // More than the buffers on the way hold, so that it goes both ways at once.
    let sent = stream();
    let mut to = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut from = to.try_clone().unwrap();
    let bytes = sent.clone();
    let writer = thread::spawn(move || {
        to.write_all(&sent).unwrap();
        to.shutdown(Shutdown::Write).unwrap();
    });
    let mut back = Vec::new();
    from.read_to_end(&mut back).unwrap();
    writer.join().unwrap();
    assert!(back == bytes, "{} bytes of {} came back, or others", back.len(), bytes.len());
    drop(TcpStream::connect(("127.0.0.1", port)).unwrap());
    let rest: Vec<String> = lines.collect();
    assert!(rest.iter().any(|line| line.contains("init: all is well")), "{rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_network_that_cannot_be_had_is_refused_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let forward = format!("user,hostfwd=tcp:{port}-80");
    let cases = [
        ("bridge", "is no network"),
        ("user,hostfwd=tcp:80", "is no forward"),
        (forward.as_str(), "cannot listen on 127.0.0.1"),
        ("tap=a-name-that-is-too-long", "1 to 15 characters"),
        ("tap=", "1 to 15 characters"),
    ];
    for (net, say) in cases {
        let out = boot(&["--kernel", "../guest-programs/prebuilt/none", "--net", net]);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{net}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains(say), "{told}");
    }
}

#[test]
fn an_image_that_cannot_be_used_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, size: u64| {
        let path = dir.path().join(name);
        fs::File::create(&path).unwrap().set_len(size).unwrap();
        path
    };
    let locked = write("locked", 1024);
    let holder = fs::File::open(&locked).unwrap();
    holder.lock().unwrap();
    let cases = [
        (dir.path().join("missing"), "No such file"),
        (dir.path().to_owned(), "not a file or block device"),
        (PathBuf::from("/dev/null"), "not a file or block device"),
        (write("empty", 0), "0 bytes"),
        (write("short", 511), "511 bytes"),
        (write("odd", 1000), "1000 bytes"),
        (locked, "in use by another axplab"),
    ];
    for (disk, say) in &cases {
        let disk = disk.to_str().unwrap();
        let out = boot(&["--kernel", "../guest-programs/prebuilt/none", "--disk", disk]);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{disk}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains(say) && told.contains(disk), "{told}");
    }
}
