//! Changes of directories of `tree_path` fields, and conditions on them: parts of a decision, under locks as a write is.
//!
//! Not here: what a change is (`mapping::tree`), the rewriting and copying of documents by jobs (`rest`).

use crate::Relations;
use crate::atomically::{Step, Transaction};
use crate::leases::guard::Guard;
use crate::links::OnDelete;
use crate::locks::LockPath;
use async_recursion::async_recursion as boxed;
use engine::{DirectoryAt, Gate, Newest, Plan, TreeChange, TreeMoved, TxnOptions};
use model::lock_index::LockIndex;
use model::{CommitSeq, Error, ErrorKind, IndexName, Result};

/// A change of a directory that was done.
#[derive(Debug)]
pub struct ChangedDirectory {
    /// Its outcome.
    pub moved: TreeMoved,
    /// Its place among all records of the store.
    pub commit_seq: CommitSeq,
    /// Foreign locks that it passed in an advisory index.
    pub warnings: Vec<String>,
}

/// The state that a directory must have when a decision commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryCondition {
    pub at: DirectoryAt,
    /// It is there, or it is not.
    pub exists: Option<bool>,
    /// Nothing is in it, neither a directory nor a document; or something is.
    pub empty: Option<bool>,
    /// Neither it nor one above it has moved since the tree had so many operations.
    pub unmoved_since: Option<u64>,
}

impl DirectoryCondition {
    /// It is free: nothing is there.
    pub fn free(at: DirectoryAt) -> DirectoryCondition {
        DirectoryCondition {
            at,
            exists: Some(false),
            empty: None,
            unmoved_since: None,
        }
    }

    /// Why it does not hold, in words. Notes the tree that the answer rests on.
    ///
    /// # Errors
    /// An engine without trees; no such index or field, a path that is none.
    pub(crate) fn unmet(&self, newest: &mut dyn Newest, trees: &mut Vec<(IndexName, u64)>) -> Result<Option<String>> {
        let DirectoryCondition {
            at,
            exists,
            empty,
            unmoved_since,
        } = self;
        // Documents make directories and fill them; moves are noticed by the tree.
        let alone = empty.is_some() || *exists == Some(false);
        let now = newest.directory(at, alone)?;
        trees.push((now.index.clone(), now.tree.last_move_seq()));
        let named = format!("directory [{}] of [{}]", at.path, now.index);
        let dir = match (now.dir, exists) {
            (Some(_), Some(false)) => return Ok(Some(format!("{named} exists"))),
            (None, Some(false)) => return Ok(None),
            (None, _) => return Ok(Some(format!("{named} does not exist"))),
            (Some(dir), _) => dir,
        };
        if let Some(wanted) = empty {
            let is_empty = !now.has_documents && now.tree.children(dir).next().is_none();
            if is_empty != *wanted {
                let is = if *wanted { "is not empty" } else { "is empty" };
                return Ok(Some(format!("{named} {is}")));
            }
        }
        match unmoved_since.filter(|seq| now.tree.moved_since(dir, *seq)) {
            Some(seq) => Ok(Some(format!("{named} has moved since tree_seq [{seq}]"))),
            None => Ok(None),
        }
    }
}

/// Checks a change of a directory against locks and lock documents, before it is planned.
///
/// # Errors
/// Locks of others on one of its paths, above or below; a removal in an index whose documents are locks.
pub(crate) fn check_change(newest: &mut dyn Newest, guard: &mut Guard<'_>, change: &TreeChange) -> Result<()> {
    let index = newest.index(&change.index)?;
    if change.removes() && !LockIndex::of(&index.settings)?.is_none() {
        let reason = format!(
            "documents of [{}] are locks ([{}]): they are released one by one, not with their directory",
            index.name,
            model::settings::PLEACH_LOCK_INDEX.name
        );
        return Err(Error::illegal(reason));
    }
    if !guard.is_open() {
        let paths: Vec<LockPath> = change.paths().into_iter().map(LockPath::parse).collect::<Result<_>>()?;
        guard.check_directories(&index.settings, &index.name, &paths)?;
    }
    Ok(())
}

struct TreeTransaction<'a> {
    relations: &'a Relations,
    change: &'a TreeChange,
    locks: &'a [String],
}

impl Transaction for TreeTransaction<'_> {
    type Answer = (TreeMoved, Vec<String>);

    fn options(&self) -> TxnOptions {
        TxnOptions {
            gate: Gate::Shared,
            makes_room: self.change.removes(),
            ..TxnOptions::default()
        }
    }

    fn run(&mut self, newest: &mut dyn Newest) -> Result<Step<Self::Answer>> {
        let mut guard = Guard::new(&self.relations.locks, &self.relations.clock, self.locks, false)?;
        check_change(newest, &mut guard, self.change)?;
        if self.change.removes() {
            self.relations
                .check_no_copies(newest.index(&self.change.index)?.name.as_str())?;
        }
        let plan = Plan {
            moves: vec![self.change.clone()],
            ..Plan::default()
        };
        let warnings = guard.warnings;
        let answer = |decision: &engine::Decision<'_>| (decision.moves.first().copied().unwrap_or_default(), warnings);
        Ok(Step::CommitWith(plan, Box::new(answer)))
    }
}

impl Relations {
    /// Changes a directory, under these locks: one record, whatever is below it.
    ///
    /// # Errors
    /// `tree_missing_exception`, `tree_exists_exception`, `tree_cycle_exception`; locks of others on one of the paths, above or
    /// below; an engine without trees.
    #[boxed]
    pub async fn change_directory(&self, change: &TreeChange, locks: &[String]) -> Result<ChangedDirectory> {
        self.check_trees()?;
        let mut wish = TreeTransaction {
            relations: self,
            change,
            locks,
        };
        let done = self.atomically(&mut wish).await?;
        let (moved, warnings) = done.answer;
        Ok(ChangedDirectory {
            moved,
            commit_seq: done.commit_seq,
            warnings,
        })
    }

    /// Documents that go with their directory are not looked at one by one, so no policy can say what becomes of their copies.
    ///
    /// # Errors
    /// The index is the source of a link policy whose `on_delete` is not `ignore`.
    fn check_no_copies(&self, index: &str) -> Result<()> {
        let policies = self.links.table().from(index);
        let Some(policy) = policies.iter().find(|policy| policy.on_delete != OnDelete::Ignore) else {
            return Ok(());
        };
        let reason = format!(
            "a directory of [{index}] is not removed in one step while link policy [{}] copies its documents: delete them by query, \
             which does what its [on_delete] says",
            policy.name
        );
        Err(Error::new(ErrorKind::UnsupportedOperation, reason).with("policy", policy.name.as_str()))
    }

    /// # Errors
    /// Directories cannot be changed here.
    pub(crate) fn check_trees(&self) -> Result<()> {
        if self.portable.is_none() && self.engine.atomic().is_some() {
            return Ok(());
        }
        let reason = "a directory is changed by one record of the log, which the portable path ([changes.path]) does not have";
        Err(Error::new(ErrorKind::UnsupportedOperation, reason))
    }
}
