//! Which names indices and aliases may have, in Elasticsearch's sentences.

use model::system_index::{forbidden, is_system};
use model::{Error, ErrorKind, Result, Topic};

const FORBIDDEN: &str = "\\/*?\"<>| ,";

/// A rule that a name breaks.
enum Rule {
    NotEmpty,
    Characters,
    NoHash,
    NoColon,
    Visible(char),
    Start,
    Length(usize),
    NoDots,
    Lowercase,
}

impl Rule {
    fn words(&self) -> String {
        match self {
            Rule::NotEmpty => "must not be empty".into(),
            Rule::Characters => "must not contain the following characters [ , \", *, \\, <, |, ,, >, /, ?]".into(),
            Rule::NoHash => "must not contain '#'".into(),
            Rule::NoColon => "must not contain ':'".into(),
            Rule::Visible(mark) => format!(
                "must not contain control characters or direction marks [U+{:04X}]",
                u32::from(*mark)
            ),
            Rule::Start => "must not start with '_', '-', or '+'".into(),
            Rule::Length(bytes) => format!("index name is too long, ({bytes} > 255)"),
            Rule::NoDots => "must not be '.' or '..'".into(),
            Rule::Lowercase => "must be lowercase".into(),
        }
    }
}

/// The first rule of all names that this one breaks.
fn broken(name: &str) -> Option<Rule> {
    if name.is_empty() {
        return Some(Rule::NotEmpty);
    }
    if name.chars().any(|c| FORBIDDEN.contains(c)) {
        return Some(Rule::Characters);
    }
    if name.contains('#') {
        return Some(Rule::NoHash);
    }
    if name.contains(':') {
        return Some(Rule::NoColon);
    }
    if let Some(mark) = name.chars().find(|c| is_invisible(*c)) {
        return Some(Rule::Visible(mark));
    }
    if name.starts_with(['_', '-', '+']) {
        return Some(Rule::Start);
    }
    if name.len() > 255 {
        return Some(Rule::Length(name.len()));
    }
    (name == "." || name == "..").then_some(Rule::NoDots)
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
    let lowercase = || (name.to_lowercase() != name).then_some(Rule::Lowercase);
    let Some(rule) = broken(name).or_else(lowercase) else {
        return Ok(());
    };
    let reason = format!("Invalid index name [{name}], {}", rule.words());
    let error = Error::new(ErrorKind::InvalidIndexName, reason)
        .with("index_uuid", "_na_")
        .with("index", name);
    Err(match rule {
        Rule::Characters => error.about(Topic::NameCharacters),
        Rule::Start => error.about(Topic::NameStart),
        _ => error,
    })
}

/// An alias' name.
///
/// # Errors
/// `invalid_alias_name_exception`; the name of a system index.
pub fn check_alias(name: &str) -> Result<()> {
    if is_system(name) {
        return Err(forbidden(name));
    }
    let Some(rule) = broken(name) else { return Ok(()) };
    let reason = format!("Invalid alias name [{name}]: {}", rule.words());
    Err(Error::new(ErrorKind::InvalidAliasName, reason).about(Topic::AliasName { alias: name.to_owned() }))
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

    fn check_topic(refused: Result<()>, topic: Option<Topic>) {
        assert_eq!(refused.expect_err("a name that may not be").topic(), topic.as_ref());
    }

    #[test]
    fn broken_rules_have_topics() {
        check_topic(check_index("a b"), Some(Topic::NameCharacters));
        check_topic(check_index("_a"), Some(Topic::NameStart));
        check_topic(check_index("A"), None);
        check_topic(check_alias("_a"), Some(Topic::AliasName { alias: "_a".to_owned() }));
    }
}
