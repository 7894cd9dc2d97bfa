//! By-query jobs: delete, update, reindex. Each scans one view and writes every document on condition
//! that it has not changed since; what has changed is a conflict, never a lost update.

use dsl::query::Query;
use engine::tasks::Task;
use engine::{Barrier, Document, Effect, Expect, Outcome, Refresh, See, Update, Write, WriteOp};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Target};
use script::{Budget, Params, Program, UpdateContext};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What a job does with each document.
#[derive(Clone, Debug)]
pub enum Action {
    /// It goes.
    Delete,
    /// Script, or re-index as it is.
    Update { script: Option<(Program, Params)> },
    /// It is written elsewhere.
    Reindex {
        index: String,
        create: bool,
        external: bool,
        script: Option<(Program, Params)>,
        routing: Option<String>,
        typed: bool,
    },
}

/// A job.
#[derive(Clone, Debug)]
pub struct Job {
    /// Which indices are scanned.
    pub target: Target,
    /// Which documents.
    pub query: Query,
    /// What is done.
    pub action: Action,
    /// Conflicts are counted, not fatal.
    pub proceed: bool,
    /// At most this many documents.
    pub max_docs: Option<u64>,
    /// Documents a batch.
    pub batch: usize,
    /// Refresh afterwards.
    pub refresh: bool,
    /// Documents a second; `None` without limit. Sleeping belongs to the caller, who passes `pause`.
    pub requests_per_second: Option<f64>,
}

/// What a job counts.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub total: u64,
    pub created: u64,
    pub updated: u64,
    pub deleted: u64,
    pub noops: u64,
    pub batches: u64,
    pub conflicts: u64,
    pub failures: Vec<Value>,
    pub took_ms: i64,
    pub cancelled: bool,
    pub by_index: std::collections::BTreeMap<String, (u64, u64)>,
}

impl Counts {
    /// The status of a task and the core of its answer.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut out = Map::new();
        out.insert("total".into(), self.total.into());
        out.insert("updated".into(), self.updated.into());
        out.insert("created".into(), self.created.into());
        out.insert("deleted".into(), self.deleted.into());
        out.insert("batches".into(), self.batches.into());
        out.insert("version_conflicts".into(), self.conflicts.into());
        out.insert("noops".into(), self.noops.into());
        out.insert("retries".into(), json!({ "bulk": 0, "search": 0 }));
        out.insert("throttled_millis".into(), 0.into());
        out.insert("requests_per_second".into(), json!(-1.0));
        out.insert("throttled_until_millis".into(), 0.into());
        out
    }
}

impl crate::Relations {
    /// Runs a job to its end.
    ///
    /// # Errors
    /// A script's; the scan's. Conflicts without `proceed` end the job with what was done so far in `Counts`.
    pub async fn run(&self, job: Job, task: Arc<Task>) -> Result<Counts> {
        let start = self.clock.wall_ms();
        let (mut found, total) = self.found(&job).await?;
        let mut counts = Counts {
            total,
            ..Counts::default()
        };
        let mut done = 0;
        let mut ended = counts.total == 0;
        while !ended {
            let mut documents = Vec::new();
            while documents.len() < job.batch && done < counts.total {
                match found.next().await {
                    Some(document) => documents.push(document?),
                    None => {
                        ended = true;
                        break;
                    }
                }
                done += 1;
            }
            if documents.is_empty() {
                break;
            }
            counts.batches += 1;
            ended = self.batch(&job, documents, &mut counts).await? || ended;
            task.progress(Value::Object(counts.to_json()));
            if task.is_cancelled() {
                counts.cancelled = true;
                break;
            }
        }
        if job.refresh {
            let target = match &job.action {
                Action::Reindex { index, .. } => Target::index(index),
                _ => job.target.clone(),
            };
            self.engine.refresh(&target, None).await?;
        }
        counts.took_ms = self.clock.wall_ms() - start;
        Ok(counts)
    }

    /// What a job is about, and how many: with joins both in the moment that the joins read.
    async fn found(&self, job: &Job) -> Result<(BoxStream<'static, Result<Document>>, u64)> {
        let Some(others) = crate::joins::targets_of(&job.query) else {
            let total = self.total(job, &job.query, None).await?;
            let found = self
                .engine
                .scan(&job.target, job.query.clone(), See::Plain, Barrier::None)
                .await?;
            return Ok((found, total));
        };
        let moment = self.moment(&job.target, others).await?;
        let found = self.found_in(job, &moment).await;
        // The stream holds what it reads.
        self.engine.close_view(&moment).await?;
        found
    }

    async fn found_in(&self, job: &Job, view: &str) -> Result<(BoxStream<'static, Result<Document>>, u64)> {
        let query = self.resolved(&job.target, job.query.clone(), Some(view)).await?;
        let total = self.total(job, &query, Some(view)).await?;
        Ok((self.engine.scan_view(&job.target, query, view).await?, total))
    }

    async fn total(&self, job: &Job, query: &Query, view: Option<&str>) -> Result<u64> {
        let request = dsl::search::SearchRequest {
            query: Some(query.clone()),
            view: view.map(str::to_owned),
            size: 0,
            track_total_hits: dsl::search::TrackTotal::Exact,
            types: job.target.types.clone(),
            ..Default::default()
        };
        let response = self.engine.search(&job.target, request, See::Plain).await?;
        let total = response.hits.total.map_or(0, |t| t.value);
        Ok(job.max_docs.map_or(total, |max| total.min(max)))
    }

    /// One batch; true if the job ends here.
    async fn batch(&self, job: &Job, documents: Vec<Document>, counts: &mut Counts) -> Result<bool> {
        let mut writes = Vec::with_capacity(documents.len());
        for document in documents {
            counts.by_index.entry(document.at.index.to_string()).or_default().0 += 1;
            match self.plan(&job.action, document)? {
                Some(write) => writes.push(write),
                None => counts.noops += 1,
            }
        }
        let places: Vec<DocAddress> = writes.iter().map(|w| w.at.clone()).collect();
        let outcomes = self.engine.write(writes, Refresh::No).await?;
        let mut ended = false;
        for (at, outcome) in places.into_iter().zip(outcomes) {
            let failure = match outcome {
                Outcome::Written(written) => {
                    match written.effect {
                        Effect::Created => counts.created += 1,
                        Effect::Updated => counts.updated += 1,
                        Effect::Deleted => {
                            counts.deleted += 1;
                            counts.by_index.entry(at.index.to_string()).or_default().1 += 1;
                        }
                        Effect::Noop | Effect::NotFound => counts.noops += 1,
                    }
                    continue;
                }
                Outcome::Conflict(conflict) => {
                    counts.conflicts += 1;
                    if job.proceed {
                        continue;
                    }
                    let reason = conflict_reason(&at.id.id, &conflict);
                    Error::new(ErrorKind::VersionConflict, reason)
                        .with("index", at.index.as_str())
                        .with("shard", "0")
                }
                Outcome::Refused(error) => error,
                Outcome::Held(_) => Error::new(ErrorKind::VersionConflict, format!("[{}]: held by a change", at.id.id)),
                Outcome::Unknown => Error::new(ErrorKind::LogFailed, format!("[{}]: outcome unknown", at.id.id)),
            };
            ended = true;
            let mut entry = Map::new();
            entry.insert("index".into(), at.index.as_str().into());
            if let Some(doc_type) = &at.id.doc_type {
                entry.insert("type".into(), (&**doc_type).into());
            }
            entry.insert("id".into(), (&*at.id.id).into());
            entry.insert("cause".into(), Value::Object(failure.to_json()));
            entry.insert("status".into(), failure.status().into());
            counts.failures.push(Value::Object(entry));
        }
        Ok(ended)
    }

    /// The write for one document; `None` for a noop.
    fn plan(&self, action: &Action, document: Document) -> Result<Option<Write>> {
        let unchanged = Expect::Unchanged {
            seq_no: document.stamp.seq_no,
            primary_term: document.stamp.primary_term,
        };
        let mut write = Write::new(document.at.clone(), WriteOp::Delete);
        write.routing = document.routing.clone();
        write.parent = document.parent.clone();
        write.expect = unchanged;
        match action {
            Action::Delete => {}
            Action::Update { script: None } => write.op = WriteOp::Put(document.source),
            Action::Update { script: Some(script) } => {
                write.op = WriteOp::Update(Box::new(Update {
                    doc: None,
                    script: Some(script.clone()),
                    upsert: None,
                    doc_as_upsert: false,
                    scripted_upsert: false,
                    detect_noop: false,
                    lenient_op: document.at.id.doc_type.is_some(),
                    budget: Budget::default(),
                    now_ms: self.clock.wall_ms(),
                }));
            }
            Action::Reindex {
                index,
                create,
                external,
                script,
                routing,
                typed,
            } => {
                let (doc_type, typed) = (document.at.id.doc_type.clone(), *typed);
                let mut id = document.at.id.id.to_string();
                let mut source = document.source.clone();
                let mut to = index.clone();
                if let Some((program, params)) = script {
                    let mut meta = Map::new();
                    meta.insert("_index".into(), to.as_str().into());
                    meta.insert("_id".into(), id.as_str().into());
                    meta.insert("_version".into(), document.stamp.version.into());
                    meta.insert("_routing".into(), write.routing.as_deref().map_or(Value::Null, Value::from));
                    let context = UpdateContext {
                        source: source.parse()?,
                        op: "index".into(),
                        meta,
                    };
                    let result = script::run_update(program, params, context, Budget::default(), self.clock.wall_ms())?;
                    match result.op.as_str() {
                        "index" | "create" => {}
                        "noop" | "none" => return Ok(None),
                        "delete" => write.op = WriteOp::Delete,
                        other => {
                            return Err(Error::illegal(format!(
                                "Operation type [{other}] not allowed, only [noop, index, delete] are allowed"
                            )));
                        }
                    }
                    if let Some(new) = result.meta.get("_id").and_then(Value::as_str) {
                        id = new.to_owned();
                    }
                    if let Some(new) = result.meta.get("_index").and_then(Value::as_str) {
                        to = new.to_owned();
                    }
                    write.routing = result.meta.get("_routing").and_then(Value::as_str).map(str::to_owned);
                    source = engine::Source::from_value(&result.source);
                    if result.op != "delete" {
                        write.op = WriteOp::Put(source);
                    }
                } else {
                    write.op = WriteOp::Put(source);
                }
                match routing.as_deref() {
                    Some("discard") => write.routing = None,
                    Some(text) if text.starts_with('=') => write.routing = Some(text[1..].to_owned()),
                    _ => {}
                }
                let id = match doc_type {
                    Some(doc_type) if typed => DocId::typed(doc_type, id),
                    None if typed => DocId::typed("_doc", id),
                    _ => DocId::plain(id),
                };
                write.at = DocAddress {
                    index: IndexName::new(to),
                    id,
                };
                write.expect = match (create, external) {
                    (true, _) => Expect::Absent,
                    (_, true) => Expect::NewerThan {
                        version: document.stamp.version,
                        or_equal: false,
                    },
                    _ => Expect::Anything,
                };
            }
        }
        Ok(Some(write))
    }

    /// The registry of tasks.
    pub fn tasks(&self) -> &Arc<engine::tasks::Tasks> {
        &self.tasks
    }
}

/// What a conflict of one document was about.
fn conflict_reason(id: &str, conflict: &engine::Conflict) -> String {
    let found = match conflict.found {
        engine::Found::Here(stamp) | engine::Found::Deleted(stamp) => Some(stamp),
        engine::Found::Nothing => None,
    };
    match (conflict.expect, found) {
        (engine::Expect::Absent, Some(stamp)) => format!(
            "[{id}]: version conflict, document already exists (current version [{}])",
            stamp.version
        ),
        (engine::Expect::Unchanged { seq_no, primary_term }, Some(stamp)) => format!(
            "[{id}]: version conflict, required seqNo [{seq_no}], primary term [{primary_term}]. current document has seqNo [{}] \
             and primary term [{}]",
            stamp.seq_no, stamp.primary_term
        ),
        (engine::Expect::Unchanged { seq_no, primary_term }, None) => format!(
            "[{id}]: version conflict, required seqNo [{seq_no}], primary term [{primary_term}]. but no document was found"
        ),
        (_, Some(stamp)) => format!("[{id}]: version conflict, current version [{}] differs", stamp.version),
        (_, None) => format!("[{id}]: version conflict, no document was found"),
    }
}
