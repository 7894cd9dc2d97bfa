//! A document as the mapping of its index reads it: accepted with the growth of the mapping, or refused.
//!
//! Not here: whether it may be written (`evaluate`), what growth means for other writes (`commit`).

use crate::catalog::IndexEntry;
use crate::trees::PathsOf;
use engine::{Document, Judge, Source};
use mapping::{Mapping, Parsed, ReadOptions, Times};
use model::{DocAddress, Error, ErrorKind, Result};
use std::sync::Arc;

/// The growth of a mapping: the type of the document, in typed indices, and the fields that it brings.
pub(crate) type Growth = (Option<Arc<str>>, Mapping);

/// A document that the mapping of an index has accepted.
pub(crate) struct Accepted {
    pub(crate) mapping: Mapping,
    /// The document as it was read, if it is to be indexed under the mapping that there is.
    pub(crate) parsed: Option<Parsed>,
    pub(crate) growth: Option<Growth>,
    /// The paths of its directories.
    pub(crate) paths: Vec<PathsOf>,
}

impl Accepted {
    /// Reads a source through the mapping of its type, and finds its routing where its family knows it.
    pub(crate) fn read(
        entry: &IndexEntry,
        at: &DocAddress,
        source: &Source,
        routing: &mut Option<String>,
        times: Times,
        judge: Judge,
        family: &dyn Fn(&DocAddress) -> Result<Option<Document>>,
    ) -> Result<Accepted> {
        let doc_type = at.id.doc_type.clone();
        let mapping = entry.mapping_for(doc_type.as_deref())?;
        let value = mapping.parse_source(&source.0).map_err(|e| {
            Error::new(ErrorKind::MapperParsing, "failed to parse")
                .with_cause(Error::new(ErrorKind::JsonParse, model::text::no_json(&e)))
        })?;
        if routing.is_none() {
            *routing = crate::family_routing::routing_of_family(entry, &mapping, &value, family)?;
        }
        let options = ReadOptions {
            id: &at.id.id,
            type_name: doc_type.as_deref().unwrap_or(""),
            routing: routing.as_deref(),
            times,
            lenient: judge != Judge::Fully,
        };
        let mut parsed = mapping.read(&value, &options)?;
        // A field that another type has is as that type has it: the document must be readable so.
        if let (Some(growth), mapping::Mappings::Typed(types)) = (&parsed.growth, &entry.mappings) {
            let adopted = types.adopt(doc_type.as_deref().unwrap_or("_doc"), growth)?;
            mapping.merge(&adopted)?.read(&value, &options)?;
        }
        let new_type = entry.has_types() && !entry.types().iter().any(|t| Some(t.as_str()) == doc_type.as_deref());
        let grows = parsed.growth.is_some() || new_type;
        let growth = grows.then(|| (doc_type, parsed.growth.take().unwrap_or_else(|| bare_mapping(entry))));
        let paths = PathsOf::of(
            &value,
            [Some(&mapping), growth.as_ref().map(|(_, growth)| growth)]
                .into_iter()
                .flatten(),
        );
        Ok(Accepted {
            paths,
            mapping,
            parsed: (!grows).then_some(parsed),
            growth,
        })
    }
}

/// A mapping of no field.
pub(crate) fn bare_mapping(entry: &IndexEntry) -> Mapping {
    Mapping::empty(&entry.registry, &mapping::settings::limits(&entry.settings))
}
