//! Who sends a request, and whether that principal may use its endpoint.
//!
//! Not here: comparing credentials (`authentication`), names that only the handler knows (`guard`).

use crate::Rest;
use crate::authentication::{AuditedRequest, Security, claimed_user};
use crate::body::Request;
use crate::guard::Scope;
use crate::path_args::PathArgs;
use crate::query_params::{Params, list_items};
use crate::right::{Right, action_of};
use crate::routes::is_probe;
use hyper::header::HeaderMap;
use model::{Error, ErrorKind, Result};
use security::Principal;
use std::sync::Arc;

/// Who asks. Where security is off, that is whoever the request says. Probes are asked by nobody.
pub(crate) async fn authenticate(rest: &Rest, headers: &HeaderMap, request: &mut Request) -> Result<()> {
    let Some(security) = &rest.security else {
        let given = headers
            .get(hyper::header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        request.caller.user = given.and_then(claimed_user).map(Arc::from);
        return Ok(());
    };
    if is_probe(request.method.as_str(), &request.path) {
        return Ok(());
    }
    // A header that is no text is of nobody.
    let given = headers.get_all(hyper::header::AUTHORIZATION).iter();
    let given: Vec<&str> = given.map(|value| value.to_str().unwrap_or_default()).collect();
    let principal = security.authenticate(&given, audited_request(request)).await?;
    // What is kept under a user's name is theirs: the name has been proved.
    request.caller.user = Some(Arc::from(principal.user.name.as_str()));
    request.principal = Some(principal);
    Ok(())
}

fn audited_request(request: &Request) -> AuditedRequest<'_> {
    AuditedRequest {
        path: &request.path,
        peer: request.caller.peer.as_deref().unwrap_or_default(),
    }
}

/// The server as the principal of a request may use it by this endpoint.
///
/// # Errors
/// `security_exception`: a right is missing on the cluster, on every index, or on one that the path names.
pub(crate) async fn authorize(
    rest: &Arc<Rest>,
    request: &Request,
    (api, right): (&'static str, Right),
    args: &PathArgs,
    params: &Params,
) -> Result<Arc<Rest>> {
    let Some(principal) = &request.principal else {
        debug_assert!(
            rest.security.is_none() || right == Right::Probe,
            "security.md S1: everybody is somebody"
        );
        return match rest.security.is_some() && right != Right::Probe {
            true => Err(Error::new(ErrorKind::Security, "nobody is authenticated").status_of(401)),
            false => Ok(rest.clone()),
        };
    };
    let scope = Scope::new(rest.clone(), principal.clone(), api, right);
    if let Some(any_of) = right.on_cluster().filter(|any_of| !principal.rights.has_cluster(*any_of)) {
        return Err(principal.refused_cluster(&action_of(api, right), any_of));
    }
    if let Some(any_of) = right.on_indices() {
        let listed: Vec<&str> = args.get("index").map(list_items).into_iter().flatten().collect();
        if !principal.rights.has_somewhere(any_of) {
            return Err(scope.refusal(any_of, &listed));
        }
        // Of names that may be missing, those without the right are.
        if !params.is_given("ignore_unavailable") {
            for name in listed.iter().filter(|name| is_plain_name(name)) {
                scope.check(name, any_of).await?;
            }
        }
    }
    Ok(Arc::new(rest.acting_for(scope)))
}

/// Not a wildcard, an exclusion, or a name with date math: those become names where the engine is asked.
fn is_plain_name(name: &str) -> bool {
    !name.contains(['*', '<']) && !name.starts_with('-') && name != "_all"
}

/// Tells the audit of a request that an endpoint was found for.
pub(crate) fn audit(rest: &Rest, security: &Security, request: &Request, principal: &Principal, error: Option<&Error>) {
    if !security.audit.is_on() {
        return;
    }
    let endpoint = request.api.and_then(crate::routes::endpoint);
    let Some(endpoint) = endpoint else { return };
    let denied = error.filter(|error| error.root().kind() == ErrorKind::Security && error.status() == 403);
    let action = action_of(endpoint.api, endpoint.right);
    let reason = denied.map(Error::reason);
    security
        .audit
        .record_decision(rest.clock.wall_ms(), principal, &action, audited_request(request), reason);
}
