//! Reading by id and writing in bulk.
//!
//! A batch is cut where a document comes up again, so that writes happen in their order and each is composed from what
//! is there. Not here: what a write becomes (`compose`), what an answer means (`answers`).

use crate::answers::{self, Gots, Line, Lines};
use crate::compose::{Composed, compose, conflict, needs_read};
use crate::http::Failure;
use crate::{Shared, marks};
use bytes::Bytes;
use engine::{Document, Effect, Hide, Outcome, Read, Refresh, See, Write, Written};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// A write on its way.
struct Sent<'a> {
    place: usize,
    write: &'a Write,
    composed: Composed,
}

impl Shared {
    /// Each by itself: a missing index is the error of those that name it.
    pub(crate) async fn read_each(&self, reads: &[Read]) -> Result<Vec<Result<Option<Document>>>> {
        let mut out: Vec<Result<Option<Document>>> = reads.iter().map(|_| Ok(None)).collect();
        for realtime in [true, false] {
            let places: Vec<usize> = (0..reads.len()).filter(|n| reads[*n].searchable_only != realtime).collect();
            for batch in places.chunks(self.options.batch_max.max(1)) {
                let mut path = format!("/_mget?realtime={realtime}");
                if self.from_primary && realtime {
                    // A copy may not have what was acknowledged, where segments are replicated and not documents.
                    path.push_str("&preference=_primary");
                }
                let docs: Vec<Value> = batch.iter().map(|n| mget_item(&reads[*n])).collect();
                let body = json!({ "docs": docs }).to_string();
                let asked = self.http.ask("POST", &path, "application/json", body.into()).await;
                let answer = asked.map_err(Failure::into_error)?;
                if answer.status >= 300 {
                    return Err(answers::refusal(&answer));
                }
                let gots: Gots<'_> = serde_json::from_slice(&answer.body).map_err(|e| answers::strange(&e))?;
                if gots.docs.len() != batch.len() {
                    let reason = format!("{} documents were asked for and {} answered", batch.len(), gots.docs.len());
                    return Err(Error::new(ErrorKind::RemoteTransport, reason));
                }
                for (place, got) in batch.iter().zip(&gots.docs) {
                    out[*place] = got.document(reads[*place].see);
                }
            }
        }
        for (read, found) in reads.iter().zip(&mut out) {
            if read.at.id.doc_type.is_some() {
                *found = Err(crate::unsupported_error("a mapping type"));
            }
        }
        Ok(out)
    }

    pub(crate) async fn write(&self, writes: &[Write], refresh: Refresh) -> Result<Vec<Outcome>> {
        let mut outcomes: Vec<Option<Outcome>> = writes.iter().map(|_| None).collect();
        let mut from = 0;
        while from < writes.len() {
            let mut seen: BTreeSet<&DocAddress> = BTreeSet::new();
            let length = writes[from..].iter().take_while(|write| seen.insert(&write.at)).count();
            let mut open: Vec<usize> = (from..from + length).collect();
            for turn in 0.. {
                open = self.round(writes, &open, refresh, &mut outcomes).await?;
                if open.is_empty() {
                    break;
                }
                if turn >= self.options.overtaken_max {
                    for place in open.drain(..) {
                        let at = &writes[place].at;
                        let reason = format!("[{}]: others were faster [overtaken_max] = {turn} times", at.id.id);
                        let error = Error::new(ErrorKind::VersionConflict, reason).with("index", at.index.as_str());
                        outcomes[place] = Some(Outcome::Refused(error));
                    }
                    break;
                }
            }
            from += length;
        }
        debug_assert!(outcomes.iter().all(Option::is_some), "each write has its outcome");
        Ok(outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or(Outcome::Unknown))
            .collect())
    }

    /// Sends these writes once. Answers which were overtaken and are to be composed anew.
    async fn round(
        &self,
        writes: &[Write],
        places: &[usize],
        refresh: Refresh,
        outcomes: &mut [Option<Outcome>],
    ) -> Result<Vec<usize>> {
        let wanting: Vec<usize> = places.iter().copied().filter(|n| needs_read(&writes[*n])).collect();
        let reads: Vec<Read> = wanting.iter().map(|n| whole(&writes[*n])).collect();
        let mut found = wanting.iter().copied().zip(self.read_each(&reads).await?).peekable();
        let mut sent: Vec<Sent<'_>> = Vec::with_capacity(places.len());
        for place in places.iter().copied() {
            let write = &writes[place];
            let here = match found.next_if(|(n, _)| *n == place).map(|(_, here)| here) {
                Some(Err(error)) => {
                    outcomes[place] = Some(Outcome::Refused(error));
                    continue;
                }
                Some(Ok(here)) => here,
                None => None,
            };
            if let Hide::Set(_) = write.hide {
                self.make_markable(write.at.index.as_str()).await?;
            }
            match compose(write, here.as_ref()) {
                Ok(composed) => sent.push(Sent { place, write, composed }),
                Err(outcome) => outcomes[place] = Some(outcome),
            }
        }
        let mut again = Vec::new();
        let mut overtaken = Vec::new();
        let mut rest = sent.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |sent: &&Sent<'_>| {
                bytes += sent.composed.lines.len();
                bytes <= self.options.bulk_max_bytes
            };
            let length = rest
                .iter()
                .take(self.options.batch_max.max(1))
                .take_while(fits)
                .count()
                .max(1);
            let (batch, later) = rest.split_at(length);
            rest = later;
            let answers = self.bulk(batch, refresh).await;
            assert_eq!(answers.len(), batch.len(), "each write of a bulk request has its outcome");
            for (sent, outcome) in batch.iter().zip(answers) {
                match outcome {
                    Some(outcome) => outcomes[sent.place] = Some(outcome),
                    None if sent.composed.again => again.push(sent.place),
                    None => overtaken.push(sent),
                }
            }
        }
        // The cluster does not say what was there.
        let reads: Vec<Read> = overtaken.iter().map(|sent| whole(sent.write)).collect();
        for (sent, now) in overtaken.into_iter().zip(self.read_each(&reads).await?) {
            let now = now.unwrap_or(None);
            outcomes[sent.place] = Some(Outcome::Conflict(conflict(sent.write, &sent.write.at, now.as_ref())));
        }
        Ok(again)
    }

    /// One bulk request. `None` for what met another version.
    async fn bulk(&self, batch: &[Sent<'_>], refresh: Refresh) -> Vec<Option<Outcome>> {
        let refresh = match refresh {
            Refresh::No => "false",
            Refresh::Now => "true",
            Refresh::WaitFor => "wait_for",
        };
        let body: Vec<u8> = batch.iter().flat_map(|sent| sent.composed.lines.iter().copied()).collect();
        let path = format!("/_bulk?refresh={refresh}");
        let all = |outcome: &dyn Fn() -> Outcome| batch.iter().map(|_| Some(outcome())).collect();
        let answer = match self.http.ask("POST", &path, "application/x-ndjson", Bytes::from(body)).await {
            Ok(answer) => answer,
            Err(Failure::NotSent(error)) => return all(&|| Outcome::Refused(error.clone())),
            Err(Failure::Unanswered(_)) => return all(&|| Outcome::Unknown),
        };
        if answer.status >= 500 {
            return all(&|| Outcome::Unknown);
        }
        if answer.status >= 300 {
            return all(&|| Outcome::Refused(answers::refusal(&answer)));
        }
        match answers::parse_json::<Lines>(&answer.body) {
            Ok(lines) if lines.items.len() == batch.len() => lines
                .items
                .into_iter()
                .zip(batch)
                .map(|(item, sent)| {
                    item.into_values()
                        .next()
                        .map_or(Some(Outcome::Unknown), |line| outcome(&line, sent))
                })
                .collect(),
            // Answered, and not to be understood: who knows what was done.
            _ => all(&|| Outcome::Unknown),
        }
    }

    /// Sees to it that hidden documents of an index can be told in searches.
    async fn make_markable(&self, index: &str) -> Result<()> {
        let known = |shared: &Shared| crate::catalog::lock(&shared.marked).contains(index);
        if known(self) {
            return Ok(());
        }
        let path = format!("/{}/_mapping", crate::percent_encode(index));
        match self
            .http
            .json("PUT", &path, Some(&json!({ "properties": marks::properties() })))
            .await
        {
            // The write itself will be told.
            Err(error) if error.kind() == ErrorKind::IndexNotFound => return Ok(()),
            other => other?,
        };
        crate::catalog::lock(&self.marked).insert(index.to_owned());
        Ok(())
    }
}

/// The document, marks and all, where the write goes.
fn whole(write: &Write) -> Read {
    Read {
        routing: write.routing.clone(),
        see: See::Everything,
        ..Read::whole(write.at.clone())
    }
}

fn mget_item(read: &Read) -> Value {
    let mut out = Map::new();
    out.insert("_index".into(), read.at.index.as_str().into());
    out.insert("_id".into(), (&*read.at.id.id).into());
    if let Some(routing) = &read.routing {
        out.insert("routing".into(), routing.as_str().into());
    }
    Value::Object(out)
}

fn outcome(line: &Line, sent: &Sent<'_>) -> Option<Outcome> {
    if line.status == 409 {
        return None;
    }
    if line.status >= 500 {
        return Some(Outcome::Unknown);
    }
    // 404 without an error is a delete of nothing.
    if !line.error.is_null() {
        return Some(Outcome::Refused(answers::error(&line.error, line.status, || {
            line.error.to_string()
        })));
    }
    let Some(stamp) = line.stamp() else {
        return Some(Outcome::Unknown);
    };
    let said = match line.result.as_str() {
        "created" => Effect::Created,
        "deleted" => Effect::Deleted,
        "not_found" => Effect::NotFound,
        _ => Effect::Updated,
    };
    let effect = sent.composed.effect.unwrap_or(said);
    Some(Outcome::Written(Written {
        effect,
        at: DocAddress {
            index: IndexName::new(line._index.as_str()),
            id: DocId::plain(sent.write.at.id.id.clone()),
        },
        stamp,
        source: sent.composed.source.clone().filter(|_| effect != Effect::Deleted),
        forced_refresh: line.forced_refresh,
    }))
}
