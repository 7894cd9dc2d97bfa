//! Queries on `tree_path` fields and their sub-fields: the directories are chosen on the tree of the view, and their documents
//! are found by numbers (docs/internals/trees.md, D8).
//!
//! Not here: sorting and aggregating by them, which go by columns (`segment/src/tree_columns.rs`).

use super::Planner;
use crate::fields::target::Target;
use crate::scorers::constant::ConstantScorer;
use crate::scorers::constant_score::constant_explanation;
use crate::scorers::explain::Explained;
use crate::scorers::live_docs::LiveDocs;
use crate::scorers::lucene_string::with_boost;
use crate::scorers::node::{Node, Shared, score_at};
use crate::scorers::term_set::any_of;
use mapping::TreeField;
use mapping::tree::{DirId, Tree, TreePart};
use model::Result;
use segment::derived::Footprint;
use segment::directory_order::DirectoryOrder;
use segment::doc_bits::{BitsDocs, DocBits};
use segment::schema::Slot;
use segment::segment_view::SegmentView;
use segment::tree_columns::directories;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use tantivy::query::Scorer;
use tantivy::{DocId, Term};
use tantivy_fst::Automaton;

/// Few directories are looked for by their postings.
const POSTINGS_MAX: usize = 1024;

impl Planner<'_> {
    /// The documents with this value of a part.
    pub(super) fn in_directory(&self, target: &Target<'_>, field: TreeField, text: &str, boost: f32) -> Shared {
        let what = format!("{}:{text}", target.path);
        let tree = target.tree;
        let own = &*target.slot.shape.path;
        let found = || tree.resolve(own, &field.syntax.components(text).ok()?);
        let numbers = match field.part {
            TreePart::Path => found().map_or_else(Vec::new, |dir| tree.numbers_of(dir)),
            TreePart::Tree => match found() {
                None => Vec::new(),
                Some(dir) if tree.children(dir).next().is_none() => tree.numbers_of(dir),
                Some(dir) => {
                    let chosen = Chosen::Below(dir, tree.clone());
                    return documents(target, chosen, Some(moment_key(&what, tree)), what, boost);
                }
            },
            TreePart::Parent => found().map_or_else(Vec::new, |dir| {
                tree.children(dir).flat_map(|(_, child)| tree.numbers_of(child)).collect()
            }),
            TreePart::Name => select_directories(tree, own, field, &|value| field.syntax.is_same(value, text)),
            TreePart::Depth => select_directories(tree, own, field, &|value| value == text),
        };
        documents(
            target,
            Chosen::from_numbers(numbers),
            Some(moment_key(&what, tree)),
            what,
            boost,
        )
    }

    /// The documents with a value of a part that an automaton accepts.
    pub(super) fn in_directories_accepted<A: Automaton>(
        &self,
        target: &Target<'_>,
        field: TreeField,
        automaton: &A,
        boost: f32,
        what: String,
    ) -> Shared {
        let accept = |text: &str| {
            let step = |state, byte: &u8| automaton.accept(&state, *byte);
            automaton.is_match(&text.as_bytes().iter().fold(automaton.start(), step))
        };
        self.in_directories(target, field, &accept, boost, what)
    }

    /// The documents with a value of a part that `accept` says yes to.
    pub(super) fn in_directories(
        &self,
        target: &Target<'_>,
        field: TreeField,
        accept: &dyn Fn(&str) -> bool,
        boost: f32,
        what: String,
    ) -> Shared {
        let numbers = select_directories(target.tree, &target.slot.shape.path, field, accept);
        documents(target, Chosen::from_numbers(numbers), None, what, boost)
    }
}

/// The numbers of the directories with an accepted value of a part.
fn select_directories(tree: &Tree, own: &str, field: TreeField, accept: &dyn Fn(&str) -> bool) -> Vec<DirId> {
    let Some(root) = tree.root(own) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    // The depth of the accepted directory that the walk is below.
    let mut within: Option<usize> = None;
    tree.each_within(root, |dir, path| {
        let path_of = |names: &[&str]| field.syntax.join(names.iter().copied());
        let is_in = match field.part {
            TreePart::Path => accept(&path_of(path)),
            TreePart::Parent => path.split_last().is_some_and(|(_, above)| accept(&path_of(above))),
            TreePart::Name => path.last().is_some_and(|name| accept(name)),
            TreePart::Depth => accept(&path.len().to_string()),
            TreePart::Tree => {
                within = within.filter(|depth| path.len() > *depth);
                if within.is_none() && !path.is_empty() && accept(&path_of(path)) {
                    within = Some(path.len());
                }
                within.is_some()
            }
        };
        if is_in {
            out.extend(tree.numbers_of(dir));
        }
    });
    out
}

/// The name under which a segment keeps what a clause finds. Directories made since have no documents in a segment, so the
/// moves say which set it is.
fn moment_key(what: &str, tree: &Tree) -> String {
    format!("directories {what} {}", tree.last_move_seq())
}

/// The directories of a clause.
enum Chosen {
    /// Those with these numbers, in order.
    Numbers(Vec<DirId>),
    /// A live directory and everything below it, in this tree.
    Below(DirId, Arc<Tree>),
}

impl Chosen {
    fn from_numbers(mut numbers: Vec<DirId>) -> Chosen {
        numbers.sort_unstable();
        Chosen::Numbers(numbers)
    }
}

/// The documents of chosen directories. `key`: under which the set is kept with a segment.
fn documents(target: &Target<'_>, chosen: Chosen, key: Option<String>, what: String, boost: f32) -> Shared {
    Arc::new(DirectoriesNode {
        slot: target.slot.clone(),
        chosen,
        key,
        what,
        boost,
        below: OnceLock::new(),
    })
}

/// The documents of directories, all with one score.
struct DirectoriesNode {
    slot: Slot,
    chosen: Chosen,
    key: Option<String>,
    what: String,
    boost: f32,
    /// The numbers of [`Chosen::Below`], once a segment needs them.
    below: OnceLock<Vec<DirId>>,
}

impl Node for DirectoriesNode {
    fn says(&self) -> Option<String> {
        Some(with_boost(&self.what, self.boost))
    }

    fn most_score(&self) -> Option<f32> {
        Some(self.boost)
    }

    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let docs: Box<dyn Scorer> = match &self.chosen {
            Chosen::Numbers(numbers) if numbers.len() <= 1 => any_of(segment, &self.terms(numbers))?,
            _ => return Ok(Box::new(ConstantScorer::new(BitsDocs::new(self.set(segment)?), self.boost))),
        };
        Ok(Box::new(ConstantScorer::new(docs, self.boost)))
    }

    fn bits(&self, segment: &SegmentView) -> Result<Option<Arc<DocBits>>> {
        match &self.chosen {
            Chosen::Numbers(numbers) if numbers.len() <= 1 => Ok(None),
            _ => self.set(segment).map(Some),
        }
    }

    fn quick_count(&self, segment: &SegmentView, sight: &LiveDocs, most: u64) -> Result<Option<u64>> {
        Ok(self.bits(segment)?.map(|bits| sight.count_in_all(&[bits], most)))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        constant_explanation(score_at(self.scorer(segment)?, doc), self.boost, &self.what, (segment, doc))
    }
}

impl DirectoriesNode {
    fn terms(&self, numbers: &[DirId]) -> Vec<Term> {
        let term = |dir: &DirId| Term::from_field_u64(self.slot.field, u64::from(*dir));
        numbers.iter().map(term).collect()
    }

    fn set(&self, segment: &SegmentView) -> Result<Arc<DocBits>> {
        let build = || match &self.chosen {
            Chosen::Numbers(numbers) => self.with_numbers(segment, numbers),
            Chosen::Below(dir, tree) => self.below(segment, *dir, tree),
        };
        match &self.key {
            Some(key) => segment.core.once(key, build),
            None => build().map(Arc::new),
        }
    }

    fn with_numbers(&self, segment: &SegmentView, numbers: &[DirId]) -> Result<DocBits> {
        let max_doc = segment.reader.max_doc();
        if numbers.len() <= POSTINGS_MAX {
            return Ok(DocBits::of(max_doc, &mut *any_of(segment, &self.terms(numbers))?));
        }
        let (wanted, mut bits) = (DirectoryBits::of(numbers), DocBits::new(max_doc));
        if let Some(column) = directories(segment, &self.slot)? {
            for doc in 0..max_doc {
                if column.values_for_doc(doc).any(|dir| wanted.contains(dir)) {
                    bits.insert(doc);
                }
            }
        }
        Ok(bits)
    }

    /// The first large set since a move is made of the numbers, for an order costs time in proportion to the segment; the
    /// second makes the order, and every later one is a range of it.
    fn below(&self, segment: &SegmentView, dir: DirId, tree: &Tree) -> Result<DocBits> {
        let key = format!("sets of directories {} {}", self.slot.shape.path, tree.last_move_seq());
        let is_first = segment
            .core
            .once(&key, || Ok(Sets::default()))?
            .0
            .fetch_add(1, Ordering::Relaxed)
            == 0;
        if is_first {
            return self.with_numbers(segment, self.below.get_or_init(|| tree.subtree(dir)));
        }
        let order = DirectoryOrder::of(segment, &self.slot, tree)?;
        let mut bits = DocBits::new(segment.reader.max_doc());
        order.below(dir).iter().for_each(|doc| bits.insert(*doc));
        debug_assert!(
            self.with_numbers(segment, &tree.subtree(dir))? == bits,
            "trees.md D12: the order and the numbers give the same documents below [{dir}]"
        );
        Ok(bits)
    }
}

/// How many sets of directories a segment was asked for since the last move.
#[derive(Default)]
struct Sets(AtomicU32);

impl Footprint for Sets {
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// A set of numbers of directories, a bit each.
struct DirectoryBits(Vec<u64>);

impl DirectoryBits {
    fn of(sorted: &[DirId]) -> DirectoryBits {
        debug_assert!(
            sorted.is_sorted(),
            "the last number is the greatest: it gives the set its length"
        );
        let words = sorted.last().map_or(0, |last| *last as usize / 64 + 1);
        let mut bits = vec![0_u64; words];
        for dir in sorted {
            bits[*dir as usize / 64] |= 1 << (dir % 64);
        }
        DirectoryBits(bits)
    }
    fn contains(&self, dir: u64) -> bool {
        self.0.get(dir as usize / 64).is_some_and(|word| word >> (dir % 64) & 1 == 1)
    }
}
