//! Latvian: a light stemmer of nouns and adjectives.

use super::tail::{edit_letters, ends, replace};

/// An ending, how many vowels more than these the word must have, and whether a softened consonant becomes hard again.
const ENDINGS: &[(&str, usize, bool)] = &[
    ("ajiem", 3, false),
    ("ajai", 3, false),
    ("ajam", 2, false),
    ("ajām", 2, false),
    ("ajos", 2, false),
    ("ajās", 2, false),
    ("iem", 2, true),
    ("ajā", 2, false),
    ("ais", 2, false),
    ("ai", 2, false),
    ("ei", 2, false),
    ("ām", 1, false),
    ("am", 1, false),
    ("ēm", 1, false),
    ("īm", 1, false),
    ("im", 1, false),
    ("um", 1, false),
    ("us", 1, true),
    ("as", 1, false),
    ("ās", 1, false),
    ("es", 1, false),
    ("os", 1, true),
    ("ij", 1, false),
    ("īs", 1, false),
    ("ēs", 1, false),
    ("is", 1, false),
    ("ie", 1, false),
    ("u", 1, true),
    ("a", 1, true),
    ("i", 1, true),
    ("e", 1, false),
    ("ā", 1, false),
    ("ē", 1, false),
    ("ī", 1, false),
    ("ū", 1, false),
    ("o", 1, false),
    ("s", 0, false),
    ("š", 0, false),
];

/// Softened consonants at the end and the hard ones they come from.
const HARD: &[(&str, &str)] = &[
    ("pj", "p"),
    ("bj", "b"),
    ("mj", "m"),
    ("vj", "v"),
    ("šņ", "sn"),
    ("žņ", "zn"),
    ("šļ", "sl"),
    ("žļ", "zl"),
    ("ļņ", "ln"),
    ("ļļ", "ll"),
    ("č", "c"),
    ("ļ", "l"),
    ("ņ", "n"),
];

/// The light stemmer.
pub(crate) fn latvian(word: &mut String) {
    edit_letters(word, |w| {
        let vowel = |letter: &&char| matches!(**letter, 'a' | 'e' | 'i' | 'o' | 'u' | 'ā' | 'ī' | 'ē' | 'ū');
        let vowels = w.iter().filter(vowel).count();
        let found = ENDINGS
            .iter()
            .find(|(ending, more, _)| vowels > *more && w.len() >= ending.chars().count() + 3 && ends(w, ending));
        let Some((ending, _, hardens)) = found else { return };
        replace(w, ending.chars().count(), "");
        if !hardens {
            return;
        }
        // Genitives of the plural.
        let genitive: &[(&str, &str)] = if ending.starts_with('u') {
            &[("kš", "kst"), ("ņņ", "nn")]
        } else {
            &[]
        };
        if let Some((soft, hard)) = genitive.iter().chain(HARD).find(|(soft, _)| ends(w, soft)) {
            replace(w, soft.chars().count(), hard);
        }
    });
}
