//! After a start: the table of locks as the control index says.

use crate::leases::table::Table;
use crate::leases::{Lease, asking};
use crate::locks::{AllAnswer, Owner};
use crate::schema;
use async_recursion::async_recursion as boxed;
use dsl::query::{Clause, Query, TermsQuery};
use engine::{Barrier, Document, See};
use futures::StreamExt as _;
use model::{Error, ErrorKind, Result, Target};
use serde_json::json;
use std::sync::Arc;

impl crate::Relations {
    /// The control index cannot be relied on: nothing that rests on it is done from here on.
    pub fn refuse(&self, cause: &Error) {
        self.control.fail(cause);
        *self.locks.table() = Table::default();
    }

    /// After a start: locks that were held are held, each with one fresh keep alive.
    ///
    /// # Errors
    /// A control index that cannot be read.
    #[boxed]
    pub async fn recover(&self) -> Result<()> {
        // Before a change is finished, which may keep an outcome.
        let of_changes = match &self.portable {
            Some(portable) => portable.newest_kept().await?,
            None => None,
        };
        if let Some(newest_ms) = self.newest_kept().await?.max(of_changes) {
            self.kept_time.go_on_from(newest_ms);
        }
        self.finish_all().await?;
        if let Some(portable) = self.by_gate() {
            // Whoever needs an outcome that is not applied yet finds it.
            return self.bring_table_up(portable).await;
        }
        self.recover_links().await?;
        let Some(documents) = self.control_documents(&["lease", "lease_expired", "lease_broken"]).await? else {
            return Ok(());
        };
        // Their indices went while nobody could write it down.
        let gone = self.restore_table(documents)?;
        self.forget_leases(&gone).await?;
        self.forget_gone().await
    }

    /// The table as the documents of the leases say; which of them are lock documents' that are in the way of others.
    fn restore_table(&self, documents: Vec<Document>) -> Result<Vec<Arc<str>>> {
        debug_assert!(
            documents.is_sorted_by_key(|document| (document.stamp.primary_term, document.stamp.seq_no)),
            "leases are granted again in the order of the log"
        );
        let (mut table, now) = self.locks.now(&self.clock);
        let mut gone = Vec::new();
        // A lease that went with a change may leave a tombstone.
        let hidden = |document: &Document| document.hidden.as_ref().is_some_and(|mark| !mark.visible);
        for document in documents.into_iter().filter(|document| !hidden(document)) {
            let (lease, ending) = Lease::read(&document.source, document.stamp, now)?;
            if let Some(how) = ending {
                table.remember(lease.id.clone(), (how, None));
                continue;
            }
            let request = asking(Owner::new(lease.id.clone()), table.next_age(), false);
            if table.look(&lease.claims, &request, &[]) != AllAnswer::Granted {
                if lease.lock_document.is_some() {
                    gone.push(lease.id.clone());
                    continue;
                }
                let reason = format!("lock [{}] is not compatible with the others that are stored", lease.id);
                return Err(Error::new(ErrorKind::Corruption, reason));
            }
            table.grant(lease, &request);
        }
        debug_assert!(
            gone.iter().all(|id| table.lease(id).is_none()),
            "T13: a lease that is in the way of others holds nothing: {gone:?}"
        );
        Ok(gone)
    }

    /// Documents of these kinds, oldest grant first; `None` if there is no control index.
    pub(crate) async fn control_documents(&self, kinds: &[&str]) -> Result<Option<Vec<Document>>> {
        let target = Target::index(schema::CONTROL);
        match self.engine.refresh(&target, None).await {
            Err(e) if e.kind() == ErrorKind::IndexNotFound => return Ok(None),
            other => other?,
        };
        let terms = Clause::Terms(TermsQuery {
            field: "kind".into(),
            values: kinds.iter().map(|kind| json!(kind)).collect(),
            minimum_should_match: None,
            disable_coord: false,
        });
        let query: Query = terms.into();
        let mut found = self.engine.scan(&target, query, See::Everything, Barrier::None).await?;
        let mut documents = Vec::new();
        while let Some(document) = found.next().await {
            documents.push(document?);
        }
        documents.sort_by_key(|document| (document.stamp.primary_term, document.stamp.seq_no));
        Ok(Some(documents))
    }
}
