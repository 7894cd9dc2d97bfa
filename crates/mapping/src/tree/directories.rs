//! The tree itself: numbers of directories, their names and their places. A clone takes constant time and shares everything.
//!
//! Not here: how it changes (`operation`), whether a change is sound (`plan`).

use imbl::{OrdMap, OrdSet, Vector};
use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

/// The number of a directory. It is never given twice (trees.md D1).
pub type DirId = u32;

/// Stands above the roots of fields.
pub(super) const NOWHERE: DirId = u32::MAX;

/// If more than this part of all directories is below one, they are found by going through all: a step down by names takes
/// some ten times as long as one up by places.
const SWEEP_SHARE: usize = 16;

/// Where a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In another one; [`NOWHERE`]: the root of a field.
    In(DirId),
    /// Merged into another one.
    MergedInto(DirId),
    /// Removed, with everything below it.
    Gone,
}

#[derive(Clone, Debug)]
pub(super) struct DirectoryNode {
    pub(super) place: Place,
    pub(super) name: Arc<str>,
}

/// A live directory as it is found: by the number of the one that it is in, and its name, in lower case where case does not
/// count. Its own number takes no part in the order.
#[derive(Clone, Debug)]
pub(super) struct NamedChild {
    pub(super) parent: DirId,
    pub(super) id: DirId,
    pub(super) name: Arc<str>,
}

impl PartialEq for NamedChild {
    fn eq(&self, other: &NamedChild) -> bool {
        self.key() == other.key()
    }
}
impl Eq for NamedChild {}
impl PartialOrd for NamedChild {
    fn partial_cmp(&self, other: &NamedChild) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for NamedChild {
    fn cmp(&self, other: &NamedChild) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// A key that owns nothing.
pub(super) trait AsKey {
    fn key(&self) -> (DirId, &str);
}
impl AsKey for NamedChild {
    fn key(&self) -> (DirId, &str) {
        (self.parent, &self.name)
    }
}
impl AsKey for (DirId, &str) {
    fn key(&self) -> (DirId, &str) {
        *self
    }
}
impl<'a> Borrow<dyn AsKey + 'a> for NamedChild {
    fn borrow(&self) -> &(dyn AsKey + 'a) {
        self
    }
}
impl PartialEq for dyn AsKey + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for dyn AsKey + '_ {}
impl PartialOrd for dyn AsKey + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for dyn AsKey + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// A name without case.
pub(super) fn fold(name: &str) -> String {
    name.to_lowercase()
}

/// Every directory of an index, of all its `tree_path` fields.
#[derive(Clone, Default)]
pub struct Tree {
    pub(super) nodes: Vector<DirectoryNode>,
    /// The live directories by place and name.
    pub(super) names: OrdSet<NamedChild>,
    /// The number of the operation that last moved, merged or removed a directory, of those that were.
    pub(super) moves: OrdMap<DirId, u64>,
    /// Directories that were merged, by what they were merged into.
    pub(super) merged: OrdMap<(DirId, DirId), ()>,
    /// Roots of fields whose names are the same in upper and lower case.
    pub(super) folding: OrdMap<DirId, ()>,
    /// Directories that were removed, by the number of the operation.
    pub(super) removed: OrdMap<u64, DirId>,
    /// Operations applied.
    pub(super) seq: u64,
    /// The number of the newest operation that moved, merged or removed something.
    pub(super) moved: u64,
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tree({} directories at {})", self.nodes.len(), self.seq)
    }
}

impl Tree {
    /// Whether no directory was ever made.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
    /// The number of directories ever made.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }
    /// The number of operations applied.
    pub fn seq(&self) -> u64 {
        self.seq
    }
    /// The number of the newest operation that moved, merged or removed something: two trees of an index with the same number
    /// give each directory the same path.
    pub fn last_move_seq(&self) -> u64 {
        self.moved
    }
    /// The number of the newest operation that removed something; 0: none did.
    pub fn last_removal_seq(&self) -> u64 {
        self.removed.get_max().map_or(0, |(seq, _)| *seq)
    }
    /// The root of a field.
    pub fn root(&self, field: &str) -> Option<DirId> {
        self.child(NOWHERE, field)
    }
    /// A live directory by place and name.
    pub fn child(&self, parent: DirId, name: &str) -> Option<DirId> {
        let name = self.key_of(parent, name);
        self.names.get(&(parent, &*name) as &dyn AsKey).map(|found| found.id)
    }
    /// A name as the directories in one are found by it.
    pub(super) fn key_of<'n>(&self, parent: DirId, name: &'n str) -> Cow<'n, str> {
        match self.folds(parent) {
            true => Cow::Owned(fold(name)),
            false => Cow::Borrowed(name),
        }
    }
    /// Is a directory below a root where case does not count?
    fn folds(&self, dir: DirId) -> bool {
        if self.folding.is_empty() || dir == NOWHERE {
            return false;
        }
        let mut at = dir;
        for _ in 0..=2 * self.nodes.len() {
            match self.nodes.get(at as usize).map(|node| node.place) {
                Some(Place::In(NOWHERE)) => return self.folding.contains_key(&at),
                Some(Place::In(next) | Place::MergedInto(next)) => at = next,
                Some(Place::Gone) | None => return false,
            }
        }
        unreachable!("trees.md D2: the way up from [{dir}] ends at a root")
    }
    /// The live directories in one, by name.
    pub fn children(&self, parent: DirId) -> impl Iterator<Item = (&str, DirId)> {
        let range = self
            .names
            .range::<_, dyn AsKey>((Bound::Included(&(parent, "") as &dyn AsKey), Bound::Unbounded));
        let own = range.take_while(move |child| child.parent == parent);
        own.map(|child| (&*self.nodes[child.id as usize].name, child.id))
    }
    /// The live directories in one whose names come after this one.
    pub fn children_after(&self, parent: DirId, after: &str) -> impl Iterator<Item = (&str, DirId)> {
        let after = self.key_of(parent, after);
        let range = self
            .names
            .range::<_, dyn AsKey>((Bound::Excluded(&(parent, &*after) as &dyn AsKey), Bound::Unbounded));
        let own = range.take_while(move |child| child.parent == parent);
        own.map(|child| (&*self.nodes[child.id as usize].name, child.id))
    }
    /// The live directories below one, down to `depth` levels, each with its names from there: in the order of names, each before
    /// those in it. At most `most` of them, behind the one with the names `after`, which need not be there.
    pub fn below_after(&self, top: DirId, after: &[&str], depth: usize, most: usize) -> Vec<(Vec<&str>, DirId)> {
        let mut names: Vec<&str> = Vec::new();
        // For each level what is left of it; the names are those that lead to the last.
        let mut levels: Vec<Box<dyn Iterator<Item = (&str, DirId)> + '_>> = Vec::new();
        let (mut at, mut rest) = (Some(top), after);
        while let (Some(dir), Some((name, deeper))) = (at, rest.split_first()) {
            levels.push(Box::new(self.children_after(dir, name)));
            // A directory comes before those in it.
            at = self.child(dir, name).filter(|_| levels.len() < depth);
            rest = deeper;
            if let Some(dir) = at {
                names.push(&self.nodes[dir as usize].name);
            }
        }
        if let Some(dir) = at {
            levels.push(Box::new(self.children(dir)));
        }
        let mut out = Vec::new();
        while let Some(level) = levels.last_mut() {
            if out.len() >= most {
                break;
            }
            match level.next() {
                Some((name, dir)) => {
                    let path: Vec<&str> = names.iter().copied().chain([name]).collect();
                    if levels.len() < depth {
                        levels.push(Box::new(self.children(dir)));
                        names.push(name);
                    }
                    out.push((path, dir));
                }
                None => {
                    levels.pop();
                    names.pop();
                }
            }
        }
        out
    }
    /// The directory that a number stands for, through merges; `None`: it was removed itself, or never made.
    pub(super) fn merged_into(&self, id: DirId) -> Option<DirId> {
        let mut at = id;
        // Each step leads to a directory that was not merged when the one before was, so no chain is longer than that.
        for _ in 0..=self.nodes.len() {
            match self.nodes.get(at as usize)?.place {
                Place::MergedInto(into) => at = into,
                Place::In(_) => return Some(at),
                Place::Gone => return None,
            }
        }
        unreachable!("trees.md D3: merges lead from directory to directory in no circle")
    }
    /// The live directory that a number stands for; `None`: it is gone, or one above it is.
    pub fn find(&self, id: DirId) -> Option<DirId> {
        let found = self.merged_into(id)?;
        self.way_up(found).then_some(found)
    }
    fn way_up(&self, id: DirId) -> bool {
        let mut at = id;
        for _ in 0..=self.nodes.len() {
            match self.nodes.get(at as usize).map(|node| node.place) {
                Some(Place::In(NOWHERE)) => return true,
                Some(Place::In(parent)) => at = parent,
                Some(Place::Gone) | None => return false,
                Some(Place::MergedInto(_)) => unreachable!("trees.md D3: nothing is in a merged directory"),
            }
        }
        unreachable!("trees.md D2: the way up from [{id}] ends at a root")
    }
    /// The directory that a live one is in; `None`: it is the root of a field.
    pub fn parent(&self, live: DirId) -> Option<DirId> {
        match self.nodes.get(live as usize)?.place {
            Place::In(parent) => (parent != NOWHERE).then_some(parent),
            Place::MergedInto(_) | Place::Gone => {
                debug_assert!(false, "trees.md D2: [{live}] is no live directory");
                None
            }
        }
    }
    /// The names from the root to a directory; `None`: it is gone.
    pub fn components(&self, id: DirId) -> Option<Vec<&str>> {
        let mut at = self.merged_into(id)?;
        let mut out = Vec::new();
        for _ in 0..=self.nodes.len() {
            let node = self.nodes.get(at as usize)?;
            match node.place {
                Place::In(NOWHERE) => {
                    out.reverse();
                    return Some(out);
                }
                Place::In(parent) => {
                    out.push(&*node.name);
                    at = parent;
                }
                Place::Gone => return None,
                Place::MergedInto(_) => unreachable!("trees.md D3: nothing is in a merged directory"),
            }
        }
        unreachable!("trees.md D2: the way up from [{id}] ends at a root")
    }
    /// The number of the operation that last moved, merged or removed a directory itself; 0: none did.
    pub(super) fn last_move_of(&self, id: DirId) -> u64 {
        self.moves.get(&id).copied().unwrap_or(0)
    }
    /// Whether the path of a directory may be another since an operation, by the numbers of those on the way up.
    pub fn moved_since(&self, id: DirId, seq: u64) -> bool {
        if self.moved <= seq {
            return false;
        }
        let mut at = id;
        for _ in 0..=2 * self.nodes.len() {
            let Some(node) = self.nodes.get(at as usize) else {
                return true;
            };
            if self.last_move_of(at) > seq {
                return true;
            }
            match node.place {
                Place::In(NOWHERE) => return false,
                Place::In(next) | Place::MergedInto(next) => at = next,
                Place::Gone => return true,
            }
        }
        unreachable!("trees.md D2: the way up from [{id}] ends at a root")
    }
    /// The directory of these components below one: the deepest that is there, and how many components lead to it.
    pub fn deepest(&self, from: DirId, components: &[&str]) -> (DirId, usize) {
        let mut at = from;
        for (n, name) in components.iter().enumerate() {
            match self.child(at, name) {
                Some(child) => at = child,
                None => return (at, n),
            }
        }
        (at, components.len())
    }
    /// The directory of a field's path, if it is there.
    pub fn resolve(&self, field: &str, components: &[&str]) -> Option<DirId> {
        let (found, known) = self.deepest(self.root(field)?, components);
        (known == components.len()).then_some(found)
    }
    /// Whether a live directory is another one or below it.
    pub fn is_within(&self, id: DirId, above: DirId) -> bool {
        let mut at = id;
        for _ in 0..=self.nodes.len() {
            if at == above {
                return true;
            }
            match self.nodes.get(at as usize).map(|node| node.place) {
                Some(Place::In(parent)) if parent != NOWHERE => at = parent,
                _ => return false,
            }
        }
        unreachable!("trees.md D2: the way up from [{id}] ends at a root")
    }
    /// Every number that stands for a live directory: its own, and those of what was merged into it.
    pub fn numbers_of(&self, id: DirId) -> Vec<DirId> {
        let mut out = vec![id];
        let mut next = 0;
        while let Some(into) = out.get(next).copied() {
            next += 1;
            let range = self.merged.range((into, 0)..=(into, DirId::MAX));
            out.extend(range.map(|((_, merged), ())| *merged));
        }
        out
    }
    /// Shows a live directory and every one below it, each with its names from the root; in no order.
    pub fn each_within(&self, id: DirId, mut f: impl FnMut(DirId, &[&str])) {
        let mut path = self.components(id).unwrap_or_default();
        f(id, &path);
        let mut stack: Vec<Box<dyn Iterator<Item = (&str, DirId)> + '_>> = vec![Box::new(self.children(id))];
        while let Some(top) = stack.last_mut() {
            match top.next() {
                Some((name, child)) => {
                    path.push(name);
                    f(child, &path);
                    stack.push(Box::new(self.children(child)));
                }
                None => {
                    stack.pop();
                    if !stack.is_empty() {
                        path.pop();
                    }
                }
            }
        }
    }
    /// Every number of a directory that was removed after an operation, alone or with one above it, in order.
    pub fn removed_since(&self, seq: u64) -> Vec<DirId> {
        let mut out = Vec::new();
        for (_, top) in self.removed.range(seq + 1..) {
            out.extend(self.subtree(*top));
        }
        out.sort_unstable();
        debug_assert!(
            out.windows(2).all(|two| two[0] < two[1]),
            "trees.md D2: a directory is removed once"
        );
        out
    }
    /// Every number that stands for a live directory or one below it, in order.
    pub fn subtree(&self, id: DirId) -> Vec<DirId> {
        let most = self.nodes.len() / SWEEP_SHARE;
        let out = self.walk_below(id, most).unwrap_or_else(|| self.sweep_below(id));
        debug_assert!(
            out.windows(2).all(|two| two[0] < two[1]),
            "trees.md D2: a directory is in one place"
        );
        out
    }
    /// [`Tree::subtree`] by names, downwards; `None`: there are more than `most`.
    pub(super) fn walk_below(&self, id: DirId, most: usize) -> Option<Vec<DirId>> {
        let (mut out, mut open) = (Vec::new(), vec![id]);
        while let Some(dir) = open.pop() {
            out.extend(self.numbers_of(dir));
            open.extend(self.children(dir).map(|(_, child)| child));
            if out.len() + open.len() > most {
                return None;
            }
        }
        out.sort_unstable();
        Some(out)
    }
    /// [`Tree::subtree`] by places, upwards from every directory; the way up from each stops where its outcome is known.
    pub(super) fn sweep_below(&self, id: DirId) -> Vec<DirId> {
        let mut known: Vec<Option<bool>> = vec![None; self.nodes.len()];
        let mut way = Vec::new();
        for start in 0..self.nodes.len() as DirId {
            let mut at = start;
            // Ends: the way up leads to a root (trees.md D2), which no place above has.
            let is_below = loop {
                if at == id {
                    break true;
                }
                match known.get(at as usize) {
                    None => break false,
                    Some(Some(outcome)) => break *outcome,
                    Some(None) => way.push(at),
                }
                debug_assert!(way.len() <= self.nodes.len(), "trees.md D2, D3: ways up have no circles");
                match self.nodes[at as usize].place {
                    Place::In(next) | Place::MergedInto(next) => at = next,
                    Place::Gone => break false,
                }
            };
            way.drain(..).for_each(|dir| known[dir as usize] = Some(is_below));
        }
        let is_below = |dir: &DirId| *dir == id || known[*dir as usize] == Some(true);
        (0..self.nodes.len() as DirId).filter(is_below).collect()
    }
    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        let names: usize = self.nodes.iter().map(|node| node.name.len().next_multiple_of(8) + 16).sum();
        // Chunks of persistent collections are two thirds full on average.
        let each = size_of::<DirectoryNode>() + size_of::<NamedChild>();
        names + self.nodes.len() * each * 3 / 2 + (self.merged.len() + self.removed.len() + self.moves.len()) * 12
    }
}
