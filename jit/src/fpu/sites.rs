//! Which guest instruction a piece of a region's host code does, for the handler of SIGFPE.
//!
//! Filled by the optimising tier as it compiles; read in the signal handler, by the thread that
//! fills it, while compiled code runs.

use axp_emu::isa::Insn;

/// Code offset range and the instruction.
pub type Site = (u32, u32, Insn);

#[derive(Debug)]
struct Code {
    start: u64,
    end: u64,
    sites: Box<[Site]>,
}

/// The floating-point instructions of all regions.
#[derive(Debug, Default)]
pub struct FpSites(Vec<Code>);

impl FpSites {
    /// Adds a region at host addresses `start` to `end`; sites are in order.
    pub fn add(&mut self, start: u64, end: u64, sites: Vec<Site>) {
        if !sites.is_empty() {
            let at = self.0.partition_point(|code| code.end <= start);
            self.0.insert(at, Code { start, end, sites: sites.into() });
        }
    }

    /// Forgets all regions.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The instruction that the host code at `rip` belongs to.
    pub fn find(&self, rip: u64) -> Option<&Insn> {
        let code = self.0.get(self.0.partition_point(|code| code.end <= rip))?;
        let offset = rip.checked_sub(code.start)? as u32;
        let site = code.sites.get(code.sites.partition_point(|site| site.1 <= offset))?;
        (site.0 <= offset).then_some(&site.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axp_emu::isa::decode;

    #[test]
    fn a_site_is_found_at_its_bytes_and_nowhere_else() {
        let insn = decode(0x5be0_b40a).expect("addt/su or the like");
        let mut sites = FpSites::default();
        sites.add(2000, 2100, vec![(0, 4, insn)]);
        sites.add(1000, 1100, vec![(8, 12, insn), (20, 24, insn)]);
        let found = |rip| sites.find(rip).is_some();
        let hits: Vec<u64> = (990..2110).filter(|&rip| found(rip)).collect();
        let expected: Vec<u64> = (1008..1012).chain(1020..1024).chain(2000..2004).collect();
        assert_eq!(hits, expected);
        sites.clear();
        assert!(sites.find(1008).is_none());
    }
}
