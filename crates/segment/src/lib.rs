//! One immutable piece of an index, a segment: where fields lie, what a document becomes, building, merging, reading.
//!
//! Many segments are one [`searchable::IndexView`], and the views of all indices are one [`searchable::Searchable`]. Values
//! here never change once they are published.
//!
//! Not here: queries (`search`), the log, the catalog, when segments are made and published (`embedded`).

pub mod absent_ids;
pub mod build;
pub mod cache;
pub mod cache_figures;
pub mod column_bounds;
pub mod derived;
pub mod directory;
pub mod directory_order;
pub mod doc_bits;
pub mod document;
pub mod error;
pub mod fielddata;
pub mod filter_cache;
pub mod grid;
pub mod hidden_mark;
pub mod id_filter;
pub mod impacts;
pub mod key_columns;
pub mod keyed_rows;
pub mod merge;
pub mod open_columns;
pub mod ordinal_docs;
pub mod ordinals;
pub mod schema;
pub mod scratch;
pub mod searchable;
pub mod segment_view;
pub mod stored;
pub mod stored_document;
pub mod stored_source;
pub mod times;
pub mod tokens;
pub mod tree_columns;
