//! The words of refusals: JSON values as Java prints them.

use model::{Error, ErrorKind};
use serde_json::Value;

/// `mapper_parsing_exception`.
pub(crate) fn mapper_parsing(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::MapperParsing, reason)
}

/// A scalar as text: strings without quotes.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value as Java's `Map.toString` and `List.toString` write it, cut to a length.
pub(crate) fn java(value: &Value) -> String {
    fn write(value: &Value, out: &mut String) {
        if out.len() > 400 {
            return;
        }
        match value {
            Value::Object(object) => {
                out.push('{');
                for (i, (key, value)) in object.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    out.push_str(key);
                    out.push('=');
                    write(value, out);
                }
                out.push('}');
            }
            Value::Array(items) => {
                out.push('[');
                for (i, value) in items.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    write(value, out);
                }
                out.push(']');
            }
            other => out.push_str(&text_of(other)),
        }
    }
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// The class that Java has for a value.
pub(crate) fn java_class(value: &Value) -> &'static str {
    match value {
        Value::Null => "class null",
        Value::Number(number) if number.is_f64() => "class java.lang.Double",
        Value::Number(_) => "class java.lang.Integer",
        Value::Bool(_) => "class java.lang.Boolean",
        Value::Array(_) => "class java.util.ArrayList",
        _ => "class java.lang.String",
    }
}
