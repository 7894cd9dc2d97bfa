//! Compiled clauses: for each segment a scorer, which walks the matching documents in ascending order and scores them.
//!
//! `node` has the trait of a compiled clause. One file a clause or a way of combining scorers. Not here: from clauses to
//! nodes (`clauses`).

pub(crate) mod block_max;
pub(crate) mod bool;
pub(crate) mod boosting;
pub(crate) mod column_range;
pub(crate) mod conjunction;
pub(crate) mod constant;
pub(crate) mod constant_score;
pub(crate) mod coord;
pub(crate) mod dis_max;
pub(crate) mod disjunction;
pub(crate) mod distance_feature;
pub(crate) mod exclusion;
pub mod explain;
pub(crate) mod family_walk;
pub(crate) mod fill;
pub(crate) mod filter;
pub(crate) mod function_score;
pub(crate) mod geo;
pub(crate) mod interval_script;
pub(crate) mod kept_filter;
pub(crate) mod key_set;
pub(crate) mod keyed_docs;
pub mod live_docs;
pub(crate) mod lucene_string;
pub(crate) mod match_all;
pub(crate) mod nested;
pub(crate) mod node;
pub(crate) mod optional;
pub(crate) mod overlap;
pub mod parent_child;
pub(crate) mod parent_child_ordinals;
pub(crate) mod phrase;
pub(crate) mod place_blocks;
pub(crate) mod places_in_area;
pub mod planned;
pub(crate) mod positional;
pub(crate) mod positions;
pub(crate) mod profile;
pub(crate) mod prune;
pub(crate) mod query_norm;
pub(crate) mod range_ends;
pub(crate) mod relatives;
pub(crate) mod rescored;
pub(crate) mod script_score;
pub(crate) mod similarity;
pub(crate) mod small_disjunction;
pub(crate) mod split_families;
pub(crate) mod statistics;
pub(crate) mod sum_bound;
pub(crate) mod synonym;
pub(crate) mod term;
pub(crate) mod term_set;
pub(crate) mod terms_set;
#[cfg(test)]
mod tests;
pub(crate) mod tfidf;
pub(crate) mod windowed_union;
