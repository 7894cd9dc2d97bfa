//! Changes of the feed as JSON.
//!
//! Not here: which are shown (`handlers::changes::feed`).

use engine::TreeAct;
use engine::changes::{Change, IndexState, Operation};
use model::{CommitSeq, DocAddress, Result, Stamp};
use serde_json::{Map, Value, json};

/// A change: its `commit_seq`, and its operations in order. `with_source`: documents with their `_source`.
///
/// # Errors
/// Corruption: a source that is no JSON.
pub(crate) fn change(change: &Change, with_source: bool) -> Result<Value> {
    let operations: Result<Vec<Value>> = change.operations.iter().map(|one| operation(one, with_source)).collect();
    Ok(json!({ "commit_seq": change.commit_seq, "operations": operations? }))
}

/// A part of an initial copy: the state of its moment, which is no change of its own.
///
/// # Errors
/// As [`change`].
pub(crate) fn initial_part(moment: CommitSeq, operations: &[Operation], with_source: bool) -> Result<Value> {
    let operations: Result<Vec<Value>> = operations.iter().map(|one| operation(one, with_source)).collect();
    Ok(json!({ "commit_seq": moment, "initial": true, "operations": operations? }))
}

fn operation(operation: &Operation, with_source: bool) -> Result<Value> {
    Ok(match operation {
        Operation::Index(document) => {
            let mut out = head("index", &document.at, &document.stamp);
            let mut optional = |name: &str, value: Option<Value>| {
                if let Some(value) = value {
                    out.insert(name.to_owned(), value);
                }
            };
            optional("_routing", document.routing.clone().map(Value::from));
            optional("_parent", document.parent.clone().map(Value::from));
            optional("_timestamp", document.times.timestamp.map(Value::from));
            optional("_source", with_source.then(|| document.source.parse()).transpose()?);
            Value::Object(out)
        }
        Operation::Delete { at, stamp } => Value::Object(head("delete", at, stamp)),
        Operation::CreateIndex(state) => index("create_index", state),
        Operation::RestoreIndex(state) => index("restore_index", state),
        Operation::AlterIndex(state) => index("alter_index", state),
        Operation::PutMapping {
            index,
            doc_type,
            mapping,
        } => {
            let mut out = json!({ "op": "put_mapping", "_index": index.as_str(), "mappings": mapping });
            if let Some(doc_type) = doc_type {
                out["_type"] = doc_type.as_str().into();
            }
            out
        }
        Operation::Directory {
            index,
            field,
            act,
            tree_seq,
        } => {
            let mut out = match act {
                TreeAct::Move { from, to, merge } => json!({ "op": "move", "from": from, "to": to, "merge": merge }),
                TreeAct::Remove { path } => json!({ "op": "remove", "path": path }),
            };
            out["_index"] = index.as_str().into();
            out["field"] = field.as_str().into();
            out["tree_seq"] = (*tree_seq).into();
            out
        }
        Operation::DeleteIndex(index) => json!({ "op": "delete_index", "_index": index.as_str() }),
    })
}

fn head(op: &str, at: &DocAddress, stamp: &Stamp) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("op".into(), op.into());
    out.insert("_index".into(), at.index.as_str().into());
    if let Some(doc_type) = &at.id.doc_type {
        out.insert("_type".into(), doc_type.to_string().into());
    }
    out.insert("_id".into(), at.id.id.to_string().into());
    out.insert("_version".into(), stamp.version.into());
    out.insert("_seq_no".into(), stamp.seq_no.into());
    out.insert("_primary_term".into(), stamp.primary_term.into());
    out
}

fn index(op: &str, state: &IndexState) -> Value {
    json!({
        "op": op, "_index": state.index.as_str(), "uuid": state.uuid, "settings": state.settings, "mappings": state.mappings,
        "aliases": state.aliases, "open": state.open,
    })
}
