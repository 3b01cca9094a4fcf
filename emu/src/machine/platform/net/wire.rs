//! Frames between the card, which a processor's thread serves, and the thread of the network.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use rustix::event::{EventfdFlags, eventfd};

use crate::machine::platform::lock;

/// Frames that wait in either direction.
const ROOM: usize = 256;

#[derive(Debug, Default)]
struct Frames {
    to_host: Vec<Vec<u8>>,
    to_guest: VecDeque<Vec<u8>>,
    /// The card has more for the host than there was room for.
    waits: bool,
    /// The network has, or would have, more for the guest.
    stalled: bool,
}

/// The frames, and a bell for the thread.
#[derive(Debug)]
pub(in crate::machine::platform) struct Wire {
    frames: Mutex<Frames>,
    bell: OwnedFd,
}

impl Wire {
    pub(super) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Wire { frames: Mutex::default(), bell })
    }

    /// Calls the thread.
    pub(in crate::machine::platform) fn ring(&self) {
        // It fails where the bell has been rung very often.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Whether the card may send a frame; if not, its queue is looked at again later.
    pub(super) fn may_send(&self) -> bool {
        let mut frames = lock(&self.frames);
        frames.waits |= frames.to_host.len() >= ROOM;
        frames.to_host.len() < ROOM
    }

    /// A frame from the guest.
    pub(super) fn send(&self, frame: Vec<u8>) {
        lock(&self.frames).to_host.push(frame);
    }

    /// The frames from the guest, and whether it has more.
    pub(in crate::machine::platform) fn take(&self) -> (Vec<Vec<u8>>, bool) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        let mut frames = lock(&self.frames);
        (std::mem::take(&mut frames.to_host), std::mem::take(&mut frames.waits))
    }

    /// How many more frames may wait for the guest.
    pub(super) fn room(&self) -> usize {
        ROOM.saturating_sub(lock(&self.frames).to_guest.len())
    }

    /// Frames for the guest.
    pub(in crate::machine::platform) fn give(&self, arrived: Vec<Vec<u8>>) {
        lock(&self.frames).to_guest.extend(arrived);
    }

    /// Whether there is no room; the thread is called when there is again.
    pub(super) fn stall(&self) -> bool {
        let mut frames = lock(&self.frames);
        frames.stalled = frames.to_guest.len() >= ROOM;
        frames.stalled
    }

    /// Length of the next frame for the guest.
    pub(super) fn next_length(&self) -> Option<usize> {
        lock(&self.frames).to_guest.front().map(Vec::len)
    }

    /// The next frame for the guest.
    pub(super) fn receive(&self) -> Option<Vec<u8>> {
        let mut frames = lock(&self.frames);
        let frame = frames.to_guest.pop_front();
        // Not for each frame: when a good part of them is gone.
        if frames.stalled && frames.to_guest.len() <= ROOM / 2 {
            frames.stalled = false;
            drop(frames);
            self.ring();
        }
        frame
    }
}
