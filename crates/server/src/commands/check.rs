//! `pleach check DIR`: opens a data folder as a start does, without serving it, reads every byte and every document, and tells what
//! is damaged. Of a repository of snapshots it reads every file against its checksum.
//!
//! `--repair` gives up what is damaged and says what it cost; `--repair-control` does that for the control index alone
//! (locks, idempotency keys, tasks). Not here: what damage costs a start (`embedded`).

use crate::console::{complain, say};
use crate::private;
use disk::RealDisk;
use dsl::query::Clause;
use embedded::EmbeddedEngine;
use engine::clock::SystemClock;
use engine::tasks::Tasks;
use engine::{Barrier, Clock, Engine, EngineExt as _, See};
use futures::StreamExt as _;
use model::system_index::CONTROL_INDEX;
use model::{Error, ErrorKind, IndexName, Result, Target};
use relations::Relations;
use relations::repair::ControlContents;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// The flags of `check`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct CheckFlags {
    /// Folder of the data; no server may run on it. Or a repository of snapshots, which may be in use.
    #[arg(value_name = "DIR")]
    data: PathBuf,
    /// Give up what is damaged: segments, stretches of the log, indices of which nothing else is left. What that costs is
    /// told. Copy the folder first: what is given up is gone.
    #[arg(long)]
    repair: bool,
    /// Take out what cannot be read of locks, idempotency keys and tasks. What that costs is told.
    #[arg(long)]
    repair_control: bool,
}

/// Looks through a data folder. The exit code is 0 if everything is sound (or was repaired), else 1.
///
/// # Errors
/// A folder that is none of ours, is in use, or cannot be opened at all.
pub(crate) fn run(flags: &CheckFlags) -> Result<ExitCode> {
    if snapshot::Repository::is_in(&flags.data) {
        return check_repository(&flags.data);
    }
    // An empty folder would be made into a data folder.
    if !["manifest", "manifest-2"].iter().any(|name| flags.data.join(name).is_file()) {
        return Err(Error::illegal(format!(
            "[{}] is no data folder: it has no manifest",
            flags.data.display()
        )));
    }
    private::make_files_private();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let opened = match flags.repair {
        true => EmbeddedEngine::open_and_repair(&flags.data, clock.clone(), embedded::Limits::default()),
        false => EmbeddedEngine::open(&flags.data, clock.clone(), embedded::Limits::default()),
    };
    let engine = match opened {
        Ok(engine) => Arc::new(engine),
        Err(refused) if refused.kind() == ErrorKind::Corruption => {
            say(&format!("the folder does not open: {}\n", refused.reason()));
            return Ok(ExitCode::from(1));
        }
        Err(refused) => return Err(refused),
    };
    engine.check_segments();
    let told = engine.found_damage();
    for line in &told {
        say(&format!("{}{line}\n", if flags.repair { "repaired: " } else { "" }));
    }
    let identity = crate::identity::damage(&flags.data, &engine);
    if let Some(damage) = &identity {
        say(&format!("{damage}\n"));
    }
    let shared: Arc<dyn Engine> = engine.clone();
    let relations = Relations::new(shared, clock, Arc::new(Tasks::new(1)), crate::wire::SERVER);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|cause| Error::illegal(format!("starting a thread failed: {cause}")))?;
    let sound = runtime.block_on(async {
        let others = check_indices(&*engine).await? & check_documents(&*engine).await?;
        let control = check_control(&engine, &relations, flags.repair || flags.repair_control).await?;
        Ok::<bool, Error>(others && control)
    });
    let closed = engine.close();
    let sound = sound?;
    if let Err(cause) = closed {
        complain(&format!(
            "closing the folder failed: {}; the log has everything that was acknowledged",
            cause.reason()
        ));
        return Ok(ExitCode::from(1));
    }
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Every index but the control index. False: one is damaged.
async fn check_indices(engine: &dyn Engine) -> Result<bool> {
    let mut target = Target::of(Vec::new());
    (target.expand_closed, target.expand_hidden, target.forbid_closed) = (true, true, false);
    let indices = engine.indices(&target).await?;
    let damaged: Vec<(&IndexName, &String)> = indices
        .iter()
        .filter_map(|info| Some((&info.name, info.stopped.as_ref()?)))
        .collect();
    say(&format!("{} indices, {} damaged\n", indices.len(), damaged.len()));
    for (name, reason) in &damaged {
        say(&format!("index [{name}] is damaged: {reason}\n"));
    }
    if !damaged.is_empty() {
        say(
            "--repair gives up what is damaged of them: an index loses the documents of its damaged segments, and what was \
             written to it in damaged stretches of the log; one whose entry in the manifest is lost goes as a whole. Copy the \
             folder first\n",
        );
    }
    Ok(damaged.is_empty())
}

/// Reads every document of every sound index. False: one cannot be read.
async fn check_documents(engine: &dyn Engine) -> Result<bool> {
    let mut target = Target::of(Vec::new());
    (target.expand_closed, target.expand_hidden, target.forbid_closed) = (true, true, false);
    let (mut count, mut unread) = (0u64, 0u64);
    for info in engine.indices(&target).await?.iter().filter(|info| info.stopped.is_none()) {
        let mut one = Target::index(info.name.as_str());
        one.forbid_closed = false;
        let mut documents = engine
            .scan(&one, Clause::MatchAll.into(), See::Everything, Barrier::None)
            .await?;
        while let Some(document) = documents.next().await {
            count += 1;
            // A mapping may keep no sources.
            let read = document.and_then(|document| match document.source.0.is_empty() {
                true => Ok(()),
                false => document.source.parse().map(drop),
            });
            if let Err(cause) = read {
                unread += 1;
                say(&format!(
                    "a document of index [{}] cannot be read: {}\n",
                    info.name,
                    cause.reason()
                ));
            }
        }
    }
    say(&format!("{count} documents, {unread} cannot be read\n"));
    Ok(unread == 0)
}

/// As fast as it goes, to the end.
struct Unhurried;

impl snapshot::Pace for Unhurried {
    fn on_bytes(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// A repository of snapshots: the exit code is 0 if every file of every snapshot is sound.
fn check_repository(dir: &Path) -> Result<ExitCode> {
    let repository = snapshot::Repository::new(Arc::new(RealDisk), dir.to_owned(), u64::MAX);
    let checked = match repository.check_all(&Unhurried) {
        Ok(checked) => checked,
        Err(refused) if refused.kind() == ErrorKind::Corruption => {
            say(&format!("the repository cannot be read: {}\n", refused.reason()));
            return Ok(ExitCode::from(1));
        }
        Err(refused) => return Err(refused),
    };
    for damage in &checked.damages {
        say(&format!("{damage}\n"));
    }
    let (snapshots, files, bytes) = (checked.snapshots, checked.files, checked.bytes);
    say(&format!(
        "{snapshots} snapshots, {files} sound files with {bytes} bytes, {} damages\n",
        checked.damages.len()
    ));
    Ok(ExitCode::from(u8::from(!checked.damages.is_empty())))
}

/// The control index, repaired if asked for. False: it is damaged.
async fn check_control(engine: &EmbeddedEngine, relations: &Relations, repair: bool) -> Result<bool> {
    let read = if repair {
        relations.remove_unsound().await
    } else {
        relations.control_contents().await
    };
    match read {
        Ok(None) => say(&format!("[{CONTROL_INDEX}]: none; nobody took a lock or used a key yet\n")),
        Ok(Some(contents)) => {
            say(&in_words(&contents, repair));
            return Ok(repair || contents.unsound.is_empty());
        }
        Err(cause) if repair => {
            engine.remake_control().await?;
            say(&format!(
                "[{CONTROL_INDEX}] could not be read ({}) and was made anew. It cost every lock, every idempotency key and every \
                 task: locks are free, a request repeated with its key runs again, and transactions of the portable path that \
                 were not finished are undone. Fencing tokens and commit_seq go on rising\n",
                cause.reason()
            ));
        }
        Err(cause) => {
            say(&format!(
                "[{CONTROL_INDEX}] cannot be read: {}\n--repair-control makes it anew: every lock is free, every idempotency key \
                 and every task is forgotten; fencing tokens and commit_seq go on rising\n",
                cause.reason()
            ));
            return Ok(false);
        }
    }
    Ok(true)
}

fn in_words(contents: &ControlContents, repaired: bool) -> String {
    let ControlContents {
        locks,
        keys,
        tasks,
        unsound,
    } = contents;
    let mut out = format!(
        "[{CONTROL_INDEX}]: {locks} locks, {keys} idempotency keys, {tasks} tasks, {} damaged documents\n",
        unsound.len()
    );
    for (id, reason) in unsound {
        let what = if repaired { "was taken out" } else { "is damaged" };
        out.push_str(&format!("document [{id}] {what}: {reason}\n"));
    }
    match (unsound.is_empty(), repaired) {
        (true, _) => {}
        (false, true) => out.push_str(
            "What these documents were is lost: a lock among them is free, a task among them is forgotten. Everything else \
             stays; fencing tokens and commit_seq go on rising\n",
        ),
        (false, false) => out.push_str("--repair-control takes them out: a lock among them is free then, a task is forgotten\n"),
    }
    out
}
