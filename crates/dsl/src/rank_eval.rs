//! `_rank_eval`: how good are the first hits of searches, by documents that somebody rated.
//!
//! The measures are those of the reference: precision, recall and mean reciprocal rank over ratings from a threshold on,
//! discounted cumulative gain (Järvelin and Kekäläinen 2002) and expected reciprocal rank (Chapelle et al. 2009).
//! Not here: running the searches, which is `rest`'s.

use crate::json::{Fields, Node, failed_field};
use crate::search::{SearchRequest, SourceSpec};
use model::{Dialect, Error, ErrorKind, Result};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};

/// Hits that a measure looks at unless it says how many.
const WINDOW: usize = 10;

/// The body of a request.
#[derive(Debug)]
pub struct RankEval {
    /// The searches and the ratings of their hits, in the order given.
    pub requests: Vec<Rated>,
    /// How they are measured.
    pub metric: RankMetric,
}

/// One search with its ratings.
#[derive(Debug)]
pub struct Rated {
    pub id: String,
    pub search: Searched,
    /// By index and id.
    pub ratings: HashMap<(String, String), u32>,
    /// Fields of the source that are shown with a hit.
    pub summary_fields: Vec<String>,
}

/// The search.
#[derive(Debug)]
pub enum Searched {
    Request(Box<SearchRequest>),
    /// The text of a template and its parameters.
    Template {
        text: String,
        params: Map<String, Value>,
    },
}

/// A measure of one search's first hits.
#[derive(Clone, Debug, PartialEq)]
pub struct RankMetric {
    /// How many hits are asked for.
    pub window: usize,
    of: Measure,
}

#[derive(Clone, Debug, PartialEq)]
enum Measure {
    Precision { threshold: u32, ignore_unlabeled: bool },
    Recall { threshold: u32 },
    ReciprocalRank { threshold: u32 },
    CumulativeGain { normalize: bool, unknown: Option<u32> },
    ExpectedReciprocalRank { maximum: u32, unknown: Option<u32> },
}

/// The result of a measure.
#[derive(Debug, PartialEq)]
pub struct Quality {
    pub score: f64,
    /// `{"precision": {"relevant_docs_retrieved": …}}`.
    pub details: Value,
}

impl RankEval {
    /// Reads a body.
    ///
    /// # Errors
    /// A part is missing, unknown or of the wrong kind; the refusal has its position.
    pub fn parse(node: Node, dialect: Dialect) -> Result<RankEval> {
        let mut fields = node.fields("rank_eval")?.of_object(true);
        let absent: Vec<&str> = ["requests", "metric"].into_iter().filter(|name| !fields.has(name)).collect();
        if !absent.is_empty() {
            return Err(Error::illegal(format!("Required [{}]", absent.join(", "))));
        }
        let templates = fields.take("templates").map(|node| within("templates", node, templates));
        let templates = templates.transpose()?.unwrap_or_default();
        let metric = within("metric", fields.require("metric")?, RankMetric::parse)?;
        let requests = within("requests", fields.require("requests")?, |node| {
            let read = |node| Rated::parse(node, &templates, dialect);
            node.items().into_iter().map(read).collect::<Result<Vec<_>>>()
        })?;
        // Searches are run one after another.
        if fields.take_i64("max_concurrent_searches")?.is_some_and(|most| most < 1) {
            return Err(Error::illegal("maxConcurrentSearches must be positive"));
        }
        fields.finish()?;
        if requests.is_empty() {
            let why = "Cannot evaluate ranking if no search requests with rated results are provided. Seen: []";
            return Err(unbuilt("rank_eval", Error::illegal(why)));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = requests.iter().find(|one| !seen.insert(&one.id)) {
            return Err(Error::illegal(format!("Found duplicate rated request id [{}]", twice.id)));
        }
        Ok(RankEval { requests, metric })
    }
}

/// Reads a part of the body; its errors say which.
fn within<T>(name: &str, node: Node, read: impl FnOnce(Node) -> Result<T>) -> Result<T> {
    let at = (node.line, node.col);
    read(node).map_err(|cause| failed_field("rank_eval", name, at, cause))
}

fn unbuilt(what: &str, cause: Error) -> Error {
    let reason = format!("Failed to build [{what}] after last required field arrived");
    Error::new(ErrorKind::XContentParse, reason).with_cause(cause)
}

/// Templates by their ids.
fn templates(node: Node) -> Result<HashMap<String, String>> {
    let mut out = HashMap::new();
    for node in node.items() {
        let mut fields = node.fields("templates")?.of_object(true);
        let id = fields.require("id")?.string("id")?;
        let mut template = fields.require("template")?.fields("template")?;
        let text = match template.take_any(&["source", "inline"]) {
            Some(source) => source.as_str().map_or_else(|| source.to_value().to_string(), str::to_owned),
            None => {
                return Err(Error::illegal(
                    "must specify either [source] for an inline script or [id] for a stored script",
                ));
            }
        };
        if let Some(lang) = template.take_string("lang")?.filter(|lang| lang != "mustache") {
            return Err(Error::illegal(format!("script_lang not supported [{lang}]")));
        }
        template.finish()?;
        fields.finish()?;
        out.insert(id, text);
    }
    Ok(out)
}

impl Rated {
    fn parse(node: Node, templates: &HashMap<String, String>, dialect: Dialect) -> Result<Rated> {
        let mut fields = node.fields("request")?.of_object(true);
        let id = fields.require("id")?.string("id")?;
        let mut ratings = HashMap::new();
        for node in fields.require("ratings")?.items() {
            let mut rating = node.fields("rated_document")?.of_object(true);
            let key = (
                rating.require("_index")?.string("_index")?,
                rating.require("_id")?.string("_id")?,
            );
            let value = rating.require("rating")?.u32("rating")?;
            rating.finish()?;
            if ratings.insert(key.clone(), value).is_some() {
                let why = format!(
                    "Found duplicate rated document key [{{\"_index\":\"{}\",\"_id\":\"{}\"}}]",
                    key.0, key.1
                );
                return Err(unbuilt("request", Error::illegal(why)));
            }
        }
        let summary_fields = fields.take_strings("summary_fields")?.unwrap_or_default();
        let params = fields.take_map("params")?;
        let template = fields.take_string("template_id")?;
        let request = fields.take("request");
        let search = match (request, template) {
            (Some(node), None) => {
                let mut request = SearchRequest::parse(node, dialect)?;
                plain(&request).map_err(|cause| unbuilt("request", cause))?;
                show(&mut request, &summary_fields);
                Searched::Request(Box::new(request))
            }
            (None, Some(name)) => Searched::Template {
                text: templates
                    .get(&name)
                    .cloned()
                    .ok_or_else(|| Error::illegal(format!("Template [{name}] is not among [templates]")))?,
                params: params.unwrap_or_default(),
            },
            (Some(_), Some(_)) => {
                let why = format!("Ambiguous rated request: Set both, template_id and request for the request id: {id}");
                return Err(unbuilt("request", Error::illegal(why)));
            }
            (None, None) => {
                let why = format!(
                    "Cannot evaluate ranking if neither template nor evaluation request is provided. Seen for request id: {id}"
                );
                return Err(unbuilt("rank_eval", Error::new(ErrorKind::IllegalState, why).status_of(400)));
            }
        };
        fields.finish()?;
        Ok(Rated {
            id,
            search,
            ratings,
            summary_fields,
        })
    }
}

/// Rated searches have hits and nothing else.
fn plain(request: &SearchRequest) -> Result<()> {
    let other = [
        (request.aggs.is_empty(), "aggregations."),
        (request.suggest.is_empty(), "a suggest section."),
        (request.highlight.is_none(), "a highlighter section."),
        (!request.explain, "explain."),
        (!request.profile, "profile."),
    ];
    match other.into_iter().find(|(without, _)| !without) {
        Some((_, what)) => Err(Error::illegal(format!("Query in rated requests should not contain {what}"))),
        None => Ok(()),
    }
}

/// Sources are shown by their summary only.
pub fn show(request: &mut SearchRequest, summary_fields: &[String]) {
    request.source = if summary_fields.is_empty() {
        SourceSpec::None
    } else {
        SourceSpec::Filtered {
            includes: summary_fields.to_vec(),
            excludes: Vec::new(),
        }
    };
}

impl RankMetric {
    fn parse(node: Node) -> Result<RankMetric> {
        let mut named = node.fields("metric")?;
        let Some((name, node)) = named.next_field() else {
            return Err(Error::illegal("[metric] must name a measure"));
        };
        let at = (node.line, node.col);
        let unknown = || {
            let known = [
                "precision",
                "recall",
                "mean_reciprocal_rank",
                "dcg",
                "expected_reciprocal_rank",
            ];
            let meant = model::nearest::question(&name, known);
            Error::new(
                ErrorKind::NamedObjectNotFound,
                format!("[{}:{}] unknown field [{name}]{meant}", at.0, at.1),
            )
        };
        let mut fields = node.fields(&name)?.of_object(true);
        let threshold = |fields: &mut Fields| Ok::<_, Error>(fields.take_u32("relevant_rating_threshold")?.unwrap_or(1));
        let of = match name.as_str() {
            "precision" => Measure::Precision {
                threshold: threshold(&mut fields)?,
                ignore_unlabeled: fields.take_bool("ignore_unlabeled")?.unwrap_or(false),
            },
            "recall" => Measure::Recall {
                threshold: threshold(&mut fields)?,
            },
            "mean_reciprocal_rank" => Measure::ReciprocalRank {
                threshold: threshold(&mut fields)?,
            },
            "dcg" => Measure::CumulativeGain {
                normalize: fields.take_bool("normalize")?.unwrap_or(false),
                unknown: fields.take_u32("unknown_doc_rating")?,
            },
            "expected_reciprocal_rank" => Measure::ExpectedReciprocalRank {
                maximum: fields
                    .take_u32("maximum_relevance")?
                    .ok_or_else(|| Error::illegal("Required [maximum_relevance]"))?,
                unknown: fields.take_u32("unknown_doc_rating")?,
            },
            _ => return Err(unknown()),
        };
        let window = fields.take_usize("k")?.unwrap_or(WINDOW);
        fields.finish()?;
        if window == 0 {
            return Err(unbuilt(&name, Error::illegal("Window size k must be positive.")));
        }
        Ok(RankMetric { window, of })
    }

    /// Measures hits by their ratings, best first; `rated`: every rating that was given.
    pub fn measure(&self, hits: &[Option<u32>], rated: impl IntoIterator<Item = u32>) -> Quality {
        let unrated = hits.iter().filter(|rating| rating.is_none()).count();
        match self.of {
            Measure::Precision {
                threshold,
                ignore_unlabeled,
            } => {
                let relevant = relevant(hits, threshold);
                let counted = if ignore_unlabeled { hits.len() - unrated } else { hits.len() };
                Quality {
                    score: ratio(relevant, counted),
                    details: json!({ "precision": { "relevant_docs_retrieved": relevant, "docs_retrieved": counted } }),
                }
            }
            Measure::Recall { threshold } => {
                let found = relevant(hits, threshold);
                let all = rated.into_iter().filter(|rating| *rating >= threshold).count();
                Quality {
                    score: ratio(found, all),
                    details: json!({ "recall": { "relevant_docs_retrieved": found, "relevant_docs": all } }),
                }
            }
            Measure::ReciprocalRank { threshold } => {
                let first = hits.iter().position(|rating| rating.is_some_and(|r| r >= threshold));
                let rank = first.map(|at| at + 1);
                Quality {
                    score: rank.map_or(0.0, |rank| 1.0 / rank as f64),
                    details: json!({ "mean_reciprocal_rank": { "first_relevant": rank.map_or(json!(-1), Value::from) } }),
                }
            }
            Measure::CumulativeGain { normalize, unknown } => {
                let gain = gain(hits.iter().map(|rating| rating.or(unknown)));
                let mut details = json!({ "dcg": gain });
                let mut score = gain;
                if normalize {
                    let mut best: Vec<u32> = rated.into_iter().collect();
                    best.sort_unstable_by(|a, b| b.cmp(a));
                    best.truncate(hits.len());
                    let ideal = self::gain(best.into_iter().map(Some));
                    score = if ideal > 0.0 { gain / ideal } else { 0.0 };
                    details["ideal_dcg"] = ideal.into();
                    details["normalized_dcg"] = score.into();
                }
                details["unrated_docs"] = unrated.into();
                Quality {
                    score,
                    details: json!({ "dcg": details }),
                }
            }
            Measure::ExpectedReciprocalRank { maximum, unknown } => {
                let (mut goes_on, mut score) = (1.0, 0.0);
                for (at, rating) in hits.iter().enumerate() {
                    if let Some(rating) = rating.or(unknown) {
                        let stops = (exp2(rating) - 1.0) / exp2(maximum);
                        score += goes_on * stops / (at + 1) as f64;
                        goes_on *= 1.0 - stops;
                    }
                }
                Quality {
                    score,
                    details: json!({ "expected_reciprocal_rank": { "unrated_docs": unrated } }),
                }
            }
        }
    }
}

fn relevant(hits: &[Option<u32>], threshold: u32) -> usize {
    hits.iter().filter(|rating| rating.is_some_and(|r| r >= threshold)).count()
}

fn ratio(part: usize, of: usize) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

fn exp2(rating: u32) -> f64 {
    f64::from(rating).exp2()
}

/// The gain of ratings in this order, less the further down.
fn gain(ratings: impl Iterator<Item = Option<u32>>) -> f64 {
    let each = ratings.enumerate().map(|(at, rating)| match rating {
        Some(rating) => (exp2(rating) - 1.0) / ((at + 2) as f64).log2(),
        None => 0.0,
    });
    each.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{self, Reading};

    #[test]
    fn measures() {
        let rows = [
            (
                r#"{"precision":{"k":5}}"#,
                0.5,
                r#"{"docs_retrieved":4,"relevant_docs_retrieved":2}"#,
            ),
            (
                r#"{"precision":{"ignore_unlabeled":true}}"#,
                2.0 / 3.0,
                r#"{"docs_retrieved":3,"relevant_docs_retrieved":2}"#,
            ),
            (
                r#"{"precision":{"relevant_rating_threshold":3}}"#,
                0.25,
                r#"{"docs_retrieved":4,"relevant_docs_retrieved":1}"#,
            ),
            (
                r#"{"recall":{}}"#,
                2.0 / 3.0,
                r#"{"relevant_docs":3,"relevant_docs_retrieved":2}"#,
            ),
            (r#"{"mean_reciprocal_rank":{}}"#, 1.0 / 3.0, r#"{"first_relevant":3}"#),
            (
                r#"{"mean_reciprocal_rank":{"relevant_rating_threshold":4}}"#,
                0.0,
                r#"{"first_relevant":-1}"#,
            ),
            (
                r#"{"dcg":{}}"#,
                3.514_735_906_513_751_6,
                r#"{"dcg":3.5147359065137516,"unrated_docs":1}"#,
            ),
            (
                r#"{"dcg":{"normalize":true}}"#,
                0.3741951202093122,
                r#"{"dcg":3.5147359065137516,"ideal_dcg":9.392789260714373,"normalized_dcg":0.3741951202093122,"unrated_docs":1}"#,
            ),
            (
                r#"{"expected_reciprocal_rank":{"maximum_relevance":3,"unknown_doc_rating":1}}"#,
                0.266_438_802_083_333_37,
                r#"{"unrated_docs":1}"#,
            ),
        ];
        for (metric, score, details) in rows {
            let metric = RankMetric::parse(json::read(metric.as_bytes(), Reading::default()).expect("JSON")).expect("a metric");
            let quality = metric.measure(&[Some(0), None, Some(1), Some(3)], [0, 1, 3, 2]);
            assert!((quality.score - score).abs() < 1e-12, "{metric:?}: {}", quality.score);
            let of = quality
                .details
                .as_object()
                .and_then(|of| of.values().next())
                .expect("details");
            for (name, expected) in serde_json::from_str::<Map<String, Value>>(details).expect("JSON") {
                let (found, expected) = (of[&name].as_f64().expect("a number"), expected.as_f64().expect("a number"));
                assert!((found - expected).abs() < 1e-12, "{metric:?}: {name} is {found}");
            }
            assert_eq!(of.as_object().map_or(0, Map::len), details.matches(':').count(), "{metric:?}");
        }
        let nothing = RankMetric::parse(json::read(br#"{"dcg":{"normalize":true}}"#, Reading::default()).expect("JSON"));
        assert_eq!(nothing.expect("a metric").measure(&[], []).score, 0.0);
    }
}
