//! Matching documents by sequence number: what long work goes through a part at a time, and finds again after a restart.
//!
//! Sequence numbers of an index only grow, and a document that is written again gets a new one. So the documents that
//! matched at some moment and have not been written since are those that match and lie at or below the last number of
//! that moment, wherever segments put them. Here is what an engine without columns of its own does.

use crate::{Document, Engine, EngineExt as _};
use dsl::query::Query;
use futures::StreamExt as _;
use model::{Cancellation, IndexName, Result, SeqNo, Target};
use std::collections::BTreeMap;

/// What matches in one index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where.
    pub index: IndexName,
    /// Of the index that the view shows: another may have been made under its name since.
    pub uuid: String,
    /// How many documents.
    pub count: u64,
    /// The greatest sequence number among them.
    pub last: SeqNo,
}

/// Which of the documents that match are wanted.
#[derive(Clone, Debug)]
pub struct Part {
    /// Of this index.
    pub index: IndexName,
    /// Beyond this one.
    pub after: Option<SeqNo>,
    /// Up to this one.
    pub upto: Option<SeqNo>,
    /// At most so many.
    pub docs_max: usize,
    /// No more once their sources have so many bytes.
    pub bytes_max: usize,
    /// What `now` means in the query, milliseconds since 1970.
    pub now_ms: i64,
    /// Ends the reading with `task_cancelled_exception`.
    pub cancellation: Cancellation,
}

impl Part {
    /// Is it wanted, but for how many there are?
    pub fn holds(&self, seq_no: SeqNo) -> bool {
        self.after.is_none_or(|after| seq_no > after) && self.upto.is_none_or(|upto| seq_no <= upto)
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
            last,
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
) -> Result<Vec<Document>> {
    let mut found = engine.scan_view(target, query, view).await?;
    let mut all = Vec::new();
    while let Some(document) = found.next().await {
        let document = document?;
        if document.at.index == part.index && part.holds(document.stamp.seq_no) {
            all.push(document);
        }
    }
    all.sort_by_key(|document| document.stamp.seq_no);
    all.truncate(part.docs_max);
    let mut bytes = 0;
    let fits = |document: &Document| {
        let fits = bytes < part.bytes_max;
        bytes += document.source.0.len();
        fits
    };
    let kept = all.iter().map(fits).take_while(|fits| *fits).count();
    all.truncate(kept);
    Ok(all)
}
