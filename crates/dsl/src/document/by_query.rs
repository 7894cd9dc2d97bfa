//! Bodies of `_update_by_query`, `_delete_by_query` and `_reindex`.

use crate::json::Node;
use crate::query::script_source::ScriptSource;
use crate::search::{SearchRequest, SourceSpec};
use crate::shape;
use model::{Dialect, Error, Result};
use serde_json::Value;

/// `_update_by_query`, `_delete_by_query`: what is said of the job, and a search that says which documents it is about.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ByQueryBody {
    /// Every key of a search is read; those about answers change nothing.
    pub search: SearchRequest,
    pub script: Option<ScriptSource>,
    pub max_docs: Option<usize>,
    /// `size` of the search: documents a batch. In 2015 it bounded the job.
    pub batch: Option<usize>,
    /// `conflicts: proceed`
    pub proceed: bool,
    /// Whether the search says where it begins.
    pub has_from: bool,
}

impl ByQueryBody {
    /// Reads the body.
    ///
    /// # Errors
    /// A key that does not exist, or a value of the wrong kind.
    pub fn parse(node: Node, dialect: Dialect) -> Result<ByQueryBody> {
        let mut out = ByQueryBody {
            search: SearchRequest::new(dialect),
            ..ByQueryBody::default()
        };
        for (key, value) in shape::object(node, "search")? {
            match key.as_str() {
                "script" => out.script = Some(ScriptSource::parse(value, dialect)?),
                "max_docs" => out.max_docs = Some(value.usize(&key)?),
                "size" if dialect.rules.takes_former_options => out.max_docs = Some(value.usize(&key)?),
                "size" => out.batch = Some(value.usize(&key)?),
                "conflicts" => out.proceed = proceeds(Some(&value.string(&key)?))?,
                _ => {
                    out.has_from |= key == "from";
                    crate::search::take_key(&mut out.search, &key, value)?;
                }
            }
        }
        Ok(out)
    }
}

/// `_reindex`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReindexBody {
    pub source_indices: Vec<String>,
    pub source_types: Vec<String>,
    /// Query, sort, `_source`, batch size, slice of the source.
    pub search: SearchRequest,
    /// `remote`, unread.
    pub remote: Option<Value>,
    pub dest: ReindexDest,
    pub script: Option<ScriptSource>,
    pub max_docs: Option<usize>,
    pub proceed: bool,
    /// `size` of the source: documents a batch.
    pub batch: Option<usize>,
}

/// Where a reindex writes.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ReindexDest {
    pub index: String,
    pub doc_type: Option<String>,
    pub routing: Option<String>,
    pub pipeline: Option<String>,
    pub version_type: Option<String>,
    /// `op_type: create`
    pub create: bool,
}

impl ReindexBody {
    /// Reads the body.
    ///
    /// # Errors
    /// No source or destination, a key that does not exist.
    pub fn parse(node: Node, dialect: Dialect) -> Result<ReindexBody> {
        let mut fields = node.fields("reindex")?;
        let mut search = SearchRequest {
            size: 1000,
            ..SearchRequest::new(dialect)
        };
        let (mut source_indices, mut source_types, mut remote, mut sized) = (Vec::new(), Vec::new(), None, false);
        let failed = |key: &str, at: (u32, u32), cause: Error| option_error("reindex", key, at, cause, dialect);
        if let Some(source) = fields.take("source") {
            let at = (source.line, source.col);
            for (key, value) in shape::object(source, "source")? {
                match key.as_str() {
                    "index" => source_indices = shape::strings(value, "index")?,
                    "type" => source_types = shape::strings(value, "type")?,
                    "remote" => remote = Some(value.into_value()),
                    _ => {
                        sized |= key == "size";
                        crate::search::take_key(&mut search, &key, value).map_err(|cause| failed("source", at, cause))?;
                    }
                }
            }
        }
        let dest = match fields.take("dest") {
            Some(node) => ReindexDest::parse(node, dialect)?,
            None => ReindexDest::default(),
        };
        let mut problems = Vec::new();
        if source_indices.is_empty() {
            problems.push("use _all if you really want to copy from all existing indexes".to_owned());
        }
        if dest.index.is_empty() {
            problems.push("index is missing".to_owned());
        }
        if !problems.is_empty() {
            return Err(shape::validation_failed(&problems));
        }
        let script = fields.take("script").map(|s| ScriptSource::parse(s, dialect)).transpose()?;
        let max_docs = match fields.take_any(&["max_docs", "size"]) {
            Some(node) => {
                let read = node.usize("max_docs");
                Some(read.map_err(|cause| failed("max_docs", (node.line, node.col), cause))?)
            }
            None => None,
        };
        let proceed = proceeds(fields.take_string("conflicts")?.as_deref());
        let proceed = proceed.map_err(|cause| failed("conflicts", (1, 1), cause))?;
        fields.finish()?;
        if search.source == SourceSpec::None {
            return Err(Error::illegal("_source:false is not supported in this context"));
        }
        Ok(ReindexBody {
            source_indices,
            source_types,
            remote,
            dest,
            script,
            max_docs,
            proceed,
            batch: sized.then_some(search.size),
            search,
        })
    }
}

impl ReindexDest {
    fn parse(node: Node, dialect: Dialect) -> Result<ReindexDest> {
        let failed = |key: &str, at: (u32, u32), cause: Error| option_error("dest", key, at, cause, dialect);
        let mut fields = node.fields("dest")?;
        let dest = ReindexDest {
            index: fields.take_string("index")?.unwrap_or_default(),
            doc_type: fields.take_string("type")?,
            routing: fields.take_string("routing")?,
            pipeline: fields.take_string("pipeline")?,
            version_type: fields.take_string("version_type")?,
            create: match fields.take("op_type") {
                None => false,
                Some(node) => match node.string("op_type")?.to_lowercase().as_str() {
                    "create" => true,
                    "index" => false,
                    other => {
                        let cause = Error::illegal(format!("opType not allowed: [{other}] allowed [index, create]"));
                        return Err(failed("op_type", (node.line, node.col), cause));
                    }
                },
            },
        };
        if let Some(given) = dest.version_type.as_deref()
            && !["internal", "external", "external_gt", "external_gte"].contains(&given)
        {
            let cause = Error::illegal(format!("No version type match [{given}]"));
            return Err(failed("version_type", (1, 1), cause));
        }
        fields.finish()?;
        Ok(dest)
    }
}

/// The refusal of an option, with where it stands where the dialect says that.
fn option_error(owner: &str, key: &str, at: (u32, u32), cause: Error, dialect: Dialect) -> Error {
    match dialect.rules.refusals_are_unwrapped {
        true => cause,
        false => shape::failed_field(owner, key, at, cause),
    }
}

fn proceeds(conflicts: Option<&str>) -> Result<bool> {
    match conflicts {
        None | Some("abort") => Ok(false),
        Some("proceed") => Ok(true),
        Some(other) => Err(Error::illegal(format!(
            "conflicts may only be \"proceed\" or \"abort\" but was [{other}]"
        ))),
    }
}
