//! Normalizations of letters that are written in several ways: of the Scandinavian languages, of Arabic and of Persian.
//!
//! Not here: stems, each in the file of its language.

/// å, ä and æ are a; ø and ö are o; so are the pairs that stand for them (aa, ae, ao; oe, oo).
pub(crate) fn fold_scandinavian(term: &mut String) {
    pairs(term, |letter, next| match letter {
        'å' | 'ä' | 'æ' => ('a', false),
        'Å' | 'Ä' | 'Æ' => ('A', false),
        'ø' | 'ö' => ('o', false),
        'Ø' | 'Ö' => ('O', false),
        'a' | 'A' => (letter, matches!(next, Some('a' | 'A' | 'o' | 'O' | 'e' | 'E'))),
        'o' | 'O' => (letter, matches!(next, Some('e' | 'E' | 'o' | 'O'))),
        _ => (letter, false),
    });
}

/// ä and ae are æ; ö, oe and oo are ø; aa and ao are å.
pub(crate) fn normalize_scandinavian(term: &mut String) {
    pairs(term, |letter, next| match (letter, next) {
        ('ä', _) => ('æ', false),
        ('Ä', _) => ('Æ', false),
        ('ö', _) => ('ø', false),
        ('Ö', _) => ('Ø', false),
        ('a', Some('a' | 'A' | 'o' | 'O')) => ('å', true),
        ('A', Some('a' | 'A' | 'o' | 'O')) => ('Å', true),
        ('a', Some('e' | 'E')) => ('æ', true),
        ('A', Some('e' | 'E')) => ('Æ', true),
        ('o', Some('e' | 'E' | 'o' | 'O')) => ('ø', true),
        ('O', Some('e' | 'E' | 'o' | 'O')) => ('Ø', true),
        _ => (letter, false),
    });
}

/// Every letter as `f` says of it and the next one, which is left out if `f` says so.
fn pairs(term: &mut String, f: impl Fn(char, Option<char>) -> (char, bool)) {
    let mut out = String::with_capacity(term.len());
    let mut letters = term.chars().peekable();
    while let Some(letter) = letters.next() {
        let (letter, both) = f(letter, letters.peek().copied());
        out.push(letter);
        if both {
            letters.next();
        }
    }
    *term = out;
}

/// Forms of alef are alef, alef maksura is yeh, teh marbuta is heh; vowel marks and tatweel are left out.
pub(crate) fn normalize_arabic(term: &mut String) {
    each(term, |letter| match letter {
        '\u{622}' | '\u{623}' | '\u{625}' => Some('\u{627}'),
        '\u{649}' => Some('\u{64a}'),
        '\u{629}' => Some('\u{647}'),
        '\u{640}' | '\u{64b}'..='\u{652}' => None,
        letter => Some(letter),
    });
}

/// Persian letters are the Arabic ones that they are forms of; hamza above is left out.
pub(crate) fn normalize_persian(term: &mut String) {
    each(term, |letter| match letter {
        '\u{6cc}' | '\u{6d2}' => Some('\u{64a}'),
        '\u{6a9}' => Some('\u{643}'),
        '\u{6c0}' | '\u{6c1}' => Some('\u{647}'),
        '\u{654}' => None,
        letter => Some(letter),
    });
}

fn each(term: &mut String, f: impl Fn(char) -> Option<char>) {
    *term = term.chars().filter_map(f).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: fn(&mut String), from: &str, to: &str) {
        let mut term = from.to_owned();
        change(&mut term);
        assert_eq!(term, to);
    }

    #[test]
    fn letters_in_several_ways() {
        check(fold_scandinavian, "blåbærsyltetøj", "blabarsyltetoj");
        check(fold_scandinavian, "blaabaarsyltetoej", "blabarsyltetoj");
        check(fold_scandinavian, "Brown", "Brown");
        check(normalize_scandinavian, "blåbärsyltetöj", "blåbærsyltetøj");
        check(normalize_scandinavian, "blaabaersyltetoej", "blåbærsyltetøj");
        check(normalize_arabic, "\u{623}\u{64e}\u{629}", "\u{627}\u{647}");
        check(normalize_persian, "\u{6a9}\u{6cc}", "\u{643}\u{64a}");
    }
}
