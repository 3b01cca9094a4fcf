//! Clocks, sleeping and timers. The 64-bit structures are the host's; 32-bit ones are in `osf`.

use super::abi;
use super::call::Call;
use super::errno::{Errno, SysResult};
use super::stack::CLOCK_TICKS;

/// nanosleep.
pub fn nanosleep(c: &mut Call<'_>) -> SysResult {
    c.wait(libc::SYS_nanosleep, &[c.buf(c.a[0], 16)?, c.arg(1, 16)?])
}

/// clock_nanosleep.
pub fn clock_nanosleep(c: &mut Call<'_>) -> SysResult {
    let args = [c.a[0], c.a[1], c.buf(c.a[2], 16)?, c.arg(3, 16)?];
    c.wait(libc::SYS_clock_nanosleep, &args)
}

/// gettimeofday: also the zone, which the kernel keeps as zeros.
pub fn gettimeofday(c: &mut Call<'_>) -> SysResult {
    c.host(libc::SYS_gettimeofday, &[c.arg(0, 16)?, c.arg(1, 8)?])
}

/// times: in ticks of 1/1024 second, not the host's 1/100.
pub fn times(c: &mut Call<'_>) -> SysResult {
    let mut host = [0i64; 4];
    let now = c.host(libc::SYS_times, &[host.as_mut_ptr() as u64])?;
    let scale = |ticks: i64| (ticks as i128 * i128::from(CLOCK_TICKS) / 100) as u64;
    if c.a[0] != 0 {
        for (i, ticks) in host.into_iter().enumerate() {
            c.write_u64(c.a[0] + 8 * i as u64, scale(ticks))?;
        }
    }
    Ok(scale(now as i64))
}

/// timer_create: the signal number in the sigevent is Alpha's.
pub fn timer_create(c: &mut Call<'_>) -> SysResult {
    let [clock, event, timer, ..] = c.a;
    let mut id = 0i32;
    let mut host = [0u8; 64];
    let mut at = 0;
    if event != 0 {
        host = c.read::<64>(event)?;
        let mut signal = [0; 4];
        signal.copy_from_slice(&host[8..12]);
        let signal = i32::from_le_bytes(signal);
        if !(0..=64).contains(&signal) {
            return Err(Errno::EINVAL);
        }
        host[8..12].copy_from_slice(&abi::signal_to_host(signal).to_le_bytes());
        at = host.as_ptr() as u64;
    } else {
        // The default event is SIGALRM, whose number agrees.
        let _ = &mut host;
    }
    c.host(libc::SYS_timer_create, &[clock, at, &raw mut id as u64])?;
    if let Err(errno) = c.write_u32(timer, id as u32) {
        let _ = c.host(libc::SYS_timer_delete, &[id as u64]);
        return Err(errno);
    }
    Ok(0)
}
