//! From a JSON document to typed fields.
//!
//! A [`Mapping`] is an immutable value: read from a mapping body, merged with an update, rendered again.
//! [`Mapping::read`] is pure: a document and a mapping give typed fields, or a refusal in Elasticsearch's
//! words, and, where the mapping is dynamic, the part by which it grows.
//!
//! Not here: how fields are stored or searched (`embedded`), how texts become terms (`analysis`), which
//! index a mapping belongs to (`embedded/catalog`).

mod build;
mod document;
mod dynamic;
mod field;
mod granted;
mod limits;
mod mapping;
mod mappings;
mod merge;
mod names;
mod parameters;
mod parse;
mod read;
mod references;
mod render;
mod root;
pub mod settings;
pub mod similarity;
mod spec;
mod templates;
mod times;
pub mod tree;
mod typed;
pub(crate) mod types;
mod value;
mod wording;

pub use analysis::Registry;
pub use document::{Parsed, ReadOptions};
pub use field::{FieldType, Kind, TreeField};
pub use granted::{granted_body, granted_mappings};
pub use limits::MappingLimits;
pub use mapping::{Dynamic, Mapping, ObjectInfo};
pub use mappings::Mappings;
pub use names::{ALL, TIMESTAMP, TTL};
pub use times::{Life, Moment, Times, Timing};
pub use typed::{TypedMappings, has_type_level};
pub use types::{completion, contexts};
pub use value::{FieldValue, Fields, NestedDoc};
