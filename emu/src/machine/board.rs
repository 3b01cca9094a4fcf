//! What the processors of a machine share: console, disk, time, interrupts between them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use super::line::Lines;
use crate::mem::Physical;

/// Functions of CSERVE, in R16.
pub mod service {
    /// Writes the character in R17.
    pub const PUT: u64 = 0;
    /// Reads a character; all ones if there is none.
    pub const GET: u64 = 1;
    /// Ends the machine with the status in R17.
    pub const END: u64 = 2;
    /// Reads R18 blocks from block R17 of the disk to physical address R19; 1 if done.
    pub const READ: u64 = 3;
    /// Writes blocks likewise.
    pub const WRITE: u64 = 4;
    /// CPU time of this processor's host thread in nanoseconds.
    pub const CPU_TIME: u64 = 5;
    /// Time since the machine was made, in nanoseconds.
    pub const TIME: u64 = 6;
    /// Writes R18 characters at physical address R17.
    pub const PUTS: u64 = 7;
    /// Number of blocks of the disk.
    pub const BLOCKS: u64 = 8;
    /// Boot parameter number R17.
    pub const PARAMETER: u64 = 9;
    /// Reports value R18 as result number R17 to whoever started the machine.
    pub const RESULT: u64 = 10;
    /// The time of day, in units of 100 ns since 17 November 1858.
    pub const CALENDAR: u64 = 11;
    /// Number of processors.
    pub const PROCESSORS: u64 = 12;
    /// Starts processor R17 at physical address R18 with R19 in its R16; 1 if there is one that has not
    /// been started.
    pub const START: u64 = 13;
}

/// 1 January 1970 in units of 100 ns since 17 November 1858: 40587 days.
pub(super) const CALENDAR_OF_1970: u64 = 40_587 * 864_000_000_000;

/// Bytes of a disk block.
const BLOCK: u64 = 512;

/// Where console output goes.
#[derive(Debug, Default)]
pub enum Console {
    /// Kept, to be taken by [`Board::take_output`].
    #[default]
    Kept,
    /// Written to a host file at once.
    File(File),
}

/// Why a disk image cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// It cannot be opened or mapped.
    #[error("{path}: {source}")]
    Host {
        /// The image.
        path: PathBuf,
        /// What the host says.
        source: std::io::Error,
    },
    /// It is empty, or its length is not a number of blocks.
    #[error("{path}: {length} bytes are not a number of 512-byte blocks")]
    Length {
        /// The image.
        path: PathBuf,
        /// Its length.
        length: u64,
    },
}

/// The disk: a copy of its image in memory, or what a test gives.
#[derive(Debug, Default)]
pub struct Disk(Vec<u8>);

impl Disk {
    /// Reads an image, which is refused unless it is a positive number of blocks.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        let bytes = std::fs::read(path)
            .map_err(|source| DiskError::Host { path: path.to_owned(), source })?;
        let length = bytes.len() as u64;
        if length == 0 || !length.is_multiple_of(BLOCK) {
            return Err(DiskError::Length { path: path.to_owned(), length });
        }
        Ok(Disk(bytes))
    }

    /// A disk that holds these bytes, padded to blocks with zeros.
    pub fn of(mut bytes: Vec<u8>) -> Self {
        bytes.resize(bytes.len().next_multiple_of(BLOCK as usize), 0);
        Disk(bytes)
    }
}

/// The shared part of a machine.
#[derive(Debug)]
pub struct Board {
    console: Mutex<(Console, Vec<u8>)>,
    input: Mutex<std::collections::VecDeque<u8>>,
    disk: Mutex<Disk>,
    /// Interprocessor interrupts, a bit for each processor.
    ipis: AtomicU64,
    pub(super) line: Lines,
    start: Instant,
    parameters: Vec<u64>,
    results: Mutex<Vec<(u64, u64)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // What these protect is valid at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Board {
    /// A board with a console, a disk and boot parameters.
    pub fn new(console: Console, disk: Disk, parameters: &[u64]) -> Self {
        Board {
            console: Mutex::new((console, Vec::new())),
            input: Mutex::default(),
            disk: Mutex::new(disk),
            ipis: AtomicU64::new(0),
            line: Lines::new(1),
            start: Instant::now(),
            parameters: parameters.to_vec(),
            results: Mutex::default(),
        }
    }

    /// The same for so many processors, 1 to 64.
    pub fn with_processors(mut self, count: usize) -> Self {
        self.line = Lines::new(count.clamp(1, 64));
        self
    }

    /// Number of processors.
    pub fn processors(&self) -> usize {
        self.line.count()
    }

    /// Console output that was kept.
    pub fn take_output(&self) -> Vec<u8> {
        std::mem::take(&mut lock(&self.console).1)
    }

    /// Characters for the guest to read.
    pub fn type_in(&self, bytes: &[u8]) {
        lock(&self.input).extend(bytes);
    }

    /// What the guest reported, in order: number and value.
    pub fn results(&self) -> Vec<(u64, u64)> {
        lock(&self.results).clone()
    }

    pub(super) fn put(&self, bytes: &[u8]) {
        use std::io::Write;
        let mut console = lock(&self.console);
        match &mut console.0 {
            Console::Kept => console.1.extend(bytes),
            // A terminal that is gone does not stop the machine.
            Console::File(file) => drop(file.write_all(bytes)),
        }
    }

    pub(super) fn get(&self) -> Option<u8> {
        lock(&self.input).pop_front()
    }

    pub(super) fn result(&self, number: u64, value: u64) {
        let mut results = lock(&self.results);
        // A guest that reports without end must not use up memory.
        if results.len() < 1024 {
            results.push((number, value));
        }
    }

    pub(super) fn parameter(&self, number: u64) -> u64 {
        usize::try_from(number).ok().and_then(|n| self.parameters.get(n)).copied().unwrap_or(0)
    }

    pub(super) fn blocks(&self) -> u64 {
        lock(&self.disk).0.len() as u64 / BLOCK
    }

    /// Copies blocks between disk and RAM; false if either ends before.
    pub(super) fn transfer(
        &self,
        physical: &Physical,
        write: bool,
        block: u64,
        count: u64,
        pa: u64,
    ) -> bool {
        let mut disk = lock(&self.disk);
        let range = block.checked_mul(BLOCK).zip(count.checked_mul(BLOCK));
        let range =
            range.and_then(|(start, len)| Some(start as usize..start.checked_add(len)? as usize));
        let Some(bytes) = range.and_then(|range| disk.0.get_mut(range)) else { return false };
        if write { physical.read(pa, bytes) } else { physical.write(pa, bytes) }
    }

    pub(super) fn post_ipi(&self, whom: u64) {
        self.ipis.fetch_or(1 << (whom & 63), Ordering::AcqRel);
        self.line.call(whom & 63);
    }

    /// Whether processor `whom` has been asked for attention.
    pub(super) fn has_ipi(&self, whom: u64) -> bool {
        self.ipis.load(Ordering::Acquire) & 1 << (whom & 63) != 0
    }

    pub(super) fn take_ipi(&self, whom: u64) -> bool {
        let bit = 1 << (whom & 63);
        self.ipis.load(Ordering::Relaxed) & bit != 0
            && self.ipis.fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    /// The time of day as VMS keeps it.
    pub(super) fn calendar(&self) -> u64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        CALENDAR_OF_1970 + (now.as_nanos() / 100) as u64
    }

    pub(super) fn nanoseconds(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// CPU time of the calling thread, so that what the host does meanwhile is not charged.
    pub(super) fn thread_nanoseconds(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}
