//! virtio-net: a network card. Frames come and go through a [`Wire`].

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use virtio_bindings::virtio_net::*;
use virtio_queue::{Queue, QueueOwnedT, QueueT, Reader, Writer};

use super::{MAC, MOST, Wire};
use crate::machine::platform::transport::{Broken, Kind, Served, next_chain};
use crate::machine::platform::windows::Dma;

/// The queues.
pub(super) const RECEIVE: usize = 0;
pub(super) const TRANSMIT: usize = 1;
const QUEUES: [u16; 2] = [256, 256];

/// Bytes before each frame: flags, offloads, and how many chains it has.
const HEADER: usize = 12;
const CHAINS: usize = 10;
/// Looks at a queue that has too little, before its driver is waited for.
const LOOKS: usize = 4;

/// The card.
#[derive(Debug)]
pub(in crate::machine::platform) struct Card {
    wire: Arc<Wire>,
    /// Where the other end is a stack of our own, frames may be large, and checksums need nobody's
    /// attention: no bit changes on the way.
    own: Option<u16>,
}

impl Card {
    pub(super) fn new(wire: Arc<Wire>, own: Option<u16>) -> Self {
        Card { wire, own }
    }

    /// Takes frames from the driver while the wire does.
    fn transmit(&self, queue: &mut Queue, dma: &Dma) -> Result<Served, Broken> {
        let mut any = false;
        while self.wire.may_send() {
            let Some(chain) = next_chain(queue, dma)? else {
                if any {
                    self.wire.ring();
                }
                return Ok(Served { any, wants: true, settled: false });
            };
            let head = chain.head_index();
            let mut from: Reader<'_> = chain.reader(dma)?;
            let length = from.available_bytes().checked_sub(HEADER).ok_or(Broken)?;
            from.read_exact(&mut [0; HEADER]).map_err(|_| Broken)?;
            if (super::HEADER..=MOST).contains(&length) {
                let mut frame = vec![0; length];
                from.read_exact(&mut frame).map_err(|_| Broken)?;
                self.wire.send(frame);
            }
            queue.add_used(dma, head, 0)?;
            any = true;
        }
        self.wire.ring();
        // The wire's thread has the queue looked at again.
        Ok(Served { any, wants: false, settled: false })
    }

    /// Puts a frame of so many bytes into the driver's buffers; `None` if they are too few.
    fn place(
        &self,
        queue: &mut Queue,
        dma: &Dma,
        length: usize,
        features: u64,
    ) -> Result<Option<()>, Broken> {
        let merge = features >> VIRTIO_NET_F_MRG_RXBUF & 1 != 0;
        let (mut chains, mut room) = (Vec::new(), 0);
        while room < HEADER + length {
            if !chains.is_empty() && !merge {
                // It will never fit: the buffer is for the next one.
                queue.go_to_previous_position();
                self.wire.receive();
                return Ok(Some(()));
            }
            let Some(chain) = next_chain(queue, dma)? else {
                chains.iter().for_each(|_| queue.go_to_previous_position());
                return Ok(None);
            };
            let head = chain.head_index();
            let to: Writer<'_> = chain.writer(dma)?;
            // The header is in one buffer.
            if chains.is_empty() && to.available_bytes() < HEADER {
                return Err(Broken);
            }
            room += to.available_bytes();
            chains.push((head, to));
        }
        let Some(frame) = self.wire.receive() else { return Ok(Some(())) };
        let mut header = [0; HEADER];
        if self.own.is_some() && features >> VIRTIO_NET_F_GUEST_CSUM & 1 != 0 {
            header[0] = VIRTIO_NET_HDR_F_DATA_VALID as u8;
        }
        header[CHAINS..].copy_from_slice(&(chains.len() as u16).to_le_bytes());
        let mut left = &frame[..];
        for (i, (head, mut to)) in chains.into_iter().enumerate() {
            if i == 0 {
                to.write_all(&header).map_err(|_| Broken)?;
            }
            let (now, later) = left.split_at(left.len().min(to.available_bytes()));
            to.write_all(now).map_err(|_| Broken)?;
            left = later;
            queue.add_used(dma, head, to.bytes_written() as u32)?;
        }
        Ok(Some(()))
    }

    /// Hands frames to the driver while it has buffers.
    fn receive(&self, queue: &mut Queue, dma: &Dma, features: u64) -> Result<Served, Broken> {
        let (mut any, mut looks) = (false, 0);
        while let Some(length) = self.wire.next_length() {
            if self.place(queue, dma, length, features)?.is_some() {
                any = true;
                continue;
            }
            // The driver is to tell of buffers behind those that are there, which stay.
            let next = queue.next_avail();
            queue.set_next_avail(queue.avail_idx(dma, Ordering::Acquire)?.0);
            let more = queue.enable_notification(dma)?;
            queue.set_next_avail(next);
            looks += 1;
            if !more || looks == LOOKS {
                return Ok(Served { any, wants: false, settled: true });
            }
        }
        Ok(Served { any, wants: false, settled: false })
    }
}

impl Kind for Card {
    fn identity(&self) -> (u16, u32) {
        // Ethernet.
        (1, 0x02_00_00)
    }

    fn features(&self) -> u64 {
        let own = [VIRTIO_NET_F_CSUM, VIRTIO_NET_F_GUEST_CSUM, VIRTIO_NET_F_MTU];
        let own = own.iter().filter(|_| self.own.is_some());
        [VIRTIO_NET_F_MAC, VIRTIO_NET_F_MRG_RXBUF]
            .iter()
            .chain(own)
            .fold(0, |all, bit| all | 1 << bit)
    }

    fn queues(&self) -> &'static [u16] {
        &QUEUES
    }

    fn config(&self) -> Vec<u8> {
        // Address, status, pairs of queues, and the largest packet.
        let mut config = MAC.to_vec();
        config.extend([1, 0, 1, 0]);
        config.extend(self.own.unwrap_or(0).to_le_bytes());
        config
    }

    fn serve(
        &mut self,
        index: usize,
        queue: &mut Queue,
        dma: &Dma,
        features: u64,
    ) -> Result<Served, Broken> {
        if index == TRANSMIT {
            self.transmit(queue, dma)
        } else {
            self.receive(queue, dma, features)
        }
    }
}
