//! `_security/user`: users and their passwords.

use crate::actions::security::{body_of, principal_of, security_of};
use crate::call::Call;
use crate::query_params::split_list;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use model::{Error, ErrorKind, Result};
use security::records::{Record, check_name};
use security::{ClusterRights, Realm, Records, User, secrets};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// `PUT /_security/user/{username}`
#[boxed]
pub(crate) async fn put(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let name = call.path_part("username")?;
    check_name("user", &name)?;
    let body = UserBody::read(&body_of(&call)?)?;
    let security = security_of(&call)?;
    let hash = match (body.password, body.password_hash) {
        (Some(_), Some(_)) => return Err(invalid("only one of [password, password_hash] may be given")),
        (Some(password), None) => Some(security.hash(password).await?),
        (None, hash) => hash,
    };
    let put = |records: &Records| {
        let known = records.users.get(&name);
        let hash = hash.or_else(|| known.map(|known| known.password_hash.clone()));
        let Some(password_hash) = hash else {
            return Err(invalid("password must be specified unless you are updating an existing user"));
        };
        let user = User {
            name: name.clone(),
            roles: body.roles,
            full_name: body.full_name,
            email: body.email,
            metadata: body.metadata,
            enabled: body.enabled.unwrap_or_else(|| known.is_none_or(|known| known.enabled)),
            password_hash,
        };
        check_last(records, &name, Some(&user))?;
        Ok((Some(Record::User(Arc::new(user))), known.is_none()))
    };
    let created = security.store.put(put).await?;
    Ok(Answer::ok(json!({ "created": created })))
}

/// The members of a user.
#[derive(Default)]
struct UserBody {
    password: Option<String>,
    password_hash: Option<String>,
    roles: Vec<String>,
    full_name: Option<String>,
    email: Option<String>,
    metadata: Map<String, Value>,
    enabled: Option<bool>,
}

const MEMBERS: [&str; 8] = [
    "password",
    "password_hash",
    "roles",
    "full_name",
    "email",
    "metadata",
    "enabled",
    "username",
];

impl UserBody {
    fn read(body: &Value) -> Result<UserBody> {
        let Value::Object(members) = body else {
            return Err(Error::new(ErrorKind::Parse, "failed to parse user: expected an object"));
        };
        let mut out = UserBody::default();
        let mut has_roles = false;
        for (member, value) in members {
            let text = || match value {
                Value::Null => Ok(None),
                Value::String(text) => Ok(Some(text.clone())),
                _ => Err(wrong(member, "a string")),
            };
            match member.as_str() {
                "password" => out.password = text()?,
                "password_hash" => out.password_hash = text()?,
                "full_name" => out.full_name = text()?,
                "email" => out.email = text()?,
                "username" => {}
                "enabled" => out.enabled = Some(value.as_bool().ok_or_else(|| wrong(member, "a boolean"))?),
                "metadata" => out.metadata = value.as_object().cloned().ok_or_else(|| wrong(member, "an object"))?,
                "roles" => {
                    has_roles = true;
                    out.roles = roles(value).ok_or_else(|| wrong(member, "an array of strings"))?;
                }
                other => {
                    let hint = model::nearest::question(other, MEMBERS);
                    let reason = format!("failed to parse user: unexpected field [{other}]{hint}");
                    return Err(Error::new(ErrorKind::Parse, reason));
                }
            }
        }
        if !has_roles {
            return Err(invalid("roles are missing"));
        }
        if out.metadata.keys().any(|key| key.starts_with('_')) {
            return Err(invalid("metadata keys may not start with [_]"));
        }
        if out.password_hash.as_deref().is_some_and(|hash| !secrets::is_hash(hash)) {
            return Err(invalid(
                "[password_hash] is no hash of argon2id as [$argon2id$v=19$m=..,t=..,p=..$salt$hash]",
            ));
        }
        Ok(out)
    }
}

fn roles(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(split_list(text)),
        Value::Array(list) => list.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

fn wrong(member: &str, wanted: &str) -> Error {
    Error::new(ErrorKind::Parse, format!("failed to parse user: [{member}] must be {wanted}"))
}

fn invalid(why: &str) -> Error {
    Error::new(ErrorKind::ActionRequestValidation, format!("Validation Failed: 1: {why};"))
}

/// The last user who may alter users stays, or nobody could log in to make another one.
fn check_last(records: &Records, name: &str, next: Option<&User>) -> Result<()> {
    let known = records.users.get(name).is_some_and(|known| records.is_administrator(known));
    let stays = next.is_some_and(|next| records.is_administrator(next));
    let others = records
        .users
        .values()
        .any(|user| user.name != name && records.is_administrator(user));
    if known && !stays && !others {
        return Err(invalid(&format!(
            "user [{name}] is the last one who may alter users: give another one the role [superuser] first"
        )));
    }
    Ok(())
}

/// `GET /_security/user`, `GET /_security/user/{username}`
#[boxed]
pub(crate) async fn get(call: Call) -> Result<Answer> {
    call.no_body()?;
    call.params.finish()?;
    let records = security_of(&call)?.store.records();
    let Some(names) = call.arg("username") else {
        let all = records.users.iter().map(|(name, user)| (name.clone(), user.render()));
        return Ok(Answer::ok(Value::Object(all.collect())));
    };
    let found = split_list(names).into_iter().filter_map(|name| {
        let user = records.users.get(&name)?.render();
        Some((name, user))
    });
    let found: Map<String, Value> = found.collect();
    let status = if found.is_empty() { 404 } else { 200 };
    Ok(Answer::of(status, Value::Object(found)))
}

/// `DELETE /_security/user/{username}`
#[boxed]
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    call.no_body()?;
    call.params.finish()?;
    let name = call.path_part("username")?;
    let find = |records: &Records| {
        check_last(records, &name, None)?;
        Ok(records.users.get(&name).cloned().map(Record::User))
    };
    let found = security_of(&call)?.store.delete(find).await?;
    Ok(Answer::of(if found { 200 } else { 404 }, json!({ "found": found })))
}

/// `PUT /_security/user/{username}/_password`, `PUT /_security/user/_password`: one's own, or with the right on the cluster.
#[boxed]
pub(crate) async fn change_password(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let principal = principal_of(&call)?;
    let name = call
        .arg("username")
        .map_or_else(|| principal.user.name.clone(), str::to_owned);
    let own = name == principal.user.name && principal.realm == Realm::User;
    if !own && !principal.rights.has_cluster(ClusterRights::MANAGE_SECURITY) {
        let action = "cluster:admin/xpack/security/user/change_password";
        return Err(principal.refused_cluster(action, ClusterRights::MANAGE_SECURITY));
    }
    let body = body_of(&call)?;
    let (Some(members), Some(password)) = (body.as_object(), body["password"].as_str()) else {
        return Err(invalid("password must be specified"));
    };
    if let Some(other) = members.keys().find(|member| *member != "password") {
        return Err(Error::new(
            ErrorKind::Parse,
            format!("unexpected field [{other}]: only [password] is read"),
        ));
    }
    let security = security_of(&call)?;
    let hash = security.hash(password.to_owned()).await?;
    let put = |records: &Records| {
        let mut user = User::clone(find_user(records, &name)?);
        user.password_hash = hash;
        Ok((Some(Record::User(Arc::new(user))), ()))
    };
    security.store.put(put).await?;
    Ok(Answer::ok(json!({})))
}

fn find_user<'a>(records: &'a Records, name: &str) -> Result<&'a User> {
    let missing = || {
        let hint = model::nearest::question(name, records.users.keys().map(String::as_str));
        invalid(&format!("user [{name}] does not exist{hint}"))
    };
    records.users.get(name).map(Arc::as_ref).ok_or_else(missing)
}

/// `PUT /_security/user/{username}/_enable`
#[boxed]
pub(crate) async fn enable(call: Call) -> Result<Answer> {
    set_enabled(call, true).await
}

/// `PUT /_security/user/{username}/_disable`
#[boxed]
pub(crate) async fn disable(call: Call) -> Result<Answer> {
    set_enabled(call, false).await
}

async fn set_enabled(call: Call, enabled: bool) -> Result<Answer> {
    call.no_body()?;
    call.params.finish()?;
    let name = call.path_part("username")?;
    let put = |records: &Records| {
        let user = User {
            enabled,
            ..find_user(records, &name)?.clone()
        };
        check_last(records, &name, Some(&user))?;
        Ok((Some(Record::User(Arc::new(user))), ()))
    };
    security_of(&call)?.store.put(put).await?;
    Ok(Answer::ok(json!({})))
}
