//! Numbers and bytes as the records of a [`Library`](super::Library) hold them: small numbers in few bytes.

use axp_emu::isa::{Insn, Opcode};

/// Appends to a record.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// The record.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    /// A number, seven bits to a byte.
    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// The way from one number to another.
    pub fn distance(&mut self, from: u64, to: u64) {
        let way = to.wrapping_sub(from) as i64;
        self.number((way << 1 ^ way >> 63) as u64);
    }

    /// Bytes, with their number.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Guest instructions as fetched, with their number.
    pub fn words(&mut self, words: &[u32]) {
        self.number(words.len() as u64);
        words.iter().for_each(|word| self.0.extend_from_slice(&word.to_le_bytes()));
    }

    /// A decoded instruction.
    pub fn insn(&mut self, insn: &Insn) {
        self.number(insn.op as u64);
        self.0.extend([insn.a, insn.b, insn.c, u8::from(insn.lit), insn.qual.0]);
        self.0.extend(insn.imm.to_le_bytes());
    }
}

/// Reads a record; `None` where it is not what a [`Writer`] writes.
#[derive(Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number.
    pub fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A number that fits a smaller type.
    pub fn small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    /// How many things follow, each of at least a byte.
    pub fn count(&mut self) -> Option<usize> {
        self.small().filter(|&count: &usize| count <= self.0.len())
    }

    /// Where the way from a number leads.
    pub fn distance(&mut self, from: u64) -> Option<u64> {
        let coded = self.number()?;
        let way = (coded >> 1) as i64 ^ -((coded & 1) as i64);
        Some(from.wrapping_add(way as u64))
    }

    /// Bytes.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.count()?;
        self.take(len)
    }

    /// Guest instructions as fetched.
    pub fn words(&mut self) -> Option<Vec<u32>> {
        let count = self.count()?;
        let bytes = self.take(count.checked_mul(4)?)?;
        Some(bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect())
    }

    /// A decoded instruction.
    pub fn insn(&mut self) -> Option<Insn> {
        let op = *Opcode::ALL.get(self.small::<usize>()?)?;
        let &[a, b, c, lit, qual, ref imm @ ..] = self.take(9)? else { return None };
        let imm = i32::from_le_bytes(imm.try_into().ok()?);
        Some(Insn { op, a, b, c, lit: lit != 0, qual: axp_emu::fp::Qual(qual), imm })
    }

    /// Things of one kind, with their number.
    pub fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.count()?;
        (0..count).map(|_| one(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axp_emu::isa::decode;

    #[test]
    fn what_is_written_is_read() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let insn = decode(0x5be0_b40a).expect("an instruction");
        let mut writer = Writer::default();
        numbers.iter().for_each(|&n| writer.number(n));
        numbers.iter().for_each(|&n| writer.distance(1000, n));
        writer.bytes(b"code");
        writer.words(&[1, 0xffff_ffff]);
        writer.insn(&insn);
        let bytes = writer.finish();
        let mut reader = Reader(&bytes);
        for n in numbers {
            assert_eq!(reader.number(), Some(n));
        }
        for n in numbers {
            assert_eq!(reader.distance(1000), Some(n));
        }
        assert_eq!(reader.bytes(), Some(&b"code"[..]));
        assert_eq!(reader.words(), Some(vec![1, 0xffff_ffff]));
        assert_eq!(reader.insn(), Some(insn));
        assert_eq!(reader.number(), None);
    }

    #[test]
    fn what_is_cut_off_or_absurd_gives_nothing() {
        assert_eq!(Reader(&[0xff; 12]).number(), None);
        assert_eq!(Reader(&[0x80]).number(), None);
        assert_eq!(Reader(&[5, 1, 2]).bytes(), None);
        assert_eq!(Reader(&[2, 1, 2, 3, 4]).words(), None);
        assert_eq!(Reader(&[0xff, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0, 0]).insn(), None);
        assert_eq!(Reader(&[0xff, 0x01, 0]).list(|r| r.number()), None);
    }
}
