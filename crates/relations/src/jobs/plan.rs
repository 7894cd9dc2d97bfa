//! The write that a job makes of one document, or none. Pure; scripts run here, outside every critical section, for the
//! write is on condition that the document has not changed.

use super::JobAction;
use engine::{Document, Expect, Source, Write, WriteOp};
use model::path::SourceFilter;
use model::{DocAddress, DocId, Error, IndexName, Result};
use script::{Budget, Params, Program, UpdateContext};
use serde_json::{Map, Value};

/// The write for one document; `None` for a noop.
///
/// # Errors
/// A script's.
pub(super) fn work(action: &JobAction, document: &Document, now_ms: i64) -> Result<Option<Write>> {
    let mut write = Write::over(document, WriteOp::Delete);
    // Only a job that updates writes into the index that it read, and knows its directories as it read them.
    if !matches!(action, JobAction::Update { .. }) {
        write.tree = None;
    }
    match action {
        JobAction::Delete => {}
        JobAction::Update { script: None, source } => write.op = WriteOp::Put(filter_source(document, source.as_ref())?),
        JobAction::Update {
            script: Some(script), ..
        } if document.at.id.doc_type.is_some() => match updated_in_2015(script, document, now_ms)? {
            Some(value) => write.op = WriteOp::Put(Source::from_value(&value)),
            None => return Ok(None),
        },
        JobAction::Update {
            script: Some(script),
            source,
        } => {
            let given = meta_of(document, document.at.index.as_str(), write.routing.as_deref());
            let left = Left::of(script, filter_source(document, source.as_ref())?.parse()?, &given, now_ms)?;
            left.is_same(&given)?;
            match left.op {
                Op::Index => write.op = WriteOp::Put(Source::from_value(&left.source)),
                Op::Delete => {}
                Op::Noop => return Ok(None),
            }
        }
        JobAction::Reindex {
            index,
            create,
            external,
            script,
            routing,
            typed,
            source,
            makes: _,
        } => {
            let mut copy = Copy {
                index: index.clone(),
                id: document.at.id.id.to_string(),
                routing: write.routing.take(),
                source: filter_source(document, source.as_ref())?,
                delete: false,
            };
            if let Some(script) = script
                && !copy.run_script(script, document, now_ms)?
            {
                return Ok(None);
            }
            write.at = copy.address(document, *typed);
            write.routing = match routing.as_deref() {
                Some("discard") => None,
                Some(text) if text.starts_with('=') => Some(text[1..].to_owned()),
                _ => copy.routing,
            };
            write.expect = match (create, external) {
                _ if copy.delete => Expect::Anything,
                (true, _) => Expect::Absent,
                (_, Some(or_equal)) => Expect::NewerThan {
                    version: document.stamp.version,
                    or_equal: *or_equal,
                },
                _ => Expect::Anything,
            };
            if !copy.delete {
                write.op = WriteOp::Put(copy.source);
            }
        }
    }
    Ok(Some(write))
}

fn filter_source(document: &Document, filter: Option<&SourceFilter>) -> Result<Source> {
    match filter {
        None => Ok(document.source.clone()),
        Some(filter) => Ok(Source::from_value(&filter.apply(&document.source.parse()?))),
    }
}

/// Runs a script of 2015 on a document that a query found: its new source, or nothing to do. It could not delete.
fn updated_in_2015((program, params): &(Program, Params), document: &Document, now_ms: i64) -> Result<Option<Value>> {
    let mut meta = Map::new();
    meta.insert("_index".into(), document.at.index.as_str().into());
    meta.insert(
        "_type".into(),
        document.at.id.doc_type.as_deref().map_or(Value::Null, Value::from),
    );
    meta.insert("_id".into(), (&*document.at.id.id).into());
    meta.insert("_version".into(), document.stamp.version.into());
    meta.insert(
        "_routing".into(),
        document.routing.as_deref().map_or(Value::Null, Value::from),
    );
    meta.insert("_parent".into(), document.parent.as_deref().map_or(Value::Null, Value::from));
    let context = UpdateContext {
        source: document.source.parse()?,
        op: "update".into(),
        meta,
    };
    let result = script::run_update(program, params, context, Budget::default(), now_ms)?;
    match result.op.as_str() {
        "update" => Ok(Some(result.source)),
        "noop" => Ok(None),
        "" => Err(Error::illegal("Script cleared op!")),
        other => Err(Error::illegal(format!("Invalid op [{other}]"))),
    }
}

/// The operation that a script of today chooses for a document that a query found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Index,
    Delete,
    Noop,
}

/// The `ctx` that such a script leaves.
struct Left {
    op: Op,
    source: Value,
    /// `_index`, `_id`, `_version` and `_routing`, as far as they are still there.
    meta: Map<String, Value>,
}

/// The members of `ctx` beside the source and the operation.
fn meta_of(document: &Document, index: &str, routing: Option<&str>) -> Map<String, Value> {
    let mut meta = Map::new();
    meta.insert("_index".into(), index.into());
    meta.insert("_id".into(), (&*document.at.id.id).into());
    meta.insert("_version".into(), document.stamp.version.into());
    meta.insert("_routing".into(), routing.map_or(Value::Null, Value::from));
    meta
}

impl Left {
    fn of((program, params): &(Program, Params), source: Value, given: &Map<String, Value>, now_ms: i64) -> Result<Left> {
        let context = UpdateContext {
            source,
            op: "index".into(),
            meta: given.clone(),
        };
        let result = script::run_update(program, params, context, Budget::default(), now_ms)?;
        let op = match result.op.as_str() {
            "index" => Op::Index,
            "delete" => Op::Delete,
            "noop" => Op::Noop,
            "" => return Err(Error::illegal("Script cleared operation type")),
            other => {
                return Err(Error::illegal(format!(
                    "Operation type [{other}] not allowed, only [noop, index, delete] are allowed"
                )));
            }
        };
        let added: Vec<&str> = result
            .meta
            .keys()
            .map(String::as_str)
            .filter(|name| !given.contains_key(*name))
            .collect();
        if op == Op::Index && !added.is_empty() {
            return Err(Error::illegal(format!(
                "Invalid fields added to context [{}]",
                added.join(",")
            )));
        }
        Ok(Left {
            op,
            source: result.source,
            meta: result.meta,
        })
    }

    /// An update leaves a document where it is.
    fn is_same(&self, given: &Map<String, Value>) -> Result<()> {
        match given.iter().find(|(name, value)| self.meta.get(*name) != Some(value)) {
            Some((name, _)) => Err(Error::illegal(format!("Modifying [{name}] not allowed"))),
            None => Ok(()),
        }
    }
}

/// A document on its way to another index.
struct Copy {
    index: String,
    id: String,
    routing: Option<String>,
    source: Source,
    delete: bool,
}

impl Copy {
    /// Where it goes. An index with types has documents without one as `_doc`.
    fn address(&self, document: &Document, typed: bool) -> DocAddress {
        let id = self.id.as_str();
        DocAddress {
            index: IndexName::new(self.index.as_str()),
            id: match document.at.id.doc_type.clone() {
                Some(doc_type) if typed => DocId::with_type(doc_type, id),
                None if typed => DocId::with_type("_doc", id),
                _ => DocId::plain(id),
            },
        }
    }

    /// Runs the script over it; false: it is not copied.
    fn run_script(&mut self, script: &(Program, Params), document: &Document, now_ms: i64) -> Result<bool> {
        let given = meta_of(document, &self.index, self.routing.as_deref());
        let left = Left::of(script, self.source.parse()?, &given, now_ms)?;
        match left.op {
            Op::Index => {}
            Op::Delete => self.delete = true,
            Op::Noop => return Ok(false),
        }
        let text = |name: &str| left.meta.get(name).and_then(Value::as_str).map(str::to_owned);
        if let Some(id) = text("_id") {
            self.id = id;
        }
        if let Some(index) = text("_index") {
            self.index = index;
        }
        self.routing = text("_routing");
        self.source = Source::from_value(&left.source);
        Ok(true)
    }
}
