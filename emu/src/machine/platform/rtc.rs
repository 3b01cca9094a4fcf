//! The time-of-day clock of the ISA bus: the date, and the periodic interrupt that is the system's
//! interval clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Registers.
const CONTROL_A: u8 = 10;
const CONTROL_B: u8 = 11;
const CONTROL_C: u8 = 12;
const CONTROL_D: u8 = 13;
/// Periodic interrupt enable in B, and flags in C.
const PERIODIC: u8 = 0x40;
const UPDATE_IN_PROGRESS: u8 = 0x80;
/// Date that counted runs start at: 1 January 2000.
const START: u64 = 946_684_800;
const SECOND: u64 = 1_000_000_000;

/// The clock.
#[derive(Debug)]
pub(super) struct Rtc {
    index: u8,
    memory: [u8; 128],
    /// Seconds since 1970 at time 0; the host's clock, or a fixed date in counted runs.
    base: u64,
    /// When the interrupt came last, while it is enabled.
    last: u64,
    now: u64,
}

impl Default for Rtc {
    fn default() -> Self {
        let mut memory = [0; 128];
        // 32768 Hz, 1024 interrupts per second, disabled; 24 hours, decimal.
        memory[usize::from(CONTROL_A)] = 0x26;
        memory[usize::from(CONTROL_B)] = 2;
        Rtc { index: 0, memory, base: START, last: 0, now: 0 }
    }
}

fn bcd(value: u64) -> u8 {
    (value / 10 % 10 * 16 + value % 10) as u8
}

/// Year, month, day and weekday (Sunday 1) of a day since 1970, in the proleptic calendar.
fn date(days: u64) -> (u64, u64, u64, u64) {
    // Years that start in March have their leap day at the end.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day = shifted % 146_097;
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let in_month = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, in_month, (days + 4) % 7 + 1)
}

impl Rtc {
    /// The host's date, or a fixed one.
    pub(super) fn set_real(&mut self, real: bool) {
        let host = SystemTime::now().duration_since(UNIX_EPOCH).map_or(START, |d| d.as_secs());
        self.base = if real { host } else { START };
    }

    /// Nanoseconds between interrupts, if they are enabled.
    fn period(&self) -> Option<u64> {
        let rate = self.memory[usize::from(CONTROL_A)] & 15;
        if self.memory[usize::from(CONTROL_B)] & PERIODIC == 0 || rate == 0 {
            return None;
        }
        // The two fastest settings are those of 8 and 9.
        let rate = if rate < 3 { rate + 7 } else { rate };
        Some((SECOND << (rate - 1)) / 32768)
    }

    /// When the interrupt comes next; never, if it is disabled.
    pub(super) fn next(&self) -> u64 {
        self.period().map_or(u64::MAX, |period| self.last + period)
    }

    /// Interrupts since the last call.
    pub(super) fn ticks(&mut self, now: u64) -> u64 {
        self.now = now;
        let Some(period) = self.period() else { return 0 };
        let ticks = now.saturating_sub(self.last) / period;
        self.last += ticks * period;
        if ticks != 0 {
            self.memory[usize::from(CONTROL_C)] |= PERIODIC | 0x80;
        }
        ticks
    }

    fn field(&self) -> u8 {
        let seconds = self.base + self.now / SECOND;
        let (year, month, day, weekday) = date(seconds / 86400);
        let time = seconds % 86400;
        bcd(match self.index {
            0 => time % 60,
            2 => time / 60 % 60,
            4 => time / 3600,
            6 => weekday,
            7 => day,
            8 => month,
            // Consoles of these systems count years from 1980, and kernels find that out.
            _ => year.saturating_sub(1980) % 100,
        })
    }

    /// Reads port 0x70 or 0x71.
    pub(super) fn read(&mut self, port: u64, now: u64) -> u8 {
        self.now = now;
        if port & 1 == 0 {
            return self.index;
        }
        match self.index {
            0 | 2 | 4 | 6..=9 => self.field(),
            CONTROL_A => {
                // The last 2 ms of a second.
                let busy = now % SECOND >= SECOND - 2_000_000;
                self.memory[usize::from(CONTROL_A)] | if busy { UPDATE_IN_PROGRESS } else { 0 }
            }
            CONTROL_C => std::mem::take(&mut self.memory[usize::from(CONTROL_C)]),
            CONTROL_D => 0x80,
            other => self.memory[usize::from(other & 127)],
        }
    }

    /// Writes one of these ports. The date is the host's: what is written to it is not kept.
    pub(super) fn write(&mut self, port: u64, value: u8, now: u64) {
        if port & 1 == 0 {
            self.index = value & 127;
            return;
        }
        match self.index {
            CONTROL_C | CONTROL_D => {}
            CONTROL_A => self.memory[usize::from(CONTROL_A)] = value & 0x7f,
            other => self.memory[usize::from(other & 127)] = value,
        }
        if matches!(self.index, CONTROL_A | CONTROL_B) {
            self.last = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_through_leap_years() {
        assert_eq!(date(0), (1970, 1, 1, 5));
        assert_eq!(date(11_016), (2000, 2, 29, 3));
        assert_eq!(date(11_017), (2000, 3, 1, 4));
        assert_eq!(date(20_788), (2026, 12, 1, 3));
    }

    #[test]
    fn the_interrupt_comes_at_the_rate_that_is_set() {
        let mut rtc = Rtc::default();
        assert_eq!((rtc.ticks(SECOND), rtc.next()), (0, u64::MAX));
        rtc.write(0x70, CONTROL_A, SECOND);
        rtc.write(0x71, 0x26, SECOND);
        rtc.write(0x70, CONTROL_B, SECOND);
        rtc.write(0x71, 0x42, SECOND);
        assert_eq!(rtc.next(), SECOND + 976_562);
        assert_eq!(rtc.ticks(2 * SECOND), 1024);
        assert_eq!(rtc.ticks(2 * SECOND), 0);
        rtc.write(0x70, CONTROL_C, 0);
        assert_eq!(rtc.read(0x71, 2 * SECOND), 0xc0);
        assert_eq!(rtc.read(0x71, 2 * SECOND), 0);
        // 32 per second.
        rtc.write(0x70, CONTROL_A, 0);
        rtc.write(0x71, 0x2b, 2 * SECOND);
        assert_eq!(rtc.ticks(3 * SECOND), 32);
    }
}
