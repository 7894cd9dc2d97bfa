//! The elements of an array of JSON, one after the other, each on one line.
//!
//! An element is found by its brackets and quotation marks alone; whether it is JSON, and an object, is for who reads it.

use std::io::{BufRead, Error, ErrorKind, Result};

/// A file that is one array.
pub(super) struct Array<R> {
    from: R,
    /// The number of the element that was read last, from 1.
    pub(super) number: u64,
    has_begun: bool,
}

impl<R: BufRead> Array<R> {
    pub(super) fn new(from: R) -> Array<R> {
        Array {
            from,
            number: 0,
            has_begun: false,
        }
    }

    /// The next element; `None` behind the last one.
    ///
    /// # Errors
    /// A file that cannot be read, that ends inside the array, or that goes on behind it.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>> {
        if !self.has_begun {
            if self.past_white_space()? != Some(b'[') {
                return Err(self.error("no array begins here"));
            }
            self.from.consume(1);
            self.has_begun = true;
            if self.past_white_space()? != Some(b']') {
                return self.element().map(Some);
            }
        }
        match self.past_white_space()? {
            Some(b',') => {
                self.from.consume(1);
                self.element().map(Some)
            }
            Some(b']') => {
                self.from.consume(1);
                match self.past_white_space()? {
                    None => Ok(None),
                    Some(_) => Err(self.error("something follows the array")),
                }
            }
            Some(_) => Err(self.error("[,] or []] is expected behind it")),
            None => Err(self.error("the file ends inside the array")),
        }
    }

    /// Passes over white space; the byte behind it, which stays.
    fn past_white_space(&mut self) -> Result<Option<u8>> {
        loop {
            let buffer = self.from.fill_buf()?;
            let Some(at) = buffer.iter().position(|byte| !byte.is_ascii_whitespace()) else {
                let all = buffer.len();
                if all == 0 {
                    return Ok(None);
                }
                self.from.consume(all);
                continue;
            };
            let found = buffer[at];
            self.from.consume(at);
            return Ok(Some(found));
        }
    }

    /// The text up to a comma or bracket of the array itself, without ends of lines.
    fn element(&mut self) -> Result<Vec<u8>> {
        self.number += 1;
        self.past_white_space()?;
        let (mut text, mut depth, mut in_string, mut escaped) = (Vec::new(), 0_u64, false, false);
        loop {
            let buffer = self.from.fill_buf()?;
            if buffer.is_empty() {
                return Err(self.error("the file ends inside the array"));
            }
            let mut taken = 0;
            let mut is_over = false;
            for &byte in buffer {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if in_string => escaped = true,
                    b'"' => in_string = !in_string,
                    _ if in_string => {}
                    b'{' | b'[' => depth += 1,
                    b',' | b']' | b'}' if depth == 0 => {
                        is_over = true;
                        break;
                    }
                    b']' | b'}' => depth -= 1,
                    _ => {}
                }
                // A raw end of a line inside a string stays, and is refused with its element.
                text.push(if matches!(byte, b'\n' | b'\r') && !in_string {
                    b' '
                } else {
                    byte
                });
                taken += 1;
            }
            self.from.consume(taken);
            if is_over {
                text.truncate(text.trim_ascii_end().len());
                return Ok(text);
            }
        }
    }

    fn error(&self, what: &str) -> Error {
        Error::new(ErrorKind::InvalidData, format!("element {}: {what}", self.number.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    /// The elements up to the error, if there is one; read with a buffer of so many bytes.
    fn check(text: &str, expected: &[&str], error: Option<&str>) {
        for buffer in [1, 3, 8192] {
            let mut array = Array::new(BufReader::with_capacity(buffer, text.as_bytes()));
            let mut found = Vec::new();
            let end = loop {
                match array.next() {
                    Ok(Some(element)) => found.push(String::from_utf8(element).expect("it was text")),
                    Ok(None) => break None,
                    Err(cause) => break Some(cause.to_string()),
                }
            };
            assert_eq!(found, expected, "{text}");
            assert_eq!(end.is_some(), error.is_some(), "{text}: {end:?}");
            assert!(end.unwrap_or_default().contains(error.unwrap_or_default()), "{text}");
        }
    }

    #[test]
    fn elements_are_found_by_brackets_and_strings() {
        check("[]", &[], None);
        check(" [\n] \n", &[], None);
        check(r#"[{"a":1},{"a":2}]"#, &[r#"{"a":1}"#, r#"{"a":2}"#], None);
        check("[\n {\n\"a\": [1,\r\n2]\n} ,\n 7 ]", &["{ \"a\": [1,  2] }", "7"], None);
        check(r#"["],[", {"a":"\"]}"}]"#, &[r#""],[""#, r#"{"a":"\"]}"}"#], None);
        check("[1,]", &["1", ""], None);
        check("[1", &[], Some("element 1: the file ends"));
        check("[1,", &["1"], Some("element 2: the file ends"));
        check(r#"[{"a":1} {"b":2}]"#, &[r#"{"a":1} {"b":2}"#], None);
        check("[1}", &["1"], Some("[,] or []]"));
        check("[1] 2", &["1"], Some("something follows"));
        check("1", &[], Some("no array begins here"));
    }
}
