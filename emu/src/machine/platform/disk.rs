//! virtio-blk: a disk that is an image file. Requests are carried out when the driver tells of them, by
//! the thread that does, so that counted runs repeat.
//!
//! What the guest writes is in the host's file when a request ends, and on its disk when a flush does.
//! So a kill of this program loses nothing that was written, and one of the host nothing flushed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use virtio_bindings::virtio_blk::*;
use virtio_queue::{Queue, QueueT, Reader, Writer};

use super::transport::{Broken, Chain, Kind, Served, next_chain};
use super::windows::Dma;

/// Bytes of a sector, whatever the disk's blocks are.
const SECTOR: u64 = 512;
/// Size of the queue, and the buffers that a request may have beside header and status. On Alpha Linux
/// puts no more than 128 into a list of its own, and tries for ever where a disk takes more.
const QUEUE: u16 = 256;
const SEGMENTS: u32 = 126;
/// Bytes moved at a time.
const PIECE: u64 = 128 << 10;

/// Why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The host says so.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("not a file or block device")]
    Kind,
    /// The host does not let it be written.
    #[error("it cannot be written ({0}); `,ro` behind its name uses it read-only")]
    ReadOnly(io::Error),
    /// Not even a sector, or not a whole number of them.
    #[error("its {0} bytes are no whole number of sectors of 512 bytes, at least one")]
    Size(u64),
    /// Another program has it.
    #[error("it is in use by another axplab")]
    Locked,
}

/// An image file, locked as long as this lives.
#[derive(Debug)]
pub struct Disk {
    file: File,
    sectors: u64,
    read_only: bool,
    buffer: Vec<u8>,
}

impl Disk {
    /// Opens an image.
    pub fn open(path: &Path, read_only: bool) -> Result<Self, DiskError> {
        // Before opening, which waits for the other end of a pipe.
        let kind = std::fs::metadata(path)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(DiskError::Kind);
        }
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem if !read_only => {
                DiskError::ReadOnly(error)
            }
            _ => DiskError::Io(error),
        };
        let mut file =
            OpenOptions::new().read(true).write(!read_only).open(path).map_err(refused)?;
        let locked = if read_only { file.try_lock_shared() } else { file.try_lock() };
        locked.map_err(|error| match error {
            TryLockError::WouldBlock => DiskError::Locked,
            TryLockError::Error(error) => DiskError::Io(error),
        })?;
        let size = file.seek(SeekFrom::End(0))?;
        if size == 0 || !size.is_multiple_of(SECTOR) {
            return Err(DiskError::Size(size));
        }
        Ok(Disk { file, sectors: size / SECTOR, read_only, buffer: Vec::new() })
    }

    /// Carries out a request, whose parts are there; gives its status and the bytes read.
    fn request(
        &mut self,
        (kind, sector): (u32, u64),
        from: &mut Reader<'_>,
        to: &mut Writer<'_>,
        through: bool,
    ) -> (u32, u64) {
        let length = match kind {
            VIRTIO_BLK_T_IN => to.available_bytes(),
            VIRTIO_BLK_T_OUT => from.available_bytes(),
            VIRTIO_BLK_T_FLUSH => {
                let done = self.file.sync_data();
                return (done.map_or(VIRTIO_BLK_S_IOERR, |()| VIRTIO_BLK_S_OK), 0);
            }
            VIRTIO_BLK_T_GET_ID => {
                let mut name = [0; VIRTIO_BLK_ID_BYTES as usize];
                name[..6].copy_from_slice(b"axplab");
                let length = to.available_bytes().min(name.len());
                let done = to.write_all(&name[..length]);
                return (done.map_or(VIRTIO_BLK_S_IOERR, |()| VIRTIO_BLK_S_OK), length as u64);
            }
            _ => return (VIRTIO_BLK_S_UNSUPP, 0),
        } as u64;
        let end = sector.checked_add(length / SECTOR);
        let inside = length.is_multiple_of(SECTOR) && end.is_some_and(|end| end <= self.sectors);
        if !inside || kind == VIRTIO_BLK_T_OUT && self.read_only {
            return (VIRTIO_BLK_S_IOERR, 0);
        }
        let mut moved = self.transfer(kind == VIRTIO_BLK_T_OUT, sector * SECTOR, length, from, to);
        if through && kind == VIRTIO_BLK_T_OUT {
            moved = moved.and_then(|()| self.file.sync_data());
        }
        let read = if kind == VIRTIO_BLK_T_IN { to.bytes_written() as u64 } else { 0 };
        (moved.map_or(VIRTIO_BLK_S_IOERR, |()| VIRTIO_BLK_S_OK), read)
    }

    fn transfer(
        &mut self,
        out: bool,
        mut at: u64,
        mut left: u64,
        from: &mut Reader<'_>,
        to: &mut Writer<'_>,
    ) -> io::Result<()> {
        self.buffer.resize(left.min(PIECE) as usize, 0);
        while left != 0 {
            let piece = &mut self.buffer[..left.min(PIECE) as usize];
            if out {
                from.read_exact(piece)?;
                self.file.write_all_at(piece, at)?;
            } else {
                self.file.read_exact_at(piece, at)?;
                to.write_all(piece)?;
            }
            at += piece.len() as u64;
            left -= piece.len() as u64;
        }
        Ok(())
    }

    /// Carries out a chain; gives the bytes written to the guest.
    fn chain(&mut self, chain: Chain<'_>, dma: &Dma, features: u64) -> Result<u32, Broken> {
        let mut from: Reader<'_> = chain.clone().reader(dma)?;
        let mut to: Writer<'_> = chain.writer(dma)?;
        let mut header = [0; 16];
        from.read_exact(&mut header).map_err(|_| Broken)?;
        let [kind, _, low, high] =
            [0, 4, 8, 12].map(|i| u32::from_le_bytes(std::array::from_fn(|j| header[i + j])));
        // The status is the last byte.
        let data = to.available_bytes().checked_sub(1).ok_or(Broken)?;
        let mut status = to.split_at(data)?;
        let request = (kind, u64::from(low) | u64::from(high) << 32);
        // A driver that knows of no flushes has each write on the disk.
        let through = features >> VIRTIO_BLK_F_FLUSH & 1 == 0;
        let (result, read) = self.request(request, &mut from, &mut to, through);
        status.write_all(&[result as u8]).map_err(|_| Broken)?;
        Ok(read as u32 + 1)
    }
}

impl Kind for Disk {
    fn identity(&self) -> (u16, u32) {
        // Mass storage of another kind.
        (2, 0x01_80_00)
    }

    fn features(&self) -> u64 {
        let read_only = u64::from(self.read_only) << VIRTIO_BLK_F_RO;
        read_only | 1 << VIRTIO_BLK_F_SEG_MAX | 1 << VIRTIO_BLK_F_BLK_SIZE | 1 << VIRTIO_BLK_F_FLUSH
    }

    fn queues(&self) -> &'static [u16] {
        &[QUEUE]
    }

    fn config(&self) -> Vec<u8> {
        let mut config = vec![0; 60];
        config[..8].copy_from_slice(&self.sectors.to_le_bytes());
        config[12..16].copy_from_slice(&SEGMENTS.to_le_bytes());
        config[20..24].copy_from_slice(&(SECTOR as u32).to_le_bytes());
        config
    }

    fn serve(
        &mut self,
        _: usize,
        queue: &mut Queue,
        dma: &Dma,
        features: u64,
    ) -> Result<Served, Broken> {
        let mut any = false;
        while let Some(chain) = next_chain(queue, dma)? {
            let head = chain.head_index();
            let length = self.chain(chain, dma, features)?;
            queue.add_used(dma, head, length)?;
            any = true;
        }
        Ok(Served { any, wants: true, settled: false })
    }
}
