//! Scorers made of scorers.

use super::conjunction::{among, and};
use super::constant::ConstantScorer;
use super::disjunction::{Sum, or};
use super::exclusion::without;
use super::fill::{BLOCK_DOCS, fill};
use super::node::seek_to;
use super::optional::with_option;
use super::rescored::rescore;
use segment::doc_bits::{BitsDocs, DocBits};
use std::net::Ipv6Addr;
use std::sync::Arc;
use tantivy::columnar::{Column, ColumnarReader, ColumnarWriter, DynamicColumn};
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, SeekDangerResult, TERMINATED};

fn bits(docs: &[u32]) -> Arc<DocBits> {
    let mut bits = DocBits::new(64);
    docs.iter().for_each(|doc| bits.insert(*doc));
    Arc::new(bits)
}

fn set(docs: &[u32], score: f32) -> Box<dyn Scorer> {
    Box::new(ConstantScorer::new(BitsDocs::new(bits(docs)), score))
}

fn check(mut got: Box<dyn Scorer>, expected: &[(u32, f32)]) {
    let mut seen = Vec::new();
    while got.doc() != TERMINATED {
        seen.push((got.doc(), got.score()));
        got.advance();
    }
    assert_eq!(seen, expected);
}

#[test]
fn combinations() {
    let (a, b, c) = (&[1, 3, 5, 9][..], &[3, 4, 5][..], &[5, 9][..]);
    check(and(vec![(set(a, 1.0), true), (set(b, 2.0), false)]), &[(3, 1.0), (5, 1.0)]);
    check(among(set(a, 1.0), bits(b)), &[(3, 1.0), (5, 1.0)]);
    check(among(set(a, 1.0), bits(&[])), &[]);
    let many: Vec<u32> = (0..40).collect();
    check(among(set(&many, 1.0), bits(&[7])), &[(7, 1.0)]);
    let mut sought = among(set(a, 1.0), bits(c));
    assert_eq!((sought.seek(2), sought.seek(5), sought.seek(6)), (5, 5, 9));
    check(and(vec![(set(a, 1.0), false), (set(b, 2.0), false)]), &[(3, 0.0), (5, 0.0)]);
    check(
        or(vec![set(a, 1.0), set(b, 2.0), set(c, 4.0)], 1, Sum::Added),
        &[(1, 1.0), (3, 3.0), (4, 2.0), (5, 7.0), (9, 5.0)],
    );
    check(
        or(vec![set(a, 1.0), set(b, 2.0), set(c, 4.0)], 2, Sum::Added),
        &[(3, 3.0), (5, 7.0), (9, 5.0)],
    );
    check(
        or(vec![set(a, 1.0), set(b, 2.0)], 1, Sum::Best(0.5)),
        &[(1, 1.0), (3, 2.5), (4, 2.0), (5, 2.5), (9, 1.0)],
    );
    check(without(set(a, 1.0), set(b, 1.0)), &[(1, 1.0), (9, 1.0)]);
    check(
        with_option(set(a, 1.0), set(c, 4.0)),
        &[(1, 1.0), (3, 1.0), (5, 5.0), (9, 5.0)],
    );
    check(
        rescore(set(a, 1.0), |doc, s| (doc > 3).then(|| s.score() * 2.0)),
        &[(5, 2.0), (9, 2.0)],
    );
}

/// Few and many sets, walked and sought, give what counting gives. Scores are powers of two: their sums are exact.
#[test]
fn unions_are_counts() {
    let mut random = model::random::random(7);
    for round in 0..300 {
        let all = 1 + random(12) as usize;
        let docs: Vec<Vec<u32>> = (0..all).map(|_| (0..64).filter(|_| random(4) == 0).collect()).collect();
        let least = 1 + random(all as u64) as usize;
        let how = [Sum::Added, Sum::Best(0.5), Sum::Coordinated(all)][round % 3];
        let score_of = |n: usize| f32::from(1u8 << (n % 4));
        let expected: Vec<(u32, f32)> = (0..64)
            .filter_map(|doc| {
                let has: Vec<usize> = (0..all).filter(|n| docs[*n].contains(&doc)).collect();
                (has.len() >= least).then(|| (doc, how.of(has.into_iter().map(score_of))))
            })
            .collect();
        let made = || {
            or(
                docs.iter().zip(0..).map(|(docs, n)| set(docs, score_of(n))).collect(),
                least,
                how,
            )
        };
        check(made(), &expected);
        let mut sought = made();
        let mut target = random(8) as u32;
        while target < 64 {
            let next = expected.iter().find(|(doc, _)| *doc >= target.max(sought.doc()));
            assert_eq!(
                seek_to(sought.as_mut(), target),
                next.map_or(TERMINATED, |(doc, _)| *doc),
                "{round}: {target}"
            );
            if let Some((_, score)) = next {
                assert_eq!(sought.score(), *score, "{round}: {target}");
            }
            target += 1 + random(8) as u32;
        }
    }
}

/// A set that tells by values whether a document is in it, wherever it stands, as ranges of columns do.
struct ByValue(Box<dyn Scorer>, Arc<DocBits>);

impl DocSet for ByValue {
    fn advance(&mut self) -> DocId {
        self.0.advance()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        self.0.seek(target)
    }
    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        match self.1.contains(target) {
            true if self.0.doc() <= target => {
                seek_to(self.0.as_mut(), target);
                SeekDangerResult::Found
            }
            true => SeekDangerResult::Found,
            false => SeekDangerResult::SeekLowerBound(target + 1),
        }
    }
    fn doc(&self) -> DocId {
        self.0.doc()
    }
    fn size_hint(&self) -> u32 {
        self.0.size_hint()
    }
}

impl Scorer for ByValue {
    fn score(&mut self) -> f32 {
        self.0.score()
    }
}

/// The documents of a set, one after the other.
pub(super) fn all_of(set: &mut dyn Scorer) -> Vec<DocId> {
    let mut docs = Vec::new();
    while set.doc() != TERMINATED {
        docs.push(set.doc());
        set.advance();
    }
    docs
}

/// The same, read many at once.
pub(super) fn all_filled(set: &mut dyn Scorer) -> Vec<DocId> {
    let mut docs = Vec::new();
    let mut block = [0; BLOCK_DOCS];
    while set.doc() != TERMINATED {
        let len = fill(set, &mut block);
        assert!(len == block.len() || set.doc() == TERMINATED, "fewer are at the end alone");
        docs.extend(&block[..len]);
    }
    docs
}

/// A value that a column of a test can have.
pub(super) trait ColumnValue: Copy {
    fn write(self, doc: DocId, name: &str, writer: &mut ColumnarWriter);
    fn column(column: DynamicColumn) -> Option<Column<Self>>;
}

impl ColumnValue for i64 {
    fn write(self, doc: DocId, name: &str, writer: &mut ColumnarWriter) {
        writer.record_numerical(doc, name, self);
    }
    fn column(column: DynamicColumn) -> Option<Column<i64>> {
        column.into()
    }
}

impl ColumnValue for f64 {
    fn write(self, doc: DocId, name: &str, writer: &mut ColumnarWriter) {
        writer.record_numerical(doc, name, self);
    }
    fn column(column: DynamicColumn) -> Option<Column<f64>> {
        column.into()
    }
}

impl ColumnValue for Ipv6Addr {
    fn write(self, doc: DocId, name: &str, writer: &mut ColumnarWriter) {
        writer.record_ip_addr(doc, name, self);
    }
    fn column(column: DynamicColumn) -> Option<Column<Ipv6Addr>> {
        column.into()
    }
}

/// Columns of `max_doc` documents, with the values of each. Each column has one at least.
pub(super) fn columns_of<T: ColumnValue, const N: usize>(
    max_doc: DocId,
    mut values: impl FnMut(DocId) -> [Vec<T>; N],
) -> [Column<T>; N] {
    let mut writer = ColumnarWriter::default();
    let name = |at: usize| format!("c{at}");
    for doc in 0..max_doc {
        for (at, values) in values(doc).into_iter().enumerate() {
            values.into_iter().for_each(|value| value.write(doc, &name(at), &mut writer));
        }
    }
    let mut out = Vec::new();
    writer.serialize(max_doc, None, &mut out).unwrap();
    let reader = ColumnarReader::open(out).unwrap();
    std::array::from_fn(|at| T::column(reader.read_columns(&name(at)).unwrap()[0].open().unwrap()).unwrap())
}

/// A random set of sets, and its documents.
fn any_set(random: &mut impl FnMut(u64) -> u64, depth: u32) -> (Box<dyn Scorer>, Vec<u32>) {
    if depth == 0 {
        let docs: Vec<u32> = (0..64).filter(|_| random(3) > 0).collect();
        let leaf: Box<dyn Scorer> = match random(2) {
            0 => set(&docs, 1.0),
            _ => Box::new(ByValue(set(&docs, 1.0), bits(&docs))),
        };
        return (leaf, docs);
    }
    let (one, docs) = any_set(random, depth - 1);
    let (other, others) = any_set(random, depth - 1);
    let left = |keeps: bool| docs.iter().copied().filter(|doc| others.contains(doc) == keeps).collect();
    match random(3) {
        0 => (without(one, other), left(false)),
        1 => (among(one, bits(&others)), left(true)),
        _ => (and(vec![(one, true), (other, false)]), left(true)),
    }
}

/// A set in another one is asked for documents by themselves, and finds those that it has.
#[test]
fn sets_find_single_documents() {
    let mut random = model::random::random(11);
    for round in 0..2_000 {
        let depth = 1 + random(3) as u32;
        let (mut asked, docs) = any_set(&mut random, depth);
        for target in (0..64).filter(|_| random(3) > 0) {
            let found = matches!(asked.seek_danger(target), SeekDangerResult::Found);
            assert_eq!(found, docs.contains(&target), "round {round}: {target} in {docs:?}");
        }
        let (mut walked, docs) = any_set(&mut random, depth);
        assert_eq!(all_of(&mut *walked), docs, "round {round}");
    }
}
