//! The type of one field: its kind and its parameters.

use crate::tree::{PathSyntax, TreePart};
use analysis::Analyzer;
use model::date::DateFormat;
use serde_json::{Map, Value};
use std::sync::Arc;

macro_rules! kinds {
    ($($kind:ident = $wire:literal;)*) => {
        /// The sort of a field.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[allow(missing_docs, reason = "the wire name says it")]
        pub enum Kind { $($kind,)* }
        impl Kind {
            /// Every kind.
            pub const ALL: &[Kind] = &[$(Kind::$kind,)*];
            /// The name in mappings.
            pub fn wire(self) -> &'static str { match self { $(Kind::$kind => $wire,)* } }
        }
    };
}

kinds! {
    Text            = "text";
    MatchOnlyText   = "match_only_text";
    Keyword         = "keyword";
    ConstantKeyword = "constant_keyword";
    Wildcard        = "wildcard";
    Long            = "long";
    Integer         = "integer";
    Short           = "short";
    Byte            = "byte";
    UnsignedLong    = "unsigned_long";
    Double          = "double";
    Float           = "float";
    HalfFloat       = "half_float";
    ScaledFloat     = "scaled_float";
    Boolean         = "boolean";
    Date            = "date";
    DateNanos       = "date_nanos";
    Ip              = "ip";
    IntegerRange    = "integer_range";
    LongRange       = "long_range";
    FloatRange      = "float_range";
    DoubleRange     = "double_range";
    DateRange       = "date_range";
    IpRange         = "ip_range";
    Binary          = "binary";
    GeoPoint        = "geo_point";
    Join            = "join";
    Completion      = "completion";
    TokenCount      = "token_count";
    TreePath        = "tree_path";
    Alias           = "alias";
    Object          = "object";
    Nested          = "nested";
}

impl Kind {
    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.wire() == name)
    }
    /// Analyzed text.
    pub fn is_text(self) -> bool {
        matches!(self, Kind::Text | Kind::MatchOnlyText)
    }
    /// Whole strings as terms.
    pub fn is_keyword(self) -> bool {
        matches!(self, Kind::Keyword | Kind::ConstantKeyword | Kind::Wildcard | Kind::TreePath)
    }
    /// Whole numbers.
    pub fn is_integer(self) -> bool {
        matches!(
            self,
            Kind::Long | Kind::Integer | Kind::Short | Kind::Byte | Kind::UnsignedLong | Kind::TokenCount
        )
    }
    /// Numbers with a fraction.
    pub fn is_float(self) -> bool {
        matches!(self, Kind::Double | Kind::Float | Kind::HalfFloat | Kind::ScaledFloat)
    }
    /// Numbers of any sort.
    pub fn is_numeric(self) -> bool {
        self.is_integer() || self.is_float()
    }
    /// Dates of either precision.
    pub fn is_date(self) -> bool {
        matches!(self, Kind::Date | Kind::DateNanos)
    }
}

/// A field whose values come from the tree of directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeField {
    /// The part of a directory that it shows.
    pub part: TreePart,
    /// How paths are written.
    pub syntax: PathSyntax,
}

/// Parameters by name.
pub(crate) type Params = Map<String, Value>;

/// The type of one field.
#[derive(Clone, Debug)]
pub struct FieldType {
    /// Its kind.
    pub kind: Kind,
    /// Rendered as `string`: a field of the typed dialect.
    pub string: bool,
    /// Searchable through terms or points.
    pub index: bool,
    /// Has a column.
    pub doc_values: bool,
    /// Stored apart from the source.
    pub store: bool,
    /// Lengths count in scores.
    pub norms: bool,
    /// For the document's text.
    pub analyzer: Option<Analyzer>,
    /// For the query's text.
    pub search_analyzer: Option<Analyzer>,
    /// For phrases of a query.
    pub search_quote_analyzer: Option<Analyzer>,
    /// For keywords.
    pub normalizer: Option<Analyzer>,
    /// Multiplies scores.
    pub boost: f32,
    /// The format of dates.
    pub format: Option<DateFormat>,
    /// The factor of `scaled_float`.
    pub scaling_factor: f64,
    /// Stands for an explicit null.
    pub null_value: Option<Value>,
    /// Longer keywords are left out.
    pub ignore_above: Option<usize>,
    /// Strings and fractions are made to fit.
    pub coerce: bool,
    /// Unreadable values are left out.
    pub ignore_malformed: bool,
    /// Paths that also receive the values.
    pub copy_to: Vec<String>,
    /// Name of the similarity.
    pub similarity: Option<String>,
    /// The relations of `join`: parents and their children, in order.
    pub relations: Vec<(String, Vec<String>)>,
    /// `docs`, `freqs`, `positions`, `offsets`.
    pub index_options: Option<String>,
    /// Text may be sorted and aggregated.
    pub fielddata: bool,
    /// The `meta` object.
    pub meta: Map<String, Value>,
    /// `no`, `yes`, `with_positions` ….
    pub term_vector: Option<String>,
    /// Positions between the values of a text field.
    pub position_increment_gap: u32,
    /// A hint that we accept.
    pub eager_global_ordinals: bool,
    /// The concrete path of an `alias`.
    pub alias_path: Option<String>,
    /// The value of `constant_keyword`.
    pub constant: Option<String>,
    /// Query texts are split at spaces (keyword).
    pub split_queries_on_whitespace: bool,
    /// `tree_path` and its sub-fields: the part of a directory that they show.
    pub tree: Option<TreeField>,
    /// Parameters that differ from their defaults, as rendered.
    pub(crate) params: Params,
    /// Names and types of the multi-fields, rendered under `fields`.
    pub(crate) fields: Vec<(String, Arc<FieldType>)>,
}

impl FieldType {
    /// The sub-field of a `tree_path` field that shows a part of it. It has no values of its own in segments.
    pub(crate) fn sub_field(&self, part: TreePart) -> FieldType {
        FieldType {
            kind: if part == TreePart::Depth {
                Kind::Integer
            } else {
                Kind::TreePath
            },
            tree: self.tree.map(|tree| TreeField { part, ..tree }),
            params: Params::new(),
            ..self.clone()
        }
    }

    /// Whether its values are those of another field, worked out from the tree.
    pub fn is_tree_sub_field(&self) -> bool {
        self.tree.is_some_and(|tree| tree.part != TreePart::Path)
    }

    /// The type's name in mappings: `string` in the typed dialect.
    pub fn wire(&self) -> &'static str {
        if self.string { "string" } else { self.kind.wire() }
    }

    /// The names of the children of a relation, if it is a parent.
    pub fn children_of(&self, parent: &str) -> Option<&[String]> {
        self.relations
            .iter()
            .find(|(name, _)| name == parent)
            .map(|(_, children)| children.as_slice())
    }

    /// The name of the parent of a relation, if it is a child.
    pub fn parent_of(&self, child: &str) -> Option<&str> {
        self.relations
            .iter()
            .find(|(_, children)| children.iter().any(|c| c == child))
            .map(|(name, _)| name.as_str())
    }
}
