//! One system call in progress: its arguments, and access to guest memory and the host for the
//! functions that carry calls out.

use std::ffi::CString;

use super::Linux;
use super::errno::{Errno, SysResult};
use super::host;
use crate::cpu::Vcpu;
use crate::mem::Access;

/// Linux's limit for a path, its terminator included.
const PATH_MAX: usize = 4096;

/// A call of the guest.
pub struct Call<'a> {
    /// The personality, as the calling thread sees it.
    pub linux: &'a mut Linux,
    /// The calling thread's processor.
    pub vcpu: &'a mut Vcpu,
    /// Arguments, $16 to $21.
    pub a: [u64; 6],
}

fn six(args: &[u64]) -> [u64; 6] {
    let mut out = [0; 6];
    out[..args.len()].copy_from_slice(args);
    out
}

impl<'a> Call<'a> {
    /// What the thread asks for in its argument registers.
    pub fn new(linux: &'a mut Linux, vcpu: &'a mut Vcpu) -> Self {
        let a = std::array::from_fn(|n| vcpu.cpu.r[16 + n]);
        Call { linux, vcpu, a }
    }
}

impl Call<'_> {
    /// Passes a call on that returns soon.
    pub fn host(&self, nr: i64, args: &[u64]) -> SysResult {
        host::call(nr, six(args))
    }

    /// Passes a call on that may wait, so that a signal ends it.
    pub fn wait(&self, nr: i64, args: &[u64]) -> SysResult {
        host::blocking(&self.linux.task.mailbox, nr, six(args))
    }

    /// Host address of guest memory that the host's kernel will read or write.
    pub fn buf(&self, va: u64, len: u64) -> Result<u64, Errno> {
        Ok(self.vcpu.mem.host_range(va, len, Access::Store)? as u64)
    }

    /// The same where NULL means that nothing is passed.
    pub fn opt(&self, va: u64, len: u64) -> Result<u64, Errno> {
        if va == 0 { Ok(0) } else { self.buf(va, len) }
    }

    /// The same for argument `n`.
    pub fn arg(&self, n: usize, len: u64) -> Result<u64, Errno> {
        self.opt(self.a[n], len)
    }

    /// Copies guest memory in.
    pub fn read<const N: usize>(&self, va: u64) -> Result<[u8; N], Errno> {
        let mut out = [0; N];
        self.vcpu.mem.read_bytes(va, &mut out)?;
        Ok(out)
    }

    /// Reads a quadword of a structure.
    pub fn read_u64(&self, va: u64) -> Result<u64, Errno> {
        self.read(va).map(u64::from_le_bytes)
    }

    /// Reads a longword of a structure.
    pub fn read_u32(&self, va: u64) -> Result<u32, Errno> {
        self.read(va).map(u32::from_le_bytes)
    }

    /// Reads `count` quadwords.
    pub fn read_quadwords(&self, va: u64, count: usize) -> Result<Vec<u64>, Errno> {
        let mut bytes = vec![0; count * 8];
        self.vcpu.mem.read_bytes(va, &mut bytes)?;
        Ok(bytes.as_chunks::<8>().0.iter().map(|&b| u64::from_le_bytes(b)).collect())
    }

    /// Copies into guest memory.
    pub fn write(&self, va: u64, bytes: &[u8]) -> Result<(), Errno> {
        Ok(self.vcpu.mem.write_bytes(va, bytes)?)
    }

    /// Writes a quadword.
    pub fn write_u64(&self, va: u64, value: u64) -> Result<(), Errno> {
        self.write(va, &value.to_le_bytes())
    }

    /// Writes a longword.
    pub fn write_u32(&self, va: u64, value: u32) -> Result<(), Errno> {
        self.write(va, &value.to_le_bytes())
    }

    /// A terminated string of at most `max` bytes.
    pub fn string(&self, va: u64, max: usize) -> Result<Vec<u8>, Errno> {
        let mut out = Vec::new();
        let mut at = va;
        // Page by page: what follows the terminator need not be mapped.
        while out.len() < max {
            let room = (256 - at % 256).min((max - out.len()) as u64) as usize;
            let mut part = [0; 256];
            self.vcpu.mem.read_bytes(at, &mut part[..room])?;
            if let Some(end) = part[..room].iter().position(|&b| b == 0) {
                out.extend_from_slice(&part[..end]);
                return Ok(out);
            }
            out.extend_from_slice(&part[..room]);
            at += room as u64;
        }
        Err(Errno::ENAMETOOLONG)
    }

    /// A path as the guest wrote it.
    pub fn guest_path(&self, va: u64) -> Result<Vec<u8>, Errno> {
        self.string(va, PATH_MAX)
    }

    /// The host's path for argument `n`: see [`Process::host_path`](super::process::Process).
    pub fn path(&self, n: usize) -> Result<CString, Errno> {
        self.path_from(libc::AT_FDCWD as u64, n)
    }

    /// The same for a path from a directory. None leads to what is the emulator's own.
    pub fn path_from(&self, dir: u64, n: usize) -> Result<CString, Errno> {
        let guest = self.guest_path(self.a[n])?;
        let path = self.linux.process.host_path(&guest);
        self.linux.process.private.check(dir, &path)?;
        Ok(path)
    }

    /// Sets the second result.
    pub fn second(&mut self, value: u64) {
        self.vcpu.cpu.r[20] = value;
    }
}
