//! Deleting and updating by query in a transaction: what its view finds is staged, all of it in one step.
//!
//! Nothing can conflict here: the documents are compared at the commit, as all that it writes. Not here: jobs outside of
//! transactions, which go by batches and outlive a restart (`jobs`).

use super::session::HeldWrite;
use async_recursion::async_recursion as boxed;
use dsl::query::Query;
use engine::{Effect, EngineExt as _, Outcome, Update, Write, WriteOp};
use futures::StreamExt as _;
use model::{DocAddress, Error, ErrorKind, Result, Target, settings};
use script::{Params, Program};

/// The action on every document that is found.
#[derive(Clone, Debug)]
pub enum ByQuery {
    /// It goes.
    Delete,
    /// The script's work, or nothing but a new version.
    Update(Option<(Program, Params)>),
}

/// Its result.
#[derive(Clone, Debug, Default)]
pub struct ByQueryCounts {
    /// Documents that were found.
    pub total: u64,
    /// Updated ones.
    pub updated: u64,
    /// Deleted ones.
    pub deleted: u64,
    /// Ones that the script left as they are.
    pub noops: u64,
    /// Documents that were refused alone.
    pub failures: Vec<(DocAddress, Error)>,
}

impl ByQueryCounts {
    /// The outcome of one document.
    fn add(&mut self, at: DocAddress, outcome: Outcome) {
        let refused = match outcome {
            Outcome::Written(written) => {
                return match written.effect {
                    Effect::Created | Effect::Updated => self.updated += 1,
                    Effect::Deleted => self.deleted += 1,
                    Effect::Noop | Effect::NotFound => self.noops += 1,
                };
            }
            Outcome::Refused(error) => error,
            Outcome::Conflict(_) | Outcome::Held(_) | Outcome::Unknown => {
                let reason = format!("[{}]: the document is held by a change that is not finished", at.id.id);
                Error::new(ErrorKind::VersionConflict, reason)
            }
        };
        self.failures.push((at, refused));
    }
}

impl crate::Relations {
    /// Stages what is done with every document that a query finds in a transaction, at most `max_docs` of them.
    ///
    /// # Errors
    /// It is not open; more documents or bytes than a transaction may have: then nothing is staged; the query's.
    #[boxed]
    pub async fn stage_by_query(
        &self,
        id: &str,
        target: &Target,
        query: Query,
        what: &ByQuery,
        max_docs: Option<u64>,
    ) -> Result<ByQueryCounts> {
        let transaction = self.open_transaction(id).await?;
        let _turn = transaction.turn.lock().await;
        self.check_open(&transaction)?;
        let operations = settings::CHANGES_MAX_OPERATIONS;
        let most = self.engine.cluster_number(operations).await?;
        let room = most.saturating_sub(transaction.facts().operations);
        let query = self.resolve_in_view(target, query, Some(&transaction.view)).await?;
        let mut found = self.engine.scan_view(target, query, &transaction.view).await?;
        let (mut writes, mut bytes) = (Vec::new(), 0);
        while max_docs.is_none_or(|max| (writes.len() as u64) < max) {
            let Some(document) = found.next().await else { break };
            let document = document?;
            if writes.len() as u64 >= room {
                let name = operations.name;
                let reason = format!(
                    "more than [{room}] documents match, and a transaction has at most [{most}] operations; nothing was staged. \
                     The limit is the setting [{name}]"
                );
                return Err(Error::illegal(reason).with("setting", name));
            }
            let mut write = Write::new(document.at, WriteOp::Delete);
            write.routing = document.routing;
            write.parent = document.parent;
            write.timing = mapping::Timing::keep(document.times);
            let label = match what {
                ByQuery::Delete => "delete",
                ByQuery::Update(None) => {
                    bytes += document.source.0.len() as u64;
                    write.op = WriteOp::Put(document.source);
                    "index"
                }
                ByQuery::Update(Some(script)) => {
                    let typed = write.at.id.doc_type.is_some();
                    write.op = WriteOp::Update(Box::new(Update::of_script(script.clone(), typed, self.clock.wall_ms())));
                    "update"
                }
            };
            self.check_found_bytes(bytes).await?;
            writes.push(HeldWrite {
                label,
                write,
                creates: None,
                locks: Vec::new(),
            });
        }
        let places: Vec<DocAddress> = writes.iter().map(|held| held.write.at.clone()).collect();
        let mut counts = ByQueryCounts {
            total: places.len() as u64,
            ..ByQueryCounts::default()
        };
        let outcomes = self.staged_in_turn(&transaction, writes).await?;
        debug_assert_eq!(outcomes.len(), places.len(), "each write that is staged has its outcome");
        for (at, outcome) in places.into_iter().zip(outcomes) {
            counts.add(at, outcome);
        }
        transaction.facts().used = self.clock.monotonic();
        Ok(counts)
    }

    /// Sources that are written once more are held meanwhile.
    async fn check_found_bytes(&self, bytes: u64) -> Result<()> {
        if bytes < 1 << 20 {
            return Ok(());
        }
        let setting = settings::CHANGES_MAX_BYTES;
        let text = match self.engine.inspect(engine::Inspection::ClusterSettings).await? {
            engine::Inspected::ClusterSettings {
                mut persistent,
                transient,
            } => {
                persistent.extend(transient);
                settings::text(&persistent, setting)
            }
            _ => setting.default.to_owned(),
        };
        let most = model::units::parse_bytes(&text, setting.name)?;
        if bytes <= most {
            return Ok(());
        }
        let name = setting.name;
        let reason = format!("more than [{most}] bytes match; nothing was staged. The limit is the setting [{name}]");
        Err(Error::new(ErrorKind::ContentTooLong, reason).with("setting", name))
    }
}
