//! A change of the feed as the command reads it: documents stay as the source wrote them.
//!
//! Not here: reading the feed (`feed_client`), applying a change (`target`).

use model::text::one_line;
use model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;

/// One change.
#[derive(Debug, Deserialize)]
pub(super) struct Change<'a> {
    pub(super) commit_seq: u64,
    /// It is a part of a copy.
    #[serde(default)]
    pub(super) initial: bool,
    #[serde(borrow)]
    pub(super) operations: Vec<ChangedOperation<'a>>,
}

/// One operation: of a document, or of an index.
#[derive(Debug, Deserialize)]
pub(super) struct ChangedOperation<'a> {
    #[serde(borrow)]
    pub(super) op: Cow<'a, str>,
    #[serde(borrow, rename = "_index")]
    pub(super) index: &'a RawValue,
    #[serde(borrow, rename = "_id")]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, rename = "_type")]
    pub(super) doc_type: Option<&'a RawValue>,
    #[serde(borrow, rename = "_routing")]
    pub(super) routing: Option<&'a RawValue>,
    #[serde(borrow, rename = "_parent")]
    pub(super) parent: Option<&'a RawValue>,
    #[serde(borrow, rename = "_source")]
    pub(super) source: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) settings: Value,
    #[serde(default)]
    pub(super) mappings: Value,
    #[serde(default)]
    pub(super) aliases: Value,
    #[serde(default)]
    pub(super) open: Option<bool>,
    #[serde(default)]
    pub(super) field: String,
    #[serde(default)]
    pub(super) from: String,
    #[serde(default)]
    pub(super) to: String,
    #[serde(default)]
    pub(super) path: String,
    #[serde(default)]
    pub(super) merge: bool,
}

/// Where a document is: index, type and id as the source writes them. The same document is always written alike.
pub(super) type Address<'a> = (&'a str, &'a str, &'a str);

impl<'a> Change<'a> {
    /// Reads a change.
    ///
    /// # Errors
    /// It is none that this version of the command knows.
    pub(super) fn read(text: &'a RawValue) -> Result<Change<'a>> {
        serde_json::from_str(text.get()).map_err(|cause| {
            let reason = format!("a change of the source cannot be read, is it a Pleach of this version? {cause}");
            Error::new(ErrorKind::Internal, reason)
        })
    }

    /// Does it move or remove a directory?
    pub(super) fn changes_directories(&self) -> bool {
        self.operations.iter().any(ChangedOperation::is_of_directory)
    }

    /// The operations to apply, in order. Operations of one change have one version, so that of a document only the last
    /// one is there.
    pub(super) fn last_operations(&self) -> Vec<&ChangedOperation<'a>> {
        let all = self.operations.iter();
        // A copy has each document once.
        if self.initial || self.operations.len() == 1 {
            return all.collect();
        }
        let addresses = self.operations.iter().enumerate();
        let last: HashMap<Address<'_>, usize> = addresses.filter_map(|(at, one)| Some((one.address()?, at))).collect();
        let is_last =
            |(at, one): &(usize, &ChangedOperation<'a>)| one.address().is_none_or(|address| last.get(&address) == Some(at));
        all.enumerate().filter(is_last).map(|(_, one)| one).collect()
    }
}

impl ChangedOperation<'_> {
    /// The document; `None`: it alters an index.
    pub(super) fn address(&self) -> Option<Address<'_>> {
        match &*self.op {
            "index" | "delete" => Some((
                self.index.get(),
                self.doc_type.map_or("", RawValue::get),
                self.id.map_or("", RawValue::get),
            )),
            _ => None,
        }
    }

    pub(super) fn is_of_directory(&self) -> bool {
        matches!(&*self.op, "move" | "remove")
    }

    /// The name of the index.
    pub(super) fn index_name(&self) -> String {
        text_of(self.index)
    }

    /// The name of the type, where the index has types.
    pub(super) fn type_name(&self) -> Option<String> {
        self.doc_type.map(text_of)
    }

    /// Appends the operation on a document as lines of a bulk request. `doc_type`: for a target that wants a type.
    ///
    /// # Errors
    /// The document has no source.
    pub(super) fn write_lines(&self, version: u64, doc_type: Option<&str>, out: &mut String) -> Result<()> {
        let mut member = |before: &str, name: &str, value: &str| {
            for part in [before, "\"", name, "\":", value] {
                out.push_str(part);
            }
        };
        member("{", &self.op, "");
        member("{", "_index", self.index.get());
        let parts = [
            ("_id", self.id),
            ("_type", self.doc_type),
            ("routing", self.routing),
            ("parent", self.parent),
        ];
        for (name, value) in parts {
            if let Some(value) = value {
                member(",", name, value.get());
            }
        }
        if let (Some(doc_type), None) = (doc_type, self.doc_type) {
            member(",", "_type", &Value::from(doc_type).to_string());
        }
        member(",", "version", &version.to_string());
        member(",", "version_type", "\"external\"}}\n");
        if self.op == "index" {
            let Some(source) = self.source else {
                let (index, id) = (self.index.get(), self.id.map_or("", RawValue::get));
                let reason = format!("document [{id}] of [{index}] has no _source at the source, so that it cannot be sent");
                return Err(Error::new(ErrorKind::UnsupportedOperation, reason));
            };
            out.push_str(&one_line(source.get()));
            out.push('\n');
        }
        Ok(())
    }
}

/// The text of a JSON string; empty where it is none.
fn text_of(value: &RawValue) -> String {
    serde_json::from_str(value.get()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(change: &Value, expected: &str, doc_type: Option<&str>) {
        let text = serde_json::value::to_raw_value(change).expect("JSON");
        let change = Change::read(&text).expect("a change");
        let mut lines = String::new();
        for operation in change.last_operations() {
            match operation.address() {
                Some(_) => operation
                    .write_lines(change.commit_seq, doc_type, &mut lines)
                    .expect("a source"),
                None => lines.push_str(&format!("({} {})\n", operation.op, operation.index_name())),
            }
        }
        assert_eq!(lines, expected);
    }

    #[test]
    fn changes_become_lines() {
        let document =
            json!({ "op": "index", "_index": "a", "_id": "é\"", "_routing": "r", "_version": 3, "_source": { "n": 1 } });
        let change = json!({ "commit_seq": 7, "operations": [document] });
        let lines = "{\"index\":{\"_index\":\"a\",\"_id\":\"é\\\"\",\"routing\":\"r\",\"version\":7,\"version_type\":\"external\"}}\n{\"n\":1}\n";
        check(&change, lines, None);
        let typed = json!({ "commit_seq": 7, "operations": [{ "op": "delete", "_index": "a", "_type": "t", "_id": "1" }] });
        let lines = "{\"delete\":{\"_index\":\"a\",\"_id\":\"1\",\"_type\":\"t\",\"version\":7,\"version_type\":\"external\"}}\n";
        check(&typed, lines, Some("doc"));
        let untyped = json!({ "commit_seq": 7, "operations": [{ "op": "delete", "_index": "a", "_id": "1" }] });
        let lines =
            "{\"delete\":{\"_index\":\"a\",\"_id\":\"1\",\"_type\":\"doc\",\"version\":7,\"version_type\":\"external\"}}\n";
        check(&untyped, lines, Some("doc"));
    }

    #[test]
    fn of_a_document_the_last_operation_of_a_change_is_left() {
        let change = json!({ "commit_seq": 7, "operations": [
            { "op": "create_index", "_index": "a", "settings": {}, "open": true },
            { "op": "index", "_index": "a", "_id": "1", "_source": {} },
            { "op": "index", "_index": "b", "_id": "1", "_source": { "kept": true } },
            { "op": "delete", "_index": "a", "_id": "1" },
        ] });
        let of = |index: &str, op: &str| {
            format!("{{\"{op}\":{{\"_index\":\"{index}\",\"_id\":\"1\",\"version\":7,\"version_type\":\"external\"}}}}\n")
        };
        let lines = format!(
            "(create_index a)\n{}{{\"kept\":true}}\n{}",
            of("b", "index"),
            of("a", "delete")
        );
        check(&change, &lines, None);
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let without = json!({ "commit_seq": 7, "operations": [{ "op": "index", "_index": "a", "_id": "1" }] });
        let text = serde_json::value::to_raw_value(&without).expect("JSON");
        let change = Change::read(&text).expect("a change");
        let refused = change.operations[0].write_lines(7, None, &mut String::new());
        assert!(refused.is_err_and(|error| error.reason().contains("has no _source")));
        let text = serde_json::value::to_raw_value(&json!({ "operations": [] })).expect("JSON");
        assert!(Change::read(&text).is_err());
    }
}
