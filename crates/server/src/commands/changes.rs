//! `pleach changes`: prints the feed of changes, a line of JSON a change.
//!
//! Not here: reading the feed (`feed_client`), applying it elsewhere (`replicate`).

use crate::console::{complain, print};
use crate::feed_client::{FeedReader, consumer_position, put_consumer};
use crate::server_flags::ServerFlags;
use model::{Error, Result};
use std::process::ExitCode;
use std::time::Duration;

/// How long a server that does not answer is asked again while it is followed.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How long one request waits for a change.
const POLL: Duration = Duration::from_secs(30);

/// The flags of `changes`.
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "The position to go on from is printed to standard error at the end. The exit code is 0 if everything was printed, 1 if the \
                  server refused, as a position that is gone, or could not be reached, 2 if a flag cannot be read."
)]
pub(crate) struct ChangesFlags {
    /// The position to go on behind: a number, or `now`.
    #[arg(long, value_name = "POSITION", default_value = "0")]
    since: String,
    /// Begin with a copy of what is there.
    #[arg(long, conflicts_with_all = ["since", "consumer"])]
    initial: bool,
    /// Go on from the position of a consumer, and move it behind what was printed; one that is new begins at --since.
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Go on when everything was printed, until the command is stopped.
    #[arg(long)]
    follow: bool,
    /// Changes of these indices only: names and patterns, separated by commas.
    #[arg(long, value_name = "NAMES")]
    index: Option<String>,
    /// Leave the documents out.
    #[arg(long)]
    no_source: bool,
    #[command(flatten)]
    server: ServerFlags,
}

/// Prints the feed.
///
/// # Errors
/// The server refuses or cannot be reached.
pub(crate) fn run(flags: &ChangesFlags) -> Result<ExitCode> {
    let patience = if flags.follow { PATIENCE } else { Duration::ZERO };
    let mut client = flags.server.client()?;
    let place = match &flags.consumer {
        None => flags.since.clone(),
        Some(name) => match consumer_position(&mut client, name, patience)? {
            Some(position) => position.to_string(),
            None => put_consumer(&mut client, name, parse_position(&flags.since)?, patience)?.to_string(),
        },
    };
    let reader = flags.server.client()?;
    let mut reader = FeedReader::new(reader, &place, flags.index.as_deref(), !flags.no_source, patience);
    let mut part = match flags.initial {
        true => reader.begin_copy()?,
        false => reader.next(Duration::ZERO)?,
    };
    let wait = if flags.follow { POLL } else { Duration::ZERO };
    loop {
        let lines: String = part.changes.iter().map(|change| format!("{}\n", change.get())).collect();
        if !print(&lines)? {
            // Who reads no further has enough.
            return Ok(ExitCode::SUCCESS);
        }
        if let (Some(name), Some(position), false) = (&flags.consumer, part.position, part.changes.is_empty()) {
            put_consumer(&mut client, name, Some(position), patience)?;
        }
        if let (Some(position), true, false) = (part.position, part.is_newest, flags.follow) {
            complain(&format!("go on with --since {position}"));
            return Ok(ExitCode::SUCCESS);
        }
        part = reader.next(wait)?;
    }
}

/// A position as it was given; `None`: now.
fn parse_position(since: &str) -> Result<Option<u64>> {
    match since {
        "now" => Ok(None),
        number => number.parse().map(Some).map_err(|_| {
            Error::illegal(format!(
                "--since is [{number}] but must be [now] or a position, a whole number from 0"
            ))
        }),
    }
}
