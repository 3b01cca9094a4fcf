//! Ranges of guest memory: copying in and out, strings, and ranges for the host's kernel.
//!
//! System calls use these. A range is checked against the window as a whole before a byte moves;
//! pages inside it may still be missing, which shows at the first bad byte, as for a kernel.

use super::journal::Touched;
use super::page::{Access, FaultKind, MemFault, PAGE_SIZE};
use super::{AddressSpace, raw};

impl AddressSpace {
    /// Checks that `[va, va + len)` lies in the window and gives its host address.
    ///
    /// For system calls that the host's kernel carries out: it finds missing and protected pages
    /// itself and says EFAULT. What is written there bypasses nothing: host and guest protection
    /// of data are the same.
    pub fn host_range(&self, va: u64, len: u64, access: Access) -> Result<*mut u8, MemFault> {
        match va.checked_add(len) {
            Some(end) if end <= self.limit => {
                if access == Access::Store {
                    self.journal.note(|| Touched::Bytes(va, end));
                }
                Ok(std::ptr::with_exposed_provenance_mut((self.base + va) as usize))
            }
            // The first address that is bad whatever is mapped.
            _ => Err(MemFault { va: va.max(self.limit), access, why: FaultKind::OutOfWindow }),
        }
    }

    /// Copies guest memory into `out`. On a fault a part may have been copied.
    pub fn read_bytes(&self, va: u64, out: &mut [u8]) -> Result<(), MemFault> {
        let host = self.host_range(va, out.len() as u64, Access::Load)? as u64;
        // SAFETY: the source lies in the window; the destination is an exclusive slice.
        let left = unsafe { raw::copy(host, out.as_mut_ptr() as u64, out.len()) };
        self.finish(va, out.len(), left, |done, va| {
            out[done] = self.load_u8(va)?;
            Ok(())
        })
    }

    /// Copies `bytes` into guest memory. On a fault a part may have been written.
    pub fn write_bytes(&self, va: u64, bytes: &[u8]) -> Result<(), MemFault> {
        let host = self.host_range(va, bytes.len() as u64, Access::Store)? as u64;
        // SAFETY: the destination lies in the window; the source is a slice.
        let left = unsafe { raw::copy(bytes.as_ptr() as u64, host, bytes.len()) };
        self.finish(va, bytes.len(), left, |done, va| self.store_u8(va, bytes[done]))
    }

    /// Fills guest memory with zeros.
    pub fn zero_bytes(&self, va: u64, len: u64) -> Result<(), MemFault> {
        let host = self.host_range(va, len, Access::Store)? as u64;
        // SAFETY: the range lies in the window.
        let left = unsafe { raw::zero(host, len as usize) };
        self.finish(va, len as usize, left, |_, va| self.store_u8(va, 0))
    }

    /// Settles a copy that stopped `left` bytes before its end: by single bytes, which name the
    /// reason, or go on where another thread has just mapped the page.
    #[inline]
    fn finish(
        &self,
        va: u64,
        len: usize,
        left: usize,
        mut byte: impl FnMut(usize, u64) -> Result<(), MemFault>,
    ) -> Result<(), MemFault> {
        for done in len - left..len {
            byte(done, va + done as u64)?;
        }
        Ok(())
    }

    /// Reads a structure of `N` bytes.
    pub fn read_array<const N: usize>(&self, va: u64) -> Result<[u8; N], MemFault> {
        let mut out = [0; N];
        self.read_bytes(va, &mut out)?;
        Ok(out)
    }

    /// Reads a string up to its NUL, which is left out; `None` if it is longer than `max` bytes.
    pub fn read_cstr(&self, va: u64, max: usize) -> Result<Option<Vec<u8>>, MemFault> {
        let mut text = Vec::new();
        while text.len() < max {
            // Never beyond a page that the string itself does not reach.
            let at = va.wrapping_add(text.len() as u64);
            let chunk = (PAGE_SIZE - at % PAGE_SIZE).min(256).min((max - text.len()) as u64);
            let mut buffer = [0; 256];
            let buffer = &mut buffer[..chunk as usize];
            self.read_bytes(at, buffer)?;
            match buffer.iter().position(|&b| b == 0) {
                Some(end) => {
                    text.extend_from_slice(&buffer[..end]);
                    return Ok(Some(text));
                }
                None => text.extend_from_slice(buffer),
            }
        }
        Ok(None)
    }
}
