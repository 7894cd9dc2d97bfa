//! Stop words, articles and stemmers of languages.
//!
//! Lucene's own stemmers are written here from their algorithms; those of the Snowball project are the crates
//! `rust-stemmers` and, for languages that came later, `snowball_stemmers_rs`.

mod arabic_script;
mod english;
mod french;
mod german;
mod indic;
mod indonesian;
mod latvian;
mod nordic;
mod porter;
mod romance;
mod scripts;
mod slavic;
mod spanish;
mod stop_words;
mod tail;
mod uralic;

pub(crate) use arabic_script::{arabic, normalize_sorani, persian, sorani};
pub(crate) use english::{minimal_english, possessive_english};
pub(crate) use french::{FRENCH_ARTICLES, light_french, minimal_french};
pub(crate) use german::{german_of_caumanns, light_german, minimal_german, normalize_german};
pub(crate) use indic::{bengali, hindi, normalize_bengali, normalize_hindi, normalize_indic};
pub(crate) use indonesian::indonesian;
pub(crate) use latvian::latvian;
pub(crate) use nordic::{light_norwegian, light_nynorsk, light_swedish, minimal_norwegian, minimal_nynorsk};
pub(crate) use porter::porter;
pub(crate) use romance::{
    CATALAN_ARTICLES, IRISH_ARTICLES, ITALIAN_ARTICLES, brazilian, light_italian, light_portuguese, minimal_portuguese,
};
pub(crate) use scripts::{fold_scandinavian, normalize_arabic, normalize_persian, normalize_scandinavian};
pub(crate) use slavic::{bulgarian, czech, light_russian, normalize_serbian};
pub(crate) use spanish::light_spanish;
pub(crate) use stop_words::{languages, stop_words};
pub(crate) use uralic::{light_finnish, light_hungarian};

#[cfg(test)]
mod tests;
