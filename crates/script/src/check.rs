//! Names to slots while a script is parsed: locals by scope, parameters, document fields, and
//! roots (anything else that is looked up outside). Types are not inferred; declared ones are
//! kept for conversion.

use crate::ast::{Tree, Ty};
use std::collections::HashMap;
use std::sync::Arc;

/// The locals of a function that is set aside.
pub(crate) type Suspended = (Vec<Vec<(Arc<str>, u32, Ty)>>, u32, u32);

/// The names that are known at one place of the script.
#[derive(Default)]
pub(crate) struct Scope {
    levels: Vec<Vec<(Arc<str>, u32, Ty)>>,
    next: u32,
    top: u32,
    roots: HashMap<Arc<str>, u32>,
    params: HashMap<Arc<str>, u32>,
    docs: HashMap<Arc<str>, u32>,
}

impl Scope {
    pub(crate) fn enter(&mut self) {
        self.levels.push(Vec::new());
    }
    pub(crate) fn leave(&mut self) {
        let left = self.levels.pop();
        debug_assert!(left.is_some(), "a scope is left once");
        debug_assert!(
            left.iter().flatten().all(|(_, slot, _)| *slot < self.top),
            "the locals of a scope lie within the frame of their function"
        );
    }
    /// A new local; false if a scope that still holds has the name.
    pub(crate) fn declare(&mut self, name: Arc<str>, ty: Ty) -> u32 {
        debug_assert!(
            !self.levels.is_empty(),
            "a local is declared in a scope, or nobody would find it"
        );
        let slot = self.next;
        self.next += 1;
        self.top = self.top.max(self.next);
        if let Some(level) = self.levels.last_mut() {
            level.push((name, slot, ty));
        }
        slot
    }
    pub(crate) fn is_known(&self, name: &str) -> bool {
        self.local(name).is_some()
    }
    pub(crate) fn local(&self, name: &str) -> Option<(u32, Ty)> {
        self.levels
            .iter()
            .rev()
            .flat_map(|l| l.iter().rev())
            .find(|l| &*l.0 == name)
            .map(|l| (l.1, l.2))
    }
    /// The declared type of a slot in reach.
    pub(crate) fn type_at(&self, slot: u32) -> Ty {
        self.levels.iter().flatten().find(|l| l.1 == slot).map_or(Ty::Def, |l| l.2)
    }
    /// How many locals are in use here.
    pub(crate) fn locals_in_use(&self) -> u32 {
        self.next
    }
    /// A function begins: no locals. `resume` takes the result back.
    pub(crate) fn suspend(&mut self) -> Suspended {
        let kept = (std::mem::take(&mut self.levels), self.next, self.top);
        self.next = 0;
        self.top = 0;
        kept
    }
    /// A function ends; the size of its frame.
    pub(crate) fn resume(&mut self, kept: Suspended) -> u32 {
        debug_assert!(self.levels.is_empty(), "a function leaves the scopes that it entered");
        let frame = self.top;
        (self.levels, self.next, self.top) = kept;
        frame
    }
    pub(crate) fn frame(&self) -> u32 {
        self.top
    }
    pub(crate) fn root(&mut self, name: Arc<str>, tree: &mut Tree) -> u32 {
        if matches!(&*name, "ctx" | "_source") {
            tree.source = true;
        }
        let slot = *self.roots.entry(name).or_insert_with_key(|name| {
            tree.roots.push(name.clone());
            tree.roots.len() as u32 - 1
        });
        debug_assert_eq!(
            tree.roots.len(),
            self.roots.len(),
            "each name that is looked up outside has a slot"
        );
        slot
    }
    pub(crate) fn param(&mut self, name: Arc<str>, tree: &mut Tree) -> u32 {
        if &*name == "_source" {
            tree.source = true;
        }
        let slot = *self.params.entry(name).or_insert_with_key(|name| {
            tree.params.push((name.clone(), format!("params.{name}").into()));
            tree.params.len() as u32 - 1
        });
        debug_assert_eq!(tree.params.len(), self.params.len(), "each parameter has a slot");
        slot
    }
    pub(crate) fn doc(&mut self, name: &Arc<str>, tree: &mut Tree) -> u32 {
        let slot = *self.docs.entry(name.clone()).or_insert_with(|| {
            tree.docs.push(name.to_string());
            tree.docs.len() as u32 - 1
        });
        debug_assert_eq!(tree.docs.len(), self.docs.len(), "each field of the document has a slot");
        slot
    }
}

/// The type a name declares, if it is a type scripts may name.
pub(crate) fn type_of(name: &str) -> Option<Ty> {
    Some(match name {
        "def" | "var" | "Object" | "final" => Ty::Def,
        "int" | "Integer" => Ty::Int,
        "long" | "Long" => Ty::Long,
        "float" | "Float" => Ty::Float,
        "double" | "Double" => Ty::Double,
        "short" | "Short" => Ty::Short,
        "byte" | "Byte" => Ty::Byte,
        "char" | "Character" => Ty::Char,
        "boolean" | "Boolean" => Ty::Bool,
        "String" => Ty::Str,
        "List" | "ArrayList" | "LinkedList" => Ty::List,
        "Map" | "HashMap" | "LinkedHashMap" | "TreeMap" => Ty::Map,
        "Set" | "HashSet" | "LinkedHashSet" | "TreeSet" => Ty::Set,
        "Date" | "ZonedDateTime" | "Instant" | "LocalDate" | "LocalDateTime" => Ty::Date,
        "Number" | "CharSequence" | "Collection" | "Iterable" | "Iterator" | "StringBuilder" | "StringBuffer" | "Pattern"
        | "Matcher" | "Function" | "BiFunction" | "Predicate" | "Supplier" | "Consumer" | "Comparator" | "BigDecimal"
        | "BigInteger" | "void" | "Math" | "Collections" | "Arrays" | "Objects" | "Collectors" | "ChronoUnit" | "ZoneId"
        | "ZoneOffset" | "DateTimeFormatter" | "GeoPoint" | "System" | "UUID" | "Calendar" | "Duration" | "StrictMath"
        | "Entry" | "DayOfWeek" | "Month" | "TimeUnit" | "Debug" | "MovingFunctions" => Ty::Other,
        _ if name.len() > 5 && (name.ends_with("Exception") || name.ends_with("Error")) => Ty::Other,
        "Error" | "Throwable" => Ty::Other,
        _ => return None,
    })
}
