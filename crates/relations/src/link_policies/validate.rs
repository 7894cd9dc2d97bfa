//! A link policy against the catalog: indices and fields are there, keys can be looked for exactly, copies fit.
//!
//! Not here: its own words (`links::policy`), circles (`links::table`).

use crate::links::{KeyField, Policy, PolicyTable};
use engine::{Engine, EngineExt as _, IndexInfo};
use mapping::{FieldType, Kind, Mapping};
use model::lock_index::LockIndex;
use model::{Error, ErrorKind, Result, Target, nearest};

/// The longest id of a document, in bytes: a keyword that leaves out longer values than this leaves out no id.
const ID_MAX: usize = 512;

/// The policy with what the catalog says of it.
///
/// # Errors
/// `index_not_found_exception`; an index, a field or types that it cannot be with.
pub(super) async fn check(engine: &dyn Engine, mut policy: Policy) -> Result<Policy> {
    let source = index(engine, &policy.source.index).await?;
    let target = index(engine, &policy.target.index).await?;
    policy.source.uuid.clone_from(&source.uuid);
    policy.target.uuid.clone_from(&target.uuid);
    policy.key = key_field(&policy, &target)?;
    check_object(&policy, &target)?;
    for field in &policy.fields {
        check_field(&policy, field, &source.mapping, &target.mapping)?;
    }
    Ok(policy)
}

/// An open index without types, by its own name.
async fn index(engine: &dyn Engine, name: &str) -> Result<IndexInfo> {
    let target = Target {
        forbid_closed: false,
        ..Target::index(name)
    };
    if crate::schema::is_system(name) {
        return Err(crate::schema::forbidden(name));
    }
    let mut infos = engine.indices(&target).await?;
    let info = match infos.len() {
        1 => infos.remove(0),
        _ => return Err(Error::illegal(format!("[{name}] must name one index"))),
    };
    if info.name.as_str() != name {
        return Err(Error::illegal(format!(
            "[{name}] is a name of index [{}]; a link policy names the index itself",
            info.name
        )));
    }
    if !info.open {
        return Err(engine::catalog::index_closed(&info.name, &info.uuid));
    }
    let unfit = |why: &str| Err(Error::illegal(format!("index [{name}] {why}")).with("index", name));
    if info.typed {
        return unfit("has types; link policies are for indices without");
    }
    if !LockIndex::of(&info.settings)?.is_none() {
        return unfit("has lock documents, which no link policy writes");
    }
    if !info.mapping.source_filter().is_all() {
        return unfit("keeps only a part of each [_source], so copies could be lost");
    }
    if !info.mapping.source_enabled() {
        return unfit("keeps no [_source] to copy from or into");
    }
    Ok(info)
}

fn no_field(field: &str, index: &IndexInfo, mapping: &Mapping) -> Error {
    let meant = nearest::question(field, mapping.fields().map(|(path, _)| path));
    Error::illegal(format!("no field [{field}] in the mapping of index [{}]{meant}", index.name))
        .with("index", index.name.as_str())
        .with("field", field)
}

/// The field with the keys: a keyword or a whole number, searchable, by its own name.
fn key_field(policy: &Policy, target: &IndexInfo) -> Result<KeyField> {
    let (on, mapping) = (policy.on.as_str(), &target.mapping);
    let Some(field) = mapping.field(on) else {
        return Err(no_field(on, target, mapping));
    };
    let integer = matches!(field.kind, Kind::Long | Kind::Integer | Kind::Short | Kind::Byte);
    if !integer && field.kind != Kind::Keyword {
        let keyword = mapping.multi_fields(on).find(|(_, inner)| inner.kind == Kind::Keyword);
        let hint = keyword.map_or_else(String::new, |(path, _)| format!("; its sub-field [{path}] could be"));
        return Err(Error::illegal(format!(
            "field [{on}] of type [{}] in index [{}] cannot be the key of a link: use a keyword or a whole number{hint}",
            field.wire(),
            target.name
        ))
        .with("field", on));
    }
    let unfit = |why: &str| {
        let reason = format!("field [{on}] in index [{}] cannot be the key of a link: {why}", target.name);
        Err(Error::illegal(reason).with("field", on))
    };
    if !field.index {
        return unfit("it is not indexed");
    }
    if field.null_value.is_some() {
        return unfit("it has a [null_value], which no document has in its source");
    }
    // A sub-field has the values of the field around it.
    let around = on.rsplit_once('.').map(|(around, _)| around);
    let path = around
        .filter(|around| mapping.multi_fields(around).any(|(inner, _)| inner == on))
        .unwrap_or(on);
    Ok(KeyField {
        path: path.to_owned(),
        integer,
        nested: mapping.nested_path_of(on).map(str::to_owned),
        longest: field.ignore_above.filter(|longest| *longest < ID_MAX),
    })
}

/// The object that gets the copies is one, or may become one.
fn check_object(policy: &Policy, target: &IndexInfo) -> Result<()> {
    let (into, mapping) = (policy.into.as_str(), &target.mapping);
    if let Some(field) = mapping.field(into) {
        return Err(Error::illegal(format!(
            "[{into}] in index [{}] is a field of type [{}]; copies go into an object",
            target.name,
            field.wire()
        ))
        .with("field", into));
    }
    let nested = |path: &str| match mapping.is_nested(path) {
        true => Some(path.to_owned()),
        false => mapping.nested_path_of(path).map(str::to_owned),
    };
    if policy.inner_key().is_none() && nested(into) != policy.key.nested {
        return Err(Error::illegal(format!(
            "[{into}] and its key [{}] are in different nested objects of index [{}]",
            policy.on, target.name
        )));
    }
    Ok(())
}

/// A field is there at the source, and its copy fits.
fn check_field(policy: &Policy, field: &str, source: &Mapping, target: &Mapping) -> Result<()> {
    let at = format!("{}.{field}", policy.into);
    if at == policy.key.path {
        return Err(Error::illegal(format!(
            "the copy of [{field}] would overwrite the key [{}]",
            policy.on
        )));
    }
    let from = source.field(field);
    if from.is_none() && !source.is_object(field) {
        let meant = nearest::question(field, source.fields().map(|(path, _)| path));
        return Err(Error::illegal(format!(
            "no field [{field}] in the mapping of index [{}]{meant}",
            policy.source.index
        ))
        .with("index", policy.source.index.as_str())
        .with("field", field));
    }
    if source.tree_fields().any(|(path, _)| **path == *field) {
        return Err(Error::illegal(format!(
            "[{field}] is a [tree_path]: its directory moves without a write, so no copy could follow"
        )));
    }
    let unfit = |is: &str, to: &str| {
        Err(Error::illegal(format!(
            "[{field}] of index [{}] is {is}, and its copy [{at}] in index [{}] is {to}",
            policy.source.index, policy.target.index
        ))
        .with("field", at.as_str()))
    };
    match (from, target.field(&at)) {
        (Some(from), Some(to)) if !fits(from, to) => unfit(from.wire(), to.wire()),
        (None, Some(to)) => unfit("an object", to.wire()),
        (Some(from), None) if target.is_object(&at) => unfit(from.wire(), "an object"),
        _ => Ok(()),
    }
}

/// May values of one type be values of the other? What a single value comes to shows when it is written.
fn fits(from: &FieldType, to: &FieldType) -> bool {
    let is_string = |field: &FieldType| field.kind.is_text() || field.kind.is_keyword();
    from.kind == to.kind
        || is_string(to)
        || (from.kind.is_numeric() && to.kind.is_numeric())
        || (from.kind.is_date() && to.kind.is_date())
}

/// The policy against those that are there: no two write the same place, and no key is a copy.
///
/// # Errors
/// They are in each other's way.
pub(super) fn check_beside(policy: &Policy, others: &PolicyTable) -> Result<()> {
    for other in others.to(&policy.target.index) {
        let overlap = policy.fields.iter().find(|field| {
            let at = format!("{}.{field}", policy.into);
            other
                .fields
                .iter()
                .any(|theirs| do_meet(&at, &format!("{}.{theirs}", other.into)))
        });
        if let Some(field) = overlap {
            return Err(in_the_way(
                policy,
                &other,
                &format!("both copy into [{}.{field}]", policy.into),
            ));
        }
        for (copying, keyed) in [(policy, &*other), (&*other, policy)] {
            let is_key = |field: &&String| do_meet(&format!("{}.{field}", copying.into), &keyed.key.path);
            if let Some(field) = copying.fields.iter().find(is_key) {
                let what = format!("[{}.{field}] is a copy of the one and the key of the other", copying.into);
                return Err(in_the_way(policy, &other, &what));
            }
        }
    }
    Ok(())
}

/// Is one path the other, or inside of it?
fn do_meet(one: &str, other: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    within(one, other) || within(other, one)
}

fn in_the_way(policy: &Policy, other: &Policy, what: &str) -> Error {
    let reason = format!(
        "link policies [{}] and [{}] are in each other's way: {what}",
        policy.name, other.name
    );
    Error::new(ErrorKind::IllegalArgument, reason).with("policy", other.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::do_meet;

    #[test]
    fn paths_meet() {
        assert!(do_meet("a.b", "a.b") && do_meet("a.b", "a") && do_meet("a", "a.b"));
        assert!(!do_meet("a.b", "a.bc") && !do_meet("a.b", "a.c"));
    }
}
