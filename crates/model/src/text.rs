//! Texts as JSON writes them and as the JVM counts them.

use serde_json::Value;
use std::borrow::Cow;

/// Appends a text with its quotation marks, escaped as JSON has it.
pub fn quote(out: &mut String, text: &str) {
    // All bytes are looked at, so that several are at a time.
    let escapes = text
        .bytes()
        .fold(false, |any, b| any | (b < 0x20) | (b == b'"') | (b == b'\\'));
    if !escapes {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

/// Equality of texts where tables are compiled.
pub const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Does not compile where two rows of a table have the same `name`.
#[macro_export]
macro_rules! assert_names_differ {
    ($table:expr, $why:literal) => {
        const _: () = {
            let mut at = 0;
            while at < $table.len() {
                let mut before = 0;
                while before < at {
                    assert!(!$crate::text::is_same($table[before].name, $table[at].name), $why);
                    before += 1;
                }
                at += 1;
            }
        };
    };
}

/// Does not compile where two rows of a table have the same word, in the column that is named where rows have several.
#[macro_export]
macro_rules! assert_words_differ {
    (@rows $table:expr, [$($column:tt)*], $why:literal) => {
        const _: () = {
            let mut at = 0;
            while at < $table.len() {
                let mut before = 0;
                while before < at {
                    assert!(!$crate::text::is_same($table[before]$($column)*, $table[at]$($column)*), $why);
                    before += 1;
                }
                at += 1;
            }
        };
    };
    ($table:expr, $why:literal) => {
        $crate::assert_words_differ!(@rows $table, [], $why);
    };
    ($table:expr; $column:tt, $why:literal) => {
        $crate::assert_words_differ!(@rows $table, [.$column], $why);
    };
}

/// Appends a number, without the machinery of formats.
pub fn push_number(out: &mut String, number: u64) {
    push_digits(out, number, 1);
}

/// The same with zeros before it, so that it has at least so many digits.
pub fn push_digits(out: &mut String, mut number: u64, width: usize) {
    const DIGITS_MAX: usize = 20;
    let mut digits = [b'0'; DIGITS_MAX];
    let mut at = DIGITS_MAX;
    while number > 0 {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    (DIGITS_MAX..width).for_each(|_| out.push('0'));
    at = at.min(DIGITS_MAX - width.clamp(1, DIGITS_MAX));
    out.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
}

/// JSON on one line, as lines of JSON have it. An end of a line in JSON stands between its tokens, never inside a string.
pub fn one_line(json: &str) -> Cow<'_, str> {
    match memchr::memchr2(b'\n', b'\r', json.as_bytes()).is_some() {
        true => Cow::Owned(json.replace(['\n', '\r'], " ")),
        false => Cow::Borrowed(json),
    }
}

/// A text as [`quote`] appends it.
pub fn to_json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote(&mut out, text);
    out
}

/// Escaped, without quotation marks: what stands inside of a string already.
pub fn to_json_escapes(text: &str) -> String {
    let quoted = to_json_string(text);
    quoted[1..quoted.len() - 1].to_owned()
}

/// The bits of the JVM's `String.hashCode()`: over UTF-16, by 31.
pub fn java_hash(text: &str) -> u32 {
    text.encode_utf16()
        .fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)))
}

/// Why text is no JSON and where, in our words, for readers that keep no positions of their own.
pub fn no_json(error: &serde_json::Error) -> String {
    let (line, col) = (error.line(), error.column());
    let what = match error.classify() {
        serde_json::error::Category::Eof => "unexpected end, expected more of a value",
        serde_json::error::Category::Data => "unexpected kind of value",
        _ => "unexpected character, expected JSON in UTF-8 with whole surrogate pairs",
    };
    format!("[{line}:{col}] {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes() {
        for (text, expected) in [
            ("", r#""""#),
            ("plain é", r#""plain é""#),
            ("a \"b\" \\ c", r#""a \"b\" \\ c""#),
            ("\n\u{1}\u{7f}", "\"\\n\\u0001\u{7f}\""),
        ] {
            assert_eq!(to_json_string(text), expected);
            assert_eq!(to_json_escapes(text), expected[1..expected.len() - 1]);
            assert_eq!(serde_json::from_str::<String>(&to_json_string(text)).expect("JSON"), text);
        }
    }

    #[test]
    fn numbers() {
        for number in [0, 7, 10, 909, 1 << 53, u64::MAX] {
            let mut out = "n".to_owned();
            push_number(&mut out, number);
            assert_eq!(out, format!("n{number}"));
            for width in [0, 1, 2, 9, 20, 25] {
                let mut out = String::new();
                push_digits(&mut out, number, width);
                assert_eq!(out, format!("{number:0width$}"));
            }
        }
    }

    #[test]
    fn hashes() {
        // As a JVM tells them.
        for (text, hash) in [
            ("", 0),
            ("ab", 97 * 31 + 98),
            ("hello", 99_162_322),
            ("polygenelubricants", 1 << 31),
        ] {
            assert_eq!(java_hash(text), hash, "{text}");
        }
    }
}
