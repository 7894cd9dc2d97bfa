//! Documents whose value in a column lies in a range.

use super::constant::{ConstantScorer, NoScorer};
use segment::segment_view::SegmentView;
use tantivy::columnar::Column;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, TERMINATED};

/// The documents of a column with a value between two, both included.
pub(crate) fn column_range<T>(_segment: &SegmentView, column: Column<T>, low: T, high: T) -> Box<dyn Scorer>
where
    T: PartialOrd + Copy + std::fmt::Debug + Send + Sync + 'static,
{
    if low > high || column.values.num_vals() == 0 || column.max_value() < low || column.min_value() > high {
        return Box::new(NoScorer);
    }
    let mut scan = ColumnRange {
        max_doc: column.num_docs(),
        column,
        low,
        high,
        doc: 0,
    };
    scan.settle();
    Box::new(ConstantScorer::new(scan, 1.0))
}

struct ColumnRange<T> {
    column: Column<T>,
    low: T,
    high: T,
    max_doc: DocId,
    doc: DocId,
}

impl<T: PartialOrd + Copy + std::fmt::Debug + Send + Sync + 'static> ColumnRange<T> {
    fn settle(&mut self) -> DocId {
        while self.doc < self.max_doc {
            if self.column.values_for_doc(self.doc).any(|v| v >= self.low && v <= self.high) {
                return self.doc;
            }
            self.doc += 1;
        }
        self.doc = TERMINATED;
        TERMINATED
    }
}

impl<T: PartialOrd + Copy + std::fmt::Debug + Send + Sync + 'static> DocSet for ColumnRange<T> {
    fn advance(&mut self) -> DocId {
        if self.doc == TERMINATED {
            return TERMINATED;
        }
        self.doc += 1;
        self.settle()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target {
            return self.doc;
        }
        self.doc = target;
        self.settle()
    }
    fn doc(&self) -> DocId {
        self.doc
    }
    fn size_hint(&self) -> u32 {
        self.max_doc
    }
}
