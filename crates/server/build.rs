//! The version that `pleach --version` prints: with the commit in a build to be handed out, without in one for development,
//! so that a commit does not build it again.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=PLEACH_COMMIT");
    let given = std::env::var("PLEACH_COMMIT").ok().filter(|commit| !commit.is_empty());
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let build = given.or_else(|| is_release.then(commit).flatten());
    let build = build.unwrap_or_else(|| if is_release { "commit unknown" } else { "debug build" }.to_owned());
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    println!("cargo:rustc-env=BUILD_VERSION={version} ({build})");
}

/// The commit that is checked out, with a mark if files differ from it.
fn commit() -> Option<String> {
    // It changes with every commit and checkout.
    println!("cargo:rerun-if-changed=../../.git/logs/HEAD");
    let git = |arguments: &[&str]| {
        let done = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(done.stdout).ok()?;
        done.status.success().then(|| text.trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let clean = git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if clean { commit } else { format!("{commit}-changed") })
}
