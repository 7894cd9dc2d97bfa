//! A repository by itself: what is stored once, what goes, what a killed writer leaves, who may write.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use disk::RealDisk;
use model::{Error, ErrorKind, Result};
use snapshot::{Blob, Contents, IndexPart, Pace, Repository, SegmentPart, State, Summary, Writer};
use std::path::Path;
use std::sync::Arc;

/// Counts bytes, and ends the work after so many.
struct Counted(std::sync::atomic::AtomicU64, u64);

impl Pace for Counted {
    fn on_bytes(&self, bytes: u64) -> Result<()> {
        let all = self.0.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed) + bytes;
        match all > self.1 {
            true => Err(Error::new(ErrorKind::TaskCancelled, "enough")),
            false => Ok(()),
        }
    }
}

fn freely() -> Counted {
    Counted(0.into(), u64::MAX)
}

fn repository(dir: &Path) -> Repository {
    Repository::new(Arc::new(RealDisk), dir.join("r"), 1 << 20)
}

fn put(writer: &mut Writer, text: &str) -> (Blob, bool) {
    writer.put(&[("s/store".to_owned(), text.as_bytes())], &freely()).unwrap()
}

fn contents(blobs: &[(&str, Blob)]) -> Contents {
    let segments = blobs.iter().map(|(uuid, blob)| SegmentPart {
        uuid: (*uuid).to_owned(),
        max_doc: 1,
        blob: *blob,
        has_deletions: false,
    });
    let index = IndexPart {
        name: "a".to_owned(),
        entry: serde_json::json!({ "name": "a" }),
        next_seq_no: 1,
        term: 1,
        shards: 1,
        segments: segments.collect(),
        beside: None,
        has_tree: false,
        new_files: 1,
        new_bytes: 1,
    };
    Contents {
        indices: vec![index],
        global: None,
    }
}

fn summary(name: &str) -> Summary {
    Summary {
        name: name.to_owned(),
        uuid: format!("uuid-{name}"),
        state: State::Success,
        start_ms: 1,
        end_ms: 2,
        indices: vec!["a".to_owned()],
        include_global_state: false,
        metadata: Some(serde_json::json!({ "by": "test" })),
        failures: Vec::new(),
        shards: 1,
        failed_shards: 0,
        commit_seq: 7,
        is_clone: false,
        version: "0".to_owned(),
        contents: None,
    }
}

/// The number of stored files, and that every one of them is sound.
fn stored(repository: &Repository) -> u64 {
    let checked = repository.check_all(&freely()).unwrap();
    assert!(checked.damages.is_empty(), "{checked:?}");
    checked.files
}

#[test]
fn files_are_stored_once_and_go_with_their_last_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let repository = repository(dir.path());
    assert!(repository.root().unwrap().is_none());
    let mut writer = repository.writer(None).unwrap();
    writer.begin_snapshot().unwrap();
    let (one, is_new) = put(&mut writer, "one");
    assert!(is_new && !put(&mut writer, "one").1, "the same content is the same file");
    let (root, written) = writer.commit(summary("s1"), &contents(&[("u1", one)])).unwrap();
    assert_eq!(repository.root().unwrap().unwrap(), root);
    assert_eq!(repository.contents(&written).unwrap(), contents(&[("u1", one)]));

    // The segment is known by its id, without a look at its bytes.
    let known = (root.id.clone(), root.generation);
    let mut writer = repository.writer(Some((&known.0, known.1))).unwrap();
    writer.begin_snapshot().unwrap();
    assert_eq!((writer.find_blob("u1"), writer.find_blob("u2")), (Some(one), None));
    let (two, _) = put(&mut writer, "two");
    writer.commit(summary("s2"), &contents(&[("u1", one), ("u2", two)])).unwrap();
    let writer = repository.writer(None).unwrap();
    let source = writer.root().snapshot("s2").cloned().unwrap();
    writer.clone_of(summary("s3"), &source, &["a".to_owned()]).unwrap();
    assert_eq!(stored(&repository), 2);

    let remove = |name: &str| repository.writer(None).unwrap().remove(&[name.to_owned()]).unwrap().1.files;
    assert_eq!(remove("none"), 0);
    assert_eq!(remove("s1"), 1, "the description of the snapshot");
    assert_eq!(remove("s2"), 1, "the clone has its files");
    assert_eq!(stored(&repository), 2);
    assert_eq!(remove("s3"), 3, "two files and a description");
    assert_eq!(stored(&repository), 0);
}

#[test]
fn a_killed_writer_leaves_nothing_that_counts() {
    let dir = tempfile::tempdir().unwrap();
    let repository = repository(dir.path());
    let mut writer = repository.writer(None).unwrap();
    writer.begin_snapshot().unwrap();
    let (one, _) = put(&mut writer, "one");
    writer.commit(summary("s1"), &contents(&[("u1", one)])).unwrap();
    // It stored a file, was writing the next, and ended.
    let mut writer = repository.writer(None).unwrap();
    writer.begin_snapshot().unwrap();
    let (lost, _) = put(&mut writer, "lost");
    let stopped = writer.put(&[("s/store".to_owned(), &[0; 100])], &Counted(0.into(), 10));
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::TaskCancelled);
    drop(writer);
    std::fs::write(dir.path().join("r/temporary/half"), b"half").unwrap();
    assert_eq!(repository.root().unwrap().unwrap().snapshots.len(), 1);
    let mut writer = repository.writer(None).unwrap();
    assert!(!dir.path().join("r/temporary/half").exists());
    assert!(repository.check(&lost, &freely()).is_ok(), "it lies about");
    writer.begin_snapshot().unwrap();
    let gone = repository.check(&lost, &freely()).unwrap_err();
    assert!(gone.reason().contains("is missing"), "{gone}");
    assert!(repository.check(&one, &freely()).is_ok());
}

#[test]
fn one_writes_at_a_time_and_knows_what_he_changes() {
    let dir = tempfile::tempdir().unwrap();
    let repository = repository(dir.path());
    let mut writer = repository.writer(Some(("", 0))).unwrap();
    let other = repository.writer(None).err().unwrap();
    assert_eq!(other.kind(), ErrorKind::ConcurrentSnapshot, "{other}");
    writer.begin_snapshot().unwrap();
    let (one, _) = put(&mut writer, "one");
    let (root, _) = writer.commit(summary("s1"), &contents(&[("u1", one)])).unwrap();
    for known in [("", 0), (root.id.as_str(), root.generation - 1), ("another", root.generation)] {
        let refused = repository.writer(Some(known)).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::RepositoryChanged, "{known:?}: {refused}");
    }
    let writer = repository.writer(Some((&root.id, root.generation))).unwrap();
    assert_eq!(
        writer.root().check_free("r", "s1").unwrap_err().kind(),
        ErrorKind::InvalidSnapshotName
    );
    writer.root().check_free("r", "s2").unwrap();
}

/// Writes a root with a right checksum, and finds this error.
fn check_root(text: &str, kind: ErrorKind) {
    let dir = tempfile::tempdir().unwrap();
    let repository = repository(dir.path());
    drop(repository.writer(None).unwrap());
    let file = format!("{text}\nblake3 {}\n", snapshot::Hash::of(text.as_bytes()));
    std::fs::write(dir.path().join("r/index"), file).unwrap();
    let refused = repository.root().unwrap_err();
    assert_eq!(refused.kind(), kind, "{text}: {refused}");
    assert!(repository.writer(None).is_err(), "{text}: it is not written over");
}

#[test]
fn roots_that_no_server_wrote_are_refused() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (text, kind) in [
        ("{}", ErrorKind::Corruption),
        ("nonsense", ErrorKind::Corruption),
        (deep.as_str(), ErrorKind::Corruption),
        (
            r#"{"pleach_repository":2,"id":"x","generation":1,"snapshots":[]}"#,
            ErrorKind::IllegalState,
        ),
        (
            r#"{"pleach_repository":1,"id":"x","generation":-1,"snapshots":[]}"#,
            ErrorKind::Corruption,
        ),
        (
            r#"{"pleach_repository":1,"id":"x","generation":1,"snapshots":[{"name":"s","uuid":"../../x"}]}"#,
            ErrorKind::Corruption,
        ),
    ] {
        check_root(text, kind);
    }
}

#[test]
fn descriptions_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let small = Repository::new(Arc::new(RealDisk), dir.path().join("r"), 600);
    let mut writer = small.writer(None).unwrap();
    writer.begin_snapshot().unwrap();
    let (one, _) = put(&mut writer, "one");
    let many: Vec<(&str, Blob)> = vec![("u", one); 10];
    let refused = writer.commit(summary("s1"), &contents(&many)).err().unwrap();
    assert!(refused.reason().contains("repositories.max_description_bytes"), "{refused}");
    assert!(small.root().unwrap().is_none());
}
