//! BM25 as Lucene computes it, from statistics of the documents that have the field; and the choice among similarities.

use super::explain::Explained;
use super::tfidf::Classic;
use mapping::similarity::{B, K1};
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::{DocId, DocSet};

/// Lengths up to this norm are kept exactly.
const EXACT_NORMS: u8 = 39;

/// The unit that a frequency counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// One term.
    Term,
    /// Any of several terms.
    Synonyms,
    /// Terms in their places.
    Phrase,
}

/// The numbers of one field over all segments of an index, deleted documents included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldStatistics {
    /// Documents that have the field.
    pub docs: u64,
    /// Tokens in them.
    pub tokens: u64,
}

impl FieldStatistics {
    /// The mean length of the field.
    pub fn mean_length(self) -> f32 {
        if self.docs == 0 {
            1.0
        } else {
            (self.tokens as f64 / self.docs as f64) as f32
        }
    }
}

/// Inverse document frequency.
pub(crate) fn idf(doc_freq: u64, docs: u64) -> f32 {
    let (n, total) = (doc_freq as f64, docs.max(doc_freq) as f64);
    (1.0 + (total - n + 0.5) / (n + 0.5)).ln() as f32
}

/// A term's (or phrase's, or group of synonyms') frequency in all documents.
#[derive(Clone, Debug, PartialEq)]
pub struct Rarity {
    /// The term, for explanations.
    pub term: String,
    /// Documents that have it.
    pub doc_freq: u64,
}

/// The scoring of one term or phrase in one field.
#[derive(Clone, Debug)]
pub struct Bm25 {
    weight: f32,
    boost: f32,
    k1: f32,
    b: f32,
    factor: f32,
    idf: f32,
    rarities: Vec<Rarity>,
    field: FieldStatistics,
    mean: f32,
    inverse_norms: Arc<[f32; 256]>,
}

/// The distance to the next number.
fn last_place(number: f32) -> f32 {
    number.next_up() - number
}

impl Bm25 {
    /// With the usual numbers; `factor` is k1 + 1 (Elasticsearch, OpenSearch before 3) or 1.
    pub fn new(field: FieldStatistics, rarities: Vec<Rarity>, boost: f32, factor: f32) -> Bm25 {
        Bm25::with(field, rarities, boost, factor, (K1, B))
    }

    /// With numbers of its own: `k1` and `b`.
    pub fn with(field: FieldStatistics, rarities: Vec<Rarity>, boost: f32, factor: f32, (k1, b): (f32, f32)) -> Bm25 {
        debug_assert!(
            rarities.iter().all(|rarity| rarity.doc_freq <= field.docs),
            "a term is in no more documents than its field: {rarities:?} of {field:?}"
        );
        let mean = field.mean_length();
        let idf: f64 = rarities.iter().map(|r| f64::from(idf(r.doc_freq, field.docs))).sum();
        let idf = idf as f32;
        let mut inverse_norms = [0f32; 256];
        for (id, inverse) in inverse_norms.iter_mut().enumerate() {
            let length = FieldNormReader::id_to_fieldnorm(u8::try_from(id).unwrap_or(u8::MAX)) as f32;
            *inverse = 1.0 / (k1 * ((1.0 - b) + b * length / mean));
        }
        Bm25 {
            weight: boost * factor * idf,
            boost,
            k1,
            b,
            factor,
            idf,
            rarities,
            field,
            mean,
            inverse_norms: Arc::new(inverse_norms),
        }
    }

    /// How many documents have each of the terms.
    pub(crate) fn doc_freqs(&self) -> impl ExactSizeIterator<Item = u64> {
        self.rarities.iter().map(|rarity| rarity.doc_freq)
    }

    /// The score of a frequency in a field of a length. Fields without norms count as of length 1.
    #[inline]
    pub fn score(&self, freq: f32, norm: u8) -> f32 {
        let score = self.weight - self.weight / (1.0 + freq * self.inverse_norms[usize::from(norm)]);
        debug_assert!(
            !score.is_finite() || (f64::from(score) / f64::from(last_place(self.unit()))).fract() == 0.0,
            "search.md S11: a score of {score} is a multiple of the last place of {}",
            self.unit()
        );
        score
    }

    /// Half of the weight. Each score is a multiple of its last place. A score is the weight less a part of it. A part of at least half is such
    /// a multiple, and that difference is exact (P. Sterbenz: Floating-point computation, 1974). A smaller part leaves more than half
    /// of the weight, where numbers are no nearer to each other.
    pub(crate) fn unit(&self) -> f32 {
        self.weight / 2.0
    }

    /// How the score came about; `counted` says what the frequency counts.
    pub fn explain(&self, what: &str, counted: Counted, freq: f32, norm: u8) -> Explained {
        let value = self.score(freq, norm);
        let mean = self.mean;
        let length = FieldNormReader::id_to_fieldnorm(norm) as f32;
        let one = |r: &Rarity| {
            Explained::new(
                idf(r.doc_freq, self.field.docs),
                "idf, computed as log(1 + (N - n + 0.5) / (n + 0.5)) from:",
            )
            .of(vec![
                Explained::count(r.doc_freq, "n, number of documents containing term"),
                Explained::count(self.field.docs, "N, total number of documents with field"),
            ])
        };
        let idf = match self.rarities.as_slice() {
            [single] => one(single),
            several => Explained::new(self.idf, "idf, sum of:").of(several.iter().map(one).collect()),
        };
        let tf = Explained::new(
            1.0 - 1.0 / (1.0 + freq * self.inverse_norms[usize::from(norm)]),
            "tf, computed as freq / (freq + k1 * (1 - b + b * dl / avgdl)) from:",
        )
        .of(vec![
            Explained::new(
                freq,
                match counted {
                    Counted::Term => "freq, occurrences of term within document".to_owned(),
                    Counted::Synonyms => format!("termFreq={freq:?}"),
                    Counted::Phrase => format!("phraseFreq={freq:?}"),
                },
            ),
            Explained::new(self.k1, "k1, term saturation parameter"),
            Explained::new(self.b, "b, length normalization parameter"),
            Explained::new(
                length,
                if norm > EXACT_NORMS {
                    "dl, length of field (approximate)"
                } else {
                    "dl, length of field"
                },
            ),
            Explained::new(mean, "avgdl, average length of field"),
        ]);
        let boost = self.boost * self.factor;
        let mut parts = vec![idf, tf];
        if boost != 1.0 {
            parts.insert(0, Explained::new(boost, "boost"));
        }
        let score = Explained::new(value, format!("score(freq={freq:?}), computed as boost * idf * tf from:")).of(parts);
        Explained::new(value, format!("weight({what}) [PerFieldSimilarity], result of:")).of(vec![score])
    }
}

/// The scoring of one term or phrase in one field, by one of the similarities.
#[derive(Clone, Debug)]
pub enum Similarity {
    /// Today's.
    Bm25(Bm25),
    /// That of typed indices.
    Classic(Classic),
    /// Nothing but the query's boost.
    Boolean(f32),
}

impl Similarity {
    /// The boost of the query.
    pub fn boost(&self) -> f32 {
        match self {
            Similarity::Bm25(bm25) => bm25.boost,
            Similarity::Classic(classic) => classic.boost(),
            Similarity::Boolean(boost) => *boost,
        }
    }
    /// The square of its part in the query's norm. BM25 has one only where a typed index asks for it by name.
    pub fn squares(&self) -> f32 {
        match self {
            Similarity::Bm25(bm25) => bm25.boost.powi(2),
            Similarity::Classic(classic) => classic.squares(),
            Similarity::Boolean(boost) => boost.powi(2),
        }
    }
    /// The score of a frequency in a field of a length.
    #[inline]
    pub fn score(&self, freq: f32, norm: u8) -> f32 {
        match self {
            Similarity::Bm25(bm25) => bm25.score(freq, norm),
            Similarity::Classic(classic) => classic.score(freq, norm),
            Similarity::Boolean(boost) => *boost,
        }
    }
    /// How the score came about.
    pub fn explain(&self, what: &str, counted: Counted, freq: f32, norm: u8) -> Explained {
        match self {
            Similarity::Bm25(bm25) => bm25.explain(what, counted, freq, norm),
            Similarity::Classic(classic) => classic.explain(what, counted, freq, norm),
            Similarity::Boolean(boost) => {
                let part = Explained::new(*boost, "boost, query boost");
                let score = Explained::new(*boost, "score(BooleanWeight), computed from:").of(vec![part]);
                Explained::new(*boost, format!("weight({what}) [PerFieldSimilarity], result of:")).of(vec![score])
            }
        }
    }
    /// BM25 whose scores rise with the frequency and fall with the length, so that bounds of blocks hold (search.md S10).
    pub fn as_bm25(&self) -> Option<&Bm25> {
        match self {
            Similarity::Bm25(bm25) if bm25.weight >= 0.0 && bm25.k1 > 0.0 && (0.0..=1.0).contains(&bm25.b) => Some(bm25),
            _ => None,
        }
    }
}

/// A scorer that counts in one field.
pub(crate) trait Counting: DocSet {
    /// At the document where it is: how often, and the length as it is kept.
    fn parts(&self) -> (f32, u8);
}

/// The frequency and the length of a document, if it matches.
pub(crate) fn frequency_at(mut scorer: impl Counting, doc: DocId) -> Option<(f32, u8)> {
    let at = scorer.doc();
    let at = if at < doc { scorer.seek(doc) } else { at };
    (at == doc).then(|| scorer.parts())
}

/// Why a document scores as it does by what is counted in one field; `None`: not at all.
pub(crate) fn explain_at(
    scorer: Option<impl Counting>,
    (segment, doc): (&SegmentView, DocId),
    similarity: &Similarity,
    what: &str,
    counted: Counted,
) -> Option<Explained> {
    let (freq, norm) = frequency_at(scorer?, doc)?;
    let number = segment.shown_number(doc);
    Some(similarity.explain(&format!("{what} in {number}"), counted, freq, norm))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(docs: u64, tokens: u64, doc_freq: u64, freq: f32, norm: u8, expected: f32) {
        let rarity = Rarity {
            term: String::new(),
            doc_freq,
        };
        let bm25 = Bm25::new(FieldStatistics { docs, tokens }, vec![rarity], 1.0, 2.2);
        let got = bm25.score(freq, norm);
        assert!((got - expected).abs() <= expected * 1e-5, "{got} for {expected}");
    }

    #[test]
    fn scores() {
        // One document, one token: ln(1 + 0.5 / 1.5) * 2.2 / 2.2.
        check(1, 1, 1, 1.0, 1, 0.287_682_07);
        check(10, 10, 1, 1.0, 1, 1.992_430_1);
    }
}
