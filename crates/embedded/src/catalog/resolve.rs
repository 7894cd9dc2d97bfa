//! From what a request names to the indices it means.
//!
//! A system index is meant by its own name alone: wildcards, `_all` and aliases pass it by, whatever they expand to.

use super::{Catalog, IndexEntry, system};
use engine::catalog::{self, Behind, index_closed, missing};
use model::path::matches;
use model::{DocumentRights, Result, Target, date_name};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An index that a target leads to, with the alias filters through which it was reached: `None` if it was also
/// named itself, or by an alias without a filter.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The index.
    pub entry: Arc<IndexEntry>,
    /// Any of these must match.
    pub filters: Option<Vec<Through>>,
    /// The documents and fields that the request sees of it; `None`: all.
    pub seen: Option<Arc<DocumentRights>>,
}

/// The filter and routing of an alias.
#[derive(Clone, Debug)]
pub struct Through {
    /// The filter; null where there is none.
    pub filter: Value,
    /// Shards that are searched, by the routings that lead there: asked of typed indices.
    pub routing: Option<String>,
}

impl Through {
    /// The restrictions in the options of an alias, if there are any.
    fn of(options: &Value, typed: bool) -> Option<Through> {
        let routing = options["search_routing"].as_str().filter(|_| typed).map(str::to_owned);
        let filter = options["filter"].clone();
        (routing.is_some() || !filter.is_null()).then_some(Through { filter, routing })
    }
}

impl Catalog {
    /// The indices of a target, by name.
    ///
    /// # Errors
    /// Missing and closed indices, unless the target puts up with them.
    pub fn resolve(&self, target: &Target, now_ms: i64) -> Result<Vec<Resolved>> {
        // The name of an index is no pattern, no math and no alias.
        if let [name] = target.expressions.as_slice()
            && let Some(entry) = self.indices.get(name.as_str()).filter(|entry| entry.open)
        {
            system::check_reader(name, target.internal)?;
            return Ok(vec![Resolved {
                entry: entry.clone(),
                filters: None,
                seen: document_rights(entry, target),
            }]);
        }
        let mut found: BTreeMap<String, Resolved> = BTreeMap::new();
        let all = ["_all".to_owned()];
        let expressions: &[String] = if target.expressions.iter().all(String::is_empty) {
            &all
        } else {
            &target.expressions
        };
        let mut after_wildcard = false;
        for expression in expressions {
            let expression = date_name::resolve(expression, now_ms)?;
            if let Some(pattern) = expression.strip_prefix('-').filter(|_| after_wildcard) {
                found.retain(|name, r| !(matches(pattern, name) || r.entry.aliases.keys().any(|alias| alias == pattern)));
                continue;
            }
            if expression == "_all" || expression.contains('*') {
                after_wildcard = true;
                let pattern = if expression == "_all" { "*" } else { &expression };
                let before = found.len();
                self.wildcard(pattern, target, &mut found)?;
                if found.len() == before && !target.allow_no_indices && !found.keys().any(|n| matches(pattern, n)) {
                    return Err(missing(&expression));
                }
            } else {
                self.resolve_name(&expression, target, &mut found)?;
            }
        }
        if found.is_empty() && !target.allow_no_indices {
            return Err(missing(&expressions.join(",")));
        }
        let mut found: Vec<Resolved> = found.into_values().collect();
        debug_assert!(
            found
                .iter()
                .all(|one| system::check_reader(one.entry.name.as_str(), target.internal).is_ok()),
            "security.md S4: only an internal target leads to an index of the server's own: {target:?}"
        );
        if target.visibility.is_some() {
            found
                .iter_mut()
                .for_each(|one| one.seen = document_rights(&one.entry, target));
        }
        Ok(found)
    }

    /// The same indices as if no alias led to them.
    pub(super) fn without_aliases(&self) -> Catalog {
        let mut bare = self.clone();
        for entry in self.indices.values().filter(|entry| !entry.aliases.is_empty()) {
            bare.put(IndexEntry {
                aliases: serde_json::Map::new(),
                ..(**entry).clone()
            });
        }
        bare
    }

    fn wildcard(&self, pattern: &str, target: &Target, found: &mut BTreeMap<String, Resolved>) -> Result<()> {
        for entry in self.indices.values().filter(|entry| !entry.is_system()) {
            let state = if entry.open {
                target.expand_open
            } else {
                target.expand_closed
            };
            if !state {
                continue;
            }
            let dotted = pattern.starts_with('.') && entry.name.as_str().starts_with('.');
            if matches(pattern, entry.name.as_str()) && (!entry.is_hidden() || target.expand_hidden || dotted) {
                if !entry.open && target.forbid_closed {
                    if target.ignore_unavailable {
                        continue;
                    }
                    return Err(index_closed(&entry.name, &entry.uuid));
                }
                add(found, entry, None);
                continue;
            }
            for (alias, options) in entry.aliases.iter().filter(|(alias, _)| matches(pattern, alias)) {
                let hidden = options["is_hidden"] == true;
                if !hidden || target.expand_hidden || (pattern.starts_with('.') && alias.starts_with('.')) {
                    add(found, entry, Some(options));
                }
            }
        }
        Ok(())
    }

    fn resolve_name(&self, name: &str, target: &Target, found: &mut BTreeMap<String, Resolved>) -> Result<()> {
        system::check_reader(name, target.internal)?;
        let direct = self.indices.get(name).map(|entry| (entry, None));
        // No alias has the name of an index.
        let others = if direct.is_none() { Some(self.indices.values()) } else { None };
        let through = others
            .into_iter()
            .flatten()
            .filter(|entry| !entry.is_system())
            .filter_map(|entry| entry.aliases.get(name).map(|options| (entry, Some(options))));
        let mut any = false;
        for (entry, filter) in direct.into_iter().chain(through) {
            any = true;
            if !entry.open && target.forbid_closed {
                if target.ignore_unavailable {
                    continue;
                }
                return Err(index_closed(&entry.name, &entry.uuid));
            }
            add(found, entry, filter);
        }
        if any || target.ignore_unavailable {
            Ok(())
        } else {
            Err(missing(name))
        }
    }

    /// The one index that a write to `name` goes to.
    ///
    /// # Errors
    /// A missing index, an alias without a write index.
    pub fn write_index(&self, name: &str, require_alias: bool, now_ms: i64) -> Result<Arc<IndexEntry>> {
        let name = &*system::written_name(name, now_ms)?;
        if let Some(entry) = self.indices.get(name) {
            if require_alias {
                return Err(catalog::no_alias(name));
            }
            return Ok(entry.clone());
        }
        catalog::writer(name, &self.behind(name)).cloned()
    }

    /// The one index that a read of `name` goes to.
    ///
    /// # Errors
    /// A missing index, an alias of several.
    pub fn read_index(&self, name: &str, now_ms: i64) -> Result<Arc<IndexEntry>> {
        let name = &*date_name::resolve(name, now_ms)?;
        system::check_reader(name, false)?;
        if let Some(entry) = self.indices.get(name) {
            return Ok(entry.clone());
        }
        catalog::reader(name, &self.behind(name)).cloned()
    }

    /// The indices of an alias.
    fn behind(&self, alias: &str) -> Vec<Behind<'_, Arc<IndexEntry>>> {
        let entries = self.indices.values().filter(|entry| !entry.is_system());
        let behind = entries.filter_map(|entry| Some((entry.name.as_str(), entry.aliases.get(alias)?, entry)));
        behind.collect()
    }
}

/// The rights of a target on an index: by its own name, or by the aliases that the target names.
fn document_rights(entry: &IndexEntry, target: &Target) -> Option<Arc<DocumentRights>> {
    let visibility = target.visibility.as_ref()?;
    let seen = visibility.through(&target.expressions, entry.name.as_str(), &entry.aliases);
    (!seen.is_all()).then(|| Arc::new(seen))
}

fn add(found: &mut BTreeMap<String, Resolved>, entry: &Arc<IndexEntry>, alias: Option<&Value>) {
    let filter = alias.and_then(|options| Through::of(options, entry.has_types()));
    match found.get_mut(entry.name.as_str()) {
        None => {
            found.insert(
                entry.name.as_str().to_owned(),
                Resolved {
                    entry: entry.clone(),
                    filters: filter.map(|filter| vec![filter]),
                    seen: None,
                },
            );
        }
        Some(known) => match (&mut known.filters, filter) {
            (Some(filters), Some(filter)) => filters.push(filter),
            (filters, _) => *filters = None,
        },
    }
}
