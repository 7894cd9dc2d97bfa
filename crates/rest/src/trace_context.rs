//! Ids by which a client finds its request again: `X-Opaque-Id` and `traceparent` (W3C Trace Context, level 1).
//!
//! Both are returned with the answer, shown with tasks and written with log lines. Not here: exporting spans.

use std::sync::Arc;

/// A `traceparent` of the right form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceParent(Arc<str>);

impl TraceParent {
    /// Reads `VERSION-TRACE-PARENT-FLAGS`. `None` for another form: the specification says to pass it over.
    pub(crate) fn parse(text: &str) -> Option<TraceParent> {
        let text = text.trim();
        let mut parts = text.split('-');
        let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let some = |part: &str| part.bytes().any(|b| b != b'0');
        let known = is_hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
        let valid = known && is_hex(trace, 32) && some(trace) && is_hex(parent, 16) && some(parent) && is_hex(flags, 2);
        valid.then(|| TraceParent(text.into()))
    }

    /// As it came.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The id that all requests of a trace share.
    pub(crate) fn trace_id(&self) -> &str {
        // Version, a dash, and 32 digits: `parse` saw to it.
        &self.0[3..35]
    }
}

/// The headers that a task shows, as Elasticsearch names them.
pub(crate) fn task_headers(opaque_id: Option<&str>, trace: Option<&TraceParent>) -> Vec<(&'static str, String)> {
    let opaque_id = opaque_id.map(|id| ("X-Opaque-Id", id.to_owned()));
    let trace = trace.map(|trace| {
        [
            ("traceparent", trace.as_str().to_owned()),
            ("trace.id", trace.trace_id().to_owned()),
        ]
    });
    opaque_id.into_iter().chain(trace.into_iter().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let parsed = TraceParent::parse(text);
        assert_eq!(parsed.as_ref().map(TraceParent::trace_id), expected, "{text}");
    }

    #[test]
    fn forms() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        check("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Some(trace));
        check(" 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00 ", Some(trace));
        check("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", Some(trace));
        for wrong in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00-0af7651916cd43dd8448eb211c80319é-b7ad6b7169203331-01",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn headers_of_tasks() {
        let trace = TraceParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        assert_eq!(task_headers(None, None), []);
        let names: Vec<&str> = task_headers(Some("me"), trace.as_ref())
            .iter()
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(names, ["X-Opaque-Id", "traceparent", "trace.id"]);
    }
}
