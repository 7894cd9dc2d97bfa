//! A critical section with logic in it: several documents read, judged and written as one.
//!
//! An engine that has it promises one log record, one sync and one flip of what searches see. Everything that
//! spans documents (changes, locks) rests on it; engines without it are used document by document.

use crate::{Alteration, Document, Outcome, Refresh, See, Source, TreeChange, TreeMoved, Write};
use async_trait::async_trait;
use mapping::tree::{DirId, Tree};
use model::{CommitSeq, DocAddress, DocId, Error, ErrorKind, IndexName, Result, Stamp};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// The critical section of an engine.
#[async_trait]
pub trait AtomicWrites: Send + Sync {
    /// Runs `plan` (again, if what it touched was not locked the first time) and writes what it says, all or
    /// nothing. Answers once everything that the answer rests on is durable.
    async fn decide(&self, plan: &mut TxnBody<'_>, how: TxnOptions) -> Result<TxnResult>;

    /// Waits until every record of an exclusive decision ([`Gate::Exclusive`]) is durable: what is answered from the memory
    /// that such decisions alter must not be taken back. An engine that writes through has nothing to wait for.
    ///
    /// # Errors
    /// LogFailed: one of them never will be before a restart.
    async fn wait_exclusive_durable(&self) -> Result<()> {
        Ok(())
    }

    /// The documents of one index that a search which begins after this may not see as they are, at least those: written up to
    /// `position`, or later, and not refreshed. `None`: they are more than `most`, or this engine cannot tell; who needs them refreshes.
    ///
    /// # Errors
    /// IndexNotFound. LogFailed: `position` will not be durable before a restart.
    async fn unrefreshed_documents(
        &self,
        index: &IndexName,
        position: CommitSeq,
        most: usize,
    ) -> Result<Option<Vec<Unrefreshed>>> {
        let _ = (index, position, most);
        Ok(None)
    }

    /// Lets somebody read the newest documents while nothing is locked, for work that takes too long for a decision: each
    /// document is of another moment, nothing of it may be told, and the decision that follows compares what it rests on.
    async fn look(&self, look: &mut Looker<'_>);
}

/// A document that searches do not see as it is.
#[derive(Clone, Debug)]
pub struct Unrefreshed {
    /// Where it is.
    pub at: DocAddress,
    /// Its newest source; `None`: it was deleted.
    pub source: Option<Source>,
}

/// How a decision is made.
#[derive(Clone, Debug, Default)]
pub struct TxnOptions {
    /// Documents that the plan is expected to read or write. They are locked before it runs; with all of them
    /// named it runs once.
    pub touches: Vec<DocAddress>,
    /// How it excludes other decisions, beside the documents.
    pub gate: Gate,
    /// When searches see it.
    pub refresh: Refresh,
    /// A plain write on its way through the locks: it is acknowledged when its index says so
    /// (`index.translog.durability`). All else is a change, which is synced before.
    pub plain: bool,
    /// It deletes, or belongs to something that does: it takes the room that a full disk keeps for deletes.
    pub makes_room: bool,
}

impl From<Refresh> for TxnOptions {
    fn from(refresh: Refresh) -> TxnOptions {
        TxnOptions {
            refresh,
            ..TxnOptions::default()
        }
    }
}

/// Decisions that rest on something in memory (a table of locks) and decisions that alter it exclude each other,
/// from before the plan runs until after the record has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Gate {
    /// Rests on documents alone.
    #[default]
    None,
    /// Rests on it: beside others that do.
    Shared,
    /// Alters it: alone.
    Exclusive,
}

/// Reads, then says what to write.
pub type TxnBody<'a> = dyn FnMut(&mut dyn Newest) -> Result<Plan> + Send + 'a;

/// Reads, outside every critical section.
pub type Looker<'a> = dyn FnMut(&mut dyn Newest) + Send + 'a;

/// The questions of a planner: the newest state, inside the critical section.
pub trait Newest {
    /// The newest document. A missing index is an error.
    fn read(&mut self, at: &DocAddress, see: See) -> Result<Option<Document>>;
    /// The index that a write to this name would go to.
    fn index(&mut self, name: &str) -> Result<WriteIndex>;
    /// The id as its index has it: with a type exactly where documents have one.
    fn identity(&mut self, at: &DocAddress) -> Result<DocId> {
        Ok(at.id.clone())
    }
    /// The settings that an index of this name, which there is not, would have if it were made now. Of an engine that
    /// knows no templates: none.
    fn template_settings(&mut self, name: &str) -> Result<Arc<Map<String, Value>>> {
        let _ = name;
        Ok(Arc::default())
    }
    /// A directory of a `tree_path` field as the newest tree has it. `alone`: nobody writes a document from here to the record,
    /// and it is said whether the directory has documents.
    ///
    /// # Errors
    /// An engine without trees; a missing index, no such field, a path that is none.
    fn directory(&mut self, of: &DirectoryAt, alone: bool) -> Result<DirectoryNow> {
        let _ = alone;
        let reason = format!(
            "this engine has no trees of directories, of which [{}] would be one",
            of.index
        );
        Err(Error::new(ErrorKind::UnsupportedOperation, reason))
    }
    /// Would the mapping take this write?
    fn rehearse(&mut self, write: &Write) -> Result<()>;
}

/// The address of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryAt {
    /// The index, or an alias with one write index.
    pub index: String,
    /// The `tree_path` field; `None`: the only one.
    pub field: Option<String>,
    pub path: String,
}

/// A directory as planners see it.
#[derive(Clone, Debug)]
pub struct DirectoryNow {
    /// The index by its own name.
    pub index: IndexName,
    pub field: Arc<str>,
    /// The whole tree of the index.
    pub tree: Arc<Tree>,
    /// Its number; `None`: it is not there.
    pub dir: Option<DirId>,
    /// A document is in it, not below it; only where it was asked for alone.
    pub has_documents: bool,
}

/// An index as planners see it.
#[derive(Clone, Debug)]
pub struct WriteIndex {
    /// Its own name.
    pub name: IndexName,
    /// No other index ever had it.
    pub uuid: Arc<str>,
    /// Identity is (type, id).
    pub typed: bool,
    /// Flat, names with `index.`.
    pub settings: Arc<Map<String, Value>>,
}

/// The writes of a planner, and what goes with them.
#[derive(Default)]
pub struct Plan {
    /// Indices to make (`CreateIndex`, nothing else), before the writes and with them or not at all.
    pub alterations: Vec<Alteration>,
    /// All of these or none, each to another document.
    pub writes: Vec<Write>,
    /// Directories that move with the writes or not at all. The paths of the writes mean the directories before.
    pub moves: Vec<TreeChange>,
    /// Trees that it rests on, by the index and the number of the newest move (`Tree::last_move_seq`). After another the plan runs again.
    pub trees: Vec<(IndexName, u64)>,
    /// The place of a write whose source is made when the decision is known: it may tell of it.
    pub seal: Option<(usize, Seal)>,
    /// Called inside the critical section once the record has its place; not at all if it gets none.
    pub then: Option<Then>,
    /// Nothing is written, and nobody is told what it rests on: the answer need not wait until that is durable.
    pub reveals_nothing: bool,
    /// It is a change that has a `commit_seq` of its own, also if it writes nothing.
    pub numbered: bool,
}

/// Makes the source of a sealed write: a JSON object that its index's mapping takes whatever is in it.
pub type Seal = Box<dyn FnOnce(&Decision<'_>) -> crate::Source + Send>;
/// Alters memory as the record altered documents.
pub type Then = Box<dyn FnOnce(&Decision<'_>) + Send>;

impl Plan {
    /// Writes alone.
    pub fn of(writes: Vec<Write>) -> Plan {
        Plan {
            writes,
            ..Plan::default()
        }
    }

    /// Nothing, for a reply that reveals no undurable state.
    pub fn revealing_nothing() -> Plan {
        Plan {
            reveals_nothing: true,
            ..Plan::default()
        }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("alterations", &self.alterations)
            .field("writes", &self.writes)
            .field("sealed", &self.seal.as_ref().map(|(n, _)| n))
            .finish_non_exhaustive()
    }
}

/// A decision whose place is known.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'a> {
    /// Its place among all records of the store.
    pub commit_seq: CommitSeq,
    /// For each write of the plan the stamp it got; of writes that changed nothing the present one.
    pub stamps: &'a [Stamp],
    /// For each move of the plan what came of it.
    pub moves: &'a [TreeMoved],
}

/// The result of a decision.
#[derive(Debug)]
pub struct TxnResult {
    /// Its place among all records of the store: of a plan that is `numbered` nobody else's, also if nothing was written;
    /// else, where nothing was written, the place after the newest record.
    pub commit_seq: CommitSeq,
    /// One for each write, in order. With a conflict or refusal among them nothing was written.
    pub outcomes: Vec<Outcome>,
}
