//! The values of a block of documents, read from a column at once.
//!
//! Not here: values of one document, those of scripts, ranges and addresses (`values`).

use super::blocks::{Block, BlockRows};
use super::codes::{double_code, long_code};
use super::values::{Class, Reader, ValuesSource};
use crate::fields::column::Column;
use model::Result;
use tantivy::columnar::ColumnValues;

/// Whole numbers up to here are their own fractions, and so are their sums.
pub(super) const EXACT_MAX: u64 = 1 << 53;

/// The codes of a block, in the order of documents.
#[derive(Default)]
pub(super) struct BlockCodes {
    pub(super) list: Vec<u64>,
    pub(super) rows: BlockRows,
    whole: Vec<i64>,
    fractions: Vec<f64>,
    flags: Vec<bool>,
}

/// The numbers of a block, in the order of documents.
#[derive(Default)]
pub(super) struct BlockNumbers {
    pub(super) list: Vec<f64>,
    /// The same as whole numbers, where they are some.
    pub(super) whole: Vec<i64>,
    pub(super) rows: BlockRows,
    /// No whole number is further from 0; `None` where they have fractions.
    pub(super) whole_most: Option<u64>,
}

impl BlockCodes {
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.rows.clear();
    }

    /// One more code, of the document at a place.
    pub(super) fn push(&mut self, code: u64, place: usize) {
        self.list.push(code);
        self.rows.push_place(place);
    }

    /// Keeps the codes that are accepted.
    ///
    /// # Errors
    /// Those of `accepts`.
    pub(super) fn retain(&mut self, mut accepts: impl FnMut(u64) -> Result<bool>) -> Result<()> {
        let mut kept = 0;
        let mut places = Vec::with_capacity(self.list.len());
        for value in 0..self.list.len() {
            if accepts(self.list[value])? {
                self.list[kept] = self.list[value];
                places.push(self.rows.place(value) as u32);
                kept += 1;
            }
        }
        self.list.truncate(kept);
        self.rows.put(places);
        Ok(())
    }
}

/// No value of a column is further from 0.
fn most(values: &dyn ColumnValues<i64>) -> u64 {
    values.min_value().unsigned_abs().max(values.max_value().unsigned_abs())
}

impl ValuesSource {
    /// Reads the codes of a block; `false` where they must be read document by document. With `once` each document has a code once.
    pub(super) fn codes_of_block(&mut self, block: &Block<'_>, once: bool, out: &mut BlockCodes) -> bool {
        out.list.clear();
        out.rows.clear();
        if self.script.is_some() {
            return false;
        }
        let BlockCodes {
            list,
            rows,
            whole,
            fractions,
            flags,
        } = out;
        let column = match &self.reader {
            Reader::Nothing => return self.missing_code.is_none(),
            Reader::Column(column) => column,
            Reader::Constant(_) | Reader::Ranges(..) => return false,
        };
        if !rows.find(column.index(), block)
            || once && rows.some_have_several()
            || self.missing_code.is_some() && !rows.one_each()
        {
            return false;
        }
        match (column, self.class) {
            (Column::Str(c), _) => {
                rows.read(c.ords().values.as_ref(), block, list);
                if let Some(table) = &self.interner.table {
                    debug_assert!(
                        list.iter().all(|ord| (*ord as usize) < table.len()),
                        "search.md S14: an ordinal is below the number of terms"
                    );
                    list.iter_mut()
                        .for_each(|ord| *ord = table.get(*ord as usize).map_or(0, |code| u64::from(*code)));
                }
            }
            (Column::I64(c), Class::Long) | (Column::Date(c), _) => {
                rows.read(c.values.as_ref(), block, whole);
                list.extend(whole.iter().map(|value| long_code(*value)));
            }
            (Column::DateNanos(c), _) => {
                rows.read(c.values.as_ref(), block, whole);
                list.extend(whole.iter().map(|value| long_code(value.div_euclid(1_000_000))));
            }
            (Column::U64(c), Class::Unsigned) => rows.read(c.values.as_ref(), block, list),
            (Column::Bool(c), Class::Bool) => {
                rows.read(c.values.as_ref(), block, flags);
                list.extend(flags.iter().map(|flag| long_code(i64::from(*flag))));
            }
            (Column::F64(c), _) => {
                rows.read(c.values.as_ref(), block, fractions);
                list.extend(fractions.iter().map(|value| double_code(*value)));
            }
            _ => return false,
        }
        debug_assert!(
            rows.has_values(list.len(), block),
            "search.md S24: each code has its document"
        );
        true
    }

    /// Reads the numbers of a block; `false` where they must be read document by document.
    pub(super) fn numbers_of_block(&self, block: &Block<'_>, out: &mut BlockNumbers) -> bool {
        let BlockNumbers {
            list,
            whole,
            rows,
            whole_most,
        } = out;
        list.clear();
        whole.clear();
        rows.clear();
        *whole_most = None;
        if let Some(script) = &self.script {
            // A script that is `_score` is not run.
            if self.field.is_some() || !script.is_score() || block.scores.len() != block.docs.len() {
                return false;
            }
            rows.be_one_each();
            list.extend(block.scores.iter().map(|score| f64::from(*score)));
            return true;
        }
        let column = match &self.reader {
            Reader::Nothing => return self.missing_number.is_none(),
            Reader::Column(column) => column,
            Reader::Constant(_) | Reader::Ranges(..) => return false,
        };
        if !rows.find(column.index(), block) || self.missing_number.is_some() && !rows.one_each() {
            return false;
        }
        match column {
            Column::I64(c) | Column::Date(c) => {
                rows.read(c.values.as_ref(), block, whole);
                *whole_most = Some(most(c.values.as_ref()));
            }
            Column::DateNanos(c) => {
                rows.read(c.values.as_ref(), block, whole);
                whole.iter_mut().for_each(|nanos| *nanos = nanos.div_euclid(1_000_000));
                *whole_most = Some(most(c.values.as_ref()));
            }
            Column::F64(c) => {
                rows.read(c.values.as_ref(), block, list);
                return true;
            }
            _ => return false,
        }
        list.extend(whole.iter().map(|value| *value as f64));
        debug_assert!(
            rows.has_values(list.len(), block),
            "search.md S24: each number has its document"
        );
        debug_assert!(
            whole.iter().all(|value| Some(value.unsigned_abs()) <= *whole_most),
            "no number of a block is further from 0 than the column's"
        );
        true
    }
}
