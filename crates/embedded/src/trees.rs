//! The trees of directories of the indices of a folder (docs/internals/trees.md): new directories are given their numbers when
//! a write is evaluated and are logged with the first record that needs them.
//!
//! Not here: the tree itself (`mapping::tree`), the changes of one record (`tree_record`), what a checkpoint keeps of it
//! (`checkpoint`), when searches see a change (`tree_moves`).

use crate::catalog::IndexEntry;
use crate::lock_order::{LockRank, Mutex, MutexGuard, RwLock};
use mapping::Mapping;
use mapping::tree::{DirId, Operation, PathSyntax, Placed, Tree};
use model::{Error, ErrorKind, IndexName, Result, nearest, settings};
use rustc_hash::FxHashMap;
use segment::searchable::IndexView;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The trees before so many moves are kept for writes that are being evaluated.
const MOVES_KEPT: usize = 16;

/// The tree that the paths of a source were read by. A write that takes nothing out of the document before it names the
/// moves alone: whoever holds the newest tree makes the next new directory copy its nodes.
pub(crate) enum ReadBy {
    /// Any tree with so many moves: they give each path the same directory.
    Moves(u64),
    /// This one.
    Tree(Arc<Tree>),
}

impl ReadBy {
    fn last_move_seq(&self) -> u64 {
        match self {
            ReadBy::Moves(moved) => *moved,
            ReadBy::Tree(tree) => tree.last_move_seq(),
        }
    }
}

/// The tree of one index.
pub(crate) struct TreeCell {
    state: Mutex<TreeState>,
    /// The number of operations in the tree that the manifest has.
    flushed_seq: AtomicU64,
}

/// How many paths are kept with their directories: as many as there are threads that write to one index, and some more.
const RECENT_PATHS: usize = 4;

/// A path that was looked up just now: files of one directory are mostly written together.
struct RecentPath {
    field: Arc<str>,
    text: String,
    dir: DirId,
    /// The moves of the tree that it was looked up in; with as many it has the same directory.
    last_move_seq: u64,
}

/// The paths that were looked up last; the oldest gives way.
#[derive(Default)]
struct RecentPaths {
    paths: Vec<RecentPath>,
    oldest: usize,
}

impl RecentPaths {
    fn find(&self, field: &str, text: &str, last_move_seq: u64) -> Option<DirId> {
        let is_it = |path: &&RecentPath| path.last_move_seq == last_move_seq && path.text == text && &*path.field == field;
        self.paths.iter().find(is_it).map(|path| path.dir)
    }
    fn put(&mut self, path: RecentPath) {
        if self.paths.len() < RECENT_PATHS {
            return self.paths.push(path);
        }
        self.paths[self.oldest] = path;
        self.oldest = (self.oldest + 1) % RECENT_PATHS;
    }
}

#[derive(Default)]
pub(crate) struct TreeState {
    pub(crate) newest: Arc<Tree>,
    recent: RecentPaths,
    /// The last operations of `newest` that are in no record yet. They only make directories (trees.md D4).
    pub(crate) unlogged: Vec<Operation>,
    /// The trees before records that moved something and that not every search sees yet, each with the end of its record.
    before: VecDeque<(u64, Arc<Tree>)>,
    /// The trees before the last few moves, for writes that were evaluated meanwhile (trees.md D5).
    before_moves: VecDeque<Arc<Tree>>,
    /// Searches may see every record that ends here or before.
    shown_to: u64,
    /// The end of the newest record that moved something.
    moved_to: u64,
    /// The end of the newest record that also wrote documents, or removed some, and that not every search sees yet; 0: there is
    /// none.
    mixed_to: u64,
}

impl TreeState {
    /// The tree as of a position. Directories made since may be in it: no document below the position has them.
    fn at(&self, position: u64) -> &Arc<Tree> {
        let position = position.max(self.shown_to);
        let later = self.before.iter().find(|(end, _)| *end > position);
        later.map_or(&self.newest, |(_, before)| before)
    }

    /// Puts the tree after a record in place, which ends here. `is_mixed`: documents come or go with it.
    pub(crate) fn advance(&mut self, next: Tree, end: u64, is_mixed: bool) {
        debug_assert!(
            self.before.back().is_none_or(|(last, _)| *last < end) && self.moved_to < end,
            "trees.md D8: trees change in the order of the log: {} comes before {end}",
            self.moved_to
        );
        debug_assert!(
            next.seq() >= self.newest.seq(),
            "trees.md D8: the newest tree never goes back"
        );
        let has_moved = next.last_move_seq() > self.newest.last_move_seq();
        let before = std::mem::replace(&mut self.newest, Arc::new(next));
        if has_moved {
            if self.before_moves.len() == MOVES_KEPT {
                self.before_moves.pop_front();
            }
            self.before_moves.push_back(before.clone());
            self.before.push_back((end, before));
            self.moved_to = end;
            if is_mixed {
                self.mixed_to = end;
            }
        }
    }

    /// The number of directories that records have.
    pub(crate) fn logged_directories(&self) -> usize {
        self.newest.len() - self.unlogged.len()
    }

    fn show_to(&mut self, position: u64) {
        self.shown_to = self.shown_to.max(position);
        while self.before.front().is_some_and(|(end, _)| *end <= self.shown_to) {
            self.before.pop_front();
        }
        if self.mixed_to <= self.shown_to {
            self.mixed_to = 0;
        }
    }
}

impl TreeCell {
    fn new(no: u32, newest: Tree) -> TreeCell {
        let flushed_seq = AtomicU64::new(newest.seq());
        let state = TreeState {
            newest: Arc::new(newest),
            ..TreeState::default()
        };
        TreeCell {
            flushed_seq,
            state: Mutex::with_number(LockRank::Tree, no as usize, state),
        }
    }
    /// While the guard lives, nobody makes directories there.
    pub(crate) fn lock(&self) -> MutexGuard<'_, TreeState> {
        self.state.lock()
    }
    /// The directories of paths, and the number of operations of the tree that they are texts of. What is missing is made.
    fn intern(&self, read_by: &ReadBy, paths: &PathsOf, nodes_max: &dyn Fn() -> u64) -> Result<Placed> {
        let mut state = self.state.lock();
        // A write that was evaluated during more moves than are kept is one after all of them.
        let older = match read_by {
            _ if read_by.last_move_seq() == state.newest.last_move_seq() => None,
            ReadBy::Tree(tree) => Some(tree.clone()),
            ReadBy::Moves(moved) => state.before_moves.iter().find(|tree| tree.last_move_seq() == *moved).cloned(),
        };
        let seq = older.as_ref().map_or(state.newest.seq(), |tree| tree.seq());
        let one = |path: &String| {
            let found = match &older {
                None => state.intern_newest(paths, path, nodes_max),
                Some(older) => state.intern(Some(older), paths, path, nodes_max),
            };
            found.map_err(|cause| path_refusal(&paths.field, cause))
        };
        let dirs: Vec<DirId> = paths.texts.iter().map(one).collect::<Result<_>>()?;
        debug_assert!(
            older.is_some() || paths.is_text_of(&dirs, &state.newest),
            "trees.md D5: a path that was read by the newest tree leads to the directory of that name: {dirs:?}, {:?}",
            paths.texts
        );
        debug_assert!(
            dirs.iter().all(|dir| state.newest.find(*dir) == Some(*dir)),
            "trees.md D5: a write lands where the directory is now, in one that lives: {dirs:?}"
        );
        Ok(Placed {
            field: paths.field.clone(),
            dirs,
            seq,
        })
    }
}

impl TreeState {
    /// [`TreeState::intern`] of a path that was read by the newest tree.
    fn intern_newest(&mut self, paths: &PathsOf, path: &str, nodes_max: &dyn Fn() -> u64) -> Result<DirId> {
        let last_move_seq = self.newest.last_move_seq();
        if let Some(dir) = self.recent.find(&paths.field, path, last_move_seq) {
            debug_assert_eq!(
                self.intern(None, paths, path, nodes_max).ok(),
                Some(dir),
                "trees.md D2: between two moves a path has one directory"
            );
            return Ok(dir);
        }
        let dir = self.intern(None, paths, path, nodes_max)?;
        self.recent.put(RecentPath {
            field: paths.field.clone(),
            text: path.to_owned(),
            dir,
            last_move_seq,
        });
        Ok(dir)
    }

    /// The directory of a path. `nodes_max` is read from the settings of the index only where directories are made.
    fn intern(&mut self, older: Option<&Tree>, paths: &PathsOf, path: &str, nodes_max: &dyn Fn() -> u64) -> Result<DirId> {
        let components = paths.syntax.components(path)?;
        let then = older.unwrap_or(&self.newest);
        let made = self.newest.make_path(then, &paths.field, paths.syntax, &components);
        if made.operations.is_empty() {
            return Ok(made.dir);
        }
        // Only what is made is bounded: a path that is there may be longer after a move.
        paths.syntax.new_components(path)?;
        let nodes = self.newest.len() as u64 + made.operations.len() as u64;
        let nodes_max = nodes_max();
        if nodes > nodes_max {
            let name = settings::TREE_MAX_NODES.name;
            let reason =
                format!("[{nodes}] directories are too many for an index; the limit of [{nodes_max}] is the setting [{name}]");
            return Err(Error::illegal(reason).with("setting", name));
        }
        for operation in &made.operations {
            Arc::make_mut(&mut self.newest).apply(operation)?;
        }
        self.unlogged.extend(made.operations);
        debug_assert!(
            self.unlogged.len() as u64 <= self.newest.seq() && self.unlogged.len() <= self.newest.len(),
            "trees.md D4: what no record has yet are the last operations of the newest tree, each a directory"
        );
        Ok(made.dir)
    }
}

/// The trees of a folder, by the number of the index. An index without directories has none.
pub(crate) struct Trees(RwLock<FxHashMap<u32, Arc<TreeCell>>>);

impl Default for Trees {
    fn default() -> Trees {
        Trees(RwLock::new(LockRank::Leaf, FxHashMap::default()))
    }
}

impl Trees {
    pub(crate) fn get(&self, no: u32) -> Option<Arc<TreeCell>> {
        self.0.read().get(&no).cloned()
    }
    pub(crate) fn get_or_make(&self, no: u32) -> Arc<TreeCell> {
        if let Some(known) = self.get(no) {
            return known;
        }
        let mut all = self.0.write();
        all.entry(no)
            .or_insert_with(|| Arc::new(TreeCell::new(no, Tree::default())))
            .clone()
    }
    /// At a start: the tree that the manifest has.
    pub(crate) fn put(&self, no: u32, tree: Tree) {
        self.0.write().insert(no, Arc::new(TreeCell::new(no, tree)));
    }
    /// The tree of an index that is made out of a snapshot: the manifest does not have it yet.
    pub(crate) fn put_restored(&self, no: u32, tree: Tree) {
        let cell = TreeCell::new(no, tree);
        cell.flushed_seq.store(0, Ordering::Release);
        self.0.write().insert(no, Arc::new(cell));
    }
    /// The indices that have directories.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.0.read().keys().copied().collect()
    }
    /// An index is gone.
    pub(crate) fn forget(&self, no: u32) {
        self.0.write().remove(&no);
    }
    /// The newest tree, and the end of the record that it rests on. `None`: the index has no directories.
    pub(crate) fn newest(&self, no: u32) -> (Option<Arc<Tree>>, u64) {
        self.get(no).map_or((None, 0), |cell| {
            let state = cell.state.lock();
            (Some(state.newest.clone()), state.moved_to)
        })
    }
    /// The number of directories that records have; those of higher numbers are made for writes that have no record yet.
    pub(crate) fn logged_directories(&self, no: u32) -> usize {
        self.get(no).map_or(0, |cell| cell.state.lock().logged_directories())
    }
    /// The tree as of a position.
    pub(crate) fn at(&self, no: u32, position: u64) -> Option<Arc<Tree>> {
        self.get(no).map(|cell| cell.state.lock().at(position).clone())
    }
    /// The directories of a document whose paths were read by a tree.
    ///
    /// # Errors
    /// A path beyond the limits of new ones, too many directories.
    pub(crate) fn place(&self, entry: &IndexEntry, paths: &[PathsOf], read_by: &ReadBy) -> Result<Box<[Placed]>> {
        if paths.is_empty() {
            return Ok(Box::default());
        }
        let cell = self.get_or_make(entry.no);
        let nodes_max = || settings::number(&entry.settings, settings::TREE_MAX_NODES).min(u64::from(DirId::MAX - 1));
        paths.iter().map(|paths| cell.intern(read_by, paths, &nodes_max)).collect()
    }
    /// The tree as of a position, which is durable, if the manifest has another. It may have directories that no record has yet:
    /// their numbers are not given again (trees.md D9).
    pub(crate) fn unflushed_tree(&self, no: u32, position: u64) -> Option<Arc<Tree>> {
        let cell = self.get(no)?;
        let tree = cell.state.lock().at(position).clone();
        (tree.seq() != cell.flushed_seq.load(Ordering::Acquire)).then_some(tree)
    }
    /// The manifest has the first so many operations.
    pub(crate) fn note_flushed(&self, no: u32, seq: u64) {
        if let Some(cell) = self.get(no) {
            let before = cell.flushed_seq.swap(seq, Ordering::AcqRel);
            assert!(
                before <= seq,
                "trees.md D9: the manifest's tree goes back from {before} to {seq}"
            );
        }
    }
    /// Applies logged operations; those that the manifest's tree has are passed by.
    ///
    /// # Errors
    /// `Corruption`: they do not follow on what is there.
    pub(crate) fn replay(&self, no: u32, delta: &Value) -> Result<()> {
        let corrupt = || Error::new(ErrorKind::Corruption, "a logged change of a tree is not sound");
        let cell = self.get_or_make(no);
        let mut state = cell.state.lock();
        let first = delta["seq"].as_u64().ok_or_else(corrupt)?;
        let operations = delta["operations"].as_array().ok_or_else(corrupt)?;
        for (operation, seq) in operations.iter().zip(first..) {
            if seq > state.newest.seq() {
                return Err(corrupt());
            }
            if seq == state.newest.seq() {
                Arc::make_mut(&mut state.newest).apply(&Operation::from_json(operation)?)?;
            }
        }
        Ok(())
    }
    /// Did the tree as of a position remove directories beyond those that `set` knows of? Then documents of `set` are gone.
    pub(crate) fn removes_beyond(&self, set: &IndexView, position: u64) -> bool {
        let tree = self.at(set.no, position);
        tree.is_some_and(|tree| tree.last_removal_seq() > set.tree.last_removal_seq())
    }
    /// Is there a record that moved something and wrote or removed documents, which not every search sees yet?
    pub(crate) fn is_mixed(&self, no: u32) -> bool {
        self.get(no).is_some_and(|cell| cell.state.lock().mixed_to > 0)
    }
    /// Searches may see every record up to here.
    pub(crate) fn show_to(&self, no: u32, position: u64) {
        if let Some(cell) = self.get(no) {
            cell.state.lock().show_to(position);
        }
    }
}

/// The paths of a document in one field, as its source has them.
pub(crate) struct PathsOf {
    pub(crate) field: Arc<str>,
    pub(crate) syntax: PathSyntax,
    pub(crate) texts: Vec<String>,
}

impl PathsOf {
    /// Are these the directories that a tree has at these paths?
    fn is_text_of(&self, dirs: &[DirId], tree: &Tree) -> bool {
        let is_path = |(text, dir): (&String, &DirId)| {
            let path = tree.components(*dir).map(|components| self.syntax.join(components));
            path.is_some_and(|path| self.syntax.is_same(self.syntax.canonical(text), &path))
        };
        self.texts.len() == dirs.len() && self.texts.iter().zip(dirs).all(is_path)
    }
    /// Those of a source, for each `tree_path` field of these mappings.
    pub(crate) fn of<'m>(source: &Value, mappings: impl IntoIterator<Item = &'m mapping::Mapping>) -> Vec<PathsOf> {
        let fields = mappings.into_iter().flat_map(|mapping| mapping.tree_fields());
        let all = fields.map(|(field, syntax)| PathsOf {
            field: field.clone(),
            syntax,
            texts: mapping::tree::collect(source, field),
        });
        all.filter(|paths| !paths.texts.is_empty()).collect()
    }
}

/// A document whose path cannot be.
fn path_refusal(field: &str, cause: Error) -> Error {
    Error::new(
        ErrorKind::MapperParsing,
        format!("failed to parse field [{field}] of type [tree_path]"),
    )
    .with_cause(cause)
}

/// The `tree_path` field that a request means.
///
/// # Errors
/// No such field, or several and none is named.
pub(crate) fn tree_field(entry: &IndexEntry, wanted: Option<&str>) -> Result<(Arc<str>, PathSyntax)> {
    tree_field_of(&entry.mapping, &entry.name, wanted)
}

/// The same by a mapping that may have some fields alone.
pub(crate) fn tree_field_of(mapping: &Mapping, index: &IndexName, wanted: Option<&str>) -> Result<(Arc<str>, PathSyntax)> {
    let fields: Vec<(&Arc<str>, PathSyntax)> = mapping.tree_fields().collect();
    let names = || fields.iter().map(|(field, _)| &***field);
    match (wanted, fields.as_slice()) {
        (None, [(field, syntax)]) => Ok(((*field).clone(), *syntax)),
        (None, []) => Err(Error::illegal(format!("index [{index}] has no field of type [tree_path]"))),
        (None, _) => {
            let all: Vec<&str> = names().collect();
            Err(Error::illegal(format!(
                "index [{index}] has several fields of type [tree_path]: [field] must name one of [{}]",
                all.join(", ")
            )))
        }
        (Some(wanted), _) => match fields.iter().find(|(field, _)| &***field == wanted) {
            Some((field, syntax)) => Ok(((*field).clone(), *syntax)),
            None => {
                let meant = nearest::question(wanted, names());
                Err(Error::illegal(format!(
                    "index [{index}] has no field [{wanted}] of type [tree_path]{meant}"
                )))
            }
        },
    }
}
