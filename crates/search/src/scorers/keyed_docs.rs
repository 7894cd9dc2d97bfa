//! Documents of a segment that have a key of a join, where no list of terms leads to them.
//!
//! The keys of each document are looked for in the set, one document after the other, as long as few are asked for: behind a clause with
//! few matches, or where a search ends early. After a part of the segment, those that may have a key are read from the rows of the column,
//! window by window (`segment::keyed_rows`), and only these are looked at.
//!
//! Not here: joins with few keys (`key_set`).

use super::key_set::KeyScores;
use segment::doc_bits::DocBits;
use segment::keyed_rows::KeyedRows;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, SeekDangerResult, TERMINATED};

/// Documents of a window.
const WINDOW: DocId = if cfg!(test) { 64 } else { 16_384 };
/// To look for the keys of one document takes as long as for so many keys that stand in a row.
const LOOK_TIMES: usize = 32;
/// No more documents are looked at one by one: a search that ends early has counted 10,000 by then.
const LOOKS_MAX: usize = 1 << 14;
/// A look that finds nothing counts so many times: where few documents have a key, a search will look at all of them.
const MISS_TIMES: usize = 16;
/// The first documents are looked at one by one in any case.
const FIRST_LOOKS: usize = if cfg!(debug_assertions) { 3 } else { 64 };

/// Documents that may have a key, window by window.
struct Windows {
    rows: KeyedRows,
    /// The documents of the window, counted from `start` on.
    window: DocBits,
    /// The documents that are in the window.
    start: DocId,
    end: DocId,
}

impl Windows {
    fn new(rows: KeyedRows) -> Windows {
        Windows {
            rows,
            window: DocBits::new(WINDOW - 1),
            start: 0,
            end: 0,
        }
    }

    /// The first document from one on, which rises. No document is behind `max_doc`.
    fn next(&mut self, mut from: DocId, max_doc: DocId) -> DocId {
        debug_assert!(from >= self.start, "search.md S8: windows are made in the order of documents");
        if let Some(doc) = self.rows.next(from) {
            return doc;
        }
        loop {
            if from < self.end {
                let place = self.window.next(from - self.start);
                if place != TERMINATED {
                    return self.start + place;
                }
                from = self.end;
            }
            if from >= max_doc {
                return TERMINATED;
            }
            (self.start, self.end) = (from, max_doc.min(from.saturating_add(WINDOW)));
            self.window.clear();
            let Windows {
                rows,
                window,
                start,
                end,
            } = self;
            rows.each(*start..*end, |doc| window.insert(doc - *start));
        }
    }
}

/// Documents with a key.
pub(crate) struct KeyedDocs {
    scores: KeyScores,
    doc: DocId,
    max_doc: DocId,
    /// Documents that are still looked at one by one.
    looks_left: usize,
    windows: Option<Windows>,
}

impl KeyedDocs {
    /// The documents below `max_doc`.
    pub(crate) fn new(scores: KeyScores, max_doc: DocId) -> KeyedDocs {
        let cost = scores.rows_cost();
        let looks_left = cost.map_or(usize::MAX, |cost| (cost / LOOK_TIMES).clamp(FIRST_LOOKS, LOOKS_MAX));
        let mut docs = KeyedDocs {
            scores,
            doc: 0,
            max_doc,
            looks_left,
            windows: None,
        };
        docs.settle(0);
        docs
    }

    /// Goes on to the first document with a key from one on.
    fn settle(&mut self, from: DocId) -> DocId {
        self.doc = from;
        while self.doc < self.max_doc {
            if self.windows.is_none() && self.looks_left == 0 {
                self.windows = self.scores.rows().map(Windows::new);
            }
            let from = self.doc;
            let mut has_key = false;
            match &mut self.windows {
                Some(windows) => {
                    self.doc = windows.next(from, self.max_doc);
                    has_key = self.doc != TERMINATED && windows.rows.is_exact() && self.scores.note_one_score();
                }
                None => self.looks_left = self.looks_left.saturating_sub(1),
            }
            debug_assert!(
                (from..self.doc.min(self.max_doc)).all(|doc| !self.scores.look(doc)),
                "search.md S15: a document that a window passes over has no key of the set"
            );
            debug_assert!(
                !has_key || self.scores.look(self.doc),
                "search.md S15: a document of exact rows has a key of the set"
            );
            if self.doc == TERMINATED || has_key || self.scores.look(self.doc) {
                return self.doc;
            }
            self.looks_left = self.looks_left.saturating_sub(MISS_TIMES - 1);
            self.doc += 1;
        }
        self.doc = TERMINATED;
        TERMINATED
    }
}

impl DocSet for KeyedDocs {
    fn advance(&mut self) -> DocId {
        match self.doc {
            TERMINATED => TERMINATED,
            doc => self.settle(doc + 1),
        }
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target { self.doc } else { self.settle(target) }
    }
    /// Looks at the one document: the next one with a key may be far.
    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        if target >= self.max_doc || self.doc == TERMINATED {
            self.doc = TERMINATED;
            return SeekDangerResult::SeekLowerBound(TERMINATED);
        }
        if self.doc >= target {
            return match self.doc == target {
                true => SeekDangerResult::Found,
                false => SeekDangerResult::SeekLowerBound(self.doc),
            };
        }
        match self.scores.look(target) {
            true => {
                self.doc = target;
                SeekDangerResult::Found
            }
            false => SeekDangerResult::SeekLowerBound(target + 1),
        }
    }
    fn doc(&self) -> DocId {
        self.doc
    }
    fn size_hint(&self) -> u32 {
        self.max_doc
    }
    fn cost(&self) -> u64 {
        // Each look costs more than a step of a list of documents.
        u64::from(self.max_doc) * 2
    }
}

impl Scorer for KeyedDocs {
    fn score(&mut self) -> f32 {
        self.scores.score()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::joins::{Joined, JoinedKeys, KeyReader, Place};
    use crate::tests::view_of;
    use dsl::query::ScoreMode;
    use model::random::random;
    use segment::key_columns::{ByKey, Key};
    use serde_json::{Value, json};
    use std::sync::Arc;

    /// Goes through documents in steps of all kinds and compares with `expected`, which says which documents have a key.
    fn check(mut docs: KeyedDocs, expected: &[bool], random: &mut impl FnMut(u64) -> u64) {
        let next = |from: usize| match expected.iter().skip(from).position(|is_in| *is_in) {
            Some(place) => (from + place) as DocId,
            None => TERMINATED,
        };
        assert_eq!(docs.doc(), next(0));
        while docs.doc() != TERMINATED {
            let at = docs.doc() as usize;
            let target = (at as u64 + 1 + random(90)) as DocId;
            match random(3) {
                0 => assert_eq!(docs.advance(), next(at + 1)),
                1 => assert_eq!(docs.seek(target), next(target as usize)),
                _ => match docs.seek_danger(target) {
                    SeekDangerResult::Found => assert!(expected[target as usize], "{target}"),
                    SeekDangerResult::SeekLowerBound(bound) => {
                        assert!(expected.get(target as usize) != Some(&true), "{target}");
                        assert!(bound > target && bound <= next(target as usize), "{target}: {bound}");
                        // Who was refused asks for a later document.
                        if bound != TERMINATED {
                            assert_eq!(docs.seek(bound), next(bound as usize));
                        }
                    }
                },
            }
        }
    }

    #[test]
    fn documents_come_as_a_fold_finds_them() {
        let mut random = random(5);
        let mapping = json!({ "properties":
            { "k": { "type": "keyword" }, "n": { "type": "long" }, "u": { "type": "unsigned_long" }, "f": { "type": "double" } } });
        type ValueOf = fn(u64) -> Value;
        let fields: [(&str, ValueOf); 4] = [
            ("k", |number| json!(format!("key-{number}"))),
            ("n", |number| json!(number as i64 - 20)),
            // Some of them are beyond what a `long` holds.
            ("u", |number| json!((1u64 << 63) - 10 + number)),
            ("f", |number| json!(number as f64 / 2.0)),
        ];
        for (values_most, keys) in [(1, 40), (3, 40), (1, 2000), (2, 7)] {
            let mut own = || -> Vec<u64> { (0..random(values_most + 1)).map(|_| random(keys)).collect() };
            let all: Vec<Vec<u64>> = (0..700).map(|_| own()).collect();
            let with_all_fields = |own: &Vec<u64>| -> Value {
                let of = |(name, value_of): &(&str, ValueOf)| {
                    let values: Vec<Value> = own.iter().map(|k| value_of(*k)).collect();
                    ((*name).to_owned(), Value::from(values))
                };
                fields.iter().map(of).collect()
            };
            let docs: Vec<Value> = all.iter().map(with_all_fields).collect();
            let view = view_of(&mapping, &docs, &[700], &|_, _| false);
            let segment = &view.segments[0];
            for ((field, value_of), one_in) in fields.iter().flat_map(|field| [1, 3, 20, 1000].map(|one_in| (field, one_in))) {
                let place = Place::of(&view, field).unwrap().unwrap();
                let wanted: Vec<u64> = (0..keys).filter(|_| random(one_in) == 0).collect();
                let text = |k: u64| match value_of(k) {
                    Value::String(text) => text,
                    // A fraction without one is a whole number.
                    number => number.to_string().trim_end_matches(".0").to_owned(),
                };
                let set: ByKey<()> = wanted.iter().map(|k| (Key::of(text(*k).as_bytes()), ())).collect();
                let expected: Vec<bool> = all.iter().map(|own| own.iter().any(|k| wanted.contains(k))).collect();
                let joined = Joined {
                    kind: JoinedKeys::Plain(set),
                    texts: None,
                    budget: Arc::default(),
                    reserved: 0,
                };
                let joined = Arc::new(joined);
                // Documents of strings are read from rows at first, and then looked up.
                for _ in 0..3 {
                    let reader = KeyReader::open(segment, &place).unwrap().unwrap();
                    let scores = KeyScores::new((reader, place.column(segment)), joined.clone(), ScoreMode::None, 1.0);
                    check(KeyedDocs::new(scores, segment.reader.max_doc()), &expected, &mut random);
                }
            }
        }
    }
}
