//! Rule 1 of ARCHITECTURE.md: a crate imports from lower layers only; and who may see which heavy dependency.

use std::collections::BTreeMap;
use std::path::Path;

/// Lowest first; crates of one layer never see each other.
const LAYERS: &[&[&str]] = &[
    &["model"],
    &["dsl", "script", "analysis"],
    &["mapping"],
    &["engine"],
    &["embedded", "remote", "relations"],
    &["rest"],
    &["server"],
];

/// Dependencies that only some crates may name.
const KEPT: &[(&str, &[&str])] = &[
    ("tantivy", &["embedded"]),
    ("hyper", &["rest", "server", "remote"]),
    ("axum", &["rest", "server"]),
    ("clap", &["server"]),
];

/// `rest` stands on `relations`, and no engine: only `server` names those.
const NEVER: &[(&str, &str)] = &[("rest", "embedded"), ("rest", "remote")];

#[test]
fn layers() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the folder of the crates");
    let mut edges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(crates).expect("crates can be listed") {
        let manifest = entry.expect("an entry").path().join("Cargo.toml");
        let Ok(text) = std::fs::read_to_string(&manifest) else {
            continue;
        };
        let table: toml::Table = text.parse().expect("a manifest is TOML");
        let name = table["package"]["name"].as_str().expect("a package has a name").to_owned();
        edges.insert(name, dependencies(&table));
    }
    assert!(edges.contains_key("server"), "no crates found in {}", crates.display());
    let wrong: Vec<String> = edges
        .iter()
        .flat_map(|(from, to)| to.iter().filter_map(|to| refusal(from, to)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Of all kinds and targets, dev-dependencies too.
fn dependencies(table: &toml::Table) -> Vec<String> {
    let mut out = Vec::new();
    for (key, value) in table {
        let Some(inner) = value.as_table() else { continue };
        if key.ends_with("dependencies") {
            // A renamed dependency is what its `package` says.
            out.extend(
                inner
                    .iter()
                    .map(|(name, d)| d.get("package").and_then(toml::Value::as_str).unwrap_or(name).to_owned()),
            );
        } else if key == "target" {
            out.extend(inner.values().filter_map(toml::Value::as_table).flat_map(dependencies));
        }
    }
    out
}

fn refusal(from: &str, to: &str) -> Option<String> {
    let layer = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    let Some(own) = layer(from) else {
        return Some(format!(
            "{from}: stands in no layer; give it one in this test and in ARCHITECTURE.md"
        ));
    };
    if let Some(other) = layer(to) {
        if other == own {
            return Some(format!("{from} -> {to}: sideways"));
        }
        if other > own {
            return Some(format!("{from} -> {to}: up"));
        }
    }
    if NEVER.contains(&(from, to)) {
        return Some(format!("{from} -> {to}: only `server` names engines"));
    }
    let root = to.split(['-', '_']).next().unwrap_or(to);
    let kept = KEPT.iter().find(|(name, _)| *name == root);
    kept.filter(|(_, may)| !may.contains(&from))
        .map(|(name, may)| format!("{from} -> {to}: {name} is for {} only", may.join(" and ")))
}

#[test]
fn refusals_are_named() {
    for (from, to, expected) in [
        ("embedded", "relations", Some("embedded -> relations: sideways")),
        ("model", "dsl", Some("model -> dsl: up")),
        ("rest", "relations", None),
        ("rest", "embedded", Some("rest -> embedded: only `server` names engines")),
        (
            "relations",
            "tantivy",
            Some("relations -> tantivy: tantivy is for embedded only"),
        ),
        (
            "engine",
            "hyper-util",
            Some("engine -> hyper-util: hyper is for rest and server and remote only"),
        ),
        ("server", "clap", None),
        ("dsl", "serde_json", None),
    ] {
        assert_eq!(refusal(from, to).as_deref(), expected, "{from} -> {to}");
    }
}
