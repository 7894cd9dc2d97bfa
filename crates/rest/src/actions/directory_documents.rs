//! Documents in and below a directory, changed by a job that is one change: copies, and moves and removals where paths are
//! keywords.
//!
//! Not here: the field (`path_field`), changes of a tree, which touch no document (`relations::trees`).

use crate::actions::jobs;
use crate::actions::path_field::PathField;
use crate::call::Call;
use dsl::query::{BoolQuery, Clause, PatternQuery, Query, TermQuery};
use dsl::search::{SearchRequest, TrackTotal};
use engine::DirectoryAt;
use model::{Error, ErrorKind, Result, Target, settings};
use relations::jobs::{Counts, Job, JobAction, Order, Whole};
use script::{Lang, Params, Program};
use serde_json::{Value, json};

/// A change of the documents of a directory.
pub(crate) struct DocumentsOf<'a> {
    pub(crate) call: &'a Call,
    pub(crate) field: &'a PathField,
    /// The directory.
    pub(crate) path: &'a str,
    pub(crate) locks: &'a [String],
}

impl DocumentsOf<'_> {
    /// Carries it out as one change. `verb`: what is done, for the task. `free`: a directory of a tree that must not be there.
    ///
    /// # Errors
    /// Too many documents for one change; what refuses a document: then nothing is changed.
    pub(crate) async fn change(&self, action: JobAction, free: Option<&str>, verb: &str) -> Result<Counts> {
        let (call, field) = (self.call, self.field);
        let free = free.map(|path| DirectoryAt {
            index: field.info.name.to_string(),
            field: Some(field.name.clone()),
            path: path.to_owned(),
        });
        let job = Job {
            target: Target::index(field.info.name.as_str()),
            query: within(field, self.path),
            action,
            proceed: false,
            max_docs: None,
            batch: relations::jobs::BATCH_MAX,
            refresh: true,
            guards: self.locks.to_vec(),
            whole: Some(bounds()),
            free: free.into_iter().collect(),
            caller: call.caller.clone(),
        };
        let order = Order {
            request: jobs::replayable_request(call),
            key: None,
            keep: false,
        };
        let task = format!("indices:data/write/tree/{verb}");
        let description = format!("{verb} [{}] in [{}]", self.path, field.info.name);
        let counts = jobs::run_to_end(call, job, order, (task.as_str(), description)).await?;
        match counts.failures.first() {
            None => Ok(counts),
            Some(failure) => Err(undone(failure)),
        }
    }

    /// The documents in the directory and below it, by now.
    pub(crate) async fn count(&self, path: &str) -> Result<u64> {
        let request = SearchRequest {
            query: Some(within(self.field, path)),
            size: 0,
            track_total_hits: TrackTotal::Exact,
            ..SearchRequest::default()
        };
        let target = Target::index(self.field.info.name.as_str());
        let found = self.call.rest.relations.search(&target, request).await?;
        Ok(found.hits.total.map_or(0, |total| total.value))
    }

    /// # Errors
    /// A lock of the request is not alive.
    pub(crate) fn check_locks(&self) -> Result<()> {
        self.locks
            .iter()
            .try_for_each(|id| self.call.rest.relations.lease(id).map(drop))
    }

    /// Makes all that was acknowledged take part. Where paths are keywords, a directory is there if a document is in it.
    ///
    /// # Errors
    /// `tree_missing_exception`.
    pub(crate) async fn settle(&self) -> Result<()> {
        let index = Target::index(self.field.info.name.as_str());
        self.call.rest.engine.refresh(&index, None).await?;
        if !self.field.is_tree && self.count(self.path).await? == 0 {
            let reason = format!(
                "no document of index [{}] is in the directory [{}] of field [{}]",
                self.field.info.name, self.path, self.field.name
            );
            return Err(Error::new(ErrorKind::TreeMissing, reason).with("path", self.path));
        }
        Ok(())
    }

    /// The script that gives each document its path below `to`. `id_prefix`: each becomes another document, whose id begins so.
    ///
    /// # Errors
    /// None, unless the script is none.
    pub(crate) fn rewriting(&self, to: &str, id_prefix: Option<&str>) -> Result<(Program, Params)> {
        let field = self.field;
        let (steps, name) = match field.name.rsplit_once('.') {
            Some((around, name)) => (around.split('.').collect(), name),
            None => (Vec::new(), field.name.as_str()),
        };
        let mut params = json!({
            "steps": steps, "name": name, "from": self.path, "to": to, "below": format!("{}{}", self.path, field.syntax.delimiter),
            "length": utf16_length(self.path),
        });
        let program = match id_prefix {
            None => script::compile(REWRITING, Lang::Painless)?,
            Some(prefix) => {
                params["prefix"] = prefix.into();
                script::compile(&format!("{REWRITING} ctx._id = params.prefix + ctx._id;"), Lang::Painless)?
            }
        };
        let params = match params {
            Value::Object(params) => params,
            _ => serde_json::Map::new(),
        };
        Ok((program, Params::from_json(&params)))
    }
}

/// The most that one change of the documents of a directory may be.
fn bounds() -> Whole {
    Whole {
        operations_max: settings::node(settings::TREE_MAX_DOCUMENTS),
        bytes_max: settings::node(settings::TREE_MAX_BYTES),
        operations_setting: settings::TREE_MAX_DOCUMENTS.name,
        bytes_setting: settings::TREE_MAX_BYTES.name,
    }
}

/// A document refused the whole change.
fn undone(failure: &Value) -> Error {
    let conflicts = failure["status"] == 409;
    let kind = match conflicts {
        true => ErrorKind::TransactionConflict,
        false => ErrorKind::TransactionFailed,
    };
    let reason = format!(
        "document [{}] cannot be changed: {}; nothing was changed",
        failure["id"].as_str().unwrap_or_default(),
        failure["cause"]["reason"].as_str().unwrap_or_default()
    );
    Error::new(kind, reason).with("failure", failure.clone())
}

/// The documents in a directory and below it.
fn within(field: &PathField, path: &str) -> Query {
    let term = |name: String| {
        Clause::Term(TermQuery {
            field: name,
            value: path.into(),
            case_insensitive: false,
        })
    };
    if field.is_tree {
        return term(format!("{}.tree", field.name)).into();
    }
    let below = Clause::Prefix(PatternQuery {
        field: field.name.clone(),
        value: format!("{path}{}", field.syntax.delimiter),
        case_insensitive: false,
        rewrite: None,
        flags: None,
        max_determinized_states: 10_000,
    });
    let either = BoolQuery {
        should: vec![term(field.name.clone()).into(), below.into()],
        ..BoolQuery::default()
    };
    Clause::Bool(either).into()
}

/// The length of a text as scripts count it.
fn utf16_length(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Rewrites a path, or each path of a list that is below. The names of the field are parameters: they may have quotes in them.
const REWRITING: &str = "def o = ctx._source; for (def step : params.steps) { o = o[step]; } \
     def v = o[params.name]; \
     if (v instanceof List) { \
       for (int i = 0; i < v.size(); i++) { \
         if (v[i] == params.from) { v[i] = params.to; } \
         else if (v[i] != null && v[i].startsWith(params.below)) { v[i] = params.to + v[i].substring(params.length); } } } \
     else if (v == params.from) { o[params.name] = params.to; } \
     else { o[params.name] = params.to + v.substring(params.length); }";
