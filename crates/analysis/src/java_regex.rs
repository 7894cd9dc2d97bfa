//! Regular expressions as Java writes them, in the syntax of the `regex` crate.
//!
//! Look-around and back references are refused, for that crate has neither. One form works: a look-ahead at
//! the very end of a pattern, for the character filter that replaces matches.

use model::{Error, Result};
use regex::{Regex, RegexBuilder};

/// A Java pattern with its flags (`CASE_INSENSITIVE|DOTALL`).
pub(crate) fn compile(pattern: &str, flags: &str) -> Result<Regex> {
    if let Some(what) = unsupported_construct(pattern) {
        return Err(Error::illegal(format!(
            "cannot use pattern [{pattern}]: {what} is not supported"
        )));
    }
    let literal = flags.contains("LITERAL");
    let translated = if literal { regex::escape(pattern) } else { translate(pattern) };
    let mut builder = RegexBuilder::new(&translated);
    for flag in flags.split('|').map(str::trim).filter(|flag| !flag.is_empty()) {
        match flag {
            "CASE_INSENSITIVE" => builder.case_insensitive(true),
            "MULTILINE" => builder.multi_line(true),
            "DOTALL" => builder.dot_matches_new_line(true),
            "COMMENTS" => builder.ignore_whitespace(true),
            "UNICODE_CASE" | "CANON_EQ" | "UNIX_LINES" | "LITERAL" | "UNICODE_CHAR_CLASS" | "UNICODE_CHARACTER_CLASS" => {
                &mut builder
            }
            _ => return Err(Error::illegal(format!("Unknown regex flag [{flag}]"))),
        };
    }
    builder.build().map_err(|error| {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
        Error::illegal(format!("cannot use pattern [{pattern}]: {why}"))
    })
}

/// A pattern that matches whole terms.
pub(crate) fn compile_whole(pattern: &str, flags: &str) -> Result<Regex> {
    compile(&format!("^(?:{pattern})$"), flags)
}

/// A pattern that may end in a look-ahead: what is matched, and what must follow it.
pub(crate) fn compile_with_lookahead(pattern: &str, flags: &str) -> Result<(Regex, Option<Regex>)> {
    if let Some(at) = pattern.rfind("(?=")
        && pattern.ends_with(')')
        && !pattern[at + 3..pattern.len() - 1].contains(['(', ')'])
        && !pattern[..at].contains("(?=")
    {
        let next = compile(&format!("^(?:{})", &pattern[at + 3..pattern.len() - 1]), flags)?;
        return Ok((compile(&pattern[..at], flags)?, Some(next)));
    }
    Ok((compile(pattern, flags)?, None))
}

fn unsupported_construct(pattern: &str) -> Option<&'static str> {
    let mut chars = pattern.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, '1'..='9' | 'k')) => return Some("a back reference"),
                Some((_, 'G')) => return Some("\\G"),
                _ => {}
            },
            '(' => {
                let rest = &pattern[at..];
                if rest.starts_with("(?=") || rest.starts_with("(?!") {
                    return Some("look-ahead");
                }
                if rest.starts_with("(?<=") || rest.starts_with("(?<!") {
                    return Some("look-behind");
                }
                if rest.starts_with("(?>") {
                    return Some("an atomic group");
                }
            }
            _ => {}
        }
    }
    None
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut depth = 0_usize;
    let mut at = 0;
    let mut quantified = false;
    while let Some(c) = pattern[at..].chars().next() {
        let rest = &pattern[at + c.len_utf8()..];
        at += c.len_utf8();
        let was_quantified = std::mem::take(&mut quantified);
        match c {
            '\\' => {
                let Some(escaped) = rest.chars().next() else {
                    out.push('\\');
                    break;
                };
                at += escaped.len_utf8();
                match escaped {
                    'w' => out.push_str("[0-9A-Za-z_]"),
                    'W' => out.push_str("[^0-9A-Za-z_]"),
                    'd' => out.push_str("[0-9]"),
                    'D' => out.push_str("[^0-9]"),
                    's' => out.push_str(r"[ \t\n\x0B\f\r]"),
                    'S' => out.push_str(r"[^ \t\n\x0B\f\r]"),
                    'h' => out.push_str(r"[ \t\u{a0}\u{1680}\u{180e}\u{2000}-\u{200a}\u{202f}\u{205f}\u{3000}]"),
                    'R' => out.push_str(r"(?:\r\n|[\n\x0B\f\r\u{85}\u{2028}\u{2029}])"),
                    'Z' => out.push_str(r"\z"),
                    'e' => out.push_str(r"\x1b"),
                    'p' | 'P' => at += property(&pattern[at..], escaped == 'P', &mut out),
                    'Q' => {
                        let end = pattern[at..].find("\\E").map_or(pattern.len(), |n| at + n);
                        out.push_str(&regex::escape(&pattern[at..end]));
                        at = (end + 2).min(pattern.len());
                    }
                    // Letters keep their meaning; whatever else is escaped stands for itself.
                    c if c.is_ascii_alphanumeric() => {
                        out.push('\\');
                        out.push(c);
                    }
                    c if c.is_ascii() => out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
                    c => out.push(c),
                }
            }
            '[' => {
                depth += 1;
                out.push('[');
                if rest.starts_with('^') {
                    out.push('^');
                    at += 1;
                }
            }
            ']' if depth > 0 => {
                depth -= 1;
                out.push(']');
            }
            '-' | '~' if depth > 0 && rest.starts_with(c) => {
                out.push('\\');
                out.push(c);
            }
            '*' | '+' | '?' | '}' if depth == 0 => {
                // A possessive quantifier finds what the greedy one finds, where there is no going back.
                if !(c == '+' && was_quantified) {
                    out.push(c);
                    quantified = true;
                }
            }
            c => out.push(c),
        }
    }
    out
}

/// `{Alpha}` and the like after `\p`: writes the class, and says how long it was.
fn property(rest: &str, negated: bool, out: &mut String) -> usize {
    let escape = if negated { r"\P" } else { r"\p" };
    let Some(end) = rest.strip_prefix('{').and_then(|body| body.find('}')) else {
        out.push_str(escape);
        return 0;
    };
    let name = &rest[1..=end];
    let posix = match name {
        "Alpha" | "Digit" | "Alnum" | "Upper" | "Lower" | "Punct" | "Graph" | "Print" | "Blank" | "Cntrl" | "XDigit"
        | "Space" | "ASCII" => Some(name.to_ascii_lowercase()),
        _ => None,
    };
    match posix {
        Some(posix) => out.push_str(&format!("[{}[:{posix}:]]", if negated { "^" } else { "" })),
        None => {
            let name = match name {
                "javaLowerCase" => "Lowercase",
                "javaUpperCase" => "Uppercase",
                "javaWhitespace" => "White_Space",
                name => name.strip_prefix("Is").unwrap_or(name),
            };
            out.push_str(&format!("{escape}{{{name}}}"));
        }
    }
    end + 2
}

/// A Java replacement (`$1`, `${name}`, `\$`) in the syntax of the `regex` crate.
pub(crate) fn replacement(java: &str, groups: usize) -> String {
    let mut out = String::with_capacity(java.len());
    let mut chars = java.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('$') => out.push_str("$$"),
                Some(c) => out.push(c),
                None => {}
            },
            '$' => {
                let mut number = String::new();
                while let Some(digit) = chars.peek().filter(|c| c.is_ascii_digit()) {
                    let longer = format!("{number}{digit}");
                    if !number.is_empty() && longer.parse::<usize>().is_ok_and(|n| n >= groups) {
                        break;
                    }
                    number = longer;
                    chars.next();
                }
                if number.is_empty() {
                    out.push('$')
                } else {
                    out.push_str(&format!("${{{number}}}"))
                }
            }
            c => out.push(c),
        }
    }
    out
}
