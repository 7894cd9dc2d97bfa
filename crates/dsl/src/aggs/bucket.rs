//! Buckets: aggregations that part documents into groups.

use super::value_source::{named, option};
use super::{
    AggKind, AutoDateAgg, BucketOrder, CompositeSource, DateHistogramAgg, DateInterval, GridAgg, HistogramAgg, IncludeExclude,
    RangeBucket, RareTermsAgg, TermsAgg, ValueSource,
};
use crate::json::{Fields, Json, Node};
use crate::query::{Parsing, Query};
use crate::shape;
use model::{Dialect, Error, ErrorKind, Persona, Result};
use serde_json::{Map, Value};

/// Those that are read here.
pub(super) const KINDS: &[&str] = &[
    "terms",
    "significant_terms",
    "significant_text",
    "diversified_sampler",
    "variable_width_histogram",
    "rare_terms",
    "multi_terms",
    "geo_distance",
    "range",
    "date_range",
    "ip_range",
    "histogram",
    "date_histogram",
    "filter",
    "filters",
    "global",
    "missing",
    "nested",
    "reverse_nested",
    "children",
    "parent",
    "sampler",
    "composite",
    "adjacency_matrix",
    "geotile_grid",
    "geohash_grid",
    "auto_date_histogram",
];

/// Reads a bucket aggregation called `name`, and leaves nothing of its body; `None` if `kind` is none, and all of it.
pub(crate) fn parse(name: &str, kind: &str, body: &mut Node, dialect: Dialect) -> Result<Option<AggKind>> {
    if !KINDS.contains(&kind) {
        return Ok(None);
    }
    let value = std::mem::replace(&mut body.value, Json::Null);
    let (body, whole) = (&*body, Node { value, ..*body });
    let missing_path = || body.error(format!("Missing [path] field for nested aggregation [{name}]"));
    let missing_type = || body.error(format!("Missing [child_type] field for {kind} aggregation [{name}]"));
    if kind == "filter" && dialect.typed {
        let filter = Query::parse_optional(whole, &mut Parsing::new(dialect))?;
        return Ok(Some(AggKind::Filter(Box::new(filter.unwrap_or_else(Query::all)))));
    }
    if kind == "filter" {
        return Ok(Some(AggKind::Filter(Box::new(Query::parse(
            whole,
            &mut Parsing::new(dialect),
        )?))));
    }
    let mut fields = whole.fields(kind)?.of_object(!dialect.typed && object_parsed(kind));
    let out = match kind {
        "terms" => AggKind::Terms(parse_terms(&mut fields, kind, name, dialect)?),
        "significant_terms" => super::significant::terms(&mut fields, name, dialect)?,
        "significant_text" => super::significant::text(&mut fields, name, dialect)?,
        "diversified_sampler" => super::sampled::diversified(&mut fields, name, dialect)?,
        "variable_width_histogram" => super::sampled::variable_width(&mut fields, name, dialect)?,
        "rare_terms" => AggKind::RareTerms(Box::new(parse_rare_terms(&mut fields, name, dialect)?)),
        "multi_terms" => super::combined::multi_terms(&mut fields, name, dialect)?,
        "geo_distance" => super::places::distance(&mut fields, name)?,
        "range" => {
            let (source, ranges, keyed) = parse_ranges(&mut fields, kind, dialect)?;
            AggKind::Range { source, ranges, keyed }
        }
        "date_range" => {
            let time_zone = fields.take_string("time_zone")?;
            let (source, ranges, keyed) = parse_ranges(&mut fields, kind, dialect)?;
            AggKind::DateRange {
                source,
                ranges,
                keyed,
                time_zone,
            }
        }
        "ip_range" => {
            let (source, ranges, keyed) = parse_ranges(&mut fields, kind, dialect)?;
            AggKind::IpRange { source, ranges, keyed }
        }
        "histogram" => AggKind::Histogram(parse_histogram(&mut fields, name, dialect)?),
        "date_histogram" => AggKind::DateHistogram(parse_date_histogram(&mut fields, dialect)?),
        "filters" => parse_filters(&mut fields, dialect)?,
        "global" if !dialect.typed && !fields.is_empty() => {
            let found = fields.next_field().map_or("VALUE_NULL", |(_, node)| node.kind_name());
            return Err(body.error(format!(
                "Expected [FIELD_NAME] under a [START_OBJECT], but got a [{found}] in [{name}]"
            )));
        }
        "global" => AggKind::Global,
        "missing" => {
            let source = ValueSource::take(&mut fields, dialect)?;
            let field = source
                .field
                .ok_or_else(|| Error::illegal("Required one of fields [field, script], but none were specified. "))?;
            AggKind::Missing {
                field,
                missing: source.missing,
            }
        }
        "nested" | "reverse_nested" if !dialect.typed && fields.member("path").is_some_and(|path| path.as_str().is_none()) => {
            let found = fields.member("path").map_or("VALUE_NULL", Node::kind_name);
            return Err(body.error(format!("Unexpected token {found} in [{name}].")));
        }
        "nested" => AggKind::Nested {
            path: fields.take_string("path")?.ok_or_else(missing_path)?,
        },
        "reverse_nested" => AggKind::ReverseNested {
            path: fields.take_string("path")?,
        },
        "children" => AggKind::Children {
            child_type: fields.take_string("type")?.ok_or_else(missing_type)?,
        },
        "parent" => AggKind::Parent {
            child_type: fields.take_string("type")?.ok_or_else(missing_type)?,
        },
        // In 2015 one aggregation was both.
        "sampler" if dialect.typed && (fields.has("field") || fields.has("script")) => {
            super::sampled::diversified(&mut fields, name, dialect)?
        }
        "sampler" => {
            if dialect.typed && fields.take("max_docs_per_value").is_some() {
                return Err(Error::new(
                    ErrorKind::SearchParse,
                    format!(
                        "Sampler aggregation has max_docs_per_value setting but no \"field\" or \"script\" setting to provide values for aggregation \"{name}\""
                    ),
                ));
            }
            if dialect.typed {
                fields.take("execution_hint");
            }
            let given = fields.take("shard_size");
            let number = |node: &Node| matches!(node.value, Json::Number(_));
            let unfit = given
                .iter()
                .find(|node| !dialect.typed && !number(node))
                .map(|node| ("shard_size".to_owned(), node.clone()));
            if let Some((option, node)) = unfit.or_else(|| fields.next_field().filter(|_| !dialect.typed)) {
                return Err(node.error(format!("Unsupported property \"{option}\" for aggregation \"{name}")));
            }
            AggKind::Sampler {
                shard_size: given.map(|node| node.usize("shard_size")).transpose()?.unwrap_or(100),
            }
        }
        "composite" => parse_composite(&mut fields, dialect)?,
        "adjacency_matrix" => parse_adjacency(&mut fields, dialect)?,
        "geotile_grid" | "geohash_grid" => parse_grid(&mut fields, kind == "geotile_grid")?,
        "auto_date_histogram" => {
            let source = ValueSource::take(&mut fields, dialect)?;
            let buckets = option(&mut fields, kind, "buckets", |n| match n.i64("buckets")? {
                number if number > 0 => n.usize("buckets"),
                _ => Err(Error::illegal(format!("buckets must be greater than 0 for [{name}]"))),
            })?;
            let buckets = buckets.unwrap_or(10);
            if buckets > AUTO_DATE_BUCKETS {
                return Err(Error::illegal(format!("buckets must be less than {AUTO_DATE_BUCKETS}")));
            }
            AggKind::AutoDateHistogram(AutoDateAgg {
                source,
                buckets,
                time_zone: fields.take_string("time_zone")?,
                minimum_interval: fields.take_string("minimum_interval")?,
            })
        }
        _ => return Ok(None),
    };
    if matches!(kind, "nested" | "reverse_nested" | "children" | "parent")
        && !dialect.typed
        && let Some((option, node)) = fields.next_field()
    {
        return Err(node.error(format!("Unexpected token {} [{option}] in [{name}].", node.kind_name())));
    }
    if dialect.typed {
        super::of_2015::leftovers(&mut fields, kind);
    }
    fields.finish()?;
    named(&out, dialect)?;
    match &out {
        AggKind::Range { ranges, .. } | AggKind::DateRange { ranges, .. } | AggKind::IpRange { ranges, .. }
            if ranges.is_empty() =>
        {
            Err(no_ranges(name))
        }
        _ => Ok(Some(out)),
    }
}

/// Those whose bodies Elasticsearch reads with its object parsers; the others are read by hand.
fn object_parsed(kind: &str) -> bool {
    matches!(
        kind,
        "terms"
            | "significant_terms"
            | "significant_text"
            | "adjacency_matrix"
            | "diversified_sampler"
            | "variable_width_histogram"
            | "rare_terms"
            | "multi_terms"
            | "geo_distance"
            | "range"
            | "date_range"
            | "ip_range"
            | "histogram"
            | "date_histogram"
            | "auto_date_histogram"
            | "missing"
            | "composite"
            | "geotile_grid"
            | "geohash_grid"
    )
}

/// The default of `search.max_buckets` over the widest step of `auto_date_histogram`.
const AUTO_DATE_BUCKETS: usize = 2184;

fn parse_adjacency(fields: &mut Fields, dialect: Dialect) -> Result<AggKind> {
    let mut cx = Parsing::new(dialect);
    let separator = fields.take_string("separator")?.unwrap_or_else(|| "&".into());
    let show_only_intersecting = fields.take_bool("show_only_intersecting")?.unwrap_or(false);
    let mut filters: Vec<(String, Query)> = Vec::new();
    fields.read("filters", &["START_OBJECT"], |node| {
        for (name, query) in shape::object(node.clone(), "filters")? {
            filters.push((name, Query::parse(query, &mut cx)?));
        }
        Ok(())
    })?;
    if filters.is_empty() {
        return Err(Error::illegal("[adjacency_matrix] needs at least one of [filters]"));
    }
    Ok(AggKind::AdjacencyMatrix {
        filters,
        separator,
        show_only_intersecting,
    })
}

fn parse_grid(fields: &mut Fields, tiles: bool) -> Result<AggKind> {
    let kind = if tiles { "geotile_grid" } else { "geohash_grid" };
    let most = if tiles { 29 } else { 12 };
    let precision = option(fields, kind, "precision", |n| {
        let number = n.i64("precision")?;
        match u32::try_from(number) {
            Ok(precision) if precision <= most && (tiles || precision >= 1) => Ok(precision),
            _ if tiles => Err(Error::illegal(format!(
                "Invalid geotile_grid precision of {number}. Must be between 0 and 29."
            ))),
            _ => Err(Error::illegal(format!(
                "Invalid geohash aggregation precision of {number}. Must be between 1 and 12."
            ))),
        }
    })?;
    let positive = |name: &str, n: &Node| {
        let number = n.i64(name)?;
        usize::try_from(number)
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| Error::illegal(format!("[{name}] must be greater than 0. Found [{number}] in [{kind}]")))
    };
    let size = option(fields, kind, "size", |n| positive("size", n))?.unwrap_or(10_000);
    let shard_size = option(fields, kind, "shard_size", |n| match n.i64("shard_size")? {
        -1 => Ok(None),
        _ => positive("shard_size", n).map(Some),
    })?;
    let bounds = match fields.take("bounds") {
        None => None,
        Some(node) => match crate::query::bounding_box(node, crate::query::GeoValidation::Strict)? {
            crate::query::GeoArea::Box {
                top,
                left,
                bottom,
                right,
            } => Some([top, left, bottom, right]),
            _ => None,
        },
    };
    let field = fields
        .take_string("field")?
        .ok_or_else(|| Error::illegal("Required one of fields [field], but none were specified. "))?;
    Ok(AggKind::Grid(GridAgg {
        tiles,
        field,
        precision: precision.unwrap_or(if tiles { 7 } else { 5 }),
        size,
        shard_size: shard_size.flatten(),
        bounds,
    }))
}

pub(super) fn parse_terms(fields: &mut Fields, kind: &str, name: &str, dialect: Dialect) -> Result<TermsAgg> {
    let source = ValueSource::take(fields, dialect)?;
    let unlimited = |option: &str, node: &Node| match node.i64(option)? {
        0 if dialect.typed => Ok(usize::MAX),
        _ => positive(option, node, name),
    };
    let size = option(fields, kind, "size", |n| unlimited("size", n))?.unwrap_or(10);
    let shard_size = option(fields, kind, "shard_size", |n| match n.i64("shard_size")? {
        -1 if dialect.typed => Ok(None),
        _ => unlimited("shard_size", n).map(Some),
    })?;
    let shard_min_doc_count = take_shard_min_doc_count(fields, kind, name)?;
    let least = if kind == "terms" { 1 } else { 3 };
    let min_doc_count = take_min_doc_count(fields, kind, name)?.unwrap_or(least);
    let order = take_order(fields, kind)?.unwrap_or_else(by_count);
    let kinds = ["VALUE_STRING", "START_ARRAY", "START_OBJECT"];
    let include = fields.read("include", &kinds, |node| parse_include(node.clone()))?;
    let kinds: &[&str] = if dialect.typed { &kinds } else { &kinds[..2] };
    let exclude = fields.read("exclude", kinds, |node| parse_include(node.clone()))?;
    if let (false, Some(include), Some(exclude)) = (dialect.typed, &include, &exclude)
        && matches!(include, IncludeExclude::Values(_)) != matches!(exclude, IncludeExclude::Values(_))
    {
        let cause = Error::illegal("Cannot mix a set-based and a regular expression-based include and exclude");
        return Err(shape::failed_field(kind, "exclude", (1, 1), cause));
    }
    let collect_mode = take_collect_mode(fields, kind)?;
    Ok(TermsAgg {
        source,
        size,
        shard_size: shard_size.flatten(),
        min_doc_count,
        shard_min_doc_count,
        order,
        include,
        exclude,
        show_term_doc_count_error: fields.take_bool("show_term_doc_count_error")?.unwrap_or(false),
        collect_mode,
        execution_hint: match fields.take_string("execution_hint")? {
            Some(hint) if !dialect.typed && !matches!(hint.as_str(), "map" | "global_ordinals") => {
                return Err(shape::all_shards_failed(Error::illegal(format!(
                    "Unknown `execution_hint`: [{hint}], expected any of [map, global_ordinals]"
                ))));
            }
            hint => hint,
        },
        value_type: match dialect.typed.then(|| fields.take("valueType")).flatten() {
            Some(node) => Some(node.string("value_type")?),
            None => take_value_type(fields, kind, dialect)?,
        },
    })
}

/// `rare_terms`: few options, and no order but its own.
fn parse_rare_terms(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<RareTermsAgg> {
    const KIND: &str = "rare_terms";
    let source = ValueSource::take(fields, dialect)?;
    let max_doc_count = option(fields, KIND, "max_doc_count", |n| match n.i64("max_doc_count")? {
        number if number <= 0 => Err(Error::illegal(format!(
            "[max_doc_count] must be greater than 0. Found [{number}] in [{name}]"
        ))),
        number if number > 100 => Err(Error::illegal(format!("[max_doc_count] must be smallerthan 100in [{name}]"))),
        number => Ok(number as u64),
    })?;
    // How often the reference may be wrong; we count.
    option(fields, KIND, "precision", |n| match n.f64("precision")? {
        number if number < 0.00001 => Err(Error::illegal("[precision] must be greater than 0.00001")),
        _ => Ok(()),
    })?;
    let kinds = ["VALUE_STRING", "START_ARRAY", "START_OBJECT"];
    let include = fields.read("include", &kinds, |node| parse_include(node.clone()))?;
    let exclude = fields.read("exclude", &kinds[..2], |node| parse_include(node.clone()))?;
    Ok(RareTermsAgg {
        source,
        max_doc_count: max_doc_count.unwrap_or(1),
        include,
        exclude,
        value_type: take_value_type(fields, KIND, dialect)?,
    })
}

/// The type of values whose field says none.
fn take_value_type(fields: &mut Fields, kind: &str, dialect: Dialect) -> Result<Option<String>> {
    option(fields, kind, "value_type", |n| {
        let text = n.string("value_type")?;
        match text.as_str() {
            "string" | "byte" | "short" | "integer" | "long" | "unsigned_long" | "float" | "double" | "number" | "numeric"
            | "date" | "ip" | "boolean" => Ok(text),
            _ if dialect.typed => Ok(text),
            _ => Err(Error::illegal(format!("Unknown value type [{text}]"))),
        }
    })
}

/// Whether the aggregations below wait until the buckets are chosen.
pub(super) fn take_collect_mode(fields: &mut Fields, kind: &str) -> Result<Option<String>> {
    option(fields, kind, "collect_mode", |n| {
        let text = n.string("collect_mode")?;
        match text.as_str() {
            "breadth_first" | "depth_first" => Ok(text),
            _ => Err(n.error(format!("no [collect_mode] found for value [{text}]"))),
        }
    })
}

/// The fullest first.
pub(super) fn by_count() -> Vec<BucketOrder> {
    vec![BucketOrder {
        replaced: None,
        path: "_count".into(),
        ascending: false,
    }]
}

/// What is said where ranges are missing.
pub(super) fn no_ranges(name: &str) -> Error {
    shape::all_shards_failed(Error::illegal(format!("No [ranges] specified for the [{name}] aggregation")))
}

pub(super) fn take_min_doc_count(fields: &mut Fields, kind: &str, name: &str) -> Result<Option<u64>> {
    option(fields, kind, "min_doc_count", |n| {
        let number = n.i64("min_doc_count")?;
        u64::try_from(number).map_err(|_| {
            Error::illegal(format!(
                "[min_doc_count] must be greater than or equal to 0. Found [{number}] in [{name}]"
            ))
        })
    })
}

pub(super) fn take_shard_min_doc_count(fields: &mut Fields, kind: &str, name: &str) -> Result<u64> {
    let given = option(fields, kind, "shard_min_doc_count", |n| {
        let number = n.i64("shard_min_doc_count")?;
        u64::try_from(number).map_err(|_| {
            Error::illegal(format!(
                "[shardMinDocCount] must be greater than or equal to 0. Found [{number}] in [{name}]"
            ))
        })
    });
    given.map(Option::unwrap_or_default)
}

/// A size of an aggregation.
pub(super) fn positive(option: &str, node: &Node, name: &str) -> Result<usize> {
    let number = node.i64(option)?;
    usize::try_from(number)
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| Error::illegal(format!("[{option}] must be greater than 0. Found [{number}] in [{name}]")))
}

/// `{"_count": "desc"}`, or a list of such.
pub(super) fn take_order(fields: &mut Fields, kind: &str) -> Result<Option<Vec<BucketOrder>>> {
    option(fields, kind, "order", |node| {
        let mut out = Vec::new();
        for item in node.clone().items() {
            for (path, direction) in shape::object(item, "order")? {
                let text = direction.string("order")?;
                let ascending = match text.to_ascii_lowercase().as_str() {
                    "asc" => true,
                    "desc" => false,
                    _ => return Err(direction.error(format!("Unknown order direction [{text}]"))),
                };
                // Before 6 a key was called a term or a time.
                let replaced = ["_term", "_time"].into_iter().find(|word| *word == path);
                let path = if replaced.is_some() { "_key".to_owned() } else { path };
                out.push(BucketOrder {
                    replaced,
                    path,
                    ascending,
                });
            }
        }
        if out.is_empty() {
            return Err(node.error("Must specify at least one field for [order]"));
        }
        Ok(out)
    })
}

pub(super) fn parse_include(node: Node) -> Result<IncludeExclude> {
    match node.value {
        Json::Array(items) => Ok(IncludeExclude::Values(items.into_iter().map(Node::into_value).collect())),
        Json::Object(_) => {
            let mut fields = node.fields("include")?;
            if let Some(pattern) = fields.take_string("pattern")? {
                fields.take("flags");
                fields.finish()?;
                return Ok(IncludeExclude::Regex(pattern));
            }
            let partition = fields.take_i64("partition")?;
            let parts = fields.take_i64("num_partitions")?;
            fields.finish()?;
            match (
                partition.and_then(|n| u64::try_from(n).ok()),
                parts.and_then(|n| u64::try_from(n).ok()),
            ) {
                (None, _) => Err(Error::illegal("Missing [partition] parameter for partition-based include")),
                (_, None) => Err(Error::illegal(
                    "Missing [num_partitions] parameter for partition-based include",
                )),
                (Some(partition), Some(num_partitions)) if partition < num_partitions => Ok(IncludeExclude::Partition {
                    partition,
                    num_partitions,
                }),
                (Some(partition), Some(_)) => Err(Error::illegal(format!(
                    "Partition must be less than num_partitions, got [{partition}]"
                ))),
            }
        }
        _ => Ok(IncludeExclude::Regex(node.string("include")?)),
    }
}

type Ranges = (ValueSource, Vec<RangeBucket>, bool);

fn parse_ranges(fields: &mut Fields, kind: &str, dialect: Dialect) -> Result<Ranges> {
    let source = ValueSource::take(fields, dialect)?;
    let keyed = fields.take_bool("keyed")?.unwrap_or(false);
    let mut ranges = Vec::new();
    for item in fields.take("ranges").map(Node::items).unwrap_or_default() {
        let mut inner = item.fields(kind)?;
        let mask = if kind == "ip_range" {
            inner.take_string("mask")?
        } else {
            None
        };
        let bound = |inner: &mut Fields, bound: &str| -> Result<Option<Value>> {
            let Some(node) = inner.take(bound).filter(|node| !node.is_null()) else {
                return Ok(None);
            };
            Ok(Some(if kind == "range" {
                number_value(node.f64(bound)?)
            } else {
                node.into_value()
            }))
        };
        ranges.push(RangeBucket {
            key: inner.take_string("key")?,
            from: bound(&mut inner, "from")?,
            to: bound(&mut inner, "to")?,
            mask,
        });
        if !dialect.typed {
            inner.finish()?;
        }
    }
    Ok((source, ranges, keyed))
}

fn number_value(number: f64) -> Value {
    serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number)
}

fn parse_histogram(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<HistogramAgg> {
    let source = ValueSource::take(fields, dialect)?;
    let interval = option(fields, "histogram", "interval", |n| match n.f64("interval")? {
        interval if dialect.typed && interval < 1.0 => Err(Error::illegal(format!(
            "Missing required field [interval] for histogram aggregation [{name}]"
        ))),
        interval if interval > 0.0 => Ok(interval),
        interval => Err(Error::illegal(format!(
            "[interval] must be >0 for histogram aggregation [{name}], got [{interval}]"
        ))),
    })?;
    let bounds = |node: &Node| -> Result<(Option<f64>, Option<f64>)> {
        let mut inner = node.clone().fields("bounds")?;
        let bounds = (inner.take_f64("min")?, inner.take_f64("max")?);
        inner.finish()?;
        Ok(bounds)
    };
    Ok(HistogramAgg {
        source,
        interval: interval.ok_or_else(|| shape::all_shards_failed(Error::illegal("interval must be positive, got: 0.0")))?,
        offset: option(fields, "histogram", "offset", |n| n.f64("offset"))?.unwrap_or(0.0),
        min_doc_count: take_min_doc_count(fields, "histogram", name)?.unwrap_or(0),
        extended_bounds: option(fields, "histogram", "extended_bounds", bounds)?,
        hard_bounds: option(fields, "histogram", "hard_bounds", bounds)?,
        order: take_order(fields, "histogram")?.unwrap_or_else(by_key),
        keyed: fields.take_bool("keyed")?.unwrap_or(false),
    })
}

fn by_key() -> Vec<BucketOrder> {
    vec![BucketOrder {
        replaced: None,
        path: "_key".into(),
        ascending: true,
    }]
}

fn parse_date_histogram(fields: &mut Fields, dialect: Dialect) -> Result<DateHistogramAgg> {
    const KIND: &str = "date_histogram";
    let source = ValueSource::take(fields, dialect)?;
    let interval = take_date_interval(fields, dialect)?;
    let bounds = |node: &Node| -> Result<(Option<Value>, Option<Value>)> {
        let mut inner = node.clone().fields("bounds")?;
        let bound = |inner: &mut Fields, name: &str| inner.take_value(name).filter(|value| !value.is_null());
        let bounds = (bound(&mut inner, "min"), bound(&mut inner, "max"));
        inner.finish()?;
        Ok(bounds)
    };
    let time_zone = match dialect.typed.then(|| fields.take("timeZone")).flatten() {
        Some(node) => Some(node.string("time_zone")?),
        None => option(fields, KIND, "time_zone", |n| {
            let zone = n.string("time_zone")?;
            if !dialect.typed {
                model::date::parse_zone(&zone)?;
            }
            Ok(zone)
        })?,
    };
    Ok(DateHistogramAgg {
        source,
        time_zone,
        offset: fields.take_string("offset")?,
        min_doc_count: take_min_doc_count(fields, KIND, KIND)?.unwrap_or(0),
        extended_bounds: option(fields, KIND, "extended_bounds", bounds)?,
        hard_bounds: option(fields, KIND, "hard_bounds", bounds)?,
        order: take_order(fields, KIND)?.unwrap_or_else(by_key),
        keyed: fields.take_bool("keyed")?.unwrap_or(false),
        interval: match interval {
            Some(interval) => interval,
            // What there is not is told before what there should be.
            None => return Err(fields.clone().finish().err().unwrap_or_else(|| no_interval(dialect))),
        },
    })
}

/// Units of the calendar, in words and as `1x`.
const CALENDAR: &[&str] = &[
    "second", "1s", "minute", "1m", "hour", "1h", "day", "1d", "week", "1w", "month", "1M", "quarter", "1q", "year", "1y",
];

fn take_date_interval(fields: &mut Fields, dialect: Dialect) -> Result<Option<DateInterval>> {
    const KIND: &str = "date_histogram";
    let old = option(fields, KIND, "interval", |n| {
        let text = n.string("interval")?;
        if CALENDAR.contains(&text.as_str()) {
            Ok(DateInterval::Calendar(text))
        } else {
            fixed(&text, dialect).map(DateInterval::Fixed)
        }
    })?;
    if dialect.persona == Persona::Es2 {
        // There was one interval, and the others were unknown.
        return Ok(old);
    }
    let calendar = option(fields, KIND, "calendar_interval", |n| {
        let text = n.string("calendar_interval")?;
        if CALENDAR.contains(&text.as_str()) {
            Ok(DateInterval::Calendar(text))
        } else {
            Err(Error::illegal(format!(
                "The supplied interval [{text}] could not be parsed as a calendar interval."
            )))
        }
    })?;
    let taken = old.is_some() || calendar.is_some();
    let fixed = option(fields, KIND, "fixed_interval", |n| {
        if taken {
            return Err(Error::illegal(
                "Cannot use [fixed_interval] with [interval] or [calendar_interval] configuration options.",
            ));
        }
        fixed(&n.string("fixed_interval")?, dialect).map(DateInterval::Fixed)
    })?;
    if old.is_some() && calendar.is_some() {
        let cause = Error::illegal("Cannot use [interval] with [fixed_interval] or [calendar_interval] configuration options.");
        return Err(shape::failed_field(KIND, "interval", (1, 1), cause));
    }
    Ok(old.or(calendar).or(fixed))
}

fn no_interval(dialect: Dialect) -> Error {
    let kind = if dialect.typed {
        ErrorKind::SearchParse
    } else {
        ErrorKind::IllegalArgument
    };
    Error::new(kind, "Invalid interval specified, must be non-null and non-empty")
}

/// A length of time with a unit; 2015 also had weeks, fractions and bare milliseconds.
fn fixed(text: &str, dialect: Dialect) -> Result<String> {
    let bad = || {
        Error::illegal(format!(
            "failed to parse setting [date_histogram.fixedInterval] with value [{text}] as a time value: unit is missing or unrecognized"
        ))
    };
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let amount: f64 = number.parse().map_err(|_| bad())?;
    let millis = match unit.trim() {
        "ms" => 1.0,
        "" if dialect.typed => 1.0,
        "s" => 1_000.0,
        "m" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        "w" if dialect.typed => 604_800_000.0,
        _ => return Err(bad()),
    };
    if amount < 0.0 {
        return Err(shape::all_shards_failed(Error::illegal(
            "Zero or negative time interval not supported",
        )));
    }
    let whole = number.bytes().all(|b| b.is_ascii_digit());
    match unit.trim() {
        "" | "w" => Ok(format!("{:.0}ms", amount * millis)),
        _ if whole => Ok(text.to_owned()),
        _ if dialect.typed => Ok(format!("{:.0}ms", amount * millis)),
        _ => Err(bad()),
    }
}

fn parse_filters(fields: &mut Fields, dialect: Dialect) -> Result<AggKind> {
    let (nodes, mut keyed): (Vec<(String, Node)>, _) = match fields.take("filters") {
        Some(node) if node.is_object() => (shape::object(node, "filters")?.into_iter().collect(), true),
        Some(node) => {
            let positions = node.items().into_iter().enumerate();
            (
                positions.map(|(position, query)| (position.to_string(), query)).collect(),
                false,
            )
        }
        None => (Vec::new(), true),
    };
    if let Some(most) = dialect.clauses_max.map(|most| most as usize)
        && nodes.len() > most
    {
        return Err(crate::query::too_many_filters(most, nodes.len()));
    }
    let mut filters = Vec::with_capacity(nodes.len());
    for (name, query) in nodes {
        filters.push((name, Query::parse(query, &mut Parsing::new(dialect))?));
    }
    if filters.is_empty() {
        return Err(Error::illegal("[filters] cannot be empty."));
    }
    let other = fields.take_bool("other_bucket")?;
    let key = fields.take_string("other_bucket_key")?;
    keyed = fields.take_bool("keyed")?.unwrap_or(true) && keyed;
    let other_bucket_key = match (other, key) {
        (Some(false), _) | (None, None) => None,
        (_, Some(key)) => Some(key),
        (Some(true), None) => Some("_other_".to_owned()),
    };
    Ok(AggKind::Filters {
        filters,
        keyed,
        other_bucket_key,
    })
}

fn parse_composite(fields: &mut Fields, dialect: Dialect) -> Result<AggKind> {
    let size = option(fields, "composite", "size", |n| match n.i64("size")? {
        number if number > 0 => n.usize("size"),
        number => Err(Error::illegal(format!("[size] must be greater than 0. Found [{number}]"))),
    })?;
    let sources = option(fields, "composite", "sources", |node| {
        let mut out: Vec<CompositeSource> = Vec::new();
        for item in node.clone().items() {
            for (name, definition) in shape::object(item, "sources")? {
                if out.iter().any(|other| other.name == name) {
                    return Err(Error::illegal(format!(
                        "Composite source names must be unique, found duplicates: [{name}]"
                    )));
                }
                out.push(parse_composite_source(name, definition, dialect)?);
            }
        }
        if out.is_empty() {
            Err(Error::illegal("Composite [sources] cannot be null or empty"))
        } else {
            Ok(out)
        }
    })?;
    let after: Option<Map<String, Value>> = fields.take_map("after")?;
    Ok(AggKind::Composite {
        size: size.unwrap_or(10),
        sources: sources.ok_or_else(|| shape::required("sources"))?,
        after,
    })
}

fn parse_composite_source(name: String, definition: Node, dialect: Dialect) -> Result<CompositeSource> {
    let empty = definition.error(format!("Missing definition for composite source [{name}]"));
    let (kind, body) = shape::object(definition, "sources")?.into_iter().next().ok_or(empty)?;
    let unknown = body.error(format!("invalid source type: {kind}"));
    let mut fields = body.fields(&kind)?;
    let ascending = option(&mut fields, &kind, "order", |n| {
        match n.string("order")?.to_ascii_lowercase().as_str() {
            "asc" => Ok(true),
            "desc" => Ok(false),
            other => Err(Error::illegal(format!("Unknown sort order [{other}]"))),
        }
    })?;
    let missing_bucket = fields.take_bool("missing_bucket")?.unwrap_or(false);
    let missing_order = fields.take_string("missing_order")?.filter(|order| order != "default");
    let parsed = match kind.as_str() {
        "terms" => AggKind::Terms(parse_terms(&mut fields, &kind, &name, dialect)?),
        "histogram" => AggKind::Histogram(parse_histogram(&mut fields, &name, dialect)?),
        "date_histogram" => AggKind::DateHistogram(parse_date_histogram(&mut fields, dialect)?),
        _ => return Err(unknown),
    };
    fields.finish()?;
    named(&parsed, dialect)?;
    Ok(CompositeSource {
        name,
        kind: parsed,
        ascending: ascending.unwrap_or(true),
        missing_bucket,
        missing_order,
    })
}
