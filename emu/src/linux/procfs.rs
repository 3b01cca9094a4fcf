//! Files under /proc that must show the guest: made when they are opened.

use std::ffi::CStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

use super::errno::{Errno, SysResult};
use super::host;
use super::process::Process;
use super::stack::CLOCK_TICKS;
use crate::isa::CpuModel;

/// Files of a process in /proc that show memory or layout of the host's process.
const HIDDEN: &[&[u8]] = &[
    b"mem",
    b"pagemap",
    b"smaps",
    b"smaps_rollup",
    b"numa_maps",
    b"map_files",
    b"stack",
    b"syscall",
    b"clear_refs",
];

/// Whether a name in /proc means this process: its own number, or one of its threads, which have
/// directories there that are not listed.
fn is_own_name(who: &[u8]) -> bool {
    if who == b"self" || who == b"thread-self" {
        return true;
    }
    let Some(number) = std::str::from_utf8(who).ok().and_then(|who| who.parse::<i32>().ok()) else {
        return false;
    };
    let pid = std::process::id();
    let there = || host::call(libc::SYS_tgkill, [u64::from(pid), number as u64, 0, 0, 0, 0]);
    number as u32 == pid || number > 0 && there().is_ok()
}

/// The rest of a path under the process's own directory in /proc, however it is spelled: doubled
/// slashes, single dots, by a thread, through the process's own `root`. (What goes through links
/// and `..` is looked at when it is open.)
pub fn own(path: &[u8]) -> Option<Vec<u8>> {
    if path.first() != Some(&b'/') || !path.windows(4).any(|part| part == b"proc") {
        return None;
    }
    let parts = path.split(|&b| b == b'/').filter(|part| !part.is_empty() && *part != b".");
    let mut parts: Vec<&[u8]> = parts.collect();
    loop {
        if parts.len() < 3 || parts[0] != b"proc" || !is_own_name(parts[1]) {
            return None;
        }
        parts.drain(..2);
        while parts.len() > 2 && parts[0] == b"task" && is_own_name(parts[1]) {
            parts.drain(..2);
        }
        if parts[0] != b"root" || parts.len() == 1 {
            return Some(parts.join(&b'/'));
        }
        parts.remove(0);
    }
}

/// Whether a link, named by whatever detour, is the `exe` of this process, which the host has point
/// to the emulator. Only such names cost more than a comparison.
pub fn is_own_exe(dir: u64, path: &CStr) -> bool {
    let bytes = path.to_bytes();
    if bytes.rsplit(|&b| b == b'/').next() != Some(b"exe") {
        return false;
    }
    let flags = (libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC) as u64;
    let args = [dir, path.as_ptr() as u64, flags, 0, 0, 0];
    let Ok(fd) = host::call(libc::SYS_openat, args) else { return false };
    let found = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
    let _ = host::call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
    own(found.as_os_str().as_bytes()).is_some_and(|rest| rest == b"exe")
}

/// What opening a path gives instead of the host's file.
pub enum Special {
    /// These bytes.
    Bytes(Vec<u8>),
    /// An error.
    Refused(Errno),
}

/// Looks for a path that needs synthesis.
pub fn special(process: &Process, path: &[u8]) -> Option<Special> {
    if path == b"/proc/cpuinfo" {
        return Some(Special::Bytes(cpuinfo(process.model).into_bytes()));
    }
    match &own(path)?[..] {
        b"maps" => Some(Special::Bytes(maps(process))),
        b"auxv" => Some(Special::Bytes(process.auxv.clone())),
        b"cmdline" => Some(Special::Bytes(process.cmdline.clone())),
        // The host's shows the emulator's stack.
        b"environ" => Some(Special::Bytes(process.environ.clone())),
        name => {
            let first = name.split(|&b| b == b'/').next();
            let hidden = first.is_some_and(|name| HIDDEN.contains(&name));
            hidden.then_some(Special::Refused(Errno::EACCES))
        }
    }
}

/// Whether a path of /proc, free of links, is some process's memory.
fn is_memory(path: &[u8]) -> bool {
    path.ends_with(b"/mem") || path.ends_with(b"/pagemap")
}

/// Looks at what was opened, by whatever detour (links, relative paths, descriptors of
/// directories): a file of /proc that must not show the host is replaced or refused.
pub fn check_opened(process: &Process, fd: u64, flags: u64) -> SysResult {
    if process.private.holds(fd) {
        let _ = host::call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
        return Err(Errno::EACCES);
    }
    // Numbers of real devices have a major part; asking for them is much cheaper than for the file
    // system, and most files lie on one.
    let stat = host::fill::<libc::stat>(libc::SYS_fstat, |p| [fd, p, 0, 0, 0, 0]);
    if stat.is_ok_and(|st| libc::major(st.st_dev) != 0) {
        return Ok(fd);
    }
    let statfs = host::fill::<libc::statfs>(libc::SYS_fstatfs, |p| [fd, p, 0, 0, 0, 0]);
    if !statfs.is_ok_and(|st| st.f_type == libc::PROC_SUPER_MAGIC) {
        return Ok(fd);
    }
    let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
    let path = path.as_os_str().as_bytes();
    let found = match special(process, path) {
        Some(found) => found,
        None if is_memory(path) => Special::Refused(Errno::EACCES),
        None if path.starts_with(b"/proc/") || path == b"/proc" => return Ok(fd),
        // Mounted elsewhere, or out of sight after chroot: whose it is cannot be told by the name.
        None => match path.rsplit(|&b| b == b'/').next() {
            Some(b"" | b"maps" | b"environ" | b"auxv") | None => Special::Refused(Errno::EACCES),
            Some(name) if HIDDEN.contains(&name) => Special::Refused(Errno::EACCES),
            Some(_) => return Ok(fd),
        },
    };
    let _ = host::call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
    match found {
        Special::Refused(errno) => Err(errno),
        Special::Bytes(bytes) => memory_file(&bytes, flags & libc::O_CLOEXEC as u64 != 0),
    }
}

/// A readable file of these bytes.
pub fn memory_file(bytes: &[u8], cloexec: bool) -> SysResult {
    let flags = if cloexec { u64::from(libc::MFD_CLOEXEC) } else { 0 };
    let name = c"guest-proc".as_ptr() as u64;
    let fd = host::call(libc::SYS_memfd_create, [name, flags, 0, 0, 0, 0])?;
    let write = [fd, bytes.as_ptr() as u64, bytes.len() as u64, 0, 0, 0];
    host::call(libc::SYS_write, write)?;
    host::call(libc::SYS_lseek, [fd, 0, 0, 0, 0, 0])?;
    Ok(fd)
}

fn maps(process: &Process) -> Vec<u8> {
    let mut out = Vec::new();
    for region in process.mem.regions() {
        let (dev, ino, offset) = region.file.map_or((0, 0, 0), |f| (f.dev, f.ino, f.offset));
        let line = format!(
            "{:08x}-{:08x} {}{} {:08x} {:02x}:{:02x} {}",
            region.start,
            region.end,
            region.prot,
            if region.shared { 's' } else { 'p' },
            offset,
            libc::major(dev),
            libc::minor(dev),
            ino
        );
        out.extend_from_slice(line.as_bytes());
        if let Some(name) = &region.name {
            out.resize(out.len() + 73usize.saturating_sub(line.len()).max(1), b' ');
            out.extend_from_slice(name.as_bytes());
        }
        out.push(b'\n');
    }
    out
}

/// The kernel's text for Alpha (arch/alpha/kernel/setup.c), for a machine of this model.
fn cpuinfo(model: CpuModel) -> String {
    let name = match model {
        CpuModel::Ev4 => "EV4",
        CpuModel::Ev5 => "EV5",
        CpuModel::Ev56 => "EV56",
        CpuModel::Pca56 => "PCA56",
        CpuModel::Ev6 => "EV6",
        CpuModel::Ev67 => "EV67",
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let rows: [(&str, String); 25] = [
        ("cpu\t\t\t", "Alpha".into()),
        ("cpu model\t\t", name.into()),
        ("cpu variation\t\t", "7".into()),
        ("cpu revision\t\t", "0".into()),
        ("cpu serial number\t", String::new()),
        ("system type\t\t", "axplab".into()),
        ("system variation\t", "0".into()),
        ("system revision\t\t", "0".into()),
        ("system serial number\t", String::new()),
        ("cycle frequency [Hz]\t", "1000000000 est.".into()),
        ("timer frequency [Hz]\t", format!("{CLOCK_TICKS}.00")),
        ("page size [bytes]\t", "8192".into()),
        ("phys. address bits\t", "44".into()),
        ("max. addr. space #\t", "255".into()),
        ("BogoMIPS\t\t", "2000.00".into()),
        ("kernel unaligned acc\t", "0 (pc=0,va=0)".into()),
        ("user unaligned acc\t", "0 (pc=0,va=0)".into()),
        ("platform string\t\t", "N/A".into()),
        ("cpus detected\t\t", cpus.to_string()),
        ("cpus active\t\t", cpus.to_string()),
        ("cpu active mask\t\t", format!("{:016x}", u64::MAX >> (64 - cpus.clamp(1, 64)))),
        ("L1 Icache\t\t", "64K, 2-way, 64b line".into()),
        ("L1 Dcache\t\t", "64K, 2-way, 64b line".into()),
        ("L2 cache\t\t", "4096K, 1-way, 64b line".into()),
        ("L3 cache\t\t", "n/a".into()),
    ];
    let mut text = String::new();
    for (key, value) in &rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{key}: {value}");
    }
    text
}
