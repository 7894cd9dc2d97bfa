//! Who a data folder is, the same after every start: the ids of its cluster and node, and the path by which it makes changes.
//!
//! It is kept twice: in the engine's manifest, which is synced and has checksums, and as `identity.json`, which people and
//! scripts read. The manifest counts. A file that is missing, empty or damaged is written again and told of; in a folder of
//! before, whose manifest does not have it yet, the start is refused, for the two paths number commits differently and a
//! folder must not change from one to the other without being told.
//!
//! Not here: what the paths are (`relations`).

use disk::{Disk, RealDisk};
use embedded::EmbeddedEngine;
use engine::Clock;
use engine::clock::uuid;
use model::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::io;
use std::path::Path;

/// The file.
const NAME: &str = "identity.json";

/// Who a data folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) cluster_uuid: String,
    pub(crate) node_id: String,
    /// `auto` or `portable`: a folder stays with the one that it was made with.
    pub(crate) changes_path: String,
}

/// The state of the file.
enum IdentityFile {
    Whole(Identity),
    /// Nothing of this name.
    Missing,
    /// Why it cannot be read.
    Damaged(String),
}

impl IdentityFile {
    fn read(bytes: &[u8]) -> IdentityFile {
        let value: Value = match serde_json::from_slice(bytes) {
            Ok(value) => value,
            Err(_) if bytes.is_empty() => return IdentityFile::Damaged("it is empty".to_owned()),
            Err(cause) => return IdentityFile::Damaged(format!("it is no JSON: {cause}")),
        };
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let (Some(cluster_uuid), Some(node_id)) = (text("cluster_uuid"), text("node_id")) else {
            return IdentityFile::Damaged("[cluster_uuid] or [node_id] is missing".to_owned());
        };
        IdentityFile::Whole(Identity {
            cluster_uuid,
            node_id,
            changes_path: text("changes_path").unwrap_or_else(|| "auto".to_owned()),
        })
    }
}

/// Reads the identity of the folder that `engine` has open, or gives it one. `tell` is for people.
///
/// # Errors
/// A folder that was made for the other path of changes; one whose identity is lost; a disk that fails.
pub(crate) fn identity(
    data: &Path,
    engine: &EmbeddedEngine,
    clock: &dyn Clock,
    changes_path: &str,
    tell: impl Fn(&str),
) -> Result<Identity> {
    let path = data.join(NAME);
    let file = match std::fs::read(&path) {
        Ok(bytes) => IdentityFile::read(&bytes),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => IdentityFile::Missing,
        Err(cause) => return Err(disk::refusal("reading", &path, &cause)),
    };
    let kept = engine.property(NAME).map(|bytes| IdentityFile::read(&bytes));
    let (identity, file_is_whole) = match (kept, file) {
        (Some(IdentityFile::Whole(kept)), IdentityFile::Whole(file)) => (kept.clone(), kept == file),
        (Some(IdentityFile::Whole(kept)), file) => {
            tell(&format!(
                "[{NAME}] {}; it is written again as the manifest has it",
                describe_loss(&file)
            ));
            (kept, false)
        }
        (Some(_), IdentityFile::Whole(file)) => {
            tell(&format!(
                "the manifest's copy of [{NAME}] is not sound; it is written again as the file has it"
            ));
            (file, true)
        }
        (Some(_), file) => {
            let reason = format!(
                "the manifest's copy of the folder's identity is not sound, and [{NAME}] {}",
                describe_loss(&file)
            );
            return Err(Error::new(ErrorKind::Corruption, reason));
        }
        (None, IdentityFile::Whole(file)) => (file, true),
        (None, IdentityFile::Missing | IdentityFile::Damaged(_)) if engine.is_blank() => (
            Identity {
                cluster_uuid: uuid(clock),
                node_id: uuid(clock),
                changes_path: changes_path.to_owned(),
            },
            false,
        ),
        (None, file) => return Err(unknown(data, &file)),
    };
    if identity.changes_path != changes_path {
        return Err(Error::illegal(format!(
            "[changes.path] is [{changes_path}], but the data folder [{}] was made with [{}]; the two number commits differently",
            data.display(),
            identity.changes_path
        )));
    }
    let body = json!({
        "cluster_uuid": identity.cluster_uuid, "node_id": identity.node_id, "changes_path": identity.changes_path,
    });
    let bytes = format!("{body}\n").into_bytes();
    if !file_is_whole {
        write(&RealDisk, data, &bytes).map_err(|cause| disk::refusal("writing", &path, &cause))?;
    }
    if engine.property(NAME).as_ref() != Some(&bytes) {
        engine.set_property(NAME, bytes)?;
    }
    Ok(identity)
}

/// The damage of the file, for `pleach check`; a start writes it again as the manifest has it.
pub(crate) fn damage(data: &Path, engine: &EmbeddedEngine) -> Option<String> {
    let file = match std::fs::read(data.join(NAME)) {
        Ok(bytes) => IdentityFile::read(&bytes),
        Err(_) => IdentityFile::Missing,
    };
    let kept = engine.property(NAME).map(|bytes| IdentityFile::read(&bytes));
    let way_out = match (&kept, &file) {
        (Some(IdentityFile::Whole(kept)), IdentityFile::Whole(file)) if kept == file => return None,
        (None, IdentityFile::Whole(_)) => return None,
        (Some(IdentityFile::Whole(_)), _) => "the next start writes it again as the manifest has it",
        (_, IdentityFile::Whole(_)) => "the manifest's copy of it is not sound; the next start writes that again",
        _ => "put it back from a backup: the manifest does not have it either",
    };
    Some(format!("[{NAME}] {}; {way_out}", describe_loss(&file)))
}

fn describe_loss(file: &IdentityFile) -> String {
    match file {
        IdentityFile::Whole(_) => "differs from the manifest's copy".to_owned(),
        IdentityFile::Missing => "is missing".to_owned(),
        IdentityFile::Damaged(why) => format!("cannot be read ({why})"),
    }
}

/// The refusal names the way out.
fn unknown(data: &Path, file: &IdentityFile) -> Error {
    let reason = format!(
        "[{NAME}] in the data folder [{}] {}, and the folder has data: it says by which path changes are made, and the two \
         number commits differently. Put the file back from a backup; or, if the folder was always started without \
         [changes.path], write {{\"cluster_uuid\":\"a\",\"node_id\":\"b\",\"changes_path\":\"auto\"}} into it, with \
         [\"portable\"] if it was started with [changes.path: portable]",
        data.display(),
        describe_loss(file)
    );
    Error::new(ErrorKind::IllegalState, reason)
}

/// Whole and durable, or as before: a temporary file, synced, renamed, and the folder synced.
fn write(disk: &dyn Disk, dir: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = dir.join("identity.json.partial");
    let file = disk.create(&temporary)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()?;
    disk.rename(&temporary, &dir.join(NAME))?;
    disk.sync_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::FaultyDisk;
    use embedded::Limits;
    use engine::clock::SystemClock;
    use engine::{Alteration, Engine as _};
    use std::sync::Arc;

    fn open(dir: &Path) -> EmbeddedEngine {
        // Small files: the folder is opened many times.
        let limits = Limits {
            log_file_bytes: 1 << 20,
            queue_bytes: 512 << 10,
            ..Limits::default()
        };
        EmbeddedEngine::open(dir, Arc::new(SystemClock::default()), limits).unwrap()
    }

    fn read(dir: &Path, changes_path: &str) -> Result<Identity> {
        identity(dir, &open(dir), &SystemClock::default(), changes_path, |_| {})
    }

    fn with_an_index(dir: &Path) {
        let wish = Alteration::CreateIndex {
            name: "a".to_owned(),
            settings: serde_json::Map::new(),
            mappings: None,
            aliases: serde_json::Map::new(),
            typed: false,
            if_absent: false,
        };
        futures::executor::block_on(open(dir).alter(wish)).unwrap();
    }

    #[test]
    fn a_folder_keeps_its_identity() {
        let dir = tempfile::tempdir().unwrap();
        let first = read(dir.path(), "portable").unwrap();
        with_an_index(dir.path());
        assert_eq!(read(dir.path(), "portable").unwrap(), first);
        let other = read(dir.path(), "auto").unwrap_err();
        assert!(other.reason().contains("was made with [portable]"), "{other}");
        // The manifest has it, whatever becomes of the file.
        let path = dir.path().join(NAME);
        let whole = std::fs::read(&path).unwrap();
        for damaged in [&b""[..], b"{", b"{}", &[0; 80]] {
            std::fs::write(&path, damaged).unwrap();
            assert!(read(dir.path(), "auto").is_err(), "no folder becomes another silently");
            assert_eq!(read(dir.path(), "portable").unwrap(), first);
            assert_eq!(std::fs::read(&path).unwrap(), whole);
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(dir.path(), "portable").unwrap(), first);
    }

    #[test]
    fn a_folder_of_before_without_its_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        with_an_index(dir.path());
        let refused = read(dir.path(), "auto").unwrap_err();
        assert!(
            refused.reason().contains("is missing") && refused.reason().contains("backup"),
            "{refused}"
        );
        std::fs::write(
            dir.path().join(NAME),
            r#"{"cluster_uuid":"c","node_id":"n","changes_path":"portable"}"#,
        )
        .unwrap();
        assert_eq!(read(dir.path(), "portable").unwrap().cluster_uuid, "c");
        std::fs::write(dir.path().join(NAME), "").unwrap();
        assert_eq!(read(dir.path(), "portable").unwrap().cluster_uuid, "c");
    }

    /// Power fails at every step of the writing: the file is as before or whole, never empty.
    #[test]
    fn the_file_is_written_whole() {
        let dir = Path::new("/data");
        for steps in 0..8 {
            for seed in 0..8 {
                let disk = FaultyDisk::new(seed);
                write(&disk, dir, b"before").unwrap();
                disk.stop_after(steps);
                let done = write(&disk, dir, b"after");
                disk.crash();
                let found = disk.content(&dir.join(NAME)).unwrap();
                assert!(
                    found == b"after" || done.is_err() && found == b"before",
                    "{steps} steps: {found:?}"
                );
            }
        }
    }
}
