//! The 16550 serial port of the console. Output is taken at once, so its transmitter is always empty.
//! The other end honours RTS: what is typed before the guest has opened the port waits there.

use std::collections::VecDeque;

/// The interrupt line of the first port.
pub(super) const IRQ: u8 = 4;

/// Interrupt enables.
const RECEIVED: u8 = 1;
const EMPTY: u8 = 2;
/// Modem control.
const RTS: u8 = 2;
const OUT2: u8 = 8;
const LOOPBACK: u8 = 0x10;
/// Line control: the first two registers are the divisor.
const DIVISOR: u8 = 0x80;

/// The port.
#[derive(Debug, Default)]
pub(super) struct Uart {
    /// At the other end, and what the port sent to itself.
    input: VecDeque<u8>,
    looped: VecDeque<u8>,
    enable: u8,
    fifo: bool,
    line: u8,
    modem: u8,
    scratch: u8,
    divisor: [u8; 2],
    /// The transmitter has become empty since that was last told.
    empty: bool,
}

impl Uart {
    /// Characters from outside.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.input.extend(bytes);
    }

    /// A character, for the console's callback.
    pub(super) fn take(&mut self) -> Option<u8> {
        self.input.pop_front()
    }

    /// What the receiver has, if it has anything.
    fn received(&mut self) -> Option<&mut VecDeque<u8>> {
        let queue = match self.modem & (LOOPBACK | RTS) {
            RTS => &mut self.input,
            0 => return None,
            _ => &mut self.looped,
        };
        (!queue.is_empty()).then_some(queue)
    }

    fn cause(&mut self) -> u8 {
        if self.enable & RECEIVED != 0 && self.received().is_some() {
            4
        } else if self.enable & EMPTY != 0 && self.empty {
            2
        } else {
            1
        }
    }

    /// Level of the interrupt line, which OUT2 connects.
    pub(super) fn interrupts(&mut self) -> bool {
        self.modem & (OUT2 | LOOPBACK) == OUT2 && self.cause() != 1
    }

    /// Reads register 0 to 7.
    pub(super) fn read(&mut self, register: u64) -> u8 {
        match register {
            0 | 1 if self.line & DIVISOR != 0 => self.divisor[register as usize],
            0 => self.received().and_then(VecDeque::pop_front).unwrap_or(0),
            1 => self.enable,
            2 => {
                let cause = self.cause();
                if cause == 2 {
                    self.empty = false;
                }
                cause | if self.fifo { 0xc0 } else { 0 }
            }
            3 => self.line,
            4 => self.modem,
            5 => 0x60 | u8::from(self.received().is_some()),
            6 if self.modem & LOOPBACK != 0 => {
                // RTS to CTS, DTR to DSR, OUT1 to RI, OUT2 to DCD.
                let m = self.modem;
                (m & 2) << 3 | (m & 1) << 5 | (m & 4) << 4 | (m & 8) << 4
            }
            6 => 0xb0,
            _ => self.scratch,
        }
    }

    /// Writes register 0 to 7; gives the character that goes out.
    pub(super) fn write(&mut self, register: u64, value: u8) -> Option<u8> {
        match register {
            0 | 1 if self.line & DIVISOR != 0 => self.divisor[register as usize] = value,
            0 => {
                self.empty = true;
                if self.modem & LOOPBACK != 0 {
                    self.looped.push_back(value);
                    return None;
                }
                return Some(value);
            }
            1 => {
                // Enabling the interrupt of an empty transmitter raises it.
                if value & !self.enable & EMPTY != 0 {
                    self.empty = true;
                }
                self.enable = value & 15;
            }
            2 => {
                self.fifo = value & 1 != 0;
                if value & 2 != 0 {
                    self.looped.clear();
                }
            }
            3 => self.line = value,
            4 => self.modem = value & 0x1f,
            7 => self.scratch = value,
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_tell_of_input_and_of_an_empty_transmitter() {
        let mut uart = Uart::default();
        uart.write(4, OUT2);
        uart.write(1, 3);
        assert!(uart.interrupts());
        assert_eq!(uart.read(2), 2);
        assert!(!uart.interrupts(), "told");
        uart.receive(b"ab");
        assert_eq!((uart.read(5), uart.read(0)), (0x60, 0), "without RTS nothing is sent here");
        uart.write(4, OUT2 | RTS);
        assert_eq!(uart.read(2), 4);
        assert_eq!((uart.read(0), uart.read(5)), (b'a', 0x61));
        assert_eq!(uart.read(0), b'b');
        assert!(!uart.interrupts());
        assert_eq!(uart.write(0, b'x'), Some(b'x'));
        assert!(uart.interrupts());
        uart.write(4, 0);
        assert!(!uart.interrupts(), "not connected");
    }

    #[test]
    fn loopback_keeps_characters_and_shows_modem_lines() {
        let mut uart = Uart::default();
        uart.write(4, 0x1a);
        assert_eq!(uart.read(6), 0x90);
        assert_eq!(uart.write(0, 7), None);
        assert_eq!(uart.read(0), 7);
        uart.write(3, 0x80);
        uart.write(0, 12);
        assert_eq!(uart.read(0), 12);
    }
}
