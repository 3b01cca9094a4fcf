//! Queue instructions (AARM II-A 4.2): absolute and self-relative, longword and quadword links.
//!
//! The interlocked forms take the secondary interlock, bit 0 of the header's forward link, by
//! compare-and-swap, so that they exclude each other between processors. A reference that fails
//! gives the interlock back and leaves the queue as it was.

use super::{Done, Machine, Trouble};
use crate::cpu::Vcpu;
use crate::isa::Vms;
use crate::mem::{AddressSpace, MemFault};

/// Secondary interlock busy.
const BUSY: u64 = u64::MAX;

/// Links of one width.
#[derive(Clone, Copy)]
struct Links<'a> {
    mem: &'a AddressSpace,
    /// Bytes of a link: 4 or 8.
    size: u64,
}

impl Links<'_> {
    /// An address of this width.
    fn address(self, value: u64) -> u64 {
        if self.size == 4 { value as i32 as i64 as u64 } else { value }
    }

    fn load(self, va: u64) -> Result<u64, MemFault> {
        if self.size == 8 {
            return self.mem.load_u64(va);
        }
        if va & 3 == 0 {
            return self.mem.load_u32(va).map(|v| self.address(u64::from(v)));
        }
        let mut value = 0;
        for i in 0..4 {
            value |= u64::from(self.mem.load_u8(va.wrapping_add(i))?) << (8 * i);
        }
        Ok(self.address(value))
    }

    fn store(self, va: u64, value: u64) -> Result<(), MemFault> {
        if self.size == 8 {
            return self.mem.store_u64(va, value);
        }
        if va & 3 == 0 {
            return self.mem.store_u32(va, value as u32);
        }
        // Both ends first, so that all of it or nothing is stored.
        for at in [va, va.wrapping_add(3)] {
            let old = self.mem.load_u8(at)?;
            self.mem.store_u8(at, old)?;
        }
        (0..4).try_for_each(|i| self.mem.store_u8(va.wrapping_add(i), (value >> (8 * i)) as u8))
    }

    fn forward(self, entry: u64) -> Result<u64, MemFault> {
        self.load(entry)
    }

    fn backward(self, entry: u64) -> Result<u64, MemFault> {
        self.load(entry.wrapping_add(self.size))
    }

    fn set_forward(self, entry: u64, value: u64) -> Result<(), MemFault> {
        self.store(entry, value)
    }

    fn set_backward(self, entry: u64, value: u64) -> Result<(), MemFault> {
        self.store(entry.wrapping_add(self.size), value)
    }

    /// Proves that both links of an entry may be written, without changing them.
    fn writable(self, entry: u64) -> Result<(), MemFault> {
        let (f, b) = (self.forward(entry)?, self.backward(entry)?);
        self.set_forward(entry, f)?;
        self.set_backward(entry, b)
    }

    /// Takes the secondary interlock; the forward link, or `None` if it is held.
    fn acquire(self, header: u64) -> Result<Option<u64>, MemFault> {
        let old = self.load(header)?;
        if old & 1 != 0 {
            return Ok(None);
        }
        let taken = if self.size == 8 {
            self.mem.compare_exchange_u64(header, old, old | 1)?
        } else {
            self.mem.compare_exchange_u32(header, old as u32, old as u32 | 1)?
        };
        Ok(taken.then_some(old))
    }
}

/// Which end of a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Head,
    Tail,
}

impl Machine {
    /// Performs a queue call.
    pub(super) fn queue(&mut self, vcpu: &mut Vcpu, call: Vms) -> Done {
        use End::*;
        use Vms::*;
        let size = match call {
            Insqhil | Insqtil | Insqhilr | Insqtilr | Remqhil | Remqtil | Remqhilr | Remqtilr
            | Insquel | InsquelD | Remquel | RemquelD => 4,
            _ => 8,
        };
        let links = Links { mem: &vcpu.mem, size };
        let (a, b) = (links.address(vcpu.cpu.r[16]), links.address(vcpu.cpu.r[17]));
        let (r0, r1) = match call {
            Insquel | Insqueq => (insert(links, a, b)?, None),
            InsquelD | InsqueqD => (insert(links, indirect(links, a)?, b)?, None),
            Remquel | Remqueq => remove(links, a)?,
            RemquelD | RemqueqD => remove(links, indirect(links, a)?)?,
            Insqhil | Insqhiq => (insert_interlocked(links, a, b, Head, true)?, None),
            Insqtil | Insqtiq => (insert_interlocked(links, a, b, Tail, true)?, None),
            Insqhilr | Insqhiqr => (insert_interlocked(links, a, b, Head, false)?, None),
            Insqtilr | Insqtiqr => (insert_interlocked(links, a, b, Tail, false)?, None),
            Remqhil | Remqhiq => remove_interlocked(links, a, Head, true)?,
            Remqtil | Remqtiq => remove_interlocked(links, a, Tail, true)?,
            Remqhilr | Remqhiqr => remove_interlocked(links, a, Head, false)?,
            Remqtilr | Remqtiqr => remove_interlocked(links, a, Tail, false)?,
            _ => return Err(Trouble::Reserved),
        };
        vcpu.cpu.r[0] = r0;
        if let Some(entry) = r1 {
            vcpu.cpu.r[1] = entry;
        }
        Ok(())
    }
}

/// The /D forms name an entry by the address of a pointer to it.
fn indirect(links: Links<'_>, at: u64) -> Result<u64, Trouble> {
    check(at, links.size == 8, 8)?;
    Ok(links.load(at)?)
}

/// Quadword links want octaword alignment, absolute longword links none (AARM II-A 2.6).
fn check(address: u64, checked: bool, alignment: u64) -> Result<(), Trouble> {
    if checked && address & (alignment - 1) != 0 {
        return Err(Trouble::ReservedOperand);
    }
    Ok(())
}

fn insert(links: Links<'_>, predecessor: u64, entry: u64) -> Result<u64, Trouble> {
    for address in [predecessor, entry] {
        check(address, links.size == 8, 16)?;
    }
    let successor = links.forward(predecessor)?;
    check(successor, links.size == 8, 16)?;
    for touched in [entry, successor, predecessor] {
        links.writable(touched)?;
    }
    links.set_forward(entry, successor)?;
    links.set_backward(entry, predecessor)?;
    links.set_backward(successor, entry)?;
    links.set_forward(predecessor, entry)?;
    Ok(u64::from(successor == predecessor))
}

fn remove(links: Links<'_>, entry: u64) -> Result<(u64, Option<u64>), Trouble> {
    check(entry, links.size == 8, 16)?;
    let (successor, predecessor) = (links.forward(entry)?, links.backward(entry)?);
    for neighbour in [successor, predecessor] {
        check(neighbour, links.size == 8, 16)?;
        links.writable(neighbour)?;
    }
    if successor == entry {
        return Ok((u64::MAX, Some(entry)));
    }
    links.set_forward(predecessor, successor)?;
    links.set_backward(successor, predecessor)?;
    Ok((u64::from(successor != predecessor), Some(entry)))
}

/// Alignment of self-relative links: two of them.
fn alignment(links: Links<'_>) -> u64 {
    2 * links.size
}

fn insert_interlocked(
    links: Links<'_>,
    header: u64,
    entry: u64,
    end: End,
    checked: bool,
) -> Result<u64, Trouble> {
    check(header | entry, checked, alignment(links))?;
    if checked && header == entry {
        return Err(Trouble::ReservedOperand);
    }
    links.writable(entry)?;
    let Some(first) = links.acquire(header)? else { return Ok(BUSY) };
    let inserted = (|| {
        let neighbour = match end {
            End::Head => links.address(header.wrapping_add(first)),
            End::Tail => links.address(header.wrapping_add(links.backward(header)?)),
        };
        check(neighbour, checked, alignment(links))?;
        if neighbour != header {
            links.writable(neighbour)?;
        } else {
            // The header's own backward link changes.
            links.set_backward(header, links.backward(header)?)?;
        }
        let (f, b) = match end {
            End::Head => (neighbour, header),
            End::Tail => (header, neighbour),
        };
        links.set_forward(entry, f.wrapping_sub(entry))?;
        links.set_backward(entry, b.wrapping_sub(entry))?;
        let to_entry = entry.wrapping_sub(neighbour);
        match end {
            End::Head => links.set_backward(neighbour, to_entry)?,
            End::Tail => {
                links.set_backward(header, entry.wrapping_sub(header))?;
                if neighbour != header {
                    links.set_forward(neighbour, to_entry)?;
                }
            }
        }
        // Storing the forward link releases the interlock.
        let whole = end == End::Head || neighbour == header;
        Ok::<u64, Trouble>(if whole { entry.wrapping_sub(header) } else { first })
    })();
    links.set_forward(header, *inserted.as_ref().unwrap_or(&first))?;
    inserted.map(|_| u64::from(first == 0))
}

fn remove_interlocked(
    links: Links<'_>,
    header: u64,
    end: End,
    checked: bool,
) -> Result<(u64, Option<u64>), Trouble> {
    check(header, checked, alignment(links))?;
    let Some(first) = links.acquire(header)? else { return Ok((BUSY, None)) };
    let removed = (|| {
        if first == 0 {
            return Ok::<_, Trouble>((first, 0, None));
        }
        let way = match end {
            End::Head => first,
            End::Tail => links.backward(header)?,
        };
        let entry = links.address(header.wrapping_add(way));
        check(entry, checked, alignment(links))?;
        let on = match end {
            End::Head => links.forward(entry)?,
            End::Tail => links.backward(entry)?,
        };
        let neighbour = links.address(entry.wrapping_add(on));
        check(neighbour, checked, alignment(links))?;
        let back = header.wrapping_sub(neighbour);
        let (forward, left) = match end {
            End::Head => {
                links.set_backward(neighbour, back)?;
                (neighbour.wrapping_sub(header), neighbour != header)
            }
            End::Tail => {
                if neighbour != header {
                    links.writable(neighbour)?;
                }
                links.set_backward(header, neighbour.wrapping_sub(header))?;
                if neighbour != header {
                    links.set_forward(neighbour, back)?;
                }
                (if neighbour == header { 0 } else { first }, neighbour != header)
            }
        };
        Ok((forward, if left { 1 } else { 2 }, Some(entry)))
    })();
    let forward = removed.as_ref().map_or(first, |r| r.0);
    links.set_forward(header, forward)?;
    removed.map(|(_, status, entry)| (status, entry))
}
