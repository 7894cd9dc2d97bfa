//! Matching documents by sequence number: what long work goes through a part at a time, and finds again after a restart.
//!
//! Sequence numbers of a shard only grow, and a document that is written again gets a new one. So the documents that
//! matched at some moment and have not been written since are those that match and lie at or below the last number of
//! that moment, wherever segments put them. Here is what an engine without columns of its own does, whose indices have one
//! shard.

use crate::{Document, Engine, EngineExt as _};
use dsl::query::Query;
use futures::StreamExt as _;
use model::{Cancellation, IndexName, Result, SeqNo, Stamp, Target};
use serde_json::Value;
use std::collections::BTreeMap;

/// A place among the documents of one index: a sequence number for each shard, none where nothing has been passed yet.
///
/// Engines make cursors and look into them. Everybody else keeps them ([`Cursor::render`]), gives them back, and compares them
/// by [`Cursor::covers`] and [`Numbered::is_within`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(Vec<Option<SeqNo>>);

impl Cursor {
    /// In an index of one shard.
    pub fn of_one_shard(seq_no: SeqNo) -> Cursor {
        Cursor(vec![Some(seq_no)])
    }
    /// In an index of several shards, by their numbers.
    pub fn of_shards(seq_nos: Vec<Option<SeqNo>>) -> Cursor {
        Cursor(seq_nos)
    }
    /// How far it is in one shard; for engines.
    pub fn seq_no(&self, shard: usize) -> Option<SeqNo> {
        self.0.get(shard).copied().flatten()
    }
    /// Does it lie at or beyond the other one in every shard?
    pub fn covers(&self, other: &Cursor) -> bool {
        (0..other.0.len()).all(|shard| self.seq_no(shard) >= other.seq_no(shard))
    }
    /// Does it lie at or beyond a document of this shard with this number?
    fn holds(&self, shard: usize, seq_no: SeqNo) -> bool {
        self.seq_no(shard).is_some_and(|reached| reached >= seq_no)
    }
    /// As records keep it: of one shard a number, else a list with a number or null for each shard.
    pub fn render(&self) -> Value {
        let kept = match self.0.as_slice() {
            [Some(one)] => Value::from(*one),
            shards => shards.iter().map(|seq_no| seq_no.map_or(Value::Null, Value::from)).collect(),
        };
        debug_assert!(
            Cursor::parse(&kept).as_ref() == Some(self),
            "a job goes on after a restart where its record says: {kept}"
        );
        kept
    }
    /// The inverse; `None`: it is no cursor.
    pub fn parse(value: &Value) -> Option<Cursor> {
        if let Some(one) = value.as_u64() {
            return Some(Cursor::of_one_shard(one));
        }
        let shard = |seq_no: &Value| match seq_no {
            Value::Null => Some(None),
            number => number.as_u64().map(Some),
        };
        Some(Cursor(value.as_array()?.iter().map(shard).collect::<Option<_>>()?))
    }
}

/// The matching documents of one index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where.
    pub index: IndexName,
    /// The uuid of the index that the view shows: another may have been made under its name since.
    pub uuid: String,
    /// How many documents.
    pub count: u64,
    /// The place of the last of them, in every shard.
    pub last: Cursor,
}

/// Which of the documents that match are wanted.
#[derive(Clone, Debug)]
pub struct Part {
    /// The index, by name.
    pub index: IndexName,
    /// Beyond this one.
    pub after: Option<Cursor>,
    /// Up to this one.
    pub upto: Option<Cursor>,
    /// At most so many.
    pub docs_max: usize,
    /// No more once their sources have so many bytes.
    pub bytes_max: usize,
    /// The meaning of `now` in the query, milliseconds since 1970.
    pub now_ms: i64,
    /// Ends the reading with `task_cancelled_exception`.
    pub cancellation: Cancellation,
}

impl Part {
    /// Is it wanted, but for how many there are?
    pub fn holds(&self, shard: usize, seq_no: SeqNo) -> bool {
        let beyond = self.after.as_ref().is_none_or(|after| !after.holds(shard, seq_no));
        beyond && self.upto.as_ref().is_none_or(|upto| upto.holds(shard, seq_no))
    }
}

/// A document of a part.
#[derive(Clone, Debug)]
pub struct Numbered {
    /// Itself.
    pub document: Document,
    /// A part after this cursor goes on behind the document.
    pub cursor: Cursor,
    shard: usize,
}

impl Numbered {
    /// A document of an index with one shard.
    pub fn of_one_shard(document: Document) -> Numbered {
        let cursor = Cursor::of_one_shard(document.stamp.seq_no);
        Numbered {
            document,
            cursor,
            shard: 0,
        }
    }
    /// Does it lie at or before this cursor?
    pub fn is_within(&self, last: &Cursor) -> bool {
        self.was_within(last, self.document.stamp)
    }
    /// Did it, when it had this stamp?
    pub fn was_within(&self, last: &Cursor, stamp: Stamp) -> bool {
        last.holds(self.shard, stamp.seq_no)
    }
}

/// The extents, by reading every document.
pub(crate) async fn extents<E: Engine + ?Sized>(engine: &E, target: &Target, query: Query, view: &str) -> Result<Vec<Extent>> {
    let mut found = engine.scan_view(target, query, view).await?;
    let mut all: BTreeMap<IndexName, (u64, SeqNo)> = BTreeMap::new();
    while let Some(document) = found.next().await {
        let document = document?;
        let entry = all.entry(document.at.index).or_default();
        *entry = (entry.0 + 1, entry.1.max(document.stamp.seq_no));
    }
    let mut out = Vec::with_capacity(all.len());
    for (index, (count, last)) in all {
        // Views of such an engine do not outlive an index.
        let infos = engine.indices(&Target::index(index.as_str())).await?;
        let uuid = infos.first().map(|info| info.uuid.clone()).unwrap_or_default();
        out.push(Extent {
            index,
            uuid,
            count,
            last: Cursor::of_one_shard(last),
        });
    }
    Ok(out)
}

/// A part, by reading every document.
pub(crate) async fn part<E: Engine + ?Sized>(
    engine: &E,
    target: &Target,
    query: Query,
    view: &str,
    part: &Part,
) -> Result<Vec<Numbered>> {
    let mut found = engine.scan_view(target, query, view).await?;
    let mut all = Vec::new();
    while let Some(document) = found.next().await {
        let document = document?;
        if document.at.index == part.index && part.holds(0, document.stamp.seq_no) {
            all.push(document);
        }
    }
    all.sort_by_key(|document| document.stamp.seq_no);
    debug_assert!(
        all.is_sorted_by(|one, next| one.stamp.seq_no < next.stamp.seq_no || next.stamp.is_staged()),
        "write-path.md 1.1: a sequence number is that of one document of an index, unless it is staged"
    );
    all.truncate(part.docs_max);
    let mut bytes = 0;
    let fits = |document: &Document| {
        let fits = bytes < part.bytes_max;
        bytes += document.source.0.len();
        fits
    };
    let kept = all.iter().map(fits).take_while(|fits| *fits).count();
    all.truncate(kept);
    Ok(all.into_iter().map(Numbered::of_one_shard).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, address};
    use mapping::Times;
    use model::DocId;
    use serde_json::json;

    #[test]
    fn cursors_are_kept_as_numbers_or_lists() {
        for (cursor, kept) in [
            (Cursor::of_one_shard(7), json!(7)),
            (Cursor::of_shards(vec![Some(7), None, Some(0)]), json!([7, null, 0])),
            (Cursor::of_shards(vec![None]), json!([null])),
            (Cursor::of_shards(Vec::new()), json!([])),
        ] {
            assert_eq!(cursor.render(), kept);
            assert_eq!(Cursor::parse(&kept), Some(cursor));
        }
        for none in [json!(null), json!("7"), json!(-1), json!([1, "2"]), json!({})] {
            assert_eq!(Cursor::parse(&none), None, "{none}");
        }
    }

    #[test]
    fn each_shard_is_compared_by_itself() {
        let shards = |seq_nos: &[Option<SeqNo>]| Cursor::of_shards(seq_nos.to_vec());
        for (one, other, covers) in [
            (shards(&[Some(3)]), shards(&[Some(3)]), true),
            (shards(&[Some(3)]), shards(&[Some(4)]), false),
            (shards(&[Some(9), Some(1)]), shards(&[Some(3), Some(2)]), false),
            (shards(&[Some(3), None]), shards(&[Some(3)]), true),
            (shards(&[Some(3)]), shards(&[Some(3), Some(0)]), false),
            (shards(&[None]), shards(&[None]), true),
        ] {
            assert_eq!(one.covers(&other), covers, "{one:?} {other:?}");
        }
        let document = Document {
            at: address("a", DocId::plain("1")),
            stamp: Stamp {
                seq_no: 5,
                primary_term: 1,
                version: 1,
            },
            source: Source((*b"{}").into()),
            stored_fields: None,
            routing: None,
            parent: None,
            times: Times::default(),
            tree: None,
            hidden: None,
        };
        let second = Numbered {
            shard: 1,
            ..Numbered::of_one_shard(document)
        };
        assert!(second.is_within(&shards(&[Some(0), Some(5)])) && !second.is_within(&shards(&[Some(9), Some(4)])));
        assert!(
            !second.is_within(&shards(&[Some(9)])),
            "a shard that nothing was seen of is not passed"
        );
    }
}
