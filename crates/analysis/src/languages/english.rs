//! English: possessives, and the plural-only stemmer.

/// Drops `'s` from the end.
pub(crate) fn possessive_english(word: &mut String) {
    if let Some(stem) = word.strip_suffix(['s', 'S'])
        && let Some(stem) = stem.strip_suffix(['\'', '\u{2019}', '\u{ff07}'])
    {
        let length = stem.len();
        word.truncate(length);
    }
}

/// Harman's stemmer: plurals only.
pub(crate) fn minimal_english(word: &mut String) {
    let mut chars = word.chars().rev();
    let ending = [chars.next(), chars.next(), chars.next(), chars.next()];
    let (Some('s'), Some(before), Some(third)) = (ending[0], ending[1], ending[2]) else {
        return;
    };
    match (before, third) {
        ('u' | 's', _) => {}
        ('e', 'i') if ending[3].is_some_and(|c| c != 'a' && c != 'e') => {
            word.truncate(word.len() - 3);
            word.push('y');
        }
        ('e', 'i' | 'a' | 'o' | 'e') => {}
        _ => {
            word.pop();
        }
    }
}
