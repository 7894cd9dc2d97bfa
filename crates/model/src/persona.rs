//! Which server a client takes us for.

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
