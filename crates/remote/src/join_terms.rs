//! Key sets of joins as the terms that a cluster knows. Pure.
//!
//! Not here: collecting the keys (`engine::keys`).

use crate::unsupported_error;
use dsl::query::{Clause, KeySet, Query, ScoreMode, TermsQuery};
use model::{Error, ErrorKind, Result};

/// The query with [`TermsQuery`]s in place of [`KeySet`]s.
///
/// # Errors
/// More than `terms_max` keys in one set: the cluster would refuse the clause ([index.max_terms_count]). Scores of a join, and
/// keys of an engine that kept no values.
pub(crate) fn with_terms(query: Query, terms_max: usize) -> Result<Query> {
    query.rewrite(&mut |mut query| {
        if let Clause::KeySet(set) = &query.clause {
            query.clause = Clause::Terms(terms_of(set, terms_max)?);
        }
        Ok(query)
    })
}

fn terms_of(set: &KeySet, terms_max: usize) -> Result<TermsQuery> {
    let field = &set.field;
    if set.score_mode != ScoreMode::None {
        return Err(unsupported_error("[score_mode] of a join other than [none]"));
    }
    let Some(values) = set.keys.terms() else {
        let reason = format!("the keys of the join on [{field}] were kept without their values by another engine");
        return Err(Error::new(ErrorKind::Internal, reason));
    };
    if values.len() > terms_max {
        let reason = format!(
            "the join on [{field}] has [{}] keys; a cluster takes [{terms_max}] as terms, the limit of [terms_max]",
            values.len()
        );
        return Err(Error::new(ErrorKind::TooManyJoinKeys, reason).with("terms_max", terms_max));
    }
    Ok(TermsQuery {
        field: field.clone(),
        values,
        minimum_should_match: None,
        disable_coord: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dsl::query::{BoolQuery, JoinValues, Keys};
    use serde_json::{Value, json};
    use std::sync::Arc;

    struct Values(Option<Vec<Value>>);

    impl JoinValues for Values {
        fn terms(&self) -> Option<Vec<Value>> {
            self.0.clone()
        }
    }

    fn check(keys: Option<Vec<Value>>, score_mode: ScoreMode, expected: std::result::Result<Value, &str>) {
        let set = Clause::KeySet(KeySet {
            field: "to".into(),
            keys: Keys::new(Arc::new(Values(keys))),
            score_mode,
        });
        let query: Query = Clause::Bool(BoolQuery {
            must_not: vec![set.into()],
            ..BoolQuery::default()
        })
        .into();
        let found = with_terms(query, 2).map(|query| query.render()["bool"]["must_not"].clone());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(error), Err(part)) => assert!(error.reason().contains(part), "{error}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn key_sets_are_terms_within_a_bound() {
        let terms = |values: Value| json!([{ "terms": { "to": values } }]);
        check(Some(vec![json!(1), json!("b")]), ScoreMode::None, Ok(terms(json!([1, "b"]))));
        check(Some(Vec::new()), ScoreMode::None, Ok(terms(json!([]))));
        check(
            Some(vec![json!(1), json!(2), json!(3)]),
            ScoreMode::None,
            Err("the limit of [terms_max]"),
        );
        check(None, ScoreMode::None, Err("without their values"));
        check(Some(vec![json!(1)]), ScoreMode::Max, Err("[score_mode]"));
    }
}
