//! What a read is promised to see: `?after=`, `?read_level=`, `?transaction=`, and under which locks it is done.
//!
//! By one record of the log every level is the same: a change is visible whole, once it is durable. By the portable path
//! (`changes.path`) a change is applied document by document, and the levels differ. Not here: `?lock=` of single
//! documents, which must be covered.

use crate::call::Call;
use crate::respond::{Answer, Body};
use dsl::search::SearchRequest;
use engine::{Document, Read};
use model::{CommitSeq, Error, Result, Target};
use relations::transactions::{ReadLevel, ReadScope};
use serde_json::{Value, json};

/// The promises that a read asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visibility {
    /// Everything up to this change is seen.
    after: Option<u64>,
    /// Locks that must be alive.
    pub(crate) locks: Vec<String>,
    /// It is done in this transaction.
    pub(crate) transaction: Option<String>,
    level: ReadLevel,
}

impl Visibility {
    /// Takes the parameters.
    ///
    /// # Errors
    /// Values that are not theirs.
    pub(crate) fn take(call: &mut Call) -> Result<Visibility> {
        let level = match call.params.take("read_level").as_deref() {
            None | Some("plain") => ReadLevel::Plain,
            Some("settled") => ReadLevel::Settled,
            Some("snapshot") => ReadLevel::Snapshot,
            Some(other) => {
                return Err(Error::illegal(format!(
                    "[read_level] must be one of [plain, settled, snapshot] but was [{other}]"
                )));
            }
        };
        Ok(Visibility {
            level,
            after: call.params.take_number("after")?,
            locks: call.take_locks()?,
            transaction: call.params.take("transaction"),
        })
    }

    /// Whether there is a change to wait for.
    pub(crate) fn waits(&self) -> bool {
        self.after.is_some()
    }

    /// Waits until the change is there, and seen by searches of these indices.
    ///
    /// # Errors
    /// A change that nobody knows, or that the transaction does not see; a missing index.
    pub(crate) async fn reach(&self, call: &Call, target: &Target) -> Result<()> {
        match (self.after, &self.transaction) {
            (None, _) => {}
            (Some(after), None) => call.rest.relations.reach(target, after).await?,
            (Some(after), Some(id)) => sees(after, call.rest.relations.view_in(id).await?.1)?,
        }
        Ok(())
    }

    /// The same for searches, which only need their locks to be alive. Gives the view that is to be searched.
    ///
    /// # Errors
    /// One is not; the transaction is not open.
    pub(crate) async fn before_search(&self, call: &Call, target: &Target) -> Result<Option<String>> {
        crate::actions::locks::check_alive(call, &self.locks)?;
        self.reach(call, target).await?;
        match &self.transaction {
            None => Ok(None),
            Some(id) => Ok(Some(call.rest.relations.view_in(id).await?.0)),
        }
    }

    /// A read of these indices begins, a search or of single documents; see [`Looking`].
    ///
    /// # Errors
    /// Changes that do not end.
    pub(crate) async fn look(&self, call: &Call, target: &Target, search: Option<&SearchRequest>) -> Result<Looking> {
        // A transaction and a point in time have their moment.
        if self.transaction.is_some() || search.is_some_and(|request| request.pit.is_some()) {
            return Ok(Looking(None));
        }
        call.rest.relations.begin_read(target, self.level, search).await.map(Looking)
    }

    /// Reads a document, in the transaction if there is one.
    ///
    /// # Errors
    /// As the engine's.
    pub(crate) async fn read(&self, call: &Call, read: Read) -> Result<Option<Document>> {
        match &self.transaction {
            None => Ok(call.rest.engine.read(vec![read]).await?.pop().flatten()),
            Some(id) => call.rest.relations.read_in(id, read).await,
        }
    }
}

/// A read at its level, from its beginning until its answer has been made.
#[derive(Debug)]
pub(crate) struct Looking(Option<ReadScope>);

impl Looking {
    /// The moment that a search searches, if it is bound to one.
    pub(crate) fn view(&self) -> Option<String> {
        self.0.as_ref()?.view.clone()
    }
    /// The answer, or the refusal; with the changes that it may show half applied.
    pub(crate) async fn over(self, call: &Call, answer: Result<Answer>) -> Result<Answer> {
        let Some(look) = self.0 else { return answer };
        let met = call.rest.relations.end_read(look).await;
        let (mut answer, met) = (answer?, met?);
        if met.is_empty() {
            return Ok(answer);
        }
        let told = json!({ "in_flight": met });
        match &mut answer.body {
            Body::Json(Value::Object(members)) => drop(members.insert("_changes".into(), told)),
            Body::Raw(bytes) if bytes.ends_with(b"}") => {
                let mut text = bytes[..bytes.len() - 1].to_vec();
                text.extend_from_slice(format!(",\"_changes\":{told}}}").as_bytes());
                *bytes = text.into();
            }
            _ => {}
        }
        Ok(answer)
    }
}

fn sees(after: CommitSeq, read_seq: CommitSeq) -> Result<()> {
    if after <= read_seq {
        return Ok(());
    }
    Err(Error::illegal(format!(
        "[after] [{after}] is later than [read_seq] [{read_seq}] of the transaction, which reads nothing newer"
    )))
}
