//! `POST /{index}/_tree/_move`: a directory with everything below it gets another name or place, as one change.
//!
//! A `tree_path` field moves by one record, whatever is below. In the mapping of 2015, a keyword with a `path_hierarchy` beside
//! it, the documents are rewritten by a job that is one change. Not here: the tree (`mapping::tree`), jobs (`actions::jobs`).

use crate::actions::jobs;
use crate::actions::transaction::Limits;
use crate::actions::writes::with_warnings;
use crate::call::Call;
use crate::respond::Answer;
use dsl::query::{BoolQuery, Clause, PatternQuery, Query, TermQuery};
use dsl::search::{SearchRequest, TrackTotal};
use engine::{IndexInfo, TreeChange};
use mapping::tree::PathSyntax;
use mapping::{FieldType, Kind};
use model::{Error, ErrorKind, Result, Target, nearest};
use relations::jobs::{Action, Job, Order};
use script::{Lang, Params};
use serde_json::{Value, json};

/// A request read.
struct Asked {
    index: String,
    field: Option<String>,
    from: String,
    to: String,
    merge: bool,
    locks: Vec<String>,
}

/// `POST /{index}/_tree/_move`
pub(crate) async fn move_directory(mut call: Call) -> Result<Answer> {
    let started = call.rest.clock.wall_ms();
    let locks = call.take_locks()?;
    let node = call.json_needed()?;
    call.params.finish()?;
    let mut fields = node.fields("move")?;
    let text = |given: Option<String>, name: &str| given.ok_or_else(|| Error::illegal(format!("[{name}] is missing")));
    let asked = Asked {
        index: call.needed("index")?,
        field: fields.take_string("field")?,
        from: text(fields.take_string("from")?, "from")?,
        to: text(fields.take_string("to")?, "to")?,
        merge: fields.take_bool("merge")?.unwrap_or(false),
        locks,
    };
    fields.finish()?;
    let info = one_index(&call, &asked.index).await?;
    let mut out = match meant(&info, asked.field.as_deref())? {
        Meant::Tree => return by_tree(&call, &asked, started).await,
        Meant::Keyword(field) => by_documents(&call, &info, &field, &asked).await?,
    };
    out["took"] = (call.rest.clock.wall_ms() - started).max(0).into();
    Ok(Answer::ok(out))
}

/// The index that is meant.
async fn one_index(call: &Call, name: &str) -> Result<IndexInfo> {
    let mut found = call.rest.indices(&Target::index(name)).await?;
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(engine::catalog::missing(name)),
        count => Err(Error::illegal(format!(
            "[{name}] is [{count}] indices; directories are those of one index"
        ))),
    }
}

/// The field that has the paths.
enum Meant {
    /// A `tree_path`: the engine knows which.
    Tree,
    /// A keyword.
    Keyword(String),
}

/// # Errors
/// No field has paths, or several do and none is named.
fn meant(info: &IndexInfo, wanted: Option<&str>) -> Result<Meant> {
    let mapping = &info.mapping;
    let is_path = |path: &str, field: &FieldType| {
        let hierarchy = format!("{path}.tree");
        field.kind == Kind::Keyword && mapping.field(&hierarchy).is_some_and(|tree| tree.kind.is_text())
    };
    match wanted {
        None if mapping.tree_fields().next().is_some() => Ok(Meant::Tree),
        Some(wanted) if mapping.tree_fields().any(|(field, _)| **field == *wanted) => Ok(Meant::Tree),
        Some(wanted) => match mapping.field(wanted) {
            Some(field) if field.kind == Kind::Keyword => Ok(Meant::Keyword(wanted.to_owned())),
            Some(field) => Err(Error::illegal(format!(
                "[field] [{wanted}] is of type [{}]; directories are moved in fields of type [tree_path] or [keyword]",
                field.wire()
            ))),
            None => {
                let meant = nearest::question(wanted, mapping.fields().map(|(path, _)| path));
                Err(Error::illegal(format!("no field [{wanted}] in index [{}]{meant}", info.name)))
            }
        },
        None => {
            let all: Vec<&str> = mapping
                .fields()
                .filter(|(path, field)| is_path(path, field))
                .map(|(path, _)| path)
                .collect();
            match all.as_slice() {
                [only] => Ok(Meant::Keyword((*only).to_owned())),
                [] => Err(Error::illegal(format!(
                    "index [{}] has no field of type [tree_path], and no keyword with a [path_hierarchy] in its sub-field [tree]; \
                     [field] names the keyword that has the paths",
                    info.name
                ))),
                several => Err(Error::illegal(format!("[field] must name one of [{}]", several.join(", ")))),
            }
        }
    }
}

/// One record, whatever is below.
async fn by_tree(call: &Call, asked: &Asked, started: i64) -> Result<Answer> {
    let change = TreeChange {
        index: asked.index.clone(),
        field: asked.field.clone(),
        from: asked.from.clone(),
        to: asked.to.clone(),
        merge: asked.merge,
    };
    let done = call.rest.relations.move_directory(&change, &asked.locks).await?;
    let answer = Answer::ok(json!({
        "took": (call.rest.clock.wall_ms() - started).max(0), "moved": done.moved.changed, "updated": 0, "atomic": true,
        "tree_seq": done.moved.tree_seq, "commit_seq": done.commit_seq,
    }));
    Ok(with_warnings(answer, &done.warnings))
}

/// The documents in a directory and below it.
fn within(field: &str, syntax: PathSyntax, path: &str) -> Query {
    let term = Clause::Term(TermQuery {
        field: field.to_owned(),
        value: path.into(),
        case_insensitive: false,
    });
    let below = Clause::Prefix(PatternQuery {
        field: field.to_owned(),
        value: format!("{path}{}", syntax.delimiter),
        case_insensitive: false,
        rewrite: None,
        flags: None,
        max_determinized_states: 10_000,
    });
    let either = BoolQuery {
        should: vec![term.into(), below.into()],
        minimum_should_match: Some("1".into()),
        ..BoolQuery::default()
    };
    Clause::Bool(BoolQuery {
        filter: vec![Clause::Bool(either).into()],
        ..BoolQuery::default()
    })
    .into()
}

/// The paths of the documents are rewritten, as one change.
async fn by_documents(call: &Call, info: &IndexInfo, field: &str, asked: &Asked) -> Result<Value> {
    let syntax = PathSyntax::default();
    let (source, target) = (syntax.components(&asked.from)?, syntax.new_components(&asked.to)?);
    let (from, to) = (syntax.join(source.iter().copied()), syntax.join(target.iter().copied()));
    if source.is_empty() {
        return Err(Error::illegal(format!("the root [{from}] cannot be moved")).with("path", from));
    }
    if source == target {
        return Ok(json!({ "took": 0, "moved": false, "total": 0, "updated": 0, "atomic": true }));
    }
    if target.starts_with(&source) {
        let reason = format!("cannot move [{from}] into its own descendant [{to}]");
        return Err(Error::new(ErrorKind::TreeCycle, reason).with("from", from).with("to", to));
    }
    let index = Target::index(info.name.as_str());
    // What was acknowledged before takes part.
    call.rest.engine.refresh(&index, None).await?;
    if count(call, &index, within(field, syntax, &from)).await? == 0 {
        let reason = format!(
            "no document of index [{}] is in the directory [{from}] of field [{field}]",
            info.name
        );
        return Err(Error::new(ErrorKind::TreeMissing, reason).with("path", from));
    }
    let there = count(call, &index, within(field, syntax, &to)).await?;
    if there > 0 && !asked.merge {
        let reason = format!("[{there}] documents are in the directory [{to}]; [merge] puts one directory into another");
        return Err(Error::new(ErrorKind::TreeExists, reason).with("path", to));
    }
    let limits = Limits::of(call).await?;
    let (steps, name) = match field.rsplit_once('.') {
        Some((around, name)) => (around.split('.').collect(), name),
        None => (Vec::new(), field),
    };
    let params = json!({
        "steps": steps, "name": name, "from": from, "to": to, "below": format!("{from}{}", syntax.delimiter),
        "length": utf16_length(&from),
    });
    let program = script::compile(REWRITING, Lang::Painless)?;
    let job = Job {
        target: index,
        query: within(field, syntax, &from),
        action: Action::Update {
            script: Some((
                program,
                Params::from_json(params.as_object().unwrap_or(&serde_json::Map::new())),
            )),
            source: None,
        },
        proceed: false,
        max_docs: None,
        batch: relations::jobs::BATCH_MAX,
        refresh: true,
        guards: asked.locks.clone(),
        whole: Some(limits.whole()),
        caller: call.caller.clone(),
    };
    let order = Order {
        request: jobs::kept(call),
        key: None,
        keep: false,
    };
    let description = format!("move [{from}] to [{to}] in [{}]", info.name);
    let counts = jobs::waited(call, job, order, ("indices:data/write/tree/move", description)).await?;
    let mut out = json!({
        "took": 0, "moved": true, "total": counts.total, "updated": counts.updated, "atomic": true,
    });
    if let Some(commit_seq) = counts.commit_seq {
        out["commit_seq"] = commit_seq.into();
    }
    Ok(out)
}

/// The length of a text as scripts count it.
fn utf16_length(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Rewrites a path, or each path of a list. The names of the field are parameters: they may have quotes in them.
const REWRITING: &str = "def o = ctx._source; for (def step : params.steps) { o = o[step]; } \
     def v = o[params.name]; \
     if (v instanceof List) { \
       for (int i = 0; i < v.size(); i++) { \
         if (v[i] == params.from) { v[i] = params.to; } \
         else if (v[i].startsWith(params.below)) { v[i] = params.to + v[i].substring(params.length); } } } \
     else if (v == params.from) { o[params.name] = params.to; } \
     else { o[params.name] = params.to + v.substring(params.length); }";

async fn count(call: &Call, target: &Target, query: Query) -> Result<u64> {
    let request = SearchRequest {
        query: Some(query),
        size: 0,
        track_total_hits: TrackTotal::Exact,
        ..SearchRequest::default()
    };
    let found = call.rest.relations.search(target, request).await?;
    Ok(found.hits.total.map_or(0, |total| total.value))
}
