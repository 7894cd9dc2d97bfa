//! `GET /{index}/_tree` and `GET /_cat/tree/{index}`: the directories in and below one of a `tree_path` field, with the documents
//! below each.
//!
//! Not here: changes of directories (`moves`, `copies`, `removals`).

use crate::call::Call;
use crate::respond::Answer;
use crate::tables::{Cell, Column, Layout, col, num};
use async_recursion::async_recursion as boxed;
use engine::{Directories, DirectoriesOf, Inspected, Inspection};
use model::{Error, ErrorKind, IndexName, Result, settings};
use serde_json::{Value, json};

/// Directories of a page, unless told otherwise.
const PAGE: usize = 100;

/// `GET /{index}/_tree`
#[boxed]
pub(crate) async fn list(mut call: Call) -> Result<Answer> {
    let of = take(&mut call, PAGE, 1)?;
    call.params.finish()?;
    let found = directories(&call, of).await?;
    let children: Vec<Value> = found
        .children
        .iter()
        .map(|child| {
            json!({
                "name": child.name, "path": child.path, "depth": child.depth, "count": child.count, "directories": child.directories,
            })
        })
        .collect();
    let mut out = json!({
        "field": found.field, "path": found.path, "total": found.total, "tree_seq": found.tree_seq, "children": children,
    });
    if let Some(last) = found.children.last().filter(|_| found.more) {
        out["after"] = last.below.as_str().into();
    }
    Ok(Answer::ok(out))
}

const COLUMNS: &[Column] = &[
    col("path", &["p"], "path of the directory"),
    col("name", &["n"], "its last component"),
    num("depth", &["d"], "levels below the path that was asked for"),
    num("docs.count", &["dc", "docsCount"], "documents in it and below it"),
    num("directories", &["dirs"], "directories in it"),
];

/// `GET /_cat/tree/{index}`: every level, unless told otherwise.
#[boxed]
pub(crate) async fn cat(mut call: Call) -> Result<Answer> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    let most = page_max();
    let of = take(&mut call, most, usize::MAX)?;
    call.params.finish()?;
    let is_page = of.size < most;
    let found = directories(&call, of).await?;
    if found.more && !is_page {
        let name = settings::TREE_MAX_LISTED.name;
        let reason = format!(
            "more than [{most}] directories are below [{}]; [path], [depth], [size] and [after] choose some, and the limit is the \
             setting [{name}]",
            found.path
        );
        return Err(Error::illegal(reason).with("setting", name));
    }
    let row = |child: &engine::ChildDirectory| {
        vec![
            Cell::of(&child.path),
            Cell::of(&child.name),
            Cell::of(child.depth),
            Cell::of(child.count),
            Cell::of(child.directories),
        ]
    };
    layout.write(COLUMNS, found.children.iter().map(row).collect())
}

/// The most directories of one answer.
fn page_max() -> usize {
    usize::try_from(settings::node(settings::TREE_MAX_LISTED)).unwrap_or(usize::MAX)
}

fn take(call: &mut Call, size: usize, depth: usize) -> Result<DirectoriesOf> {
    let most = page_max();
    let size = call.params.take_number::<usize>("size")?.unwrap_or(size.min(most));
    if size > most {
        let name = settings::TREE_MAX_LISTED.name;
        let reason = format!("[size] must be at most [{most}], the setting [{name}], but was [{size}]; go on with [after]");
        return Err(Error::illegal(reason).with("setting", name));
    }
    let depth = call.params.take_number::<usize>("depth")?.unwrap_or(depth);
    if depth == 0 {
        return Err(Error::illegal("[depth] must be at least [1], the directories in the path"));
    }
    Ok(DirectoriesOf {
        field: call.params.take("field"),
        path: call.params.take("path").unwrap_or_else(|| "/".to_owned()),
        after: call.params.take("after"),
        index: IndexName::new(call.path_part("index")?),
        depth,
        size,
        visibility: None,
    })
}

async fn directories(call: &Call, of: DirectoriesOf) -> Result<Directories> {
    match call.rest.engine.inspect(Inspection::Directories(of)).await? {
        Inspected::Directories(found) => Ok(found),
        _ => Err(Error::new(ErrorKind::Internal, "an answer about directories is another")),
    }
}
