//! Who one is and what one may do: `_authenticate`, `_has_privileges`, `_privileges`, and the privileges that there are.

use crate::actions::security::{body_of, principal_of, security_of};
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use model::{Error, ErrorKind, Result};
use security::privileges::{self, CLUSTER, GIVES_NOTHING, INDEX};
use security::records::{REALM, REALM_TYPE};
use security::{ClusterRights, IndexRights, Principal, Realm, Rights};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// `GET /_security/_authenticate`
#[boxed]
pub(crate) async fn authenticate(call: Call) -> Result<Answer> {
    call.no_body()?;
    call.params.finish()?;
    let principal = principal_of(&call)?;
    let mut out = principal.user.render();
    let (realm, kind) = match &principal.realm {
        Realm::User => (json!({ "name": REALM, "type": REALM_TYPE }), "realm"),
        Realm::ApiKey(key) => {
            out["roles"] = json!([]);
            out["api_key"] = json!({ "id": key.id, "name": key.name });
            (json!({ "name": "_es_api_key", "type": "_es_api_key" }), "api_key")
        }
    };
    out["authentication_realm"] = realm.clone();
    out["lookup_realm"] = realm;
    out["authentication_type"] = kind.into();
    Ok(Answer::ok(out))
}

/// `POST /_security/user/_has_privileges`
#[boxed]
pub(crate) async fn has_privileges(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let principal = principal_of(&call)?;
    let (user, rights) = asked_about(&call, &principal)?;
    let body = body_of(&call)?;
    let Value::Object(members) = &body else {
        return Err(Error::new(ErrorKind::Parse, "expected an object"));
    };
    let mut all = true;
    let (mut cluster, mut index) = (Map::new(), Map::new());
    for (member, value) in members {
        match member.as_str() {
            "cluster" => {
                for name in texts(member, value)? {
                    let wanted = privileges::cluster(std::slice::from_ref(&name))?;
                    let has = wanted != ClusterRights::NONE && rights.cluster().has(wanted);
                    all &= has;
                    cluster.insert(name, has.into());
                }
            }
            "index" => {
                for entry in value.as_array().into_iter().flatten() {
                    all &= of_indices(&rights, entry, &mut index)?;
                }
            }
            "application" if value.as_array().is_some_and(Vec::is_empty) => {}
            other => {
                let hint = model::nearest::question(other, ["cluster", "index"]);
                let reason = format!("failed to parse privilege check: unexpected field [{other}]{hint}");
                return Err(Error::new(ErrorKind::Parse, reason));
            }
        }
    }
    Ok(Answer::ok(json!({
        "username": user, "has_all_requested": all, "cluster": cluster, "index": index, "application": {},
    })))
}

/// Oneself, or, for who may read users, another one.
fn asked_about(call: &Call, principal: &Principal) -> Result<(String, Rights)> {
    let own = || (principal.user.name.clone(), principal.rights.clone());
    let Some(name) = call.arg("user").filter(|name| *name != principal.user.name) else {
        return Ok(own());
    };
    let sees = ClusterRights::MANAGE_SECURITY | ClusterRights::READ_SECURITY;
    if !principal.rights.has_cluster(sees) {
        return Err(principal.refused_cluster("cluster:admin/xpack/security/user/has_privileges", sees));
    }
    let records = security_of(call)?.store.records();
    let missing = || Error::new(ErrorKind::ResourceNotFound, format!("user [{name}] does not exist"));
    let user = records.users.get(name).ok_or_else(missing)?;
    Ok((name.to_owned(), Rights::of_user(&records, user)))
}

fn of_indices(rights: &Rights, entry: &Value, out: &mut Map<String, Value>) -> Result<bool> {
    let (names, wanted) = (texts("names", &entry["names"])?, texts("privileges", &entry["privileges"])?);
    let mut all = true;
    for name in names {
        // A pattern is at hand where a pattern of a role covers all that it matches.
        let on = rights.on(&name);
        let mut each = out
            .remove(&name)
            .and_then(|known| known.as_object().cloned())
            .unwrap_or_default();
        for privilege in &wanted {
            let rights = privileges::index(std::slice::from_ref(privilege))?;
            let has = rights != IndexRights::NONE && on.has(rights);
            all &= has;
            each.insert(privilege.clone(), has.into());
        }
        out.insert(name, Value::Object(each));
    }
    Ok(all)
}

fn texts(member: &str, value: &Value) -> Result<Vec<String>> {
    let wrong = || {
        let reason = format!("failed to parse privilege check: [{member}] must be an array of strings");
        Error::new(ErrorKind::Parse, reason)
    };
    match value {
        Value::String(one) => Ok(vec![one.clone()]),
        Value::Array(list) => list
            .iter()
            .map(|one| one.as_str().map(str::to_owned).ok_or_else(wrong))
            .collect(),
        _ => Err(wrong()),
    }
}

/// `GET /_security/user/_privileges`
#[boxed]
pub(crate) async fn privileges(call: Call) -> Result<Answer> {
    call.no_body()?;
    call.params.finish()?;
    let principal = principal_of(&call)?;
    let records = security_of(&call)?.store.records();
    // Of a key those of its own roles, or of its owner.
    let roles: Vec<_> = match &principal.realm {
        Realm::ApiKey(key) if !key.roles.is_empty() => key.roles.iter().map(|(_, role)| role.render()).collect(),
        _ => {
            let names = principal.user.roles.iter();
            names
                .filter_map(|name| records.role(name))
                .map(|role| role.render())
                .collect()
        }
    };
    let mut cluster = BTreeSet::new();
    let mut indices = Vec::new();
    for role in &roles {
        let names = role["cluster"].as_array().into_iter().flatten();
        cluster.extend(names.filter_map(|name| name.as_str().map(str::to_owned)));
        for entry in role["indices"].as_array().into_iter().flatten() {
            let mut entry = entry.clone();
            for (member, name) in [("query", "query"), ("field_security", "field_security")] {
                if !entry[member].is_null() {
                    entry[name] = json!([entry[member]]);
                }
            }
            indices.push(without_nulls(entry));
        }
    }
    Ok(Answer::ok(json!({
        "cluster": cluster, "global": [], "indices": indices, "applications": [], "run_as": [],
    })))
}

fn without_nulls(mut entry: Value) -> Value {
    if let Some(members) = entry.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    entry
}

/// `GET /_security/privilege/_builtin`
#[boxed]
pub(crate) async fn builtin_privileges(call: Call) -> Result<Answer> {
    call.no_body()?;
    call.params.finish()?;
    security_of(&call)?;
    let mut cluster: Vec<&str> = CLUSTER
        .iter()
        .map(|(name, _)| *name)
        .chain(GIVES_NOTHING.iter().copied())
        .collect();
    let mut index: Vec<&str> = INDEX.iter().map(|(name, _)| *name).collect();
    cluster.sort_unstable();
    index.sort_unstable();
    Ok(Answer::ok(json!({ "cluster": cluster, "index": index })))
}
