//! Terms within some edits of a text, as an automaton that walks the rows of the edit-distance table.

use dsl::query::Fuzziness;
use tantivy_fst::Automaton;

/// How many edits a text of a length may have.
pub(crate) fn edits(fuzziness: Fuzziness, text: &str) -> u8 {
    match fuzziness {
        Fuzziness::Edits(n) => n.min(2),
        Fuzziness::Auto { low, high } => {
            let length = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
            if length < low {
                0
            } else if length < high {
                1
            } else {
                2
            }
        }
    }
}

/// Texts within `max` edits of one.
pub(crate) struct Levenshtein {
    text: Vec<char>,
    max: u8,
    prefix: usize,
    transpositions: bool,
}

/// Two rows of the table, and the bytes of a character not yet whole.
#[derive(Clone, Debug)]
pub(crate) struct DistanceRows {
    row: Vec<u8>,
    before: Vec<u8>,
    last: Option<char>,
    partial: Vec<u8>,
    length: usize,
    failed: bool,
}

impl Levenshtein {
    /// The first `prefix` characters must be equal.
    pub(crate) fn new(text: &str, max: u8, prefix: usize, transpositions: bool) -> Levenshtein {
        Levenshtein {
            text: text.chars().collect(),
            max,
            prefix,
            transpositions,
        }
    }

    /// The distance of a text, if it is near enough.
    pub(crate) fn distance(&self, text: &str) -> Option<u8> {
        let mut rows = self.start();
        for byte in text.bytes() {
            if !self.can_match(&rows) {
                return None;
            }
            rows = self.accept(&rows, byte);
        }
        self.is_match(&rows).then(|| rows.row.last().copied().unwrap_or(0))
    }

    fn step(&self, rows: &DistanceRows, c: char) -> DistanceRows {
        let at = rows.length;
        let failed = rows.failed || at < self.prefix && self.text.get(at) != Some(&c);
        let cap = self.max + 1;
        let mut row = Vec::with_capacity(rows.row.len());
        row.push(rows.row[0].saturating_add(1).min(cap));
        for j in 1..rows.row.len() {
            let wanted = self.text[j - 1];
            let mut best = (rows.row[j - 1] + u8::from(wanted != c))
                .min(rows.row[j] + 1)
                .min(row[j - 1] + 1);
            if self.transpositions && j > 1 && rows.last == Some(wanted) && self.text[j - 2] == c && !rows.before.is_empty() {
                best = best.min(rows.before[j - 2] + 1);
            }
            row.push(best.min(cap));
        }
        debug_assert_eq!(
            row.len(),
            self.text.len() + 1,
            "a row has a distance for each beginning of the text"
        );
        DistanceRows {
            before: rows.row.clone(),
            row,
            last: Some(c),
            partial: Vec::new(),
            length: at + 1,
            failed,
        }
    }
}

impl Automaton for Levenshtein {
    type State = DistanceRows;
    fn start(&self) -> DistanceRows {
        let row = (0..=self.text.len())
            .map(|n| u8::try_from(n).unwrap_or(u8::MAX).min(self.max + 1))
            .collect();
        DistanceRows {
            row,
            before: Vec::new(),
            last: None,
            partial: Vec::new(),
            length: 0,
            failed: false,
        }
    }
    fn is_match(&self, rows: &DistanceRows) -> bool {
        !rows.failed
            && rows.partial.is_empty()
            && rows.length >= self.prefix.min(self.text.len())
            && rows.row.last().is_some_and(|d| *d <= self.max)
    }
    fn can_match(&self, rows: &DistanceRows) -> bool {
        let transposed = self.transpositions && rows.before.iter().any(|d| *d < self.max);
        !rows.failed && (transposed || rows.row.iter().any(|d| *d <= self.max))
    }
    fn accept(&self, rows: &DistanceRows, byte: u8) -> DistanceRows {
        let mut partial = rows.partial.clone();
        partial.push(byte);
        match std::str::from_utf8(&partial).ok().and_then(|text| text.chars().next()) {
            Some(c) => self.step(rows, c),
            None if partial.len() < 4 => DistanceRows { partial, ..rows.clone() },
            None => DistanceRows {
                failed: true,
                ..rows.clone()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(a: &str, b: &str, max: u8, transpositions: bool, expected: Option<u8>) {
        assert_eq!(Levenshtein::new(a, max, 0, transpositions).distance(b), expected, "{a} {b}");
    }

    #[test]
    fn distances() {
        check("abc", "abc", 2, true, Some(0));
        check("abc", "acb", 1, true, Some(1));
        check("abc", "acb", 2, false, Some(2));
        check("prefix", "prefixed", 2, true, Some(2));
        check("prefix", "prefixing", 2, true, None);
        check("äbc", "abc", 1, true, Some(1));
        check("ab", "", 2, true, Some(2));
    }
}
