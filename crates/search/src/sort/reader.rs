//! Reads the keys of documents, segment by segment.

use super::*;

/// A key's reader in one segment.
pub struct Reader {
    pub(super) by: ReadBy,
    pub(super) ascending: bool,
}

pub(super) enum ReadBy {
    Score,
    Doc(i64),
    Constant(Key),
    Column {
        column: Option<Column>,
        mode: MultiValueMode,
        missing: Key,
        float: bool,
        children: Option<Children>,
        id: bool,
        to_nanos: bool,
        /// Its name among the columns of the segment; none of what is derived.
        name: Option<Arc<str>>,
    },
    Script {
        bound: Bound,
        text: bool,
        /// What is no string is refused.
        strict: bool,
        mode: MultiValueMode,
        children: Option<Children>,
        missing: Key,
    },
    Geo {
        column: Option<Column>,
        distance: Distance,
        children: Option<Children>,
    },
}

impl Reader {
    /// The key of a document where that is cheap, for a look before anything is kept.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn quick(&self, doc: DocId, score: f32) -> Option<Key> {
        match &self.by {
            ReadBy::Score => Some(Key::Score(score)),
            ReadBy::Doc(base) => Some(Key::Int(base + i64::from(doc))),
            ReadBy::Constant(key) => Some(key.clone()),
            ReadBy::Column {
                column: Some(Column::I64(c) | Column::Date(c) | Column::DateNanos(c)),
                mode: mode @ (MultiValueMode::Min | MultiValueMode::Max),
                missing,
                float: false,
                children: None,
                to_nanos: false,
                ..
            } => {
                let mut all = c.values_for_doc(doc);
                let one = if *mode == MultiValueMode::Max {
                    all.max()
                } else {
                    all.next().map(|first| all.fold(first, i64::min))
                };
                Some(one.map_or_else(|| missing.clone(), Key::Int))
            }
            _ => None,
        }
    }

    /// The key of a document.
    ///
    /// # Errors
    /// Scripts that fail, unreadable files.
    pub fn read(&self, doc: DocId, score: f32) -> Result<Key> {
        Ok(match &self.by {
            ReadBy::Score => Key::Score(score),
            ReadBy::Doc(base) => Key::Int(base + i64::from(doc)),
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
                    crate::fields::multi_value::pick(*mode, &mut all).map_or_else(|| missing.clone(), Key::Float)
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
            ReadBy::Column {
                column,
                mode,
                missing,
                float,
                children,
                id,
                to_nanos,
                name: _,
            } => {
                let Some(column) = column else { return Ok(missing.clone()) };
                let mut docs = vec![doc];
                if let Some(children) = children {
                    docs.clear();
                    children.of(doc, |child| {
                        let has = column.has(child);
                        if has {
                            docs.push(child);
                        }
                        has
                    });
                }
                match column {
                    Column::Str(strings) => {
                        let ords = docs.iter().flat_map(|d| strings.term_ords(*d));
                        let ord = if *mode == MultiValueMode::Max {
                            ords.max()
                        } else {
                            ords.min()
                        };
                        let Some(ord) = ord else { return Ok(missing.clone()) };
                        let mut text = String::new();
                        strings.ord_to_str(ord, &mut text).map_err(crate::unreadable::broken)?;
                        if *id && let Some((_, bare)) = text.split_once('#') {
                            text = bare.to_owned();
                        }
                        Key::Text(text.into())
                    }
                    Column::Ip(addresses) => {
                        let all = docs.iter().flat_map(|d| addresses.values_for_doc(*d));
                        let one = if *mode == MultiValueMode::Max { all.max() } else { all.min() };
                        match one {
                            Some(ip) => Key::Ip(ip),
                            None => missing.clone(),
                        }
                    }
                    Column::U64(c) if matches!(missing, Key::Unsigned(_) | Key::None { .. }) => {
                        let mut all: Vec<u64> = docs.iter().flat_map(|d| c.values_for_doc(*d)).collect();
                        let one = match mode {
                            MultiValueMode::Min => all.iter().copied().min(),
                            MultiValueMode::Max => all.iter().copied().max(),
                            MultiValueMode::Sum => all.iter().copied().reduce(u64::wrapping_add),
                            MultiValueMode::Avg | MultiValueMode::Median => {
                                all.sort_unstable();
                                let mut all: Vec<f64> = all.iter().map(|n| *n as f64).collect();
                                crate::fields::multi_value::pick(*mode, &mut all).map(|n| n.round() as u64)
                            }
                        };
                        one.map_or_else(|| missing.clone(), Key::Unsigned)
                    }
                    Column::I64(c) | Column::Date(c) | Column::DateNanos(c)
                        if !*float && matches!(mode, MultiValueMode::Min | MultiValueMode::Max | MultiValueMode::Sum) =>
                    {
                        let all = docs.iter().flat_map(|d| c.values_for_doc(*d));
                        let one = match mode {
                            MultiValueMode::Min => all.min(),
                            MultiValueMode::Max => all.max(),
                            _ => all.reduce(i64::wrapping_add),
                        };
                        let scale = if *to_nanos { 1_000_000 } else { 1 };
                        one.map_or_else(|| missing.clone(), |one| Key::Int(one.saturating_mul(scale)))
                    }
                    column => {
                        let (mut all, mut buffer) = (Vec::new(), Vec::new());
                        for doc in docs {
                            column.numbers(doc, &mut buffer);
                            all.extend_from_slice(&buffer);
                        }
                        match crate::fields::multi_value::pick(*mode, &mut all) {
                            None => missing.clone(),
                            Some(n) if *float => Key::Float(n),
                            Some(n) => Key::Int(n.round() as i64),
                        }
                    }
                }
            }
        })
    }

    /// Smallest first.
    pub fn ascending(&self) -> bool {
        self.ascending
    }
}

/// What a script of strings gives for a document. Since 2015 it gives nothing else.
fn string(bound: &Bound, doc: DocId, score: f32, strict: bool) -> Result<String> {
    use script::Value::{Bool, Double, Float, Int, Long};
    let value = bound.value(doc, score, None)?;
    match value {
        Int(_) | Long(_) | Float(_) | Double(_) | Bool(_) if strict => {
            let cause = format!("cannot cast [{}] to java.lang.String", value.text());
            Err(Error::new(ErrorKind::Script, "runtime error").caused_by(Error::illegal(cause)))
        }
        value => Ok(value.text()),
    }
}
