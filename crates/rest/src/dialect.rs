//! Which dialect a request is answered in: persona of the listener, types in the URL, the indices' own.

use crate::Rest;
use crate::body::{Request, compatible_with};
use crate::params::split_list;
use model::{Dialect, Persona};
use std::collections::HashMap;

/// The dialect of a request whose path has been matched.
pub(crate) async fn choose(rest: &Rest, request: &Request, args: &HashMap<&'static str, String>) -> Dialect {
    let persona = match compatible_with(request.accept.as_deref().or(request.content_type.as_deref())) {
        Some(7) => Persona::Es7,
        Some(8) => Persona::Es8,
        Some(9) => Persona::Es9,
        _ => request.persona,
    };
    let mut dialect = Dialect {
        depths: rest.limits.depths,
        ..Dialect::of(persona)
    };
    if dialect.typed {
        return dialect;
    }
    match args.get("type").map(String::as_str) {
        Some("_doc") | None => dialect.typed = all_typed(rest, args).await,
        Some(_) => dialect.typed = true,
    }
    dialect
}

/// Every index that the path names is typed.
async fn all_typed(rest: &Rest, args: &HashMap<&'static str, String>) -> bool {
    let Some(index) = args.get("index") else { return false };
    let names = split_list(index);
    if names.is_empty() {
        return false;
    }
    for name in names {
        if name.contains('*') || name.starts_with(['_', '<', '-']) {
            return false;
        }
        match rest.known(&name).await {
            Some(known) if known.typed => {}
            _ => return false,
        }
    }
    true
}
