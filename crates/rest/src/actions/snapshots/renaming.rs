//! New names of restored indices: `rename_pattern` with `rename_replacement`, as `String.replaceAll` of Java has them.
//!
//! Patterns run in linear time, so those that look around or back are refused.

use model::{Error, Result};
use regex::{Captures, Regex, RegexBuilder};

/// The compiled pattern of a request may take so much.
const PATTERN_MAX_BYTES: usize = 1 << 20;

/// How names change.
#[derive(Debug)]
pub(crate) struct Renaming(Option<(Regex, Vec<Piece>)>);

#[derive(Debug)]
enum Piece {
    Text(String),
    Group(usize),
    Named(String),
}

impl Renaming {
    /// Both are needed for names to change.
    ///
    /// # Errors
    /// A pattern or a replacement that cannot be read.
    pub(crate) fn new(pattern: Option<&str>, replacement: Option<&str>) -> Result<Renaming> {
        let (Some(pattern), Some(replacement)) = (pattern, replacement) else {
            return Ok(Renaming(None));
        };
        let built = RegexBuilder::new(pattern).size_limit(PATTERN_MAX_BYTES).build();
        let regex = built.map_err(|cause| Error::illegal(format!("[rename_pattern] [{pattern}] cannot be read: {cause}")))?;
        let pieces = pieces(replacement, &regex)?;
        Ok(Renaming(Some((regex, pieces))))
    }

    /// Does it change any name?
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// The name afterwards.
    pub(crate) fn apply(&self, name: &str) -> String {
        let Some((regex, pieces)) = &self.0 else {
            return name.to_owned();
        };
        let replaced = |found: &Captures<'_>| -> String {
            let part = |piece: &Piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Group(n) => found.get(*n).map_or_else(String::new, |part| part.as_str().to_owned()),
                Piece::Named(name) => found.name(name).map_or_else(String::new, |part| part.as_str().to_owned()),
            };
            pieces.iter().map(part).collect()
        };
        regex.replace_all(name, replaced).into_owned()
    }
}

/// `$1`, `${name}`, and `\` before a character that means itself.
fn pieces(replacement: &str, regex: &Regex) -> Result<Vec<Piece>> {
    let wrong = |why: String| Error::illegal(format!("[rename_replacement] [{replacement}] cannot be read: {why}"));
    let mut out = Vec::new();
    let mut text = String::new();
    let mut rest = replacement.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => text.push(rest.next().ok_or_else(|| wrong("it ends in a backslash".to_owned()))?),
            '$' => {
                out.push(Piece::Text(std::mem::take(&mut text)));
                if rest.next_if_eq(&'{').is_some() {
                    let mut name = String::new();
                    loop {
                        match rest.next() {
                            Some('}') => break,
                            Some(c) => name.push(c),
                            None => return Err(wrong("a [${] is not closed".to_owned())),
                        }
                    }
                    if !regex.capture_names().flatten().any(|known| known == name) {
                        return Err(wrong(format!("No group with name {{{name}}}")));
                    }
                    out.push(Piece::Named(name));
                    continue;
                }
                let first = rest.next().and_then(|c| c.to_digit(10));
                let mut group = first.ok_or_else(|| wrong("Illegal group reference".to_owned()))? as usize;
                if group >= regex.captures_len() {
                    return Err(wrong(format!("No group {group}")));
                }
                // More digits belong to the number as long as there is such a group.
                while let Some(digit) = rest.peek().and_then(|c| c.to_digit(10)) {
                    let longer = group * 10 + digit as usize;
                    if longer >= regex.captures_len() {
                        break;
                    }
                    group = longer;
                    rest.next();
                }
                out.push(Piece::Group(group));
            }
            c => text.push(c),
        }
    }
    out.push(Piece::Text(text));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_change_as_in_java() {
        let check = |pattern: &str, replacement: &str, name: &str, expected: Option<&str>| {
            let renaming = Renaming::new(Some(pattern), Some(replacement)).ok();
            assert_eq!(
                renaming.map(|renaming| renaming.apply(name)),
                expected.map(str::to_owned),
                "{pattern} {replacement}"
            );
        };
        check("(.+)", "old-$1", "a", Some("old-a"));
        check("a", "b", "aaa", Some("bbb"));
        check("(a)(b)?", "$2$1x", "a", Some("ax"));
        check("(?<n>a+)", "${n}-\\$", "aa", Some("aa-$"));
        check("(a)", "$10", "a", Some("a0"));
        check("x", "y", "a", Some("a"));
        check("(", "x", "a", None);
        check("a", "$1", "a", None);
        check("a", "$", "a", None);
        check("a", "x\\", "a", None);
        check("(?<=a)b", "x", "ab", None);
        assert_eq!(
            Renaming::new(Some("("), None).map(|none| none.apply("a")).ok().as_deref(),
            Some("a")
        );
    }
}
