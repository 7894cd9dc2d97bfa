//! The documents of each string of a column, by its ordinal.
//!
//! A column leads from a document to its strings. Where few strings are looked for among many documents, the way back takes less time than
//! to read the column: made at the second such request, 4 bytes for each string and 4 for each row, and kept with what is derived from
//! the segment.
//!
//! Not here: which strings are looked for (`keyed_rows`).

use crate::derived::Footprint;
use crate::segment_view::SegmentCore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tantivy::DocId;
use tantivy::columnar::{ColumnIndex, StrColumn};

/// Rows of a column that are read at once.
const ROWS: usize = 4096;

/// The documents of each ordinal: those of ordinal `n` stand from `starts[n]` to `starts[n + 1]`, in ascending order.
#[derive(Debug)]
pub struct OrdinalDocs {
    starts: Vec<u32>,
    docs: Vec<DocId>,
}

impl Footprint for OrdinalDocs {
    fn heap_bytes(&self) -> usize {
        self.starts.heap_bytes() + self.docs.heap_bytes()
    }
}

/// Whether the documents of a column's ordinals have been asked for.
#[derive(Debug, Default)]
struct Asked(AtomicBool);

impl Footprint for Asked {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl OrdinalDocs {
    /// The documents of a column's strings, from the second request on; `name` is the column's.
    pub fn from_second_request(core: &SegmentCore, name: &str, column: &StrColumn) -> Option<Arc<OrdinalDocs>> {
        let asked = core.once(
            &format!("documents by ordinal are asked for: {name}"),
            || Ok(Asked::default()),
        );
        let was_asked = asked.ok()?.0.swap(true, Ordering::Relaxed);
        let made = || core.once(&format!("documents by ordinal: {name}"), || Ok(OrdinalDocs::read(column)));
        was_asked.then(made)?.ok()
    }

    /// Reads a column twice: to count the rows of each ordinal, and to put their documents into place.
    pub fn read(column: &StrColumn) -> OrdinalDocs {
        let mut starts = vec![0u32; column.num_terms() + 1];
        each_row(column, |_, ordinal| starts[ordinal + 1] += 1);
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let rows = starts.last().copied().unwrap_or(0);
        let mut next = starts.clone();
        let mut docs = vec![0; rows as usize];
        each_row(column, |doc, ordinal| {
            docs[next[ordinal] as usize] = doc;
            next[ordinal] += 1;
        });
        debug_assert!(
            next.iter().zip(&starts[1..]).all(|(next, end)| next == end),
            "search.md S14: each ordinal has as many documents as rows"
        );
        OrdinalDocs { starts, docs }
    }

    /// The documents of an ordinal, in ascending order; one that has its string twice stands there twice.
    #[inline]
    pub fn of(&self, ordinal: u32) -> &[DocId] {
        let at = ordinal as usize;
        debug_assert!(at + 1 < self.starts.len(), "an ordinal is below the number of terms");
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(start), Some(end)) => &self.docs[*start as usize..*end as usize],
            _ => &[],
        }
    }
}

/// Calls `show` with the document and the ordinal of each row, in the order of documents.
fn each_row(column: &StrColumn, mut show: impl FnMut(DocId, usize)) {
    let ords = column.ords();
    if !matches!(ords.index, ColumnIndex::Full) {
        for doc in 0..ords.num_docs() {
            column.term_ords(doc).for_each(|ordinal| show(doc, ordinal as usize));
        }
        return;
    }
    let mut read = vec![0; ROWS];
    for start in (0..ords.num_docs()).step_by(ROWS) {
        let len = ROWS.min((ords.num_docs() - start) as usize);
        ords.values.get_range(u64::from(start), &mut read[..len]);
        (start..)
            .zip(&read[..len])
            .for_each(|(doc, ordinal)| show(doc, *ordinal as usize));
    }
}
