//! Rows of requests with what becomes of them.

use super::{Parsing, Query, parse_query_bytes};
use crate::json::{self, Node, Reading};
use model::{Dialect, Persona};
use serde_json::{Value, json};

fn modern() -> Dialect {
    Dialect::of(Persona::Opensearch2)
}

fn typed() -> Dialect {
    Dialect::of(Persona::Es2)
}

/// The rendering, or the refusal as text.
fn read(text: &str, dialect: Dialect) -> Value {
    match parse_query_bytes(text.as_bytes(), dialect) {
        Ok(query) => {
            let rendered = query.render();
            let again = Query::parse(Node::from_value(rendered.clone()), &mut Parsing::new(dialect)).expect(text);
            assert_eq!(again, query, "{text} as {rendered}");
            rendered
        }
        Err(error) => json!(error.to_string()),
    }
}

fn check(text: &str, expected: Value) {
    assert_eq!(read(text, modern()), expected, "{text}");
}

fn check_typed(text: &str, expected: Value) {
    assert_eq!(read(text, typed()), expected, "{text}");
}

fn same(text: &str) {
    check(text, serde_json::from_str(text).unwrap());
}

#[test]
fn rendered_as_they_are() {
    same(r#"{"match_all":{"boost":2}}"#);
    same(r#"{"match_none":{}}"#);
    same(r#"{"range":{"a":{"gte":1,"lt":"x","format":"yyyy","time_zone":"+01:00","relation":"within","boost":3,"_name":"r"}}}"#);
    same(r#"{"exists":{"field":"a","_name":"n"}}"#);
    same(r#"{"wildcard":{"a":{"value":"x*","case_insensitive":true,"rewrite":"constant_score"}}}"#);
    same(r#"{"regexp":{"a":{"value":"x.*","flags":"ALL","max_determinized_states":20}}}"#);
    same(r#"{"fuzzy":{"a":{"value":"x","fuzziness":"AUTO:2,5","prefix_length":1,"max_expansions":9,"transpositions":false}}}"#);
    same(r#"{"ids":{"values":["1","2"]}}"#);
    same(
        r#"{"match":{"a":{"query":"b","operator":"and","minimum_should_match":"75%","fuzziness":1,"zero_terms_query":"all","lenient":true}}}"#,
    );
    same(r#"{"match_bool_prefix":{"a":{"query":"b"}}}"#);
    same(r#"{"match_phrase":{"a":{"query":"b","slop":2,"analyzer":"english"}}}"#);
    same(r#"{"match_phrase_prefix":{"a":{"query":"b","max_expansions":3}}}"#);
    same(r#"{"multi_match":{"query":"b","fields":["a^2","c"],"type":"most_fields","tie_breaker":0.3}}"#);
    same(r#"{"bool":{"must":[{"match_all":{}}],"should":[{"exists":{"field":"a"}}],"minimum_should_match":"1","boost":0.5}}"#);
    same(r#"{"boosting":{"positive":{"match_all":{}},"negative":{"match_none":{}},"negative_boost":0.2}}"#);
    same(r#"{"constant_score":{"filter":{"match_all":{}},"boost":1.5}}"#);
    same(r#"{"dis_max":{"queries":[{"match_all":{}}],"tie_breaker":0.7}}"#);
    same(r#"{"script_score":{"query":{"match_all":{}},"script":{"source":"1","params":{"a":1}},"min_score":2}}"#);
    same(r#"{"script":{"script":{"id":"x","lang":"painless"}}}"#);
    same(r#"{"query_string":{"query":"a b","fields":["a"],"default_operator":"and","phrase_slop":2}}"#);
    same(r#"{"simple_query_string":{"query":"a b","flags":"AND|OR"}}"#);
    same(r#"{"nested":{"path":"a","query":{"match_all":{}},"score_mode":"max","ignore_unmapped":true}}"#);
    same(r#"{"has_child":{"type":"a","query":{"match_all":{}},"score_mode":"sum","min_children":2,"max_children":3}}"#);
    same(r#"{"has_parent":{"parent_type":"a","query":{"match_all":{}},"score":true}}"#);
    same(r#"{"parent_id":{"type":"a","id":"1"}}"#);
    same(r#"{"join":{"index":["a"],"on":{"b":"c"},"query":{"match_all":{}},"type":"anti","score_mode":"max"}}"#);
    same(r#"{"terms":{"a":{"index":"i","id":"1","path":"p"}}}"#);
    same(r#"{"terms":{"a":{"index":"i","path":"p","query":{"match_all":{}}}}}"#);
    same(r#"{"span_near":{"clauses":[{"span_term":{"a":{"value":"b"}}}],"slop":0,"in_order":true}}"#);
    same(
        r#"{"span_not":{"include":{"span_term":{"a":{"value":"b"}}},"exclude":{"span_multi":{"match":{"prefix":{"a":{"value":"c"}}}}},"pre":1,"post":0}}"#,
    );
    same(
        r#"{"intervals":{"a":{"all_of":{"intervals":[{"match":{"query":"b c","max_gaps":-1,"mode":"unordered"}},{"prefix":{"prefix":"d"}}],"max_gaps":2,"mode":"ordered"}}}}"#,
    );
    same(r#"{"terms_set":{"a":{"terms":["b"],"minimum_should_match_field":"n"}}}"#);
    same(r#"{"distance_feature":{"field":"a","origin":"now","pivot":"7d"}}"#);
    same(r#"{"geo_bounding_box":{"a":{"top":2.0,"left":1.0,"bottom":1.0,"right":2.0}}}"#);
    same(
        r#"{"function_score":{"query":{"match_all":{}},"functions":[{"filter":{"exists":{"field":"a"}},"weight":2},{"random_score":{"seed":1,"field":"f"}},{"field_value_factor":{"field":"a","factor":2,"modifier":"log1p","missing":1.0}},{"gauss":{"d":{"origin":1,"scale":"2d","decay":0.5},"multi_value_mode":"max"}}],"score_mode":"sum","boost_mode":"replace"}}"#,
    );
}

#[test]
fn short_forms() {
    check(r#"{"term":{"a":1}}"#, json!({"term": {"a": {"value": 1}}}));
    check(r#"{"match":{"a":"b"}}"#, json!({"match": {"a": {"query": "b"}}}));
    check(
        r#"{"range":{"a":{"from":1,"to":2,"include_upper":false}}}"#,
        json!({"range": {"a": {"gte": 1, "lt": 2}}}),
    );
    check(
        r#"{"terms":{"a":[1,"b"],"boost":2}}"#,
        json!({"terms": {"a": [1, "b"], "boost": 2}}),
    );
    check(
        r#"{"bool":{"filter":{"match_all":{}}}}"#,
        json!({"bool": {"filter": [{"match_all": {}}]}}),
    );
    check(
        r#"{"wrapper":{"query":"eyJtYXRjaF9hbGwiOnt9fQ=="}}"#,
        json!({"match_all": {}}),
    );
    check(
        r#"{"join":{"indices":"a,b","on":{"x":"y"},"request":{"query":{"match_all":{}}}}}"#,
        json!({"join": {"index": ["a", "b"], "on": {"x": "y"}, "query": {"match_all": {}}}}),
    );
    check(
        r#"{"function_score":{"script_score":{"script":"1"}}}"#,
        json!({"function_score": {"query": {"match_all": {}}, "functions": [{"script_score": {"script": {"source": "1"}}}]}}),
    );
}

#[test]
fn refusals() {
    let no = |text: &str, sentence: &str| check(text, json!(sentence));
    no(
        r#"{"matsch": {"a": "x"}}"#,
        "parsing_exception: unknown query [matsch] did you mean [match]?",
    );
    no(r#"{"nothing": {}}"#, "parsing_exception: unknown query [nothing]");
    no(
        r#"{"match": {"a": {"query": "x", "oops": 1}}}"#,
        "parsing_exception: [match] query does not support [oops]",
    );
    no(
        r#"{"match": {"a": {}}}"#,
        "parsing_exception: No text specified for text query",
    );
    no(
        r#"{"match": "x"}"#,
        "parsing_exception: [match] query malformed, no start_object after query name",
    );
    no(
        r#"{"match": {"a": "x", "b": "y"}}"#,
        "parsing_exception: [match] query doesn't support multiple fields, found [a] and [b]",
    );
    no(
        r#"{"term": {"a": ["b"]}}"#,
        "parsing_exception: [term] query does not support array of values",
    );
    no(
        r#"{"range": {"n": 5}}"#,
        "parsing_exception: [range] query does not support [n]",
    );
    no(
        r#"{"range": {"n": {"gte": 1, "relation": "around"}}}"#,
        "illegal_argument_exception: around is not a valid relation",
    );
    no(
        r#"{"exists": {"path": "x"}}"#,
        "parsing_exception: [exists] query does not support [path]",
    );
    no(
        r#"{"ids": {"value": ["x"]}}"#,
        "parsing_exception: [1:10] [ids] unknown field [value] did you mean [values]?",
    );
    no(
        r#"{"bool": {"must": [{"nothing": {}}]}}"#,
        "x_content_parse_exception: [1:32] [bool] failed to parse field [must]",
    );
    no(
        r#"{"dis_max": {}}"#,
        "parsing_exception: [dis_max] requires 'queries' field with at least one clause",
    );
    no(
        r#"{"dis_max": {"queries": []}}"#,
        "parsing_exception: [_na] query malformed, must start with start_object",
    );
    no(
        r#"{"constant_score": {"query": {}}}"#,
        "parsing_exception: [constant_score] query does not support [query]",
    );
    no(
        r#"{"constant_score": {"filter": []}}"#,
        "parsing_exception: unexpected token [START_ARRAY]",
    );
    no(
        r#"{"match_all": {"oops": 1}}"#,
        "parsing_exception: [1:16] [match_all] unknown field [oops]",
    );
    no(
        r#"{"match_all": []}"#,
        "parsing_exception: [match_all] query malformed, no start_object after query name",
    );
    no("{}", "illegal_argument_exception: query malformed, empty clause found");
    no(
        r#"{"query_string": {}}"#,
        "parsing_exception: [query_string] must be provided with a [query]",
    );
    no(
        r#"{"multi_match": {"query": "x", "type": "worst"}}"#,
        "parse_exception: failed to parse [multi_match] query type [worst]. unknown type.",
    );
    no(
        r#"{"multi_match": {"query": "x", "type": "phrase", "fuzziness": 1}}"#,
        "parsing_exception: Fuzziness not allowed for type [phrase]",
    );
    no(
        r#"{"nested": {"query": {"match_all": {}}}}"#,
        "illegal_argument_exception: [nested] requires 'path' field",
    );
    no(
        r#"{"has_child": {"type": "f"}}"#,
        "illegal_argument_exception: [has_child] requires 'query' field",
    );
    no(
        r#"{"function_score": {"functions": [{"linear": {"a": {}}, "exp": {"a": {}}}]}}"#,
        "parsing_exception: failed to parse function_score functions. already found [linear], now encountering [exp].",
    );
    no(
        r#"{"function_score": {"weight": 2, "random_score": {}}}"#,
        "parsing_exception: failed to parse [function_score] query. already found function [weight], now encountering [random_score]. use [functions] array if you want to define several functions.",
    );
}

#[test]
fn of_2015() {
    let term = json!({"term": {"a": {"value": 1}}});
    check_typed(
        "{filtered: {filter: {term: {a: 1}}}}",
        json!({"constant_score": {"filter": term}}),
    );
    check_typed("{filtered: {}}", json!({"match_all": {}}));
    check_typed(
        "{filtered: {query: {match_all: {}}, filter: {}}}",
        json!({"bool": {"must": [{"match_all": {}}]}}),
    );
    check_typed("{and: [{term: {a: 1}}]}", json!({"bool": {"filter": [term]}}));
    check_typed(
        "{or: {filters: [{term: {a: 1}}]}}",
        json!({"bool": {"should": [term], "minimum_should_match": "1"}}),
    );
    check_typed("{not: {term: {a: 1}}}", json!({"bool": {"must_not": [term]}}));
    check_typed("{not: {filter: {term: {a: 1}}}}", json!({"bool": {"must_not": [term]}}));
    check_typed(
        "{missing: {field: 'a'}}",
        json!({"bool": {"must_not": [{"exists": {"field": "a"}}]}}),
    );
    check_typed("{limit: {value: 1}}", json!({"match_all": {}}));
    check_typed("{term: {a: 1, _cache: true}}", term.clone());
    check_typed("{query: {term: {a: 1}}}", term.clone());
    check_typed("{in: {a: [1]}}", json!({"terms": {"a": [1]}}));
    check_typed("{terms: {a: [1], execution: 'and'}}", json!({"terms": {"a": [1]}}));
    check_typed(
        "{match: {a: {query: 'x', type: 'phrase', slop: 1}}}",
        json!({"match_phrase": {"a": {"query": "x", "slop": 1}}}),
    );
    check_typed(
        "{ids: {type: 'p', values: ['1']}}",
        json!({"ids": {"type": ["p"], "values": ["1"]}}),
    );
    check_typed("{}", json!({"match_none": {}}));
    check_typed(
        "{nosuch: {}}",
        json!("query_parsing_exception: No query registered for [nosuch]"),
    );
    check_typed(
        "{function_score: {script_score: {script: '_score * 2', params: {a: 1}, lang: 'groovy'}}}",
        json!({"function_score": {"query": {"match_all": {}}, "functions": [
            {"script_score": {"script": {"inline": "_score * 2", "lang": "groovy", "params": {"a": 1}}}}]}}),
    );
    check_typed("{template: {query: '{\"term\": {\"a\": {{x}} }}', params: {x: 1}}}", term);
}

#[test]
fn json_sentences() {
    let no = |text: &str, expected: &str| {
        let error = json::read(text.as_bytes(), Reading::default()).expect_err(text);
        assert!(error.to_string().starts_with(expected), "{text}: {error}");
        assert_eq!(json::check(text.as_bytes(), Reading::default()).expect_err(text), error);
    };
    no(
        r#"{"query": {"match": {"subject": "x"}"#,
        "json_e_o_f_exception: [1:37] unexpected end of the body, expected [}] of the object that begins at [1:11]",
    );
    no(
        "not json",
        "json_parse_exception: [1:1] unexpected word [not], expected a string",
    );
    no(
        r#"{"query": {"match_all": {}},}"#,
        "json_parse_exception: [1:29] unexpected [}], expected [\"], which begins the name of a field",
    );
    no("{'query': {}}", "json_parse_exception: [1:2] unexpected ['], expected");
    no(
        r#"{"query": {"match_all": {}}, "query": {}}"#,
        "json_parse_exception: [1:37] duplicate field [query]",
    );
    no(
        "{\"query\":\u{1}{}}",
        "json_parse_exception: [1:11] unexpected control character [1]",
    );
    no(
        &"[".repeat(100_000),
        "json_parse_exception: [1:129] Document nesting depth (129) exceeds",
    );
    no("1e999", "json_parse_exception: [1:1] the number is out of the range");
    assert!(json::read(b"\"\xff\"", Reading::default()).is_err());
    let lenient = Reading {
        lenient: true,
        ..Reading::default()
    };
    let node = json::read(b"# c\n{a: 'b', /* x */ \"c\": \"d\ne\" // y\n} and more", lenient).unwrap();
    assert_eq!(node.to_value(), json!({"a": "b", "c": "d\ne"}));
}

#[test]
fn never_panics() {
    let deep = |n: usize| {
        let (open, close) = ("{\"bool\":{\"must\":".repeat(n), "}}".repeat(n));
        format!("{open}{{\"match_all\":{{}}}}{close}")
    };
    assert!(parse_query_bytes(deep(29).as_bytes(), modern()).is_ok());
    let refused = parse_query_bytes(deep(30).as_bytes(), modern()).unwrap_err();
    assert!(
        refused.root().reason().contains("indices.query.max_nested_depth"),
        "{refused}"
    );
    // Programs of 2015 nest more, and a node may allow more.
    assert!(parse_query_bytes(deep(60).as_bytes(), typed()).is_ok());
    let mut roomy = modern();
    roomy.depths.queries = 61;
    assert!(parse_query_bytes(deep(60).as_bytes(), roomy).is_ok());
    let deeper = format!("{}{{}}{}", "{\"not\":".repeat(100_000), "}".repeat(100_000));
    assert_eq!(parse_query_bytes(deeper.as_bytes(), typed()).unwrap_err().status(), 400);
    let words = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"bool\"",
        "\"must\"",
        "\"a\"",
        "1",
        "-",
        "null",
        "true",
        "\"",
        "\\u12",
        "term",
        "\"match\"",
        "'",
        "/*",
        "é",
        "1e",
        " ",
        "\"query\"",
        "{\"match\":{\"a\":",
        "{\"filtered\":{\"filter\":",
        "{\"function_score\":{",
        "\"functions\":[",
        "\"gauss\":{",
        "}}",
        "{\"terms\":{",
    ];
    let mut seed = 3u64;
    for _ in 0..30_000 {
        let mut text = String::new();
        for _ in 0..14 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.push_str(words[(seed >> 33) as usize % words.len()]);
        }
        for dialect in [modern(), typed()] {
            let _ = parse_query_bytes(text.as_bytes(), dialect);
        }
        let how = Reading::default();
        assert_eq!(
            json::check(text.as_bytes(), how).is_ok(),
            json::read(text.as_bytes(), how).is_ok()
        );
    }
}

/// Clauses are counted before they are read: what comes behind the limit is not looked at.
#[test]
fn clauses_are_counted_as_they_are_parsed() {
    let of = |most: Option<u32>, text: &str| {
        let dialect = Dialect {
            clauses_max: most,
            ..Dialect::default()
        };
        let node = crate::json::read(text.as_bytes(), crate::json::Reading::default()).expect(text);
        Query::parse(node, &mut Parsing::new(dialect)).err().map(|error| error.kind())
    };
    let too_many = Some(model::ErrorKind::TooManyClauses);
    let all = r#"{"match_all":{}}"#;
    for (before, after) in [
        (r#"{"bool":{"should":["#, "]}}"),
        (r#"{"bool":{"filter":["#, "]}}"),
        (r#"{"dis_max":{"queries":["#, "]}}"),
        (r#"{"constant_score":{"filter":{"bool":{"must":["#, "]}}}}"),
    ] {
        let three = format!("{before}{all},{all},{all}{after}");
        let broken = format!("{before}{all},{all},{all},{{\"no_such_query\":{{}}}}{after}");
        assert_eq!(of(Some(3), &three), None, "{three}");
        assert_eq!(of(Some(2), &three), too_many, "{three}");
        assert_eq!(of(Some(3), &broken), too_many, "{broken}");
        assert_ne!(of(None, &broken), too_many, "{broken}");
    }
    // Clauses of bools inside of bools count too, as in planning.
    let nested = format!(r#"{{"bool":{{"must":[{{"bool":{{"must":[{all},{all}]}}}}]}}}}"#);
    assert_eq!((of(Some(3), &nested), of(Some(2), &nested)), (None, too_many));
}

#[test]
fn every_clause_has_one_row() {
    let names: Vec<&str> = super::clauses::ClauseSpec::names().collect();
    for name in &names {
        assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
        // Its row is found, so a value of the wrong kind is refused as such.
        let refusal = format!("[{name}] query malformed, no start_object after query name");
        let Value::String(found) = read(&format!(r#"{{"{name}":5}}"#), modern()) else {
            panic!("{name}: 5 is a query");
        };
        assert!(found.contains(&refusal), "{name}: {found}");
    }
}
