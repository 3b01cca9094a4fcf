//! Physical memory of the privileged machine: RAM in one host mapping, device registers beside it.
//! Shared by all processors of a machine; `system` translates to it.

use super::{Ram, raw};
use rustix::io::Errno;
use std::sync::Arc;

/// Registers of a device in physical address space. Called by the processor's own thread.
pub trait Device: Send + Sync {
    /// A load of `size` bytes at `offset` from the start of the device's range.
    fn read(&self, offset: u64, size: u64) -> u64;
    /// A store of `size` bytes.
    fn write(&self, offset: u64, size: u64, value: u64);
}

/// A device and where it stands.
struct Placed {
    start: u64,
    end: u64,
    device: Arc<dyn Device>,
}

/// RAM from physical address 0 on, and devices.
pub struct Physical {
    /// Where the mapping of `ram` is, kept here for the hot path.
    host: u64,
    size: u64,
    ram: Arc<Ram>,
    devices: Vec<Placed>,
}

impl std::fmt::Debug for Physical {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Physical").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Physical {
    /// `size` bytes of zeros, rounded up to pages; touched pages only cost memory.
    pub fn new(size: u64) -> Result<Self, Errno> {
        let size = size.next_multiple_of(super::PAGE_SIZE);
        let ram = Arc::new(Ram::new(size)?);
        Ok(Physical { host: ram.host(), size, ram, devices: Vec::new() })
    }

    /// RAM without the devices, for devices that read and write it by themselves.
    pub fn ram(&self) -> Arc<Ram> {
        self.ram.clone()
    }

    /// Places a device outside RAM.
    pub fn place(&mut self, start: u64, len: u64, device: Arc<dyn Device>) {
        self.devices.push(Placed { start, end: start.saturating_add(len), device });
    }

    /// Bytes of RAM.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Host address of `len` bytes of RAM at `pa`.
    #[inline]
    pub(super) fn host(&self, pa: u64, len: u64) -> Option<u64> {
        (pa < self.size && self.size - pa >= len).then(|| self.host + pa)
    }

    /// Loads `size` bytes (1, 2, 4, 8); `None` where there is nothing.
    pub fn load(&self, pa: u64, size: u64) -> Option<u64> {
        if let Some(host) = self.host(pa, size) {
            // SAFETY: the range lies in the mapping of RAM, which lives as long as `ram`.
            return unsafe {
                match size {
                    1 => raw::load_u8(host).map(u64::from),
                    2 => raw::load_u16(host).map(u64::from),
                    4 => raw::load_u32(host).map(u64::from),
                    _ => raw::load_u64(host),
                }
            };
        }
        let at = self.devices.iter().find(|d| (d.start..d.end).contains(&pa))?;
        Some(at.device.read(pa - at.start, size))
    }

    /// Stores `size` bytes; `None` where there is nothing.
    pub fn store(&self, pa: u64, size: u64, value: u64) -> Option<()> {
        if let Some(host) = self.host(pa, size) {
            // SAFETY: as in `load`.
            let stored = unsafe {
                match size {
                    1 => raw::store_u8(host, value as u8),
                    2 => raw::store_u16(host, value as u16),
                    4 => raw::store_u32(host, value as u32),
                    _ => raw::store_u64(host, value),
                }
            };
            return stored.then_some(());
        }
        let at = self.devices.iter().find(|d| (d.start..d.end).contains(&pa))?;
        at.device.write(pa - at.start, size, value);
        Some(())
    }

    /// Loads a quadword of RAM; zero outside, as an aborted read of a table gives.
    #[inline]
    pub fn quadword(&self, pa: u64) -> Option<u64> {
        let host = self.host(pa, 8)?;
        // SAFETY: as in `load`.
        unsafe { raw::load_u64(host) }
    }

    /// Replaces a quadword of RAM if it holds `old`; `None` outside RAM.
    pub fn compare_exchange(&self, pa: u64, old: u64, new: u64) -> Option<bool> {
        let host = self.host(pa, 8)?;
        // SAFETY: as in `load`; the caller's address is aligned.
        unsafe { raw::compare_exchange_u64(host, old, new) }
    }

    /// Replaces a longword of RAM if it holds `old`; `None` outside RAM.
    pub fn compare_exchange_longword(&self, pa: u64, old: u32, new: u32) -> Option<bool> {
        let host = self.host(pa, 4)?;
        // SAFETY: as in `compare_exchange`.
        unsafe { raw::compare_exchange_u32(host, old, new) }
    }

    /// Copies bytes into RAM; false if they do not fit.
    pub fn write(&self, pa: u64, bytes: &[u8]) -> bool {
        let Some(host) = self.host(pa, bytes.len() as u64) else { return false };
        // SAFETY: the range lies in RAM, and the source is a slice.
        unsafe { raw::copy(bytes.as_ptr() as u64, host, bytes.len()) == 0 }
    }

    /// Copies bytes out of RAM; false if there are not as many.
    pub fn read(&self, pa: u64, bytes: &mut [u8]) -> bool {
        let Some(host) = self.host(pa, bytes.len() as u64) else { return false };
        // SAFETY: the range lies in RAM, and the target is a slice of ours.
        unsafe { raw::copy(host, bytes.as_mut_ptr() as u64, bytes.len()) == 0 }
    }
}
