//! The references inside one document: its keys, the copies beside them, and their rewriting. Pure JSON.
//!
//! A key inside the object that gets the copies (`on: user.id`, `into: user`) makes each object there a reference, in arrays
//! too. A key outside of it (`on: user_id`, `into: user`) makes the document one reference. Not here: which sources there are.

use super::policy::Policy;
use model::path;
use model::{Error, Result};
use serde_json::Value;
use std::borrow::Cow;
use std::cell::Cell;

/// The fate of one reference.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// Its copies become these, one for each field; `None`: the source has no such field.
    Copy(Copied),
    /// Its key and its copies go.
    Unset,
    /// It stays.
    Leave,
}

/// The values of the fields of a source, in the order of the policy.
pub(crate) type Copied = std::sync::Arc<[Option<Value>]>;

/// The values that a policy copies out of a source.
pub(crate) fn copied_values(policy: &Policy, source: &Value) -> Copied {
    policy.fields.iter().map(|field| value_at(source, field)).collect()
}

/// The value at a path, whole: of a path through arrays the list of what is found.
fn value_at(value: &Value, at: &str) -> Option<Value> {
    if let Some(found) = through_objects(value, at) {
        return Some(found.clone());
    }
    let found = path::read(value, at);
    (!found.is_empty()).then(|| Value::Array(found.into_iter().cloned().collect()))
}

/// Is this the value at a path?
fn has_value_at(value: &Value, at: &str, wanted: &Value) -> bool {
    match through_objects(value, at) {
        Some(found) => found == wanted,
        None => value_at(value, at).as_ref() == Some(wanted),
    }
}

/// The value at a path that leads through no array.
fn through_objects<'a>(value: &'a Value, at: &str) -> Option<&'a Value> {
    let object = value.as_object()?;
    if let Some(found) = object.get(at) {
        return Some(found);
    }
    at.match_indices('.')
        .find_map(|(dot, _)| through_objects(object.get(&at[..dot])?, &at[dot + 1..]))
}

/// The keys of a document, each once, in the order of the document.
///
/// # Errors
/// References that cannot be told apart.
pub(crate) fn keys(policy: &Policy, source: &Value) -> Result<Vec<String>> {
    let mut keys: Vec<String> = Vec::new();
    // Reading rewrites nothing: a copy of the document would cost as much as parsing it.
    for value in path::read(source, &policy.key.path) {
        if let Some(key) = key_of(policy, value)?
            && !keys.iter().any(|known| *known == key)
        {
            keys.push(key.into_owned());
        }
    }
    Ok(keys)
}

/// Is this one of the keys of a document? Where references cannot be told apart there is none.
pub(crate) fn has_key(policy: &Policy, source: &Value, key: &str) -> bool {
    let (mut found, mut unclear) = (false, false);
    path::each(source, &policy.key.path, &mut |value| match key_of(policy, value) {
        Ok(one) => found |= one.is_some_and(|one| one == key),
        Err(_) => unclear = true,
    });
    found && !unclear
}

/// Rewrites each reference by its fate; was anything changed?
///
/// # Errors
/// Those of `fate`; references that cannot be told apart.
pub(crate) fn rewrite(policy: &Policy, source: &mut Value, fate: &mut dyn FnMut(&str) -> Result<Fate>) -> Result<bool> {
    let mut all = 0;
    path::each(source, &policy.key.path, &mut |value| all += usize::from(!value.is_null()));
    if all == 0 {
        return Ok(false);
    }
    let Some(leaf) = policy.inner_key() else {
        return rewrite_outer(policy, source, all, fate);
    };
    let (seen, mut changed) = (Cell::new(0), false);
    each_object(source, &policy.into, &mut |object| {
        let (mut count, mut own) = (0, None);
        path::each(object, leaf, &mut |value| {
            if !value.is_null() {
                (count, own) = (count + 1, Some(value));
            }
        });
        seen.set(seen.get() + count);
        if count > 1 {
            return Err(ambiguous(policy, count));
        }
        let key = own.map(|value| key_of(policy, value)).transpose()?.flatten();
        if let Some(fate) = key.map(|key| fate(&key)).transpose()? {
            changed |= apply(policy, object, "", leaf, fate);
        }
        Ok(())
    })?;
    debug_assert!(
        seen.get() <= all,
        "links.md K2: a key is found once inside its object: {} of {all}",
        seen.get()
    );
    if seen.get() != all {
        return Err(Error::illegal(format!(
            "[{}] of link policy [{}] must be an object with the key [{leaf}] in it: the document has a dotted name instead",
            policy.into, policy.name
        )));
    }
    Ok(changed)
}

fn rewrite_outer(policy: &Policy, source: &mut Value, count: usize, fate: &mut dyn FnMut(&str) -> Result<Fate>) -> Result<bool> {
    let keys = path::read(source, &policy.key.path);
    let key = match keys.iter().find(|value| !value.is_null()) {
        Some(_) if count > 1 => return Err(ambiguous(policy, count)),
        Some(one) => key_of(policy, one)?,
        None => None,
    };
    let Some(key) = key.map(Cow::into_owned) else {
        return Ok(false);
    };
    if has_array(source, &policy.into) {
        return Err(Error::illegal(format!(
            "[{}] of link policy [{}] is an array: the key [{}] must be inside its objects",
            policy.into, policy.name, policy.on
        )));
    }
    let prefix = format!("{}.", policy.into);
    Ok(apply(policy, source, &prefix, &policy.key.path, fate(&key)?))
}

/// Is there an array at a path or on the way to it?
fn has_array(value: &Value, at: &str) -> bool {
    let mut value = value;
    for name in at.split('.') {
        match value.get(name) {
            Some(Value::Array(_)) => return true,
            Some(inner) => value = inner,
            None => return false,
        }
    }
    false
}

/// Carries a fate out on an object; was anything changed? `prefix`: where the copies are in it; `key`: where the key is.
fn apply(policy: &Policy, object: &mut Value, prefix: &str, key: &str, fate: Fate) -> bool {
    let mut changed = false;
    match fate {
        Fate::Leave => {}
        Fate::Unset => {
            changed |= path::remove(object, key);
            for field in &policy.fields {
                changed |= path::remove(object, &format!("{prefix}{field}"));
            }
        }
        Fate::Copy(values) => {
            debug_assert_eq!(values.len(), policy.fields.len(), "links.md K2: one value for each field");
            for (field, value) in policy.fields.iter().zip(values.iter()) {
                let at = match prefix {
                    "" => Cow::Borrowed(field.as_str()),
                    prefix => Cow::Owned(format!("{prefix}{field}")),
                };
                match value {
                    Some(value) if has_value_at(object, &at, value) => {}
                    Some(value) => {
                        path::set(object, &at, value.clone());
                        changed = true;
                    }
                    None => changed |= path::remove(object, &at),
                }
            }
        }
    }
    changed
}

/// Calls for each object at a path, in all arrays on the way.
fn each_object(value: &mut Value, at: &str, call: &mut dyn FnMut(&mut Value) -> Result<()>) -> Result<()> {
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(|item| each_object(item, at, call)),
        Value::Object(_) if at.is_empty() => call(value),
        Value::Object(object) => {
            let ends: Vec<usize> = at.match_indices('.').map(|(dot, _)| dot).chain([at.len()]).collect();
            for end in ends {
                if let Some(child) = object.get_mut(&at[..end]) {
                    each_object(child, at.get(end + 1..).unwrap_or_default(), call)?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The id of the source that a value names; `None`: it names none, and the mapping says what becomes of it.
fn key_of<'a>(policy: &Policy, value: &'a Value) -> Result<Option<Cow<'a, str>>> {
    let key = match value {
        Value::Null | Value::Object(_) | Value::Array(_) => return Ok(None),
        Value::String(text) if policy.key.integer => match text.trim().parse::<i128>() {
            Ok(number) => Cow::Owned(number.to_string()),
            Err(_) => match text.trim().parse::<f64>() {
                Ok(number) if number.is_finite() => Cow::Owned(format!("{:.0}", number.trunc())),
                _ => return Ok(None),
            },
        },
        Value::String(text) => Cow::Borrowed(text.as_str()),
        Value::Number(number) if policy.key.integer && number.is_f64() => {
            Cow::Owned(format!("{:.0}", number.as_f64().unwrap_or_default().trunc()))
        }
        other => Cow::Owned(other.to_string()),
    };
    if let Some(longest) = policy.key.longest
        && key.chars().count() > longest
    {
        return Err(Error::illegal(format!(
            "a key of link policy [{}] has more than the [{longest}] characters that [ignore_above] of [{}] indexes",
            policy.name, policy.on
        )));
    }
    Ok((!key.is_empty()).then_some(key))
}

fn ambiguous(policy: &Policy, count: usize) -> Error {
    Error::illegal(format!(
        "[{count}] keys at [{}] belong to one object [{}] of link policy [{}]; an object has one",
        policy.on, policy.into, policy.name
    ))
}

#[cfg(test)]
mod tests {
    use super::super::policy::{KeyField, Policy};
    use super::*;
    use dsl::json::Node;
    use serde_json::json;

    fn policy(on: &str, into: &str, integer: bool) -> Policy {
        let body = json!({
            "source": { "index": "user", "fields": ["name", "address.city"] },
            "target": { "index": "post", "on": { on: "_id" }, "into": into },
        });
        let mut policy = Policy::parse("author", Node::from_value(body)).expect("a policy");
        policy.key = KeyField {
            path: on.into(),
            integer,
            nested: None,
            longest: Some(20),
        };
        policy
    }

    /// Fills in from sources `1` and `2`; `3` is unset, others stay.
    fn check(policy: &Policy, before: Value, after: Option<Value>) {
        let mut source = before.clone();
        let fate = &mut |key: &str| {
            Ok(match key {
                "1" => Fate::Copy(copied_values(
                    policy,
                    &json!({ "name": "Ann", "address": { "city": "Rome" } }),
                )),
                "2" => Fate::Copy(copied_values(policy, &json!({ "name": ["B", "b"] }))),
                "3" => Fate::Unset,
                _ => Fate::Leave,
            })
        };
        let changed = rewrite(policy, &mut source, fate).expect("it can be rewritten");
        assert_eq!(changed, after.is_some(), "{before}");
        assert_eq!(source, after.unwrap_or_else(|| before.clone()), "{before}");
        assert!(
            !rewrite(policy, &mut source, fate).expect("again"),
            "a second time changes nothing: {before}"
        );
    }

    #[test]
    fn objects_arrays_and_keys_outside() {
        let inner = policy("user.id", "user", true);
        check(
            &inner,
            json!({ "user": { "id": 1 } }),
            Some(json!({ "user": { "id": 1, "name": "Ann", "address": { "city": "Rome" } } })),
        );
        check(
            &inner,
            json!({ "user": { "id": " 1", "name": "Ann", "address": { "city": "Rome" } } }),
            None,
        );
        check(
            &inner,
            json!({ "user": [{ "id": 2, "name": "x", "address": { "city": "y" } }, { "id": "3", "name": "z" }, { "id": 9 }] }),
            Some(json!({ "user": [{ "id": 2, "name": ["B", "b"], "address": {} }, {}, { "id": 9 }] })),
        );
        check(&inner, json!({ "title": "none" }), None);
        check(&inner, json!({ "user": { "id": null } }), None);
        let deep = policy("a.b.id", "a.b", false);
        check(
            &deep,
            json!({ "a": [{ "b": { "id": "2" } }, { "b": [{ "id": "7" }] }] }),
            Some(json!({ "a": [{ "b": { "id": "2", "name": ["B", "b"] } }, { "b": [{ "id": "7" }] }] })),
        );
        let outer = policy("user_id", "user", true);
        check(
            &outer,
            json!({ "user_id": 1.0 }),
            Some(json!({ "user_id": 1.0, "user": { "name": "Ann", "address": { "city": "Rome" } } })),
        );
        check(
            &outer,
            json!({ "user_id": 3, "user": { "name": "x" } }),
            Some(json!({ "user": {} })),
        );
    }

    #[test]
    fn what_cannot_be_told_apart_is_refused() {
        let check = |policy: &Policy, mut source: Value, said: &str| {
            let refused = rewrite(policy, &mut source, &mut |_| Ok(Fate::Leave)).expect_err(said);
            assert!(refused.reason().contains(said), "{refused}");
        };
        let inner = policy("user.id", "user", false);
        check(&inner, json!({ "user": { "id": ["1", "2"] } }), "[2] keys");
        check(&inner, json!({ "user.id": "1" }), "dotted name");
        check(&inner, json!({ "user": { "id": "123456789012345678901" } }), "ignore_above");
        let outer = policy("user_id", "user", false);
        check(&outer, json!({ "user_id": ["1", "2"] }), "[2] keys");
        check(&outer, json!({ "user_id": "1", "user": [] }), "is an array");
    }

    #[test]
    fn keys_are_each_once() {
        let inner = policy("user.id", "user", true);
        let source = json!({ "user": [{ "id": 1 }, { "id": "1" }, { "id": 2 }, { "name": "x" }] });
        assert_eq!(keys(&inner, &source).expect("keys"), ["1", "2"]);
    }
}
