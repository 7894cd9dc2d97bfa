//! The documents of a segment in the order of their directories: those in a directory or below it lie side by side.
//!
//! A walk over the tree meets each directory before those in it (preorder), so everything below a directory is one range.
//! The order is made of the numbers of a segment's documents and the way up from each, in time proportional to the documents
//! and their directories, and serves until a directory moves: directories made since have no documents in the segment.
//!
//! Not here: queries (`search/src/clauses/tree_path.rs`), values for sorting and aggregations (`tree_columns`).

use crate::derived::Footprint;
use crate::schema::Slot;
use crate::segment_view::SegmentView;
use crate::tree_columns::directories;
use mapping::tree::{DirId, Tree};
use model::Result;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;
use tantivy::DocId;

/// The documents of one field of a segment by directory.
#[derive(Debug, Default)]
pub struct DirectoryOrder {
    /// A document stands once for each of its directories.
    docs: Vec<DocId>,
    /// The documents below each directory that has some, as a range of `docs`.
    below: FxHashMap<DirId, (u32, u32)>,
}

impl Footprint for DirectoryOrder {
    fn heap_bytes(&self) -> usize {
        self.docs.heap_bytes() + self.below.heap_bytes()
    }
}

/// No directory: above the root of a field, or behind the last of a list.
const NONE: u32 = u32::MAX;

/// A directory of the segment while the order is made.
struct OrderedDirectory {
    dir: DirId,
    /// The documents that are in it and not below, as a range once it has its place.
    own: Range<u32>,
    /// The first directory in it, and the next one in the same one.
    first_in: u32,
    next: u32,
}

impl DirectoryOrder {
    /// The order of a field's documents by a tree, kept with the segment.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn of(segment: &SegmentView, slot: &Slot, tree: &Tree) -> Result<Arc<DirectoryOrder>> {
        let key = format!("directories in order {} {}", slot.shape.path, tree.last_move_seq());
        segment
            .core
            .once_as_fielddata(&key, || DirectoryOrder::build(segment, slot, tree))
    }

    /// The documents in a live directory or below it; those with several directories may stand there several times.
    pub fn below(&self, dir: DirId) -> &[DocId] {
        let (start, end) = self.below.get(&dir).copied().unwrap_or_default();
        debug_assert!(
            start <= end && end as usize <= self.docs.len(),
            "trees.md D12: the documents below directory {dir} are a range of the {} in the order, not {start}..{end}",
            self.docs.len()
        );
        &self.docs[start as usize..end as usize]
    }

    fn build(segment: &SegmentView, slot: &Slot, tree: &Tree) -> Result<DirectoryOrder> {
        let Some(column) = directories(segment, slot)? else {
            return Ok(DirectoryOrder::default());
        };
        let mut places = Places::default();
        let each = |f: &mut dyn FnMut(DocId, DirId)| {
            for doc in 0..segment.reader.max_doc() {
                column.values_for_doc(doc).for_each(|number| f(doc, number as DirId));
            }
        };
        each(&mut |_, number| places.count(tree, number));
        let below = places.arrange();
        let mut docs = vec![0; places.documents as usize];
        each(&mut |doc, number| {
            if let Some(at) = places.next_of(number) {
                docs[at as usize] = doc;
            }
        });
        debug_assert!(
            places.all.iter().all(|place| place.own.is_empty()),
            "trees.md D12: each document has its place in the order"
        );
        Ok(DirectoryOrder { docs, below })
    }
}

/// The directories of a segment's documents and those above them.
#[derive(Default)]
struct Places {
    all: Vec<OrderedDirectory>,
    /// The place of each live directory.
    of_live: FxHashMap<DirId, u32>,
    /// The place of each number in the segment; [`NONE`]: its directory is gone.
    of_number: FxHashMap<DirId, u32>,
    roots: Vec<u32>,
    documents: u32,
}

impl Places {
    /// One more document has this number.
    fn count(&mut self, tree: &Tree, number: DirId) {
        let at = match self.of_number.get(&number) {
            Some(at) => *at,
            None => {
                let at = tree.find(number).map_or(NONE, |live| self.place(tree, live));
                self.of_number.insert(number, at);
                at
            }
        };
        if let Some(place) = self.all.get_mut(at as usize) {
            place.own.end += 1;
            self.documents += 1;
        }
    }

    /// The place of a live directory, which is made with all above it.
    fn place(&mut self, tree: &Tree, live: DirId) -> u32 {
        let (mut dir, mut below, mut found) = (live, NONE, NONE);
        // Ends: the way up leads to a root (trees.md D2).
        loop {
            let known = self.of_live.get(&dir).copied();
            let at = known.unwrap_or(self.all.len() as u32);
            if known.is_none() {
                self.of_live.insert(dir, at);
                self.all.push(OrderedDirectory {
                    dir,
                    own: 0..0,
                    first_in: NONE,
                    next: NONE,
                });
            }
            if let Some(made) = self.all.get(below as usize).map(|made| made.next) {
                debug_assert_eq!(made, NONE, "a directory that was made just now is in no list");
                let first = std::mem::replace(&mut self.all[at as usize].first_in, below);
                self.all[below as usize].next = first;
            }
            if found == NONE {
                found = at;
            }
            if known.is_some() {
                return found;
            }
            match tree.parent(dir) {
                Some(parent) => (dir, below) = (parent, at),
                None => {
                    self.roots.push(at);
                    return found;
                }
            }
        }
    }

    /// Gives every directory the range of its own documents, in preorder; the ranges with all that is below.
    fn arrange(&mut self) -> FxHashMap<DirId, (u32, u32)> {
        let mut below = FxHashMap::default();
        below.reserve(self.all.len());
        let mut given = 0;
        for root in std::mem::take(&mut self.roots) {
            // A directory, where its documents begin, and the next one in it that is to be visited.
            let mut way = vec![self.enter(root, &mut given)];
            while let Some((at, start, next)) = way.pop() {
                if let Some(inner) = self.all.get(next as usize).map(|inner| inner.next) {
                    way.push((at, start, inner));
                    way.push(self.enter(next, &mut given));
                } else {
                    below.insert(self.all[at as usize].dir, (start, given));
                }
            }
        }
        debug_assert_eq!(
            given, self.documents,
            "trees.md D12: each document has its place in the order"
        );
        below
    }

    fn enter(&mut self, at: u32, given: &mut u32) -> (u32, u32, u32) {
        let place = &mut self.all[at as usize];
        let start = *given;
        *given += place.own.end;
        place.own = start..*given;
        (at, start, place.first_in)
    }

    /// Where the next document with this number stands; `None`: its directory is gone.
    fn next_of(&mut self, number: DirId) -> Option<u32> {
        let at = self.of_number.get(&number)?;
        self.all.get_mut(*at as usize)?.own.next()
    }
}
