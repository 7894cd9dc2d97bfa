//! `pleach replicate`: keeps another Pleach, OpenSearch or Elasticsearch equal to a running server.
//!
//! A consumer at the source keeps the position, so the command goes on after either end, or itself, was killed. It begins with a copy
//! of what is there, into indices that the target does not have yet. A second consumer, made before the copy, says that the copy is not
//! whole yet: a command that finds it deletes what the first one made, and copies again.
//!
//! Each document is written with its `commit_seq` as an external version. The target refuses what is older than what it has, so
//! whatever is sent twice changes nothing. Moves and removals of directories have no version: the position is noted right before and
//! right after each, so only the last one may be sent twice, and then its directory is gone.
//!
//! A thread reads the feed ahead, this one makes requests of it, and a thread for each connection sends them. The position is
//! noted while they do; `ledger` says how far.
//!
//! Not here: requests to the target (`target`, `lanes`), reading the feed (`feed_client`).

mod change;
mod lanes;
mod ledger;
mod target;

use crate::client::{Client, JSON, Side, segment};
use crate::console::complain;
use crate::feed_client::{FeedPart, FeedReader, consumer_position, delete_consumer, exchange, put_consumer, refusal};
use crate::server_flags::{ServerFlags, TargetFlags};
use change::Change;
use model::{Error, ErrorKind, Result, units};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};
use target::{Sending, Target};

/// How long an end that does not answer is asked again.
const PATIENCE: Duration = Duration::from_secs(3600);
/// The same of a command that ends when the target has everything.
const PATIENCE_ONCE: Duration = Duration::from_secs(60);
/// How long one request waits for a change.
const POLL: Duration = Duration::from_secs(30);
/// Parts that are read ahead.
const AHEAD: usize = 2;
/// How often the position is noted.
const NOTE_EACH: Duration = Duration::from_secs(1);
/// Where no operation is for the target, the position is noted after so many bytes of the source's log.
const NOTE_BYTES: u64 = 1 << 20;

/// The flags of `replicate`.
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "The command runs until it is stopped, or with --once until the target has everything, and its exit code is 0 then; 1 if one end \
                  refused something, 2 if a flag cannot be read. An end that does not answer, or answers 429 or 503, is asked again after at \
                  most 5 seconds, for an hour, with --once for a minute; then the exit code is 1. Beside --in-flight, memory holds at most \
                  four answers of the feed, of about changes.feed.max_bytes each."
)]
pub(crate) struct ReplicateFlags {
    #[command(flatten)]
    target: TargetFlags,
    /// These indices only: names and patterns, separated by commas.
    #[arg(long, value_name = "NAMES")]
    index: Option<String>,
    /// The consumer that keeps the position; one for each target.
    #[arg(long, value_name = "NAME", default_value = "replicate")]
    name: String,
    /// End when the target has everything.
    #[arg(long)]
    once: bool,
    /// Begin anew with a copy; delete the target's indices before you do.
    #[arg(long)]
    restart: bool,
    /// Requests that are on their way to the target at once.
    #[arg(long, value_name = "NUMBER", default_value = "4", value_parser = clap::value_parser!(u8).range(1..=64))]
    connections: u8,
    /// Bytes of documents that are on their way to the target or wait for it.
    #[arg(long, value_name = "SIZE", default_value = "32mb", value_parser = parse_size)]
    in_flight: usize,
    /// Pack requests to the target by gzip: less to send, more to do for both ends.
    #[arg(long)]
    gzip: bool,
    #[command(flatten)]
    server: ServerFlags,
}

/// A number of bytes, as `32mb`.
fn parse_size(text: &str) -> std::result::Result<usize, String> {
    let bytes = units::parse_bytes(text, "--in-flight").map_err(|error| error.reason().to_owned())?;
    usize::try_from(bytes).map_err(|_| "it is more than this machine can address".to_owned())
}

/// The consumers of a replication.
struct Names {
    /// The target has everything up to its position.
    following: String,
    /// A copy was begun, and is not whole; the changes behind it stay meanwhile.
    copying: String,
}

/// What a thread reads ahead.
type Parts = Receiver<Result<FeedPart>>;

/// A replication that runs.
struct Replication<'a> {
    flags: &'a ReplicateFlags,
    names: Names,
    source: Client,
    target: Target,
    patience: Duration,
    /// When the position was noted last.
    noted: Instant,
}

/// Keeps the target equal.
///
/// # Errors
/// One end refuses or cannot be reached.
pub(crate) fn run(flags: &ReplicateFlags) -> Result<ExitCode> {
    let patience = if flags.once { PATIENCE_ONCE } else { PATIENCE };
    let mut to = flags.target.client()?;
    if flags.gzip {
        to.pack_bodies();
    }
    let sending = Sending {
        connections: usize::from(flags.connections),
        bytes_max: flags.in_flight,
        patience,
    };
    let mut replication = Replication {
        flags,
        names: Names {
            following: flags.name.clone(),
            copying: format!("{}.copying", flags.name),
        },
        source: flags.server.client_of(Side::FOLLOWED)?,
        target: Target::connect(to, sending)?,
        patience,
        noted: Instant::now(),
    };
    replication.run()
}

impl Replication<'_> {
    fn run(&mut self) -> Result<ExitCode> {
        if self.flags.restart {
            delete_consumer(&mut self.source, &self.names.following, self.patience)?;
            delete_consumer(&mut self.source, &self.names.copying, self.patience)?;
        }
        let wait = if self.flags.once { Duration::ZERO } else { POLL };
        let parts = match consumer_position(&mut self.source, &self.names.following, self.patience)? {
            Some(position) => {
                self.target.with_ledger(|ledger| ledger.begin_at(position))?;
                let reader = self.reader(&position.to_string())?;
                read_ahead(reader, false, wait)?
            }
            None => self.copy(wait)?,
        };
        self.follow(&parts)
    }

    fn reader(&self, place: &str) -> Result<FeedReader> {
        let client = self.flags.server.client_of(Side::FOLLOWED)?;
        Ok(FeedReader::new(
            client,
            place,
            self.flags.index.as_deref(),
            true,
            self.patience,
        ))
    }

    /// Copies what is there. What is read behind the copy is the feed.
    fn copy(&mut self, wait: Duration) -> Result<Parts> {
        let (source, patience) = (&mut self.source, self.patience);
        let is_again = consumer_position(source, &self.names.copying, patience)?.is_some();
        if !is_again {
            let copied = indices(source, self.flags.index.as_deref(), patience)?;
            self.target.check_absent(&copied)?;
            put_consumer(source, &self.names.copying, None, patience)?;
        }
        self.target.begin_copy(is_again);
        let parts = read_ahead(self.reader("0")?, true, wait)?;
        let moment = loop {
            let part = parts.recv().map_err(|_| reader_is_gone())??;
            for change in &part.changes {
                self.target.apply(&Change::read(change)?)?;
            }
            if let Some(moment) = part.position {
                break moment;
            }
        };
        self.target.end_copy()?;
        self.target.with_ledger(|ledger| ledger.begin_at(moment))?;
        complain(&format!("copied {} documents; following", self.target.documents()));
        put_consumer(&mut self.source, &self.names.following, Some(moment), patience)?;
        delete_consumer(&mut self.source, &self.names.copying, patience)?;
        Ok(parts)
    }

    /// Applies changes as they come.
    fn follow(&mut self, parts: &Parts) -> Result<ExitCode> {
        loop {
            let part = match parts.try_recv() {
                Ok(part) => part?,
                Err(TryRecvError::Disconnected) => return Err(reader_is_gone()),
                Err(TryRecvError::Empty) => {
                    // Nothing is there to go with what waits.
                    self.target.send_waiting();
                    match parts.recv_timeout(NOTE_EACH) {
                        Ok(part) => part?,
                        Err(RecvTimeoutError::Disconnected) => return Err(reader_is_gone()),
                        Err(RecvTimeoutError::Timeout) => {
                            self.note_durable()?;
                            continue;
                        }
                    }
                }
            };
            self.apply(&part)?;
            if self.flags.once && part.is_newest {
                self.target.drain()?;
                self.note_durable()?;
                let sent = self.target.documents();
                complain(&format!("the target has everything; {sent} documents were sent"));
                return Ok(ExitCode::SUCCESS);
            }
            if self.noted.elapsed() >= NOTE_EACH {
                self.note_durable()?;
            }
        }
    }

    fn apply(&mut self, part: &FeedPart) -> Result<()> {
        for change in &part.changes {
            let change = Change::read(change)?;
            let commit_seq = change.commit_seq;
            let before = self.target.with_ledger(|ledger| ledger.read())?;
            if commit_seq <= before {
                let reason =
                    format!("the source gave the change [{commit_seq}] to a reader that asked for those behind [{before}]");
                return Err(Error::new(ErrorKind::Internal, reason));
            }
            let is_noted = change.changes_directories();
            if is_noted {
                self.target.drain()?;
                self.target.with_ledger(|ledger| ledger.advance(commit_seq - 1))?;
                self.note_durable()?;
            }
            self.target.apply(&change)?;
            if is_noted {
                self.target.drain()?;
            }
            self.target.with_ledger(|ledger| ledger.advance(commit_seq))?;
            if is_noted {
                self.note_durable()?;
            }
        }
        // Noting is a change of the source's log itself: behind nothing but that, the position stays.
        let Some(position) = part.position else { return Ok(()) };
        let read = self.target.with_ledger(|ledger| ledger.read())?;
        if position < read {
            let reason = format!("the source gave the position [{position}] behind the change [{read}]");
            return Err(Error::new(ErrorKind::Internal, reason));
        }
        match part.changes.is_empty() && position - read <= NOTE_BYTES {
            true => Ok(()),
            false => self.target.with_ledger(|ledger| ledger.advance(position)),
        }
    }

    /// Tells the source how far the target is, if it is farther than it was.
    fn note_durable(&mut self) -> Result<()> {
        self.noted = Instant::now();
        let position = self.target.with_ledger(|ledger| {
            let notable = ledger.notable();
            if let Some(position) = notable {
                ledger.note(position);
            }
            notable
        })?;
        match position {
            Some(position) => put_consumer(&mut self.source, &self.names.following, Some(position), self.patience).map(drop),
            None => Ok(()),
        }
    }
}

fn reader_is_gone() -> Error {
    Error::new(ErrorKind::Internal, "the thread that reads the feed is gone")
}

/// The names of the source's indices, closed and hidden ones too.
fn indices(source: &mut Client, patterns: Option<&str>, patience: Duration) -> Result<Vec<String>> {
    let patterns = patterns.map_or_else(String::new, |patterns| format!("/{}", segment(patterns).replace("%2C", ",")));
    let path = format!("/_cat/indices{patterns}?format=json&h=index&expand_wildcards=all");
    let answer = exchange(source, ("GET", &path, JSON), b"", patience)?;
    match (answer.status, answer.body.as_array()) {
        (404, _) => Ok(Vec::new()),
        (200, Some(rows)) => Ok(rows
            .iter()
            .filter_map(|row| row["index"].as_str().map(str::to_owned))
            .collect()),
        _ => Err(refusal(source.side, &answer, "GET", &path)),
    }
}

/// Starts a thread that reads part after part, until nobody wants more or one cannot be read. `is_copy`: a copy comes first.
fn read_ahead(mut reader: FeedReader, is_copy: bool, wait: Duration) -> Result<Parts> {
    let (parts, read): (SyncSender<Result<FeedPart>>, Parts) = sync_channel(AHEAD);
    let read_all = move || {
        let mut part = match is_copy {
            true => reader.begin_copy(),
            false => reader.next(wait),
        };
        loop {
            let failed = part.is_err();
            if parts.send(part).is_err() || failed {
                return;
            }
            part = reader.next(wait);
        }
    };
    let started = std::thread::Builder::new().name("pleach-feed".to_owned()).spawn(read_all);
    started.map_err(|cause| Error::new(ErrorKind::Internal, format!("no thread can be started: {cause}")))?;
    Ok(read)
}
