//! `_rank_eval`: searches whose first hits somebody rated, and how good they are by that.
//!
//! Not here: the measures, which are `dsl::rank_eval`'s.

use crate::actions::search::{apply_search_type, run_search};
use crate::answer_room::AnswerRoom;
use crate::call::Call;
use crate::envelope;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use dsl::rank_eval::{RankEval, RankMetric, Rated, Searched, show};
use dsl::search::SearchRequest;
use model::{Result, Target};
use serde_json::{Map, Value, json};

/// `GET /i/_rank_eval`. A search that fails is told beside the others.
#[boxed]
pub(crate) async fn rank_eval(mut call: Call) -> Result<Answer> {
    let search_type = call.params.take("search_type");
    let target = call.target()?;
    let body = call.json_needed()?;
    call.params.finish()?;
    // Refused as a whole, and not search by search.
    apply_search_type(search_type.as_deref(), &mut SearchRequest::new(call.dialect), false)?;
    let RankEval { requests, metric } = RankEval::parse(body, call.dialect)?;
    let (mut details, mut failures) = (Map::new(), Map::new());
    let (mut sum, mut room) = (0.0, AnswerRoom::new(&call.rest));
    for rated in &requests {
        room.check()?;
        match evaluate(&call, &target, rated, &metric, search_type.as_deref()).await {
            Ok((score, detail)) => {
                sum += score;
                room.take(detail.to_string().len());
                details.insert(rated.id.clone(), detail);
            }
            Err(error) => {
                let mut body = envelope::render(&error, call.dialect);
                if let Some(body) = body.as_object_mut() {
                    body.remove("status");
                }
                failures.insert(rated.id.clone(), body);
            }
        }
    }
    let score = match details.len() {
        0 => json!("NaN"),
        count => json!(sum / count as f64),
    };
    Ok(Answer::ok(
        json!({ "metric_score": score, "details": details, "failures": failures }),
    ))
}

/// One search: its score and what there is to tell of it.
async fn evaluate(
    call: &Call,
    target: &Target,
    rated: &Rated,
    metric: &RankMetric,
    search_type: Option<&str>,
) -> Result<(f64, Value)> {
    let mut request = match &rated.search {
        Searched::Request(request) => (**request).clone(),
        Searched::Template { text, params } => {
            let text = dsl::template::render(text, params)?;
            let mut request = SearchRequest::read(text.as_bytes(), call.reading(), call.dialect)?;
            show(&mut request, &rated.summary_fields);
            request
        }
    };
    request.size = metric.window;
    apply_search_type(search_type, &mut request, false)?;
    let response = run_search(call, target, request).await?;
    let (mut hits, mut unrated, mut ratings) = (Vec::new(), Vec::new(), Vec::new());
    for hit in &response.hits.hits {
        let (index, id) = (hit.index.to_string(), hit.id.id.to_string());
        let rating = rated.ratings.get(&(index.clone(), id.clone())).copied();
        if rating.is_none() {
            unrated.push(json!({ "_index": index, "_id": id }));
        }
        hits.push(json!({ "hit": hit.render(call.dialect), "rating": rating }));
        ratings.push(rating);
    }
    let quality = metric.measure(&ratings, rated.ratings.values().copied());
    let detail = json!({ "metric_score": quality.score, "unrated_docs": unrated, "hits": hits,
        "metric_details": quality.details });
    Ok((quality.score, detail))
}
