//! What the end-to-end tests share: which outside tools there are, and where Alpha's libraries lie.
#![allow(dead_code, reason = "each test program uses a part")]

use std::process::Command;

/// The cross compiler.
pub const COMPILER: &str = "alpha-linux-gnu-gcc";

/// Whether a test has its tool. Without it the test says by name that it is skipped, past the harness;
/// where tools are required that is a failure.
pub fn has(tool: &str, test: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        assert!(std::env::var_os("AXPLAB_REQUIRE_TOOLS").is_none(), "{test} needs {tool}");
        eprintln!("skipped: {test} needs {tool}");
    }
    found
}

/// Root of the files that a dynamically linked guest needs.
pub fn sysroot() -> String {
    std::env::var("AXPLAB_SYSROOT").unwrap_or_else(|_| "/usr/alpha-linux-gnu".to_owned())
}
