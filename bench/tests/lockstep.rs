//! `axplab lockstep` and `axplab trace` end to end. Guests are compiled here; without an Alpha compiler
//! the tests skip by name.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{COMPILER, has, sysroot};

const AXPLAB: &str = env!("CARGO_BIN_EXE_axplab");

/// Signals of its own, a forked child, files, memory that comes and goes.
const WORK: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int ticks;
static void tick(int signal) { ticks++; }

__attribute__((noinline)) int weigh(const unsigned char *at, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += at[i] * (i + 1);
    return sum;
}

int main(void)
{
    struct itimerval often = {{0, 2000}, {0, 2000}};
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &often, 0);
    long total = 0;
    for (int round = 0; round < 20; round++) {
        unsigned char *at = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(at, round, 65536);
        total += weigh(at, 65536);
        at = mremap(at, 65536, 131072, MREMAP_MAYMOVE);
        total += at[65536] + at[65535];
        munmap(at, 131072);
    }
    while (ticks < 5)
        total += ticks & 0;
    often.it_interval.tv_usec = often.it_value.tv_usec = 0;
    setitimer(ITIMER_REAL, &often, 0);
    int pipes[2];
    char text[100] = "";
    if (pipe(pipes) != 0)
        return 1;
    if (fork() == 0) {
        write(pipes[1], "from the child", 14);
        _exit(3);
    }
    int status;
    wait(&status);
    read(pipes[0], text, 14);
    raise(SIGALRM);
    printf("%ld %s %d\n", total, text, WEXITSTATUS(status));
    return 5;
}
"#;

const THREADED: &str = r#"
#include <pthread.h>
static void *run(void *at) { return at; }
int main(void)
{
    pthread_t other;
    pthread_create(&other, 0, run, 0);
    return pthread_join(other, 0);
}
"#;

struct Guest {
    dir: tempfile::TempDir,
    program: PathBuf,
}

impl Guest {
    fn compile(source: &str, test: &str) -> Option<Guest> {
        if !has(COMPILER, test) {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("guest.c");
        std::fs::write(&file, source).unwrap();
        let program = dir.path().join("guest");
        let mut command = Command::new(COMPILER);
        command.args(["-w", "-O1", "-mieee", "-pthread", "-o"]).args([&program, &file]);
        assert!(command.status().unwrap().success());
        Some(Guest { dir, program })
    }

    fn run(&self, command: &str, options: &[&str]) -> Output {
        let mut run = Command::new(AXPLAB);
        run.arg(command).args(options).args(["-L", &sysroot()]).arg(&self.program);
        run.current_dir(self.dir.path()).stdin(Stdio::null()).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn engines_agree_on_signals_forks_and_mappings() {
    let Some(guest) = Guest::compile(WORK, "engines_agree_on_signals_forks_and_mappings") else {
        return;
    };
    for engines in ["interp,auto", "baseline,interp-match"] {
        let output = guest.run("lockstep", &["--engines", engines, "--every", "100000"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{engines}: {error}");
        assert!(error.contains("agree") && error.contains("exited with 5"), "{engines}: {error}");
        // Once: the second engine's system calls are the first one's.
        let said = text(&output.stdout);
        assert!(said.ends_with(" from the child 3\n") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn a_planted_fault_is_found_at_its_instruction() {
    let Some(guest) = Guest::compile(WORK, "a_planted_fault_is_found_at_its_instruction") else {
        return;
    };
    for (engines, every, at) in
        [("interp,auto", "5000", "777777"), ("baseline,interp", "100000", "523456")]
    {
        let options = ["--engines", engines, "--every", every, "--plant", at];
        let output = guest.run("lockstep", &options);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        let before = at.parse::<u64>().unwrap() - 1;
        for say in
            [&format!("after {before} instructions, at 0x"), "=> ", "unique: 0x", "<= differs"]
        {
            assert!(error.contains(say), "{say:?} not in {error}");
        }
    }
}

#[test]
fn what_cannot_be_followed_is_refused_in_one_line() {
    let test = "what_cannot_be_followed_is_refused_in_one_line";
    let Some(guest) = Guest::compile(THREADED, test) else { return };
    for (options, say) in [
        (&[][..], "starts a thread at pc 0x"),
        (&["--engines", "interp"], "two engines"),
        (&["--engines", "interp,warp"], "warp"),
        (&["--every", "0"], "--every"),
    ] {
        let output = guest.run("lockstep", options);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(say) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn a_trace_is_filtered_by_symbol_range_and_number() {
    let test = "a_trace_is_filtered_by_symbol_range_and_number";
    let Some(guest) = Guest::compile(WORK, test) else { return };
    let file = guest.dir.path().join("trace.txt");
    let to = file.to_str().unwrap();
    let trace = |options: &[&str]| {
        let output = guest.run("trace", options);
        let lines = std::fs::read_to_string(Path::new(to)).unwrap_or_default();
        (output, lines.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let (output, lines) = trace(&["--symbol", "weigh", "--limit", "40", "-o", to]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!((lines.len(), lines[0].as_str()), (41, "<weigh>"));
    assert!(lines[1..].iter().all(|line| !line.contains('<')), "{lines:?}");
    // The function begins by loading its arguments' registers, and it loops.
    assert!(lines.iter().any(|line| line.contains(" -> ")), "{lines:?}");
    let at = lines[1].split_whitespace().nth(1).unwrap().to_owned();
    let range = format!("0x{at}-0x{:x}", u64::from_str_radix(&at, 16).unwrap() + 4);
    let (output, lines) = trace(&["--range", &range, "-o", to]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert_eq!(lines.len(), 21, "one heading, twenty calls: {lines:?}");
    let (_, lines) = trace(&["--from", "1000", "--limit", "3", "-o", to]);
    let counts: Vec<&str> = lines
        .iter()
        .filter(|l| !l.starts_with('<'))
        .map(|l| l.split_whitespace().next().unwrap())
        .collect();
    assert_eq!(counts, ["1000", "1001", "1002"], "{lines:?}");
    for (options, say) in [
        (&["--symbol", "nothing"][..], "no function `nothing`"),
        (&["--range", "5-1"], "START-END"),
        (&["-o", "/nonexistent/x"], "/nonexistent/x"),
        (&["--engine", "warp"], "warp"),
    ] {
        let output = guest.run("trace", options);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(say) && error.lines().count() == 1, "{error}");
    }
}
