//! `rescore`: the best documents, scored anew by a second query.

use super::Ranked;
use crate::Searched;
use crate::context::Context;
use crate::scorers::planned::Part;
use model::Result;

/// Scores the best documents anew.
pub(crate) fn rescore(views: &[Searched], ranked: &mut [Ranked], rescore: &dsl::search::Rescore, cx: &Context<'_>) -> Result<()> {
    let parts = views
        .iter()
        .map(|(view, _)| crate::clauses::part(view, Some(&rescore.query), cx, None))
        .collect::<Result<Vec<Part>>>()?;
    let window = rescore.window_size.min(ranked.len());
    for one in &mut ranked[..window] {
        let segment = &views[one.view].0.segments[one.segment];
        let first = one.score * rescore.query_weight;
        let part = &parts[one.view];
        let second = crate::scorers::node::score_at(part.node.scorer(segment)?, one.doc);
        part.check()?;
        one.score = match second.map(|s| s * rescore.rescore_query_weight) {
            None => first,
            Some(second) => match rescore.score_mode.as_str() {
                "multiply" => first * second,
                "avg" => (first + second) / 2.0,
                "max" => first.max(second),
                "min" => first.min(second),
                _ => first + second,
            },
        };
    }
    // Hits beyond the window keep their part of a score.
    for one in &mut ranked[window..] {
        one.score *= rescore.query_weight;
    }
    ranked[..window].sort_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then_with(|| (a.view, a.segment, a.doc).cmp(&(b.view, b.segment, b.doc)))
    });
    debug_assert!(
        ranked[..window].iter().all(|one| !one.score.is_nan()),
        "search.md S9: scores that are compared have a total order"
    );
    Ok(())
}
