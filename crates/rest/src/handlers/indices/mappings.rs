//! Mappings: put, get, one field; and `_field_caps`.

use crate::call::Call;
use crate::first_type;
use crate::query_params::split_list;
use crate::render::field_types::check_types_of_2015;
use crate::render::indices::{mappings_of, type_level};
use crate::respond::Answer;
use crate::targets::administration::{admin_target, must_exist};
use async_recursion::async_recursion as boxed;
use dsl::query::{BoolQuery, Clause, Query};
use engine::{Alteration, IndexInfo, Inspected, Inspection};
use model::{Error, ErrorKind, Result, Target, path};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// `PUT /i/_mapping`.
#[boxed]
pub(crate) async fn put(mut call: Call) -> Result<Answer> {
    let write_index_only = call.params.flag("write_index_only")?;
    let mut target = admin_target(&mut call)?;
    target.types.clear();
    let of_2015 = call.dialect.rules.former_mapping_apis;
    let invalid = |what: &str| Error::new(ErrorKind::ActionRequestValidation, format!("Validation Failed: 1: {what};"));
    let node = match call.json_needed() {
        Err(error) if of_2015 && error.kind() == ErrorKind::Parse => return Err(invalid("mapping source is empty")),
        node => node.map_err(crate::render::indices::no_map)?,
    };
    if of_2015 && call.arg("type").is_none() {
        return Err(invalid("mapping type is missing"));
    }
    call.params.finish()?;
    let mut body = node.into_value();
    if call.dialect.rules.shows_missing_types && body.as_object().is_some_and(Map::is_empty) {
        return Err(Error::new(ErrorKind::MapperParsing, "malformed mapping no root object found"));
    }
    let infos = call.rest.indices(&target).await?;
    must_exist(&infos, &target)?;
    crate::targets::administration::readable(&infos)?;
    if write_index_only {
        target.expressions = write_indices(&infos, &target.expressions)?;
    }
    let typed = infos.iter().any(|i| i.typed);
    let mut doc_type = call.arg("type").map(str::to_owned);
    if !typed {
        body = without_type_level(body, &[doc_type.as_deref().unwrap_or("_doc"), "_doc"]);
        doc_type = first_type_of(&call, &target, &infos, doc_type).await?;
    } else if let Some(name) = &doc_type {
        if call.dialect.persona == model::Persona::Es7 {
            one_type(&infos, name)?;
        }
        body = without_type_level(body, &[name]);
    } else if let Some((name, inner)) = body
        .as_object()
        .filter(|m| m.len() == 1)
        .and_then(|m| m.iter().next())
        .map(|(k, v)| (k.clone(), v.clone()))
    {
        if mapping::has_type_level(&body) || call.dialect.persona == model::Persona::Es2 {
            doc_type = Some(name);
            body = inner;
        }
    } else if call.dialect.persona == model::Persona::Es2 {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: mapping type is missing;",
        ));
    }
    if of_2015 {
        check_types_of_2015(&body, 0)?;
    }
    call.rest.alter(Alteration::PutMapping { target, doc_type, body }).await?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// The mapping inside the level of types, where the body is one of these names alone.
fn without_type_level(body: Value, names: &[&str]) -> Value {
    let is_wrapped = body.as_object().is_some_and(|m| m.len() == 1);
    let inner = names.iter().filter(|_| is_wrapped).find_map(|name| body.get(*name));
    match inner.filter(|inner| inner.is_object()) {
        Some(inner) => inner.clone(),
        None => body,
    }
}

/// The type that a mapping gives to indices without types: a name other than `_doc`, where there is no type yet. The
/// engine sees whether there is.
async fn first_type_of(call: &Call, target: &Target, infos: &[IndexInfo], name: Option<String>) -> Result<Option<String>> {
    let Some(name) = name.filter(|name| name != "_doc" && !infos.is_empty()) else {
        return Ok(None);
    };
    let persona = call.dialect.persona;
    if persona == model::Persona::Es7 {
        must_have_no_documents(call, target, &name).await?;
        return Ok(Some(name));
    }
    if !first_type::applies(persona) {
        return Ok(None);
    }
    let open = first_type::is_open_to_types(&call.rest, target, infos).await?;
    Ok(open.then_some(name))
}

/// In Elasticsearch 7 an index has one type.
fn one_type(infos: &[IndexInfo], name: &str) -> Result<()> {
    let types = |info: &IndexInfo| info.mappings.as_object().and_then(|types| types.keys().next().cloned());
    match infos
        .iter()
        .find_map(|info| Some((info, types(info).filter(|known| known != name)?)))
    {
        Some((info, known)) => Err(more_than_one_type(info.name.as_str(), &known, name)),
        None => Ok(()),
    }
}

fn more_than_one_type(index: &str, known: &str, name: &str) -> Error {
    Error::illegal(format!(
        "Rejecting mapping update to [{index}] as the final mapping would have more than 1 type: [{known}, {name}]"
    ))
}

/// Documents that have no type would be lost to an index that has one.
async fn must_have_no_documents(call: &Call, target: &model::Target, name: &str) -> Result<()> {
    let Inspected::Stats(stats) = call.rest.engine.inspect(Inspection::Stats(target.clone())).await? else {
        return Err(Error::new(ErrorKind::Internal, "the engine does not answer stats"));
    };
    match stats.iter().find(|(_, stats)| stats.index_total > 0 || stats.lucene_docs > 0) {
        Some((info, _)) => Err(more_than_one_type(info.name.as_str(), "_doc", name)),
        None => Ok(()),
    }
}

/// The index of each alias that writes go to.
fn write_indices(infos: &[IndexInfo], expressions: &[String]) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for expression in expressions {
        let behind: Vec<&IndexInfo> = infos.iter().filter(|i| i.aliases.contains_key(expression)).collect();
        let writers: Vec<&&IndexInfo> = behind
            .iter()
            .filter(|i| behind.len() == 1 || i.aliases[expression]["is_write_index"] == true)
            .collect();
        match (behind.is_empty(), writers.as_slice()) {
            (true, _) => out.push(expression.clone()),
            (false, [one]) => out.push(one.name.to_string()),
            (false, _) => {
                return Err(Error::illegal(format!(
                    "The index expression [{expression}] and options provided did not point to a single write-index"
                )));
            }
        }
    }
    Ok(out)
}

/// `GET /i/_mapping`.
#[boxed]
pub(crate) async fn get(mut call: Call) -> Result<Answer> {
    let include_type_name = call.params.take_bool("include_type_name")?;
    let mut target = admin_target(&mut call)?;
    target.types.clear();
    call.params.finish()?;
    let types = call
        .arg("type")
        .map(split_list)
        .filter(|t| !t.iter().any(|t| t == "_all" || t == "*"));
    let infos = call.rest.indices(&target).await?;
    must_exist(&infos, &target)?;
    crate::targets::administration::readable(&infos)?;
    let mut out = Map::new();
    for info in &infos {
        let mut mappings = mappings_of(info, call.dialect);
        if let (Some(types), true) = (&types, info.typed) {
            if let Some(map) = mappings.as_object_mut() {
                map.retain(|name, _| types.iter().any(|t| path::matches(t, name)));
            }
        } else if types.is_none()
            && let Some(map) = mappings.as_object_mut().filter(|_| info.typed)
        {
            map.retain(|name, _| name != "_default_" || call.dialect.rules.shows_missing_types);
        }
        let empty = mappings.as_object().is_some_and(Map::is_empty);
        if empty && types.is_some() && (info.typed || call.dialect.rules.shows_missing_types) {
            continue;
        }
        let mappings = type_level(mappings, include_type_name);
        out.insert(info.name.to_string(), json!({ "mappings": mappings }));
    }
    if call.method == "HEAD" {
        let there = !out.is_empty() && !call.dialect.rules.former_mapping_apis;
        return Ok(Answer::empty(if there { 200 } else { 404 }));
    }
    if let (true, true, Some(types)) = (
        call.dialect.rules.shows_missing_types,
        out.is_empty() && call.arg("index").is_none(),
        &types,
    ) {
        let reason = format!("type[{}] missing", types.join(","));
        return Err(Error::new(ErrorKind::TypeMissing, reason).with("index", "_all"));
    }
    if out.is_empty() && types.is_some() && !call.dialect.rules.shows_missing_types {
        let reason = format!("type[[{}]] missing", call.arg("type").unwrap_or_default());
        return Err(Error::new(ErrorKind::TypeMissing, reason));
    }
    Ok(Answer::ok(Value::Object(out)))
}

/// `GET /i/_mapping/field/f`.
#[boxed]
pub(crate) async fn get_field(mut call: Call) -> Result<Answer> {
    let of_2015 = call.dialect.rules.former_mapping_apis;
    let include_defaults = call.params.flag("include_defaults")?;
    let include_type_name = call.params.take_bool("include_type_name")?;
    let local = call.params.is_given("local");
    let mut target = admin_target(&mut call)?;
    target.types.clear();
    let fields = split_list(&call.path_part("fields")?);
    call.params.finish()?;
    let types = call.arg("type").map(split_list);
    let infos = call.rest.indices(&target).await?;
    must_exist(&infos, &target)?;
    crate::targets::administration::readable(&infos)?;
    if let Some(wanted) = types.as_ref().filter(|_| !call.dialect.rules.former_mapping_apis) {
        any_type_exists(&infos, wanted)?;
    }
    let mut out = Map::new();
    for info in &infos {
        let fields_of = |mapping: &Value| fields_of(mapping, &fields, include_defaults, of_2015);
        // 2015 told of an index that has such a type, whether or not the type has such a field.
        let mut any_type = false;
        let mappings = if info.typed {
            let (by_type, any) = fields_by_type(&info.mappings, types.as_deref(), fields_of);
            any_type = any || types.is_none();
            by_type
        } else {
            let found = fields_of(&info.mappings);
            if include_type_name == Some(true) && !found.is_empty() {
                Map::from_iter([("_doc".to_owned(), Value::Object(found))])
            } else {
                found
            }
        };
        if !mappings.is_empty() || !info.typed || of_2015 && any_type {
            out.insert(info.name.to_string(), json!({ "mappings": mappings }));
        }
    }
    let empty = out.values().all(|v| v["mappings"].as_object().is_some_and(Map::is_empty));
    if empty && call.dialect.rules.former_mapping_apis {
        // One field that one type of one index has not was told apart from a type that is not there.
        let one = |list: &[String]| list.len() == 1 && !list[0].contains('*') && list[0] != "_all";
        let known = match (types.as_deref(), infos.as_slice()) {
            (Some(types), [info]) => one(types) && one(&fields) && info.mappings.get(&types[0]).is_some(),
            _ => false,
        };
        if known || out.is_empty() {
            return Ok(Answer::of(if known { 200 } else { 404 }, json!({})));
        }
    }
    let answer = Answer::ok(Value::Object(out));
    Ok(if local && call.dialect.persona == model::Persona::Es7 {
        answer.warning(
            call.dialect,
            "Use [local] in get field mapping requests is deprecated. The parameter will be removed in the next major version",
        )
    } else {
        answer
    })
}

/// The fields of the types with one of these names, by type, and whether there is such a type.
fn fields_by_type(
    mappings: &Value,
    types: Option<&[String]>,
    fields_of: impl Fn(&Value) -> Map<String, Value>,
) -> (Map<String, Value>, bool) {
    let is_wanted = |name: &str| types.is_none_or(|types| types.iter().any(|t| t == "_all" || path::matches(t, name)));
    let (mut by_type, mut any) = (Map::new(), false);
    for (name, mapping) in mappings.as_object().into_iter().flatten().filter(|(name, _)| is_wanted(name)) {
        any = true;
        let found = fields_of(mapping);
        if !found.is_empty() {
            by_type.insert(name.clone(), Value::Object(found));
        }
    }
    (by_type, any)
}

/// Refuses types of which no index has one. A pattern may match none.
fn any_type_exists(infos: &[IndexInfo], wanted: &[String]) -> Result<()> {
    let exists = |name: &String| {
        let has = |info: &IndexInfo| match info.typed {
            true => info
                .mappings
                .as_object()
                .is_some_and(|types| types.keys().any(|t| path::matches(name, t))),
            false => name == "_doc",
        };
        name.contains('*') || name == "_all" || infos.iter().any(has)
    };
    if wanted.iter().any(exists) {
        return Ok(());
    }
    let reason = format!("type[[{}]] missing", wanted.join(", "));
    Err(Error::new(ErrorKind::TypeMissing, reason))
}

/// Metadata fields that Elasticsearch 2 counts among the fields of a type.
const METADATA_OF_2015: &[&str] = &[
    "_all",
    "_field_names",
    "_id",
    "_index",
    "_parent",
    "_routing",
    "_source",
    "_timestamp",
    "_ttl",
    "_type",
    "_uid",
    "_version",
];

/// Fields of one mapping that match a pattern, as `full_name` and `mapping`.
fn fields_of(mapping: &Value, patterns: &[String], include_defaults: bool, of_2015: bool) -> Map<String, Value> {
    let mut flat = BTreeMap::new();
    flatten(mapping, "", &mut flat, 0);
    let mut out = Map::new();
    for pattern in patterns {
        if pattern == "_id" && !of_2015 {
            out.insert(pattern.clone(), json!({ "full_name": pattern, "mapping": {} }));
        }
        for name in METADATA_OF_2015.iter().filter(|name| of_2015 && path::matches(pattern, name)) {
            let own = mapping.get(*name).map(|own| json!({ *name: own }));
            let own = own.unwrap_or_else(|| json!({}));
            out.insert((*name).to_owned(), json!({ "full_name": name, "mapping": own }));
        }
        for (name, body) in &flat {
            if path::matches(pattern, name) {
                let leaf = name.rsplit('.').next().unwrap_or(name);
                let mut body = body.clone();
                if include_defaults {
                    body = if of_2015 {
                        with_defaults_of_2015(&body)
                    } else {
                        with_defaults(body)
                    };
                }
                out.insert(name.clone(), json!({ "full_name": name, "mapping": { leaf: body } }));
            }
        }
    }
    out
}

/// The same with the defaults of 2015.
fn with_defaults_of_2015(body: &Value) -> Value {
    let kind = body["type"].as_str().unwrap_or_default();
    let analyzed = kind == "string" && body.get("index").is_none_or(|index| index == "analyzed" || index == "no");
    let indexed = body.get("index").is_none_or(|index| index != "no");
    let mut out = json!({
        "boost": 1.0, "index": if analyzed { "analyzed" } else { "not_analyzed" }, "store": false,
        "doc_values": indexed && !analyzed, "term_vector": "no", "norms": { "enabled": analyzed },
        "similarity": "default", "fielddata": {}, "null_value": null
    });
    if indexed {
        out["index_options"] = if analyzed { "positions" } else { "docs" }.into();
    }
    if kind != "boolean" {
        out["include_in_all"] = false.into();
    }
    if kind == "string" {
        out["position_increment_gap"] = (-1).into();
        out["ignore_above"] = (-1).into();
        if analyzed {
            out["analyzer"] = "default".into();
        }
    } else if kind != "boolean" {
        out["ignore_malformed"] = false.into();
        out["coerce"] = true.into();
        out["precision_step"] = match kind {
            "long" | "double" | "date" | "ip" => 16.into(),
            "byte" => i32::MAX.into(),
            _ => 8.into(),
        };
    }
    if kind == "date" {
        out["numeric_resolution"] = "milliseconds".into();
        out["locale"] = "".into();
    }
    let mut out = with(out, body);
    // Fields have no fields of fields.
    if let Some(fields) = out.get_mut("fields").and_then(Value::as_object_mut) {
        for field in fields.values_mut() {
            *field = with_defaults_of_2015(field);
        }
    }
    out
}

/// A field's parameters with the defaults of those it does not name.
fn with_defaults(body: Value) -> Value {
    let mut body = body;
    if let Some(fields) = body.get_mut("fields").and_then(Value::as_object_mut) {
        for field in fields.values_mut() {
            *field = with_defaults(field.take());
        }
    }
    let common = json!({ "index": true, "doc_values": true, "store": false });
    let own = match body["type"].as_str().unwrap_or_default() {
        "text" => {
            let own = json!({
                "type": "text", "boost": 1.0, "index": true, "store": false, "meta": {}, "index_options": "positions",
                "term_vector": "no", "norms": true, "analyzer": "default", "similarity": null,
                "eager_global_ordinals": false, "position_increment_gap": -1, "fielddata": false,
                "fielddata_frequency_filter": { "min": 0.0, "max": 2_147_483_647.0, "min_segment_size": 0 },
                "index_prefixes": null, "index_phrases": false
            });
            let mut out = with(own, &body);
            // An analyzer serves where none of its own is named.
            for (name, from) in [("search_analyzer", "analyzer"), ("search_quote_analyzer", "search_analyzer")] {
                if out.get(name).is_none() {
                    out[name] = out[from].clone();
                }
            }
            return out;
        }
        "long" | "integer" | "short" | "byte" | "double" | "float" | "half_float" | "unsigned_long" | "scaled_float" => json!({
            "ignore_malformed": false, "coerce": true, "null_value": null, "meta": {}
        }),
        "ip" => json!({ "ignore_malformed": false, "null_value": null, "meta": {} }),
        "geo_point" => json!({
            "boost": 1.0, "ignore_malformed": false, "ignore_z_value": true, "null_value": null, "meta": {}
        }),
        "date" | "date_nanos" => json!({
            "format": "strict_date_optional_time||epoch_millis", "print_format": "strict_date_optional_time", "locale": "",
            "null_value": null, "ignore_malformed": false, "boost": 1.0, "meta": {}
        }),
        "keyword" => json!({
            "null_value": null, "eager_global_ordinals": false, "ignore_above": 2_147_483_647, "index_options": "docs",
            "norms": false, "similarity": null, "normalizer": "default", "split_queries_on_whitespace": false,
            "boost": 1.0, "meta": {}
        }),
        "boolean" => json!({ "null_value": null, "boost": 1.0, "meta": {} }),
        _ => return body,
    };
    let mut out = with(json!({ "type": body["type"] }), &common);
    out = with(out, &own);
    with(out, &body)
}

fn with(mut under: Value, over: &Value) -> Value {
    if let (Some(under), Some(over)) = (under.as_object_mut(), over.as_object()) {
        for (name, value) in over {
            under.insert(name.clone(), value.clone());
        }
    }
    under
}

/// Leaf fields and multi-fields by full name; the depth is the mapping's, which is limited.
fn flatten(mapping: &Value, prefix: &str, out: &mut BTreeMap<String, Value>, depth: usize) {
    if depth > 100 {
        return;
    }
    for (name, body) in mapping.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let full = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}.{name}")
        };
        if body.get("properties").is_some() {
            flatten(body, &full, out, depth + 1);
        } else {
            out.insert(full.clone(), body.clone());
        }
        for (sub, body) in body.get("fields").and_then(Value::as_object).into_iter().flatten() {
            out.insert(format!("{full}.{sub}"), body.clone());
        }
    }
}

/// `_field_caps`.
#[boxed]
pub(crate) async fn field_caps(mut call: Call) -> Result<Answer> {
    let target = call.target()?;
    let include_unmapped = call.params.flag("include_unmapped")?;
    let types = call.params.take_list("types").unwrap_or_default();
    let filters = call.params.take_list("filters").unwrap_or_default();
    let known = ["+metadata", "-metadata", "-parent", "-nested", "-multifield"];
    if let Some(other) = filters.iter().find(|f| !known.contains(&f.as_str())) {
        return Err(Error::illegal(format!(
            "Field filter [{other}] is not supported: use {}",
            known.join(", ")
        )));
    }
    let mut fields = call.params.take_list("fields").unwrap_or_default();
    let content = call.json()?;
    call.params.finish()?;
    let mut filter = None;
    if let Some(node) = content {
        if call.dialect.persona.is_opensearch()
            && let dsl::json::Json::Object(members) = &node.value
            && let Some((name, _)) = members.iter().find(|(name, _)| *name != "index_filter")
        {
            return Err(Error::new(ErrorKind::Parsing, format!("request does not support [{name}]")));
        }
        let mut body = node.fields("field_caps_request")?;
        if let Some(list) = body.take("fields") {
            fields = list.items().into_iter().map(|n| n.string("fields")).collect::<Result<_>>()?;
        }
        filter = body.take("index_filter");
        body.finish()?;
    }
    if fields.is_empty() {
        return Err(Error::illegal("specified fields can't be null or empty"));
    }
    let mut infos = call.rest.indices(&target).await?;
    if let Some(node) = filter {
        let query = Query::parse(node, &mut dsl::query::Parsing::new(call.dialect))?;
        let mut kept = Vec::new();
        for info in infos {
            let request = dsl::search::SearchRequest {
                query: Some(index_filter(query.clone(), &info)),
                size: 0,
                ..dsl::search::SearchRequest::new(call.dialect)
            };
            let found = crate::actions::search::run_search(&call, &model::Target::index(info.name.as_str()), request).await?;
            if found.hits.total.is_some_and(|t| t.value > 0) {
                kept.push(info);
            }
        }
        infos = kept;
    }
    let names: Vec<&str> = infos.iter().map(|i| i.name.as_str()).collect();
    let opensearch = call.dialect.persona.is_opensearch();
    let mut found = capabilities(&infos, &fields, include_unmapped, opensearch);
    if let Some(map) = found.as_object_mut().filter(|_| !types.is_empty() || !filters.is_empty()) {
        map.retain(|name, kinds| keeps(&infos, &types, &filters, name, kinds));
    }
    Ok(Answer::ok(json!({ "indices": names, "fields": found })))
}

/// What tells whether an index may match at all, without looking for its documents: ranges of dates, fields that it does not
/// have, nothing; and what other indices answer.
fn index_filter(query: Query, info: &IndexInfo) -> Query {
    let each = |list: Vec<Query>| list.into_iter().map(|query| index_filter(query, info)).collect();
    let kind = |field: &str| info.mapping.resolve(field).map(|(_, field)| field.kind.wire());
    match query.clause {
        Clause::Bool(inner) => Query::from(Clause::Bool(BoolQuery {
            must: each(inner.must),
            filter: each(inner.filter),
            should: each(inner.should),
            must_not: Vec::new(),
            ..inner
        })),
        Clause::ConstantScore { filter } => index_filter(*filter, info),
        Clause::MatchNone | Clause::Join(_) | Clause::TermsLookup(_) => query,
        Clause::Range(ref range) if matches!(kind(&range.field), None | Some("date" | "date_nanos")) => query,
        Clause::Term(ref term) if kind(&term.field).is_none() && !term.field.starts_with('_') => query,
        Clause::Terms(ref terms) if kind(&terms.field).is_none() && !terms.field.starts_with('_') => query,
        _ => Query::from(Clause::MatchAll),
    }
}

/// Do `types` and `filters` leave a field in?
fn keeps(infos: &[IndexInfo], types: &[String], filters: &[String], name: &str, kinds: &Value) -> bool {
    let kinds = || kinds.as_object().into_iter().flatten();
    let metadata = METADATA_OPENSEARCH.iter().any(|(metadata, ..)| *metadata == name);
    let multifield = name
        .rsplit_once('.')
        .is_some_and(|(parent, _)| infos.iter().any(|i| i.mapping.fields().any(|(n, _)| n == parent)));
    let nested = infos.iter().any(|i| {
        i.mapping
            .objects()
            .any(|(o, _)| i.mapping.is_nested(o) && (name == o || name.starts_with(&format!("{o}."))))
    });
    (types.is_empty() || kinds().any(|(kind, _)| types.contains(kind)))
        && filters.iter().all(|filter| match filter.as_str() {
            "+metadata" => metadata,
            "-metadata" => !metadata,
            "-parent" => !kinds().all(|(kind, _)| kind == "object" || kind == "nested"),
            "-nested" => !nested,
            "-multifield" => !multifield,
            _ => true,
        })
}

/// What one index can do with a field of one type.
struct Capability {
    searchable: bool,
    aggregatable: bool,
    index: String,
}

/// Field → type → the capability in each index that has it.
type Capabilities = BTreeMap<String, BTreeMap<String, Vec<Capability>>>;

/// Field → type → what can be done with it, and in which indices if they differ.
fn capabilities(infos: &[IndexInfo], patterns: &[String], include_unmapped: bool, opensearch: bool) -> Value {
    let mut all = Capabilities::new();
    for info in infos {
        add_capabilities(&mut all, info, patterns, opensearch);
    }
    let mut out = Map::new();
    for (name, kinds) in all {
        let mut entry = Map::new();
        let mapped: Vec<&str> = kinds.values().flatten().map(|one| one.index.as_str()).collect();
        let unmapped: Vec<String> = infos
            .iter()
            .map(|i| i.name.to_string())
            .filter(|i| include_unmapped && !mapped.contains(&i.as_str()))
            .collect();
        let several = kinds.len() + usize::from(!unmapped.is_empty()) > 1;
        for (kind, each) in &kinds {
            entry.insert(kind.clone(), render_capability(kind, each, several));
        }
        if !unmapped.is_empty() {
            entry.insert(
                "unmapped".into(),
                json!({ "type": "unmapped", "searchable": false, "aggregatable": false, "indices": unmapped }),
            );
        }
        out.insert(name, Value::Object(entry));
    }
    Value::Object(out)
}

/// Adds the fields, objects and metadata of one index whose names match.
fn add_capabilities(all: &mut Capabilities, info: &IndexInfo, patterns: &[String], opensearch: bool) {
    let matches = |name: &str| patterns.iter().any(|p| path::matches(p, name));
    let index = info.name.to_string();
    let mut add = |name: &str, kind: &str, searchable: bool, aggregatable: bool| {
        let of_name = all.entry(name.to_owned()).or_default();
        of_name.entry(kind.to_owned()).or_default().push(Capability {
            searchable,
            aggregatable,
            index: index.clone(),
        });
    };
    let mut above: BTreeSet<&str> = BTreeSet::new();
    for (name, field) in info.mapping.fields().filter(|(name, _)| matches(name)) {
        // An alias is what it leads to.
        let field = info.mapping.resolve(name).map_or(field, |(_, field)| field);
        let kind = match field.kind {
            mapping::Kind::TokenCount => "integer",
            kind => kind.wire(),
        };
        let searchable = (field.index || field.tree.is_some()) && field.kind != mapping::Kind::Binary;
        add(name, kind, searchable, field.doc_values || field.fielddata);
        // The objects that a field is in come with it, whatever they are called.
        let mut rest = name;
        while let Some((object, _)) = rest.rsplit_once('.') {
            if info.mapping.field(object).is_none() {
                above.insert(object);
            }
            rest = object;
        }
    }
    // The parts of Lucene's join field.
    if let Some((join, kind)) = info.mapping.join_field() {
        for (parent, _) in &kind.relations {
            let name = format!("{join}#{parent}");
            if matches(&name) {
                add(&name, "parent", true, true);
            }
        }
    }
    for object in above {
        let kind = if info.mapping.is_nested(object) { "nested" } else { "object" };
        add(object, kind, false, false);
    }
    if info.mapping.join_field().is_some() && opensearch && matches("_parent_join") {
        add("_parent_join", "parent_join", false, false);
    }
    // Where nothing was ever mapped there are no metadata fields either.
    let metadata = match (opensearch, info.mapping.is_empty()) {
        (true, true) => &[],
        (true, false) => METADATA_OPENSEARCH,
        (false, _) => METADATA,
    };
    for (name, kind, searchable, aggregatable) in metadata {
        if matches(name) {
            add(name, kind, *searchable, *aggregatable);
        }
    }
}

/// One type of a field: what holds in all its indices, the indices if others differ, and those that fall short.
fn render_capability(kind: &str, each: &[Capability], several: bool) -> Value {
    let indices = |wanted: &dyn Fn(&Capability) -> bool| -> Value {
        let named = each.iter().filter(|one| wanted(one));
        named.map(|one| one.index.clone()).collect::<Vec<_>>().into()
    };
    let mut body = Map::new();
    body.insert("type".into(), kind.into());
    let searchable = each.iter().all(|one| one.searchable);
    let aggregatable = each.iter().all(|one| one.aggregatable);
    body.insert("searchable".into(), searchable.into());
    body.insert("aggregatable".into(), aggregatable.into());
    if several {
        body.insert("indices".into(), indices(&|_| true));
    }
    if !searchable && each.iter().any(|one| one.searchable) {
        body.insert("non_searchable_indices".into(), indices(&|one| !one.searchable));
    }
    if !aggregatable && each.iter().any(|one| one.aggregatable) {
        body.insert("non_aggregatable_indices".into(), indices(&|one| !one.aggregatable));
    }
    Value::Object(body)
}

/// Metadata fields: name, type, searchable, aggregatable.
const METADATA: &[(&str, &str, bool, bool)] = &[
    ("_id", "_id", true, true),
    ("_index", "_index", true, true),
    ("_source", "_source", false, false),
    ("_routing", "_routing", true, false),
    ("_seq_no", "_seq_no", true, true),
    ("_version", "_version", false, true),
    ("_ignored", "_ignored", true, false),
    ("_field_names", "_field_names", true, false),
    ("_nested_path", "_nested_path", true, false),
];

/// The same of OpenSearch.
const METADATA_OPENSEARCH: &[(&str, &str, bool, bool)] = &[
    ("_id", "_id", true, true),
    ("_index", "_index", true, true),
    ("_source", "_source", false, false),
    ("_routing", "_routing", true, false),
    ("_seq_no", "_seq_no", true, true),
    ("_version", "_version", false, false),
    ("_ignored", "_ignored", true, false),
    ("_field_names", "_field_names", true, false),
    ("_nested_path", "_nested_path", true, false),
    ("_doc_count", "long", false, false),
    ("_feature", "_feature", false, false),
    ("_data_stream_timestamp", "_data_stream_timestamp", false, false),
];
