//! The documents of a column with a value between two: block by block where the column has bounds, else one by one.
//!
//! Not here: what the two values are (`clauses::range`, `clauses::term`, `clauses::by_column`).

use super::constant::{ConstantScorer, NoScorer};
use super::node::look_at;
use super::overlap::Overlap;
use model::Result;
use segment::column_bounds::{BLOCK_DOCS, Block, ColumnBounds};
use segment::segment_view::SegmentView;
use std::net::Ipv6Addr;
use std::sync::Arc;
use tantivy::columnar::{Column, MonotonicallyMappableToU64};
use tantivy::query::Scorer;
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId, DocSet, SeekDangerResult, TERMINATED};

/// The documents of the column of that name with a value between two, both included.
///
/// # Errors
/// Unreadable files.
pub(crate) fn column_range<T>(segment: &SegmentView, name: &str, column: Column<T>, low: T, high: T) -> Result<Box<dyn Scorer>>
where
    T: MonotonicallyMappableToU64 + PartialOrd + Copy + std::fmt::Debug + Send + Sync + 'static,
{
    let Some(mut range) = ColumnRange::open(column, low, high) else {
        return Ok(Box::new(NoScorer));
    };
    if let Some(bounds) = ColumnBounds::of(segment, name, &range.column)? {
        range.bound_by(bounds, (low.to_u64(), high.to_u64()));
    }
    Ok(range.into_scorer())
}

/// The same of addresses, whose 128 bits have no bounds.
pub(crate) fn address_range(column: Column<Ipv6Addr>, low: Ipv6Addr, high: Ipv6Addr) -> Box<dyn Scorer> {
    match ColumnRange::open(column, low, high) {
        Some(range) => range.into_scorer(),
        None => Box::new(NoScorer),
    }
}

struct ColumnRange<T> {
    column: Column<T>,
    low: T,
    high: T,
    max_doc: DocId,
    /// The bounds of blocks, and the two values as they have them.
    bounds: Option<(Arc<ColumnBounds>, (u64, u64))>,
    /// The end of the block whose bounds were looked at last.
    block_end: DocId,
    /// All documents of that block up to here match.
    all_until: DocId,
    doc: DocId,
    /// The matches of the documents from `doc` on up to `read_until`, where they were read at once.
    hits: Vec<DocId>,
    next_hit: usize,
    read_until: DocId,
    /// At most so many documents match.
    cost: u64,
}

/// The overlap of a block with a range, whose ends are as the bounds have them.
fn overlap(block: &Block, (low, high): (u64, u64)) -> Overlap {
    if block.least > high || block.greatest < low {
        Overlap::None
    } else if low <= block.least && block.greatest <= high && !block.has_missing {
        Overlap::All
    } else {
        Overlap::Some
    }
}

impl<T: PartialOrd + Copy + std::fmt::Debug + Send + Sync + 'static> ColumnRange<T> {
    /// `None` where no value is in the range.
    fn open(column: Column<T>, low: T, high: T) -> Option<ColumnRange<T>> {
        if low > high || column.values.num_vals() == 0 || column.max_value() < low || column.min_value() > high {
            return None;
        }
        let max_doc = column.num_docs();
        Some(ColumnRange {
            cost: u64::from(max_doc),
            max_doc,
            column,
            low,
            high,
            bounds: None,
            block_end: 0,
            all_until: 0,
            doc: 0,
            hits: Vec::new(),
            next_hit: 0,
            read_until: 0,
        })
    }

    fn bound_by(&mut self, bounds: Arc<ColumnBounds>, ends: (u64, u64)) {
        let blocks = bounds.blocks().iter().filter(|block| overlap(block, ends) != Overlap::None);
        self.cost = (blocks.count() as u64).saturating_mul(u64::from(BLOCK_DOCS));
        self.bounds = Some((bounds, ends));
    }

    fn into_scorer(mut self) -> Box<dyn Scorer> {
        self.settle(false);
        Box::new(ConstantScorer::new(self, 1.0))
    }

    fn has(&self, doc: DocId) -> bool {
        let mut values = self.column.values_for_doc(doc);
        values.any(|value| value >= self.low && value <= self.high)
    }

    /// Goes on to the first match from here on. Who `walks` will want the matches behind it, too: they are read at once.
    fn settle(&mut self, walks: bool) -> DocId {
        while self.doc < self.max_doc {
            if let Some((bounds, ends)) = &self.bounds
                && self.doc >= self.block_end
            {
                let block = ColumnBounds::block_of(self.doc);
                self.block_end = ColumnBounds::first_doc(block + 1).min(self.max_doc);
                let overlap = bounds
                    .blocks()
                    .get(block)
                    .map_or(Overlap::Some, |block| overlap(block, *ends));
                match overlap {
                    Overlap::None => {
                        self.doc = self.block_end;
                        continue;
                    }
                    Overlap::Some => {}
                    Overlap::All => self.all_until = self.block_end,
                }
            }
            if self.doc < self.all_until {
                return self.doc;
            }
            if walks {
                if let Some(next) = self.next_read() {
                    self.doc = next;
                    return next;
                }
                self.doc = self.read_until;
                continue;
            }
            if self.has(self.doc) {
                return self.doc;
            }
            self.doc += 1;
        }
        self.doc = TERMINATED;
        TERMINATED
    }

    /// The first match from here on up to `read_until`, behind which none was read.
    fn next_read(&mut self) -> Option<DocId> {
        if self.doc >= self.read_until {
            let end = match self.bounds {
                Some(_) => self.block_end,
                None => self.max_doc.min(self.doc.saturating_add(BLOCK_DOCS)),
            };
            self.hits.clear();
            self.next_hit = 0;
            self.column
                .get_docids_for_value_range(self.low..=self.high, self.doc..end, &mut self.hits);
            self.read_until = end;
            debug_assert!(
                self.hits.is_sorted_by(|a, b| a < b) && self.hits.iter().all(|doc| (self.doc..end).contains(doc)),
                "matches of a block are documents of it, in order"
            );
        }
        while self.hits.get(self.next_hit).is_some_and(|hit| *hit < self.doc) {
            self.next_hit += 1;
        }
        self.hits.get(self.next_hit).copied()
    }
}

impl<T: PartialOrd + Copy + std::fmt::Debug + Send + Sync + 'static> DocSet for ColumnRange<T> {
    fn advance(&mut self) -> DocId {
        if self.doc == TERMINATED {
            return TERMINATED;
        }
        self.doc += 1;
        self.settle(true)
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target {
            return self.doc;
        }
        self.doc = target;
        self.settle(false)
    }
    fn fill_buffer(&mut self, buffer: &mut [DocId; COLLECT_BLOCK_BUFFER_LEN]) -> usize {
        let mut len = 0;
        while len < buffer.len() && self.doc != TERMINATED {
            let room = &mut buffer[len..];
            if self.doc < self.all_until {
                let filled = room.len().min((self.all_until - self.doc) as usize);
                (self.doc..).zip(&mut room[..filled]).for_each(|(doc, place)| *place = doc);
                self.doc = room[filled - 1];
                len += filled;
            } else if self.hits.get(self.next_hit) == Some(&self.doc) {
                let hits = &self.hits[self.next_hit..];
                let filled = room.len().min(hits.len());
                room[..filled].copy_from_slice(&hits[..filled]);
                self.doc = room[filled - 1];
                len += filled;
            } else {
                room[0] = self.doc;
                len += 1;
            }
            self.advance();
        }
        len
    }
    /// Looks at the one document: the next one that matches may be far.
    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        let (at, found) = look_at(target, self.max_doc, |doc| self.has(doc));
        self.doc = at;
        found
    }
    fn doc(&self) -> DocId {
        self.doc
    }
    fn size_hint(&self) -> u32 {
        u32::try_from(self.cost).unwrap_or(u32::MAX)
    }
    fn cost(&self) -> u64 {
        self.cost
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{all_filled, all_of, columns_of};
    use super::*;
    use model::random::random;

    /// A range with bounds and without, walked and read many at once, beside a look at each document.
    fn check(seed: u64) {
        let mut random = random(seed);
        let max_doc = 1 + random(3_000) as DocId;
        let (spread, rises, one_in) = (1 + random(1_000), random(2) == 0, 1 + random(300));
        let [all] = columns_of(max_doc, |doc| {
            [match random(one_in) {
                _ if doc == 0 => vec![0],
                0 => (0..random(3)).map(|_| random(spread) as i64).collect(),
                _ if rises => vec![i64::from(doc) / 3],
                _ => vec![random(spread) as i64],
            }]
        });
        let low = random(spread) as i64 - 5;
        let high = low + random(spread) as i64;
        let has = |doc: &DocId| all.values_for_doc(*doc).any(|value| (low..=high).contains(&value));
        let expected: Vec<DocId> = (0..max_doc).filter(has).collect();
        let bounds = Arc::new(ColumnBounds::read(&all));
        for bounds in [None, Some(bounds)] {
            let open = || -> Box<dyn Scorer> {
                let Some(mut range) = ColumnRange::open(all.clone(), low, high) else {
                    return Box::new(NoScorer);
                };
                if let Some(bounds) = &bounds {
                    range.bound_by(bounds.clone(), (low.to_u64(), high.to_u64()));
                }
                range.into_scorer()
            };
            assert_eq!(all_of(&mut *open()), expected, "seed {seed}");
            assert_eq!(all_filled(&mut *open()), expected, "seed {seed}");
        }
    }

    #[test]
    fn ranges_are_read_as_they_are_walked() {
        (0..1_000).for_each(check);
    }
}
