//! `DELETE /{index}/_tree?path=`: a directory goes with everything below it, as one change.
//!
//! In a `tree_path` field that is one record, whatever is below; where paths are keywords, a job deletes the documents. Not here:
//! how the documents of a removed directory go (`embedded/src/removed_documents.rs`), the job (`actions::directory_documents`).

use crate::actions::directory_documents::DocumentsOf;
use crate::actions::path_field::PathField;
use crate::actions::writes::with_warnings;
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::{TreeAct, TreeChange};
use model::{Error, Result};
use relations::jobs::JobAction;
use serde_json::json;

/// `DELETE /{index}/_tree`
#[boxed]
pub(crate) async fn remove_directory(mut call: Call) -> Result<Answer> {
    let started = call.rest.clock.wall_ms();
    let locks = call.take_locks()?;
    let (path, field) = (call.params.take("path"), call.params.take("field"));
    call.params.finish()?;
    call.no_body()?;
    let path = path.ok_or_else(|| Error::illegal("[path] is missing: it names the directory that is removed"))?;
    let index = call.path_part("index")?;
    let field = PathField::of(&call, &index, field.as_deref()).await?;
    let directory = field.directory(&path, "removed")?;
    if !field.is_tree {
        let documents = DocumentsOf {
            call: &call,
            field: &field,
            path: directory,
            locks: &locks,
        };
        documents.settle().await?;
        let counts = documents.change(JobAction::Delete, None, "remove").await?;
        let answer = Answer::ok(json!({
            "took": call.took_since(started), "removed": true, "total": counts.total, "deleted": counts.deleted, "atomic": true,
            "commit_seq": counts.commit_seq,
        }));
        return Ok(with_warnings(answer, &counts.warnings));
    }
    let change = TreeChange {
        index,
        act: TreeAct::Remove {
            path: directory.to_owned(),
        },
        field: Some(field.name.clone()),
    };
    let done = call.rest.relations.change_directory(&change, &locks).await?;
    let answer = Answer::ok(json!({
        "took": call.took_since(started), "removed": true, "atomic": true, "tree_seq": done.moved.tree_seq,
        "commit_seq": done.commit_seq,
    }));
    Ok(with_warnings(answer, &done.warnings))
}
