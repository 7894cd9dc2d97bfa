//! Indices with types, carried over into an index with types: mappings stay in the words of 2015, and documents keep type,
//! parent, routing, `_timestamp` and `_ttl`.
//!
//! Pure. Not here: reading the source (`remote`), mappings in the words of today (`modern_mapping`).

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Mappings nest no deeper than a server lets them.
const DEPTH_MAX: usize = 64;
/// The options of metadata fields that version 2 takes. Version 1 has others, such as `path`.
const METADATA_OPTIONS: &[(&str, &[&str])] = &[
    ("_parent", &["type", "fielddata"]),
    ("_routing", &["required"]),
    ("_timestamp", &["enabled", "format", "default", "ignore_missing", "fielddata"]),
    ("_ttl", &["enabled", "default"]),
];
/// Metadata fields that version 2 does not let anybody configure.
const FIXED_METADATA: &[&str] = &["_analyzer", "_boost", "_id", "_index", "_size", "_type", "_uid", "_version"];
/// Parameters of fields that version 1 alone has. None changes what a document is.
const OLD_PARAMETERS: &[&str] = &[
    "doc_values_format",
    "index_name",
    "normalize",
    "normalize_lat",
    "normalize_lon",
    "postings_format",
    "validate",
    "validate_lat",
    "validate_lon",
];

/// The format of a `_timestamp` that names none.
const USUAL_FORMAT: &str = "strict_date_optional_time||epoch_millis";

/// The mappings of an index with types as version 2 takes them.
#[derive(Debug, Default)]
pub(super) struct TypedMappings {
    pub(super) mappings: Map<String, Value>,
    /// Names of what was left out.
    pub(super) left_out: BTreeSet<String>,
    /// Types that keep `_timestamp`.
    timed: BTreeSet<String>,
}

impl TypedMappings {
    /// Of these types, of a source of this version.
    ///
    /// # Errors
    /// A mapping that is nested too deeply.
    pub(super) fn of<'a>(types: impl Iterator<Item = (&'a String, &'a Value)>, major: u32) -> Result<TypedMappings, String> {
        let mut all = TypedMappings::default();
        for (name, mapping) in types {
            let mut out = Map::new();
            for (key, value) in mapping.as_object().into_iter().flatten() {
                let options = METADATA_OPTIONS
                    .iter()
                    .find(|(known, _)| known == key)
                    .map(|(_, options)| *options);
                match (key.as_str(), options) {
                    (key, Some(options)) => drop(out.insert(key.to_owned(), all.metadata(key, value, options))),
                    (key, None) if FIXED_METADATA.contains(&key) => all.left_out(key),
                    ("properties", None) if major < 2 => drop(out.insert(key.clone(), all.fields(value, 0)?)),
                    _ => drop(out.insert(key.clone(), value.clone())),
                }
            }
            if out.get("_timestamp").is_some_and(|timestamp| is_true(&timestamp["enabled"])) {
                all.timed.insert(name.clone());
            }
            all.mappings.insert(name.clone(), Value::Object(out));
        }
        all.agree_on_format();
        Ok(all)
    }

    /// Types of version 1 have a format of `_timestamp` each, those of version 2 have one together: all that there are.
    fn agree_on_format(&mut self) {
        let timed: Vec<&mut Value> = self
            .mappings
            .values_mut()
            .filter_map(|mapping| mapping.get_mut("_timestamp"))
            .collect();
        let own = |timestamp: &Value| timestamp["format"].as_str().unwrap_or(USUAL_FORMAT).to_owned();
        let formats: Vec<String> = timed.iter().map(|timestamp| own(timestamp)).collect();
        if formats.windows(2).all(|pair| pair[0] == pair[1]) {
            return;
        }
        let mut alternatives: Vec<&str> = Vec::new();
        for one in formats.iter().flat_map(|format| format.split("||")) {
            if !alternatives.contains(&one) {
                alternatives.push(one);
            }
        }
        for timestamp in timed {
            timestamp["format"] = alternatives.join("||").into();
        }
    }

    fn left_out(&mut self, name: &str) {
        self.left_out.insert(name.to_owned());
    }

    /// The options of a metadata field. A format of `_timestamp` gets milliseconds beside it, as which they are sent.
    fn metadata(&mut self, name: &str, value: &Value, options: &[&str]) -> Value {
        let mut kept = Map::new();
        for (key, value) in value.as_object().into_iter().flatten() {
            match (key.as_str(), value.as_str()) {
                ("format", Some(format)) if !format.contains("epoch_millis") => {
                    kept.insert(key.clone(), format!("{format}||epoch_millis").into());
                }
                (key, _) if options.contains(&key) => drop(kept.insert(key.to_owned(), value.clone())),
                // How the source kept it, which its hits show.
                ("store" | "index" | "doc_values", _) => {}
                (key, _) => self.left_out(&format!("{name}.{key}")),
            }
        }
        Value::Object(kept)
    }

    /// Fields of version 1 as version 2 takes them.
    fn fields(&mut self, fields: &Value, depth: usize) -> Result<Value, String> {
        if depth > DEPTH_MAX {
            return Err(format!("a mapping is nested more than [{DEPTH_MAX}] deep"));
        }
        let mut out = Map::new();
        for (name, field) in fields.as_object().into_iter().flatten() {
            let Some(members) = field.as_object() else {
                out.insert(name.clone(), field.clone());
                continue;
            };
            let mut kept = Map::new();
            for (key, value) in members {
                match key.as_str() {
                    "properties" | "fields" => drop(kept.insert(key.clone(), self.fields(value, depth + 1)?)),
                    "index_analyzer" => drop(kept.insert("analyzer".into(), value.clone())),
                    "path" if value == "full" || value == "just_name" => self.left_out(key),
                    old if OLD_PARAMETERS.contains(&old) => self.left_out(old),
                    _ => drop(kept.insert(key.clone(), value.clone())),
                }
            }
            out.insert(name.clone(), Value::Object(kept));
        }
        Ok(Value::Object(out))
    }

    /// Do documents of this type have a `_timestamp`?
    fn is_timed(&self, doc_type: &str) -> bool {
        self.timed.contains(doc_type)
    }
}

/// Booleans are words in 2015.
fn is_true(value: &Value) -> bool {
    value == true || ["true", "yes", "on", "1"].iter().any(|word| value == *word)
}

/// What a hit says about its document beside its source.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Metadata<'a> {
    pub(super) id: &'a str,
    pub(super) doc_type: &'a str,
    pub(super) routing: Option<&'a str>,
    pub(super) parent: Option<&'a str>,
    /// In milliseconds since 1970.
    pub(super) timestamp: Option<i64>,
    /// Milliseconds of its life that were left when the source took its moment.
    pub(super) ttl: Option<i64>,
}

/// The documents of an index as they are carried over, and counts of what could not be.
#[derive(Debug)]
pub(super) struct Carried {
    /// When the source took its moment, in milliseconds since 1970.
    begun_ms: i64,
    /// Documents whose `_timestamp` the source keeps and does not give.
    timestamps: u64,
    /// Documents whose life was over.
    expired: u64,
}

impl Carried {
    /// Of a moment that the source takes now, in milliseconds since 1970.
    pub(super) fn at_moment(now_ms: i64) -> Carried {
        Carried {
            begun_ms: now_ms,
            timestamps: 0,
            expired: 0,
        }
    }

    /// The line of a bulk request that writes a document as it was; `None`: its life is over.
    pub(super) fn action(&mut self, of: Metadata<'_>, mappings: &TypedMappings) -> Option<Value> {
        if of.ttl.is_some_and(|left| left <= 0) {
            self.expired += 1;
            return None;
        }
        let mut metadata = Map::new();
        metadata.insert("_type".into(), of.doc_type.into());
        metadata.insert("_id".into(), of.id.into());
        for (key, value) in [("routing", of.routing), ("parent", of.parent)] {
            if let Some(value) = value {
                metadata.insert(key.into(), value.into());
            }
        }
        if let Some(timestamp) = of.timestamp {
            metadata.insert("_timestamp".into(), timestamp.to_string().into());
        }
        self.timestamps += u64::from(of.timestamp.is_none() && mappings.is_timed(of.doc_type));
        if let Some(left) = of.ttl {
            // A server counts a life from the timestamp on, which is the time of the write where none is given.
            let lived = of
                .timestamp
                .map_or(0, |timestamp| self.begun_ms.saturating_sub(timestamp).max(0));
            metadata.insert("_ttl".into(), left.saturating_add(lived).into());
        }
        Some(json!({ "index": metadata }))
    }

    /// What to say of an index.
    pub(super) fn report(&self, index: &str) -> Vec<String> {
        let mut told = Vec::new();
        if self.timestamps > 0 {
            told.push(format!(
                "[{index}]: {} documents have a _timestamp that the source does not store; they have the time of this import",
                self.timestamps
            ));
        }
        if self.expired > 0 {
            told.push(format!(
                "[{index}]: {} documents were left out, for their _ttl is over",
                self.expired
            ));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mappings(types: &Value, major: u32) -> TypedMappings {
        TypedMappings::of(types.as_object().expect("an object").iter(), major).expect("it is not deep")
    }

    #[test]
    fn mappings_keep_what_version_2_takes() {
        let check = |major: u32, mapping: Value, expected: Value, left_out: &[&str]| {
            let typed = mappings(&json!({ "post": mapping }), major);
            assert_eq!(typed.mappings["post"], expected);
            assert_eq!(
                typed.left_out.iter().map(String::as_str).collect::<Vec<_>>(),
                left_out,
                "{mapping}"
            );
        };
        check(
            1,
            json!({
                "_parent": { "type": "blog" }, "_routing": { "required": true, "path": "blog" }, "_all": { "enabled": false },
                "_timestamp": { "enabled": true, "store": true, "format": "dateOptionalTime", "path": "day" }, "_id": { "path": "key" },
                "_ttl": { "enabled": true, "default": 1000 },
                "properties": {
                    "title": { "type": "string", "index_analyzer": "paths", "postings_format": "direct",
                        "fields": { "raw": { "type": "string", "index": "not_analyzed", "path": "full" } } },
                },
            }),
            json!({
                "_parent": { "type": "blog" }, "_routing": { "required": true }, "_all": { "enabled": false },
                "_timestamp": { "enabled": true, "format": "dateOptionalTime||epoch_millis" }, "_ttl": { "enabled": true, "default": 1000 },
                "properties": {
                    "title": { "type": "string", "analyzer": "paths", "fields": { "raw": { "type": "string", "index": "not_analyzed" } } },
                },
            }),
            &["_id", "_routing.path", "_timestamp.path", "path", "postings_format"],
        );
        let of_2 = json!({ "_timestamp": { "enabled": "true" }, "properties": { "path": { "type": "string", "path": "full" } } });
        check(2, of_2.clone(), of_2, &[]);
    }

    #[test]
    fn types_agree_on_a_format() {
        let check = |formats: [Value; 2], expected: Value| {
            let types = formats.map(|format| json!({ "_timestamp": { "enabled": true, "format": format } }));
            let typed = mappings(&json!({ "a": types[0], "b": types[1], "c": {} }), 1);
            for name in ["a", "b"] {
                assert_eq!(typed.mappings[name]["_timestamp"]["format"], expected);
            }
        };
        check([json!("yyyy"), json!("yyyy")], json!("yyyy||epoch_millis"));
        check(
            [json!("yyyy"), Value::Null],
            json!("yyyy||epoch_millis||strict_date_optional_time"),
        );
    }

    #[test]
    fn a_mapping_that_is_too_deep_is_refused() {
        let mut field = json!({ "type": "long" });
        for _ in 0..=DEPTH_MAX {
            field = json!({ "properties": { "f": field } });
        }
        let types = json!({ "post": { "properties": { "f": field } } });
        let all = types.as_object().expect("an object").iter();
        assert!(TypedMappings::of(all, 1).is_err_and(|why| why.contains("deep")));
    }

    #[test]
    fn documents_keep_what_their_hits_say() {
        let typed = mappings(&json!({ "post": { "_timestamp": { "enabled": true } }, "user": {} }), 2);
        let plain = |doc_type| Metadata {
            id: "1",
            doc_type,
            ..Metadata::default()
        };
        let check = |of: Metadata<'_>, expected: Option<Value>, told: &[&str]| {
            let mut carried = Carried::at_moment(5000);
            let action = carried.action(of, &typed);
            assert_eq!(action.map(|action| action["index"].clone()), expected);
            let said = carried.report("i");
            assert_eq!(said.len(), told.len(), "{said:?}");
            said.iter()
                .zip(told)
                .for_each(|(said, part)| assert!(said.contains(part), "{said}"));
        };
        check(plain("user"), Some(json!({ "_type": "user", "_id": "1" })), &[]);
        check(
            plain("post"),
            Some(json!({ "_type": "post", "_id": "1" })),
            &["1 documents have a _timestamp that the source does not store"],
        );
        let child = Metadata {
            routing: Some("r"),
            parent: Some("p"),
            timestamp: Some(2000),
            ttl: Some(100),
            ..plain("post")
        };
        let expected = json!({ "_type": "post", "_id": "1", "routing": "r", "parent": "p", "_timestamp": "2000", "_ttl": 3100 });
        check(child, Some(expected), &[]);
        let mortal = Metadata {
            ttl: Some(100),
            ..plain("user")
        };
        check(mortal, Some(json!({ "_type": "user", "_id": "1", "_ttl": 100 })), &[]);
        let over = Metadata {
            ttl: Some(-1),
            ..plain("user")
        };
        check(over, None, &["1 documents were left out"]);
    }
}
