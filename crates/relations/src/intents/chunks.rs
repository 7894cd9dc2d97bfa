//! W3: the outcomes of a large change, which lie in chunks beside its record.
//!
//! A chunk is made once and never changed; each plan of a change has chunks of another name, so that those of a plan which
//! came to nothing are nobody's, and go with the record. What counts is what the committed record names.
//!
//! Not here: when they are written and read (`runner`, `resolve`), when they go (`sweep`).

use super::intent::expect_unchanged;
use super::record::{CONTROL_INDEX, Effects, Record, Touched};
use super::runner::Runner;
use crate::digest;
use crate::locks::Owner;
use engine::{EngineExt as _, Expect, Hide, Outcome, Read, Refresh, Source, Write, WriteOp};
use model::text::to_json_string;
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result};
use serde_json::Value;
use std::sync::Arc;

/// How much of a change's outcomes one document of the control index holds, a record or a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Documents.
    pub operations: usize,
    /// Bytes of their sources; a larger one has a chunk for itself.
    pub bytes: usize,
}

impl Default for Room {
    fn default() -> Room {
        Room {
            operations: 1_000,
            bytes: 256 << 10,
        }
    }
}

/// Where the outcomes of a committed change are, if not in its record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chunks {
    /// The name of this plan of the change.
    pub name: Arc<str>,
    /// How many.
    pub count: u64,
    /// The digest of their contents, in their order.
    pub digest: String,
}

/// The kind of a chunk's document.
pub(super) const KIND: &str = "chunk";

fn address(change: &Owner, name: &str, number: u64) -> DocAddress {
    DocAddress {
        index: IndexName::new(CONTROL_INDEX),
        id: DocId::plain(format!("k:{change}:{name}.{number}")),
    }
}

fn size(touched: &Touched) -> usize {
    match &touched.effect {
        Some(Effects::Put { source, .. }) => source.0.len(),
        _ => 0,
    }
}

/// Consecutive documents that have room together.
fn cut(documents: &[Touched], room: Room) -> Vec<&[Touched]> {
    let mut parts = Vec::new();
    let (mut from, mut bytes) = (0, 0);
    for (no, touched) in documents.iter().enumerate() {
        let more = size(touched);
        if no > from && (no - from == room.operations || bytes + more > room.bytes) {
            parts.push(&documents[from..no]);
            (from, bytes) = (no, 0);
        }
        bytes += more;
    }
    parts.push(&documents[from..]);
    debug_assert_eq!(
        parts.iter().map(|part| part.len()).sum::<usize>(),
        documents.len(),
        "T1: each outcome is in one chunk"
    );
    debug_assert!(
        parts.iter().all(|part| part.len() <= room.operations.max(1)),
        "a chunk has no more outcomes than there is room for"
    );
    parts
}

impl Runner {
    /// W3. `None`: they have room in the record.
    ///
    /// # Errors
    /// A chunk that is refused.
    pub(super) async fn write_chunks(&self, change: &Owner, documents: &[Touched]) -> Result<Option<Chunks>> {
        let parts = cut(documents, self.room);
        if parts.len() == 1 {
            return Ok(None);
        }
        debug_assert!(
            documents.iter().all(|touched| touched.effect.is_some()),
            "T1: a chunk says what becomes of each of its documents"
        );
        let name = self.nonce();
        let written_ms = self.kept_time.now_ms(self.clock.as_ref());
        let mut all = blake3::Hasher::new();
        for (number, part) in (0u64..).zip(&parts) {
            let documents = Value::Array(part.iter().map(Touched::render).collect()).to_string();
            all.update(documents.as_bytes());
            let change_name = to_json_string(change.as_str());
            let body = format!(r#"{{"kind":"{KIND}","change":{change_name},"at":{written_ms},"docs":{documents}}}"#);
            self.write_chunk(address(change, &name, number), &Source(body.into_bytes().into()))
                .await?;
        }
        Ok(Some(Chunks {
            name,
            count: parts.len() as u64,
            digest: digest::short(&all.finalize()),
        }))
    }

    /// Until it is acknowledged: a conflict may be one's own success, on a primary that is none any more.
    async fn write_chunk(&self, at: DocAddress, source: &Source) -> Result<()> {
        let (mut expect, mut turn) = (Expect::Absent, 1);
        loop {
            let write = Write {
                expect,
                hide: Hide::Drop,
                ..Write::new(at.clone(), WriteOp::Put(source.clone()))
            };
            match self.engine.write_one(write, Refresh::No).await? {
                Outcome::Written(_) => return Ok(()),
                Outcome::Refused(error) => return Err(error),
                Outcome::Conflict(_) | Outcome::Held(_) | Outcome::Unknown => {}
            }
            self.rest(turn).await;
            turn += 1;
            let found = self.engine.read_one(at.clone()).await?;
            expect = found.map_or(Expect::Absent, |document| expect_unchanged(document.stamp));
        }
    }

    /// A committed record with all its outcomes. `None`: while they were looked for it was no longer committed, and they
    /// may be gone.
    ///
    /// # Errors
    /// The engine's; chunks that are not those of the record.
    pub(crate) async fn whole(&self, change: &Owner, record: Record) -> Result<Option<Record>> {
        let Some(chunks) = &record.chunks else {
            return Ok(Some(record));
        };
        let mut texts: Vec<Option<Value>> = vec![None; usize::try_from(chunks.count).unwrap_or(0)];
        let mut turn = 1;
        while texts.iter().any(Option::is_none) {
            if turn > 1 {
                // A stale read, or they are collected: the record goes last.
                if !self.still_committed(change).await? {
                    return Ok(None);
                }
                self.rest(turn).await;
            }
            turn += 1;
            for (number, text) in (0u64..).zip(&mut texts).filter(|(_, text)| text.is_none()) {
                let found = self
                    .engine
                    .read(vec![Read::whole(address(change, &chunks.name, number))])
                    .await?;
                if let Some(document) = found.into_iter().next().flatten() {
                    *text = Some(document.source.parse()?["docs"].take());
                }
            }
        }
        let mut all = blake3::Hasher::new();
        let mut documents = Vec::with_capacity(record.documents.len());
        for part in texts.into_iter().flatten() {
            all.update(part.to_string().as_bytes());
            let read: Option<Vec<Touched>> = part.as_array().into_iter().flatten().map(Touched::read).collect();
            documents.extend(read.unwrap_or_default());
        }
        let same = digest::short(&all.finalize()) == chunks.digest
            && documents
                .iter()
                .map(|touched| &touched.at)
                .eq(record.documents.iter().map(|touched| &touched.at));
        if !same {
            let reason = format!(
                "the chunks [{}] of change [{change}] are not those of its record",
                chunks.name
            );
            return Err(Error::new(ErrorKind::Corruption, reason));
        }
        Ok(Some(Record { documents, ..record }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_consecutive_and_have_room() {
        let put = |n: usize, bytes: usize| Touched {
            at: address(&Owner::new("c"), "n", n as u64),
            index_uuid: "u".into(),
            effect: Some(if bytes == 0 {
                Effects::Delete
            } else {
                Effects::Put {
                    source: Source(vec![b' '; bytes].into()),
                    routing: None,
                    parent: None,
                    timing: mapping::Timing::default(),
                }
            }),
        };
        for (sizes, expected) in [
            (&[0, 0, 0][..], &[3][..]),
            (&[0, 0, 0, 0], &[3, 1]),
            (&[5, 5, 1], &[2, 1]),
            (&[11, 1, 1], &[1, 2]),
            (&[1, 11, 1], &[1, 1, 1]),
            (&[1], &[1]),
            (&[], &[0]),
        ] {
            let documents: Vec<Touched> = sizes.iter().enumerate().map(|(n, bytes)| put(n, *bytes)).collect();
            let room = Room {
                operations: 3,
                bytes: 10,
            };
            let parts = cut(&documents, room);
            assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), expected, "{sizes:?}");
            assert_eq!(parts.concat(), documents, "{sizes:?}");
        }
    }
}
