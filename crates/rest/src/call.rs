//! One request on its way to a handler.

use crate::Rest;
use crate::home_runtime::HomeRuntime;
use crate::path_args::PathArgs;
use crate::query_params::Params;
use crate::respond::{Answer, Style};
use crate::running::{Running, TaskHeaders};
use crate::trace_context::{TraceParent, task_headers};
use bytes::Bytes;
use dsl::document::some_lock;
use dsl::json::{Node, Reading};
use engine::breaker::Booking;
use engine::tasks::Task;
use model::{Cancellation, Dialect, DocAddress, DocId, Error, ErrorKind, IndexName, Persona, Result, Target};
use relations::leases::Caller;
use relations::transactions::{Digest, Key};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The form of an answer that `Accept` asks for, where an endpoint has several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AnswerForm {
    #[default]
    Json,
    /// A JSON value a line.
    Lines,
    /// Server-sent events.
    Events,
}

impl AnswerForm {
    pub(crate) fn of(accept: Option<&str>) -> AnswerForm {
        match accept {
            Some(accept) if accept.contains("text/event-stream") => AnswerForm::Events,
            Some(accept) if accept.contains("ndjson") => AnswerForm::Lines,
            _ => AnswerForm::Json,
        }
    }
}

/// A request as its handler gets it.
#[derive(Debug)]
pub struct Call {
    pub(crate) rest: Arc<Rest>,
    pub(crate) method: hyper::Method,
    pub(crate) args: PathArgs,
    pub(crate) params: Params,
    pub(crate) body: Bytes,
    pub(crate) dialect: Dialect,
    /// As which the listener answers; that of the dialect may be an older one that the request asks for.
    pub(crate) listener: Persona,
    pub(crate) wants_json: bool,
    /// The form of the answer, for endpoints with several.
    pub(crate) wanted: AnswerForm,
    /// `Last-Event-ID`: the newest event that the client of a stream has seen.
    pub(crate) last_event_id: Option<String>,
    /// The answer leaves as it is written: nothing in it is chosen, added or laid out.
    pub(crate) plain: bool,
    /// How the answer is written.
    pub(crate) style: Style,
    /// Who sends it, as far as it says, and by which connection.
    pub(crate) caller: Caller,
    /// The trace that it is a part of.
    pub(crate) trace: Option<TraceParent>,
    /// The memory that it builds, beside its body.
    pub(crate) booking: Mutex<Booking>,
    /// When its body was there: a search's `timeout` counts from here, its parsing included.
    pub(crate) begun: Instant,
    /// Cancelled when the client has hung up; long parsing checks it.
    pub(crate) client_gone: Cancellation,
    /// The task of a search, until the request ends.
    pub(crate) running: Option<Running>,
    /// Where the task of its connection runs.
    pub(crate) home: Option<Arc<HomeRuntime>>,
}

impl Call {
    /// Whether documents or fields are withheld from who sends it.
    pub(crate) fn withholds(&self) -> bool {
        let scope = self.rest.scope.as_ref();
        scope.is_some_and(|scope| scope.principal.rights.withholds())
    }

    /// Checks whether anybody still wants the answer: its client is there, and nobody has cancelled its task.
    pub(crate) fn still_wanted(&self) -> impl Fn() -> Result<()> + use<> {
        let client_gone = self.client_gone.clone();
        let cancelled = self.running.as_ref().map(|running| running.cancellation().clone());
        move || {
            Running::check(&client_gone)?;
            cancelled.as_ref().map_or(Ok(()), Running::check)
        }
    }
    /// Enters a task for this request, under the ids that its client gave it.
    pub(crate) fn start_task(&self, action: &str, description: String) -> Arc<Task> {
        let now_ms = self.rest.clock.wall_ms();
        self.rest.tasks.start_for(action, description, self.task_headers(), now_ms)
    }
    /// The ids that its client gave it.
    pub(crate) fn task_headers(&self) -> TaskHeaders {
        task_headers(self.caller.opaque_id.as_deref(), self.trace.as_ref())
    }
    /// Books memory that the request is about to take, until the request ends.
    ///
    /// # Errors
    /// 429 `circuit_breaking_exception`.
    pub(crate) fn book(&self, bytes: usize) -> Result<()> {
        let mut booking = self.booking.lock().unwrap_or_else(PoisonError::into_inner);
        booking.grow(bytes as u64)
    }
    /// Books what parsing a text of JSON builds, until the request ends.
    ///
    /// # Errors
    /// 429 `circuit_breaking_exception`.
    pub(crate) fn book_tree(&self, text: &[u8]) -> Result<()> {
        self.book(dsl::json::tree_bytes(text))
    }
    /// An answer of 200 with the text of JSON, if there is memory to hold it until the client has taken it; and for the
    /// trees of it, where the client wants it otherwise than it is written.
    ///
    /// # Errors
    /// 429 `circuit_breaking_exception`. Not for what tells of writes: they are done, so their answers are booked before.
    pub(crate) fn raw_answer(&self, text: impl Into<Bytes>) -> Result<Answer> {
        let text = text.into();
        self.book(text.len())?;
        if !self.plain {
            self.book(dsl::json::tree_bytes(&text).saturating_mul(crate::respond::TREES))?;
        }
        Ok(Answer::raw(text))
    }
    /// Books what answering a search takes beside what was found: its text, and the trees of it where the client wants it
    /// otherwise than it is written. A long text is written beside short requests.
    ///
    /// # Errors
    /// 429 `circuit_breaking_exception`.
    pub(crate) async fn admit_response(&self, response: &dsl::search::SearchResponse) -> Result<()> {
        let text_bytes = response.text_bytes();
        // The text, and what it was found in.
        self.book(text_bytes.saturating_mul(2))?;
        if let Some(home) = &self.home {
            home.prolong(text_bytes).await;
        }
        if self.plain {
            return Ok(());
        }
        self.book(response.tree_bytes().saturating_mul(crate::respond::TREES))
    }
    /// The milliseconds since a time of the wall clock.
    pub(crate) fn took_since(&self, started: i64) -> i64 {
        (self.rest.clock.wall_ms() - started).max(0)
    }
    /// A part of the path.
    pub(crate) fn arg(&self, name: &str) -> Option<&str> {
        self.args.get(name)
    }
    /// `?lock=`: ids of locks under which something is done.
    ///
    /// # Errors
    /// It is there and empty: what relies on a lock is not done without one.
    pub(crate) fn take_locks(&mut self) -> Result<Vec<String>> {
        self.params.take_list("lock").map_or(Ok(Vec::new()), some_lock)
    }
    /// An idempotency key of whoever calls, for the request of this digest.
    ///
    /// # Errors
    /// It is empty or too long.
    pub(crate) fn key(&self, text: Option<&str>, digest: impl FnOnce() -> Digest) -> Result<Option<Key>> {
        let user = self.caller.user.as_deref().unwrap_or_default();
        text.map(|text| Key::new(user, text, digest())).transpose()
    }
    /// A part of the path that the route guarantees.
    pub(crate) fn path_part(&self, name: &str) -> Result<String> {
        self.arg(name)
            .map(str::to_owned)
            .ok_or_else(|| Error::illegal(format!("[{name}] is missing")))
    }
    /// How JSON is read in this dialect.
    pub(crate) fn reading(&self) -> Reading {
        Reading {
            lenient: self.dialect.rules.reads_loose_json,
            depth_max: usize::from(self.dialect.depths.json),
            ..Reading::default()
        }
    }
    /// The body, or `source=` of the URL. Who asks for it parses it, so what that builds is booked.
    ///
    /// # Errors
    /// 429 `circuit_breaking_exception`.
    pub(crate) fn content(&mut self) -> Result<Bytes> {
        let source = self.params.take("source");
        let content = if self.body.is_empty() {
            source.map(Bytes::from).unwrap_or_default()
        } else {
            self.body.clone()
        };
        // A parsed body lives as long as its handler: it is booked to the end.
        self.book(dsl::json::parsed_bytes(&content))?;
        Ok(content)
    }
    /// The body as a tree, if there is one.
    ///
    /// # Errors
    /// It is no JSON.
    pub(crate) fn json(&mut self) -> Result<Option<Node>> {
        let content = self.content()?;
        if content.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        dsl::json::read(&content, self.reading()).map(Some)
    }
    /// The body as a tree.
    ///
    /// # Errors
    /// There is none, or it is no JSON.
    pub(crate) fn json_needed(&mut self) -> Result<Node> {
        self.json()?
            .ok_or_else(|| Error::new(ErrorKind::Parse, "request body is required"))
    }
    /// Refuses a body where none is read.
    ///
    /// # Errors
    /// There is one.
    pub(crate) fn no_body(&self) -> Result<()> {
        if self.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        Err(Error::illegal(format!(
            "request [{}] does not support having a body",
            self.params.path()
        )))
    }
    /// Where the document of the path is.
    ///
    /// # Errors
    /// No index in the path.
    pub(crate) fn address(&self, id: &str) -> Result<DocAddress> {
        let index = IndexName::new(self.path_part("index")?);
        let id = match self.arg("type") {
            Some(doc_type) if self.dialect.rules.has_types => DocId::with_type(doc_type, id),
            _ => DocId::plain(id),
        };
        Ok(DocAddress { index, id })
    }
    /// The indices of the path with the usual options.
    ///
    /// # Errors
    /// Options that are not theirs.
    pub(crate) fn target(&mut self) -> Result<Target> {
        self.target_with(|_| {})
    }
    /// The same with other defaults.
    ///
    /// # Errors
    /// Options that are not theirs.
    pub(crate) fn target_with(&mut self, defaults: impl FnOnce(&mut Target)) -> Result<Target> {
        let mut target = Target::of(Vec::new());
        defaults(&mut target);
        let mut index = self.arg("index").map(str::to_owned);
        if index.is_none() && self.params.has_row("index") {
            index = self.params.take("index");
        }
        let mut target = self.params.take_target(index.as_deref(), target)?;
        if self.dialect.rules.has_types {
            let types = self.arg("type").map(crate::query_params::split_list).unwrap_or_default();
            // In 2015 a star was the name of a type like others.
            let any = types.iter().any(|t| t == "*") && !self.dialect.rules.star_is_a_type;
            target.types = if any { Vec::new() } else { types };
        }
        Ok(target)
    }
}
