//! Attacks on memory: requests that take the machine where nothing counts what they take. They are played one by one and
//! all at once against a server with `indices.breaker.total.limit=512mb`, and a table says what each of them cost.
//!
//! CI plays them small. `PLEACH_TEST_ATTACKS=full` plays them in full, best against a release binary
//! (`PLEACH_TEST_BINARY`) on an idle machine: it also checks the memory and the latency that the documentation promises.
//!
//! Not here: attacks on time (`long_inputs.rs`, `searching.rs`), on the log (`poison.rs`, `mutated.rs`).

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tests::Server;

/// What the server may take, in a full run and in a small one.
const LIMIT_MB: (u64, u64) = (512, 512);
/// What it may hold beyond that at its highest, while all attacks run at once: code, files and what is not booked. The aim is
/// 128, which a release build keeps in a small run. A small run is of a debug build, which maps some 100 MB of its own file.
const BEYOND_MB: (u64, u64) = (128, 256);
/// How often the quiet value the bystander's p99 may be in a full run.
const DELAY_FACTOR: u32 = 5;
/// Below this a p99 is noise of the machine.
const DELAY_FLOOR: Duration = Duration::from_millis(5);
/// The same in a small run, by a debug build among other tests.
const DELAY_SMALL: Duration = Duration::from_secs(2);
/// What a store holds of a load however long it is: 64 MB of pending operations, 32 MB of segments, and as much to build them.
const STORE_MB: u64 = 160;
/// How long an attack goes on in a full run, again and again: a p99 of fewer requests would be that of the slowest.
const ATTACKED_FOR: Duration = Duration::from_secs(5);
/// When the server must be well again after an attack has ended.
const WELL_AGAIN: Duration = Duration::from_secs(20);
/// The name of all attacks together. `PLEACH_TEST_ATTACKS_ONLY` with it plays them without playing each by itself before.
const TOGETHER: &str = "all at once";
/// Bytes of an answer that are kept.
const KEPT: usize = 4096;
/// Bytes that one system call sends or receives. The kernel does not interrupt the copy (`PREEMPT_NONE`): one call for a body of 16 MB
/// keeps a processor for some milliseconds, which a client on another machine does not take from the server.
const PIECE: usize = 16 << 10;

/// Whom to attack, and how.
#[derive(Clone, Copy)]
struct Field<'a> {
    address: &'a str,
    full: bool,
}

/// What a request was answered: a status (0: the connection ended without one) and the beginning of the rest.
type Reply = (u16, String);

impl Field<'_> {
    /// One of two sizes.
    fn size<T>(self, full: T, small: T) -> T {
        if self.full { full } else { small }
    }

    fn connected(self, method: &str, path: &str, headers: &str, body: &[u8]) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        stream.set_write_timeout(Some(Duration::from_secs(120)))?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        for piece in body.chunks(PIECE) {
            // A body that is refused is not read to its end.
            if stream.write_all(piece).is_err() {
                break;
            }
        }
        Ok(stream)
    }

    fn send_with(self, method: &str, path: &str, headers: &str, body: &[u8]) -> Reply {
        let read = || {
            let mut stream = self.connected(method, path, headers, body)?;
            let (mut kept, mut buffer) = (Vec::new(), vec![0; PIECE]);
            loop {
                match stream.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(n) => kept.extend_from_slice(&buffer[..n.min(KEPT.saturating_sub(kept.len()))]),
                    Err(e) if kept.is_empty() => return Err(e),
                    Err(_) => break,
                }
            }
            Ok(String::from_utf8_lossy(&kept).into_owned())
        };
        let text: String = read().unwrap_or_default();
        let status = text.split(' ').nth(1).and_then(|s| s.parse().ok());
        (status.unwrap_or(0), text)
    }

    fn send(self, method: &str, path: &str, body: &[u8]) -> Reply {
        self.send_with(method, path, "", body)
    }

    fn search(self, body: &Value) -> Reply {
        self.send("POST", "/values/_search", body.to_string().as_bytes())
    }

    /// Many clients at once.
    fn each(self, clients: usize, ask: impl Fn(usize) -> Reply + Sync) -> Vec<Reply> {
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..clients)
                .map(|n| {
                    let ask = &ask;
                    scope.spawn(move || ask(n))
                })
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        })
    }
}

/// What is played: a name, and the requests.
type Attack = (&'static str, fn(Field<'_>) -> Vec<Reply>);

const ATTACKS: &[Attack] = &[
    ("1,000 sibling aggregations", |field| {
        let body = siblings(1000);
        field.each(field.size(8, 2), |_| field.search(&body))
    }),
    ("20,000 sibling aggregations", |field| {
        let body = siblings(field.size(20_000, 4_000));
        field.each(field.size(2, 1), |_| field.search(&body))
    }),
    ("scripted_metric that grows by document", |field| {
        let grows = "String s = 'x'; for (int i = 0; i < 17; i++) { s = s + s } state.l.add(s + doc['n'].value)";
        let body = json!({ "size": 0, "aggs": { "a": { "scripted_metric": { "init_script": "state.l = []", "map_script": grows,
            "combine_script": "return state.l", "reduce_script": "return states.size()" } } } });
        field.each(2, |_| field.search(&body))
    }),
    ("10,000 percents under each bucket", |field| {
        let percents: Vec<f64> = (0..field.size(10_000, 2_000)).map(|n| f64::from(n) / 100.0).collect();
        let body = json!({ "size": 0, "aggs": { "a": { "terms": { "field": "n", "size": 20_000 },
            "aggs": { "p": { "percentiles": { "field": "n", "percents": percents } } } } } });
        field.each(2, |_| field.search(&body))
    }),
    ("a bulk of tiny lines", |field| {
        let mut replies = Vec::new();
        for kb in field.size([10 << 10, 40 << 10], [100, 400]) {
            let body = "{\"index\":{}}\n{}\n".repeat((kb << 10) / 16);
            replies.push(field.send("POST", "/tiny/_bulk", body.as_bytes()));
        }
        replies
    }),
    ("deletes, one a line", |field| {
        let lines = field.size(1_000_000, 10_000);
        let body: String = (0..lines).map(|n| format!("{{\"delete\":{{\"_id\":\"{n}\"}}}}\n")).collect();
        vec![field.send("POST", "/deleted/_bulk", body.as_bytes())]
    }),
    ("_mget of many ids", |field| {
        let ids: Vec<String> = (0..field.size(1_000_000, 50_000)).map(|n| n.to_string()).collect();
        let body = json!({ "ids": ids }).to_string();
        field.each(2, |_| field.send("POST", "/values/_mget", body.as_bytes()))
    }),
    ("a search body of numbers", |field| {
        let numbers = "1,".repeat(field.size(4 << 20, 1 << 20));
        let body = format!("{{\"query\":{{\"terms\":{{\"n\":[{numbers}1]}}}}}}");
        field.each(4, |_| field.send("POST", "/values/_search", body.as_bytes()))
    }),
    ("an _msearch of many lines", |field| {
        let body = "{}\n{\"size\":1}\n".repeat(field.size(1_000_000, 2_000));
        field.each(2, |_| field.send("POST", "/values/_msearch", body.as_bytes()))
    }),
    ("a transaction of tiny operations", |field| {
        let operations = "{\"delete\":{\"_index\":\"t\",\"_id\":\"1\"}},".repeat(field.size(800_000, 50_000));
        let body = format!("{{\"operations\":[{operations}{{}}]}}");
        field.each(4, |_| field.send("POST", "/_transaction", body.as_bytes()))
    }),
    ("documents of tiny values", |field| {
        let numbers = "1,".repeat(field.size(16 << 20, 1 << 20));
        let body = format!("{{\"n\":[{numbers}1]}}");
        field.each(3, |n| field.send("PUT", &format!("/dense/_doc/{n}"), body.as_bytes()))
    }),
    ("large answers, laid out", |field| {
        field.each(field.size(10, 4), |n| {
            let path = [
                "/large/_search?size=100&pretty",
                "/large/_search?size=100&filter_path=hits.hits._source",
            ][n % 2];
            field.send("GET", path, b"")
        })
    }),
    ("clients that do not read", |field| {
        let count = field.size(60, 12);
        let held: Vec<_> = (0..count)
            .filter_map(|_| field.connected("GET", "/large/_search?size=100", "", b"").ok())
            .collect();
        std::thread::sleep(field.size(Duration::from_secs(5), Duration::from_secs(1)));
        held.into_iter()
            .map(|mut stream| {
                let mut first = [0; 512];
                let length = stream.read(&mut first).unwrap_or(0);
                let text = String::from_utf8_lossy(&first[..length]).into_owned();
                (text.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0), text)
            })
            .collect()
    }),
    ("small gzip bodies with large ones inside", |field| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        let space = vec![b' '; 1 << 20];
        gzip.write_all(b"{").unwrap();
        for _ in 0..90 {
            gzip.write_all(&space).unwrap();
        }
        gzip.write_all(b"}").unwrap();
        let body = gzip.finish().unwrap();
        field.each(field.size(40, 8), |n| {
            let path = ["/zipped/_doc/1", "/zipped/_search", "/zipped/_bulk"][n % 3];
            field.send_with("POST", path, "content-encoding: gzip\r\n", &body)
        })
    }),
    ("locks of 1,000 targets of 4 kB", |field| {
        let locks = field.size(215, 30);
        let replies = field.each(5, |client| {
            let mut last = (0, String::new());
            for lock in (client..locks).step_by(5) {
                let name = |n: usize| json!({ "name": format!("{lock}-{n}-{}", "x".repeat(4000)) });
                let targets: Vec<Value> = (0..1000).map(name).collect();
                let body = json!({ "targets": targets, "keep_alive": "10m" }).to_string();
                let reply = field.send("POST", "/_lock", body.as_bytes());
                // A refusal is kept: beside other attacks the last may find room again.
                if last.0 != 429 {
                    last = reply;
                }
            }
            last
        });
        assert!(
            replies.iter().any(|(status, _)| *status == 429),
            "locks have a limit: {replies:.200?}"
        );
        replies
    }),
];

fn siblings(count: usize) -> Value {
    let aggs: serde_json::Map<String, Value> = (0..count)
        .map(|n| (format!("a{n}"), json!({ "terms": { "field": "n", "size": 10_000 } })))
        .collect();
    json!({ "size": 0, "aggs": aggs })
}

/// What the attacks are about: values for aggregations, and documents whose search answers 100 MB (10 MB in a small run).
fn fill(field: Field<'_>) {
    let done = |(status, text): Reply| assert!((200..300).contains(&status), "{text}");
    let docs = field.size(20_000, 1_000);
    let lines: String = (0..docs).map(|n| format!("{{\"index\":{{}}}}\n{{\"n\":{n}}}\n")).collect();
    done(field.send("POST", "/values/_bulk?refresh=true", lines.as_bytes()));
    done(field.send("PUT", "/bystander/_doc/1?refresh=true", b"{\"n\":1}"));
    done(field.send("PUT", "/large", b"{\"mappings\":{\"enabled\":false}}"));
    let text = "x".repeat(field.size(1 << 20, 100 << 10));
    let body = json!({ "text": text }).to_string();
    for id in 0..100 {
        done(field.send("PUT", &format!("/large/_doc/{id}"), body.as_bytes()));
    }
    done(field.send("POST", "/large/_refresh", b""));
}

/// What a client saw that has nothing to do with the attacks (`src/bin/bystander.rs`).
struct Bystander {
    /// Most anonymous memory, in megabytes: without mapped files, which the kernel takes back when it needs room.
    anonymous_mb: u64,
    p99: Duration,
    /// Its answers other than 200.
    refused: Vec<String>,
}

impl Bystander {
    /// Has it ask the server while `meanwhile` goes on.
    fn beside<T>(server: &Server, field: Field<'_>, meanwhile: impl FnOnce() -> T) -> (T, Bystander) {
        let mut process = Command::new(env!("CARGO_BIN_EXE_bystander"))
            .args([field.address, &server.pid().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let done = meanwhile();
        drop(process.stdin.take());
        let output = process.wait_with_output().unwrap();
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
        let refused = seen["refused"].as_array().unwrap().iter();
        let bystander = Bystander {
            anonymous_mb: seen["anonymous_mb"].as_u64().unwrap(),
            p99: Duration::from_micros(seen["p99_us"].as_u64().unwrap()),
            refused: refused.map(|answer| answer.as_str().unwrap().to_owned()).collect(),
        };
        assert!(bystander.p99 > Duration::ZERO, "it asked: {seen}");
        (done, bystander)
    }
}

/// The address of a server that reads each request to its end, refuses it and does nothing else. It ends with the process. While it
/// is attacked, a bystander of another server shows the delay that the attackers cause by themselves: no server could answer it sooner.
fn sink() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                std::thread::spawn(move || {
                    take_the_priority_of_long_requests();
                    stream.and_then(refuse)
                });
            }
        });
        address
    })
}

/// Gives this thread the priority that the server gives its threads of long requests.
fn take_the_priority_of_long_requests() {
    // SAFETY: the call takes numbers only; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) };
}

/// Reads one request and refuses it.
fn refuse(mut stream: TcpStream) -> std::io::Result<()> {
    let (mut head, mut buffer) = (Vec::new(), vec![0; 256 << 10]);
    let mut left: Option<usize> = None;
    while left != Some(0) {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        if let Some(left) = &mut left {
            *left = left.saturating_sub(length);
            continue;
        }
        head.extend_from_slice(&buffer[..length]);
        let text = String::from_utf8_lossy(&head);
        if let Some(end) = text.find("\r\n\r\n") {
            let length = text[..end]
                .split("content-length: ")
                .nth(1)
                .and_then(|rest| rest.lines().next());
            let body: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
            left = Some(body.saturating_sub(head.len() - end - 4));
        }
    }
    stream.write_all(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 14\r\nconnection: close\r\n\r\n\"reason\": [-] ")
}

/// Runs this thread, and those that it starts, only where a processor has nothing else to do (`SCHED_IDLE`): attackers stand for
/// other machines, whose clients make their bodies with processors of their own. The bystander keeps its priority.
fn leave_processors_to_the_server() {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: `none` lives over the call; 0 is the calling thread.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Forgets the highest that was measured, where the kernel can.
fn forget_highest(server: &Server) {
    let _ = std::fs::write(format!("/proc/{}/clear_refs", server.pid()), "5");
}

/// What attacks cost.
struct Cost {
    name: &'static str,
    statuses: BTreeMap<u16, usize>,
    highest_mb: u64,
    anonymous_mb: u64,
    p99: Duration,
    well_after: Duration,
    took: Duration,
    faults: Vec<String>,
}

/// Plays attacks against `attacked`, which is the server or the [`sink`], while a bystander asks the server.
fn attack(server: &Server, field: Field<'_>, attacked: &str, attacks: &[Attack]) -> (Vec<Reply>, Bystander) {
    let begun = Instant::now();
    let target = Field {
        address: attacked,
        ..field
    };
    let again = move |attack: fn(Field<'_>) -> Vec<Reply>| {
        leave_processors_to_the_server();
        let mut replies = attack(target);
        while field.full && begun.elapsed() < ATTACKED_FOR {
            replies.extend(attack(target));
        }
        replies
    };
    Bystander::beside(server, field, || {
        std::thread::scope(|scope| {
            let all: Vec<_> = attacks
                .iter()
                .map(|(_, attack)| scope.spawn(move || again(*attack)))
                .collect();
            all.into_iter().flat_map(|attack| attack.join().unwrap()).collect()
        })
    })
}

fn play(server: &Server, field: Field<'_>, name: &'static str, attacks: &[Attack]) -> Cost {
    forget_highest(server);
    let begun = Instant::now();
    let (replies, bystander) = attack(server, field, field.address, attacks);
    let ended = Instant::now();
    let mut faults: Vec<String> = replies.iter().filter_map(fault).collect();
    if let Some(answer) = bystander.refused.first() {
        faults.push(format!("the bystander was answered: {answer:.300}"));
    }
    let body = json!({ "text": "x".repeat(100 << 10) }).to_string();
    let is_well = || {
        field.send("PUT", "/well/_doc/1", body.as_bytes()).0 < 300
            && field.search(&json!({ "aggs": { "a": { "max": { "field": "n" } } } })).0 == 200
            && field.send("GET", "/large/_search?size=20", b"").0 == 200
    };
    while !is_well() {
        if ended.elapsed() > WELL_AGAIN {
            faults.push(format!(
                "it is not well again: {:.500?}",
                field.send("PUT", "/well/_doc/1", body.as_bytes())
            ));
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut statuses = BTreeMap::new();
    for (status, _) in &replies {
        *statuses.entry(*status).or_default() += 1;
    }
    let cost = Cost {
        name,
        statuses,
        highest_mb: server.memory_mb("VmHWM:"),
        anonymous_mb: bystander.anonymous_mb,
        p99: bystander.p99,
        well_after: ended.elapsed(),
        took: ended - begun,
        faults,
    };
    println!(
        "| {} | {} | {} | {} | {:.1?} | {} | {:.1?} | {:.1?} |",
        cost.name,
        cost.statuses
            .iter()
            .map(|(status, n)| format!("{n} × {status}"))
            .collect::<Vec<_>>()
            .join(", "),
        cost.highest_mb,
        cost.anonymous_mb,
        cost.p99,
        if field.full {
            floor(server, field, attacks)
        } else {
            String::new()
        },
        cost.well_after,
        cost.took
    );
    cost
}

/// The p99 of the bystander while the attackers send the same requests to the [`sink`].
fn floor(server: &Server, field: Field<'_>, attacks: &[Attack]) -> String {
    let (_, bystander) = attack(server, field, sink(), attacks);
    format!("{:.1?}", bystander.p99)
}

/// What is wrong with an answer to an attack: it is the server's fault, or a refusal that does not say why.
fn fault((status, text): &Reply) -> Option<String> {
    let wrong = match status {
        503 | 507 | 429 => !text.contains("\"reason\"") || !text.contains('['),
        500.. => true,
        _ => false,
    };
    wrong.then(|| text.chars().take(1000).collect())
}

/// The answer of a bulk of tiny lines is twelve times as long as its body. It is packed as it is made and sent piece by
/// piece: all of it fits into two bodies, beside the body itself.
#[test]
fn the_answer_of_tiny_lines_is_packed() {
    let folder = tempfile::tempdir().unwrap();
    let mb: usize = std::env::var("PLEACH_TEST_BULK_MB")
        .ok()
        .and_then(|mb| mb.parse().ok())
        .unwrap_or(1);
    let limit = format!("indices.breaker.request.limit={}mb", 2 * mb + 1);
    let server = Server::start_with(&folder.path().join("data"), &["opensearch2"], &[&limit]);
    let field = Field {
        address: server.address(""),
        full: false,
    };
    assert_eq!(field.send("PUT", "/tiny/_doc/1", b"{}").0, 201);
    let before = server.memory_mb("VmRSS:");
    forget_highest(&server);
    let count = (mb << 20) / 16;
    let body = "{\"index\":{}}\n{}\n".repeat(count);
    let answer = server.send("POST", "/tiny/_bulk", &body).unwrap();
    assert_eq!(answer.status, 200, "{:.500}", answer.body.to_string());
    println!(
        "{mb} MB of tiny lines: {before} MB before, {} MB at most, {} MB after",
        server.memory_mb("VmHWM:"),
        server.memory_mb("VmRSS:")
    );
    // Two bodies, and what the store holds of any load: pending operations, segments in memory, the build of one, tables.
    let most = before + 3 * mb as u64 + STORE_MB;
    let highest = server.memory_mb("VmHWM:");
    assert!(highest < most, "{highest} MB, at most {most}");
    assert_eq!(answer.body["errors"], false);
    let items = answer.body["items"].as_array().unwrap();
    assert_eq!(items.len(), count);
    let seq_nos = items.iter().map(|item| item["index"]["_seq_no"].as_u64());
    assert!(seq_nos.eq((1..=count as u64).map(Some)), "the items stand in their order");
    // Filtered and laid out it takes no more: each item is filtered as it is made.
    for style in ["filter_path=took,items.*.status", "pretty", "filter_path=errors&pretty"] {
        let told = server.send("POST", &format!("/tiny/_bulk?{style}"), &body).unwrap();
        assert_eq!(told.status, 200, "{style}: {:.500}", told.text);
        let items = told.body["items"].as_array().map_or(0, Vec::len);
        assert_eq!(items, if style.contains("errors") { 0 } else { count }, "{style}");
        assert_eq!(told.text.contains('\n'), style.contains("pretty"), "{style}");
    }
}

#[test]
fn no_attack_takes_more_memory_than_there_is_for_it() {
    let full = std::env::var("PLEACH_TEST_ATTACKS").is_ok_and(|size| size == "full");
    let only = std::env::var("PLEACH_TEST_ATTACKS_ONLY").unwrap_or_default();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let limit_mb = if full { LIMIT_MB.0 } else { LIMIT_MB.1 };
    // Another limit, to see what remains of the server with less.
    let given = std::env::var("PLEACH_TEST_ATTACKS_LIMIT_MB").ok();
    let limit_mb = given.and_then(|mb| mb.parse().ok()).unwrap_or(limit_mb);
    let highest_mb = limit_mb + if full { BEYOND_MB.0 } else { BEYOND_MB.1 };
    let limit = format!("indices.breaker.total.limit={limit_mb}mb");
    let settings = [limit.as_str()];
    let server = Server::start_with(&data, &["opensearch2"], &settings);
    let field = Field {
        address: server.address(""),
        full,
    };
    fill(field);
    let quiet_for = field.size(Duration::from_secs(5), Duration::from_secs(1));
    let ((), quiet) = Bystander::beside(&server, field, || std::thread::sleep(quiet_for));
    println!(
        "| attack | answers | most resident, MB | most anonymous, MB | bystander's p99 | of a sink | well again after | took |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    println!("| none | | {} | | {:.1?} | | | |", server.memory_mb("VmHWM:"), quiet.p99);
    let mut costs = Vec::new();
    let together = only == TOGETHER;
    let is_chosen = |attack: &&Attack| together || attack.0.contains(&only);
    let chosen: Vec<Attack> = ATTACKS.iter().filter(is_chosen).copied().collect();
    if (full || !only.is_empty()) && !together {
        for attack in &chosen {
            costs.push(play(&server, field, attack.0, &[*attack]));
        }
    }
    costs.push(play(&server, field, TOGETHER, &chosen));
    server.signal(libc::SIGKILL);
    drop(server);
    let begun = Instant::now();
    let server = Server::start_with(&data, &["opensearch2"], &settings);
    assert_eq!(server.send("GET", "/bystander/_doc/1", "").unwrap().status, 200);
    let highest = server.memory_mb("VmHWM:");
    println!("| a start after them | | {highest} | | | | {:.1?} | |", begun.elapsed());
    assert!(highest < highest_mb, "a start held {highest} MB");
    let slowest = match full {
        true => (quiet.p99 * DELAY_FACTOR).max(DELAY_FLOOR),
        false => DELAY_SMALL,
    };
    for cost in costs {
        assert!(cost.faults.is_empty(), "{}: {:#?}", cost.name, cost.faults);
        assert!(cost.highest_mb < highest_mb, "{}: {} MB", cost.name, cost.highest_mb);
        assert!(
            cost.p99 <= slowest,
            "{}: p99 of {:?}, quiet {:?}",
            cost.name,
            cost.p99,
            quiet.p99
        );
    }
}
