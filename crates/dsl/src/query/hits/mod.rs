//! A page of hits: which of them, in which order, and what each carries. Clauses have such pages as their inner hits, and
//! sort keys and highlights have queries of their own, so both stand in one module.

mod fields;
mod highlight;
mod inner_hits;
mod page;
mod queries;
mod sort;
mod source;

pub use fields::{FieldAndFormat, ScriptField};
pub(crate) use fields::{ScriptSiblings, parse_script_fields};
pub use highlight::{Highlight, HighlightOptions};
pub use inner_hits::InnerHits;
pub(crate) use inner_hits::{KEYS as INNER_HITS_KEYS, SIZE as INNER_HITS_SIZE};
pub use page::Page;
pub(crate) use page::{check_bounds, parse_flag};
pub use queries::{QueriesMut, Role, Visitor};
pub(crate) use queries::{in_highlight, in_sort};
pub use sort::{FieldSort, NestedSort, ScriptSortKind, Sort, SortBy};
pub use source::SourceSpec;
