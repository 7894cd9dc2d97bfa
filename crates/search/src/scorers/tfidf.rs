//! TF/IDF as Lucene 5 computed it: what typed indices score with, as the servers of 2015 did.
//!
//! A score is the query's weight, `boost * idf * queryNorm`, times the field's, `sqrt(freq) * idf * norm`. Boosts arrive here
//! with the query's norm in them; how that is found, and what a choice gives for how much of it matches, is in
//! `clauses/query_norm.rs` and `coord.rs`.

use super::explain::Explained;
use super::similarity::{Counted, Rarity};
use std::sync::LazyLock;
use tantivy::fieldnorm::FieldNormReader;

/// The scoring of one term or phrase in one field.
#[derive(Clone, Debug)]
pub struct Classic {
    boost: f32,
    query_norm: f32,
    idf: f32,
    rarities: Vec<Rarity>,
    /// All documents of the index: deleted, nested and other types' ones too.
    docs: u64,
}

/// Inverse document frequency, of all documents.
pub(crate) fn idf(doc_freq: u64, docs: u64) -> f32 {
    ((docs.max(doc_freq) as f64 / (doc_freq as f64 + 1.0)).ln() + 1.0) as f32
}

/// One over the root of a length, as a byte of three bits of mantissa kept it.
fn norm(length: u32) -> f32 {
    const LOST: u32 = (1 << 21) - 1;
    let exact = 1.0 / f64::from(length.max(1)).sqrt();
    f32::from_bits((exact as f32).to_bits() & !LOST)
}

/// That of every length that is kept.
static NORMS: LazyLock<[f32; 256]> =
    LazyLock::new(|| std::array::from_fn(|id| norm(FieldNormReader::id_to_fieldnorm(u8::try_from(id).unwrap_or(u8::MAX)))));

impl Classic {
    /// `boost` has `query_norm` in it, which is kept apart for explanations alone.
    pub fn new(docs: u64, rarities: Vec<Rarity>, boost: f32, query_norm: f32) -> Classic {
        let idf: f64 = rarities.iter().map(|r| f64::from(idf(r.doc_freq, docs))).sum();
        Classic {
            boost,
            query_norm,
            idf: idf as f32,
            rarities,
            docs,
        }
    }

    /// The boost of the query, without its norm.
    pub fn boost(&self) -> f32 {
        self.boost / self.query_norm
    }

    /// The square of its part in the query: what the query's norm is made of.
    pub fn squares(&self) -> f32 {
        (self.boost * self.idf).powi(2)
    }

    /// The score of a frequency in a field of a length. Fields without norms count as of length 1.
    #[inline]
    pub fn score(&self, freq: f32, norm: u8) -> f32 {
        self.boost * self.idf * (freq.sqrt() * self.idf * NORMS[usize::from(norm)])
    }

    /// How the score came about, in Lucene's words of 2015. `what` ends with the document: `field:word in 3`.
    pub fn explain(&self, what: &str, counted: Counted, freq: f32, norm: u8) -> Explained {
        let value = self.score(freq, norm);
        let (_, doc) = what.rsplit_once(' ').unwrap_or(("", "0"));
        let kept = NORMS[usize::from(norm)];
        let frequency = match counted {
            Counted::Term | Counted::Synonyms => format!("termFreq={freq:?}"),
            Counted::Phrase => format!("phraseFreq={freq:?}"),
        };
        let one = |r: &Rarity| {
            let what = format!("idf(docFreq={}, maxDocs={})", r.doc_freq, self.docs);
            Explained::new(idf(r.doc_freq, self.docs), what)
        };
        let idf = || match self.rarities.as_slice() {
            [single] => one(single),
            several => Explained::new(self.idf, "idf(), sum of:").of(several.iter().map(one).collect()),
        };
        let of_field = freq.sqrt() * self.idf * kept;
        let field = Explained::new(of_field, format!("fieldWeight in {doc}, product of:")).of(vec![
            Explained::new(freq.sqrt(), format!("tf(freq={freq:?}), with freq of:")).of(vec![Explained::new(freq, frequency)]),
            idf(),
            Explained::new(kept, format!("fieldNorm(doc={doc})")),
        ]);
        let of_query = self.boost * self.idf;
        let inner = if of_query == 1.0 {
            field
        } else {
            let boost = self.boost();
            let mut parts = vec![idf(), Explained::new(self.query_norm, "queryNorm")];
            if (boost - 1.0).abs() > 1e-6 {
                parts.insert(0, Explained::new(boost, "boost"));
            }
            let query = Explained::new(of_query, "queryWeight, product of:").of(parts);
            Explained::new(value, format!("score(doc={doc},freq={freq:?}), product of:")).of(vec![query, field])
        };
        Explained::new(value, format!("weight({what}) [PerFieldSimilarity], result of:")).of(vec![inner])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_of_lengths() {
        for (length, expected) in [
            (1, 1.0),
            (2, 0.625),
            (3, 0.5),
            (4, 0.5),
            (5, 0.4375),
            (6, 0.375),
            (10, 0.3125),
            (100, 0.09375),
        ] {
            assert_eq!(norm(length), expected, "of {length}");
        }
    }

    #[test]
    fn one_word_in_one_document() {
        let rarity = Rarity {
            term: String::new(),
            doc_freq: 1,
        };
        // ln(1 / 2) + 1, and its own inverse as the query's norm.
        let plain = Classic::new(1, vec![rarity.clone()], 1.0, 1.0);
        let norm = 1.0 / plain.squares().sqrt();
        let normed = Classic::new(1, vec![rarity], norm, norm);
        assert!((normed.score(1.0, 1) - 0.306_852_82).abs() < 1e-6);
    }
}
