//! A profile as text: functions, why engines stopped, and the hottest blocks with the host code made
//! from them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

use axp_emu::isa::{Kind, decode, disasm};
use axp_emu::mem::AddressSpace;
use axp_jit::profile::HostCode;
use comfy_table::{CellAlignment, Table, presets};
use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter};

use super::{ThreadProfile, Tier};
use crate::symbols::Symbols;

/// How much is shown.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Functions.
    pub functions: usize,
    /// Blocks.
    pub blocks: usize,
}

/// Time of one function or block, by tier.
#[derive(Clone, Copy, Debug, Default)]
struct Time {
    tiers: [u64; 5],
    samples: u64,
}

impl Time {
    fn add(&mut self, tier: Tier, weight: u64) {
        self.tiers[tier as usize] += weight;
        self.samples += 1;
    }

    fn total(&self) -> u64 {
        self.tiers.iter().sum()
    }
}

fn percent(part: u64, all: u64) -> String {
    format!("{:.1}", 100.0 * part as f64 / all.max(1) as f64)
}

/// Writes the report.
pub fn write(
    out: &mut dyn Write,
    threads: &[ThreadProfile],
    symbols: &Symbols,
    mem: &AddressSpace,
    code: &[std::sync::Arc<HostCode>],
    sizes: Sizes,
) -> io::Result<()> {
    let mut functions: HashMap<(String, String), (Time, u64)> = HashMap::new();
    let mut all = Time::default();
    let mut pcs: BTreeMap<u64, Time> = BTreeMap::new();
    for sample in threads.iter().flat_map(|t| &t.samples) {
        all.add(sample.tier, sample.weight);
        let Some(&pc) = sample.stack.first() else { continue };
        functions.entry(name(symbols, pc)).or_default().0.add(sample.tier, sample.weight);
        if matches!(sample.tier, Tier::Opt | Tier::Baseline | Tier::Interpreter) {
            pcs.entry(pc).or_default().add(sample.tier, sample.weight);
        }
        // With callees: once for each function that is on the stack.
        let on_stack: BTreeSet<_> = sample.stack.iter().map(|&pc| name(symbols, pc)).collect();
        for function in on_stack {
            functions.entry(function).or_default().1 += sample.weight;
        }
    }
    let total = all.total();
    writeln!(
        out,
        "{} samples of {} threads, {:.3} s of CPU time",
        all.samples,
        threads.len(),
        total as f64 / 1e9
    )?;
    if all.samples == 0 {
        return writeln!(out, "the program ended before the first sample was due");
    }
    let mut table = new_table(&[
        "self %",
        "total %",
        "opt",
        "baseline",
        "interp",
        "translate",
        "system",
        "function",
        "file",
    ]);
    let mut rows: Vec<_> = functions.into_iter().collect();
    rows.sort_by(|a, b| (b.1.0.total(), b.1.1, &a.0).cmp(&(a.1.0.total(), a.1.1, &b.0)));
    for ((function, file), (own, with_callees)) in rows.iter().take(sizes.functions) {
        let mut row = vec![percent(own.total(), total), percent(*with_callees, total)];
        row.extend(Tier::ALL.map(|tier| percent(own.tiers[tier as usize], total)));
        row.extend([function.clone(), file.clone()]);
        table.add_row(row);
    }
    let mut row = vec!["100.0".to_owned(), String::new()];
    row.extend(Tier::ALL.map(|tier| percent(all.tiers[tier as usize], total)));
    row.extend(["(all)".to_owned(), String::new()]);
    table.add_row(row);
    align(&mut table, 7);
    writeln!(out, "\n{table}")?;
    stops(out, threads)?;
    blocks(out, &pcs, symbols, mem, code, total, sizes.blocks)
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

fn name(symbols: &Symbols, pc: u64) -> (String, String) {
    match symbols.find(pc) {
        Some(place) if place.function.is_empty() => ("(no symbol)".into(), place.file.into()),
        Some(place) => (place.function.into(), place.file.into()),
        None => ("(unknown)".into(), String::new()),
    }
}

fn stops(out: &mut dyn Write, threads: &[ThreadProfile]) -> io::Result<()> {
    let mut all: BTreeMap<&str, super::Stops> = BTreeMap::new();
    for (kind, stops) in threads.iter().flat_map(|t| &t.stops) {
        let sum = all.entry(kind).or_default();
        sum.count += stops.count;
        sum.time += stops.time;
    }
    let mut rows: Vec<_> = all.into_iter().collect();
    rows.sort_by_key(|(_, stops)| std::cmp::Reverse(stops.time));
    let mut table = new_table(&["times", "ms", "why compiled code was left"]);
    for (kind, stops) in rows {
        let ms = format!("{:.1}", stops.time.as_secs_f64() * 1e3);
        table.add_row([stops.count.to_string(), ms, kind.to_owned()]);
    }
    align(&mut table, 2);
    writeln!(out, "\n{table}")
}

/// Where basic blocks of a function begin.
fn leaders(mem: &AddressSpace, start: u64, end: u64) -> BTreeSet<u64> {
    let mut found = BTreeSet::from([start]);
    let mut pc = start;
    while pc < end {
        let insn = mem.fetch_u32(pc).ok().and_then(decode);
        if let Some(insn) = insn {
            let kind = insn.op.kind();
            let direct = kind == Kind::Branch || kind.is_cond_branch();
            if direct {
                found.insert(insn.branch_target(pc));
            }
            if direct || kind == Kind::Jump {
                found.insert(pc.wrapping_add(4));
            }
        }
        pc += 4;
    }
    found
}

/// Host instructions that are shown of one of the guest's from either end.
const HOST_LINES: usize = 8;

/// The longest function that is cut into blocks.
const LONG: u64 = 1 << 16;

fn blocks(
    out: &mut dyn Write,
    pcs: &BTreeMap<u64, Time>,
    symbols: &Symbols,
    mem: &AddressSpace,
    code: &[std::sync::Arc<HostCode>],
    total: u64,
    count: usize,
) -> io::Result<()> {
    let mut heads: HashMap<u64, BTreeSet<u64>> = HashMap::new();
    let mut blocks: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for (&pc, time) in pcs {
        let (start, end) = match symbols.find(pc) {
            Some(place) if !place.function.is_empty() => {
                (place.start, place.end.min(place.start + LONG))
            }
            _ => (pc, pc + 4),
        };
        let heads = heads.entry(start).or_insert_with(|| leaders(mem, start, end));
        let from = heads.range(..=pc).next_back().copied().unwrap_or(pc);
        let to = heads.range(pc + 4..).next().copied().unwrap_or(end).max(pc + 4);
        *blocks.entry((from, to)).or_default() += time.total();
    }
    let mut hottest: Vec<_> = blocks.into_iter().collect();
    hottest.sort_by_key(|&((from, _), time)| (std::cmp::Reverse(time), from));
    for ((from, to), time) in hottest.into_iter().take(count) {
        writeln!(out, "\n{} %  {from:x}  {}", percent(time, total), symbols.describe(from))?;
        let host = host_code(code, pcs, from, to);
        for pc in (from..to).step_by(4).take(200) {
            let share = pcs.get(&pc).map(|t| percent(t.total(), total)).unwrap_or_default();
            let text = match mem.fetch_u32(pc) {
                Ok(word) => disasm(word, pc).to_string().replace('\t', " "),
                Err(_) => "(not mapped)".to_owned(),
            };
            let mut lines = host.get(&pc).into_iter().flatten();
            let first = lines.next().map_or("", String::as_str);
            writeln!(out, "{share:>6} {pc:12x}  {text:<34}| {first}")?;
            let rest: Vec<&String> = lines.collect();
            // A call writes many registers back; its beginning and its end say what it does.
            let cut = rest.len().saturating_sub(2 * HOST_LINES);
            for (i, line) in rest.iter().enumerate() {
                if cut > 0 && (HOST_LINES..HOST_LINES + cut).contains(&i) {
                    if i == HOST_LINES {
                        writeln!(out, "{:>6} {:12}  {:<34}| ... {cut} more", "", "", "")?;
                    }
                    continue;
                }
                writeln!(out, "{:>6} {:12}  {:<34}| {line}", "", "", "")?;
            }
        }
    }
    Ok(())
}

/// Host code of the guest instructions in a range: the best tier's, in the unit that has most of it.
fn host_code(
    code: &[std::sync::Arc<HostCode>],
    pcs: &BTreeMap<u64, Time>,
    from: u64,
    to: u64,
) -> HashMap<u64, Vec<String>> {
    let opt: u64 = pcs.range(from..to).map(|(_, t)| t.tiers[Tier::Opt as usize]).sum();
    let baseline: u64 = pcs.range(from..to).map(|(_, t)| t.tiers[Tier::Baseline as usize]).sum();
    let tier = if opt >= baseline { "opt" } else { "baseline" };
    let inside = |c: &HostCode| c.marks.iter().filter(|m| (from..to).contains(&m.1)).count();
    let best = code.iter().filter(|c| c.tier == tier).max_by_key(|c| inside(c));
    let mut lines: HashMap<u64, Vec<String>> = HashMap::new();
    let Some(best) = best.filter(|c| opt + baseline > 0 && inside(c) > 0) else { return lines };
    let mut decoder = Decoder::with_ip(64, &best.bytes, best.start, DecoderOptions::NONE);
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_space_after_operand_separator(true);
    formatter.options_mut().set_hex_prefix("0x");
    formatter.options_mut().set_hex_suffix("");
    formatter.options_mut().set_branch_leading_zeros(false);
    formatter.options_mut().set_uppercase_hex(false);
    let mut insn = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut insn);
        let pc = best.guest_pc(insn.ip());
        // What comes before the first instruction's code is the way in.
        let inside = best.marks.first().is_some_and(|m| insn.ip() >= best.start + u64::from(m.0));
        if inside && (from..to).contains(&pc) {
            let mut text = String::new();
            formatter.format(&insn, &mut text);
            lines.entry(pc).or_default().push(text);
        }
    }
    lines
}
