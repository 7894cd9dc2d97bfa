//! The records in their index, and all of them in memory. Only this file reads and writes that index.
//!
//! **Invariant** (security.md S2): a change is in memory once it is durable, and no answer tells of it before.

use arc_swap::ArcSwap;
use dsl::query::Clause;
use engine::{Barrier, Effect, Engine, EngineExt as _, Outcome, Refresh, See, Source, Write, WriteOp};
use futures::StreamExt as _;
use model::settings::{SECURITY_MAX_RECORDS, node_count};
use model::system_index::SECURITY_INDEX;
use model::{DocId, Error, ErrorKind, Result, Target};
use security::Records;
use security::records::Record;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Users, roles and keys.
#[derive(Debug)]
pub struct RecordStore {
    engine: Arc<dyn Engine>,
    records: ArcSwap<Records>,
    /// One change at a time.
    changing: Mutex<()>,
}

impl RecordStore {
    /// Reads the records.
    ///
    /// # Errors
    /// One of them cannot be read: nobody is let in by what is left.
    pub async fn open(engine: Arc<dyn Engine>) -> Result<RecordStore> {
        let mut records = Records::default();
        let target = Target {
            internal: true,
            ignore_unavailable: true,
            ..Target::index(SECURITY_INDEX)
        };
        let barrier = Barrier::Proof { id: random_text(16)? };
        let mut found = engine
            .scan(&target, Clause::MatchAll.into(), See::Everything, barrier)
            .await?;
        while let Some(document) = found.next().await.transpose()? {
            records.put(Record::read(&document.source.parse()?)?);
        }
        Ok(RecordStore {
            engine,
            records: ArcSwap::from_pointee(records),
            changing: Mutex::default(),
        })
    }

    /// All of them, as they are now.
    pub fn records(&self) -> Arc<Records> {
        self.records.load_full()
    }

    /// Makes a change that follows from the records of now: `None` changes nothing.
    ///
    /// # Errors
    /// Those of `change`; there are too many records; the log has no room.
    pub async fn put<T>(&self, change: impl FnOnce(&Records) -> Result<(Option<Record>, T)>) -> Result<T> {
        let _turn = self.changing.lock().await;
        let (record, told) = change(&self.records.load())?;
        if let Some(record) = record {
            self.write(&record, WriteOp::Put(Source::from_value(&record.store()))).await?;
            let mut next = Records::clone(&self.records.load());
            next.put(record);
            self.show(next);
        }
        Ok(told)
    }

    /// Takes a record away; false: there was none.
    ///
    /// # Errors
    /// Those of `find`; the log has no room.
    pub async fn delete(&self, find: impl FnOnce(&Records) -> Result<Option<Record>>) -> Result<bool> {
        let _turn = self.changing.lock().await;
        let Some(record) = find(&self.records.load())? else {
            return Ok(false);
        };
        self.write(&record, WriteOp::Delete).await?;
        let mut next = Records::clone(&self.records.load());
        next.remove(&record);
        self.show(next);
        Ok(true)
    }

    /// Has every request from here on judged by these records, which are durable (security.md S2).
    fn show(&self, next: Records) {
        let before = self.records.load().version;
        assert!(
            next.version > before,
            "security.md S3: records of version [{}] follow those of [{before}], and decisions are kept by version",
            next.version
        );
        self.records.store(Arc::new(next));
    }

    async fn write(&self, record: &Record, op: WriteOp) -> Result<()> {
        let most = node_count(SECURITY_MAX_RECORDS);
        if matches!(op, WriteOp::Put(_)) && self.records.load().count() >= most {
            let reason = format!(
                "there are [{most}] users, roles and keys, the limit of [{}]",
                SECURITY_MAX_RECORDS.name
            );
            return Err(Error::illegal(reason).with("setting", SECURITY_MAX_RECORDS.name));
        }
        self.engine.alter(engine::security_index()).await?;
        let write = Write::new(engine::address(SECURITY_INDEX, DocId::plain(record.id().as_str())), op);
        match self.engine.write_one(write, Refresh::No).await? {
            Outcome::Written(written) => {
                debug_assert!(written.effect != Effect::Noop, "a record is written whole");
                Ok(())
            }
            Outcome::Refused(error) => Err(error),
            other => {
                let reason = format!("a record of users and keys was not written: {other:?}");
                Err(Error::new(ErrorKind::Unavailable, reason))
            }
        }
    }
}

/// Random bytes of the operating system.
///
/// # Errors
/// It gives none.
pub(super) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|cause| Error::new(ErrorKind::Internal, format!("the machine gives no random numbers: {cause}")))?;
    Ok(bytes)
}

/// Letters and digits that nobody guesses; 22 have 130 bits.
///
/// # Errors
/// The machine gives no random numbers.
pub fn random_text(length: usize) -> Result<String> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::with_capacity(length);
    while out.len() < length {
        let bytes = random_bytes::<32>()?;
        let left = length - out.len();
        out.extend(bytes.iter().take(left).map(|byte| char::from(DIGITS[usize::from(byte & 63)])));
    }
    assert_eq!(out.len(), length, "a random text is as hard to guess as was asked for");
    Ok(out)
}

/// The salt of a password's hash.
///
/// # Errors
/// The machine gives no random numbers.
pub fn new_salt() -> Result<[u8; security::secrets::SALT_BYTES]> {
    random_bytes()
}
