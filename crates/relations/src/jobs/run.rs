//! A job from its beginning to its end, a step at a time.

use super::batch::{BatchItem, Settled};
use super::plan::work;
use super::record::{Kept, Order, Reached, TaskRecord, Written};
use super::{BATCH_MAX, Counts, Job, JobAction, Whole};
use crate::intents::origin;
use crate::schema;
use async_recursion::async_recursion as boxed;
use engine::tasks::Task;
use engine::{Cursor, EngineExt as _, IndexInfo, Numbered, Part, ViewPromise, WriteOp};
use model::{Error, ErrorKind, IndexName, Result, Target};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Sources of a batch, and of what is read ahead.
const BATCH_BYTES: usize = 4 << 20;
/// After so long a batch is committed as it is: scripts may take their time.
const BATCH_TIME: Duration = Duration::from_millis(250);
/// How long a view lives that nobody reads.
const VIEW_ALIVE: Duration = Duration::from_secs(300);

/// The result of beginning.
#[derive(Debug)]
pub enum Begun {
    /// A job to be run.
    Run(Box<Run>),
    /// The key of the request leads to this task.
    Known(u64),
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStep {
    /// There is more to do.
    More,
    /// It has ended.
    Ended,
}

/// One index of a job.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    index: IndexName,
    /// The job is about this index and no later one of its name.
    uuid: Arc<str>,
    /// The place of the last document that matched at the start.
    last: Cursor,
}

impl Reach {
    pub(super) fn render(&self) -> Value {
        json!([self.index.as_str(), &*self.uuid, self.last.render()])
    }
    pub(super) fn parse(value: &Value) -> Option<Reach> {
        Some(Reach {
            index: IndexName::new(value[0].as_str()?),
            uuid: Arc::from(value[1].as_str()?),
            last: Cursor::parse(&value[2])?,
        })
    }
}

/// How far a job is: in which of its indices, and up to which document there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) reach: usize,
    pub(super) after: Option<Cursor>,
}

/// A job that runs.
#[derive(Debug)]
pub struct Run {
    pub(super) job: Job,
    /// Its counters.
    pub counts: Counts,
    /// As it is remembered; `None`: it is one batch.
    pub(super) record: Option<TaskRecord>,
    query: dsl::query::Query,
    view: String,
    reaches: Vec<Reach>,
    /// The place up to which it is committed.
    pub(super) at: Progress,
    /// Documents that were read, and where reading goes on.
    ahead: VecDeque<(usize, Numbered)>,
    read: Progress,
    /// After a restart: what was written at the source since the start is copied too.
    resumed: bool,
    pub(super) ended: bool,
    started_ms: i64,
    order: Order,
    /// Where copies go: the index behind each name, which no later one of its name replaces.
    pub(super) destinations: Destinations,
    /// An index of the job that was gone when it was to go on after a restart.
    gone: Option<Error>,
}

/// The uuid of the index behind each name that copies go to.
pub(super) type Destinations = BTreeMap<String, Arc<str>>;

impl Run {
    /// The job.
    pub fn job(&self) -> &Job {
        &self.job
    }
    /// A restarted server would find it.
    pub fn is_recorded(&self) -> bool {
        self.record.is_some()
    }
}

/// Does it name what it does not spell out?
fn is_wild(target: &Target) -> bool {
    let wild = |expression: &String| expression.is_empty() || expression == "_all" || expression.contains('*');
    target.expressions.is_empty() || target.expressions.iter().any(wild)
}

impl crate::Relations {
    /// Begins a job: what matches now is what it is about. A job of one batch that nobody would ask for again is not
    /// written down.
    ///
    /// # Errors
    /// The query's; a lock that is not alive; an index of the server; too much for one change.
    #[boxed]
    pub async fn begin(&self, job: Job, task: &Task, order: &Order) -> Result<Begun> {
        for id in &job.guards {
            self.lease(id)?;
        }
        let started_ms = self.clock.wall_ms();
        self.refuse_system_indices(&job).await?;
        let (view, query) = self.scope(&job).await?;
        let begun = self.begin_run(job, task, order, started_ms, &view, query).await;
        if !matches!(begun, Ok(Begun::Run(_))) {
            self.engine.close_view(&view).await?;
        }
        begun
    }

    /// Refuses a job that writes to an index of the server by name, also where nothing matches.
    async fn refuse_system_indices(&self, job: &Job) -> Result<()> {
        let written = match &job.action {
            JobAction::Reindex { index, .. } => &Target::index(index),
            _ if is_wild(&job.target) => return Ok(()),
            _ => &job.target,
        };
        // A name that leads nowhere is refused by the view of the job, or made by the first document that is copied.
        let named = self.engine.indices(written).await.unwrap_or_default();
        match named.iter().find(|index| schema::is_system(index.name.as_str())) {
            Some(system) => Err(schema::forbidden(system.name.as_str())),
            None => Ok(()),
        }
    }

    async fn begin_run(
        &self,
        job: Job,
        task: &Task,
        order: &Order,
        started_ms: i64,
        view: &str,
        query: dsl::query::Query,
    ) -> Result<Begun> {
        let mut reaches = Vec::new();
        let mut total = 0;
        let cancellation = task.cancellation().clone();
        for extent in self.engine.extents(&job.target, query.clone(), view, cancellation).await? {
            let name = extent.index.as_str();
            if schema::is_system(name) {
                // A wildcard leads there all the same on an engine that has no system indices: it is passed by.
                continue;
            }
            total += extent.count;
            reaches.push(Reach {
                uuid: Arc::from(extent.uuid),
                index: extent.index,
                last: extent.last,
            });
        }
        let total = job.max_docs.map_or(total, |max| total.min(max));
        if let Some(whole) = job.whole
            && total > whole.operations_max
        {
            let (most, name) = (whole.operations_max, whole.operations_setting);
            let reason =
                format!("[{total}] documents match, too many for one change; the limit of [{most}] is the setting [{name}]");
            return Err(Error::new(ErrorKind::TransactionFailed, reason));
        }
        let one_batch = job.whole.is_some() || total <= job.batch.min(BATCH_MAX) as u64;
        let mut destinations = Destinations::new();
        if let JobAction::Reindex { index, .. } = &job.action {
            self.bind(index, &mut destinations).await?;
        }
        let mut record = None;
        // By the portable path what came of a batch may be unknown for a while: the record tells.
        if order.keep || order.key.is_some() || !one_batch || self.portable.is_some() {
            let deletes = matches!(job.action, JobAction::Delete);
            let written = self.write_down(task, order, deletes, &reaches, &destinations, total);
            if let Written::Known(number) = written.await? {
                return Ok(Begun::Known(number));
            }
            record = Some(TaskRecord::new(task.id));
        }
        let counts = Counts {
            total,
            ..Counts::default()
        };
        let mut run = Run::new(job, counts, record, query, view, reaches, started_ms, order.clone());
        run.destinations = destinations;
        Ok(Begun::Run(Box::new(run)))
    }

    /// Notes the index behind a name that copies go to, the first time; one that is only to be made is noted later.
    async fn bind(&self, name: &str, destinations: &mut Destinations) -> Result<()> {
        if destinations.contains_key(name) {
            return Ok(());
        }
        let infos = self.engine.indices(&lenient(name)).await?;
        let writes = |info: &&IndexInfo| infos.len() == 1 || info.aliases.get(name).is_some_and(|a| a["is_write_index"] == true);
        if let Some(info) = infos.iter().find(writes) {
            destinations.insert(name.to_owned(), Arc::from(info.uuid.as_str()));
        }
        Ok(())
    }

    /// Is an index of this name there with this uuid, or behind an alias of this name?
    pub(super) async fn is_there(&self, name: &str, uuid: &str) -> Result<bool> {
        let infos = self.engine.indices(&lenient(name)).await?;
        Ok(infos.iter().any(|info| info.uuid == uuid))
    }

    /// Goes on with a job after a restart: what matched at its start and has not been written since.
    ///
    /// # Errors
    /// The query's; a record that is not sound.
    #[boxed]
    pub async fn resume(&self, mut job: Job, task: &Task, kept: &Kept) -> Result<Run> {
        // An index that is gone is told of, once it would be its turn.
        job.target.ignore_unavailable = true;
        let (view, query) = self.scope(&job).await?;
        let mut counts = Counts {
            total: kept.total,
            ..Counts::default()
        };
        let mut record = TaskRecord::new(task.id);
        let (mut at, mut ended) = (Progress::default(), false);
        let mut destinations = kept.destinations.clone();
        if let Some((stamp, reached)) = &kept.at {
            let reached = Reached::of(reached, job.batch)?;
            (counts, at, ended) = (reached.counts, reached.at, reached.ended);
            destinations.extend(reached.destinations);
            record.at = Some(*stamp);
        }
        // After the view was opened: what has its uuid still had it then.
        let mut gone = None;
        for reach in kept.reaches.iter().skip(at.reach) {
            if gone.is_none() && !self.is_there(reach.index.as_str(), &reach.uuid).await? {
                gone = Some(engine::catalog::index_replaced(reach.index.as_str(), &reach.uuid));
            }
        }
        let order = Order {
            request: Value::Null,
            key: None,
            keep: false,
        };
        let mut run = Run::new(
            job,
            counts,
            Some(record),
            query,
            &view,
            kept.reaches.clone(),
            kept.started_ms,
            order,
        );
        (run.at, run.read, run.ended, run.resumed) = (at.clone(), at, ended, true);
        (run.destinations, run.gone) = (destinations, gone);
        Ok(run)
    }

    /// A step took longer than the view lives: the job goes on in another one, as after a restart.
    async fn reopen(&self, run: &mut Run) -> Result<()> {
        run.job.target.ignore_unavailable = true;
        (run.view, run.query) = self.scope(&run.job).await?;
        run.ahead.clear();
        (run.read, run.resumed) = (run.at.clone(), true);
        Ok(())
    }

    /// One moment of what a job reads, with its joins resolved in it.
    async fn scope(&self, job: &Job) -> Result<(String, dsl::query::Query)> {
        let others = crate::joins::targets_of(&job.query);
        let joins = others.is_some();
        let mut others = others.unwrap_or_default();
        others.extend(
            self.refresh_lookups(crate::joins::lookups_of(&job.target, &job.query))
                .await?,
        );
        // A batch compares each document when it is committed, so each shard may have a moment of its own.
        let view = self.moment(&job.target, others, ViewPromise::MomentPerShard).await?;
        if !joins {
            return Ok((view, job.query.clone()));
        }
        match self.resolve_in_view(&job.target, job.query.clone(), Some(&view)).await {
            Ok(query) => Ok((view, query)),
            Err(error) => {
                self.engine.close_view(&view).await?;
                Err(error)
            }
        }
    }

    /// One batch, or the end. Scripts run on the caller's thread.
    ///
    /// # Errors
    /// A script's, the engine's, a lock of the job that is over: nothing of the batch was written. A step that was
    /// refused for want of room may be tried again.
    #[boxed]
    pub async fn step(&self, run: &mut Run, task: &Task) -> Result<JobStep> {
        if run.ended {
            return Ok(JobStep::Ended);
        }
        if task.is_cancelled() {
            run.counts.cancelled = true;
            return Ok(JobStep::Ended);
        }
        if let Some(error) = run.gone.take() {
            run.counts.fail(&error);
            run.ended = true;
            return Ok(JobStep::Ended);
        }
        // A view that was read ahead of is kept for the next reading; a limit of the store may shorten that.
        let _ = self.engine.renew_view(&run.view, VIEW_ALIVE).await;
        let mut read = self.next(run, task).await;
        if matches!(&read, Err(error) if error.kind() == ErrorKind::SearchContextMissing) {
            self.reopen(run).await?;
            read = self.next(run, task).await;
        }
        let documents = match read {
            Err(error) if error.kind() == ErrorKind::TaskCancelled => {
                run.counts.cancelled = true;
                run.ended = true;
                return Ok(JobStep::Ended);
            }
            read => read?,
        };
        if documents.is_empty() {
            run.ended = true;
            return Ok(JobStep::Ended);
        }
        let done = self.work_batch(run, task, documents).await;
        if done.is_err() {
            // Once more from the same place, should the caller try.
            run.ahead.clear();
            run.read = run.at.clone();
        }
        done
    }

    /// Works on the documents that were read, as many as one batch may have, and commits that.
    async fn work_batch(&self, run: &mut Run, task: &Task, mut left: VecDeque<(usize, Numbered)>) -> Result<JobStep> {
        let (mut items, to) = self.fill_batch(run, &mut left).await?;
        debug_assert!(!items.is_empty(), "a batch makes progress");
        debug_assert!(
            to.reach >= run.at.reach && to.reach < run.reaches.len(),
            "a job goes through its indices in order: from {} to {}",
            run.at.reach,
            to.reach
        );
        debug_assert!(
            to.reach > run.at.reach || to.after != run.at.after,
            "a batch ends behind the one before, so a job that goes on does nothing twice: {to:?}"
        );
        let more = run.counts.done + (items.len() as u64) < run.counts.total;
        if run.record.is_none() && run.job.whole.is_none() && more {
            // It is more than one change after all.
            let deletes = matches!(run.job.action, JobAction::Delete);
            self.write_down(task, &run.order, deletes, &run.reaches, &run.destinations, run.counts.total)
                .await?;
            run.record = Some(TaskRecord::new(task.id));
        }
        match self.commit(run, &mut items, &to).await? {
            Settled::Stopped => {
                run.counts.cancelled = true;
                run.ended = true;
            }
            Settled::Written { ended } => {
                run.at = to;
                left.into_iter().rev().for_each(|back| run.ahead.push_front(back));
                run.ended = ended || run.job.whole.is_some();
            }
            Settled::Elsewhere => {
                run.ahead.clear();
                run.read = run.at.clone();
            }
        }
        Ok(if run.ended { JobStep::Ended } else { JobStep::More })
    }

    /// Takes documents from `left`, works out their writes, and stops where a batch is full. Gives the batch, and how far the job
    /// is with it.
    async fn fill_batch(&self, run: &mut Run, left: &mut VecDeque<(usize, Numbered)>) -> Result<(Vec<BatchItem>, Progress)> {
        let begun = self.clock.monotonic();
        let mut items: Vec<BatchItem> = Vec::with_capacity(left.len());
        let mut to = run.at.clone();
        let mut destinations = HashSet::new();
        let mut bytes = 0;
        while let Some((reach, numbered)) = left.pop_front() {
            let mut write = work(&run.job.action, &numbered.document, run.started_ms)?;
            let source = run.reaches[reach].uuid.clone();
            if let Some(write) = &mut write {
                write.index_uuid = match &run.job.action {
                    JobAction::Reindex { .. } => {
                        let name = write.at.index.as_str();
                        self.bind(name, &mut run.destinations).await?;
                        run.destinations.get(name).cloned()
                    }
                    JobAction::Delete | JobAction::Update { .. } => Some(source.clone()),
                };
            }
            if let Some(write) = &write
                && copies(&run.job.action)
                && !destinations.insert(write.at.clone())
            {
                if run.job.whole.is_some() {
                    let at = &write.at;
                    let reason = format!(
                        "several documents would be [{}][{}]: one change writes each once",
                        at.index, at.id.id
                    );
                    return Err(Error::illegal(reason));
                }
                left.push_front((reach, numbered));
                break;
            }
            if let Some(WriteOp::Put(source)) = write.as_ref().map(|write| &write.op) {
                bytes += source.0.len();
            }
            let later = !numbered.is_within(&run.reaches[reach].last);
            to = Progress {
                reach,
                after: Some(numbered.cursor),
            };
            items.push(BatchItem::new(numbered.document, source, write, later));
            match run.job.whole {
                Some(whole) => fits(bytes, whole)?,
                None if bytes >= BATCH_BYTES || self.clock.monotonic() - begun > BATCH_TIME => break,
                None => {}
            }
        }
        Ok((items, to))
    }

    /// The documents of the next batch; none: there are no more.
    async fn next(&self, run: &mut Run, task: &Task) -> Result<VecDeque<(usize, Numbered)>> {
        let left = run.job.max_docs.map_or(u64::MAX, |max| max.saturating_sub(run.counts.done));
        let size = match run.job.whole {
            Some(whole) => whole.operations_max,
            None => run.job.batch.min(BATCH_MAX) as u64,
        };
        let wanted = usize::try_from(size.min(left)).unwrap_or(usize::MAX);
        let mut bytes = 0;
        while run.ahead.len() < wanted {
            let Some(reach) = run.reaches.get(run.read.reach) else { break };
            // Marks of changes that came to nothing lift documents beyond what the job was to reach.
            let lifted = run.resumed && self.portable.is_some() && !copies(&run.job.action);
            let read_on = run.resumed && copies(&run.job.action) || lifted;
            let over = !read_on && run.read.after.as_ref().is_some_and(|after| after.covers(&reach.last));
            let part = Part {
                index: reach.index.clone(),
                after: run.read.after.clone(),
                upto: (!read_on).then(|| reach.last.clone()),
                docs_max: wanted.max(BATCH_MAX),
                bytes_max: BATCH_BYTES,
                now_ms: run.started_ms,
                cancellation: task.cancellation().clone(),
            };
            let found = if over {
                Vec::new()
            } else {
                self.engine
                    .scan_by_seq_no(&run.job.target, run.query.clone(), &run.view, part)
                    .await?
            };
            let Some(newest) = found.last() else {
                run.read = Progress {
                    reach: run.read.reach + 1,
                    after: None,
                };
                continue;
            };
            run.read.after = Some(newest.cursor.clone());
            bytes += found.iter().map(|numbered| numbered.document.source.0.len()).sum::<usize>();
            for numbered in found {
                let last = &reach.last;
                if !lifted || numbered.is_within(last) || numbered.was_within(last, origin(&numbered.document)?) {
                    run.ahead.push_back((run.read.reach, numbered));
                }
            }
            match run.job.whole {
                Some(whole) => fits(bytes, whole)?,
                None if bytes >= BATCH_BYTES => break,
                None => {}
            }
        }
        debug_assert!(
            run.ahead.iter().map(|(reach, _)| reach).is_sorted(),
            "documents that were read ahead stand in the order of the indices of the job"
        );
        let size = wanted.min(run.ahead.len());
        Ok(run.ahead.drain(..size).collect())
    }

    /// The job has run: gives its view back, makes what it wrote searchable if that was asked.
    ///
    /// # Errors
    /// The engine's.
    #[boxed]
    pub async fn close(&self, run: &mut Run) -> Result<()> {
        self.engine.close_view(&run.view).await?;
        run.ahead.clear();
        run.counts.took_ms = self.clock.wall_ms() - run.started_ms;
        // Without a write nothing is refreshed.
        if !run.job.refresh || run.counts.created + run.counts.updated + run.counts.deleted == 0 {
            return Ok(());
        }
        // An index that is gone was told of.
        let target = match &run.job.action {
            JobAction::Reindex { index, .. } => lenient(index),
            _ => Target {
                ignore_unavailable: true,
                allow_no_indices: true,
                ..run.job.target.clone()
            },
        };
        let refreshed = self.engine.refresh(&target, None).await;
        run.counts.took_ms = self.clock.wall_ms() - run.started_ms;
        refreshed.map(|_| ())
    }
}

impl Run {
    #[expect(clippy::too_many_arguments, reason = "each is a part of it, named where it is made")]
    fn new(
        job: Job,
        counts: Counts,
        record: Option<TaskRecord>,
        query: dsl::query::Query,
        view: &str,
        reaches: Vec<Reach>,
        started_ms: i64,
        order: Order,
    ) -> Run {
        Run {
            job,
            counts,
            record,
            query,
            view: view.to_owned(),
            reaches,
            at: Progress::default(),
            ahead: VecDeque::new(),
            read: Progress::default(),
            resumed: false,
            ended: false,
            started_ms,
            order,
            destinations: Destinations::new(),
            gone: None,
        }
    }
}

/// An index that need not be there, open or closed.
fn lenient(name: &str) -> Target {
    Target {
        ignore_unavailable: true,
        allow_no_indices: true,
        forbid_closed: false,
        ..Target::index(name)
    }
}

/// Refuses what is too long for one change.
fn fits(bytes: usize, whole: Whole) -> Result<()> {
    if bytes as u64 <= whole.bytes_max {
        return Ok(());
    }
    let (most, name) = (whole.bytes_max, whole.bytes_setting);
    let reason = format!("a change of [{bytes}] bytes is too long; the limit of [{most}] is the setting [{name}]");
    Err(Error::new(ErrorKind::ContentTooLong, reason))
}

fn copies(action: &JobAction) -> bool {
    matches!(action, JobAction::Reindex { .. })
}
