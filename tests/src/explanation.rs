//! Does an explanation add up? Each node against its children, by what it says of itself.
//!
//! The words are Lucene's. Not here: where explanations come from (`tests/explanations.rs`, `tests/segments.rs`).

/// A node: value, description, children.
#[derive(Clone, Debug)]
pub struct Node {
    pub value: f64,
    pub says: String,
    pub details: Vec<Node>,
}

impl Node {
    /// From `_explanation`; `None` if it is none.
    pub fn read(json: &serde_json::Value) -> Option<Node> {
        let details = json["details"].as_array()?.iter().map(Node::read).collect::<Option<_>>()?;
        Some(Node {
            value: json["value"].as_f64()?,
            says: json["description"].as_str()?.to_owned(),
            details,
        })
    }

    /// From a fixture: `[value, description, [children]]`.
    pub fn of_fixture(json: &serde_json::Value) -> Option<Node> {
        let details = json[2].as_array()?.iter().map(Node::of_fixture).collect::<Option<_>>()?;
        Some(Node {
            value: json[0].as_f64()?,
            says: json[1].as_str()?.to_owned(),
            details,
        })
    }

    fn child(&self, beginning: &str) -> Option<f64> {
        self.details.iter().find(|d| d.says.starts_with(beginning)).map(|d| d.value)
    }
}

/// Every node below (and including) one that does not follow from its children, in words.
pub fn wrong(node: &Node, found: &mut Vec<String>) {
    match expected(node) {
        Ok(None) => {}
        Ok(Some(value)) if close(node.value, value) => {}
        Ok(Some(value)) => found.push(format!("[{}] says {}, its children come to {value}", node.says, node.value)),
        Err(why) => found.push(format!("[{}] {why}", node.says)),
    }
    node.details.iter().for_each(|detail| wrong(detail, found));
}

/// What a node's children come to; `None` for leaves.
fn expected(node: &Node) -> Result<Option<f64>, String> {
    let says = node.says.as_str();
    let values = || node.details.iter().map(|d| d.value);
    let sum = || values().sum::<f64>();
    let most = || values().fold(f64::NEG_INFINITY, f64::max);
    let least = || values().fold(f64::INFINITY, f64::min);
    let missing = |what: &str| format!("has no child [{what}]");
    let child = |what: &str| node.child(what).ok_or_else(|| missing(what));
    if node.details.is_empty() {
        let composed = says.trim_end().ends_with(" of:") || says.ends_with("from:") || says == "sum of" || says == "avg of";
        return if composed && node.value != 0.0 {
            Err("is made of parts and has none".into())
        } else {
            Ok(None)
        };
    }
    let value = if says.starts_with("score(freq=") || says.ends_with("product of:") {
        values().product()
    } else if says.ends_with("result of:") || says.trim_end() == "_score:" {
        one(node)?
    } else if let Some(rest) = says.strip_prefix("max plus ") {
        let part: f64 = rest
            .split(' ')
            .next()
            .unwrap_or_default()
            .parse()
            .map_err(|_| "has no factor")?;
        most() + part * (sum() - most())
    } else if says.ends_with("sum of:") || says == "sum of" {
        sum()
    } else if says == "max of:" || says == "max of" {
        most()
    } else if says == "min of:" || says == "min of" {
        least()
    } else if says == "avg of" {
        sum() / node.details.len() as f64
    } else if says.starts_with("idf, computed as log(1 + (N - n + 0.5) / (n + 0.5))") {
        let (n, all) = (child("n,")?, child("N,")?);
        (1.0 + (all - n + 0.5) / (n + 0.5)).ln()
    } else if says.starts_with("tf, computed as freq / (freq + k1 * (1 - b + b * dl / avgdl))") {
        let freq = node
            .child("freq")
            .or_else(|| node.child("phraseFreq"))
            .or_else(|| node.child("termFreq"))
            .ok_or_else(|| missing("freq"))?;
        let (k1, b, dl, mean) = (child("k1")?, child("b,")?, child("dl")?, child("avgdl")?);
        freq / (freq + k1 * (1.0 - b + b * dl / mean))
    } else if let Some(mode) = says.strip_prefix("function score, score mode [") {
        let parts = || node.details.iter();
        match mode.trim_end_matches(']') {
            "multiply" => values().product(),
            "sum" => sum(),
            "max" => most(),
            "min" => least(),
            "first" => parts().next().map(|d| d.value).unwrap_or_default(),
            "avg" => sum() / parts().map(weight).sum::<f64>(),
            other => return Err(format!("has the unknown mode [{other}]")),
        }
    } else if says.starts_with("Score based on") {
        return children_of_block(node);
    } else if says.contains("computed as w * S / (S + k)") {
        let (w, s, k) = (child("w,")?, child("S,")?, child("k,")?);
        w * s / (s + k)
    } else if says.contains("pivotDistance / (pivotDistance + abs(value - origin))") {
        let (weight, pivot) = (child("weight")?, child("pivotDistance")?);
        weight * pivot / (pivot + (child("current value")? - child("origin")?).abs())
    } else if says.contains("pivotDistance / (pivotDistance + distance)") {
        let (weight, pivot) = (child("weight")?, child("pivotDistance")?);
        weight * pivot / (pivot + child("distance")?)
    } else if says.starts_with("script score function, computed with script") {
        // What the script saw; the rest is the script's.
        child("_score")?;
        return Ok(None);
    } else if says.starts_with("Function for field") {
        // The distance in words.
        return Ok(None);
    } else if node.value == 0.0
        && ["Failure", "no match", "match on prohibited", "Score value"]
            .iter()
            .any(|b| says.starts_with(b))
    {
        return Ok(None);
    } else {
        return Err("has children, and does not say how it follows from them".into());
    };
    Ok(Some(value))
}

/// The weight of a function in an average.
fn weight(node: &Node) -> f64 {
    if node.says == "function score, product of:" {
        return node.details.last().map_or(1.0, weight);
    }
    match node.details.last() {
        Some(last) if node.says == "product of:" && last.says == "weight" => last.value,
        _ => 1.0,
    }
}

fn one(node: &Node) -> Result<f64, String> {
    match node.details.as_slice() {
        [only] => Ok(only.value),
        other => Err(format!("is the result of one, not of {}", other.len())),
    }
}

/// A block join shows every matching child, by its mode.
fn children_of_block(node: &Node) -> Result<Option<f64>, String> {
    let says = node.says.as_str();
    let values = || node.details.iter().map(|d| d.value);
    let sum: f64 = values().sum();
    Ok(match says.rsplit(' ').next().unwrap_or_default() {
        "None" => Some(0.0),
        "Max" => Some(values().fold(f64::NEG_INFINITY, f64::max)),
        "Min" => Some(values().fold(f64::INFINITY, f64::min)),
        "Total" => Some(sum),
        "Avg" => Some(sum / node.details.len() as f64),
        _ => return Err("names no mode".into()),
    })
}

/// Equal as floats that were summed in another order are.
pub fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-5 * a.abs().max(b.abs()).max(1e-6)
}
