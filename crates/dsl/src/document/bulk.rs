//! Bulk bodies: lines of actions and, below most of them, lines of sources.
//!
//! Sources stay bytes. Not here: updates' bodies, which `update` reads.

use super::reading;
use crate::json::{self, Json};
use crate::search::SourceSpec;
use crate::shape;
use model::{Dialect, Error, ErrorKind, Persona, Result};

/// The action of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkAction {
    /// `index`
    Index,
    /// `create`
    Create,
    /// `update`
    Update,
    /// `delete`
    Delete,
}

/// The defaults of the URL for lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BulkDefaults {
    /// `/{index}/_bulk`
    pub index: Option<String>,
    /// `/{index}/{type}/_bulk`
    pub doc_type: Option<String>,
    /// `?routing=`
    pub routing: Option<String>,
    /// `?pipeline=`
    pub pipeline: Option<String>,
    /// `?require_alias=`
    pub require_alias: bool,
    /// How lines are read.
    pub dialect: Dialect,
}

/// One action with its source.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkItem<'a> {
    pub action: BulkAction,
    pub index: String,
    pub doc_type: Option<String>,
    /// `None`: to be made.
    pub id: Option<String>,
    pub routing: Option<String>,
    pub parent: Option<String>,
    /// `_timestamp` of the typed dialect, as given.
    pub timestamp: Option<String>,
    /// `_ttl` of the typed dialect, in milliseconds.
    pub ttl_ms: Option<i64>,
    pub version: Option<i64>,
    pub version_type: Option<String>,
    pub if_seq_no: Option<i64>,
    pub if_primary_term: Option<i64>,
    pub pipeline: Option<String>,
    pub retry_on_conflict: u32,
    pub require_alias: bool,
    /// Locks under which it is written.
    pub locks: Vec<String>,
    /// `_source` of an update's answer.
    pub source_spec: Option<SourceSpec>,
    /// `fields` of 2015, of an update's answer.
    pub fields: Option<Vec<String>>,
    /// The line below; empty for deletes.
    pub source: &'a [u8],
    /// Number of the action's line, from 1.
    pub line: usize,
}

/// Reads a whole bulk body.
///
/// # Errors
/// The first line that is malformed, or everything that is missing, as one refusal.
pub fn parse_bulk<'a>(bytes: &'a [u8], defaults: &BulkDefaults) -> Result<Vec<BulkItem<'a>>> {
    let mut reader = BulkReader::new(bytes, defaults)?;
    let mut items = Vec::new();
    while let Some(item) = reader.next_item()? {
        items.push(item);
    }
    reader.finish()?;
    Ok(items)
}

/// Reads a bulk body item by item, so that a large one need not be held parsed.
#[derive(Debug)]
pub struct BulkReader<'a, 'd> {
    defaults: &'d BulkDefaults,
    /// Whole lines that were not read yet.
    rest: &'a [u8],
    /// Lines that were read.
    line: usize,
    items: usize,
    problems: Vec<String>,
}

/// Problems that one refusal lists.
const PROBLEMS_MAX: usize = 1000;

impl<'a, 'd> BulkReader<'a, 'd> {
    /// At the body's first line.
    ///
    /// # Errors
    /// An empty body; today's dialect: a last line that no newline ends.
    pub fn new(bytes: &'a [u8], defaults: &'d BulkDefaults) -> Result<BulkReader<'a, 'd>> {
        let rules = defaults.dialect.rules;
        if bytes.is_empty() {
            let reason = if rules.fails_to_derive_content {
                "Failed to derive xcontent"
            } else {
                "request body is required"
            };
            return Err(Error::new(ErrorKind::Parse, reason));
        }
        // Behind the last newline there is no line.
        let whole = memchr::memrchr(b'\n', bytes).map_or(0, |last| last + 1);
        if whole < bytes.len() && !rules.tolerates_incomplete_lines {
            return Err(Error::illegal("The bulk request must be terminated by a newline [\\n]"));
        }
        Ok(BulkReader {
            defaults,
            rest: &bytes[..whole],
            line: 0,
            items: 0,
            problems: Vec::new(),
        })
    }

    /// The next line without its end, and its number from 1.
    fn next_line(&mut self) -> Option<(&'a [u8], usize)> {
        debug_assert!(
            self.rest.last().is_none_or(|last| *last == b'\n'),
            "what is left of a bulk are whole lines"
        );
        let end = memchr::memchr(b'\n', self.rest)?;
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        self.line += 1;
        Some((line.strip_suffix(b"\r").unwrap_or(line), self.line))
    }

    /// The next action with its source; `None` at the end.
    ///
    /// # Errors
    /// A malformed action line. What is missing is refused by [`BulkReader::finish`].
    pub fn next_item(&mut self) -> Result<Option<BulkItem<'a>>> {
        while let Some((line, number)) = self.next_line() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let parsed = match plain_action(line, number, self.defaults) {
                Some(item) => {
                    debug_assert!(
                        parse_action(line, number, self.defaults).is_ok_and(|parsed| parsed.as_ref() == Some(&item)),
                        "a plain action line is read as any other line: {item:?}"
                    );
                    Some(item)
                }
                None => parse_action(line, number, self.defaults)?,
            };
            let Some(mut item) = parsed else {
                self.next_line();
                continue;
            };
            if item.action != BulkAction::Delete {
                let Some((source, _)) = self.next_line() else {
                    return Ok(None);
                };
                item.source = source;
            }
            debug_assert!(
                self.problems.len() <= PROBLEMS_MAX,
                "one refusal lists no more than [{PROBLEMS_MAX}] problems"
            );
            let problems = problems_of(&item, self.defaults.dialect.rules);
            self.problems
                .extend(problems.into_iter().take(PROBLEMS_MAX - self.problems.len()));
            self.items += 1;
            assert!(
                self.items <= self.line && number <= self.line,
                "each operation of a bulk has a line of its own, which was read"
            );
            return Ok(Some(item));
        }
        Ok(None)
    }

    /// Nothing was missing in what was read.
    ///
    /// # Errors
    /// Everything that was missing, as one refusal.
    pub fn finish(mut self) -> Result<()> {
        debug_assert!(
            self.rest.is_empty(),
            "a bulk is read to its end before it is said that nothing is missing"
        );
        if self.items == 0 {
            self.problems.push("no requests added".to_owned());
        }
        if self.problems.is_empty() {
            Ok(())
        } else {
            Err(shape::validation_failed(&self.problems))
        }
    }
}

/// The parts that an item lacks.
fn problems_of(item: &BulkItem<'_>, rules: &model::compat::Rules) -> Vec<String> {
    let mut problems = Vec::new();
    if item.index.is_empty() {
        problems.push("index is missing".to_owned());
    }
    if rules.has_types && item.doc_type.is_none() {
        problems.push("type is missing".to_owned());
    }
    if item.id.is_none() && matches!(item.action, BulkAction::Update | BulkAction::Delete) {
        problems.push("id is missing".to_owned());
    }
    let id = item.id.as_deref();
    if id.is_some_and(str::is_empty) && item.action == BulkAction::Delete && !rules.takes_any_id {
        problems.push("id is missing".to_owned());
    }
    if let Some(id) = id.filter(|id| id.len() > model::ID_MAX_BYTES && item.action != BulkAction::Delete && !rules.takes_any_id) {
        problems.push(format!(
            "id [{id}] is too long, must be no longer than {} bytes but was: {}",
            model::ID_MAX_BYTES,
            id.len()
        ));
    }
    if item.if_seq_no.is_some() != item.if_primary_term.is_some() {
        problems.push("ifSeqNo and ifPrimaryTerm must be given together".to_owned());
    }
    problems
}

/// An action line as nearly all are: one action with an id, an index and a routing, or some of them, in texts without
/// escapes. `None` for all others, sound or not: [`parse_action`] reads them.
fn plain_action(line: &[u8], number: usize, defaults: &BulkDefaults) -> Option<BulkItem<'static>> {
    let mut rest = std::str::from_utf8(line).ok()?;
    plain_sign(&mut rest, "{")?;
    let action = match plain_text(&mut rest)? {
        "index" => BulkAction::Index,
        "create" => BulkAction::Create,
        "update" => BulkAction::Update,
        "delete" => BulkAction::Delete,
        _ => return None,
    };
    plain_sign(&mut rest, ":")?;
    plain_sign(&mut rest, "{")?;
    let [mut id, mut index, mut routing] = [None; 3];
    while plain_sign(&mut rest, "}").is_none() {
        if [id, index, routing].iter().any(Option::is_some) {
            plain_sign(&mut rest, ",")?;
        }
        let to = match plain_text(&mut rest)? {
            "_id" => &mut id,
            "_index" => &mut index,
            "routing" => &mut routing,
            _ => return None,
        };
        plain_sign(&mut rest, ":")?;
        if to.replace(plain_text(&mut rest)?).is_some() {
            return None;
        }
    }
    plain_sign(&mut rest, "}")?;
    // The dialect decides what an empty index means: the general way asks it.
    if !rest.is_empty() || index == Some("") {
        return None;
    }
    let mut item = blank(action, number, defaults);
    item.id = id.map(str::to_owned);
    item.index = index.map_or(item.index, str::to_owned);
    item.routing = routing.map(str::to_owned).or(item.routing);
    Some(item)
}

/// The first token, with blanks around it.
fn plain_sign(rest: &mut &str, sign: &str) -> Option<()> {
    *rest = rest.trim_start_matches(' ').strip_prefix(sign)?.trim_start_matches(' ');
    Some(())
}

/// A text without escapes.
fn plain_text<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let (text, behind) = rest.strip_prefix('"')?.split_once('"')?;
    *rest = behind;
    let escapes = text.bytes().fold(false, |any, b| any | (b < b' ') | (b == b'\\'));
    (!escapes).then_some(text)
}

/// One action line; `None` for an action 2015 passed over.
fn parse_action<'a>(line: &[u8], number: usize, defaults: &BulkDefaults) -> Result<Option<BulkItem<'a>>> {
    let dialect = defaults.dialect;
    let node = json::read(line, reading(dialect))?;
    let malformed = |expected: &str, found: &str| {
        Error::illegal(format!(
            "Malformed action/metadata line [{number}], expected {expected} but found [{found}]"
        ))
    };
    let found = node.kind_name();
    let Json::Object(members) = node.value else {
        return Err(if dialect.rules.fails_to_derive_content {
            Error::new(ErrorKind::Parse, "Failed to derive xcontent")
        } else {
            malformed("START_OBJECT", found)
        });
    };
    let mut members = members.into_iter();
    let (name, body) = members.next().ok_or_else(|| malformed("FIELD_NAME", "END_OBJECT"))?;
    if members.next().is_some() {
        return Err(malformed("END_OBJECT", "FIELD_NAME"));
    }
    let action = match name.as_str() {
        "index" => BulkAction::Index,
        "create" => BulkAction::Create,
        "update" => BulkAction::Update,
        "delete" => BulkAction::Delete,
        _ if dialect.rules.skips_unknown_keys => return Ok(None),
        _ => {
            return Err(Error::illegal(format!(
                "Malformed action/metadata line [{number}], expected field [create], [delete], [index] or [update] but found [{name}]"
            )));
        }
    };
    if !body.is_object() {
        return Err(malformed("START_OBJECT", body.kind_name()));
    }
    parse_meta(action, body, number, defaults).map(Some)
}

/// # Errors
/// A word that names no way of comparing versions.
fn check_version_type(version_type: Option<&str>, dialect: Dialect) -> Result<()> {
    let known = ["internal", "external", "external_gt", "external_gte", "force"];
    match version_type {
        Some(name) if !dialect.rules.tolerates_unknown_words && !known.contains(&name) => {
            Err(Error::illegal(format!("No version type match [{name}]")))
        }
        _ => Ok(()),
    }
}

/// The action that `op_type` makes of that of its line; `None`: it stays.
fn op_type(word: &str, action: BulkAction, dialect: Dialect) -> Result<Option<BulkAction>> {
    match word {
        "index" if action == BulkAction::Index => Ok(None),
        "create" if matches!(action, BulkAction::Index | BulkAction::Create) => Ok(Some(BulkAction::Create)),
        // Any other word than `create` leaves the action as it is.
        _ if !dialect.rules.checks_op_type => Ok(None),
        other => Err(Error::illegal(format!(
            "opType must be 'create' or 'index', found: [{other}]"
        ))),
    }
}

/// The options of an action line.
pub(super) fn parse_meta(
    action: BulkAction,
    body: json::Node,
    number: usize,
    defaults: &BulkDefaults,
) -> Result<BulkItem<'static>> {
    let dialect = defaults.dialect;
    let mut item = blank(action, number, defaults);
    for (key, value) in body.fields("bulk")?.remaining() {
        let text = || match &value.value {
            Json::Null => Ok(None),
            Json::Array(_) | Json::Object(_) if !dialect.rules.tolerates_value_types => Err(Error::illegal(format!(
                "Malformed action/metadata line [{number}], expected a simple value for field [{key}] but found [{}]",
                value.kind_name()
            ))),
            _ => value.string(&key).map(Some),
        };
        let count = || match value.i64(&key) {
            Err(error) if !dialect.rules.number_refusals_are_parser_errors => Err(Error::illegal(error.reason())),
            count => count,
        };
        match key.as_str() {
            name if is_gone(name, dialect) => return Err(unknown_parameter(number, &key)),
            "_index" => {
                if let Some(index) = text()?.filter(|index| dialect.rules.null_index_overrides_url || !index.is_empty()) {
                    item.index = index;
                } else if dialect.rules.null_index_overrides_url {
                    item.index = String::new();
                }
            }
            "_type" => item.doc_type = text()?,
            "_id" => item.id = text()?,
            "routing" | "_routing" => item.routing = text()?,
            "parent" | "_parent" => item.parent = text()?,
            "version" | "_version" => item.version = Some(count()?),
            "version_type" | "_version_type" | "versionType" | "_versionType" => {
                item.version_type = text()?;
                check_version_type(item.version_type.as_deref(), dialect)?;
            }
            "if_seq_no" => item.if_seq_no = Some(count()?),
            "if_primary_term" => item.if_primary_term = Some(count()?),
            "op_type" | "opType" => item.action = op_type(&value.string(&key)?, action, dialect)?.unwrap_or(item.action),
            "pipeline" => item.pipeline = text()?,
            "retry_on_conflict" | "_retry_on_conflict" | "retryOnConflict" => item.retry_on_conflict = value.u32(&key)?,
            "require_alias" => item.require_alias = value.boolean(&key)?,
            "lock" => item.locks = lock_ids(&value)?,
            "_source" if value.is_array() && !dialect.rules.tolerates_value_types => {
                text()?;
            }
            "_source" => item.source_spec = Some(SourceSpec::parse(value)?),
            "dynamic_templates" => return Err(Error::illegal("[dynamic_templates] in a bulk line is not supported")),
            "fields" if dialect.rules.takes_former_options => item.fields = Some(super::update::fields_of_2015(&value)),
            "timestamp" | "_timestamp" if dialect.rules.has_document_times => item.timestamp = text()?,
            "ttl" | "_ttl" if dialect.rules.has_document_times => item.ttl_ms = ttl_of(&key, &value)?,
            // A whole bulk is refreshed, or nothing of it.
            "refresh" | "_refresh" if dialect.rules.takes_former_options => {}
            _ => return Err(unknown_parameter(number, &key)),
        }
    }
    Ok(item)
}

fn unknown_parameter(number: usize, key: &str) -> Error {
    Error::illegal(format!(
        "Action/metadata line [{number}] contains an unknown parameter [{key}]"
    ))
}

/// Parameters that a dialect had once, and has no more.
fn is_gone(key: &str, dialect: Dialect) -> bool {
    if dialect.rules.takes_former_options {
        return false;
    }
    match key {
        // Names of 2015, gone since 7.
        "_routing" | "_parent" | "parent" | "_version" | "_version_type" | "versionType" | "_versionType" | "opType"
        | "_retry_on_conflict" | "retryOnConflict" => true,
        // Types went with OpenSearch 2 and Elasticsearch 8.
        "_type" => !matches!(dialect.persona, Persona::Es2 | Persona::Es7 | Persona::Opensearch1),
        _ => false,
    }
}

/// An action that says nothing of itself.
fn blank(action: BulkAction, number: usize, defaults: &BulkDefaults) -> BulkItem<'static> {
    BulkItem {
        action,
        index: defaults.index.clone().unwrap_or_default(),
        doc_type: defaults.doc_type.clone(),
        id: None,
        routing: defaults.routing.clone(),
        parent: None,
        timestamp: None,
        ttl_ms: None,
        version: None,
        version_type: None,
        if_seq_no: None,
        if_primary_term: None,
        pipeline: defaults.pipeline.clone(),
        retry_on_conflict: 0,
        require_alias: defaults.require_alias,
        locks: Vec::new(),
        source_spec: None,
        fields: None,
        source: &[],
        line: number,
    }
}

/// A life: a duration with its unit, or a number of milliseconds.
///
/// # Errors
/// Neither.
fn ttl_of(key: &str, value: &json::Node) -> Result<Option<i64>> {
    if value.is_null() {
        return Ok(None);
    }
    if value.kind_name() == "VALUE_NUMBER" {
        return value.i64(key).map(Some);
    }
    let life = model::units::parse_duration_of_2015(&value.string(key)?, key)?;
    Ok(Some(i64::try_from(life.as_millis()).unwrap_or(i64::MAX)))
}

/// One id of a lock, or several.
///
/// # Errors
/// Neither text nor a list of texts, or none: who says `lock` relies on one.
pub fn lock_ids(value: &json::Node) -> Result<Vec<String>> {
    let ids: Vec<String> = value
        .clone()
        .items()
        .iter()
        .map(|id| id.string("lock"))
        .collect::<Result<_>>()?;
    some_lock(ids)
}

/// Ids of locks that were asked for, of which there must be some.
///
/// # Errors
/// None is there, or one is empty.
pub fn some_lock(ids: Vec<String>) -> Result<Vec<String>> {
    if ids.is_empty() || ids.iter().any(String::is_empty) {
        return Err(Error::illegal("[lock] must be the id of a lock, or several, but is empty"));
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Persona;

    /// The items' actions, ids and sources, or how the refusal begins.
    fn check(persona: Persona, body: &str, expected: &str) {
        let defaults = BulkDefaults {
            index: Some("i".into()),
            doc_type: (persona == Persona::Es2).then(|| "t".into()),
            dialect: Dialect::of(persona),
            ..BulkDefaults::default()
        };
        match parse_bulk(body.as_bytes(), &defaults) {
            Ok(items) => {
                let shown: Vec<String> = items
                    .iter()
                    .map(|i| {
                        format!(
                            "{:?} {} {}",
                            i.action,
                            i.id.as_deref().unwrap_or("-"),
                            String::from_utf8_lossy(i.source)
                        )
                    })
                    .collect();
                assert_eq!(shown.join("|"), expected, "{body}");
            }
            Err(error) => assert_eq!(error.reason(), expected, "{body}"),
        }
    }

    #[test]
    fn lines() {
        let (new, old) = (Persona::Es8, Persona::Es2);
        check(
            new,
            "{\"index\":{\"_id\":1}}\n{\"a\":1}\n{\"delete\":{\"_id\":\"2\"}}\n",
            "Index 1 {\"a\":1}|Delete 2 ",
        );
        check(new, "{\"index\":{}}\n{\"a\":1}\n", "Index - {\"a\":1}");
        check(new, "{\"index\":{\"_index\":\"\",\"_id\":\"1\"}}\n{}\n", "Index 1 {}");
        check(
            old,
            "{\"index\":{\"_index\":\"\",\"_id\":\"1\"}}\n{}\n",
            "Validation Failed: 1: index is missing;",
        );
        check(new, "{\"index\":{\"op_type\":\"create\"}}\r\n{}\r\n", "Create - {}");
        check(
            new,
            "\"x\"\n",
            "Malformed action/metadata line [1], expected START_OBJECT but found [VALUE_STRING]",
        );
        check(
            new,
            "{\"index\":{\"oops\":1}}\n{}\n",
            "Action/metadata line [1] contains an unknown parameter [oops]",
        );
        check(new, "{\"index\":{}}\n", "Validation Failed: 1: no requests added;");
        check(new, "{\"update\":{}}\n{\"doc\":{}}\n", "Validation Failed: 1: id is missing;");
        check(
            new,
            "{\"index\":{}}\n{}",
            "The bulk request must be terminated by a newline [\\n]",
        );
        check(new, "", "request body is required");
        check(old, "", "Failed to derive xcontent");
        check(
            old,
            "{\"index\":{\"_id\":\"1\"}}\n{\"last\":1}",
            "Validation Failed: 1: no requests added;",
        );
        check(
            old,
            "{\"nonsense\":{\"_id\":\"1\"}}\n{\"a\":1}\n",
            "Validation Failed: 1: no requests added;",
        );
        check(
            old,
            "{\"index\":{\"_id\":\"x\",\"_bogus\":1}}\n{}\n",
            "Action/metadata line [1] contains an unknown parameter [_bogus]",
        );
    }

    /// A line that is read the short way is read as the long way reads it.
    #[test]
    fn plain_lines() {
        let defaults = BulkDefaults {
            index: Some("i".into()),
            routing: Some("r".into()),
            ..BulkDefaults::default()
        };
        let check = |line: &str, plain: bool| {
            let short = plain_action(line.as_bytes(), 3, &defaults);
            assert_eq!(short.is_some(), plain, "{line}");
            if short.is_some() {
                assert_eq!(parse_action(line.as_bytes(), 3, &defaults), Ok(short), "{line}");
            }
        };
        for action in ["index", "create", "update", "delete"] {
            check(&format!("{{\"{action}\":{{}}}}"), true);
            check(&format!(" {{ \"{action}\" : {{ }} }} "), true);
            check(&format!("{{\"{action}\":{{\"_id\":\"a b é\"}}}}"), true);
            check(
                &format!("{{\"{action}\":{{ \"_index\" : \"j\" , \"_id\" : \"\" , \"routing\":\"x\" }} }}"),
                true,
            );
        }
        for line in [
            "",
            "{}",
            "{\"index\":{\"_id\":1}}",
            "{\"index\":{\"_id\":null}}",
            "{\"index\":{\"_index\":\"\",\"_id\":\"1\"}}",
            "{\"index\":{\"_id\":\"a\\\"b\"}}",
            "{\"index\":{\"_id\":\"a\tb\"}}",
            "{\"index\":{\"_id\":\"1\",\"_id\":\"2\"}}",
            "{\"index\":{\"_id\":\"1\"\"_index\":\"2\"}}",
            "{\"index\":{,\"_id\":\"1\"}}",
            "{\"index\":{\"_id\":\"1\",}}",
            "{\"index\":{\"_id\":\"1\"}",
            "{\"index\":{\"_id\":\"1\"}} x",
            "{\"index\":{\"_id\":\"1\"},\"create\":{}}",
            "{\"index\":{\"_type\":\"t\"}}",
            "{\"other\":{}}",
            "\u{feff}{\"index\":{}}",
        ] {
            check(line, false);
        }
    }
}
