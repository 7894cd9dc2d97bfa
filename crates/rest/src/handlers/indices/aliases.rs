//! Aliases: several actions at once, one alias, reading them.

use crate::call::Call;
use crate::query_params::split_list;
use crate::render::indices::aliases_of;
use crate::respond::Answer;
use crate::targets::administration::admin_target;
use async_recursion::async_recursion as boxed;
use dsl::document::{AliasActions, AliasVerb};
use dsl::query::{Clause, Query};
use engine::{AliasAction, Alteration, Inspected, Inspection};
use model::{Error, ErrorKind, Result, Target, path};
use serde_json::{Map, Value, json};

/// The indices an alias action names; wildcards reach closed ones.
fn target_of(expressions: Vec<String>) -> Target {
    let mut target = Target::of(expressions);
    (target.expand_closed, target.forbid_closed) = (true, false);
    target
}

/// `POST /_aliases`.
#[boxed]
pub(crate) async fn update(mut call: Call) -> Result<Answer> {
    let node = call.json_needed()?;
    let locks = call.take_locks()?;
    call.params.finish()?;
    if call.dialect.rules.validates_missing_parts {
        check_of_2015(&node, &call)?;
    }
    let mut actions = Vec::new();
    let parsed = AliasActions::parse(node, call.dialect)?.0;
    let must_exist = removals_must_exist(&call, &parsed).await?;
    for action in parsed {
        let target = target_of(action.indices.clone());
        crate::actions::locks::check_alter(&call.rest, &target, &locks).await?;
        if action.is_write_index == Some(true) {
            // Writes move off the index that has them by this name.
            crate::actions::locks::check_alter(&call.rest, &target_of(action.aliases.clone()), &locks).await?;
        }
        refuse_aliases_as_indices(&call, &action.indices).await?;
        if let Some(routing) = action
            .index_routing
            .as_deref()
            .filter(|_| !call.dialect.rules.tolerates_alias_mistakes)
        {
            one_index_routing(action.aliases.first().map_or("", String::as_str), routing)?;
        }
        if let (Some(filter), Some(alias), false) = (
            &action.filter,
            action.aliases.first(),
            call.dialect.rules.tolerates_alias_mistakes,
        ) {
            check_filter(&call, &target, alias, filter).await?;
        }
        match action.verb {
            AliasVerb::RemoveIndex => actions.push(AliasAction::RemoveIndex { target }),
            AliasVerb::Add => {
                for alias in &action.aliases {
                    actions.push(AliasAction::Add {
                        target: target.clone(),
                        alias: alias.clone(),
                        body: body_of(&action),
                    });
                }
            }
            AliasVerb::Remove
                if !call.dialect.rules.alias_removals_must_exist
                    && removals(&call, &action, action.must_exist.unwrap_or(must_exist), &mut actions).await? => {}
            AliasVerb::Remove => {
                for alias in &action.aliases {
                    actions.push(AliasAction::Remove {
                        target: target.clone(),
                        alias: if alias == "_all" { "*".into() } else { alias.clone() },
                        must_exist: action.must_exist.unwrap_or(must_exist),
                    });
                }
            }
        }
    }
    call.rest.alter(Alteration::UpdateAliases(actions)).await?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// Removes what is there before the request, whatever its other actions add; false if what must be there is not.
async fn removals(
    call: &Call,
    action: &dsl::document::AliasAction,
    must_exist: bool,
    actions: &mut Vec<AliasAction>,
) -> Result<bool> {
    let mut some = false;
    for info in call.rest.indices(&target_of(action.indices.clone())).await? {
        for alias in info.aliases.keys().filter(|alias| is_named(&action.aliases, alias)) {
            some = true;
            actions.push(AliasAction::Remove {
                target: target_of(vec![info.name.as_str().to_owned()]),
                alias: alias.clone(),
                must_exist: false,
            });
        }
    }
    let by_name = |name: &String| !name.contains('*') && name != "_all";
    let each_must = action.must_exist == Some(true) && action.aliases.iter().any(by_name);
    Ok(!must_exist || some && !each_must)
}

/// Is a removal of what is not there refused, if it does not say so itself? Today only where nothing else is asked for.
async fn removals_must_exist(call: &Call, actions: &[dsl::document::AliasAction]) -> Result<bool> {
    if call.dialect.rules.alias_removals_must_exist {
        return Ok(true);
    }
    for action in actions {
        if action.verb != AliasVerb::Remove {
            return Ok(false);
        }
        for info in call.rest.indices(&target_of(action.indices.clone())).await? {
            if info.aliases.keys().any(|alias| is_named(&action.aliases, alias)) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Is an alias among those named?
fn is_named(names: &[String], alias: &str) -> bool {
    names.iter().any(|name| name == "_all" || path::matches(name, alias))
}

/// Do the names of a request, read from left to right, choose an alias? Behind a wildcard `-name` takes away.
fn is_chosen(names: &[String], alias: &str, dialect: model::Dialect) -> bool {
    let (mut chosen, mut wild) = (false, false);
    for name in names {
        match name.strip_prefix('-').filter(|_| wild && !dialect.rules.reads_no_exclusions) {
            Some(out) => chosen &= !path::matches(out, alias),
            None => chosen |= path::matches(name, alias),
        }
        wild |= name.contains('*');
    }
    chosen
}

/// Aliases are of indices, and not of other aliases.
async fn refuse_aliases_as_indices(call: &Call, expressions: &[String]) -> Result<()> {
    if call.dialect.rules.tolerates_alias_mistakes {
        return Ok(());
    }
    for name in expressions.iter().filter(|name| !name.contains('*') && *name != "_all") {
        let infos = call.rest.indices(&Target::of(vec![name.clone()])).await.unwrap_or_default();
        if infos
            .iter()
            .any(|info| info.name.as_str() != name && info.aliases.contains_key(name))
        {
            return Err(Error::illegal(format!(
                "The provided expression [{name}] matches an alias, specify the corresponding concrete indices instead."
            )));
        }
    }
    Ok(())
}

/// The filter of an alias is one that its indices can search by.
async fn check_filter(call: &Call, target: &Target, alias: &str, filter: &Value) -> Result<()> {
    let failed = |cause: Error| Error::illegal(format!("failed to parse filter for alias [{alias}]")).with_cause(cause);
    if !filter.is_object() {
        return Err(failed(Error::parsing(
            "[_na] query malformed, must start with start_object",
            1,
            1,
        )));
    }
    let mut parsing = dsl::query::Parsing::of_filter(call.dialect);
    let query = Query::parse(dsl::json::Node::from_value(filter.clone()), &mut parsing).map_err(failed)?;
    let mut asks_others = false;
    query.visit(&mut |query| asks_others |= matches!(query.clause, Clause::Join(_) | Clause::TermsLookup(_)));
    if asks_others {
        // Other refusals show when the alias is searched.
        return Ok(());
    }
    let inspection = Inspection::Validate {
        target: target.clone(),
        query: Box::new(query),
    };
    // An index that is not there or cannot be searched is refused, or not, by the change itself.
    let Ok(Inspected::Validated(answers)) = call.rest.engine.inspect(inspection).await else {
        return Ok(());
    };
    for (_, answer) in answers {
        if let Err(error) = answer
            && error.status() == 400
        {
            let cause = error.cause().cloned().filter(|_| error.kind() == ErrorKind::QueryShard);
            return Err(failed(cause.unwrap_or(error)));
        }
    }
    Ok(())
}

/// Refuses several index routings: writes through an alias go one way.
fn one_index_routing(alias: &str, routing: &str) -> Result<()> {
    if routing.contains(',') {
        return Err(Error::illegal(format!(
            "alias [{alias}] has several index routing values associated with it"
        )));
    }
    Ok(())
}

/// The refusals of Elasticsearch 2 for actions that it cannot carry out.
fn check_of_2015(node: &dsl::json::Node, call: &Call) -> Result<()> {
    let body = node.to_value();
    let Some(list) = body.get("actions").and_then(Value::as_array) else {
        return Ok(());
    };
    if list.is_empty() {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: Must specify at least one alias action;",
        ));
    }
    for (name, action) in list.iter().filter_map(Value::as_object).flatten() {
        if name != "add" && name != "remove" {
            return Err(Error::illegal(format!("Alias action [{name}] not supported")));
        }
        if let Some(filter) = action.get("filter").filter(|f| f.is_object()) {
            let mut parsing = dsl::query::Parsing::of_filter(call.dialect);
            if let Err(cause) = dsl::query::Query::parse(dsl::json::Node::from_value(filter.clone()), &mut parsing) {
                let alias = action.get("alias").and_then(Value::as_str).unwrap_or_default();
                return Err(Error::illegal(format!("failed to parse filter for alias [{alias}]")).with_cause(cause));
            }
        }
    }
    Ok(())
}

/// The options of an alias.
fn body_of(action: &dsl::document::AliasAction) -> Map<String, Value> {
    let mut out = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            out.insert(name.to_owned(), value);
        }
    };
    put("filter", action.filter.clone());
    put("index_routing", action.index_routing.clone().map(Value::from));
    put("search_routing", action.search_routing.clone().map(Value::from));
    put("is_write_index", action.is_write_index.map(Value::from));
    put("is_hidden", action.is_hidden.map(Value::from));
    out
}

/// `PUT /i/_alias/a`.
#[boxed]
pub(crate) async fn put(mut call: Call) -> Result<Answer> {
    let from_url = (
        call.arg("index").map(str::to_owned).or_else(|| call.params.take("index")),
        call.arg("name").map(str::to_owned).or_else(|| call.params.take("name")),
    );
    let content = call.json()?;
    let locks = call.take_locks()?;
    call.params.finish()?;
    let mut body = match content.map(dsl::json::Node::into_value) {
        Some(Value::Object(map)) => map,
        Some(_) => return Err(Error::new(ErrorKind::Parse, "request body must be an object")),
        None => Map::new(),
    };
    let in_body = |body: &mut Map<String, Value>, name: &str| body.remove(name).and_then(|v| v.as_str().map(str::to_owned));
    let index = in_body(&mut body, "index").or(from_url.0);
    let alias = in_body(&mut body, "alias").or(from_url.1);
    let (Some(index), Some(alias)) = (index.filter(|i| !i.is_empty()), alias.filter(|a| !a.is_empty())) else {
        if call.dialect.rules.validates_missing_parts {
            return Err(Error::new(
                ErrorKind::ActionRequestValidation,
                "Validation Failed: 1: Alias action [add]: Property [index/indices] is either missing or null;",
            ));
        }
        return Err(Error::illegal("index and alias are both required"));
    };
    for name in body.keys() {
        if !dsl::document::ALIAS_OPTIONS.contains(&name.as_str()) {
            return Err(Error::illegal(format!("unknown field [{name}]")));
        }
    }
    if !call.dialect.rules.tolerates_value_types {
        for name in ["routing", "index_routing", "search_routing"] {
            if let Some(Value::Number(number)) = body.get(name) {
                let text = number.to_string();
                body.insert(name.to_owned(), text.into());
            }
        }
        if body.get("filter").and_then(Value::as_object).is_some_and(Map::is_empty) {
            body.remove("filter");
        }
        for name in ["is_write_index", "is_hidden"] {
            if let Some(value) = body.get_mut(name).filter(|value| !value.is_null()) {
                *value = dsl::json::Node::from_value(value.take()).boolean(name)?.into();
            }
        }
        if let Some(routing) = body
            .get("index_routing")
            .or_else(|| body.get("routing"))
            .and_then(Value::as_str)
        {
            one_index_routing(&alias, routing)?;
        }
        refuse_aliases_as_indices(&call, &split_list(&index)).await?;
    }
    let target = target_of(split_list(&index));
    crate::actions::locks::check_alter(&call.rest, &target, &locks).await?;
    if body.get("is_write_index") == Some(&Value::Bool(true)) {
        crate::actions::locks::check_alter(&call.rest, &target_of(vec![alias.clone()]), &locks).await?;
    }
    if let (Some(filter), false) = (body.get("filter"), call.dialect.rules.tolerates_alias_mistakes) {
        check_filter(&call, &target, &alias, filter).await?;
    }
    let add = AliasAction::Add { target, alias, body };
    call.rest.alter(Alteration::UpdateAliases(vec![add])).await?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// `DELETE /i/_alias/a`.
#[boxed]
pub(crate) async fn delete(mut call: Call) -> Result<Answer> {
    let (index, name) = (call.path_part("index")?, call.path_part("name")?);
    let locks = call.take_locks()?;
    call.params.finish()?;
    let target = target_of(split_list(&index));
    crate::actions::locks::check_alter(&call.rest, &target, &locks).await?;
    refuse_aliases_as_indices(&call, &split_list(&index)).await?;
    let names = split_list(&name);
    let infos = call.rest.indices(&target).await?;
    let matched = |alias: &str| is_named(&names, alias);
    if !infos.iter().any(|i| i.aliases.keys().any(|a| matched(a))) {
        return Err(Error::new(ErrorKind::AliasesNotFound, format!("aliases [{name}] missing"))
            .with("resource.type", "aliases")
            .with("resource.id", name));
    }
    let actions = names
        .iter()
        .map(|alias| AliasAction::Remove {
            target: target.clone(),
            alias: if alias == "_all" { "*".into() } else { alias.clone() },
            must_exist: false,
        })
        .collect();
    call.rest.alter(Alteration::UpdateAliases(actions)).await?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// `GET /_alias/a`.
#[boxed]
pub(crate) async fn get(mut call: Call) -> Result<Answer> {
    let target = admin_target(&mut call)?;
    call.params.finish()?;
    let names = call
        .arg("name")
        .map(split_list)
        .filter(|n| !n.iter().any(|n| n == "_all" || n == "*"));
    let legacy = call.params.path().contains("_aliases");
    let infos = call.rest.indices(&target).await?;
    let mut out = Map::new();
    let mut seen = Vec::new();
    for info in &infos {
        let Value::Object(mut aliases) = aliases_of(info, call.dialect) else {
            continue;
        };
        if let Some(names) = &names {
            aliases.retain(|alias, _| is_chosen(names, alias, call.dialect));
            seen.extend(aliases.keys().cloned());
        }
        let all = names.is_none() && (call.arg("name").is_none() || !aliases.is_empty());
        if !aliases.is_empty() || all || legacy && call.dialect.rules.former_alias_answers {
            out.insert(info.name.to_string(), json!({ "aliases": aliases }));
        }
    }
    if let Some(names) = &names {
        let missing: Vec<&str> = names
            .iter()
            .enumerate()
            // A name behind a wildcard may be taken away.
            .filter(|(i, n)| !(n.starts_with('-') && names[..*i].iter().any(|before| before.contains('*'))))
            .map(|(_, n)| n)
            .filter(|n| !n.contains('*') && !seen.contains(n))
            .filter(|n| !(call.dialect.rules.reads_no_exclusions && n.starts_with('-')))
            .map(String::as_str)
            .collect();
        // In 2015 one index without the alias was no error.
        let of_index = call.dialect.rules.former_alias_answers && call.arg("index").is_some();
        if !(missing.is_empty() || legacy && call.dialect.rules.former_alias_answers || of_index) {
            let plural = if missing.len() > 1 { "aliases" } else { "alias" };
            let mut body = json!({ "error": format!("{plural} [{}] missing", missing.join(",")), "status": 404 });
            if let Some(map) = body.as_object_mut() {
                map.extend(out);
            }
            return Ok(Answer::of(404, body));
        }
    }
    Ok(Answer::ok(Value::Object(out)))
}

/// `HEAD /_alias/a`.
#[boxed]
pub(crate) async fn exists(mut call: Call) -> Result<Answer> {
    // Today it is the status of what GET answers.
    if !call.dialect.rules.former_alias_answers {
        return match get(call).await {
            Ok(answer) => Ok(Answer::empty(answer.status)),
            Err(error) if error.status() == 404 => Ok(Answer::empty(404)),
            Err(error) => Err(error),
        };
    }
    let target = admin_target(&mut call)?;
    call.params.finish()?;
    let names = call.arg("name").map(split_list).unwrap_or_else(|| vec!["*".into()]);
    let found = match call.rest.indices(&target).await {
        Ok(infos) => infos
            .iter()
            .any(|i| i.aliases.keys().any(|a| names.iter().any(|n| path::matches(n, a)))),
        Err(error) if error.status() == 404 => false,
        Err(error) => return Err(error),
    };
    Ok(Answer::empty(if found { 200 } else { 404 }))
}
