//! `_security/api_key`: keys for programs. A key's secret is shown once, when it is made.

use crate::actions::security::{body_of, check_queries, principal_of, security_of};
use crate::authentication::random_text;
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use model::path::matches;
use model::{Error, ErrorKind, Result, units};
use security::records::{Record, check_name};
use security::{ApiKey, ClusterRights, Principal, Realm, Records, Role, secrets};
use serde_json::{Map, Value, json};
use std::sync::Arc;

const ID_LENGTH: usize = 20;
const SECRET_LENGTH: usize = 22;

/// `POST /_security/api_key`
#[boxed]
pub(crate) async fn create(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let principal = principal_of(&call)?;
    if principal.realm != Realm::User {
        let reason = "creating derived api keys is not supported: a key is made by a user, with a password";
        return Err(Error::illegal(reason));
    }
    let body = body_of(&call)?;
    let mut key = read(&call, &body, call.rest.clock.wall_ms())?;
    let secret = random_text(SECRET_LENGTH)?;
    key.id = random_text(ID_LENGTH)?;
    key.owner.clone_from(&principal.user.name);
    key.hash = secrets::key_hash(&secret);
    let mut out = json!({ "id": key.id, "name": key.name });
    if let Some(end) = key.expires_ms {
        out["expiration"] = end.into();
    }
    out["api_key"] = secret.as_str().into();
    out["encoded"] = secrets::encode_key(&key.id, &secret).into();
    let record = Record::ApiKey(Arc::new(key));
    security_of(&call)?.store.put(|_| Ok((Some(record), ()))).await?;
    Ok(Answer::ok(out))
}

fn read(call: &Call, body: &Value, now_ms: i64) -> Result<ApiKey> {
    let Value::Object(members) = body else {
        return Err(Error::new(ErrorKind::Parse, "failed to parse api key: expected an object"));
    };
    let mut key = ApiKey {
        created_ms: now_ms,
        ..ApiKey::default()
    };
    for (member, value) in members {
        let wrong = |wanted: &str| {
            let reason = format!("failed to parse api key: [{member}] must be {wanted}");
            Error::new(ErrorKind::Parse, reason)
        };
        match member.as_str() {
            "name" => key.name = value.as_str().ok_or_else(|| wrong("a string"))?.to_owned(),
            "expiration" if value.is_null() => {}
            "expiration" => {
                let text = value.as_str().ok_or_else(|| wrong("a duration as [1d]"))?;
                let length = units::parse_duration(text, "expiration")?;
                let millis = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
                key.expires_ms = Some(now_ms.saturating_add(millis));
            }
            "metadata" if value.is_null() => {}
            "metadata" => key.metadata = value.as_object().cloned().ok_or_else(|| wrong("an object"))?,
            "role_descriptors" if value.is_null() => {}
            "role_descriptors" => {
                let roles = value.as_object().ok_or_else(|| wrong("an object"))?;
                for (name, role) in roles {
                    let role = Role::parse(name, role)?;
                    check_queries(call, name, &role)?;
                    key.roles.push((name.clone(), role));
                }
            }
            other => {
                let known = ["name", "expiration", "metadata", "role_descriptors"];
                let hint = model::nearest::question(other, known);
                let reason = format!("failed to parse api key: unexpected field [{other}]{hint}");
                return Err(Error::new(ErrorKind::Parse, reason));
            }
        }
    }
    check_name("api key", &key.name)?;
    Ok(key)
}

/// Which keys are meant.
#[derive(Default)]
struct Meant {
    ids: Vec<String>,
    name: Option<String>,
    username: Option<String>,
    owned: bool,
    active_only: bool,
}

impl Meant {
    fn has(&self, key: &ApiKey, principal: &Principal, now_ms: i64) -> bool {
        (self.ids.is_empty() || self.ids.contains(&key.id))
            && self.name.as_deref().is_none_or(|name| matches(name, &key.name))
            && self.username.as_deref().is_none_or(|name| name == key.owner)
            && (!self.owned || key.owner == principal.user.name)
            && (!self.active_only || key.is_live(now_ms))
    }

    /// # Errors
    /// `security_exception`: keys of others, without the right to all of them.
    fn check(&mut self, principal: &Principal, all: ClusterRights, action: &str) -> Result<()> {
        if principal.rights.has_cluster(all) {
            return Ok(());
        }
        let others = self.username.as_deref().is_some_and(|name| name != principal.user.name);
        if others {
            return Err(principal.refused_cluster(action, all));
        }
        // Of others nobody is told that there are any.
        self.owned = true;
        if let (Realm::ApiKey(key), true) = (&principal.realm, self.ids.is_empty()) {
            self.ids = vec![key.id.clone()];
        }
        Ok(())
    }
}

const SEE_ALL: ClusterRights = ClusterRights::MANAGE_API_KEY.and(ClusterRights::READ_SECURITY);

/// `GET /_security/api_key`
#[boxed]
pub(crate) async fn get(mut call: Call) -> Result<Answer> {
    let mut meant = Meant {
        ids: call.params.take_list("id").unwrap_or_default(),
        name: call.params.take("name").filter(|name| name != "*"),
        username: call.params.take("username"),
        owned: call.params.flag("owner")?,
        active_only: call.params.flag("active_only")?,
    };
    let with_owner = call.params.flag("with_limited_by")?;
    check_realm(&mut call)?;
    call.no_body()?;
    call.params.finish()?;
    let principal = principal_of(&call)?;
    meant.check(&principal, SEE_ALL, "cluster:admin/xpack/security/api_key/get")?;
    let (records, now_ms) = (security_of(&call)?.store.records(), call.rest.clock.wall_ms());
    let found = records.keys.values().filter(|key| meant.has(key, &principal, now_ms));
    let shown: Vec<Value> = found
        .map(|key| {
            let mut out = key.render();
            if with_owner {
                out["limited_by"] = json!([roles_of(&records, &key.owner)]);
            }
            out
        })
        .collect();
    let status = if shown.is_empty() && !meant.ids.is_empty() { 404 } else { 200 };
    Ok(Answer::of(status, json!({ "api_keys": shown })))
}

fn roles_of(records: &Records, user: &str) -> Value {
    let names = records.users.get(user).map(|user| user.roles.clone()).unwrap_or_default();
    let roles = names.into_iter().filter_map(|name| {
        let role = records.role(&name)?.render();
        Some((name, role))
    });
    Value::Object(roles.collect::<Map<_, _>>())
}

/// There is one realm.
fn check_realm(call: &mut Call) -> Result<()> {
    match call.params.take("realm_name") {
        Some(realm) if realm != security::records::REALM => Err(Error::illegal(format!(
            "there is no realm [{realm}]; the realm of all users is [{}]",
            security::records::REALM
        ))),
        _ => Ok(()),
    }
}

/// `DELETE /_security/api_key`
#[boxed]
pub(crate) async fn invalidate(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let principal = principal_of(&call)?;
    let mut meant = parse_selection(&body_of(&call)?)?;
    meant.check(
        &principal,
        ClusterRights::MANAGE_API_KEY,
        "cluster:admin/xpack/security/api_key/invalidate",
    )?;
    let (security, now_ms) = (security_of(&call)?, call.rest.clock.wall_ms());
    let records = security.store.records();
    let found = records.keys.values().filter(|key| meant.has(key, &principal, now_ms));
    let (mut ended, mut before) = (Vec::new(), Vec::new());
    for id in found.map(|key| key.id.clone()) {
        let end = |records: &Records| {
            let Some(key) = records.keys.get(&id).filter(|key| key.invalidated_ms.is_none()) else {
                return Ok((None, false));
            };
            let mut key = ApiKey::clone(key);
            key.invalidated_ms = Some(now_ms);
            Ok((Some(Record::ApiKey(Arc::new(key))), true))
        };
        match security.store.put(end).await? {
            true => ended.push(id),
            false => before.push(id),
        }
    }
    Ok(Answer::ok(json!({
        "invalidated_api_keys": ended, "previously_invalidated_api_keys": before, "error_count": 0,
    })))
}

fn parse_selection(body: &Value) -> Result<Meant> {
    let Value::Object(members) = body else {
        return Err(Error::new(ErrorKind::Parse, "expected an object"));
    };
    let mut meant = Meant::default();
    for (member, value) in members {
        let text = || value.as_str().map(str::to_owned);
        match member.as_str() {
            "id" => meant.ids.extend(text()),
            "ids" => {
                let list = value.as_array().into_iter().flatten();
                meant.ids.extend(list.filter_map(|id| id.as_str().map(str::to_owned)));
            }
            "name" => meant.name = text(),
            "username" => meant.username = text(),
            "realm_name" if value.as_str() == Some(security::records::REALM) => {}
            "owner" => meant.owned = value.as_bool().unwrap_or(false),
            other => {
                let known = ["id", "ids", "name", "username", "owner"];
                let hint = model::nearest::question(other, known);
                return Err(Error::new(ErrorKind::Parse, format!("unexpected field [{other}]{hint}")));
            }
        }
    }
    if meant.ids.is_empty() && meant.name.is_none() && meant.username.is_none() && !meant.owned {
        let reason = "Validation Failed: 1: One of [api key id(s), api key name, username, realm name] must be specified if [owner] flag is false;";
        return Err(Error::new(ErrorKind::ActionRequestValidation, reason));
    }
    Ok(meant)
}
