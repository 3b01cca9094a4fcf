//! UDP of the guest: a socket of the host for each of its ports.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr,
    UdpPacket, UdpRepr,
};

use super::options::Forward;
use super::stack::{NAMES, ROUTER_MAC, seen};
use super::{HEADER, LARGE};

/// Ports of the guest at a time; the one that was silent for longest goes.
const MOST: usize = 256;
/// How long a port is kept without traffic.
const SILENCE: Duration = Duration::from_secs(120);
/// Bytes of the headers of IP and UDP.
const HEADERS: usize = 28;

#[derive(Debug)]
struct Datagram {
    socket: UdpSocket,
    last: Instant,
    /// The guest has asked the server of names.
    names: bool,
    /// It is there for a forward.
    stays: bool,
}

/// The sockets, by the guest's address and port.
#[derive(Debug, Default)]
pub(super) struct Datagrams(HashMap<SocketAddrV4, Datagram>);

fn open(at: SocketAddrV4) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(at)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl Datagrams {
    /// Has a port of the host lead to one of the guest.
    pub(super) fn forward(&mut self, forward: &Forward) -> io::Result<()> {
        let socket = open(forward.host)?;
        let kept = Datagram { socket, last: Instant::now(), names: false, stays: true };
        self.0.insert(forward.guest, kept);
        Ok(())
    }

    /// Sends a datagram of the guest, which believes it goes to `asked`.
    pub(super) fn send(
        &mut self,
        guest: SocketAddrV4,
        to: SocketAddrV4,
        asked: SocketAddrV4,
        data: &[u8],
    ) {
        if !self.0.contains_key(&guest) {
            self.tidy();
            let Ok(socket) = open(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)) else { return };
            let new = Datagram { socket, last: Instant::now(), names: false, stays: false };
            self.0.insert(guest, new);
        }
        if let Some(kept) = self.0.get_mut(&guest) {
            kept.last = Instant::now();
            kept.names |= *asked.ip() == NAMES;
            // Datagrams may be lost.
            let _ = kept.socket.send_to(data, to);
        }
    }

    fn tidy(&mut self) {
        self.0.retain(|_, kept| kept.stays || kept.last.elapsed() < SILENCE);
        if self.0.len() >= MOST {
            let idle = self.0.iter().filter(|(_, kept)| !kept.stays);
            if let Some(oldest) = idle.min_by_key(|(_, kept)| kept.last).map(|(&guest, _)| guest) {
                self.0.remove(&oldest);
            }
        }
    }

    /// Makes frames of what has come.
    pub(super) fn receive(
        &mut self,
        card: EthernetAddress,
        names: Ipv4Addr,
        room: usize,
        frames: &mut Vec<Vec<u8>>,
    ) {
        let end = frames.len() + room;
        let mut buffer = vec![0; usize::from(LARGE) - HEADERS];
        for (&guest, kept) in &mut self.0 {
            while frames.len() < end {
                let Ok((length, SocketAddr::V4(from))) = kept.socket.recv_from(&mut buffer) else {
                    break;
                };
                kept.last = Instant::now();
                let from = seen(from, kept.names, names);
                frames.push(frame(card, from, guest, &buffer[..length]));
            }
        }
    }

    /// What to wait for.
    pub(super) fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.extend(self.0.values().map(|kept| PollFd::new(&kept.socket, PollFlags::IN)));
    }
}

/// The frame of a datagram for the guest.
fn frame(card: EthernetAddress, from: SocketAddrV4, to: SocketAddrV4, data: &[u8]) -> Vec<u8> {
    let checksums = ChecksumCapabilities::default();
    let udp = UdpRepr { src_port: from.port(), dst_port: to.port() };
    let ip = Ipv4Repr {
        src_addr: *from.ip(),
        dst_addr: *to.ip(),
        next_header: IpProtocol::Udp,
        payload_len: udp.header_len() + data.len(),
        hop_limit: 64,
    };
    let mut bytes = vec![0; HEADER + ip.buffer_len() + ip.payload_len];
    let mut ethernet = EthernetFrame::new_unchecked(&mut bytes);
    ethernet.set_src_addr(ROUTER_MAC);
    ethernet.set_dst_addr(card);
    ethernet.set_ethertype(EthernetProtocol::Ipv4);
    let mut packet = Ipv4Packet::new_unchecked(ethernet.payload_mut());
    ip.emit(&mut packet, &checksums);
    let (source, target) = (IpAddress::Ipv4(ip.src_addr), IpAddress::Ipv4(ip.dst_addr));
    let mut datagram = UdpPacket::new_unchecked(packet.payload_mut());
    udp.emit(
        &mut datagram,
        &source,
        &target,
        data.len(),
        |payload| payload.copy_from_slice(data),
        &checksums,
    );
    bytes
}
