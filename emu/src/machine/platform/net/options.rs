//! What `--net` takes: networks and forwards of ports, read from text.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use super::stack::GUEST;

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// Not one of those that there are.
    #[error(
        "`{0}` is no network, or option of one; there are `user[,hostfwd=tcp:PORT-PORT]...` and `tap=NAME`"
    )]
    Unknown(String),
    /// A forward that is none.
    #[error(
        "`{0}` is no forward; write `hostfwd=tcp:PORT-PORT` or, with addresses, \
         `hostfwd=tcp:HOST:PORT-GUEST:PORT`, or udp"
    )]
    NotForward(String),
    /// A port that the host does not give.
    #[error("{0}")]
    Forward(ForwardError),
    /// A TAP interface that the host does not give.
    #[error("cannot use the TAP interface `{0}`: {1}")]
    Tap(String, TapError),
    /// Something else of the host.
    #[error("{0}")]
    Host(io::Error),
}

/// Why a host's port cannot be forwarded.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {at}: {why}")]
pub struct ForwardError {
    /// Where.
    pub at: SocketAddrV4,
    /// What the host says.
    pub why: io::Error,
}

/// Why a TAP interface cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The host does not let this user.
    #[error(
        "no permission; its administrator can make one: `ip tuntap add NAME mode tap user USER`"
    )]
    Permission,
    /// The name is too long or empty.
    #[error("a name has 1 to 15 characters")]
    Name,
    /// Something else.
    #[error("{0}")]
    Io(io::Error),
}

/// A port of the host that leads to one of the guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Forward {
    pub(super) udp: bool,
    pub(super) host: SocketAddrV4,
    pub(super) guest: SocketAddrV4,
}

/// What a text asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    User(Vec<Forward>),
    Tap(String),
}

/// Takes a text apart.
pub(super) fn parse(text: &str) -> Result<Wish, NetError> {
    if let Some(name) = text.strip_prefix("tap=") {
        return Ok(Wish::Tap(name.to_owned()));
    }
    let mut parts = text.split(',');
    if parts.next() != Some("user") {
        return Err(NetError::Unknown(text.to_owned()));
    }
    let forward = |part: &str| {
        let rest =
            part.strip_prefix("hostfwd=").ok_or_else(|| NetError::Unknown(part.to_owned()))?;
        forward(rest).ok_or_else(|| NetError::NotForward(part.to_owned()))
    };
    Ok(Wish::User(parts.map(forward).collect::<Result<_, _>>()?))
}

/// `PROTOCOL:[[ADDRESS]:]PORT-[[ADDRESS]:]PORT`. Without an address the host listens for itself alone.
fn forward(text: &str) -> Option<Forward> {
    let (protocol, rest) = text.split_once(':')?;
    let udp = match protocol {
        "tcp" | "" => false,
        "udp" => true,
        _ => return None,
    };
    let (host, guest) = rest.split_once('-')?;
    let end = |text: &str, otherwise: Ipv4Addr| {
        let (address, port) = text.rsplit_once(':').unwrap_or(("", text));
        let address = if address.is_empty() { otherwise } else { address.parse().ok()? };
        let port = port.parse().ok().filter(|&port| port != 0)?;
        Some(SocketAddrV4::new(address, port))
    };
    Some(Forward { udp, host: end(host, Ipv4Addr::LOCALHOST)?, guest: end(guest, GUEST)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_are_read_as_by_other_emulators() {
        let of = |text: &str| {
            let f = forward(text)?;
            Some((f.udp, f.host.to_string(), f.guest.to_string()))
        };
        let local = |udp| Some((udp, "127.0.0.1:8080".to_owned(), "10.0.2.15:80".to_owned()));
        assert_eq!(of("tcp:8080-80"), local(false));
        assert_eq!(of("tcp::8080-:80"), local(false));
        assert_eq!(of("udp:127.0.0.1:8080-10.0.2.15:80"), local(true));
        assert_eq!(of("tcp:0.0.0.0:22-10.0.2.9:22").unwrap().1, "0.0.0.0:22");
        for wrong in
            ["", "tcp", "tcp:80", "tcp:80-", "sctp:1-1", "tcp:0-1", "tcp:1-70000", "tcp:x:1-1"]
        {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn networks_are_told_apart() {
        assert_eq!(parse("user").unwrap(), Wish::User(Vec::new()));
        assert_eq!(parse("tap=t0").unwrap(), Wish::Tap("t0".to_owned()));
        assert!(
            matches!(parse("user,hostfwd=tcp:1-2,hostfwd=udp:3-4"), Ok(Wish::User(f)) if f.len() == 2)
        );
        assert!(matches!(parse("tap"), Err(NetError::Unknown(_))));
        assert!(matches!(parse("user,dns=1"), Err(NetError::Unknown(_))));
        assert!(matches!(parse("user,hostfwd=tcp:1"), Err(NetError::NotForward(_))));
    }
}
