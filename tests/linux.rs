//! Linux programs as a whole: C programs of `tests/linux/`, compiled here, run on every engine in a
//! process of their own, compared with golden output; where qemu-alpha is right, so is its output.
//!
//! Needs alpha-linux-gnu-gcc; without it each test says that it was skipped, unless
//! `AXPLAB_REQUIRE_TOOLS=1` makes that a failure.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use axp_emu::linux::{Linux, LinuxOptions};
use axp_tests::engines::PROGRAM_RUNS;
use axp_tests::process::{self, DEADLINE};

const RUNNER: &str = env!("CARGO_BIN_EXE_run-guest");
const STDIN: &[u8] = b"a\nbb\n";

fn sysroot() -> String {
    std::env::var("AXPLAB_SYSROOT").unwrap_or_else(|_| "/usr/alpha-linux-gnu".to_owned())
}

fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        assert!(std::env::var_os("AXPLAB_REQUIRE_TOOLS").is_none(), "{tool} is required");
        println!("skipped: {tool} is not installed");
    }
    found
}

/// A program compiled in a directory of its own.
struct Guest {
    dir: tempfile::TempDir,
    name: &'static str,
    /// What AXP_SCALE says to the program.
    scale: &'static str,
}

impl Guest {
    fn build(name: &'static str, flags: &[&str]) -> Option<Guest> {
        if !has("alpha-linux-gnu-gcc") {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("linux/{name}.c"));
        let done = Command::new("alpha-linux-gnu-gcc")
            .args(["-w", "-O1", "-mieee", "-mcpu=ev67", "-o"])
            .arg(dir.path().join(name))
            .arg(source)
            .args(flags)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Some(Guest { dir, name, scale: "small" })
    }

    fn dynamic(name: &'static str) -> Option<Guest> {
        Self::build(name, &["-lm", "-lutil", "-pthread"])
    }

    fn output(&self, runner: &str, options: &[&str]) -> Output {
        // Programs write into the current directory.
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(self.name);
        fs::hard_link(self.dir.path().join(self.name), &file).unwrap();
        let mut command = Command::new(runner);
        command.env("RUN_GUEST_IDLE_THREAD", "1");
        command
            .args(options)
            .args(["-L", &sysroot()])
            .arg(format!("./{}", self.name))
            .args(["x", "--y", "z z"].iter().filter(|_| self.name != "processes"))
            .current_dir(dir.path())
            .env("AXP_TEST", "yes")
            .env("AXP_SCALE", self.scale);
        process::output(&mut command, STDIN, DEADLINE)
            .unwrap_or_else(|| panic!("{command:?} has not ended after {DEADLINE:?}"))
    }

    fn golden(&self) -> String {
        let path = format!("{}/linux/{}.out", env!("CARGO_MANIFEST_DIR"), self.name);
        fs::read_to_string(path).unwrap()
    }

    fn compare(&self, runner: &str, options: &[&str], status: i32) {
        let output = self.output(runner, options);
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(text, self.golden(), "{} {runner} {options:?}\n{errors}", self.name);
        let ended = output.status.code();
        assert_eq!(ended, Some(status), "{} {runner} {options:?}\n{errors}", self.name);
    }

    /// Runs on all engines and compares with the golden output.
    fn check(&self, status: i32) {
        for options in PROGRAM_RUNS {
            self.compare(RUNNER, options, status);
        }
    }

    /// qemu-alpha gives the same bytes and the same status.
    fn check_oracle(&self, status: i32) {
        if has("qemu-alpha") {
            self.compare("qemu-alpha", &[], status);
        }
    }
}

#[test]
fn a_program_without_a_library_runs() {
    let flags = ["-static", "-nostdlib", "-ffreestanding", "-fno-pic"];
    if let Some(guest) = Guest::build("static", &flags) {
        guest.check(42);
    }
}

#[test]
fn a_userland_program_gives_what_qemu_gives() {
    if let Some(guest) = Guest::dynamic("userland") {
        guest.check(7);
        guest.check_oracle(7);
    }
}

#[test]
fn signals_arrive_as_linux_delivers_them() {
    if let Some(guest) = Guest::dynamic("signals") {
        guest.check(0);
        guest.check_oracle(0);
    }
}

#[test]
fn threads_share_memory_and_wait_for_each_other() {
    if let Some(guest) = Guest::dynamic("threads") {
        guest.check(9);
    }
}

#[test]
fn processes_are_made_executed_and_waited_for() {
    if let Some(guest) = Guest::dynamic("processes") {
        guest.check(0);
    }
}

#[test]
fn forks_do_not_disturb_the_compiler() {
    if let Some(guest) = Guest::dynamic("forks") {
        for engine in ["baseline", "auto", "auto-background"] {
            guest.compare(RUNNER, &["--engine", engine], 0);
        }
    }
}

/// qemu-alpha is no reference here: it has one code for all SIGFPEs and stores SUM.
#[test]
fn traps_have_the_kernels_codes() {
    if let Some(guest) = Guest::dynamic("traps") {
        guest.check(0);
    }
}

/// qemu-alpha differs in call 0, in masks, in brk below the heap and in clock ticks.
#[test]
fn conventions_are_the_kernels() {
    if let Some(guest) = Guest::dynamic("conventions") {
        guest.check(0);
    }
}

#[test]
fn programs_that_go_wrong_get_linuxs_signals() {
    if let Some(guest) = Guest::dynamic("faults") {
        guest.check(0);
    }
}

#[test]
fn a_guest_reaches_its_own_memory_only() {
    if let Some(guest) = Guest::dynamic("isolation") {
        guest.check(0);
        assert!(!guest.golden().contains("DONE"));
    }
}

#[test]
fn system_calls_keep_to_the_guests_memory_and_proc_to_its_view() {
    if let Some(guest) = Guest::dynamic("pointers") {
        guest.check(0);
        assert!(!guest.golden().contains("HOST"));
    }
}

#[test]
fn hostile_guests_harm_only_themselves() {
    if let Some(guest) = Guest::dynamic("hostile") {
        guest.check(0);
    }
}

#[test]
fn signals_in_numbers_lose_nothing() {
    if let Some(guest) = Guest::dynamic("stress") {
        guest.check(0);
    }
}

#[test]
fn demands_in_numbers_are_met() {
    if let Some(guest) = Guest::dynamic("scale") {
        guest.check(0);
    }
}

/// 8 threads of a million increments, 10 000 timer signals, 100 000 traps and kill/pause pairs.
#[test]
#[ignore = "takes minutes; run it on a release build"]
fn demands_in_numbers_are_met_at_full_scale() {
    if let Some(guest) = Guest::dynamic("scale") {
        Guest { scale: "full", ..guest }.check(0);
    }
}

/// qemu-alpha stores bits of FPCR that the manual does not have, and flags a quiet NaN converted.
#[test]
fn floating_point_is_the_manuals_where_emulators_differ() {
    if let Some(guest) = Guest::dynamic("floats") {
        guest.check(0);
    }
}

#[test]
fn what_only_several_threads_show_is_right() {
    if let Some(guest) = Guest::dynamic("locks") {
        guest.check(0);
        guest.check_oracle(0);
    }
}

#[test]
fn compiled_loops_of_every_shape_let_signals_through() {
    if let Some(guest) = Guest::dynamic("loops") {
        guest.check(0);
    }
}

#[test]
fn a_handler_sees_exact_registers_and_goes_on() {
    if let Some(guest) = Guest::dynamic("precise") {
        guest.check(0);
        guest.check_oracle(0);
    }
}

#[test]
fn changed_protected_and_unmapped_code_is_noticed() {
    if let Some(guest) = Guest::dynamic("code") {
        guest.check(0);
        guest.check_oracle(0);
    }
}

#[test]
fn wild_addresses_fault_alike_on_every_engine() {
    if let Some(guest) = Guest::dynamic("wild") {
        guest.check(0);
    }
}

/// Fields of the ELF header and of the first two program headers: offset, size.
const ELF_FIELDS: [(usize, usize); 22] = [
    (4, 1),
    (16, 2),
    (24, 8),
    (32, 8),
    (48, 4),
    (54, 2),
    (56, 2),
    (64, 4),
    (68, 4),
    (72, 8),
    (80, 8),
    (96, 8),
    (104, 8),
    (112, 8),
    (120, 4),
    (124, 4),
    (128, 8),
    (136, 8),
    (152, 8),
    (160, 8),
    (168, 8),
    (62, 2),
];

/// A program with one or two odd fields is refused, or runs and ends as it may: by itself or by a
/// signal of the guest's, never by a fault or a panic of the emulator's.
#[test]
fn odd_programs_are_refused_or_end_by_themselves() {
    const ODD: [u64; 16] = [
        0,
        1,
        3,
        7,
        8,
        0xfff,
        0x1fff,
        0x2000,
        0xffff_ffff,
        0x1_2000_0000,
        0x1_2000_0004,
        (1 << 42) - 8,
        1 << 42,
        0x7f00_0000_0000,
        1 << 63,
        u64::MAX,
    ];
    let flags = ["-static", "-nostdlib", "-ffreestanding", "-fno-pic"];
    let Some(guest) = Guest::build("static", &flags) else { return };
    let whole = fs::read(guest.dir.path().join("static")).unwrap();
    let file = guest.dir.path().join("odd");
    let mut random = 1u64;
    let mut next = |n: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % n
    };
    let mut ended = std::collections::BTreeMap::<String, usize>::new();
    for turn in 0..120 {
        let mut bytes = whole.clone();
        for _ in 0..1 + turn % 2 {
            let (at, size) = ELF_FIELDS[next(ELF_FIELDS.len())];
            bytes[at..at + size].copy_from_slice(&ODD[next(ODD.len())].to_le_bytes()[..size]);
        }
        fs::write(&file, bytes).unwrap();
        let engine = ["interp", "baseline", "auto"][turn % 3];
        let mut command = Command::new(RUNNER);
        command.args(["--engine", engine]).arg(&file).args(["x", "--y", "z z"]);
        let output = process::output(&mut command, STDIN, DEADLINE)
            .unwrap_or_else(|| panic!("turn {turn} on {engine} has not ended"));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let status = output.status;
        *ended.entry(status.to_string()).or_default() += 1;
        if status.code() == Some(2) {
            assert!(errors.starts_with("run-guest: ") && errors.lines().count() == 1, "{errors}");
        } else if status.code().is_none() {
            // The runner says which signal the guest got, before it ends by it.
            assert!(
                errors.contains("run-guest: SIG"),
                "turn {turn} on {engine}: {status} {errors}"
            );
        }
        assert!(!errors.contains("panicked"), "turn {turn} on {engine}: {errors}");
    }
    // Of each kind there are some.
    assert!(ended.len() >= 3, "{ended:?}");
}

fn load_error(path: &Path, sysroot: Option<&str>) -> String {
    let options = LinuxOptions {
        sysroot: sysroot.map(PathBuf::from),
        based: true,
        ..LinuxOptions::default()
    };
    let argv = [OsString::from("x")];
    match Linux::load(path, &argv, &[], options) {
        Ok(_) => panic!("{} was loaded", path.display()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn bad_files_are_refused_in_one_clear_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let me = fs::read(std::env::current_exe().unwrap()).unwrap();
    let cases = [
        (dir.path().join("nothing"), "no such file"),
        (dir.path().to_path_buf(), "is a directory"),
        (file("empty", b""), "is empty"),
        (file("text", b"hello"), "not an ELF file"),
        (file("short", b"\x7fELF\x02\x01"), "truncated"),
        (file("host", &me), "not for Alpha"),
        (PathBuf::from("/dev/null"), "not a regular file"),
    ];
    for (path, expected) in cases {
        let message = load_error(&path, None);
        assert!(message.contains(expected), "{message}");
        assert!(message.contains(&path.display().to_string()), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
    let message = load_error(&file("some", b"x"), Some("/nonexistent/root"));
    assert!(message.contains("/nonexistent/root") && message.contains("-L"), "{message}");
}

#[test]
fn a_missing_interpreter_says_what_to_do() {
    let Some(guest) = Guest::dynamic("userland") else { return };
    let program = guest.dir.path().join("userland");
    let empty = tempfile::tempdir().unwrap();
    let message = load_error(&program, empty.path().to_str());
    assert!(message.contains("ld-linux.so.2") && message.contains("AXPLAB_SYSROOT"), "{message}");
}

/// Lines of the trace of `strace.c`, without the process's number.
const TRACED: &str = r#"
openat(AT_FDCWD, "data", O_RDWR|O_CREAT|O_TRUNC, 0600) = 3
writev(3, [{iov_base="hello\n", iov_len=6}, {iov_base="world", iov_len=5}], 2) = 11
lseek(3, 0, SEEK_SET) = 0
readv(3, [{iov_base="hell", iov_len=4}, {iov_base="o\nworld", iov_len=20}], 2) = 11
fcntl(3, F_SETFD, FD_CLOEXEC) = 0
fcntl(3, F_SETLK, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=1, l_len=2}) = 0
pipe2([4, 5], O_CLOEXEC) = 0
write(5, "x", 1) = 1
poll([{fd=4, events=POLLIN}, {fd=5, events=POLLIN}], 2, 1000) = 1 ([{fd=4, revents=POLLIN}, {fd=5, revents=0}])
epoll_create1(O_CLOEXEC) = 6
epoll_ctl(6, EPOLL_CTL_ADD, 4, {events=EPOLLIN|EPOLLET, data=0x123}) = 0
epoll_wait(6, [{events=EPOLLIN, data=0x123}], 1, 0) = 1
rt_sigprocmask(SIG_BLOCK, [SIGUSR2], NULL, 8) = 0
nanosleep({tv_sec=0, tv_nsec=1000}, NULL) = 0
prlimit64(0, RLIMIT_CORE, {rlim_cur=0, rlim_max=RLIM_INFINITY}, NULL) = 0
exit_group(3) = ?
socket(AF_INET, SOCK_DGRAM|SOCK_CLOEXEC, 0) = 7
setsockopt(7, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0
bind(7, {AF_INET, 127.0.0.1:0}, 16) = 0
shutdown(7, SHUT_WR) = -1 ENOTCONN
socketpair(AF_UNIX, SOCK_STREAM, 0, [8, 9]) = 0
sendmsg(8, {msg_name=NULL, msg_iov=[{iov_base="hello\n", iov_len=6}, {iov_base="world", iov_len=5}], msg_controllen=0, msg_flags=0}, MSG_NOSIGNAL) = 11
mkdir("folder", 0700) = 0
rt_sigaction(SIGUSR1, 0x10, NULL, 8, NULL) = -1 EFAULT
exit_group(0) = ?
"#;

/// The same of lines that hold numbers which are never the same: beginning and end.
const TRACED_PARTS: &[(&str, &str)] = &[
    ("fstat64(3, {st_ino=", ", ...}) = 0"),
    ("rt_sigaction(SIGUSR1, {sa_handler=0x", ") = 0"),
    ("kill(", ", SIGKILL) = 0"),
    ("wait4(", ", [{WIFEXITED(s) && WEXITSTATUS(s) == 3}], 0, NULL) = "),
    ("wait4(-1, [{WIFSIGNALED(s) && WTERMSIG(s) == SIGKILL}], 0, NULL) = ", ""),
    ("ioctl(3, TIOCGWINSZ, 0x", ") = -1 ENOTTY"),
    ("getdents64(-1, 0x", ", 4) = -1 EBADF"),
    // A file system gives entries in an order and of lengths of its own.
    ("getdents64(10, [", "\"entry\""),
];

#[test]
fn a_trace_reads_structures_flags_and_names() {
    let Some(guest) = Guest::dynamic("strace") else { return };
    let output = guest.output(RUNNER, &["--engine", "interp", "--strace"]);
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().filter_map(|l| Some(l.split_once("] ")?.1)).collect();
    for expected in TRACED.trim().lines() {
        assert!(lines.contains(&expected), "no line\n{expected}\nin\n{text}");
    }
    for (start, end) in TRACED_PARTS {
        let found = lines.iter().any(|l| l.starts_with(start) && l.contains(end));
        assert!(found, "no line {start}...{end} in\n{text}");
    }
    let stat = lines.iter().find(|l| l.starts_with("fstat64(3")).unwrap();
    assert!(stat.contains("st_mode=S_IFREG|0600") && stat.contains("st_size=11"), "{stat}");
}
