//! Spanish: Savoy's light stemmer.

use super::tail::{bare, edit_letters};

/// Savoy's light stemmer.
pub(crate) fn light_spanish(word: &mut String) {
    edit_letters(word, |w| {
        let n = w.len();
        if n < 5 {
            return;
        }
        for letter in w.iter_mut() {
            *letter = bare(*letter);
        }
        match w.as_slice() {
            [.., 'o' | 'a' | 'e'] => w.truncate(n - 1),
            [.., 'c', 'e', 's'] => {
                w.truncate(n - 2);
                w[n - 3] = 'z';
            }
            [.., 'o' | 'a' | 'e', 's'] => w.truncate(n - 2),
            _ => {}
        }
    });
}
