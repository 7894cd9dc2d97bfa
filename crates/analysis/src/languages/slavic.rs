//! Bulgarian and Czech: the light stemmers of Savoy and of Dolamic.

use super::tail::{drop_first, edit_letters, ending, ends, replace};

/// Savoy's light stemmer of Bulgarian: articles, plurals, and endings of nouns.
pub(crate) fn bulgarian(word: &mut String) {
    edit_letters(word, |w| {
        if w.len() < 4 {
            return;
        }
        if w.len() > 5 && ends(w, "ища") {
            w.truncate(w.len() - 3);
            return;
        }
        drop_first(w, &[(4, &["ият"]), (4, &["ът", "то", "те", "та", "ия"]), (3, &["ят"])]);
        bulgarian_plural(w);
        if w.len() > 3 {
            if ends(w, "я") {
                w.pop();
            }
            if matches!(w.last(), Some('а' | 'о' | 'е')) {
                w.pop();
            }
        }
        if w.len() > 4 && ends(w, "ен") {
            replace(w, 2, "н");
        }
        if w.len() > 5 && w[w.len() - 2] == 'ъ' {
            w.remove(w.len() - 2);
        }
    });
}

/// Endings of plurals: the shortest word they apply to, the ending, what stands in its place.
const BULGARIAN_PLURALS: &[(usize, &str, &str)] = &[
    (7, "овци", "о"),
    (7, "ове", ""),
    (7, "еве", "й"),
    (6, "ища", ""),
    (6, "та", ""),
    (6, "ци", "к"),
    (6, "зи", "г"),
];

fn bulgarian_plural(w: &mut Vec<char>) {
    let rule = BULGARIAN_PLURALS
        .iter()
        .find(|(least, ending, _)| w.len() >= *least && ends(w, ending));
    if let Some((_, ending, with)) = rule {
        replace(w, ending.chars().count(), with);
        return;
    }
    let n = w.len();
    if n > 5 && w[n - 3] == 'е' && w[n - 1] == 'и' {
        w[n - 3] = 'я';
        w.pop();
    } else if n > 4 && ends(w, "си") {
        replace(w, 2, "х");
    } else if n > 4 && ends(w, "и") {
        w.pop();
    }
}

/// The light stemmer of Czech: cases, possessives, and what they do to the last consonant.
pub(crate) fn czech(word: &mut String) {
    edit_letters(word, |w| {
        czech_case(w);
        if w.len() > 5 && ending(w, &["ov", "in", "ův"], 0).is_some() {
            w.truncate(w.len() - 2);
        }
        czech_consonants(w);
    });
}

fn czech_case(w: &mut Vec<char>) {
    let lists: &[(usize, &[&str])] = &[
        (3, &["atech"]),
        (3, &["ětem", "etem", "atům"]),
        (
            3,
            &[
                "ech", "ich", "ích", "ého", "ěmi", "emi", "ému", "ěte", "ete", "ěti", "eti", "ího", "iho", "ími", "ímu", "imu",
                "ách", "ata", "aty", "ých", "ama", "ami", "ové", "ovi", "ými",
            ],
        ),
        (3, &["em", "es", "ém", "ím", "ům", "at", "ám", "os", "us", "ým", "mi", "ou"]),
        (3, &["a", "e", "i", "o", "u", "ů", "y", "á", "é", "í", "ý", "ě"]),
    ];
    drop_first(w, lists);
}

fn czech_consonants(w: &mut Vec<char>) {
    let n = w.len();
    match w.as_mut_slice() {
        [] => {}
        [.., first @ 'č', last @ 't'] => (*first, *last) = ('c', 'k'),
        [.., first @ 'š', last @ 't'] => (*first, *last) = ('s', 'k'),
        [.., last @ ('c' | 'č')] => *last = 'k',
        [.., last @ ('z' | 'ž')] => *last = 'h',
        [.., 'e', _] => drop(w.remove(n - 2)),
        [.., vowel @ 'ů', _] if n > 2 => *vowel = 'o',
        _ => {}
    }
}

/// Savoy's light stemmer of Russian: endings of cases, then a soft sign, a vowel or a doubled letter.
pub(crate) fn light_russian(word: &mut String) {
    const CASES: &[(usize, &[&str])] = &[
        (7, &["иями", "оями"]),
        (
            6,
            &[
                "иям", "иях", "оях", "ями", "оям", "оьв", "ами", "его", "ему", "ери", "ими", "ого", "ому", "ыми", "оев",
            ],
        ),
        (
            5,
            &[
                "ая", "яя", "ях", "юю", "ах", "ею", "их", "ия", "ию", "ьв", "ою", "ую", "ям", "ых", "ея", "ам", "ем", "ей", "ём",
                "ев", "ий", "им", "ое", "ой", "ом", "ов", "ые", "ый", "ым", "ми",
            ],
        ),
        (4, &["а", "е", "и", "о", "у", "й", "ы", "я", "ь"]),
    ];
    edit_letters(word, |w| {
        let list = CASES
            .iter()
            .find(|(least, endings)| w.len() >= *least && endings.iter().any(|ending| ends(w, ending)));
        if let Some((_, endings)) = list {
            drop_first(w, &[(0, endings)]);
        }
        let more = match w.as_slice() {
            [.., 'ь' | 'и'] | [.., 'н', 'н'] => w.len() > 3,
            _ => false,
        };
        if more {
            w.pop();
        }
    });
}

/// Serbian of either alphabet as Latin letters without marks.
pub(crate) fn normalize_serbian(word: &mut String) {
    let plain = |letter: char| {
        Some(match letter {
            'а' => "a",
            'б' => "b",
            'в' => "v",
            'г' => "g",
            'д' => "d",
            'ђ' | 'đ' => "dj",
            'е' => "e",
            'ж' | 'ž' | 'з' => "z",
            'и' => "i",
            'ј' => "j",
            'к' => "k",
            'л' => "l",
            'љ' => "lj",
            'м' => "m",
            'н' => "n",
            'њ' => "nj",
            'о' => "o",
            'п' => "p",
            'р' => "r",
            'с' | 'ш' | 'š' => "s",
            'т' => "t",
            'ћ' | 'ć' | 'ц' | 'ч' | 'č' => "c",
            'у' => "u",
            'ф' => "f",
            'х' => "h",
            'џ' => "dz",
            _ => return None,
        })
    };
    let mut out = String::with_capacity(word.len());
    for letter in word.chars() {
        match plain(letter) {
            Some(text) => out.push_str(text),
            None => out.push(letter),
        }
    }
    *word = out;
}
