//! Writes that may go at the same time: no two of one document.

use model::DocAddress;
use std::collections::HashSet;

/// Cuts what is to be written, in its order, into runs of distinct documents: what is in a later run is not to overtake
/// an earlier one.
pub fn runs<T>(writes: Vec<T>, at: impl Fn(&T) -> &DocAddress) -> impl Iterator<Item = Vec<T>> {
    let mut writes = writes.into_iter().peekable();
    std::iter::from_fn(move || {
        writes.peek()?;
        let mut taken = HashSet::new();
        Some(std::iter::from_fn(|| writes.next_if(|write| taken.insert(at(write).clone()))).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocId, IndexName};

    #[test]
    fn a_document_is_once_in_a_run() {
        for (ids, expected) in [
            ("", &[][..]),
            ("abc", &["abc"]),
            ("abac", &["ab", "ac"]),
            ("aabbc", &["a", "ab", "bc"]),
        ] {
            let at = |id: char| DocAddress {
                index: IndexName::new("i"),
                id: DocId::plain(id.to_string()),
            };
            let cut: Vec<String> = runs(ids.chars().map(at).collect(), |at| at)
                .map(|run| run.iter().map(|at| &*at.id.id).collect())
                .collect();
            assert_eq!(cut, expected, "{ids}");
        }
    }
}
