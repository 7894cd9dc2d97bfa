//! `lowercase` and `uppercase`, character by character as Java does it, and lower case in Greek, Turkish and Irish.

use super::Each;
use crate::characters::{lower, lowercase};
use crate::token::Token;

/// `lowercase`.
pub(crate) struct Lowercase;

impl Each for Lowercase {
    fn each(&self, token: &mut Token) -> bool {
        lowercase(&mut token.term);
        true
    }
    fn normalizes(&self) -> bool {
        true
    }
}

/// `lowercase` with a `language`.
#[derive(Clone, Copy)]
pub(crate) enum LowercaseLanguage {
    Greek,
    Turkish,
    Irish,
}

fn greek(c: char) -> char {
    match lower(c) {
        'ς' => 'σ',
        'ά' => 'α',
        'έ' => 'ε',
        'ή' => 'η',
        'ί' | 'ϊ' | 'ΐ' => 'ι',
        'ύ' | 'ϋ' | 'ΰ' => 'υ',
        'ό' => 'ο',
        'ώ' => 'ω',
        c => c,
    }
}

impl Each for LowercaseLanguage {
    fn each(&self, token: &mut Token) -> bool {
        let term = &mut token.term;
        match self {
            LowercaseLanguage::Greek => *term = term.chars().map(greek).collect(),
            LowercaseLanguage::Turkish => {
                *term = term
                    .replace("I\u{307}", "i")
                    .chars()
                    .map(|c| match c {
                        'I' => 'ı',
                        c => lower(c),
                    })
                    .collect();
            }
            LowercaseLanguage::Irish => {
                let mut chars = term.chars();
                if let (Some(first @ ('n' | 't')), Some('A' | 'E' | 'I' | 'O' | 'U' | 'Á' | 'É' | 'Í' | 'Ó' | 'Ú')) =
                    (chars.next(), chars.next())
                {
                    *term = format!("{first}-{}", &term[1..]);
                }
                lowercase(term);
            }
        }
        true
    }
    fn normalizes(&self) -> bool {
        true
    }
}

/// `uppercase`.
pub(crate) struct Uppercase;

impl Each for Uppercase {
    fn each(&self, token: &mut Token) -> bool {
        token.term = token
            .term
            .chars()
            .map(|c| {
                let mut upper = c.to_uppercase();
                match (upper.next(), upper.next()) {
                    (Some(upper), None) => upper,
                    _ => c,
                }
            })
            .collect();
        true
    }
    fn normalizes(&self) -> bool {
        true
    }
}
