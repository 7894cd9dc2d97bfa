//! Comparing every copy of a policy with its source, in one moment of both indices.
//!
//! Not here: mending what differs; `_execute` does that.

use crate::Relations;
use crate::joins::read_in_view;
use crate::links::Policy;
use crate::links::carriers::query_of_all;
use crate::links::references::{Copied, Fate, copied_values, keys, rewrite};
use async_recursion::async_recursion as boxed;
use engine::ViewPromise;
use futures::StreamExt as _;
use model::{DocAddress, Result, Target};
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

/// Sources that are kept at once.
const SOURCES_MAX: usize = 10_000;
const VIEW_ALIVE: Duration = Duration::from_secs(300);

/// The result of comparing.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Documents that refer to something.
    pub documents: u64,
    /// Their references to a source that is there.
    pub copies: u64,
    /// Their references to a source that is missing.
    pub missing: u64,
    /// Documents with a copy that is not as its source.
    pub different: u64,
    /// The first of them, as many as were wanted.
    pub differences: Vec<Difference>,
}

/// A document with a copy that is not as its source.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Which.
    pub at: DocAddress,
    /// As it is, at the object of the policy.
    pub found: Value,
    /// As it would be.
    pub expected: Value,
}

impl Relations {
    /// Compares every copy; `most` of the documents that differ are listed.
    ///
    /// # Errors
    /// No policy of that name; the engine's.
    #[boxed]
    pub async fn check_links(&self, name: &str, most: usize) -> Result<Checked> {
        let policy = self.link_policy(name)?;
        let both = Target::of(vec![policy.source.index.clone(), policy.target.index.clone()]);
        self.engine.refresh(&both, None).await?;
        let view = self.engine.open_view(&both, VIEW_ALIVE, ViewPromise::OneMoment).await?.id;
        let checked = self.check_in_view(&policy, most, &view).await;
        self.engine.close_view(&view).await?;
        checked
    }

    async fn check_in_view(&self, policy: &Policy, most: usize, view: &str) -> Result<Checked> {
        let target = Target::index(&policy.target.index);
        let mut found = self.engine.scan_view(&target, query_of_all(policy)?, view).await?;
        let mut sources: HashMap<String, Option<Copied>> = HashMap::new();
        let mut checked = Checked::default();
        while let Some(document) = found.next().await {
            let document = document?;
            let is = document.source.parse()?;
            checked.documents += 1;
            for key in keys(policy, &is)? {
                if sources.contains_key(&key) {
                    continue;
                }
                if sources.len() >= SOURCES_MAX {
                    sources.clear();
                    // A long check keeps its view.
                    self.engine.renew_view(view, VIEW_ALIVE).await?;
                }
                let source = read_in_view(self.engine.as_ref(), policy.source_at(&key), view).await?;
                let source = source.map(|source| source.source.parse()).transpose()?;
                sources.insert(key, source.map(|source| copied_values(policy, &source)));
            }
            let mut expected = is.clone();
            let (mut copies, mut missing) = (0, 0);
            let differs = rewrite(policy, &mut expected, &mut |key| {
                Ok(match sources.get(key) {
                    Some(Some(copied)) => {
                        copies += 1;
                        Fate::Copy(copied.clone())
                    }
                    _ => {
                        missing += 1;
                        Fate::Leave
                    }
                })
            })?;
            (checked.copies, checked.missing) = (checked.copies + copies, checked.missing + missing);
            if differs {
                checked.different += 1;
                if checked.differences.len() < most {
                    let of = |source: &Value| match model::path::read(source, &policy.into).as_slice() {
                        [one] => (*one).clone(),
                        several => several.iter().map(|one| (*one).clone()).collect(),
                    };
                    checked.differences.push(Difference {
                        at: document.at,
                        found: of(&is),
                        expected: of(&expected),
                    });
                }
            }
        }
        Ok(checked)
    }
}
