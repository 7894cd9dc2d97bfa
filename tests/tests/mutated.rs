//! Requests of the scenarios and of recorded sequences, changed by chance and sent by several clients at once: whatever a
//! client gets wrong is no fault of the server, and after a kill it starts on what they left. `PLEACH_TEST_MUTATIONS` says how
//! many, `PLEACH_TEST_CLIENTS` by how many at once, `PLEACH_TEST_KILLS` how often it is killed among them, `PLEACH_TEST_SEED`
//! where chance begins.
//!
//! Not here: what the right answer is (`scenarios.rs`, `golden.rs`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;
use tests::{Server, send, shared};

/// A request that may be changed.
#[derive(Clone)]
struct Request {
    persona: &'static str,
    method: String,
    path: String,
    body: String,
}

/// Chance that can be repeated (xorshift64*).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % (n.max(1) as u64)).unwrap()
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Lines of JSON, or one value.
fn text_of(body: &Value) -> String {
    match body {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().map(|line| format!("{}\n", text_of(line))).collect(),
        other => other.to_string(),
    }
}

/// The steps of all scenarios.
fn of_scenarios(out: &mut Vec<Request>) {
    let mut files = Vec::new();
    tests::scenario::collect(&tests::root().join("tests/scenarios"), &mut files);
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let steps: Vec<Value> = serde_yaml_ng::from_str(&text).unwrap();
        for step in steps {
            let Some((method, path)) = step["do"].as_str().and_then(|d| d.split_once(' ')) else {
                continue;
            };
            let persona = match step["persona"].as_str() {
                Some("es2") => "es2",
                Some("opensearch2") => "opensearch2",
                _ => "es8",
            };
            let given = ["body", "ndjson", "raw"].iter().find_map(|name| step.get(*name));
            out.push(Request {
                persona,
                method: method.to_owned(),
                path: path.to_owned(),
                body: given.map(text_of).unwrap_or_default(),
            });
        }
    }
}

/// Recorded sequences of 2015, where they are at hand.
fn of_2015(out: &mut Vec<Request>) {
    let Some(folder) = shared::folder() else { return };
    let entries = std::fs::read_dir(folder.join("golden-2015")).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|e| e.path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "ndjson"));
    files.sort();
    for file in files {
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let (Some(method), Some(path)) = (line["method"].as_str(), line["path"].as_str()) else {
                continue;
            };
            out.push(Request {
                persona: "es2",
                method: method.to_owned(),
                path: path.to_owned(),
                body: text_of(&line["body"]),
            });
        }
    }
}

/// Values that stand where others were.
const VALUES: &[&str] = &[
    "null",
    "true",
    "-1",
    "1e400",
    "9223372036854775808",
    "\"\"",
    "\"abc\"",
    "[]",
    "{}",
    "[{}]",
    "{\"a\":1}",
    "[[1]]",
    "\"2015-13-45\"",
    "0.5",
];

/// Changes a text at one place.
fn changed(text: &str, chance: &mut Chance) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.is_empty() {
        return "{".to_owned();
    }
    let (from, to) = (chance.below(chars.len()), chance.below(chars.len()));
    let (from, to) = (from.min(to), from.max(to).min(from.min(to) + 40));
    let part = |from: usize, to: usize| chars[from..to].iter().collect::<String>();
    let (before, inside, after) = (part(0, from), part(from, to), part(to, chars.len()));
    match chance.below(6) {
        0 => before,
        1 => before + &after,
        2 => before + &inside + &inside + &after,
        3 => {
            let sign = ['{', '}', '[', ']', '"', ':', ',', '\\', '\u{1}', 'é', '0', '-'][chance.below(12)];
            format!("{before}{sign}{inside}{after}")
        }
        _ => with_value(text, chance).unwrap_or(after),
    }
}

/// Puts another value in the place of one.
fn with_value(text: &str, chance: &mut Chance) -> Option<String> {
    let colons: Vec<usize> = text.match_indices(':').map(|(at, _)| at + 1).collect();
    let at = *colons.get(chance.below(colons.len()))?;
    let mut depth = 0_i32;
    let mut quoted = false;
    let end = text[at..].char_indices().find(|(_, c)| {
        match c {
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth -= 1,
            _ => {}
        }
        depth < 0 || depth == 0 && !quoted && *c == ','
    });
    let end = end.map_or(text.len(), |(offset, _)| at + offset);
    Some(format!(
        "{}{}{}",
        &text[..at],
        VALUES[chance.below(VALUES.len())],
        &text[end..]
    ))
}

fn mutated(request: &Request, chance: &mut Chance) -> Request {
    let mut out = request.clone();
    match chance.below(8) {
        0 => {
            out.path = format!(
                "/{}",
                changed(&out.path[1..], chance).replace([' ', '\n', '\r', '\u{1}'], "+")
            )
        }
        1 => {
            let sign = if out.path.contains('?') { '&' } else { '?' };
            let names = [
                "size",
                "from",
                "routing",
                "version",
                "timeout",
                "refresh",
                "if_seq_no",
                "sort",
                "scroll",
                "pipeline",
            ];
            let values = ["-1", "abc", "", "9999999999999999999", "true", "1s", "null"];
            let (name, value) = (names[chance.below(names.len())], values[chance.below(values.len())]);
            out.path = format!("{}{sign}{name}={value}", out.path);
        }
        2 => ["GET", "PUT", "POST", "DELETE"][chance.below(4)].clone_into(&mut out.method),
        _ => out.body = changed(&out.body, chance),
    }
    out
}

/// A client with a connection that stays.
struct Client<'a> {
    server: &'a Server,
    /// One for each persona.
    open: BTreeMap<&'static str, TcpStream>,
}

impl Client<'_> {
    /// A status, and the text of a fault.
    fn send(&mut self, request: &Request) -> std::io::Result<(u16, String)> {
        // A connection that the server has ended meanwhile is opened once more.
        self.send_once(request).or_else(|_| {
            self.open.remove(request.persona);
            self.send_once(request)
        })
    }

    fn send_once(&mut self, request: &Request) -> std::io::Result<(u16, String)> {
        let address = self.server.address(request.persona);
        let stream = match self.open.entry(request.persona) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(none) => {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(Duration::from_secs(90)))?;
                stream.set_nodelay(true)?;
                none.insert(stream)
            }
        };
        let mut bytes = format!(
            "{} {} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{}",
            request.method,
            request.path,
            request.body.len(),
            request.body
        )
        .into_bytes();
        stream.write_all(&bytes)?;
        bytes.clear();
        let mut buffer = vec![0; 16 << 10];
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                break end + 4;
            }
            match stream.read(&mut buffer)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                n => bytes.extend_from_slice(&buffer[..n]),
            }
        };
        let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
        let status = text.split(' ').nth(1).and_then(|s| s.parse::<u16>().ok());
        let length = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let length = if request.method == "HEAD" { 0 } else { length.unwrap_or(0) };
        while bytes.len() < head + length {
            match stream.read(&mut buffer)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                n => bytes.extend_from_slice(&buffer[..n]),
            }
        }
        if text.contains("connection: close") {
            self.open.remove(request.persona);
        }
        let told = String::from_utf8_lossy(&bytes[head..]).into_owned();
        Ok((status.ok_or(std::io::ErrorKind::InvalidData)?, told))
    }
}

/// What came of some requests.
#[derive(Default)]
struct Told {
    statuses: BTreeMap<u16, u64>,
    faults: Vec<String>,
}

/// One client's requests.
fn play(server: &Server, requests: &[Request], chance: &mut Chance, count: u64) -> Told {
    let mut told = Told::default();
    let mut client = Client {
        server,
        open: BTreeMap::new(),
    };
    let mut at = chance.below(requests.len());
    for _ in 0..count {
        // One as it is, so that there is something to find; the next is of the same neighbourhood.
        at = if chance.below(20) == 0 {
            chance.below(requests.len())
        } else {
            (at + 1) % requests.len()
        };
        let own = &requests[at];
        let request = if chance.below(3) == 0 {
            own.clone()
        } else {
            mutated(own, chance)
        };
        let (status, text) = client.send(&request).unwrap_or_else(|e| (0, e.to_string()));
        *told.statuses.entry(status).or_default() += 1;
        // Where there is no room for now, the answer says of what.
        let is_refusal = matches!(status, 503 | 507 | 429) && text.contains("reason");
        if status < 100 || status >= 500 && !is_refusal || status == 429 && !is_refusal {
            let Request {
                persona,
                method,
                path,
                body,
            } = request;
            told.faults
                .push(format!("{persona} {method} {path} {body}\n    {status}: {text:.2000}"));
        }
    }
    told
}

/// Clients that send at once, unless `PLEACH_TEST_CLIENTS` says otherwise.
const CLIENTS: u64 = 4;

#[test]
fn what_clients_get_wrong_is_no_fault_of_the_server() {
    let mut requests = Vec::new();
    of_scenarios(&mut requests);
    of_2015(&mut requests);
    // They wait for what does not come, or end what others need.
    requests.retain(|r| {
        !["_health", "/health", "wait_for", "timeout=", "_shutdown"]
            .iter()
            .any(|word| r.path.contains(word))
    });
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let personas = ["es8", "es2", "opensearch2"];
    let seed = number("PLEACH_TEST_SEED", 0x5EED_1234_5678_9ABC).max(1);
    let count = number("PLEACH_TEST_MUTATIONS", 2000);
    let kills = number("PLEACH_TEST_KILLS", 1);
    let clients = number("PLEACH_TEST_CLIENTS", CLIENTS).max(1);
    let (mut statuses, mut faults) = (BTreeMap::<u16, u64>::new(), Vec::new());
    for round in 0..=kills {
        // It starts on whatever the last round left, and goes on with little, so that starts stay short.
        let server = Server::start(&data, &personas);
        if round > 0 {
            let emptied = send(server.address("es2"), "DELETE", "/_all", &[], b"").unwrap();
            assert!(emptied.status < 500, "{emptied:?}");
        }
        let each = (count / (kills + 1) / clients).max(1);
        let all = std::thread::scope(|scope| {
            let (server, requests) = (&server, &requests);
            let all: Vec<_> = (0..clients)
                .map(|client| {
                    let mut chance = Chance(
                        seed.wrapping_add((round * clients + client).wrapping_mul(0x9E37_79B9_7F4A_7C15))
                            .max(1),
                    );
                    scope.spawn(move || play(server, requests, &mut chance, each))
                })
                .collect();
            all.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
        });
        for told in all {
            for (status, n) in told.statuses {
                *statuses.entry(status).or_default() += n;
            }
            // A long run may be ended before its end.
            told.faults.iter().for_each(|fault| println!("{fault}"));
            faults.extend(told.faults);
        }
        println!("after {} of {kills} kills: {statuses:?}, {} faults", round, faults.len());
        server.signal(libc::SIGKILL);
    }
    drop(Server::start(&data, &personas));
    assert!(
        faults.is_empty(),
        "seed {seed}: {} of {count}:\n{}",
        faults.len(),
        faults.join("\n")
    );
}
