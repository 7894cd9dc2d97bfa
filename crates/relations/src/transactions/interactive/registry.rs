//! Which transactions are open, and how those that are not ended. Plain state: no IO, no clock.

use crate::leases::OnExpire;
use crate::transactions::Key;
use model::{CommitSeq, DocAddress, Error, ErrorKind, Result, Stamp};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many ended ones are remembered, the last of them. Of the others only their outcome is known.
const ENDED_MAX: usize = 10_000;
/// How ids go on behind the name of their server.
const KIND: &str = "tx";

/// Every transaction of this start of the server.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    /// The name of the server, by which ids begin.
    server: Arc<str>,
    all: Arc<Mutex<All>>,
}

#[derive(Debug, Default)]
struct All {
    /// Tells starts of the server apart; drawn with the first transaction.
    incarnation: Option<u32>,
    begun: u64,
    open: BTreeMap<Arc<str>, Arc<OpenTransaction>>,
    ended: HashMap<Arc<str>, TransactionState>,
    order: VecDeque<Arc<str>>,
}

/// One that is open.
#[derive(Debug)]
pub(super) struct OpenTransaction {
    pub(super) id: Arc<str>,
    /// The engine's view.
    pub(super) view: String,
    pub(super) read_seq: CommitSeq,
    /// Under which its outcome is kept beside its id.
    pub(super) key: Option<Key>,
    pub(super) opened: Duration,
    pub(super) opened_ms: i64,
    /// One operation at a time; searches need none.
    pub(super) turn: futures::lock::Mutex<()>,
    pub(super) facts: Mutex<Facts>,
}

/// The changing part of one that is open.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) keep_alive: Duration,
    pub(super) used: Duration,
    pub(super) committing: bool,
    /// Locks that it runs under, and what their end does.
    pub(super) locks: Vec<(Arc<str>, OnExpire)>,
    /// Documents that were read by id and not written.
    pub(super) reads: HashMap<DocAddress, Began>,
    /// Written documents: by what last, and under which locks.
    pub(super) written: HashMap<DocAddress, Wrote>,
    pub(super) operations: u64,
}

/// A document as the transaction began with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Began {
    /// The uuid of its index; `None`: that was not there.
    pub(super) uuid: Option<String>,
    /// `None`: there was no such document.
    pub(super) stamp: Option<Stamp>,
}

/// The operation that wrote a document.
#[derive(Clone, Debug, Default)]
pub(super) struct Wrote {
    pub(super) label: &'static str,
    pub(super) locks: Vec<String>,
}

/// Where a transaction stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionState {
    /// Its client uses it.
    Open,
    /// It is being decided.
    Committing,
    /// All of it is done.
    Committed(CommitSeq),
    /// Nothing of it is, for this reason.
    Aborted(String),
}

impl TransactionState {
    /// In one word.
    pub fn word(&self) -> &'static str {
        match self {
            TransactionState::Open => "open",
            TransactionState::Committing => "committing",
            TransactionState::Committed(_) => "committed",
            TransactionState::Aborted(_) => "aborted",
        }
    }
    /// Who brings it to its end.
    pub fn finisher(&self) -> &'static str {
        match self {
            TransactionState::Open => "client",
            TransactionState::Committing => "server",
            _ => "none",
        }
    }
    /// The refusal of anything more in a transaction that ended so.
    pub(super) fn refusal(&self, id: &str) -> Error {
        match self {
            TransactionState::Committed(seq) => {
                let reason = format!("transaction [{id}] is committed; begin another");
                Error::new(ErrorKind::TransactionCommitted, reason).with("commit_seq", *seq)
            }
            TransactionState::Aborted(why) => {
                let reason = format!("transaction [{id}] was aborted: {why}; nothing was changed");
                Error::new(ErrorKind::TransactionAborted, reason).with("retryable", true)
            }
            TransactionState::Open | TransactionState::Committing => {
                let reason = format!("transaction [{id}] is being committed");
                Error::new(ErrorKind::TransactionConflict, reason)
            }
        }
        .with("transaction", id)
    }
}

/// A transaction as lists show it.
#[derive(Clone, Debug)]
pub struct ShownTransaction {
    /// Names its server.
    pub id: String,
    /// How it ended, if it did.
    pub state: TransactionState,
    /// The open ones.
    pub open: Option<ShownOpen>,
}

/// An open one, as lists show it.
#[derive(Clone, Debug)]
pub struct ShownOpen {
    /// The number of its moment.
    pub read_seq: CommitSeq,
    /// Staged writes.
    pub operations: u64,
    /// Documents they write.
    pub documents: usize,
    /// Bytes that are staged.
    pub bytes: u64,
    /// Documents read by id.
    pub reads: usize,
    /// Locks it runs under.
    pub locks: Vec<String>,
    /// Milliseconds since 1970 when it began.
    pub opened_ms: i64,
    /// How long ago that was.
    pub age: Duration,
    /// How long it lives after its last use.
    pub keep_alive: Duration,
    /// The time that it has left.
    pub remaining: Duration,
}

impl OpenTransaction {
    pub(super) fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub(super) fn show(&self, now: Duration, bytes: u64) -> ShownTransaction {
        let facts = self.facts();
        let state = if facts.committing {
            TransactionState::Committing
        } else {
            TransactionState::Open
        };
        ShownTransaction {
            id: self.id.to_string(),
            state,
            open: Some(ShownOpen {
                read_seq: self.read_seq,
                operations: facts.operations,
                documents: facts.written.len(),
                bytes,
                reads: facts.reads.len(),
                locks: facts.locks.iter().map(|(id, _)| id.to_string()).collect(),
                opened_ms: self.opened_ms,
                age: now.saturating_sub(self.opened),
                keep_alive: facts.keep_alive,
                remaining: (facts.used + facts.keep_alive).saturating_sub(now),
            }),
        }
    }
}

impl Facts {
    /// Its time is over.
    pub(super) fn is_over(&self, now: Duration) -> bool {
        !self.committing && now.saturating_sub(self.used) > self.keep_alive
    }
}

impl Registry {
    /// The transactions of the server of this name.
    pub(crate) fn of(server: Arc<str>) -> Registry {
        Registry {
            server,
            all: Arc::default(),
        }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An id that no start of the server gives out again.
    pub(super) fn next_id(&self, random: impl Fn() -> u64) -> Arc<str> {
        let mut all = self.all();
        let incarnation = *all.incarnation.get_or_insert_with(|| (random() >> 40) as u32);
        all.begun += 1;
        format!(
            "{}:{KIND}{incarnation:06x}-{:x}-{:08x}",
            self.server,
            all.begun,
            random() >> 32
        )
        .into()
    }

    pub(super) fn begin(&self, transaction: OpenTransaction) {
        let before = self.all().open.insert(transaction.id.clone(), Arc::new(transaction));
        assert!(before.is_none(), "the id of a transaction is given once");
    }

    pub(super) fn open(&self) -> Vec<Arc<OpenTransaction>> {
        self.all().open.values().cloned().collect()
    }

    /// One that is open, or what became of it.
    ///
    /// # Errors
    /// There never was one.
    pub(super) fn find(&self, id: &str) -> Result<Result<Arc<OpenTransaction>, TransactionState>> {
        let all = self.all();
        if let Some(open) = all.open.get(id) {
            return Ok(Ok(open.clone()));
        }
        if let Some(ended) = all.ended.get(id) {
            return Ok(Err(ended.clone()));
        }
        let missing = |reason: String| Error::new(ErrorKind::TransactionMissing, reason).with("transaction", id);
        let Some((incarnation, number)) = self.parts(id) else {
            let reason = match id.split_once(':') {
                Some((server, rest)) if server != &*self.server && rest.starts_with(KIND) => {
                    let own = &self.server;
                    format!("no transaction [{id}] here: it lives in the server [{server}], this is [{own}]")
                }
                _ => format!("no transaction [{id}]"),
            };
            return Err(missing(reason));
        };
        if Some(incarnation) != all.incarnation {
            return Ok(Err(TransactionState::Aborted("the server that held it was restarted".into())));
        }
        if number <= all.begun {
            return Ok(Err(TransactionState::Aborted("it ended long ago".into())));
        }
        Err(missing(format!("no transaction [{id}]")))
    }

    /// It has ended; false if it had before.
    pub(super) fn end(&self, id: &str, how: TransactionState) -> bool {
        let mut all = self.all();
        let Some((id, _)) = all.open.remove_entry(id) else {
            return false;
        };
        if all.order.len() >= ENDED_MAX
            && let Some(oldest) = all.order.pop_front()
        {
            all.ended.remove(&oldest);
        }
        debug_assert!(
            matches!(how, TransactionState::Committed(_) | TransactionState::Aborted(_)),
            "a transaction that has ended is committed or aborted: {how:?}"
        );
        all.order.push_back(id.clone());
        all.ended.insert(id, how);
        debug_assert_eq!(
            all.order.len(),
            all.ended.len(),
            "each transaction that has ended is forgotten in its turn"
        );
        true
    }

    /// Incarnation and number of an id of this server.
    fn parts(&self, id: &str) -> Option<(u32, u64)> {
        let own = id.strip_prefix(&*self.server)?.strip_prefix(':')?;
        let mut parts = own.strip_prefix(KIND)?.splitn(3, '-');
        let incarnation = u32::from_str_radix(parts.next()?, 16).ok()?;
        let number = u64::from_str_radix(parts.next()?, 16).ok()?;
        let random = parts.next()?;
        (random.len() == 8 && u32::from_str_radix(random, 16).is_ok()).then_some((incarnation, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_their_start_and_their_number() {
        let (one, other) = (Registry::of("n1".into()), Registry::of("n1".into()));
        let id = one.next_id(|| 0x1234_5678_9abc_def0);
        assert_eq!(&*id, "n1:tx123456-1-12345678");
        let restarted = other.next_id(|| 0x7777_7777_7777_7777);
        let became = |registry: &Registry, id: &str| match registry.find(id) {
            Ok(Err(TransactionState::Aborted(why))) => why,
            Ok(_) => "open".into(),
            Err(e) => e.kind().wire().to_owned(),
        };
        for (id, expected) in [
            (&*id, "it ended long ago"),
            ("n1:tx123456-2-12345678", "transaction_missing_exception"),
            (&*restarted, "the server that held it was restarted"),
            ("n1:tx123456-1", "transaction_missing_exception"),
            ("n1:txzz-1-00000000", "transaction_missing_exception"),
            ("n2:tx123456-1-12345678", "transaction_missing_exception"),
            ("", "transaction_missing_exception"),
        ] {
            assert_eq!(became(&one, id), expected, "{id}");
        }
    }
}
