//! A profile as files for other tools: a flame graph, the Firefox Profiler, Linux perf.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axp_emu::machine::MODES;
use axp_jit::profile::{HostCode, show_to_perf};
use fxprof_processed_profile as fx;
use inferno::flamegraph;

use super::{Frame, Profile, Sample, Tier, mode_name};
use crate::symbols::Symbols;

/// What a frame is called.
fn frame_name(symbols: &Symbols, frame: Frame) -> String {
    let name = match symbols.find(frame.pc) {
        Some(place) if place.function.is_empty() => format!("[{}]", place.file),
        Some(place) => place.function.to_owned(),
        None => "[unknown]".to_owned(),
    };
    match frame.mode {
        Some(_) => format!("{name} [{}]", mode_name(frame.mode)),
        None => name,
    }
}

/// Frames from the outermost in; time that is not the guest's own has one of its own.
fn frames(profile: &Profile, sample: &Sample) -> Vec<String> {
    let mut names: Vec<String> =
        sample.stack.iter().rev().map(|&frame| frame_name(&profile.symbols, frame)).collect();
    match sample.tier {
        Tier::System if profile.machine => names.push(format!("[PALcode {}]", sample.event)),
        Tier::System | Tier::Translation => names.push(format!("[{}]", sample.tier.name())),
        _ => {}
    }
    names
}

/// Writes a flame graph as SVG; widths are microseconds of CPU time.
pub fn flame_graph(path: &Path, title: &str, profile: &Profile) -> anyhow::Result<()> {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for sample in profile.samples() {
        // A semicolon separates frames, a blank comes before the number.
        let clean = |name: String| name.replace(';', ":").replace(' ', "_");
        let stack: Vec<String> = frames(profile, sample).into_iter().map(clean).collect();
        *stacks.entry(stack.join(";")).or_default() += sample.weight.div_ceil(1000);
    }
    let lines: Vec<String> = stacks.iter().map(|(stack, time)| format!("{stack} {time}")).collect();
    let mut options = flamegraph::Options::default();
    title.clone_into(&mut options.title);
    "us".clone_into(&mut options.count_name);
    let mut out = BufWriter::new(File::create(path)?);
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut out)?;
    Ok(out.flush()?)
}

/// Writes a profile that profiler.firefox.com opens (Load a profile from file).
pub fn firefox(
    path: &Path,
    program: &str,
    interval: u64,
    elapsed: Duration,
    collected: &Profile,
) -> anyhow::Result<()> {
    let start = SystemTime::now() - elapsed;
    let every = fx::SamplingInterval::from_nanos(interval);
    let mut profile = fx::Profile::new(program, start.into(), every);
    profile.set_symbolicated(true);
    let stamp = fx::Timestamp::from_nanos_since_reference;
    let pid = std::process::id();
    let process = profile.add_process(program, pid, stamp(0));
    profile.set_process_end_time(process, stamp(elapsed.as_nanos() as u64));
    let colors = [
        fx::CategoryColor::Green,
        fx::CategoryColor::Yellow,
        fx::CategoryColor::Orange,
        fx::CategoryColor::Purple,
        fx::CategoryColor::Blue,
    ];
    // A tier is a category, and each mode in it a subcategory.
    let mut categories = Vec::new();
    for (tier, color) in Tier::ALL.into_iter().zip(colors) {
        let category = profile.add_category(collected.tier_name(tier), color);
        categories.push((category, MODES.map(|mode| profile.add_subcategory(category, mode))));
    }
    for thread in &collected.threads {
        let is_main = thread.tid as u32 == pid;
        let handle = profile.add_thread(process, thread.tid as u32, stamp(0), is_main);
        profile.set_thread_name(handle, if is_main { "main" } else { "thread" });
        for sample in &thread.samples {
            let (category, by_mode) = &categories[sample.tier as usize];
            let mode = sample.stack.first().and_then(|frame| frame.mode);
            let category = mode.map_or((*category).into(), |mode| by_mode[(mode & 3) as usize]);
            let mut stack = None;
            for name in frames(collected, sample) {
                let frame = fx::Frame::Label(profile.intern_string(&name));
                let flags = fx::FrameFlags::empty();
                let info = fx::FrameInfo { frame, category_pair: category, flags };
                let frame = profile.intern_frame(handle, info);
                stack = Some(profile.intern_stack(handle, stack, frame));
            }
            let delta = fx::CpuDelta::from_nanos(sample.weight);
            profile.add_sample(handle, stamp(sample.at), stack, delta, 1);
        }
    }
    let mut out = BufWriter::new(File::create(path)?);
    serde_json::to_writer(&mut out, &profile)?;
    Ok(out.flush()?)
}

fn code_name(symbols: &Symbols, code: &HostCode) -> String {
    let mode = code.mode.map(|_| format!(", {}", mode_name(code.mode))).unwrap_or_default();
    format!("{} [{}{mode}]", symbols.describe(code.guest), code.tier)
}

/// Writes `/tmp/perf-PID.map`, where `perf report` looks for names of code that is in no file.
pub fn perf_map(code: &[Arc<HostCode>], symbols: &Symbols) -> io::Result<PathBuf> {
    let path = PathBuf::from(format!("/tmp/perf-{}.map", std::process::id()));
    let mut out = BufWriter::new(File::create(&path)?);
    for code in code {
        let name = code_name(symbols, code);
        writeln!(out, "{:x} {:x} {name}", code.start, code.bytes.len())?;
    }
    out.flush()?;
    Ok(path)
}

/// A jitdump file, which `perf inject --jit` reads: begun before the guest runs, so that `perf record`
/// sees it, and filled when it has ended.
#[derive(Debug)]
pub struct JitDump {
    file: File,
    /// Where it is.
    pub path: PathBuf,
}

/// "JiTD", as a longword.
const MAGIC: u32 = 0x4a69_5444;
const X86_64: u32 = 62;
const HEADER: u32 = 40;
/// Bytes of a JIT_CODE_LOAD record before the name.
const LOAD: usize = 56;

impl JitDump {
    /// Makes `jit-PID.dump` in `dir`.
    pub fn begin(dir: &Path) -> io::Result<JitDump> {
        let path = dir.join(format!("jit-{}.dump", std::process::id()));
        let mut file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        let mut header = Vec::new();
        for word in [MAGIC, 1, HEADER, X86_64, 0, std::process::id()] {
            header.extend(word.to_le_bytes());
        }
        header.extend([0; 16]);
        file.write_all(&header)?;
        show_to_perf(&file)?;
        Ok(JitDump { file, path })
    }

    /// Writes what code there was, with the time at which it was made.
    pub fn finish(self, code: &[Arc<HostCode>], symbols: &Symbols) -> io::Result<()> {
        let pid = std::process::id();
        let mut out = BufWriter::new(self.file);
        let mut by_time: Vec<&Arc<HostCode>> = code.iter().collect();
        by_time.sort_by_key(|code| code.made);
        for (i, code) in by_time.into_iter().enumerate() {
            let name = code_name(symbols, code);
            let size = LOAD + name.len() + 1 + code.bytes.len();
            out.write_all(&0u32.to_le_bytes())?;
            out.write_all(&(size as u32).to_le_bytes())?;
            out.write_all(&code.made.to_le_bytes())?;
            out.write_all(&pid.to_le_bytes())?;
            out.write_all(&pid.to_le_bytes())?;
            for word in [code.start, code.start, code.bytes.len() as u64, i as u64] {
                out.write_all(&word.to_le_bytes())?;
            }
            out.write_all(name.as_bytes())?;
            out.write_all(&[0])?;
            out.write_all(&code.bytes)?;
        }
        out.flush()
    }
}
