//! Mappings and documents as data: what goes in, what must come out.

use mapping::{Mapping, MappingLimits, ReadOptions, Registry, TypedMappings};
use serde_json::{Value, json};

fn mapping(body: Value) -> Mapping {
    Mapping::parse(&body, &Registry::default_registry(), &MappingLimits::default()).unwrap_or_else(|e| panic!("{body}: {e}"))
}

fn check_merge(old: Value, update: Value, expected: Result<Value, &str>) {
    let got = mapping(old.clone()).merge(&mapping(update.clone())).map(|m| m.render());
    assert_eq!(
        got.as_ref().map_err(|e| e.reason()),
        expected.as_ref().map_err(|e| *e),
        "{old} + {update}"
    );
}

#[test]
fn merges() {
    let a = || json!({"properties": {"a": {"type": "text"}}});
    check_merge(
        a(),
        json!({"properties": {"a": {"type": "long"}}}),
        Err("mapper [a] cannot be changed from type [text] to [long]"),
    );
    check_merge(
        a(),
        json!({"properties": {"a": {"type": "text", "analyzer": "english"}}}),
        Err("Mapper for [a] conflicts with existing mapper:\n\tCannot update parameter [analyzer] from [default] to [english]"),
    );
    check_merge(
        a(),
        json!({"properties": {"x.y": {"type": "date"}, "a": {"type": "text", "fields": {"raw": {"type": "keyword"}}}}}),
        Ok(
            json!({"properties": {"a": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
            "x": {"properties": {"y": {"type": "date"}}}}}),
        ),
    );
}

fn check_grow(body: Value, document: Value, expected: Result<Value, &str>) {
    let old = mapping(body.clone());
    let got = old
        .read(
            &document,
            &ReadOptions {
                id: "1",
                ..ReadOptions::default()
            },
        )
        .map(|parsed| match parsed.growth {
            Some(growth) => old.merge(&growth).unwrap_or_else(|e| panic!("{document}: {e}")).render(),
            None => old.render(),
        });
    assert_eq!(
        got.as_ref().map_err(|e| e.reason()),
        expected.as_ref().map_err(|e| *e),
        "{body} {document}"
    );
}

#[test]
fn grows() {
    let text = json!({"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}});
    check_grow(
        json!({}),
        json!({"s": "x", "n": 1, "f": 1.5, "b": true, "d": "2020-01-01", "m": "2020-01", "y": "2020", "u": "2020-1-1", "sl": "2020/01/01",
            "o": {"p.q": [1]}, "none": null, "empty": []}),
        Ok(
            json!({"properties": {"b": {"type": "boolean"}, "d": {"type": "date"}, "f": {"type": "float"}, "m": {"type": "date"},
            "n": {"type": "long"}, "o": {"properties": {"p": {"properties": {"q": {"type": "long"}}}}}, "s": text,
            "sl": {"type": "date", "format": "yyyy/MM/dd HH:mm:ss||yyyy/MM/dd||epoch_millis", "print_format": "yyyy/MM/dd HH:mm:ss"},
            "u": text, "y": text}}),
        ),
    );
    check_grow(json!({"dynamic": false}), json!({"a": 1}), Ok(json!({"dynamic": "false"})));
    check_grow(
        json!({"dynamic": "strict"}),
        json!({"oops": 1}),
        Err("mapping set to strict, dynamic introduction of [oops] within [_doc] is not allowed"),
    );
    check_grow(
        json!({"properties": {"n": {"type": "long"}}}),
        json!({"n": "abc"}),
        Err("failed to parse field [n] of type [long] in document with id '1'. Preview of field's value: 'abc'"),
    );
    check_grow(
        json!({"properties": {"o": {"properties": {"a": {"type": "long"}}}}}),
        json!({"o": 1}),
        Err("object mapping for [o] tried to parse field [o] as object, but found a concrete value"),
    );
    check_grow(
        json!({"dynamic_templates": [{"ids": {"match": "*_id", "mapping": {"type": "long"}}}]}),
        json!({"user_id": "5"}),
        Ok(
            json!({"dynamic_templates": [{"ids": {"match": "*_id", "mapping": {"type": "long"}}}],
            "properties": {"user_id": {"type": "long"}}}),
        ),
    );
    check_grow(
        json!({}),
        json!({"mixed": [1, 2.5]}),
        Err("mapper [mixed] cannot be changed from type [long] to [float]"),
    );
}

#[test]
fn nested_blocks_have_children_first() {
    let m = mapping(
        json!({"properties": {"c": {"type": "nested", "properties": {"n": {"type": "long"},
        "d": {"type": "nested", "properties": {"k": {"type": "keyword"}}}}}}}),
    );
    let parsed = m
        .read(
            &json!({"c": [{"n": 1, "d": [{"k": "x"}, {"k": "y"}]}, {"n": 2}]}),
            &ReadOptions::default(),
        )
        .unwrap();
    let got: Vec<_> = parsed.nested.iter().map(|n| (n.path.as_str(), n.parent, n.offset)).collect();
    assert_eq!(
        got,
        [("c.d", Some(2), 0), ("c.d", Some(2), 1), ("c", None, 0), ("c", None, 1)]
    );
    assert_eq!(m.nested_path_of("c.d.k"), Some("c.d"));
}

#[test]
fn typed() {
    let body = json!({"t": {"properties": {"a": {"type": "string", "index": "not_analyzed"}, "d": {"type": "date"}}}});
    let types = TypedMappings::parse(&body, &Registry::default_registry(), &MappingLimits::default()).unwrap();
    let expected = json!({"t": {"properties": {"a": {"type": "string", "index": "not_analyzed"},
        "d": {"type": "date", "format": "strict_date_optional_time||epoch_millis"}}}});
    assert_eq!(types.render(), expected);
    // A default that comes later is for types to come. A start reads them as they are.
    let later = types
        .put(
            "_default_",
            &json!({"_all": {"enabled": false}, "properties": {"later": {"type": "long"}}}),
        )
        .unwrap()
        .put("u", &json!({"_all": {"enabled": true}}))
        .unwrap();
    let rendered = later.render();
    assert_eq!(rendered["t"], expected["t"]);
    assert_eq!(rendered["u"]["properties"]["later"]["type"], "long");
    let read = TypedMappings::parse_rendered(&rendered, &Registry::default_registry(), &MappingLimits::default()).unwrap();
    assert_eq!(read.render(), rendered);
    let e = types.put("u", &json!({"properties": {"a": {"type": "long"}}})).unwrap_err();
    assert_eq!(e.reason(), "mapper [a] cannot be changed from type [string] to [long]");
}
