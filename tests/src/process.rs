//! Runs a program to its end or to a deadline, for tests that start engines and oracles as
//! sub-processes: one that hangs fails its test by name instead of stopping all of them.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Far more than any program of the tests takes, on a busy machine and under the slowest engine.
pub const DEADLINE: Duration = Duration::from_secs(180);

/// Runs `command` with `stdin` in a process group of its own; `None` if it was still running at the
/// deadline. What is left of the group is ended in either case.
pub fn output(command: &mut Command, stdin: &[u8], deadline: Duration) -> Option<Output> {
    let mut child = command
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let group = Pid::from_child(&child);
    // The program may end without reading; what is written here fits into a pipe.
    let _ = child.stdin.take().expect("piped above").write_all(stdin);
    let mut out = child.stdout.take().expect("piped above");
    let mut err = child.stderr.take().expect("piped above");
    let read = |pipe: &mut dyn Read| {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    };
    thread::scope(|scope| {
        let out = scope.spawn(move || read(&mut out));
        let err = scope.spawn(move || read(&mut err));
        let start = Instant::now();
        let status = loop {
            match child.try_wait().expect("a child of this process") {
                Some(status) => break Some(status),
                None if start.elapsed() > deadline => break None,
                None => thread::sleep(Duration::from_millis(2)),
            }
        };
        // Nobody left over may hold the pipes open.
        let _ = kill_process_group(group, Signal::KILL);
        let status = match status {
            Some(status) => Some(status),
            None => child.wait().ok().and(None),
        };
        let (stdout, stderr) = (out.join().ok()?, err.join().ok()?);
        Some(Output { status: status?, stdout, stderr })
    })
}
