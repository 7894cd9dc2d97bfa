//! Values of buckets as 64 bits whose order is the order of the values. Strings are ordinals of their index as long as there is
//! only one, and numbers of an own list after that; so terms are looked up only for the buckets that are returned.
//!
//! Not here: where values come from (`values`).

use super::At;
use model::Result;
use rustc_hash::FxHashMap;
use segment::error::broken;
use segment::ordinals::Ordinals;
use std::net::Ipv6Addr;
use std::sync::Arc;
use tantivy::columnar::StrColumn;

/// The code of a whole number.
pub(crate) fn long_code(value: i64) -> u64 {
    (value as u64) ^ (1 << 63)
}
/// The whole number of a code.
pub(crate) fn code_long(code: u64) -> i64 {
    (code ^ (1 << 63)) as i64
}
/// The code of a fraction; both zeros have the same.
pub(crate) fn double_code(value: f64) -> u64 {
    let bits = if value == 0.0 { 0 } else { value.to_bits() };
    if bits >> 63 == 0 { bits | (1 << 63) } else { !bits }
}
/// The fraction of a code.
pub(crate) fn code_double(code: u64) -> f64 {
    f64::from_bits(if code >> 63 == 1 { code & !(1 << 63) } else { !code })
}

/// Strings and addresses as codes.
#[derive(Default)]
pub(super) struct Interner {
    /// The request wants no global ordinals (`execution_hint: map`). They are used all the same, as they cost less here; they
    /// do not count as fielddata then.
    pub(super) by_map: bool,
    /// The dictionary that codes are ordinals of, as long as there is one.
    pub(super) direct: Option<Arc<Ordinals>>,
    /// Otherwise, all strings by code.
    pub(super) list: Vec<Box<str>>,
    codes: FxHashMap<Box<str>, u64>,
    /// Codes by ordinals of the current segment; `None` in direct mode.
    pub(super) table: Option<Arc<[u32]>>,
    pub(super) ips: Vec<Ipv6Addr>,
    ip_codes: FxHashMap<Ipv6Addr, u64>,
}

impl Interner {
    /// Enters a segment. `name` is the column's; what was made from a text's terms has none.
    pub(super) fn enter(&mut self, column: &StrColumn, name: Option<&str>, at: &At<'_>) -> Result<()> {
        if let Some(name) = name.filter(|_| self.list.is_empty()) {
            let ordinals = Ordinals::of(at.view, name, !self.by_map)?;
            if self.direct.as_ref().is_none_or(|direct| Arc::ptr_eq(direct, &ordinals)) {
                self.table = ordinals.table(at.segment);
                self.direct = Some(ordinals);
                return Ok(());
            }
        }
        self.leave_direct()?;
        let mut table = Vec::with_capacity(column.num_terms());
        each_term(column, |text| table.push(self.intern(text) as u32))?;
        debug_assert_eq!(
            table.len(),
            column.num_terms(),
            "search.md S14: a code for each string of the dictionary"
        );
        self.table = Some(table.into());
        Ok(())
    }
    /// From ordinals to an own list, which has them in the same places.
    pub(super) fn leave_direct(&mut self) -> Result<()> {
        let Some(ordinals) = self.direct.take() else { return Ok(()) };
        for number in 0..ordinals.len() as u64 {
            let code = self.intern(&ordinals.text(number)?);
            debug_assert_eq!(
                code, number,
                "search.md S14: what was collected by ordinals keeps its codes in a list"
            );
        }
        Ok(())
    }
    pub(super) fn intern(&mut self, text: &str) -> u64 {
        if let Some(code) = self.codes.get(text) {
            return *code;
        }
        let code = self.list.len() as u64;
        self.list.push(text.into());
        self.codes.insert(text.into(), code);
        debug_assert_eq!(self.list.len(), self.codes.len(), "each string has a code of its own");
        code
    }
    pub(super) fn ip(&mut self, ip: Ipv6Addr) -> u64 {
        let next = self.ips.len() as u64;
        let code = *self.ip_codes.entry(ip).or_insert(next);
        if code == next {
            self.ips.push(ip);
        }
        debug_assert_eq!(self.ips.len(), self.ip_codes.len(), "each address has a code of its own");
        code
    }
    /// The code here of what has a code in another interner of the same aggregation.
    pub(super) fn adopt(&mut self, other: &Interner, code: u64) -> Result<u64> {
        if let Some(theirs) = &other.direct {
            if self.direct.is_none() && self.list.is_empty() {
                self.direct = Some(theirs.clone());
            }
            if self.direct.as_ref().is_some_and(|own| Arc::ptr_eq(own, theirs)) {
                return Ok(code);
            }
        }
        self.leave_direct()?;
        Ok(self.intern(&other.text(code)?))
    }
    pub(super) fn text(&self, code: u64) -> Result<String> {
        match &self.direct {
            Some(ordinals) => ordinals.text(code),
            None => Ok(self.list.get(code as usize).map(|text| text.to_string()).unwrap_or_default()),
        }
    }
}

fn each_term(column: &StrColumn, mut f: impl FnMut(&str)) -> Result<()> {
    let mut terms = column.dictionary().stream().map_err(broken)?;
    while terms.advance() {
        f(&String::from_utf8_lossy(terms.key()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_keep_order() {
        let values = [f64::NEG_INFINITY, -2.5, -1.0, 0.0, 0.25, 3.0, f64::INFINITY];
        assert!(values.windows(2).all(|w| double_code(w[0]) < double_code(w[1])));
        assert!(values.iter().all(|v| code_double(double_code(*v)) == *v));
        assert!(
            [i64::MIN, -1, 0, 1, i64::MAX]
                .windows(2)
                .all(|w| long_code(w[0]) < long_code(w[1]))
        );
    }
}
