//! Texts as JSON writes them and as the JVM counts them.

use serde_json::Value;

/// Appends a text with its quotation marks, escaped as JSON has it.
pub fn quote(out: &mut String, text: &str) {
    if text.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

/// The same by itself.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote(&mut out, text);
    out
}

/// Escaped, without quotation marks: what stands inside of a string already.
pub fn escaped(text: &str) -> String {
    let quoted = quoted(text);
    quoted[1..quoted.len() - 1].to_owned()
}

/// The bits of the JVM's `String.hashCode()`: over UTF-16, by 31.
pub fn java_hash(text: &str) -> u32 {
    text.encode_utf16()
        .fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)))
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
            assert_eq!(quoted(text), expected);
            assert_eq!(escaped(text), expected[1..expected.len() - 1]);
            assert_eq!(serde_json::from_str::<String>(&quoted(text)).expect("JSON"), text);
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
