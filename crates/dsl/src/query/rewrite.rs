//! How the words that a pattern or a fuzzy word stands for are scored: `rewrite` and `fuzzy_rewrite`.

use super::words::not_created;
use model::{Dialect, Persona, Result};

/// A method by its name. By default each word is scored by its own statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// All words, with one score. The names tell of ways to get there, which are the engine's to choose.
    ConstantScore(&'static str),
    /// The same of so few words that a `bool` may have them.
    ConstantScoreBoolean,
    /// Each word scores, of so few that a `bool` may have them.
    ScoringBoolean,
    /// The best so many words score.
    TopTerms(u32),
    /// The best so many words, each with one score.
    TopTermsBoost(u32),
    /// The best so many words score as if all were as frequent as the commonest of them.
    TopTermsBlendedFreqs(u32),
}

use Rewrite::{ConstantScore, ConstantScoreBoolean, ScoringBoolean, TopTerms, TopTermsBlendedFreqs, TopTermsBoost};

const NAMED: &[(&str, Rewrite)] = &[
    ("constant_score", ConstantScore("constant_score")),
    ("constant_score_boolean", ConstantScoreBoolean),
    ("scoring_boolean", ScoringBoolean),
];

model::assert_words_differ!(NAMED; 0, "each way to rewrite has one row");

/// Names that came with Elasticsearch 8.
const NAMED_8: &[(&str, Rewrite)] = &[("constant_score_blended", ConstantScore("constant_score_blended"))];

/// Names that went with 2015.
const NAMED_2015: &[(&str, Rewrite)] = &[
    ("constant_score_auto", ConstantScore("constant_score_auto")),
    ("constant_score_filter", ConstantScore("constant_score_filter")),
];

/// Names that end with a number; the longer ones first.
const COUNTED: &[(&str, fn(u32) -> Rewrite)] = &[
    ("top_terms_boost_", TopTermsBoost),
    ("top_terms_blended_freqs_", TopTermsBlendedFreqs),
    ("top_terms_", TopTerms),
];

impl Rewrite {
    /// Reads a name that the dialect knows.
    ///
    /// # Errors
    /// `search_phase_execution_exception`: none has it.
    pub(super) fn parse(name: &str, dialect: Dialect) -> Result<Rewrite> {
        let more = match dialect.persona {
            _ if dialect.rules.takes_former_options => NAMED_2015,
            Persona::Es8 | Persona::Es9 => NAMED_8,
            _ => &[],
        };
        if let Some((_, rewrite)) = NAMED.iter().chain(more).find(|(known, _)| *known == name) {
            return Ok(*rewrite);
        }
        let counted = COUNTED
            .iter()
            .find_map(|(start, of)| Some(of(name.strip_prefix(start)?.parse().ok()?)));
        counted.ok_or_else(|| not_created(format!("Failed to parse rewrite_method [{name}]")))
    }

    /// Its name.
    pub fn name(self) -> String {
        match self {
            ConstantScore(name) => name.to_owned(),
            ConstantScoreBoolean => "constant_score_boolean".to_owned(),
            ScoringBoolean => "scoring_boolean".to_owned(),
            TopTerms(count) => format!("top_terms_{count}"),
            TopTermsBoost(count) => format!("top_terms_boost_{count}"),
            TopTermsBlendedFreqs(count) => format!("top_terms_blended_freqs_{count}"),
        }
    }
}
