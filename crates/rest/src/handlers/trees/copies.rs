//! `POST /{index}/_tree/_copy`: the documents in and below a directory once more, below another one, as one change.
//!
//! Not here: the job that copies them (`actions::directory_documents`).

use crate::actions::directory_documents::DocumentsOf;
use crate::actions::path_field::{PathField, needed_text};
use crate::actions::writes::with_warnings;
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::{DirectoriesOf, Inspection};
use model::{Error, ErrorKind, Result};
use relations::jobs::JobAction;
use serde_json::json;

/// `POST /{index}/_tree/_copy`
#[boxed]
pub(crate) async fn copy_directory(mut call: Call) -> Result<Answer> {
    let started = call.rest.clock.wall_ms();
    let locks = call.take_locks()?;
    let node = call.json_needed()?;
    call.params.finish()?;
    let mut fields = node.fields("copy")?;
    let field = fields.take_string("field")?;
    let from = needed_text(&mut fields, "from")?;
    let to = needed_text(&mut fields, "to")?;
    let prefix = fields.take_string("id_prefix")?;
    fields.finish()?;
    if prefix.as_deref() == Some("") {
        return Err(Error::illegal(
            "[id_prefix] is empty: the copies would have the ids of their originals",
        ));
    }
    let prefix = prefix.unwrap_or_else(|| format!("{}:", engine::clock::generated_id(call.rest.clock.as_ref())));
    let field = PathField::of(&call, &call.path_part("index")?, field.as_deref()).await?;
    if field.syntax.folds {
        let reason = format!(
            "field [{}] has [case] [insensitive]: its directories cannot be copied",
            field.name
        );
        return Err(Error::new(ErrorKind::UnsupportedOperation, reason));
    }
    let (from, to) = field.directories(&from, &to, "copy", "copied")?;
    let documents = DocumentsOf {
        call: &call,
        field: &field,
        path: from,
        locks: &locks,
    };
    documents.check_locks()?;
    documents.settle().await?;
    if field.is_tree {
        find(&call, &field, from).await?;
    }
    let there = documents.count(to).await?;
    if there > 0 {
        let reason = format!("[{there}] documents are in the directory [{to}]; a copy goes where nothing is");
        return Err(Error::new(ErrorKind::TreeExists, reason).with("path", to));
    }
    let action = JobAction::Reindex {
        index: field.info.name.to_string(),
        create: true,
        external: None,
        script: Some(documents.rewriting(to, Some(&prefix))?),
        routing: None,
        typed: field.info.typed,
        source: None,
        makes: false,
    };
    let counts = documents.change(action, field.is_tree.then_some(to), "copy").await?;
    let mut out = json!({
        "took": call.took_since(started), "total": counts.total, "created": counts.created, "id_prefix": prefix, "atomic": true,
    });
    if let Some(commit_seq) = counts.commit_seq {
        out["commit_seq"] = commit_seq.into();
    }
    Ok(with_warnings(Answer::ok(out), &counts.warnings))
}

/// # Errors
/// `tree_missing_exception`.
async fn find(call: &Call, field: &PathField, path: &str) -> Result<()> {
    let of = DirectoriesOf {
        index: field.info.name.clone(),
        field: Some(field.name.clone()),
        path: path.to_owned(),
        after: None,
        depth: 1,
        size: 0,
        visibility: None,
    };
    call.rest.engine.inspect(Inspection::Directories(of)).await.map(drop)
}
