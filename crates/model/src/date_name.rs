//! Date math in index names: `<logs-{now/d}>`, `<logs-{now/M{yyyy.MM}}>`.

use crate::date::{DateFormat, parse_math, parse_zone};
use crate::{Error, Result};
use std::borrow::Cow;

/// The name that date math stands for; other names as they are.
///
/// # Errors
/// Unbalanced braces, unreadable math.
pub fn resolve(name: &str, now_ms: i64) -> Result<Cow<'_, str>> {
    let Some(inner) = name.strip_prefix('<').and_then(|n| n.strip_suffix('>')) else {
        return Ok(Cow::Borrowed(name));
    };
    let wrong = |why: &str| Error::illegal(format!("invalid dynamic name expression [{inner}]. {why}"));
    let mut out = String::new();
    let mut rest = inner;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        let mut depth = 0;
        let end = rest[open..].char_indices().find(|(_, c)| {
            depth += match c {
                '{' => 1,
                '}' => -1,
                _ => 0,
            };
            depth == 0
        });
        let Some((length, _)) = end else {
            return Err(wrong("date math placeholder is open ended"));
        };
        out.push_str(&placeholder(&rest[open + 1..open + length], now_ms)?);
        rest = &rest[open + length + 1..];
    }
    if rest.contains('}') {
        return Err(wrong(
            "invalid character at position [0]. `{` and `}` are reserved characters",
        ));
    }
    out.push_str(rest);
    Ok(Cow::Owned(out))
}

fn placeholder(text: &str, now_ms: i64) -> Result<String> {
    let (math, format) = match text.split_once('{') {
        Some((math, format)) => (math, format.trim_end_matches('}')),
        None => (text, "uuuu.MM.dd"),
    };
    let (pattern, zone) = match format.split_once('|') {
        Some((pattern, zone)) => (pattern, Some(parse_zone(zone)?)),
        None => (format, None),
    };
    let reader = DateFormat::parse_pattern("strict_date_optional_time||epoch_millis")?;
    let ms = parse_math(math, &reader, zone.as_ref(), now_ms, false)?;
    Ok(DateFormat::parse_pattern(pattern)?.render(ms, zone.as_ref()))
}
