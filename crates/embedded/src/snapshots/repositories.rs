//! The repositories that are registered: where they are, what they allow, and the changes that concern no index.
//!
//! Not here: taking snapshots (`take`), the catalog's part (`catalog::repositories`).

use crate::catalog::repositories;
use crate::store::Store;
use engine::snapshots::{CloneOrder, Repository, missing_snapshot};
use model::settings::{REPOSITORIES_MAX_DESCRIPTION, node};
use model::{Error, ErrorKind, Result, nearest, units};
use serde_json::Value;
use snapshot::{Contents, REPOSITORY_SETTINGS, Removed, Root, State, Summary, Writer};
use std::sync::Arc;
use std::time::Duration;

/// How long a deletion waits for a snapshot that it gives up.
const GIVEN_UP_IN: Duration = Duration::from_secs(30);
/// The reference writes so much a second unless told otherwise.
const SNAPSHOT_RATE: &str = "40mb";

/// Settings that every repository takes.
const SETTINGS: &[&str] = &[
    "readonly",
    "max_snapshot_bytes_per_sec",
    "max_restore_bytes_per_sec",
    // Accepted: segments are compressed already, and each is one file.
    "compress",
    "chunk_size",
];

/// Settings that only a repository in a folder takes.
const FOLDER_SETTINGS: &[&str] = &["location", "base_path"];

/// The kind of place that a repository is in.
#[derive(Clone, Copy)]
enum RepositoryKind {
    /// `fs`
    Folder,
    /// `s3`
    Bucket,
}

impl RepositoryKind {
    /// By the `type` of a definition; else why there is none.
    fn parse(kind: &str) -> Result<RepositoryKind, String> {
        match kind {
            "fs" => Ok(RepositoryKind::Folder),
            "s3" => Ok(RepositoryKind::Bucket),
            "url" | "azure" | "gcs" | "hdfs" | "source" => {
                Err(format!("repository type [{kind}] is not supported: [fs] and [s3] are"))
            }
            other => Err(format!("repository type [{other}] does not exist")),
        }
    }

    /// Its own settings, beside [`SETTINGS`].
    fn settings(self) -> &'static [&'static str] {
        match self {
            RepositoryKind::Folder => FOLDER_SETTINGS,
            RepositoryKind::Bucket => REPOSITORY_SETTINGS,
        }
    }
}

/// A repository by its definition.
pub(crate) struct OpenRepository {
    pub(crate) name: String,
    pub(crate) files: snapshot::Repository,
    pub(crate) is_readonly: bool,
    /// Bytes a second; `None`: as fast as it goes.
    pub(crate) snapshot_rate: Option<u64>,
    pub(crate) restore_rate: Option<u64>,
}

impl OpenRepository {
    /// # Errors
    /// Repository: it is read-only.
    pub(crate) fn check_writable(&self, doing: &str) -> Result<()> {
        if !self.is_readonly {
            return Ok(());
        }
        let reason = format!("[{}] cannot {doing} a readonly repository", self.name);
        Err(Error::new(ErrorKind::Repository, reason).status_of(400))
    }
}

impl Store {
    /// The repository of a definition.
    ///
    /// # Errors
    /// Repository: a type, a location or a setting that is not allowed.
    fn open_definition(&self, definition: &Repository) -> Result<OpenRepository> {
        let name = &definition.name;
        let refuse = |why: String| Error::new(ErrorKind::Repository, format!("[{name}] {why}")).status_of(400);
        let kind = RepositoryKind::parse(&definition.kind).map_err(refuse)?;
        let known = || SETTINGS.iter().chain(kind.settings()).copied();
        if let Some(unknown) = definition
            .settings
            .keys()
            .find(|key| known().all(|known| known != key.as_str()))
        {
            let hint = nearest::hint(unknown, known());
            return Err(refuse(format!("unknown setting [{unknown}]{hint}")));
        }
        let text = |key: &str| definition.settings.get(key).and_then(Value::as_str);
        for key in ["compress", "readonly"] {
            check_flag(key, text(key))?;
        }
        if let Some(size) = text("chunk_size").filter(|size| *size != "null") {
            units::parse_bytes(size, "chunk_size")?;
        }
        Ok(OpenRepository {
            name: name.clone(),
            files: match kind {
                RepositoryKind::Bucket => {
                    let clients = &self.env.limits().s3_clients;
                    clients.repository(name, text, node(REPOSITORIES_MAX_DESCRIPTION))?
                }
                RepositoryKind::Folder => self.folder_of(name, text)?,
            },
            is_readonly: text("readonly") == Some("true"),
            snapshot_rate: rate(
                "max_snapshot_bytes_per_sec",
                text("max_snapshot_bytes_per_sec").unwrap_or(SNAPSHOT_RATE),
            )?,
            restore_rate: rate("max_restore_bytes_per_sec", text("max_restore_bytes_per_sec").unwrap_or("0"))?,
        })
    }

    /// The repository in a folder below `path.repo`.
    fn folder_of<'a>(&self, name: &str, text: impl Fn(&str) -> Option<&'a str>) -> Result<snapshot::Repository> {
        let missing = || Error::new(ErrorKind::Repository, format!("[{name}] missing location")).status_of(400);
        let location = text("location").ok_or_else(missing)?;
        let mut dir = snapshot::resolve(name, location, &self.env.limits().repository_paths)?;
        if let Some(base) = text("base_path").filter(|base| !base.is_empty()) {
            let whole = dir.join(base.trim_start_matches('/'));
            dir = snapshot::resolve(name, &whole.to_string_lossy(), std::slice::from_ref(&dir))?;
        }
        let disk = self.env.disk().clone();
        Ok(snapshot::Repository::new(disk, dir, node(REPOSITORIES_MAX_DESCRIPTION)))
    }

    /// A registered repository.
    ///
    /// # Errors
    /// RepositoryMissing; Repository: it is not where it may be any more.
    pub(crate) fn open_repository(&self, name: &str) -> Result<OpenRepository> {
        self.open_definition(&repositories::find(&self.catalog.now(), name)?)
    }

    /// The root of a repository as it is now; an empty one if nothing was written.
    ///
    /// # Errors
    /// Corruption, a failing disk.
    pub(crate) fn root_of(&self, repository: &OpenRepository) -> Result<Root> {
        let root = repository.files.root().map_err(|e| in_repository(&repository.name, e))?;
        Ok(root.unwrap_or_default())
    }

    /// Begins to change a repository. The caller holds the lock of its folder.
    ///
    /// # Errors
    /// RepositoryChanged, ConcurrentSnapshot, Repository.
    pub(crate) fn writer(&self, repository: &OpenRepository, doing: &str) -> Result<Writer> {
        repository.check_writable(doing)?;
        let seen = self.snapshots.last_seen(&repository.name);
        let writer = repository
            .files
            .writer(seen.as_ref().map(|(id, generation)| (id.as_str(), *generation)));
        let writer = writer.map_err(|e| in_repository(&repository.name, e))?;
        self.snapshots.see(&repository.name, writer.root());
        Ok(writer)
    }

    /// Registers a repository; gives the position to wait for.
    ///
    /// # Errors
    /// As `engine::snapshots::Snapshots::put_repository`.
    pub(crate) fn put_repository(&self, definition: &Repository, verify: bool) -> Result<u64> {
        let opened = self.open_definition(definition)?;
        self.check_unused(&definition.name)?;
        if verify && !opened.is_readonly {
            self.try_out(&opened)?;
        }
        let end = {
            let _altering = self.catalog.alter_alone();
            let catalog = self.catalog.now();
            let next = repositories::put(&catalog, definition)?;
            self.log_alteration(&catalog, next, Vec::new())?.1
        };
        // The store goes on with the repository as it is now.
        self.snapshots.forget(&definition.name);
        Ok(end)
    }

    /// Forgets repositories; gives the position to wait for.
    ///
    /// # Errors
    /// As `engine::snapshots::Snapshots::delete_repositories`.
    pub(crate) fn delete_repositories(&self, names: &[String]) -> Result<u64> {
        names.iter().try_for_each(|name| self.check_unused(name))?;
        let _altering = self.catalog.alter_alone();
        let catalog = self.catalog.now();
        let next = repositories::delete(&catalog, names)?;
        let (_, end) = self.log_alteration(&catalog, next, Vec::new())?;
        names.iter().for_each(|name| self.snapshots.forget(name));
        Ok(end)
    }

    fn check_unused(&self, name: &str) -> Result<()> {
        if self.snapshots.running_in(name).is_empty() {
            return Ok(());
        }
        let reason = format!("trying to modify or unregister repository [{name}] that is currently used");
        Err(Error::new(ErrorKind::IllegalState, reason).status_of(409))
    }

    /// Writes and removes a file.
    ///
    /// # Errors
    /// RepositoryVerification.
    fn try_out(&self, repository: &OpenRepository) -> Result<()> {
        let lock = self.snapshots.writer_of(repository.files.place());
        let _alone = lock.lock();
        // A repository that another store has changed can be written to all the same.
        let tried = repository.files.writer(None).and_then(|writer| writer.try_out());
        tried.map_err(|cause| match cause.kind() {
            ErrorKind::Internal | ErrorKind::DiskFull | ErrorKind::Repository => {
                let reason = format!("[{}] path is not accessible: {}", repository.name, cause.reason());
                Error::new(ErrorKind::RepositoryVerification, reason).with_cause(cause)
            }
            _ => in_repository(&repository.name, cause),
        })
    }

    /// # Errors
    /// As `engine::snapshots::Snapshots::verify_repository`.
    pub(crate) fn verify_repository(&self, name: &str) -> Result<()> {
        let opened = self.open_repository(name)?;
        match opened.is_readonly {
            true => self.root_of(&opened).map(drop),
            false => self.try_out(&opened),
        }
    }

    /// # Errors
    /// As `engine::snapshots::Snapshots::clean_repository`.
    pub(crate) fn clean_repository(&self, name: &str) -> Result<Removed> {
        let opened = self.open_repository(name)?;
        let lock = self.snapshots.writer_of(opened.files.place());
        let _alone = lock.lock();
        let cleaned = self.writer(&opened, "cleanup")?.clean_up();
        let (root, removed) = cleaned.map_err(|e| in_repository(name, e))?;
        self.snapshots.see(name, &root);
        Ok(removed)
    }

    /// # Errors
    /// As `engine::snapshots::Snapshots::list`.
    pub(crate) fn list_snapshots(&self, name: &str) -> Result<Vec<Arc<Summary>>> {
        let opened = self.open_repository(name)?;
        // Before the root: one that ends in between is in both, and not in none.
        let running = self.snapshots.running_in(name);
        let mut all = self.root_of(&opened)?.snapshots;
        for one in running {
            if !all.iter().any(|known| known.uuid == one.uuid) {
                all.push(Arc::new(one.summary()));
            }
        }
        all.sort_by(|one, other| (one.start_ms, &one.name).cmp(&(other.start_ms, &other.name)));
        Ok(all)
    }

    /// # Errors
    /// As `engine::snapshots::Snapshots::contents`.
    pub(crate) fn snapshot_contents(&self, repository: &str, name: &str) -> Result<(Arc<Summary>, Contents)> {
        let opened = self.open_repository(repository)?;
        let root = self.root_of(&opened)?;
        let summary = root.snapshot(name).ok_or_else(|| missing_snapshot(repository, name))?;
        Ok((summary.clone(), opened.files.contents(summary)?))
    }

    /// # Errors
    /// As `engine::snapshots::Snapshots::delete`.
    pub(crate) fn delete_snapshots(&self, repository: &str, names: &[String]) -> Result<()> {
        let opened = self.open_repository(repository)?;
        opened.check_writable("delete snapshot from")?;
        let running = || {
            let mut running = self.snapshots.running_in(repository);
            running.retain(|one| names.contains(&one.order.name));
            running
        };
        for one in running() {
            one.given_up.store(true, std::sync::atomic::Ordering::Release);
        }
        let begun = self.env.monotonic();
        while !running().is_empty() && self.env.monotonic().saturating_sub(begun) < GIVEN_UP_IN {
            std::thread::sleep(Duration::from_millis(10));
        }
        let lock = self.snapshots.writer_of(opened.files.place());
        let _alone = lock.lock();
        let removed = self.writer(&opened, "delete snapshot from")?.remove(names);
        let (root, _) = removed.map_err(|e| in_repository(repository, e))?;
        self.snapshots.see(repository, &root);
        Ok(())
    }

    /// # Errors
    /// As `engine::snapshots::Snapshots::clone_snapshot`.
    pub(crate) fn clone_snapshot(&self, order: &CloneOrder) -> Result<()> {
        let opened = self.open_repository(&order.repository)?;
        let lock = self.snapshots.writer_of(opened.files.place());
        let _alone = lock.lock();
        let writer = self.writer(&opened, "clone a snapshot in")?;
        writer.root().check_free(&order.repository, &order.target)?;
        let source = writer.root().snapshot(&order.source).cloned();
        let source = source.ok_or_else(|| missing_snapshot(&order.repository, &order.source))?;
        let now = self.env.wall_ms();
        let summary = Summary {
            name: order.target.clone(),
            uuid: engine::clock::uuid(self.env.clock()),
            state: State::Success,
            start_ms: now,
            end_ms: now,
            indices: order.indices.clone(),
            is_clone: true,
            ..(*source).clone()
        };
        let made = writer.clone_of(summary, &source, &order.indices);
        let (root, _) = made.map_err(|e| in_repository(&order.repository, e))?;
        self.snapshots.see(&order.repository, &root);
        Ok(())
    }
}

/// A failure with the name of its repository in front.
pub(crate) fn in_repository(name: &str, error: Error) -> Error {
    match error.kind() {
        ErrorKind::RepositoryChanged | ErrorKind::ConcurrentSnapshot | ErrorKind::Repository => {
            Error::new(error.kind(), format!("[{name}] {}", error.reason()))
        }
        _ => error,
    }
}

fn check_flag(name: &str, text: Option<&str>) -> Result<()> {
    match text {
        None | Some("true" | "false") => Ok(()),
        Some(other) => Err(Error::illegal(format!(
            "Failed to parse value [{other}] for setting [{name}] as only [true] or [false] are allowed."
        ))),
    }
}

fn rate(name: &str, text: &str) -> Result<Option<u64>> {
    match text {
        "0" | "-1" => Ok(None),
        text => units::parse_bytes(text, name).map(|bytes| Some(bytes).filter(|bytes| *bytes > 0)),
    }
}
