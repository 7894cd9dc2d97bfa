//! Finnish and Hungarian: Savoy's light stemmers.

use super::tail::{edit_letters, ends, replace};

/// Takes the first of some endings off.
fn cut(w: &mut Vec<char>, endings: &[&str]) -> bool {
    let found = endings.iter().find(|ending| ends(w, ending));
    if let Some(ending) = found {
        w.truncate(w.len() - ending.chars().count());
    }
    found.is_some()
}

fn finnish_vowel(letter: char) -> bool {
    matches!(letter, 'a' | 'e' | 'i' | 'o' | 'u' | 'y')
}

/// Savoy's light stemmer of Finnish: words of fewer than 4 letters stay.
pub(crate) fn light_finnish(word: &mut String) {
    edit_letters(word, |w| {
        if w.len() < 4 {
            return;
        }
        for letter in w.iter_mut() {
            *letter = match *letter {
                'ä' | 'å' => 'a',
                'ö' => 'o',
                letter => letter,
            };
        }
        particles(w);
        if w.len() > 5 && !cut(w, &["lla", "tse", "sti", "ni"]) && ends(w, "aa") {
            w.pop();
        }
        finnish_case(w);
        finnish_end(w);
        if w.len() > 8 && matches!(w.last(), Some('e' | 'o' | 'u')) {
            w.pop();
        }
        if w.len() > 4 && w.last() == Some(&'i') {
            w.pop();
        }
        if w.len() > 4 {
            // `kk`, `pp` and `tt` lose one letter.
            w.dedup_by(|next, before| next == before && matches!(next, 'k' | 'p' | 't'));
        }
    });
}

/// `-kin`, `-ko`, as often as they stand there, and two endings of adjectives.
fn particles(w: &mut Vec<char>) {
    while w.len() > 8 && cut(w, &["kin", "ko"]) {}
    if w.len() > 11 && ends(w, "dellinen") {
        w.truncate(w.len() - 8);
    } else if w.len() > 11 && ends(w, "dellisuus") {
        w.truncate(w.len() - 9);
    }
}

fn finnish_case(w: &mut Vec<char>) {
    if w.len() > 8 {
        // An ending, what of it goes, and what stands for the rest.
        for (ending, with) in [("nnen", "s"), ("ntena", "s"), ("tten", ""), ("eiden", "")] {
            if ends(w, ending) {
                replace(w, ending.chars().count(), with);
                return;
            }
        }
    }
    if w.len() > 6 {
        if cut(w, &["neen", "niin", "seen", "teen", "inen"]) {
            return;
        }
        if let [.., 'h', vowel, 'n'] = w.as_slice()
            && finnish_vowel(*vowel)
        {
            w.truncate(w.len() - 3);
            return;
        }
        for (ending, with) in [("den", "s"), ("ksen", "s")] {
            if ends(w, ending) {
                replace(w, ending.chars().count(), with);
                return;
            }
        }
        if cut(w, &["ssa", "sta", "lla", "lta", "tta", "ksi", "lle"]) {
            return;
        }
    }
    if w.len() > 5 && cut(w, &["na", "ne", "nei"]) {
        return;
    }
    if w.len() > 4 && !cut(w, &["ja", "ta", "a"]) {
        match w.as_slice() {
            [.., vowel, 'n'] if finnish_vowel(*vowel) => w.truncate(w.len() - 2),
            [.., 'n'] => w.truncate(w.len() - 1),
            _ => {}
        }
    }
}

fn finnish_end(w: &mut Vec<char>) {
    if w.len() > 5 && ends(w, "hde") {
        replace(w, 3, "ksi");
    }
    if w.len() > 4 && cut(w, &["ei", "at"]) {
        return;
    }
    if w.len() > 3 && matches!(w.last(), Some('t' | 's' | 'j' | 'e' | 'a' | 'i')) {
        w.pop();
    }
}

fn hungarian_vowel(letter: char) -> bool {
    matches!(letter, 'a' | 'e' | 'i' | 'o' | 'u' | 'y')
}

/// Savoy's light stemmer of Hungarian: cases, possessives, plurals, and a vowel at the end.
pub(crate) fn light_hungarian(word: &mut String) {
    edit_letters(word, |w| {
        for letter in w.iter_mut() {
            *letter = match *letter {
                'á' => 'a',
                'ë' | 'é' => 'e',
                'í' => 'i',
                'ó' | 'ő' | 'õ' | 'ö' => 'o',
                'ú' | 'ű' | 'ũ' | 'û' | 'ü' => 'u',
                letter => letter,
            };
        }
        hungarian_case(w);
        possessive(w);
        if w.len() > 3 && w.last() == Some(&'k') {
            let long = w.len() > 4 && matches!(w[w.len() - 2], 'a' | 'o' | 'e');
            w.truncate(w.len() - if long { 2 } else { 1 });
        }
        if w.len() > 3 && matches!(w.last(), Some('a' | 'e' | 'i' | 'o')) {
            w.pop();
        }
    });
}

fn hungarian_case(w: &mut Vec<char>) {
    // The letter so far from the end; words are long enough where it is asked for.
    let back = |w: &[char], n: usize| w[w.len() - n];
    let twin = |w: &[char], n: usize| !hungarian_vowel(back(w, n)) && back(w, n) == back(w, n + 1);
    if w.len() > 6 && cut(w, &["kent"]) {
        return;
    }
    if w.len() > 5 {
        const LONG: &[&str] = &[
            "nak", "nek", "val", "vel", "ert", "rol", "ban", "ben", "bol", "nal", "nel", "hoz", "hez", "tol",
        ];
        if cut(w, LONG) {
            return;
        }
        if (ends(w, "al") || ends(w, "el")) && twin(w, 3) {
            w.truncate(w.len() - 3);
            return;
        }
    }
    if w.len() > 4 {
        if cut(w, &["at", "et", "ot", "va", "ve", "ra", "re", "ba", "be", "ul", "ig"]) {
            return;
        }
        if (ends(w, "on") || ends(w, "en")) && !hungarian_vowel(back(w, 3)) {
            w.truncate(w.len() - 2);
            return;
        }
        match back(w, 1) {
            't' | 'n' => w.truncate(w.len() - 1),
            'a' | 'e' if twin(w, 2) => w.truncate(w.len() - 2),
            _ => {}
        }
    }
}

fn possessive(w: &mut Vec<char>) {
    let vowel = |w: &[char], n: usize| hungarian_vowel(w[w.len() - n]);
    if w.len() > 6 && (!vowel(w, 5) && cut(w, &["atok", "otok", "etek"]) || cut(w, &["itek", "itok"])) {
        return;
    }
    if w.len() > 5 && (!vowel(w, 4) && cut(w, &["unk", "tok", "tek"]) || vowel(w, 4) && cut(w, &["juk"]) || cut(w, &["ink"])) {
        return;
    }
    if w.len() > 4
        && (!vowel(w, 3) && cut(w, &["am", "em", "om", "ad", "ed", "od", "uk"])
            || vowel(w, 3) && cut(w, &["nk", "ja", "je"])
            || cut(w, &["im", "id", "ik"]))
    {
        return;
    }
    if w.len() > 3 {
        let goes = match w[w.len() - 1] {
            'a' | 'e' => !vowel(w, 2),
            'm' | 'd' => vowel(w, 2),
            'i' => true,
            _ => false,
        };
        if goes {
            w.pop();
        }
    }
}
