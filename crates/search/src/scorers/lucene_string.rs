//! Compiled clauses in the words of Lucene's queries, as `_validate?explain` shows them: `+title:fox -tag:spam`.

use super::bool::BoolNode;
use super::node::Shared;

/// A clause with what its score is multiplied with.
pub(crate) fn with_boost(what: &str, boost: f32) -> String {
    if boost == 1.0 {
        what.to_owned()
    } else {
        format!("{what}^{boost:?}")
    }
}

/// A clause that stands in another one: in brackets, if it is made of several.
fn within(node: &Shared) -> Option<String> {
    let text = node.says()?;
    Some(if node.is_several() { format!("({text})") } else { text })
}

/// Writes required clauses, options and exclusions; scoring ones come first.
pub(crate) fn of_bool(node: &BoolNode) -> Option<String> {
    let lists = [
        ("+", &node.must),
        ("", &node.should),
        ("#", &node.filter),
        ("-", &node.must_not),
    ];
    let mut parts = Vec::new();
    for (mark, list) in lists {
        for clause in list {
            parts.push(format!("{mark}{}", within(clause)?));
        }
    }
    let text = parts.join(" ");
    Some(if node.least > 1 {
        format!("({text})~{}", node.least)
    } else {
        text
    })
}

/// Writes a disjunction of which the best score counts.
pub(crate) fn of_best(nodes: &[Shared], tie_breaker: f32) -> Option<String> {
    let parts = nodes.iter().map(within).collect::<Option<Vec<_>>>()?;
    let text = format!("({})", parts.join(" | "));
    Some(match tie_breaker {
        0.0 => text,
        tie => format!("{text}~{tie:?}"),
    })
}

/// A clause of the documents of some types, as 2015 put it.
pub(crate) fn of_types(node: &Shared, types: &[String]) -> Option<String> {
    let types = match types {
        [] => return node.says(),
        [one] => format!("+ConstantScore(_type:{one})"),
        several => {
            let shown: Vec<String> = several.iter().map(|name| format!("_type:{name}")).collect();
            format!("+{}", shown.join(" "))
        }
    };
    Some(format!("+{} #ConstantScore({types})", within(node)?))
}
