//! Bodies that continue or close a search: `_search/scroll` and points in time.

use crate::json::{self, Fields, Node, Reading};
use crate::shape;
use model::units::parse_duration;
use model::{Error, Result};
use std::time::Duration;

/// `_search/scroll`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ScrollBody {
    pub ids: Vec<String>,
    pub keep_alive: Option<Duration>,
}

impl ScrollBody {
    /// Reads an object, or, as 2015 sent it, the id as text. One that `clears` may name several ids, and no time.
    ///
    /// # Errors
    /// `illegal_argument_exception`: no JSON, a key that does not exist or has no text.
    pub fn parse(bytes: &[u8], clears: bool) -> Result<ScrollBody> {
        let text = bytes.trim_ascii();
        if !text.starts_with(b"{") {
            let text = String::from_utf8_lossy(text);
            let ids = text
                .split(',')
                .map(str::trim)
                .filter(|id| !id.is_empty())
                .map(str::to_owned)
                .collect();
            return Ok(ScrollBody { ids, keep_alive: None });
        }
        let body =
            json::read(text, Reading::default()).map_err(|e| Error::illegal("Failed to parse request body").with_cause(e))?;
        let mut fields = body.fields("scroll")?;
        let ids = match fields.take_any(&["scroll_id", "scrollId"]) {
            Some(node) if node.as_str().is_some() || clears && node.is_array() => Some(shape::strings(node, "scroll_id")?),
            Some(node) => return Err(unfit("scroll_id", &node)),
            None => None,
        };
        let keep_alive = match fields.take("scroll") {
            Some(node) => match node.as_str().filter(|_| !clears) {
                Some(text) => Some(parse_duration(text, "scroll")?),
                None => return Err(unfit("scroll", &node)),
            },
            None => None,
        };
        unknown(&mut fields)?;
        Ok(ScrollBody {
            ids: ids.unwrap_or_default(),
            keep_alive,
        })
    }
}

/// Refuses what is left of such a body, in the words of its parsers.
///
/// # Errors
/// Something is left.
pub fn unknown(fields: &mut Fields) -> Result<()> {
    fields.next_field().map_or(Ok(()), |(name, node)| Err(unfit(&name, &node)))
}

fn unfit(name: &str, node: &Node) -> Error {
    Error::illegal(format!(
        "Unknown parameter [{name}] in request body or parameter is of the wrong type[{}] ",
        node.kind_name()
    ))
}
