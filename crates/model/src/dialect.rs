//! Which server a client takes us for. `rest` chooses; parse and render receive it as a value.

use crate::compat::Rules;
use crate::settings;

/// The product and major version that a listener answers as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Persona {
    /// Elasticsearch 1 and 2.
    Es2,
    /// Elasticsearch 7.
    Es7,
    /// Elasticsearch 8.
    #[default]
    Es8,
    /// Elasticsearch 9.
    Es9,
    /// OpenSearch 1.
    Opensearch1,
    /// OpenSearch 2.
    Opensearch2,
    /// OpenSearch 3.
    Opensearch3,
}

impl Persona {
    /// Every persona with its name in flags and settings.
    pub const NAMES: &[(&str, Persona)] = &[
        ("es2", Persona::Es2),
        ("es7", Persona::Es7),
        ("es8", Persona::Es8),
        ("es9", Persona::Es9),
        ("opensearch1", Persona::Opensearch1),
        ("opensearch2", Persona::Opensearch2),
        ("opensearch3", Persona::Opensearch3),
    ];
    /// The persona of that name.
    pub fn from_name(name: &str) -> Option<Persona> {
        Persona::NAMES.iter().find(|(n, _)| *n == name).map(|(_, p)| *p)
    }
    /// OpenSearch of any version.
    pub fn is_opensearch(self) -> bool {
        matches!(self, Persona::Opensearch1 | Persona::Opensearch2 | Persona::Opensearch3)
    }
    /// Replicas that an index asks for count as missing: its health is yellow and `_cat/shards` lists them unassigned.
    ///
    /// One process holds one copy, so a missing replica is no trouble and hides what yellow means here. The suites of
    /// Elasticsearch 7 and OpenSearch wait for yellow on such indices, so these personas keep the reference's answer.
    pub fn counts_missing_replicas(self) -> bool {
        self == Persona::Es7 || self.is_opensearch()
    }
    /// The version number that `GET /` tells.
    pub fn version(self) -> &'static str {
        match self {
            Persona::Es2 => "2.4.6",
            Persona::Es7 => "7.17.28",
            Persona::Es8 => "8.19.5",
            Persona::Es9 => "9.2.0",
            Persona::Opensearch1 => "1.3.20",
            Persona::Opensearch2 => "2.19.5",
            Persona::Opensearch3 => "3.5.0",
        }
    }
}

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
