//! The contract of an engine: it stores documents, searches them, and promises things about one document at a time.
//!
//! Everything that spans documents is `relations`, made of these calls alone. Not here: HTTP, tantivy, a runtime.

use async_trait::async_trait;
use dsl::query::Query;
use dsl::search::{SearchRequest, SearchResponse};
use futures::stream::BoxStream;
use mapping::tree::Tree;
use mapping::{Mapping, Times, Timing};
use model::{Cancellation, CommitSeq, DocAddress, DocId, Error, IndexName, Result, Stamp, Target, Visibility};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

mod atomic;
mod batches;
pub mod breaker;
pub mod catalog;
pub mod changes;
pub mod client_activity;
pub mod clock;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod delegate;
mod expect;
pub mod histogram;
pub mod joins;
pub mod keys;
pub mod long_work;
pub mod memory;
mod numbered;
pub mod snapshots;
mod staging;
pub mod tasks;
mod update;

pub use atomic::{
    AtomicWrites, Decision, DirectoryAt, DirectoryNow, Gate, Looker, Newest, Plan, Seal, Then, TxnBody, TxnOptions, TxnResult,
    Unrefreshed, WriteIndex,
};
pub use batches::runs;
pub use clock::Clock;
pub use delegate::Around;
pub use expect::{Basis, Compare, Conflict, Expect, Found};
pub use numbered::{Cursor, Extent, Numbered, Part};
pub use staging::{STAGING, Seen, Stage, Staged, StagedIndex, StagedPut, Staging, is_staging};
pub use update::{Applied, Update, merge, script_failure};

/// An engine. Options and batches, no convenience: that is in [`EngineExt`].
#[async_trait]
pub trait Engine: fmt::Debug + Send + Sync + 'static {
    /// The newest durable documents, in the order asked for. A missing index is an error.
    async fn read(&self, reads: Vec<Read>) -> Result<Vec<Option<Document>>>;
    /// The newest durable documents as they were at one instant, in the order asked for, each with its own refusal. Fewer
    /// answers than reads: the sources of those answered have more than `bytes_max` bytes together. An engine without
    /// instants over several documents, as over a cluster, reads one after another.
    async fn read_together(&self, reads: Vec<Read>, bytes_max: usize) -> Result<Vec<Result<Option<Document>>>> {
        let (mut out, mut bytes) = (Vec::with_capacity(reads.len()), 0);
        for read in reads {
            if bytes > bytes_max {
                break;
            }
            let found = self.read(vec![read]).await.map(|mut found| found.pop().flatten());
            bytes += found
                .as_ref()
                .map_or(0, |found| found.as_ref().map_or(0, |d| d.source.0.len()));
            out.push(found);
        }
        Ok(out)
    }
    /// Writes, each on its own; answers in order, once durable.
    async fn write(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>>;
    /// As [`Engine::write`], each to another document. Where the engine has a critical section ([`Engine::atomic`]) it writes
    /// all of them or none, and no reader sees some without the others; `Unknown` then also stands for a write that is left
    /// out because of another one.
    async fn write_together(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        self.write(writes, refresh).await
    }
    /// Does [`Engine::write_together`] show its writes all at once?
    fn writes_show_together(&self) -> bool {
        false
    }
    /// Would the mapping take it, and what would grow?
    async fn rehearse(&self, writes: &[Write]) -> Result<Vec<Result<Option<Alteration>>>>;
    /// Makes everything acknowledged (or durable up to `at_least`) searchable.
    async fn refresh(&self, target: &Target, at_least: Option<CommitSeq>) -> Result<u32>;
    /// A view of the indices named, which promises at least this of its moment.
    ///
    /// # Errors
    /// UnsupportedOperation: views of this engine promise less ([`ViewPromise::check`]).
    async fn open_view(&self, target: &Target, keep_alive: Duration, promise: ViewPromise) -> Result<View>;
    /// Prolongs a view.
    async fn renew_view(&self, view: &str, keep_alive: Duration) -> Result<()>;
    /// Gives a view back; false if there was none.
    async fn close_view(&self, view: &str) -> Result<bool>;
    /// Every open view.
    async fn views(&self) -> Result<Vec<View>>;
    /// Searches; the request may name a view.
    async fn search(&self, target: &Target, request: SearchRequest, see: See) -> Result<SearchResponse>;
    /// Every matching document, in index order, from one view.
    async fn scan(
        &self,
        target: &Target,
        query: Query,
        see: See,
        barrier: Barrier,
    ) -> Result<BoxStream<'static, Result<Document>>>;
    /// As [`Engine::scan`] with plain eyes, in an open view.
    async fn scan_view(&self, target: &Target, query: Query, view: &str) -> Result<BoxStream<'static, Result<Document>>>;
    /// How much matches in each index of an open view, by name; indices where nothing does are left out. Counting may take
    /// long; `cancellation` ends it, where an engine counts by itself.
    async fn extents(&self, target: &Target, query: Query, view: &str, cancellation: Cancellation) -> Result<Vec<Extent>> {
        drop(cancellation);
        numbered::extents(self, target, query, view).await
    }
    /// Some of the matching documents of one index in an open view, by sequence number; none: there are no more.
    async fn scan_by_seq_no(&self, target: &Target, query: Query, view: &str, part: Part) -> Result<Vec<Numbered>> {
        numbered::part(self, target, query, view, &part).await
    }
    /// A view of everything that a request and its joins read, to be closed by [`Engine::close_view`]. It is
    /// no client's: it is not counted and not listed among open views.
    ///
    /// # Errors
    /// As [`Engine::open_view`].
    async fn align(&self, targets: &[Target], promise: ViewPromise) -> Result<View> {
        let mut all = targets.first().cloned().unwrap_or_else(|| Target::of(Vec::new()));
        if targets.iter().any(|target| target.expressions.is_empty()) {
            all.expressions.clear();
        } else {
            all.expressions = targets.iter().flat_map(|target| target.expressions.clone()).collect();
        }
        self.open_view(&all, Duration::from_secs(60), promise).await
    }
    /// The keys of one side of a join. The engine bounds their number and memory.
    async fn keys(&self, target: &Target, of: KeysOf) -> Result<JoinKeys> {
        keys::from_sources(self, target, of).await
    }
    /// Changes the catalog.
    async fn alter(&self, alteration: Alteration) -> Result<Altered>;
    /// Tells about the catalog.
    async fn inspect(&self, inspection: Inspection) -> Result<Inspected>;
    /// Embedded: a critical section over several documents.
    fn atomic(&self) -> Option<&dyn AtomicWrites> {
        None
    }
    /// Embedded: views in which writes are staged.
    fn staging(&self) -> Option<&dyn Staging> {
        None
    }
    /// Embedded: the feed of committed changes.
    fn change_feed(&self) -> Option<&dyn changes::ChangeFeed> {
        None
    }
    /// Embedded: snapshots of indices in repositories.
    fn snapshots(&self) -> Option<&dyn snapshots::Snapshots> {
        None
    }
}

/// Which keys of a join are wanted.
#[derive(Clone, Debug)]
pub struct KeysOf {
    /// The query that the documents match.
    pub query: Query,
    /// The field whose values are the keys; `_id` is one.
    pub field: String,
    /// Their scores are wanted.
    pub scores: bool,
    /// Read in this view.
    pub view: Option<String>,
    /// The other side of the join, to be checked: the indices and their field.
    pub joined_with: Option<(Target, String)>,
    /// The types of the request.
    pub types: Vec<String>,
    /// The cancellation of the request.
    pub cancellation: model::Cancellation,
}

/// The keys of a join.
#[derive(Clone, Debug)]
pub struct JoinKeys {
    /// For a `KeySet`.
    pub keys: dsl::query::Keys,
    /// How many.
    pub count: u64,
    /// Their memory.
    pub bytes: u64,
    /// How they are looked for.
    pub strategy: &'static str,
}

/// The client's JSON bytes, parsed by whoever asks.
#[derive(Clone, PartialEq, Eq)]
pub struct Source(pub Arc<[u8]>);

impl Source {
    /// From a JSON value.
    pub fn from_value(value: &Value) -> Source {
        let mut bytes = Vec::with_capacity(256);
        serde_json::to_writer(&mut bytes, value).expect("a JSON value has string keys and memory takes all bytes");
        Source(bytes.into())
    }
    /// Parsed.
    ///
    /// # Errors
    /// Bytes that are no JSON: they were checked when written, so this is corruption.
    pub fn parse(&self) -> Result<Value> {
        serde_json::from_slice(&self.0).map_err(|e| {
            Error::new(
                model::ErrorKind::Corruption,
                format!("stored source is not JSON: {}", model::text::no_json(&e)),
            )
        })
    }
    /// Parsed for an update.
    ///
    /// # Errors
    /// `document_source_missing_exception` where the mapping keeps no sources; as [`Source::parse`].
    pub fn parse_to_update(&self, at: &DocAddress) -> Result<Value> {
        if !self.0.is_empty() {
            return self.parse();
        }
        let doc_type = at.id.doc_type.as_deref().unwrap_or("_doc");
        let reason = format!("[{doc_type}][{}]: document source missing", at.id.id);
        Err(Error::new(model::ErrorKind::DocumentSourceMissing, reason)
            .status_of(400)
            .with("index", at.index.as_str())
            .with("shard", "0"))
    }
}
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// One document to read.
#[derive(Clone, Debug)]
pub struct Read {
    /// Where. The index may be an alias of one index.
    pub at: DocAddress,
    /// Checked where the mapping requires routing.
    pub routing: Option<String>,
    /// Hidden ones too?
    pub see: See,
    /// `realtime=false`: only what searches see.
    pub searchable_only: bool,
    /// Counted in the statistics of its index; reads that the server adds to a request's own are not.
    pub counted: bool,
}

impl Read {
    /// The whole document, newest.
    pub fn whole(at: DocAddress) -> Read {
        Read {
            at,
            routing: None,
            see: See::Plain,
            searchable_only: false,
            counted: true,
        }
    }
}

/// A stored document.
#[derive(Clone, Debug)]
pub struct Document {
    /// With the concrete index.
    pub at: DocAddress,
    /// Its stamp.
    pub stamp: Stamp,
    /// As the client wrote it.
    pub source: Source,
    /// An object of the fields with `store: true`, where they are kept beside a source that is not kept whole.
    pub stored_fields: Option<Source>,
    /// `_routing`.
    pub routing: Option<String>,
    /// `_parent` of the typed dialect.
    pub parent: Option<String>,
    /// `_timestamp` and `_ttl` of the typed dialect.
    pub times: Times,
    /// The directories that the paths of its source are those of; `None`: its index has none.
    pub tree: Option<Arc<Tree>>,
    /// Marks of changes.
    pub hidden: Option<Hidden>,
}

/// One write.
#[derive(Clone, Debug)]
pub struct Write {
    /// Where. The index may be an alias with one write index.
    pub at: DocAddress,
    /// The uuid of the index it is meant for. An index that was made later under the same name refuses it
    /// ([`catalog::index_replaced`]): stamps begin anew there, so no expectation would tell.
    pub index_uuid: Option<Arc<str>>,
    /// Its expectation of the document.
    pub expect: Expect,
    /// The state that it was made from, compared beside what it expects: with an external version nothing else notices a write
    /// or a mark that comes between.
    pub basis: Basis,
    /// Put, update or delete.
    pub op: WriteOp,
    /// `_routing`.
    pub routing: Option<String>,
    /// `_parent` of the typed dialect.
    pub parent: Option<String>,
    /// `timestamp` and `ttl` of the typed dialect. An update by a partial document keeps the life, and one by a script
    /// both, unless told otherwise.
    pub timing: Timing,
    /// The marks after it.
    pub hide: Hide,
    /// Who may refuse it.
    pub judge: Judge,
    /// The name must be an alias.
    pub require_alias: bool,
    /// The directories that the paths of its source mean, where they are those of an earlier moment; `None`: those of now.
    pub tree: Option<Arc<Tree>>,
    /// Among how many shards documents are told apart by routing: of more than one, a deletion or an update finds a
    /// document only by a routing that leads where the document's own does.
    pub routed_among: u64,
}

impl Write {
    /// A plain write without expectation.
    pub fn new(at: DocAddress, op: WriteOp) -> Write {
        Write {
            at,
            index_uuid: None,
            expect: Expect::Anything,
            basis: Basis::Anything,
            op,
            routing: None,
            parent: None,
            timing: Timing::default(),
            hide: Hide::Keep,
            judge: Judge::Fully,
            require_alias: false,
            tree: None,
            routed_among: 1,
        }
    }

    /// A write over a document as it was read: on condition that it has not changed, with its routing, its parent, its times and
    /// its tree.
    pub fn over(document: &Document, op: WriteOp) -> Write {
        Write {
            expect: Expect::Unchanged {
                seq_no: document.stamp.seq_no,
                primary_term: document.stamp.primary_term,
            },
            routing: document.routing.clone(),
            parent: document.parent.clone(),
            timing: Timing::keep(document.times),
            tree: document.tree.clone(),
            ..Write::new(document.at.clone(), op)
        }
    }
}

/// The operation of a write.
#[derive(Clone, Debug)]
pub enum WriteOp {
    /// The whole source. `None` as id: see `DocId`; ids are made by the caller.
    Put(Source),
    /// Worked out from what is there.
    Update(Box<Update>),
    /// The document goes.
    Delete,
}

/// The answer to a write.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Done and durable.
    Written(Written),
    /// The expectation did not hold; nothing changed by this call. Over a cluster it may be one's own earlier success, told
    /// late.
    Conflict(Conflict),
    /// Not possible, or not now ([`Error::is_transient`]); nothing changed.
    Refused(Error),
    /// Held by a change; the mark's body.
    Held(Value),
    /// Durability could not be learned.
    Unknown,
}

/// A write that was done.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Created, updated, deleted or nothing.
    pub effect: Effect,
    /// The address with the concrete index.
    pub at: DocAddress,
    /// The stamp after it. For `Noop` the present one.
    pub stamp: Stamp,
    /// The source as it is now, for updates.
    pub source: Option<Source>,
    /// The write forced a refresh.
    pub forced_refresh: bool,
}

/// The effect of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// There was none.
    Created,
    /// There was one.
    Updated,
    /// There was one, and it is gone.
    Deleted,
    /// A delete of nothing; it counts as an operation.
    NotFound,
    /// An update that changed nothing.
    Noop,
}

/// When searches see a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Refresh {
    /// In time.
    #[default]
    No,
    /// Before the answer, at once.
    Now,
    /// Before the answer, with the next refresh.
    WaitFor,
}

/// The moment that a view shows. The greater promise holds the lesser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ViewPromise {
    /// Each shard of each index at one moment of its own: a point in time over a cluster.
    MomentPerShard,
    /// All indices at one moment: a transaction that was acknowledged before is in it whole, a later one not at all.
    OneMoment,
}

impl ViewPromise {
    /// Refuses who wants more.
    ///
    /// # Errors
    /// UnsupportedOperation, with both promises.
    pub fn check(self, wanted: ViewPromise) -> Result<()> {
        if self >= wanted {
            return Ok(());
        }
        let reason = format!("a view of {wanted} is not supported by this engine, whose views show {self}");
        Err(Error::new(model::ErrorKind::UnsupportedOperation, reason))
    }
}

impl fmt::Display for ViewPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ViewPromise::MomentPerShard => "one moment of each shard",
            ViewPromise::OneMoment => "one moment of all indices",
        })
    }
}

/// A moment of some indices, kept for scrolls, points in time, joins.
#[derive(Clone, Debug)]
pub struct View {
    /// Opaque, unguessable.
    pub id: String,
    /// Everything durable up to here is in it.
    pub as_of: Option<CommitSeq>,
    /// The indices in it.
    pub indices: Vec<IndexName>,
    /// Its promise, at least the one that was asked for.
    pub promise: ViewPromise,
    /// Milliseconds since 1970 when it was opened.
    pub created_ms: i64,
    /// How long it lives after its last use.
    pub keep_alive: Duration,
}

/// A scan's proof that it saw everything that was acknowledged before it.
#[derive(Clone, Debug)]
pub enum Barrier {
    /// None wanted.
    None,
    /// The engine's own proof, under a name of the caller's that is used once. Over a cluster: a hidden document in each
    /// shard, written and acknowledged before, that the scan must bring back (nobody but the engine knows its shards);
    /// if it does not, the last item is an error. In one process: a refresh.
    Proof { id: String },
}

/// A mark of a change on a document; kept beside the source, shown or hidden by it, never read by the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Hidden {
    /// The mark's content.
    pub body: Value,
    /// Plain readers see the document.
    pub visible: bool,
    /// Plain writers are answered `Held`.
    pub held: bool,
}

/// Plain readers, or those who see marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum See {
    /// Hidden documents are not there.
    #[default]
    Plain,
    /// Everything.
    Everything,
}

/// The effect of a write on the marks of its document.
#[derive(Clone, Debug, Default)]
pub enum Hide {
    /// Plain writes.
    #[default]
    Keep,
    /// Sets a mark.
    Set(Hidden),
    /// Takes it away.
    Drop,
}

/// The parts of an index that may refuse a write. An engine that cannot tell them apart judges fully.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Judge {
    /// Its blocks and its mapping.
    #[default]
    Fully,
    /// It was judged and decided before: a mapping that has become strict since is no reason any more; what that does not know
    /// is kept in the source only.
    Decided,
    /// Nothing that plain readers see is altered: neither is a block of writes.
    Unseen,
}

/// A change of the catalog, as data: logged as it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Alteration {
    /// A new index. `typed` mappings have a type level.
    CreateIndex {
        name: String,
        settings: Map<String, Value>,
        mappings: Option<Value>,
        aliases: Map<String, Value>,
        typed: bool,
        if_absent: bool,
    },
    DeleteIndices(Target),
    OpenIndices(Target),
    CloseIndices(Target),
    PutMapping {
        target: Target,
        doc_type: Option<String>,
        body: Value,
    },
    /// Flat names with or without `index.`; null resets.
    PutSettings {
        target: Target,
        settings: Map<String, Value>,
        preserve_existing: bool,
    },
    UpdateAliases(Vec<AliasAction>),
    PutTemplate {
        name: String,
        kind: TemplateKind,
        body: Value,
        create: bool,
    },
    DeleteTemplate {
        name: String,
        kind: TemplateKind,
    },
    PutScript {
        id: String,
        body: Value,
    },
    DeleteScript {
        id: String,
    },
    ClusterSettings {
        persistent: Map<String, Value>,
        transient: Map<String, Value>,
    },
    /// Checkpoint.
    Flush(Target),
    ForceMerge {
        target: Target,
        max_num_segments: usize,
        only_expunge_deletes: bool,
    },
}

/// A change of a directory with everything below it.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeChange {
    /// The index, or an alias with one write index.
    pub index: String,
    /// The `tree_path` field; `None`: the only one.
    pub field: Option<String>,
    pub act: TreeAct,
}

/// The change of the directory.
#[derive(Clone, Debug, PartialEq)]
pub enum TreeAct {
    /// It goes elsewhere.
    Move {
        /// Its path.
        from: String,
        /// Its path afterwards.
        to: String,
        /// A directory that is there takes over what is in it.
        merge: bool,
    },
    /// It goes, with the documents in it and below it.
    Remove { path: String },
}

impl TreeChange {
    /// The paths that it changes.
    pub fn paths(&self) -> Vec<&str> {
        match &self.act {
            TreeAct::Move { from, to, .. } => vec![from, to],
            TreeAct::Remove { path } => vec![path],
        }
    }
    /// Does it remove the directory?
    pub fn removes(&self) -> bool {
        matches!(self.act, TreeAct::Remove { .. })
    }
}

/// The result of a change of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeMoved {
    /// False: it was there already.
    pub changed: bool,
    /// The number of operations that the tree has after it.
    pub tree_seq: u64,
}

impl Alteration {
    /// Makes an empty index, as a write to one that is missing does; nothing where it is there.
    pub fn index_if_missing(name: &str, typed: bool) -> Alteration {
        Alteration::CreateIndex {
            name: name.to_owned(),
            settings: Map::new(),
            mappings: None,
            aliases: Map::new(),
            typed,
            if_absent: true,
        }
    }

    /// Does one of them make that index?
    pub fn makes(all: &[Alteration], name: &str) -> bool {
        let made = |alteration: &Alteration| matches!(alteration, Alteration::CreateIndex { name: made, .. } if made == name);
        all.iter().any(made)
    }

    /// One of them makes that index, from now on at the latest.
    pub fn make(all: &mut Vec<Alteration>, name: &str, typed: bool) {
        if !Alteration::makes(all, name) {
            all.push(Alteration::index_if_missing(name, typed));
        }
    }
}

/// Makes the index of users, roles and keys, if it is missing.
pub fn security_index() -> Alteration {
    let settings = serde_json::json!({ "index.hidden": "true", "index.number_of_replicas": "0", "index.refresh_interval": "-1" });
    Alteration::CreateIndex {
        name: model::system_index::SECURITY_INDEX.to_owned(),
        settings: settings.as_object().cloned().unwrap_or_default(),
        mappings: Some(serde_json::json!({ "dynamic": false, "properties": { "kind": { "type": "keyword" } } })),
        aliases: Map::new(),
        typed: false,
        if_absent: true,
    }
}

/// Makes the control index, if it is missing. This and [`security_index`] are the only alterations of system indices that an
/// engine takes: what is not searched for is kept and not looked into.
pub fn control_index() -> Alteration {
    let settings = serde_json::json!({ "index.hidden": "true", "index.number_of_replicas": "0", "index.refresh_interval": "-1" });
    let properties = serde_json::json!({ "kind": { "type": "keyword" }, "at": { "type": "long" } });
    Alteration::CreateIndex {
        name: model::system_index::CONTROL_INDEX.to_owned(),
        settings: settings.as_object().cloned().unwrap_or_default(),
        mappings: Some(serde_json::json!({ "dynamic": false, "properties": properties })),
        aliases: Map::new(),
        typed: false,
        if_absent: true,
    }
}

/// `_template`, `_index_template`, `_component_template`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TemplateKind {
    Legacy,
    Index,
    Component,
}

/// One entry of `_aliases`, for one index expression and one alias.
#[derive(Clone, Debug, PartialEq)]
pub enum AliasAction {
    /// `body`: filter, routing, index_routing, search_routing, is_write_index, is_hidden.
    Add {
        target: Target,
        alias: String,
        body: Map<String, Value>,
    },
    /// Alias may be a pattern.
    Remove {
        target: Target,
        alias: String,
        must_exist: bool,
    },
    RemoveIndex {
        target: Target,
    },
}

/// The result of an alteration.
#[derive(Clone, Debug, Default)]
pub struct Altered {
    /// Concrete indices it touched.
    pub indices: Vec<IndexName>,
    /// False if there was nothing to do (an index created `if_absent` that was there).
    pub changed: bool,
}

/// A question about the catalog.
#[derive(Clone, Debug)]
pub enum Inspection {
    /// → `Inspected::Indices`
    Indices(Target),
    /// Every concrete index behind one name, or the index of a write alias. → `Inspected::Indices`
    Stats(Target),
    /// → `Inspected::Templates`
    Templates(TemplateKind),
    /// → `Inspected::Script`
    Script(String),
    /// → `Inspected::ClusterSettings`
    ClusterSettings,
    /// Would this query work, and as what? → `Inspected::Validated`
    Validate { target: Target, query: Box<Query> },
    /// The terms of one document. → `Inspected::TermVectors`
    TermVectors(Box<VectorsOf>),
    /// The directories in one. → `Inspected::Directories`
    Directories(DirectoriesOf),
    /// → `Inspected::Node`
    Node,
}

/// A directory of a `tree_path` field, and which of those in it are asked for.
#[derive(Clone, Debug)]
pub struct DirectoriesOf {
    pub index: IndexName,
    /// `None`: the only one.
    pub field: Option<String>,
    pub path: String,
    /// Only those behind this one, by its path below `path`.
    pub after: Option<String>,
    /// Levels below `path`, at least 1.
    pub depth: usize,
    pub size: usize,
    /// The documents and fields that the request sees; `None`: all.
    pub visibility: Option<Visibility>,
}

/// A document whose terms are asked for.
#[derive(Clone, Debug)]
pub struct VectorsOf {
    /// The index whose mapping, analyzers and counts are meant.
    pub index: IndexName,
    pub source: Value,
    /// It is in no index.
    pub artificial: bool,
    pub spec: dsl::document::TermVectors,
    /// The documents that counts are of, and the fields that are shown; `None`: all.
    pub visibility: Option<Visibility>,
}

/// An answer about the catalog.
#[derive(Clone, Debug)]
pub enum Inspected {
    Indices(Vec<IndexInfo>),
    Stats(Vec<(IndexInfo, IndexStats)>),
    Templates(Vec<(String, Value)>),
    /// The stored script's body: lang, source.
    Script(Option<Value>),
    ClusterSettings {
        persistent: Map<String, Value>,
        transient: Map<String, Value>,
    },
    Validated(Vec<(IndexName, Result<String>)>),
    /// By field.
    TermVectors(Map<String, Value>),
    Directories(Directories),
    Node(Box<NodeStats>),
}

/// The directories in one, as searches see them.
#[derive(Clone, Debug, Default)]
pub struct Directories {
    pub field: String,
    pub path: String,
    /// Documents in it and below it.
    pub total: u64,
    /// Operations of the tree.
    pub tree_seq: u64,
    /// By name, each before those in it.
    pub children: Vec<ChildDirectory>,
    /// There are more behind the last.
    pub more: bool,
}

/// A directory in another, or below it.
#[derive(Clone, Debug)]
pub struct ChildDirectory {
    pub name: String,
    pub path: String,
    /// The path below the one that was asked for.
    pub below: String,
    /// Levels below the one that was asked for.
    pub depth: usize,
    /// Documents in it and below it.
    pub count: u64,
    /// Directories in it.
    pub directories: u64,
}

/// One index of the catalog.
#[derive(Clone, Debug)]
pub struct IndexInfo {
    pub name: IndexName,
    pub uuid: String,
    pub created_ms: i64,
    pub open: bool,
    /// Identity is (type, id); mappings have a type level.
    pub typed: bool,
    /// Flat, names with `index.`, values as given; without uuid, creation date and version.
    pub settings: Map<String, Value>,
    /// Type name → mapping body for typed indices; else the one mapping body.
    pub mappings: Value,
    pub mapping: Mapping,
    pub registry: mapping::Registry,
    /// Alias → filter, index_routing, search_routing, is_write_index, is_hidden.
    pub aliases: Map<String, Value>,
    /// Why it neither reads nor writes, if it is damaged: names the file and the offset.
    pub stopped: Option<String>,
    /// Something behind the scenes does not succeed: see [`IndexStats::troubles`].
    pub troubled: bool,
    /// The snapshot that it was made of, if it was.
    pub restored_from: Option<snapshots::RestoredFrom>,
}

/// Work that nobody waits for and that does not succeed, until it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    /// `refresh`, `merge` or `checkpoint`.
    pub work: &'static str,
    /// The last failure.
    pub reason: String,
    /// How often it was tried.
    pub failures: u32,
    /// When it first failed, in milliseconds since 1970.
    pub since_ms: i64,
}

/// Counts and size of one segment of an index.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentStats {
    /// Living documents, with nested ones.
    pub docs: u64,
    pub deleted: u64,
    pub size_bytes: u64,
    /// A checkpoint has written it.
    pub committed: bool,
}

/// Counts and sizes of one index.
#[derive(Clone, Debug, Default)]
pub struct IndexStats {
    /// Searchable root documents.
    pub docs: u64,
    /// Root documents by type, in typed indices.
    pub docs_by_type: Vec<(String, u64)>,
    /// Documents written by type, in typed indices.
    pub index_by_type: Vec<(String, u64)>,
    /// Lucene's count: with nested documents.
    pub lucene_docs: u64,
    pub deleted: u64,
    pub size_bytes: u64,
    pub segments: u64,
    /// Each of them, where the engine has segments.
    pub segment_list: Vec<SegmentStats>,
    pub max_seq_no: Option<u64>,
    pub index_total: u64,
    pub delete_total: u64,
    /// Updates that changed nothing.
    pub noop_total: u64,
    pub get_total: u64,
    /// Reads by id that found no document.
    pub get_missing: u64,
    pub search_total: u64,
    /// Searches that suggested something.
    pub suggest_total: u64,
    /// Sets of documents of filters.
    pub query_cache: CacheStats,
    /// Answers without hits.
    pub request_cache: CacheStats,
    /// Global ordinals, and columns made of terms.
    pub fielddata: CacheStats,
    pub refresh_total: u64,
    pub flush_total: u64,
    pub merge_total: u64,
    /// Writes that a mapping, a condition or a script refused.
    pub index_failed: u64,
    /// Living documents and bytes that went into merges.
    pub merge_docs: u64,
    pub merge_bytes: u64,
    /// How long the work of each kind took, all in all.
    pub times: WorkTimes,
    /// Searches that run now.
    pub search_current: u64,
    /// Scrolls begun, how long those that ended were open, and those that are open. The layer that knows what views are for
    /// counts them.
    pub scroll_total: u64,
    pub scroll_time: Duration,
    pub scroll_current: u64,
    /// Points in time that ended, how long those were open, and those that are open; counted by the same layer.
    pub pit_total: u64,
    pub pit_time: Duration,
    pub pit_current: u64,
    /// Views of this index that scrolls and points in time hold open.
    pub open_contexts: u64,
    pub translog_ops: u64,
    pub translog_bytes: u64,
    /// Background work that does not succeed.
    pub troubles: Vec<Trouble>,
}

/// The share of one index in a cache, and its use since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    pub hits: u64,
    pub misses: u64,
    /// Entries that are there.
    pub entries: u64,
    /// Entries that ever came.
    pub added: u64,
    /// Entries that made room for others.
    pub evictions: u64,
    pub bytes: u64,
}

/// Time spent on an index since the process began. Of work on several indices at once each has an equal part.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkTimes {
    pub index: Duration,
    pub delete: Duration,
    pub get: Duration,
    /// Reads by id that found no document, out of `get`.
    pub get_missing: Duration,
    pub search: Duration,
    pub refresh: Duration,
    pub flush: Duration,
    pub merge: Duration,
    /// Reading the hits that searches show, out of `search`.
    pub fetch: Duration,
    /// Out of `search`.
    pub suggest: Duration,
}

/// Threads of one kind and what waits for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// The name of Elasticsearch's pool for the same work.
    pub name: &'static str,
    pub threads: u64,
    /// Jobs that run.
    pub active: u64,
    /// The most that ran at once.
    pub largest: u64,
    /// Jobs that wait for a thread.
    pub queue: u64,
    /// How many may wait; `None` without a bound.
    pub queue_max: Option<u64>,
    pub rejected: u64,
    pub completed: u64,
}

/// A bound on memory: when it is passed, requests are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BreakerStats {
    /// The name of Elasticsearch's breaker for the same memory.
    pub name: &'static str,
    pub limit_bytes: u64,
    pub used_bytes: u64,
    /// Requests that were refused.
    pub tripped: u64,
}

/// Memory, files and threads of the process.
#[derive(Clone, Debug, Default)]
pub struct NodeStats {
    /// Relative to the data folder: where that lies is the machine's own business.
    pub data_path: String,
    pub pending_bytes: u64,
    /// Bytes of the files of the log.
    pub log_bytes: u64,
    /// The durations of syncs of the log since the process began.
    pub log_syncs: histogram::Observed,
    /// Bytes written to the log since the process began.
    pub log_written_bytes: u64,
    pub open_views: u64,
    pub segments: u64,
    /// Bytes of the data's disk that are left to this process; 0 if that is not known.
    pub disk_available_bytes: u64,
    /// The same with what the file system keeps for its administrator.
    pub disk_free_bytes: u64,
    pub disk_total_bytes: u64,
    /// Its threads.
    pub pools: Vec<PoolStats>,
    /// Its bounds on memory.
    pub breakers: Vec<BreakerStats>,
    /// Writes that no segment has take [`NodeStats::pending_bytes`] of so much.
    pub pending_max_bytes: u64,
    /// Kept answers, stored documents and sets of filters.
    pub request_cache_bytes: u64,
    pub documents_bytes: u64,
    pub filters_bytes: u64,
    /// Scripts that the engine compiled since the process began. It keeps none of them.
    pub script_compilations: u64,
    /// Bytes of segments that are in memory until a checkpoint.
    pub ram_segment_bytes: u64,
    /// Why writes are refused, if they are.
    pub read_only: Option<String>,
    /// Background work of no index in particular that does not succeed.
    pub troubles: Vec<Trouble>,
}

/// The single-document forms.
#[async_trait]
pub trait EngineExt: Engine {
    /// One document.
    async fn read_one(&self, at: DocAddress) -> Result<Option<Document>> {
        let mut found = self.read(vec![Read::whole(at)]).await?;
        debug_assert_eq!(found.len(), 1, "an engine answers each read, in order");
        Ok(found.pop().flatten())
    }
    /// One write.
    async fn write_one(&self, write: Write, refresh: Refresh) -> Result<Outcome> {
        let mut outcomes = self.write(vec![write], refresh).await?;
        debug_assert_eq!(outcomes.len(), 1, "an engine answers each write, in order");
        Ok(outcomes.pop().unwrap_or(Outcome::Unknown))
    }
    /// A number among the cluster's settings, by its row.
    async fn cluster_number(&self, setting: model::settings::Setting) -> Result<u64> {
        match self.inspect(Inspection::ClusterSettings).await? {
            Inspected::ClusterSettings { persistent, transient } => {
                let of = if transient.contains_key(setting.name) {
                    &transient
                } else {
                    &persistent
                };
                Ok(model::settings::number(of, setting))
            }
            other => unreachable!("an engine answered {other:?} to a question about settings"),
        }
    }
    /// The indices behind a target.
    async fn indices(&self, target: &Target) -> Result<Vec<IndexInfo>> {
        match self.inspect(Inspection::Indices(target.clone())).await? {
            Inspected::Indices(infos) => Ok(infos),
            other => unreachable!("an engine answered {other:?} to a question about indices"),
        }
    }
}
impl<E: Engine + ?Sized> EngineExt for E {}

/// Where a document is, from its parts.
pub fn address(index: &str, id: DocId) -> DocAddress {
    DocAddress {
        index: IndexName::new(index),
        id,
    }
}
