//! Field paths over JSON: read, set, remove, and filter as `_source` filtering does.
//!
//! A path goes through objects and arrays; a key may itself contain dots (`{"a.b": 1}` is at `a.b`).
//! Not here: what a field means (`mapping`), and how a request spells its filters (`dsl`).

use serde_json::{Map, Value};

/// All values at `path`, in document order. Arrays on the way and at the end are flattened.
pub fn read<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut out = Vec::new();
    each(value, path, &mut |found| out.push(found));
    out
}

/// Calls for each value at `path`, as [`read`] gives them.
pub fn each<'a>(value: &'a Value, path: &str, call: &mut dyn FnMut(&'a Value)) {
    visit(value, Some(path), call);
}

fn visit<'a>(value: &'a Value, rest: Option<&str>, call: &mut dyn FnMut(&'a Value)) {
    match (value, rest) {
        (Value::Array(items), _) => items.iter().for_each(|item| visit(item, rest, call)),
        (_, None) => call(value),
        (Value::Object(object), Some(path)) => {
            for (key, below) in splits(path) {
                if let Some(child) = object.get(key) {
                    visit(child, below, call);
                }
            }
        }
        _ => {}
    }
}

/// The ways to split a path into a first key and the rest: `a`/`b.c`, `a.b`/`c`, `a.b.c`/nothing.
fn splits(path: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    path.match_indices('.')
        .map(|(at, _)| (&path[..at], Some(&path[at + 1..])))
        .chain(std::iter::once((path, None)))
}

/// Sets the value at `path`, making objects on the way. An existing dotted key is used where it fits;
/// what stands in the way and is no object is replaced. Arrays on the way have each of their objects set.
pub fn set(value: &mut Value, path: &str, new: Value) {
    if let Value::Array(items) = value {
        items
            .iter_mut()
            .filter(|item| item.is_object())
            .for_each(|item| set(item, path, new.clone()));
        return;
    }
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(object) = value else { return };
    let known = splits(path).find(|(key, _)| object.contains_key(*key));
    let first = match path.split_once('.') {
        Some((key, rest)) => (key, Some(rest)),
        None => (path, None),
    };
    match known.unwrap_or(first) {
        (key, None) => {
            object.insert(key.to_owned(), new);
        }
        (key, Some(rest)) => set(object.entry(key).or_insert(Value::Null), rest, new),
    }
}

/// Removes whatever is at `path`, in all arrays on the way. True if anything was there.
pub fn remove(value: &mut Value, path: &str) -> bool {
    let any = remove_all(value, path);
    debug_assert!(
        read(value, path).is_empty(),
        "what is removed at [{path}] is not read there any more: {value}"
    );
    any
}

fn remove_all(value: &mut Value, path: &str) -> bool {
    match value {
        Value::Array(items) => {
            items
                .iter_mut()
                .map(|item| remove_all(item, path))
                .filter(|gone| *gone)
                .count()
                > 0
        }
        Value::Object(object) => {
            let mut any = object.shift_remove(path).is_some();
            for (key, rest) in splits(path) {
                if let (Some(rest), Some(child)) = (rest, object.get_mut(key)) {
                    any |= remove_all(child, rest);
                }
            }
            any
        }
        _ => false,
    }
}

/// Whether `pattern`, in which `*` stands for any characters (dots too), matches all of `text`.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            retry = Some((p + 1, t));
            p += 1;
        } else if p < pattern.len() && pattern[p] == text[t] {
            p += 1;
            t += 1;
        } else if let Some((star, from)) = retry {
            (p, t) = (star, from + 1);
            retry = Some((star, from + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

/// Which parts of a source are kept. Empty `includes` means everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SourceFilter {
    /// Patterns of what is kept; a pattern keeps everything under what it matches.
    pub includes: Vec<String>,
    /// Patterns of what is left out; they win.
    pub excludes: Vec<String>,
}

impl SourceFilter {
    /// A filter that keeps everything.
    pub fn is_all(&self) -> bool {
        self.includes.is_empty() && self.excludes.is_empty()
    }

    /// The parts of `source` that are kept, as `XContentMapValues.filter` keeps them: an object that
    /// becomes empty is dropped unless it was included itself, and so are objects in arrays.
    pub fn apply(&self, source: &Value) -> Value {
        let Value::Object(object) = source else {
            return source.clone();
        };
        if self.is_all() {
            return source.clone();
        }
        let everything = [String::from("*")];
        let includes = PathAutomaton::new(if self.includes.is_empty() {
            &everything
        } else {
            &self.includes
        });
        let excludes = PathAutomaton::new(&self.excludes);
        let filter = Filter {
            includes: &includes,
            excludes: &excludes,
        };
        Value::Object(filter.object(
            object,
            &Where {
                include: includes.start(),
                exclude: excludes.start(),
            },
        ))
    }
}

/// Where in the two automata a walk stands. An empty state can match no more.
#[derive(Clone)]
struct Where {
    include: State,
    exclude: State,
}

struct Filter<'a> {
    includes: &'a PathAutomaton,
    excludes: &'a PathAutomaton,
}

impl Filter<'_> {
    fn object(&self, object: &Map<String, Value>, at: &Where) -> Map<String, Value> {
        let mut out = Map::new();
        for (key, value) in object {
            let include = self.includes.step(&at.include, key);
            if include.0.is_empty() {
                continue;
            }
            let exclude = self.excludes.step(&at.exclude, key);
            if self.excludes.accepts(&exclude) {
                continue;
            }
            let included = self.includes.accepts(&include);
            if included && self.excludes.step(&exclude, ".").0.is_empty() {
                out.insert(key.clone(), value.clone());
                continue;
            }
            // An included object keeps everything inside but what is excluded there.
            let include = if included { self.includes.inside() } else { include };
            let at = Where { include, exclude };
            match value {
                Value::Object(inner) => {
                    let below = self.below(&at);
                    if below.include.0.is_empty() {
                        continue;
                    }
                    let filtered = self.object(inner, &below);
                    if included || !filtered.is_empty() {
                        out.insert(key.clone(), Value::Object(filtered));
                    }
                }
                Value::Array(items) => {
                    let filtered = self.array(items, &at);
                    if included || !filtered.is_empty() {
                        out.insert(key.clone(), Value::Array(filtered));
                    }
                }
                _ if included => {
                    out.insert(key.clone(), value.clone());
                }
                _ => {}
            }
        }
        out
    }

    fn array(&self, items: &[Value], at: &Where) -> Vec<Value> {
        let mut out = Vec::new();
        for item in items {
            match item {
                Value::Object(inner) => {
                    let below = self.below(at);
                    let filtered = self.object(inner, &below);
                    if !filtered.is_empty() {
                        out.push(Value::Object(filtered));
                    }
                }
                Value::Array(inner) => {
                    let filtered = self.array(inner, at);
                    if !filtered.is_empty() {
                        out.push(Value::Array(filtered));
                    }
                }
                _ if self.includes.accepts(&at.include) => out.push(item.clone()),
                _ => {}
            }
        }
        out
    }

    fn below(&self, at: &Where) -> Where {
        Where {
            include: self.includes.step(&at.include, "."),
            exclude: self.excludes.step(&at.exclude, "."),
        }
    }
}

/// Wildcard patterns as a nondeterministic automaton, each followed by an implied `.*`.
struct PathAutomaton(Vec<Vec<char>>);

/// Positions in patterns: (pattern, position). Position `len` has matched, `len + 1` is below a match.
#[derive(Clone)]
struct State(Vec<(usize, usize)>);

impl PathAutomaton {
    fn new(patterns: &[String]) -> PathAutomaton {
        PathAutomaton(patterns.iter().map(|p| p.chars().collect()).collect())
    }
    fn start(&self) -> State {
        let mut state = State(Vec::new());
        (0..self.0.len()).for_each(|pattern| self.add(&mut state, pattern, 0));
        state
    }
    /// Below a match: everything is accepted from here.
    fn inside(&self) -> State {
        State(self.0.first().map(|p| (0, p.len() + 1)).into_iter().collect())
    }
    fn add(&self, state: &mut State, pattern: usize, position: usize) {
        let mut position = position;
        loop {
            if !state.0.contains(&(pattern, position)) {
                state.0.push((pattern, position));
            }
            match self.0[pattern].get(position) {
                Some('*') => position += 1,
                _ => return,
            }
        }
    }
    fn step(&self, state: &State, text: &str) -> State {
        let mut state = state.clone();
        for c in text.chars() {
            if state.0.is_empty() {
                break;
            }
            let mut next = State(Vec::with_capacity(state.0.len()));
            for (pattern, position) in state.0 {
                let chars = &self.0[pattern];
                match chars.get(position) {
                    Some('*') => self.add(&mut next, pattern, position),
                    Some(expected) if *expected == c => self.add(&mut next, pattern, position + 1),
                    Some(_) => {}
                    None if position > chars.len() || c == '.' => self.add(&mut next, pattern, chars.len() + 1),
                    None => {}
                }
            }
            state = next;
        }
        state
    }
    fn accepts(&self, state: &State) -> bool {
        state.0.iter().any(|(pattern, position)| *position >= self.0[*pattern].len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check_filter(includes: &[&str], excludes: &[&str], source: Value, expected: Value) {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        let filter = SourceFilter {
            includes: own(includes),
            excludes: own(excludes),
        };
        assert_eq!(filter.apply(&source), expected, "{includes:?} {excludes:?} {source}");
    }

    #[test]
    fn filters() {
        let doc = json!({"a": {"b": 1, "c": {"d": 2}}, "ab": [1, 2], "list": [{"x": 1, "y": 2}, {"y": 3}, 4], "e": {}});
        check_filter(&[], &[], doc.clone(), doc.clone());
        check_filter(&["a"], &[], doc.clone(), json!({"a": {"b": 1, "c": {"d": 2}}}));
        check_filter(&["a*"], &[], doc.clone(), json!({"a": {"b": 1, "c": {"d": 2}}, "ab": [1, 2]}));
        check_filter(&["*.d"], &[], doc.clone(), json!({"a": {"c": {"d": 2}}}));
        check_filter(&["a.c"], &[], doc.clone(), json!({"a": {"c": {"d": 2}}}));
        check_filter(&["a"], &["a.c"], doc.clone(), json!({"a": {"b": 1}}));
        check_filter(&["a"], &["*.d"], doc.clone(), json!({"a": {"b": 1, "c": {}}}));
        check_filter(&["list.x"], &[], doc.clone(), json!({"list": [{"x": 1}]}));
        check_filter(
            &[],
            &["list.y"],
            doc.clone(),
            json!({"a": {"b": 1, "c": {"d": 2}}, "ab": [1, 2], "list": [{"x": 1}, 4], "e": {}}),
        );
        check_filter(&["nothing"], &[], doc.clone(), json!({}));
        check_filter(&["e"], &[], doc, json!({"e": {}}));
        check_filter(
            &["a.b"],
            &[],
            json!({"a.b": 1, "a": {"b": 2}}),
            json!({"a.b": 1, "a": {"b": 2}}),
        );
    }

    fn check_read(path: &str, expected: Value) {
        let doc = json!({"a": [{"b": 1}, {"b": [2, 3]}], "a.b": 4, "x": {"y.z": 5}});
        assert_eq!(json!(read(&doc, path)), expected, "{path}");
    }

    #[test]
    fn reads() {
        check_read("a.b", json!([1, 2, 3, 4]));
        check_read("x.y.z", json!([5]));
        check_read("a", json!([{"b": 1}, {"b": [2, 3]}]));
        check_read("a.c", json!([]));
    }

    #[test]
    fn writes() {
        let mut doc = json!({"a": {"b": 1}, "x.y": 2, "list": [{"n": 1}, {"n": 2}]});
        set(&mut doc, "a.c.d", json!(3));
        set(&mut doc, "x.y", json!(4));
        set(&mut doc, "list.m", json!(0));
        assert!(remove(&mut doc, "list.n"));
        assert!(remove(&mut doc, "a.b"));
        assert!(!remove(&mut doc, "a.zzz"));
        assert_eq!(doc, json!({"a": {"c": {"d": 3}}, "x.y": 4, "list": [{"m": 0}, {"m": 0}]}));
    }

    fn check_matches(pattern: &str, text: &str, expected: bool) {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }

    #[test]
    fn wildcards() {
        check_matches("*", "", true);
        check_matches("a*c", "abbc", true);
        check_matches("a*c", "a.b.c", true);
        check_matches("a*c", "abcd", false);
        check_matches("*b*", "abc", true);
        check_matches("abc", "abc", true);
        check_matches("", "a", false);
    }
}
