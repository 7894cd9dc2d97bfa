//! Fields that a document brings: what a dynamic mapping makes of them, and dynamic templates.

use crate::mapping::{Dynamic, Mapping};
use crate::templates::{date_formats, name_and_body, patterns, regex};
use crate::wording::{java, mapper_parsing, text_of};
use model::date::{DateFormat, PatternSyntax};
use model::path::matches;
use model::{Error, Result, Topic};
use serde_json::{Map, Value, json};

/// The mapping that the unknown fields of a document need, `copies` being values for unknown targets.
pub(crate) fn grow(mapping: &Mapping, object: &Map<String, Value>, copies: &[(String, Value)]) -> Result<Mapping> {
    let top = &mapping.0.top;
    let syntax = PatternSyntax::of(mapping.rules().joda_patterns);
    let formats = match date_formats(top) {
        Some(formats) => formats
            .iter()
            .map(|f| Ok((f.clone(), DateFormat::parse_pattern_of(f, syntax)?)))
            .collect::<Result<_>>()?,
        None => Vec::new(),
    };
    let slashes = "yyyy/MM/dd HH:mm:ss||yyyy/MM/dd||epoch_millis";
    let mut growth = Growth {
        mapping,
        custom: date_formats(top).is_some(),
        formats,
        slashes: DateFormat::parse_pattern_of("yyyy/MM/dd HH:mm:ss||yyyy/MM/dd", syntax)?,
        slashes_text: slashes,
        date_detection: top.get("date_detection").is_none_or(|v| text_of(v) != "false"),
        numeric_detection: top.get("numeric_detection").is_some_and(|v| text_of(v) == "true"),
        templates: top
            .get("dynamic_templates")
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice),
        properties: Map::new(),
        added: 0,
    };
    growth.object(object, "", mapping.dynamic())?;
    for (target, value) in copies {
        growth.entry(target, value, "", mapping.dynamic())?;
    }
    let body = json!({"properties": growth.properties});
    let mut limits = mapping.0.limits.clone();
    limits.total_fields = usize::MAX;
    let parsed = Mapping::parse_in(&body, mapping.registry(), &limits, mapping.is_typed());
    // A type that only a template names was looked for when a document came.
    parsed.map_err(|error| match error.topic() {
        Some(Topic::FieldType { name, field }) if mapping.rules().mapping_refusal_words => {
            mapper_parsing(format!("failed to find type parsed [{name}] for [{field}]"))
        }
        _ => error,
    })
}

/// Null, an empty array, and arrays of such: nothing to make a field of.
pub(crate) fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().all(is_blank),
        _ => false,
    }
}

struct Growth<'a> {
    mapping: &'a Mapping,
    custom: bool,
    formats: Vec<(String, DateFormat)>,
    slashes: DateFormat,
    slashes_text: &'static str,
    date_detection: bool,
    numeric_detection: bool,
    templates: &'a [Value],
    properties: Map<String, Value>,
    /// How many of them.
    added: usize,
}

impl Growth<'_> {
    fn object(&mut self, object: &Map<String, Value>, prefix: &str, dynamic: Dynamic) -> Result<()> {
        object
            .iter()
            .try_for_each(|(key, value)| self.entry(key, value, prefix, dynamic))
    }

    fn entry(&mut self, key: &str, value: &Value, prefix: &str, dynamic: Dynamic) -> Result<()> {
        if let Some((head, tail)) = key.split_once('.') {
            let mut inner = Map::new();
            inner.insert(tail.to_owned(), value.clone());
            return self.entry(head, &Value::Object(inner), prefix, dynamic);
        }
        let path = if prefix.is_empty() {
            key.to_owned()
        } else {
            format!("{prefix}.{key}")
        };
        if path.matches('.').count() > self.mapping.0.limits.depth {
            return Err(Error::illegal(format!(
                "Limit of mapping depth [{}] has been exceeded due to object field [{path}]",
                self.mapping.0.limits.depth
            ))
            .with("setting", "index.mapping.depth.limit"));
        }
        if self.mapping.field(&path).is_some() {
            return Ok(());
        }
        match (self.mapping.object(&path), value) {
            (_, value) if is_blank(value) => Ok(()),
            (_, Value::Array(items)) => items.iter().try_for_each(|item| self.entry(key, item, prefix, dynamic)),
            (Some(info), Value::Object(object)) if info.enabled => self.object(object, &path, info.dynamic),
            (Some(_), _) => Ok(()),
            (None, _) if !matches!(dynamic, Dynamic::True | Dynamic::StrictAllowTemplates) => Ok(()),
            (None, value) if dynamic == Dynamic::StrictAllowTemplates && !self.has_template(key, &path, value) => {
                let within = if prefix.is_empty() { "_doc" } else { prefix };
                Err(crate::mapping::strict(dynamic, key, within))
            }
            (None, Value::Object(object)) => {
                let body = self
                    .template(key, &path, &["object"], "object")
                    .unwrap_or_else(|| json!({"type": "object"}));
                let is_object = matches!(body.get("type").and_then(Value::as_str), None | Some("object" | "nested"));
                let below = match body.get("dynamic").map(text_of).as_deref() {
                    Some("false") => Dynamic::False,
                    Some("strict") => Dynamic::Strict,
                    Some("strict_allow_templates") => Dynamic::StrictAllowTemplates,
                    _ => dynamic,
                };
                let enabled = body.get("enabled").is_none_or(|v| text_of(v) != "false");
                self.put(&path, body)?;
                if is_object && enabled {
                    self.object(object, &path, below)
                } else {
                    Ok(())
                }
            }
            (None, value) => {
                let body = self.scalar(key, &path, value);
                self.put(&path, body)
            }
        }
    }

    /// Whether a template is for a field with that value.
    fn has_template(&self, key: &str, path: &str, value: &Value) -> bool {
        let kinds: &[&str] = match value {
            Value::Object(_) => &["object"],
            Value::Bool(_) => &["boolean"],
            Value::Number(number) if number.is_f64() => &["double"],
            Value::Number(_) => &["long"],
            other => match self.date_detection && self.date(&text_of(other)).is_some() {
                true => &["date"],
                false => &["string"],
            },
        };
        self.template(key, path, kinds, "object").is_some()
    }

    /// The mapping of a new field with that value.
    fn scalar(&self, key: &str, path: &str, value: &Value) -> Value {
        let strings = self.mapping.rules().has_string_fields;
        let double = if strings { "double" } else { "float" };
        match value {
            Value::Bool(_) => self.simple(key, path, "boolean", "boolean"),
            Value::Number(number) if number.is_f64() => self.simple(key, path, "double", double),
            Value::Number(_) => self.simple(key, path, "long", "long"),
            other => {
                let text = text_of(other);
                if self.date_detection
                    && let Some(format) = self.date(&text)
                {
                    let mut body = self.simple(key, path, "date", "date");
                    if let (Some(format), Some(object)) = (format, body.as_object_mut())
                        && object.get("type").is_some_and(|t| t == "date")
                    {
                        // A pattern of several formats is printed in the first of them.
                        let first = format.split("||").next().unwrap_or_default().to_owned();
                        object.entry("format").or_insert(format.into());
                        object.entry("print_format").or_insert(first.into());
                    }
                    return body;
                }
                if self.numeric_detection {
                    if text.parse::<i64>().is_ok() {
                        return self.simple(key, path, "long", "long");
                    }
                    if text.parse::<f64>().is_ok_and(f64::is_finite) {
                        return self.simple(key, path, "double", double);
                    }
                }
                let dynamic_type = if strings { "string" } else { "text" };
                self.template(key, path, &["string"], dynamic_type).unwrap_or_else(|| {
                    if strings {
                        json!({"type": "string"})
                    } else {
                        json!({"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}})
                    }
                })
            }
        }
    }

    fn simple(&self, key: &str, path: &str, matched: &str, kind: &str) -> Value {
        self.template(key, path, &[matched], kind)
            .unwrap_or_else(|| json!({"type": kind}))
    }

    /// Whether a text is a date, and the format to map it with if it is not the default.
    fn date(&self, text: &str) -> Option<Option<String>> {
        // In 2015 only what has one of these could be a date.
        if self.mapping.rules().dates_have_separators && !text.contains([':', '-', '/']) {
            return None;
        }
        if self.custom {
            let (format, _) = self.formats.iter().find(|(_, format)| format.parse(text, None).is_ok())?;
            return Some(Some(format.clone()));
        }
        // A bare year or number is no date.
        if self.slashes.parse(text, None).is_ok() {
            return Some(Some(self.slashes_text.to_owned()));
        }
        let separators = |c: char| text.matches(c).count();
        let enough = if self.mapping.rules().dates_have_separators { 2 } else { 1 };
        if separators('-') < enough && separators(':') < enough || text.starts_with('-') {
            return None;
        }
        let iso = DateFormat::parse_pattern("strict_date_optional_time").ok()?;
        iso.parse(text, None).ok().map(|_| None)
    }

    /// The body of the first template that matches.
    fn template(&self, name: &str, path: &str, kinds: &[&str], dynamic_type: &str) -> Option<Value> {
        let (_, template) = self.templates.iter().filter_map(name_and_body).find(|(_, template)| {
            let wanted = template.get("match_mapping_type").map(text_of);
            let by_name = ["match", "unmatch", "path_match", "path_unmatch"]
                .iter()
                .any(|key| template.contains_key(*key));
            let kind_fits = match wanted.as_deref() {
                None => by_name,
                Some("*") => true,
                Some(wanted) => kinds.contains(&wanted),
            };
            let is_regex = template.get("match_pattern").is_some_and(|p| p == "regex");
            let hit = |key: &str, text: &str| {
                let patterns = patterns(template, key);
                let any = patterns.iter().any(|pattern| match is_regex && !key.starts_with("path") {
                    true => regex(pattern).is_ok_and(|regex| regex.is_match(text)),
                    false => matches(pattern, text),
                });
                (!patterns.is_empty()).then_some(any)
            };
            kind_fits
                && hit("match", name) != Some(false)
                && hit("unmatch", name) != Some(true)
                && hit("path_match", path) != Some(false)
                && hit("path_unmatch", path) != Some(true)
        })?;
        let mut body = fill_placeholders(template.get("mapping")?, name, dynamic_type);
        let object = body.as_object_mut()?;
        object.entry("type").or_insert_with(|| dynamic_type.into());
        // 2015 passed over what an object does not have.
        if self.mapping.rules().tolerates_mapping_mistakes && object.get("type").is_some_and(|t| t == "object" || t == "nested") {
            const OF_OBJECTS: &[&str] = &[
                "type",
                "properties",
                "dynamic",
                "enabled",
                "include_in_all",
                "include_in_parent",
                "include_in_root",
            ];
            object.retain(|key, _| OF_OBJECTS.contains(&key.as_str()));
        }
        Some(body)
    }

    fn put(&mut self, path: &str, body: Value) -> Result<()> {
        let refuse = |old: &Value, new: &Value| {
            let kind = |body: &Value| body.get("type").map_or_else(|| "object".to_owned(), text_of);
            let conflict = Error::illegal(format!(
                "mapper [{path}] cannot be changed from type [{}] to [{}]",
                kind(old),
                kind(new)
            ));
            match self.mapping.rules().document_refusal_words {
                true => mapper_parsing("failed to parse").with_cause(conflict),
                false => conflict,
            }
        };
        let mut at = &mut self.properties;
        let mut way = String::new();
        let mut segments = path.split('.').peekable();
        while let Some(segment) = segments.next() {
            way.push_str(if way.is_empty() { "" } else { "." });
            way.push_str(segment);
            if segments.peek().is_none() {
                match at.get(segment) {
                    None => {
                        self.added += 1;
                        if self.added > self.mapping.0.limits.total_fields {
                            return Err(self.mapping.0.limits.too_many());
                        }
                        at.insert(segment.to_owned(), body);
                    }
                    Some(known)
                        if known.get("type") == body.get("type")
                            || known.get("properties").is_some() && body.get("type").is_some_and(|t| t == "object") => {}
                    Some(known) => return Err(refuse(known, &body)),
                }
                return Ok(());
            }
            let kind = if self.mapping.is_nested(&way) { "nested" } else { "object" };
            let object = at.entry(segment).or_insert_with(|| json!({"type": kind}));
            let Some(object) = object.as_object_mut() else {
                return Err(Error::illegal(format!("[{way}] is no object: {}", java(&body))));
            };
            let properties = object.entry("properties").or_insert_with(|| json!({}));
            match properties.as_object_mut() {
                Some(properties) => at = properties,
                None => return Err(mapper_parsing("Expected map for property [properties]")),
            }
        }
        Ok(())
    }
}

/// A template's mapping with `{name}` and `{dynamic_type}` put in, keys and values.
fn fill_placeholders(value: &Value, name: &str, dynamic_type: &str) -> Value {
    let fill = |text: &str| {
        text.replace("{name}", name)
            .replace("{dynamic_type}", dynamic_type)
            .replace("{dynamicType}", dynamic_type)
    };
    match value {
        Value::String(text) => fill(text).into(),
        Value::Array(items) => items.iter().map(|item| fill_placeholders(item, name, dynamic_type)).collect(),
        Value::Object(object) => object
            .iter()
            .map(|(key, value)| (fill(key), fill_placeholders(value, name, dynamic_type)))
            .collect(),
        other => other.clone(),
    }
}
