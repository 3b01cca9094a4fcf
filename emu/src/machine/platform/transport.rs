//! virtio over PCI (Virtual I/O Device 1.2, 4.1), without the registers of old and without MSI: what a
//! driver sees of a device, and the rings. The device itself is a [`Kind`].
//!
//! Nothing that the guest writes is trusted. A ring that cannot be right - an address that no window
//! shows, more requests than it has room for, a chain without its parts - makes the device ask for a
//! reset, and it does nothing until then.

use virtio_bindings::virtio_config::*;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use virtio_queue::{DescriptorChain, Queue, QueueOwnedT, QueueT};

use super::windows::Dma;

/// Bytes of the BAR, and what is where in it.
pub(super) const BAR_SIZE: u64 = 0x4000;
const COMMON: u64 = 0;
const COMMON_SIZE: u64 = 56;
const ISR: u64 = 0x1000;
const DEVICE: u64 = 0x2000;
const DEVICE_SIZE: u64 = 0x100;
const NOTIFY: u64 = 0x3000;
/// Bytes between the notification registers of queues.
const MULTIPLIER: u32 = 4;

/// Device status bits of our own doing.
const NEEDS_RESET: u8 = VIRTIO_CONFIG_S_NEEDS_RESET as u8;
const FEATURES_OK: u8 = VIRTIO_CONFIG_S_FEATURES_OK as u8;
const DRIVER_OK: u8 = VIRTIO_CONFIG_S_DRIVER_OK as u8;

/// A capability of the function: which structure, and where in the BAR.
pub(super) struct Capability {
    kind: u8,
    offset: u32,
    length: u32,
    more: Option<u32>,
}

/// The last one shows the BAR through configuration space, for firmware.
pub(super) const CAPABILITIES: [Capability; 5] = [
    Capability { kind: 1, offset: COMMON as u32, length: COMMON_SIZE as u32, more: None },
    Capability { kind: 2, offset: NOTIFY as u32, length: 0x1000, more: Some(MULTIPLIER) },
    Capability { kind: 3, offset: ISR as u32, length: 1, more: None },
    Capability { kind: 4, offset: DEVICE as u32, length: DEVICE_SIZE as u32, more: None },
    Capability { kind: 5, offset: 0, length: 0, more: Some(0) },
];

impl Capability {
    pub(super) fn is_access(&self) -> bool {
        self.kind == 5
    }

    /// As it stands in configuration space, without the link to the next one.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let length = if self.more.is_some() { 20 } else { 16 };
        let mut bytes = vec![9, 0, length, self.kind, 0, 0, 0, 0];
        bytes.extend(self.offset.to_le_bytes());
        bytes.extend(self.length.to_le_bytes());
        bytes.extend(self.more.into_iter().flat_map(u32::to_le_bytes));
        bytes
    }
}

/// A ring cannot be right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Broken;

impl From<virtio_queue::Error> for Broken {
    fn from(_: virtio_queue::Error) -> Self {
        Broken
    }
}

/// A chain of buffers that the driver has handed over.
pub(super) type Chain<'a> = DescriptorChain<&'a Dma>;

/// The next chain of a ring, if there is one.
pub(super) fn next_chain<'a>(queue: &mut Queue, dma: &'a Dma) -> Result<Option<Chain<'a>>, Broken> {
    Ok(queue.iter(dma)?.next())
}

/// What is special about a device.
pub(super) trait Kind: Send + std::fmt::Debug {
    /// Its number among virtio devices and its class on PCI.
    fn identity(&self) -> (u16, u32);
    /// What it offers beyond what all do.
    fn features(&self) -> u64;
    /// The largest size of each of its queues.
    fn queues(&self) -> &'static [u16];
    /// Its configuration, as far as it has any.
    fn config(&self) -> Vec<u8>;
    /// Serves a queue, of which the driver says that something is there.
    fn serve(
        &mut self,
        index: usize,
        queue: &mut Queue,
        dma: &Dma,
        features: u64,
    ) -> Result<Served, Broken>;
}

/// What came of serving a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Served {
    /// Something was handed back.
    pub(super) any: bool,
    /// There would be use for more chains.
    pub(super) wants: bool,
    /// The device has settled itself when the driver is to tell of more.
    pub(super) settled: bool,
}

/// A device.
#[derive(Debug)]
pub(super) struct Transport {
    kind: Box<dyn Kind>,
    queues: Vec<Queue>,
    dma: Dma,
    /// It may access memory.
    master: bool,
    status: u8,
    isr: u8,
    offered_select: u32,
    accepted_select: u32,
    accepted: u64,
    queue_select: u16,
}

impl Transport {
    pub(super) fn new(kind: Box<dyn Kind>, dma: Dma) -> Self {
        let mut transport = Transport {
            kind,
            queues: Vec::new(),
            dma,
            master: false,
            status: 0,
            isr: 0,
            offered_select: 0,
            accepted_select: 0,
            accepted: 0,
            queue_select: 0,
        };
        transport.reset();
        transport
    }

    /// Its number among virtio devices and its class.
    pub(super) fn identity(&self) -> (u16, u32) {
        self.kind.identity()
    }

    pub(super) fn set_master(&mut self, master: bool) {
        self.master = master;
    }

    /// Level of its interrupt.
    pub(super) fn interrupts(&self) -> bool {
        self.isr != 0
    }

    fn reset(&mut self) {
        // A size that is no power of two is none.
        let sizes = self.kind.queues();
        self.queues = sizes.iter().filter_map(|&size| Queue::new(size).ok()).collect();
        (self.status, self.isr, self.accepted, self.queue_select) = (0, 0, 0, 0);
        (self.offered_select, self.accepted_select) = (0, 0);
        self.dma.translated = false;
    }

    fn features(&self) -> u64 {
        let all = [
            VIRTIO_F_VERSION_1,
            VIRTIO_F_ACCESS_PLATFORM,
            VIRTIO_RING_F_EVENT_IDX,
            VIRTIO_RING_F_INDIRECT_DESC,
        ];
        all.iter().fold(self.kind.features(), |features, bit| features | 1 << bit)
    }

    fn accepted(&self, bit: u32) -> bool {
        self.accepted >> bit & 1 != 0
    }

    /// The driver has accepted: or is refused, as by a device that does not see FEATURES_OK stay.
    fn agree(&mut self) -> bool {
        let right = self.accepted & !self.features() == 0 && self.accepted(VIRTIO_F_VERSION_1);
        self.dma.translated = self.accepted(VIRTIO_F_ACCESS_PLATFORM);
        let events = self.accepted(VIRTIO_RING_F_EVENT_IDX);
        self.queues.iter_mut().for_each(|queue| queue.set_event_idx(events));
        right
    }

    fn set_status(&mut self, value: u8) {
        if value == 0 {
            self.reset();
            return;
        }
        let mut value = value | self.status & NEEDS_RESET;
        if value & !self.status & FEATURES_OK != 0 && !self.agree() {
            value &= !FEATURES_OK;
        }
        self.status = value;
    }

    fn queue(&mut self) -> Option<&mut Queue> {
        self.queues.get_mut(usize::from(self.queue_select))
    }

    /// The common configuration, byte for byte.
    fn common(&mut self) -> [u8; COMMON_SIZE as usize] {
        let mut bytes = [0; COMMON_SIZE as usize];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let half =
            |word: u64, select: u32| if select < 2 { (word >> (32 * select)) as u32 } else { 0 };
        put(0, &self.offered_select.to_le_bytes());
        put(4, &half(self.features(), self.offered_select).to_le_bytes());
        put(8, &self.accepted_select.to_le_bytes());
        put(12, &half(self.accepted, self.accepted_select).to_le_bytes());
        // No vectors.
        put(16, &[0xff, 0xff]);
        put(18, &(self.queues.len() as u16).to_le_bytes());
        put(20, &[self.status, 0]);
        put(22, &self.queue_select.to_le_bytes());
        put(26, &[0xff, 0xff]);
        let select = self.queue_select;
        if let Some(queue) = self.queue() {
            put(24, &queue.size().to_le_bytes());
            put(28, &u16::from(queue.ready()).to_le_bytes());
            put(30, &select.to_le_bytes());
            put(32, &queue.desc_table().to_le_bytes());
            put(40, &queue.avail_ring().to_le_bytes());
            put(48, &queue.used_ring().to_le_bytes());
        }
        bytes
    }

    fn write_common(&mut self, at: u64, size: u64, value: u64) {
        let word = value as u32;
        match (at, size) {
            (0, 4) => self.offered_select = word,
            (8, 4) => self.accepted_select = word,
            // Settled once FEATURES_OK is.
            (12, 4) if self.accepted_select < 2 && self.status & FEATURES_OK == 0 => {
                let shift = 32 * self.accepted_select;
                self.accepted = self.accepted & !(0xffff_ffff << shift) | u64::from(word) << shift;
            }
            (20, 1) => self.set_status(value as u8),
            (22, 2) => self.queue_select = value as u16,
            _ => self.write_queue(at, size, value),
        }
    }

    fn write_queue(&mut self, at: u64, size: u64, value: u64) {
        let dma = self.dma.clone();
        let Some(queue) = self.queue() else { return };
        // A queue that is in use stays as it is.
        if queue.ready() {
            return;
        }
        let word = Some(value as u32);
        match (at, size) {
            (24, 2) => queue.set_size(value as u16),
            (28, 2) if value == 1 => {
                queue.set_ready(true);
                if !queue.is_valid(&dma) {
                    queue.set_ready(false);
                    self.give_up();
                }
            }
            (32, 4) => queue.set_desc_table_address(word, None),
            (36, 4) => queue.set_desc_table_address(None, word),
            (40, 4) => queue.set_avail_ring_address(word, None),
            (44, 4) => queue.set_avail_ring_address(None, word),
            (48, 4) => queue.set_used_ring_address(word, None),
            (52, 4) => queue.set_used_ring_address(None, word),
            _ => {}
        }
    }

    /// Asks for a reset.
    fn give_up(&mut self) {
        self.status |= NEEDS_RESET;
        if self.status & DRIVER_OK != 0 {
            self.isr |= 2;
        }
    }

    /// Serves a queue.
    pub(super) fn notify(&mut self, index: usize) {
        let works = self.status & (DRIVER_OK | NEEDS_RESET) == DRIVER_OK && self.master;
        let Some(queue) = self.queues.get_mut(index).filter(|queue| works && queue.ready()) else {
            return;
        };
        let mut serve = || {
            let (mut any, mut stuck) = (false, false);
            loop {
                let before = queue.next_avail();
                let served = self.kind.serve(index, queue, &self.dma, self.accepted)?;
                any |= served.any;
                if served.settled {
                    break;
                }
                // What came in between is not told of any more.
                if !queue.enable_notification(&self.dma)? || !served.wants {
                    break;
                }
                // Chains that are there and cannot be had.
                if stuck && queue.next_avail() == before {
                    return Err(Broken);
                }
                stuck = queue.next_avail() == before;
            }
            Ok(any && queue.needs_notification(&self.dma)?)
        };
        match serve() {
            Ok(tell) => self.isr |= u8::from(tell),
            Err(Broken) => self.give_up(),
        }
    }

    /// Reads 1, 2 or 4 bytes of the BAR.
    pub(super) fn read(&mut self, offset: u64, size: u64) -> u64 {
        let part = |bytes: &[u8], at: u64| -> u64 {
            let byte = |i| u64::from(bytes.get((at + i) as usize).copied().unwrap_or(0));
            (0..size).map(|i| byte(i) << (8 * i)).sum()
        };
        match offset {
            COMMON..ISR => part(&self.common(), offset),
            // Reading is what ends the interrupt.
            ISR => u64::from(std::mem::take(&mut self.isr)),
            DEVICE..NOTIFY => part(&self.kind.config(), offset - DEVICE),
            _ => 0,
        }
    }

    /// Writes 1, 2 or 4 bytes of the BAR.
    pub(super) fn write(&mut self, offset: u64, size: u64, value: u64) {
        match offset {
            COMMON..ISR => self.write_common(offset, size, value),
            NOTIFY..BAR_SIZE => self.notify((offset - NOTIFY) as usize / MULTIPLIER as usize),
            _ => {}
        }
    }
}
