//! `index.pleach.lock_index`: which documents of an index are locks.
//!
//! Not here: what that means for writes of them (`relations`).

use crate::settings::{PLEACH_LOCK_INDEX, PLEACH_LOCK_TTL};
use crate::{Error, Result, units};
use serde_json::{Map, Value};
use std::time::Duration;

/// Types that one index may name.
const TYPES_MAX: usize = 64;
/// The shortest time to live of a lock document.
const TTL_MIN: Duration = Duration::from_secs(1);
/// The longest: more is better said by `-1`.
const TTL_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Which documents of an index are locks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum LockIndex {
    /// None of them.
    #[default]
    None,
    /// Every one.
    All,
    /// Documents of these types, in a typed index.
    Types(Vec<String>),
}

impl LockIndex {
    /// Reads the setting: a truth value, a type, types separated by commas, or an array of types.
    ///
    /// # Errors
    /// Anything else; an empty type.
    pub fn parse(setting: &Value) -> Result<LockIndex> {
        let wrong = || {
            Error::illegal(format!(
                "[{}] must be [true], [false] or the types of lock documents, but is [{setting}]",
                PLEACH_LOCK_INDEX.name
            ))
        };
        let types: Vec<String> = match setting {
            Value::Null | Value::Bool(false) => return Ok(LockIndex::None),
            Value::Bool(true) => return Ok(LockIndex::All),
            Value::String(text) => match text.trim() {
                "" | "false" => return Ok(LockIndex::None),
                "true" => return Ok(LockIndex::All),
                // Settings may arrive as text, an array rendered as JSON among them.
                list if list.starts_with('[') => serde_json::from_str(list).map_err(|_| wrong())?,
                list => list.split(',').map(|name| name.trim().to_owned()).collect(),
            },
            Value::Array(names) => names
                .iter()
                .map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong))
                .collect::<Result<_>>()?,
            _ => return Err(wrong()),
        };
        let bad = |name: &String| name.is_empty() || matches!(name.as_str(), "true" | "false");
        if types.is_empty() || types.len() > TYPES_MAX || types.iter().any(bad) {
            return Err(wrong());
        }
        Ok(LockIndex::Types(types))
    }

    /// As the settings of an index say; they were checked when they were given.
    ///
    /// # Errors
    /// As [`LockIndex::parse`].
    pub fn of(settings: &Map<String, Value>) -> Result<LockIndex> {
        settings
            .get(PLEACH_LOCK_INDEX.name)
            .map_or(Ok(LockIndex::None), LockIndex::parse)
    }

    /// Nothing in the index is a lock.
    pub fn is_none(&self) -> bool {
        *self == LockIndex::None
    }

    /// Is a document of this type a lock?
    pub fn has(&self, doc_type: Option<&str>) -> bool {
        match self {
            LockIndex::None => false,
            LockIndex::All => true,
            LockIndex::Types(types) => doc_type.is_some_and(|doc_type| types.iter().any(|name| name == doc_type)),
        }
    }
}

/// `index.pleach.lock_ttl`: the life of a lock document whose owner does not renew it; `None`: until it is released.
///
/// # Errors
/// No such time, or one that makes no sense.
pub fn lock_ttl(settings: &Map<String, Value>) -> Result<Option<Duration>> {
    parse_lock_ttl(&crate::settings::text(settings, PLEACH_LOCK_TTL))
}

/// Reads the setting.
///
/// # Errors
/// As [`lock_ttl`].
pub fn parse_lock_ttl(text: &str) -> Result<Option<Duration>> {
    let name = PLEACH_LOCK_TTL.name;
    match units::parse_duration_or_never(text, name)? {
        Some(ttl) if !(TTL_MIN..=TTL_MAX).contains(&ttl) => Err(Error::illegal(format!(
            "[{name}] must be between [1s] and [30d], or [-1] for no end, but was [{text}]"
        ))),
        other => Ok(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_that_are_read() {
        let types = |names: &[&str]| LockIndex::Types(names.iter().map(|name| (*name).to_owned()).collect());
        for (setting, index) in [
            (json!(true), LockIndex::All),
            (json!("true"), LockIndex::All),
            (json!("false"), LockIndex::None),
            (json!(null), LockIndex::None),
            (json!("lock"), types(&["lock"])),
            (json!("lock, mutex"), types(&["lock", "mutex"])),
            (json!(["lock"]), types(&["lock"])),
            (json!("[\"lock\"]"), types(&["lock"])),
        ] {
            assert_eq!(LockIndex::parse(&setting).expect("a good setting"), index, "{setting}");
        }
        for bad in [
            json!(7),
            json!([]),
            json!([""]),
            json!("a,,b"),
            json!("[1]"),
            json!(["true"]),
            json!([1]),
        ] {
            assert!(LockIndex::parse(&bad).is_err(), "{bad}");
        }
        assert!(types(&["lock"]).has(Some("lock")) && !types(&["lock"]).has(Some("file")) && !types(&["lock"]).has(None));
        assert!(LockIndex::All.has(None) && !LockIndex::None.has(Some("lock")));
    }

    #[test]
    fn times_to_live() {
        for (text, ttl) in [
            ("-1", None),
            ("1s", Some(1)),
            ("2m", Some(120)),
            ("30d", Some(30 * 24 * 3600)),
        ] {
            assert_eq!(
                parse_lock_ttl(text).expect("a good time"),
                ttl.map(Duration::from_secs),
                "{text}"
            );
        }
        for bad in ["0", "10ms", "31d", "soon", "5"] {
            assert!(parse_lock_ttl(bad).is_err(), "{bad}");
        }
    }
}
