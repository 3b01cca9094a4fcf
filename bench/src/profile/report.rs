//! A profile as text: functions, access modes, and why engines stopped; `blocks` adds the hottest blocks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};
use std::sync::Arc;

use axp_emu::machine::{MODES, Mode};
use axp_emu::mem::AddressSpace;
use axp_jit::profile::HostCode;
use comfy_table::{CellAlignment, Table, presets};

use super::{Frame, Profile, Tier, blocks, mode_name};
use crate::symbols::Symbols;

/// How much is shown.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Functions.
    pub functions: usize,
    /// Blocks.
    pub blocks: usize,
}

/// Time by guest instruction and the translation of it that executed, by where that begins.
pub(super) type Pieces = BTreeMap<(Frame, u64), u64>;

/// Time of one function or block, by tier.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Time {
    pub tiers: [u64; 5],
    samples: u64,
}

impl Time {
    fn add(&mut self, tier: Tier, weight: u64) {
        self.tiers[tier as usize] += weight;
        self.samples += 1;
    }

    pub fn total(&self) -> u64 {
        self.tiers.iter().sum()
    }
}

pub(super) fn percent(part: u64, all: u64) -> String {
    format!("{:.1}", 100.0 * part as f64 / all.max(1) as f64)
}

/// Writes the report.
pub fn write(
    out: &mut dyn Write,
    profile: &Profile,
    mem: &AddressSpace,
    code: &[Arc<HostCode>],
    sizes: Sizes,
) -> io::Result<()> {
    let symbols = &profile.symbols;
    let mut functions: HashMap<Function, (Time, u64)> = HashMap::new();
    let mut all = Time::default();
    let mut pcs: BTreeMap<Frame, Time> = BTreeMap::new();
    let mut pieces = Pieces::new();
    for sample in profile.samples() {
        all.add(sample.tier, sample.weight);
        let Some(&frame) = sample.stack.first() else { continue };
        functions.entry(function(symbols, frame)).or_default().0.add(sample.tier, sample.weight);
        if matches!(sample.tier, Tier::Opt | Tier::Baseline | Tier::Interpreter) {
            pcs.entry(frame).or_default().add(sample.tier, sample.weight);
            *pieces.entry((frame, sample.code)).or_default() += sample.weight;
        }
        // With callees: once for each function that is on the stack.
        let on_stack: BTreeSet<_> =
            sample.stack.iter().map(|&frame| function(symbols, frame)).collect();
        for function in on_stack {
            functions.entry(function).or_default().1 += sample.weight;
        }
    }
    let total = all.total();
    writeln!(
        out,
        "{} samples of {} threads, {:.3} s of CPU time",
        all.samples,
        profile.threads.len(),
        total as f64 / 1e9
    )?;
    if all.samples == 0 {
        return writeln!(out, "the program ended before the first sample was due");
    }
    if profile.machine {
        modes(out, profile, total)?;
    }
    let mut header = vec!["self %", "total %"];
    header.extend(Tier::ALL.map(|tier| profile.tier_name(tier)));
    header.extend(profile.machine.then_some("mode"));
    header.extend(["function", "file"]);
    let mut table = new_table(&header);
    let mut rows: Vec<_> = functions.into_iter().collect();
    rows.sort_by(|a, b| (b.1.0.total(), b.1.1, &a.0).cmp(&(a.1.0.total(), a.1.1, &b.0)));
    for ((function, file, mode), (own, with_callees)) in rows.iter().take(sizes.functions) {
        let mut row = vec![percent(own.total(), total), percent(*with_callees, total)];
        row.extend(Tier::ALL.map(|tier| percent(own.tiers[tier as usize], total)));
        row.extend(profile.machine.then(|| mode_name(*mode).to_owned()));
        row.extend([function.clone(), file.clone()]);
        table.add_row(row);
    }
    let mut row = vec!["100.0".to_owned(), String::new()];
    row.extend(Tier::ALL.map(|tier| percent(all.tiers[tier as usize], total)));
    row.extend(profile.machine.then(String::new));
    row.extend(["(all)".to_owned(), String::new()]);
    table.add_row(row);
    align(&mut table, 7);
    writeln!(out, "\n{table}")?;
    stops(out, profile)?;
    let times = blocks::Times { pcs: &pcs, pieces: &pieces, total };
    blocks::write(out, times, symbols, mem, code, sizes.blocks)
}

/// Each mode's share; PALcode and the translator work in none.
fn modes(out: &mut dyn Write, profile: &Profile, total: u64) -> io::Result<()> {
    let there = |mode: &usize| !profile.two_modes || matches!(mode, 0 | 3);
    let modes = (0..MODES.len()).filter(there).map(|mode| (MODES[mode], 0));
    let mut shares: Vec<(&str, u64)> = modes.collect();
    let phases = [Tier::System, Tier::Translation];
    shares.extend(phases.map(|tier| (profile.tier_name(tier), 0)));
    for sample in profile.samples() {
        let name = match sample.stack.first() {
            Some(frame) if !phases.contains(&sample.tier) => mode_name(frame.mode),
            _ => profile.tier_name(sample.tier),
        };
        if let Some((_, share)) = shares.iter_mut().find(|(known, _)| *known == name) {
            *share += sample.weight;
        }
    }
    let text: Vec<String> =
        shares.iter().map(|(name, share)| format!("{name} {} %", percent(*share, total))).collect();
    writeln!(out, "{}", text.join(", "))
}

fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    table
}

/// Aligns the first `columns` to the right.
fn align(table: &mut Table, columns: usize) {
    for column in table.column_iter_mut().take(columns) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// A function by name, file and mode.
type Function = (String, String, Option<Mode>);

fn function(symbols: &Symbols, frame: Frame) -> Function {
    let (name, file) = match symbols.find(frame.pc) {
        Some(place) if place.function.is_empty() => ("(no symbol)", place.file),
        Some(place) => (place.function, place.file),
        None => ("(unknown)", ""),
    };
    (name.into(), file.into(), frame.mode)
}

fn stops(out: &mut dyn Write, profile: &Profile) -> io::Result<()> {
    let mut all: BTreeMap<&str, super::Stops> = BTreeMap::new();
    for (kind, stops) in profile.threads.iter().flat_map(|t| &t.stops) {
        let sum = all.entry(kind).or_default();
        sum.count += stops.count;
        sum.time += stops.time;
    }
    let mut rows: Vec<_> = all.into_iter().collect();
    rows.sort_by_key(|(_, stops)| std::cmp::Reverse(stops.time));
    let what =
        if profile.machine { "PALcode and other events" } else { "why compiled code was left" };
    let mut table = new_table(&["times", "ms", what]);
    for (kind, stops) in rows {
        let ms = format!("{:.1}", stops.time.as_secs_f64() * 1e3);
        table.add_row([stops.count.to_string(), ms, kind.to_owned()]);
    }
    align(&mut table, 2);
    writeln!(out, "\n{table}")
}
