//! What is compiled together: a superblock, which goes on past conditional branches that are not
//! taken and ends at the first instruction that always goes elsewhere.

use axp_emu::block::Dialect;
use axp_emu::cpu::Vcpu;
use axp_emu::isa::{Insn, Kind, Opcode, decode};
use axp_emu::mem::PAGE_SIZE;

use crate::palcode;

/// Instructions in a unit at most: [`Unit::leaders`] has a bit for each.
pub const MAX_UNIT: usize = 64;
/// Conditional branches that a unit goes on past.
const MAX_SIDE_EXITS: usize = 4;

/// How a unit ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// With its last instruction, a branch that is always taken, a jump, or CALL_PAL.
    Ender,
    /// Control goes on at the address behind it.
    Fall,
    /// The dispatcher has to look at the address behind it.
    Stop,
}

/// Guest code to be compiled, decoded.
#[derive(Debug)]
pub struct Unit {
    /// Address of the first instruction.
    pub pc: u64,
    /// What was decoded.
    pub insns: Vec<Insn>,
    /// What was fetched.
    pub words: Vec<u32>,
    /// What follows.
    pub end: End,
    /// Bit i: some branch of the unit leads to instruction i.
    pub leaders: u64,
    /// Bit i: a branch backwards does.
    pub loop_heads: u64,
}

impl Default for Unit {
    fn default() -> Self {
        let (insns, words) = (Vec::new(), Vec::new());
        Unit { pc: 0, insns, words, end: End::Stop, leaders: 0, loop_heads: 0 }
    }
}

impl Unit {
    /// Fetches and decodes from `vcpu.cpu.pc`, up to an address that `is_entry` knows.
    pub fn select(&mut self, vcpu: &Vcpu, is_entry: impl Fn(u64) -> bool) {
        self.pc = vcpu.cpu.pc;
        let dialect = Dialect::of(vcpu);
        self.insns.clear();
        self.words.clear();
        let mut pc = self.pc;
        let mut side_exits = 0;
        self.end = loop {
            let Ok(word) = vcpu.mem.fetch_u32(pc) else { break End::Stop };
            let Some(insn) = decode(word).filter(|i| goes(i, vcpu, dialect)) else {
                break End::Stop;
            };
            self.words.push(word);
            self.insns.push(insn);
            pc = pc.wrapping_add(4);
            match insn.op.kind() {
                Kind::Branch | Kind::Jump => break End::Ender,
                Kind::Pal if !vcpu.pal.performs(insn.imm as u32) => break End::Ender,
                Kind::CondBranch | Kind::CondBranchF => side_exits += 1,
                // Control may have to go on with other code.
                Kind::MtFpcr => break End::Fall,
                _ => {}
            }
            // Mappings change page by page, so a unit lies in one.
            let full = self.insns.len() == MAX_UNIT || side_exits > MAX_SIDE_EXITS;
            if full || pc.is_multiple_of(PAGE_SIZE) || is_entry(pc) {
                break End::Fall;
            }
        };
        self.mark_leaders();
    }

    fn mark_leaders(&mut self) {
        (self.leaders, self.loop_heads) = (0, 0);
        for (i, insn) in self.insns.iter().enumerate() {
            if !(insn.op.kind().is_cond_branch() || insn.op == Opcode::Br) {
                continue;
            }
            let target = i as i64 + 1 + i64::from(insn.imm);
            if (0..self.insns.len() as i64).contains(&target) {
                self.leaders |= 1 << target;
                self.loop_heads |= u64::from(target <= i as i64) << target;
            }
        }
    }

    /// Address behind the last instruction.
    pub fn end_pc(&self) -> u64 {
        self.pc.wrapping_add(4 * self.insns.len() as u64)
    }
}

/// Whether compiled code can execute an instruction and go on: not what always stops the engine.
fn goes(insn: &Insn, vcpu: &Vcpu, dialect: Dialect) -> bool {
    let leaves = || !vcpu.pal.performs(insn.imm as u32) && !palcode::asks(vcpu);
    dialect.has(insn) && !(insn.op == Opcode::CallPal && leaves())
}
