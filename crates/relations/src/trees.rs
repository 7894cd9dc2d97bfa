//! Moves of directories of `tree_path` fields: one decision, under locks as a write is.
//!
//! Not here: what a move is (`mapping::tree`), the rewriting of documents where paths are keywords (`rest`).

use crate::Relations;
use crate::atomically::{Step, Transaction};
use crate::leases::guard::Guard;
use crate::locks::LockPath;
use engine::{Gate, Newest, Plan, TreeChange, TreeMoved, TxnOptions};
use model::{CommitSeq, Error, ErrorKind, Result};

/// A move that was done.
#[derive(Debug)]
pub struct MovedDirectory {
    /// What came of it.
    pub moved: TreeMoved,
    /// Its place among all records of the store.
    pub commit_seq: CommitSeq,
    /// Foreign locks that it passed in an advisory index.
    pub warnings: Vec<String>,
}

struct Move<'a> {
    relations: &'a Relations,
    change: &'a TreeChange,
    locks: &'a [String],
}

impl Transaction for Move<'_> {
    type Answer = (TreeMoved, Vec<String>);

    fn options(&self) -> TxnOptions {
        TxnOptions {
            gate: Gate::Shared,
            ..TxnOptions::default()
        }
    }

    fn run(&mut self, newest: &mut dyn Newest) -> Result<Step<Self::Answer>> {
        let index = newest.index(&self.change.index)?;
        let mut guard = Guard::new(&self.relations.locks, &self.relations.clock, self.locks, false)?;
        if !guard.is_open() {
            let paths = [LockPath::parse(&self.change.from)?, LockPath::parse(&self.change.to)?];
            guard.check_directories(&index.settings, &index.name, &paths)?;
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
    /// Moves a directory, under these locks: one record, whatever is below it.
    ///
    /// # Errors
    /// `tree_missing_exception`, `tree_exists_exception`, `tree_cycle_exception`; locks of others on one of the paths, above or
    /// below; an engine without trees.
    pub async fn move_directory(&self, change: &TreeChange, locks: &[String]) -> Result<MovedDirectory> {
        if self.portable.is_some() || self.engine.atomic().is_none() {
            let reason = "a directory is moved by one record of the log, which the portable path ([changes.path]) does not have";
            return Err(Error::new(ErrorKind::UnsupportedOperation, reason));
        }
        let mut wish = Move {
            relations: self,
            change,
            locks,
        };
        let done = self.atomically(&mut wish).await?;
        let (moved, warnings) = done.answer;
        Ok(MovedDirectory {
            moved,
            commit_seq: done.commit_seq,
            warnings,
        })
    }
}
