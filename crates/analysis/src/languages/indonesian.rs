//! Indonesian: Tala's stemmer of particles, pronouns, prefixes and suffixes.

use super::tail::{begins, edit_letters, ends};

/// The affixes that were removed: some suffixes do not go with some prefixes.
#[derive(Default)]
struct Word {
    letters: Vec<char>,
    syllables: usize,
    off: Vec<&'static str>,
}

/// Prefixes of the first order: the prefix, whether a vowel must follow, what stands in its place, and its family.
const FIRST: &[(&str, bool, &str, &str)] = &[
    ("meng", false, "", "meng"),
    ("meny", true, "s", "meng"),
    ("men", false, "", "meng"),
    ("mem", false, "", "meng"),
    ("me", false, "", "meng"),
    ("peng", false, "", "peng"),
    ("peny", true, "s", "peng"),
    ("peny", false, "", "peng"),
    ("pen", true, "t", "peng"),
    ("pen", false, "", "peng"),
    ("pem", false, "", "peng"),
    ("di", false, "", "di"),
    ("ter", false, "", "ter"),
    ("ke", false, "", "ke"),
];

fn vowel(letter: char) -> bool {
    matches!(letter, 'a' | 'e' | 'i' | 'o' | 'u')
}

impl Word {
    /// Takes `cut` letters from the front.
    fn front(&mut self, cut: usize, with: &str, family: &'static str) {
        self.letters.splice(..cut, with.chars());
        self.syllables -= 1;
        self.off.push(family);
    }

    fn back(&mut self, endings: &[&str]) -> bool {
        let found = endings.iter().find(|ending| ends(&self.letters, ending));
        if let Some(ending) = found {
            self.letters.truncate(self.letters.len() - ending.len());
            self.syllables -= 1;
        }
        found.is_some()
    }

    fn long(&self) -> bool {
        self.syllables > 2
    }

    fn first_prefix(&mut self) -> bool {
        let w = &self.letters;
        let rule = FIRST.iter().find(|(prefix, before_vowel, _, _)| {
            let next = w.get(prefix.len()).is_some_and(|letter| vowel(*letter));
            begins(w, prefix) && (!before_vowel || next)
        });
        if let Some((prefix, _, with, family)) = rule {
            self.front(prefix.len(), with, family);
        }
        rule.is_some()
    }

    fn second_prefix(&mut self) {
        let w = &self.letters;
        let is = |word: &str| w.len() == word.len() && begins(w, word);
        if begins(w, "ber") || is("belajar") {
            self.front(3, "", "ber");
        } else if begins(w, "be") && w.len() > 4 && !vowel(w[2]) && w[3] == 'e' && w[4] == 'r' {
            self.front(2, "", "ber");
        } else if begins(w, "per") || is("pelajar") {
            self.front(3, "", "per");
        } else if begins(w, "pe") {
            self.front(2, "", "pe");
        }
    }

    fn suffix(&mut self) -> bool {
        let clear = |families: &[&str]| families.iter().all(|family| !self.off.contains(family));
        let (kan, an, i) = (
            clear(&["ke", "peng", "pe"]),
            clear(&["di", "meng", "ter"]),
            clear(&["ber", "ke", "peng"]),
        );
        if kan && ends(&self.letters, "kan") {
            self.back(&["kan"])
        } else if an && ends(&self.letters, "an") {
            self.back(&["an"])
        } else if i && ends(&self.letters, "i") && !ends(&self.letters, "si") {
            self.back(&["i"])
        } else {
            false
        }
    }
}

/// The whole stemmer.
pub(crate) fn indonesian(word: &mut String) {
    edit_letters(word, |letters| {
        let mut word = Word {
            syllables: letters.iter().filter(|letter| vowel(**letter)).count(),
            letters: std::mem::take(letters),
            off: Vec::new(),
        };
        if word.long() {
            word.back(&["kah", "lah", "pun"]);
        }
        if word.long() {
            word.back(&["ku", "mu", "nya"]);
        }
        if word.long() && word.first_prefix() {
            if word.long() && word.suffix() && word.long() {
                word.second_prefix();
            }
        } else {
            if word.long() {
                word.second_prefix();
            }
            if word.long() {
                word.suffix();
            }
        }
        *letters = word.letters;
    });
}
