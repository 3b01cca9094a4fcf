//! Runs one Alpha program on an engine under test: what `tests/linux.rs` and `tests/guests.rs` start
//! as a sub-process, and what execve inside such a program starts again.
//!
//! `run-guest [--engine NAME] [-L SYSROOT] [-0 ARGV0] [--strace] PROG [ARGS...]`

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::exit;
use std::sync::Arc;

use axp_emu::cpu::Vcpu;
use axp_emu::engine::{Limit, Outcome, run};
use axp_emu::interp::{Dispatch, Interpreter};
use axp_emu::isa::CpuModel;
use axp_emu::linux::{Linux, LinuxOptions, signal_name, signal_to_host};
use axp_tests::engines::{ENGINES, EngineUnderTest};

fn run_thread(engine: &EngineUnderTest, mut vcpu: Vcpu, mut linux: Linux) -> Outcome {
    let mut engine = match linux.process().is_sharing() {
        true => Box::new(Interpreter::new(Dispatch::Threaded)),
        false => (engine.make)(),
    };
    run(&mut *engine, &mut linux, &mut vcpu, Limit::None)
}

fn engine_named(name: &str) -> &'static EngineUnderTest {
    ENGINES.iter().find(|e| e.name == name).unwrap_or_else(|| fail("unknown engine"))
}

fn fail(message: &str) -> ! {
    eprintln!("run-guest: {message}");
    exit(2)
}

fn main() {
    let mut args = std::env::args_os().skip(1);
    let me = std::env::current_exe().unwrap_or_else(|error| fail(&error.to_string()));
    let mut prefix = vec![me.into_os_string()];
    let mut options = LinuxOptions { model: CpuModel::Ev67, ..LinuxOptions::default() };
    let mut argv0 = None;
    let mut engine = engine_named("interp");
    let program = loop {
        let Some(arg) = args.next() else { fail("no program") };
        let mut value = || args.next().unwrap_or_else(|| fail("an option lacks its value"));
        match arg.to_str() {
            Some("-L") => {
                let root = value();
                prefix.extend(["-L".into(), root.clone()]);
                options.sysroot = Some(PathBuf::from(root));
            }
            Some("-0") => argv0 = Some(value()),
            Some("--cpu") => {
                let name = value();
                prefix.extend(["--cpu".into(), name.clone()]);
                let model = name.to_str().and_then(CpuModel::from_name);
                options.model = model.unwrap_or_else(|| fail("unknown CPU model"));
            }
            Some("--engine") => {
                let name = value();
                prefix.extend(["--engine".into(), name.clone()]);
                engine = engine_named(&name.to_string_lossy());
            }
            Some("--based") => options.based = true,
            Some("--strace") => {
                prefix.push("--strace".into());
                options.strace = Some(Arc::new(|line| eprintln!("{line}")));
            }
            _ => break arg,
        }
    };
    options.exec_prefix = prefix;
    options.runner = Some(Arc::new(|vcpu, linux| {
        run_thread(engine, vcpu, linux);
    }));
    let mut argv: Vec<OsString> = vec![argv0.unwrap_or_else(|| program.clone())];
    argv.extend(args);
    let envp: Vec<OsString> = std::env::vars_os()
        .map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            name
        })
        .collect();
    // A thread without a guest that does not block signals: they must not get lost in it, though they
    // come later than kill() promises.
    if std::env::var_os("RUN_GUEST_IDLE_THREAD").is_some() {
        std::thread::spawn(|| {
            loop {
                std::thread::park();
            }
        });
    }
    let (linux, vcpu) = Linux::load(&PathBuf::from(&program), &argv, &envp, options)
        .unwrap_or_else(|error| fail(&error.to_string()));
    let process = linux.process().clone();
    let outcome = run_thread(engine, vcpu, linux);
    for (name, count) in process.unknown_calls() {
        eprintln!("run-guest: {name}: not implemented, called {count} times");
    }
    match outcome {
        Outcome::Exited(status) => exit(status),
        Outcome::Signalled { signal, pc, addr } => {
            eprintln!("run-guest: {} at pc {pc:#x}, address {addr:#x}", signal_name(signal));
            axp_emu::linux::die_by_signal(signal_to_host(signal))
        }
        Outcome::LimitReached => fail("instruction limit"),
    }
}
