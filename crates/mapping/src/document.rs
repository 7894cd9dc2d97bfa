//! A document read through a mapping: typed fields, nested documents, or a refusal. Pure.

use crate::field::{FieldType, Kind};
use crate::mapping::{Dynamic, Inner, Leaf, Mapping};
use crate::names::{ALL, METADATA, TIMESTAMP, TTL};
use crate::times::Times;
use crate::types::{self, keyword};
use crate::value::{FieldValue, Fields, NestedDoc};
use crate::wording::{java, mapper_parsing, text_of};
use model::{Error, ErrorKind, Result, Topic};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The facts that reading needs beside the document.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions<'a> {
    /// The document's id, for messages.
    pub id: &'a str,
    /// The document's type, for messages; empty is `_doc`.
    pub type_name: &'a str,
    /// The routing that the write named: children in a join field must have one.
    pub routing: Option<&'a str>,
    /// The times that the type keeps beside the source.
    pub times: Times,
    /// Fields that a strict mapping does not know are kept in the source only: the document was accepted before.
    pub lenient: bool,
}

/// A document read through a mapping.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// Fields of the document itself.
    pub root: Fields,
    /// Nested objects, each before the one it is in: the order of a Lucene block without its last document.
    pub nested: Vec<NestedDoc>,
    /// The mapping to merge before the document is stored.
    pub growth: Option<Mapping>,
    /// Fields of which a value was left out (`_ignored`), each once.
    pub ignored: Vec<String>,
}

impl Parsed {
    /// About how many bytes of memory it takes.
    pub fn weight(&self) -> usize {
        let fields = |fields: &Fields| -> usize {
            let each = size_of::<(Arc<str>, FieldValue)>();
            fields.0.iter().map(|(_, value)| each + value.weight()).sum()
        };
        let nested = self.nested.iter();
        let nested: usize = nested
            .map(|doc| size_of::<NestedDoc>() + doc.path.len() + fields(&doc.fields))
            .sum();
        size_of::<Parsed>() + fields(&self.root) + nested
    }
}

impl Mapping {
    /// Reads a document. Where it has fields that a dynamic mapping does not know, [`Parsed::growth`] is
    /// what to merge, and the fields are those of the merged mapping.
    pub fn read(&self, source: &Value, options: &ReadOptions<'_>) -> Result<Parsed> {
        let Value::Object(object) = source else {
            return Err(mapper_parsing("failed to parse")
                .with_cause(Error::new(ErrorKind::Parse, "request body is required to be an object")));
        };
        if self.0.root.enabled == Some(false) {
            return Ok(Parsed {
                root: Fields::default(),
                nested: Vec::new(),
                growth: None,
                ignored: Vec::new(),
            });
        }
        let first = Reader::run(&self.0, object, options)?;
        if !first.grows {
            return first.finish(None);
        }
        let growth = crate::dynamic::grow(self, object, &first.copies_missing)?;
        let merged = self.merge(&growth)?;
        let second = Reader::run(&merged.0, object, options)?;
        debug_assert!(
            !second.grows,
            "write-path.md 3: a mapping that has grown by a document has all its fields: {object:?}"
        );
        second.finish((!growth.is_empty()).then_some(growth))
    }
}

/// A nested object being read, before its children have been put in front of it.
struct Scope {
    path: String,
    parent: Option<usize>,
    fields: Fields,
    offset: u32,
    in_parent: bool,
    in_root: bool,
}

struct Reader<'a> {
    mapping: &'a Inner,
    options: &'a ReadOptions<'a>,
    document: &'a Map<String, Value>,
    root: Fields,
    scopes: Vec<Scope>,
    offsets: FxHashMap<(Option<usize>, &'a str), u32>,
    ignored: Vec<String>,
    grows: bool,
    /// The texts of `_all`, in order.
    all: Vec<String>,
    copies: Vec<(Option<usize>, String, Value)>,
    copies_missing: Vec<(String, Value)>,
}

impl<'a> Reader<'a> {
    fn run(mapping: &'a Inner, object: &'a Map<String, Value>, options: &'a ReadOptions<'a>) -> Result<Reader<'a>> {
        let mut reader = Reader {
            mapping,
            options,
            document: object,
            // Most members are texts with a keyword each, or are not looked at.
            root: Fields(Vec::with_capacity(mapping.leaves.len().min(2 * object.len()))),
            scopes: Vec::new(),
            offsets: FxHashMap::default(),
            ignored: Vec::new(),
            grows: false,
            all: Vec::new(),
            copies: Vec::new(),
            copies_missing: Vec::new(),
        };
        let dynamic = mapping.root.dynamic.unwrap_or_default();
        reader.object(object, &mut String::with_capacity(64), None, dynamic)?;
        reader.copy()?;
        if let Some(leaf) = mapping
            .leaf(ALL)
            .filter(|_| mapping.rules().has_all_field && !reader.all.is_empty())
        {
            let text = FieldValue::Text(reader.all.join(" "));
            reader.root.0.push((leaf.path.clone(), text));
        }
        if !options.times.is_none() {
            let (moment, end) = (
                options.times.timestamp.map(FieldValue::Date),
                options.times.expires.map(FieldValue::Long),
            );
            for (name, value) in [(TIMESTAMP, moment), (TTL, end)] {
                if let (Some(leaf), Some(value)) = (mapping.leaf(name), value) {
                    reader.root.0.push((leaf.path.clone(), value));
                }
            }
        }
        Ok(reader)
    }

    fn object(&mut self, object: &Map<String, Value>, path: &mut String, scope: Option<usize>, dynamic: Dynamic) -> Result<()> {
        for (key, value) in object {
            self.entry(key, value, path, scope, dynamic)?;
        }
        Ok(())
    }

    fn entry(&mut self, key: &str, value: &Value, path: &mut String, scope: Option<usize>, dynamic: Dynamic) -> Result<()> {
        if path.is_empty() && key.starts_with('_') && METADATA.contains(&key) {
            let cause = mapper_parsing(format!(
                "Field [{key}] is a metadata field and cannot be added inside a document. Use the index API request parameters."
            ));
            // They never were fields of a document.
            if self.mapping.rules().documents_expire && [TIMESTAMP, TTL].contains(&key) {
                return Err(cause);
            }
            return Err(self.field_error(key, key, value, cause));
        }
        if key.as_bytes().contains(&b'.')
            && let Some((head, tail)) = key.split_once('.')
        {
            if self.mapping.rules().forbids_dots_in_names {
                return Err(mapper_parsing(format!("Field name [{key}] cannot contain '.'")));
            }
            if key.split('.').any(|part| part.trim().is_empty()) {
                return Err(self.unreadable(Error::illegal(format!(
                    "object field starting or ending with a [.] makes object resolution ambiguous: [{key}]"
                ))));
            }
            if key.matches('.').count() > self.mapping.limits.depth {
                return Err(Error::illegal(format!(
                    "Limit of mapping depth [{}] has been exceeded due to object field [{}]",
                    self.mapping.limits.depth,
                    key.chars().take(200).collect::<String>()
                ))
                .with("setting", "index.mapping.depth.limit"));
            }
            let mut inner = Map::new();
            inner.insert(tail.to_owned(), value.clone());
            return self.entry(head, &Value::Object(inner), path, scope, dynamic);
        }
        if key.trim().is_empty() {
            return Err(self.unreadable(Error::illegal("field name cannot be an empty string")));
        }
        let mapping = self.mapping;
        let length = path.len();
        if length > 0 {
            path.push('.');
        }
        path.push_str(key);
        let result = if let Some(leaf) = mapping.leaf(path) {
            self.leaf(leaf, value, scope)
        } else if mapping.objects.contains_key(path.as_str()) {
            self.objects(key, value, path, scope)
        } else {
            self.unknown(key, value, &path[..length], dynamic)
        };
        debug_assert!(
            path.ends_with(key) && path.len() == length + key.len() + usize::from(length > 0),
            "each name that is entered is left: [{path}] behind [{key}]"
        );
        path.truncate(length);
        result
    }

    fn unknown(&mut self, key: &str, value: &Value, around: &str, dynamic: Dynamic) -> Result<()> {
        match dynamic {
            _ if crate::dynamic::is_blank(value) => {}
            Dynamic::False => {}
            _ if self.options.lenient && dynamic != Dynamic::True => {}
            Dynamic::True | Dynamic::StrictAllowTemplates => self.grows = true,
            Dynamic::Strict => {
                let type_name = Some(self.options.type_name).filter(|name| !name.is_empty());
                let within = if around.is_empty() {
                    type_name.unwrap_or("_doc")
                } else {
                    around
                };
                return Err(crate::mapping::strict(dynamic, key, within));
            }
        }
        Ok(())
    }

    /// An object, an array of objects, or nothing.
    fn objects(&mut self, key: &str, value: &Value, path: &mut String, scope: Option<usize>) -> Result<()> {
        let Some((known, info)) = self.mapping.objects.get_key_value(path.as_str()) else {
            return Ok(());
        };
        if !info.enabled {
            return Ok(());
        }
        match value {
            Value::Null => Ok(()),
            Value::Array(items) => items.iter().try_for_each(|item| self.objects(key, item, path, scope)),
            Value::Object(object) if info.nested => {
                let scope = self.open(known, scope, info.include_in_parent, info.include_in_root)?;
                self.object(object, path, Some(scope), info.dynamic)
            }
            Value::Object(object) => self.object(object, path, scope, info.dynamic),
            _ => Err(mapper_parsing(format!(
                "object mapping for [{path}] tried to parse field [{key}] as object, but found a concrete value"
            ))),
        }
    }

    fn open(&mut self, path: &'a str, parent: Option<usize>, in_parent: bool, in_root: bool) -> Result<usize> {
        let limit = self.mapping.limits.nested_objects;
        if self.scopes.len() >= limit {
            return Err(mapper_parsing(format!(
                "The number of nested documents has exceeded the allowed limit of [{limit}]. This limit can be set by \
                 changing the [index.mapping.nested_objects.limit] index level setting."
            )));
        }
        debug_assert!(
            parent.is_none_or(|parent| parent < self.scopes.len()),
            "search.md S6: a nested object is opened inside the one that encloses it"
        );
        let count = self.offsets.entry((parent, path)).or_insert(0);
        let offset = *count;
        *count += 1;
        self.scopes.push(Scope {
            path: path.to_owned(),
            parent,
            fields: Fields::default(),
            offset,
            in_parent,
            in_root,
        });
        Ok(self.scopes.len() - 1)
    }

    fn leaf(&mut self, leaf: &Leaf, value: &Value, scope: Option<usize>) -> Result<()> {
        match leaf.field.kind {
            Kind::Alias => {
                return Err(self.unreadable(Error::illegal(format!("Cannot write to a field alias [{}].", leaf.path))));
            }
            Kind::GeoPoint
                if value
                    .as_array()
                    .is_some_and(|items| items.first().is_some_and(Value::is_number)) =>
            {
                return self.value(leaf, value, scope, true);
            }
            _ => {}
        }
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.leaf(leaf, item, scope)),
            _ => self.value(leaf, value, scope, true),
        }
    }

    fn value(&mut self, leaf: &Leaf, value: &Value, scope: Option<usize>, copy: bool) -> Result<()> {
        self.single(leaf, value, scope)?;
        if copy && leaf.in_all && self.mapping.rules().has_all_field {
            self.add_to_all(leaf, value);
        }
        for at in &leaf.multi {
            let multi = &self.mapping.leaves[*at];
            self.single(multi, value, scope)?;
        }
        if copy && !value.is_null() {
            for target in &leaf.field.copy_to {
                self.copies.push((scope, target.clone(), value.clone()));
            }
        }
        Ok(())
    }

    /// Strings, numbers, dates and addresses are part of `_all`, as they are written.
    fn add_to_all(&mut self, leaf: &Leaf, value: &Value) {
        let field = &leaf.field;
        let kind = field.kind;
        let fits = field.string || kind.is_text() || kind.is_keyword() || kind.is_numeric() || kind.is_date() || kind == Kind::Ip;
        let value = if value.is_null() {
            field.null_value.as_ref()
        } else {
            Some(value)
        };
        let (true, Some(value)) = (fits && kind != Kind::TokenCount, value) else {
            return;
        };
        let text = text_of(value);
        if !field.ignore_above.is_some_and(|limit| is_longer(&text, limit)) {
            self.all.push(text);
        }
    }

    /// The value of a field, as its type and the rules of the dialect have it.
    fn read_value(&self, field: &FieldType, value: &Value) -> Result<FieldValue> {
        let rules = self.mapping.rules();
        if rules.coerces_values && field.kind == Kind::Boolean && !value.is_object() {
            Ok(types::boolean::lenient(value))
        } else if rules.refuses_later_values && field.kind == Kind::Ip && value.as_str().is_some_and(|t| t.contains(':')) {
            Err(Error::illegal(format!(
                "failed to parse ip [{}], not a valid ip address",
                text_of(value)
            )))
        } else if let (true, Some(text)) = (
            rules.refuses_later_values && field.kind.is_integer() && field.kind != Kind::TokenCount,
            value.as_str(),
        ) && text.parse::<i64>().is_err()
        {
            // A text had to be a whole number.
            Err(Error::no_number(text))
        } else if rules.refuses_later_values && field.kind.is_date() && value.is_f64() {
            Err(Error::illegal(format!("Invalid format: \"{}\"", text_of(value))))
        } else if field.kind == Kind::Completion
            && let Some(value) = types::contexts::from_paths(field, value, self.document)
        {
            types::read(field, &value)
        } else {
            types::read(field, value)
        }
    }

    fn single(&mut self, leaf: &Leaf, value: &Value, scope: Option<usize>) -> Result<()> {
        let field = &leaf.field;
        let rules = self.mapping.rules();
        let coerced = rules.coerces_values || field.coerce;
        let nothing = coerced && field.kind.is_numeric() && value.as_str().is_some_and(str::is_empty);
        let value = if nothing { &Value::Null } else { value };
        let value = match (value, &field.null_value) {
            (Value::Null, None) => return Ok(()),
            (Value::Null, Some(null_value)) => null_value,
            (value, _) => value,
        };
        let read = self.read_value(field, value);
        let read = match read {
            Ok(read) => read,
            Err(_) if field.ignore_malformed => {
                self.ignore(&leaf.path);
                return Ok(());
            }
            Err(cause) => {
                let cause = if rules.document_refusal_words {
                    cause
                } else {
                    as_json_error(field, value, cause)
                };
                return Err(self.field_error(&leaf.path, field.wire(), value, cause));
            }
        };
        match &read {
            // In 2015 analyzed texts as well.
            FieldValue::Text(text)
                if rules.ignores_long_texts && field.ignore_above.is_some_and(|limit| is_longer(text, limit)) =>
            {
                return Ok(());
            }
            FieldValue::Keyword(term) => {
                if field.ignore_above.is_some_and(|limit| is_longer(term, limit)) {
                    // Not `_ignored`: OpenSearch reports only malformed values there.
                    return Ok(());
                }
                if term.len() > keyword::TERM_BYTES_MAX && (field.index || field.doc_values) {
                    return Err(keyword::immense(&leaf.path, term));
                }
            }
            FieldValue::Text(text) if field.index => {
                let analyzer = field.analyzer.as_ref();
                if let Some(term) = analyzer.and_then(|a| a.longer_term(text, keyword::TERM_BYTES_MAX)) {
                    return Err(keyword::immense(&leaf.path, &term));
                }
            }
            FieldValue::Join { name, parent } => self.check_join(leaf, name, parent.as_deref())?,
            _ => {}
        }
        self.put(leaf, read, scope);
        Ok(())
    }

    fn check_join(&self, leaf: &Leaf, name: &str, parent: Option<&str>) -> Result<()> {
        let path = &leaf.path;
        let refuse = |reason: String| Err(self.unreadable(Error::illegal(reason)));
        if leaf.field.parent_of(name).is_some() {
            match (parent, self.options.routing) {
                (None, _) => refuse(format!("[parent] is missing for join field [{path}]")),
                (_, None) => refuse(format!("[routing] is missing for join field [{path}]")),
                _ => Ok(()),
            }
        } else if leaf.field.children_of(name).is_none() {
            refuse(format!("unknown join name [{name}] for field [{path}]"))
        } else {
            Ok(())
        }
    }

    fn put(&mut self, leaf: &Leaf, value: FieldValue, scope: Option<usize>) {
        let mut at = scope;
        let mut root = false;
        while let Some(scope) = at {
            let Scope {
                in_parent,
                in_root,
                parent,
                ..
            } = self.scopes[scope];
            self.scopes[scope].fields.0.push((leaf.path.clone(), value.clone()));
            root |= in_root;
            if !in_parent {
                if root {
                    self.root.0.push((leaf.path.clone(), value));
                }
                return;
            }
            at = parent;
        }
        self.root.0.push((leaf.path.clone(), value));
    }

    /// Values for the targets of `copy_to`: in the nested document that the target is in.
    fn copy(&mut self) -> Result<()> {
        let mapping = self.mapping;
        for (scope, target, value) in std::mem::take(&mut self.copies) {
            let Some(leaf) = mapping.leaf(&target) else {
                match mapping.root.dynamic.unwrap_or_default() {
                    Dynamic::True | Dynamic::StrictAllowTemplates => {
                        self.grows = true;
                        self.copies_missing.push((target, value));
                    }
                    dynamic => self.unknown(&target, &value, "", dynamic)?,
                }
                continue;
            };
            let mut at = scope;
            while let Some(scope) = at {
                let Scope { path, parent, .. } = &self.scopes[scope];
                if target.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('.')) {
                    break;
                }
                at = *parent;
            }
            self.value(leaf, &value, at, false)?;
        }
        Ok(())
    }

    fn ignore(&mut self, path: &str) {
        if !self.ignored.iter().any(|known| known == path) {
            self.ignored.push(path.to_owned());
        }
    }

    fn unreadable(&self, cause: Error) -> Error {
        mapper_parsing("failed to parse").with_cause(cause)
    }

    fn field_error(&self, path: &str, type_name: &str, value: &Value, cause: Error) -> Error {
        let reason = if self.mapping.rules().document_refusal_words {
            format!("failed to parse [{path}]")
        } else if type_name == "geo_point" {
            format!("failed to parse field [{path}] of type [geo_point]")
        } else {
            format!(
                "failed to parse field [{path}] of type [{type_name}] in document with id '{}'. Preview of field's value: '{}'",
                self.options.id,
                java(value)
            )
        };
        mapper_parsing(reason).with_cause(cause)
    }

    /// Puts children before the objects they are in.
    fn finish(self, growth: Option<Mapping>) -> Result<Parsed> {
        if self.scopes.is_empty() {
            return Ok(Parsed {
                root: self.root,
                nested: Vec::new(),
                growth,
                ignored: self.ignored,
            });
        }
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.scopes.len()];
        let mut tops = Vec::new();
        for (at, scope) in self.scopes.iter().enumerate() {
            match scope.parent {
                Some(parent) => children[parent].push(at),
                None => tops.push(at),
            }
        }
        // Depth first with a stack of its own: (scope, whether its children have been visited).
        let mut stack: Vec<(usize, bool)> = tops.into_iter().rev().map(|at| (at, false)).collect();
        let mut order = Vec::with_capacity(self.scopes.len());
        while let Some((at, visited)) = stack.pop() {
            if visited {
                order.push(at);
            } else {
                stack.push((at, true));
                stack.extend(children[at].iter().rev().map(|child| (*child, false)));
            }
        }
        debug_assert_eq!(order.len(), self.scopes.len(), "each nested object is visited once");
        let mut position = vec![0; order.len()];
        order.iter().enumerate().for_each(|(new, old)| position[*old] = new);
        let mut nested: Vec<(usize, NestedDoc)> = self
            .scopes
            .into_iter()
            .enumerate()
            .map(|(old, scope)| {
                let parent = scope.parent.map(|parent| position[parent]);
                (
                    position[old],
                    NestedDoc {
                        path: scope.path,
                        parent,
                        fields: scope.fields,
                        offset: scope.offset,
                    },
                )
            })
            .collect();
        nested.sort_by_key(|(at, _)| *at);
        let nested: Vec<NestedDoc> = nested.into_iter().map(|(_, doc)| doc).collect();
        debug_assert!(
            nested
                .iter()
                .enumerate()
                .all(|(at, doc)| doc.parent.is_none_or(|parent| parent > at)),
            "search.md S6: a nested document stands before the one that encloses it"
        );
        Ok(Parsed {
            root: self.root,
            nested,
            growth,
            ignored: self.ignored,
        })
    }
}

/// Has it more units of UTF-16? A unit is one byte of UTF-8 or more.
fn is_longer(text: &str, units: usize) -> bool {
    text.len() > units && text.encode_utf16().count() > units
}

/// Why a value could not be read, as today's readers of JSON tell it: a number that none of 32 or 64 bits holds and what is
/// no number, no truth and no date have kinds of their own.
fn as_json_error(field: &FieldType, value: &Value, cause: Error) -> Error {
    match (field.kind, value) {
        (kind, Value::Object(_)) if kind.is_numeric() => Error::new(
            ErrorKind::JsonParse,
            "Current token (START_OBJECT) not numeric, can not use numeric value accessors",
        ),
        (Kind::Boolean, Value::Number(number)) => {
            let token = if number.is_f64() {
                "VALUE_NUMBER_FLOAT"
            } else {
                "VALUE_NUMBER_INT"
            };
            Error::new(ErrorKind::JsonParse, format!("Current token ({token}) not of boolean type"))
        }
        (Kind::Integer | Kind::Long, Value::Number(number)) if cause.is_about(Topic::NumberRange) => {
            let (name, least, most) = match field.kind {
                Kind::Integer => ("int", i64::from(i32::MIN), i64::from(i32::MAX)),
                _ => ("long", i64::MIN, i64::MAX),
            };
            let reason = format!("Numeric value ({number}) out of range of {name} ({least} - {most})");
            Error::new(ErrorKind::InputCoercion, reason)
        }
        (Kind::Date | Kind::DateNanos, _) => model::date::of_all_parsers(cause),
        _ => cause,
    }
}
