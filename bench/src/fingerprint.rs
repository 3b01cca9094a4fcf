//! The host and the build as a record keeps them: two records compare only where these agree.

use std::fs::read_to_string;

use crate::record::{Build, Host};

/// Looks at this machine.
pub fn host() -> Host {
    let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let uname = rustix::system::uname();
    let field = |name: &str| cpuinfo_field(&cpuinfo, name).unwrap_or("?");
    Host {
        cpu: cpuinfo_field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
        cpu_id: format!(
            "{} family {} model {} stepping {}",
            field("vendor_id"),
            field("cpu family"),
            field("model"),
            field("stepping")
        ),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        arch: std::env::consts::ARCH.to_owned(),
        kernel: format!(
            "{} {}",
            uname.sysname().to_string_lossy(),
            uname.release().to_string_lossy()
        ),
        governor: read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
            .ok()
            .map(|text| text.trim().to_owned()),
        memory: read_to_string("/proc/meminfo").ok().as_deref().and_then(mem_total),
        load: load(),
    }
}

/// The build that is running.
pub fn build() -> Build {
    Build {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: env!("AXPLAB_COMMIT").to_owned(),
        profile: env!("AXPLAB_PROFILE").to_owned(),
        rustc: env!("AXPLAB_RUSTC").to_owned(),
    }
}

/// Runnable processes over the last minute.
pub fn load() -> Option<f64> {
    read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

fn cpuinfo_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

fn mem_total(text: &str) -> Option<u64> {
    let kib: u64 = cpuinfo_field(text, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "vendor_id\t: GenuineIntel\nmodel\t\t: 207\nmodel name\t: A CPU\n";
        assert_eq!(cpuinfo_field(text, "model"), Some("207"));
        assert_eq!(cpuinfo_field(text, "model name"), Some("A CPU"));
        assert_eq!(cpuinfo_field(text, "stepping"), None);
        assert_eq!(mem_total("MemTotal:       16 kB\n"), Some(16384));
    }
}
