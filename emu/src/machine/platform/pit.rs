//! The 8254 interval timer, by which kernels measure the cycle counter, and port 0x61 beside it.

/// Ticks of a counter per second.
const RATE: u64 = 1_193_182;

/// One counter.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    mode: u8,
    /// 1 low byte, 2 high byte, 3 both.
    access: u8,
    /// What it counts down from; 0 stands for 65536.
    reload: u16,
    /// When it began, in nanoseconds.
    start: u64,
    /// The low byte of a count has been written or read.
    half: bool,
    latch: Option<u16>,
}

/// Three counters and the port that gates the third.
#[derive(Debug, Default)]
pub(super) struct Pit {
    counters: [Counter; 3],
    gate: u8,
}

impl Counter {
    fn count(&self) -> u64 {
        if self.reload == 0 { 0x1_0000 } else { u64::from(self.reload) }
    }

    fn ticks(&self, now: u64) -> u64 {
        (u128::from(now.saturating_sub(self.start)) * u128::from(RATE) / 1_000_000_000) as u64
    }

    fn value(&self, now: u64) -> u16 {
        let ticks = self.ticks(now);
        let left = match self.mode {
            2 | 3 => self.count() - ticks % self.count(),
            _ => self.count().wrapping_sub(ticks),
        };
        left as u16
    }

    fn out(&self, now: u64) -> bool {
        let ticks = self.ticks(now);
        match self.mode {
            // A square wave; a pulse is too short to be seen.
            3 => ticks % self.count() < self.count() / 2,
            2 => true,
            _ => ticks >= self.count(),
        }
    }

    fn control(&mut self, value: u8, now: u64) {
        match value >> 4 & 3 {
            0 => self.latch = Some(self.value(now)),
            access => {
                self.access = access;
                // Modes 6 and 7 are 2 and 3.
                self.mode = if value >> 1 & 7 > 5 { value >> 1 & 3 } else { value >> 1 & 7 };
                self.half = false;
                self.latch = None;
            }
        }
    }

    fn write(&mut self, value: u8, now: u64) {
        let value = u16::from(value);
        match self.access {
            2 => self.reload = value << 8,
            3 if self.half => {
                self.reload = self.reload & 0xff | value << 8;
                self.half = false;
            }
            3 => {
                self.reload = value;
                self.half = true;
                return;
            }
            _ => self.reload = value,
        }
        self.start = now;
    }

    fn read(&mut self, now: u64) -> u8 {
        let value = self.latch.unwrap_or_else(|| self.value(now));
        let high = self.access == 2 || self.access == 3 && self.half;
        if self.access == 3 {
            self.half = !self.half;
        }
        if self.access != 3 || !self.half {
            self.latch = None;
        }
        if high { (value >> 8) as u8 } else { value as u8 }
    }
}

impl Pit {
    /// Reads port 0x40 to 0x43 or 0x61.
    pub(super) fn read(&mut self, port: u64, now: u64) -> u8 {
        match port {
            0x40..=0x42 => self.counters[(port & 3) as usize].read(now),
            // Bit 5 is the third counter's output, bit 4 toggles with memory refresh.
            0x61 => {
                let refresh = u8::from((now / 15_000) & 1 != 0);
                self.gate | u8::from(self.counters[2].out(now)) << 5 | refresh << 4
            }
            _ => 0xff,
        }
    }

    /// Writes one of these ports.
    pub(super) fn write(&mut self, port: u64, value: u8, now: u64) {
        match port {
            0x40..=0x42 => self.counters[(port & 3) as usize].write(value, now),
            0x43 if value >> 6 < 3 => self.counters[usize::from(value >> 6)].control(value, now),
            0x61 => self.gate = value & 3,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_0_raises_its_output_after_the_count() {
        let mut pit = Pit::default();
        pit.write(0x61, 1, 0);
        pit.write(0x43, 0xb0, 0);
        pit.write(0x42, 0xff, 0);
        pit.write(0x42, 0xff, 1000);
        // 65535 ticks are 54.924563 ms.
        assert_eq!(pit.read(0x61, 54_925_000) & 0x20, 0);
        assert_eq!(pit.read(0x61, 54_926_000) & 0x20, 0x20);
        pit.write(0x43, 0x80, 1000 + 838_095);
        let low = pit.read(0x42, 0);
        let high = pit.read(0x42, 0);
        // A millisecond has passed: 999 or 1000 ticks.
        assert_eq!(u16::from_le_bytes([low, high]), 65535 - 999);
    }
}
