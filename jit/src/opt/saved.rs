//! Regions as records of a [`Library`](crate::cache::Library): the guest's code, the host's, and what
//! else is known of it.
//!
//! The guest's words are written down in full and are compared before the host's code is used: a hash
//! could be met by other code of somebody who means to.

use axp_emu::cpu::Vcpu;
use axp_emu::isa::{Insn, Opcode, decode};

use super::compile::Output;
use super::emit::Mode;
use super::merged::Merged;
use super::symbols::{HostFn, Relocation, Symbol};
use super::{compile, regions};
use crate::cache::{Reader, Writer};
use crate::divide;
use crate::region::{Region, Term};

/// What is known of a region once it is compiled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shape {
    /// Where it is entered.
    pub entry: u64,
    /// Guest blocks, for counts at faults: start, end, whether they belong to a leaf that was taken in.
    pub blocks: Vec<(u64, u64, bool)>,
    /// As [`Region::calls`].
    pub calls: Vec<(u64, Option<u64>)>,
}

impl Shape {
    /// The shape of a region.
    pub fn of(region: &Region) -> Self {
        Shape {
            entry: region.entry(),
            blocks: region.blocks.iter().map(|b| (b.pc, b.end(), b.inlined)).collect(),
            calls: region.calls().collect(),
        }
    }

    /// Those that count as covered by it (`cover`).
    pub fn covered(&self) -> Vec<(u64, u64)> {
        self.blocks.iter().filter(|b| !b.2).map(|&(start, end, _)| (start, end)).collect()
    }

    /// Number of guest instructions.
    pub fn len(&self) -> u64 {
        self.blocks.iter().map(|b| (b.1 - b.0) / 4).sum()
    }
}

/// Guest code: where it starts, and its words.
pub type Words = Vec<(u64, Vec<u32>)>;

/// A region that was compiled before.
#[derive(Debug)]
pub struct Saved {
    pub words: Words,
    pub shape: Shape,
    pub output: Output,
}

/// The words that a region was made from, if they are still there: what is written down must be what
/// the translation was made from, whatever other threads do meanwhile.
pub fn words_of(vcpu: &Vcpu, region: &Region) -> Option<Words> {
    let words: Words = region
        .ranges()
        .into_iter()
        .map(|(start, end)| {
            let mut words = vec![0; (end - start) as usize / 4];
            (regions::fetch(vcpu, start, &mut words) == words.len()).then_some((start, words))
        })
        .collect::<Option<_>>()?;
    let made_from = |block: &crate::region::Block| {
        let mut places = (block.pc..).step_by(4).zip(&block.insns);
        let same = places.all(|(pc, insn)| word(&words, pc).and_then(decode) == Some(*insn));
        let division = block.division.is_none_or(|division| {
            divide::recognise(division.entry, |pc| word(&words, pc)) == Some(division)
        });
        let pal = match block.term {
            Term::Pal(code) => word(&words, block.end())
                .and_then(decode)
                .is_some_and(|insn| insn.op == Opcode::CallPal && insn.imm as u32 == code),
            _ => true,
        };
        same && division && pal
    };
    region.blocks.iter().all(made_from).then_some(words)
}

fn word(words: &Words, pc: u64) -> Option<u32> {
    let at = words.partition_point(|(start, _)| *start <= pc).checked_sub(1)?;
    let (start, words) = &words[at];
    words.get((pc - start) as usize / 4).copied()
}

impl Saved {
    /// A record.
    pub fn encode(words: &Words, shape: &Shape, output: &Output) -> Vec<u8> {
        let mut w = Writer::default();
        w.number(shape.entry);
        w.number(words.len() as u64);
        for (start, words) in words {
            w.distance(shape.entry, *start);
            w.words(words);
        }
        w.number(shape.blocks.len() as u64);
        let mut last = shape.entry;
        for &(start, end, inlined) in &shape.blocks {
            w.distance(last, start);
            w.number(((end - start) / 4) << 1 | u64::from(inlined));
            last = end;
        }
        w.number(shape.calls.len() as u64);
        for &(pc, callee) in &shape.calls {
            w.distance(shape.entry, pc);
            w.number(callee.map_or(0, |_| 1));
            w.distance(pc, callee.unwrap_or(pc));
        }
        w.bytes(&output.bytes);
        w.number(output.align as u64);
        w.number(output.anchor as u64);
        w.number(output.relocations.len() as u64);
        let mut last = 0;
        for relocation in &output.relocations {
            w.number(u64::from(relocation.at - last));
            w.number(u64::from(relocation.addend));
            encode_symbol(&mut w, shape.entry, relocation.symbol);
            last = relocation.at;
        }
        w.number(output.pcs.len() as u64);
        let (mut last, mut last_pc) = (0, shape.entry);
        for &(start, end, pc) in &output.pcs {
            w.distance(last, u64::from(start));
            w.number(u64::from(end - start));
            w.distance(last_pc, pc);
            (last, last_pc) = (u64::from(end), pc);
        }
        w.number(output.merged.len() as u64);
        for merged in &output.merged {
            let [pc, bytes, whose @ ..] = merged.to_numbers();
            w.distance(shape.entry, pc);
            w.number(bytes);
            whose.into_iter().for_each(|other| w.distance(pc, other));
        }
        w.number(output.kept.len() as u64);
        output.kept.iter().for_each(|insn| w.insn(insn));
        w.finish()
    }

    /// What a record holds, if the guest has the code that it was made from.
    pub fn fitting(record: &[u8], mode: Mode, vcpu: &Vcpu) -> Option<Saved> {
        Saved::decode(record, mode, |words| fits(words, vcpu))
    }

    /// What a record holds, if its words are right.
    fn decode(record: &[u8], mode: Mode, right: impl Fn(&Words) -> bool) -> Option<Saved> {
        let mut r = Reader(record);
        let entry = r.number()?;
        let words = r.list(|r| Some((r.distance(entry)?, r.words()?)))?;
        // Before the rest is read, which is much more.
        if !right(&words) {
            return None;
        }
        let mut last = entry;
        let blocks = r.list(|r| {
            let start = r.distance(last)?;
            let len = r.number()?;
            last = start.checked_add((len >> 1).checked_mul(4)?)?;
            Some((start, last, len & 1 != 0))
        })?;
        let calls = r.list(|r| {
            let pc = r.distance(entry)?;
            let known = r.number()? != 0;
            let callee = r.distance(pc)?;
            Some((pc, known.then_some(callee)))
        })?;
        let bytes = r.bytes()?.to_vec();
        let (align, anchor) = (r.small::<usize>()?, r.small::<usize>()?);
        if !align.is_power_of_two() || align > 4096 || anchor > bytes.len() {
            return None;
        }
        let mut last = 0;
        let relocations = r.list(|r| {
            let at = last + r.small::<u32>()?;
            let addend = r.small()?;
            last = at;
            Some(Relocation { at, symbol: decode_symbol(r, entry)?, addend })
        })?;
        let (mut last, mut last_pc) = (0, entry);
        let pcs: Vec<(u32, u32, u64)> = r.list(|r| {
            let start = r.distance(last)?;
            let end = start.checked_add(r.number()?)?;
            (last, last_pc) = (end, r.distance(last_pc)?);
            Some((u32::try_from(start).ok()?, u32::try_from(end).ok()?, last_pc))
        })?;
        let merged = r.list(|r| {
            let (pc, bytes) = (r.distance(entry)?, r.number()?);
            let whose = [r.distance(pc)?, r.distance(pc)?, r.distance(pc)?];
            Merged::from_numbers([pc, bytes, whose[0], whose[1], whose[2]])
        })?;
        let kept: Box<[Insn]> = r.list(Reader::insn)?.into();
        let inside = |relocation: &Relocation| {
            relocation.at as usize + 8 <= bytes.len()
                && match relocation.symbol {
                    Symbol::Kept(number) => (number as usize) < kept.len(),
                    _ => true,
                }
        };
        if !r.0.is_empty() || blocks.is_empty() || !relocations.iter().all(inside) {
            return None;
        }
        let insn_at = |pc| word(&words, pc).and_then(decode);
        let fp_sites = compile::fp_sites(&pcs, mode, insn_at);
        let output = Output { bytes, relocations, align, anchor, pcs, merged, fp_sites, kept };
        Some(Saved { words, shape: Shape { entry, blocks, calls }, output })
    }
}

/// Whether the guest has these words.
fn fits(words: &Words, vcpu: &Vcpu) -> bool {
    let mut there = Vec::new();
    words.iter().all(|(start, words)| {
        there.clear();
        there.resize(words.len(), 0);
        regions::fetch(vcpu, *start, &mut there) == words.len() && there == *words
    })
}

fn encode_symbol(w: &mut Writer, entry: u64, symbol: Symbol) {
    match symbol {
        Symbol::JumpCache => w.number(0),
        Symbol::Table => w.number(1),
        Symbol::Slot(pc) => {
            w.number(2);
            w.distance(entry, pc);
        }
        Symbol::Kept(number) => {
            w.number(3);
            w.number(u64::from(number));
        }
        Symbol::HostFn(function) => {
            let (number, op) = match function {
                HostFn::Unwind => (4, None),
                HostFn::Helper => (5, None),
                HostFn::Step => (6, None),
                HostFn::Fill => (7, None),
                HostFn::Probe => (8, None),
                HostFn::FindCode => (9, None),
                HostFn::Alu(op) => (10, Some(op)),
                HostFn::Fp(op) => (11, Some(op)),
            };
            w.number(number);
            op.into_iter().for_each(|op| w.number(op as u64));
        }
    }
}

fn decode_symbol(r: &mut Reader<'_>, entry: u64) -> Option<Symbol> {
    let op = |r: &mut Reader<'_>| Opcode::ALL.get(r.small::<usize>()?).copied();
    Some(match r.number()? {
        0 => Symbol::JumpCache,
        1 => Symbol::Table,
        2 => Symbol::Slot(r.distance(entry)?),
        3 => Symbol::Kept(r.small()?),
        4 => Symbol::HostFn(HostFn::Unwind),
        5 => Symbol::HostFn(HostFn::Helper),
        6 => Symbol::HostFn(HostFn::Step),
        7 => Symbol::HostFn(HostFn::Fill),
        8 => Symbol::HostFn(HostFn::Probe),
        9 => Symbol::HostFn(HostFn::FindCode),
        10 => Symbol::HostFn(HostFn::Alu(op(r)?)),
        11 => Symbol::HostFn(HostFn::Fp(op(r)?)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Words, Shape, Output) {
        let addt = 0x5be0_b40a;
        let words = vec![(0x1000, vec![0x4022_0003, addt, 1]), (0x2000, vec![7])];
        let shape = Shape {
            entry: 0x1000,
            blocks: vec![(0x1000, 0x1008, false), (0x2000, 0x2004, true)],
            calls: vec![(0x1004, None), (0x2000, Some(0x40))],
        };
        let symbols = [
            Symbol::JumpCache,
            Symbol::Table,
            Symbol::Slot(0x3000),
            Symbol::Kept(0),
            Symbol::HostFn(HostFn::Unwind),
            Symbol::HostFn(HostFn::Helper),
            Symbol::HostFn(HostFn::Step),
            Symbol::HostFn(HostFn::Fill),
            Symbol::HostFn(HostFn::Probe),
            Symbol::HostFn(HostFn::FindCode),
            Symbol::HostFn(HostFn::Alu(Opcode::Addl)),
            Symbol::HostFn(HostFn::Fp(Opcode::Addt)),
        ];
        let relocation =
            |(i, symbol)| Relocation { at: 8 * i as u32, symbol, addend: 3 * i as u32 };
        let output = Output {
            bytes: (0..100).collect(),
            relocations: symbols.into_iter().enumerate().map(relocation).collect(),
            align: 64,
            anchor: 9,
            pcs: vec![(0, 4, 0x1000), (4, 8, 0x1004), (20, 28, 0x1000)],
            merged: vec![
                Merged::datum(0x1000, 0x1004),
                Merged::pair([0x1000, 0x1004], [None, Some(0x1008)]),
            ],
            fp_sites: vec![(4, 8, decode(addt).expect("an instruction"))],
            kept: vec![decode(0x4022_0003).expect("addl")].into(),
        };
        (words, shape, output)
    }

    #[test]
    fn a_region_survives_its_record() {
        let (words, shape, output) = sample();
        let record = Saved::encode(&words, &shape, &output);
        let mode = Mode { unmasked: true, ..Mode::default() };
        let saved = Saved::decode(&record, mode, |_| true).expect("the record of a region");
        assert_eq!((&saved.words, &saved.shape), (&words, &shape));
        assert_eq!(format!("{:?}", saved.output), format!("{output:?}"));
        let masked = Saved::decode(&record, Mode::default(), |_| true).expect("the same");
        assert!(masked.output.fp_sites.is_empty());
        assert!(Saved::decode(&record, mode, |there| *there != words).is_none());
    }

    #[test]
    fn a_record_that_is_cut_off_or_lengthened_is_none() {
        let (words, shape, output) = sample();
        let mut record = Saved::encode(&words, &shape, &output);
        for len in 0..record.len() {
            assert!(
                Saved::decode(&record[..len], Mode::default(), |_| true).is_none(),
                "{len} bytes"
            );
        }
        record.push(0);
        assert!(Saved::decode(&record, Mode::default(), |_| true).is_none());
    }
}
