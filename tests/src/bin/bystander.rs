//! A client that has nothing to do with the attacks on a server: `bystander ADDRESS PID` asks for one document again and again until its
//! input ends. Then it prints, as JSON, its 99th percentile (`p99_us`), the answers other than 200 (`refused`) and the most
//! anonymous memory of process PID (`anonymous_mb`).
//!
//! It is a process of its own: threads of one process wait for each other's large allocations, and the attackers make many.

#![expect(clippy::print_stdout, reason = "its output is for who started it")]

use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two requests.
const PAUSE: Duration = Duration::from_millis(2);
/// How long it waits for an answer.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(address), Some(pid)) = (arguments.first(), arguments.get(1).and_then(|pid| pid.parse().ok())) else {
        eprintln!("usage: bystander ADDRESS PID");
        std::process::exit(2);
    };
    ask_for_prompt_slices();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            over.store(true, Ordering::Release);
        });
        let (mut times, mut refused, mut anonymous_mb) = (Vec::new(), Vec::new(), 0);
        while !over.load(Ordering::Acquire) {
            anonymous_mb = (tests::memory_kb(pid, "RssAnon:").unwrap_or(0) / 1024).max(anonymous_mb);
            let begun = Instant::now();
            let answer = ask(address).unwrap_or_else(|error| error.to_string());
            times.push(begun.elapsed());
            if answer.split(' ').nth(1) != Some("200") {
                refused.push(answer);
            }
            std::thread::sleep(PAUSE);
        }
        times.sort_unstable();
        let p99 = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
        let seen = json!({ "p99_us": p99.as_micros() as u64, "refused": refused, "anonymous_mb": anonymous_mb });
        println!("{seen}");
    });
}

fn ask(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET /bystander/_doc/1 HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Asks the scheduler to run this thread soon after it wakes: it stands for a client on another machine, whose processors the
/// server does not share. It gets no more time than before. Older kernels ignore it.
fn ask_for_prompt_slices() {
    let attr = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 100_000,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: `attr` is as long as it says, and lives over the call; 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}
