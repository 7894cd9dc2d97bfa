//! A search request and its answer, as values.
//!
//! Parsing reads a request's body; parameters of the URL are merged by `rest`.
//! Not here: queries and aggregations, which have modules of their own, and running anything.

mod collapse;
mod inner_hits;
mod phrase;
mod queries;
mod request;
mod rescore;
mod response;
pub mod suggest;

pub use crate::query::Slice;
pub use crate::query::hits::{
    FieldAndFormat, FieldSort, Highlight, HighlightOptions, InnerHits, NestedSort, Page, QueriesMut, Role, ScriptField,
    ScriptSortKind, Sort, SortBy, SourceSpec,
};
pub use collapse::Collapse;
pub use inner_hits::{FreeInnerHits, FreeOf};
pub use phrase::{Collate, Generator, PhraseSuggester, Smoothing};
pub(crate) use request::take_key;
pub use request::{Pit, SearchRequest, TrackTotal};
pub use rescore::Rescore;
pub use response::{Aggregations, Hit, Hits, SearchResponse, ShardFailure, Total};
pub use suggest::{CompletionSuggester, StringDistance, SuggestMode, Suggester, Suggestion, TermSuggester};

/// The stamp a hit shows, if asked for.
pub type ShownStamp = model::Stamp;
