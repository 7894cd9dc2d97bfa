//! Wishes as operations: directories that are made for a path, moves and removals. Refusals are here; the tree is not changed.
//!
//! Not here: applying what was planned (`operation`).

use super::{DirId, Operation, PathSyntax, Tree};
use model::{Error, ErrorKind, Result};
use std::sync::Arc;

/// The directories that a path needs.
#[derive(Debug)]
pub struct Made {
    /// The directory of the path.
    pub dir: DirId,
    /// The operations that make it, in order.
    pub operations: Vec<Operation>,
}

/// A move that can be done.
#[derive(Debug, Default)]
pub struct Moved {
    /// The operations that do it, in order; none: it is there already.
    pub operations: Vec<Operation>,
    /// The directory that moves.
    pub dir: DirId,
    /// The directory that it is merged into.
    pub merged_into: Option<DirId>,
}

/// `tree_exists_exception`
fn exists(path: &str) -> Error {
    let reason = format!("the directory [{path}] exists; [merge] puts one directory into another");
    Error::new(ErrorKind::TreeExists, reason).with("path", path)
}

/// `tree_missing_exception`
pub fn missing(field: &str, path: &str) -> Error {
    let reason = format!("no directory [{path}] in the tree of field [{field}]");
    Error::new(ErrorKind::TreeMissing, reason).with("path", path)
}

impl Tree {
    /// The directory of a path, as an older state of the tree knows it, and what is to be made of it in this one
    /// (trees.md D5): a path that was read before a move leads to where its directories are now.
    pub fn make_path(&self, then: &Tree, field: &str, syntax: PathSyntax, components: &[&str]) -> Made {
        let mut operations = Vec::new();
        let mut next = self.len() as DirId;
        let mut make = |operation: Operation, operations: &mut Vec<Operation>| {
            operations.push(operation);
            next += 1;
            next - 1
        };
        let known = then.root(field).map(|root| then.deepest(root, components));
        // Directories that are gone since are made anew where they were.
        let known = known.and_then(|(dir, count)| Some((self.find(dir)?, count)));
        let (mut at, mut count) = match (known, self.root(field)) {
            (Some(known), _) => known,
            (None, Some(root)) => (root, 0),
            (None, None) => {
                let root = Operation::MakeRoot {
                    field: Arc::from(field),
                    folds: syntax.folds,
                };
                (make(root, &mut operations), 0)
            }
        };
        if operations.is_empty() && !std::ptr::eq(self, then) {
            let (deeper, more) = self.deepest(at, &components[count..]);
            (at, count) = (deeper, count + more);
        }
        for name in &components[count..] {
            let directory = Operation::Make {
                parent: at,
                name: Arc::from(*name),
            };
            at = make(directory, &mut operations);
        }
        debug_assert!(
            self.after(&operations)
                .is_some_and(|next| next.find(at) == Some(at)
                    && (!std::ptr::eq(self, then) || next.resolve(field, components) == Some(at))),
            "trees.md D5: a path of {components:?} leads to the live directory [{at}] once {operations:?} are applied"
        );
        Made { dir: at, operations }
    }

    /// The tree after operations that are planned; `None`: they do not fit.
    fn after(&self, operations: &[Operation]) -> Option<Tree> {
        let mut next = self.clone();
        operations
            .iter()
            .try_for_each(|operation| next.apply(operation))
            .is_ok()
            .then_some(next)
    }

    /// Removes the directory of a path with everything below it.
    ///
    /// # Errors
    /// `tree_missing_exception`, the root, a path that is none.
    pub fn plan_removal(&self, field: &str, syntax: PathSyntax, path: &str) -> Result<(DirId, Operation)> {
        let components = syntax.components(path)?;
        let path = syntax.canonical(path);
        match self.resolve(field, &components) {
            None => Err(missing(field, path)),
            Some(_) if components.is_empty() => {
                Err(Error::illegal(format!("the root [{path}] cannot be removed")).with("path", path))
            }
            Some(id) => {
                let removal = Operation::Remove { id };
                debug_assert!(
                    self.after(std::slice::from_ref(&removal))
                        .is_some_and(|next| next.find(id).is_none() && next.resolve(field, &components).is_none()),
                    "trees.md D2: directory [{id}] has no place once it is removed"
                );
                Ok((id, removal))
            }
        }
    }

    /// Moves the directory of one path to another; what the other is in is made. `merges`: may a directory that is there take over
    /// what is in it?
    ///
    /// # Errors
    /// `tree_missing_exception`, `tree_exists_exception`, `tree_cycle_exception`, the root, paths that are none.
    pub fn plan_move(
        &self,
        field: &str,
        syntax: PathSyntax,
        from: &str,
        to: &str,
        merges: &dyn Fn(DirId) -> bool,
    ) -> Result<Moved> {
        let (source, target) = (syntax.components(from)?, syntax.new_components(to)?);
        let (from, to) = (syntax.canonical(from), syntax.canonical(to));
        let Some(dir) = self.resolve(field, &source) else {
            return Err(missing(field, from));
        };
        if source.is_empty() {
            return Err(Error::illegal(format!("the root [{from}] cannot be moved")).with("path", from));
        }
        if source == target {
            return Ok(Moved { dir, ..Moved::default() });
        }
        // The target is there already: in another case it may be the source itself.
        let around = target.split_last().map_or(&target[..], |(_, around)| around);
        let root = self.root(field).unwrap_or(dir);
        if self.is_within(self.deepest(root, around).0, dir) {
            let reason = format!("cannot move [{from}] into its own descendant [{to}]");
            return Err(Error::new(ErrorKind::TreeCycle, reason).with("from", from).with("to", to));
        }
        if let Some(there) = self.resolve(field, &target).filter(|there| *there != dir) {
            if !merges(there) {
                return Err(exists(to));
            }
            let operations = vec![Operation::Merge { id: dir, into: there }];
            debug_assert!(
                self.after(&operations).is_some_and(|next| next.find(dir) == Some(there)),
                "trees.md D3: directory [{dir}] stands for [{there}] once it is merged"
            );
            return Ok(Moved {
                operations,
                dir,
                merged_into: Some(there),
            });
        }
        let (name, around) = match target.split_last() {
            Some(split) => split,
            // The root is always there, with the source.
            None => return Err(exists(to)),
        };
        let Made {
            dir: parent,
            mut operations,
        } = self.make_path(self, field, syntax, around);
        operations.push(Operation::Move {
            id: dir,
            parent,
            name: Arc::from(*name),
        });
        debug_assert!(
            self.after(&operations)
                .is_some_and(|next| next.resolve(field, &target) == Some(dir) && next.last_move_seq() == next.seq()),
            "trees.md D2: directory [{dir}] is at [{to}] once it is moved there: {operations:?}"
        );
        Ok(Moved {
            operations,
            dir,
            merged_into: None,
        })
    }
}
