//! `asciifolding`: characters that look like ASCII become ASCII.
//!
//! Letters with marks, wide and circled forms are taken apart by Unicode's compatibility decomposition; what
//! has none is in a table.

use super::{All, Each, Filter};
use crate::token::Token;
use std::collections::HashMap;
use std::sync::OnceLock;
use unicode_normalization::UnicodeNormalization;

/// Characters without a decomposition, and what they become.
#[rustfmt::skip]
const SPECIAL: &[(&str, &str)] = &[
    ("Æ", "AE"), ("æ", "ae"), ("Ø", "O"), ("ø", "o"), ("Ð", "D"), ("ð", "d"), ("Þ", "TH"), ("þ", "th"),
    ("ß", "ss"), ("ẞ", "SS"), ("Đ", "D"), ("đ", "d"), ("Ħ", "H"), ("ħ", "h"), ("ı", "i"), ("ĸ", "q"),
    ("Ł", "L"), ("ł", "l"), ("Ŀ", "L"), ("ŀ", "l"), ("ŉ", "n"), ("Ŋ", "N"), ("ŋ", "n"), ("Œ", "OE"), ("œ", "oe"),
    ("Ŧ", "T"), ("ŧ", "t"), ("ſ", "s"), ("ƀ", "b"), ("Ɓ", "B"), ("Ƃ", "B"), ("ƃ", "b"), ("Ɔ", "O"),
    ("Ƈ", "C"), ("ƈ", "c"), ("Ɖ", "D"), ("Ɗ", "D"), ("Ƌ", "D"), ("ƌ", "d"), ("Ǝ", "E"), ("Ə", "A"), ("Ɛ", "E"),
    ("Ƒ", "F"), ("ƒ", "f"), ("Ɠ", "G"), ("ƕ", "hv"), ("Ɩ", "I"), ("Ɨ", "I"), ("Ƙ", "K"), ("ƙ", "k"), ("ƚ", "l"),
    ("Ɯ", "M"), ("Ɲ", "N"), ("ƞ", "n"), ("Ɵ", "O"), ("Ƥ", "P"), ("ƥ", "p"), ("ƫ", "t"), ("Ƭ", "T"), ("ƭ", "t"),
    ("Ʈ", "T"), ("Ʋ", "V"), ("Ƴ", "Y"), ("ƴ", "y"), ("Ƶ", "Z"), ("ƶ", "z"), ("ƿ", "w"), ("Ƿ", "W"), ("ǝ", "a"),
    ("Ǥ", "G"), ("ǥ", "g"), ("Ǧ", "G"), ("Ƕ", "HV"), ("Ȝ", "Z"), ("ȝ", "z"), ("Ƞ", "N"), ("ȡ", "d"), ("Ȣ", "OU"), ("ȣ", "ou"),
    ("Ȥ", "Z"), ("ȥ", "z"), ("ȴ", "l"), ("ȵ", "n"), ("ȶ", "t"), ("ȷ", "j"), ("ȸ", "db"), ("ȹ", "qp"), ("Ⱥ", "A"),
    ("Ȼ", "C"), ("ȼ", "c"), ("Ƚ", "L"), ("Ⱦ", "T"), ("ȿ", "s"), ("ɀ", "z"), ("Ƀ", "B"), ("Ʉ", "U"), ("Ʌ", "V"),
    ("Ɇ", "E"), ("ɇ", "e"), ("Ɉ", "J"), ("ɉ", "j"), ("Ɋ", "Q"), ("ɋ", "q"), ("Ɍ", "R"), ("ɍ", "r"), ("Ɏ", "Y"), ("ɏ", "y"),
    ("ɐ", "a"), ("ɓ", "b"), ("ɔ", "o"), ("ɕ", "c"), ("ɖ", "d"), ("ɗ", "d"), ("ə", "a"), ("ɛ", "e"), ("ɟ", "j"),
    ("ɠ", "g"), ("ɡ", "g"), ("ɢ", "G"), ("ɥ", "h"), ("ɦ", "h"), ("ɨ", "i"), ("ɪ", "I"), ("ɫ", "l"), ("ɬ", "l"), ("ɭ", "l"),
    ("ɯ", "m"), ("ɰ", "m"), ("ɱ", "m"), ("ɲ", "n"), ("ɳ", "n"), ("ɴ", "N"), ("ɵ", "o"), ("ɶ", "OE"), ("ɼ", "r"), ("ɽ", "r"),
    ("ɾ", "r"), ("ʀ", "R"), ("ʂ", "s"), ("ʈ", "t"), ("ʉ", "u"), ("ʋ", "v"), ("ʌ", "v"), ("ʍ", "w"), ("ʏ", "Y"),
    ("ʐ", "z"), ("ʑ", "z"), ("ʙ", "B"), ("ʛ", "G"), ("ʜ", "H"), ("ʝ", "j"), ("ʟ", "L"), ("ʠ", "q"),
    ("«", "\""), ("»", "\""), ("“", "\""), ("”", "\""), ("„", "\""), ("″", "\""), ("‶", "\""), ("❝", "\""), ("❞", "\""), ("❮", "\""), ("❯", "\""),
    ("‘", "'"), ("’", "'"), ("‚", "'"), ("‛", "'"), ("′", "'"), ("‵", "'"), ("‹", "'"), ("›", "'"), ("❛", "'"), ("❜", "'"),
    ("‐", "-"), ("‑", "-"), ("‒", "-"), ("–", "-"), ("—", "-"), ("⁻", "-"), ("₋", "-"), ("⁅", "["), ("⁆", "]"),
    ("⁎", "*"), ("⁏", ";"), ("⁒", "%"), ("⁓", "~"), ("‸", "^"), ("⁄", "/"), ("‼", "!!"), ("⁇", "??"), ("⁈", "?!"), ("⁉", "!?"),
    ("❲", "["), ("❳", "]"), ("❴", "{"), ("❵", "}"), ("❨", "("), ("❩", ")"), ("❪", "("), ("❫", ")"),
    ("Ａ", "A"), ("ꜳ", "aa"), ("Ꜳ", "AA"), ("ꜵ", "ao"), ("Ꜵ", "AO"), ("ꜷ", "au"), ("Ꜷ", "AU"), ("ꝏ", "oo"), ("Ꝏ", "OO"),
];

fn special(c: char) -> Option<&'static str> {
    static BY_CHAR: OnceLock<HashMap<char, &str>> = OnceLock::new();
    let by_char = BY_CHAR.get_or_init(|| {
        SPECIAL
            .iter()
            .filter_map(|(from, to)| Some((from.chars().next()?, *to)))
            .collect()
    });
    by_char.get(&c).copied()
}

/// The replacement of a character, if it has one.
fn folding_of(c: char) -> Option<String> {
    if let Some(to) = special(c) {
        return Some(to.to_owned());
    }
    let decomposes = matches!(c,
        'ª' | '²' | '³' | '¹' | 'º' | '\u{c0}'..='\u{24f}' | '\u{1d00}'..='\u{1eff}' | '\u{2070}'..='\u{209c}'
        | '\u{2184}' | '\u{2460}'..='\u{24ff}' | '\u{2c60}'..='\u{2c7f}' | '\u{fb00}'..='\u{fb06}' | '\u{ff01}'..='\u{ff5e}');
    if !decomposes {
        return match c {
            '\u{2776}'..='\u{2793}' => Some(((u32::from(c) - 0x2776) % 10 + 1).to_string()),
            _ => None,
        };
    }
    let mut out = String::new();
    for part in c.nfkd().filter(|part| !unicode_normalization::char::is_combining_mark(*part)) {
        if part.is_ascii() {
            out.push(part);
        } else {
            out.push_str(special(part)?);
        }
    }
    Some(out)
}

/// Folds to ASCII.
pub(crate) struct AsciiFolding;

impl Each for AsciiFolding {
    fn each(&self, token: &mut Token) -> bool {
        if !token.term.is_ascii() {
            let mut out = String::with_capacity(token.term.len());
            for c in token.term.chars() {
                match if c.is_ascii() { None } else { folding_of(c) } {
                    Some(to) => out.push_str(&to),
                    None => out.push(c),
                }
            }
            token.term = out;
        }
        true
    }
    fn normalizes(&self) -> bool {
        true
    }
}

/// Another filter, whose tokens are followed by what they were if it changed them.
pub(crate) struct KeepingOriginal(pub(crate) Filter);

impl All for KeepingOriginal {
    fn all(&self, tokens: Vec<Token>) -> Vec<Token> {
        let mut out = Vec::with_capacity(tokens.len());
        for token in tokens {
            for changed in self.0.run(vec![token.clone()]) {
                let differs = changed.term != token.term;
                out.push(changed);
                if differs {
                    out.push(token.clone());
                }
            }
        }
        out
    }
    fn normalize(&self, token: &mut Token) {
        if let Filter::Each(each) = &self.0 {
            each.each(token);
        }
    }
    fn normalizes(&self) -> bool {
        self.0.normalizes()
    }
}
