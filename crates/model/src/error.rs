//! Refusals: one table of kinds with their wire names and statuses, and one error type.

use crate::Topic;
use serde_json::{Map, Value};
use std::fmt;

/// `Result` with our error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! error_kinds {
    ($($(#[$doc:meta])* $kind:ident = $wire:literal, $status:literal;)*) => {
        /// The sort of a refusal, with Elasticsearch's wire name and HTTP status.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum ErrorKind { $($(#[$doc])* #[allow(missing_docs, reason = "the wire name says it")] $kind,)* }
        impl ErrorKind {
            /// Every kind.
            pub const ALL: &[ErrorKind] = &[$(ErrorKind::$kind,)*];
            /// The `type` in the error envelope.
            pub fn wire(self) -> &'static str { match self { $(ErrorKind::$kind => $wire,)* } }
            /// The HTTP status.
            pub fn status(self) -> u16 { match self { $(ErrorKind::$kind => $status,)* } }
        }
    };
}

error_kinds! {
    IllegalArgument        = "illegal_argument_exception", 400;
    IllegalState           = "illegal_state_exception", 500;
    Parsing                = "parsing_exception", 400;
    XContentParse          = "x_content_parse_exception", 400;
    NamedObjectNotFound    = "named_object_not_found_exception", 400;
    JsonParse              = "json_parse_exception", 400;
    InputCoercion          = "input_coercion_exception", 400;
    JsonEof                = "json_e_o_f_exception", 400;
    Parse                  = "parse_exception", 400;
    QueryShard             = "query_shard_exception", 400;
    SearchParse            = "search_parse_exception", 400;
    QueryParsing           = "query_parsing_exception", 400;
    SearchPhaseExecution   = "search_phase_execution_exception", 400;
    SearchContextMissing   = "search_context_missing_exception", 404;
    TooManyClauses         = "too_many_clauses", 400;
    TooManyBuckets         = "too_many_buckets_exception", 400;
    AggregationExecution   = "aggregation_execution_exception", 400;
    AggregationInit        = "aggregation_initialization_exception", 400;
    NumberFormat           = "number_format_exception", 400;
    DateTimeParse          = "date_time_parse_exception", 400;
    MapperParsing          = "mapper_parsing_exception", 400;
    DocumentParsing        = "document_parsing_exception", 400;
    StrictDynamicMapping   = "strict_dynamic_mapping_exception", 400;
    MergeMapping           = "merge_mapping_exception", 400;
    TypeMissing            = "type_missing_exception", 404;
    IndexNotFound          = "index_not_found_exception", 404;
    IndexAlreadyExists     = "resource_already_exists_exception", 400;
    IndexAlreadyExistsOld  = "index_already_exists_exception", 400;
    QueryPhaseExecution    = "query_phase_execution_exception", 400;
    IndexClosed            = "index_closed_exception", 400;
    IndexPrimaryClosed     = "index_primary_shard_not_allocated_exception", 409;
    InvalidIndexName       = "invalid_index_name_exception", 400;
    InvalidAliasName       = "invalid_alias_name_exception", 400;
    InvalidTypeName        = "invalid_type_name_exception", 400;
    AliasesNotFound        = "aliases_not_found_exception", 404;
    AliasesMissing         = "aliases_missing_exception", 404;
    ResourceNotFound       = "resource_not_found_exception", 404;
    IndexTemplateMissing   = "index_template_missing_exception", 404;
    DocumentMissing        = "document_missing_exception", 404;
    DocumentSourceMissing  = "document_source_missing_exception", 404;
    DocumentAlreadyExists  = "document_already_exists_exception", 409;
    VersionConflict        = "version_conflict_engine_exception", 409;
    LockMissing            = "lock_missing_exception", 404;
    LockExpired            = "lock_expired_exception", 409;
    LockBroken             = "lock_broken_exception", 409;
    LockConflict           = "lock_conflict_exception", 409;
    LockTarget             = "lock_target_exception", 400;
    LockNotOwned           = "lock_not_owned_exception", 409;
    LockDeadlock           = "lock_deadlock_exception", 409;
    TreeMissing            = "tree_missing_exception", 404;
    TreeExists             = "tree_exists_exception", 409;
    TreeCycle              = "tree_cycle_exception", 409;
    LinkCycle              = "link_cycle_exception", 400;
    LinkMissing            = "link_missing_exception", 409;
    LinkRestrict           = "link_restrict_exception", 409;
    LinkCopy               = "link_copy_exception", 400;
    IdempotencyKeyReused   = "idempotency_key_reused_exception", 409;
    TransactionConflict    = "transaction_conflict_exception", 409;
    TransactionFailed      = "transaction_failed_exception", 400;
    TransactionAborted     = "transaction_aborted_exception", 409;
    TransactionCommitted   = "transaction_committed_exception", 409;
    TransactionMissing     = "transaction_missing_exception", 404;
    PreconditionFailed     = "precondition_failed_exception", 412;
    TimestampParsing       = "timestamp_parsing_exception", 400;
    AlreadyExpired         = "already_expired_exception", 400;
    Percolator             = "percolator_exception", 400;
    WarmerMissing          = "index_warmer_missing_exception", 404;
    RepositoryMissing      = "repository_missing_exception", 404;
    Repository             = "repository_exception", 500;
    RepositoryVerification = "repository_verification_exception", 500;
    RepositoryChanged      = "repository_changed_exception", 409;
    SnapshotMissing        = "snapshot_missing_exception", 404;
    InvalidSnapshotName    = "invalid_snapshot_name_exception", 400;
    SnapshotFailed         = "snapshot_exception", 500;
    SnapshotRestore        = "snapshot_restore_exception", 400;
    ConcurrentSnapshot     = "concurrent_snapshot_execution_exception", 503;
    RoutingMissing         = "routing_missing_exception", 400;
    ActionRequestValidation = "action_request_validation_exception", 400;
    ClusterBlock           = "cluster_block_exception", 403;
    Script                 = "script_exception", 400;
    ScriptParse            = "script_parse_exception", 400;
    ScriptMissing          = "resource_not_found_exception", 404;
    CircuitBreaking        = "circuit_breaking_exception", 429;
    RejectedExecution      = "rejected_execution_exception", 429;
    ReceiveTimeout         = "receive_timeout_exception", 408;
    ContentTooLong         = "content_too_long_exception", 413;
    NotAcceptable          = "media_type_header_exception", 406;
    UnsupportedMediaType   = "media_type_header_exception", 406;
    UnsupportedOperation   = "unsupported_operation_exception", 400;
    MethodNotAllowed       = "method_not_allowed_exception", 405;
    SearchTimeout          = "search_timeout_exception", 503;
    TaskCancelled          = "task_cancelled_exception", 400;
    TooManyScrolls         = "too_many_scroll_contexts_exception", 429;
    DiskFull               = "disk_full_exception", 507;
    LogFailed              = "log_failed_exception", 503;
    ChangesGone            = "changes_gone_exception", 410;
    Corruption             = "corrupt_index_exception", 500;
    Timeout                = "process_cluster_event_timeout_exception", 503;
    Unavailable            = "no_node_available_exception", 503;
    TooManyJoinKeys        = "too_many_join_keys_exception", 400;
    Groovy                 = "groovy_script_execution_exception", 400;
    ArrayIndexOutOfBounds  = "array_index_out_of_bounds_exception", 400;
    ClassCast              = "class_cast_exception", 400;
    NullPointer            = "null_pointer_exception", 400;
    Arithmetic             = "arithmetic_exception", 400;
    NotXContent            = "not_x_content_exception", 400;
    RemoteTransport        = "remote_transport_exception", 500;
    IndexCreation          = "index_creation_exception", 400;
    Validation             = "validation_exception", 400;
    SettingsOld            = "settings_exception", 400;
    InvalidTemplateOld     = "invalid_index_template_exception", 400;
    TemplateAlreadyExists  = "index_template_already_exists_exception", 400;
    Security               = "security_exception", 403;
    Internal               = "internal_error", 500;
}

/// A refusal: its kind, a sentence, facts beside it as data, and what caused it.
#[derive(Clone, PartialEq, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, PartialEq, Debug)]
struct Inner {
    kind: ErrorKind,
    status: Option<u16>,
    reason: String,
    details: Map<String, Value>,
    cause: Option<Error>,
    root: Option<Error>,
    topic: Option<Topic>,
}

impl Error {
    /// A refusal in words.
    pub fn new(kind: ErrorKind, reason: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            status: None,
            reason: reason.into(),
            details: Map::new(),
            cause: None,
            root: None,
            topic: None,
        }))
    }
    /// `illegal_argument_exception`, the commonest.
    pub fn illegal(reason: impl Into<String>) -> Error {
        Error::new(ErrorKind::IllegalArgument, reason)
    }
    /// `parsing_exception` at a position of the body.
    pub fn parsing(reason: impl Into<String>, line: usize, col: usize) -> Error {
        Error::new(ErrorKind::Parsing, reason).with("line", line).with("col", col)
    }
    /// The refusal of a text that is no number, as a server in Java writes it.
    pub fn no_number(text: &str) -> Error {
        Error::new(ErrorKind::NumberFormat, format!("For input string: \"{text}\""))
    }
    /// The refusal of a text that is neither `true` nor `false`.
    pub fn no_boolean(text: &str) -> Error {
        let reason = format!("Failed to parse value [{text}] as only [true] or [false] are allowed.");
        Error::illegal(reason).about(Topic::Boolean { value: text.to_owned() })
    }
    /// A fact beside the reason: `index`, `shard`, `line`, `col` and the like.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Error {
        self.0.details.insert(name.to_owned(), value.into());
        self
    }
    /// Its cause (`caused_by`).
    pub fn with_cause(mut self, cause: Error) -> Error {
        self.0.cause = Some(cause);
        self
    }
    /// The entry of `root_cause`, where it is not this error itself.
    pub fn with_root_cause(mut self, root: Error) -> Error {
        self.0.root = Some(root);
        self
    }
    /// Its subject.
    pub fn about(mut self, topic: Topic) -> Error {
        self.0.topic = Some(topic);
        self
    }
    /// Another status than the kind's.
    pub fn status_of(mut self, status: u16) -> Error {
        self.0.status = Some(status);
        self
    }
    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// Its HTTP status.
    pub fn status(&self) -> u16 {
        self.0.status.unwrap_or_else(|| self.0.kind.status())
    }
    /// Its subject, if it has one.
    pub fn topic(&self) -> Option<&Topic> {
        self.0.topic.as_ref()
    }
    /// Is this its subject?
    pub fn is_about(&self, topic: Topic) -> bool {
        self.0.topic == Some(topic)
    }
    /// The same request may succeed later: there was no room, no time, no server.
    pub fn is_transient(&self) -> bool {
        matches!(self.status(), 429 | 503 | 507)
    }
    /// Its sentence.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }
    /// Facts beside the reason.
    pub fn details(&self) -> &Map<String, Value> {
        &self.0.details
    }
    /// Its cause.
    pub fn cause(&self) -> Option<&Error> {
        self.0.cause.as_ref()
    }
    /// The root cause: the one set, or the error itself.
    pub fn root(&self) -> &Error {
        self.0.root.as_ref().unwrap_or(self)
    }
    /// The fields `type`, `reason`, details and `caused_by`: the body of one entry of an envelope.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut out = Map::new();
        out.insert("type".into(), self.kind().wire().into());
        out.insert("reason".into(), self.reason().into());
        for (name, value) in self.details() {
            out.insert(name.clone(), value.clone());
        }
        if let Some(cause) = self.cause() {
            out.insert("caused_by".into(), Value::Object(cause.to_json()));
        }
        out
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind().wire(), self.reason())
    }
}
impl std::error::Error for Error {}
