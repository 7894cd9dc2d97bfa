//! Endings of words: what light stemmers have in common.

/// Whether a word ends so.
pub(super) fn ends(word: &[char], suffix: &str) -> bool {
    let mut letters = word.iter().rev();
    suffix.chars().rev().all(|letter| letters.next() == Some(&letter))
}

/// Whether a word begins so.
pub(super) fn begins(word: &[char], prefix: &str) -> bool {
    let mut letters = word.iter();
    prefix.chars().all(|letter| letters.next() == Some(&letter))
}

/// The length of the first of some endings that a word has, where at least `left` letters are left before it.
pub(super) fn ending(word: &[char], endings: &[&str], left: usize) -> Option<usize> {
    let found = endings.iter().find(|ending| ends(word, ending))?;
    let length = found.chars().count();
    (word.len() >= length + left).then_some(length)
}

/// Takes the first ending off that the word has; each list goes with the letters that must be left. True if one was there.
pub(super) fn drop_first(word: &mut Vec<char>, lists: &[(usize, &[&str])]) -> bool {
    for (left, endings) in lists {
        for ending in *endings {
            let length = ending.chars().count();
            if word.len() >= length + left && ends(word, ending) {
                word.truncate(word.len() - length);
                return true;
            }
        }
    }
    false
}

/// Puts `with` in the place of the last `n` letters.
pub(super) fn replace(word: &mut Vec<char>, n: usize, with: &str) {
    word.truncate(word.len().saturating_sub(n));
    word.extend(with.chars());
}

/// A word as letters, changed, and written back.
pub(super) fn edit_letters(word: &mut String, change: impl FnOnce(&mut Vec<char>)) {
    let mut letters: Vec<char> = word.chars().collect();
    change(&mut letters);
    *word = letters.into_iter().collect();
}

/// A vowel without its accent.
pub(super) fn bare(letter: char) -> char {
    match letter {
        'à' | 'á' | 'â' | 'ä' => 'a',
        'ò' | 'ó' | 'ô' | 'ö' => 'o',
        'è' | 'é' | 'ê' | 'ë' => 'e',
        'ù' | 'ú' | 'û' | 'ü' => 'u',
        'ì' | 'í' | 'î' | 'ï' => 'i',
        letter => letter,
    }
}
