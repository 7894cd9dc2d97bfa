//! Reads the keys of documents, segment by segment.

use super::*;
use crate::fields::multi_value::pick;

/// A key's reader in one segment.
pub struct SortReader {
    pub(super) by: ReadBy,
    pub(super) ascending: bool,
}

pub(super) enum ReadBy {
    Score,
    /// Positions: that of the segment's first document, and how many it has.
    Doc {
        first: i64,
        max_doc: DocId,
    },
    Constant(Key),
    Column(ColumnReader),
    Script {
        bound: Bound,
        text: bool,
        /// Values that are no strings are refused.
        strict: bool,
        mode: MultiValueMode,
        children: Option<Children>,
        missing: Key,
    },
    Geo {
        column: Option<Column>,
        distance: SortDistance,
        children: Option<Children>,
    },
}

/// Keys that are values of a column, in one segment.
pub(super) struct ColumnReader {
    pub(super) column: Option<Column>,
    /// Which value of several counts.
    pub(super) mode: MultiValueMode,
    /// The key of a document without a value.
    pub(super) missing: Key,
    /// Whole numbers become fractions.
    pub(super) float: bool,
    /// Nested documents that have the values.
    pub(super) children: Option<Children>,
    /// Milliseconds become nanoseconds.
    pub(super) to_nanos: bool,
    /// Its name among the columns of the segment; derived columns have none.
    pub(super) name: Option<Arc<str>>,
}

impl ColumnReader {
    /// The least value of a document; `missing` where it has none.
    pub(super) fn least(column: Option<Column>, missing: Key) -> ColumnReader {
        ColumnReader {
            column,
            mode: MultiValueMode::Min,
            missing,
            float: false,
            children: None,
            to_nanos: false,
            name: None,
        }
    }

    /// The key of a document.
    ///
    /// # Errors
    /// Unreadable files.
    fn key(&self, doc: DocId) -> Result<Key> {
        let Some(column) = &self.column else {
            return Ok(self.missing.clone());
        };
        let nested = self.children.as_ref().map(|children| docs_with_value(children, column, doc));
        let docs = nested.as_deref().unwrap_or(std::slice::from_ref(&doc));
        let found = match column {
            Column::Str(strings) => self.text(strings, docs)?,
            Column::Ip(addresses) => {
                let all = docs.iter().flat_map(|d| addresses.values_for_doc(*d));
                let one = if self.mode == MultiValueMode::Max {
                    all.max()
                } else {
                    all.min()
                };
                one.map(Key::Ip)
            }
            Column::U64(numbers) if matches!(self.missing, Key::Unsigned(_) | Key::None { .. }) => {
                self.unsigned_key(numbers, docs)
            }
            Column::I64(numbers) | Column::Date(numbers) | Column::DateNanos(numbers)
                if !self.float && matches!(self.mode, MultiValueMode::Min | MultiValueMode::Max | MultiValueMode::Sum) =>
            {
                self.whole(numbers, docs)
            }
            column => self.number(column, docs),
        };
        Ok(found.unwrap_or_else(|| self.missing.clone()))
    }

    fn text(&self, strings: &StrColumn, docs: &[DocId]) -> Result<Option<Key>> {
        let ords = docs.iter().flat_map(|d| strings.term_ords(*d));
        let ord = if self.mode == MultiValueMode::Max {
            ords.max()
        } else {
            ords.min()
        };
        let Some(ord) = ord else { return Ok(None) };
        debug_assert!(ord < strings.num_terms() as u64, "an ordinal is below the number of terms");
        let mut text = String::new();
        strings.ord_to_str(ord, &mut text).map_err(segment::error::broken)?;
        Ok(Some(Key::Text(text.into())))
    }

    fn unsigned_key(&self, numbers: &tantivy::columnar::Column<u64>, docs: &[DocId]) -> Option<Key> {
        let mut all: Vec<u64> = docs.iter().flat_map(|d| numbers.values_for_doc(*d)).collect();
        let one = match self.mode {
            MultiValueMode::Min => all.iter().copied().min(),
            MultiValueMode::Max => all.iter().copied().max(),
            MultiValueMode::Sum => all.iter().copied().reduce(u64::wrapping_add),
            MultiValueMode::Avg | MultiValueMode::Median => {
                all.sort_unstable();
                let mut all: Vec<f64> = all.iter().map(|n| *n as f64).collect();
                pick(self.mode, &mut all).map(|n| n.round() as u64)
            }
        };
        one.map(Key::Unsigned)
    }

    fn whole(&self, numbers: &tantivy::columnar::Column<i64>, docs: &[DocId]) -> Option<Key> {
        let all = docs.iter().flat_map(|d| numbers.values_for_doc(*d));
        let one = match self.mode {
            MultiValueMode::Min => all.min(),
            MultiValueMode::Max => all.max(),
            _ => all.reduce(i64::wrapping_add),
        };
        let scale = if self.to_nanos { 1_000_000 } else { 1 };
        one.map(|one| Key::Int(one.saturating_mul(scale)))
    }

    fn number(&self, column: &Column, docs: &[DocId]) -> Option<Key> {
        let (mut all, mut buffer) = (Vec::new(), Vec::new());
        for doc in docs {
            column.numbers(*doc, &mut buffer);
            all.extend_from_slice(&buffer);
        }
        let one = pick(self.mode, &mut all)?;
        Some(if self.float {
            Key::Float(one)
        } else {
            Key::Int(one.round() as i64)
        })
    }
}

/// How a document stands to the keys of another, one for each reader, by what is cheap to know of it; `None` where only
/// [`SortReader::read`] tells. `Greater`: it comes after the other one.
pub(crate) fn quick_order(readers: &[SortReader], keys: &[Key], doc: DocId, score: f32) -> Option<Ordering> {
    debug_assert_eq!(readers.len(), keys.len(), "search.md S9: each sort has its key");
    for (reader, key) in readers.iter().zip(keys) {
        let order = reader.quick_order(doc, score, key)?;
        if order.is_ne() {
            return Some(order);
        }
    }
    Some(Ordering::Equal)
}

impl SortReader {
    /// As [`quick_order`], by this one's key, in the direction of the sort.
    fn quick_order(&self, doc: DocId, score: f32, key: &Key) -> Option<Ordering> {
        if let ReadBy::Geo {
            column: Some(Column::Geo(lat, _)),
            distance,
            children: None,
        } = &self.by
        {
            let Key::Float(rival) = key else { return None };
            let is_farther = self.ascending && distance.is_beyond(lat.values_for_doc(doc), *rival);
            return is_farther.then_some(Ordering::Greater);
        }
        let own = self.quick(doc, score)?;
        Some(compare(&own, key, self.ascending))
    }

    /// The key of a document where that is cheap.
    fn quick(&self, doc: DocId, score: f32) -> Option<Key> {
        let column = match &self.by {
            ReadBy::Score => return Some(Key::Score(score)),
            ReadBy::Doc { first, .. } => return Some(Key::Int(first + i64::from(doc))),
            ReadBy::Constant(key) => return Some(key.clone()),
            ReadBy::Column(column) if column.children.is_none() && !column.to_nanos => column,
            _ => return None,
        };
        let is_greatest = match column.mode {
            MultiValueMode::Max => true,
            MultiValueMode::Min => false,
            _ => return None,
        };
        let one = match (&column.column, column.float) {
            (Some(Column::I64(c) | Column::Date(c) | Column::DateNanos(c)), false) => {
                let (mut all, one) = (c.values_for_doc(doc), if is_greatest { i64::max } else { i64::min });
                all.next().map(|first| Key::Int(all.fold(first, one)))
            }
            (Some(Column::F64(c)), true) => {
                let (mut all, one) = (c.values_for_doc(doc), if is_greatest { f64::max } else { f64::min });
                all.next().map(|first| Key::Float(all.fold(first, one)))
            }
            _ => return None,
        };
        Some(one.unwrap_or_else(|| column.missing.clone()))
    }

    /// The key of a document.
    ///
    /// # Errors
    /// Scripts that fail, unreadable files.
    pub fn read(&self, doc: DocId, score: f32) -> Result<Key> {
        Ok(match &self.by {
            ReadBy::Score => Key::Score(score),
            ReadBy::Doc { first, .. } => Key::Int(first + i64::from(doc)),
            ReadBy::Constant(key) => key.clone(),
            ReadBy::Script {
                bound,
                text: false,
                strict: _,
                mode,
                children,
                missing,
            } => match children {
                None => Key::Float(bound.number(doc, score)?),
                Some(children) => {
                    let mut all = children
                        .list(doc)
                        .into_iter()
                        .map(|child| bound.number(child, score))
                        .collect::<Result<Vec<f64>>>()?;
                    pick(*mode, &mut all).map_or_else(|| missing.clone(), Key::Float)
                }
            },
            ReadBy::Script {
                bound,
                text: true,
                strict,
                mode,
                children,
                missing,
            } => match children {
                None => Key::Text(string(bound, doc, score, *strict)?.into()),
                Some(children) => {
                    let all = children
                        .list(doc)
                        .into_iter()
                        .map(|child| string(bound, child, score, *strict))
                        .collect::<Result<Vec<_>>>()?;
                    let one = if *mode == MultiValueMode::Max {
                        all.into_iter().max()
                    } else {
                        all.into_iter().min()
                    };
                    one.map_or_else(|| missing.clone(), |text| Key::Text(text.into()))
                }
            },
            ReadBy::Geo {
                column,
                distance,
                children,
            } => {
                let docs = children.as_ref().map_or_else(|| vec![doc], |children| children.list(doc));
                let found = match column {
                    Some(Column::Geo(lat, lon)) => distance.of(docs
                        .into_iter()
                        .flat_map(|doc| lat.values_for_doc(doc).zip(lon.values_for_doc(doc)))),
                    _ => None,
                };
                Key::Float(found.unwrap_or(f64::INFINITY))
            }
            ReadBy::Column(column) => column.key(doc)?,
        })
    }

    /// Smallest first.
    pub fn ascending(&self) -> bool {
        self.ascending
    }
}

/// The nested documents of a document that have a value.
fn docs_with_value(children: &Children, column: &Column, doc: DocId) -> Vec<DocId> {
    let mut docs = Vec::new();
    children.of(doc, |child| {
        let has = column.has(child);
        if has {
            docs.push(child);
        }
        has
    });
    docs
}

/// The string that a script gives for a document.
fn string(bound: &Bound, doc: DocId, score: f32, strict: bool) -> Result<String> {
    use script::Value::{Bool, Double, Float, Int, Long};
    let value = bound.value(doc, score, None)?;
    match value {
        Int(_) | Long(_) | Float(_) | Double(_) | Bool(_) if strict => {
            let cause = format!("cannot cast [{}] to java.lang.String", value.text());
            Err(Error::new(ErrorKind::Script, "runtime error").with_cause(Error::illegal(cause)))
        }
        value => Ok(value.text()),
    }
}
