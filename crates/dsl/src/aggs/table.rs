//! The table of aggregations: the type of each, and how its body is read.

use super::metric::Metric;
use super::of_2015::leftovers;
use super::value_source::check_source;
use super::{
    AggKind, combined, composite, filters, grid, histogram, metric, percentiles, pipeline, places, ranges, sampled, scripted,
    significant, single, terms, top,
};
use crate::json::{Fields, Json, Node};
use model::{Dialect, Result};

/// The aggregation that is read.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    /// Its type.
    pub(super) kind: &'static str,
    /// Its name in the request.
    pub(super) name: &'a str,
    pub(super) dialect: Dialect,
    /// The place of its body, for refusals.
    pub(super) at: &'a Node,
}

/// The reader of a body.
#[derive(Clone, Copy)]
enum Reader {
    /// It takes the options that it knows; any other is refused.
    Options(fn(&mut Fields, &Context<'_>) -> Result<AggKind>),
    /// It takes every option, and refuses in its own words.
    Fields(fn(Fields, &Context<'_>) -> Result<AggKind>),
    /// It takes the body.
    Body(fn(Node, &Context<'_>) -> Result<AggKind>),
    /// A type of other servers: kept, for an engine that knows it.
    Carried,
}

/// One row of the table.
pub(super) struct AggSpec {
    pub(super) name: &'static str,
    reader: Reader,
    /// Elasticsearch reads the body with an object parser; others are read by hand.
    object: bool,
}

impl AggSpec {
    /// The row of a type.
    pub(super) fn find(name: &str) -> Option<&'static AggSpec> {
        AGGREGATIONS.iter().find(|spec| spec.name == name)
    }

    /// Every type.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        AGGREGATIONS.iter().map(|spec| spec.name)
    }

    /// Whether it is one of our own.
    pub(super) fn is_read(&self) -> bool {
        !matches!(self.reader, Reader::Carried)
    }

    /// Reads the body of the aggregation of that name.
    pub(super) fn parse(&self, name: &str, mut body: Node, dialect: Dialect) -> Result<AggKind> {
        let value = std::mem::replace(&mut body.value, Json::Null);
        let whole = Node { value, ..body };
        let cx = Context {
            kind: self.name,
            name,
            dialect,
            at: &body,
        };
        let fields = |whole: Node| {
            Ok(whole
                .fields(self.name)?
                .of_object(!dialect.rules.tolerates_value_types && self.object))
        };
        match self.reader {
            Reader::Options(parse) => {
                let mut fields = fields(whole)?;
                let kind = parse(&mut fields, &cx)?;
                finish(fields, kind, &cx)
            }
            Reader::Fields(parse) => parse(fields(whole)?, &cx),
            Reader::Body(parse) => parse(whole, &cx),
            Reader::Carried => Ok(AggKind::Opaque {
                kind: self.name.to_owned(),
                body: whole.into_value(),
            }),
        }
    }
}

/// Refuses what is left, then what is missing.
fn finish(mut fields: Fields, kind: AggKind, cx: &Context<'_>) -> Result<AggKind> {
    if cx.dialect.rules.takes_former_options {
        leftovers(&mut fields, cx.kind);
    }
    fields.finish()?;
    check_source(&kind, cx.dialect)?;
    match &kind {
        AggKind::Range { ranges, .. } | AggKind::DateRange { ranges, .. } | AggKind::IpRange { ranges, .. }
            if ranges.is_empty() =>
        {
            Err(ranges::no_ranges(cx.name))
        }
        _ => Ok(kind),
    }
}

type Options = fn(&mut Fields, &Context<'_>) -> Result<AggKind>;

/// Its body is read by an object parser.
const fn object(name: &'static str, parse: Options) -> AggSpec {
    AggSpec {
        name,
        reader: Reader::Options(parse),
        object: true,
    }
}

/// Its body is read by hand.
const fn by_hand(name: &'static str, parse: Options) -> AggSpec {
    AggSpec {
        name,
        reader: Reader::Options(parse),
        object: false,
    }
}

const fn all_fields(name: &'static str, parse: fn(Fields, &Context<'_>) -> Result<AggKind>) -> AggSpec {
    AggSpec {
        name,
        reader: Reader::Fields(parse),
        object: false,
    }
}

const fn pipeline(name: &'static str) -> AggSpec {
    AggSpec {
        name,
        reader: Reader::Body(|body, cx| pipeline::parse(cx.name, cx.kind, body, cx.dialect.rules.tolerates_value_types)),
        object: false,
    }
}

const fn opaque(name: &'static str) -> AggSpec {
    AggSpec {
        name,
        reader: Reader::Carried,
        object: false,
    }
}

model::assert_names_differ!(AGGREGATIONS, "each type of aggregation has one row");

/// Every type of aggregation. Among names that are equally near to an unknown one the first is offered.
const AGGREGATIONS: &[AggSpec] = &[
    object("terms", |f, cx| {
        terms::parse_terms(f, cx.kind, cx.name, cx.dialect).map(AggKind::Terms)
    }),
    object("significant_terms", |f, cx| significant::terms(f, cx.name, cx.dialect)),
    object("significant_text", |f, cx| significant::text(f, cx.name, cx.dialect)),
    object("diversified_sampler", |f, cx| {
        sampled::parse_diversified(f, cx.name, cx.dialect)
    }),
    object("variable_width_histogram", |f, cx| {
        sampled::variable_width(f, cx.name, cx.dialect)
    }),
    object("rare_terms", |f, cx| {
        terms::parse_rare_terms(f, cx.name, cx.dialect).map(|rare| AggKind::RareTerms(Box::new(rare)))
    }),
    object("multi_terms", |f, cx| combined::multi_terms(f, cx.name, cx.dialect)),
    object("geo_distance", |f, cx| places::distance(f, cx.name)),
    object("range", |f, cx| ranges::range(f, cx.dialect)),
    object("date_range", |f, cx| ranges::date_range(f, cx.dialect)),
    object("ip_range", |f, cx| ranges::ip_range(f, cx.dialect)),
    object("histogram", |f, cx| {
        histogram::parse_histogram(f, cx.name, cx.dialect).map(AggKind::Histogram)
    }),
    object("date_histogram", |f, cx| {
        histogram::parse_date_histogram(f, cx.dialect).map(AggKind::DateHistogram)
    }),
    AggSpec {
        name: "filter",
        reader: Reader::Body(|body, cx| single::filter(body, cx.dialect)),
        object: false,
    },
    by_hand("filters", |f, cx| filters::parse_filters(f, cx.dialect)),
    by_hand("global", single::global),
    object("missing", |f, cx| single::missing(f, cx.dialect)),
    by_hand("nested", single::nested),
    by_hand("reverse_nested", single::reverse_nested),
    by_hand("children", single::children),
    by_hand("parent", single::parent),
    by_hand("sampler", |f, cx| sampled::sampler(f, cx.name, cx.dialect)),
    object("composite", |f, cx| composite::parse_composite(f, cx.dialect)),
    object("adjacency_matrix", |f, cx| filters::parse_adjacency(f, cx.dialect)),
    object("geotile_grid", |f, _| grid::parse_grid(f, true)),
    object("geohash_grid", |f, _| grid::parse_grid(f, false)),
    object("auto_date_histogram", |f, cx| histogram::parse_auto(f, cx.name, cx.dialect)),
    object("avg", |f, cx| metric::plain(f, Metric::Avg, cx.dialect)),
    object("sum", |f, cx| metric::plain(f, Metric::Sum, cx.dialect)),
    object("min", |f, cx| metric::plain(f, Metric::Min, cx.dialect)),
    object("max", |f, cx| metric::plain(f, Metric::Max, cx.dialect)),
    object("stats", |f, cx| metric::plain(f, Metric::Stats, cx.dialect)),
    object("value_count", |f, cx| metric::plain(f, Metric::ValueCount, cx.dialect)),
    object("median_absolute_deviation", |f, cx| {
        metric::plain(f, Metric::MedianAbsoluteDeviation, cx.dialect)
    }),
    object("extended_stats", |f, cx| metric::extended_stats(f, cx.dialect)),
    object("cardinality", |f, cx| metric::cardinality(f, cx.name, cx.dialect)),
    object("percentiles", |f, cx| percentiles::percentiles(f, cx.name, cx.dialect)),
    object("percentile_ranks", |f, cx| percentiles::ranks(f, cx.name, cx.dialect)),
    object("weighted_avg", |f, cx| metric::weighted_avg(f, cx.dialect)),
    all_fields("top_hits", |f, cx| {
        top::parse_top_hits(f, cx.dialect).map(|hits| AggKind::TopHits(Box::new(hits)))
    }),
    object("top_metrics", |f, cx| top::parse_top_metrics(f, cx.dialect)),
    object("scripted_metric", |f, cx| scripted::parse(f, cx.name, cx.dialect)),
    all_fields("matrix_stats", |f, cx| combined::matrix_stats(f, cx.name)),
    object("geo_bounds", |f, _| places::bounds(f)),
    object("geo_centroid", |f, _| places::centroid(f)),
    pipeline("avg_bucket"),
    pipeline("sum_bucket"),
    pipeline("min_bucket"),
    pipeline("max_bucket"),
    pipeline("stats_bucket"),
    pipeline("extended_stats_bucket"),
    pipeline("percentiles_bucket"),
    pipeline("derivative"),
    pipeline("cumulative_sum"),
    pipeline("bucket_script"),
    pipeline("bucket_selector"),
    pipeline("bucket_sort"),
    pipeline("serial_diff"),
    pipeline("moving_fn"),
    pipeline("moving_avg"),
    opaque("geohex_grid"),
    opaque("geo_line"),
    opaque("random_sampler"),
    opaque("string_stats"),
    opaque("boxplot"),
    opaque("rate"),
    opaque("t_test"),
    opaque("categorize_text"),
    opaque("frequent_item_sets"),
    opaque("ip_prefix"),
    opaque("time_series"),
];
