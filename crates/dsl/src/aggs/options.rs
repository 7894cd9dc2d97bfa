//! Options that several aggregations have: sizes, least counts, orders, includes.

use super::ValueSource;
use super::value_source::option;
use crate::json::{Fields, Json, Node};
use crate::shape;
use model::{Dialect, Error, Result};
use serde_json::{Map, Value, json};

/// `{"_count": "desc"}`, `{"_key": "asc"}`, `{"max_score": "desc"}`, `{"stats.avg": "asc"}`, `{"a>b": ..}`.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketOrder {
    /// The word of before 6 that the path was written as.
    pub replaced: Option<&'static str>,
    pub path: String,
    pub ascending: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum IncludeExclude {
    Regex(String),
    Values(Vec<Value>),
    Partition { partition: u64, num_partitions: u64 },
}

/// A size of an aggregation.
pub(super) fn positive(option: &str, node: &Node, name: &str) -> Result<usize> {
    let number = node.i64(option)?;
    usize::try_from(number)
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| Error::illegal(format!("[{option}] must be greater than 0. Found [{number}] in [{name}]")))
}

pub(super) fn take_min_doc_count(fields: &mut Fields, kind: &str, name: &str) -> Result<Option<u64>> {
    option(fields, kind, "min_doc_count", |n| {
        let number = n.i64("min_doc_count")?;
        u64::try_from(number).map_err(|_| {
            Error::illegal(format!(
                "[min_doc_count] must be greater than or equal to 0. Found [{number}] in [{name}]"
            ))
        })
    })
}

pub(super) fn take_shard_min_doc_count(fields: &mut Fields, kind: &str, name: &str) -> Result<u64> {
    let given = option(fields, kind, "shard_min_doc_count", |n| {
        let number = n.i64("shard_min_doc_count")?;
        u64::try_from(number).map_err(|_| {
            Error::illegal(format!(
                "[shardMinDocCount] must be greater than or equal to 0. Found [{number}] in [{name}]"
            ))
        })
    });
    given.map(Option::unwrap_or_default)
}

/// `{"_count": "desc"}`, or a list of such.
pub(super) fn take_order(fields: &mut Fields, kind: &str) -> Result<Option<Vec<BucketOrder>>> {
    option(fields, kind, "order", |node| {
        let mut out = Vec::new();
        for item in node.clone().items() {
            for (path, direction) in shape::object(item, "order")? {
                let text = direction.string("order")?;
                let ascending = match text.to_ascii_lowercase().as_str() {
                    "asc" => true,
                    "desc" => false,
                    _ => return Err(direction.error(format!("Unknown order direction [{text}]"))),
                };
                // Before 6 a key was called a term or a time.
                let replaced = ["_term", "_time"].into_iter().find(|word| *word == path);
                let path = if replaced.is_some() { "_key".to_owned() } else { path };
                out.push(BucketOrder {
                    replaced,
                    path,
                    ascending,
                });
            }
        }
        if out.is_empty() {
            return Err(node.error("Must specify at least one field for [order]"));
        }
        Ok(out)
    })
}

/// The fullest first.
pub(super) fn by_count() -> Vec<BucketOrder> {
    vec![BucketOrder {
        replaced: None,
        path: "_count".into(),
        ascending: false,
    }]
}

pub(super) fn by_key() -> Vec<BucketOrder> {
    vec![BucketOrder {
        replaced: None,
        path: "_key".into(),
        ascending: true,
    }]
}

/// Whether the aggregations below wait until the buckets are chosen.
pub(super) fn take_collect_mode(fields: &mut Fields, kind: &str) -> Result<Option<String>> {
    option(fields, kind, "collect_mode", |n| {
        let text = n.string("collect_mode")?;
        match text.as_str() {
            "breadth_first" | "depth_first" => Ok(text),
            _ => Err(n.error(format!("no [collect_mode] found for value [{text}]"))),
        }
    })
}

/// The type of values whose field says none.
pub(super) fn take_value_type(fields: &mut Fields, kind: &str, dialect: Dialect) -> Result<Option<String>> {
    option(fields, kind, "value_type", |n| {
        let text = n.string("value_type")?;
        match text.as_str() {
            "string" | "byte" | "short" | "integer" | "long" | "unsigned_long" | "float" | "double" | "number" | "numeric"
            | "date" | "ip" | "boolean" => Ok(text),
            _ if dialect.rules.tolerates_unknown_words => Ok(text),
            _ => Err(Error::illegal(format!("Unknown value type [{text}]"))),
        }
    })
}

pub(super) fn parse_include(node: Node) -> Result<IncludeExclude> {
    match node.value {
        Json::Array(items) => Ok(IncludeExclude::Values(items.into_iter().map(Node::into_value).collect())),
        Json::Object(_) => {
            let mut fields = node.fields("include")?;
            if let Some(pattern) = fields.take_string("pattern")? {
                fields.take("flags");
                fields.finish()?;
                return Ok(IncludeExclude::Regex(pattern));
            }
            let partition = fields.take_i64("partition")?;
            let parts = fields.take_i64("num_partitions")?;
            fields.finish()?;
            match (
                partition.and_then(|n| u64::try_from(n).ok()),
                parts.and_then(|n| u64::try_from(n).ok()),
            ) {
                (None, _) => Err(Error::illegal("Missing [partition] parameter for partition-based include")),
                (_, None) => Err(Error::illegal(
                    "Missing [num_partitions] parameter for partition-based include",
                )),
                (Some(partition), Some(num_partitions)) if partition < num_partitions => Ok(IncludeExclude::Partition {
                    partition,
                    num_partitions,
                }),
                (Some(partition), Some(_)) => Err(Error::illegal(format!(
                    "Partition must be less than num_partitions, got [{partition}]"
                ))),
            }
        }
        _ => Ok(IncludeExclude::Regex(node.string("include")?)),
    }
}

pub(super) fn order(order: &[BucketOrder]) -> Value {
    order
        .iter()
        .map(|by| json!({ by.path.as_str(): if by.ascending { "asc" } else { "desc" } }))
        .collect()
}

pub(super) fn include(which: &IncludeExclude) -> Value {
    match which {
        IncludeExclude::Regex(pattern) => pattern.as_str().into(),
        IncludeExclude::Values(values) => Value::Array(values.clone()),
        IncludeExclude::Partition {
            partition,
            num_partitions,
        } => {
            json!({ "partition": partition, "num_partitions": num_partitions })
        }
    }
}

pub(super) fn one(name: &str, value: impl Into<Value>) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), value.into())])
}

pub(super) fn put(body: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body.insert(name.into(), value.into());
    }
}

pub(super) fn source_body(source: &ValueSource) -> Map<String, Value> {
    let mut body = Map::new();
    source.render_into(&mut body);
    body
}

/// A body of one option, or an empty one.
pub(super) fn optional(name: &str, value: Option<impl Into<Value>>) -> Map<String, Value> {
    let mut body = Map::new();
    put(&mut body, name, value);
    body
}
