//! Java's classes, as `instanceof` and `catch` name them.

use crate::value::Value;

/// Does a thrown class count as `name` in a catch?
pub(super) fn is_a(class: &str, name: &str) -> bool {
    let short = class.rsplit('.').next().unwrap_or(class);
    short == name
        || match name {
            "Throwable" => true,
            "Exception" | "e" | "def" | "RuntimeException" => !short.ends_with("Error"),
            "Error" => short.ends_with("Error"),
            "IllegalArgumentException" => short == "NumberFormatException",
            _ => false,
        }
}

/// `v instanceof name`
pub(super) fn instance_of(v: &Value, name: &str) -> bool {
    match name {
        "Object" | "def" => !matches!(v, Value::Null),
        "Number" => v.as_f64().is_some() && !matches!(v, Value::Char(_)),
        "Integer" | "int" => matches!(v, Value::Int(_)),
        "Long" | "long" => matches!(v, Value::Long(_)),
        "Float" | "float" => matches!(v, Value::Float(_)),
        "Double" | "double" | "BigDecimal" => matches!(v, Value::Double(_)),
        "Boolean" | "boolean" => matches!(v, Value::Bool(_)),
        "String" | "CharSequence" => matches!(v, Value::Str(_)),
        "Character" | "char" => matches!(v, Value::Char(_)),
        "List" | "ArrayList" => matches!(v, Value::List(_) | Value::Doc(_)),
        "Map" | "HashMap" | "LinkedHashMap" => matches!(v, Value::Map(_)),
        "Set" | "HashSet" | "LinkedHashSet" => matches!(v, Value::Set(_)),
        "Collection" | "Iterable" => matches!(v, Value::List(_) | Value::Set(_)),
        "ZonedDateTime" | "Date" => matches!(v, Value::Date(_)),
        "Pattern" => matches!(v, Value::Regex(_)),
        _ => match v {
            Value::Exception(e) => is_a(&e.0, name),
            _ => v.class().rsplit('.').next() == Some(name),
        },
    }
}
