//! Names of repositories and snapshots.

use model::{Error, ErrorKind, Result};

const FORBIDDEN: &str = "\\/*?\"<>| ,";
const NAME_MAX_BYTES: usize = 255;

/// # Errors
/// `repository_exception`, 400.
pub(crate) fn check_repository(name: &str) -> Result<()> {
    let refuse = |why: &str| Err(Error::new(ErrorKind::Repository, format!("[{name}] {why}")).status_of(400));
    if name.is_empty() {
        return refuse("cannot be empty");
    }
    if name.contains('#') {
        return refuse("must not contain '#'");
    }
    match problem(name) {
        Some(why) => refuse(&why),
        None => Ok(()),
    }
}

/// # Errors
/// `invalid_snapshot_name_exception`.
pub(crate) fn check_snapshot(repository: &str, name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "cannot be empty".to_owned()
    } else if name.contains(' ') {
        "must not contain whitespace".to_owned()
    } else if name.contains(',') {
        "must not contain ','".to_owned()
    } else if name.contains('#') {
        "must not contain '#'".to_owned()
    } else if name.starts_with('_') {
        "must not start with '_'".to_owned()
    } else if name.to_lowercase() != name {
        "must be lowercase".to_owned()
    } else {
        match problem(name) {
            Some(why) => why,
            None => return Ok(()),
        }
    };
    let reason = format!("[{repository}:{name}] Invalid snapshot name [{name}], {why}");
    Err(Error::new(ErrorKind::InvalidSnapshotName, reason))
}

/// A name with date math, as `<snap-{now/d}>`, as it is at that time.
///
/// # Errors
/// Date math that cannot be read.
pub(crate) fn resolve_date_math(name: &str, now_ms: i64) -> Result<String> {
    model::date_name::resolve(name, now_ms).map(std::borrow::Cow::into_owned)
}

fn problem(name: &str) -> Option<String> {
    if name.chars().any(|c| FORBIDDEN.contains(c)) {
        return Some("must not contain the following characters [ , \", *, \\, <, |, ,, >, /, ?]".to_owned());
    }
    if name.chars().any(char::is_control) {
        return Some("must not contain control characters".to_owned());
    }
    (name.len() > NAME_MAX_BYTES).then(|| format!("is too long, ({} > {NAME_MAX_BYTES})", name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_in_the_words_of_the_reference() {
        let check = |name: &str, why: Option<&str>| match (check_snapshot("r", name), why) {
            (Ok(()), None) => {}
            (Err(e), Some(why)) => assert!(e.reason().ends_with(why), "{name}: {}", e.reason()),
            (found, _) => panic!("{name}: {found:?}"),
        };
        check("s-2026.01.02", None);
        check("", Some("cannot be empty"));
        check("a b", Some("must not contain whitespace"));
        check("a,b", Some("must not contain ','"));
        check("a#", Some("must not contain '#'"));
        check("_a", Some("must not start with '_'"));
        check("A", Some("must be lowercase"));
        check("a*", Some("[ , \", *, \\, <, |, ,, >, /, ?]"));
        check("a\u{7}", Some("must not contain control characters"));
        check(&"x".repeat(256), Some("is too long, (256 > 255)"));
        assert!(check_repository("r").is_ok() && check_repository("r/s").is_err() && check_repository("r#").is_err());
    }
}
