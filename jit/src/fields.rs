//! Data that a block puts together from aligned quadwords: what the host loads in one piece.
//!
//! Before BWX Alpha had no loads of bytes, and it has none of unaligned data: compilers load the
//! quadwords that hold the datum by LDQ_U, cut the parts out by EXTxL and EXTxH and join them by BIS.
//! [`plan`] finds these sequences by their dataflow and says of each instruction what it comes to
//! when the datum is loaded at the place of the first LDQ_U. The quadwords are still loaded where
//! anybody could see them.

use axp_emu::isa::{Insn, Kind, Opcode, RegSet, ZERO};

use crate::analysis::Bounds;
use crate::region::Block;

/// What an instruction comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Action {
    /// Its own lowering.
    #[default]
    Plain,
    /// LDQ_U: loads datum `datum` as well; with `elide` the quadword is not loaded.
    Load {
        /// Number of the datum, its size in bytes, its distance from the base register.
        datum: usize,
        /// Size in bytes.
        size: u8,
        /// Distance from the base register.
        disp: i32,
        /// Nobody sees the quadword.
        elide: bool,
        /// Index of the instruction that loads the other quadword, if there is one.
        other: Option<usize>,
    },
    /// LDQ_U of a quadword that nobody sees, of a datum that has been loaded.
    Skip,
    /// EXTxL: the part of the datum in the first quadword.
    Low(usize),
    /// EXTxH: the part of the datum in the second quadword.
    High(usize),
    /// BIS or EXTBL: the datum.
    Whole(usize),
    /// SRA by 56: the datum, a byte, sign-extended.
    Signed(usize),
}

/// A value in terms of the code before it: what defined the register, and a distance from that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Address {
    register: u8,
    /// Index of the defining instruction plus one, 0 at the block's start.
    defined: usize,
    distance: i64,
}

/// Who defined what, of one block.
struct Dataflow<'a> {
    insns: &'a [Insn],
    /// Definition of each register before each instruction, plus one.
    defined: Vec<[usize; 32]>,
    /// Whether an instruction may leave the region, and somebody then sees the registers.
    exits: Vec<bool>,
    /// Registers that are needed after the block.
    live_out: RegSet,
    observed: bool,
}

/// What each instruction of a block comes to. `precise` and `observed` as in `opt::Mode`; `bounds` and
/// `live_out` as at the block's start and end. `None` if there is nothing to gain.
pub fn plan(
    block: &Block,
    bounds: &Bounds,
    live_out: RegSet,
    precise: bool,
    observed: bool,
    is_access: impl Fn(&Insn) -> bool,
) -> Option<Vec<Action>> {
    let insns = &block.insns[..];
    insns.iter().find(|i| i.op == Opcode::LdqU)?;
    let mut defined = Vec::with_capacity(insns.len());
    let mut exits = Vec::with_capacity(insns.len());
    let mut now = [0; 32];
    let mut bounds = bounds.clone();
    for (i, insn) in insns.iter().enumerate() {
        defined.push(now);
        let written = block.writes(i).int;
        for (r, definition) in now.iter_mut().enumerate() {
            if written & 1 << r != 0 {
                *definition = i + 1;
            }
        }
        let access = is_access(insn);
        exits.push(match insn.op.kind() {
            Kind::Lea | Kind::Alu | Kind::Cmov | Kind::Fmove | Kind::Hint => false,
            _ if access => precise || insn.b < ZERO && !bounds.covers(insn.b, insn.imm),
            _ => true,
        });
        bounds.step(insn, access);
    }
    let flow = Dataflow { insns, defined, exits, live_out, observed };
    let mut actions = vec![Action::Plain; insns.len()];
    let mut data = 0;
    for i in 0..insns.len() {
        if let Some(found) = flow.joined(i).or_else(|| flow.byte(i)).or_else(|| flow.signed_byte(i))
            && found.apply(&flow, data, &mut actions)
        {
            data += 1;
        }
    }
    (data != 0).then_some(actions)
}

/// A datum and the instructions that make it.
struct Found {
    size: u8,
    /// Where the datum's address is known: the first LDQ_U, and the distance from its base.
    first: usize,
    disp: i32,
    /// LDQ_U and what cuts the datum, or its part, out of it.
    quadwords: Vec<(usize, usize)>,
    /// What the instructions behind the loads come to.
    parts: Vec<(usize, Part)>,
}

#[derive(Clone, Copy)]
enum Part {
    Low,
    High,
    Whole,
    Signed,
}

impl Found {
    /// Enters the datum as number `datum`, unless its instructions are taken or nothing is gained.
    fn apply(&self, flow: &Dataflow<'_>, datum: usize, actions: &mut [Action]) -> bool {
        let members = self.quadwords.iter().map(|q| q.0).chain(self.parts.iter().map(|p| p.0));
        if members.clone().any(|i| actions[i] != Action::Plain) {
            return false;
        }
        let elided = |&(load, cut): &(usize, usize)| flow.unseen(load, cut);
        if self.quadwords.len() == 1 && !self.quadwords.iter().all(elided) {
            return false;
        }
        for quadword in &self.quadwords {
            let (load, elide) = (quadword.0, elided(quadword));
            actions[load] = match (load == self.first, elide) {
                (true, _) => {
                    let other = self.quadwords.iter().map(|q| q.0).find(|&q| q != load);
                    Action::Load { datum, size: self.size, disp: self.disp, elide, other }
                }
                (false, true) => Action::Skip,
                (false, false) => Action::Plain,
            };
        }
        for &(i, part) in &self.parts {
            // A part of a quadword that has been loaded is cut out of that.
            let loaded = self.quadwords.iter().any(|q| q.1 == i && !elided(q));
            actions[i] = match part {
                Part::Low | Part::High if loaded => Action::Plain,
                Part::Low => Action::Low(datum),
                Part::High => Action::High(datum),
                Part::Whole => Action::Whole(datum),
                Part::Signed => Action::Signed(datum),
            };
        }
        true
    }
}

impl Dataflow<'_> {
    /// The instruction that defined register `r` as instruction `i` reads it.
    fn definition(&self, i: usize, r: u8) -> Option<usize> {
        if r < ZERO { self.defined[i][r as usize].checked_sub(1) } else { None }
    }

    /// What register `r` is when instruction `i` reads it, through LDA.
    fn address(&self, i: usize, r: u8) -> Address {
        let mut at = Address { register: r, defined: 0, distance: 0 };
        let mut i = i;
        loop {
            at.defined = if at.register < ZERO { self.defined[i][at.register as usize] } else { 0 };
            match at.defined.checked_sub(1) {
                Some(d) if self.insns[d].op == Opcode::Lda => {
                    at.distance += i64::from(self.insns[d].imm);
                    at.register = self.insns[d].b;
                    i = d;
                }
                _ => return at,
            }
        }
    }

    /// The LDQ_U whose quadword instruction `i` cuts, and the addresses of the load and of the cut.
    fn cut(&self, i: usize) -> Option<(usize, Address, Address)> {
        let insn = &self.insns[i];
        if insn.lit {
            return None;
        }
        let load = self.definition(i, insn.a)?;
        if self.insns[load].op != Opcode::LdqU || self.insns[load].b >= ZERO {
            return None;
        }
        let mut of_load = self.address(load, self.insns[load].b);
        of_load.distance += i64::from(self.insns[load].imm);
        Some((load, of_load, self.address(i, insn.b)))
    }

    /// BIS of both parts of a datum.
    fn joined(&self, i: usize) -> Option<Found> {
        let insn = &self.insns[i];
        if insn.op != Opcode::Bis || insn.lit {
            return None;
        }
        let (a, b) = (self.definition(i, insn.a)?, self.definition(i, insn.b)?);
        let (low, high, size) = halves(self.insns, a, b).or_else(|| halves(self.insns, b, a))?;
        let (low_load, low_at, low_cut) = self.cut(low)?;
        let (high_load, high_at, high_cut) = self.cut(high)?;
        let last = Address { distance: low_at.distance + i64::from(size) - 1, ..low_at };
        let same = |cut: Address| {
            cut == Address { distance: cut.distance, ..low_at }
                && (cut.distance - low_at.distance) % 8 == 0
        };
        if high_at != last || !same(low_cut) || !same(high_cut) || low_load == high_load {
            return None;
        }
        let first = low_load.min(high_load);
        // The whole datum is loaded at the first load: nothing in between may change memory.
        let between = &self.insns[first..low_load.max(high_load)];
        let quiet = |i: &Insn| {
            use Kind::*;
            matches!(i.op.kind(), Lea | Alu | Cmov | Fmove | Load | LoadUnaligned | Fload)
        };
        if !between.iter().all(quiet) {
            return None;
        }
        let back = if first == low_load { 0 } else { i32::from(size) - 1 };
        Some(Found {
            size,
            first,
            disp: self.insns[first].imm - back,
            quadwords: vec![(low_load, low), (high_load, high)],
            parts: vec![(low, Part::Low), (high, Part::High), (i, Part::Whole)],
        })
    }

    /// EXTBL of a byte at the address that its quadword was loaded from.
    fn byte(&self, i: usize) -> Option<Found> {
        if self.insns[i].op != Opcode::Extbl {
            return None;
        }
        let (load, at, cut) = self.cut(i)?;
        let same = cut == Address { distance: cut.distance, ..at };
        (same && (cut.distance - at.distance) % 8 == 0).then(|| Found {
            size: 1,
            first: load,
            disp: self.insns[load].imm,
            quadwords: vec![(load, i)],
            parts: vec![(i, Part::Whole)],
        })
    }

    /// SRA by 56 of EXTQH: the byte before the address of the cut, sign-extended.
    fn signed_byte(&self, i: usize) -> Option<Found> {
        let insn = &self.insns[i];
        if insn.op != Opcode::Sra || !insn.lit || insn.imm != 56 {
            return None;
        }
        let top = self.definition(i, insn.a)?;
        if self.insns[top].op != Opcode::Extqh || !self.unseen(top, i) {
            return None;
        }
        let (load, at, cut) = self.cut(top)?;
        let same = cut == Address { distance: cut.distance, ..at };
        (same && (cut.distance - at.distance - 1) % 8 == 0).then(|| Found {
            size: 1,
            first: load,
            disp: self.insns[load].imm,
            quadwords: vec![(load, top)],
            // What is cut out is not the byte, but nobody sees it either.
            parts: vec![(top, Part::Low), (i, Part::Signed)],
        })
    }

    /// Whether the register that instruction `i` writes is read by instruction `reader` only and
    /// nobody else sees it.
    fn unseen(&self, i: usize, reader: usize) -> bool {
        let Some(r) = written(&self.insns[i]) else { return false };
        let mut overwritten = false;
        for j in i + 1..self.insns.len() {
            if self.exits[j] && (self.observed || j <= reader) {
                return false;
            }
            if j != reader && self.insns[j].reads().int & 1 << r != 0 {
                return false;
            }
            if self.insns[j].writes().int & 1 << r != 0 {
                overwritten = j >= reader;
                if !overwritten {
                    return false;
                }
                break;
            }
        }
        overwritten || self.live_out.int & 1 << r == 0
    }
}

/// The low and the high extraction of the same size.
fn halves(insns: &[Insn], low: usize, high: usize) -> Option<(usize, usize, u8)> {
    use Opcode::*;
    let size = match (insns[low].op, insns[high].op) {
        (Extwl, Extwh) => 2,
        (Extll, Extlh) => 4,
        (Extql, Extqh) => 8,
        _ => return None,
    };
    Some((low, high, size))
}

fn written(insn: &Insn) -> Option<u8> {
    let set = insn.writes().int;
    (set.count_ones() == 1).then(|| set.trailing_zeros() as u8)
}

#[cfg(test)]
mod tests {
    use axp_emu::isa::{assemble_block, decode};

    use super::*;
    use crate::region::Term;

    /// The plan for a block of which only these registers are needed afterwards.
    fn plan_of(text: &str, live_out: &[u8], observed: bool) -> Option<Vec<Action>> {
        let words = assemble_block(text, 0x1000).unwrap();
        let insns: Vec<Insn> = words.into_iter().map(|w| decode(w).unwrap()).collect();
        let term = Term::Stop;
        let (loop_head, division, inlined) = (false, None, false);
        let block = Block { pc: 0x1000, insns, term, loop_head, division, inlined };
        let live = live_out.iter().fold(0, |set, r| set | 1 << r);
        let live = RegSet { int: live, fp: 0 };
        plan(&block, &Bounds::UNKNOWN, live, false, observed, crate::opt::is_access)
    }

    const UNALIGNED: &str = "ldq_u $1,0($16)\nldq_u $2,7($16)\nextql $1,$16,$1\n\
                             extqh $2,$16,$2\nbis $1,$2,$3";

    fn load(size: u8, disp: i32, elide: bool, other: Option<usize>) -> Action {
        Action::Load { datum: 0, size, disp, elide, other }
    }

    #[test]
    fn an_unaligned_quadword_is_one_load() {
        use Action::*;
        for observed in [false, true] {
            let plan = plan_of(UNALIGNED, &[1, 2, 3], observed).unwrap();
            assert_eq!(plan, [load(8, 0, true, Some(1)), Skip, Low(0), High(0), Whole(0)]);
        }
        // The high quadword may be loaded first.
        let swapped = UNALIGNED
            .replace("ldq_u $1,0($16)\nldq_u $2,7($16)", "ldq_u $2,7($16)\nldq_u $1,0($16)");
        let plan = plan_of(&swapped, &[3], false).unwrap();
        assert_eq!(plan[..2], [load(8, 0, true, Some(1)), Skip]);
    }

    #[test]
    fn bytes_are_one_load() {
        use Action::*;
        let plan = plan_of("ldq_u $1,3($16)\nlda $2,3($16)\nextbl $1,$2,$1", &[1, 2], true);
        assert_eq!(plan.unwrap(), [load(1, 3, true, None), Plain, Whole(0)]);
        let signed = "ldq_u $1,0($16)\nlda $2,1($16)\nextqh $1,$2,$1\nsra $1,56,$1";
        let plan = plan_of(signed, &[1, 2], true).unwrap();
        assert_eq!(plan, [load(1, 0, true, None), Plain, Low(0), Signed(0)]);
    }

    #[test]
    fn a_quadword_that_somebody_sees_is_loaded() {
        let kept =
            UNALIGNED.replace("extqh $2,$16,$2\nbis $1,$2,$3", "extqh $2,$16,$4\nbis $1,$4,$3");
        let plan = plan_of(&kept, &[2, 3], false).unwrap();
        assert_eq!(plan[1], Action::Plain, "R2 is needed after the block");
        assert_eq!(plan_of(&kept, &[3], false).unwrap()[1], Action::Skip);
    }

    #[test]
    fn what_is_nearly_right_is_left_alone() {
        for wrong in [
            UNALIGNED.replace("7($16)", "6($16)"),
            UNALIGNED.replace("extqh $2,$16", "extqh $2,$17"),
            UNALIGNED.replace("extqh $2,$16", "extlh $2,$16"),
            UNALIGNED.replace("ldq_u $2", "stq $5,0($17)\nldq_u $2"),
            UNALIGNED.replace("ldq_u $2", "addq $16,8,$16\nldq_u $2"),
            UNALIGNED.replace("bis", "xor"),
        ] {
            assert_eq!(plan_of(&wrong, &[3], false), None, "{wrong}");
        }
    }
}
