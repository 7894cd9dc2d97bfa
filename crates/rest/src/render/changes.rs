//! Changes of the feed as JSON.
//!
//! Not here: which are shown (`handlers::changes::feed`).

use engine::changes::{Change, IndexState, Operation};
use engine::{Document, TreeAct};
use model::text::{one_line, push_number, quote, to_json_string};
use model::{CommitSeq, DocAddress, Error, ErrorKind, IndexName, Result, Stamp};
use serde_json::{Value, json};

/// Appends a change on one line of JSON: its `commit_seq`, and its operations in order. `with_source`: documents with their `_source`.
///
/// # Errors
/// Corruption: a source that is no text.
pub(crate) fn append_change(change: &Change, with_source: bool, out: &mut String) -> Result<()> {
    out.push_str("{\"commit_seq\":");
    push_number(out, change.commit_seq);
    out.push_str(",\"operations\":[");
    append(&change.operations, with_source, out)?;
    out.push_str("]}");
    Ok(())
}

/// Appends a part of an initial copy on one line of JSON: the state of its moment, which is no change of its own.
///
/// # Errors
/// As [`append_change`].
pub(crate) fn append_initial_part(
    moment: CommitSeq,
    operations: &[Operation],
    with_source: bool,
    out: &mut String,
) -> Result<()> {
    out.push_str("{\"commit_seq\":");
    push_number(out, moment);
    out.push_str(",\"initial\":true,\"operations\":[");
    append(operations, with_source, out)?;
    out.push_str("]}");
    Ok(())
}

fn append(operations: &[Operation], with_source: bool, out: &mut String) -> Result<()> {
    for (number, one) in operations.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        match one {
            Operation::Index(document) => append_document(document, with_source, out)?,
            Operation::Delete { at, stamp } => {
                append_head("delete", at, stamp, out);
                out.push('}');
            }
            Operation::CreateIndex(state) => append_value(&index("create_index", state), out),
            Operation::RestoreIndex(state) => append_value(&index("restore_index", state), out),
            Operation::AlterIndex(state) => append_value(&index("alter_index", state), out),
            Operation::PutMapping {
                index,
                doc_type,
                mapping,
            } => append_value(&put_mapping(index, doc_type.as_deref(), mapping), out),
            Operation::Directory {
                index,
                field,
                act,
                tree_seq,
            } => append_value(&directory(index, field, act, *tree_seq), out),
            Operation::DeleteIndex(index) => {
                append_value(&json!({ "op": "delete_index", "_index": index.as_str() }), out);
            }
        }
    }
    Ok(())
}

/// A document, with its source as it is stored. One that is not stored is left out.
fn append_document(document: &Document, with_source: bool, out: &mut String) -> Result<()> {
    append_head("index", &document.at, &document.stamp, out);
    let mut optional = |name: &str, json: Option<String>| {
        if let Some(json) = json {
            out.push_str(",\"");
            out.push_str(name);
            out.push_str("\":");
            out.push_str(&json);
        }
    };
    optional("_routing", document.routing.as_deref().map(to_json_string));
    optional("_parent", document.parent.as_deref().map(to_json_string));
    optional("_timestamp", document.times.timestamp.map(|millis| millis.to_string()));
    let source = document.source.0.as_ref();
    if !with_source || source.is_empty() {
        out.push('}');
        return Ok(());
    }
    let text = std::str::from_utf8(source).map_err(|cause| {
        let (index, id) = (document.at.index.as_str(), &document.at.id.id);
        let reason = format!("the stored source of [{index}][{id}] is no text: {cause}");
        Error::new(ErrorKind::Corruption, reason)
    })?;
    out.push_str(",\"_source\":");
    // A change is one line.
    out.push_str(&one_line(text));
    out.push('}');
    Ok(())
}

fn append_value(value: &Value, out: &mut String) {
    out.push_str(&value.to_string());
}

fn put_mapping(index: &IndexName, doc_type: Option<&str>, mapping: &Value) -> Value {
    let mut out = json!({ "op": "put_mapping", "_index": index.as_str(), "mappings": mapping });
    if let Some(doc_type) = doc_type {
        out["_type"] = doc_type.into();
    }
    out
}

fn directory(index: &IndexName, field: &str, act: &TreeAct, tree_seq: u64) -> Value {
    let mut out = match act {
        TreeAct::Move { from, to, merge } => json!({ "op": "move", "from": from, "to": to, "merge": merge }),
        TreeAct::Remove { path } => json!({ "op": "remove", "path": path }),
    };
    out["_index"] = index.as_str().into();
    out["field"] = field.into();
    out["tree_seq"] = tree_seq.into();
    out
}

/// Begins an operation on a document; what else it has and its end are up to the caller.
fn append_head(op: &str, at: &DocAddress, stamp: &Stamp, out: &mut String) {
    out.push_str("{\"op\":");
    quote(out, op);
    out.push_str(",\"_index\":");
    quote(out, at.index.as_str());
    if let Some(doc_type) = &at.id.doc_type {
        out.push_str(",\"_type\":");
        quote(out, doc_type);
    }
    out.push_str(",\"_id\":");
    quote(out, &at.id.id);
    for (name, number) in [
        (",\"_version\":", stamp.version),
        (",\"_seq_no\":", stamp.seq_no),
        (",\"_primary_term\":", stamp.primary_term),
    ] {
        out.push_str(name);
        push_number(out, number);
    }
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
    use model::DocId;

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
        let mut line = String::new();
        append_change(&one, with_source, &mut line).expect("it is text");
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
