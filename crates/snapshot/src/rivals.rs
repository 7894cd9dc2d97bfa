//! Writers of one place without a lock, simulated: three of them act in random order, one of them also before another lists files,
//! and what one asks to be removed goes at any later time. After each step every file that the root leads to is there (docs/internals/snapshots.md S5).

use crate::blob::{Blob, Hash};
use crate::contents::{Contents, IndexPart, SegmentPart};
use crate::hashed_writer::HashedWriter;
use crate::repository::Repository;
use crate::root::{State, Summary};
use crate::storage::{Content, Listed, Pace, Storage, StorageWriter, StoredFile, Version};
use crate::writer::Writer;
use model::random::random;
use model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Files by their names, each with the number of its writing.
#[derive(Clone, Default)]
struct TestBucket {
    objects: Arc<Mutex<TestObjects>>,
    before_list: Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>,
}

#[derive(Default)]
struct TestObjects {
    files: BTreeMap<String, (u64, Vec<u8>)>,
    written: u64,
    /// Asked for and not done yet.
    removals: Vec<String>,
}

impl TestObjects {
    fn put(&mut self, file: &str, bytes: &[u8]) {
        self.written += 1;
        self.files.insert(file.to_owned(), (self.written, bytes.to_vec()));
    }
}

struct Opened(u64, Vec<u8>);

impl StoredFile for Opened {
    fn bytes(&self) -> Result<u64> {
        Ok(self.1.len() as u64)
    }
    fn read_at(&mut self, into: &mut [u8], offset: u64) -> Result<usize> {
        let rest = self.1.get(offset as usize..).unwrap_or_default();
        let taken = rest.len().min(into.len());
        into[..taken].copy_from_slice(&rest[..taken]);
        Ok(taken)
    }
    fn version(&self) -> Option<Version> {
        Some(Version(self.0.to_string()))
    }
}

impl Storage for TestBucket {
    fn place(&self) -> &str {
        "memory"
    }
    fn display(&self, file: &str) -> String {
        file.to_owned()
    }
    fn has_generations(&self) -> bool {
        true
    }
    fn open(&self, file: &str) -> Result<Option<Box<dyn StoredFile + '_>>> {
        let objects = self.objects.lock();
        let found = objects.files.get(file).cloned();
        Ok(found.map(|(number, bytes)| Box::new(Opened(number, bytes)) as Box<dyn StoredFile>))
    }
    fn length(&self, file: &str) -> Result<Option<u64>> {
        Ok(self.objects.lock().files.get(file).map(|(_, bytes)| bytes.len() as u64))
    }
    fn begin(&self) -> Result<Box<dyn StorageWriter>> {
        Ok(Box::new(self.clone()))
    }
}

impl StorageWriter for TestBucket {
    fn store(
        &mut self,
        content: &Content<'_>,
        known: &HashMap<Hash, Blob>,
        generation: u64,
        pace: &dyn Pace,
    ) -> Result<(Blob, bool)> {
        let mut stored = Vec::new();
        let mut hashed = HashedWriter::new(&mut stored, pace);
        content(&mut hashed).unwrap();
        let (hash, bytes) = hashed.totals();
        if let Some(blob) = known.get(&hash)
            && self.length(&blob.file())? == Some(bytes)
        {
            return Ok((*blob, false));
        }
        let blob = Blob { hash, bytes, generation };
        self.objects.lock().put(&blob.file(), &stored);
        Ok((blob, true))
    }
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
    fn is_settled(&self) -> bool {
        true
    }
    fn write(&mut self, file: &str, bytes: &[u8]) -> Result<()> {
        self.objects.lock().put(file, bytes);
        Ok(())
    }
    fn write_root(&mut self, file: &str, bytes: &[u8], read: Option<&Version>) -> Result<()> {
        let mut objects = self.objects.lock();
        let now = objects.files.get(file).map(|(number, _)| Version(number.to_string()));
        if now.as_ref() != read {
            return Err(Error::new(ErrorKind::RepositoryChanged, "changed"));
        }
        objects.put(file, bytes);
        Ok(())
    }
    fn list(&mut self, folder: &str, each: &mut Listed<'_>) -> Result<()> {
        let other = self.before_list.lock().take();
        if let Some(other) = other {
            other();
        }
        let objects = self.objects.lock();
        for (name, (_, bytes)) in &objects.files {
            if let Some(name) = name.strip_prefix(folder).and_then(|name| name.strip_prefix('/')) {
                each(name, &|| bytes.len() as u64);
            }
        }
        Ok(())
    }
    fn remove(&mut self, files: &[String]) -> Result<()> {
        self.objects.lock().removals.extend_from_slice(files);
        Ok(())
    }
}

struct Freely;

impl Pace for Freely {
    fn on_bytes(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// Numbers below what is asked for, the same for the same seed.
type Dice<'a> = dyn FnMut(u64) -> u64 + 'a;

fn summary(name: &str) -> Summary {
    Summary {
        name: name.to_owned(),
        uuid: format!("uuid-{name}"),
        state: State::Success,
        start_ms: 1,
        end_ms: 2,
        indices: vec!["a".to_owned()],
        include_global_state: false,
        metadata: None,
        failures: Vec::new(),
        shards: 1,
        failed_shards: 0,
        commit_seq: 1,
        is_clone: false,
        version: "0".to_owned(),
        contents: None,
    }
}

fn contents(segments: Vec<SegmentPart>) -> Contents {
    let index = IndexPart {
        name: "a".to_owned(),
        entry: serde_json::json!({}),
        next_seq_no: 1,
        term: 1,
        shards: 1,
        segments,
        beside: None,
        has_tree: false,
        new_files: 0,
        new_bytes: 0,
    };
    Contents {
        indices: vec![index],
        global: None,
    }
}

/// A snapshot that is being written, with what it stored.
type Work = (Writer, Vec<SegmentPart>);

/// What each rival is at.
type Rivals = Arc<Mutex<[Option<Work>; 3]>>;

/// A rival's next step. True: it has written a root.
fn act(repository: &Repository, rivals: &Rivals, dice: &mut Dice<'_>, name: &str) -> bool {
    let rival = dice(3) as usize;
    let mut work = rivals.lock()[rival].take();
    let written = step(repository, &mut work, dice, name);
    // Another one may have begun for it meanwhile; that one was killed.
    rivals.lock()[rival] = work;
    written
}

/// One step of a writer. True: it has written a root.
fn step(repository: &Repository, work: &mut Option<Work>, dice: &mut Dice<'_>, name: &str) -> bool {
    let content = format!("content {}", dice(6));
    let done = match (work.take(), dice(6)) {
        (None, 0) => {
            let root = repository.root().unwrap().unwrap_or_default();
            match root.snapshots.get(dice(root.snapshots.len() as u64) as usize) {
                Some(one) => repository
                    .writer(None)
                    .unwrap()
                    .remove(std::slice::from_ref(&one.name))
                    .map(drop),
                None => return false,
            }
        }
        (None, 1) => repository.writer(None).unwrap().clean_up().map(drop),
        (None, _) => {
            let mut writer = repository.writer(None).unwrap();
            writer.begin_snapshot().unwrap();
            *work = Some((writer, Vec::new()));
            return false;
        }
        // Killed.
        (Some(_), 0) => return false,
        (Some((writer, segments)), 1 | 2) => writer.commit(summary(name), &contents(segments)).map(drop),
        (Some((mut writer, mut segments)), _) => {
            let components = [("s/store".to_owned(), content.as_bytes())];
            let blob = match writer.find_blob(&content) {
                Some(blob) => blob,
                None => writer.put(&components, &Freely).unwrap().0,
            };
            segments.push(SegmentPart {
                uuid: content,
                max_doc: 1,
                blob,
                has_deletions: false,
            });
            *work = Some((writer, segments));
            return false;
        }
    };
    match done {
        Ok(()) => true,
        Err(refused) if refused.kind() == ErrorKind::RepositoryChanged => false,
        Err(refused) => panic!("{refused}"),
    }
}

#[test]
fn what_the_root_leads_to_stays() {
    let (mut roots, mut removed) = (0, 0);
    for seed in 0..60 {
        let (bucket, mut dice) = (TestBucket::default(), random(seed));
        let repository = Repository {
            storage: Arc::new(bucket.clone()),
            description_max: 1 << 20,
        };
        let rivals = Rivals::default();
        for n in 0..120 {
            if dice(4) == 0 {
                let mut objects = bucket.objects.lock();
                let waiting = objects.removals.len();
                if waiting > 0 {
                    let file = objects.removals.swap_remove(dice(waiting as u64) as usize);
                    removed += usize::from(objects.files.remove(&file).is_some());
                }
                continue;
            }
            let (other, all, mut others) = (repository.clone(), rivals.clone(), random(dice(u64::MAX)));
            let intrude = move || {
                for m in 0..others(8) {
                    act(&other, &all, &mut others, &format!("s{n}-{m}"));
                }
            };
            *bucket.before_list.lock() = Some(Box::new(intrude));
            roots += usize::from(act(&repository, &rivals, &mut dice, &format!("s{n}")));
            let checked = repository.check_all(&Freely).unwrap();
            assert!(checked.damages.is_empty(), "seed {seed}, step {n}: {checked:?}");
        }
        // Whoever is left alone leaves nothing behind.
        *bucket.before_list.lock() = None;
        *rivals.lock() = Default::default();
        repository.writer(None).unwrap().clean_up().unwrap();
        let waiting = std::mem::take(&mut bucket.objects.lock().removals);
        waiting.iter().for_each(|file| drop(bucket.objects.lock().files.remove(file)));
        let checked = repository.check_all(&Freely).unwrap();
        assert!(checked.damages.is_empty(), "seed {seed}: {checked:?}");
        let blobs = bucket
            .objects
            .lock()
            .files
            .keys()
            .filter(|name| name.starts_with("blobs/"))
            .count();
        assert_eq!(blobs as u64, checked.files, "seed {seed}");
    }
    assert!(roots > 1000 && removed > 1000, "{roots} roots, {removed} removals");
    println!("{roots} roots, {removed} removals");
}
