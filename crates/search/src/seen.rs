//! Numbers of documents and of terms, as the reader of a view may know them.
//!
//! They are Lucene's: deleted documents count until a merge drops them. Where something is withheld from the reader, documents
//! that the reader does not see are dead in the view, and only living ones count (security.md S6).
//! Not here: which statistics a score is made of (`scorers::statistics`).

use model::Result;
use segment::error::broken;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use tantivy::postings::{Postings as _, SegmentPostings, TermInfo};
use tantivy::schema::IndexRecordOption;
use tantivy::{BitSet, DocId, DocSet as _, InvertedIndexReader, TERMINATED, Term};

/// The documents of a view, nested ones included.
pub(crate) fn docs(view: &IndexView) -> u64 {
    view.segments.iter().map(|segment| docs_of(view, segment)).sum()
}

/// The documents of a segment of a view, nested ones included.
pub(crate) fn docs_of(view: &IndexView, segment: &SegmentView) -> u64 {
    match view.is_restricted() {
        true => segment.counted_docs(),
        false => u64::from(segment.reader.max_doc()),
    }
}

/// How many documents of a segment have a term of its dictionary.
pub(crate) fn docs_with(view: &IndexView, segment: &SegmentView, index: &InvertedIndexReader, term: &TermInfo) -> Result<u64> {
    if !view.is_restricted() {
        return Ok(u64::from(term.doc_freq));
    }
    let list = index
        .read_postings_from_terminfo(term, IndexRecordOption::Basic)
        .map_err(broken)?;
    let mut docs = 0;
    each(list, |doc, _| docs += u64::from(segment.is_alive(doc)));
    Ok(docs)
}

/// How many documents of a view have a term.
pub(crate) fn doc_freq(view: &IndexView, term: &Term) -> Result<u64> {
    let mut sum = 0;
    for segment in &view.segments {
        let index = segment.reader.inverted_index(term.field()).map_err(broken)?;
        if let Some(info) = index.get_term_info(term).map_err(broken)? {
            sum += docs_with(view, segment, &index, &info)?;
        }
    }
    Ok(sum)
}

/// How many documents of a view have a term, and how often all of them together.
pub(crate) fn frequency(view: &IndexView, term: &Term) -> Result<(u64, u64)> {
    let (mut docs, mut total) = (0, 0);
    for segment in &view.segments {
        let index = segment.reader.inverted_index(term.field()).map_err(broken)?;
        let found = index.read_postings(term, IndexRecordOption::WithFreqs).map_err(broken)?;
        let Some(list) = found else { continue };
        each(list, |doc, often| {
            if !view.is_restricted() || segment.is_alive(doc) {
                docs += 1;
                total += u64::from(often);
            }
        });
    }
    Ok((docs, total))
}

/// The terms of one field that living documents of a segment have.
#[derive(Default)]
pub(crate) struct LivingTerms {
    /// Documents with a term.
    pub(crate) docs: u64,
    /// Pairs of a term and a document that has it.
    pub(crate) doc_freqs: u64,
    /// How often the documents have them; without frequencies once for each pair.
    pub(crate) tokens: u64,
    /// Different terms.
    pub(crate) distinct: u64,
}

/// Counts the terms of living documents: one look at every posting of the field.
pub(crate) fn living_with(segment: &SegmentView, index: &InvertedIndexReader, has_freqs: bool) -> Result<LivingTerms> {
    let option = match has_freqs {
        true => IndexRecordOption::WithFreqs,
        false => IndexRecordOption::Basic,
    };
    let mut with_value = BitSet::with_max_value(segment.reader.max_doc());
    let mut out = LivingTerms::default();
    let mut terms = index.terms().stream().map_err(broken)?;
    while terms.advance() {
        let list = index.read_postings_from_terminfo(terms.value(), option).map_err(broken)?;
        let mut docs = 0;
        each(list, |doc, often| {
            if segment.is_alive(doc) {
                with_value.insert(doc);
                docs += 1;
                out.tokens += if has_freqs { u64::from(often) } else { 1 };
            }
        });
        out.doc_freqs += docs;
        out.distinct += u64::from(docs > 0);
    }
    out.docs = with_value.len() as u64;
    debug_assert!(
        out.docs <= out.doc_freqs && out.doc_freqs <= out.tokens,
        "a document with a term has it once at least"
    );
    Ok(out)
}

fn each(mut list: SegmentPostings, mut f: impl FnMut(DocId, u32)) {
    while list.doc() != TERMINATED {
        f(list.doc(), list.term_freq());
        list.advance();
    }
}
