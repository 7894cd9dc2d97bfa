//! Every parameter that a published REST specification has on an endpoint of ours is taken, or stands in a table here with the
//! reason why it is not.
//!
//! The specifications lie beside the repository; without them this is skipped. Not here: what a parameter does
//! (`scenarios/parameters`), whether the reference itself takes what its specification says.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tests::{Server, shared};

/// Folders of specifications, and the persona that is asked. Elasticsearch 2 refused no parameter: there the table of
/// parameters is compared.
const SUITES: &[(&str, &str)] = &[("es-7.10.2", "es7"), ("opensearch-2.19.0", "opensearch2")];

/// APIs of specifications, their parameters that are not taken, and why.
const NOT_TAKEN: &[(&str, &[&str], &str)] = &[
    (
        "cat.help",
        &["help", "s"],
        "Elasticsearch 7.10 refuses them: the list of tables has no columns",
    ),
    (
        "get_source",
        &["version", "version_type"],
        "Elasticsearch 7.10 refuses them: a source has no version",
    ),
    (
        "update",
        &["lang"],
        "Elasticsearch 7.10 refuses it: the body names the language",
    ),
    (
        "search_template",
        &["profile"],
        "Elasticsearch 7.10 refuses it: the template may have it",
    ),
    (
        "snapshot.restore",
        &["source_remote_store_repository"],
        "segments are kept in no remote store: the request is refused",
    ),
];

/// What stands beside a parameter that is only taken with another.
const COMPANIONS: &[(&str, &str)] = &[
    ("analyzer", "q=a"),
    ("analyze_wildcard", "q=a"),
    ("default_operator", "q=a"),
    ("df", "q=a"),
    ("lenient", "q=a"),
    ("suggest_mode", "suggest_field=a"),
    ("suggest_size", "suggest_field=a"),
    ("suggest_text", "suggest_field=a"),
];

/// Bodies without which an endpoint answers before it looks at its parameters.
const BODIES: &[(&str, &str)] = &[
    ("bulk", "{\"index\":{\"_index\":\"i\",\"_id\":\"1\"}}\n{\"a\":1}\n"),
    ("msearch", "{}\n{}\n"),
    ("msearch_template", "{}\n{\"source\":\"{}\"}\n"),
    ("mget", r#"{"docs":[{"_index":"i","_id":"1"}]}"#),
    ("mtermvectors", r#"{"ids":["1"]}"#),
    ("index", r#"{"a":1}"#),
    ("create", r#"{"a":1}"#),
    ("update", r#"{"doc":{"a":1}}"#),
    ("search_template", r#"{"source":"{}"}"#),
    ("render_search_template", r#"{"source":"{}"}"#),
    ("delete_by_query", r#"{"query":{"match_none":{}}}"#),
    ("explain", r#"{"query":{"match_all":{}}}"#),
    ("reindex", r#"{"source":{"index":"i"},"dest":{"index":"j"}}"#),
    ("put_script", r#"{"script":{"lang":"painless","source":"1"}}"#),
    ("rank_eval", r#"{"requests":[],"metric":{"precision":{}}}"#),
    ("indices.put_settings", r#"{"index.refresh_interval":"2s"}"#),
    ("indices.put_mapping", r#"{"properties":{"b":{"type":"long"}}}"#),
    ("indices.update_aliases", r#"{"actions":[{"add":{"index":"i","alias":"x"}}]}"#),
    ("indices.put_template", r#"{"index_patterns":["zz*"]}"#),
    ("indices.put_index_template", r#"{"index_patterns":["zz*"]}"#),
    ("indices.analyze", r#"{"text":"a"}"#),
    ("cluster.put_component_template", r#"{"template":{}}"#),
    ("cluster.put_settings", r#"{"persistent":{}}"#),
];

/// One API of a specification.
struct Specification {
    api: String,
    /// Path and methods.
    paths: Vec<(String, Vec<String>)>,
    /// Name and a value that it may have.
    parameters: BTreeMap<String, String>,
}

fn specifications(folder: &Path) -> Vec<Specification> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut out = Vec::new();
    for file in files.iter().filter(|file| !file.ends_with("_common.json")) {
        let whole: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let (api, body) = whole.as_object().unwrap().iter().next().unwrap();
        let methods = |value: &Value| -> Vec<String> {
            let list = value.as_array().into_iter().flatten();
            list.filter_map(|method| method.as_str().map(str::to_owned)).collect()
        };
        let paths = body["url"]["paths"]
            .as_array()
            .unwrap()
            .iter()
            .map(|path| match path.as_str() {
                Some(path) => (path.to_owned(), methods(&body["methods"])),
                None => (path["path"].as_str().unwrap().to_owned(), methods(&path["methods"])),
            });
        let listed = [&body["params"], &body["url"]["params"]];
        let listed = listed.into_iter().filter_map(Value::as_object).flatten();
        out.push(Specification {
            api: api.clone(),
            paths: paths.collect(),
            parameters: listed.map(|(name, kind)| (name.clone(), sample(kind))).collect(),
        });
    }
    out
}

fn sample(kind: &Value) -> String {
    let option = kind["options"].as_array().and_then(|options| options.first()?.as_str());
    match (option.filter(|option| !option.is_empty()), kind["type"].as_str()) {
        (Some(option), _) => option.to_owned(),
        (None, Some("time")) => "1s".to_owned(),
        (None, Some("number" | "int" | "integer" | "long" | "number|string")) => "1".to_owned(),
        (None, Some("string" | "list")) => "a".to_owned(),
        _ => "true".to_owned(),
    }
}

/// A path with names in the places of its parts.
fn filled(path: &str) -> String {
    let one = |part: &str| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
        None => part.to_owned(),
        Some("index") => "i".to_owned(),
        Some("metric" | "index_metric" | "node_id") => "_all".to_owned(),
        Some("block") => "write".to_owned(),
        Some("context") => "score".to_owned(),
        Some("task_id") => "n1:1".to_owned(),
        Some(name) => format!("{}1", name.replace('_', "")),
    };
    path.split('/').map(one).collect::<Vec<_>>().join("/")
}

fn refused(server: &Server, specification: &Specification, found: &mut BTreeSet<(String, String)>) {
    for (path, methods) in &specification.paths {
        // What types made of a path is a matter of its own.
        if path.contains("{type}") {
            continue;
        }
        for (name, value) in &specification.parameters {
            // The path says it already, or it is the body.
            if path.contains(&format!("{{{name}}}")) || name == "source" {
                continue;
            }
            let companion = COMPANIONS.iter().find(|(known, _)| known == name).map(|(_, beside)| *beside);
            for method in methods {
                let body = BODIES
                    .iter()
                    .find(|(api, _)| *api == specification.api)
                    .map_or("", |(_, body)| body);
                let queried = name == "q" || companion.is_some_and(|beside| beside.starts_with("q="));
                // Beside a body a query in the URL is refused, by the reference too.
                let body = if queried || !["POST", "PUT"].contains(&method.as_str()) && body.is_empty() {
                    ""
                } else {
                    body
                };
                let more = companion.map_or_else(String::new, |beside| format!("&{beside}"));
                let target = format!("{}?{name}={value}{more}", filled(path));
                let answer = server.send(method, &target, body).unwrap();
                let reason = answer.body["error"]["reason"].as_str().unwrap_or_default();
                if reason.contains("unrecognized parameter") && reason.contains(&format!("[{name}]")) {
                    found.insert((specification.api.clone(), name.clone()));
                }
            }
        }
    }
    let document = serde_json::json!({ "a": 1 });
    server.call("PUT", "/i/_doc/1", &document);
}

#[test]
fn parameters_of_the_specifications_are_taken() {
    let Some(folder) = shared::folder().map(|f| f.join("suites")).filter(|f| f.is_dir()) else {
        println!("skipped: no specifications beside the repository");
        return;
    };
    let expected: BTreeSet<(String, String)> = NOT_TAKEN
        .iter()
        .flat_map(|(api, names, reason)| {
            assert!(!reason.is_empty(), "{api} has no reason");
            names.iter().map(|name| ((*api).to_owned(), (*name).to_owned()))
        })
        .collect();
    let asked = |suite: &str, persona: &str| {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(&dir.path().join("data"), &[persona]);
        server.call("PUT", "/i/_doc/1", &serde_json::json!({ "a": 1 }));
        let mut found = BTreeSet::new();
        for specification in specifications(&folder.join(suite).join("api")) {
            refused(&server, &specification, &mut found);
        }
        found
    };
    let found: BTreeSet<(String, String)> = std::thread::scope(|scope| {
        let suites: Vec<_> = SUITES
            .iter()
            .map(|(suite, persona)| scope.spawn(|| asked(suite, persona)))
            .collect();
        suites.into_iter().flat_map(|suite| suite.join().unwrap()).collect()
    });
    let (surplus, lacking): (Vec<_>, Vec<_>) = (found.difference(&expected).collect(), expected.difference(&found).collect());
    assert!(surplus.is_empty(), "refused and not in the table: {surplus:?}");
    assert!(lacking.is_empty(), "in the table and not refused: {lacking:?}");
}

#[test]
fn parameters_of_elasticsearch_2_have_rows() {
    let Some(folder) = shared::folder().map(|f| f.join("suites")).filter(|f| f.is_dir()) else {
        println!("skipped: no specifications beside the repository");
        return;
    };
    let mut ours: BTreeMap<Vec<String>, Vec<&rest::Endpoint>> = BTreeMap::new();
    for endpoint in rest::ENDPOINTS {
        for path in endpoint.paths {
            ours.entry(shape(path)).or_default().push(endpoint);
        }
    }
    let mut rows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (api, parameter) in rest::parameter_table::all(rest::ENDPOINTS.iter().map(|endpoint| endpoint.api)) {
        rows.entry(api).or_default().insert(parameter.name);
    }
    let mut missing = BTreeSet::new();
    for specification in specifications(&folder.join("es-2.4.6/api")) {
        for (path, methods) in &specification.paths {
            let fitting = |endpoint: &&&rest::Endpoint| methods.iter().any(|method| endpoint.methods.contains(&method.as_str()));
            let apis: Vec<&str> = ours
                .get(&shape(path))
                .into_iter()
                .flatten()
                .filter(fitting)
                .map(|endpoint| endpoint.api)
                .collect();
            for name in specification.parameters.keys() {
                let has = |api: &str| rows.get(api).is_some_and(|names| names.contains(name.as_str()));
                let excused = OF_2015_WITHOUT_ROWS
                    .iter()
                    .any(|(api, names, _)| specification.api == *api && names.contains(&name.as_str()));
                let known = apis.is_empty() || name == "source" || has("*") || apis.iter().any(|api| has(api));
                if !known && !excused {
                    missing.insert((specification.api.clone(), name.clone()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "in no row of the table: {missing:?}");
}

/// Parameters of Elasticsearch 2 that no row names, and why: as every unknown name they are passed over there.
const OF_2015_WITHOUT_ROWS: &[(&str, &[&str], &str)] = &[
    ("cat.help", &["help"], "the list of tables has no columns"),
    ("cat.thread_pool", &["full_id"], "ids are short enough to be shown whole"),
    ("delete_script", SCRIPT_VERSIONS, SCRIPTS_ARE_CURRENT),
    ("delete_template", SCRIPT_VERSIONS, SCRIPTS_ARE_CURRENT),
    ("get_script", SCRIPT_VERSIONS, SCRIPTS_ARE_CURRENT),
    ("get_template", SCRIPT_VERSIONS, SCRIPTS_ARE_CURRENT),
    ("put_script", SCRIPT_VERSIONS, SCRIPTS_ARE_CURRENT),
    ("put_template", SCRIPT_VERSIONS, SCRIPTS_ARE_CURRENT),
    (
        "field_stats",
        &[
            "fields",
            "level",
            "ignore_unavailable",
            "allow_no_indices",
            "expand_wildcards",
        ],
        "the handler takes them by its own hand: the endpoint went with 2015",
    ),
    (
        "indices.get_aliases",
        &["timeout"],
        "one process: there is no one to wait for",
    ),
    (
        "indices.refresh",
        &["operation_threading"],
        "requests wait for no thread of their own",
    ),
    (
        "indices.shard_stores",
        &["operation_threading"],
        "requests wait for no thread of their own",
    ),
    (
        "search_template",
        &[
            "ignore_unavailable",
            "allow_no_indices",
            "expand_wildcards",
            "preference",
            "routing",
            "scroll",
            "search_type",
        ],
        "they are rows of the search that the template comes to",
    ),
    (
        "tasks.list",
        &["actions", "detailed", "node_id", "parent_node", "parent_task"],
        "a task asked for by its id is the only one",
    ),
];
const SCRIPT_VERSIONS: &[&str] = &["version", "version_type", "op_type"];
const SCRIPTS_ARE_CURRENT: &str = "a stored script has no versions to compare: the newest is the only one";

/// A path with its parts made alike.
fn shape(path: &str) -> Vec<String> {
    let one = |part: &str| {
        if part.starts_with('{') {
            "{}".to_owned()
        } else {
            part.to_owned()
        }
    };
    path.split('/').map(one).collect()
}
