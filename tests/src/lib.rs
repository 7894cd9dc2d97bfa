//! The harness: starts the real binary on free ports with a folder of its own, and talks HTTP to it.
//!
//! Not here: what is tested (`tests/`), scenarios and how they are read (`scenario`).

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

pub mod cycles;
pub mod explanation;
pub mod fake;
pub mod installed;
pub mod opensearch;
pub mod paths;
pub mod repository_place;
pub mod scenario;
pub mod secured;
pub mod shared;

/// The folder of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the package stands in the repository")
}

/// The binary under test: `PLEACH_TEST_BINARY`, else the one beside this test, built if it is missing or old.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(given) = std::env::var_os("PLEACH_TEST_BINARY") {
            return given.into();
        }
        let own = std::env::current_exe().expect("a test has a path");
        // target/PROFILE/deps/test
        let profile = own.parent().and_then(Path::parent).expect("a test stands in a target folder");
        let binary = profile.join("pleach");
        let built = std::fs::metadata(&binary).and_then(|m| m.modified()).ok();
        if built.is_none_or(|built| newest(&root().join("crates")) > built) {
            let mut cargo = cargo();
            // The whole workspace is selected, as by the tests: a package alone would have other features, and be built anew.
            cargo.args(["build", "--workspace", "--bin", "pleach"]).current_dir(root());
            cargo.env(
                "CARGO_TARGET_DIR",
                profile.parent().expect("a profile stands in the target folder"),
            );
            if profile.ends_with("release") {
                cargo.arg("--release");
            }
            assert!(cargo.status().expect("cargo runs").success(), "building the server failed");
        }
        binary
    })
}

/// Cargo, without the variables that the cargo of this test gives to a package: build scripts of libraries that read them (`ring`
/// does) would run again, and all that stands on them be built again, here and in the next run outside.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// When the newest source below a folder was changed.
fn newest(folder: &Path) -> SystemTime {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let times = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => newest(&entry.path()),
        _ => entry.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH),
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The binary, without the variables of the tests: they are no settings of a server, which would refuse them.
pub fn command() -> Command {
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        // Those of AWS are keys of buckets, which are not the tests' own.
        if text.starts_with("PLEACH_") || text.starts_with("AWS_") {
            command.env_remove(&name);
        }
    }
    // No test hangs on how full the disk of its machine is, unless it is about that.
    command.env("PLEACH_CLUSTER_ROUTING_ALLOCATION_DISK_THRESHOLD_ENABLED", "false");
    command
}

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Persona and address.
    listening: Vec<(String, String)>,
}

impl Server {
    /// Starts on a folder, with one listener for each persona.
    pub fn start(data: &Path, personas: &[&str]) -> Server {
        Server::start_with(data, personas, &[])
    }

    /// The same with node settings, each `NAME=VALUE`.
    pub fn start_with(data: &Path, personas: &[&str], settings: &[&str]) -> Server {
        Server::start_among(data, personas, settings, &[])
    }

    /// The same among variables of its environment.
    pub fn start_among(data: &Path, personas: &[&str], settings: &[&str], variables: &[(&str, &str)]) -> Server {
        Server::start_by(command(), data, personas, settings, variables)
    }

    /// The same by a command that has something of its own, as limits of the process.
    pub fn start_by(
        mut command: Command,
        data: &Path,
        personas: &[&str],
        settings: &[&str],
        variables: &[(&str, &str)],
    ) -> Server {
        command
            .envs(variables.iter().copied())
            .arg("serve")
            .arg("--data")
            .arg(data)
            .current_dir(data.parent().unwrap_or(data));
        // Snapshots go beside the data, unless a test says where.
        if !settings.iter().any(|setting| setting.starts_with("path.repo=")) {
            let repositories = data.parent().unwrap_or(data).join("repositories");
            command.arg("-E").arg(format!("path.repo={}", repositories.display()));
        }
        for setting in settings {
            command.arg("-E").arg(setting);
        }
        for persona in personas {
            command.arg("--listen").arg(format!("127.0.0.1:0={persona}"));
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let mut listening = Vec::new();
        while listening.len() < personas.len() {
            let line = lines
                .next()
                .expect("the server says where it listens before it ends")
                .expect("stdout is text");
            let shown = line.strip_prefix("listening on ").and_then(|l| l.split_once("://"));
            if let Some((address, persona)) = shown.and_then(|(_, l)| l.split_once(" as ")) {
                listening.push((persona.to_owned(), address.to_owned()));
            }
        }
        // Read on, so that the server never writes into a closed pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Server { child, listening }
    }

    /// `host:port` of a persona's listener; the first one's for "".
    pub fn address(&self, persona: &str) -> &str {
        let found = self.listening.iter().find(|(p, _)| persona.is_empty() || p == persona);
        &found.unwrap_or_else(|| panic!("no listener as {persona}")).1
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid fits")
    }

    /// Megabytes of a line of `/proc/PID/status`; 0 if the server is gone.
    pub fn memory_mb(&self, line: &str) -> u64 {
        memory_kb(self.pid(), line).unwrap_or(0) / 1024
    }

    /// Processor time of the server since its start, in steps of 10 ms; zero if it is gone.
    ///
    /// A test that compares two amounts of work measures them by it: other processes do not add to it.
    pub fn processor_time(&self) -> Duration {
        Duration::from_millis(processor_ms(self.pid()).unwrap_or(0))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: the child is ours and has not been waited for, so the pid is its own.
        unsafe { libc::kill(self.pid(), signal) };
    }

    /// Waits for the end; `None` if it does not come.
    pub fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// One request to the first listener.
    pub fn send(&self, method: &str, path: &str, body: &str) -> std::io::Result<Answer> {
        send(self.address(""), method, path, &[], body.as_bytes())
    }

    /// One request with JSON, null for none.
    ///
    /// # Panics
    /// Without an answer.
    pub fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.send(method, path, &text).expect("the server answers")
    }

    /// The body of an answer that is a success.
    ///
    /// # Panics
    /// It is none.
    pub fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.call(method, path, body);
        assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
        answer.body
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// JSON if it is, else a string; null if empty.
    pub body: Value,
    /// As it came.
    pub text: String,
}

/// One request on a connection of its own.
pub fn send(address: &str, method: &str, path: &str, headers: &[(String, String)], body: &[u8]) -> std::io::Result<Answer> {
    exchange(TcpStream::connect(address)?, address, method, path, headers, body)
}

/// The same on a connection that is there.
pub fn exchange(
    mut stream: TcpStream,
    address: &str,
    method: &str,
    path: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> std::io::Result<Answer> {
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    );
    if !body.is_empty() && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        request.push_str("content-type: application/json\r\n");
    }
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes())?;
    // A server may refuse a body before it has read it all; its answer counts.
    let _ = stream.write_all(body);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let broken = |why: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, why);
    let end = bytes
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .ok_or_else(|| broken("the answer has no end of headers"))?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|s| s.parse().ok())
        .ok_or_else(|| broken("the answer has no status"))?;
    let headers: Vec<(String, String)> = head
        .lines()
        .skip(1)
        .filter_map(|l| l.split_once(':'))
        .map(|(n, v)| (n.to_lowercase(), v.trim().to_owned()))
        .collect();
    let rest = &bytes[end + 4..];
    let length = headers
        .iter()
        .find(|(n, _)| n == "content-length")
        .and_then(|(_, v)| v.parse::<usize>().ok());
    if method != "HEAD" && length.is_some_and(|l| l != rest.len()) {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let body = match rest {
        [] => Value::Null,
        rest => serde_json::from_slice(rest).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(rest).into_owned())),
    };
    let text = String::from_utf8_lossy(rest).into_owned();
    Ok(Answer {
        status,
        headers,
        body,
        text,
    })
}

/// Kilobytes of a line of `/proc/PID/status`, as `RssAnon:`; `None` if the process is gone.
pub fn memory_kb(pid: i32, line: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = status.lines().find_map(|l| l.strip_prefix(line))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

/// User and system time of a process in milliseconds, counted in ticks of 10 ms; `None` if the process is gone.
fn processor_ms(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Two fields of the whole line stand before the state: the pid, and the name in parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let (user, system): (u64, u64) = (fields.nth(11)?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) * 10)
}
