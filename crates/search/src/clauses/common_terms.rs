//! Text with a `cutoff_frequency`: the rare words are searched for, the frequent ones add to the score of what has them.
//!
//! The rules are those of Lucene's `CommonTermsQuery`.

use super::Planner;
use super::analyzed_text::Positions;
use super::minimum_should_match::minimum_should_match;
use crate::fields::target::Target;
use crate::scorers::bool::BoolNode;
use crate::scorers::node::Shared;
use dsl::query::{MatchQuery, Operator};
use model::Result;
use std::sync::Arc;

/// Is a word in so many of so many documents frequent?
fn is_frequent(doc_freq: u64, docs: u64, cutoff: f32) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "as Lucene counts")]
    let (found, share) = (doc_freq as f32, (cutoff * docs as f32).ceil());
    cutoff >= 1.0 && found > cutoff || found > share
}

impl Planner<'_> {
    /// Words at several positions, told apart by how many documents have them.
    pub(super) fn common_terms(
        &self,
        target: &Target<'_>,
        q: &MatchQuery,
        positions: &Positions,
        cutoff: f32,
        boost: f32,
    ) -> Result<Shared> {
        let docs = crate::seen::docs(self.view);
        let (mut rare, mut frequent) = (Positions::new(), Positions::new());
        for (position, tokens) in positions {
            let mut doc_freq = 0;
            for token in tokens {
                doc_freq = doc_freq.max(self.statistics.doc_freq(&target.text_term(&token.term))?);
            }
            let list = if is_frequent(doc_freq, docs, cutoff) {
                &mut frequent
            } else {
                &mut rare
            };
            list.push((*position, tokens.clone()));
        }
        let (operator, least) = match &q.high_frequency {
            Some(high) => (high.operator, high.minimum_should_match.as_deref()),
            None => (q.operator, q.minimum_should_match.as_deref()),
        };
        let frequent = self.token_nodes(target, q, &frequent, boost)?;
        let rare = self.token_nodes(target, q, &rare, boost)?;
        if rare.is_empty() {
            // Without a rare word all of the frequent ones are wanted, unless some number was asked for.
            let some = match least {
                Some(spec) => minimum_should_match(spec, frequent.len())?,
                None => 0,
            };
            let operator = if some == 0 { Operator::And } else { operator };
            return self.combine_by_operator(frequent, operator, least.filter(|_| some > 0));
        }
        let rare = self.combine_by_operator(rare, q.operator, q.minimum_should_match.as_deref())?;
        if frequent.is_empty() {
            return Ok(rare);
        }
        let frequent = self.combine_by_operator(frequent, operator, least)?;
        Ok(Arc::new(BoolNode {
            must: vec![rare],
            should: vec![frequent],
            coordinated: self.classic(),
            ..BoolNode::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_words() {
        for (found, docs, cutoff, expected) in [
            (3, 6, 0.3, true),
            (2, 6, 0.3, false),
            (1, 6, 0.001, false),
            (2, 6, 0.001, true),
            (5, 6, 3.0, true),
            (3, 6, 3.0, false),
        ] {
            assert_eq!(is_frequent(found, docs, cutoff), expected, "{found} of {docs} by {cutoff}");
        }
    }
}
