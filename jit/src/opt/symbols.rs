//! What a region's code refers to: names while it is compiled, addresses once it is placed.
//!
//! Cranelift is given a number of 61 bits for each name, chosen at random, so that it emits the very code
//! that it would for an address. Afterwards the numbers are looked for in the code, which gives the list of
//! places that [`Relocation`]s fill in. Nothing in between is as fast: Cranelift's own symbols
//! would be hoisted out of loops into registers, and a table would cost a load at each use.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use axp_emu::isa::{Insn, Opcode};

use crate::abi;
use crate::runtime;

/// A host function that regions call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HostFn {
    /// Leaves all regions.
    Unwind,
    /// Calls one of those below.
    Helper,
    /// [`runtime::step`].
    Step,
    /// [`runtime::fill`].
    Fill,
    /// [`runtime::probe`].
    Probe,
    /// [`runtime::find_code`].
    FindCode,
    /// The pure semantics of an integer instruction.
    Alu(Opcode),
    /// The same of a floating-point one.
    Fp(Opcode),
}

impl HostFn {
    /// Where it is in this process; `None` for semantics that do not exist.
    pub fn address(self) -> Option<u64> {
        Some(match self {
            HostFn::Unwind => abi::axp_jit_unwind as *const () as u64,
            HostFn::Helper => abi::axp_jit_helper as *const () as u64,
            HostFn::Step => runtime::step as *const () as u64,
            HostFn::Fill => runtime::fill as *const () as u64,
            HostFn::Probe => runtime::probe as *const () as u64,
            HostFn::FindCode => runtime::find_code as *const () as u64,
            HostFn::Alu(op) => runtime::alu_thunk(op)? as usize as u64,
            HostFn::Fp(op) => runtime::fp_thunk(op)? as usize as u64,
        })
    }
}

/// Something that has an address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Symbol {
    /// The jump cache of the code's mode.
    JumpCache,
    /// The table of all code of its mode.
    Table,
    /// The entry slot of a guest pc.
    Slot(u64),
    /// One of the instructions that the code hands to the interpreter, by number.
    Kept(u32),
    /// A host function.
    HostFn(HostFn),
}

/// Eight bytes of code that hold the address of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relocation {
    /// Offset of the first.
    pub at: u32,
    /// Of what.
    pub symbol: Symbol,
    /// What is added to it.
    pub addend: u32,
}

/// Bytes of the jump cache: what Cranelift may have added to its address.
const WIDEST: u64 = 1 << 20;
const _: () = assert!((crate::code::JUMP_CACHE_ENTRIES * 16) as u64 <= WIDEST);

/// The names that a region uses, and the numbers that stand for them.
#[derive(Debug)]
pub struct Symbols {
    /// The jump cache's number; the others follow [`WIDEST`] behind it.
    first: u64,
    numbers: HashMap<Symbol, u64>,
    names: Vec<Symbol>,
    /// Instructions that the code hands to the interpreter.
    pub kept: Vec<Insn>,
}

impl Symbols {
    /// No names yet. A guest cannot know the numbers, so it cannot have constants of its own taken for one.
    pub fn new() -> Self {
        // The standard library seeds it from the host's random numbers.
        let random = RandomState::new().hash_one(0u64);
        Symbols {
            first: random >> 3 | 1 << 61,
            numbers: HashMap::new(),
            names: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// The number that stands for something's address.
    pub fn number(&mut self, symbol: Symbol) -> u64 {
        if symbol == Symbol::JumpCache {
            return self.first;
        }
        let Symbols { first, numbers, names, .. } = self;
        *numbers.entry(symbol).or_insert_with(|| {
            names.push(symbol);
            *first + WIDEST + 8 * (names.len() as u64 - 1)
        })
    }

    /// Something that stands for an instruction handed to the interpreter.
    pub fn keep(&mut self, insn: &Insn) -> Symbol {
        self.kept.push(*insn);
        Symbol::Kept(self.kept.len() as u32 - 1)
    }

    fn meaning(&self, number: u64) -> Option<(Symbol, u32)> {
        let distance = number.checked_sub(self.first)?;
        if distance < WIDEST {
            return Some((Symbol::JumpCache, distance as u32));
        }
        let index = distance - WIDEST;
        let name = *self.names.get(usize::try_from(index / 8).ok()?)?;
        index.is_multiple_of(8).then_some((name, 0))
    }

    /// The places in `code` that hold a number; it is cleared there.
    pub fn find(&self, code: &mut [u8]) -> Vec<Relocation> {
        let mut found = Vec::new();
        let mut at = 0;
        while at + 10 <= code.len() {
            // mov r64, imm64
            let is_move = code[at] & 0xfe == 0x48 && code[at + 1] & 0xf8 == 0xb8;
            let bytes = &mut code[at + 2..at + 10];
            let number = bytes.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte));
            match self.meaning(number).filter(|_| is_move) {
                Some((symbol, addend)) => {
                    bytes.fill(0);
                    found.push(Relocation { at: at as u32 + 2, symbol, addend });
                    at += 10;
                }
                None => at += 1,
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_moves_and_only_there() {
        let mut symbols = Symbols::new();
        let names = [Symbol::Slot(0x1000), Symbol::HostFn(HostFn::Step), Symbol::JumpCache];
        let numbers = names.map(|name| symbols.number(name));
        assert_eq!(symbols.number(names[0]), numbers[0]);
        let mut code = vec![0x90];
        let mut expected = Vec::new();
        for (register, (symbol, number)) in names.into_iter().zip(numbers).enumerate() {
            let addend = if symbol == Symbol::JumpCache { 0x1230 } else { 0 };
            code.extend([0x49, 0xb8 + register as u8]);
            expected.push(Relocation { at: code.len() as u32, symbol, addend });
            code.extend((number + u64::from(addend)).to_le_bytes());
        }
        // Not a move, and a number that is none of ours.
        code.extend([0x48, 0x05]);
        code.extend(numbers[0].to_le_bytes());
        code.extend([0x48, 0xb8]);
        code.extend((numbers[1] + 8).to_le_bytes());
        let mut cleared = code.clone();
        assert_eq!(symbols.find(&mut cleared), expected);
        for Relocation { at, .. } in expected {
            code[at as usize..at as usize + 8].fill(0);
        }
        assert_eq!(cleared, code);
    }

    #[test]
    fn every_function_that_is_named_exists() {
        for op in Opcode::ALL.iter().copied() {
            let has = (HostFn::Alu(op).address().is_some(), HostFn::Fp(op).address().is_some());
            assert!(has != (true, true), "{op:?}");
        }
        assert!(HostFn::Unwind.address().is_some_and(|address| address != 0));
    }
}
