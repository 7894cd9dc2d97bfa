//! A text with places counted in Java's characters, and its tokens.

use analysis::Analyzer;

/// A text whose places are counted in UTF-16 units.
pub(super) struct Content {
    text: String,
    /// The unit at each byte; empty for ASCII.
    units: Vec<u32>,
    /// The byte at each unit; empty for ASCII.
    bytes: Vec<u32>,
}

/// A token of a text; places in UTF-16 units.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) term: String,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) position: u32,
}

impl Content {
    pub(super) fn new(text: String) -> Content {
        if text.is_ascii() {
            return Content {
                text,
                units: Vec::new(),
                bytes: Vec::new(),
            };
        }
        let mut units = Vec::with_capacity(text.len() + 1);
        let mut bytes = Vec::with_capacity(text.len() + 1);
        for (at, c) in text.char_indices() {
            let unit = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            units.extend(std::iter::repeat_n(unit, c.len_utf8()));
            bytes.extend(std::iter::repeat_n(u32::try_from(at).unwrap_or(u32::MAX), c.len_utf16()));
        }
        units.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        bytes.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        assert_eq!(units.len(), text.len() + 1, "each byte has its unit, and so has the end");
        Content { text, units, bytes }
    }
    pub(super) fn text(&self) -> &str {
        &self.text
    }
    /// Its length in units.
    pub(super) fn len(&self) -> usize {
        self.unit(self.text.len())
    }
    /// The unit at a byte.
    pub(super) fn unit(&self, byte: usize) -> usize {
        self.units.get(byte).map_or(byte, |unit| *unit as usize)
    }
    /// From one unit to another.
    pub(super) fn slice(&self, from: usize, to: usize) -> &str {
        let byte = |unit: usize| match self.bytes.last() {
            None => unit,
            Some(end) => self.bytes.get(unit).unwrap_or(end).to_owned() as usize,
        };
        self.text.get(byte(from)..byte(to).min(self.text.len())).unwrap_or_default()
    }
    /// The tokens that begin no later than `limit`. Without an analyzer the text is one.
    pub(super) fn words(&self, analyzer: &Reading, limit: usize) -> Vec<Word> {
        let mut words = Vec::new();
        match analyzer {
            Reading::Text(analyzer) => analyzer.for_each(&self.text, &mut |token| {
                let start = self.unit(token.start);
                if start <= limit {
                    words.push(Word {
                        term: token.term.clone(),
                        start,
                        end: self.unit(token.end),
                        position: token.position,
                    });
                }
            }),
            Reading::Whole(normalizer) => {
                let term = normalizer
                    .as_ref()
                    .map_or_else(|| self.text.clone(), |n| n.normalize(&self.text));
                words.push(Word {
                    term,
                    start: 0,
                    end: self.len(),
                    position: 0,
                });
            }
        }
        words
    }
}

/// How a field's texts become terms.
pub(super) enum Reading {
    /// Cut into words.
    Text(Analyzer),
    /// One term.
    Whole(Option<Analyzer>),
}

/// The marks around a highlighted word, and the escaping of text.
pub(super) struct Marks {
    pub(super) pre: String,
    pub(super) post: String,
    pub(super) html: bool,
}

impl Marks {
    /// Text outside tags.
    pub(super) fn push(&self, out: &mut String, text: &str) {
        if !self.html {
            out.push_str(text);
            return;
        }
        for c in text.chars() {
            match c {
                '"' => out.push_str("&quot;"),
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '\'' => out.push_str("&#x27;"),
                '/' => out.push_str("&#x2F;"),
                c => out.push(c),
            }
        }
    }
    /// A highlighted word.
    pub(super) fn mark(&self, out: &mut String, text: &str) {
        out.push_str(&self.pre);
        self.push(out, text);
        out.push_str(&self.post);
    }
}
