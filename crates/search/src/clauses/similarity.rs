//! Which similarity scores a field, and with which factors.

use super::Planner;
use crate::fields::target::Target;
use crate::scorers::similarity::{Bm25, FieldStatistics, Rarity, Similarity};
use crate::scorers::tfidf::Classic;
use mapping::Kind;
use serde_json::Value;

impl Planner<'_> {
    /// The factor of every BM25 score: as the index says, else as the dialect does.
    pub(super) fn bm25_factor(&self) -> f32 {
        match self
            .view
            .settings
            .get(model::settings::SIMILARITY_FACTOR.name)
            .and_then(Value::as_str)
        {
            Some("LegacyBM25") => 2.2,
            Some("BM25") => 1.0,
            _ => self.cx.bm25_factor,
        }
    }

    /// Typed indices score as 2015 did, unless they say otherwise.
    pub(super) fn classic(&self) -> bool {
        let setting = self.view.settings.get(model::settings::SIMILARITY_FACTOR.name);
        self.view.rules().classic_similarity && !matches!(setting.and_then(Value::as_str), Some("BM25" | "LegacyBM25"))
    }

    /// The scoring of a term, a phrase or several terms in a field.
    pub(super) fn similarity(
        &self,
        target: &Target<'_>,
        field: FieldStatistics,
        rarities: Vec<Rarity>,
        boost: f32,
    ) -> Similarity {
        if matches!(target.kind.kind, Kind::MatchOnlyText | Kind::ConstantKeyword | Kind::Wildcard) {
            // They keep no frequencies and no lengths.
            return Similarity::Boolean(boost);
        }
        self.similarity_of(target.kind.similarity.as_deref(), field, rarities, boost)
    }

    /// The mapping's `boost` for phrases and expanded words: 1 today, where it counts for terms only.
    pub(super) fn boost_of_several(&self, target: &Target<'_>) -> f32 {
        if self.view.rules().boosts_phrases_by_mapping {
            target.kind.boost
        } else {
            1.0
        }
    }

    /// The same by the name that a field gives its similarity.
    pub(super) fn similarity_of(
        &self,
        name: Option<&str>,
        field: FieldStatistics,
        rarities: Vec<Rarity>,
        boost: f32,
    ) -> Similarity {
        match mapping::similarity::by_name(&self.view.settings, name) {
            Some(mapping::similarity::Similarity::Boolean) => Similarity::Boolean(boost),
            Some(mapping::similarity::Similarity::Bm25 { k1, b }) => {
                let legacy = self.bm25_factor() != 1.0;
                let factor = if legacy { k1 + 1.0 } else { 1.0 };
                Similarity::Bm25(Bm25::with(field, rarities, boost, factor, (k1, b)))
            }
            _ if self.classic() => {
                let docs = crate::seen::docs(self.view);
                Similarity::Classic(Classic::new(docs, rarities, boost, self.query_norm.get()))
            }
            _ => Similarity::Bm25(Bm25::new(field, rarities, boost, self.bm25_factor())),
        }
    }
}
