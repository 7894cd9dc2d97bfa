//! The target of a replication: changes of the feed as requests of the Elasticsearch API.
//!
//! Writes of documents go by lanes. Whatever alters an index waits until the lanes are empty. Every request may be sent twice.
//!
//! Not here: which changes (`replicate`), requests for documents (`lanes`).

use super::change::{Change, ChangedOperation};
use super::lanes::Lanes;
use super::ledger::Ledger;
use crate::client::{Answer, Client, JSON, segment};
use crate::feed_client::{delete_if_there, exchange, refusal};
use crate::index_definition::{PORTABLE_SETTINGS, settings_that, types_of};
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The portable settings of an index that may be altered later.
const DYNAMIC_SETTINGS: &[&str] = &["index.max_", "index.mapping.total_fields.limit"];
/// Settings of Pleach alone.
const OWN_SETTINGS: &str = "index.pleach.";

/// The server that is kept equal.
#[derive(Debug)]
pub(super) struct Target {
    /// For everything but documents.
    client: Client,
    lanes: Lanes,
    patience: Duration,
    is_pleach: bool,
    /// The type of documents, for servers that want one.
    doc_type: Option<&'static str>,
    /// A copy that was begun before left indices behind.
    replaces: bool,
    /// Indices of a copy that are closed at its end.
    closed: Vec<String>,
}

/// How documents are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    /// Requests at once.
    pub(super) connections: usize,
    /// Bytes of documents in memory.
    pub(super) bytes_max: usize,
    /// How long a target that does not answer is asked again.
    pub(super) patience: Duration,
}

impl Target {
    /// Asks a server what it is.
    ///
    /// # Errors
    /// It cannot be reached, refuses the credentials, or is no server of this kind.
    pub(super) fn connect(client: Client, sending: Sending) -> Result<Target> {
        let patience = sending.patience;
        let lanes = Lanes::start(&client, sending.connections, sending.bytes_max, patience)?;
        let mut target = Target {
            client,
            lanes,
            patience,
            is_pleach: false,
            doc_type: None,
            replaces: false,
            closed: Vec::new(),
        };
        let answer = target.send("GET", "/", b"")?;
        let number = answer.body["version"]["number"].as_str().unwrap_or_default();
        let Some(major) = number.split('.').next().and_then(|major| major.parse::<u32>().ok()) else {
            let reason = "the target does not tell its version: it is no Pleach, OpenSearch or Elasticsearch";
            return Err(Error::illegal(reason));
        };
        let is_opensearch = answer.body["version"]["distribution"] == "opensearch";
        target.doc_type = (major < 7 && !is_opensearch).then_some("doc");
        // A server of another kind has no such endpoint. Who may not list locks is told 403, and so by others for an index of that
        // name: they refuse later what a Pleach alone takes.
        target.is_pleach = matches!(target.exchange("GET", "/_lock", b"")?.status, 200 | 403);
        Ok(target)
    }

    /// Documents that were sent.
    pub(super) fn documents(&self) -> u64 {
        self.lanes.operations()
    }

    /// Checks that the target has none of these indices: it could not become equal with what is in them.
    ///
    /// # Errors
    /// It has one, or does not say.
    pub(super) fn check_absent(&mut self, indices: &[String]) -> Result<()> {
        for index in indices {
            let path = format!("/{}", segment(index));
            let answer = self.exchange("HEAD", &path, b"")?;
            match answer.status {
                404 => {}
                status if status < 400 => return Err(there_already(index)),
                _ => return Err(refusal(self.client.side, &answer, "HEAD", &path)),
            }
        }
        Ok(())
    }

    /// A copy begins. `is_again`: one was begun before, whose indices are deleted as they come.
    pub(super) fn begin_copy(&mut self, is_again: bool) {
        self.replaces = is_again;
    }

    /// Applies one change; writes of documents may wait for more.
    ///
    /// # Errors
    /// The target refuses it, or cannot be reached.
    pub(super) fn apply(&mut self, change: &Change<'_>) -> Result<()> {
        for operation in change.last_operations() {
            match operation.address() {
                Some(address) => self.lanes.put(operation, address, change.commit_seq, self.doc_type)?,
                None => {
                    self.lanes.drain()?;
                    match operation.is_of_directory() {
                        true => self.change_directory(operation)?,
                        false => self.alter(operation, change.initial)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends what waits for more, and does not wait for the target.
    pub(super) fn send_waiting(&mut self) {
        self.lanes.send_waiting();
    }

    /// Sends what waits, and waits until the target has it.
    ///
    /// # Errors
    /// As [`Target::apply`].
    pub(super) fn drain(&mut self) -> Result<()> {
        self.lanes.drain()
    }

    /// Looks at what is on its way, or alters it.
    ///
    /// # Errors
    /// As [`Target::apply`], of what was sent before.
    pub(super) fn with_ledger<T>(&self, see: impl FnOnce(&mut Ledger) -> T) -> Result<T> {
        self.lanes.with_ledger(see)
    }

    /// Ends a copy: what was closed at the source is closed.
    ///
    /// # Errors
    /// As [`Target::apply`].
    pub(super) fn end_copy(&mut self) -> Result<()> {
        self.drain()?;
        for index in std::mem::take(&mut self.closed) {
            self.send("POST", &format!("/{}/_close", segment(&index)), b"")?;
        }
        Ok(())
    }

    fn alter(&mut self, operation: &ChangedOperation<'_>, is_initial: bool) -> Result<()> {
        let name = operation.index_name();
        let path = format!("/{}", segment(&name));
        match &*operation.op {
            "create_index" => self.create(operation, &name, &path, is_initial),
            "alter_index" => {
                self.put_mappings(&path, &operation.mappings)?;
                let settings = self.settings(operation, DYNAMIC_SETTINGS);
                if !settings.is_empty() {
                    let body = Value::Object(settings).to_string();
                    self.send("PUT", &format!("{path}/_settings"), body.as_bytes())?;
                }
                self.put_aliases(&name, &path, &operation.aliases)?;
                let word = if operation.open == Some(false) { "_close" } else { "_open" };
                self.send("POST", &format!("{path}/{word}"), b"").map(drop)
            }
            "put_mapping" => match operation.type_name() {
                Some(doc_type) => {
                    let mappings = json!({ doc_type: operation.mappings });
                    self.put_mappings(&path, &mappings)
                }
                None => self.put_mappings(&path, &operation.mappings),
            },
            "delete_index" => self.delete_index(&path),
            "restore_index" => {
                let reason = format!(
                    "index [{name}] of the source was made out of a snapshot; its documents are not in the feed: begin again with a \
                     copy"
                );
                Err(Error::new(ErrorKind::UnsupportedOperation, reason))
            }
            op => {
                let reason = format!("the feed has the operation [{op}], which this version of the command cannot apply");
                Err(Error::new(ErrorKind::UnsupportedOperation, reason))
            }
        }
    }

    /// Moves or removes a directory. One that is not there was changed before the command stopped, or never had a document.
    fn change_directory(&mut self, operation: &ChangedOperation<'_>) -> Result<()> {
        if !self.is_pleach {
            let reason = "the source moved a directory of a [tree_path] field, which the target cannot: it is no Pleach";
            return Err(Error::new(ErrorKind::UnsupportedOperation, reason));
        }
        let path = format!("/{}/_tree", segment(&operation.index_name()));
        let field = &operation.field;
        let (method, path, body) = match &*operation.op {
            "move" => {
                let (from, to) = (&operation.from, &operation.to);
                let body = json!({ "field": field, "from": from, "to": to, "merge": operation.merge });
                ("POST", format!("{path}/_move"), body.to_string())
            }
            _ => {
                let removed = segment(&operation.path);
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
            _ => Err(refusal(self.client.side, &answer, method, &path)),
        }
    }

    /// Deletes an index, if it is there.
    fn delete_index(&mut self, path: &str) -> Result<()> {
        delete_if_there(&mut self.client, path, self.patience)
    }

    /// Makes an index. One that is there gets what it lacks: it was made before the command stopped. In a copy there is none.
    fn create(&mut self, operation: &ChangedOperation<'_>, name: &str, path: &str, is_initial: bool) -> Result<()> {
        let is_closed = operation.open == Some(false);
        if is_initial && self.replaces {
            self.delete_index(path)?;
        }
        let body = json!({
            "settings": self.settings(operation, PORTABLE_SETTINGS), "mappings": operation.mappings, "aliases": operation.aliases,
        });
        let answer = self.exchange("PUT", path, body.to_string().as_bytes())?;
        let exists = answer.body["error"]["type"]
            .as_str()
            .is_some_and(|kind| kind.contains("already_exists"));
        if exists && is_initial {
            return Err(there_already(name));
        }
        if exists {
            self.put_mappings(path, &operation.mappings)?;
            self.put_aliases(name, path, &operation.aliases)?;
        } else if answer.status >= 400 {
            return Err(refusal(self.client.side, &answer, "PUT", path));
        }
        if is_closed && is_initial {
            self.closed.push(name.to_owned());
        }
        Ok(())
    }

    /// The settings of an index that the target takes, of these.
    fn settings(&self, operation: &ChangedOperation<'_>, names: &[&str]) -> Map<String, Value> {
        let is_taken =
            |name: &str| names.iter().any(|known| name.starts_with(known)) || self.is_pleach && name.starts_with(OWN_SETTINGS);
        settings_that(&operation.settings, &is_taken)
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
            _ => Err(refusal(self.client.side, &answer, method, path)),
        }
    }

    /// Sends a request until the target answers it.
    fn exchange(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Answer> {
        exchange(&mut self.client, (method, path, JSON), body, self.patience)
    }
}

/// The refusal of a copy into an index that is there.
fn there_already(index: &str) -> Error {
    let reason = format!("the target has index [{index}] already: delete it there, or leave it out with --index");
    Error::new(ErrorKind::IndexAlreadyExists, reason)
}
