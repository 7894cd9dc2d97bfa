//! Porter's stemmer as Lucene's `PorterStemFilter` has it: words of one or two letters stay, `-bli` becomes
//! `-ble` and `-logi` becomes `-log`. Elasticsearch's `english` analyzer stems with this one.

/// Stems a word in lower case.
pub(crate) fn porter(word: &mut String) {
    if word.is_ascii() {
        if word.len() > 2 {
            let mut bytes = std::mem::take(word).into_bytes();
            steps(&mut bytes);
            *word = bytes.into_iter().map(char::from).collect();
        }
        return;
    }
    // Other characters count as consonants; none is ever removed but together with what follows it.
    let chars: Vec<char> = word.chars().collect();
    if chars.len() > 2 {
        let mut bytes: Vec<u8> = chars
            .iter()
            .map(|c| {
                if c.is_ascii() {
                    *c as u8
                } else {
                    0x80 | (u32::from(*c) & 0x7f) as u8
                }
            })
            .collect();
        steps(&mut bytes);
        *word = bytes
            .iter()
            .zip(chars.iter().map(Some).chain(std::iter::repeat(None)))
            .filter_map(|(byte, c)| {
                if byte.is_ascii() {
                    Some(char::from(*byte))
                } else {
                    c.copied()
                }
            })
            .collect();
    }
}

fn steps(w: &mut Vec<u8>) {
    plurals(w);
    if w.len() > 1 && w.ends_with(b"y") && has_vowel(&w[..w.len() - 1]) {
        let last = w.len() - 1;
        w[last] = b'i';
    }
    replace_if(w, DOUBLE_SUFFIXES);
    replace_if(w, SINGLE_SUFFIXES);
    remove_suffix(w);
    tidy(w);
}

fn is_consonant(w: &[u8], i: usize) -> bool {
    let mut at = i;
    while at > 0 && w[at] == b'y' {
        at -= 1;
    }
    let base = !matches!(w[at], b'a' | b'e' | b'i' | b'o' | b'u');
    // Each `y` is the opposite of what stands before it.
    base ^ ((i - at) % 2 == 1)
}

fn has_vowel(w: &[u8]) -> bool {
    (0..w.len()).any(|i| !is_consonant(w, i))
}

/// How often vowels are followed by consonants.
fn measure(w: &[u8]) -> usize {
    let (mut count, mut vowel) = (0, false);
    for i in 0..w.len() {
        let consonant = is_consonant(w, i);
        if consonant && vowel {
            count += 1;
        }
        vowel = !consonant;
    }
    count
}

fn ends_in_double(w: &[u8]) -> bool {
    w.len() > 1 && w[w.len() - 1] == w[w.len() - 2] && is_consonant(w, w.len() - 1)
}

/// Consonant, vowel, consonant other than `w`, `x`, `y`.
fn ends_short(w: &[u8]) -> bool {
    let n = w.len();
    n > 2
        && is_consonant(w, n - 1)
        && !is_consonant(w, n - 2)
        && is_consonant(w, n - 3)
        && !matches!(w[n - 1], b'w' | b'x' | b'y')
}

fn plurals(w: &mut Vec<u8>) {
    if w.ends_with(b"sses") || w.ends_with(b"ies") {
        w.truncate(w.len() - 2);
    } else if w.ends_with(b"s") && !w.ends_with(b"ss") {
        w.pop();
    }
    if w.ends_with(b"eed") {
        if measure(&w[..w.len() - 3]) > 0 {
            w.pop();
        }
        return;
    }
    let stem = match w.as_slice() {
        [stem @ .., b'e', b'd'] | [stem @ .., b'i', b'n', b'g'] if has_vowel(stem) => stem.len(),
        _ => return,
    };
    w.truncate(stem);
    if w.ends_with(b"at") || w.ends_with(b"bl") || w.ends_with(b"iz") {
        w.push(b'e');
    } else if ends_in_double(w) {
        if !matches!(w.last(), Some(b'l' | b's' | b'z')) {
            w.pop();
        }
    } else if measure(w) == 1 && ends_short(w) {
        w.push(b'e');
    }
}

const DOUBLE_SUFFIXES: &[(&str, &str)] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
];
const SINGLE_SUFFIXES: &[(&str, &str)] = &[
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

fn replace_if(w: &mut Vec<u8>, suffixes: &[(&str, &str)]) {
    if let Some((suffix, with)) = suffixes.iter().find(|(suffix, _)| w.ends_with(suffix.as_bytes())) {
        let stem = w.len() - suffix.len();
        if measure(&w[..stem]) > 0 {
            w.truncate(stem);
            w.extend_from_slice(with.as_bytes());
        }
    }
}

const REMOVED: &[&str] = &[
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "sion", "tion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
];

fn remove_suffix(w: &mut Vec<u8>) {
    if let Some(suffix) = REMOVED.iter().find(|suffix| w.ends_with(suffix.as_bytes())) {
        let removed = if suffix.ends_with("ion") { 3 } else { suffix.len() };
        let stem = w.len() - removed;
        if measure(&w[..stem]) > 1 {
            w.truncate(stem);
        }
    }
}

fn tidy(w: &mut Vec<u8>) {
    if w.ends_with(b"e") {
        let measured = measure(w);
        if measured > 1 || (measured == 1 && !ends_short(&w[..w.len() - 1])) {
            w.pop();
        }
    }
    if w.ends_with(b"l") && ends_in_double(w) && measure(w) > 1 {
        w.pop();
    }
}
