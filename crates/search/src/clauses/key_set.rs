//! Documents with a key of a join: columns for many keys, terms for few.

use super::Planner;
use crate::fields::target::Target;
use crate::joins::{Joined, Place};
use crate::scorers::key_set::JoinNode;
use crate::scorers::node::Shared;
use dsl::query::KeySet;
use mapping::Kind;
use model::{Error, ErrorKind, Result};
use std::sync::Arc;
use tantivy::Term;

impl Planner<'_> {
    pub(super) fn key_set(&self, q: &KeySet, boost: f32) -> Result<Shared> {
        let Some(keys) = q.keys.of::<Joined>() else {
            return Err(Error::new(ErrorKind::Internal, "keys of another engine reached an index"));
        };
        if keys.is_empty() {
            return Ok(self.nothing("a join without keys"));
        }
        let Some(place) = Place::of(self.view, &q.field)? else {
            return Ok(self.nothing(format!("unmapped field [{}]", q.field)));
        };
        let terms = match &keys.texts {
            Some(texts) => self.texts_as_terms(&q.field, texts),
            None => None,
        };
        Ok(Arc::new(JoinNode {
            place,
            keys,
            mode: q.score_mode,
            boost,
            terms,
        }))
    }

    /// Terms of a field for keys that are texts; `None` where the field has no terms for them.
    fn texts_as_terms(&self, field: &str, texts: &[String]) -> Option<Vec<Term>> {
        if field == "_id" {
            if self.view.typed {
                return None;
            }
            return Some(texts.iter().map(|t| Term::from_field_text(self.view.schema.id, t)).collect());
        }
        let target = Target::of(self.view, field)?;
        if !target.kind.index || target.kind.kind == Kind::Ip || target.kind.kind.is_date() {
            return None;
        }
        // A text that is no value of the field is no key of it.
        let term = |text: &String| {
            let value = target.kind.parse_term(&serde_json::Value::from(text.as_str())).ok()??;
            target.term(&value)
        };
        Some(texts.iter().filter_map(term).collect())
    }
}
