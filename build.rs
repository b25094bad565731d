//! What `sync-engine version` says of the build. A debug build names no commit, so that a commit compiles nothing anew.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SYNC_ENGINE_COMMIT");
    let profile = env::var("PROFILE").unwrap_or_default();
    let target = env::var("TARGET").unwrap_or_default();
    let given = env::var("SYNC_ENGINE_COMMIT").ok();
    let commit = given.or_else(|| if profile == "release" { commit() } else { None });
    println!("cargo::rustc-env=SYNC_ENGINE_COMMIT={}", commit.unwrap_or_else(|| "unknown".to_owned()));
    println!("cargo::rustc-env=SYNC_ENGINE_BUILD={profile} {target}");
}

/// The commit that is checked out; `None` outside a repository.
fn commit() -> Option<String> {
    println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let is_clean = git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if is_clean { commit } else { format!("{commit}-dirty") })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
