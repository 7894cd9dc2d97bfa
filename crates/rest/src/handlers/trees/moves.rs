//! `POST /{index}/_tree/_move`: a directory with everything below it gets another name or place, as one change.
//!
//! A `tree_path` field moves by one record, whatever is below. In the mapping of 2015, a keyword with a `path_hierarchy` beside
//! it, the documents are rewritten by a job that is one change. Not here: the tree (`mapping::tree`), the job (`actions::directory_documents`).

use crate::actions::directory_documents::DocumentsOf;
use crate::actions::path_field::{PathField, needed_text};
use crate::actions::writes::with_warnings;
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::{TreeAct, TreeChange};
use model::{Error, ErrorKind, Result};
use relations::jobs::JobAction;
use serde_json::json;

/// A request read.
struct MoveRequest {
    from: String,
    to: String,
    merge: bool,
    locks: Vec<String>,
}

/// `POST /{index}/_tree/_move`
#[boxed]
pub(crate) async fn move_directory(mut call: Call) -> Result<Answer> {
    let started = call.rest.clock.wall_ms();
    let locks = call.take_locks()?;
    let node = call.json_needed()?;
    call.params.finish()?;
    let mut fields = node.fields("move")?;
    let field = fields.take_string("field")?;
    let asked = MoveRequest {
        from: needed_text(&mut fields, "from")?,
        to: needed_text(&mut fields, "to")?,
        merge: fields.take_bool("merge")?.unwrap_or(false),
        locks,
    };
    fields.finish()?;
    let index = call.path_part("index")?;
    let field = PathField::of(&call, &index, field.as_deref()).await?;
    match field.is_tree {
        true => by_tree(&call, &index, field, asked, started).await,
        false => by_documents(&call, &field, &asked, started).await,
    }
}

/// One record, whatever is below.
async fn by_tree(call: &Call, index: &str, field: PathField, asked: MoveRequest, started: i64) -> Result<Answer> {
    let change = TreeChange {
        index: index.to_owned(),
        field: Some(field.name),
        act: TreeAct::Move {
            from: asked.from,
            to: asked.to,
            merge: asked.merge,
        },
    };
    let done = call.rest.relations.change_directory(&change, &asked.locks).await?;
    let answer = Answer::ok(json!({
        "took": call.took_since(started), "moved": done.moved.changed, "updated": 0, "atomic": true,
        "tree_seq": done.moved.tree_seq, "commit_seq": done.commit_seq,
    }));
    Ok(with_warnings(answer, &done.warnings))
}

/// The paths of the documents are rewritten, as one change.
async fn by_documents(call: &Call, field: &PathField, asked: &MoveRequest, started: i64) -> Result<Answer> {
    let (from, to) = field.directories(&asked.from, &asked.to, "move", "moved")?;
    if from == to {
        return Ok(Answer::ok(
            json!({ "took": 0, "moved": false, "total": 0, "updated": 0, "atomic": true }),
        ));
    }
    let documents = DocumentsOf {
        call,
        field,
        path: from,
        locks: &asked.locks,
    };
    documents.settle().await?;
    let there = documents.count(to).await?;
    if there > 0 && !asked.merge {
        let reason = format!("[{there}] documents are in the directory [{to}]; [merge] puts one directory into another");
        return Err(Error::new(ErrorKind::TreeExists, reason).with("path", to));
    }
    let action = JobAction::Update {
        script: Some(documents.rewriting(to, None)?),
        source: None,
    };
    let counts = documents.change(action, None, "move").await?;
    let answer = Answer::ok(json!({
        "took": call.took_since(started), "moved": true, "total": counts.total, "updated": counts.updated, "atomic": true,
        "commit_seq": counts.commit_seq,
    }));
    Ok(with_warnings(answer, &counts.warnings))
}
