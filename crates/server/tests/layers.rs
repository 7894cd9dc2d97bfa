//! Rule 1 of ARCHITECTURE.md: a crate imports from lower layers only, the modules of a crate import in no circle, and who may
//! see which heavy dependency. Documents that code and documents name are in the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use xtask::modules::Graph;
use xtask::source;

/// Lowest first; crates of one layer never see each other.
const LAYERS: &[&[&str]] = &[
    &["model"],
    &["dsl", "script", "analysis", "disk", "security"],
    &["mapping", "snapshot"],
    &["engine"],
    &["segment"],
    &["search"],
    &["embedded", "remote", "relations"],
    &["rest"],
    &["server"],
];

/// Dependencies that only some crates may name.
const KEPT: &[(&str, &[&str])] = &[
    ("tantivy", &["segment", "search", "embedded"]),
    ("hyper", &["rest", "server", "remote", "snapshot"]),
    // object_store
    ("object", &["snapshot"]),
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
fn modules_import_in_no_circle() {
    let mut wrong = Vec::new();
    for source in source::crates(&workspace()).expect("the sources can be read") {
        wrong.extend(circle_refusals(&source.name, &Graph::of(&source)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Names the modules of a crate that stand in a circle, and the imports that close it.
fn circle_refusals(name: &str, graph: &Graph) -> Vec<String> {
    let inside: BTreeSet<String> = graph.circles().into_iter().flatten().collect();
    let refusal = |module: &String| {
        let references: Vec<String> = graph
            .inside_circles()
            .into_iter()
            .filter(|reference| reference.from == *module)
            .map(|reference| format!("{}:{} imports `{}`", reference.file, reference.line, reference.to))
            .collect();
        format!("{name}: `{module}` stands in a circle: {}", references.join(", "))
    };
    inside.iter().map(refusal).collect()
}

#[test]
fn a_circle_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("lib.rs", "mod a; mod b;");
    write("a.rs", "use crate::b::B; pub(crate) struct A;");
    write("b.rs", "pub(crate) struct B;");
    let refusals = || {
        let files = source::files(folder.path()).expect("Rust");
        let source = source::SourceCrate {
            name: "made".to_owned(),
            files,
        };
        circle_refusals("made", &Graph::of(&source))
    };
    assert_eq!(refusals(), Vec::<String>::new());
    write("b.rs", "pub(crate) struct B(crate::a::A);");
    assert_eq!(
        refusals(),
        [
            "made: `a` stands in a circle: a.rs:1 imports `b`",
            "made: `b` stands in a circle: b.rs:1 imports `a`"
        ]
    );
}

/// What handlers share stands below them, in `actions`, `render` and `targets`.
#[test]
fn no_handler_imports_another() {
    let handlers = workspace().join("crates/rest/src/handlers");
    let mut wrong = Vec::new();
    let files = all_files(&handlers, "rs");
    assert!(files.len() > 30, "only {} handlers", files.len());
    for file in files.iter().filter(|file| !file.ends_with("mod.rs")) {
        let text = std::fs::read_to_string(file).expect("text");
        wrong.extend(handler_imports(&text).map(|line| format!("{}: {line}", file.display())));
    }
    assert!(wrong.is_empty(), "handlers import handlers:\n{}", wrong.join("\n"));
}

/// The lines that name another handler; `use super::*` of tests names the file itself.
fn handler_imports(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    code.filter(|line| line.contains("handlers::") || line.contains("super::") && !line.ends_with("use super::*;"))
}

#[test]
fn an_import_of_a_handler_is_seen() {
    let text = "use crate::handlers::search::query;\nuse super::get::shown;\nlet a = super::get::shown();\n    use super::*;\n// super::get\n";
    assert_eq!(handler_imports(text).count(), 3);
}

fn workspace() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the folder of the crates");
    crates.parent().expect("the workspace").to_owned()
}

/// Names that end with `.md` and are no documents of this repository: texts of tests.
const NO_DOCUMENTS: &[&str] = &["list.md", "lost.md", "docs/a.md", "b.md", "c.md", "x.md"];

/// ARCHITECTURE.md names files below `crates/` as `crate/src/….rs`.
#[test]
fn the_map_names_files_that_are_there() {
    let root = workspace();
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the map");
    let files: BTreeSet<&str> = page
        .split('`')
        .filter(|text| text.contains("/src/") && text.ends_with(".rs"))
        .collect();
    assert!(files.len() > 30, "only {} files are named", files.len());
    let missing: Vec<&&str> = files
        .iter()
        .filter(|file| !root.join("crates").join(file).is_file())
        .collect();
    assert!(
        missing.is_empty(),
        "ARCHITECTURE.md names files that are not there: {missing:?}"
    );
}

#[test]
fn named_documents_are_there() {
    let root = workspace();
    let documents: Vec<PathBuf> = all_files(&root, "md");
    let mut missing = Vec::new();
    for file in all_files(&root, "rs").into_iter().chain(documents.clone()) {
        let text = std::fs::read_to_string(&file).expect("text");
        for name in named_documents(&text) {
            if !NO_DOCUMENTS.contains(&name) && !documents.iter().any(|document| document.ends_with(name)) {
                missing.push(format!(
                    "{}: names [{name}]",
                    file.strip_prefix(&root).unwrap_or(&file).display()
                ));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "these documents are not in the repository:\n{}",
        missing.join("\n")
    );
}

/// The paths in a text that end with `.md`.
fn named_documents(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_-./".contains(c)));
    words
        .map(|word| word.trim_end_matches('.').trim_start_matches("./").trim_start_matches("../"))
        .filter(|word| {
            word.strip_suffix(".md")
                .is_some_and(|stem| !stem.is_empty() && !stem.ends_with(['/', '.']))
        })
        .collect()
}

fn all_files(root: &Path, extension: &str) -> Vec<PathBuf> {
    const NO_SOURCES: &[&str] = &["target", ".git", "node_modules"];
    let (mut out, mut left) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder can be listed") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                if !NO_SOURCES.contains(&name) {
                    left.push(path);
                }
            } else if path.extension().is_some_and(|own| own == extension) {
                out.push(path);
            }
        }
    }
    out
}

#[test]
fn documents_are_found_in_texts() {
    assert_eq!(
        named_documents("see docs/a.md, `b.md` (c.md 3), and d.mdx; x.md."),
        ["docs/a.md", "b.md", "c.md", "x.md"]
    );
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
            Some("relations -> tantivy: tantivy is for segment and search and embedded only"),
        ),
        (
            "engine",
            "hyper-util",
            Some("engine -> hyper-util: hyper is for rest and server and remote and snapshot only"),
        ),
        ("server", "clap", None),
        ("dsl", "serde_json", None),
    ] {
        assert_eq!(refusal(from, to).as_deref(), expected, "{from} -> {to}");
    }
}
