//! The keys that a search and inner hits share.

use super::{FieldAndFormat, Highlight, ScriptField, Sort, SourceSpec, parse_script_fields};
use crate::json::{Json, Node};
use crate::shape;
use model::{Dialect, Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// Which hits are shown, in which order, and what each carries.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub from: usize,
    pub size: usize,
    pub sort: Vec<Sort>,
    pub source: SourceSpec,
    pub fields: Vec<FieldAndFormat>,
    pub docvalue_fields: Vec<FieldAndFormat>,
    /// `stored_fields`, or `fields` in the typed dialect (there they also read the source). `["_none_"]` turns metadata off.
    pub stored_fields: Option<Vec<String>>,
    pub script_fields: Vec<ScriptField>,
    pub highlight: Option<Highlight>,
    pub explain: bool,
    pub version: bool,
    pub seq_no_primary_term: bool,
    pub track_scores: bool,
    /// Fields whose values `relations` wants with each hit, by which it finds partners; never in a body.
    pub join_fields: Vec<String>,
    pub dialect: Dialect,
}

impl Page {
    /// The first hits by their scores.
    pub fn new(size: usize, dialect: Dialect) -> Page {
        Page {
            from: 0,
            size,
            sort: Vec::new(),
            source: SourceSpec::default(),
            fields: Vec::new(),
            docvalue_fields: Vec::new(),
            stored_fields: None,
            script_fields: Vec::new(),
            highlight: None,
            explain: false,
            version: false,
            seq_no_primary_term: false,
            track_scores: false,
            join_fields: Vec::new(),
            dialect,
        }
    }
    /// Reads one key; the node comes back if the key belongs to no page.
    ///
    /// # Errors
    /// The value of the key is refused.
    pub(crate) fn take_key(&mut self, key: &str, value: Node) -> Result<Option<Node>> {
        let dialect = self.dialect;
        if !dialect.rules.tolerates_value_types && !accepts(key, value.kind_name()) {
            return Err(shape::unknown_key(key, &value, &[]));
        }
        match key {
            "from" => self.from = parse_not_negative(&value, key, dialect)?,
            "size" => self.size = parse_not_negative(&value, key, dialect)?,
            "sort" => self.sort = Sort::parse(value, dialect)?,
            "_source" => self.source = SourceSpec::parse(value)?,
            "fields" if dialect.rules.fields_are_stored_fields => self.stored_fields = Some(shape::strings(value, key)?),
            "fields" => self.fields = FieldAndFormat::parse_list(value, key, dialect)?,
            "docvalue_fields" | "fielddata_fields" => {
                self.docvalue_fields = FieldAndFormat::parse_list(value, key, dialect)?;
            }
            "stored_fields" => self.stored_fields = Some(parse_stored_fields(value, dialect)?),
            "script_fields" => self.script_fields = parse_script_fields(value, dialect)?,
            "highlight" => self.highlight = Some(Highlight::parse(value, dialect)?),
            "track_scores" => self.track_scores = parse_flag(&value, key, dialect)?,
            "explain" => self.explain = parse_flag(&value, key, dialect)?,
            "version" => self.version = parse_flag(&value, key, dialect)?,
            "seq_no_primary_term" => self.seq_no_primary_term = parse_flag(&value, key, dialect)?,
            _ => return Ok(Some(value)),
        }
        Ok(None)
    }
    /// As in a request whose size is `usual` unless it says another.
    pub(crate) fn render(&self, usual: usize, out: &mut Map<String, Value>) {
        let mut put = |name: &str, value: Value| {
            out.insert(name.to_owned(), value);
        };
        for (name, number, default) in [("from", self.from, 0), ("size", self.size, usual)] {
            if number != default {
                put(name, number.into());
            }
        }
        let flags = [
            ("track_scores", self.track_scores),
            ("explain", self.explain),
            ("version", self.version),
            ("seq_no_primary_term", self.seq_no_primary_term),
        ];
        for (name, _) in flags.into_iter().filter(|(_, on)| *on) {
            put(name, true.into());
        }
        if !self.sort.is_empty() {
            put("sort", self.sort.iter().map(Sort::render).collect());
        }
        if let Some(source) = self.source.render() {
            put("_source", source);
        }
        for (name, list) in [("fields", &self.fields), ("docvalue_fields", &self.docvalue_fields)] {
            if !list.is_empty() {
                put(name, list.iter().map(FieldAndFormat::render).collect());
            }
        }
        if let Some(stored) = &self.stored_fields {
            put(
                if self.dialect.rules.fields_are_stored_fields {
                    "fields"
                } else {
                    "stored_fields"
                },
                json!(stored),
            );
        }
        if !self.script_fields.is_empty() {
            let scripts: Map<String, Value> = self.script_fields.iter().map(ScriptField::render).collect();
            put("script_fields", Value::Object(scripts));
        }
        if let Some(highlight) = &self.highlight {
            put("highlight", highlight.render());
        }
    }
}

/// Whether a key of today's pages has a meaning for a value that begins so; nothing is said of other keys.
fn accepts(key: &str, kind: &str) -> bool {
    match key {
        "script_fields" | "highlight" => kind == "START_OBJECT",
        "sort" => kind != "VALUE_NULL",
        "docvalue_fields" | "fields" => kind == "START_ARRAY",
        "from" | "size" | "track_scores" | "explain" | "version" | "seq_no_primary_term" => {
            kind.starts_with("VALUE_") && kind != "VALUE_NULL"
        }
        _ => true,
    }
}

/// A boolean; in the typed dialect also in the words of 2015.
pub(crate) fn parse_flag(value: &Node, key: &str, dialect: Dialect) -> Result<bool> {
    if dialect.rules.reads_boolean_words {
        value.boolean_typed(key)
    } else {
        value.boolean(key)
    }
}

fn parse_stored_fields(value: Node, dialect: Dialect) -> Result<Vec<String>> {
    let wrong = value.error("Expected [VALUE_STRING] or [START_ARRAY] in [stored_fields]");
    if !dialect.rules.tolerates_value_types && !value.is_array() && value.as_str().is_none() {
        return Err(wrong);
    }
    let names = shape::strings(value, "stored_fields")?;
    if !dialect.rules.tolerates_conflicting_options && names.len() > 1 && names.iter().any(|name| name == "_none_") {
        return Err(Error::illegal("cannot combine _none_ with other fields"));
    }
    Ok(names)
}

fn parse_not_negative(value: &Node, key: &str, dialect: Dialect) -> Result<usize> {
    check_bounds(value, dialect)?;
    let number = value.i64(key)?;
    usize::try_from(number).map_err(|_| {
        if dialect.rules.search_parse_exceptions {
            Error::new(
                ErrorKind::SearchParse,
                format!("{key} is set to [{number}] but is expected to be 0 or higher"),
            )
        } else {
            Error::illegal(format!("[{key}] parameter cannot be negative, found [{number}]"))
        }
    })
}

/// Refuses today a number that 32 bits do not hold.
pub(crate) fn check_bounds(value: &Node, dialect: Dialect) -> Result<()> {
    if let (false, Json::Number(number)) = (dialect.rules.tolerates_value_bounds, &value.value)
        && number
            .as_f64()
            .is_some_and(|n| n < f64::from(i32::MIN) || n > f64::from(i32::MAX))
    {
        let reason = format!("Numeric value ({number}) out of range of int ({} - {})", i32::MIN, i32::MAX);
        return Err(Error::new(ErrorKind::InputCoercion, reason));
    }
    Ok(())
}
