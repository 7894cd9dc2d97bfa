//! The filter of an alias as a query: parsed, and refused where it could not be resolved by itself.
//!
//! Not here: what a filter looks up or joins (`alias_filters`).

use dsl::query::{Clause, Query};
use model::{Dialect, Error, Result};
use serde_json::Value;

/// The query of one filter.
pub(crate) fn parse(filter: &Value, typed: bool) -> Result<Query> {
    let dialect = Dialect::default().with_types(typed);
    dsl::query::parse_filter_bytes(filter.to_string().as_bytes(), dialect)
}

/// Refuses a filter that is no query, or one that could not be resolved by itself.
///
/// # Errors
/// Why it is none.
pub(crate) fn check(filter: &Value, typed: bool) -> Result<()> {
    let query = parse(filter, typed)?;
    let mut unseen = Ok(());
    query.visit(&mut |query| match &query.clause {
        Clause::Join(join) if join.inner_hits.is_some() => {
            unseen = Err(Error::illegal(
                "[join] inner_hits have no place in the filter of an alias: nothing shows them",
            ));
        }
        Clause::TermsLookup(lookup) if lookup.index.is_none() => {
            unseen = Err(Error::illegal("[terms] query lookup element requires specifying the index."));
        }
        _ => {}
    });
    unseen
}
