//! The table of clauses: the name of each, how it is read today and in the dialect of 2015.

use super::{
    Clause, Parsing, Query, bool_query, boosting, common_terms, constant_score, dis_max, distance_feature, exists,
    function_score, fuzzy, geo, geo_2015, has_child, has_parent, ids, intervals, join, match_all, match_phrase, match_query,
    more_like_this, multi_match, nested, pattern, query_string, range, script, simple_query_string, span, term, terms, terms_set,
    typed, wrapper,
};
use crate::json::Node;
use model::Result;

/// Reads a clause: its name, its value.
type Parse = fn(&str, Node, &mut Parsing) -> Result<Query>;

/// The support of a clause in a dialect.
#[derive(Clone, Copy)]
enum Support {
    /// It is read, from an object.
    Object(Parse),
    /// It is read, and refuses itself what is no object.
    Any(Parse),
    /// It exists and is carried along unread.
    Carried,
    /// There is no such clause.
    Unknown,
}

use Support::{Any, Carried, Object, Unknown};

/// One row of the table.
pub(super) struct ClauseSpec {
    pub(super) name: &'static str,
    today: Support,
    legacy: Support,
    /// A second name, which is never offered for one that is unknown.
    alias: bool,
}

impl ClauseSpec {
    /// The row of a name, if the dialect has such a clause.
    pub(super) fn find(name: &str, legacy: bool) -> Option<&'static ClauseSpec> {
        let spec = CLAUSES.iter().find(|spec| spec.name == name)?;
        (!matches!(spec.support(legacy), Unknown)).then_some(spec)
    }

    /// The names that may have been meant by an unknown one.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        let offered = CLAUSES.iter().filter(|spec| !spec.alias && !matches!(spec.today, Unknown));
        offered.map(|spec| spec.name)
    }

    /// Whether it is read from an object only.
    pub(super) fn needs_object(&self, legacy: bool) -> bool {
        !matches!(self.support(legacy), Any(_))
    }

    /// Reads the value of the clause.
    pub(super) fn parse(&self, body: Node, cx: &mut Parsing) -> Result<Query> {
        // One call for all: a frame with room for every clause's result would be large, and this recurses.
        let parse = match self.support(cx.dialect.rules.has_legacy_clauses) {
            Object(parse) | Any(parse) => parse,
            Carried | Unknown => carry,
        };
        parse(self.name, body, cx)
    }

    fn support(&self, legacy: bool) -> Support {
        if legacy { self.legacy } else { self.today }
    }
}

fn carry(name: &str, body: Node, _: &mut Parsing) -> Result<Query> {
    Ok(Clause::Opaque {
        name: name.to_owned(),
        body: body.into_value(),
    }
    .into())
}

const fn clause(name: &'static str, parse: Parse) -> ClauseSpec {
    row(name, Object(parse), Object(parse))
}

const fn alias(name: &'static str, parse: Parse) -> ClauseSpec {
    ClauseSpec {
        alias: true,
        ..clause(name, parse)
    }
}

const fn opaque(name: &'static str) -> ClauseSpec {
    row(name, Carried, Carried)
}

/// A clause of 2015 that was dropped later.
const fn legacy(name: &'static str, parse: Parse) -> ClauseSpec {
    row(name, Unknown, Any(parse))
}

const fn row(name: &'static str, today: Support, legacy: Support) -> ClauseSpec {
    ClauseSpec {
        name,
        today,
        legacy,
        alias: false,
    }
}

model::assert_names_differ!(CLAUSES, "each clause has one row");

/// Every clause that a request may have. Among names that are equally near to an unknown one the first is offered.
const CLAUSES: &[ClauseSpec] = &[
    clause("more_like_this", |_, body, cx| more_like_this::parse(body, cx)),
    clause("mlt", |_, body, cx| more_like_this::parse(body, cx)),
    clause("match_all", |name, body, cx| {
        match_all::parse(body, Clause::MatchAll, name, cx)
    }),
    clause("match_none", |name, body, cx| {
        match_all::parse(body, Clause::MatchNone, name, cx)
    }),
    clause("term", |_, body, cx| term::parse(body, cx)),
    clause("terms", |_, body, cx| terms::parse(body, cx)),
    alias("in", |_, body, cx| terms::parse(body, cx)),
    clause("range", |_, body, cx| range::parse(body, cx)),
    clause("exists", |_, body, cx| exists::parse(body, cx)),
    clause("prefix", pattern::parse),
    clause("wildcard", pattern::parse),
    clause("regexp", pattern::parse),
    clause("fuzzy", |_, body, cx| fuzzy::parse(body, cx)),
    clause("ids", |_, body, cx| ids::parse(body, cx)),
    clause("type", |_, body, cx| ids::parse_type(body, cx)),
    clause("match", match_query::parse),
    clause("match_bool_prefix", match_query::parse),
    clause("match_phrase", match_phrase::parse),
    clause("match_phrase_prefix", match_phrase::parse),
    clause("multi_match", |_, body, cx| multi_match::parse(body, cx)),
    clause("bool", |_, body, cx| bool_query::parse(body, cx)),
    clause("boosting", |_, body, cx| boosting::parse(body, cx)),
    clause("constant_score", |_, body, cx| constant_score::parse(body, cx)),
    clause("dis_max", |_, body, cx| dis_max::parse(body, cx)),
    clause("function_score", |_, body, cx| function_score::parse(body, cx)),
    clause("script_score", |_, body, cx| script::parse_score(body, cx)),
    clause("script", |_, body, cx| script::parse(body, cx)),
    clause("query_string", |_, body, cx| query_string::parse(body, cx)),
    clause("simple_query_string", |_, body, cx| simple_query_string::parse(body, cx)),
    clause("nested", |_, body, cx| nested::parse(body, cx)),
    clause("has_child", |_, body, cx| has_child::parse(body, cx)),
    clause("has_parent", |_, body, cx| has_parent::parse(body, cx)),
    clause("parent_id", |_, body, cx| has_child::parse_parent_id(body, cx)),
    clause("join", |_, body, cx| join::parse(body, cx)),
    clause("wrapper", |_, body, cx| wrapper::parse(body, cx)),
    clause("distance_feature", |_, body, cx| distance_feature::parse(body, cx)),
    clause("common", |_, body, cx| common_terms::parse(body, cx)),
    clause("terms_set", |_, body, cx| terms_set::parse(body, cx)),
    clause("intervals", |_, body, cx| intervals::parse(body, cx)),
    clause("geo_distance", geo::parse),
    clause("geo_bounding_box", geo::parse),
    alias("geo_bbox", geo::parse),
    clause("geo_polygon", geo::parse),
    clause("span_term", span::parse),
    clause("span_near", span::parse),
    clause("span_or", span::parse),
    clause("span_first", span::parse),
    clause("span_not", span::parse),
    clause("span_containing", span::parse),
    clause("span_within", span::parse),
    clause("span_multi", span::parse),
    clause("field_masking_span", span::parse),
    opaque("combined_fields"),
    row("geo_distance_range", Carried, Object(geo_2015::parse)),
    opaque("geo_grid"),
    opaque("geo_shape"),
    row("geohash_cell", Carried, Object(geo_2015::parse)),
    opaque("hybrid"),
    row("indices", Carried, Any(typed::indices)),
    opaque("knn"),
    opaque("neural"),
    opaque("percolate"),
    opaque("pinned"),
    opaque("rank_feature"),
    opaque("rule"),
    opaque("semantic"),
    opaque("shape"),
    opaque("span_gap"),
    opaque("sparse_vector"),
    row("template", Carried, Any(typed::template)),
    opaque("text_expansion"),
    opaque("weighted_tokens"),
    opaque("xy_shape"),
    opaque("bitmap"),
    legacy("filtered", typed::parse_filtered),
    legacy("and", typed::list),
    legacy("or", typed::list),
    legacy("not", typed::not),
    legacy("missing", typed::missing),
    legacy("limit", typed::limit),
    legacy("query", |_, body, cx| cx.inner(body)),
    legacy("fquery", typed::fquery),
];
