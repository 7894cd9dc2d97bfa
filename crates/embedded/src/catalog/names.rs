//! Which names indices and aliases may have, in Elasticsearch's sentences.

use model::system_index::{forbidden, is_system};
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
    if let Some(mark) = name.chars().find(|c| is_invisible(*c)) {
        return Some(format!(
            "must not contain control characters or direction marks [U+{:04X}]",
            u32::from(mark)
        ));
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

/// Control characters, and marks that nobody sees and that change how a name is shown: of direction, joiners, a byte order
/// mark.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
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
/// `invalid_alias_name_exception`; the name of a system index.
pub fn check_alias(name: &str) -> Result<()> {
    if is_system(name) {
        return Err(forbidden(name));
    }
    match problem(name) {
        None => Ok(()),
        Some(why) => Err(Error::new(
            ErrorKind::InvalidAliasName,
            format!("Invalid alias name [{name}]: {why}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_in_no_name() {
        for name in [
            "a\u{7}b",
            "a\nb",
            "a\u{202E}b",
            "a\u{200F}",
            "a\u{2066}b",
            "a\u{200B}b",
            "\u{FEFF}a",
            "a\u{85}b",
        ] {
            for refused in [check_index(name), check_alias(name)] {
                let reason = refused.expect_err("an invisible character").reason().to_owned();
                assert!(
                    reason.contains("must not contain control characters or direction marks [U+"),
                    "{reason}"
                );
            }
        }
        for name in ["a", "\u{e9}t\u{e9}", "\u{65e5}\u{672c}", "\u{645}\u{641}"] {
            check_index(name).expect("letters of any language");
        }
    }
}
