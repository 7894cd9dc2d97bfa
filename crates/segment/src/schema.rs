//! How the fields of a mapping lie in tantivy: one typed field each, in an order that only grows.
//!
//! A tantivy field is positional and is never renumbered, removed or retyped, so segments of every earlier
//! schema open under the newest one. What is kept on disk is the ordered list of [`Shape`]s.
//!
//! Our names (`f0`, `f1`, …) stand for paths, so dots in paths are no columns' business.
//!
//! Not here: what a document becomes (`document`), analyzers (`analysis`), reading (`search`).

use mapping::tree::TreePart;
use mapping::{FieldType, Kind, Mapping};
use model::{Error, ErrorKind, Result};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use tantivy::schema::{
    BytesOptions, Field, IndexRecordOption, IpAddrOptions, NumericOptions, Schema, SchemaBuilder, TextFieldIndexing, TextOptions,
};

/// How one path is stored; fixed when the path first appears.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The path in the mapping.
    pub path: Arc<str>,
    /// Its kind.
    pub kind: Kind,
    /// Has postings.
    pub indexed: bool,
    /// Has a column.
    pub doc_values: bool,
    /// Text: has lengths.
    pub norms: bool,
    /// Text: has frequencies.
    pub freqs: bool,
    /// Text: has positions.
    pub positions: bool,
}

impl Shape {
    fn of(path: &str, field: &FieldType) -> Shape {
        let options = field.index_options.as_deref().unwrap_or("positions");
        Shape {
            path: path.into(),
            kind: field.kind,
            indexed: field.index && field.kind != Kind::Binary,
            doc_values: field.doc_values && !field.kind.is_text() && field.kind != Kind::Binary,
            norms: field.kind.is_text() && field.norms,
            freqs: options != "docs",
            positions: matches!(options, "positions" | "offsets"),
        }
    }
    fn to_json(&self) -> Value {
        json!([
            &*self.path,
            self.kind.wire(),
            self.indexed,
            self.doc_values,
            self.norms,
            self.freqs,
            self.positions
        ])
    }
    fn from_json(value: &Value) -> Option<Shape> {
        Some(Shape {
            path: value.get(0)?.as_str()?.into(),
            kind: Kind::from_name(value.get(1)?.as_str()?)?,
            indexed: value.get(2)?.as_bool()?,
            doc_values: value.get(3)?.as_bool()?,
            norms: value.get(4)?.as_bool()?,
            freqs: value.get(5)?.as_bool()?,
            positions: value.get(6)?.as_bool()?,
        })
    }
}

/// Where one path lies.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its shape.
    pub shape: Shape,
    /// The path's kind, as in its shape.
    pub kind: Kind,
    /// Postings, or nothing if it is not indexed. Of `geo_point`: the latitude; of `join`: the relation.
    pub field: Field,
    /// The column's name, if there is one (the same as tantivy's name of `field`).
    pub column: Option<String>,
    /// The longitude of a `geo_point`, the parent's id of a `join`, the stored directories of a `tree_path`: field and column
    /// name.
    pub second: Option<(Field, String)>,
    /// The numbers of the names that `_field_names` gets from it: its path and the objects around it.
    pub names: Box<[u32]>,
}

/// The fields of one index. Immutable; [`IndexSchema::grow`] makes the next.
pub struct IndexSchema {
    /// For tantivy.
    pub schema: Schema,
    /// `_id`: the uid as one token, stored, and a column of strings; nested documents carry their root's.
    pub id: Field,
    /// `_source`: stored bytes.
    pub source: Field,
    /// `_routing`: token and stored.
    pub routing: Field,
    /// `_parent` of typed indices (the bare id): token, stored, column of strings.
    pub parent: Field,
    /// `_seq_no`: column of u64.
    pub seq_no: Field,
    /// `_version`: column of u64.
    pub version: Field,
    /// `_primary_term`: column of u64.
    pub term: Field,
    /// `_nested_path`: token on nested documents.
    pub nested_path: Field,
    /// `_offset`: column of u64 on nested documents, the position among the siblings of the same path.
    pub offset: Field,
    /// `_root`: token "1" on root documents.
    pub root: Field,
    /// `_field_names`: one token for each path (and enclosing object's path) that has a value.
    pub field_names: Field,
    /// `_type`: token and column of strings, in typed indices.
    pub doc_type: Field,
    /// `_ignored`: one token and stored value for each path of which a value was left out.
    pub ignored: Field,
    /// `_hidden`: stored bytes, the mark.
    pub hidden: Field,
    /// `_invisible`: token "1" on documents that plain readers do not see.
    pub invisible: Field,
    /// Paths and the objects they are in, in order.
    names: Vec<Arc<str>>,
    slots: Vec<Slot>,
    /// Positions of the `tree_path` fields.
    trees: Vec<usize>,
    by_path: FxHashMap<Arc<str>, usize>,
}

impl fmt::Debug for IndexSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexSchema({} paths)", self.slots.len())
    }
}

/// The token of `_root` and `_invisible`.
pub const YES: &str = "1";

impl IndexSchema {
    /// The schema of a mapping that has never been stored.
    pub fn of(mapping: &Mapping) -> IndexSchema {
        IndexSchema::with(Vec::new()).grow(mapping)
    }

    /// The schema of these shapes, in this order.
    pub fn with(shapes: Vec<Shape>) -> IndexSchema {
        let mut b = Schema::builder();
        let token = || {
            TextOptions::default().set_indexing_options(
                TextFieldIndexing::default()
                    .set_tokenizer("raw")
                    .set_fieldnorms(false)
                    .set_index_option(IndexRecordOption::Basic),
            )
        };
        let id = b.add_text_field("_id", token().set_stored().set_fast("raw"));
        let source = b.add_bytes_field("_source", BytesOptions::default().set_stored());
        let routing = b.add_text_field("_routing", token().set_stored());
        let parent = b.add_text_field("_parent", token().set_stored().set_fast("raw"));
        let seq_no = b.add_u64_field("_seq_no", NumericOptions::default().set_fast());
        let version = b.add_u64_field("_version", NumericOptions::default().set_fast());
        let term = b.add_u64_field("_primary_term", NumericOptions::default().set_fast());
        let nested_path = b.add_text_field("_nested_path", token());
        let offset = b.add_u64_field("_offset", NumericOptions::default().set_fast());
        let root = b.add_text_field("_root", token());
        let field_names = b.add_text_field("_field_names", token());
        let doc_type = b.add_text_field("_type", token().set_fast("raw"));
        let ignored = b.add_text_field("_ignored", token().set_stored());
        let hidden = b.add_bytes_field("_hidden", BytesOptions::default().set_stored());
        let invisible = b.add_text_field("_invisible", token());
        let names = names(&shapes);
        debug_assert!(
            names.is_sorted_by(|a, b| a < b),
            "names of fields are looked up by bisection, so they rise"
        );
        let mut slots: Vec<Slot> = shapes
            .into_iter()
            .enumerate()
            .map(|(n, shape)| slot(&mut b, n, shape))
            .collect();
        for slot in &mut slots {
            let around = around(&slot.shape.path);
            slot.names = around
                .filter_map(|name| names.binary_search_by(|known| (**known).cmp(name)).ok())
                .map(|at| at as u32)
                .collect();
        }
        let by_path = slots
            .iter()
            .enumerate()
            .map(|(n, slot)| (slot.shape.path.clone(), n))
            .collect();
        let is_tree = |(_, slot): &(usize, &Slot)| slot.kind == Kind::TreePath;
        debug_assert!(
            slots.windows(2).all(|two| two[0].field.field_id() < two[1].field.field_id()),
            "write-path.md 1.8: a slot keeps its field as the schema grows"
        );
        IndexSchema {
            schema: b.build(),
            trees: slots.iter().enumerate().filter(is_tree).map(|(n, _)| n).collect(),
            id,
            source,
            routing,
            parent,
            seq_no,
            version,
            term,
            nested_path,
            offset,
            root,
            field_names,
            doc_type,
            ignored,
            hidden,
            invisible,
            names,
            slots,
            by_path,
        }
    }

    /// Where a path lies; the sub-fields of a `tree_path` lie where the field does.
    pub fn slot(&self, path: &str) -> Option<&Slot> {
        let at = |path: &str| self.by_path.get(path).map(|n| &self.slots[*n]);
        at(path).or_else(|| {
            let (around, name) = path.rsplit_once('.')?;
            let is_sub_field = TreePart::SUB_FIELDS.iter().any(|part| part.name() == name);
            at(around).filter(|slot| is_sub_field && slot.kind == Kind::TreePath)
        })
    }

    /// The `tree_path` fields.
    pub fn trees(&self) -> impl Iterator<Item = &Slot> {
        self.trees.iter().map(|n| &self.slots[*n])
    }

    /// The `tree_path` that stores the directories of documents in this field.
    pub fn tree_of(&self, field: Field) -> Option<&Arc<str>> {
        let stores = |slot: &&Slot| slot.second.as_ref().is_some_and(|(own, _)| *own == field);
        let found = self.trees().find(stores);
        found.map(|slot| &slot.shape.path)
    }

    /// The text of a name.
    pub fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    /// Every slot, in order.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Is anything in the mapping that has no slot yet?
    pub fn covers(&self, mapping: &Mapping) -> bool {
        stored_fields(mapping).all(|(path, _)| self.by_path.contains_key(path))
    }

    /// The schema with the mapping's new paths appended; what is there keeps its place and shape.
    #[must_use]
    pub fn grow(&self, mapping: &Mapping) -> IndexSchema {
        let mut shapes: Vec<Shape> = self.slots.iter().map(|slot| slot.shape.clone()).collect();
        shapes.extend(
            stored_fields(mapping)
                .filter(|(path, _)| !self.by_path.contains_key(*path))
                .map(|(path, field)| Shape::of(path, field)),
        );
        let grown = IndexSchema::with(shapes);
        debug_assert!(
            self.slots.iter().zip(&grown.slots).all(|(a, b)| a.field == b.field),
            "fields are never renumbered"
        );
        grown
    }

    /// The form kept on disk: shapes in order.
    pub fn to_json(&self) -> Value {
        Value::Array(self.slots.iter().map(|slot| slot.shape.to_json()).collect())
    }

    /// From the form kept on disk.
    ///
    /// # Errors
    /// `Corruption` where it is none.
    pub fn from_json(value: &Value) -> Result<IndexSchema> {
        let shapes: Option<Vec<Shape>> = value.as_array().and_then(|list| list.iter().map(Shape::from_json).collect());
        Ok(IndexSchema::with(shapes.ok_or_else(|| {
            Error::new(ErrorKind::Corruption, format!("no list of field shapes: {value}"))
        })?))
    }
}

/// The leaves that have a place of their own: aliases lead to others, objects have none.
fn stored_fields(mapping: &Mapping) -> impl Iterator<Item = (&str, &FieldType)> {
    mapping
        .fields()
        .filter(|(_, field)| !matches!(field.kind, Kind::Alias | Kind::Object | Kind::Nested) && !field.is_tree_sub_field())
}

/// The column of a `geo_point`'s longitudes, from that of its latitudes.
pub fn longitude_column(latitudes: &str) -> String {
    format!("{latitudes}#lon")
}

/// The column of ranges' upper ends, from that of their lower ones.
pub fn upper_column(lower: &str) -> String {
    format!("{lower}#to")
}

/// The column of a `join`'s parents, from that of its relations.
pub fn parent_column(relations: &str) -> String {
    format!("{relations}#parent")
}

/// The stored field of a `tree_path`'s directories in the order of the source, from that of their numbers.
pub fn placed_field(numbers: &str) -> String {
    format!("{numbers}#placed")
}

/// The name of the tokenizer of slot `n`'s text.
pub(super) fn tokenizer_name(n: usize) -> String {
    format!("f{n}")
}

/// A path, and the objects it is in.
fn around(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once('.').map(|(object, _)| object))
}

/// All paths and the objects they are in, in order, each once.
fn names(shapes: &[Shape]) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = shapes.iter().map(|shape| shape.path.clone()).collect();
    let objects = shapes.iter().flat_map(|shape| around(&shape.path).skip(1));
    names.extend(objects.map(Arc::from));
    names.sort_unstable();
    names.dedup();
    names.shrink_to_fit();
    names
}

/// Whole values as terms.
fn raw_terms() -> TextFieldIndexing {
    TextFieldIndexing::default()
        .set_tokenizer("raw")
        .set_fieldnorms(false)
        .set_index_option(IndexRecordOption::Basic)
}

fn numeric_options(shape: &Shape) -> NumericOptions {
    let mut options = NumericOptions::default();
    if shape.indexed {
        options = options.set_indexed();
    }
    if shape.doc_values { options.set_fast() } else { options }
}

fn keyword_options(shape: &Shape) -> TextOptions {
    let mut options = TextOptions::default();
    if shape.indexed {
        options = options.set_indexing_options(raw_terms());
    }
    if shape.doc_values { options.set_fast("raw") } else { options }
}

/// The options of the analyzed text of field `n`.
fn text_options(shape: &Shape, n: usize) -> TextOptions {
    if !shape.indexed {
        return TextOptions::default();
    }
    let record = match (shape.freqs, shape.positions) {
        (_, true) => IndexRecordOption::WithFreqsAndPositions,
        (true, false) => IndexRecordOption::WithFreqs,
        (false, false) => IndexRecordOption::Basic,
    };
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(&tokenizer_name(n))
        .set_fieldnorms(shape.norms)
        .set_index_option(record);
    TextOptions::default().set_indexing_options(indexing)
}

fn slot(b: &mut SchemaBuilder, n: usize, shape: Shape) -> Slot {
    let name = format!("f{n}");
    let kind = shape.kind;
    let numeric = || numeric_options(&shape);
    let keyword = || keyword_options(&shape);
    let mut second = None;
    let field = match kind {
        Kind::Text | Kind::MatchOnlyText => b.add_text_field(&name, text_options(&shape, n)),
        Kind::Keyword | Kind::ConstantKeyword | Kind::Wildcard => b.add_text_field(&name, keyword()),
        Kind::Join => {
            let parent = parent_column(&name);
            let field = b.add_text_field(&name, keyword());
            second = Some((b.add_text_field(&parent, keyword()), parent));
            field
        }
        Kind::Long | Kind::Integer | Kind::Short | Kind::Byte | Kind::TokenCount | Kind::Date | Kind::DateNanos => {
            b.add_i64_field(&name, numeric())
        }
        Kind::UnsignedLong => b.add_u64_field(&name, numeric()),
        Kind::Double | Kind::Float | Kind::HalfFloat | Kind::ScaledFloat => b.add_f64_field(&name, numeric()),
        Kind::Boolean => b.add_bool_field(&name, numeric()),
        Kind::Ip => {
            let mut options = IpAddrOptions::default();
            if shape.indexed {
                options = options.set_indexed();
            }
            b.add_ip_addr_field(&name, if shape.doc_values { options.set_fast() } else { options })
        }
        Kind::GeoPoint => {
            let longitude = longitude_column(&name);
            let field = b.add_f64_field(&name, NumericOptions::default().set_fast());
            second = Some((b.add_f64_field(&longitude, NumericOptions::default().set_fast()), longitude));
            field
        }
        Kind::TreePath => {
            let placed = placed_field(&name);
            let field = b.add_u64_field(&name, NumericOptions::default().set_indexed().set_fast());
            second = Some((b.add_bytes_field(&placed, BytesOptions::default().set_stored()), placed));
            field
        }
        Kind::Completion => b.add_text_field(&name, TextOptions::default().set_indexing_options(raw_terms())),
        kind if kind.is_range() => {
            // Keys of 128 bits, which addresses are too.
            let upper = upper_column(&name);
            let field = b.add_ip_addr_field(&name, IpAddrOptions::default().set_fast());
            second = Some((b.add_ip_addr_field(&upper, IpAddrOptions::default().set_fast()), upper));
            field
        }
        _ => b.add_bytes_field(&name, BytesOptions::default()),
    };
    let column = (shape.doc_values && !kind.is_text() && kind != Kind::Completion
        || matches!(kind, Kind::GeoPoint | Kind::TreePath)
        || kind.is_range())
    .then_some(name);
    Slot {
        shape,
        kind,
        field,
        column,
        second,
        names: Box::default(),
    }
}
