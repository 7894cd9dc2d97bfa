//! Bodies of `_mget` and `_msearch`: many reads in one request.

use super::reading;
use crate::json::{self, Node};
use crate::search::{SearchRequest, SourceSpec};
use crate::shape;
use model::{Dialect, Error, ErrorKind, Persona, Result};

/// `_mget`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct MgetBody {
    pub docs: Vec<MgetItem>,
}

/// One document to get; what is absent comes from the URL.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct MgetItem {
    pub index: Option<String>,
    pub doc_type: Option<String>,
    pub id: String,
    pub routing: Option<String>,
    pub source: SourceSpec,
    pub stored_fields: Option<Vec<String>>,
    pub version: Option<i64>,
    pub version_type: Option<String>,
}

/// The elements of a list; none of what is no list.
fn elements(node: &Node) -> &[Node] {
    match &node.value {
        json::Json::Array(items) => items,
        _ => &[],
    }
}

impl MgetBody {
    /// How many documents a body names, before they are read: each takes memory.
    pub fn count(node: &Node) -> usize {
        match &node.value {
            json::Json::Object(members) => members.iter().map(|(_, value)| elements(value).len()).sum(),
            _ => 0,
        }
    }

    /// Reads `docs` or `ids`.
    ///
    /// # Errors
    /// Neither, an item without id, or a key that does not exist.
    pub fn parse(node: Node, dialect: Dialect) -> Result<MgetBody> {
        let mut node = node;
        if let (true, json::Json::Object(members)) = (dialect.rules.skips_unknown_keys, &mut node.value) {
            // In 2015 what was no list, or no key that it knew, was passed over.
            members.retain(|(key, value)| ["docs", "ids"].contains(&key.as_str()) && matches!(value.value, json::Json::Array(_)));
        }
        if !dialect.rules.tolerates_value_types
            && let json::Json::Object(members) = &node.value
        {
            for (key, value) in members {
                let found = value.kind_name();
                if !value.is_array() {
                    return Err(value.error(format!("unexpected token [{found}], expected [FIELD_NAME] or [START_ARRAY]")));
                }
                if !["docs", "ids"].contains(&key.as_str()) {
                    return Err(value.error(format!("unknown key [{key}] for a {found}, expected [docs] or [ids]")));
                }
            }
            let ids = members
                .iter()
                .filter(|(key, _)| key == "ids")
                .flat_map(|(_, ids)| elements(ids));
            if ids.into_iter().any(|id| id.is_object() || id.is_array() || id.is_null()) {
                return Err(Error::illegal("ids array element should only contain ids"));
            }
        }
        if !dialect.rules.tolerates_value_types && !node.is_object() {
            let found = node.kind_name();
            return Err(node.error(format!("unexpected token [{found}], expected [START_OBJECT]")));
        }
        let mut docs = Vec::with_capacity(MgetBody::count(&node));
        let mut fields = node.fields("mget")?;
        for id in fields.take_strings("ids")?.unwrap_or_default() {
            docs.push(MgetItem {
                id,
                ..MgetItem::default()
            });
        }
        for item in fields.take("docs").map(Node::items).unwrap_or_default() {
            docs.push(if item.is_object() {
                MgetItem::parse(item, dialect)?
            } else {
                return Err(Error::illegal("docs array element should include an object"));
            });
        }
        fields.finish()?;
        if docs.is_empty() {
            return Err(shape::validation_failed(&["no documents to get".to_owned()]));
        }
        let missing: Vec<String> = docs
            .iter()
            .enumerate()
            .filter(|(_, doc)| doc.id.is_empty())
            .map(|(n, _)| format!("id is missing for doc {n}"))
            .collect();
        if missing.is_empty() {
            Ok(MgetBody { docs })
        } else {
            Err(shape::validation_failed(&missing))
        }
    }
}

impl MgetItem {
    fn parse(node: Node, dialect: Dialect) -> Result<MgetItem> {
        let mut out = MgetItem::default();
        let unknown = |key: &str| {
            let reason = format!("failed to parse multi get request. unknown field [{key}]");
            Error::new(ErrorKind::Parse, reason)
        };
        for (key, value) in shape::object(node, "mget")? {
            match key.as_str() {
                // A null says nothing, whatever its name.
                _ if value.is_null() => {}
                // Names of 2015, gone since 7, and what types went with.
                "fields" if !dialect.rules.takes_former_options => {
                    return Err(value.error("Unsupported field [fields] used, expected [stored_fields] instead"));
                }
                "_routing" | "_parent" | "_version" | "_version_type" | "parent" if !dialect.rules.takes_former_options => {
                    return Err(unknown(&key));
                }
                "_type"
                    if !dialect.rules.takes_former_options
                        && !matches!(dialect.persona, Persona::Es2 | Persona::Es7 | Persona::Opensearch1) =>
                {
                    return Err(unknown(&key));
                }
                "_id" if !dialect.rules.tolerates_value_types && value.is_object() => {
                    return Err(Error::illegal("Can't get text on a START_OBJECT"));
                }
                // Their texts are the truths.
                "_source" if !dialect.rules.tolerates_value_types && matches!(value.as_str(), Some("true" | "false")) => {
                    out.source = match value.boolean(&key)? {
                        true => SourceSpec::All,
                        false => SourceSpec::None,
                    };
                }
                "_source" if !dialect.rules.tolerates_value_types && matches!(value.value, json::Json::Number(_)) => {
                    return Err(Error::new(ErrorKind::Parse, "illegal type for _source, found number"));
                }
                "_index" => out.index = Some(value.string(&key)?),
                "_type" => out.doc_type = Some(value.string(&key)?),
                "_id" => out.id = value.string(&key)?,
                "routing" | "_routing" | "parent" | "_parent" => out.routing = Some(value.string(&key)?),
                "_source" => out.source = SourceSpec::parse(value)?,
                "stored_fields" | "fields" => out.stored_fields = Some(shape::strings(value, &key)?),
                "version" | "_version" => {
                    let version = value.i64(&key);
                    out.version = Some(match dialect.rules.number_refusals_are_parser_errors {
                        true => version?,
                        false => version.map_err(|error| Error::illegal(error.reason()))?,
                    });
                }
                "version_type" | "_version_type" => {
                    let name = value.string(&key)?;
                    let known = ["internal", "external", "external_gt", "external_gte", "force"];
                    if !dialect.rules.tolerates_unknown_words && !known.contains(&name.as_str()) {
                        return Err(Error::illegal(format!("No version type match [{name}]")));
                    }
                    out.version_type = Some(name);
                }
                _ if dialect.rules.skips_unknown_keys => {}
                _ => return Err(unknown(&key)),
            }
        }
        Ok(out)
    }
}

/// One search of `_msearch`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct MsearchItem {
    pub indices: Vec<String>,
    pub types: Vec<String>,
    pub search_type: Option<String>,
    pub ignore_unavailable: Option<bool>,
    pub allow_no_indices: Option<bool>,
    pub expand_wildcards: Vec<String>,
    pub request: SearchRequest,
}

/// Reads headers and bodies; a body that is refused refuses its search only.
///
/// # Errors
/// No lines, or a malformed header.
pub fn parse_msearch(bytes: &[u8], dialect: Dialect) -> Result<Vec<Result<MsearchItem>>> {
    let mut out = Vec::new();
    for (mut item, body) in split_msearch(bytes, dialect)? {
        let request = SearchRequest::read(body, reading(dialect), dialect);
        // One that cannot be read stands for itself in 2015 only.
        let request = match request {
            Err(error) if !dialect.rules.unreadable_items_stand_alone => return Err(error),
            request => request,
        };
        out.push(request.map(|request| {
            item.request = request;
            item
        }));
    }
    Ok(out)
}

/// Reads the headers of an `_msearch` body, each with the bytes of the line after it, which are not read.
///
/// # Errors
/// No request at all, no newline at the end (of today), a header that is none.
pub fn split_msearch(bytes: &[u8], dialect: Dialect) -> Result<Vec<(MsearchItem, &[u8])>> {
    if bytes.is_empty() {
        return Err(Error::new(ErrorKind::Parse, "request body or source parameter is required"));
    }
    if bytes.last() != Some(&b'\n') && !dialect.rules.tolerates_incomplete_lines {
        return Err(Error::illegal("The msearch request must be terminated by a newline [\n]"));
    }
    let mut out = Vec::new();
    let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
    while let Some(header) = lines.next() {
        if header.trim_ascii().is_empty() && lines.peek().is_none_or(|next| next.trim_ascii().is_empty()) {
            continue;
        }
        let item = parse_header(header, dialect)?;
        let body = lines.next().unwrap_or_default();
        if body.is_empty() && lines.peek().is_none() && !dialect.rules.tolerates_incomplete_lines {
            // A header that nothing follows asks for nothing.
            break;
        }
        out.push((item, body));
    }
    if out.is_empty() {
        Err(shape::validation_failed(&["no requests added".to_owned()]))
    } else {
        Ok(out)
    }
}

fn parse_header(line: &[u8], dialect: Dialect) -> Result<MsearchItem> {
    let mut item = MsearchItem::default();
    if line.trim_ascii().is_empty() {
        return Ok(item);
    }
    for (key, value) in shape::object(json::read(line, reading(dialect))?, "msearch")? {
        match key.as_str() {
            "index" | "indices" => item.indices = split(shape::strings(value, &key)?),
            "type" | "types" => item.types = split(shape::strings(value, &key)?),
            "search_type" | "searchType" => {
                let given = value.string(&key)?;
                if !dialect.rules.tolerates_unknown_words
                    && !["query_then_fetch", "dfs_query_then_fetch"].contains(&given.as_str())
                {
                    return Err(Error::illegal(format!("No search type for [{given}]")));
                }
                item.search_type = Some(given);
            }
            "ignore_unavailable" | "ignoreUnavailable" => item.ignore_unavailable = Some(value.boolean(&key)?),
            "allow_no_indices" | "allowNoIndices" => item.allow_no_indices = Some(value.boolean(&key)?),
            "expand_wildcards" | "expandWildcards" => item.expand_wildcards = split(shape::strings(value, &key)?),
            // Where and how a search runs is for one server without meaning.
            "preference"
            | "routing"
            | "request_cache"
            | "requestCache"
            | "ccs_minimize_roundtrips"
            | "max_concurrent_shard_requests"
            | "ignore_throttled" => {}
            // 2015 passed over what it did not know.
            _ if dialect.rules.skips_unknown_keys => {}
            _ => {
                return Err(Error::illegal(format!(
                    "key [{key}] is not supported in the metadata section"
                )));
            }
        }
    }
    Ok(item)
}

fn split(list: Vec<String>) -> Vec<String> {
    list.iter()
        .flat_map(|text| text.split(','))
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .collect()
}
