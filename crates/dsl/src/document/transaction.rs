//! The body of `_transaction`: conditions, operations in the form of bulk lines, what else, and under which locks.
//!
//! Not here: targets of locks, which `relations` reads; what operations do.

use super::bulk::{BulkAction, BulkDefaults, BulkItem, lock_ids, parse_meta};
use super::reading;
use crate::json::{self, Json, Node};
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// `POST /_transaction`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransactionBody {
    /// All must hold when the change commits.
    pub conditions: Vec<Condition>,
    /// Conditions on directories, each with its number among all conditions.
    pub directories: Vec<(usize, DirectoryCondition)>,
    /// The change, if they do.
    pub operations: Vec<TransactionItem>,
    /// The change, if they do not.
    pub otherwise: Vec<TransactionItem>,
    /// Moves of directories behind the operations.
    pub moves: Vec<MoveItem>,
    /// Those behind `otherwise`.
    pub otherwise_moves: Vec<MoveItem>,
    /// Targets, locked for this change alone.
    pub targets: Vec<Value>,
    /// Locks that the client holds.
    pub locks: Vec<String>,
    /// Tells a repetition from a new request.
    pub idempotency_key: Option<String>,
    /// `30s`
    pub timeout: Option<String>,
}

/// One entry of `if`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    pub index: String,
    pub doc_type: Option<String>,
    pub id: String,
    pub exists: Option<bool>,
    pub if_seq_no: Option<u64>,
    pub if_primary_term: Option<u64>,
    pub version: Option<u64>,
}

/// One entry of `if` that is about a directory.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectoryCondition {
    pub index: String,
    pub field: Option<String>,
    pub directory: String,
    pub exists: Option<bool>,
    pub empty: Option<bool>,
    pub tree_seq: Option<u64>,
}

/// `{"move": {"_index": .., "from": .., "to": ..}}`
#[derive(Clone, Debug, PartialEq)]
pub struct MoveItem {
    pub index: String,
    pub field: Option<String>,
    pub from: String,
    pub to: String,
    pub merge: bool,
}

/// One operation: a bulk line with its source.
#[derive(Clone, Debug, PartialEq)]
pub struct TransactionItem {
    meta: BulkItem<'static>,
    source: Vec<u8>,
}

impl TransactionItem {
    /// As a bulk line.
    pub fn item(&self) -> BulkItem<'_> {
        BulkItem {
            source: &self.source,
            ..self.meta.clone()
        }
    }
}

/// Fields of an update's body beside its line.
const UPDATE: &[&str] = &[
    "doc",
    "script",
    "upsert",
    "doc_as_upsert",
    "scripted_upsert",
    "detect_noop",
    "lang",
    "params",
];

impl TransactionBody {
    /// Reads it.
    ///
    /// # Errors
    /// A part is malformed or unknown; the refusal has its position.
    pub fn parse(bytes: &[u8], defaults: &BulkDefaults) -> Result<TransactionBody> {
        let node = json::read(bytes, reading(defaults.dialect))?;
        let mut fields = node.fields("transaction")?;
        let mut out = TransactionBody::default();
        for (n, node) in list(fields.take("if"), "if")?.into_iter().enumerate() {
            match node.has_member("directory") {
                true => out.directories.push((n, DirectoryCondition::parse(node)?)),
                false => out.conditions.push(Condition::parse(node)?),
            }
            assert_eq!(
                out.conditions.len() + out.directories.len(),
                n + 1,
                "the number of a condition is that among all conditions"
            );
        }
        (out.operations, out.moves) = operations(fields.take("operations"), "operations", defaults)?;
        (out.otherwise, out.otherwise_moves) = operations(fields.take("else"), "else", defaults)?;
        out.targets = list(fields.take("locks"), "locks")?
            .into_iter()
            .map(Node::into_value)
            .collect();
        if let Some(node) = fields.take("lock") {
            out.locks = lock_ids(&node)?;
        }
        out.idempotency_key = fields.take_string("idempotency_key")?;
        out.timeout = fields.take_string("timeout")?;
        fields.finish()?;
        Ok(out)
    }
}

impl DirectoryCondition {
    fn parse(node: Node) -> Result<DirectoryCondition> {
        let (line, col) = (node.line, node.col);
        let refuse = |reason: &str| Error::illegal(reason).with("line", line).with("col", col);
        let mut fields = node.fields("if")?;
        let seq = fields.take("tree_seq").map(|node| node.i64("tree_seq")).transpose()?;
        let out = DirectoryCondition {
            index: match fields.take_any(&["index", "_index"]) {
                Some(node) => node.string("index")?,
                None => return Err(refuse("Required [index] for [if]")),
            },
            field: fields.take_string("field")?,
            directory: fields.take_string("directory")?.unwrap_or_default(),
            exists: fields.take_bool("exists")?,
            empty: fields.take_bool("empty")?,
            tree_seq: seq
                .map(u64::try_from)
                .transpose()
                .map_err(|_| refuse("[tree_seq] cannot be negative"))?,
        };
        fields.finish()?;
        match (out.exists, out.empty, out.tree_seq) {
            (None, None, None) => Err(refuse("a condition on a directory needs [exists], [empty] or [tree_seq]")),
            (Some(false), None, None) | (Some(true) | None, ..) => Ok(out),
            _ => Err(refuse("a directory that does not exist has no [empty] and no [tree_seq]")),
        }
    }
}

impl Condition {
    fn parse(node: Node) -> Result<Condition> {
        let (line, col) = (node.line, node.col);
        let mut fields = node.fields("if")?;
        let number = |node: Option<Node>, name: &str| {
            let read = |n: Node| u64::try_from(n.i64(name)?).map_err(|_| Error::illegal(format!("[{name}] cannot be negative")));
            node.map(read).transpose()
        };
        let text = |node: Option<Node>, name: &str| {
            let missing = || {
                Error::illegal(format!("Required [{name}] for [if]"))
                    .with("line", line)
                    .with("col", col)
            };
            node.ok_or_else(missing)?.string(name)
        };
        let out = Condition {
            index: text(fields.take_any(&["index", "_index"]), "index")?,
            doc_type: fields.take_any(&["type", "_type"]).map(|n| n.string("type")).transpose()?,
            id: text(fields.take_any(&["id", "_id"]), "id")?,
            exists: fields.take_bool("exists")?,
            if_seq_no: number(fields.take("if_seq_no"), "if_seq_no")?,
            if_primary_term: number(fields.take("if_primary_term"), "if_primary_term")?,
            version: number(fields.take("version"), "version")?,
        };
        fields.finish()?;
        if out.if_seq_no.is_some() != out.if_primary_term.is_some() {
            return Err(Error::illegal(
                "[if_seq_no] and [if_primary_term] of [if] must be given together",
            ));
        }
        if out.exists.is_none() && out.if_seq_no.is_none() && out.version.is_none() {
            return Err(Error::illegal(
                "a condition of [if] needs [exists], [if_seq_no] with [if_primary_term], or [version]",
            ));
        }
        Ok(out)
    }
}

fn list(node: Option<Node>, name: &str) -> Result<Vec<Node>> {
    match node {
        None => Ok(Vec::new()),
        Some(node) => match node.value {
            Json::Array(items) => Ok(items),
            Json::Null => Ok(Vec::new()),
            _ => Err(node.error(format!("[{name}] must be an array"))),
        },
    }
}

/// The operations of a list. Moves stand behind all others: the paths of documents mean the directories before them.
fn operations(node: Option<Node>, name: &str, defaults: &BulkDefaults) -> Result<(Vec<TransactionItem>, Vec<MoveItem>)> {
    let (mut items, mut moves) = (Vec::new(), Vec::new());
    for node in list(node, name)? {
        let number = items.len() + moves.len() + 1;
        let (line, col) = (node.line, node.col);
        if node.has_member("move") {
            moves.push(move_item(node, number)?);
            continue;
        }
        if !moves.is_empty() {
            let reason = format!(
                "operation [{number}] stands behind a [move]: the paths of documents mean the directories before all moves, \
                 which are the last operations"
            );
            return Err(Error::new(ErrorKind::Parsing, reason).with("line", line).with("col", col));
        }
        items.push(operation(node, number, defaults)?);
    }
    Ok((items, moves))
}

/// `{"move": {"_index": .., "from": .., "to": ..}}`
fn move_item(node: Node, number: usize) -> Result<MoveItem> {
    let (line, col) = (node.line, node.col);
    let mut all = node.fields("operation")?;
    let body = all.take("move");
    all.finish()?;
    let missing = |name: &str| {
        let reason = format!("operation [{number}]: [{name}] is missing");
        Error::new(ErrorKind::Parsing, reason).with("line", line).with("col", col)
    };
    let mut fields = body.ok_or_else(|| missing("move"))?.fields("move")?;
    let out = MoveItem {
        index: fields.take_string("_index")?.ok_or_else(|| missing("_index"))?,
        field: fields.take_string("field")?,
        from: fields.take_string("from")?.ok_or_else(|| missing("from"))?,
        to: fields.take_string("to")?.ok_or_else(|| missing("to"))?,
        merge: fields.take_bool("merge")?.unwrap_or(false),
    };
    fields.finish()?;
    Ok(out)
}

/// `{"index": {"_index": .., "_id": .., "doc": {..}}}`
fn operation(node: Node, number: usize, defaults: &BulkDefaults) -> Result<TransactionItem> {
    let (line, col) = (node.line, node.col);
    let placed = |reason: String| Error::new(ErrorKind::Parsing, reason).with("line", line).with("col", col);
    let mut members = node.fields("operation")?.remaining().into_iter();
    let (Some((name, body)), None) = (members.next(), members.next()) else {
        return Err(placed(format!(
            "operation [{number}] must be an object with one of [create], [delete], [index], [move] or [update]"
        )));
    };
    let action = match name.as_str() {
        "index" => BulkAction::Index,
        "create" => BulkAction::Create,
        "update" => BulkAction::Update,
        "delete" => BulkAction::Delete,
        _ => {
            let hint = model::nearest::hint(&name, ["index", "create", "update", "delete", "move"]);
            return Err(placed(format!(
                "operation [{number}] must be one of [create], [delete], [index], [move] or [update] but is [{name}]{hint}"
            )));
        }
    };
    let (at, kind) = ((body.line, body.col, body.key), body.kind_name());
    let Json::Object(all) = body.value else {
        return Err(placed(format!(
            "operation [{number}]: [{name}] must be an object but is {kind}"
        )));
    };
    let own: &[&str] = match action {
        BulkAction::Update => UPDATE,
        BulkAction::Delete => &[],
        _ => &["doc"],
    };
    let (below, meta): (Vec<_>, Vec<_>) = all.into_iter().partition(|(key, _)| own.contains(&key.as_str()));
    let meta = Node {
        value: Json::Object(meta),
        line: at.0,
        col: at.1,
        key: at.2,
    };
    let item = parse_meta(action, meta, number, defaults)?;
    if item.index.is_empty() {
        return Err(placed(format!("operation [{number}]: [_index] is missing")));
    }
    if item.id.is_none() && matches!(action, BulkAction::Update | BulkAction::Delete) {
        return Err(placed(format!("operation [{number}]: [_id] is missing")));
    }
    let source = match action {
        BulkAction::Delete => Vec::new(),
        BulkAction::Update => {
            let body: Map<String, Value> = below.into_iter().map(|(key, node)| (key, node.into_value())).collect();
            Value::Object(body).to_string().into_bytes()
        }
        _ => {
            let doc = below.into_iter().next().map(|(_, node)| node);
            let doc = doc.ok_or_else(|| placed(format!("operation [{number}]: [doc] is missing")))?;
            doc.into_value().to_string().into_bytes()
        }
    };
    Ok(TransactionItem { meta: item, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(body: Value, expected: Result<&str, &str>) {
        let read = TransactionBody::parse(body.to_string().as_bytes(), &BulkDefaults::default());
        let shown = read.map(|body| {
            let operations = body.operations.iter().chain(&body.otherwise).map(|operation| {
                let item = operation.item();
                let source = String::from_utf8_lossy(item.source).into_owned();
                format!(
                    "{:?} {}/{} {source}",
                    item.action,
                    item.index,
                    item.id.as_deref().unwrap_or("-")
                )
            });
            operations.collect::<Vec<_>>().join("|")
        });
        match (shown, expected) {
            (Ok(shown), Ok(expected)) => assert_eq!(shown, expected, "{body}"),
            (Err(error), Err(expected)) => assert!(error.reason().contains(expected), "{body}: {error}"),
            (shown, expected) => panic!("{body}: {shown:?} is not {expected:?}"),
        }
    }

    #[test]
    fn bodies() {
        check(
            json!({"operations": [{"index": {"_index": "i", "_id": "1", "doc": {"a": 1}}}, {"delete": {"_index": "i", "_id": "2"}}]}),
            Ok(r#"Index i/1 {"a":1}|Delete i/2 "#),
        );
        check(
            json!({"operations": [{"update": {"_index": "i", "_id": "1", "script": "x", "_source": true}}], "else": [{"create": {"_index": "i", "doc": {}}}]}),
            Ok(r#"Update i/1 {"script":"x"}|Create i/- {}"#),
        );
        check(json!({"operations": [{"idnex": {}}]}), Err("did you mean [index]?"));
        check(json!({"operations": [{"index": {"_index": "i"}}]}), Err("[doc] is missing"));
        check(json!({"operations": [{"delete": {"_index": "i"}}]}), Err("[_id] is missing"));
        check(json!({"operations": {}}), Err("must be an array"));
        check(json!({"operation": []}), Err("did you mean [operations]?"));
        check(json!({"if": [{"index": "i", "id": "1"}]}), Err("needs [exists]"));
        check(json!({"if": [{"index": "i", "id": "1", "if_seq_no": 1}]}), Err("together"));
        check(json!({"if": [{"id": "1", "exists": true}]}), Err("Required [index]"));
        check(
            json!({"operations": [{"delete": {"_index": "i", "_id": "2"}}, {"move": {"_index": "i", "from": "/a", "to": "/b"}}]}),
            Ok("Delete i/2 "),
        );
        check(
            json!({"operations": [{"move": {"_index": "i", "from": "/a", "to": "/b"}}, {"delete": {"_index": "i", "_id": "2"}}]}),
            Err("operation [2] stands behind a [move]"),
        );
        check(
            json!({"operations": [{"move": {"_index": "i", "from": "/a"}}]}),
            Err("[to] is missing"),
        );
        check(
            json!({"operations": [{"move": {"_index": "i", "from": "/a", "to": "/b", "mrege": true}}]}),
            Err("did you mean [merge]?"),
        );
        check(
            json!({"if": [{"index": "i", "directory": "/a"}]}),
            Err("needs [exists], [empty] or [tree_seq]"),
        );
        check(
            json!({"if": [{"index": "i", "directory": "/a", "exists": false, "empty": true}]}),
            Err("has no [empty]"),
        );
    }
}
