//! The network without a machine: frames as a guest sends them, and as none would.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::time::Duration;

use proptest::prelude::*;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::*;

use super::options::{Wish, parse};
use super::stack::{GUEST, ROUTER, ROUTER_MAC, Stack};
use super::{MAC, Wire};

fn stack(options: &str) -> Stack {
    let Ok(Wish::User(forwards)) = parse(options) else { panic!("{options}") };
    Stack::new(&forwards).unwrap()
}

fn ethernet(kind: EthernetProtocol, length: usize, fill: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut frame = vec![0; 14 + length];
    let mut ethernet = EthernetFrame::new_unchecked(&mut frame);
    ethernet.set_src_addr(EthernetAddress(MAC));
    ethernet.set_dst_addr(ROUTER_MAC);
    ethernet.set_ethertype(kind);
    fill(ethernet.payload_mut());
    frame
}

fn arp(target: Ipv4Addr) -> Vec<u8> {
    let request = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: EthernetAddress(MAC),
        source_protocol_addr: GUEST,
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: target,
    };
    ethernet(EthernetProtocol::Arp, request.buffer_len(), |payload| {
        request.emit(&mut ArpPacket::new_unchecked(payload));
    })
}

fn ip(to: Ipv4Addr, protocol: IpProtocol, length: usize, fill: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let header = Ipv4Repr {
        src_addr: GUEST,
        dst_addr: to,
        next_header: protocol,
        payload_len: length,
        hop_limit: 64,
    };
    ethernet(EthernetProtocol::Ipv4, 20 + length, |payload| {
        let mut packet = Ipv4Packet::new_unchecked(payload);
        header.emit(&mut packet, &ChecksumCapabilities::default());
        fill(packet.payload_mut());
    })
}

fn syn(to: SocketAddrV4) -> Vec<u8> {
    ip(*to.ip(), IpProtocol::Tcp, 20, |payload| {
        let mut segment = TcpPacket::new_unchecked(payload);
        segment.set_src_port(1000);
        segment.set_dst_port(to.port());
        segment.set_seq_number(TcpSeqNumber(1));
        segment.set_header_len(20);
        segment.clear_flags();
        segment.set_header_len(20);
        segment.set_syn(true);
        segment.set_window_len(8192);
    })
}

/// Turns the stack until it has a frame for the guest.
fn answer(stack: &mut Stack, frame: Vec<u8>) -> Vec<u8> {
    let wire = Wire::new().unwrap();
    let mut frames = vec![frame];
    for _ in 0..20 {
        if let Some(frame) = stack.turn(std::mem::take(&mut frames), 64).pop() {
            return frame;
        }
        stack.wait(&wire, false);
    }
    panic!("no answer");
}

#[test]
fn every_address_but_the_guests_own_is_the_routers() {
    let mut stack = stack("user");
    for target in [ROUTER, Ipv4Addr::new(10, 0, 2, 99)] {
        let reply = answer(&mut stack, arp(target));
        let ethernet = EthernetFrame::new_checked(&reply).unwrap();
        assert_eq!(ethernet.dst_addr(), EthernetAddress(MAC));
        let packet = ArpPacket::new_checked(ethernet.payload()).unwrap();
        assert_eq!(packet.source_protocol_addr(), target.octets());
    }
    assert!(stack.turn(vec![arp(GUEST)], 64).is_empty());
}

#[test]
fn connections_are_answered_as_the_host_answers() {
    let mut stack = stack("user");
    answer(&mut stack, arp(ROUTER));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let flags = |frame: &[u8]| {
        let packet = Ipv4Packet::new_checked(&frame[14..]).unwrap();
        let segment = TcpPacket::new_checked(packet.payload()).unwrap();
        (packet.src_addr(), segment.src_port(), segment.syn(), segment.rst())
    };
    let reply = answer(&mut stack, syn(SocketAddrV4::new(ROUTER, port)));
    assert_eq!(flags(&reply), (ROUTER, port, true, false));
    listener.accept().unwrap();
    drop(listener);
    // Nobody is there any more; and some addresses are nobody's.
    let other = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for to in [ROUTER, Ipv4Addr::new(10, 0, 2, 77), Ipv4Addr::new(240, 0, 0, 1)] {
        let mut asked = syn(SocketAddrV4::new(to, other));
        // From another port, so that it is another connection.
        asked[35] ^= 1;
        assert_eq!(flags(&answer(&mut stack, asked)), (to, other, false, true));
    }
}

#[test]
fn datagrams_go_out_and_come_back_from_where_they_went() {
    let mut stack = stack("user");
    let host = UdpSocket::bind("127.0.0.1:0").unwrap();
    host.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let port = host.local_addr().unwrap().port();
    let datagram = ip(ROUTER, IpProtocol::Udp, 12, |payload| {
        let mut datagram = UdpPacket::new_unchecked(payload);
        datagram.set_src_port(53);
        datagram.set_dst_port(port);
        datagram.set_len(12);
        datagram.payload_mut().copy_from_slice(b"ping");
    });
    assert!(stack.turn(vec![datagram], 64).is_empty());
    let mut buffer = [0; 64];
    let (length, from) = host.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"ping");
    host.send_to(b"pong!", from).unwrap();
    let reply = answer(&mut stack, arp(GUEST));
    let packet = Ipv4Packet::new_checked(&reply[14..]).unwrap();
    assert_eq!((packet.src_addr(), packet.dst_addr()), (ROUTER, GUEST));
    assert!(packet.verify_checksum());
    let datagram = UdpPacket::new_checked(packet.payload()).unwrap();
    assert!(datagram.verify_checksum(&ROUTER.into(), &GUEST.into()));
    assert_eq!((datagram.src_port(), datagram.dst_port()), (port, 53));
    assert_eq!(datagram.payload(), b"pong!");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Bytes of any kind, some of them behind a header that makes them an address's own, do no harm.
    #[test]
    fn no_frame_stops_the_stack(
        frames in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 14..120), 0u8..5),
            1..20,
        ),
    ) {
        let mut stack = stack("user");
        let frames = frames.into_iter().map(|(bytes, kind)| match kind {
            0 => bytes,
            1 => ethernet(EthernetProtocol::Arp, bytes.len(), |p| p.copy_from_slice(&bytes)),
            2 => ethernet(EthernetProtocol::Ipv4, bytes.len(), |p| p.copy_from_slice(&bytes)),
            3 => ip(ROUTER, IpProtocol::Tcp, bytes.len(), |p| p.copy_from_slice(&bytes)),
            _ => ip(ROUTER, IpProtocol::Icmp, bytes.len(), |p| p.copy_from_slice(&bytes)),
        });
        stack.turn(frames.collect(), 64);
        answer(&mut stack, arp(ROUTER));
    }
}
