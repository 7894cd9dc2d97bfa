//! `/_changes/consumer`: named readers of the feed, whose positions the server keeps.
//!
//! Not here: reading the feed (`feed`).

use crate::actions::feed::{feed_of, missing};
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::changes::{Consumer, Retained};
use model::settings::{CONSUMERS_MAX, node_count};
use model::{CommitSeq, Error, Result};
use serde_json::{Value, json};

/// Bytes of a name.
const NAME_MAX_BYTES: usize = 255;

/// `GET /_changes/consumer`, `GET /_changes/consumer/{name}`
#[boxed]
pub(crate) async fn get(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let feed = feed_of(&call.rest)?;
    let (consumers, retained) = (feed.consumers(), feed.retained_range());
    let Some(name) = call.arg("name") else {
        let all: Vec<Value> = consumers.iter().map(|consumer| render(consumer, retained)).collect();
        return Ok(Answer::ok(json!({ "consumers": all })));
    };
    let found = consumers.iter().find(|consumer| consumer.name == name);
    let found = found.ok_or_else(|| missing(name, &consumers))?;
    Ok(Answer::ok(render(found, retained)))
}

/// `PUT /_changes/consumer/{name}`
#[boxed]
pub(crate) async fn put(mut call: Call) -> Result<Answer> {
    let name = call.path_part("name")?;
    check_name(&name)?;
    let node = call.json_needed()?;
    call.params.finish()?;
    let mut fields = node.fields("consumer")?;
    let position = fields.take("position");
    fields.finish()?;
    let feed = feed_of(&call.rest)?;
    let position = position_of(position.map(|node| node.into_value()), feed.retained_range().newest)?;
    feed.put_consumer(&name, position, node_count(CONSUMERS_MAX)).await?;
    let consumer = Consumer { name, position };
    Ok(Answer::ok(render(&consumer, feed.retained_range())))
}

/// `DELETE /_changes/consumer/{name}`
#[boxed]
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let name = call.path_part("name")?;
    call.params.finish()?;
    let feed = feed_of(&call.rest)?;
    match feed.delete_consumer(&name).await? {
        true => Ok(Answer::ok(json!({ "acknowledged": true }))),
        false => Err(missing(&name, &feed.consumers())),
    }
}

fn check_name(name: &str) -> Result<()> {
    let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > NAME_MAX_BYTES || !name.chars().all(is_good) {
        return Err(Error::illegal(format!(
            "[{name}] is no name of a consumer: it has 1 to {NAME_MAX_BYTES} characters of [a-z0-9._-]"
        )));
    }
    Ok(())
}

fn position_of(given: Option<Value>, newest: CommitSeq) -> Result<CommitSeq> {
    match given {
        Some(Value::String(word)) if word == "now" => Ok(newest),
        Some(Value::Number(number)) if number.is_u64() => Ok(number.as_u64().unwrap_or_default()),
        Some(other) => Err(Error::illegal(format!(
            "[position] is [{other}] but must be [now] or a position, a whole number from 0"
        ))),
        None => Err(Error::illegal(
            "[position] is missing: give [now], or the position that was applied",
        )),
    }
}

fn render(consumer: &Consumer, retained: Retained) -> Value {
    json!({
        "name": consumer.name, "position": consumer.position, "behind_in_bytes": retained.newest.saturating_sub(consumer.position),
        "is_gone": consumer.position < retained.oldest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_names_are_checked() {
        let check = |given: Value, expected: Option<u64>| {
            assert_eq!(position_of(Some(given.clone()), 9).ok(), expected, "{given}");
        };
        check(json!("now"), Some(9));
        check(json!(7), Some(7));
        check(json!("7"), None);
        check(json!(-1), None);
        check(json!(1.5), None);
        assert!(position_of(None, 9).is_err());
        assert!(check_name("replicate-1.a_b").is_ok());
        for bad in ["", "A", "a/b", "a b", &"x".repeat(256)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
