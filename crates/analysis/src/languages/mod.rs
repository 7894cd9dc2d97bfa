//! What is particular to languages: stop words, articles, stemmers.
//!
//! Lucene's own stemmers are written here from their algorithms; those of the Snowball project are the
//! crate `rust-stemmers`.

mod english;
mod french;
mod german;
mod porter;
mod scripts;
mod spanish;
mod stop_words;

pub(crate) use english::{minimal_english, possessive_english};
pub(crate) use french::{FRENCH_ARTICLES, light_french, minimal_french};
pub(crate) use german::{light_german, minimal_german, normalize_german};
pub(crate) use porter::porter;
pub(crate) use scripts::{fold_scandinavian, normalize_arabic, normalize_persian, normalize_scandinavian};
pub(crate) use spanish::light_spanish;
pub(crate) use stop_words::{languages, stop_words};
