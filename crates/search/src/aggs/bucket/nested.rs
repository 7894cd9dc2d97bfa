//! `nested` and `reverse_nested`: from a document to those in it, and back. Blocks are positional: nested
//! documents come before the one they are in.

use super::{Counts, single, single_order};
use crate::aggs::{At, Collector, Finish, Subs};
use model::Result;
use segment::doc_bits::DocBits;
use segment::error::broken;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use serde_json::Value;
use std::sync::Arc;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, TERMINATED, Term};

/// The documents of a nested path, or of the roots, in a segment; worked out once.
fn docs_of(view: &IndexView, segment: &SegmentView, path: Option<&str>) -> Result<Arc<DocBits>> {
    // Nested documents of a field that is withheld are there for nobody (security.md S6).
    if path.is_some_and(|path| view.is_restricted() && !view.mapping.is_nested(path)) {
        return Ok(Arc::new(DocBits::new(segment.reader.max_doc())));
    }
    let (field, token) = match path {
        Some(path) => (view.schema.nested_path, path),
        None => (view.schema.root, segment::schema::YES),
    };
    segment.core.once(&format!("aggs.path.{}", path.unwrap_or_default()), || {
        let mut bits = DocBits::new(segment.reader.max_doc());
        let index = segment.reader.inverted_index(field).map_err(broken)?;
        let term = Term::from_field_text(field, token);
        if let Some(mut docs) = index.read_postings(&term, IndexRecordOption::Basic).map_err(broken)? {
            while docs.doc() != TERMINATED {
                bits.insert(docs.doc());
                docs.advance();
            }
        }
        Ok(bits)
    })
}

/// `nested`.
pub(in crate::aggs) struct Nested {
    path: String,
    scope: Option<String>,
    /// Documents of the scope, and of the path.
    bits: Option<(Arc<DocBits>, Arc<DocBits>)>,
    counts: Counts,
    subs: Subs,
}

impl Nested {
    pub(in crate::aggs) fn new(path: &str, scope: Option<&str>, subs: Subs) -> Nested {
        Nested {
            path: path.to_owned(),
            scope: scope.map(str::to_owned),
            bits: None,
            counts: Counts::default(),
            subs,
        }
    }
}

impl Collector for Nested {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        let above = docs_of(at.view, at.segment, self.scope.as_deref())?;
        self.bits = Some((above, docs_of(at.view, at.segment, Some(&self.path))?));
        self.subs.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let Some((above, own)) = &self.bits else { return Ok(()) };
        if self.scope.as_deref() == Some(&self.path) {
            self.counts.add(bucket as usize);
            return self.subs.collect(doc, score, bucket);
        }
        let first = above.before(doc).map_or(0, |before| before + 1);
        let mut child = own.next(first);
        while child < doc {
            self.counts.add(bucket as usize);
            self.subs.collect(child, score, bucket)?;
            child = own.next(child + 1);
        }
        Ok(())
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        single(self.counts.get(bucket as usize), bucket, &mut self.subs, to)
    }
    fn order(&mut self, bucket: u32, rest: &[&str]) -> Result<f64> {
        single_order(self.counts.get(bucket as usize), bucket, rest, &mut self.subs)
    }
    fn wire_type(&self) -> &'static str {
        "nested"
    }
    fn subs(&self) -> Option<&Subs> {
        Some(&self.subs)
    }
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        Some(&mut self.subs)
    }
}

/// `reverse_nested`: each document above once a bucket.
pub(in crate::aggs) struct Reverse {
    path: Option<String>,
    above: Option<Arc<DocBits>>,
    /// The last document above by bucket, in this segment; + 1.
    last: Vec<u32>,
    counts: Counts,
    subs: Subs,
}

impl Reverse {
    pub(in crate::aggs) fn new(path: Option<&str>, subs: Subs) -> Reverse {
        Reverse {
            path: path.map(str::to_owned),
            above: None,
            last: Vec::new(),
            counts: Counts::default(),
            subs,
        }
    }
}

impl Collector for Reverse {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.above = Some(docs_of(at.view, at.segment, self.path.as_deref())?);
        self.last.clear();
        self.subs.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let Some(above) = &self.above else { return Ok(()) };
        let parent = above.next(doc);
        let at = bucket as usize;
        if at >= self.last.len() {
            self.last.resize(at + 1, 0);
        }
        if parent == TERMINATED || self.last[at] == parent + 1 {
            return Ok(());
        }
        self.last[at] = parent + 1;
        self.counts.add(at);
        self.subs.collect(parent, score, bucket)
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        single(self.counts.get(bucket as usize), bucket, &mut self.subs, to)
    }
    fn order(&mut self, bucket: u32, rest: &[&str]) -> Result<f64> {
        single_order(self.counts.get(bucket as usize), bucket, rest, &mut self.subs)
    }
    fn wire_type(&self) -> &'static str {
        "reverse_nested"
    }
    fn subs(&self) -> Option<&Subs> {
        Some(&self.subs)
    }
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        Some(&mut self.subs)
    }
}
