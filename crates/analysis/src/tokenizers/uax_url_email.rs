//! The `uax_url_email` tokenizer: as `standard`, but addresses of pages and people stay whole.
//!
//! Addresses are found by a regular expression: a scheme, or a host whose last part could be a top-level domain.
//! Lucene knows the list of real ones; this does not.

use super::{Piece, Standard, Tokenizer};
use crate::token::TokenKind;
use regex::Regex;
use std::sync::OnceLock;

/// Words, addresses of pages and of people.
pub(crate) struct UaxUrlEmail {
    pub(crate) words: Standard,
}

fn addresses() -> Option<&'static Regex> {
    static ADDRESSES: OnceLock<Option<Regex>> = OnceLock::new();
    ADDRESSES
        .get_or_init(|| {
            let host = r"(?:[\p{L}\p{Nd}](?:[\p{L}\p{Nd}_-]*[\p{L}\p{Nd}])?\.)+[A-Za-z]{2,}";
            let address = r"\b(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\b";
            let email = format!(r"(?P<email>[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~.-]+@{host})");
            let tail = r"(?::\d+)?(?:/[^\s<>\u{22}]*[^\s<>\u{22}.,;:!?'\u{29}])?(?:/)?(?:\?[^\s<>\u{22}#]*)?(?:#[^\s<>\u{22}]*)?";
            let url = format!(
                r"(?P<url>(?:(?:https?|ftp|file)://(?:[^\s/@]+@)?(?:{host}|localhost|\d+\.\d+\.\d+\.\d+){tail}|(?:{host}|{address}){tail}))"
            );
            Regex::new(&format!("{email}|{url}")).ok()
        })
        .as_ref()
}

impl Tokenizer for UaxUrlEmail {
    fn tokenize(&self, text: &str, f: &mut dyn FnMut(Piece<'_>)) {
        let (mut position, mut from) = (0, 0);
        for captures in addresses().into_iter().flat_map(|addresses| addresses.captures_iter(text)) {
            let (found, kind) = match (captures.name("email"), captures.name("url")) {
                (Some(found), _) => (found, TokenKind::Email),
                (_, Some(found)) => (found, TokenKind::Url),
                _ => continue,
            };
            self.words.between(text, from, found.start(), &mut position, f);
            f(Piece::of(text, found.start(), found.end(), position, kind));
            position += 1;
            from = found.end();
        }
        self.words.between(text, from, text.len(), &mut position, f);
    }
}
