//! What became of each document, and the report of it.
//!
//! Not here: sending them (`sender`).

use super::sender::sentence;
use model::units;
use serde_json::Value;
use std::time::Duration;

/// Failures that are printed one by one; the others are counted.
const PRINTED_FAILURES: usize = 10;

/// Counts of the documents by outcome.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) read: u64,
    pub(super) bytes: u64,
    pub(super) created: u64,
    pub(super) updated: u64,
    pub(super) deleted: u64,
    /// Updates that changed nothing.
    pub(super) unchanged: u64,
    /// Deletions of what was not there.
    pub(super) not_found: u64,
    pub(super) failed: u64,
    /// Operations that an earlier run has sent.
    pub(super) resumed: u64,
    pub(super) hidden: u64,
    pub(super) excluded: u64,
    pub(super) binary: u64,
    pub(super) too_large: u64,
    /// Lines whose type was left out.
    pub(super) typed: u64,
    pub(super) failures: Vec<String>,
    /// Documents that the server refused since the last that it took, and the first of them.
    pub(super) refused_in_a_row: u64,
    pub(super) first_in_a_row: String,
}

impl Counts {
    pub(super) fn fail(&mut self, what: String) {
        self.failed += 1;
        if self.failures.len() < PRINTED_FAILURES {
            self.failures.push(what);
        }
    }

    /// Documents that the server accepted.
    pub(super) fn accepted_count(&self) -> u64 {
        self.created + self.updated + self.deleted + self.unchanged + self.not_found
    }

    /// Counts the outcome of one operation.
    pub(super) fn count(&mut self, name: &str, item: Option<&Value>) {
        let status = item.and_then(|i| i.get("status")).and_then(Value::as_u64);
        let result = item.and_then(|i| i.get("result")).and_then(Value::as_str);
        match (status, result) {
            (Some(200 | 201), Some("deleted")) => self.deleted += 1,
            (Some(200 | 201), Some("noop")) => self.unchanged += 1,
            (Some(404), Some("not_found")) => self.not_found += 1,
            (Some(201), _) => self.created += 1,
            (Some(200), _) => self.updated += 1,
            _ => {
                let reason = item.map_or_else(|| "no answer for it".to_owned(), sentence);
                let failure = format!("{name}: {reason}");
                if self.refused_in_a_row == 0 {
                    self.first_in_a_row.clone_from(&failure);
                }
                self.refused_in_a_row += 1;
                return self.fail(failure);
            }
        }
        self.refused_in_a_row = 0;
    }

    pub(super) fn report(&self, dry: bool, took: Duration) -> String {
        let mut out = String::new();
        for failure in &self.failures {
            out.push_str(&format!("failed: {failure}\n"));
        }
        if self.failed > self.failures.len() as u64 && !self.failures.is_empty() {
            out.push_str(&format!("… and {} more failures\n", self.failed - self.failures.len() as u64));
        }
        let size = units::render_bytes(self.bytes);
        let took = units::render_duration(Duration::from_millis(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)));
        out.push_str(&if dry {
            format!(
                "would import {} documents ({size}), {} failed; nothing was sent\n",
                self.read, self.failed
            )
        } else {
            format!(
                "{} created, {} updated, {} failed ({size} in {took})\n",
                self.created, self.updated, self.failed
            )
        });
        for (what, counted) in [
            (
                "",
                [
                    ("deleted", self.deleted),
                    ("not found", self.not_found),
                    ("unchanged", self.unchanged),
                ]
                .as_slice(),
            ),
            (
                "skipped: ",
                &[
                    ("done before", self.resumed),
                    ("hidden", self.hidden),
                    ("excluded", self.excluded),
                    ("binary", self.binary),
                    ("too large", self.too_large),
                ],
            ),
            ("left out: ", &[("types: an index has no types today", self.typed)]),
        ] {
            let counted = counted.iter().filter(|(_, n)| *n > 0);
            let counted: Vec<String> = counted.map(|(name, n)| format!("{n} {name}")).collect();
            if !counted.is_empty() {
                out.push_str(&format!("{what}{}\n", counted.join(", ")));
            }
        }
        out
    }
}
