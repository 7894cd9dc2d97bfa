//! Queries on `tree_path` fields and their sub-fields: the directories are chosen on the tree of the view, and their documents
//! are found by numbers (docs/internals/trees.md, D8).
//!
//! Not here: sorting and aggregating by them, which go by columns (`segment/src/tree_columns.rs`).

use super::Planner;
use crate::fields::target::Target;
use crate::scorers::constant::{ConstantScorer, NoScorer};
use crate::scorers::filter::FilterNode;
use crate::scorers::node::Shared;
use crate::scorers::term_set::any_of;
use mapping::TreeField;
use mapping::tree::{DirId, Tree, TreePart};
use model::Result;
use segment::doc_bits::{BitsDocs, DocBits};
use segment::segment_view::SegmentView;
use segment::tree_columns::directories;
use std::sync::Arc;
use tantivy::Term;
use tantivy::query::Scorer;
use tantivy_fst::Automaton;

/// More directories than this are looked for in the column, fewer by their postings.
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
            TreePart::Tree => found().map_or_else(Vec::new, |dir| tree.subtree(dir)),
            TreePart::Parent => found().map_or_else(Vec::new, |dir| {
                tree.children(dir).flat_map(|(_, child)| tree.numbers_of(child)).collect()
            }),
            TreePart::Name => chosen(tree, own, field, &|value| field.syntax.is_same(value, text)),
            TreePart::Depth => chosen(tree, own, field, &|value| value == text),
        };
        // Directories made since have no documents in a segment, so the moves tell which set it is.
        let key = format!("directories {what} {}", tree.moved());
        documents(target, numbers, Some(key), what, boost)
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
        let numbers = chosen(target.tree, &target.slot.shape.path, field, accept);
        documents(target, numbers, None, what, boost)
    }
}

/// The numbers of the directories with an accepted value of a part.
fn chosen(tree: &Tree, own: &str, field: TreeField, accept: &dyn Fn(&str) -> bool) -> Vec<DirId> {
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

/// The documents of these directories. `key`: under which the set is kept with a segment.
fn documents(target: &Target<'_>, mut numbers: Vec<DirId>, key: Option<String>, what: String, boost: f32) -> Shared {
    numbers.sort_unstable();
    let slot = target.slot.clone();
    Arc::new(FilterNode {
        boost,
        what,
        docs: move |segment: &SegmentView| -> Result<Box<dyn Scorer>> {
            let term = |dir: &DirId| Term::from_field_u64(slot.field, u64::from(*dir));
            let build = || {
                let mut bits = DocBits::new(segment.reader.max_doc());
                if numbers.len() <= POSTINGS_MAX {
                    let terms: Vec<Term> = numbers.iter().map(term).collect();
                    return Ok(DocBits::of(segment.reader.max_doc(), &mut *any_of(segment, &terms)?));
                }
                let wanted = Numbers::of(&numbers);
                if let Some(column) = directories(segment, &slot)? {
                    for doc in 0..segment.reader.max_doc() {
                        if column.values_for_doc(doc).any(|dir| wanted.contains(dir)) {
                            bits.insert(doc);
                        }
                    }
                }
                Ok(bits)
            };
            let bits = match (&numbers[..], &key) {
                ([], _) => return Ok(Box::new(NoScorer)),
                ([only], _) => return any_of(segment, &[term(only)]),
                (_, Some(key)) => segment.core.once(key, build)?,
                (_, None) => Arc::new(build()?),
            };
            Ok(Box::new(ConstantScorer::new(BitsDocs::new(bits), 1.0)))
        },
    })
}

/// A set of numbers of directories, a bit each.
struct Numbers(Vec<u64>);

impl Numbers {
    fn of(sorted: &[DirId]) -> Numbers {
        let words = sorted.last().map_or(0, |last| *last as usize / 64 + 1);
        let mut bits = vec![0_u64; words];
        for dir in sorted {
            bits[*dir as usize / 64] |= 1 << (dir % 64);
        }
        Numbers(bits)
    }
    fn contains(&self, dir: u64) -> bool {
        self.0.get(dir as usize / 64).is_some_and(|word| word >> (dir % 64) & 1 == 1)
    }
}
