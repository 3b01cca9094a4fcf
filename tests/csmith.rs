//! A few of csmith's programs, pinned by their seeds, on every engine, on qemu-alpha and natively:
//! the small sample of what `cargo xtask fuzz` does for as long as one likes.

use std::path::PathBuf;

use axp_tests::fuzz::{Lab, Verdict, missing_tool};

/// Small ones: plain integers, floating point, and one that `opt` alone runs as well.
const SEEDS: &[u64] = &[3, 8, 21];

#[test]
fn programs_of_csmith_run_alike_everywhere() {
    if let Some(tool) = missing_tool() {
        assert!(std::env::var_os("AXPLAB_REQUIRE_TOOLS").is_none(), "{tool} is required");
        println!("skipped: programs_of_csmith_run_alike_everywhere ({tool} is not installed)");
        return;
    }
    let sysroot = std::env::var("AXPLAB_SYSROOT").unwrap_or("/usr/alpha-linux-gnu".to_owned());
    let runner = PathBuf::from(env!("CARGO_BIN_EXE_run-guest"));
    let lab = Lab { runner, sysroot, thorough: false };
    for &seed in SEEDS {
        let dir = tempfile::tempdir().unwrap();
        let verdict = lab.judge(seed, &["-O0", "-O2"], dir.path()).unwrap();
        assert!(matches!(verdict, Verdict::Same(_)), "{verdict:?}");
    }
}
