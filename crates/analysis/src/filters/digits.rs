//! `decimal_digit`: digits of all scripts become those of ASCII.

use super::Each;
use crate::characters::digit_value;
use crate::token::Token;

/// Turns digits into ASCII.
pub(crate) struct DecimalDigit;

impl Each for DecimalDigit {
    fn each(&self, token: &mut Token) -> bool {
        if !token.term.is_ascii() {
            token.term = token
                .term
                .chars()
                .map(|c| digit_value(c).map_or(c, |value| char::from(b'0' + value)))
                .collect();
        }
        true
    }
    fn normalizes(&self) -> bool {
        true
    }
}
