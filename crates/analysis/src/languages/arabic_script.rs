//! Arabic, Persian and Sorani: light stemmers, and the one spelling that Sorani is brought to.
//!
//! Not here: the normalizations of Arabic and Persian (`scripts`).

use super::tail::{begins, drop_first, edit_letters, ends};

/// The light stemmer of Arabic: one prefix, then each of the suffixes that is there.
pub(crate) fn arabic(word: &mut String) {
    const PREFIXES: &[&str] = &["ال", "وال", "بال", "كال", "فال", "لل", "و"];
    const SUFFIXES: &[&str] = &["ها", "ان", "ات", "ون", "ين", "يه", "ية", "ه", "ة", "ي"];
    edit_letters(word, |w| {
        let fits = |prefix: &&&str| {
            let length = prefix.chars().count();
            let left = if length == 1 { 3 } else { 2 };
            w.len() >= length + left && begins(w, prefix)
        };
        if let Some(prefix) = PREFIXES.iter().find(fits) {
            w.drain(..prefix.chars().count());
        }
        each_suffix(w, SUFFIXES);
    });
}

/// The light stemmer of Persian: each of the suffixes that is there.
pub(crate) fn persian(word: &mut String) {
    const SUFFIXES: &[&str] = &["ات", "ان", "ترين", "تر", "يي", "ي", "ها", "\u{200c}"];
    edit_letters(word, |w| each_suffix(w, SUFFIXES));
}

/// Takes each suffix off in turn, as long as two letters are left.
fn each_suffix(w: &mut Vec<char>, suffixes: &[&str]) {
    for suffix in suffixes {
        drop_first(w, &[(2, &[suffix])]);
    }
}

/// One form of each letter of Sorani; vowel marks, tatweel and format characters are left out.
pub(crate) fn normalize_sorani(word: &mut String) {
    const HEH: char = '\u{647}';
    const AE: char = '\u{6d5}';
    let letters: Vec<char> = word.chars().collect();
    let mut out: Vec<char> = Vec::with_capacity(letters.len());
    for (at, letter) in letters.iter().enumerate() {
        let last = at + 1 == letters.len();
        out.push(match *letter {
            '\u{64a}' | '\u{649}' => '\u{6cc}',
            '\u{643}' => '\u{6a9}',
            HEH if last => AE,
            '\u{629}' => AE,
            '\u{6be}' => HEH,
            '\u{631}' if out.is_empty() => '\u{695}',
            '\u{692}' => '\u{695}',
            '\u{200c}' => {
                if let Some(before) = out.last_mut().filter(|before| **before == HEH) {
                    *before = AE;
                }
                continue;
            }
            '\u{640}' | '\u{64b}'..='\u{652}' => continue,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{200b}'..='\u{200f}' => continue,
            '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206f}' | '\u{feff}' => continue,
            letter => letter,
        });
    }
    *word = out.into_iter().collect();
}

/// The light stemmer of Sorani: a postposition, a pronoun, then one ending.
pub(crate) fn sorani(word: &mut String) {
    edit_letters(word, |w| {
        if w.len() > 5 && ends(w, "دا") {
            w.truncate(w.len() - 2);
        } else if w.len() > 4 && ends(w, "نا") {
            w.pop();
        } else if w.len() > 6 && ends(w, "ەوە") {
            w.truncate(w.len() - 3);
        }
        drop_first(w, &[(4, &["مان", "یان", "تان"])]);
        // The word's least length, the ending, and how much of it goes.
        const ENDINGS: &[(usize, &str, usize)] = &[
            (7, "ێکی", 3),
            (8, "یەکی", 4),
            (6, "ێک", 2),
            (7, "یەک", 3),
            (7, "ەکە", 3),
            (6, "کە", 2),
            (8, "ەکان", 4),
            (7, "کان", 3),
            (8, "یانی", 4),
            (7, "انی", 3),
            (7, "یان", 3),
            (6, "ان", 2),
            (8, "یانە", 4),
            (7, "انە", 3),
            (6, "ایە", 2),
            (6, "ەیە", 2),
            (5, "ە", 1),
            (5, "ی", 1),
        ];
        let found = ENDINGS.iter().find(|(least, ending, _)| w.len() >= *least && ends(w, ending));
        if let Some((_, _, cut)) = found {
            w.truncate(w.len() - cut);
        }
    });
}
