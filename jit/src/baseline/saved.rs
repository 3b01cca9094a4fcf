//! Units as records of a [`Library`](crate::cache::Library): the guest's code, the host's without addresses
//! and numbers of this engine, and what else it became.

use super::emit::{Parts, Patch, Relocation};
use super::links::Site;
use super::{Access, Place};
use crate::cache::{Reader, Writer};

/// What an engine has of its own in the code of its units.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Address of the unit's first byte.
    pub base: u64,
    /// Address of the arena's first byte, where the stubs are.
    pub arena: u64,
    /// Number of the unit's first place.
    pub place: u32,
    /// Number of its first site.
    pub site: u32,
}

/// A unit that was compiled before.
#[derive(Debug)]
pub struct Saved {
    pub words: Vec<u32>,
    pub code: Vec<u8>,
    pub parts: Parts,
    pub places: Vec<Place>,
}

/// Takes out of `code` what `origin` put in, or the other way round.
pub fn relocate(
    code: &mut [u8],
    relocations: &[Relocation],
    origin: Origin,
    out: bool,
    mut counter: impl FnMut(u64) -> u64,
) {
    for &Relocation { at, patch } in relocations {
        let at = at as usize;
        let own = match patch {
            Patch::Place => origin.place,
            Patch::Site => origin.site,
            // From the distance to the code behind to that from the arena's start, modulo 2^32.
            Patch::Stub => origin.arena.wrapping_sub(origin.base + at as u64 + 4) as u32,
            Patch::Counter(pc) => {
                let counter = if out { 0 } else { counter(pc) };
                code[at..at + 8].copy_from_slice(&counter.to_le_bytes());
                continue;
            }
        };
        let Some(field) = code[at..].first_chunk_mut::<4>() else { continue };
        let value = u32::from_le_bytes(*field);
        let value = if out { value.wrapping_sub(own) } else { value.wrapping_add(own) };
        *field = value.to_le_bytes();
    }
}

impl Saved {
    /// The record of a unit at `pc`; `code` is what [`relocate`] makes of its code.
    pub fn encode(pc: u64, words: &[u32], code: &[u8], parts: &Parts, places: &[Place]) -> Vec<u8> {
        let mut w = Writer::default();
        w.words(words);
        w.bytes(code);
        w.number(parts.entries.len() as u64);
        for &(entry, offset) in &parts.entries {
            w.distance(pc, entry);
            w.number(u64::from(offset));
        }
        w.number(parts.accesses.len() as u64);
        for access in &parts.accesses {
            let fields = [access.offset, access.index, access.after];
            fields.into_iter().for_each(|n| w.number(u64::from(n)));
        }
        w.number(parts.starts.len() as u64);
        parts.starts.iter().for_each(|&start| w.number(u64::from(start)));
        w.number(parts.sites.len() as u64);
        for site in &parts.sites {
            w.distance(pc, site.target);
            w.number(site.at);
            w.number(site.stub);
        }
        w.number(places.len() as u64);
        for place in places {
            w.distance(pc, place.pc);
            w.insn(&place.insn);
            w.number(u64::from(place.after));
        }
        w.number(parts.relocations.len() as u64);
        for relocation in &parts.relocations {
            w.number(u64::from(relocation.at));
            match relocation.patch {
                Patch::Place => w.number(0),
                Patch::Site => w.number(1),
                Patch::Stub => w.number(2),
                Patch::Counter(entry) => {
                    w.number(3);
                    w.distance(pc, entry);
                }
            }
        }
        w.finish()
    }

    /// What the record of a unit at `pc` holds.
    pub fn decode(pc: u64, record: &[u8]) -> Option<Saved> {
        let mut r = Reader(record);
        let words = r.words()?;
        let code = r.bytes()?.to_vec();
        let entries = r.list(|r| Some((r.distance(pc)?, r.small()?)))?;
        let accesses =
            r.list(|r| Some(Access { offset: r.small()?, index: r.small()?, after: r.small()? }))?;
        let starts = r.list(Reader::small)?;
        let sites =
            r.list(|r| Some(Site { target: r.distance(pc)?, at: r.number()?, stub: r.number()? }))?;
        let places =
            r.list(|r| Some(Place { pc: r.distance(pc)?, insn: r.insn()?, after: r.small()? }))?;
        let relocations = r.list(|r| {
            let at = r.small()?;
            let patch = match r.number()? {
                0 => Patch::Place,
                1 => Patch::Site,
                2 => Patch::Stub,
                3 => Patch::Counter(r.distance(pc)?),
                _ => return None,
            };
            Some(Relocation { at, patch })
        })?;
        let len = code.len();
        let inside = |relocation: &Relocation| {
            let width = if let Patch::Counter(_) = relocation.patch { 8 } else { 4 };
            relocation.at as usize + width <= len
        };
        let branches = |site: &Site| site.at + 4 <= len as u64 && site.stub < len as u64;
        let fine = relocations.iter().all(inside)
            && sites.iter().all(branches)
            && entries.iter().all(|&(_, offset): &(u64, u32)| (offset as usize) < len)
            && entries.first().is_some_and(|entry| entry.0 == pc)
            && !words.is_empty()
            && r.0.is_empty();
        let parts = Parts { entries, accesses, starts, sites, relocations, ..Parts::default() };
        fine.then_some(Saved { words, code, parts, places })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axp_emu::isa::decode;

    const PC: u64 = 0x1_2000_0000;

    fn sample() -> Saved {
        let patches =
            [Patch::Place, Patch::Site, Patch::Stub, Patch::Counter(PC), Patch::Counter(PC + 8)];
        let relocation = |(i, patch)| Relocation { at: 8 * i as u32, patch };
        let parts = Parts {
            entries: vec![(PC, 0), (PC + 8, 20)],
            accesses: vec![Access { offset: 3, index: 1, after: 2 }],
            starts: vec![0, 9, 20],
            sites: vec![Site { target: PC - 400, at: 30, stub: 44 }],
            relocations: patches.into_iter().enumerate().map(relocation).collect(),
            ..Parts::default()
        };
        let insn = decode(0x4022_0003).expect("addl");
        let places = vec![Place { pc: PC + 4, insn, after: 3 }];
        Saved { words: vec![0x4022_0003, 5, 6], code: (0..50).collect(), parts, places }
    }

    #[test]
    fn a_unit_survives_its_record() {
        let unit = sample();
        let record = Saved::encode(PC, &unit.words, &unit.code, &unit.parts, &unit.places);
        let again = Saved::decode(PC, &record).expect("the record of a unit");
        assert_eq!((&again.words, &again.code), (&unit.words, &unit.code));
        assert_eq!(again.parts.entries, unit.parts.entries);
        assert_eq!(again.parts.relocations, unit.parts.relocations);
        assert_eq!(format!("{:?}", again.places), format!("{:?}", unit.places));
        assert_eq!(format!("{:?}", again.parts.sites), format!("{:?}", unit.parts.sites));
        assert!(Saved::decode(PC + 4, &record).is_some(), "a record does not know its own pc");
        for len in 0..record.len() {
            assert!(Saved::decode(PC, &record[..len]).is_none(), "{len} bytes");
        }
    }

    #[test]
    fn what_is_an_engines_own_goes_out_and_comes_in() {
        let unit = sample();
        let one = Origin { base: 0x7f00_0000_1000, arena: 0x7f00_0000_0000, place: 100, site: 7 };
        let other = Origin { base: 0x5555_0000_2040, arena: 0x5555_0000_0000, place: 3, site: 900 };
        let mut code = unit.code.clone();
        code[24..40].fill(0);
        let neutral = code.clone();
        relocate(&mut code, &unit.parts.relocations, one, false, |pc| pc + 1);
        assert_eq!(code[24..32], (PC + 1).to_le_bytes());
        let first = code.clone();
        relocate(&mut code, &unit.parts.relocations, one, true, |_| unreachable!());
        assert_eq!(code, neutral);
        relocate(&mut code, &unit.parts.relocations, other, false, |pc| pc + 1);
        assert_ne!(code, first);
        // A stub is as far from its arena's start as before.
        let target = |code: &[u8], origin: Origin| {
            let field = i32::from_le_bytes(*code[16..].first_chunk().expect("four bytes"));
            (origin.base + 20).wrapping_add_signed(i64::from(field)).wrapping_sub(origin.arena)
                as u32
        };
        assert_eq!(target(&first, one), target(&code, other));
    }
}
