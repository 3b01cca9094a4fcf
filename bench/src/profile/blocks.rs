//! The hottest blocks of a profile, guest instructions beside the host code made from them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};
use std::sync::Arc;

use axp_emu::isa::{Kind, Vms, decode, disasm};
use axp_emu::machine::Mode;
use axp_emu::mem::AddressSpace;
use axp_jit::profile::HostCode;
use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter};

use super::report::{Pieces, Time, percent};
use super::stack::word;
use super::{Frame, mode_name};
use crate::symbols::Symbols;

/// Where basic blocks of a function begin.
fn leaders(mem: &AddressSpace, start: u64, end: u64) -> BTreeSet<u64> {
    let mut found = BTreeSet::from([start]);
    let mut pc = start;
    while pc < end {
        let insn = word(mem, pc).and_then(decode);
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

/// What is known of the time of instructions.
#[derive(Clone, Copy)]
pub struct Times<'a> {
    /// By tier.
    pub pcs: &'a BTreeMap<Frame, Time>,
    /// By translation.
    pub pieces: &'a Pieces,
    /// All of it.
    pub total: u64,
}

/// Writes the `count` hottest blocks.
pub fn write(
    out: &mut dyn Write,
    times: Times<'_>,
    symbols: &Symbols,
    mem: &AddressSpace,
    code: &[Arc<HostCode>],
    count: usize,
) -> io::Result<()> {
    let Times { pcs, total, .. } = times;
    let mut heads: HashMap<u64, BTreeSet<u64>> = HashMap::new();
    let mut blocks: BTreeMap<(u64, u64, Option<Mode>), u64> = BTreeMap::new();
    for (&Frame { pc, mode }, time) in pcs {
        let (start, end) = match symbols.find(pc) {
            Some(place) if !place.function.is_empty() => {
                (place.start, place.end.min(place.start + LONG))
            }
            _ => (pc, pc + 4),
        };
        let heads = heads.entry(start).or_insert_with(|| leaders(mem, start, end));
        let from = heads.range(..=pc).next_back().copied().unwrap_or(pc);
        let to = heads.range(pc + 4..).next().copied().unwrap_or(end).max(pc + 4);
        *blocks.entry((from, to, mode)).or_default() += time.total();
    }
    let mut hottest: Vec<_> = blocks.into_iter().collect();
    hottest.sort_by_key(|&((from, ..), time)| (std::cmp::Reverse(time), from));
    for ((from, to, mode), time) in hottest.into_iter().take(count) {
        let tag = mode.map(|_| format!(" [{}]", mode_name(mode))).unwrap_or_default();
        let name = symbols.describe(from);
        writeln!(out, "\n{} %  {from:x}  {name}{tag}", percent(time, total))?;
        let host = host_code(code, times.pieces, from, to, mode);
        for pc in (from..to).step_by(4).take(200) {
            let share =
                pcs.get(&Frame { pc, mode }).map(|t| percent(t.total(), total)).unwrap_or_default();
            let text = match word(mem, pc) {
                Some(word) => text(word, pc, mode),
                None => "(not mapped)".to_owned(),
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

/// A guest instruction; the disassembler names calls of PALcode as Linux does.
fn text(word: u32, pc: u64, mode: Option<Mode>) -> String {
    match Vms::from_code(word).filter(|_| mode.is_some()) {
        Some(call) => format!("call_pal {}", call.name()),
        None => disasm(word, pc).to_string().replace('\t', " "),
    }
}

/// Host code of the guest instructions in a range: of several translations the one that took most time.
fn host_code(
    code: &[Arc<HostCode>],
    pieces: &Pieces,
    from: u64,
    to: u64,
    mode: Option<Mode>,
) -> HashMap<u64, Vec<String>> {
    let first = |pc| (Frame { pc, mode: None }, 0);
    let mut spent: HashMap<u64, u64> = HashMap::new();
    for ((frame, start), time) in pieces.range(first(from)..first(to)) {
        if frame.mode == mode && *start != 0 {
            *spent.entry(*start).or_default() += time;
        }
    }
    let time = |c: &HostCode| spent.get(&c.start).copied().unwrap_or(0);
    let inside = |c: &HostCode| c.marks.iter().any(|m| (from..to).contains(&m.1));
    let best = code.iter().filter(|c| time(c) > 0 && c.mode == mode && inside(c));
    let mut lines: HashMap<u64, Vec<String>> = HashMap::new();
    let Some(best) = best.max_by_key(|c| time(c)) else { return lines };
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
