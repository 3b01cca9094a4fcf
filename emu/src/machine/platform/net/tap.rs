//! `--net tap=NAME`: frames go to a TAP interface of the host, as they are.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;

use rustix::event::{PollFd, PollFlags, poll};

use super::options::TapError;
use super::{MOST, NAP, Wire};

/// Sets a TAP interface: `TUNSETIFF`, with its name and these flags.
const FLAGS: u16 = 2 /* IFF_TAP */ | 0x1000 /* IFF_NO_PI */;
const NAME: usize = 16;
/// A `struct ifreq`.
type Request = [u8; 40];

/// The interface.
#[derive(Debug)]
pub(super) struct Tap {
    file: File,
    buffer: Vec<u8>,
}

impl Tap {
    /// Opens an interface that is there, or makes one where that is allowed.
    pub(super) fn open(name: &str) -> Result<Self, TapError> {
        if name.is_empty() || name.len() >= NAME || name.contains('\0') {
            return Err(TapError::Name);
        }
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => TapError::Permission,
            _ => TapError::Io(error),
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open("/dev/net/tun").map_err(refused)?;
        let mut request: Request = [0; 40];
        request[..name.len()].copy_from_slice(name.as_bytes());
        request[NAME..NAME + 2].copy_from_slice(&FLAGS.to_ne_bytes());
        // SAFETY: this call of a TUN device reads and writes a `struct ifreq` of 40 bytes, which `Request`
        // is, and keeps no pointer to it.
        let set = unsafe {
            let update =
                rustix::ioctl::Updater::<{ libc::TUNSETIFF as _ }, Request>::new(&mut request);
            rustix::ioctl::ioctl(&file, update)
        };
        set.map_err(|error| refused(error.into()))?;
        Ok(Tap { file, buffer: vec![0; MOST] })
    }

    /// Sends frames, and gives those that have come.
    pub(super) fn turn(&mut self, frames: Vec<Vec<u8>>, room: usize) -> Vec<Vec<u8>> {
        for frame in frames {
            // What the host does not take is lost, as on any network.
            let _ = self.file.write(&frame);
        }
        let mut arrived = Vec::new();
        while arrived.len() < room {
            match self.file.read(&mut self.buffer) {
                Ok(length) if length >= super::HEADER => {
                    arrived.push(self.buffer[..length].to_vec())
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        arrived
    }

    /// Waits for frames from either side.
    pub(super) fn wait(&self, wire: &Wire, stalled: bool) {
        let bell = wire.bell();
        let mut fds = vec![PollFd::new(&bell, PollFlags::IN)];
        if !stalled {
            fds.push(PollFd::new(&self.file, PollFlags::IN));
        }
        let _ = poll(&mut fds, Some(&NAP.try_into().unwrap_or_default()));
    }
}
