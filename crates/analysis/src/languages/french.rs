//! French: articles, and Savoy's light and minimal stemmers.

/// Articles that elision drops in French.
pub(crate) const FRENCH_ARTICLES: &[&str] = &[
    "l", "m", "t", "qu", "n", "s", "j", "d", "c", "jusqu", "quoiqu", "lorsqu", "puisqu",
];

fn ends(word: &[char], suffix: &str) -> bool {
    let n = suffix.chars().count();
    n <= word.len() && suffix.chars().eq(word[word.len() - n..].iter().copied())
}

/// Takes `n` letters from the end and overwrites the last ones with `with`.
fn cut(w: &mut Vec<char>, n: usize, with: &str) {
    w.truncate(w.len() - n);
    let at = w.len() - with.chars().count();
    for (slot, c) in w[at..].iter_mut().zip(with.chars()) {
        *slot = c;
    }
}

/// Savoy's light stemmer.
pub(crate) fn light_french(word: &mut String) {
    let mut w: Vec<char> = word.chars().collect();
    strip_suffixes(&mut w);
    plain(&mut w);
    *word = w.into_iter().collect();
}

/// Suffixes that end the search when found: shortest word they apply to, suffix, letters cut, letters overwritten.
const EARLY: &[(usize, &str, usize, &str)] = &[
    (11, "ficatrice", 5, "er"),
    (10, "ficateur", 4, "er"),
    (9, "catrice", 3, "quer"),
    (8, "cateur", 2, "quer"),
    (8, "atrice", 4, "er"),
    (7, "ateur", 3, "er"),
];
const MIDDLE: &[(usize, &str, usize, &str)] = &[
    (5, "ième", 4, ""),
    (7, "teuse", 2, "r"),
    (6, "teur", 1, "r"),
    (5, "euse", 2, ""),
    (8, "ère", 1, "\u{0}"),
    (7, "ive", 1, "f"),
    (4, "folle", 2, "u"),
    (4, "molle", 2, "u"),
    (9, "nnelle", 5, ""),
    (9, "nnel", 3, ""),
];
const LATE: &[(usize, &str, usize, &str)] = &[
    (8, "esse", 3, ""),
    (7, "inage", 3, ""),
    (9, "isation", 7, ""),
    (9, "isateur", 7, ""),
    (8, "ation", 5, ""),
    (8, "ition", 5, ""),
];

/// Whether one of the rules was applied.
fn apply(w: &mut Vec<char>, rules: &[(usize, &str, usize, &str)]) -> bool {
    let Some((_, suffix, n, with)) = rules.iter().find(|(longer, suffix, ..)| w.len() > *longer && ends(w, suffix)) else {
        return false;
    };
    if *suffix == "ère" {
        cut(w, 1, "");
        let at = w.len() - 2;
        w[at] = 'e';
        return true;
    }
    cut(w, *n, with);
    if *suffix == "isation" && w.len() > 5 && ends(w, "ual") {
        let at = w.len() - 2;
        w[at] = 'e';
    }
    true
}

fn strip_suffixes(w: &mut Vec<char>) {
    if w.len() > 5 && ends(w, "x") {
        let n = w.len();
        if w[n - 3] == 'a' && w[n - 2] == 'u' && w[n - 4] != 'e' {
            w[n - 2] = 'l';
        }
        w.pop();
    }
    if w.len() > 3 && ends(w, "x") {
        w.pop();
    }
    if w.len() > 3 && ends(w, "s") {
        w.pop();
    }
    if w.len() > 9 && ends(w, "issement") {
        return cut(w, 6, "r");
    }
    if w.len() > 8 && ends(w, "issant") {
        return cut(w, 4, "r");
    }
    if w.len() > 6 && ends(w, "ement") {
        cut(w, 4, "");
        if w.len() > 3 && ends(w, "ive") {
            cut(w, 1, "f");
        }
        return;
    }
    if apply(w, EARLY) {
        return;
    }
    if w.len() > 6 && ends(w, "trice") {
        cut(w, 1, "eur");
    }
    if apply(w, MIDDLE) {
        return;
    }
    if w.len() > 4 && ends(w, "ète") {
        w.pop();
        let at = w.len() - 2;
        w[at] = 'e';
    }
    if w.len() > 8 && ends(w, "ique") {
        cut(w, 4, "");
    }
    apply(w, LATE);
}

/// Accents, doubled letters and the last vowels go.
fn plain(w: &mut Vec<char>) {
    if w.len() > 4 {
        for c in w.iter_mut() {
            *c = match *c {
                'à' | 'á' | 'â' => 'a',
                'ô' => 'o',
                'è' | 'é' | 'ê' => 'e',
                'ù' | 'û' => 'u',
                'î' => 'i',
                'ç' => 'c',
                c => c,
            };
        }
        w.dedup_by(|a, b| a == b && a.is_alphabetic());
    }
    if w.len() > 4 && ends(w, "ie") {
        cut(w, 2, "");
    }
    if w.len() > 4 {
        for ending in ["r", "e", "e"] {
            if ends(w, ending) {
                w.pop();
            }
        }
        if let [.., a, b] = w.as_slice()
            && a == b
            && a.is_alphabetic()
        {
            w.pop();
        }
    }
}

/// Savoy's minimal stemmer.
pub(crate) fn minimal_french(word: &mut String) {
    let mut w: Vec<char> = word.chars().collect();
    if w.len() < 6 {
        return;
    }
    if ends(&w, "x") {
        let n = w.len();
        if w[n - 3] == 'a' && w[n - 2] == 'u' {
            w[n - 2] = 'l';
        }
        w.pop();
    } else {
        for ending in ["s", "r", "e", "é"] {
            if ends(&w, ending) {
                w.pop();
            }
        }
        if let [.., a, b] = w.as_slice()
            && a == b
            && a.is_alphabetic()
        {
            w.pop();
        }
    }
    *word = w.into_iter().collect();
}
