//! Programs from registries that tests use: each is installed into the target folder, once for what its lock file says.
//!
//! Not here: what they are (`clients/`), what they are used for.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an installation may take.
pub const INSTALL_MAX: Duration = Duration::from_secs(600);

/// Where clients are installed, whatever profile the tests are built in.
pub fn cache() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    // target/PROFILE/deps/test
    own.ancestors().nth(3).unwrap().join("clients")
}

/// Runs a command to its end or to its time's end.
pub fn run(command: &mut Command, most: Duration) -> Result<Output, String> {
    let shown = format!("{command:?}");
    let out = tempfile::NamedTempFile::new().unwrap();
    command
        .stdin(std::process::Stdio::null())
        .stdout(out.reopen().unwrap())
        .stderr(out.reopen().unwrap());
    let mut child = command.spawn().map_err(|e| format!("{shown}: {e}"))?;
    let began = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if began.elapsed() > most => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{shown} did not end within {most:?}"));
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let stdout = std::fs::read(out.path()).unwrap();
    let said = String::from_utf8_lossy(&stdout).into_owned();
    match status.success() {
        true => Ok(Output {
            status,
            stdout,
            stderr: Vec::new(),
        }),
        false => Err(format!("{shown} ended with {status}:\n{said}")),
    }
}

/// Installs a client once: into a fresh folder, which gets its name when all of it is there. The lock file's content is part
/// of the name, so that a new one is installed anew.
pub fn install_once(name: &str, lock: &Path, install: impl Fn(&Path) -> Result<(), String>) -> Option<PathBuf> {
    let wanted = std::env::var("PLEACH_REQUIRE_CLIENTS").unwrap_or_default();
    if wanted == "0" {
        eprintln!("skipped: {name}, PLEACH_REQUIRE_CLIENTS is 0");
        return None;
    }
    let content = std::fs::read(lock).unwrap_or_else(|e| panic!("{}: {e}", lock.display()));
    let mark = content.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // Tests of one program that run side by side install it once.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let home = cache().join(format!("{name}-{mark:016x}"));
    let ready = home.join("installed");
    if ready.is_file() {
        return Some(home);
    }
    let _ = std::fs::remove_dir_all(&home);
    std::fs::create_dir_all(&home).unwrap();
    match install(&home) {
        Ok(()) => {
            std::fs::write(ready, "").unwrap();
            Some(home)
        }
        Err(why) => {
            assert!(
                wanted != "1",
                "PLEACH_REQUIRE_CLIENTS=1, but {name} cannot be installed: {why}"
            );
            eprintln!("skipped: {name} cannot be installed: {why}");
            None
        }
    }
}

/// A Python environment with what a requirements file says.
pub fn python(name: &str, requirements: &Path) -> Option<PathBuf> {
    install_once(name, requirements, |home| {
        run(Command::new("python3").args(["-m", "venv"]).arg(home), INSTALL_MAX)?;
        let mut pip = Command::new(home.join("bin/pip"));
        pip.args(["install", "-q", "--disable-pip-version-check", "-r"])
            .arg(requirements);
        run(&mut pip, INSTALL_MAX).map(drop)
    })
}
