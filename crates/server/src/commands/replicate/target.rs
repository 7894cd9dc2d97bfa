//! The target of a replication: changes of the feed as requests of the Elasticsearch API.
//!
//! Writes of documents are gathered into bulk requests. Whatever alters an index sends them first. Every request may be sent twice.
//!
//! Not here: which changes (`replicate`).

use crate::client::{Answer, Client, JSON, reason, segment};
use crate::feed_client::{Waits, delete_if_there, exchange, refusal};
use crate::index_definition::{PORTABLE_SETTINGS, settings_that, types_of};
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// A bulk request is sent once it has so many bytes.
const BULK_BYTES: usize = 4 << 20;
/// The portable settings of an index that may be altered later.
const DYNAMIC_SETTINGS: &[&str] = &["index.max_", "index.mapping.total_fields.limit"];
/// Settings of Pleach alone.
const OWN_SETTINGS: &str = "index.pleach.";

/// The server that is kept equal.
#[derive(Debug)]
pub(super) struct Target {
    client: Client,
    patience: Duration,
    is_pleach: bool,
    /// The type of documents, for servers that want one.
    doc_type: Option<&'static str>,
    /// Lines of the next bulk request.
    lines: String,
    /// A copy that was begun before left indices behind.
    replaces: bool,
    /// Indices of a copy that are closed at its end.
    closed: Vec<String>,
    documents: u64,
}

impl Target {
    /// Asks a server what it is.
    ///
    /// # Errors
    /// It cannot be reached, or is no server of this kind.
    pub(super) fn connect(client: Client, patience: Duration) -> Result<Target> {
        let mut target = Target {
            client,
            patience,
            is_pleach: false,
            doc_type: None,
            lines: String::new(),
            replaces: false,
            closed: Vec::new(),
            documents: 0,
        };
        let answer = target.send("GET", "/", b"")?;
        let number = answer.body["version"]["number"].as_str().unwrap_or_default();
        let Some(major) = number.split('.').next().and_then(|major| major.parse::<u32>().ok()) else {
            let reason = "the target does not tell its version: it is no Pleach, OpenSearch or Elasticsearch";
            return Err(Error::illegal(reason));
        };
        let is_opensearch = answer.body["version"]["distribution"] == "opensearch";
        target.doc_type = (major < 7 && !is_opensearch).then_some("doc");
        // A server of another kind has no such endpoint.
        target.is_pleach = target.exchange("GET", "/_lock", b"")?.status == 200;
        Ok(target)
    }

    /// Documents that were sent.
    pub(super) fn documents(&self) -> u64 {
        self.documents
    }

    /// Checks that the target has none of these indices: it could not become equal with what is in them.
    ///
    /// # Errors
    /// It has one.
    pub(super) fn check_absent(&mut self, indices: &[String]) -> Result<()> {
        for index in indices {
            if self.exchange("HEAD", &format!("/{}", segment(index)), b"")?.status != 404 {
                return Err(there_already(index));
            }
        }
        Ok(())
    }

    /// A copy begins. `is_again`: one was begun before, whose indices are deleted as they come.
    pub(super) fn begin_copy(&mut self, is_again: bool) {
        self.replaces = is_again;
    }

    /// The position of a change that moves or removes a directory.
    pub(super) fn changes_directories(&self, change: &Value) -> Option<u64> {
        let commit_seq = change["commit_seq"].as_u64()?;
        let operations = change["operations"].as_array()?;
        let is_of_directory = |operation: &Value| matches!(operation["op"].as_str(), Some("move" | "remove"));
        operations.iter().any(is_of_directory).then_some(commit_seq)
    }

    /// Applies one change; writes of documents may wait for more.
    ///
    /// # Errors
    /// The target refuses it, or cannot be reached.
    pub(super) fn apply(&mut self, change: &Value) -> Result<()> {
        let version = change["commit_seq"].as_u64().unwrap_or_default();
        let is_initial = change["initial"] == true;
        let operations = change["operations"].as_array().map_or(&[][..], Vec::as_slice);
        // Operations of one change have one version, so that of a document the last one alone is sent.
        let last: HashMap<(&str, &str, &str), usize> = operations
            .iter()
            .enumerate()
            .filter_map(|(at, operation)| Some((key(operation)?, at)))
            .collect();
        for (at, operation) in operations.iter().enumerate() {
            match key(operation) {
                Some(key) if last.get(&key) == Some(&at) => self.write(operation, version)?,
                Some(_) => {}
                None => {
                    self.flush()?;
                    match operation["op"].as_str() {
                        Some("move" | "remove") => self.change_directory(operation)?,
                        _ => self.alter(operation, is_initial)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends what waits.
    ///
    /// # Errors
    /// As [`Target::apply`].
    pub(super) fn flush(&mut self) -> Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let lines = std::mem::take(&mut self.lines);
        let mut waits = Waits::new(self.patience);
        loop {
            let answer = self.send("POST", "/_bulk", lines.as_bytes())?;
            match check_items(&answer.body)? {
                None => return Ok(()),
                Some(busy) => waits.wait(busy)?,
            }
        }
    }

    /// Ends a copy: what was closed at the source is closed.
    ///
    /// # Errors
    /// As [`Target::apply`].
    pub(super) fn end_copy(&mut self) -> Result<()> {
        self.flush()?;
        for index in std::mem::take(&mut self.closed) {
            self.send("POST", &format!("/{}/_close", segment(&index)), b"")?;
        }
        Ok(())
    }

    fn write(&mut self, operation: &Value, version: u64) -> Result<()> {
        let mut action = Map::new();
        let optional = [("_type", "_type"), ("_routing", "routing"), ("_parent", "parent")];
        action.insert("_index".into(), operation["_index"].clone());
        action.insert("_id".into(), operation["_id"].clone());
        for (from, to) in optional {
            if let Some(value) = operation.get(from) {
                action.insert(to.into(), value.clone());
            }
        }
        if let (Some(doc_type), false) = (self.doc_type, action.contains_key("_type")) {
            action.insert("_type".into(), doc_type.into());
        }
        action.insert("version".into(), version.into());
        action.insert("version_type".into(), "external".into());
        let word = operation["op"].as_str().unwrap_or_default();
        self.lines.push_str(&json!({ word: action }).to_string());
        self.lines.push('\n');
        if word == "index" {
            self.lines.push_str(&operation["_source"].to_string());
            self.lines.push('\n');
        }
        self.documents += 1;
        match self.lines.len() >= BULK_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn alter(&mut self, operation: &Value, is_initial: bool) -> Result<()> {
        let name = operation["_index"].as_str().unwrap_or_default();
        let path = format!("/{}", segment(name));
        match operation["op"].as_str() {
            Some("create_index") => self.create(operation, name, &path, is_initial),
            Some("alter_index") => {
                self.put_mappings(&path, &operation["mappings"])?;
                let settings = self.settings(operation, DYNAMIC_SETTINGS);
                if !settings.is_empty() {
                    let body = Value::Object(settings).to_string();
                    self.send("PUT", &format!("{path}/_settings"), body.as_bytes())?;
                }
                self.put_aliases(name, &path, &operation["aliases"])?;
                let word = if operation["open"] == false { "_close" } else { "_open" };
                self.send("POST", &format!("{path}/{word}"), b"").map(drop)
            }
            Some("put_mapping") => match operation["_type"].as_str() {
                Some(doc_type) => {
                    let mappings = json!({ doc_type: operation["mappings"] });
                    self.put_mappings(&path, &mappings)
                }
                None => self.put_mappings(&path, &operation["mappings"]),
            },
            Some("delete_index") => self.delete_index(&path),
            Some("restore_index") => {
                let reason = format!(
                    "index [{name}] of the source was made out of a snapshot; its documents are not in the feed: begin again with a \
                     copy"
                );
                Err(Error::new(ErrorKind::UnsupportedOperation, reason))
            }
            other => {
                let op = other.unwrap_or_default();
                let reason = format!("the feed has the operation [{op}], which this version of the command cannot apply");
                Err(Error::new(ErrorKind::UnsupportedOperation, reason))
            }
        }
    }

    /// Moves or removes a directory. One that is not there was changed before the command stopped, or never had a document.
    fn change_directory(&mut self, operation: &Value) -> Result<()> {
        if !self.is_pleach {
            let reason = "the source moved a directory of a [tree_path] field, which the target cannot: it is no Pleach";
            return Err(Error::new(ErrorKind::UnsupportedOperation, reason));
        }
        let path = format!("/{}/_tree", segment(operation["_index"].as_str().unwrap_or_default()));
        let field = operation["field"].as_str().unwrap_or_default();
        let (method, path, body) = match operation["op"].as_str() {
            Some("move") => {
                let body = json!({
                    "field": field, "from": operation["from"], "to": operation["to"], "merge": operation["merge"] == true,
                });
                ("POST", format!("{path}/_move"), body.to_string())
            }
            _ => {
                let removed = segment(operation["path"].as_str().unwrap_or_default());
                (
                    "DELETE",
                    format!("{path}?field={}&path={removed}", segment(field)),
                    String::new(),
                )
            }
        };
        let answer = self.exchange(method, &path, body.as_bytes())?;
        match answer.status {
            status if status < 400 => Ok(()),
            404 if answer.body["error"]["type"] == "tree_missing_exception" => Ok(()),
            _ => Err(refusal(&answer, method, &path)),
        }
    }

    /// Deletes an index, if it is there.
    fn delete_index(&mut self, path: &str) -> Result<()> {
        delete_if_there(&mut self.client, path, self.patience)
    }

    /// Makes an index. One that is there gets what it lacks: it was made before the command stopped. In a copy there is none.
    fn create(&mut self, operation: &Value, name: &str, path: &str, is_initial: bool) -> Result<()> {
        let is_closed = operation["open"] == false;
        if is_initial && self.replaces {
            self.delete_index(path)?;
        }
        let body = json!({
            "settings": self.settings(operation, PORTABLE_SETTINGS), "mappings": operation["mappings"], "aliases": operation["aliases"],
        });
        let answer = self.exchange("PUT", path, body.to_string().as_bytes())?;
        let exists = answer.body["error"]["type"]
            .as_str()
            .is_some_and(|kind| kind.contains("already_exists"));
        if exists && is_initial {
            return Err(there_already(name));
        }
        if exists {
            self.put_mappings(path, &operation["mappings"])?;
            self.put_aliases(name, path, &operation["aliases"])?;
        } else if answer.status >= 400 {
            return Err(refusal(&answer, "PUT", path));
        }
        if is_closed && is_initial {
            self.closed.push(name.to_owned());
        }
        Ok(())
    }

    /// The settings of an index that the target takes, of these.
    fn settings(&self, operation: &Value, names: &[&str]) -> Map<String, Value> {
        let is_taken =
            |name: &str| names.iter().any(|known| name.starts_with(known)) || self.is_pleach && name.starts_with(OWN_SETTINGS);
        settings_that(&operation["settings"], &is_taken)
    }

    fn put_mappings(&mut self, path: &str, mappings: &Value) -> Result<()> {
        if mappings.as_object().is_none_or(Map::is_empty) {
            return Ok(());
        }
        let Some(types) = types_of(mappings) else {
            let of_type = self.doc_type.map_or_else(String::new, |doc_type| format!("/{doc_type}"));
            return self
                .send("PUT", &format!("{path}/_mapping{of_type}"), mappings.to_string().as_bytes())
                .map(drop);
        };
        for (doc_type, body) in types {
            let path = format!("{path}/_mapping/{}", segment(doc_type));
            self.send("PUT", &path, body.to_string().as_bytes())?;
        }
        Ok(())
    }

    /// Gives an index these aliases and no others.
    fn put_aliases(&mut self, index: &str, path: &str, wanted: &Value) -> Result<()> {
        let answer = self.send("GET", &format!("{path}/_alias"), b"")?;
        let known = answer.body[index]["aliases"].as_object().cloned().unwrap_or_default();
        let empty = Map::new();
        let wanted = wanted.as_object().unwrap_or(&empty);
        let gone = known.keys().filter(|alias| !wanted.contains_key(*alias));
        let mut actions: Vec<Value> = gone
            .map(|alias| json!({ "remove": { "index": index, "alias": alias } }))
            .collect();
        for (alias, options) in wanted {
            let mut add = options.as_object().cloned().unwrap_or_default();
            add.insert("index".into(), index.into());
            add.insert("alias".into(), alias.as_str().into());
            actions.push(json!({ "add": add }));
        }
        if actions.is_empty() {
            return Ok(());
        }
        let body = json!({ "actions": actions }).to_string();
        self.send("POST", "/_aliases", body.as_bytes()).map(drop)
    }

    /// Sends a request that is not to be refused.
    fn send(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Answer> {
        let answer = self.exchange(method, path, body)?;
        match answer.status {
            status if status < 400 => Ok(answer),
            _ => Err(refusal(&answer, method, path)),
        }
    }

    /// Sends a request until the target answers it.
    fn exchange(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Answer> {
        let media = match path {
            "/_bulk" => "application/x-ndjson",
            _ => JSON,
        };
        exchange(&mut self.client, (method, path, media), body, self.patience)
    }
}

/// The refusal of a copy into an index that is there.
fn there_already(index: &str) -> Error {
    let reason = format!("the target has index [{index}] already: delete it there, or leave it out with --index");
    Error::new(ErrorKind::IndexAlreadyExists, reason)
}

/// Index, type and id of an operation on a document; `None`: it alters an index.
fn key(operation: &Value) -> Option<(&str, &str, &str)> {
    let doc_type = operation["_type"].as_str().unwrap_or_default();
    match operation["op"].as_str()? {
        "index" | "delete" => Some((operation["_index"].as_str()?, doc_type, operation["_id"].as_str()?)),
        _ => None,
    }
}

/// Looks at the items of a bulk answer. `Some`: the target was busy, and the request is to be sent again.
///
/// # Errors
/// An item was refused for good.
fn check_items(body: &Value) -> Result<Option<Error>> {
    if body["errors"] == false {
        return Ok(None);
    }
    let mut busy = None;
    for item in body["items"].as_array().into_iter().flatten() {
        let Some(outcome) = item.as_object().and_then(|members| members.values().next()) else {
            continue;
        };
        let status = outcome["status"].as_u64().unwrap_or_default();
        // 409: the target has this version or a newer one. 404: a deletion of what is not there.
        if status < 400 || status == 409 || status == 404 && outcome["error"].is_null() {
            continue;
        }
        let error = &outcome["error"];
        let reason = reason(error).unwrap_or("it gave no reason");
        let (index, id) = (&outcome["_index"], &outcome["_id"]);
        let error = Error::new(
            ErrorKind::Internal,
            format!("the target refused document [{id}] of [{index}]: {reason}"),
        );
        match status {
            429 | 503 => busy = Some(error),
            _ => return Err(error),
        }
    }
    Ok(busy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_done_busy_or_refused() {
        let check = |item: Value, expected: Option<bool>| {
            let body = json!({ "errors": true, "items": [item] });
            assert_eq!(check_items(&body).ok().map(|busy| busy.is_some()), expected, "{body}");
        };
        check(json!({ "index": { "status": 201 } }), Some(false));
        check(
            json!({ "index": { "status": 409, "error": { "type": "version_conflict_engine_exception" } } }),
            Some(false),
        );
        check(json!({ "delete": { "status": 404, "result": "not_found" } }), Some(false));
        check(
            json!({ "delete": { "status": 404, "error": { "reason": "no such index" } } }),
            None,
        );
        check(
            json!({ "index": { "status": 429, "error": { "reason": "busy" } } }),
            Some(true),
        );
        check(json!({ "index": { "status": 400, "error": { "reason": "mapping" } } }), None);
    }

    #[test]
    fn operations_on_documents_have_a_key() {
        let document = json!({ "op": "delete", "_index": "a", "_id": "1" });
        assert_eq!(key(&document), Some(("a", "", "1")));
        assert_eq!(key(&json!({ "op": "delete_index", "_index": "a" })), None);
    }
}
