//! ioctl: numbers with Alpha's direction and size bits, and terminals in Alpha's layout.

use super::abi::Layout;
use super::call::Call;
use super::errno::{Errno, SysResult};

/// Encoding of Alpha: direction NONE 1, READ 2, WRITE 4 at bit 29, size of 13 bits at 16.
const fn code(direction: u64, kind: u8, number: u64, size: u64) -> u64 {
    direction << 29 | size << 16 | (kind as u64) << 8 | number
}

/// Requests whose host number is another one, and how many bytes the argument has (0: a number).
const RENUMBERED: &[(u64, u64, u64)] = &[
    (code(2, b't', 104, 8), libc::TIOCGWINSZ, 8),
    (code(4, b't', 103, 8), libc::TIOCSWINSZ, 8),
    (code(2, b't', 119, 4), libc::TIOCGPGRP, 4),
    (code(4, b't', 118, 4), libc::TIOCSPGRP, 4),
    (code(2, b't', 115, 4), libc::TIOCOUTQ, 4),
    (code(2, b'f', 127, 4), libc::FIONREAD, 4),
    (code(4, b'f', 126, 4), libc::FIONBIO, 4),
    (code(4, b'f', 125, 4), libc::FIOASYNC, 4),
    (code(1, b'f', 1, 0), libc::FIOCLEX, 0),
    (code(1, b'f', 2, 0), libc::FIONCLEX, 0),
    (code(2, b'f', 128, 8), 0x5460, 8),
    (code(4, b'f', 124, 4), 0x8901, 4),
    (code(2, b'f', 123, 4), 0x8903, 4),
    (code(4, b's', 8, 4), 0x8902, 4),
    (code(2, b's', 9, 4), 0x8904, 4),
    (code(2, b's', 7, 4), 0x8905, 4),
    (code(1, b't', 29, 0), libc::TCSBRK, 0),
    (code(1, b't', 30, 0), libc::TCXONC, 0),
    (code(1, b't', 31, 0), libc::TCFLSH, 0),
    (code(2, b'T', 0x30, 4), libc::TIOCGPTN, 4),
    (code(4, b'T', 0x31, 4), libc::TIOCSPTLCK, 4),
    // Without direction bits, as on the host.
    (0x540c, 0x540c, 0),
    (0x540d, 0x540d, 0),
    (0x540e, 0x540e, 0),
    (0x5412, 0x5412, 1),
    (0x5415, 0x5415, 4),
    (0x5416, 0x5416, 4),
    (0x5417, 0x5417, 4),
    (0x5418, 0x5418, 4),
    (0x5420, 0x5420, 4),
    (0x5422, 0x5422, 0),
    (0x5423, 0x5423, 4),
    (0x5424, 0x5424, 4),
    (0x5425, 0x5425, 0),
    (0x5427, 0x5427, 0),
    (0x5428, 0x5428, 0),
    (0x5429, 0x5429, 4),
];

/// The host's encoding: direction NONE 0, WRITE 1, READ 2 at bit 30, size of 14 bits at 16.
const fn host_code(direction: u64, kind: u8, number: u64, size: u64) -> u64 {
    direction << 30 | size << 16 | (kind as u64) << 8 | number
}

/// A row for a request that differs by its encoding only: direction as Alpha counts, kind, number,
/// size in the code, bytes of the argument.
const fn recoded(direction: u64, kind: u8, number: u64, size: u64, bytes: u64) -> (u64, u64, u64) {
    let host_direction = match direction {
        2 => 2,
        4 => 1,
        6 => 3,
        _ => 0,
    };
    let host = host_code(host_direction, kind, number, size);
    (code(direction, kind, number, size), host, bytes)
}

/// In place of a size: FIDEDUPERANGE's varies.
const DEDUPE: u64 = u64::MAX;

/// Requests of file systems and block devices: Alpha's code, the host's, bytes of the argument. The
/// sizes are the kernel's, whatever the code says: many block requests say nothing and write.
const RECODED: &[(u64, u64, u64)] = &[
    // Flags, version, trimming.
    recoded(2, b'f', 1, 8, 8),
    recoded(4, b'f', 2, 8, 8),
    recoded(2, b'v', 1, 8, 8),
    recoded(4, b'v', 2, 8, 8),
    recoded(6, b'X', 121, 24, 24),
    // Cloning: a descriptor; a range; several.
    recoded(4, 0x94, 9, 4, 0),
    recoded(4, 0x94, 13, 32, 32),
    recoded(6, 0x94, 54, 24, DEDUPE),
    // Block devices. Set and get read-only, reread, size, flush, read-ahead set and get.
    recoded(1, 0x12, 93, 0, 4),
    recoded(1, 0x12, 94, 0, 4),
    recoded(1, 0x12, 95, 0, 0),
    recoded(1, 0x12, 96, 0, 8),
    recoded(1, 0x12, 97, 0, 0),
    recoded(1, 0x12, 98, 0, 0),
    recoded(1, 0x12, 99, 0, 8),
    recoded(1, 0x12, 100, 0, 0),
    recoded(1, 0x12, 101, 0, 8),
    recoded(1, 0x12, 102, 0, 2),
    recoded(1, 0x12, 103, 0, 2),
    recoded(1, 0x12, 104, 0, 4),
    // Block size get and set, size in bytes, discard, limits.
    recoded(2, 0x12, 112, 8, 4),
    recoded(4, 0x12, 113, 8, 4),
    recoded(2, 0x12, 114, 8, 8),
    recoded(1, 0x12, 119, 0, 16),
    recoded(1, 0x12, 120, 0, 4),
    recoded(1, 0x12, 121, 0, 4),
    recoded(1, 0x12, 122, 0, 4),
    recoded(1, 0x12, 123, 0, 4),
    recoded(1, 0x12, 124, 0, 4),
    recoded(1, 0x12, 125, 0, 16),
    recoded(1, 0x12, 126, 0, 2),
    recoded(1, 0x12, 127, 0, 16),
    recoded(2, 0x12, 128, 8, 8),
];

const TCGETS: u64 = code(2, b't', 19, 44);
const TCSETS: u64 = code(4, b't', 20, 44);
const TCSETSF: u64 = code(4, b't', 22, 44);

/// ioctl.
pub fn ioctl(c: &mut Call<'_>) -> SysResult {
    let [fd, request, argument, ..] = c.a;
    let request = request & 0xffff_ffff;
    if request == TCGETS {
        return get_termios(c);
    }
    if (TCSETS..=TCSETSF).contains(&request) {
        return set_termios(c, libc::TCSETS + (request - TCSETS));
    }
    if let Some((_, host, size)) = RENUMBERED.iter().find(|row| row.0 == request) {
        let argument = if *size == 0 { argument } else { c.buf(argument, *size)? };
        return c.wait(libc::SYS_ioctl, &[fd, *host, argument]);
    }
    match request {
        // struct ifconf: a length and a pointer.
        0x8912 => return interface_list(c),
        // struct ifreq, without the requests that put a pointer in it.
        0x8910..=0x8939 | 0x8942 | 0x8943 | 0x8947..=0x8949 => {
            return c.host(libc::SYS_ioctl, &[fd, request, c.buf(argument, 40)?]);
        }
        _ => {}
    }
    let Some(&(_, host, size)) = RECODED.iter().find(|row| row.0 == request) else {
        return Err(Errno::ENOTTY);
    };
    let argument = match size {
        0 => argument,
        // FIDEDUPERANGE: as many entries of 32 bytes as the head says; the host reads the number
        // once more and takes at most a page, which the window's guard has room for.
        DEDUPE => {
            let count = c.read::<2>(argument + 16).map(u16::from_le_bytes)?;
            c.buf(argument, 24 + 32 * u64::from(count))?
        }
        _ => c.buf(argument, size)?,
    };
    c.host(libc::SYS_ioctl, &[fd, host, argument])
}

/// SIOCGIFCONF: fills an array of struct ifreq and sets its length.
fn interface_list(c: &mut Call<'_>) -> SysResult {
    let at = c.a[2];
    let (len, list) = (c.read_u32(at)?, c.read_u64(at + 8)?);
    let mut host = [u64::from(len), c.opt(list, u64::from(len))?];
    c.host(libc::SYS_ioctl, &[c.a[0], 0x8912, host.as_mut_ptr() as u64])?;
    c.write_u32(at, host[0] as u32)?;
    Ok(0)
}

/// Pairs of mask bits, Alpha's first.
type Bits = &'static [(u32, u32)];

const INPUT: Bits = &[
    (0o1, 0o1),
    (0o2, 0o2),
    (0o4, 0o4),
    (0o10, 0o10),
    (0o20, 0o20),
    (0o40, 0o40),
    (0o100, 0o100),
    (0o200, 0o200),
    (0o400, 0o400),
    (0o1000, 0o2000),
    (0o2000, 0o10000),
    (0o4000, 0o4000),
    (0o10000, 0o1000),
    (0o20000, 0o20000),
    (0o40000, 0o40000),
];

const OUTPUT: Bits = &[
    (0o1, 0o1),
    (0o2, 0o4),
    (0o4, 0o2),
    (0o10, 0o10),
    (0o20, 0o20),
    (0o40, 0o40),
    (0o100, 0o100),
    (0o200, 0o200),
    // TAB1, TAB2 of TABDLY.
    (0o2000, 0o4000),
    (0o4000, 0o10000),
];

const LOCAL: Bits = &[
    (0x80, 0o1),
    (0x100, 0o2),
    (0x4000, 0o4),
    (0x8, 0o10),
    (0x2, 0o20),
    (0x4, 0o40),
    (0x10, 0o100),
    (0x8000_0000, 0o200),
    (0x40_0000, 0o400),
    (0x40, 0o1000),
    (0x20, 0o2000),
    (0x1, 0o4000),
    (0x80_0000, 0o10000),
    (0x2000_0000, 0o40000),
    (0x400, 0o100000),
];

const CONTROL: Bits = &[
    (0x100, 0x10),
    (0x200, 0x20),
    (0x400, 0x40),
    (0x800, 0x80),
    (0x1000, 0x100),
    (0x2000, 0x200),
    (0x4000, 0x400),
    (0x8000, 0x800),
    (0x8000_0000, 0x8000_0000),
];

/// Index in Alpha's c_cc, index in the host's.
const CHARACTERS: [(usize, usize); 17] = [
    (0, 4),
    (1, 11),
    (2, 16),
    (3, 2),
    (4, 14),
    (5, 3),
    (6, 12),
    (7, 7),
    (8, 0),
    (9, 1),
    (10, 10),
    (12, 8),
    (13, 9),
    (14, 15),
    (15, 13),
    (16, 6),
    (17, 5),
];

fn to_host(value: u32, bits: Bits) -> u32 {
    bits.iter().filter(|b| value & b.0 != 0).fold(0, |out, b| out | b.1)
}

fn from_host(value: u32, bits: Bits) -> u32 {
    bits.iter().filter(|b| value & b.1 != 0).fold(0, |out, b| out | b.0)
}

/// Speed codes: up to B38400 equal; then Alpha counts on where the host sets CBAUDEX.
fn speed_to_host(code: u32) -> u32 {
    if code <= 15 { code } else { 0o10000 | (code - 15) }
}

fn speed_from_host(code: u32) -> u32 {
    if code & 0o10000 == 0 { code & 0o17 } else { 15 + (code & 0o17) }
}

/// Host termios: four flags, c_line at 16, c_cc of 19 at 17.
fn get_termios(c: &mut Call<'_>) -> SysResult {
    let mut host = Layout::<36>::new();
    c.host(libc::SYS_ioctl, &[c.a[0], libc::TCGETS, host.0.as_mut_ptr() as u64])?;
    let control = host.get_u32(8);
    let speed = speed_from_host(control & 0o10017);
    let mut out = Layout::<44>::new();
    out.u32(0, from_host(host.get_u32(0), INPUT));
    out.u32(4, from_host(host.get_u32(4), OUTPUT));
    out.u32(8, from_host(control, CONTROL) | speed);
    out.u32(12, from_host(host.get_u32(12), LOCAL));
    for (guest, own) in CHARACTERS {
        out.0[16 + guest] = host.0[17 + own];
    }
    out.0[35] = host.0[16];
    out.u32(36, speed);
    out.u32(40, speed);
    c.write(c.a[2], &out.0)?;
    Ok(0)
}

fn set_termios(c: &mut Call<'_>, request: u64) -> SysResult {
    let guest = Layout(c.read::<44>(c.a[2])?);
    let control = guest.get_u32(8);
    let mut host = Layout::<36>::new();
    host.u32(0, to_host(guest.get_u32(0), INPUT));
    host.u32(4, to_host(guest.get_u32(4), OUTPUT));
    host.u32(8, to_host(control, CONTROL) | speed_to_host(control & 0x1f));
    host.u32(12, to_host(guest.get_u32(12), LOCAL));
    host.0[16] = guest.0[35];
    for (own, to) in CHARACTERS {
        host.0[17 + to] = guest.0[16 + own];
    }
    c.wait(libc::SYS_ioctl, &[c.a[0], request, host.0.as_ptr() as u64])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_numbers_are_the_kernels() {
        assert_eq!(TCGETS, 0x402c_7413);
        assert_eq!(TCSETSF, 0x802c_7416);
        assert_eq!(code(2, b't', 104, 8), 0x4008_7468);
        assert_eq!(code(1, b'f', 1, 0), 0x2000_6601);
    }

    #[test]
    fn terminal_bits_map_one_to_one() {
        for bits in [INPUT, OUTPUT, LOCAL, CONTROL] {
            for (guest, host) in bits {
                assert_eq!(to_host(*guest, bits), *host);
                assert_eq!(from_host(*host, bits), *guest);
            }
        }
        for speed in 0..31 {
            assert_eq!(speed_from_host(speed_to_host(speed)), speed);
        }
    }
}
