//! Settings of the cluster, as answers show them.
//!
//! Not here: the endpoints that use it (`handlers`).

use serde_json::{Map, Value};

/// Flat, or one object in another. Where a name goes on from one that has a value, the rest of it stays dotted, as in the
/// reference: `watermark: { low: 85%, low.max_headroom: 200gb }`.
pub(crate) fn shape(settings: Map<String, Value>, flat: bool) -> Value {
    if flat {
        return Value::Object(settings);
    }
    let mut out = Value::Object(Map::new());
    let (longer, plain): (Vec<_>, Vec<_>) = settings.iter().partition(|(name, _)| value_above(&settings, name).is_some());
    for (name, value) in plain {
        model::path::set(&mut out, name, value.clone());
    }
    for (name, value) in longer {
        let above = value_above(&settings, name).unwrap_or_default();
        let (parent, last) = above.rsplit_once('.').unwrap_or(("", above));
        let object = if parent.is_empty() {
            Some(&mut out)
        } else {
            out.pointer_mut(&format!("/{}", parent.replace('.', "/")))
        };
        if let Some(Value::Object(object)) = object {
            object.insert(format!("{last}{}", &name[above.len()..]), value.clone());
        }
    }
    out
}

/// The shortest name that this one goes on from and that has a value.
fn value_above<'a>(settings: &Map<String, Value>, name: &'a str) -> Option<&'a str> {
    let dots = name.match_indices('.').map(|(at, _)| &name[..at]);
    dots.into_iter().find(|above| settings.contains_key(*above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_name_below_a_value_stays_dotted() {
        let check = |flat: Value, expected: Value| {
            let Value::Object(map) = flat else { panic!("an object") };
            assert_eq!(shape(map, false), expected);
        };
        check(json!({ "a.b": 1, "a.c": 2 }), json!({ "a": { "b": 1, "c": 2 } }));
        check(
            json!({ "a.low.max": 1, "a.low": 2, "a.high": 3 }),
            json!({ "a": { "low": 2, "high": 3, "low.max": 1 } }),
        );
        check(json!({ "a": 1, "a.b.c": 2 }), json!({ "a": 1, "a.b.c": 2 }));
    }
}
