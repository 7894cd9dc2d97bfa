//! The snapshot repositories that the catalog knows: registering and forgetting them.
//!
//! Not here: whether a repository may be where it says (`snapshots::repositories`).

use super::Catalog;
use super::alter::Next;
use engine::snapshots::{Repository, missing_repository};
use model::settings::{REPOSITORIES_MAX, node_count};
use model::{Error, Result};
use serde_json::{Value, json};

/// A repository as the catalog has it.
pub fn find(catalog: &Catalog, name: &str) -> Result<Repository> {
    let known = catalog.repositories.get(name).ok_or_else(|| missing_repository(name))?;
    Ok(read(name, known))
}

/// All of them, by name.
pub fn all(catalog: &Catalog) -> Vec<Repository> {
    catalog.repositories.iter().map(|(name, known)| read(name, known)).collect()
}

fn read(name: &str, known: &Value) -> Repository {
    Repository {
        name: name.to_owned(),
        kind: known["type"].as_str().unwrap_or_default().to_owned(),
        settings: known["settings"].as_object().cloned().unwrap_or_default(),
    }
}

/// With a repository.
///
/// # Errors
/// There are too many.
pub fn put(catalog: &Catalog, repository: &Repository) -> Result<Next> {
    let mut next = Next::of(catalog);
    let known = json!({ "type": repository.kind, "settings": repository.settings });
    let all = &mut next.catalog.repositories;
    let most = node_count(REPOSITORIES_MAX);
    if !all.contains_key(&repository.name) && all.len() >= most {
        return Err(Error::illegal(format!(
            "there are [{most}] repositories already; the limit is the setting [{}]",
            REPOSITORIES_MAX.name
        )));
    }
    all.insert(repository.name.clone(), known);
    next.common();
    Ok(next)
}

/// Without some repositories.
///
/// # Errors
/// `repository_missing_exception`.
pub fn delete(catalog: &Catalog, names: &[String]) -> Result<Next> {
    let mut next = Next::of(catalog);
    for name in names {
        if next.catalog.repositories.remove(name).is_none() {
            return Err(missing_repository(name));
        }
    }
    if !names.is_empty() {
        next.common();
    }
    Ok(next)
}
