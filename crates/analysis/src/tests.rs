//! Rows of real answers: what Elasticsearch makes of these texts.

use crate::{AnalyzeParts, Registry};
use serde_json::{Value, json};

fn shown(analyzer: &crate::Analyzer, text: &str) -> String {
    let tokens: Vec<String> = analyzer
        .analyze(text)
        .iter()
        .map(|t| format!("{}|{}-{}@{}", t.term, t.start, t.end, t.position))
        .collect();
    tokens.join(" ")
}

/// A built-in analyzer's name, or the parts of one.
fn check(analyzer: Value, text: &str, expected: &str) {
    let registry = Registry::default_registry();
    let list = |key: &str| analyzer[key].as_array().cloned().unwrap_or_default();
    let made = match analyzer.as_str() {
        Some(name) => registry.analyzer(name).unwrap(),
        None => registry
            .custom(&AnalyzeParts {
                tokenizer: analyzer.get("tokenizer").cloned(),
                filters: list("filter"),
                char_filters: list("char_filter"),
            })
            .unwrap(),
    };
    assert_eq!(shown(&made, text), expected, "{analyzer} of {text}");
}

#[test]
fn analyzers() {
    check(
        json!("standard"),
        "The 2 Brown-Foxes dog's",
        "the|0-3@0 2|4-5@1 brown|6-11@2 foxes|12-17@3 dog's|18-23@4",
    );
    check(
        json!("standard"),
        "a:b 1,000 x_y __ 東京",
        "a:b|0-3@0 1,000|4-9@1 x_y|10-13@2 東|17-20@3 京|20-23@4",
    );
    check(json!("standard"), "", "");
    check(json!("keyword"), "", "|0-0@0");
    check(json!("simple"), "HTTPServer2Go", "httpserver|0-10@0 go|11-13@1");
    check(json!("english"), "The lazy dogs jumped", "lazi|4-8@1 dog|9-13@2 jump|14-20@3");
    check(
        json!("french"),
        "l'avion d'été organisation",
        "avion|0-7@0 été|8-15@1 organ|16-28@2",
    );
    check(json!("german"), "die Häuser großen", "haus|4-11@1 gross|12-19@2");
    check(json!("spanish"), "los libros rápidos", "libr|4-10@1 rapid|11-19@2");
    check(json!("fingerprint"), "b a b", "a b|0-5@0");
    check(
        json!("pattern"),
        "co-operate d'x",
        "co|0-2@0 operate|3-10@1 d|11-12@2 x|13-14@3",
    );
}

#[test]
fn tokenizers() {
    let path = |options: Value| {
        let mut inline = json!({"type": "path_hierarchy"});
        inline.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        json!({ "tokenizer": inline })
    };
    check(path(json!({})), "/a/b/c", "/a|0-2@0 /a/b|0-4@0 /a/b/c|0-6@0");
    check(
        path(json!({"delimiter": "-", "replacement": "/", "skip": 1})),
        "one-two-three",
        "/two|3-7@0 /two/three|3-13@0",
    );
    check(
        path(json!({"delimiter": ".", "reverse": true})),
        "a.b.c",
        "a.b.c|0-5@0 b.c|2-5@0 c|4-5@0",
    );
    check(path(json!({"reverse": true, "skip": "2"})), "a/b//c/", "a/b/|0-4@0 b/|2-4@0");
    check(
        json!({"tokenizer": {"type": "standard", "max_token_length": 4}}),
        "ab.cdef",
        "ab.c|0-4@0 def|4-7@1",
    );
    check(
        json!({"tokenizer": {"type": "nGram", "min_gram": 2, "max_gram": 3}}),
        "abc",
        "ab|0-2@0 abc|0-3@1 bc|1-3@2",
    );
    check(json!({"tokenizer": "edgeNGram"}), "ab", "a|0-1@0");
    check(
        json!({"tokenizer": "uax_url_email"}),
        "a@b.com https://x.org/y",
        "a@b.com|0-7@0 https://x.org/y|8-23@1",
    );
}

#[test]
fn filters() {
    let with = |filter: Value| json!({"tokenizer": "whitespace", "filter": [filter]});
    check(
        with(json!({"type": "multiplexer", "filters": ["word_delimiter", "lowercase"]})),
        "Foo-Bar x",
        "Foo-Bar|0-7@0 Foo|0-3@0 Bar|4-7@1 foo-bar|0-7@1 x|8-9@2",
    );
    check(
        json!({"tokenizer": "whitespace", "filter": [
            {"type": "stop", "stopwords": ["the"]},
            {"type": "multiplexer", "filters": ["lowercase", "lowercase, porter_stem"], "preserve_original": false}]}),
        "the Walking x",
        "walking|4-11@1 walk|4-11@1 x|12-13@2",
    );
    check(
        with(json!({"type": "synonym", "synonyms": ["x, y z", "b c => d"]})),
        "x b c e",
        "x|0-1@0 y|0-1@0 z|2-3@1 d|2-5@1 e|6-7@2",
    );
    check(
        with(json!({"type": "synonym_graph", "synonyms": ["brown fox, bf"]})),
        "brown fox run",
        "bf|0-9@0 brown|0-5@0 fox|6-9@1 run|10-13@2",
    );
    check(with(json!("shingle")), "a b c", "a|0-1@0 a b|0-3@0 b|2-3@1 b c|2-5@1 c|4-5@2");
    check(
        with(json!({"type": "word_delimiter_graph", "catenate_all": true})),
        "Wi-Fi x",
        "WiFi|0-5@0 Wi|0-2@0 Fi|3-5@1 x|6-7@2",
    );
    check(with(json!("unique")), "b a b c", "b|0-1@0 a|2-3@1 c|6-7@2");
    check(with(json!("asciifolding")), "Łódź ß", "Lodz|0-7@0 ss|8-10@1");
    check(
        json!({"char_filter": ["html_strip"], "tokenizer": "standard"}),
        "<b>x</b> &amp; y",
        "x|3-8@0 y|15-16@1",
    );
}

fn refuses(analysis: Value, expected: &str) {
    assert_eq!(Registry::from_settings(&analysis).unwrap_err().reason(), expected);
}

#[test]
fn refusals() {
    refuses(
        json!({"analyzer": {"x": {"tokenizer": "standard", "filter": ["lowrcase"]}}}),
        "Custom Analyzer [x] failed to find filter under name [lowrcase], did you mean [lowercase]?",
    );
    refuses(
        json!({"tokenizer": {"t": {"type": "qqqqqqqqq"}}}),
        "Unknown tokenizer type [qqqqqqqqq] for [t]",
    );
    refuses(
        json!({"normalizer": {"n": {"filter": "shingle"}}}),
        "Custom normalizer [n] may not use filter [shingle]",
    );
    let parts = AnalyzeParts {
        tokenizer: Some("nosuchatall".into()),
        ..AnalyzeParts::default()
    };
    let error = Registry::default_registry().custom(&parts).unwrap_err();
    assert_eq!(error.reason(), "failed to find global tokenizer under [nosuchatall]");
}

#[test]
fn normalizers() {
    let registry = Registry::from_settings(&json!({"normalizer": {"n": {"filter": ["lowercase", "asciifolding"]}}})).unwrap();
    assert_eq!(registry.normalizer("n").unwrap().normalize("ÉTÉ"), "ete");
    assert_eq!(registry.normalizer("lowercase").unwrap().normalize("AB"), "ab");
    assert_eq!(registry.analyzer("english").unwrap().normalize("Running"), "running");
}
