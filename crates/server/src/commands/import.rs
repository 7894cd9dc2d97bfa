//! `pleach import`: fills an index of a running server from a folder of files, from lines of JSON or from another server.
//!
//! It is a client like any other: bulk requests over HTTP. Not here: watching a folder.

mod array;
mod counts;
mod folder;
mod lines;
mod modern_mapping;
mod progress;
mod records;
mod remote;
mod sender;
mod table;
mod typed;

use crate::console::say;
use crate::server_flags::ServerFlags;
use counts::Counts;
use indicatif::{ProgressBar, ProgressStyle};
use lines::Form;
use model::{Error, Result};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// The flags of `import`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The exit code is 0 if every document was taken, 1 if one was refused or the import stopped, 2 if a flag cannot be read."
)]
pub(crate) struct ImportFlags {
    /// Lines of JSON (documents, the lines of a bulk request, a dump of hits), an array of JSON, or a table (CSV); `-` is standard input.
    /// What `gzip` made is unpacked.
    #[arg(value_name = "FILE", conflicts_with = "files", required_unless_present_any = ["files", "from"])]
    file: Option<PathBuf>,
    /// Import the files of this folder and of all folders in it.
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// Index to fill, whatever index the lines name [default: the index of each line; with --files: fs; with --from: of the same name].
    #[arg(long, value_name = "NAME")]
    index: Option<String>,
    /// What the lines are [default: a table by the name of the file, else what the first line looks like].
    #[arg(long, value_name = "FORM", requires = "file")]
    form: Option<Form>,
    /// The character between the cells of a table [default: a comma, or a tab].
    #[arg(long, value_name = "CHAR", requires = "file", value_parser = records::parse_delimiter)]
    delimiter: Option<u8>,
    /// Keep every cell of a table as text.
    #[arg(long, requires = "file")]
    texts: bool,
    /// Field (dotted) that holds each document's id [default: `_id`, if the line has one].
    #[arg(long, value_name = "FIELD", requires = "file")]
    id: Option<String>,
    /// Field (dotted) that holds each document's routing [default: `_routing`, if the line has one].
    #[arg(long, value_name = "FIELD", requires = "file")]
    routing: Option<String>,
    /// Import hidden files and folders too.
    #[arg(long, requires = "files")]
    hidden: bool,
    /// Import files too that a `.gitignore` leaves out.
    #[arg(long, requires = "files")]
    ignored: bool,
    /// Leave out what this pattern matches, written as in a `.gitignore`; may be repeated.
    #[arg(long, value_name = "PATTERN", requires = "files")]
    exclude: Vec<String>,
    /// Import binary files too, without contents.
    #[arg(long, requires = "files")]
    binary: bool,
    /// Skip files larger than this.
    #[arg(long, value_name = "SIZE", default_value = "10mb", requires = "files")]
    max_size: String,
    /// Keep in this file how far the import came, and go on there if the file is there.
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    resume: Option<PathBuf>,
    /// Read everything, send nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    from: remote::SourceFlags,
    #[command(flatten)]
    server: ServerFlags,
}

/// Imports; the exit code is 1 if any document failed.
///
/// # Errors
/// Sources that cannot be read, a server that cannot be reached, a refusal that concerns every document.
pub(crate) fn run(flags: &ImportFlags) -> Result<ExitCode> {
    let started = Instant::now();
    let mut counts = Counts::default();
    let done = match (&flags.files, &flags.file, &flags.from.from) {
        (Some(folder), ..) => folder::import(flags, folder, &mut counts),
        (None, Some(file), _) => records::import(flags, file, &mut counts),
        (None, None, Some(url)) => remote::import(flags, url, &mut counts),
        (None, None, None) => Err(Error::illegal("give a FILE, a folder with --files, or a server with --from")),
    };
    // An import that stopped also says what it has done.
    if done.is_ok() || counts.accepted_count() > 0 {
        say(&counts.report(flags.dry_run, started.elapsed()));
    }
    done?;
    Ok(if counts.failed > 0 {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

/// A bar of bytes with rate and remaining time, on a terminal only.
fn bar(bytes: u64) -> ProgressBar {
    bar_of(bytes, "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} eta {eta}")
}

/// A bar in this form.
fn bar_of(length: u64, form: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}
