//! The operations that change a tree, as they are logged. Applying the same ones in the same order gives the same tree.
//!
//! Not here: which operations a wish needs, and refusals (`plan`).

use super::DirId;
use super::directories::{DirectoryNode, NOWHERE, NamedChild, Place, Tree};
use model::{Error, ErrorKind};
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// One operation. Numbers are those of live directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Makes a directory.
    Make { parent: DirId, name: Arc<str> },
    /// Makes the root of a field. `folds`: case does not count in the names below it.
    MakeRoot { field: Arc<str>, folds: bool },
    /// Gives a directory another place or name.
    Move { id: DirId, parent: DirId, name: Arc<str> },
    /// Puts everything in one directory into another, and lets its number stand for that one.
    Merge { id: DirId, into: DirId },
    /// Removes a directory with everything below it.
    Remove { id: DirId },
}

impl Operation {
    /// Whether it changes the paths of directories that are there.
    pub fn moves(&self) -> bool {
        !matches!(self, Operation::Make { .. } | Operation::MakeRoot { .. })
    }
    /// From that form.
    ///
    /// # Errors
    /// `Corruption` where it is none.
    pub fn from_json(value: &Value) -> model::Result<Operation> {
        let corrupt = || Error::new(ErrorKind::Corruption, format!("no operation of a tree: {value}"));
        let number = |at: usize| value[at].as_u64().and_then(|n| DirId::try_from(n).ok()).ok_or_else(corrupt);
        let text = |at: usize| value[at].as_str().map(Arc::from).ok_or_else(corrupt);
        Ok(match value[0].as_str() {
            None if value[0].is_null() => Operation::MakeRoot {
                field: text(1)?,
                folds: value[2] == "fold",
            },
            None => Operation::Make {
                parent: number(0)?,
                name: text(1)?,
            },
            Some("move") => Operation::Move {
                id: number(1)?,
                parent: number(2)?,
                name: text(3)?,
            },
            Some("merge") => Operation::Merge {
                id: number(1)?,
                into: number(2)?,
            },
            Some("remove") => Operation::Remove { id: number(1)? },
            Some(_) => return Err(corrupt()),
        })
    }
}

/// The form that is logged.
impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Operation::Make { parent, name } => (parent, &**name).serialize(serializer),
            Operation::MakeRoot { field, folds: false } => (None::<DirId>, &**field).serialize(serializer),
            Operation::MakeRoot { field, folds: true } => (None::<DirId>, &**field, "fold").serialize(serializer),
            Operation::Move { id, parent, name } => ("move", id, parent, &**name).serialize(serializer),
            Operation::Merge { id, into } => ("merge", id, into).serialize(serializer),
            Operation::Remove { id } => ("remove", id).serialize(serializer),
        }
    }
}

impl Tree {
    /// Applies an operation that was planned on this very tree, or is replayed in its order.
    ///
    /// # Errors
    /// `Corruption`: it does not fit this tree, which was never logged so.
    pub fn apply(&mut self, operation: &Operation) -> model::Result<()> {
        let unfit = |why: String| {
            Error::new(
                ErrorKind::Corruption,
                format!("a logged operation of a tree does not fit: {why}"),
            )
        };
        let live = |tree: &Tree, id: DirId| match tree.nodes.get(id as usize).map(|node| node.place) {
            Some(Place::In(_)) => Ok(()),
            _ => Err(unfit(format!("[{id}] is no live directory"))),
        };
        let free = |tree: &Tree, parent: DirId, name: &str| match tree.child(parent, name) {
            None => Ok(()),
            Some(there) => Err(unfit(format!("the name [{name}] is that of [{there}]"))),
        };
        match operation {
            Operation::Make { parent, name } => {
                live(self, *parent)?;
                if let Some(there) = self.make(*parent, name.clone()) {
                    return Err(unfit(format!("the name [{name}] is that of [{there}]")));
                }
            }
            Operation::MakeRoot { field, folds } => {
                free(self, NOWHERE, field)?;
                if *folds {
                    self.folding.insert(self.nodes.len() as DirId, ());
                }
                let there = self.make(NOWHERE, field.clone());
                debug_assert_eq!(there, None, "it was looked at just now");
            }
            Operation::Move { id, parent, name } => {
                live(self, *id)?;
                live(self, *parent)?;
                // Its own name in another case.
                if self.child(*parent, name) != Some(*id) {
                    free(self, *parent, name)?;
                }
                if self.is_within(*parent, *id) {
                    return Err(unfit(format!("[{id}] goes into [{parent}], which is below it")));
                }
                self.unname(*id);
                self.put(*id, *parent, name.clone());
                self.moved = self.seq + 1;
            }
            Operation::Merge { id, into } => {
                live(self, *id)?;
                live(self, *into)?;
                if self.is_within(*into, *id) {
                    return Err(unfit(format!("[{id}] goes into [{into}], which is below it")));
                }
                self.merge(*id, *into);
                self.moved = self.seq + 1;
            }
            Operation::Remove { id } => {
                live(self, *id)?;
                self.unname(*id);
                self.set(*id, Place::Gone);
                self.removed.insert(self.seq + 1, *id);
                self.moved = self.seq + 1;
            }
        }
        self.seq += 1;
        debug_assert!(
            self.nodes.len() as u64 <= self.seq && self.moved <= self.seq,
            "trees.md D1: each directory is made by an operation of its own: {} of them by {}",
            self.nodes.len(),
            self.seq
        );
        Ok(())
    }

    /// Makes a directory, unless the name is taken: then says whose it is.
    fn make(&mut self, parent: DirId, name: Arc<str>) -> Option<DirId> {
        let id = self.nodes.len() as DirId;
        debug_assert!(
            id < NOWHERE,
            "trees.md D1: numbers of directories are below the limit of the index"
        );
        // One search of the names where there mostly is nothing: a full tree is deep.
        if let Some(there) = self.names.insert(self.named_child(parent, &name, id)) {
            let there_id = there.id;
            self.names.insert(there);
            return Some(there_id);
        }
        self.nodes.push_back(DirectoryNode {
            place: Place::In(parent),
            name,
        });
        None
    }

    /// A directory as it is found in another one. It shares the name where that is the same.
    pub(super) fn named_child(&self, parent: DirId, name: &Arc<str>, id: DirId) -> NamedChild {
        let name = match self.key_of(parent, name) {
            Cow::Borrowed(_) => name.clone(),
            Cow::Owned(folded) => folded.into(),
        };
        NamedChild { parent, id, name }
    }

    /// Its place and name are free.
    fn unname(&mut self, id: DirId) {
        let Some(node) = self.nodes.get(id as usize) else { return };
        if let Place::In(parent) = node.place {
            let was = self.names.remove(&self.named_child(parent, &node.name, id));
            debug_assert_eq!(
                was.map(|was| was.id),
                Some(id),
                "trees.md D2: a directory is found by its place and name"
            );
        }
    }

    fn put(&mut self, id: DirId, parent: DirId, name: Arc<str>) {
        let before = self.names.insert(self.named_child(parent, &name, id));
        debug_assert!(before.is_none(), "trees.md D2: a name is that of one directory");
        self.moves.insert(id, self.seq + 1);
        if let Some(node) = self.nodes.get_mut(id as usize) {
            *node = DirectoryNode {
                place: Place::In(parent),
                name,
            };
        }
    }

    fn set(&mut self, id: DirId, place: Place) {
        self.moves.insert(id, self.seq + 1);
        if let Some(node) = self.nodes.get_mut(id as usize) {
            node.place = place;
        }
    }

    /// Directories of one name become one, from the two given ones downwards.
    fn merge(&mut self, id: DirId, into: DirId) {
        self.unname(id);
        let mut pairs = vec![(id, into)];
        while let Some((from, to)) = pairs.pop() {
            let children: Vec<(Arc<str>, DirId)> = self.children(from).map(|(name, id)| (Arc::from(name), id)).collect();
            for (name, child) in children {
                self.unname(child);
                match self.child(to, &name) {
                    Some(there) => pairs.push((child, there)),
                    None => self.put(child, to, name),
                }
            }
            debug_assert!(
                self.children(from).next().is_none(),
                "trees.md D3: something is left in directory [{from}], which is merged into [{to}]"
            );
            self.set(from, Place::MergedInto(to));
            self.merged.insert((to, from), ());
        }
    }
}
