//! Text analysis: from a text to the terms that are indexed and searched.
//!
//! An [`Analyzer`] is a chain: character filters, one tokenizer, token filters. A [`Registry`] holds the
//! analyzers of one index, the built-in ones and those its `analysis` settings define, under Elasticsearch's
//! names. What a part is called and which options it takes is known in `registry/` and nowhere else; the
//! parts themselves take typed arguments.
//!
//! Not here: the `_analyze` request, fields and mappings, the index that stores the terms.

mod analyzer;
mod char_filters;
mod characters;
mod filters;
mod java_regex;
mod languages;
mod named;
mod options;
mod registry;
mod room;
#[cfg(test)]
mod tests;
mod token;
mod tokenizers;
pub mod utf16;
mod word_break;

pub use analyzer::{Analyzer, CharFilterStage, Explanation, TokenStage};
pub use filters::Shingles;
pub use registry::{AnalyzeParts, Limits, Registry};
pub use token::{Token, TokenKind};
