//! Pipelines: aggregations of other aggregations' answers. Their options stay as they came.

use super::{Agg, AggKind};
use crate::json::{Node, unsupported_value};
use crate::query::hits::Sort;
use crate::shape;
use model::{Dialect, Error, Result};
use serde_json::Value;

/// Pipelines that need an order of time or number.
const SEQUENTIAL: &[&str] = &["derivative", "cumulative_sum", "serial_diff", "moving_fn", "moving_avg"];

/// Pipelines without a path of their own.
const PATHLESS: &[&str] = &["bucket_sort"];

/// How Elasticsearch reads the options of a pipeline.
enum PipelineReader {
    /// By hand: what is no option is a `parsing_exception`.
    Hand(&'static [Opt]),
    /// By an object parser, which refuses in its own words; the second are those that must be there.
    Object(&'static [Opt], &'static [&'static str]),
}

/// An option and the kinds that its value may be of.
type Opt = (&'static str, &'static [&'static str]);

const TEXT: &[&str] = &["VALUE_STRING"];
const NUMBER: &[&str] = &["VALUE_NUMBER"];
const NUMERIC: &[&str] = &["VALUE_NUMBER", "VALUE_STRING"];
const PATH: Opt = ("buckets_path", &["VALUE_STRING", "START_ARRAY"]);
const PATHS: Opt = ("buckets_path", &["VALUE_STRING", "START_ARRAY", "START_OBJECT"]);
const FORMAT: Opt = ("format", TEXT);
const GAPS: Opt = ("gap_policy", TEXT);
const SCRIPT: Opt = ("script", &["VALUE_STRING", "START_OBJECT"]);

fn reader(kind: &str) -> PipelineReader {
    match kind {
        "derivative" => PipelineReader::Hand(&[PATH, FORMAT, GAPS, ("unit", TEXT)]),
        "serial_diff" => PipelineReader::Hand(&[PATH, FORMAT, GAPS, ("lag", NUMBER)]),
        "bucket_selector" => PipelineReader::Hand(&[PATHS, GAPS, SCRIPT]),
        "moving_avg" => PipelineReader::Hand(&[
            PATH,
            FORMAT,
            GAPS,
            ("window", NUMBER),
            ("predict", NUMBER),
            ("model", TEXT),
            ("settings", &["START_OBJECT"]),
            ("minimize", &["VALUE_BOOLEAN"]),
        ]),
        "percentiles_bucket" => PipelineReader::Hand(&[
            PATH,
            FORMAT,
            GAPS,
            ("percents", &["START_ARRAY"]),
            ("keyed", &["VALUE_BOOLEAN"]),
        ]),
        "extended_stats_bucket" => PipelineReader::Hand(&[PATH, FORMAT, GAPS, ("sigma", NUMBER)]),
        "cumulative_sum" => PipelineReader::Object(&[PATH, FORMAT], &["buckets_path"]),
        "moving_fn" => PipelineReader::Object(
            &[PATH, FORMAT, GAPS, SCRIPT, ("window", NUMERIC), ("shift", NUMERIC)],
            &["buckets_path", "script", "window"],
        ),
        "bucket_script" => PipelineReader::Object(&[PATHS, FORMAT, GAPS, SCRIPT], &["buckets_path", "script"]),
        "bucket_sort" => PipelineReader::Object(
            &[
                ("sort", &["START_ARRAY", "START_OBJECT", "VALUE_STRING"]),
                ("from", NUMERIC),
                ("size", NUMERIC),
                GAPS,
            ],
            &[],
        ),
        _ => PipelineReader::Hand(&[PATH, FORMAT, GAPS]),
    }
}

/// Refuses options that a pipeline does not have, and values that they cannot have.
fn check(name: &str, kind: &str, body: &Node) -> Result<()> {
    let (options, by_hand) = match reader(kind) {
        PipelineReader::Hand(options) => (options, true),
        PipelineReader::Object(options, needed) => {
            let members = body.clone().fields(kind)?;
            let lacking: Vec<&str> = needed.iter().copied().filter(|option| !members.has(option)).collect();
            let mut rest = members;
            for (option, _) in options {
                rest.take(option);
            }
            rest.finish()?;
            if !lacking.is_empty() {
                return Err(shape::missing_required(&lacking.join(", ")));
            }
            (options, false)
        }
    };
    for (key, value) in shape::object(body.clone(), kind)? {
        let at = (value.line, value.col);
        let refuse = |cause: Error| {
            if by_hand {
                value.error(cause.reason())
            } else {
                shape::failed_field(kind, &key, at, cause)
            }
        };
        match options.iter().find(|(option, _)| *option == key) {
            None if by_hand => {
                let found = value.kind_name();
                return Err(value.error(format!("Unexpected token {found} [{key}] in [{name}].")));
            }
            None => {
                let known: Vec<&str> = options.iter().map(|(option, _)| *option).collect();
                return Err(shape::unknown_field(kind, &key, &value, &known));
            }
            Some((_, kinds)) if !kinds.contains(&value.kind_name()) => {
                return Err(if by_hand {
                    value.error(format!("Unexpected token {} in [{name}].", value.kind_name()))
                } else {
                    unsupported_value(kind, &key, &value)
                });
            }
            Some(_) => {}
        }
        check_value(name, &key, &value, refuse)?;
    }
    Ok(())
}

/// Refuses a value that an option cannot have. `refuse` brings a refusal into the form of the pipeline's parser.
fn check_value(name: &str, key: &str, value: &Node, refuse: impl Fn(Error) -> Error) -> Result<()> {
    let below = |least: i64, reason: &str| match value.i64(key).map_err(&refuse)? < least {
        true => Err(refuse(Error::illegal(reason))),
        false => Ok(()),
    };
    match key {
        "gap_policy" if !matches!(value.as_str(), Some("skip" | "insert_zeros" | "keep_values")) => {
            let text = value.string(key)?;
            Err(refuse(Error::illegal(format!(
                "Invalid gap policy: [{text}], accepted values: [insert_zeros, skip]"
            ))))
        }
        "lag" => match value.i64("lag")? {
            lag if lag < 1 => Err(refuse(Error::illegal(format!(
                "Lag must be a positive, non-zero integer. Value supplied was {lag} in [{name}]: [lag]."
            )))),
            _ => Ok(()),
        },
        "window" => below(1, "[window] must be a positive, non-zero integer."),
        "size" => below(1, "[size] must be a positive integer"),
        "from" => below(0, "[from] must be a non-negative integer"),
        "model" if !matches!(value.as_str(), Some("simple" | "linear" | "ewma" | "holt" | "holt_winters")) => {
            let text = value.string(key)?;
            Err(value.error(format!("no [moving_avg_model] registered for [{text}]")))
        }
        "sort" => Sort::parse(value.clone(), Dialect::default()).map(drop).map_err(&refuse),
        _ => Ok(()),
    }
}

/// Reads a pipeline called `name`; `unchecked`: whatever the types of its options are.
pub(crate) fn parse(name: &str, kind: &str, body: Node, unchecked: bool) -> Result<AggKind> {
    if !unchecked {
        check(name, kind, &body)?;
    }
    let missing = |field: &str| body.error(format!("Missing required field [{field}] for aggregation [{name}]"));
    let no_path = missing("buckets_path");
    let no_script = missing("script");
    let mut fields = body.fields(kind)?;
    let buckets_path = match fields.take_value("buckets_path") {
        Some(Value::Null) | None if PATHLESS.contains(&kind) => Value::Null,
        Some(Value::Null) | None => return Err(no_path),
        Some(path) => path,
    };
    let body: serde_json::Map<String, Value> = fields
        .remaining()
        .into_iter()
        .map(|(key, value)| (key, value.into_value()))
        .collect();
    if matches!(kind, "bucket_script" | "bucket_selector" | "moving_fn") && !body.contains_key("script") {
        return Err(no_script);
    }
    Ok(AggKind::Pipeline {
        kind: kind.to_owned(),
        buckets_path,
        body,
    })
}

/// Refuses pipelines in places where they have nothing to work on.
pub(crate) fn validate(aggs: &[Agg], parent: Option<&AggKind>, lenient: bool) -> Result<()> {
    let mut problems = Vec::new();
    for agg in aggs {
        if let AggKind::Pipeline {
            kind,
            buckets_path,
            body,
        } = &agg.kind
        {
            let name = &agg.name;
            if parent.is_none() && matches!(kind.as_str(), "bucket_sort" | "bucket_script" | "bucket_selector") {
                problems.push(format!(
                    "{kind} aggregation [{name}] must be declared inside of another aggregation"
                ));
            }
            if SEQUENTIAL.contains(&kind.as_str()) && !is_histogram(parent) {
                problems.push(format!(
                    "{kind} aggregation [{name}] must have a histogram, date_histogram or auto_date_histogram as parent"
                ));
            }
            let leaves_out = match parent {
                Some(AggKind::Histogram(histogram)) => histogram.min_doc_count != 0,
                Some(AggKind::DateHistogram(histogram)) => histogram.min_doc_count != 0,
                _ => false,
            };
            if SEQUENTIAL.contains(&kind.as_str()) && leaves_out && !lenient {
                problems.push(format!(
                    "parent histogram of {kind} aggregation [{name}] must have min_doc_count of 0"
                ));
            }
            if let (true, Some(path)) = (kind.ends_with("_bucket"), first_path(buckets_path)) {
                let first = path.split(['>', '.', '[']).next().unwrap_or(path);
                if !aggs.iter().any(|other| other.name == first || path.starts_with(&other.name)) {
                    problems.push(format!(
                        "buckets_path aggregation does not exist for aggregation [{name}]: {path}"
                    ));
                    continue;
                }
            }
            if lenient {
                continue;
            }
            if kind == "bucket_sort" && !["sort", "size", "from"].iter().any(|option| body.contains_key(*option)) {
                problems.push(format!(
                    "[{name}] is configured to perform nothing. Please set either of [sort, size, from] to use bucket_sort"
                ));
            }
            let sorted = body.get("sort").filter(|_| kind == "bucket_sort");
            let paths = paths(buckets_path)
                .into_iter()
                .chain(sorted.map(sort_paths).unwrap_or_default());
            problems.extend(paths.filter_map(|path| missing_step(&path, aggs)));
            if kind.ends_with("_bucket")
                && let Some(first) = first_path(buckets_path).and_then(|path| path.split('>').next())
                && let Some(other) = aggs.iter().find(|other| other.name == first)
                && has_one_bucket(&other.kind)
            {
                problems.push(format!(
                    "The first aggregation in buckets_path must be a multi-bucket aggregation for aggregation [{name}]: {first}"
                ));
            }
        }
    }
    if !problems.is_empty() {
        return Err(shape::validation_failed(&problems));
    }
    aggs.iter().try_for_each(|agg| validate(&agg.subs, Some(&agg.kind), lenient))
}

/// Every path of a pipeline: one, several, or one for each name in its script.
fn paths(buckets_path: &Value) -> Vec<String> {
    let texts = |values: Vec<&Value>| values.into_iter().filter_map(Value::as_str).map(str::to_owned).collect();
    match buckets_path {
        Value::Array(list) => texts(list.iter().collect()),
        Value::Object(map) => texts(map.values().collect()),
        Value::Null => Vec::new(),
        one => texts(vec![one]),
    }
}

/// The paths by which `bucket_sort` sorts.
fn sort_paths(sort: &Value) -> Vec<String> {
    match sort {
        Value::Array(list) => list.iter().flat_map(sort_paths).collect(),
        Value::Object(map) => map.keys().cloned().collect(),
        Value::String(path) => vec![path.clone()],
        _ => Vec::new(),
    }
}

/// The first step of a path that leads nowhere, if there is one.
fn missing_step(path: &str, aggs: &[Agg]) -> Option<String> {
    if path.is_empty() {
        return Some("Invalid path []".to_owned());
    }
    let mut level = aggs;
    for (step, element) in path.split('>').enumerate() {
        if matches!(element, "_count" | "_key" | "_bucket_count" | "_score") {
            return None;
        }
        // `stats.max`, `percentiles[50]`, `terms['key']`: a name, and what of it.
        let called = |agg: &&Agg| {
            let rest = element.strip_prefix(agg.name.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        match level.iter().find(called) {
            Some(agg) => level = &agg.subs,
            None if step == 0 => return Some(format!("No aggregation found for path [{path}]")),
            None => return Some(format!("No aggregation [{element}] found for path [{path}]")),
        }
    }
    None
}

/// A metric of numbers, or a bucket aggregation that makes one bucket.
fn has_one_bucket(kind: &AggKind) -> bool {
    let single = matches!(
        kind,
        AggKind::Filter(_) | AggKind::Global | AggKind::Missing { .. } | AggKind::Nested { .. } | AggKind::ReverseNested { .. }
    );
    single || kind.is_metric()
}

fn first_path(buckets_path: &Value) -> Option<&str> {
    match buckets_path {
        Value::String(path) => Some(path),
        Value::Array(paths) => paths.first()?.as_str(),
        _ => None,
    }
}

fn is_histogram(parent: Option<&AggKind>) -> bool {
    matches!(
        parent,
        Some(AggKind::Histogram(_) | AggKind::DateHistogram(_) | AggKind::AutoDateHistogram(_))
    )
}

pub(super) fn render(buckets_path: &Value, body: &serde_json::Map<String, Value>) -> serde_json::Map<String, Value> {
    let mut out = body.clone();
    if !buckets_path.is_null() {
        out.insert("buckets_path".into(), buckets_path.clone());
    }
    out
}
