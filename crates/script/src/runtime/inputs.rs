//! The inputs of a script: locals, roots, parameters, columns of the document.

use super::*;
use model::ErrorKind;

impl<'p> Run<'p, '_> {
    /// A local of the current frame.
    pub(crate) fn local(&mut self, slot: u32) -> &mut Value {
        let i = self.base + slot as usize;
        if i >= self.scratch.locals.len() {
            self.scratch.locals.resize(i + 1, Value::Null);
        }
        &mut self.scratch.locals[i]
    }

    /// A name that is looked up outside, once a run.
    pub(crate) fn root(&mut self, slot: u32) -> R {
        let i = slot as usize;
        if let Some(Some(v)) = self.scratch.roots.get(i) {
            return Ok(v.clone());
        }
        let Some(name) = self.tree.roots.get(i).cloned() else {
            return Ok(Value::Null);
        };
        let value = match self.host.variable(&name) {
            Some(v) => v,
            None if &*name == "params" => self.given.all(),
            None => match self.given.get(&name) {
                Some(p) => self.number(p.value()),
                None if self.groovy() => {
                    return fault(
                        "groovy.lang.MissingPropertyException",
                        ErrorKind::Groovy,
                        format!("No such property: {name} for class: Script1"),
                    );
                }
                None => return illegal(format!("cannot resolve symbol [{name}]")),
            },
        };
        if let Some(cell) = self.scratch.roots.get_mut(i) {
            *cell = Some(value.clone());
        }
        Ok(value)
    }

    /// Assigns to a name that is looked up outside.
    pub(crate) fn set_root(&mut self, slot: u32, v: Value) {
        debug_assert!(
            (slot as usize) < self.scratch.roots.len(),
            "each name that is looked up outside has a slot"
        );
        if let Some(cell) = self.scratch.roots.get_mut(slot as usize) {
            *cell = Some(v);
        }
    }

    /// Assigns to `params.x`, for this run.
    pub(crate) fn set_param(&mut self, slot: u32, v: Value) {
        debug_assert!((slot as usize) < self.scratch.params.len(), "each parameter has a slot");
        if let Some(cell) = self.scratch.params.get_mut(slot as usize) {
            *cell = Some(v);
        }
    }

    /// `params.x`
    pub(crate) fn param(&mut self, slot: u32) -> R {
        let i = slot as usize;
        if let Some(Some(v)) = self.scratch.params.get(i) {
            return Ok(v.clone());
        }
        let tree = self.tree;
        let Some((name, dotted)) = tree.params.get(i) else {
            return Ok(Value::Null);
        };
        let value = match self.given.get(name) {
            Some(p) => self.number(p.value()),
            None => self.host.variable(dotted).unwrap_or_default(),
        };
        if value.is_container()
            && let Some(cell) = self.scratch.params.get_mut(i)
        {
            *cell = Some(value.clone());
        }
        Ok(value)
    }

    /// Expressions know doubles only.
    fn number(&self, v: Value) -> Value {
        match (self.lang, v.as_f64()) {
            (Lang::Expression, Some(n)) => Value::Double(n),
            _ => v,
        }
    }

    /// Loads a field of the document; whether the mapping has it.
    pub(crate) fn load(&mut self, slot: u32) -> R<bool> {
        let i = slot as usize;
        let tree = self.tree;
        let name = match tree.docs.get(i) {
            Some(name) => name.as_str(),
            None => self.extra.get(i - tree.docs.len()).map_or("", String::as_str),
        };
        let Some(cell) = self.scratch.docs.get_mut(i) else {
            return Ok(false);
        };
        if cell.0 {
            return Ok(true);
        }
        match self.host.doc(i, name, &mut cell.1) {
            Ok(found) => {
                cell.0 = found;
                Ok(found)
            }
            Err(e) => {
                self.refused = Some(e);
                exhausted_error("the document's values could not be read")
            }
        }
    }
    /// A field's values; an error for a field the mapping lacks.
    pub(crate) fn doc(&mut self, slot: u32) -> R<&DocValues> {
        let i = slot as usize;
        if !self.scratch.docs.get(i).is_some_and(|d| d.0) && !self.load(slot)? {
            let tree = self.tree;
            let name = match tree.docs.get(i) {
                Some(name) => name.clone(),
                None => self.extra.get(i - tree.docs.len()).cloned().unwrap_or_default(),
            };
            let types = if self.groovy() { " with types []" } else { "" };
            return illegal(format!("No field found for [{name}] in mapping{types}"));
        }
        match self.scratch.docs.get(i) {
            Some(d) => Ok(&d.1),
            None => illegal("No such field"),
        }
    }
    /// The slot of a field named at run time.
    pub(crate) fn doc_slot(&mut self, name: &str) -> R<u32> {
        let known = self.tree.docs.len();
        if let Some(i) = self.tree.docs.iter().position(|d| d == name) {
            return Ok(i as u32);
        }
        let i = match self.extra.iter().position(|d| d == name) {
            Some(i) => i,
            None => {
                self.alloc(name.len() + 64)?;
                self.extra.push(name.to_owned());
                self.extra.len() - 1
            }
        };
        if self.scratch.docs.len() <= known + i {
            self.scratch.docs.resize_with(known + i + 1, Default::default);
        }
        Ok((known + i) as u32)
    }

    /// `doc['f'].value`
    pub(crate) fn doc_value(&mut self, slot: u32) -> R {
        let lang = self.lang;
        let values = self.doc(slot)?;
        let first = match values {
            DocValues::Longs(v) => v.first().map(|n| Value::Long(*n)),
            DocValues::Doubles(v) => v.first().map(|n| Value::Double(*n)),
            _ => values.get(0),
        };
        match (first, lang) {
            (Some(v), Lang::Expression) => Ok(match v {
                Value::Bool(b) => Value::Double(f64::from(u8::from(b))),
                Value::Date(ms) => Value::Double(ms as f64),
                v => self.number(v),
            }),
            // Groovy's dates are epoch milliseconds.
            (Some(Value::Date(ms)), Lang::Groovy) => Ok(Value::Long(ms)),
            // And its booleans numbers.
            (Some(Value::Bool(flag)), Lang::Groovy) => Ok(Value::Long(flag.into())),
            (Some(v), _) => Ok(v),
            (None, Lang::Expression) => Ok(Value::Double(0.0)),
            (None, Lang::Groovy) => Ok(match values {
                DocValues::Longs(_) | DocValues::Dates(_) | DocValues::Bools(_) | DocValues::Empty => Value::Long(0),
                DocValues::Doubles(_) => Value::Double(0.0),
                DocValues::Strings(_) | DocValues::GeoPoints(_) => Value::Null,
            }),
            (None, Lang::Painless) => fault(
                "java.lang.IllegalStateException",
                ErrorKind::IllegalState,
                "A document doesn't have a value for a field! Use doc[<field>].size()==0 to check if a document is missing a field!",
            ),
        }
    }
}
