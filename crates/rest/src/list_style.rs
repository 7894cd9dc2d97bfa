//! An answer that is mostly one long list, filtered and laid out item by item as it is made: only one item is a tree at a time.
//!
//! The result equals that of [`respond::write`](crate::respond::write) over the whole, which a test compares.
//!
//! Not here: what the items say (`handlers::bulk`), who holds them (`packed_text`).

use crate::respond::{Style, filter, pretty};
use crate::yaml;
use serde_json::{Map, Value, json};

/// How an answer with a list is written.
#[derive(Debug)]
pub(crate) struct ListStyle<'s> {
    layout: Layout,
    filters: &'s [String],
    /// The name of the list.
    name: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    Plain,
    Pretty,
    Yaml,
}

impl<'s> ListStyle<'s> {
    /// For a list of that name.
    pub(crate) fn new(style: &'s Style, name: &'static str) -> ListStyle<'s> {
        let layout = match (style.yaml, style.pretty) {
            (true, _) => Layout::Yaml,
            (false, true) => Layout::Pretty,
            (false, false) => Layout::Plain,
        };
        ListStyle {
            layout,
            filters: &style.filter_path,
            name,
        }
    }

    /// An item as it is written, from its JSON. `None`: the filters leave nothing of it.
    pub(crate) fn item(&self, text: String) -> Option<String> {
        if self.layout == Layout::Plain && self.filters.is_empty() {
            return Some(text);
        }
        let mut item: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        if !self.filters.is_empty() {
            let mut around = filter(&json!({ self.name: [item] }), self.filters);
            item = around.get_mut(self.name)?.get_mut(0)?.take();
        }
        Some(match self.layout {
            Layout::Plain => item.to_string(),
            Layout::Pretty => pretty(&item).trim_end().replace('\n', "\n    "),
            Layout::Yaml => yaml::item(&item),
        })
    }

    /// The text before an item.
    pub(crate) fn separator(&self, is_first: bool) -> &'static str {
        match (self.layout, is_first) {
            (Layout::Plain, true) | (Layout::Yaml, _) => "",
            (Layout::Plain, false) => ",",
            (Layout::Pretty, true) => "\n    ",
            (Layout::Pretty, false) => ",\n    ",
        }
    }

    /// The texts around the items: members before and behind the list. `has_items`: an item was written.
    pub(crate) fn around(&self, before: Map<String, Value>, behind: Map<String, Value>, has_items: bool) -> (String, String) {
        let (before, behind) = (self.filter_members(before), self.filter_members(behind));
        let has_list = has_items || self.filters.is_empty();
        if self.layout == Layout::Yaml {
            return self.around_in_yaml(&before, &behind, has_list, has_items);
        }
        let (before, behind) = (self.members(&before), self.members(&behind));
        let (line, close) = match self.layout {
            Layout::Pretty => ("\n  ", "\n}\n"),
            _ => ("", "}"),
        };
        let mut head = String::from("{");
        for member in &before {
            head.push_str(if head.len() > 1 { "," } else { "" });
            head.push_str(line);
            head.push_str(member);
        }
        let mut has_any = !before.is_empty();
        let mut end = String::new();
        if has_list {
            head.push_str(if has_any { "," } else { "" });
            head.push_str(line);
            head.push_str(&format!("\"{}\"{}[", self.name, self.colon()));
            end.push_str(if has_items { line } else { "" });
            end.push(']');
            has_any = true;
        }
        for member in &behind {
            end.push_str(if has_any { "," } else { "" });
            end.push_str(line);
            end.push_str(member);
            has_any = true;
        }
        end.push_str(if has_any { close } else { close.trim_start() });
        (head, end)
    }

    fn around_in_yaml(
        &self,
        before: &Map<String, Value>,
        behind: &Map<String, Value>,
        has_list: bool,
        has_items: bool,
    ) -> (String, String) {
        let members =
            |members: &Map<String, Value>| -> String { members.iter().map(|(name, value)| yaml::member(name, value)).collect() };
        let (before, behind) = (members(before), members(behind));
        let list = match (has_list, has_items) {
            (false, _) => String::new(),
            (true, false) => yaml::member(self.name, &json!([])),
            (true, true) => format!("{}:\n", self.name),
        };
        match before.is_empty() && list.is_empty() && behind.is_empty() {
            true => (yaml::text(&json!({})), String::new()),
            false => (format!("{}{before}{list}", yaml::BEGIN), behind),
        }
    }

    fn colon(&self) -> &'static str {
        match self.layout {
            Layout::Pretty => " : ",
            _ => ":",
        }
    }

    fn filter_members(&self, members: Map<String, Value>) -> Map<String, Value> {
        if self.filters.is_empty() {
            return members;
        }
        match filter(&Value::Object(members), self.filters) {
            Value::Object(left) => left,
            _ => Map::new(),
        }
    }

    /// Members of the answer that are no objects or lists, as they are written.
    fn members(&self, members: &Map<String, Value>) -> Vec<String> {
        let members = members.iter();
        members
            .map(|(name, value)| format!("{}{}{value}", Value::from(name.as_str()), self.colon()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::respond::{Body, write};

    fn members(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    /// Written item by item and as a whole, in one style.
    fn check(items: &[Value], behind: &Value, filters: &[&str], (pretty, yaml): (bool, bool)) {
        let style = Style {
            pretty,
            yaml,
            filter_path: filters.iter().map(|path| (*path).to_owned()).collect(),
            ..Style::default()
        };
        let before = json!({ "took": 7, "errors": true });
        let mut whole = before.clone();
        whole["items"] = items.into();
        for (name, value) in members(behind) {
            whole[&name] = value;
        }
        let list = ListStyle::new(&style, "items");
        let mut written = String::new();
        for item in items {
            if let Some(item) = list.item(item.to_string()) {
                written.push_str(list.separator(written.is_empty()));
                written.push_str(&item);
            }
        }
        let (head, end) = list.around(members(&before), members(behind), !written.is_empty());
        let expected = write(&Body::Json(whole), &style, None).0;
        let expected = String::from_utf8(expected.to_vec()).unwrap();
        assert_eq!(
            format!("{head}{written}{end}"),
            expected,
            "{filters:?}, pretty: {pretty}, yaml: {yaml}"
        );
    }

    #[test]
    fn item_by_item_is_as_the_whole() {
        let items = [
            json!({ "index": { "_index": "i", "_id": "1\n2", "_shards": { "total": 2 }, "status": 201, "empty": {}, "list": [] } }),
            json!({ "delete": { "_index": "i", "status": 404, "error": { "reason": "a \"word\"", "causes": [{ "a": 1 }, {}] } } }),
            json!({ "index": { "_index": "j", "status": 200 } }),
        ];
        let filters: [&[&str]; 15] = [
            &[],
            &["took"],
            &["errors", "items.*.error"],
            &["items.*.status"],
            &["items.delete"],
            &["items.index._shards.total", "-took"],
            &["items"],
            &["**.reason"],
            &["*"],
            &["none"],
            &["-items"],
            &["-items.*.error", "-took"],
            &["-took", "-errors", "-items", "-transaction"],
            &["-items.index"],
            &["transaction", "items.none"],
        ];
        // Filters that keep an empty list are another matter: nobody sends one.
        check(&[], &json!({}), &[], (false, true));
        for filters in filters {
            for style in [(false, false), (true, false), (false, true), (true, true)] {
                for behind in [json!({}), json!({ "transaction": "t" })] {
                    check(&items, &behind, filters, style);
                    check(&items[..1], &behind, filters, style);
                    check(&items[2..], &behind, filters, style);
                }
            }
        }
    }
}
