//! Spanish: Savoy's light stemmer.

/// Savoy's light stemmer.
pub(crate) fn light_spanish(word: &mut String) {
    let mut w: Vec<char> = word.chars().collect();
    if w.len() < 5 {
        return;
    }
    for c in &mut w {
        *c = match *c {
            'à' | 'á' | 'â' | 'ä' => 'a',
            'ò' | 'ó' | 'ô' | 'ö' => 'o',
            'è' | 'é' | 'ê' | 'ë' => 'e',
            'ù' | 'ú' | 'û' | 'ü' => 'u',
            'ì' | 'í' | 'î' | 'ï' => 'i',
            c => c,
        };
    }
    let n = w.len();
    match w.as_slice() {
        [.., 'o' | 'a' | 'e'] => w.truncate(n - 1),
        [.., 'c', 'e', 's'] => {
            w.truncate(n - 2);
            w[n - 3] = 'z';
        }
        [.., 'o' | 'a' | 'e', 's'] => w.truncate(n - 2),
        _ => {}
    }
    *word = w.into_iter().collect();
}
