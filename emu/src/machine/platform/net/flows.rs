//! TCP connections: each is one of the stack with the guest and one of the host, and bytes are moved
//! between them.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use smoltcp::iface::{Context, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Duration as Span;
use smoltcp::wire::{IpAddress, IpEndpoint, IpListenEndpoint};

use super::options::Forward;
use super::stack::ROUTER;

/// Bytes on the way in either direction of a connection.
const BUFFER: usize = 512 << 10;
/// Connections at a time.
const MOST: usize = 512;
/// First port of the router for connections to the guest.
const PORTS: u16 = 49152;
/// How long the guest has to answer a connection from the host.
const ANSWER: Span = Span::from_secs(20);

/// Who is connected: the guest, and whom it believes to talk to.
type Ends = (SocketAddrV4, SocketAddrV4);

/// A connection.
#[derive(Debug)]
struct Flow {
    /// The stack's half, once the host's is connected.
    handle: Option<SocketHandle>,
    stream: Option<TcpStream>,
    /// What asked for the connection, while the host tries to make it.
    asked: Option<Vec<u8>>,
    /// What the host's half is waited for.
    wants: PollFlags,
    /// The host has sent all that it wants to; so has the guest, and the host was told.
    host_done: bool,
    guest_done: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Flows {
    flows: HashMap<Ends, Flow>,
    listeners: Vec<(TcpListener, SocketAddrV4)>,
    last_port: u16,
}

fn socket() -> Socket<'static> {
    let buffer = || SocketBuffer::new(vec![0; BUFFER]);
    let mut socket = Socket::new(buffer(), buffer());
    // Nothing is gained by waiting for more: a frame costs little.
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(None);
    socket
}

/// Begins to connect.
fn begin(to: SocketAddrV4) -> io::Result<TcpStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    match connect(&socket, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

impl Flow {
    fn new(stream: TcpStream) -> Self {
        // As for the guest's half.
        let _ = stream.set_nodelay(true);
        Flow {
            handle: None,
            stream: Some(stream),
            asked: None,
            wants: PollFlags::empty(),
            host_done: false,
            guest_done: false,
        }
    }

    /// Moves what can be moved; whether that was anything.
    fn pump(&mut self, socket: &mut Socket<'_>) -> bool {
        self.wants = PollFlags::empty();
        let Some(stream) = &mut self.stream else { return false };
        let (mut moved, mut failed) = (false, false);
        while socket.can_recv() && !failed {
            let written = socket.recv(|data| match stream.write(data) {
                Ok(length) => (length, Ok(length)),
                Err(error) => (0, Err(error.kind())),
            });
            match written {
                Ok(Ok(1..)) => moved = true,
                Ok(Err(ErrorKind::Interrupted)) => {}
                Ok(Err(ErrorKind::WouldBlock)) => {
                    self.wants |= PollFlags::OUT;
                    break;
                }
                _ => failed = true,
            }
        }
        let closed = [State::CloseWait, State::LastAck, State::Closing, State::TimeWait];
        if closed.contains(&socket.state()) && socket.recv_queue() == 0 && !self.guest_done {
            self.guest_done = true;
            moved |= stream.shutdown(Shutdown::Write).is_ok();
        }
        while socket.can_send() && !self.host_done && !failed {
            let read = socket.send(|room| match stream.read(room) {
                Ok(length) => (length, Ok(length)),
                Err(error) => (0, Err(error.kind())),
            });
            match read {
                Ok(Ok(0)) => {
                    socket.close();
                    self.host_done = true;
                    moved = true;
                }
                Ok(Ok(_)) => moved = true,
                Ok(Err(ErrorKind::Interrupted)) => {}
                Ok(Err(ErrorKind::WouldBlock)) => {
                    self.wants |= PollFlags::IN;
                    break;
                }
                _ => failed = true,
            }
        }
        if failed {
            socket.abort();
            self.stream = None;
        }
        moved | failed
    }

    /// Whether nothing is left of it; then the host's half learns how it ended.
    fn ended(&mut self, socket: &Socket<'_>) -> bool {
        if socket.state() != State::Closed {
            return false;
        }
        if let Some(stream) = self.stream.take()
            && !(self.host_done && self.guest_done)
        {
            // The guest has broken it off: so does this.
            let _ = sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
        }
        true
    }
}

impl Flows {
    /// Has a port of the host lead to one of the guest.
    pub(super) fn forward(&mut self, forward: &Forward) -> io::Result<()> {
        let listener = TcpListener::bind(forward.host)?;
        listener.set_nonblocking(true)?;
        self.listeners.push((listener, forward.guest));
        Ok(())
    }

    /// The guest asks for a connection with `to`, which is `there` on the host. Gives the frame back if it
    /// is for the stack to answer, now: one that was sent again, or to be refused.
    pub(super) fn ask(
        &mut self,
        guest: SocketAddrV4,
        to: SocketAddrV4,
        there: Option<SocketAddrV4>,
        frame: Vec<u8>,
        sockets: &mut SocketSet<'_>,
    ) -> Option<Vec<u8>> {
        if let Some(flow) = self.flows.get(&(guest, to)) {
            // While the host tries, an answer would be wrong.
            let handle = flow.handle?;
            if sockets.get::<Socket<'_>>(handle).state() != State::TimeWait {
                return Some(frame);
            }
            sockets.remove(handle);
            self.flows.remove(&(guest, to));
        }
        let room = self.flows.len() < MOST;
        let Some(stream) = there.filter(|_| room).and_then(|there| begin(there).ok()) else {
            return Some(frame);
        };
        let mut flow = Flow::new(stream);
        flow.asked = Some(frame);
        // It can be written to when it is connected, or when it failed.
        flow.wants = PollFlags::OUT;
        self.flows.insert((guest, to), flow);
        None
    }

    /// The next connection that the host has made, or not: what asked for it, to be answered now.
    pub(super) fn made(&mut self, sockets: &mut SocketSet<'_>) -> Option<Vec<u8>> {
        let ready = |flow: &Flow| {
            let stream = flow.stream.as_ref().filter(|_| flow.asked.is_some())?;
            match (stream.take_error(), stream.peer_addr()) {
                (Ok(None), Ok(_)) => Some(true),
                (Ok(None), Err(_)) => None,
                _ => Some(false),
            }
        };
        let (&ends, made) =
            self.flows.iter().find_map(|(ends, flow)| Some((ends, ready(flow)?)))?;
        let flow = self.flows.get_mut(&ends)?;
        let asked = flow.asked.take();
        let mut listening = socket();
        let at =
            IpListenEndpoint { addr: Some(IpAddress::Ipv4(*ends.1.ip())), port: ends.1.port() };
        if made && listening.listen(at).is_ok() {
            flow.handle = Some(sockets.add(listening));
        } else {
            // Without a socket the stack refuses.
            self.flows.remove(&ends);
        }
        asked
    }

    /// Connections from the host.
    pub(super) fn accept(&mut self, context: &mut Context, sockets: &mut SocketSet<'_>) {
        for (listener, guest) in &self.listeners {
            while let Ok((stream, SocketAddr::V4(_))) = listener.accept() {
                let taken =
                    |port: u16| self.flows.contains_key(&(*guest, SocketAddrV4::new(ROUTER, port)));
                let mut port = self.last_port;
                loop {
                    port = if port < PORTS || port == u16::MAX { PORTS } else { port + 1 };
                    if !taken(port) {
                        break;
                    }
                }
                self.last_port = port;
                let own = SocketAddrV4::new(ROUTER, port);
                let mut half = socket();
                half.set_timeout(Some(ANSWER));
                let endpoint =
                    |at: SocketAddrV4| IpEndpoint::new(IpAddress::Ipv4(*at.ip()), at.port());
                let fits = self.flows.len() < MOST && stream.set_nonblocking(true).is_ok();
                if fits && half.connect(context, endpoint(*guest), endpoint(own)).is_ok() {
                    let mut flow = Flow::new(stream);
                    flow.handle = Some(sockets.add(half));
                    self.flows.insert((*guest, own), flow);
                }
            }
        }
    }

    /// Moves bytes of all connections, and forgets those that are over; whether anything moved.
    pub(super) fn pump(&mut self, sockets: &mut SocketSet<'_>) -> bool {
        let mut moved = false;
        self.flows.retain(|_, flow| {
            let Some(handle) = flow.handle else { return true };
            let socket = sockets.get_mut::<Socket<'_>>(handle);
            if socket.timeout().is_some() && socket.state() == State::Established {
                socket.set_timeout(None);
            }
            moved |= flow.pump(socket);
            let ended = flow.ended(socket);
            if ended {
                sockets.remove(handle);
            }
            !ended
        });
        moved
    }

    /// What to wait for.
    pub(super) fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.extend(self.listeners.iter().map(|(listener, _)| PollFd::new(listener, PollFlags::IN)));
        for flow in self.flows.values().filter(|flow| !flow.wants.is_empty()) {
            fds.extend(flow.stream.iter().map(|stream| PollFd::new(stream, flow.wants)));
        }
    }
}
