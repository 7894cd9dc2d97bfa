//! Reads by id: parameters, visibility, fields, and the answer.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::actions::visibility::Visibility;
use crate::call::Call;
use crate::es2_errors;
use crate::query_params::split_list;
use dsl::search::SourceSpec;
use engine::{Document, Expect, Found, Read};
use model::path::SourceFilter;
use model::routing::{lead_together, through};
use model::{DocAddress, DocId, Error, IndexName, Result, path};
use serde_json::{Map, Value};
use std::io::Write as _;

/// The parameters of a read beside its address.
pub(crate) struct ReadOptions {
    pub(crate) source: SourceSpec,
    pub(crate) stored: Option<Vec<String>>,
    pub(crate) expect: Expect,
    pub(crate) refresh: bool,
    pub(crate) read: Read,
    pub(crate) visibility: Visibility,
}

pub(crate) fn parse(call: &mut Call, at: DocAddress) -> Result<ReadOptions> {
    let mut read = Read::whole(at);
    let parent = call.params.take_2015("parent");
    read.routing = call.params.take("routing").or(parent);
    read.searchable_only = call.params.take_bool("realtime")? == Some(false);
    let fields = if call.dialect.rules.documents_show_fields {
        "fields"
    } else {
        "stored_fields"
    };
    Ok(ReadOptions {
        source: source_params(call)?,
        stored: if call.params.is_given(fields) && call.params.has_row(fields) {
            call.params.take_list(fields)
        } else {
            None
        },
        // A forced version holds with every version.
        expect: match call.params.api() == "get_source" && !call.dialect.rules.sources_have_versions {
            // A source has no version.
            true => Expect::Anything,
            false => match call.params.take_version(call.dialect.rules.guards_writes_by_version)? {
                Expect::Forced(_) => Expect::Anything,
                other => other,
            },
        },
        refresh: call.params.flag("refresh")?,
        visibility: Visibility::take(call)?,
        read,
    })
}

/// `_source`, `_source_includes`, `_source_excludes` and their older names.
pub(crate) fn source_params(call: &mut Call) -> Result<SourceSpec> {
    let source = call.params.take("_source");
    // The names of 2015 went with it.
    let includes = call
        .params
        .take("_source_includes")
        .or(call.params.take_2015("_source_include"));
    let excludes = call
        .params
        .take("_source_excludes")
        .or(call.params.take_2015("_source_exclude"));
    Ok(match (source.as_deref(), includes, excludes) {
        (Some("false"), ..) => SourceSpec::None,
        (Some("true" | ""), None, None) => SourceSpec::All,
        (None, None, None) => SourceSpec::Default,
        (source, includes, excludes) => {
            let mut list = source.filter(|s| *s != "true").map(split_list).unwrap_or_default();
            list.extend(includes.as_deref().map(split_list).unwrap_or_default());
            SourceSpec::Filtered {
                includes: list,
                excludes: excludes.as_deref().map(split_list).unwrap_or_default(),
            }
        }
    })
}

/// The address of a document that is not there: in the index behind an alias.
pub(crate) async fn concrete(call: &Call, at: &DocAddress) -> DocAddress {
    let known = call.rest.index_facts(at.index.as_str()).await;
    inside(at, known.and_then(|known| known.read.clone()))
}

/// The address of a document that could not be written.
pub(crate) async fn write_address(call: &Call, at: &DocAddress) -> DocAddress {
    let known = call.rest.index_facts(at.index.as_str()).await;
    inside(at, known.and_then(|known| known.written.clone()))
}

pub(crate) fn inside(at: &DocAddress, index: Option<IndexName>) -> DocAddress {
    DocAddress {
        index: index.unwrap_or_else(|| at.index.clone()),
        id: at.id.clone(),
    }
}

/// In 2015 the fields of a read were as their types have them, whatever the source wrote.
pub(crate) async fn as_indexed(call: &Call, document: &Document, answer: &mut Map<String, Value>) -> Result<()> {
    let Some(fields) = answer.get_mut("fields").and_then(Value::as_object_mut) else {
        return Ok(());
    };
    if !call.dialect.rules.documents_show_fields {
        return Ok(());
    }
    let infos = call.rest.indices(&model::Target::index(document.at.index.as_str())).await?;
    for (name, values) in fields {
        let found = infos.first().and_then(|info| info.mapping.resolve(name));
        let (Some((_, field)), Some(values)) = (found, values.as_array_mut()) else {
            continue;
        };
        for value in values {
            let text = value.as_str().map(str::to_owned);
            match (field.kind.wire(), text) {
                ("byte" | "short" | "integer" | "long" | "float" | "double", Some(text)) => {
                    match serde_json::from_str(text.trim()) {
                        Ok(number @ Value::Number(_)) => *value = number,
                        _ => {
                            let error = Error::no_number(&text);
                            return Err(es2_errors::remote(error, "indices:data/read/get[s]"));
                        }
                    }
                }
                ("boolean", Some(text)) => *value = Value::Bool(!["false", "off", "no", "0", ""].contains(&text.as_str())),
                ("boolean", None) if value.is_number() => *value = Value::Bool(value.as_f64() != Some(0.0)),
                _ => {}
            }
        }
    }
    Ok(())
}

/// The source and the stored fields that an answer shows.
#[derive(Default)]
pub(crate) struct Kept {
    /// `_source` is enabled.
    pub(crate) source: bool,
    /// The wanted fields that can be shown.
    pub(crate) fields: Vec<String>,
}

pub(crate) async fn kept_parts(call: &Call, document: &Document, stored: Option<&[String]>) -> Result<Kept> {
    let index = document.at.index.as_str();
    let mut source = call.rest.index_facts(index).await.is_none_or(|known| known.source);
    if let (false, Some(doc_type)) = (source, &document.at.id.doc_type) {
        // Another type of the index may do without.
        let infos = call.rest.indices(&model::Target::index(index)).await?;
        let own = infos
            .first()
            .and_then(|info| info.mappings.get(&**doc_type)?.pointer("/_source/enabled"));
        source = !own.is_some_and(|enabled| *enabled == Value::Bool(false) || enabled == "false");
    }
    let fields = stored.unwrap_or_default();
    // In 2015 fields were read from the source, where there was one.
    if fields.is_empty() || source && call.dialect.rules.documents_show_fields {
        return Ok(Kept {
            source,
            fields: fields.to_vec(),
        });
    }
    // An index that a transaction makes is not known yet.
    let target = model::Target {
        ignore_unavailable: true,
        ..model::Target::index(index)
    };
    let infos = call.rest.indices(&target).await?;
    let is_stored = |field: &&String| {
        let found = infos.first().and_then(|info| info.mapping.resolve(field));
        found.is_some_and(|(_, field)| field.store)
    };
    Ok(Kept {
        source,
        fields: fields.iter().filter(is_stored).cloned().collect(),
    })
}

pub(crate) async fn fetch(call: &Call, wanted: &ReadOptions) -> Result<Option<Document>> {
    if wanted.visibility.waits() {
        let target = model::Target::index(wanted.read.at.index.as_str());
        wanted.visibility.reach(call, &target).await?;
    }
    let found = newest(call, wanted).await?;
    crate::actions::locks::check_read(call, &wanted.visibility.locks, &wanted.read.at, found.as_ref()).await?;
    Ok(found)
}

/// Among how many shards an index is told to keep its documents, where a routing leads to one of them.
pub(crate) async fn routed_among(call: &Call, at: &DocAddress) -> u64 {
    call.rest
        .index_facts(at.index.as_str())
        .await
        .map_or(1, |known| known.routed_among)
}

/// A document for a request that shows something else of it than its source.
pub(crate) async fn read_one(
    call: &Call,
    at: DocAddress,
    routing: Option<String>,
    realtime: bool,
    expect: Expect,
) -> Result<Option<Document>> {
    let wanted = ReadOptions {
        source: SourceSpec::Default,
        stored: None,
        expect,
        refresh: false,
        read: Read {
            routing,
            searchable_only: !realtime,
            ..Read::whole(at)
        },
        visibility: Visibility::default(),
    };
    let found = fetch(call, &wanted).await?;
    if let Some(document) = &found {
        check_version(&wanted, document, call).await?;
    }
    Ok(found)
}

/// Documents of one request as they were at one instant, in order, each with its own refusal; a transaction reads its own
/// moment. `None`: the sources of those before it have more than `bytes_max` bytes.
///
/// # Errors
/// The engine's.
pub(crate) async fn fetch_together(
    call: &Call,
    wanted: &[ReadOptions],
    bytes_max: usize,
) -> Result<Vec<Option<Result<Option<Document>>>>> {
    let mut out = Vec::with_capacity(wanted.len());
    if wanted.iter().any(|wanted| wanted.visibility.transaction.is_some()) {
        let mut bytes = 0;
        for wanted in wanted {
            if bytes > bytes_max {
                out.push(None);
                continue;
            }
            let found = fetch(call, wanted).await;
            bytes += found
                .as_ref()
                .map_or(0, |found| found.as_ref().map_or(0, |d| d.source.0.len()));
            out.push(Some(found));
        }
        return Ok(out);
    }
    // The places that each item reads: several where its type is not given.
    let mut looks = Vec::with_capacity(wanted.len());
    let mut reads = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let prepared = async {
            let own = own_routing(call, wanted).await?;
            refresh_first(call, wanted).await?;
            Ok((own, places(call, wanted).await?))
        };
        let prepared: Result<(Option<String>, Vec<Read>)> = prepared.await;
        looks.push(prepared.map(|(own, places)| {
            reads.extend(places.iter().cloned());
            (own, places.len())
        }));
    }
    let mut found = call.rest.engine.read_together(reads, bytes_max).await?.into_iter();
    for (wanted, look) in wanted.iter().zip(looks) {
        let (own, count) = match look {
            Ok(look) => look,
            Err(error) => {
                out.push(Some(Err(error)));
                continue;
            }
        };
        let answers: Vec<_> = found.by_ref().take(count).collect();
        if answers.len() < count {
            out.push(None);
            continue;
        }
        let first = answers
            .into_iter()
            .find(|answer| !matches!(answer, Ok(None)))
            .unwrap_or(Ok(None));
        let checked = async {
            let document = match first.map_err(|error| as_named(call, error))? {
                Some(document) if leads_here(call, own.as_deref(), &document).await => Some(document),
                _ => None,
            };
            crate::actions::locks::check_read(call, &wanted.visibility.locks, &wanted.read.at, document.as_ref()).await?;
            Ok(document)
        };
        out.push(Some(checked.await));
    }
    assert!(
        found.next().is_none(),
        "each place that was read belongs to a document that is wanted"
    );
    Ok(out)
}

/// The newest of a document, where the routing of the request looks for it.
pub(crate) async fn newest(call: &Call, wanted: &ReadOptions) -> Result<Option<Document>> {
    let own = own_routing(call, wanted).await?;
    let Some(document) = newest_anywhere(call, wanted).await? else {
        return Ok(None);
    };
    Ok(leads_here(call, own.as_deref(), &document).await.then_some(document))
}

/// The routing of a request, through the alias that it names.
pub(crate) async fn own_routing(call: &Call, wanted: &ReadOptions) -> Result<Option<String>> {
    let name = wanted.read.at.index.as_str();
    let known = call.rest.index_facts(name).await;
    let alias = known.and_then(|known| known.index_routing.clone());
    through(name, alias.as_deref(), wanted.read.routing.clone())
}

/// Is a document where this routing looks for it?
pub(crate) async fn leads_here(call: &Call, own: Option<&str>, document: &Document) -> bool {
    if own == document.routing.as_deref() {
        return true;
    }
    let among = routed_among(call, &document.at).await;
    lead_together(&document.at.id.id, own, document.routing.as_deref(), among)
}

/// In 2015 a read that sees what is newest anyway refreshed nothing. A transaction reads its moment.
pub(crate) async fn refresh_first(call: &Call, wanted: &ReadOptions) -> Result<()> {
    if wanted.visibility.transaction.is_none()
        && wanted.refresh
        && (wanted.read.searchable_only || !call.dialect.rules.refreshes_searched_reads)
    {
        let target = model::Target::index(wanted.read.at.index.as_str());
        call.rest.engine.refresh(&target, None).await?;
    }
    Ok(())
}

/// Where a document may be: `/i/_all/1` of the typed dialect means whatever type has that id.
pub(crate) async fn places(call: &Call, wanted: &ReadOptions) -> Result<Vec<Read>> {
    let read = &wanted.read;
    if read.at.id.doc_type.as_deref() != Some("_all") {
        return Ok(vec![read.clone()]);
    }
    let types = types_of(call, read.at.index.as_str()).await?;
    let of_type = |doc_type: String| Read {
        at: DocAddress {
            index: read.at.index.clone(),
            id: DocId::with_type(doc_type, read.at.id.id.clone()),
        },
        ..read.clone()
    };
    Ok(types.into_iter().map(of_type).collect())
}

pub(crate) fn as_named(call: &Call, error: Error) -> Error {
    match call.dialect.rules.names_expressions {
        true => es2_errors::as_expression(error),
        false => error,
    }
}

pub(crate) async fn newest_anywhere(call: &Call, wanted: &ReadOptions) -> Result<Option<Document>> {
    refresh_first(call, wanted).await?;
    if wanted.read.at.id.doc_type.as_deref() != Some("_all") {
        let found = wanted.visibility.read(call, wanted.read.clone()).await;
        return found.map_err(|error| as_named(call, error));
    }
    for read in places(call, wanted).await? {
        if let Some(found) = wanted.visibility.read(call, read).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

pub(crate) async fn types_of(call: &Call, index: &str) -> Result<Vec<String>> {
    let infos = call.rest.indices(&model::Target::index(index)).await?;
    Ok(infos
        .iter()
        .filter(|i| i.typed)
        .flat_map(|i| i.mappings.as_object().into_iter().flatten())
        // Other types begin as this one; it has no documents.
        .filter(|(name, _)| *name != "_default_")
        .map(|(name, _)| name.clone())
        .collect())
}

/// A version asked for must be the one there.
pub(crate) async fn check_version(wanted: &ReadOptions, document: &Document, call: &Call) -> Result<()> {
    let holds = match wanted.expect {
        Expect::NewerThan { version, .. } => version == document.stamp.version,
        other => other.check(&document.at, Found::Here(document.stamp)).is_ok(),
    };
    if holds {
        return Ok(());
    }
    let expect = match wanted.expect {
        Expect::NewerThan { version, .. } => Expect::Version(version),
        other => other,
    };
    let conflict = engine::Conflict {
        at: document.at.clone(),
        expect,
        found: Found::Here(document.stamp),
    };
    let error = crate::actions::writes::conflict_error(&conflict, call.dialect);
    if !call.dialect.rules.former_document_answers {
        return Err(error);
    }
    // 2015 told the shard in which it was looked for.
    let shards = match call.rest.index_facts(document.at.index.as_str()).await {
        Some(known) => known.shards,
        None => 1,
    };
    let routing = document.routing.as_deref().unwrap_or(&document.at.id.id);
    Err(error.with("shard", model::routing::shard_of(routing, shards).to_string()))
}

/// The members before the source of a found document.
pub(crate) fn render_head(document: &Document, call: &Call) -> Map<String, Value> {
    let mut text = Vec::new();
    describe(document, call, &mut text);
    text.push(b'}');
    serde_json::from_slice(&text).unwrap_or_default()
}

/// The same as the text of JSON, without the end of the object.
pub(crate) fn describe(document: &Document, call: &Call, out: &mut Vec<u8>) {
    let dialect = call.dialect;
    let name = |out: &mut Vec<u8>, before: &str, text: &str| {
        out.extend_from_slice(before.as_bytes());
        // Memory takes whatever is JSON.
        let _ = serde_json::to_writer(out, text);
    };
    name(out, "{\"_index\":", document.at.index.as_str());
    match &document.at.id.doc_type {
        Some(doc_type) => name(out, ",\"_type\":", doc_type),
        None if dialect.rules.shows_doc_type => name(out, ",\"_type\":", "_doc"),
        None => {}
    }
    name(out, ",\"_id\":", &document.at.id.id);
    let stamp = document.stamp;
    let _ = write!(out, ",\"_version\":{}", stamp.version);
    if !dialect.rules.former_document_answers && !stamp.is_staged() {
        let _ = write!(out, ",\"_seq_no\":{},\"_primary_term\":{}", stamp.seq_no, stamp.primary_term);
    }
    if let Some(routing) = &document.routing {
        name(out, ",\"_routing\":", routing);
    }
    if let Some(parent) = &document.parent {
        name(out, ",\"_parent\":", parent);
    }
    if !document.times.is_none() && dialect.rules.has_document_times {
        let left = document.times.left(call.rest.clock.wall_ms());
        for (name, time) in [("_timestamp", document.times.timestamp), ("_ttl", left)] {
            if let Some(time) = time {
                let _ = write!(out, ",\"{name}\":{time}");
            }
        }
    }
    out.extend_from_slice(b",\"found\":true");
}

/// A found document as `_doc`, `_mget` and `_update`'s `get` show it.
pub(crate) fn render_found(
    document: &Document,
    source: &SourceSpec,
    stored: Option<&[String]>,
    kept: &[String],
    call: &Call,
) -> Result<Map<String, Value>> {
    let mut out = render_head(document, call);
    // Nothing that is stored was read.
    let nothing = stored.is_some_and(|fields| fields.iter().all(String::is_empty));
    if *source == SourceSpec::None && stored.is_none() {
        for name in ["_routing", "_parent"] {
            out.remove(name);
        }
    }
    if *source == SourceSpec::None && stored.is_none() || nothing {
        for name in ["_timestamp", "_ttl"] {
            out.remove(name);
        }
    }
    let wants_source = match (source, stored) {
        (SourceSpec::Default, Some(fields)) => fields.iter().any(|f| f == "_source"),
        (SourceSpec::None, _) => false,
        _ => true,
    };
    let apart = document.stored_fields.as_ref().filter(|_| stored.is_some());
    let apart = apart.map(engine::Source::parse).transpose()?;
    let reads_source = wants_source || stored.is_some() && apart.is_none();
    let value = Some(&document.source).filter(|source| reads_source && !source.0.is_empty());
    let value = value.map(engine::Source::parse).transpose()?;
    if let (Some(_), Some(fields)) = (stored, apart.as_ref().or(value.as_ref())) {
        let found = leaf_fields(fields, kept)?;
        if !found.is_empty() {
            out.insert("fields".into(), Value::Object(found));
        }
    }
    if let (true, Some(value)) = (wants_source, &value) {
        out.insert("_source".into(), filter_source(value, source));
    }
    Ok(out)
}

/// Leaf values of the source by path, as stored fields of 2015 were read from it.
pub(crate) fn leaf_fields(source: &Value, fields: &[String]) -> Result<Map<String, Value>> {
    let mut out = Map::new();
    for field in fields {
        if field.starts_with('_') {
            continue;
        }
        let found = path::read(source, field);
        if found.iter().any(|v| v.is_object()) {
            let error = Error::illegal(format!("field [{field}] isn't a leaf field"));
            return Err(es2_errors::remote(error, "indices:data/read/get[s]"));
        }
        let values: Vec<Value> = found.into_iter().filter(|v| !v.is_null()).cloned().collect();
        if !values.is_empty() {
            out.insert(field.clone(), Value::Array(values));
        }
    }
    Ok(out)
}

/// A source through its filter.
pub(crate) fn filter_source(source: &Value, spec: &SourceSpec) -> Value {
    match spec {
        SourceSpec::Filtered { includes, excludes } => SourceFilter {
            includes: includes.clone(),
            excludes: excludes.clone(),
        }
        .apply(source),
        _ => source.clone(),
    }
}
