//! The background that significant terms are compared with: how many documents of all indices have each value.
//!
//! A segment of keywords counts the documents of each ordinal once, dead ones too. A request subtracts documents that its reader does not
//! see. Other values, and documents of a query, are counted one by one.
//!
//! Not here: how values are compared (`significance`), the buckets (`terms`).

use super::filter::FilterProbe;
use crate::aggs::At;
use crate::aggs::values::ValuesSource;
use model::Result;
use rustc_hash::FxHashMap;
use segment::derived::Footprint;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::DocId;
use tantivy::columnar::StrColumn;

/// Documents of all indices, and their number by value.
pub(super) struct Background {
    /// Only documents of this query.
    chosen: Option<FilterProbe>,
    /// All documents.
    pub(super) docs: u64,
    by_code: FxHashMap<u64, u64>,
    /// By the codes of strings, where whole segments were counted.
    by_string: Vec<u64>,
}

/// How many documents of a segment have each string of a column, by ordinals; dead ones count.
struct DocsOfOrdinals(Vec<u32>);

impl Footprint for DocsOfOrdinals {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

impl DocsOfOrdinals {
    fn of(segment: &SegmentView, name: &str, column: &StrColumn) -> Result<Arc<DocsOfOrdinals>> {
        segment.core.once(&format!("documents of ordinals: {name}"), || {
            let mut counts = vec![0; column.num_terms()];
            for doc in 0..segment.reader.max_doc() {
                each_string(column, doc, |ordinal| counts[ordinal] += 1);
            }
            Ok(DocsOfOrdinals(counts))
        })
    }
}

/// Shows the ordinals of a document, each once.
fn each_string(column: &StrColumn, doc: DocId, mut show: impl FnMut(usize)) {
    let mut ordinals = column.term_ords(doc);
    let (Some(first), second) = (ordinals.next(), ordinals.next()) else {
        return;
    };
    let Some(second) = second else { return show(first as usize) };
    let mut all = vec![first, second];
    all.extend(ordinals);
    all.sort_unstable();
    all.dedup();
    all.into_iter().for_each(|ordinal| show(ordinal as usize));
}

impl Background {
    /// Nothing yet; of a query's documents alone, if there is one.
    pub(super) fn new(chosen: Option<FilterProbe>) -> Background {
        Background {
            chosen,
            docs: 0,
            by_code: FxHashMap::default(),
            by_string: Vec::new(),
        }
    }

    /// How many documents have a value.
    pub(super) fn of(&self, code: u64) -> u64 {
        let of_string = self.by_string.get(code as usize).copied().unwrap_or(0);
        self.by_code.get(&code).copied().unwrap_or(0) + of_string
    }

    /// Adds the documents of a segment, of which `source` is open. Nested documents are documents of the background too, as Lucene counts.
    pub(super) fn add(&mut self, source: &mut ValuesSource, at: &At<'_>) -> Result<()> {
        let is_seen = |doc: &DocId| at.segment.is_counted(*doc) && !at.segment.is_hidden(*doc);
        if self.chosen.is_none() && source.strings().is_some() {
            return self.add_strings(source, at.segment, is_seen);
        }
        if let Some(chosen) = &mut self.chosen {
            chosen.segment(at)?;
        }
        let mut codes = Vec::new();
        for doc in 0..at.segment.reader.max_doc() {
            if let Some(chosen) = &mut self.chosen
                && !chosen.matches(doc)?
            {
                continue;
            }
            if is_seen(&doc) {
                self.docs += 1;
                source.codes(doc, 0.0, &mut codes, true)?;
                for code in &codes {
                    *self.by_code.entry(*code).or_default() += 1;
                }
            }
        }
        Ok(())
    }

    fn add_strings(&mut self, source: &ValuesSource, segment: &SegmentView, is_seen: impl Fn(&DocId) -> bool) -> Result<()> {
        let Some((column, name)) = source.strings() else {
            return Ok(());
        };
        let counts = DocsOfOrdinals::of(segment, name, column)?;
        let mut unseen: FxHashMap<usize, u32> = FxHashMap::default();
        let max_doc = segment.reader.max_doc();
        self.docs += u64::from(max_doc);
        if segment.reader.num_deleted_docs() > 0 || segment.is_part() || segment.core.invisible().is_some() {
            for doc in (0..max_doc).filter(|doc| !is_seen(doc)) {
                self.docs -= 1;
                each_string(column, doc, |ordinal| *unseen.entry(ordinal).or_default() += 1);
            }
        }
        for (ordinal, count) in counts.0.iter().enumerate() {
            let gone = unseen.get(&ordinal).copied().unwrap_or(0);
            assert!(gone <= *count, "what is not seen of a string was counted");
            let Some(code) = source.code_of_ordinal(ordinal) else {
                continue;
            };
            if code >= self.by_string.len() {
                self.by_string.resize((code + 1).next_power_of_two(), 0);
            }
            self.by_string[code] += u64::from(count - gone);
        }
        Ok(())
    }
}
