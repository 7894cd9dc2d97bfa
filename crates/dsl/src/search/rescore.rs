//! `rescore`: a second, dearer score for the best hits.

use crate::json::Node;
use crate::query::{Parsing, Query};
use crate::shape;
use model::{Dialect, Error, Result};
use serde_json::{Value, json};

/// One step of `rescore`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rescore {
    /// So many of the best hits.
    pub window_size: usize,
    /// The query that scores them again.
    pub query: Query,
    /// Weight of the first score.
    pub query_weight: f32,
    /// Weight of the second.
    pub rescore_query_weight: f32,
    /// total, multiply, avg, max, min
    pub score_mode: String,
}

impl Rescore {
    /// Reads `rescore`: one step or a list.
    ///
    /// # Errors
    /// No `rescore_query`, or an option that does not exist.
    pub fn parse(node: Node, dialect: Dialect) -> Result<Vec<Rescore>> {
        node.items().into_iter().map(|item| parse_step(item, dialect)).collect()
    }
    /// As in a request.
    pub fn render(&self) -> Value {
        json!({ "window_size": self.window_size, "query": {
            "rescore_query": self.query.render(),
            "query_weight": self.query_weight,
            "rescore_query_weight": self.rescore_query_weight,
            "score_mode": self.score_mode,
        } })
    }
}

fn parse_step(node: Node, dialect: Dialect) -> Result<Rescore> {
    let missing = node.error("missing rescore type");
    let mut fields = node.fields("rescore")?;
    let window_size = fields.take_usize("window_size")?.unwrap_or(10);
    let query = fields.take("query").ok_or(missing)?;
    fields.finish()?;
    let at = (query.line, query.col);
    let mut fields = query.fields("query")?;
    let inner = fields
        .take_any(&["rescore_query", "rescoreQuery"])
        .ok_or_else(|| shape::missing_required("rescore_query"))?;
    let score_mode = fields.take_string("score_mode")?.unwrap_or_else(|| "total".into());
    let step = Rescore {
        window_size,
        query: Query::parse(inner, &mut Parsing::new(dialect))?,
        query_weight: fields.take_f32("query_weight")?.unwrap_or(1.0),
        rescore_query_weight: fields.take_f32("rescore_query_weight")?.unwrap_or(1.0),
        score_mode: match score_mode.as_str() {
            "total" | "multiply" | "avg" | "max" | "min" => score_mode,
            _ => {
                let cause = Error::illegal(format!("illegal score_mode [{score_mode}]"));
                return Err(shape::failed_field("query", "score_mode", at, cause));
            }
        },
    };
    fields.finish()?;
    Ok(step)
}
