//! Which dialect a request is answered in: persona of the listener, types in the URL, the indices' own.

use crate::Rest;
use crate::body::{Request, compatible_with};
use crate::path_args::PathArgs;
use model::{Dialect, Persona};

/// The dialect of a request whose path has been matched.
pub(crate) async fn choose(rest: &Rest, request: &Request, args: &PathArgs) -> Dialect {
    let persona = match compatible_with(request.accept.as_deref().or(request.content_type.as_deref())) {
        Some(7) => Persona::Es7,
        Some(8) => Persona::Es8,
        Some(9) => Persona::Es9,
        _ => request.persona,
    };
    let dialect = Dialect {
        depths: rest.limits.depths,
        ..Dialect::of(persona)
    };
    if dialect.rules.has_types {
        return dialect;
    }
    match args.get("type") {
        Some("_doc") | None => dialect.with_types(all_typed(rest, args).await),
        Some(_) => dialect.with_types(true),
    }
}

/// A body from which on clauses are counted as they are parsed. What is built of fewer bytes is little when it is refused.
const LONG_BODY_BYTES: usize = 64 << 10;

/// How many clauses a query of a body may have, where they are counted as they are parsed.
pub(crate) async fn clauses_max(rest: &Rest, body_bytes: usize) -> Option<u32> {
    if body_bytes < LONG_BODY_BYTES {
        return None;
    }
    let settings = rest.cluster_settings().await.ok()?;
    let most = model::settings::number(&settings, model::settings::MAX_CLAUSE_COUNT);
    Some(u32::try_from(most).unwrap_or(u32::MAX))
}

/// Every index that the path names is typed.
async fn all_typed(rest: &Rest, args: &PathArgs) -> bool {
    let Some(index) = args.get("index") else { return false };
    let mut any = false;
    for name in index.split(',') {
        let name = name.trim();
        if name.is_empty() {
            continue;
        }
        any = true;
        if name.contains('*') || name.starts_with(['_', '<', '-']) {
            return false;
        }
        match rest.index_facts(name).await {
            Some(known) if known.typed => {}
            _ => return false,
        }
    }
    any
}
