//! The frame of a unit's code: segments, entries, edges, cold paths, and access to registers.
//!
//! At every instruction boundary all guest registers are where `regs` says, so every instruction can
//! be left to the interpreter, and a fault finds exact state.

use axp_emu::isa::{CpuModel, Insn, SINK, ZERO};
use dynasmrt::{DynasmApi, SimpleAssembler, dynasm};

use super::links::{Links, Site};
use super::regs::*;
use super::stubs::Stubs;
use super::unit::{End, Unit};
use super::{Access, Host, Place};
use crate::abi::word;
use crate::analysis::Bounds;
use crate::opt::{Mode, is_access};

/// x86 condition codes.
pub mod cc {
    pub const O: u8 = 0;
    pub const B: u8 = 2;
    pub const AE: u8 = 3;
    pub const E: u8 = 4;
    pub const NE: u8 = 5;
    pub const BE: u8 = 6;
    pub const A: u8 = 7;
    pub const S: u8 = 8;
    pub const P: u8 = 10;
    pub const L: u8 = 12;
    pub const GE: u8 = 13;
    pub const LE: u8 = 14;
    pub const G: u8 = 15;
}

/// Two-operand operations of one encoding: their first opcode, and digit times eight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Alu {
    Add = 0x00,
    Or = 0x08,
    And = 0x20,
    Sub = 0x28,
    Xor = 0x30,
    Cmp = 0x38,
}

/// Where an operand is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// In a host register.
    Reg(u8),
    /// At this distance from RBP.
    Mem(i8),
    /// Nowhere: it is known.
    Imm(i32),
}

/// What a cold path does besides having the interpreter execute the instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cold {
    /// Nothing.
    Step,
    /// Goes on at once if the number in XMM0 is zero and so are those that the operation multiplied
    /// or divided, or it was a sum.
    ZeroResult,
    /// Clears the zero and carry flags, which a fused branch looks at: the operands are unordered.
    Unordered,
}

#[derive(Debug)]
pub(super) struct ColdPath {
    kind: Cold,
    insn: Insn,
    place: u32,
    /// Number of jumps to it, all before those of later cold paths.
    jumps: usize,
    resume: usize,
}

/// A field of a unit's code that is an engine's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relocation {
    /// Its offset.
    pub at: u32,
    /// What it holds.
    pub patch: Patch,
}

/// What a field of code holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patch {
    /// A longword with the number of a place, or one more.
    Place,
    /// A longword with the number of a branch.
    Site,
    /// A longword with the distance to something at the arena's start.
    Stub,
    /// The address of the counter of an entry.
    Counter(u64),
}

/// What a unit became, beside its bytes.
#[derive(Debug, Default)]
pub struct Parts {
    /// Guest pc and offset of entries.
    pub entries: Vec<(u64, u32)>,
    /// Offsets of guest accesses.
    pub accesses: Vec<Access>,
    /// Offset of each instruction's code, but for what lies in cold paths.
    pub starts: Vec<u32>,
    /// Direct branches; addresses are offsets.
    pub sites: Vec<Site>,
    /// What must change where the code is used elsewhere.
    pub relocations: Vec<Relocation>,
    pub(super) colds: Vec<ColdPath>,
    pub(super) cold_jumps: Vec<usize>,
}

/// Emits one unit.
pub struct Emitter<'a> {
    pub(super) asm: &'a mut SimpleAssembler,
    pub(super) parts: &'a mut Parts,
    pub(super) places: &'a mut Vec<Place>,
    pub(super) unit: &'a Unit,
    pub(super) stubs: &'a Stubs,
    pub(super) mode: Mode,
    pub(super) host: Host,
    pub(super) model: CpuModel,
    pub(super) links: &'a Links,
    /// Hands out the heat counter of an entry.
    pub(super) heat: Option<&'a mut dyn FnMut(u64) -> u64>,
    /// Address of the unit's first byte.
    pub(super) base: u64,
    pub(super) index: usize,
    pub(super) pc: u64,
    /// Instructions of the segment behind the current one.
    pub(super) after: usize,
    pub(super) bounds: Bounds,
    /// A register that was just set from flags which still hold, with the condition; floating-point
    /// registers count from 64.
    pub(super) fused: Option<(u8, u8)>,
    pub(super) cold_kind: Cold,
}

impl Emitter<'_> {
    /// Emits the unit's code.
    pub fn unit(mut self) {
        self.asm.ops.clear();
        let Parts { entries, accesses, starts, sites, relocations, colds, cold_jumps } = self.parts;
        entries.clear();
        accesses.clear();
        starts.clear();
        sites.clear();
        relocations.clear();
        colds.clear();
        cold_jumps.clear();
        let unit = self.unit;
        let mut segment_end = 0;
        for (i, insn) in unit.insns.iter().enumerate() {
            (self.index, self.pc) = (i, unit.pc.wrapping_add(4 * i as u64));
            self.parts.starts.push(self.asm.ops.len() as u32);
            let leader = i == 0 || unit.leaders >> i & 1 != 0;
            if leader {
                self.entry(i == 0 || unit.loop_heads >> i & 1 != 0);
            }
            if i == segment_end || leader {
                segment_end = segment(unit, i);
                if self.mode.counted {
                    self.count(segment_end - i);
                }
            }
            self.after = segment_end - i - 1;
            let jumps = self.parts.cold_jumps.len();
            self.cold_kind = Cold::Step;
            let fused = self.fused.take();
            self.lower(insn, fused);
            self.finish_cold(insn, jumps);
            if self.bounds_matter(i) {
                self.bounds.step(insn, is_access(insn));
            }
        }
        let end_pc = unit.end_pc();
        match unit.end {
            End::Ender => {}
            End::Fall => self.jump_to(end_pc),
            End::Stop => self.leave(self.stubs.stop, end_pc),
        }
        self.cold_paths();
        self.site_stubs();
    }

    /// Whether the current instruction ends the unit and is CALL_PAL.
    pub(super) fn ends_with_pal(&self) -> bool {
        self.unit.end == End::Ender && self.index + 1 == self.unit.insns.len()
    }

    /// Bounds are of use as long as another access follows.
    fn bounds_matter(&self, i: usize) -> bool {
        i + 1 < self.unit.insns.len()
    }

    fn entry(&mut self, may_be_hot: bool) {
        self.bounds = Bounds::UNKNOWN;
        self.fused = None;
        self.parts.entries.push((self.pc, self.here() as u32));
        if may_be_hot && let Some(heat) = &mut self.heat {
            let counter = heat(self.pc) as i64;
            dynasm!(self.asm ; .arch x64 ; mov rax, QWORD counter);
            self.relocate(8, Patch::Counter(self.pc));
            dynasm!(self.asm ; .arch x64 ; dec DWORD [rax]);
            let warm = self.jcc8(cc::S ^ 1);
            self.leave(self.stubs.hot, self.pc);
            self.bind8(warm);
        }
    }

    /// Adds a segment's length to the count, or leaves where that would pass the limit.
    fn count(&mut self, len: usize) {
        dynasm!(self.asm ; .arch x64
            ; mov rax, [DWORD rbp + COUNT]
            ; add rax, BYTE len as i8
            ; cmp rax, [DWORD rbp + word_disp(word::COUNT_LIMIT)]
        );
        let fits = self.jcc8(cc::BE);
        self.leave(self.stubs.count, self.pc);
        self.bind8(fits);
        dynasm!(self.asm ; .arch x64 ; mov [DWORD rbp + COUNT], rax);
    }

    // Code positions

    pub(super) fn here(&self) -> usize {
        self.asm.ops.len()
    }

    /// A jump on a condition whose 32-bit displacement, at the returned offset, is to be filled in.
    pub(super) fn jcc(&mut self, cc: u8) -> usize {
        self.asm.ops.extend_from_slice(&[0x0f, 0x80 | cc, 0, 0, 0, 0]);
        self.here() - 4
    }

    /// As `jcc`, for a target within a byte's reach.
    pub(super) fn jcc8(&mut self, cc: u8) -> usize {
        self.asm.ops.extend_from_slice(&[0x70 | cc, 0]);
        self.here() - 1
    }

    /// Lets a short jump lead here.
    pub(super) fn bind8(&mut self, at: usize) {
        let distance = self.here() - at - 1;
        debug_assert!(distance < 128);
        self.asm.ops[at] = distance as u8;
    }

    fn set_rel32(&mut self, at: usize, to: usize) {
        let rel = (to as i64 - (at as i64 + 4)) as i32;
        self.asm.ops[at..at + 4].copy_from_slice(&rel.to_le_bytes());
    }

    /// The distance to something at the arena's start.
    pub(super) fn rel32_to(&mut self, address: u64) {
        let rel = address.wrapping_sub(self.base + self.here() as u64 + 4) as i32;
        self.asm.push_i32(rel);
        self.relocate(4, Patch::Stub);
    }

    /// Notes what the last `width` bytes are.
    pub(super) fn relocate(&mut self, width: usize, patch: Patch) {
        let at = (self.here() - width) as u32;
        self.parts.relocations.push(Relocation { at, patch });
    }

    /// Moves the number of a place to EAX.
    fn set_place(&mut self, place: u32) {
        dynasm!(self.asm ; .arch x64 ; mov eax, DWORD place as i32);
        self.relocate(4, Patch::Place);
    }

    /// Calls a stub.
    pub(super) fn call(&mut self, stub: u64) {
        self.asm.push(0xe8);
        self.rel32_to(stub);
    }

    /// Jumps to a stub.
    pub(super) fn jump(&mut self, stub: u64) {
        self.asm.push(0xe9);
        self.rel32_to(stub);
    }

    /// Leaves through a stub with the state of guest address `pc`.
    pub(super) fn leave(&mut self, stub: u64, pc: u64) {
        let place = self.place(pc, &self.unit.insns[self.index], 0);
        self.set_place(place);
        self.jump(stub);
    }

    /// Number of a new place.
    pub(super) fn place(&mut self, pc: u64, insn: &Insn, after: usize) -> u32 {
        self.places.push(Place { pc, insn: *insn, after: after as u32 });
        self.places.len() as u32 - 1
    }

    /// Leaves the instruction to the interpreter and goes on behind it.
    pub(super) fn interpret(&mut self, insn: &Insn) {
        let place = self.place(self.pc, insn, self.after);
        self.set_place(place);
        self.call(self.stubs.step);
    }

    /// Leaves the instruction, of which nothing has been done, to the interpreter if `cc` holds.
    pub(super) fn cold_if(&mut self, cc: u8) {
        let at = self.jcc(cc);
        self.parts.cold_jumps.push(at);
    }

    fn finish_cold(&mut self, insn: &Insn, jumps_before: usize) {
        let jumps = self.parts.cold_jumps.len() - jumps_before;
        if jumps != 0 {
            let place = self.place(self.pc, insn, self.after);
            let (kind, resume) = (self.cold_kind, self.here());
            self.parts.colds.push(ColdPath { kind, insn: *insn, place, jumps, resume });
        }
    }

    fn cold_paths(&mut self) {
        let mut first = 0;
        for i in 0..self.parts.colds.len() {
            let ColdPath { kind, insn, place, jumps, resume } = self.parts.colds[i];
            let here = self.here();
            for j in first..first + jumps {
                self.set_rel32(self.parts.cold_jumps[j], here);
            }
            first += jumps;
            if kind == Cold::ZeroResult {
                self.zero_is_exact(&insn, resume);
            }
            self.set_place(place);
            self.call(self.stubs.step);
            if kind == Cold::Unordered {
                dynasm!(self.asm ; .arch x64 ; or al, 1);
            }
            self.jump_back(resume);
        }
    }

    /// Jumps to an offset.
    fn jump_back(&mut self, to: usize) {
        self.asm.push(0xe9);
        self.asm.push_i32(0);
        self.set_rel32(self.here() - 4, to);
    }

    /// Jumps to an offset on a condition.
    pub(super) fn jump_back_if(&mut self, cc: u8, to: usize) {
        let at = self.jcc(cc);
        self.set_rel32(at, to);
    }

    // Edges

    /// Goes to guest code on a condition; the flags are intact where it does not hold.
    pub(super) fn jump_if(&mut self, cc: u8, target: u64) {
        let at = self.jcc(cc) as u64;
        self.parts.sites.push(Site { target, at, stub: 0 });
    }

    /// Goes to guest code.
    pub(super) fn jump_to(&mut self, target: u64) {
        self.asm.push(0xe9);
        self.asm.push_i32(0);
        let at = self.here() as u64 - 4;
        self.parts.sites.push(Site { target, at, stub: 0 });
    }

    /// Goes to guest code that lies before, unless somebody wants the engine to stop.
    pub(super) fn jump_to_polled(&mut self, target: u64) {
        // cmp dword [rbp + POLL], 0
        self.asm.ops.extend_from_slice(&[0x83, 0x7d, POLL as u8, 0]);
        self.jump_if(cc::E, target);
        self.leave(self.stubs.poll, target);
    }

    fn site_stubs(&mut self) {
        let first = self.links.next_site();
        for i in 0..self.parts.sites.len() {
            let here = self.here();
            let at = self.parts.sites[i].at as usize;
            self.parts.sites[i].stub = here as u64;
            self.set_rel32(at, here);
            let number = (first + i as u32) as i32;
            dynasm!(self.asm ; .arch x64 ; mov eax, DWORD number);
            self.relocate(4, Patch::Site);
            self.jump(self.stubs.link);
        }
    }

    // Integer registers

    /// Where the value of a guest register is.
    pub(super) fn operand(&self, r: u8) -> Operand {
        match pin(r) {
            _ if r >= ZERO => Operand::Imm(0),
            Some(host) => Operand::Reg(host),
            None => Operand::Mem(disp(r)),
        }
    }

    /// Where the second operand of an operate instruction is.
    pub(super) fn operand_b(&self, insn: &Insn) -> Operand {
        if insn.lit { Operand::Imm(insn.imm) } else { self.operand(insn.b) }
    }

    /// Moves an operand to a host register; changes no flags.
    pub(super) fn fetch(&mut self, host: u8, from: Operand) {
        match from {
            Operand::Reg(h) if h == host => {}
            Operand::Reg(h) => dynasm!(self.asm ; .arch x64 ; mov Rq(host), Rq(h)),
            Operand::Mem(d) => dynasm!(self.asm ; .arch x64 ; mov Rq(host), [BYTE rbp + d]),
            Operand::Imm(v) if v >= 0 => dynasm!(self.asm ; .arch x64 ; mov Rd(host), DWORD v),
            Operand::Imm(v) => dynasm!(self.asm ; .arch x64 ; mov Rq(host), DWORD v),
        }
    }

    /// As `fetch`, the low longword only; the upper one becomes zero.
    pub(super) fn fetch_long(&mut self, host: u8, from: Operand) {
        match from {
            Operand::Reg(h) => dynasm!(self.asm ; .arch x64 ; mov Rd(host), Rd(h)),
            Operand::Mem(d) => dynasm!(self.asm ; .arch x64 ; mov Rd(host), [BYTE rbp + d]),
            Operand::Imm(v) => dynasm!(self.asm ; .arch x64 ; mov Rd(host), DWORD v),
        }
    }

    /// A host register with the operand's value: its own, or `scratch`.
    pub(super) fn in_reg(&mut self, from: Operand, scratch: u8) -> u8 {
        match from {
            Operand::Reg(h) => h,
            other => {
                self.fetch(scratch, other);
                scratch
            }
        }
    }

    /// Host register to compute a guest register's new value in; [`put`](Self::put) follows.
    pub(super) fn target(&self, r: u8) -> u8 {
        pin(r).unwrap_or(RAX)
    }

    /// Writes a guest register from a host register; changes no flags.
    pub(super) fn put(&mut self, r: u8, host: u8) {
        match pin(r) {
            _ if r >= ZERO => {}
            Some(h) if h == host => {}
            Some(h) => dynasm!(self.asm ; .arch x64 ; mov Rq(h), Rq(host)),
            None => dynasm!(self.asm ; .arch x64 ; mov [BYTE rbp + disp(r)], Rq(host)),
        }
    }

    /// Writes a constant to a guest register; changes no flags.
    pub(super) fn put_const(&mut self, r: u8, value: i64) {
        if r >= ZERO {
            return;
        }
        let host = self.target(r);
        if let Ok(v) = i32::try_from(value) {
            if host == RAX {
                dynasm!(self.asm ; .arch x64 ; mov QWORD [BYTE rbp + disp(r)], DWORD v);
                return;
            }
            self.fetch(host, Operand::Imm(v));
        } else {
            self.set_const(host, value);
        }
        self.put(r, host);
    }

    /// Sets a host register to a constant; changes no flags.
    pub(super) fn set_const(&mut self, host: u8, value: i64) {
        if let Ok(v) = u32::try_from(value) {
            dynasm!(self.asm ; .arch x64 ; mov Rd(host), DWORD v as i32);
        } else if let Ok(v) = i32::try_from(value) {
            dynasm!(self.asm ; .arch x64 ; mov Rq(host), DWORD v);
        } else {
            dynasm!(self.asm ; .arch x64 ; mov Rq(host), QWORD value);
        }
    }

    // Dynasm has no form of these with a one-byte immediate for memory and CMP; and one encoder for
    // all of them compiles faster than as many templates.

    /// `host <- host op from`, all 64 bits.
    pub(super) fn alu(&mut self, op: Alu, host: u8, from: Operand) {
        self.alu_sized(op, 0x48, host, from);
    }

    /// `host <- host op from`, low longwords.
    pub(super) fn alu_long(&mut self, op: Alu, host: u8, from: Operand) {
        self.alu_sized(op, 0x40, host, from);
    }

    fn alu_sized(&mut self, op: Alu, rex: u8, host: u8, from: Operand) {
        let opcode = op as u8;
        let (high, low) = (host >> 3, host & 7);
        let ops = &mut self.asm.ops;
        match from {
            Operand::Reg(h) => {
                let modrm = 0xc0 | low << 3 | h & 7;
                ops.extend_from_slice(&[rex | high << 2 | h >> 3, opcode | 3, modrm]);
            }
            Operand::Mem(d) => {
                ops.extend_from_slice(&[rex | high << 2, opcode | 3, 0x45 | low << 3, d as u8]);
            }
            Operand::Imm(v) => {
                let modrm = 0xc0 | opcode | low;
                match i8::try_from(v) {
                    Ok(v) => ops.extend_from_slice(&[rex | high, 0x83, modrm, v as u8]),
                    Err(_) => {
                        ops.extend_from_slice(&[rex | high, 0x81, modrm]);
                        ops.extend_from_slice(&v.to_le_bytes());
                    }
                }
            }
        }
    }

    /// `mem <- mem op from` for a register in memory; a memory operand goes through RAX.
    pub(super) fn alu_mem(&mut self, op: Alu, d: i8, from: Operand) {
        let (opcode, d) = (op as u8, d as u8);
        match from {
            Operand::Imm(v) => {
                let modrm = 0x45 | opcode;
                match i8::try_from(v) {
                    Ok(v) => self.asm.ops.extend_from_slice(&[0x48, 0x83, modrm, d, v as u8]),
                    Err(_) => {
                        self.asm.ops.extend_from_slice(&[0x48, 0x81, modrm, d]);
                        self.asm.ops.extend_from_slice(&v.to_le_bytes());
                    }
                }
            }
            _ => {
                let h = self.in_reg(from, RAX);
                let rex = 0x48 | (h >> 3) << 2;
                self.asm.ops.extend_from_slice(&[rex, opcode | 1, 0x45 | (h & 7) << 3, d]);
            }
        }
    }

    /// The truth of a condition as 0 or 1 in a host register; changes no flags.
    pub(super) fn setcc(&mut self, cc: u8, host: u8) {
        let rex = 0x40 | host >> 3;
        self.asm.ops.extend_from_slice(&[rex, 0x0f, 0x90 | cc, 0xc0 | host & 7]);
        dynasm!(self.asm ; .arch x64 ; movzx Rd(host), Rb(host));
    }

    /// Moves `from` to `host` if a condition holds; an immediate must have been fetched before.
    pub(super) fn cmov(&mut self, cc: u8, host: u8, from: Operand) {
        match from {
            Operand::Reg(h) => {
                let rex = 0x48 | (host >> 3) << 2 | h >> 3;
                let modrm = 0xc0 | (host & 7) << 3 | h & 7;
                self.asm.ops.extend_from_slice(&[rex, 0x0f, 0x40 | cc, modrm]);
            }
            Operand::Mem(d) => {
                let rex = 0x48 | (host >> 3) << 2;
                let modrm = 0x45 | (host & 7) << 3;
                self.asm.ops.extend_from_slice(&[rex, 0x0f, 0x40 | cc, modrm, d as u8]);
            }
            Operand::Imm(_) => debug_assert!(false, "CMOV has no immediate form"),
        }
    }

    /// Whether writing this register has no effect.
    pub(super) fn is_sink(r: u8) -> bool {
        r == SINK
    }
}

/// Index behind the segment that starts at instruction `i`: what executes as a whole if at all.
fn segment(unit: &Unit, i: usize) -> usize {
    let mut end = i;
    loop {
        let branch = unit.insns[end].op.kind().is_cond_branch();
        end += 1;
        if branch || end == unit.insns.len() || unit.leaders >> end & 1 != 0 {
            return end;
        }
    }
}
