//! `axplab run --gdb`: the remote protocol spoken directly, and a session of gdb-multiarch, which is
//! skipped by name where gdb-multiarch or the Alpha compiler is missing.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axp_guests::{Catalogue, Cpu};

use common::{COMPILER, has, kernels, sysroot};

const AXPLAB: &str = env!("CARGO_BIN_EXE_axplab");
/// Number of the PC among gdb's registers of an Alpha.
const PC: &str = "40";

/// A program that waits for a debugger at a port of its choice.
struct Waiting {
    child: Child,
    port: String,
}

impl Waiting {
    fn start(engine: &str, program: &Path, args: &[&str]) -> Waiting {
        let mut command = Command::new(AXPLAB);
        command.args(["run", "--engine", engine, "--gdb", "127.0.0.1:0", "-L", &sysroot()]);
        Waiting::at(command.arg(program).args(args))
    }

    /// By a whole command line.
    fn at(command: &mut Command) -> Waiting {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        let port = line.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(port.starts_with("127.0.0.1:"), "{line}");
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::stderr()));
        Waiting { child, port }
    }

    fn connect(&self) -> Client {
        let stream = TcpStream::connect(&self.port).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let mut client = Client { stream, thread: String::new() };
        assert!(client.ask("qSupported:swbreak+;vContSupported+").contains("PacketSize"));
        // Selects the thread that stopped, the only one.
        assert!(client.ask("?").starts_with(['S', 'T']));
        let threads = client.ask("qfThreadInfo");
        client.thread = threads.trim_start_matches('m').to_owned();
        assert_eq!(client.ask(&format!("Hg{}", client.thread)), "OK");
        client
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The debugger's side of the protocol.
struct Client {
    stream: TcpStream,
    /// The first thread, as the protocol writes it.
    thread: String,
}

impl Client {
    fn send(&mut self, packet: &str) {
        let sum = packet.bytes().fold(0u8, u8::wrapping_add);
        write!(self.stream, "${packet}#{sum:02x}").unwrap();
    }

    fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.stream.read_exact(&mut byte).unwrap();
        byte[0]
    }

    fn answer(&mut self) -> String {
        while self.byte() != b'$' {}
        let mut text = Vec::new();
        loop {
            match self.byte() {
                b'#' => break,
                // Run-length encoding: what stands before goes on for a while.
                b'*' => {
                    let more = self.byte() - 29;
                    let last = *text.last().unwrap();
                    text.extend(std::iter::repeat_n(last, usize::from(more)));
                }
                byte => text.push(byte),
            }
        }
        self.byte();
        self.byte();
        write!(self.stream, "+").unwrap();
        String::from_utf8(text).unwrap()
    }

    fn ask(&mut self, packet: &str) -> String {
        self.send(packet);
        self.answer()
    }

    /// A register as a number.
    fn register(&mut self, number: &str) -> u64 {
        number_of(&self.ask(&format!("p{number}")))
    }

    /// The instruction word at an address.
    fn word(&mut self, at: u64) -> u64 {
        number_of(&format!("{:0<16}", self.ask(&format!("m{at:x},4"))))
    }
}

/// Sixteen digits in the guest's byte order.
fn number_of(digits: &str) -> u64 {
    assert_eq!(digits.len(), 16, "{digits}");
    u64::from_str_radix(digits, 16).unwrap_or_else(|_| panic!("{digits}")).swap_bytes()
}

/// A program of the catalogue that runs for long.
fn prebuilt(dir: &Path) -> (PathBuf, String) {
    let (program, row) = Catalogue::builtin().find("call-recursive").unwrap();
    let path = dir.join("prebuilt");
    fs::write(&path, program.elf_bytes(Cpu::Ev56).unwrap()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    (path, row.name.clone())
}

#[test]
fn the_remote_protocol_steps_breaks_reads_writes_and_interrupts() {
    let dir = tempfile::tempdir().unwrap();
    let (program, row) = prebuilt(dir.path());
    for engine in ["interp", "auto"] {
        let mut guest = Waiting::start(engine, &program, &[&row, "1000000", "30"]);
        let mut gdb = guest.connect();
        let xml = gdb.ask("qXfer:features:read:target.xml:0,1000");
        assert!(xml.contains("<architecture>alpha</architecture>"), "{xml}");
        let start = gdb.register(PC);
        assert_eq!(gdb.ask("g").len(), 67 * 16);
        let mut pcs = Vec::new();
        for _ in 0..5 {
            let stop = gdb.ask(&format!("vCont;s:{}", gdb.thread));
            assert!(stop.starts_with("T05") || stop.starts_with("S05"), "{stop}");
            pcs.push(gdb.register(PC));
        }
        assert_eq!(pcs[0], start + 4, "{pcs:x?}");
        // Back to the start, and on to where the steps led.
        let word = gdb.word(pcs[4]);
        let back: String = start.to_le_bytes().map(|b| format!("{b:02x}")).concat();
        assert_eq!(gdb.ask(&format!("P{PC}={back}")), "OK");
        assert_eq!(gdb.register(PC), start);
        assert_eq!(gdb.ask(&format!("Z0,{:x},4", pcs[4])), "OK");
        assert_eq!(gdb.word(pcs[4]), word, "a breakpoint does not show");
        let stop = gdb.ask("vCont;c");
        assert!(stop.starts_with("T05") && stop.contains("swbreak"), "{stop}");
        assert_eq!(gdb.register(PC), pcs[4]);
        assert_eq!(gdb.ask(&format!("z0,{:x},4", pcs[4])), "OK");
        // Memory: the stack can be written, address 0 cannot be read.
        let sp = gdb.register("1e");
        assert_eq!(gdb.ask(&format!("M{:x},4:0badcafe", sp - 64)), "OK");
        assert_eq!(gdb.ask(&format!("m{:x},4", sp - 64)), "0badcafe");
        assert!(gdb.ask("m0,4").starts_with('E'));
        // Interrupted in the middle of compiled code.
        gdb.send("vCont;c");
        std::thread::sleep(Duration::from_millis(300));
        gdb.stream.write_all(&[3]).unwrap();
        let stop = gdb.answer();
        assert!(stop.starts_with("T02"), "{stop}");
        assert!(gdb.register(PC) > 0x1_0000_0000);
        gdb.send("k");
        let status = guest.child.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "{engine}: {status}");
    }
}

/// Boots under a debugger, with words for the kernel and its first program.
fn booted(folder: &Path, kernel: &str, engine: &str, words: &str, cpus: &str) -> Waiting {
    let kernel = folder.join(kernel).join("vmlinux");
    let mut command = Command::new(AXPLAB);
    command.args(["boot", "--engine", engine, "--gdb", "127.0.0.1:0", "--cpus", cpus]);
    let append = format!("console=ttyS0 lpj=1000000 {words}");
    command.args(["--append", &append, "--kernel"]).arg(kernel);
    Waiting::at(command.arg("--initrd").arg(folder.join("initramfs.cpio")))
}

/// The address of a function of a kernel.
fn symbol(folder: &Path, kernel: &str, name: &str) -> u64 {
    let map = fs::read_to_string(folder.join(kernel).join("System.map")).unwrap();
    let ending = format!(" {name}");
    let line = map.lines().find(|line| line.ends_with(&ending)).unwrap();
    u64::from_str_radix(&line[..16], 16).unwrap()
}

#[test]
fn a_booted_kernel_stops_at_breakpoints_steps_and_goes_on() {
    let Some(folder) = kernels() else { return };
    let run_init = symbol(&folder, "minimal", "run_init_process");
    for engine in ["interp", "baseline", "auto"] {
        let mut guest = booted(&folder, "minimal", engine, "", "1");
        let mut gdb = guest.connect();
        assert_eq!(gdb.register(PC), 0xffff_fc00_0031_0000, "{engine}");
        let word = gdb.word(run_init);
        assert_eq!(gdb.ask(&format!("Z0,{run_init:x},4")), "OK");
        assert_eq!(gdb.word(run_init), word, "a breakpoint does not show");
        let stop = gdb.ask("vCont;c");
        assert!(stop.starts_with("T05") && stop.contains("swbreak"), "{engine}: {stop}");
        assert_eq!(gdb.register(PC), run_init, "{engine}");
        // The name of the first program, which the first argument points to; the stack is the kernel's.
        let name = gdb.register("10");
        assert_eq!(gdb.ask(&format!("m{name:x},6")), "2f696e697400");
        assert!(gdb.register("1e") > 0xffff_fc00_0000_0000);
        // User memory is not there yet, and no machine has this much.
        assert!(gdb.ask("m120000000,4").starts_with('E'));
        assert!(gdb.ask("mfffffcff00000000,4").starts_with('E'));
        // A debugger takes a breakpoint away before it steps on from there.
        assert_eq!(gdb.ask(&format!("z0,{run_init:x},4")), "OK");
        for i in 1..=3 {
            let stop = gdb.ask(&format!("vCont;s:{}", gdb.thread));
            assert!(stop.starts_with("T05"), "{engine}: {stop}");
            assert_eq!(gdb.register(PC), run_init + 4 * i, "{engine}");
        }
        assert_eq!(gdb.ask("vCont;c"), "W00", "{engine}");
        assert_eq!(guest.child.wait().unwrap().code(), Some(0), "{engine}");
    }
}

#[test]
fn processors_are_threads_that_ctrl_c_calls_out_of_their_sleep() {
    let Some(folder) = kernels() else { return };
    let mut guest = booted(&folder, "smp", "auto", "sleep", "2");
    let mut gdb = guest.connect();
    let idle = symbol(&folder, "smp", "do_idle");
    let run_init = symbol(&folder, "smp", "run_init_process");
    assert_eq!(gdb.ask(&format!("Z0,{run_init:x},4")), "OK");
    let stop = gdb.ask("vCont;c");
    assert!(stop.starts_with("T05") && stop.contains("swbreak"), "{stop}");
    assert_eq!(gdb.ask(&format!("z0,{run_init:x},4")), "OK");
    assert_eq!(gdb.ask("qfThreadInfo").matches(',').count(), 1);
    gdb.send("vCont;c");
    // The first program sleeps for three seconds soon, and both processors with it.
    std::thread::sleep(Duration::from_millis(1500));
    gdb.stream.write_all(&[3]).unwrap();
    let stop = gdb.answer();
    assert!(stop.starts_with("T02"), "{stop}");
    assert!(gdb.register(PC) > idle & !0xf_ffff, "{:x}", gdb.register(PC));
    gdb.send("k");
    assert_eq!(guest.child.wait().unwrap().code(), Some(137));
    // Gone instead of killed: the system goes on.
    let mut guest = booted(&folder, "smp", "auto", "", "2");
    let mut gdb = guest.connect();
    assert_eq!(gdb.ask(&format!("Z0,{run_init:x},4")), "OK");
    drop(gdb);
    assert_eq!(guest.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_debugger_that_goes_leaves_the_program_running() {
    let dir = tempfile::tempdir().unwrap();
    let (program, row) = prebuilt(dir.path());
    let mut guest = Waiting::start("auto", &program, &[&row, "1", "5"]);
    let mut gdb = guest.connect();
    let start = gdb.register(PC);
    assert_eq!(gdb.ask(&format!("Z0,{:x},4", start + 4)), "OK");
    drop(gdb);
    assert_eq!(guest.child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_address_that_cannot_be_waited_at_is_one_clear_line() {
    let dir = tempfile::tempdir().unwrap();
    let (program, row) = prebuilt(dir.path());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().to_string();
    for (address, say) in [
        ("nowhere", "neither HOST:PORT nor the path"),
        ("localhost:99999", "`99999` is no port"),
        ("/nonexistent/folder/sock", "/nonexistent/folder/sock"),
        (port.as_str(), "cannot wait for a debugger"),
    ] {
        let mut command = Command::new(AXPLAB);
        command.args(["run", "--gdb", address]).arg(&program).args([&row, "1", "5"]);
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.lines().count() == 1 && error.contains(say), "{error}");
    }
}

const SCRIPT: &str = "\
set pagination off
set confirm off
break add
continue
print counter
p half
delete
stepi
info registers pc
set var counter = 100
handle SIGUSR1 stop print pass
continue
break in_thread
continue
info threads
p counter
delete
set var spinning = 0
continue
bt 1
continue
";

#[test]
fn gdb_multiarch_debugs_a_program_with_threads_and_signals() {
    let test = "gdb_multiarch_debugs_a_program_with_threads_and_signals";
    for tool in [COMPILER, "gdb-multiarch"] {
        if !has(tool, test) {
            return;
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("debuggee");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/debuggee.c");
    let mut compile = Command::new(COMPILER);
    compile.args(["-g", "-w", "-O0", "-mieee", "-pthread", "-o"]).args([&program, &source]);
    assert!(compile.status().unwrap().success());
    let script = dir.path().join("script.gdb");
    fs::write(&script, SCRIPT).unwrap();
    for engine in ["interp", "auto"] {
        let mut guest = Waiting::start(engine, &program, &["fault"]);
        let output = Command::new("gdb-multiarch")
            .args(["-nx", "-batch", "-ex", &format!("set sysroot {}", sysroot())])
            .arg("-ex")
            .arg(format!("file {}", program.display()))
            .args(["-ex", &format!("target remote {}", guest.port), "-x"])
            .arg(&script)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let all = format!("{engine}:\n{said}\n{}", String::from_utf8_lossy(&output.stderr));
        let mut rest = said.as_str();
        for expected in [
            "add (a=0, b=0)",
            "$1 = 0",
            "$2 = 0.5",
            "pc ",
            "received signal SIGUSR1",
            "in_thread ()",
            "* 2 ",
            "= 1103",
            "received signal SIGSEGV",
            "main (argc=2",
            "terminated with signal SIGSEGV",
        ] {
            let at = rest.find(expected).unwrap_or_else(|| panic!("no {expected:?} in {all}"));
            rest = &rest[at + expected.len()..];
        }
        let mut printed = String::new();
        guest.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        assert_eq!(printed, "counter 1103\n", "{all}");
        assert_eq!(guest.child.wait().unwrap().signal(), Some(11), "{all}");
    }
}
