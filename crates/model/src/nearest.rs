//! "Did you mean": the nearest known name to one that is not.

/// The closest of `known` to `word` by edit distance, if it is close enough to be a typing error.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1) + 1;
    known
        .into_iter()
        .map(|k| (distance(word, k), k))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, k)| (*d, k.len()))
        .map(|(_, k)| k)
}

/// ` did you mean [near]?`, or nothing if no known name is near.
pub fn question<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |near| format!(" did you mean [{near}]?"))
}

/// The same as a further part of a sentence: behind a comma.
pub fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match question(word, known) {
        none if none.is_empty() => none,
        question => format!(",{question}"),
    }
}

/// Levenshtein distance in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let next = (diagonal + usize::from(ca != *cb)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], next);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: &str, known: &[&str], expected: Option<&str>) {
        assert_eq!(nearest(word, known.iter().copied()), expected, "{word}");
    }

    #[test]
    fn suggestions() {
        check("quary", &["query", "sort", "size"], Some("query"));
        check("refersh", &["refresh", "routing"], Some("refresh"));
        check("entirely", &["query", "sort"], None);
        check("", &["query"], None);
    }
}
