//! A search request and its answer, as values.
//!
//! Parsing reads a request's body; parameters of the URL are merged by `rest`.
//! Not here: queries and aggregations, which have modules of their own, and running anything.

mod collapse;
mod fields;
mod highlight;
mod inner_hits;
mod phrase;
mod queries;
mod request;
mod rescore;
mod response;
pub(crate) mod shape;
mod sort;
mod source;
pub mod suggest;

pub use collapse::Collapse;
pub use fields::FieldAndFormat;
pub use fields::ScriptField;
pub(crate) use fields::{ScriptSiblings, parse_script_fields};
pub use highlight::{Highlight, HighlightOptions};
pub use inner_hits::{FreeInnerHits, FreeOf, InnerHits};
pub use phrase::{Collate, Generator, PhraseSuggester, Smoothing};
pub use queries::Role;
pub(crate) use request::take_key;
pub use request::{Pit, SearchRequest, Slice, TrackTotal};
pub use rescore::Rescore;
pub use response::{Aggregations, Hit, Hits, SearchResponse, ShardFailure, Total};
pub use sort::{FieldSort, NestedSort, ScriptSortKind, Sort, SortBy};
pub use source::SourceSpec;
pub use suggest::{CompletionSuggester, StringDistance, SuggestMode, Suggester, Suggestion, TermSuggester};

/// The stamp a hit shows, if asked for.
pub type ShownStamp = model::Stamp;
