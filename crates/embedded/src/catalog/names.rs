//! Which names indices and aliases may have, in Elasticsearch's sentences.

use model::{Error, ErrorKind, Result};

const FORBIDDEN: &str = "\\/*?\"<>| ,";

fn problem(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("must not be empty".into());
    }
    if name.chars().any(|c| FORBIDDEN.contains(c)) {
        return Some("must not contain the following characters [ , \", *, \\, <, |, ,, >, /, ?]".into());
    }
    if name.contains('#') {
        return Some("must not contain '#'".into());
    }
    if name.contains(':') {
        return Some("must not contain ':'".into());
    }
    if name.starts_with(['_', '-', '+']) {
        return Some("must not start with '_', '-', or '+'".into());
    }
    if name.len() > 255 {
        return Some(format!("index name is too long, ({} > 255)", name.len()));
    }
    if name == "." || name == ".." {
        return Some("must not be '.' or '..'".into());
    }
    None
}

/// An index' name.
///
/// # Errors
/// `invalid_index_name_exception`.
pub fn check_index(name: &str) -> Result<()> {
    let wrong = problem(name).or_else(|| (name.to_lowercase() != name).then(|| "must be lowercase".to_owned()));
    match wrong {
        None => Ok(()),
        Some(why) => Err(
            Error::new(ErrorKind::InvalidIndexName, format!("Invalid index name [{name}], {why}"))
                .with("index_uuid", "_na_")
                .with("index", name),
        ),
    }
}

/// An alias' name.
///
/// # Errors
/// `invalid_alias_name_exception`.
pub fn check_alias(name: &str) -> Result<()> {
    match problem(name) {
        None => Ok(()),
        Some(why) => Err(Error::new(
            ErrorKind::InvalidAliasName,
            format!("Invalid alias name [{name}]: {why}"),
        )),
    }
}
