//! `wrapper`: a query in base64.

use super::{Parsing, Query};
use crate::json::{self, Node, Reading};
use base64::{Engine, engine::general_purpose::STANDARD};
use model::{Error, ErrorKind, Result};

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let missing = node.error("wrapper query has no [query] specified");
    let mut fields = cx.options(node, "wrapper")?;
    let text = fields.take_string("query")?;
    fields.finish()?;
    let text = text.ok_or(missing)?;
    let wrong = |e| {
        Error::new(
            ErrorKind::JsonParse,
            format!("Failed to decode VALUE_STRING as base64 (MIME-NO-LINEFEEDS): {e}"),
        )
    };
    let bytes = STANDARD.decode(text).map_err(wrong)?;
    cx.inner(json::read(
        &bytes,
        Reading {
            lenient: cx.dialect.rules.reads_loose_json,
            duplicates: cx.dialect.rules.takes_duplicate_keys,
            depth_max: usize::from(cx.dialect.depths.json),
        },
    )?)
}
