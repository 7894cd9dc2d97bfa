//! The text of a document to what a mapping reads: members that it would pass over do not become values.
//!
//! Not here: reading (`document`), checking the text that a client sent (`dsl`), which the caller has done.

use crate::mapping::{Dynamic, Mapping};
use crate::names::METADATA;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

impl Mapping {
    /// A source for [`Mapping::read`].
    ///
    /// # Errors
    /// It is not JSON.
    pub fn parse_source(&self, source: &[u8]) -> serde_json::Result<Value> {
        if !self.is_typed() && self.0.root.enabled != Some(false) && self.0.root.dynamic == Some(Dynamic::False) {
            let mut deserializer = serde_json::Deserializer::from_slice(source);
            let read = Known(self).deserialize(&mut deserializer);
            if let Ok(members) = read.and_then(|members| deserializer.end().map(|()| members)) {
                return Ok(Value::Object(members));
            }
            // Reading the whole words the error.
        }
        serde_json::from_slice(source)
    }

    /// Does reading look at a member of this name at the top, where what is unknown is passed over?
    fn looks_at(&self, name: &str) -> bool {
        name.as_bytes().contains(&b'.')
            || name.trim().is_empty()
            || name.starts_with('_') && METADATA.contains(&name)
            || self.0.leaf(name).is_some()
            || self.0.objects.contains_key(name)
    }
}

/// The members that are looked at.
struct Known<'a>(&'a Mapping);

impl<'de> DeserializeSeed<'de> for Known<'_> {
    type Value = Map<String, Value>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Known<'_> {
    type Value = Map<String, Value>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut out = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if self.0.looks_at(&name) {
                out.insert(name, members.next_value()?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Mapping, MappingLimits, ReadOptions};
    use analysis::Registry;
    use serde_json::{Value, json};

    /// The members read are those of the whole that matter; `expected` is how many became values.
    fn check(mapping: &Value, source: &str, expected: Result<usize, &str>) {
        let mapping = Mapping::parse(mapping, &Registry::default_registry(), &MappingLimits::default()).expect("a mapping");
        let value = match (mapping.parse_source(source.as_bytes()), expected) {
            (Ok(value), Ok(count)) => {
                assert_eq!(value.as_object().map_or(0, serde_json::Map::len), count, "{source}");
                value
            }
            (Err(error), Err(part)) => return assert!(error.to_string().contains(part), "{error}"),
            (got, expected) => panic!("{source}: {got:?} instead of {expected:?}"),
        };
        let options = ReadOptions::default();
        let read = |value: &Value| format!("{:?}", mapping.read(value, &options));
        assert_eq!(read(&value), read(&serde_json::from_str(source).expect("JSON")), "{source}");
    }

    #[test]
    fn what_is_passed_over_does_not_become_a_value() {
        let own = json!({ "dynamic": false, "properties": {
            "kind": { "type": "keyword" }, "at": { "type": "long" }, "o": { "properties": { "a": { "type": "keyword" } } } } });
        check(&own, r#"{"kind":"k","at":1,"x":{"y":[1,2]},"z":null}"#, Ok(2));
        check(&own, r#"{"o":{"a":"b","c":1},"o.a":"d","x.y":1," ":2}"#, Ok(4));
        check(&own, r#"{"_id":"1"}"#, Ok(1));
        check(&own, r#"{"kind":{"a":1}}"#, Ok(1));
        check(&own, "[1]", Ok(0));
        check(&own, r#"{"x":1"#, Err("EOF"));
        check(&own, r#"{"x":1}}"#, Err("trailing"));
        let dynamic = json!({ "properties": { "kind": { "type": "keyword" } } });
        check(&dynamic, r#"{"kind":"k","at":1}"#, Ok(2));
        let strict = json!({ "dynamic": "strict", "properties": { "kind": { "type": "keyword" } } });
        check(&strict, r#"{"kind":"k","at":1}"#, Ok(2));
    }
}
