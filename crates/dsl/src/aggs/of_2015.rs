//! Options and refusals that the aggregations of 2015 had otherwise than those of today.
//!
//! Not here: how they are read (`bucket`, `metric`).

use crate::json::Fields;
use model::{Error, ErrorKind, Topic};

/// Takes options that were known in 2015 and change no answer here.
pub(super) fn leftovers(fields: &mut Fields, kind: &str) {
    let known: &[&str] = match kind {
        "terms" | "significant_terms" => &["value_type", "valueType", "script_file", "lang", "params"],
        "cardinality" => &["rehash", "value_type", "valueType", "lang", "params"],
        "histogram" | "date_histogram" | "range" | "date_range" => &["value_type", "valueType", "lang", "params"],
        _ => &["value_type", "valueType", "lang"],
    };
    for name in known {
        fields.take(name);
    }
}

/// Neither a field nor a script: found out when the aggregation ran.
pub(super) fn nothing_to_read() -> Error {
    Error::new(
        ErrorKind::AggregationExecution,
        "Cannot find mapping for field: neither a field nor a script is given",
    )
}

/// A refusal as the parsers of 2015 said it.
pub(super) fn reword(error: Error) -> Error {
    let reason = error.reason().to_owned();
    let kind = match error.kind() {
        ErrorKind::IllegalArgument if error.is_about(Topic::ValueSource) => return nothing_to_read(),
        ErrorKind::XContentParse if error.is_about(Topic::DateInterval) => ErrorKind::Parse,
        ErrorKind::SearchPhaseExecution => match error.root() {
            root if root.kind() == ErrorKind::IllegalArgument => return reword(root.clone()),
            _ => return error,
        },
        ErrorKind::XContentParse | ErrorKind::Parsing | ErrorKind::IllegalArgument => ErrorKind::SearchParse,
        _ => return error,
    };
    Error::new(kind, reason).with_cause(error)
}
