//! Faults: the exceptions that end a script, and their sentences.

use super::NOWHERE;
use crate::value::{Value, print};
use model::ErrorKind;
use std::sync::Arc;

/// Java's exception, as far as scripts and answers see it.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) class: Arc<str>,
    pub(crate) kind: ErrorKind,
    pub(crate) message: Option<String>,
    /// Can't be caught: a budget.
    pub(crate) fatal: bool,
    pub(crate) pos: u32,
}

pub(crate) type R<T = Value> = Result<T, Box<Fault>>;

pub(crate) fn fault<T>(class: &str, kind: ErrorKind, message: impl Into<String>) -> R<T> {
    Err(Box::new(Fault {
        class: class.into(),
        kind,
        message: Some(message.into()),
        fatal: false,
        pos: NOWHERE,
    }))
}
pub(crate) fn illegal<T>(message: impl Into<String>) -> R<T> {
    fault("java.lang.IllegalArgumentException", ErrorKind::IllegalArgument, message)
}
pub(crate) fn cast<T>(message: impl Into<String>) -> R<T> {
    fault("java.lang.ClassCastException", ErrorKind::ClassCast, message)
}
pub(crate) fn null<T>(message: impl Into<String>) -> R<T> {
    fault("java.lang.NullPointerException", ErrorKind::NullPointer, message)
}
pub(crate) fn bounds<T>(i: i64, len: usize) -> R<T> {
    fault(
        "java.lang.IndexOutOfBoundsException",
        ErrorKind::ArrayIndexOutOfBounds,
        format!("Index {i} out of bounds for length {len}"),
    )
}
pub(crate) fn arithmetic<T>(message: &str) -> R<T> {
    fault("java.lang.ArithmeticException", ErrorKind::Arithmetic, message)
}
pub(crate) fn exhausted_error<T>(message: impl Into<String>) -> R<T> {
    Err(Box::new(Fault {
        class: "painless_error".into(),
        kind: ErrorKind::CircuitBreaking,
        message: Some(message.into()),
        fatal: true,
        pos: NOWHERE,
    }))
}

/// Gives a fault its place, if it has none.
pub(crate) fn place_fault<T>(result: R<T>, pos: u32) -> R<T> {
    result.map_err(|mut f| {
        if f.pos == NOWHERE {
            f.pos = pos;
        }
        f
    })
}

pub(crate) fn number_format<T>(text: &str) -> R<T> {
    fault(
        "java.lang.NumberFormatException",
        ErrorKind::NumberFormat,
        format!("For input string: \"{text}\""),
    )
}

/// Groovy's refusal of an unknown method.
pub(crate) fn missing_method<T>(class: &str, name: &str, args: &[Value]) -> R<T> {
    let types: Vec<&str> = args.iter().map(Value::class).collect();
    let values: Vec<String> = args
        .iter()
        .map(|a| {
            let mut s = String::new();
            print(a, &mut s, 0, 200);
            s
        })
        .collect();
    fault(
        "groovy.lang.MissingMethodException",
        ErrorKind::Groovy,
        format!(
            "No signature of method: {class}.{name}() is applicable for argument types: ({}) values: [{}]",
            types.join(", "),
            values.join(", ")
        ),
    )
}

/// Throws a value of the script.
pub(crate) fn throw<T>(v: &Value) -> R<T> {
    match v {
        Value::Exception(e) => {
            let kind = kind_of(&e.0);
            Err(Box::new(Fault {
                class: e.0.clone(),
                kind,
                message: e.1.as_deref().map(str::to_owned),
                fatal: false,
                pos: NOWHERE,
            }))
        }
        Value::Null => null("cannot throw null"),
        v => cast(format!("Cannot cast [{}] to [java.lang.Exception].", v.class())),
    }
}

/// The kind of refusal an exception's class is nearest to.
fn kind_of(class: &str) -> ErrorKind {
    match class.rsplit('.').next().unwrap_or(class) {
        "IllegalStateException" => ErrorKind::IllegalState,
        "NullPointerException" => ErrorKind::NullPointer,
        "ArithmeticException" => ErrorKind::Arithmetic,
        "ClassCastException" => ErrorKind::ClassCast,
        "IndexOutOfBoundsException" | "ArrayIndexOutOfBoundsException" => ErrorKind::ArrayIndexOutOfBounds,
        "NumberFormatException" => ErrorKind::NumberFormat,
        "UnsupportedOperationException" => ErrorKind::UnsupportedOperation,
        "AssertionError" => ErrorKind::Groovy,
        _ => ErrorKind::IllegalArgument,
    }
}
