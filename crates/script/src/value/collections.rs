//! The shared cells of lists, maps and sets. Nested containers are dropped without recursion.

use super::Value;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// A map keeps an index from this many entries.
const INDEX_FROM: usize = 16;

/// The items of a list, shared by all holders of the list.
#[derive(Debug, Default)]
pub struct ListCell(pub(crate) RefCell<Vec<Value>>);

/// The entries of a map, in the order they came.
#[derive(Debug, Default)]
pub struct MapCell(pub(crate) RefCell<Entries>);

/// Entries with an index once there are many.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    items: Vec<(Value, Value)>,
    index: Option<HashMap<Key, usize>>,
}

/// The form of a key that is hashed and compared.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Key {
    Null,
    Bool(bool),
    Whole(i64),
    Bits(u64),
    Str(Arc<str>),
}

fn key_of(v: &Value) -> Option<Key> {
    Some(match v {
        Value::Null => Key::Null,
        Value::Bool(b) => Key::Bool(*b),
        Value::Int(n) => Key::Whole(i64::from(*n)),
        Value::Long(n) | Value::Date(n) => Key::Whole(*n),
        Value::Float(n) => Key::Bits(f64::from(*n).to_bits()),
        Value::Double(n) => Key::Bits(n.to_bits()),
        Value::Char(c) => Key::Str(c.to_string().into()),
        Value::Str(s) => Key::Str(s.clone()),
        _ => return None,
    })
}

fn same_key(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => a == b,
        _ => key_of(a).is_some_and(|a| key_of(b) == Some(a)),
    }
}

impl Entries {
    pub(crate) fn items(&self) -> &[(Value, Value)] {
        &self.items
    }
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }
    fn find(&self, key: &Value) -> Option<usize> {
        if let Value::Str(s) = key {
            return self.find_str(s);
        }
        match &self.index {
            Some(index) => index.get(&key_of(key)?).copied(),
            None => self.items.iter().position(|(k, _)| same_key(k, key)),
        }
    }
    fn find_str(&self, key: &Arc<str>) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(&Key::Str(key.clone())).copied(),
            None => self.items.iter().position(|(k, _)| matches!(k, Value::Str(k) if k == key)),
        }
    }
    pub(crate) fn get(&self, key: &Value) -> Option<&Value> {
        self.items.get(self.find(key)?).map(|e| &e.1)
    }
    pub(crate) fn get_str(&self, key: &Arc<str>) -> Option<&Value> {
        self.items.get(self.find_str(key)?).map(|e| &e.1)
    }
    /// The old value, if there was one. A key that is no scalar is not stored.
    pub(crate) fn put(&mut self, key: Value, value: Value) -> Option<Value> {
        if let Some(entry) = self.find(&key).and_then(|i| self.items.get_mut(i)) {
            return Some(std::mem::replace(&mut entry.1, value));
        }
        let hash = key_of(&key)?;
        if let Some(index) = &mut self.index {
            index.insert(hash, self.items.len());
        }
        self.items.push((key, value));
        if self.index.is_none() && self.items.len() > INDEX_FROM {
            self.reindex();
        }
        debug_assert!(self.is_indexed(), "each entry of a map is found by its key");
        None
    }
    /// Has the index each entry, if there is one?
    fn is_indexed(&self) -> bool {
        self.index.as_ref().is_none_or(|index| index.len() == self.items.len())
    }
    fn reindex(&mut self) {
        self.index = (self.items.len() > INDEX_FROM).then(|| {
            self.items
                .iter()
                .enumerate()
                .filter_map(|(i, (k, _))| Some((key_of(k)?, i)))
                .collect()
        });
    }
    pub(crate) fn remove(&mut self, key: &Value) -> Option<Value> {
        let i = self.find(key)?;
        let (_, value) = self.items.remove(i);
        if self.index.is_some() {
            self.reindex();
        }
        debug_assert!(self.is_indexed(), "each entry of a map is found by its key");
        Some(value)
    }
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.index = None;
    }
    pub(crate) fn replace(&mut self, items: Vec<(Value, Value)>) {
        self.items = items;
        self.reindex();
    }
}

/// Takes nested containers apart with a stack of its own: scripts may nest very deep.
fn dismantle(mut stack: Vec<Value>) {
    while let Some(value) = stack.pop() {
        match value {
            Value::List(list) => {
                if let Ok(mut cell) = Rc::try_unwrap(list) {
                    stack.append(cell.0.get_mut());
                }
            }
            Value::Map(map) | Value::Set(map) => {
                if let Ok(mut cell) = Rc::try_unwrap(map) {
                    stack.extend(cell.0.get_mut().items.drain(..).map(|(_, v)| v));
                }
            }
            _ => {}
        }
    }
}

impl Drop for ListCell {
    fn drop(&mut self) {
        let items = self.0.get_mut();
        if items.iter().any(Value::is_container) {
            dismantle(std::mem::take(items));
        }
    }
}

impl Drop for MapCell {
    fn drop(&mut self) {
        let entries = self.0.get_mut();
        if entries.items.iter().any(|(_, v)| v.is_container()) {
            dismantle(std::mem::take(&mut entries.items).into_iter().map(|(_, v)| v).collect());
        }
    }
}

pub(super) fn entries(items: impl IntoIterator<Item = (Value, Value)>) -> Entries {
    let mut all = Entries::default();
    for (k, v) in items {
        all.put(k, v);
    }
    all
}
