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
//! Not here: requests to the target (`target`), reading the feed (`feed_client`).

mod target;

use crate::client::{Client, JSON, segment};
use crate::console::complain;
use crate::feed_client::{FeedPart, FeedReader, consumer_position, delete_consumer, exchange, put_consumer, refusal};
use crate::server_flags::ServerFlags;
use model::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use target::Target;

/// How long an end that does not answer is asked again.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How long one request waits for a change.
const POLL: Duration = Duration::from_secs(30);
/// Parts that are read ahead.
const AHEAD: usize = 2;
/// How often the position is noted while parts come without a pause.
const NOTE_EACH: Duration = Duration::from_secs(1);

/// The flags of `replicate`.
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "The command runs until it is stopped, or with --once until the target has everything. The exit code is 0 then, 1 if one end \
                  refused something or did not answer for an hour, 2 if a flag cannot be read."
)]
pub(crate) struct Flags {
    /// The target: `http://HOST:PORT` or `https://HOST:PORT`.
    #[arg(long, value_name = "URL")]
    to: String,
    /// PEM file of the authority of an https target [default: those of the system].
    #[arg(long, value_name = "FILE")]
    to_ca: Option<PathBuf>,
    /// These indices only: names and patterns, separated by commas.
    #[arg(long, value_name = "NAMES")]
    index: Option<String>,
    /// The consumer that keeps the position; one for each target.
    #[arg(long, value_name = "NAME", default_value = "replicate")]
    name: String,
    /// End when the target has everything.
    #[arg(long)]
    once: bool,
    /// Begin anew with a copy; delete the target's indices before.
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    server: ServerFlags,
}

/// The consumers of a replication.
struct Names {
    /// The target has everything up to its position.
    following: String,
    /// A copy was begun, and is not whole; the changes behind it stay meanwhile.
    copying: String,
}

/// Keeps the target equal.
///
/// # Errors
/// One end refuses or cannot be reached.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode> {
    let names = Names {
        following: flags.name.clone(),
        copying: format!("{}.copying", flags.name),
    };
    let patience = if flags.once { Duration::from_secs(60) } else { PATIENCE };
    let mut source = flags.server.client()?;
    let to = Client::new(&flags.to, || crate::tls::client_config(flags.to_ca.as_deref(), None))?;
    let mut target = Target::connect(to, patience)?;
    if flags.restart {
        delete_consumer(&mut source, &names.following, patience)?;
        delete_consumer(&mut source, &names.copying, patience)?;
    }
    let from = match consumer_position(&mut source, &names.following, patience)? {
        Some(position) => position,
        None => copy(flags, &names, &mut source, &mut target, patience)?,
    };
    let reader = FeedReader::new(
        flags.server.client()?,
        &from.to_string(),
        flags.index.as_deref(),
        true,
        patience,
    );
    follow(flags, &names, &mut source, &mut target, reader, patience)
}

/// Copies what is there. Gives the position to follow from, which the consumer has.
fn copy(flags: &Flags, names: &Names, source: &mut Client, target: &mut Target, patience: Duration) -> Result<u64> {
    let is_again = consumer_position(source, &names.copying, patience)?.is_some();
    if !is_again {
        target.check_absent(&indices(source, flags.index.as_deref(), patience)?)?;
        put_consumer(source, &names.copying, None, patience)?;
    }
    target.begin_copy(is_again);
    let mut reader = FeedReader::new(flags.server.client()?, "0", flags.index.as_deref(), true, patience);
    let mut part = reader.begin_copy()?;
    let moment = loop {
        for change in &part.changes {
            target.apply(change)?;
        }
        if let Some(moment) = part.position {
            break moment;
        }
        part = reader.next(Duration::ZERO)?;
    };
    target.end_copy()?;
    complain(&format!("copied {} documents; following", target.documents()));
    put_consumer(source, &names.following, Some(moment), patience)?;
    delete_consumer(source, &names.copying, patience)?;
    Ok(moment)
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
        _ => Err(refusal(&answer, "GET", &path)),
    }
}

/// Applies changes as they come. A thread reads ahead.
fn follow(
    flags: &Flags,
    names: &Names,
    source: &mut Client,
    target: &mut Target,
    reader: FeedReader,
    patience: Duration,
) -> Result<ExitCode> {
    let (parts, read): (SyncSender<Result<FeedPart>>, Receiver<Result<FeedPart>>) = sync_channel(AHEAD);
    let wait = if flags.once { Duration::ZERO } else { POLL };
    let thread = std::thread::Builder::new().name("pleach-feed".to_owned());
    thread
        .spawn(move || read_ahead(reader, wait, &parts))
        .map_err(|cause| Error::new(ErrorKind::Internal, format!("no thread can be started: {cause}")))?;
    let mut noted = Instant::now();
    let mut unnoted = None;
    loop {
        let part = match read.try_recv() {
            Ok(part) => part,
            Err(_) => {
                // Nothing is waiting: what is behind goes out before the pause.
                target.flush()?;
                if let Some(position) = unnoted.take() {
                    put_consumer(source, &names.following, Some(position), patience)?;
                    noted = Instant::now();
                }
                let gone = |_| Error::new(ErrorKind::Internal, "the thread that reads the feed is gone");
                read.recv().map_err(gone)?
            }
        };
        let part = part?;
        for change in &part.changes {
            let Some(commit_seq) = target.changes_directories(change) else {
                target.apply(change)?;
                continue;
            };
            target.flush()?;
            put_consumer(source, &names.following, Some(commit_seq.saturating_sub(1)), patience)?;
            target.apply(change)?;
            target.flush()?;
            put_consumer(source, &names.following, Some(commit_seq), patience)?;
        }
        if !part.changes.is_empty() {
            unnoted = part.position;
        }
        let is_over = flags.once && part.is_newest;
        if let Some(position) = unnoted.filter(|_| is_over || noted.elapsed() >= NOTE_EACH) {
            target.flush()?;
            put_consumer(source, &names.following, Some(position), patience)?;
            (noted, unnoted) = (Instant::now(), None);
        }
        if is_over {
            complain(&format!(
                "the target has everything; {} documents were sent",
                target.documents()
            ));
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Reads part after part, until nobody wants more or one cannot be read.
fn read_ahead(mut reader: FeedReader, wait: Duration, parts: &SyncSender<Result<FeedPart>>) {
    loop {
        let part = reader.next(wait);
        let failed = part.is_err();
        if parts.send(part).is_err() || failed {
            return;
        }
    }
}
