//! Every parameter of every endpoint has a scenario in which it changes the answer, or stands in
//! `docs/accepted-without-effect.md` with its reason; that file is written from the table with `PLEACH_GOLDEN_RECORD=1`.
//!
//! Not here: that the scenarios hold; `scenarios.rs` plays them.

use rest::parameter_table::{Effect, all};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The names of all APIs.
fn apis() -> impl Iterator<Item = &'static str> {
    rest::ENDPOINTS.iter().map(|endpoint| endpoint.api)
}

#[test]
fn each_parameter_has_an_effect_or_a_reason() {
    let mut files = Vec::new();
    tests::scenario::collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios"), &mut files);
    let mut shown = BTreeSet::new();
    for file in &files {
        shown.extend(tests::scenario::parameters(file).unwrap_or_else(|why| panic!("{}: {why}", file.display())));
    }
    let mut wrong = Vec::new();
    let mut known = BTreeSet::new();
    for (api, parameter) in all(apis()) {
        let pair = (api.to_owned(), parameter.name.to_owned());
        match (parameter.effect, shown.contains(&pair)) {
            (Effect::Changes, false) => wrong.push(format!("{api} {}: no scenario shows what it changes", parameter.name)),
            (Effect::Nothing(_), true) => wrong.push(format!(
                "{api} {}: a scenario shows an effect of what is to have none",
                parameter.name
            )),
            _ => {}
        }
        known.insert(pair);
    }
    wrong.extend(
        shown
            .difference(&known)
            .map(|(api, name)| format!("{api} {name}: in a scenario, but in no row of the table")),
    );
    assert!(
        wrong.is_empty(),
        "{} of {} parameters:\n{}",
        wrong.len(),
        known.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_list_of_what_has_no_effect_is_the_tables() {
    let file = tests::root().join("docs/accepted-without-effect.md");
    let text = listed();
    if tests::shared::recording() {
        std::fs::write(&file, &text).expect("the list can be written");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == text,
        "{} is not what the table says; PLEACH_GOLDEN_RECORD=1 writes it",
        file.display()
    );
}

/// Reason by reason, the parameters and the APIs that accept them.
fn listed() -> String {
    let mut reasons: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for (api, parameter) in all(apis()) {
        if let Effect::Nothing(reason) = parameter.effect {
            reasons
                .entry(reason)
                .or_default()
                .entry(parameter.name)
                .or_default()
                .push(api);
        }
    }
    let mut out = String::from(
        "# Accepted without effect\n\nParameters of URLs that clients send and that change nothing here, with the reason. Every other parameter\n\
         changes an answer, and what is in no row of the table (`crates/rest/src/parameter_table.rs`, which this file is written from) is refused.\n",
    );
    for (reason, names) in reasons {
        out.push_str(&format!("\n## {}\n\n", capital(reason)));
        for (name, apis) in names {
            out.push_str(&format!("- `{name}`: {}\n", apis.join(", ")));
        }
    }
    out
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
