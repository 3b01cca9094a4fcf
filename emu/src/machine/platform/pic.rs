//! The two 8259 interrupt controllers of the ISA bus.

/// One controller.
#[derive(Debug)]
struct Pic {
    /// Levels of the input lines, to find edges.
    lines: u8,
    /// Requests that have not been acknowledged.
    requests: u8,
    in_service: u8,
    mask: u8,
    /// Which initialisation word the data port takes next.
    awaited: u8,
    read_in_service: bool,
    /// Lines that are level-triggered.
    level: u8,
}

/// Both: the second one's output is line 2 of the first.
#[derive(Debug)]
pub(super) struct Pics([Pic; 2]);

/// Line of the second controller.
const CASCADE: u8 = 2;

impl Default for Pics {
    fn default() -> Self {
        // As the console leaves them: initialised, everything masked.
        let pic = || Pic {
            lines: 0,
            requests: 0,
            in_service: 0,
            mask: 0xff,
            awaited: 0,
            read_in_service: false,
            level: 0,
        };
        Pics([pic(), pic()])
    }
}

impl Pic {
    /// The line to be served next, if it is above what is in service.
    fn highest(&self) -> Option<u8> {
        let wanted = self.requests & !self.mask;
        let line = wanted.trailing_zeros();
        (wanted != 0 && line < self.in_service.trailing_zeros()).then_some(line as u8)
    }

    fn set_line(&mut self, line: u8, on: bool) {
        let bit = 1 << line;
        let rises = on && self.lines & bit == 0;
        if on {
            self.lines |= bit;
        } else {
            self.lines &= !bit;
            self.requests &= !bit;
        }
        if rises || on && self.level & bit != 0 && self.in_service & bit == 0 {
            self.requests |= bit;
        }
    }

    fn acknowledge(&mut self) -> u8 {
        // A request that went away is answered as line 7.
        let Some(line) = self.highest() else { return 7 };
        self.requests &= !(1 << line);
        self.in_service |= 1 << line;
        line
    }

    fn command(&mut self, value: u8) {
        if value & 0x10 != 0 {
            (self.requests, self.in_service, self.mask) = (0, 0, 0);
            self.awaited = 2;
        } else if value & 0x08 != 0 {
            if value & 2 != 0 {
                self.read_in_service = value & 1 != 0;
            }
        } else if value & 0x20 != 0 {
            // End of interrupt, of the line that is named or else of the highest.
            let line =
                if value & 0x40 != 0 { value & 7 } else { self.in_service.trailing_zeros() as u8 };
            self.in_service &= !(1u8.checked_shl(u32::from(line)).unwrap_or(0));
        }
    }

    fn data(&mut self, value: u8) {
        match self.awaited {
            0 => self.mask = value,
            // The fourth word closes; vectors are not the processor's concern here.
            4 => self.awaited = 0,
            _ => self.awaited += 1,
        }
    }
}

impl Pics {
    /// Whether the processor is to be interrupted.
    pub(super) fn requests(&mut self) -> bool {
        let second = self.0[1].highest().is_some();
        self.0[0].set_line(CASCADE, second);
        self.0[0].highest().is_some()
    }

    /// Level of an interrupt line, 0 to 15.
    pub(super) fn set_line(&mut self, line: u8, on: bool) {
        self.0[usize::from(line >> 3 & 1)].set_line(line & 7, on);
    }

    /// The interrupt acknowledge cycle: number of the line that is served now.
    pub(super) fn acknowledge(&mut self) -> u64 {
        self.requests();
        match self.0[0].acknowledge() {
            CASCADE => 8 + u64::from(self.0[1].acknowledge()),
            line => u64::from(line),
        }
    }

    /// Reads port 0x20, 0x21, 0xa0, 0xa1, 0x4d0 or 0x4d1.
    pub(super) fn read(&self, port: u64) -> u8 {
        match port {
            0x4d0 | 0x4d1 => self.0[(port & 1) as usize].level,
            _ => {
                let pic = &self.0[usize::from(port & 0x80 != 0)];
                match (port & 1, pic.read_in_service) {
                    (1, _) => pic.mask,
                    (_, true) => pic.in_service,
                    _ => pic.requests,
                }
            }
        }
    }

    /// Writes one of these ports.
    pub(super) fn write(&mut self, port: u64, value: u8) {
        match port {
            0x4d0 | 0x4d1 => self.0[(port & 1) as usize].level = value,
            _ => {
                let pic = &mut self.0[usize::from(port & 0x80 != 0)];
                if port & 1 == 0 { pic.command(value) } else { pic.data(value) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_served_by_number_and_once_for_each_edge() {
        let mut pics = Pics::default();
        pics.set_line(4, true);
        assert!(!pics.requests(), "masked");
        pics.write(0x21, 0);
        pics.write(0xa1, 0);
        assert!(pics.requests());
        pics.set_line(3, true);
        pics.set_line(9, true);
        // The cascade, line 2, is above both.
        assert_eq!(pics.acknowledge(), 9);
        assert!(!pics.requests(), "9 is in service");
        pics.write(0xa0, 0x61);
        pics.write(0x20, 0x62);
        assert_eq!(pics.acknowledge(), 3);
        pics.write(0x20, 0xe0 | 3);
        assert_eq!(pics.acknowledge(), 4);
        pics.write(0x20, 0x20);
        assert!(!pics.requests(), "no new edge");
        pics.set_line(4, false);
        pics.set_line(4, true);
        assert!(pics.requests());
    }

    #[test]
    fn a_request_that_goes_away_is_line_7() {
        let mut pics = Pics::default();
        pics.write(0x21, 0);
        pics.set_line(4, true);
        pics.set_line(4, false);
        assert_eq!(pics.acknowledge(), 7);
        assert_eq!(pics.read(0x21), 0);
    }
}
