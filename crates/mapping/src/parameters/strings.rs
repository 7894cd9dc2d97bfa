//! `string` of 2015, a text or a keyword by its parameters, and `multi_field` of 1.x.

use crate::field::{Kind, Params};
use crate::wording::{mapper_parsing, text_of};
use model::{Error, ErrorKind, Result};
use serde_json::Value;

/// The kind that a `string` is today.
pub(super) fn string_kind(body: &Params) -> Kind {
    match body.get("index").map(text_of).as_deref() {
        Some("not_analyzed" | "no" | "false") => Kind::Keyword,
        _ => Kind::Text,
    }
}

/// The parameters of a `string`, in the words of 2015.
pub(super) fn check_string(name: &str, params: &Params, body: &Params) -> Result<()> {
    let text = |key: &str| params.get(key).map(text_of);
    // As it was given: a truth value is none of the three.
    let index = body.get("index").map(text_of).or_else(|| text("index"));
    if let Some(index) = &index
        && !["analyzed", "not_analyzed", "no"].contains(&index.as_str())
    {
        return Err(mapper_parsing(format!("wrong value for index [{index}] for field [{name}]")));
    }
    let vectors = [
        "no",
        "yes",
        "with_offsets",
        "with_positions",
        "with_positions_offsets",
        "with_positions_payloads",
        "with_positions_offsets_payloads",
    ];
    if let Some(vector) = text("term_vector")
        && !vectors.contains(&vector.as_str())
    {
        return Err(mapper_parsing(format!(
            "wrong value for termVector [{vector}] for field [{name}]"
        )));
    }
    if let Some(options) = text("index_options")
        && !["docs", "freqs", "positions", "offsets"].contains(&options.as_str())
    {
        return Err(Error::new(
            ErrorKind::Parse,
            format!("failed to parse index option [{options}]"),
        ));
    }
    let analyzed = index.as_deref().is_none_or(|i| i == "analyzed");
    if analyzed && body.get("doc_values").is_some_and(|v| text_of(v) == "true") {
        return Err(mapper_parsing(format!(
            "Field [{name}] cannot be analyzed and have doc values"
        )));
    }
    if params.contains_key("search_analyzer") && !params.contains_key("analyzer") && !params.contains_key("index_analyzer") {
        return Err(mapper_parsing(format!(
            "analyzer on field [{name}] must be set when search_analyzer is set"
        )));
    }
    Ok(())
}

/// `{"type": "multi_field", "fields": {…}}` of 1.x as the field of that name with the others below it.
pub(crate) fn without_multi_field(name: &str, body: &Params) -> Option<Params> {
    if body.get("type")?.as_str()? != "multi_field" {
        return None;
    }
    let mut fields = body.get("fields").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut main = match fields.remove(name) {
        Some(Value::Object(main)) => main,
        _ => Params::from_iter([("type".into(), "string".into()), ("index".into(), "no".into())]),
    };
    main.insert("fields".into(), Value::Object(fields));
    Some(main)
}
