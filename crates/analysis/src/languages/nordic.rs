//! Norwegian and Swedish: the light and minimal stemmers for endings of nouns and adjectives.

use super::tail::{edit_letters, ends};

/// Which written forms of Norwegian are meant: `bokmål`, `nynorsk`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Bokmal,
    Nynorsk,
}

/// Endings with the least length of a word that has them, and the form of Norwegian they belong to; none: to both.
type Endings = &'static [(usize, &'static str, Option<Form>)];

const B: Option<Form> = Some(Form::Bokmal);
const N: Option<Form> = Some(Form::Nynorsk);

const NORWEGIAN: Endings = &[
    (8, "heter", B),
    (8, "heten", B),
    (8, "heita", N),
    (9, "heiter", N),
    (9, "leiken", N),
    (9, "leikar", N),
    (6, "dom", None),
    (6, "het", B),
    (7, "heit", N),
    (7, "semd", N),
    (7, "leik", N),
    (8, "elser", None),
    (8, "elsen", None),
    (7, "ende", B),
    (7, "ande", N),
    (7, "else", None),
    (7, "este", B),
    (7, "aste", N),
    (7, "eren", B),
    (7, "aren", N),
    (6, "ere", B),
    (6, "are", N),
    (6, "est", B),
    (6, "ast", N),
    (6, "ene", None),
    (6, "ane", N),
    (5, "er", None),
    (5, "en", None),
    (5, "et", None),
    (5, "ar", N),
    (5, "st", B),
    (5, "te", None),
    (4, "a", None),
    (4, "e", None),
    (4, "n", None),
];

const NORWEGIAN_MINIMAL: Endings = &[
    (6, "ene", None),
    (6, "ane", N),
    (5, "er", None),
    (5, "en", None),
    (5, "et", None),
    (5, "ar", N),
    (4, "a", None),
    (4, "e", None),
];

const SWEDISH: Endings = &[
    (8, "elser", None),
    (8, "heten", None),
    (7, "arne", None),
    (7, "erna", None),
    (7, "ande", None),
    (7, "else", None),
    (7, "aste", None),
    (7, "orna", None),
    (7, "aren", None),
    (6, "are", None),
    (6, "ast", None),
    (6, "het", None),
    (5, "ar", None),
    (5, "er", None),
    (5, "or", None),
    (5, "en", None),
    (5, "at", None),
    (5, "te", None),
    (5, "et", None),
    (4, "t", None),
    (4, "a", None),
    (4, "e", None),
    (4, "n", None),
];

/// Takes the genitive's `s` off, then the first ending that the word has.
fn stem(word: &mut String, endings: Endings, form: Form) {
    edit_letters(word, |w| {
        if w.len() > 4 && w.last() == Some(&'s') {
            w.pop();
        }
        let found = endings
            .iter()
            .find(|(least, ending, of)| w.len() >= *least && of.is_none_or(|of| of == form) && ends(w, ending));
        if let Some((_, ending, _)) = found {
            w.truncate(w.len() - ending.chars().count());
        }
    });
}

/// The light stemmer of bokmål.
pub(crate) fn light_norwegian(word: &mut String) {
    stem(word, NORWEGIAN, Form::Bokmal);
}

/// The light stemmer of nynorsk.
pub(crate) fn light_nynorsk(word: &mut String) {
    stem(word, NORWEGIAN, Form::Nynorsk);
}

/// The stemmer for plurals and articles of bokmål.
pub(crate) fn minimal_norwegian(word: &mut String) {
    stem(word, NORWEGIAN_MINIMAL, Form::Bokmal);
}

/// The stemmer for plurals and articles of nynorsk.
pub(crate) fn minimal_nynorsk(word: &mut String) {
    stem(word, NORWEGIAN_MINIMAL, Form::Nynorsk);
}

/// Savoy's light stemmer of Swedish.
pub(crate) fn light_swedish(word: &mut String) {
    stem(word, SWEDISH, Form::Bokmal);
}
