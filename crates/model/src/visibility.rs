//! The documents and fields that a request may see, told of each index as names become indices.
//!
//! Not here: whose they are (`security`), how a reader is kept to them (`embedded::restricted_views`).

use crate::FieldRights;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// The documents and fields of an index that somebody sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DocumentRights {
    /// A document must match one query of each list, given as JSON.
    pub queries: Vec<Vec<Arc<str>>>,
    /// The fields that are granted.
    pub fields: FieldRights,
}

impl DocumentRights {
    /// Nothing is withheld.
    pub fn is_all(&self) -> bool {
        self.queries.is_empty() && self.fields.is_all()
    }
    /// Nobody grants anything: a list of alternatives is empty.
    pub fn is_nothing(&self) -> bool {
        self.queries.iter().any(Vec::is_empty)
    }
}

type OfIndex = dyn Fn(&[&str]) -> DocumentRights + Send + Sync;

/// The documents and fields of each index that a request sees.
#[derive(Clone)]
pub struct Visibility(Arc<OfIndex>);

impl Visibility {
    /// The rights on an index that is reached by one of these names: its own, or an alias.
    pub fn new(of: impl Fn(&[&str]) -> DocumentRights + Send + Sync + 'static) -> Visibility {
        Visibility(Arc::new(of))
    }
    /// The part of an index that is seen by whoever reaches it by one of these names.
    pub fn of(&self, names: &[&str]) -> DocumentRights {
        (self.0)(names)
    }
    /// The part of an index that a target sees: by its own name, or by the aliases that the target names.
    ///
    /// The server goes on with the index's own name after it has resolved an alias. Who is granted no own name is taken to
    /// come by the aliases that restrict nothing themselves.
    pub fn through(&self, expressions: &[String], own: &str, aliases: &Map<String, Value>) -> DocumentRights {
        let names = |name: &&str| *name == own || aliases.contains_key(*name);
        let mut by: Vec<&str> = expressions.iter().map(String::as_str).filter(names).collect();
        if by.is_empty() {
            by.push(own);
        }
        let seen = self.of(&by);
        if by != [own] || !seen.is_nothing() {
            return seen;
        }
        let open: Vec<&str> = aliases
            .iter()
            .filter(|(_, options)| is_open_alias(options))
            .map(|(alias, _)| alias.as_str())
            .collect();
        match open.is_empty() {
            true => seen,
            false => self.of(&open),
        }
    }
}

/// Does an alias with these options lead to the whole index? It has neither a filter nor a routing.
pub fn is_open_alias(options: &Value) -> bool {
    options["filter"].is_null() && options["search_routing"].is_null()
}

impl fmt::Debug for Visibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Visibility")
    }
}

impl PartialEq for Visibility {
    fn eq(&self, other: &Visibility) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Visibility {}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_by_which_an_index_is_reached() {
        let visibility = Visibility::new(|names| DocumentRights {
            queries: vec![
                names
                    .iter()
                    .filter(|name| name.starts_with("mine"))
                    .map(|name| (*name).into())
                    .collect(),
            ],
            ..DocumentRights::default()
        });
        let check = |expressions: &[&str], own: &str, aliases: Value, expected: &[&str]| {
            let expressions: Vec<String> = expressions.iter().map(|name| (*name).to_owned()).collect();
            let aliases = aliases.as_object().cloned().unwrap_or_default();
            let seen = visibility.through(&expressions, own, &aliases);
            let queries: Vec<&str> = seen.queries[0].iter().map(|query| &**query).collect();
            assert_eq!(queries, expected, "{expressions:?} of {own} with {aliases:?}");
        };
        let aliases = json!({ "mine-a": {}, "mine-b": { "filter": { "term": { "n": 1 } } }, "theirs": {} });
        check(&["mine-i"], "mine-i", aliases.clone(), &["mine-i"]);
        check(&["mine-b"], "mine-i", aliases.clone(), &["mine-b"]);
        check(
            &["mine-a", "mine-i", "other"],
            "mine-i",
            aliases.clone(),
            &["mine-a", "mine-i"],
        );
        check(&["*"], "mine-i", aliases.clone(), &["mine-i"]);
        // By the own name for who is granted an alias: only one that restricts nothing opens it.
        check(&["i"], "i", aliases.clone(), &["mine-a"]);
        check(&["theirs"], "i", aliases, &[]);
        check(&["i"], "i", json!({ "mine-b": { "filter": { "term": { "n": 1 } } } }), &[]);
    }
}
