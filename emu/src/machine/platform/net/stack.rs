//! `--net user`: a TCP/IP stack that the guest's frames end in. It answers for every address outside; what
//! the guest asks of one is done by sockets of the host, for which no privilege is needed.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant as Clock};

use rustix::event::{PollFd, PollFlags, poll};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{self, Checksum, Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use smoltcp::wire::{
    ArpPacket, EthernetAddress, EthernetFrame, EthernetProtocol, HardwareAddress, IpCidr,
    IpProtocol, Ipv4Cidr, Ipv4Packet, TcpPacket, UdpPacket,
};

use super::datagrams::Datagrams;
use super::flows::Flows;
use super::options::{Forward, ForwardError};
use super::{HEADER, LARGE, MAC, NAP, Wire};

/// The network that other emulators give a guest: itself, its router, which is the host, and a server of
/// names, which is the host's.
pub(super) const GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
pub(super) const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
pub(super) const NAMES: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);
const PREFIX: u8 = 24;
/// The port of name servers.
const DOMAIN: u16 = 53;
/// The router's card.
pub(super) const ROUTER_MAC: EthernetAddress = EthernetAddress([0x52, 0x55, 10, 0, 2, 2]);

/// Frames in and out of the stack.
#[derive(Debug, Default)]
pub(super) struct Port {
    pub(super) arriving: VecDeque<Vec<u8>>,
    pub(super) leaving: Vec<Vec<u8>>,
    room: usize,
}

pub(super) struct Arriving(Vec<u8>);

impl phy::RxToken for Arriving {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

pub(super) struct Leaving<'a>(&'a mut Vec<Vec<u8>>);

impl phy::TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.push(frame);
        result
    }
}

impl Device for Port {
    type RxToken<'a> = Arriving;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arriving, Leaving<'_>)> {
        Some((Arriving(self.arriving.pop_front()?), Leaving(&mut self.leaving)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Leaving<'_>> {
        (self.leaving.len() < self.room).then_some(Leaving(&mut self.leaving))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = usize::from(LARGE) + HEADER;
        // The card leaves checksums of the guest out.
        let checksum = &mut capabilities.checksum;
        checksum.ipv4 = Checksum::Tx;
        checksum.tcp = Checksum::Tx;
        checksum.udp = Checksum::Tx;
        checksum.icmpv4 = Checksum::Tx;
        capabilities
    }
}

/// What the stack does with a frame of the guest.
enum Meant {
    /// It is for the stack itself.
    Stack,
    /// A connection is asked for.
    Connect { guest: SocketAddrV4, to: SocketAddrV4 },
    /// A datagram, which ends here.
    Datagram { guest: SocketAddrV4, to: SocketAddrV4, from: usize, length: usize },
    /// Nobody is there.
    Nothing,
}

/// Whom a packet to an address outside is for, on the host.
fn outside(to: SocketAddrV4, names: Ipv4Addr) -> Option<SocketAddrV4> {
    let ip = to.ip();
    let local = |address| Some(SocketAddrV4::new(address, to.port()));
    match *ip {
        _ if to.port() == 0 => None,
        ROUTER => local(Ipv4Addr::LOCALHOST),
        NAMES => (to.port() == DOMAIN).then(|| SocketAddrV4::new(names, DOMAIN)),
        _ if ip.octets()[..3] == ROUTER.octets()[..3] || ip.octets()[0] == 0 => None,
        _ if ip.is_loopback() || ip.is_multicast() || ip.octets()[0] >= 240 => None,
        _ => Some(to),
    }
}

/// The name server of the host.
fn name_server() -> Ipv4Addr {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let servers = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    servers.filter_map(|rest| rest.trim().parse().ok()).next().unwrap_or(Ipv4Addr::LOCALHOST)
}

fn understand(frame: &[u8]) -> Option<Meant> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    match ethernet.ethertype() {
        EthernetProtocol::Arp => {
            let packet = ArpPacket::new_checked(ethernet.payload()).ok()?;
            // A guest that asks for its own address looks for others that have it.
            let own = packet.source_protocol_addr() == packet.target_protocol_addr();
            Some(if own { Meant::Nothing } else { Meant::Stack })
        }
        EthernetProtocol::Ipv4 => {
            let packet = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
            let (source, target) = (packet.src_addr(), packet.dst_addr());
            if packet.more_frags() || packet.frag_offset() != 0 {
                return None;
            }
            match packet.next_header() {
                IpProtocol::Tcp => {
                    let segment = TcpPacket::new_checked(packet.payload()).ok()?;
                    let asks = segment.syn() && !segment.ack() && !segment.rst();
                    Some(if asks {
                        Meant::Connect {
                            guest: SocketAddrV4::new(source, segment.src_port()),
                            to: SocketAddrV4::new(target, segment.dst_port()),
                        }
                    } else {
                        Meant::Stack
                    })
                }
                IpProtocol::Udp => {
                    let datagram = UdpPacket::new_checked(packet.payload()).ok()?;
                    let length = datagram.payload().len();
                    Some(Meant::Datagram {
                        guest: SocketAddrV4::new(source, datagram.src_port()),
                        to: SocketAddrV4::new(target, datagram.dst_port()),
                        from: HEADER + usize::from(packet.header_len()) + 8,
                        length,
                    })
                }
                // Only the router itself is there to be asked.
                IpProtocol::Icmp if matches!(target, ROUTER | NAMES) => Some(Meant::Stack),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The stack.
pub(super) struct Stack {
    port: Port,
    interface: Interface,
    sockets: SocketSet<'static>,
    flows: Flows,
    datagrams: Datagrams,
    names: Ipv4Addr,
    start: Clock,
    /// The guest's card, as its frames tell.
    guest: EthernetAddress,
}

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stack").field("flows", &self.flows).finish_non_exhaustive()
    }
}

impl Stack {
    /// A stack to which ports of the host lead.
    pub(super) fn new(forwards: &[Forward]) -> Result<Self, ForwardError> {
        let mut flows = Flows::default();
        let mut datagrams = Datagrams::default();
        for forward in forwards {
            let failed = |why| ForwardError { at: forward.host, why };
            if forward.udp {
                datagrams.forward(forward).map_err(failed)?;
            } else {
                flows.forward(forward).map_err(failed)?;
            }
        }
        let mut port = Port::default();
        let mut config = Config::new(HardwareAddress::Ethernet(ROUTER_MAC));
        // A random number without a crate for it.
        config.random_seed = RandomState::new().build_hasher().finish();
        let mut interface = Interface::new(config, &mut port, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            for address in [ROUTER, NAMES] {
                // There is room for two.
                let _ = addresses.push(IpCidr::Ipv4(Ipv4Cidr::new(address, PREFIX)));
            }
        });
        // Any address outside is this stack's own.
        interface.set_any_ip(true);
        let _ = interface.routes_mut().add_default_ipv4_route(ROUTER);
        Ok(Stack {
            port,
            interface,
            sockets: SocketSet::new(Vec::new()),
            flows,
            datagrams,
            names: name_server(),
            start: Clock::now(),
            guest: EthernetAddress(MAC),
        })
    }

    fn now(&self) -> Instant {
        Instant::from_micros(self.start.elapsed().as_micros() as i64)
    }

    fn arrive(&mut self, frame: Vec<u8>) {
        if let Ok(ethernet) = EthernetFrame::new_checked(&frame)
            && ethernet.src_addr().is_unicast()
        {
            self.guest = ethernet.src_addr();
        }
        match understand(&frame) {
            Some(Meant::Stack) => self.port.arriving.push_back(frame),
            Some(Meant::Connect { guest, to }) => {
                let there = outside(to, self.names);
                if let Some(frame) = self.flows.ask(guest, to, there, frame, &mut self.sockets) {
                    self.port.arriving.push_back(frame);
                }
            }
            Some(Meant::Datagram { guest, to, from, length }) => {
                if let Some(there) = outside(to, self.names)
                    && let Some(data) = frame.get(from..from + length)
                {
                    self.datagrams.send(guest, there, to, data);
                }
            }
            Some(Meant::Nothing) | None => {}
        }
    }

    /// Does what there is to be done: frames of the guest, sockets of the host. Gives frames for the guest,
    /// not many more than `room`.
    pub(super) fn turn(&mut self, frames: Vec<Vec<u8>>, room: usize) -> Vec<Vec<u8>> {
        self.port.room = room;
        frames.into_iter().for_each(|frame| self.arrive(frame));
        let context = self.interface.context();
        self.flows.accept(context, &mut self.sockets);
        loop {
            let now = self.now();
            self.interface.poll(now, &mut self.port, &mut self.sockets);
            // Connections that the host has made are answered one by one, each by the socket made for it.
            while let Some(syn) = self.flows.made(&mut self.sockets) {
                self.port.arriving.push_back(syn);
                self.interface.poll(now, &mut self.port, &mut self.sockets);
            }
            if !self.flows.pump(&mut self.sockets) {
                break;
            }
        }
        let space = room.saturating_sub(self.port.leaving.len());
        self.datagrams.receive(self.guest, self.names, space, &mut self.port.leaving);
        std::mem::take(&mut self.port.leaving)
    }

    /// Waits for something to do.
    pub(super) fn wait(&mut self, wire: &Wire, stalled: bool) {
        let now = self.now();
        let bell = wire.bell();
        let mut fds = vec![PollFd::new(&bell, PollFlags::IN)];
        let mut timeout = NAP;
        if !stalled {
            if let Some(delay) = self.interface.poll_delay(now, &self.sockets) {
                timeout = timeout.min(Duration::from_micros(delay.total_micros()));
            }
            self.datagrams.watch(&mut fds);
        }
        self.flows.watch(&mut fds);
        let _ = poll(&mut fds, Some(&timeout.try_into().unwrap_or_default()));
    }
}

/// Where a datagram came from, as the guest sees it.
pub(super) fn seen(from: SocketAddrV4, asked_names: bool, names: Ipv4Addr) -> SocketAddrV4 {
    let ip = *from.ip();
    if asked_names && ip == names && from.port() == DOMAIN {
        SocketAddrV4::new(NAMES, DOMAIN)
    } else if ip.is_loopback() {
        SocketAddrV4::new(ROUTER, from.port())
    } else {
        from
    }
}
