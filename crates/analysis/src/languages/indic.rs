//! Languages of India: one spelling of letters that can be composed of others, and Hindi and Bengali.

use super::tail::{drop_first, edit_letters};

/// Scripts by the letters of [`COMPOSED`], and where their blocks of 128 characters begin.
const SCRIPTS: &[(char, u32)] = &[
    ('D', 0x0900),
    ('B', 0x0980),
    ('G', 0x0a00),
    ('J', 0x0a80),
    ('O', 0x0b00),
    ('T', 0x0b80),
    ('L', 0x0c00),
    ('K', 0x0c80),
    ('M', 0x0d00),
];

/// The zero width joiner among places in a block.
const ZWJ: u32 = 0xff;

/// Two or three characters, the one that they are composed to, and in which scripts. The characters are places in the
/// block of the script, which are alike in all of them.
const COMPOSED: &[(u32, u32, Option<u32>, u32, &str)] = &[
    (0x05, 0x3e, Some(0x45), 0x11, "DJ"),
    (0x05, 0x3e, Some(0x46), 0x12, "D"),
    (0x05, 0x3e, Some(0x47), 0x13, "DJ"),
    (0x05, 0x3e, Some(0x48), 0x14, "DJ"),
    (0x05, 0x3e, None, 0x06, "DBGJO"),
    (0x05, 0x45, None, 0x72, "D"),
    (0x05, 0x45, None, 0x0d, "J"),
    (0x05, 0x46, None, 0x04, "D"),
    (0x05, 0x47, None, 0x0f, "J"),
    (0x05, 0x48, None, 0x10, "GJ"),
    (0x05, 0x49, None, 0x11, "DJ"),
    (0x05, 0x4a, None, 0x12, "D"),
    (0x05, 0x4b, None, 0x13, "DJ"),
    (0x05, 0x4c, None, 0x14, "DGJ"),
    (0x06, 0x45, None, 0x11, "DJ"),
    (0x06, 0x46, None, 0x12, "D"),
    (0x06, 0x47, None, 0x13, "DJ"),
    (0x06, 0x48, None, 0x14, "DJ"),
    (0x07, 0x57, None, 0x08, "M"),
    (0x09, 0x41, None, 0x0a, "D"),
    (0x09, 0x57, None, 0x0a, "TM"),
    (0x0e, 0x46, None, 0x10, "M"),
    (0x0f, 0x45, None, 0x0d, "D"),
    (0x0f, 0x46, None, 0x0e, "D"),
    (0x0f, 0x47, None, 0x10, "D"),
    (0x0f, 0x57, None, 0x10, "O"),
    (0x12, 0x3e, None, 0x13, "M"),
    (0x12, 0x4c, None, 0x14, "LK"),
    (0x12, 0x55, None, 0x13, "L"),
    (0x12, 0x57, None, 0x14, "TM"),
    (0x13, 0x57, None, 0x14, "O"),
    (0x15, 0x3c, None, 0x58, "D"),
    (0x16, 0x3c, None, 0x59, "DG"),
    (0x17, 0x3c, None, 0x5a, "DG"),
    (0x1c, 0x3c, None, 0x5b, "DG"),
    (0x21, 0x3c, None, 0x5c, "DBO"),
    (0x22, 0x3c, None, 0x5d, "DBO"),
    (0x23, 0x4d, Some(ZWJ), 0x7a, "M"),
    (0x24, 0x4d, Some(ZWJ), 0x4e, "B"),
    (0x28, 0x3c, None, 0x29, "D"),
    (0x28, 0x4d, Some(ZWJ), 0x7b, "M"),
    (0x2b, 0x3c, None, 0x5e, "DG"),
    (0x2f, 0x3c, None, 0x5f, "DB"),
    (0x2c, 0x41, Some(0x41), 0x0b, "L"),
    (0x30, 0x3c, None, 0x31, "D"),
    (0x30, 0x4d, Some(ZWJ), 0x7c, "M"),
    (0x32, 0x4d, Some(ZWJ), 0x7d, "M"),
    (0x33, 0x3c, None, 0x34, "D"),
    (0x33, 0x4d, Some(ZWJ), 0x7e, "M"),
    (0x35, 0x41, None, 0x2e, "L"),
    (0x3e, 0x45, None, 0x49, "DJ"),
    (0x3e, 0x46, None, 0x4a, "D"),
    (0x3e, 0x47, None, 0x4b, "DJ"),
    (0x3e, 0x48, None, 0x4c, "DJ"),
    (0x3f, 0x55, None, 0x40, "K"),
    (0x41, 0x41, None, 0x42, "G"),
    (0x46, 0x3e, None, 0x4a, "TM"),
    (0x46, 0x42, Some(0x55), 0x4b, "K"),
    (0x46, 0x42, None, 0x4a, "K"),
    (0x46, 0x46, None, 0x48, "M"),
    (0x46, 0x55, None, 0x47, "LK"),
    (0x46, 0x56, None, 0x48, "LK"),
    (0x46, 0x57, None, 0x4c, "TM"),
    (0x47, 0x3e, None, 0x4b, "BOTM"),
    (0x47, 0x57, None, 0x4c, "BO"),
    (0x4a, 0x55, None, 0x4b, "K"),
    (0x72, 0x3f, None, 0x07, "G"),
    (0x72, 0x40, None, 0x08, "G"),
    (0x72, 0x47, None, 0x0f, "G"),
    (0x73, 0x41, None, 0x09, "G"),
    (0x73, 0x42, None, 0x0a, "G"),
    (0x73, 0x4b, None, 0x13, "G"),
];

/// Characters that can be composed are composed.
pub(crate) fn normalize_indic(word: &mut String) {
    if !word.chars().any(|letter| ('\u{900}'..='\u{d7f}').contains(&letter)) {
        return;
    }
    edit_letters(word, |w| {
        let mut out: Vec<char> = Vec::with_capacity(w.len());
        let mut rest = w.as_slice();
        while let Some(first) = rest.first() {
            let (letter, used) = compose(rest).unwrap_or((*first, 1));
            out.push(letter);
            rest = &rest[used..];
        }
        *w = out;
    });
}

/// The composition of the first characters, and their number.
fn compose(rest: &[char]) -> Option<(char, usize)> {
    let block = u32::from(*rest.first()?) & !0x7f;
    let (script, _) = SCRIPTS.iter().find(|(_, from)| *from == block)?;
    let place = |at: usize| {
        let letter = *rest.get(at)?;
        match u32::from(letter) {
            0x200d if at == 2 => Some(ZWJ),
            code => (code & !0x7f == block).then(|| code - block),
        }
    };
    let (first, second, third) = (place(0)?, place(1)?, place(2));
    let fits = |row: &&(u32, u32, Option<u32>, u32, &str)| {
        row.0 == first && row.1 == second && (row.2.is_none() || row.2 == third) && row.4.contains(*script)
    };
    let (.., three, to, _) = COMPOSED.iter().find(fits)?;
    Some((char::from_u32(block + to)?, if three.is_some() { 3 } else { 2 }))
}

/// One spelling of Hindi: long vowels are short, nasals are the dot, and marks that change nothing are left out.
pub(crate) fn normalize_hindi(word: &mut String) {
    edit_letters(word, |w| {
        let mut out: Vec<char> = Vec::with_capacity(w.len());
        let mut letters = w.iter().copied().peekable();
        while let Some(letter) = letters.next() {
            out.push(match letter {
                '\u{928}' if letters.peek() == Some(&'\u{94d}') => {
                    letters.next();
                    '\u{902}'
                }
                '\u{901}' => '\u{902}',
                '\u{93c}' | '\u{94d}' | '\u{200c}' | '\u{200d}' => continue,
                '\u{929}' => '\u{928}',
                '\u{931}' => '\u{930}',
                '\u{934}' => '\u{933}',
                '\u{958}' => '\u{915}',
                '\u{959}' => '\u{916}',
                '\u{95a}' => '\u{917}',
                '\u{95b}' => '\u{91c}',
                '\u{95c}' => '\u{921}',
                '\u{95d}' => '\u{922}',
                '\u{95e}' => '\u{92b}',
                '\u{95f}' => '\u{92f}',
                '\u{945}' | '\u{946}' | '\u{948}' => '\u{947}',
                '\u{949}' | '\u{94a}' | '\u{94c}' => '\u{94b}',
                '\u{90d}' | '\u{90e}' | '\u{910}' => '\u{90f}',
                '\u{911}' | '\u{912}' | '\u{914}' => '\u{913}',
                '\u{972}' | '\u{906}' => '\u{905}',
                '\u{908}' => '\u{907}',
                '\u{90a}' => '\u{909}',
                '\u{960}' => '\u{90b}',
                '\u{961}' => '\u{90c}',
                '\u{940}' => '\u{93f}',
                '\u{942}' => '\u{941}',
                '\u{944}' => '\u{943}',
                '\u{963}' => '\u{962}',
                letter => letter,
            });
        }
        *w = out;
    });
}

/// The light stemmer of Hindi: one ending, the longest; two letters must be left.
pub(crate) fn hindi(word: &mut String) {
    edit_letters(word, |w| {
        drop_first(w, HINDI);
    });
}

const HINDI: &[(usize, &[&str])] = &[
    (2, &["ाएंगी", "ाएंगे", "ाऊंगी", "ाऊंगा", "ाइयाँ", "ाइयों", "ाइयां"]),
    (
        2,
        &[
            "ाएगी",
            "ाएगा",
            "ाओगी",
            "ाओगे",
            "एंगी",
            "ेंगी",
            "एंगे",
            "ेंगे",
            "ूंगी",
            "ूंगा",
            "ातीं",
            "नाओं",
            "नाएं",
            "ताओं",
            "ताएं",
            "ियाँ",
            "ियों",
            "ियां",
        ],
    ),
    (
        2,
        &[
            "ाकर",
            "ाइए",
            "ाईं",
            "ाया",
            "ेगी",
            "ेगा",
            "ोगी",
            "ोगे",
            "ाने",
            "ाना",
            "ाते",
            "ाती",
            "ाता",
            "तीं",
            "ाओं",
            "ाएं",
            "ुओं",
            "ुएं",
            "ुआं",
        ],
    ),
    (
        2,
        &[
            "कर", "ाओ", "िए", "ाई", "ाए", "ने", "नी", "ना", "ते", "ीं", "ती", "ता", "ाँ", "ां", "ों", "ें",
        ],
    ),
    (2, &["ो", "े", "ू", "ु", "ी", "ि", "ा"]),
];

/// One spelling of Bengali.
pub(crate) fn normalize_bengali(word: &mut String) {
    const HASANTA: char = '\u{9cd}';
    edit_letters(word, |w| {
        let mut at = 0;
        while at < w.len() {
            let (one, two) = (w.get(at + 1).copied(), w.get(at + 2).copied());
            match w[at] {
                '\u{981}' => {
                    w.remove(at);
                    continue;
                }
                '\u{9c0}' => w[at] = '\u{9bf}',
                '\u{9c2}' => w[at] = '\u{9c1}',
                '\u{995}' if one == Some(HASANTA) && two == Some('\u{9bf}') => {
                    if at == 0 {
                        w[at] = '\u{996}';
                        w.drain(1..3);
                    } else {
                        w[at + 1] = '\u{996}';
                        w.remove(at + 2);
                    }
                }
                '\u{999}' => w[at] = '\u{982}',
                '\u{9af}' if at == 2 && w[1] == HASANTA => {
                    w[1] = '\u{9c7}';
                    let vowel = one == Some('\u{9be}');
                    w.drain(2..if vowel { 4 } else { 3 });
                    continue;
                }
                '\u{9af}' if at >= 1 && w[at - 1] == HASANTA => {
                    w.drain(at - 1..=at);
                    at -= 1;
                    continue;
                }
                '\u{9ac}' if at >= 2 && w[at - 1] == HASANTA => {
                    if at == 2 || at >= 5 && w[at - 3] == HASANTA {
                        w.drain(at - 1..=at);
                        at -= 1;
                    } else {
                        w[at - 1] = w[at - 2];
                        w.remove(at);
                    }
                    continue;
                }
                '\u{983}' => match one {
                    Some(letter) => w[at] = letter,
                    None if w.len() <= 3 => w[at] = '\u{9b9}',
                    None => drop(w.pop()),
                },
                '\u{9b6}' | '\u{9b7}' => w[at] = '\u{9b8}',
                '\u{9a3}' => w[at] = '\u{9a8}',
                '\u{9dc}' | '\u{9dd}' => w[at] = '\u{9b0}',
                '\u{9ce}' => w[at] = '\u{9a4}',
                _ => {}
            }
            at += 1;
        }
    });
}

/// The stemmer of Bengali: one ending, the longest; two letters must be left.
pub(crate) fn bengali(word: &mut String) {
    edit_letters(word, |w| {
        drop_first(w, BENGALI);
    });
}

const BENGALI: &[(usize, &[&str])] = &[
    (2, &["িয়াছিলাম", "িতেছিলাম", "িতেছিলেন", "ইতেছিলেন", "িয়াছিলেন", "ইয়াছিলেন"]),
    (2, &["িতেছিলি", "িতেছিলে", "িয়াছিলা", "িয়াছিলে", "িতেছিলা", "িয়াছিলি", "য়েদেরকে"]),
    (2, &["িতেছিস", "িতেছেন", "িয়াছিস", "িয়াছেন", "েছিলাম", "েছিলেন", "েদেরকে"]),
    (
        2,
        &[
            "িতেছি",
            "িতেছা",
            "িতেছে",
            "ছিলাম",
            "ছিলেন",
            "িয়াছি",
            "িয়াছা",
            "িয়াছে",
            "েছিলে",
            "েছিলা",
            "য়েদের",
            "দেরকে",
        ],
    ),
    (
        2,
        &[
            "িলাম",
            "িলেন",
            "িতাম",
            "িতেন",
            "িবেন",
            "ছিলি",
            "ছিলে",
            "ছিলা",
            "তেছে",
            "িতেছ",
            "খানা",
            "খানি",
            "গুলো",
            "গুলি",
            "য়েরা",
            "েদের",
        ],
    ),
    (
        2,
        &[
            "লাম",
            "িলি",
            "ইলি",
            "িলে",
            "ইলে",
            "লেন",
            "িলা",
            "ইলা",
            "তাম",
            "িতি",
            "ইতি",
            "িতে",
            "ইতে",
            "তেন",
            "িতা",
            "িবা",
            "ইবা",
            "িবি",
            "ইবি",
            "বেন",
            "িবে",
            "ইবে",
            "ছেন",
            "য়োন",
            "য়ের",
            "েরা",
            "দের",
        ],
    ),
    (
        2,
        &[
            "িস", "েন", "লি", "লে", "লা", "তি", "তে", "তা", "বি", "বে", "বা", "ছি", "ছা", "ছে", "ুন", "ুক", "টা", "টি", "নি", "ের", "রা",
            "কে",
        ],
    ),
    (2, &["ি", "ী", "া", "ো", "ে", "ব", "ত"]),
];
