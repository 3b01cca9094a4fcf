//! Runs Linux programs on one engine and prints what it cost: `kernels ENGINE FILE [ARG]...`.

use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

use axp_emu::engine::{Engine, Limit, run};
use axp_emu::interp::{Dispatch, Interpreter};
use axp_emu::isa::CpuModel;
use axp_emu::linux::{Linux, LinuxOptions};
use axp_jit::baseline::Baseline;
use axp_jit::opt::Opt;

fn main() {
    let mut args = std::env::args_os().skip(1);
    let name = args.next().expect("an engine").into_string().expect("a name");
    let argv: Vec<OsString> = args.collect();
    // A second run in the same process shows what translation costs once the host's caches are warm.
    let runs = if std::env::var_os("WARM").is_some() { 3 } else { 1 };
    (0..runs).for_each(|_| once(&name, &argv));
}

fn once(name: &str, argv: &[OsString]) {
    let mut engine: Box<dyn Engine> = match name {
        "opt" => Box::new(Opt::new().expect("a supported host")),
        "baseline" => Box::new(Baseline::new().expect("a supported host")),
        "heat" => Box::new(Baseline::with_heat(1000).expect("a supported host")),
        _ => Box::new(Interpreter::new(Dispatch::Threaded)),
    };
    let counted = std::env::var_os("COUNT").is_some();
    let options = LinuxOptions {
        based: std::env::var_os("BASED").is_some() || std::env::var_os("WARM").is_some(),
        model: CpuModel::from_name("ev67").unwrap_or_default(),
        ..Default::default()
    };
    let (mut linux, mut vcpu) =
        Linux::load(Path::new(&argv[0]), argv, &[], options).expect("a program");
    let start = Instant::now();
    let limit = if counted { Limit::Count(u64::MAX) } else { Limit::None };
    let outcome = run(&mut *engine, &mut linux, &mut vcpu, limit);
    let seconds = start.elapsed().as_secs_f64();
    let stats = engine.stats();
    let n = stats.translated_instructions.max(1) as f64;
    eprintln!(
        "{name}: {outcome:?} {seconds:.3} s, {} insns, {} units of {n} insns, {:.3} us/insn, {:.1} B/insn",
        vcpu.cpu.count,
        stats.translations,
        stats.translate.as_secs_f64() * 1e6 / n,
        stats.code_bytes as f64 / n,
    );
}
