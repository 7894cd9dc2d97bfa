//! A member of a JSON object, found by a scan that builds nothing.
//!
//! Not here: whether the text is JSON (`read`).

/// The text of the last string member `name` at the top level of an object, as it stands between its quotes. It takes about
/// a nanosecond a byte. A text that is no object has none.
pub fn top_level_string<'a>(text: &'a [u8], name: &str) -> Option<&'a str> {
    let (mut depth, mut at, mut found) = (0_usize, 0, None);
    // The last string at the top level that a colon follows.
    let mut key: &[u8] = b"";
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => {
                depth += 1;
                key = b"";
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' => key = b"",
            b'"' => {
                let begin = at;
                at = end_of_string(text, begin)?;
                let string = text.get(begin..at - 1)?;
                if depth == 1 {
                    if key == name.as_bytes() {
                        found = std::str::from_utf8(string).ok();
                    }
                    key = string;
                }
            }
            _ => {}
        }
    }
    found
}

/// The place behind the quote that ends a string.
fn end_of_string(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::top_level_string;

    #[test]
    fn only_top_level_strings_are_found() {
        for (text, expected) in [
            (r#"{"timeout":"1s"}"#, Some("1s")),
            (r#" { "query" : {"timeout":"2s"}, "timeout" : "1s" } "#, Some("1s")),
            (r#"{"a":["timeout","3s"],"timeout":"1s"}"#, Some("1s")),
            (r#"{"a":"timeout","b":"\"timeout\":\"3s\"","timeout":"1s"}"#, Some("1s")),
            (r#"{"timeout":"1s","timeout":"2s"}"#, Some("2s")),
            (r#"{"timeout":5}"#, None),
            (r#"{"timeout":{"timeout":"1s"}}"#, None),
            (r#"{"timeout":"1s"#, None),
            (r#"["timeout","1s"]"#, None),
            (r#"{"timeout":"\"#, None),
            ("", None),
        ] {
            assert_eq!(top_level_string(text.as_bytes(), "timeout"), expected, "{text}");
        }
    }
}
