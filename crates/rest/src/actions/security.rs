//! What the endpoints of `_security` share: the records, who asks, and refusals.

use crate::authentication::Security;
use crate::call::Call;
use dsl::json::Node;
use dsl::query::{Parsing, Query};
use model::{Error, ErrorKind, Result};
use security::{Principal, Role};
use serde_json::Value;
use std::sync::Arc;

/// Users, roles and keys.
///
/// # Errors
/// Security is off.
pub(crate) fn security_of(call: &Call) -> Result<&Security> {
    call.rest.security.as_deref().ok_or_else(|| {
        let reason = "security is not enabled: there are no users, roles and keys; the setting is [security.enabled]";
        Error::new(ErrorKind::IllegalArgument, reason)
    })
}

/// Who asks.
///
/// # Errors
/// Security is off.
pub(crate) fn principal_of(call: &Call) -> Result<Arc<Principal>> {
    security_of(call)?;
    let scope = call.rest.scope.as_ref();
    scope
        .map(|scope| scope.principal.clone())
        .ok_or_else(|| Error::new(ErrorKind::Internal, "nobody asks"))
}

/// The body as a value. `source=` of the URL is none: proxies write URLs to their logs, and bodies here have passwords.
///
/// # Errors
/// There is none, or it is no JSON.
pub(crate) fn body_of(call: &Call) -> Result<Value> {
    call.book(dsl::json::parsed_bytes(&call.body))?;
    if call.body.iter().all(u8::is_ascii_whitespace) {
        return Err(Error::new(ErrorKind::Parse, "request body is required"));
    }
    dsl::json::read(&call.body, call.reading()).map(Node::into_value)
}

/// Looks the queries of a role over: one that could not be read later would let nobody see anything.
///
/// # Errors
/// A query that is none, or one that reads other indices.
pub(crate) fn check_queries(call: &Call, name: &str, role: &Role) -> Result<()> {
    for query in role.indices.iter().filter_map(|grant| grant.query.as_deref()) {
        let wrong = |why: &str| {
            let reason = format!("failed to parse role [{name}]: [query] is [{query}]: {why}");
            Error::new(ErrorKind::Parse, reason)
        };
        let node = dsl::json::read(query.as_bytes(), call.reading()).map_err(|cause| wrong(cause.reason()))?;
        let parsed = Query::parse(node, &mut Parsing::new(call.dialect)).map_err(|cause| wrong(cause.reason()))?;
        if engine::joins::has_joins(&parsed) {
            return Err(wrong("joins and lookups of terms are not supported in queries of roles"));
        }
    }
    Ok(())
}
