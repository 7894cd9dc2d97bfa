//! Refuses searches before anything is read: windows that are too large, options that exclude each other.

use crate::Searched;
use crate::fields::target::setting;
use dsl::search::{SearchRequest, SortBy};
use model::{Error, ErrorKind, Result, Topic};

/// # Errors
/// The first option that may not be, in Elasticsearch's words; limits with the names of their settings.
pub(super) fn check(views: &[Searched], request: &SearchRequest) -> Result<()> {
    for (view, _) in views {
        let max = setting(view, "index.max_result_window", 10_000);
        let window = request.from.saturating_add(request.size);
        if window > max {
            return Err(Error::illegal(format!(
                "Result window is too large, from + size must be less than or equal to: [{max}] but was [{window}]. \
                 See the scroll api for a more efficient way to request large data sets. This limit can be set by changing \
                 the [index.max_result_window] index level setting."
            ))
            .about(Topic::ResultWindow));
        }
        let max = setting(view, "index.max_rescore_window", max);
        if let Some(rescore) = request.rescore.iter().find(|r| r.window_size > max) {
            return Err(Error::illegal(format!(
                "Rescore window [{}] is too large. It must be less than [{max}]. This prevents allocating massive heaps for \
                 storing the results to be rescored. This limit can be set by changing the [index.max_rescore_window] index \
                 level setting.",
                rescore.window_size
            )));
        }
    }
    if let Some(after) = &request.search_after {
        if request.from > 0 {
            return Err(Error::illegal(
                "`from` parameter must be set to 0 when `search_after` is used.",
            ));
        }
        let keys = request.sort.len().max(1);
        // By the score alone is no sort of today's.
        let by_score = !request.dialect.rules.sorts_by_score_alone
            && matches!(request.sort.as_slice(), [one] if one.by == SortBy::Score && !one.ascending);
        if request.sort.is_empty() || by_score {
            return Err(Error::illegal("Sort must contain at least one field."));
        }
        if after.len() != keys {
            return Err(Error::illegal(format!(
                "search_after has {} value(s) but sort has {keys}.",
                after.len()
            )));
        }
    }
    if request.collapse.is_some() && !request.rescore.is_empty() {
        return Err(Error::illegal("cannot use `collapse` in conjunction with `rescore`"));
    }
    if !request.rescore.is_empty() && request.sort.iter().any(|s| s.by != SortBy::Score) {
        return Err(Error::new(
            ErrorKind::QueryShard,
            "Cannot use [sort] option in conjunction with [rescore].",
        ));
    }
    Ok(())
}
