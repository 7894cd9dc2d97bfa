//! `GET /{index}/_tree`: the directories in one directory of a `tree_path` field, with the documents below each.
//!
//! Not here: moves (`moves`).

use crate::call::Call;
use crate::respond::Answer;
use engine::{DirectoriesOf, Inspected, Inspection};
use model::{Error, ErrorKind, IndexName, Result};
use serde_json::{Value, json};

/// Directories of a page, unless told otherwise, and at most.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1_000;

/// `GET /{index}/_tree`
pub(crate) async fn list(mut call: Call) -> Result<Answer> {
    let size = call.params.take_number::<usize>("size")?.unwrap_or(PAGE);
    if size > PAGE_MAX {
        return Err(Error::illegal(format!(
            "[size] must be at most [{PAGE_MAX}] but was [{size}]; go on with [after]"
        )));
    }
    let of = DirectoriesOf {
        field: call.params.take("field"),
        path: call.params.take("path").unwrap_or_else(|| "/".to_owned()),
        after: call.params.take("after"),
        index: IndexName::new(call.needed("index")?),
        size,
    };
    call.params.finish()?;
    let Inspected::Directories(found) = call.rest.engine.inspect(Inspection::Directories(of)).await? else {
        return Err(Error::new(ErrorKind::Internal, "an answer about directories is another"));
    };
    let children: Vec<Value> = found
        .children
        .iter()
        .map(|child| json!({ "name": child.name, "path": child.path, "count": child.count, "directories": child.directories }))
        .collect();
    let mut out = json!({ "field": found.field, "path": found.path, "total": found.total, "children": children });
    if let Some(last) = found.children.last().filter(|_| found.more) {
        out["after"] = last.name.as_str().into();
    }
    Ok(Answer::ok(out))
}
