//! `_security/role`: roles.

use crate::actions::security::{body_of, check_queries, security_of};
use crate::call::Call;
use crate::query_params::split_list;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use model::{Error, ErrorKind, Result};
use security::records::{Record, check_name};
use security::role::{BUILT_IN, find_built_in};
use security::{Records, Role};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// `PUT /_security/role/{name}`
#[boxed]
pub(crate) async fn put(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let name = call.path_part("name")?;
    check_name("role", &name)?;
    refuse_built_in(&name)?;
    let role = Role::parse(&name, &body_of(&call)?)?;
    check_queries(&call, &name, &role)?;
    let put = |records: &Records| {
        let created = !records.roles.contains_key(&name);
        check_administrator(records, |records| {
            records.put(Record::Role(name.clone(), Arc::new(role.clone())))
        })?;
        Ok((Some(Record::Role(name.clone(), Arc::new(role))), created))
    };
    let created = security_of(&call)?.store.put(put).await?;
    Ok(Answer::ok(json!({ "role": { "created": created } })))
}

/// A change of roles leaves somebody who may alter users, if there was somebody.
fn check_administrator(records: &Records, change: impl FnOnce(&mut Records)) -> Result<()> {
    let mut next = records.clone();
    change(&mut next);
    if records.has_administrator() && !next.has_administrator() {
        let reason = "Validation Failed: 1: nobody could alter users any more: give a user the role [superuser] first;";
        return Err(Error::new(ErrorKind::ActionRequestValidation, reason));
    }
    Ok(())
}

fn refuse_built_in(name: &str) -> Result<()> {
    match find_built_in(name) {
        None => Ok(()),
        Some(_) => Err(Error::new(
            ErrorKind::ActionRequestValidation,
            format!("Validation Failed: 1: role [{name}] is reserved and cannot be modified.;"),
        )),
    }
}

/// `GET /_security/role`, `GET /_security/role/{name}`
#[boxed]
pub(crate) async fn get(call: Call) -> Result<Answer> {
    call.no_body()?;
    call.params.finish()?;
    let records = security_of(&call)?.store.records();
    let names = match call.arg("name") {
        Some(names) => split_list(names),
        None => {
            let built_in = BUILT_IN.iter().map(|(name, ..)| (*name).to_owned());
            built_in.chain(records.roles.keys().cloned()).collect()
        }
    };
    let found = names.into_iter().filter_map(|name| {
        let role = records.role(&name)?.render();
        Some((name, role))
    });
    let found: Map<String, Value> = found.collect();
    let status = if found.is_empty() && call.arg("name").is_some() {
        404
    } else {
        200
    };
    Ok(Answer::of(status, Value::Object(found)))
}

/// `DELETE /_security/role/{name}`
#[boxed]
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    call.no_body()?;
    call.params.finish()?;
    let name = call.path_part("name")?;
    refuse_built_in(&name)?;
    let find = |records: &Records| {
        let role = records.roles.get(&name).cloned();
        let record = role.map(|role| Record::Role(name.clone(), role));
        if let Some(record) = &record {
            check_administrator(records, |records| records.remove(record))?;
        }
        Ok(record)
    };
    let found = security_of(&call)?.store.delete(find).await?;
    Ok(Answer::of(if found { 200 } else { 404 }, json!({ "found": found })))
}
