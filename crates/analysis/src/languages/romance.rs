//! Italian and Portuguese: articles, and Savoy's light stemmers.
//!
//! Not here: French, Spanish and the Portuguese of Brazil.

use super::tail::{bare, drop_first, edit_letters, ends, replace};

/// Articles that elision drops in Italian.
pub(crate) const ITALIAN_ARTICLES: &[&str] = &[
    "c", "l", "all", "dall", "dell", "nell", "sull", "coll", "pell", "gl", "agl", "dagl", "degl", "negl", "sugl", "un", "m", "t",
    "s", "v", "d",
];
/// Articles that elision drops in Catalan.
pub(crate) const CATALAN_ARTICLES: &[&str] = &["d", "l", "m", "n", "s", "t"];
/// Prefixes that elision drops in Irish.
pub(crate) const IRISH_ARTICLES: &[&str] = &["d", "m", "b"];

/// Savoy's light stemmer of Italian.
pub(crate) fn light_italian(word: &mut String) {
    edit_letters(word, |w| {
        if w.len() < 6 {
            return;
        }
        w.iter_mut().for_each(|letter| *letter = bare(*letter));
        let cut = match w.as_slice() {
            [.., 'i' | 'h', 'e' | 'i'] | [.., 'i', 'a' | 'o'] => 2,
            [.., 'e' | 'i' | 'a' | 'o'] => 1,
            _ => 0,
        };
        w.truncate(w.len() - cut);
    });
}

/// Savoy's light stemmer of Portuguese.
pub(crate) fn light_portuguese(word: &mut String) {
    edit_letters(word, |w| {
        if w.len() < 4 {
            return;
        }
        singular(w);
        if w.len() > 3 && w.ends_with(&['a']) {
            masculine(w);
        }
        if w.len() > 4 && matches!(w.last(), Some('e' | 'a' | 'o')) {
            w.pop();
        }
        for letter in w.iter_mut() {
            *letter = match *letter {
                'ã' => 'a',
                'õ' => 'o',
                'ç' => 'c',
                letter => bare(letter),
            };
        }
    });
}

/// The stemmer of Portuguese for plurals only: the first step of Orengo and Huyck's.
pub(crate) fn minimal_portuguese(word: &mut String) {
    /// The ending, how many letters are left before it, what stands in its place, and words that keep it.
    const STEPS: &[(&str, usize, &str, &[&str])] = &[
        ("ns", 1, "m", &[]),
        ("ões", 3, "ão", &[]),
        ("ães", 1, "ão", &["mãe"]),
        ("ais", 1, "al", &["cais", "mais"]),
        ("éis", 2, "el", &[]),
        ("eis", 2, "el", &[]),
        ("óis", 2, "ol", &[]),
        (
            "is",
            2,
            "il",
            &[
                "lápis",
                "cais",
                "mais",
                "crúcis",
                "biquínis",
                "pois",
                "depois",
                "dois",
                "leis",
            ],
        ),
        ("les", 3, "l", &[]),
        ("res", 3, "r", &["árvores"]),
        (
            "s",
            2,
            "",
            &[
                "aliás", "pires", "lápis", "cais", "mais", "mas", "menos", "férias", "fezes", "pêsames", "crúcis", "gás",
                "atrás", "moisés", "através", "convés", "ês", "país", "após", "ambas", "ambos", "messias", "depois",
            ],
        ),
    ];
    if word.chars().count() < 3 || !word.ends_with('s') {
        return;
    }
    let kept = word.clone();
    edit_letters(word, |w| {
        let found = STEPS.iter().find(|(ending, left, _, exceptions)| {
            w.len() >= ending.chars().count() + left && ends(w, ending) && !exceptions.contains(&kept.as_str())
        });
        if let Some((ending, _, with, _)) = found {
            replace(w, ending.chars().count(), with);
        }
    });
}

/// Endings of plurals and of adverbs: the shortest word they apply to, the ending, what stands in its place.
const PLURALS: &[(usize, &str, &str)] = &[
    (4, "ns", "m"),
    (5, "eis", "el"),
    (5, "éis", "el"),
    (5, "ais", "al"),
    (5, "óis", "ol"),
    (5, "is", "il"),
    (4, "ões", "ão"),
    (4, "ães", "ão"),
    (7, "mente", ""),
    (4, "s", ""),
];

fn singular(w: &mut Vec<char>) {
    if w.len() > 4 && ["res", "ses", "les", "zes"].iter().any(|ending| ends(w, ending)) {
        w.truncate(w.len() - 2);
        return;
    }
    let found = PLURALS.iter().find(|(least, ending, _)| w.len() >= *least && ends(w, ending));
    if let Some((_, ending, with)) = found {
        replace(w, ending.chars().count(), with);
    }
}

/// The same of feminine forms.
const FEMININES: &[(usize, &str, &str)] = &[
    (8, "inha", "inho"),
    (8, "iaca", "iaco"),
    (8, "eira", "eiro"),
    (7, "osa", "oso"),
    (7, "ica", "ico"),
    (7, "ida", "ido"),
    (7, "ada", "ado"),
    (7, "iva", "ivo"),
    (7, "ama", "amo"),
    (7, "ona", "ão"),
    (7, "ora", "or"),
    (7, "esa", "ês"),
    (7, "na", "no"),
];

fn masculine(w: &mut Vec<char>) {
    let found = FEMININES
        .iter()
        .find(|(least, ending, _)| w.len() >= *least && ends(w, ending));
    if let Some((_, ending, with)) = found {
        replace(w, ending.chars().count(), with);
    }
}

/// The stemmer of Brazilian Portuguese, after the regions that Snowball's stemmers of Romance languages look at.
/// Words of fewer than 3 letters and of more than 29 stay as they are.
pub(crate) fn brazilian(word: &mut String) {
    let mut w: Vec<char> = word.to_lowercase().chars().collect();
    for letter in &mut w {
        *letter = match *letter {
            'á' | 'â' | 'ã' => 'a',
            'é' | 'ê' => 'e',
            'í' => 'i',
            'ó' | 'ô' | 'õ' => 'o',
            'ú' | 'ü' => 'u',
            'ç' => 'c',
            'ñ' => 'n',
            letter => letter,
        };
    }
    let mark = |letter: &char| matches!(letter, '"' | '\'' | '-' | ',' | ';' | '.' | '?' | '!');
    if w.len() > 1 && w.first().is_some_and(mark) {
        w.remove(0);
    }
    if w.len() > 1 && w.last().is_some_and(mark) {
        w.pop();
    }
    if w.len() < 3 || w.len() > 29 {
        return;
    }
    if w.iter().all(|letter| letter.is_alphabetic()) {
        let r1 = region(&w, 0);
        let r2 = r1.and_then(|at| region(&w, at));
        let rv = verbs_region(&w);
        brazilian_steps(&mut w, r1, r2, rv);
    }
    *word = w.into_iter().collect();
}

fn vowel(letter: char) -> bool {
    matches!(letter, 'a' | 'e' | 'i' | 'o' | 'u')
}

/// Where the region after the first consonant that follows a vowel begins. The last letter of a word begins none.
fn region(w: &[char], from: usize) -> Option<usize> {
    let last = w.len().checked_sub(1)?;
    let first = (from..last).find(|at| vowel(w[*at]))?;
    let consonant = (first..last).find(|at| !vowel(w[*at]))?;
    Some(consonant + 1)
}

/// Where the region of endings of verbs begins.
fn verbs_region(w: &[char]) -> Option<usize> {
    let last = w.len() - 1;
    if !vowel(w[1])
        && let Some(at) = (2..last).find(|at| vowel(w[*at]))
    {
        return Some(at + 1);
    }
    if vowel(w[0])
        && vowel(w[1])
        && let Some(at) = (2..last).find(|at| !vowel(w[*at]))
    {
        return Some(at + 1);
    }
    (last > 2).then_some(3)
}

/// Endings of nouns and adjectives, in the order they are looked for: the ending, what stands in its place.
const NOUNS: &[(&str, &str)] = &[
    ("uciones", "u"),
    ("imentos", ""),
    ("amentos", ""),
    ("adores", ""),
    ("adoras", ""),
    ("logias", "logias"),
    ("encias", "ente"),
    ("amente", ""),
    ("idades", ""),
    ("acoes", ""),
    ("imento", ""),
    ("amento", ""),
    ("adora", ""),
    ("ismos", ""),
    ("istas", ""),
    ("logia", "log"),
    ("ucion", "u"),
    ("encia", "ente"),
    ("mente", ""),
    ("idade", ""),
    ("acao", ""),
    ("ezas", ""),
    ("icos", ""),
    ("icas", ""),
    ("ismo", ""),
    ("avel", ""),
    ("ivel", ""),
    ("ista", ""),
    ("osos", ""),
    ("osas", ""),
    ("ador", ""),
    ("ivas", ""),
    ("ivos", ""),
    ("iras", "ir"),
    ("eza", ""),
    ("ico", ""),
    ("ica", ""),
    ("oso", ""),
    ("osa", ""),
    ("iva", ""),
    ("ivo", ""),
    ("ira", "ir"),
];

/// Endings of verbs, longest first.
const VERBS: &[(usize, &[&str])] = &[
    (0, &["issemos", "essemos", "assemos", "ariamos", "eriamos", "iriamos"]),
    (
        0,
        &[
            "iremos", "eremos", "aremos", "avamos", "iramos", "eramos", "aramos", "asseis", "esseis", "isseis", "arieis",
            "erieis", "irieis",
        ],
    ),
    (
        0,
        &[
            "irmos", "iamos", "armos", "ermos", "areis", "ereis", "ireis", "asses", "esses", "isses", "astes", "assem", "essem",
            "issem", "ardes", "erdes", "irdes", "ariam", "eriam", "iriam", "arias", "erias", "irias", "estes", "istes", "aveis",
        ],
    ),
    (
        0,
        &[
            "aria", "eria", "iria", "asse", "esse", "isse", "aste", "este", "iste", "arei", "erei", "irei", "aram", "eram",
            "iram", "avam", "arem", "erem", "irem", "ando", "endo", "indo", "arao", "erao", "irao", "adas", "idas", "aras",
            "eras", "iras", "avas", "ares", "eres", "ires", "ados", "idos", "amos", "emos", "imos", "ieis",
        ],
    ),
    (
        0,
        &[
            "ada", "ida", "ara", "era", "ira", "iam", "ado", "ido", "ias", "ais", "eis", "ear",
        ],
    ),
    (
        0,
        &["ia", "ei", "am", "em", "ar", "er", "ir", "as", "es", "is", "eu", "iu", "ou"],
    ),
];

fn brazilian_steps(w: &mut Vec<char>, r1: Option<usize>, r2: Option<usize>, rv: Option<usize>) {
    // The regions are those of the whole word: endings are looked for in them as they were.
    let whole = w.clone();
    let within = |at: Option<usize>, ending: &str| at.is_some_and(|at| ends(&whole[at.min(whole.len())..], ending));
    let noun = NOUNS.iter().find(|(ending, _)| match *ending {
        "amente" => within(r1, ending),
        "iras" | "ira" => {
            let before = whole.len().checked_sub(ending.len() + 1).map(|at| whole[at]);
            within(rv, ending) && before == Some('e')
        }
        _ => within(r2, ending),
    });
    let altered = match noun {
        Some((ending, with)) => {
            replace(w, ending.len(), with);
            true
        }
        None => {
            let verb = VERBS.iter().flat_map(|(_, list)| *list).find(|ending| within(rv, ending));
            match verb {
                // The ending is found, and another is taken off: so it stays.
                Some(&"ira") => true,
                Some(ending) => drop_first(w, &[(0, &[ending])]),
                None => false,
            }
        }
    };
    if altered {
        if within(rv, "ci") {
            drop_first(w, &[(0, &["i"])]);
        }
    } else if let Some(ending) = ["os", "a", "i", "o"].iter().find(|ending| within(rv, ending)) {
        drop_first(w, &[(0, &[ending])]);
    }
    if within(rv, "e") {
        drop_first(w, &[(0, &["e"])]);
        if within(rv, "gue") {
            drop_first(w, &[(0, &["u"])]);
        } else if within(rv, "cie") {
            drop_first(w, &[(0, &["i"])]);
        }
    }
}
