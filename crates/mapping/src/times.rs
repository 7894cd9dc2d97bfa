//! `_timestamp` and `_ttl` of 2015: when a document is said to have been written, and until when it lives.
//!
//! A type that enables them has a hidden field for each, as it has `_all`: a date and the end of its life, both in
//! milliseconds since 1970. Pure: what time it is comes from the caller. Not here: who deletes what is over
//! (`relations`), where the times are kept (`embedded`).

use crate::field::Params;
use crate::mapping::{Inner, Mapping, Root};
use crate::names::{TIMESTAMP, TTL};
use crate::parameters::{self, Context};
use crate::wording::{java, mapper_parsing, text_of};
use model::compat::IndexRules;
use model::date::{DateFormat, PatternSyntax};
use model::{DocAddress, Error, ErrorKind, Result};
use serde_json::Value;
use std::sync::Arc;

/// The times of a document; `None` where its type keeps none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// `_timestamp`, in milliseconds since 1970.
    pub timestamp: Option<i64>,
    /// The end of its life, in milliseconds since 1970.
    pub expires: Option<i64>,
}

/// The times that a write names for its document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// `timestamp`.
    pub timestamp: Option<Moment>,
    /// `ttl`.
    pub life: Option<Life>,
    /// When it was judged, in milliseconds since 1970, if not when it is written: what `now` means, and nothing of it is
    /// refused any more. A change that is decided is brought to its documents later, by anybody.
    pub judged_ms: Option<i64>,
}

/// A moment as a write names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A date in the format of the type.
    Said(String),
    /// Milliseconds since 1970.
    At(i64),
}

/// How long a document lives, as a write says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Milliseconds from its timestamp on.
    For(i64),
    /// Until then, in milliseconds since 1970.
    Until(i64),
    /// Without end, whatever its type says.
    Endless,
}

impl Times {
    /// The milliseconds that are left, which `GET` shows as `_ttl`.
    pub fn left(self, now_ms: i64) -> Option<i64> {
        self.expires.map(|expires| expires.saturating_sub(now_ms))
    }
    /// Neither is kept.
    pub fn is_none(self) -> bool {
        self == Times::default()
    }
}

impl Timing {
    /// A write that leaves the times as they are.
    pub fn keep(times: Times) -> Timing {
        Timing {
            timestamp: times.timestamp.map(Moment::At),
            life: times.expires.map(Life::Until),
            judged_ms: None,
        }
    }
    /// A write over a document that is to stay as it is, also where its type has changed or its life is over.
    pub fn keep_even_expired(times: Times, now_ms: i64) -> Timing {
        let life = times.expires.map_or(Life::Endless, Life::Until);
        Timing {
            life: Some(life),
            ..Timing::keep(times)
        }
        .judge_at(now_ms)
    }
    /// The same, judged at this moment.
    #[must_use]
    pub fn judge_at(self, now_ms: i64) -> Timing {
        Timing {
            judged_ms: Some(now_ms),
            ..self
        }
    }
    /// Does it say nothing?
    pub fn is_silent(&self) -> bool {
        *self == Timing::default()
    }
}

impl Mapping {
    /// The times that a document of this type has after a write.
    ///
    /// # Errors
    /// A timestamp that is no date, or is missing where the type wants one; a life that is over.
    pub fn times(&self, at: &DocAddress, timing: &Timing, now_ms: i64) -> Result<Times> {
        if !self.rules().documents_expire {
            return Ok(Times::default());
        }
        let is_judged = timing.judged_ms.is_some();
        let now_ms = timing.judged_ms.unwrap_or(now_ms);
        let own = options(&self.0.top, TIMESTAMP);
        let format = || format_of(own);
        let parse = |text: &str| {
            let failed = |cause: Error| timestamp_error(text).with_cause(cause);
            format()?.parse(text, None).map_err(failed)
        };
        let given = match &timing.timestamp {
            Some(Moment::Said(text)) => Some(parse(text)?),
            Some(Moment::At(at)) => Some(*at),
            None => None,
        };
        let timestamp = match given {
            Some(given) => given,
            None if !is_judged
                && own
                    .and_then(|o| o.get("ignore_missing"))
                    .is_some_and(|v| text_of(v) == "false") =>
            {
                return Err(timestamp_error("timestamp is required by mapping"));
            }
            None => match own.and_then(|o| o.get("default")).map(text_of).as_deref() {
                None | Some("now") => now_ms,
                Some(default) => parse(default)?,
            },
        };
        let expires = if is_enabled(&self.0.top, TTL) {
            let default = options(&self.0.top, TTL).and_then(|o| o.get("default")?.as_i64());
            let until = |life: i64| timestamp.saturating_add(life);
            match timing.life {
                Some(Life::Until(end)) => Some(end),
                Some(Life::Endless) => None,
                Some(Life::For(life)) if life > 0 => Some(until(life)),
                _ => default.filter(|life| *life > 0).map(until),
            }
        } else {
            None
        };
        if let Some(expires) = expires.filter(|expires| !is_judged && *expires <= now_ms) {
            let reason = format!(
                "already expired [{}]/[{}]/[{}] due to expire at [{expires}] and was processed at [{now_ms}]",
                at.index,
                at.id.doc_type.as_deref().unwrap_or("_doc"),
                at.id.id
            );
            let cause = Error::new(ErrorKind::AlreadyExpired, reason).with("index", at.index.as_str());
            return Err(mapper_parsing("failed to parse [_ttl]").with_cause(cause));
        }
        Ok(Times {
            timestamp: is_enabled(&self.0.top, TIMESTAMP).then_some(timestamp),
            expires,
        })
    }
}

/// The refusal of a timestamp.
fn timestamp_error(text: &str) -> Error {
    Error::new(ErrorKind::TimestampParsing, format!("failed to parse timestamp [{text}]"))
}

fn options<'a>(top: &'a Root, section: &str) -> Option<&'a Params> {
    top.get(section)?.as_object()
}

/// Does the type keep it?
pub(crate) fn is_enabled(top: &Root, section: &str) -> bool {
    let said = options(top, section).and_then(|o| o.get("enabled")).map(text_of);
    matches!(said.as_deref(), Some("true" | "yes" | "on" | "1"))
}

fn format_of(own: Option<&Params>) -> Result<DateFormat> {
    match own.and_then(|o| o.get("format")).map(text_of) {
        // Only types have times of their own.
        Some(format) => DateFormat::parse_pattern_of(&format, PatternSyntax::Joda),
        None => Ok(DateFormat::usual(PatternSyntax::Joda)),
    }
}

/// Checks the options of both in a type, and brings them into the form that is rendered.
///
/// # Errors
/// Options that they never had, formats that are none, a default that is none.
pub(crate) fn check(top: &mut Root) -> Result<()> {
    for (section, known) in [
        (
            TIMESTAMP,
            &["enabled", "format", "default", "ignore_missing", "fielddata"][..],
        ),
        (TTL, &["enabled", "default"]),
    ] {
        let own = options(top, section);
        if let Some((key, value)) = own.and_then(|all| all.iter().find(|(key, _)| !known.contains(&key.as_str()))) {
            return Err(mapper_parsing(format!(
                "Mapping definition for [{section}] has unsupported parameters:  [{key} : {}]",
                java(value)
            )));
        }
    }
    for section in [TIMESTAMP, TTL] {
        let on = is_enabled(top, section);
        if let Some(said) = top.get_mut(section).and_then(|own| own.get_mut("enabled")) {
            *said = on.into();
        }
    }
    if let Some(own) = options(top, TIMESTAMP) {
        if own.get("default").is_some_and(Value::is_null) {
            return Err(timestamp_error("default timestamp can not be set to null"));
        }
        if own.get("default").is_some() && own.get("ignore_missing").is_some_and(|v| text_of(v) == "false") {
            return Err(timestamp_error(
                "default timestamp can not be set with ignore_missing set to false",
            ));
        }
        format_of(Some(own))?;
    }
    if let Some(default) = top.get_mut(TTL).and_then(|ttl| ttl.get_mut("default")) {
        let text = text_of(default);
        let life = match text.parse::<u64>() {
            Ok(bare) => bare,
            Err(_) => {
                let life = model::units::parse_duration_of_2015(&text, "_ttl.default")?;
                u64::try_from(life.as_millis()).unwrap_or(u64::MAX)
            }
        };
        *default = life.into();
    }
    Ok(())
}

/// Whether an update may say it.
pub(crate) fn check_update(old: &Root, new: &Root) -> Result<()> {
    if is_enabled(old, TTL)
        && new.contains_key(TTL)
        && options(new, TTL).is_some_and(|o| o.contains_key("enabled"))
        && !is_enabled(new, TTL)
    {
        return Err(Error::illegal("_ttl cannot be disabled once it was enabled."));
    }
    if new.contains_key(TIMESTAMP) && old.contains_key(TIMESTAMP) {
        let shown = |root: &Root, key: &str, or: &str| {
            let said = options(root, TIMESTAMP).and_then(|o| o.get(key));
            said.map_or_else(|| or.to_owned(), text_of)
        };
        let (before, after) = (shown(old, "default", "now"), shown(new, "default", "now"));
        if before != after {
            return Err(Error::illegal(format!(
                "Conflicts: [Cannot update default in _timestamp value. Value is {before} now encountering {after}]"
            )));
        }
        let usual = model::date::FORMAT_DEFAULT;
        if shown(old, "format", usual) != shown(new, "format", usual) {
            return Err(Error::illegal(
                "Mapper for [_timestamp] conflicts with existing mapping in other types:\n[mapper [_timestamp] is used by multiple \
                 types. Set update_all_types to true to update [format] across all types.]",
            ));
        }
    }
    Ok(())
}

impl Inner {
    /// The hidden fields of what the type keeps.
    pub(crate) fn add_times(&mut self) -> Result<()> {
        for (name, wire) in [(TIMESTAMP, "date"), (TTL, "long")] {
            if !is_enabled(&self.top, name) {
                continue;
            }
            let mut body = Params::from_iter([("type".to_owned(), Value::from(wire))]);
            if let (TIMESTAMP, Some(format)) = (name, options(&self.top, name).and_then(|o| o.get("format"))) {
                body.insert("format".into(), format.clone());
            }
            let context = Context {
                registry: &self.registry,
                limits: &self.limits,
                rules: IndexRules::of(true),
            };
            let field = parameters::parse(&context, name, &body, false)?;
            self.add(name, Arc::new(field));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MappingLimits, TypedMappings};
    use analysis::Registry;
    use model::{DocId, IndexName};
    use serde_json::json;

    const NOW: i64 = 1_700_000_000_000;

    /// The times of a document of a type, or why there are none.
    fn check(mapping: Value, timing: &Timing, expected: Result<(Option<i64>, Option<i64>), &str>) {
        let types = TypedMappings::parse(
            &json!({ "t": mapping }),
            &Registry::default_registry(),
            &MappingLimits::default(),
        );
        let at = DocAddress {
            index: IndexName::new("i"),
            id: DocId::with_type("t", "1"),
        };
        let found = types
            .and_then(|types| types.for_type("t"))
            .and_then(|mapping| mapping.times(&at, timing, NOW));
        let shown = found
            .as_ref()
            .map(|times| (times.timestamp, times.expires))
            .map_err(Error::reason);
        assert_eq!(shown, expected, "{mapping} {timing:?}");
    }

    #[test]
    fn times_of_writes() {
        let said = |text: &str| Timing {
            timestamp: Some(Moment::Said(text.into())),
            ..Timing::default()
        };
        let lives = |life| Timing {
            life: Some(Life::For(life)),
            ..Timing::default()
        };
        let kept = json!({"_timestamp": {"enabled": true}});
        check(json!({}), &Timing::default(), Ok((None, None)));
        check(kept.clone(), &Timing::default(), Ok((Some(NOW), None)));
        check(
            kept.clone(),
            &said("2015-01-02T03:04:05"),
            Ok((Some(1_420_167_845_000), None)),
        );
        check(kept.clone(), &said("1420070400000"), Ok((Some(1_420_070_400_000), None)));
        check(kept.clone(), &lives(1000), Ok((Some(NOW), None)));
        check(kept, &said("bogus"), Err("failed to parse timestamp [bogus]"));
        check(json!({}), &said("bogus"), Err("failed to parse timestamp [bogus]"));
        check(
            json!({"_timestamp": {"enabled": true, "format": "yyyy-MM-dd", "default": "1970-01-02"}}),
            &Timing::default(),
            Ok((Some(86_400_000), None)),
        );
        check(
            json!({"_timestamp": {"enabled": true, "ignore_missing": false}}),
            &Timing::default(),
            Err("failed to parse timestamp [timestamp is required by mapping]"),
        );
        check(
            json!({"_timestamp": {"enabled": true, "default": null}}),
            &Timing::default(),
            Err("Failed to parse mapping [t]: failed to parse timestamp [default timestamp can not be set to null]"),
        );
        check(
            json!({"_timestamp": {"enabled": true, "store": true}}),
            &Timing::default(),
            Err("Failed to parse mapping [t]: Mapping definition for [_timestamp] has unsupported parameters:  [store : true]"),
        );
        let living = json!({"_ttl": {"enabled": true}});
        check(living.clone(), &Timing::default(), Ok((None, None)));
        check(living.clone(), &lives(5000), Ok((None, Some(NOW + 5000))));
        check(
            living,
            &Timing {
                timestamp: Some(Moment::At(NOW - 10)),
                life: Some(Life::For(10)),
                judged_ms: None,
            },
            Err("failed to parse [_ttl]"),
        );
        // A write that was judged before is not judged again, and means what it meant then.
        let over = Times {
            timestamp: Some(NOW - 20),
            expires: Some(NOW - 10),
        };
        let both = json!({"_timestamp": {"enabled": true, "ignore_missing": false}, "_ttl": {"enabled": true, "default": "1d"}});
        check(
            both.clone(),
            &Timing::keep_even_expired(over, NOW),
            Ok((over.timestamp, over.expires)),
        );
        check(
            both.clone(),
            &Timing::keep_even_expired(Times::default(), NOW - 5),
            Ok((Some(NOW - 5), None)),
        );
        check(both, &lives(10).judge_at(NOW - 100), Ok((Some(NOW - 100), Some(NOW - 90))));
        check(
            json!({"_ttl": {"enabled": true, "default": "1d"}}),
            &Timing::default(),
            Ok((None, Some(NOW + 86_400_000))),
        );
    }
}
