//! Every setting stands in docs/configuration.md: its tables are written from those in the code with `PLEACH_GOLDEN_RECORD=1`.
//!
//! Not here: what a setting does; scenarios and `limits.rs` show that.

use model::accepted_settings::{self, Accepted, Effect};
use model::settings::{self, Scope};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const BEGIN: &str = "<!-- settings -->\n";
const END: &str = "<!-- end of settings -->\n";

#[test]
fn the_page_has_every_setting() {
    let file = tests::root().join("docs/configuration.md");
    let page = std::fs::read_to_string(&file).expect("the page can be read");
    let (head, rest) = page.split_once(BEGIN).expect("the page has the mark of its tables");
    let (found, tail) = rest.split_once(END).expect("the page has the mark of their end");
    let tables = tables();
    if tests::shared::recording() {
        std::fs::write(&file, format!("{head}{BEGIN}{tables}{END}{tail}")).expect("the page can be written");
    } else {
        assert!(
            found == tables,
            "docs/configuration.md is not what the tables of settings say; PLEACH_GOLDEN_RECORD=1 writes it"
        );
    }
}

#[test]
fn the_page_names_all_that_the_binary_knows() {
    let folder = tempfile::tempdir().expect("a folder");
    let done = tests::command()
        .arg("--print-config")
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    let printed = String::from_utf8_lossy(&done.stdout).into_owned();
    let page = std::fs::read_to_string(tests::root().join("docs/configuration.md")).expect("the page can be read");
    let names: Vec<&str> = printed
        .lines()
        .filter_map(|line| line.trim_start_matches("# ").split_once(" = "))
        .map(|(name, _)| name.trim_matches('"'))
        .filter(|name| !name.contains(' '))
        .collect();
    assert!(names.len() > 30, "{printed}");
    for name in names {
        assert!(
            page.contains(&format!("`{name}`")),
            "docs/configuration.md does not name [{name}]"
        );
    }
}

/// The tables: settings by scope, then what is accepted beside them.
fn tables() -> String {
    let mut out = String::from(
        "\nA refusal by a limit names the setting of that limit, as it stands in the first column. These tables are generated from the\n\
         code (`crates/model/src/settings.rs`, `crates/model/src/accepted_settings.rs`), and a test compares them.\n",
    );
    let sections: [(&str, &str, &[Scope]); 3] = [
        (
            "Settings of the process",
            "Given at the start by `-E`, a variable or the file. Fixed while the process runs.",
            &[Scope::Node],
        ),
        (
            "Settings of the cluster",
            "Given with `PUT /_cluster/settings`. They take effect at once.",
            &[Scope::Cluster],
        ),
        (
            "Settings of an index",
            "Given with `PUT /{index}`, a template, or `PUT /{index}/_settings`. One that is fixed is taken only when the index is made.",
            &[Scope::IndexStatic, Scope::IndexDynamic],
        ),
    ];
    for (heading, words, scopes) in sections {
        let _ = write!(out, "\n## {heading}\n\n{words}\n\n");
        let of_index = scopes.contains(&Scope::IndexStatic);
        let column = |text: &str| if of_index { format!(" {text} |") } else { String::new() };
        let _ = writeln!(out, "| setting | default |{} meaning |", column("may change"));
        let _ = writeln!(out, "|---|---|{}---|", if of_index { "---|" } else { "" });
        let mut row = |name: &str, default: &str, scope: Scope, words: &str| {
            let changes = column(if scope == Scope::IndexStatic { "no" } else { "yes" });
            let default = if default.is_empty() {
                String::new()
            } else {
                format!("`{default}`")
            };
            let words = words.replace('|', "\\|");
            let _ = writeln!(out, "| `{name}` | {default} |{changes} {words} |");
        };
        for setting in settings::ALL.iter().filter(|s| scopes.contains(&s.scope)) {
            row(setting.name, setting.default, setting.scope, setting.about);
        }
        for accepted in accepted_settings::ALL.iter().filter(|a| scopes.contains(&a.scope)) {
            if let Effect::Changes(words) = accepted.effect {
                row(&shown(accepted), "", accepted.scope, words);
            }
        }
    }
    out.push_str(
        "\n## Settings of clients of S3\n\nEach begins with `s3.client.NAME.`, as `s3.client.default.region`; `NAME` is what a repository names as its `client`. The table\n\
         is from `crates/snapshot/src/s3_client.rs`.\n\n| setting | default | meaning |\n|---|---|---|\n",
    );
    for (name, default, words) in snapshot::CLIENT_SETTINGS {
        let default = if default.is_empty() {
            String::new()
        } else {
            format!("`{default}`")
        };
        let _ = writeln!(out, "| `{name}` | {default} | {words} |");
    }
    out.push_str(
        "\n## Settings accepted without effect\n\nClients and dumps of other servers send these. They are kept and reported, and change nothing. Any other\n\
         name is refused; a listener of persona `es2` leaves unknown settings of the cluster out, as the server of 2015 did.\n\n\
         | setting | why it changes nothing |\n|---|---|\n",
    );
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for accepted in accepted_settings::ALL {
        if let Effect::Nothing(reason) = accepted.effect {
            reasons.entry(reason).or_default().push(format!("`{}`", shown(accepted)));
        }
    }
    for accepted in accepted_settings::ALL {
        if let Effect::Only(value, reason) = accepted.effect {
            let names = vec![format!("`{}` (`{value}` alone is taken)", shown(accepted))];
            reasons.entry(reason).or_default().extend(names);
        }
    }
    for (reason, names) in reasons {
        let mut chars = reason.chars();
        let capital: String = chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect();
        let _ = writeln!(out, "| {} | {capital}. |", names.join(", "));
    }
    out.push('\n');
    out
}

/// `index.sort.*` stands for all names below it.
fn shown(accepted: &Accepted) -> String {
    let all = if accepted.name.ends_with('.') { "*" } else { "" };
    format!("{}{all}", accepted.name)
}
