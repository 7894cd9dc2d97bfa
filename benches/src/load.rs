//! A closed-loop load generator: each client sends its next request when the answer is there, over one connection.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// How much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Connections.
    pub(crate) clients: usize,
    /// Not counted.
    pub(crate) warm: Duration,
    /// Counted.
    pub(crate) time: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Answers a second.
    pub(crate) per_second: f64,
    /// Microseconds.
    pub(crate) p50_us: f64,
    /// Microseconds.
    pub(crate) p99_us: f64,
}

/// Writes a request: client, number, buffer.
pub(crate) type Request<'a> = &'a (dyn Fn(usize, u64, &mut Vec<u8>) + Sync);

/// One request as bytes.
pub(crate) fn request(out: &mut Vec<u8>, method: &str, path: &str, body: &str) {
    out.clear();
    let _ = write!(
        out,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
}

/// One client's work: each call is one operation, of as many requests as it takes. It panics where one is refused.
pub(crate) type Work = Box<dyn FnMut(u64)>;

/// Merging millions of documents is one request, of more than a minute.
const READ_TIMEOUT: Duration = Duration::from_secs(600);

/// One connection to an HTTP server.
pub(crate) struct Http {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Http {
    /// Connects, without delay of small packets.
    pub(crate) fn open(address: &str) -> Http {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_nodelay(true).expect("TCP has no delay");
        stream.set_read_timeout(Some(READ_TIMEOUT)).expect("reads end");
        Http {
            stream,
            answer: Vec::new(),
        }
    }

    /// The body of the answer. A refusal ends the bench: errors are answered fast.
    pub(crate) fn send(&mut self, request: &[u8]) -> &[u8] {
        let (status, body) = round_trip(&mut self.stream, request, &mut self.answer);
        assert!(
            (200..300).contains(&status),
            "{status}: {}\nfor {}",
            String::from_utf8_lossy(&self.answer),
            String::from_utf8_lossy(request)
        );
        &self.answer[body..]
    }
}

impl Http {
    /// How long an answer takes, in milliseconds.
    pub(crate) fn timed(&mut self, method: &str, path: &str, body: &str) -> f64 {
        let mut out = Vec::new();
        request(&mut out, method, path, body);
        let begun = Instant::now();
        self.send(&out);
        begun.elapsed().as_secs_f64() * 1e3
    }
}

/// Loads a server with requests that do not depend on answers.
pub(crate) fn run(address: &str, load: Load, request: Request<'_>) -> Sample {
    drive(load, &|client| {
        let mut http = Http::open(address);
        let mut out = Vec::new();
        let mut number = 0;
        Box::new(move || {
            request(client, number, &mut out);
            number += 1;
            let sent = Instant::now();
            http.send(&out);
            sent.elapsed()
        })
    })
}

/// Lets clients work; each is made in its own thread.
pub(crate) fn work(load: Load, make: &(dyn Fn(usize) -> Work + Sync)) -> Sample {
    drive(load, &|client| {
        let mut work = make(client);
        let mut number = 0;
        Box::new(move || {
            let begun = Instant::now();
            work(number);
            number += 1;
            begun.elapsed()
        })
    })
}

/// An operation, with the time that counts of it.
type Timed<'a> = Box<dyn FnMut() -> Duration + 'a>;

fn drive<'a>(load: Load, make: &(dyn Fn(usize) -> Timed<'a> + Sync)) -> Sample {
    let barrier = Barrier::new(load.clients);
    let results: Vec<(Vec<u32>, f64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..load.clients)
            .map(|client| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let operation = make(client);
                    barrier.wait();
                    one(load, operation)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("a client does not panic"))
            .collect()
    });
    let seconds = results.iter().map(|(_, s)| *s).fold(0.0, f64::max);
    let mut all: Vec<u32> = results.into_iter().flat_map(|(times, _)| times).collect();
    all.sort_unstable();
    let at = |part: f64| {
        let place = (all.len() as f64 * part) as usize;
        all.get(place.min(all.len().saturating_sub(1)))
            .map_or(0.0, |n| f64::from(*n) / 10.0)
    };
    Sample {
        per_second: all.len() as f64 / seconds,
        p50_us: at(0.5),
        p99_us: at(0.99),
    }
}

/// Times in tenths of a microsecond, and the seconds they took in all.
fn one(load: Load, mut operation: Timed<'_>) -> (Vec<u32>, f64) {
    let mut times = Vec::with_capacity(1 << 16);
    let begun = Instant::now();
    let mut counted = None;
    loop {
        let now = Instant::now();
        // A request may take longer than the whole time: each client counts at least one.
        if now - begun >= load.warm + load.time && !times.is_empty() {
            break;
        }
        if counted.is_none() && now - begun >= load.warm {
            counted = Some(now);
        }
        let took = operation();
        if counted.is_some() {
            times.push(u32::try_from(took.as_nanos() / 100).unwrap_or(u32::MAX));
        }
    }
    (times, counted.map_or(0.0, |at| at.elapsed().as_secs_f64()))
}

/// Status, and where the body begins.
fn round_trip(stream: &mut TcpStream, request: &[u8], answer: &mut Vec<u8>) -> (u16, usize) {
    stream.write_all(request).expect("the server reads");
    answer.clear();
    let mut part = [0u8; 16384];
    let mut whole: Option<(usize, usize)> = None;
    loop {
        let n = stream.read(&mut part).expect("the server answers");
        assert!(n > 0, "the server closed the connection");
        answer.extend_from_slice(&part[..n]);
        if whole.is_none()
            && let Some(end) = answer.windows(4).position(|w| w == b"\r\n\r\n")
        {
            let head = String::from_utf8_lossy(&answer[..end]);
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.trim().parse::<usize>().ok())?
            });
            whole = Some((end + 4, end + 4 + length.expect("the answer has a length")));
        }
        if whole.is_some_and(|(_, whole)| answer.len() >= whole) {
            break;
        }
    }
    let status = std::str::from_utf8(answer.get(9..12).unwrap_or_default())
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(0);
    (status, whole.map_or(0, |(body, _)| body))
}

/// Two contenders that took turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared {
    /// Medians of the first.
    pub(crate) ours: Sample,
    /// Medians of the second.
    pub(crate) theirs: Sample,
    /// Median over the rounds of our rate by theirs.
    pub(crate) rate: f64,
    /// Median over the rounds of our p50 by theirs.
    pub(crate) p50: f64,
}

/// Lets two take turns with requests.
pub(crate) fn compare(rounds: usize, load: Load, ours: (&str, Request<'_>), theirs: (&str, Request<'_>)) -> Compared {
    turns(rounds, || run(ours.0, load, ours.1), || run(theirs.0, load, theirs.1))
}

/// Lets two take turns.
pub(crate) fn turns(rounds: usize, ours: impl Fn() -> Sample, theirs: impl Fn() -> Sample) -> Compared {
    let pairs: Vec<(Sample, Sample)> = (0..rounds).map(|_| (ours(), theirs())).collect();
    let of = |f: fn(&(Sample, Sample)) -> f64| median(pairs.iter().map(f).collect());
    Compared {
        ours: Sample {
            per_second: of(|p| p.0.per_second),
            p50_us: of(|p| p.0.p50_us),
            p99_us: of(|p| p.0.p99_us),
        },
        theirs: Sample {
            per_second: of(|p| p.1.per_second),
            p50_us: of(|p| p.1.p50_us),
            p99_us: of(|p| p.1.p99_us),
        },
        rate: of(|p| p.0.per_second / p.1.per_second),
        p50: of(|p| p.0.p50_us / p.1.p50_us),
    }
}

/// The middle one.
pub(crate) fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}
