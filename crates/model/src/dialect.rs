//! How one request is read and answered. `rest` chooses; parse and render receive it as a value.

use crate::compat::Rules;
use crate::persona::Persona;
use crate::settings;

/// How one request is read and answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dialect {
    /// The listener's persona, or the one the media type asks for.
    pub persona: Persona,
    /// Where the request is read and answered as Elasticsearch 2 does it. `rules.has_types` is the typed dialect itself: it
    /// holds with a type in the URL, with typed indices, and under `Persona::Es2`.
    pub rules: &'static Rules,
    /// `rest_total_hits_as_int=true`.
    pub total_as_int: bool,
    /// Bucket and suggestion names carry their type: `typed_keys=true`.
    pub typed_keys: bool,
    /// How deep the request may be.
    pub depths: Depths,
    /// `indices.query.bool.max_clause_count`, if clauses are counted as they are parsed: in long bodies. Those of short ones
    /// are few enough to be counted when they are planned.
    pub clauses_max: Option<u32>,
}

/// How deep requests may be: the node's settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Depths {
    /// `json.max_depth`: arrays and objects in a body.
    pub json: u16,
    /// `indices.query.max_nested_depth`: queries in queries.
    pub queries: u16,
    /// `search.max_aggregation_depth`: aggregations in aggregations.
    pub aggs: u16,
}

impl Depths {
    /// The most that `json.max_depth` may be: stored documents are read with this limit.
    pub const JSON_MOST: u16 = 128;
}

impl Default for Depths {
    fn default() -> Depths {
        let of = |setting: settings::Setting, most| setting.default.parse().unwrap_or(most);
        Depths {
            json: of(settings::JSON_MAX_DEPTH, Depths::JSON_MOST),
            queries: of(settings::QUERY_MAX_DEPTH, 30),
            aggs: of(settings::MAX_AGG_DEPTH, 32),
        }
    }
}

impl Dialect {
    /// The dialect of a persona with no further hints.
    pub fn of(persona: Persona) -> Dialect {
        Dialect {
            persona,
            rules: Rules::of(persona, persona == Persona::Es2),
            total_as_int: false,
            typed_keys: false,
            depths: Depths::default(),
            clauses_max: None,
        }
    }

    /// The same for addresses with types, or without.
    #[must_use]
    pub fn with_types(self, typed: bool) -> Dialect {
        Dialect {
            rules: Rules::of(self.persona, typed),
            ..self
        }
    }
}

impl Default for Dialect {
    fn default() -> Dialect {
        Dialect::of(Persona::default())
    }
}
