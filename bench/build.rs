//! Puts the commit, the compiler and the profile of this build into the binary, for the record's fingerprint.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // A worktree keeps HEAD elsewhere, so git is asked where; without git the commit is unknown.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = output("git", &["rev-parse", "--git-path", name])
            && std::path::Path::new(&path).exists()
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    set("AXPLAB_COMMIT", output("git", &["rev-parse", "--short=12", "HEAD"]));
    set("AXPLAB_RUSTC", output(&rustc, &["--version"]));
    set("AXPLAB_PROFILE", std::env::var("PROFILE").ok());
}

fn set(name: &str, value: Option<String>) {
    println!("cargo:rustc-env={name}={}", value.unwrap_or_else(|| "unknown".into()));
}

fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
