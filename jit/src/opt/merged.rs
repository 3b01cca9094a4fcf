//! Host accesses that stand for several of the guest's: which of these a fault belongs to.
//!
//! An access that reaches into a second page may fault there only. The host names the page's start; the
//! distance from where the access began says which of the guest's instructions came to it first.

/// One host access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Merged {
    /// Where the code says that it is: the guest's first access.
    pub pc: u64,
    /// Its bytes: 8 or less, or 16.
    pub bytes: u8,
    /// Who comes first to a page that begins in the first quadword, between the two, in the second.
    first: [u64; 3],
}

impl Merged {
    /// A datum of which LDQ_U instructions at `pc` and `other` load the parts.
    pub fn datum(pc: u64, other: u64) -> Merged {
        Merged { pc, bytes: 8, first: [other; 3] }
    }

    /// Two neighbours: the accesses at `pc` and `next`, and who loads the rest of each where it is a datum.
    pub fn pair([pc, next]: [u64; 2], rest: [Option<u64>; 2]) -> Merged {
        let within = rest[0].map_or(pc, |rest| rest.min(next));
        Merged { pc, bytes: 16, first: [within, next, rest[1].unwrap_or(next)] }
    }

    /// Whether this is the access of so many bytes at `pc`.
    pub fn is(&self, pc: u64, bytes: u8) -> bool {
        self.pc == pc && (self.bytes == 16) == (bytes == 16)
    }

    /// All of it as numbers.
    pub fn to_numbers(self) -> [u64; 5] {
        let [within, between, after] = self.first;
        [self.pc, u64::from(self.bytes), within, between, after]
    }

    /// What [`to_numbers`](Self::to_numbers) gave; `None` if these are none such.
    pub fn from_numbers([pc, bytes, within, between, after]: [u64; 5]) -> Option<Merged> {
        let bytes = u8::try_from(bytes).ok().filter(|bytes| [8, 16].contains(bytes))?;
        Some(Merged { pc, bytes, first: [within, between, after] })
    }

    /// Whose fault it is, `distance` bytes from the start of the access.
    pub fn faulting(&self, distance: u64) -> u64 {
        match distance {
            1..=7 => self.first[0],
            8 => self.first[1],
            9..=15 => self.first[2],
            _ => self.pc,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_belongs_to_who_comes_to_it_first() {
        let datum = Merged::datum(0x100, 0x108);
        assert_eq!([0, 3, 20].map(|d| datum.faulting(d)), [0x100, 0x108, 0x100]);
        let plain = Merged::pair([0x100, 0x104], [None; 2]);
        assert_eq!([0, 3, 8, 12].map(|d| plain.faulting(d)), [0x100, 0x100, 0x104, 0x104]);
        // Both LDQ_U of the second datum stand before the other one of the first.
        let data = Merged::pair([0x100, 0x104], [Some(0x10c), Some(0x108)]);
        assert_eq!([0, 3, 8, 12].map(|d| data.faulting(d)), [0x100, 0x104, 0x104, 0x108]);
    }
}
