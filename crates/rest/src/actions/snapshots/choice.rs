//! Which repositories, which snapshots of one, and which indices of a snapshot a request means.

use crate::render::patterns::is_pattern;
use engine::catalog::missing;
use engine::snapshots::{Repository, missing_repository, missing_snapshot};
use model::{Result, path};
use snapshot::{State, Summary};
use std::sync::Arc;

/// The repositories that names and patterns mean; no name means every one.
///
/// # Errors
/// RepositoryMissing: a name that is none, unless `lenient`.
pub(crate) fn repositories(all: Vec<Repository>, wanted: &[String], lenient: bool) -> Result<Vec<Repository>> {
    let is_there = |name: &String| is_pattern(name) || all.iter().any(|one| one.name == *name);
    if let Some(missing) = wanted.iter().find(|name| !lenient && !is_there(name)) {
        return Err(missing_repository(missing));
    }
    let is_meant = |name: &str| wanted.is_empty() || wanted.iter().any(|one| one == "_all" || path::matches(one, name));
    Ok(all.into_iter().filter(|one| is_meant(&one.name)).collect())
}

/// The snapshots that names and patterns mean, the oldest first. `_all` and no name mean every one, `_current` those that are being
/// written.
///
/// # Errors
/// SnapshotMissing: a name that is none, or nothing is found at all, unless `lenient`.
pub(crate) fn snapshots(repository: &str, all: &[Arc<Summary>], wanted: &[String], lenient: bool) -> Result<Vec<Arc<Summary>>> {
    if wanted.is_empty() || wanted.iter().all(|one| one == "_all") {
        return Ok(all.to_vec());
    }
    let mut chosen = vec![false; all.len()];
    for name in wanted {
        let is_meant = |one: &Summary| match name.as_str() {
            "_all" => true,
            "_current" => one.state == State::InProgress,
            pattern if pattern.contains('*') => path::matches(pattern, &one.name),
            name => one.name == name,
        };
        let mut any = false;
        for (one, chosen) in all.iter().zip(&mut chosen) {
            let is_meant = is_meant(one);
            *chosen |= is_meant;
            any |= is_meant;
        }
        if !any && !lenient && !name.contains('*') && name != "_current" {
            return Err(missing_snapshot(repository, name));
        }
    }
    let found: Vec<Arc<Summary>> = all
        .iter()
        .zip(&chosen)
        .filter(|(_, chosen)| **chosen)
        .map(|(one, _)| one.clone())
        .collect();
    if found.is_empty() && !lenient && wanted.iter().any(|name| name != "_current") {
        return Err(missing_snapshot(repository, &wanted[0]));
    }
    Ok(found)
}

/// The indices of a snapshot that names and patterns mean, in the order of the snapshot; none mean every one. `-name` takes away.
///
/// # Errors
/// IndexNotFound: a name that is none, unless `lenient`.
pub(crate) fn indices(all: &[String], wanted: &[String], lenient: bool) -> Result<Vec<String>> {
    if wanted.is_empty() || wanted.iter().all(|one| one == "_all") {
        return Ok(all.to_vec());
    }
    let mut chosen = vec![false; all.len()];
    let mut mark = |pattern: &str, value: bool| {
        let mut any = false;
        for (name, chosen) in all.iter().zip(&mut chosen) {
            if path::matches(pattern, name) {
                *chosen = value;
                any = true;
            }
        }
        any
    };
    for (n, name) in wanted.iter().enumerate() {
        match name.strip_prefix('-') {
            Some(pattern) => {
                if n == 0 {
                    mark("*", true);
                }
                mark(pattern, false);
            }
            None => {
                let pattern = if name == "_all" { "*" } else { name.as_str() };
                if !mark(pattern, true) && !pattern.contains('*') && !lenient {
                    return Err(missing(name));
                }
            }
        }
    }
    Ok(all
        .iter()
        .zip(chosen)
        .filter(|(_, chosen)| *chosen)
        .map(|(name, _)| name.clone())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_by_patterns() {
        let all: Vec<String> = ["a", "ab", "b"].map(str::to_owned).to_vec();
        let check = |wanted: &[&str], lenient: bool, expected: Option<&[&str]>| {
            let wanted: Vec<String> = wanted.iter().map(|one| (*one).to_owned()).collect();
            let found = indices(&all, &wanted, lenient).ok();
            let expected = expected.map(|names| names.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
            assert_eq!(found, expected, "{wanted:?}");
        };
        check(&[], false, Some(&["a", "ab", "b"]));
        check(&["_all"], false, Some(&["a", "ab", "b"]));
        check(&["a*"], false, Some(&["a", "ab"]));
        check(&["a*", "-ab"], false, Some(&["a"]));
        check(&["-a"], false, Some(&["ab", "b"]));
        check(&["c*"], false, Some(&[]));
        check(&["c"], false, None);
        check(&["c", "b"], true, Some(&["b"]));
    }
}
