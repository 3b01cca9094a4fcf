//! Alpha as gdb knows it: the order and size of registers in its packets, signal numbers, and the
//! target description.

use std::num::NonZeroUsize;

use axp_emu::cpu::Cpu;
use axp_emu::fp::fpcr::{mf_fpcr, mt_fpcr};
use gdbstub::arch::{Arch, Registers};
use gdbstub::common::Signal;

/// The architecture, for `gdbstub`.
#[derive(Debug)]
pub enum Alpha {}

impl Arch for Alpha {
    type Usize = u64;
    type Registers = AlphaRegs;
    type BreakpointKind = usize;
    type RegId = AlphaReg;

    /// Only the architecture's name: gdb has the layout of an Alpha's registers built in and accepts no
    /// other.
    fn target_description_xml() -> Option<&'static str> {
        Some(
            "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\">\
             <target version=\"1.0\"><architecture>alpha</architecture>\
             <osabi>GNU/Linux</osabi></target>",
        )
    }
}

/// A register by its number in gdb.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AlphaReg(pub usize);

impl gdbstub::arch::RegId for AlphaReg {
    fn from_raw_id(id: usize) -> Option<(Self, Option<NonZeroUsize>)> {
        (id < REGS).then_some((AlphaReg(id), NonZeroUsize::new(8)))
    }
}

/// R0..R31, F0..F30, FPCR, PC, one without a name, UNIQUE.
pub const REGS: usize = 67;
const F: usize = 32;
const FPCR: usize = 63;
const PC: usize = 64;
const NAMELESS: usize = 65;
const UNIQUE: usize = 66;

/// The registers of one thread in gdb's order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlphaRegs(pub [u64; REGS]);

impl Default for AlphaRegs {
    fn default() -> Self {
        AlphaRegs([0; REGS])
    }
}

impl AlphaRegs {
    /// What a processor holds.
    pub fn of(cpu: &Cpu) -> Self {
        let mut regs = AlphaRegs::default();
        regs.0[..31].copy_from_slice(&cpu.r[..31]);
        regs.0[F..F + 31].copy_from_slice(&cpu.f[..31]);
        regs.0[FPCR] = mf_fpcr(cpu.fpcr);
        regs.0[PC] = cpu.pc;
        regs.0[UNIQUE] = cpu.unique;
        regs
    }

    /// Writes them to a processor.
    pub fn store(&self, cpu: &mut Cpu) {
        cpu.r[..31].copy_from_slice(&self.0[..31]);
        cpu.f[..31].copy_from_slice(&self.0[F..F + 31]);
        cpu.fpcr = mt_fpcr(self.0[FPCR]);
        cpu.pc = self.0[PC] & !3;
        cpu.unique = self.0[UNIQUE];
    }

    /// Whether the register can be written.
    pub fn is_writable(reg: AlphaReg) -> bool {
        reg.0 < REGS && reg.0 != 31 && reg.0 != NAMELESS
    }
}

impl Registers for AlphaRegs {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.0[PC]
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        for value in &self.0 {
            value.to_le_bytes().into_iter().for_each(|byte| write_byte(Some(byte)));
        }
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        let (words, rest) = bytes.as_chunks::<8>();
        if words.len() < PC + 1 || words.len() > REGS || !rest.is_empty() {
            return Err(());
        }
        for (i, word) in words.iter().enumerate() {
            if Self::is_writable(AlphaReg(i)) {
                self.0[i] = u64::from_le_bytes(*word);
            }
        }
        Ok(())
    }
}

/// gdb's number of an Alpha Linux signal: up to 31 both have those of OSF/1.
pub fn to_gdb(signal: i32) -> Signal {
    Signal(match signal {
        1..=31 => signal as u8,
        32 => 77,
        33..=63 => (signal + 12) as u8,
        64 => 78,
        _ => Signal::SIGZERO.0,
    })
}

/// The Alpha Linux signal that gdb means, if there is one.
pub fn from_gdb(signal: Signal) -> Option<i32> {
    match signal.0 {
        number @ 1..=31 => Some(i32::from(number)),
        // gdb has a name of its own for what is called both SIGIO and SIGPOLL.
        33 => Some(23),
        77 => Some(32),
        number @ 45..=75 => Some(i32::from(number) - 12),
        78 => Some(64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_go_to_gdb_and_back() {
        for signal in 1..=64 {
            assert_eq!(from_gdb(to_gdb(signal)), Some(signal));
        }
        assert_eq!((to_gdb(10), to_gdb(30)), (Signal::SIGBUS, Signal::SIGUSR1));
        assert_eq!((from_gdb(Signal(0)), from_gdb(Signal(148))), (None, None));
    }

    #[test]
    fn registers_survive_the_way_through_a_packet() {
        let mut cpu = Cpu::default();
        for i in 0..31 {
            (cpu.r[i], cpu.f[i]) = (i as u64 * 3 + 1, i as u64 * 5 + 1);
        }
        (cpu.pc, cpu.unique) = (0x1_2000_0004, 9);
        let regs = AlphaRegs::of(&cpu);
        let mut bytes = Vec::new();
        regs.gdb_serialize(|byte| bytes.push(byte.unwrap()));
        assert_eq!(bytes.len(), REGS * 8);
        let mut back = AlphaRegs::default();
        back.gdb_deserialize(&bytes).unwrap();
        let mut other = Cpu::default();
        back.store(&mut other);
        assert_eq!((other.r, other.f), (cpu.r, cpu.f));
        assert_eq!((other.pc, other.unique, other.fpcr), (cpu.pc, cpu.unique, cpu.fpcr));
        assert!(back.gdb_deserialize(&bytes[..8]).is_err());
    }
}
