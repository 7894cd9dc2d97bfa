//! An index with neither documents nor mapping takes the dialect of its first typed request.
//!
//! An index made by `PUT /i` without types is untyped, but so far nothing depends on it. When its first mapping or document
//! comes with a type, it becomes a typed index, as if that request had made it.
//!
//! Not here: how the engine turns the mapping (`Alteration::PutMapping`).

use crate::Rest;
use crate::percolator_type;
use engine::{Alteration, IndexInfo, Inspected, Inspection};
use model::{Persona, Result, Target};
use serde_json::{Map, Value, json};

/// Do servers of this persona give an index its type by what comes first, in the dialect of 2015? Elasticsearch 7 and
/// OpenSearch 1 have types in URLs too, but today's mappings under them.
pub(crate) fn applies(persona: Persona) -> bool {
    !matches!(persona, Persona::Es7 | Persona::Opensearch1)
}

/// Has none of these indices a type, a mapping or a document? Writes that were deleted again count as documents.
///
/// # Errors
/// The engine's.
pub(crate) async fn is_open_to_types(rest: &Rest, target: &Target, infos: &[IndexInfo]) -> Result<bool> {
    if infos.is_empty() || infos.iter().any(|info| info.typed || !info.mapping.is_empty()) {
        return Ok(false);
    }
    let Inspected::Stats(stats) = rest.engine.inspect(Inspection::Stats(target.clone())).await? else {
        return Ok(false);
    };
    Ok(stats
        .iter()
        .all(|(_, stats)| stats.max_seq_no.is_none() && stats.lucene_docs == 0))
}

/// Gives an index its first type before a document of that type is written; leaves every other index as it is.
///
/// # Errors
/// The engine's; a type's name that is none.
pub(crate) async fn adopt(rest: &Rest, index: &str, doc_type: &str) -> Result<()> {
    let open = rest.index_facts(index).await.is_some_and(|known| known.open_to_types);
    if !open || doc_type == "_doc" {
        return Ok(());
    }
    let target = Target::index(index);
    let infos = rest.indices(&target).await?;
    if !is_open_to_types(rest, &target, &infos).await? {
        return Ok(());
    }
    let mut mappings = Value::Object(Map::from_iter([(doc_type.to_owned(), json!({}))]));
    percolator_type::complete(&mut mappings);
    let put = Alteration::PutMapping {
        target,
        doc_type: Some(doc_type.to_owned()),
        body: mappings[doc_type].take(),
    };
    rest.alter(put).await.map(|_| ())
}
