//! The network: what can be on the other end of a machine's cable, and the thread that serves it.
//!
//! * `card`: virtio-net, which the driver sees; `wire`: frames between it and this thread
//! * `stack`: `--net user`, where frames end in a TCP/IP stack of our own; `flows`: its TCP connections, as
//!   sockets of the host; `datagrams`: UDP; `options`: what the user may ask for
//! * `tap`: `--net tap=NAME`, where they go to an interface of the host

mod card;
mod datagrams;
mod flows;
mod options;
mod stack;
mod tap;
mod wire;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use super::Clipper;
pub(super) use card::Card;
pub use options::NetError;
pub(super) use wire::Wire;

/// Bytes of a frame's header.
const HEADER: usize = 14;
/// Bytes that an IP packet may have where no cable limits it.
const LARGE: u16 = 65520;
/// Largest frame that is taken from a driver.
const MOST: usize = HEADER + 65535;
/// The longest wait without a look around.
const NAP: Duration = Duration::from_secs(1);

/// Address of the guest's card, as other emulators give it.
const MAC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];

/// The other end, opened.
#[derive(Debug)]
enum End {
    User(Box<stack::Stack>),
    Tap(tap::Tap),
}

/// A network for a machine.
#[derive(Debug)]
pub struct Network {
    end: End,
    wire: Arc<Wire>,
}

impl Network {
    /// Opens what a text asks for: `user` or `tap=NAME`, options behind commas.
    pub fn open(text: &str) -> Result<Network, NetError> {
        let end = match options::parse(text)? {
            options::Wish::User(forwards) => {
                End::User(Box::new(stack::Stack::new(&forwards).map_err(NetError::Forward)?))
            }
            options::Wish::Tap(name) => {
                End::Tap(tap::Tap::open(&name).map_err(|error| NetError::Tap(name, error))?)
            }
        };
        Ok(Network { end, wire: Arc::new(Wire::new().map_err(NetError::Host)?) })
    }

    /// The card on the guest's end.
    pub(super) fn card(&self) -> Card {
        let own = matches!(self.end, End::User(_));
        Card::new(self.wire.clone(), own.then_some(LARGE))
    }

    pub(super) fn wire(&self) -> Arc<Wire> {
        self.wire.clone()
    }

    /// Moves frames until the machine stops; the card is function `index`.
    pub(super) fn run(mut self, platform: &Clipper, index: usize) {
        let notify = |queue| {
            platform.with_function(index, |function| function.device.notify(queue));
        };
        loop {
            let last = platform.stopping();
            let (frames, waited) = self.wire.take();
            if waited {
                notify(card::TRANSMIT);
            }
            let room = self.wire.room();
            let arrived = match &mut self.end {
                End::User(stack) => stack.turn(frames, room),
                End::Tap(tap) => tap.turn(frames, room),
            };
            if !arrived.is_empty() {
                self.wire.give(arrived);
                notify(card::RECEIVE);
            }
            if last {
                return;
            }
            // With no room left it is the guest that goes on.
            let stalled = self.wire.stall();
            match &mut self.end {
                End::User(stack) => stack.wait(&self.wire, stalled),
                End::Tap(tap) => tap.wait(&self.wire, stalled),
            }
        }
    }
}
