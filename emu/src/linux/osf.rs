//! Calls that Linux on Alpha took over from OSF/1 and no other port has: floating-point control
//! and unaligned-access control, and the ones with 32-bit times.

use std::sync::atomic::Ordering;

use super::Linux;
use super::abi::sig;
use super::call::Call;
use super::errno::{Errno, SysResult};
use super::host;
use super::signals::SigInfo;
use crate::cpu::{UnalignedPolicy, Vcpu};
use crate::fp::fpcr::{Swcr, exc, fpcr_from_swcr, set_swcr, sigfpe_code, update_status};
use crate::isa::CpuModel;

const GSI_UACPROC: u64 = 8;
const GSI_IEEE_FP_CONTROL: u64 = 45;
const GSI_PROC_TYPE: u64 = 60;
const SSI_NVPAIRS: u64 = 1;
const SSI_IEEE_FP_CONTROL: u64 = 14;
const SSI_IEEE_RAISE_EXCEPTION: u64 = 1001;
const SSIN_UACPROC: u32 = 6;

/// Processor type of the HWRPB (AARM III 2.1.3).
fn processor_type(model: CpuModel) -> u64 {
    match model {
        CpuModel::Ev4 => 2,
        CpuModel::Ev5 => 5,
        CpuModel::Ev56 => 7,
        CpuModel::Pca56 => 9,
        CpuModel::Ev6 => 8,
        CpuModel::Ev67 => 11,
    }
}

/// UAC_NOFIX of the thread-info order: unaligned accesses are skipped.
const UAC_NOFIX: u64 = 2;
/// UAC_SIGBUS: they are signalled.
const UAC_SIGBUS: u64 = 4;

/// What engines shall do with unaligned data.
pub fn unaligned_policy(linux: &Linux) -> UnalignedPolicy {
    match linux.process.unaligned_bits() & (UAC_NOFIX | UAC_SIGBUS) {
        0 => UnalignedPolicy::Fixup,
        _ => UnalignedPolicy::Trap,
    }
}

/// Whether the kernel skips the unaligned access at the program counter without a word: NOFIX
/// without SIGBUS, and never for locked and VAX floating-point accesses.
pub fn skips_unaligned(linux: &Linux, vcpu: &Vcpu) -> bool {
    const NEVER_FIXED: [u32; 8] = [0x20, 0x21, 0x24, 0x25, 0x2a, 0x2b, 0x2e, 0x2f];
    let bits = linux.process.unaligned_bits();
    let opcode = vcpu.mem.fetch_u32(vcpu.cpu.pc).map_or(0x2a, |word| word >> 26);
    bits & (UAC_NOFIX | UAC_SIGBUS) == UAC_NOFIX && !NEVER_FIXED.contains(&opcode)
}

/// osf_getsysinfo.
pub fn getsysinfo(c: &mut Call<'_>) -> SysResult {
    let [op, buffer, size, ..] = c.a;
    match op {
        GSI_IEEE_FP_CONTROL => {
            c.write_u64(buffer, update_status(c.linux.task.swcr, c.vcpu.cpu.fpcr))?;
            Ok(0)
        }
        GSI_UACPROC => {
            if size < 4 {
                return Err(Errno::EINVAL);
            }
            c.write_u32(buffer, c.linux.process.unaligned_bits() as u32)?;
            Ok(1)
        }
        GSI_PROC_TYPE => {
            if size < 8 {
                return Err(Errno::EINVAL);
            }
            c.write_u64(buffer, processor_type(c.vcpu.model))?;
            Ok(1)
        }
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// osf_setsysinfo.
pub fn setsysinfo(c: &mut Call<'_>) -> SysResult {
    let [op, buffer, count, ..] = c.a;
    match op {
        SSI_IEEE_FP_CONTROL => {
            let swcr = c.read_u64(buffer)? & Swcr::MASK;
            c.linux.task.swcr = swcr;
            c.vcpu.cpu.fpcr = set_swcr(c.vcpu.cpu.fpcr, swcr);
            Ok(0)
        }
        SSI_IEEE_RAISE_EXCEPTION => {
            let status = c.read_u64(buffer)? & Swcr::STATUS;
            c.vcpu.cpu.fpcr |= fpcr_from_swcr(status) & (0x3f << 52);
            let swcr = c.linux.task.swcr;
            let raised = status >> 16 & swcr & Swcr::ENABLE;
            if raised != 0 {
                let conditions = raised & !Swcr::ENABLE_DNO.bits();
                let code = sigfpe_code(exc::SWC | conditions);
                let pc = c.vcpu.cpu.pc;
                c.linux.raise(SigInfo::fault(sig::FPE, code, pc));
            }
            Ok(0)
        }
        SSI_NVPAIRS => {
            for i in 0..count.min(4096) {
                let at = buffer.wrapping_add(8 * i);
                let (name, value) = (c.read_u32(at)?, c.read_u32(at + 4)?);
                if name != SSIN_UACPROC {
                    return Err(Errno::EOPNOTSUPP);
                }
                c.linux.process.unaligned.store(u64::from(value & 7), Ordering::Relaxed);
            }
            Ok(0)
        }
        _ => Err(Errno::EOPNOTSUPP),
    }
}

fn write_timeval32(c: &Call<'_>, at: u64, sec: i64, usec: i64) -> Result<(), Errno> {
    c.write_u32(at, sec as u32)?;
    c.write_u32(at + 4, usec as u32)
}

/// A timeval of two longwords, as the host's.
fn read_timeval32(c: &Call<'_>, at: u64) -> Result<[i64; 2], Errno> {
    Ok([i64::from(c.read_u32(at)? as i32), i64::from(c.read_u32(at + 4)? as i32)])
}

/// gettimeofday with 32-bit times.
pub fn gettimeofday(c: &mut Call<'_>) -> SysResult {
    let mut now = [0i64; 2];
    c.host(libc::SYS_gettimeofday, &[now.as_mut_ptr() as u64])?;
    if c.a[0] != 0 {
        write_timeval32(c, c.a[0], now[0], now[1])?;
    }
    if c.a[1] != 0 {
        c.write_u64(c.a[1], 0)?;
    }
    Ok(0)
}

/// Writes a host rusage with 32-bit times: 128 bytes, two times and fourteen quadwords.
pub fn write_rusage32(c: &Call<'_>, at: u64, usage: &libc::rusage) -> Result<(), Errno> {
    write_timeval32(c, at, usage.ru_utime.tv_sec, usage.ru_utime.tv_usec)?;
    write_timeval32(c, at + 8, usage.ru_stime.tv_sec, usage.ru_stime.tv_usec)?;
    let rest = [
        usage.ru_maxrss,
        usage.ru_ixrss,
        usage.ru_idrss,
        usage.ru_isrss,
        usage.ru_minflt,
        usage.ru_majflt,
        usage.ru_nswap,
        usage.ru_inblock,
        usage.ru_oublock,
        usage.ru_msgsnd,
        usage.ru_msgrcv,
        usage.ru_nsignals,
        usage.ru_nvcsw,
        usage.ru_nivcsw,
    ];
    for (i, value) in rest.into_iter().enumerate() {
        c.write_u64(at + 16 + 8 * i as u64, value as u64)?;
    }
    Ok(())
}

/// getrusage with 32-bit times.
pub fn getrusage(c: &mut Call<'_>) -> SysResult {
    let who = c.a[0];
    let usage = host::fill::<libc::rusage>(libc::SYS_getrusage, |p| [who, p, 0, 0, 0, 0])?;
    write_rusage32(c, c.a[1], &usage)?;
    Ok(0)
}

/// setitimer with 32-bit times.
pub fn setitimer(c: &mut Call<'_>) -> SysResult {
    let [which, new, old, ..] = c.a;
    let (mut set, mut got) = ([0i64; 4], [0i64; 4]);
    if new != 0 {
        let (interval, value) = (read_timeval32(c, new)?, read_timeval32(c, new + 8)?);
        set = [interval[0], interval[1], value[0], value[1]];
    }
    let args = [which, set.as_ptr() as u64, got.as_mut_ptr() as u64];
    c.host(libc::SYS_setitimer, &args)?;
    if old != 0 {
        write_timeval32(c, old, got[0], got[1])?;
        write_timeval32(c, old + 8, got[2], got[3])?;
    }
    Ok(0)
}

/// getitimer with 32-bit times.
pub fn getitimer(c: &mut Call<'_>) -> SysResult {
    let mut got = [0i64; 4];
    c.host(libc::SYS_getitimer, &[c.a[0], got.as_mut_ptr() as u64])?;
    write_timeval32(c, c.a[1], got[0], got[1])?;
    write_timeval32(c, c.a[1] + 8, got[2], got[3])?;
    Ok(0)
}

/// select with a 32-bit timeout.
pub fn select(c: &mut Call<'_>) -> SysResult {
    let mut timeout = match c.a[4] {
        0 => None,
        at => Some(read_timeval32(c, at)?),
    };
    let at = timeout.as_mut().map_or(0, |t| t.as_mut_ptr() as u64);
    let sets = super::fdcalls::fd_sets(c)?;
    c.wait(libc::SYS_select, &[c.a[0], sets[0], sets[1], sets[2], at])
}

/// utimes with 32-bit times.
pub fn utimes(c: &mut Call<'_>) -> SysResult {
    let path = c.path(0)?;
    let times = match c.a[1] {
        0 => None,
        at => Some([read_timeval32(c, at)?, read_timeval32(c, at + 8)?]),
    };
    let at = times.as_ref().map_or(0, |t| t.as_ptr() as u64);
    c.host(libc::SYS_utimes, &[path.as_ptr() as u64, at])
}
