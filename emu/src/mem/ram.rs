//! RAM of the privileged machine: one host mapping. Apart from `physical`, which knows the devices, so
//! that a device may hold it.

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr;
use vm_memory::VolatileSlice;

/// The mapping.
#[derive(Debug)]
pub struct Ram {
    host: u64,
    size: u64,
}

impl Ram {
    /// `size` bytes of zeros; touched pages only cost memory.
    pub(super) fn new(size: u64) -> Result<Self, Errno> {
        // SAFETY: a fresh mapping wherever the kernel likes.
        let host = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                size as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        Ok(Ram { host: host as u64, size })
    }

    /// Host address of physical address 0.
    pub(super) fn host(&self) -> u64 {
        self.host
    }

    /// Bytes of it.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// A range, which processors may read and write at the same time; `None` if it leaves RAM.
    pub fn slice(&self, pa: u64, len: u64) -> Option<VolatileSlice<'_>> {
        let inside = pa <= self.size && self.size - pa >= len;
        inside.then(|| {
            // SAFETY: the range lies in the mapping, which lives as long as `self` and so outlives the
            // slice; its accesses are volatile, as are those of the processors.
            unsafe { VolatileSlice::new((self.host + pa) as *mut u8, len as usize) }
        })
    }
}

impl Drop for Ram {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever translates to it holds an `Arc` of this, by that of
        // the `Physical`.
        let _ = unsafe { munmap(super::user::host_ptr(self.host), self.size as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_end_with_ram() {
        let ram = Ram::new(8192).unwrap();
        assert_eq!(ram.slice(0, 8192).unwrap().len(), 8192);
        assert!(ram.slice(1, 8192).is_none());
        assert!(ram.slice(8192, 0).unwrap().is_empty());
        assert!(ram.slice(u64::MAX, 2).is_none());
        assert!(ram.slice(8193, 0).is_none());
    }
}
