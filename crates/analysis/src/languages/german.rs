//! German: normalization of umlauts, and Savoy's light and minimal stemmers.

/// `ä`, `ae` become `a` and so on, `ß` becomes `ss`; an `ue` after a vowel or `q` stays.
pub(crate) fn normalize_german(word: &mut String) {
    #[derive(PartialEq)]
    enum Before {
        Other,
        Vowel,
        /// An `e` that follows makes it an umlaut.
        Umlaut,
    }
    let mut before = Before::Other;
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        before = match c {
            'a' | 'o' => {
                out.push(c);
                Before::Umlaut
            }
            'u' => {
                out.push(c);
                if before == Before::Other {
                    Before::Umlaut
                } else {
                    Before::Vowel
                }
            }
            'e' => {
                if before != Before::Umlaut {
                    out.push(c);
                }
                Before::Vowel
            }
            'i' | 'q' | 'y' => {
                out.push(c);
                Before::Vowel
            }
            'ä' | 'ö' | 'ü' => {
                out.push(match c {
                    'ä' => 'a',
                    'ö' => 'o',
                    _ => 'u',
                });
                Before::Vowel
            }
            'ß' => {
                out.push_str("ss");
                Before::Other
            }
            _ => {
                out.push(c);
                Before::Other
            }
        };
    }
    *word = out;
}

fn is_st_ending(c: char) -> bool {
    matches!(c, 'b' | 'd' | 'f' | 'g' | 'h' | 'k' | 'l' | 'm' | 'n' | 't')
}

/// Savoy's light stemmer.
pub(crate) fn light_german(word: &mut String) {
    let w: Vec<char> = word
        .chars()
        .map(|c| match c {
            'ä' | 'à' | 'á' | 'â' => 'a',
            'ö' | 'ò' | 'ó' | 'ô' => 'o',
            'ï' | 'ì' | 'í' | 'î' => 'i',
            'ü' | 'ù' | 'ú' | 'û' => 'u',
            c => c,
        })
        .collect();
    let first = match w.as_slice() {
        [.., 'e', 'r', 'n'] if w.len() > 5 => 3,
        [.., 'e', 'm' | 'n' | 'r' | 's'] if w.len() > 4 => 2,
        [.., 'e'] if w.len() > 3 => 1,
        [.., c, 's'] if w.len() > 3 && is_st_ending(*c) => 1,
        _ => 0,
    };
    let w = &w[..w.len() - first];
    let second = match w {
        [.., 'e', 's', 't'] if w.len() > 5 => 3,
        [.., 'e', 'r' | 'n'] if w.len() > 4 => 2,
        [.., c, 's', 't'] if w.len() > 4 && is_st_ending(*c) => 2,
        _ => 0,
    };
    *word = w[..w.len() - second].iter().collect();
}

/// The stemmer for plurals only.
pub(crate) fn minimal_german(word: &mut String) {
    let w: Vec<char> = word
        .chars()
        .map(|c| match c {
            'ä' => 'a',
            'ö' => 'o',
            'ü' => 'u',
            c => c,
        })
        .collect();
    if w.len() < 5 {
        return;
    }
    let cut = match w.as_slice() {
        [.., 'n', 'e', 'n'] if w.len() > 6 => 3,
        [.., 'e', 'n' | 's' | 'r'] | [.., 's', 'e'] if w.len() > 5 => 2,
        [.., 'n' | 'e' | 's' | 'r'] => 1,
        _ => 0,
    };
    *word = w[..w.len() - cut].iter().collect();
}
