//! Changes of the feed as JSON.
//!
//! Not here: which are shown (`handlers::changes::feed`).

use engine::changes::{Change, IndexState, Operation};
use engine::{Document, TreeAct};
use model::text::one_line;
use model::{CommitSeq, DocAddress, Error, ErrorKind, Result, Stamp};
use serde_json::{Map, Value, json};

/// A change on one line of JSON: its `commit_seq`, and its operations in order. `with_source`: documents with their `_source`.
///
/// # Errors
/// Corruption: a source that is no text.
pub(crate) fn change(change: &Change, with_source: bool) -> Result<String> {
    let mut out = format!("{{\"commit_seq\":{},\"operations\":[", change.commit_seq);
    append(&change.operations, with_source, &mut out)?;
    out.push_str("]}");
    Ok(out)
}

/// A part of an initial copy on one line of JSON: the state of its moment, which is no change of its own.
///
/// # Errors
/// As [`change`].
pub(crate) fn initial_part(moment: CommitSeq, operations: &[Operation], with_source: bool) -> Result<String> {
    let mut out = format!("{{\"commit_seq\":{moment},\"initial\":true,\"operations\":[");
    append(operations, with_source, &mut out)?;
    out.push_str("]}");
    Ok(out)
}

fn append(operations: &[Operation], with_source: bool, out: &mut String) -> Result<()> {
    for (number, one) in operations.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        match one {
            Operation::Index(document) => append_document(document, with_source, out)?,
            one => out.push_str(&operation(one).to_string()),
        }
    }
    Ok(())
}

/// A document, with its source as it is stored. One that is not stored is left out.
fn append_document(document: &Document, with_source: bool, out: &mut String) -> Result<()> {
    let mut members = head("index", &document.at, &document.stamp);
    let mut optional = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            members.insert(name.to_owned(), value);
        }
    };
    optional("_routing", document.routing.clone().map(Value::from));
    optional("_parent", document.parent.clone().map(Value::from));
    optional("_timestamp", document.times.timestamp.map(Value::from));
    out.push_str(&Value::Object(members).to_string());
    let source = document.source.0.as_ref();
    if !with_source || source.is_empty() {
        return Ok(());
    }
    let text = std::str::from_utf8(source).map_err(|cause| {
        let (index, id) = (document.at.index.as_str(), &document.at.id.id);
        let reason = format!("the stored source of [{index}][{id}] is no text: {cause}");
        Error::new(ErrorKind::Corruption, reason)
    })?;
    // The object that was just written has members, and goes on.
    out.pop();
    out.push_str(",\"_source\":");
    // A change is one line.
    out.push_str(&one_line(text));
    out.push('}');
    Ok(())
}

/// An operation on an index, or the deletion of a document.
fn operation(operation: &Operation) -> Value {
    match operation {
        Operation::Index(document) => Value::Object(head("index", &document.at, &document.stamp)),
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
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Source;
    use mapping::Times;
    use model::{DocId, IndexName};

    fn check(source: &str, with_source: bool, expected: &str) {
        let document = Document {
            at: DocAddress {
                index: IndexName::new("a"),
                id: DocId::plain("1"),
            },
            stamp: Stamp::default(),
            source: Source(source.as_bytes().into()),
            stored_fields: None,
            routing: Some("r".into()),
            parent: None,
            times: Times::default(),
            tree: None,
            hidden: None,
        };
        let one = Change {
            commit_seq: 7,
            operations: vec![
                Operation::Index(Box::new(document)),
                Operation::DeleteIndex(IndexName::new("a")),
            ],
        };
        let line = change(&one, with_source).expect("it is text");
        let value: Value = serde_json::from_str(&line).expect("it is JSON");
        assert_eq!(value["operations"][1]["op"], "delete_index", "{line}");
        assert_eq!(value["operations"][0]["_routing"], "r", "{line}");
        assert!(!line.contains('\n') && line.contains(expected), "{line}");
        assert_eq!(line.contains("_source"), !expected.is_empty(), "{line}");
    }

    #[test]
    fn sources_stay_as_they_were_written_on_one_line() {
        check("{ \"n\": 1.50 }", true, "\"_source\":{ \"n\": 1.50 }}");
        check("{\r\n\"n\": 1\n}", true, "\"_source\":{  \"n\": 1 }}");
        check("{\"n\":1}", false, "");
        check("", true, "");
    }
}
