use super::highlight;
use dsl::json::Node;
use dsl::query::{Parsing, Query};
use dsl::search::Highlight;
use mapping::{Mapping, MappingLimits, Registry};
use model::{Dialect, Result};
use serde_json::{Map, Value, json};

fn run(query: Value, request: Value) -> Result<Map<String, Value>> {
    let registry = Registry::default_registry();
    let body = json!({"properties": {"t": {"type": "text", "fields": {"raw": {"type": "keyword"}}}, "n": {"type": "integer"}}});
    let mapping = Mapping::parse(&body, &registry, &MappingLimits::default())?;
    let source = json!({"t": ["The quick brown fox. Quick <dogs> bark!", "A brown, quick one"], "n": 3});
    let dialect = Dialect::default();
    let query = Query::parse(Node::from_value(query), &mut Parsing::new(dialect))?;
    let request = Highlight::parse(Node::from_value(request), dialect)?;
    highlight(&source, None, &request, &query, &mapping, &registry, 1_000_000)
}

fn check(query: Value, request: Value, expected: Value) {
    let got = match run(query.clone(), request.clone()) {
        Ok(found) => Value::Object(found),
        Err(error) => error.reason().into(),
    };
    assert_eq!(got, expected, "{query} {request}");
}

#[test]
fn fragments() {
    let phrase = json!({"match_phrase": {"t": "quick brown"}});
    check(
        phrase.clone(),
        json!({"fields": {"t": {}}}),
        json!({"t": ["The <em>quick</em> <em>brown</em> fox. Quick <dogs> bark!"]}),
    );
    check(
        json!({"match_phrase": {"t": {"query": "quick brown", "slop": 2}}}),
        json!({"fields": {"t": {"number_of_fragments": 0}}}),
        json!({"t": ["The <em>quick</em> <em>brown</em> fox. <em>Quick</em> <dogs> bark!", "A <em>brown</em>, <em>quick</em> one"]}),
    );
    check(
        json!({"wildcard": {"t": "d?g*"}}),
        json!({"fields": {"t": {"type": "plain", "fragment_size": 10}}, "encoder": "html", "tags_schema": "styled"}),
        json!({"t": [" &lt;<em class=\"hlt1\">dogs</em>&gt; bark!"]}),
    );
    check(
        json!({"match": {"t": "cat"}}),
        json!({"fields": {"t": {"no_match_size": 5}}}),
        json!({"t": ["The quick"]}),
    );
    check(
        json!({"bool": {"must_not": {"match": {"t": "fox"}}}}),
        json!({"fields": {"*": {}}}),
        json!({}),
    );
    check(phrase.clone(), json!({"fields": {"absent": {}}}), json!({}));
    check(
        phrase.clone(),
        json!({"fields": {"t": {"type": "x"}}}),
        "unknown highlighter type [x] for the field [t]".into(),
    );
    check(
        phrase,
        json!({"fields": {"t": {"type": "fvh"}}}),
        "the field [t] should be indexed with term vector with position offsets to be used with fast vector highlighter".into(),
    );
    check(
        json!({"query_string": {"query": "t:(Do* OR fax~1)"}}),
        json!({"fields": {"t": {"fragment_size": 25}}}),
        json!({"t": ["The quick brown <em>fox</em>.", "Quick <<em>dogs</em>> bark!"]}),
    );
}
