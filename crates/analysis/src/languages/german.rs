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

/// Letters that stand for two or three while endings are removed; each takes the room of one.
const GROUPS: &[(&str, char)] = &[("sch", '$'), ("ch", '§'), ("ei", '%'), ("ie", '&'), ("ig", '#'), ("st", '!')];

/// The stemmer of Caumanns, in lower case; words with anything but letters are only lowercased.
pub(crate) fn german_of_caumanns(word: &mut String) {
    let lower = word.to_lowercase();
    if !lower.chars().all(char::is_alphabetic) {
        *word = lower;
        return;
    }
    let (mut w, saved) = group_letters(&lower.chars().collect::<Vec<_>>());
    strip(&mut w, saved);
    if w.len() > 5 && w.ends_with(&['e', 'r', 'i', 'n', '*']) {
        w.pop();
        strip(&mut w, saved);
    }
    if let Some(last @ 'z') = w.last_mut() {
        *last = 'x';
    }
    let mut out: Vec<char> = Vec::with_capacity(w.len() + saved);
    for letter in w {
        match (letter, GROUPS.iter().find(|(_, mark)| *mark == letter), out.last().copied()) {
            ('*', _, Some(before)) => out.push(before),
            (_, Some((text, _)), _) => out.extend(text.chars()),
            _ => out.push(letter),
        }
    }
    // `gege` at the beginning of a participle or in it is one `ge`.
    if out.len() > 4
        && let Some(at) = (0..out.len() - 3).find(|at| out[*at..].starts_with(&['g', 'e', 'g', 'e']))
    {
        out.drain(at..at + 2);
    }
    *word = out.into_iter().collect();
}

/// Letters with marks for groups and for the second of a pair, and how many letters that saves.
fn group_letters(letters: &[char]) -> (Vec<char>, usize) {
    let mut left: std::collections::VecDeque<char> = letters.iter().copied().collect();
    let mut out: Vec<char> = Vec::with_capacity(letters.len());
    let mut saved = 0;
    while let Some(letter) = left.pop_front() {
        let mut letter = match letter {
            // The letter before is compared as it was changed.
            letter if out.last() == Some(&letter) => '*',
            'ä' => 'a',
            'ö' => 'o',
            'ü' => 'u',
            'ß' => {
                left.push_front('s');
                saved += 1;
                's'
            }
            letter => letter,
        };
        let found = GROUPS.iter().find(|(text, _)| {
            let mut text = text.chars();
            text.next() == Some(letter) && text.enumerate().all(|(at, next)| left.get(at) == Some(&next))
        });
        if let Some((text, mark)) = found {
            let more = text.chars().count() - 1;
            left.drain(..more);
            saved += more;
            letter = *mark;
        }
        out.push(letter);
    }
    (out, saved)
}

fn strip(w: &mut Vec<char>, saved: usize) {
    while w.len() > 3 {
        let cut = match w.as_slice() {
            [.., 'n', 'd'] if w.len() + saved > 5 => 2,
            [.., 'e', 'm' | 'r'] if w.len() + saved > 4 => 2,
            [.., 'e' | 's' | 'n' | 't'] => 1,
            _ => return,
        };
        w.truncate(w.len() - cut);
    }
}
