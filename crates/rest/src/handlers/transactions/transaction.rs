//! Changes: `_transaction`, and `_bulk?atomic=true`. All operations or none.
//!
//! Not here: what the operations come to (`relations::transactions`).

use crate::actions::bulk::Planned;
use crate::actions::locks::{check_rights, parse_target};
use crate::actions::transaction::{
    TransactionLimits, TransactionOptions, decide, guards, items_done, key, not_done, operation, plan, timeout_error,
};
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use dsl::document::{BulkDefaults, MoveItem, TransactionBody};
use dsl::search::SourceSpec;
use engine::{DirectoryAt, Expect, TreeAct, TreeChange, TreeMoved};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, units};
use relations::leases::Wanted;
use relations::locks::targets_max;
use relations::transactions::{Change, Committed, Condition, DirectoryChange, Failures, Verdict};
use relations::trees::DirectoryCondition;
use security::IndexRights;
use serde_json::{Map, Value, json};

/// `POST /_transaction`.
#[boxed]
pub(crate) async fn transaction(mut call: Call) -> Result<Answer> {
    let start = call.rest.clock.monotonic();
    let mut options = TransactionOptions::take(&mut call)?;
    let propagates = crate::actions::documents::take_propagates(&mut call)?;
    let refresh = call.params.take_refresh()?;
    call.params.finish()?;
    let limits = TransactionLimits::of(&call).await?;
    limits.check_bytes(call.body.len())?;
    let mut body = parse(&call, &limits)?;
    let targets = std::mem::take(&mut body.targets);
    let targets: Vec<Wanted> = targets.into_iter().map(parse_target).collect::<Result<_>>()?;
    check_rights(&call.rest, targets.iter().map(|wanted| &wanted.target), IndexRights::LOCK).await?;
    add_body_options(&mut options, &mut body)?;
    if let Some(scope) = &call.rest.scope {
        for (_, one) in &body.directories {
            scope.check_condition(one.index.as_str()).await?;
        }
    }
    let moves = [(false, &body.moves), (true, &body.otherwise_moves)];
    let moves: Vec<DirectoryChange> = moves
        .into_iter()
        .flat_map(|(otherwise, moves)| moves.iter().map(move |one| directory_change(otherwise, one)))
        .collect();
    let operations = plan(&call, &body.operations).await;
    let otherwise = plan(&call, &body.otherwise).await;
    let none = SourceSpec::Default;
    let change = Change {
        conditions: conditions_of(&call, body.conditions).await?,
        directories: body
            .directories
            .into_iter()
            .map(|(n, one)| (n, directory_condition(one)))
            .collect(),
        moves,
        operations: operations.iter().map(|p| operation(&call, p, &none, &limits)).collect(),
        otherwise: otherwise.iter().map(|p| operation(&call, p, &none, &limits)).collect(),
        guards: guards(&options, operations.iter().chain(&otherwise)),
        locks: targets,
        key: key(&call, &options)?,
        refresh,
        caller: call.caller.clone(),
        ..Change::of(Vec::new())
    };
    let verdict = decide(&call, change, &options).await?;
    let took = u64::try_from((call.rest.clock.monotonic() - start).as_millis()).unwrap_or(u64::MAX);
    match verdict {
        Verdict::Waits(..) => Err(timeout_error()),
        Verdict::Committed(done) => {
            if propagates {
                call.rest.relations.all_links_followed().await;
            }
            match done.otherwise {
                true => answer_committed(&call, took, &otherwise, &body.otherwise_moves, done).await,
                false => answer_committed(&call, took, &operations, &body.moves, done).await,
            }
        }
        Verdict::Failed(failures) => {
            let of = if failures.otherwise { &otherwise } else { &operations };
            Ok(answer_failed(&call, took, of, &failures).await)
        }
    }
}

/// The answer to a transaction that is committed. The operations and moves are those of its branch.
async fn answer_committed(call: &Call, took: u64, operations: &[Planned], moves: &[MoveItem], done: Committed) -> Result<Answer> {
    let mut out = format!("{{\"took\":{took},\"committed\":true,\"commit_seq\":{}", done.commit_seq);
    if done.otherwise {
        out.push_str(",\"branch\":\"else\"");
    }
    if done.replayed {
        out.push_str(",\"replayed\":true");
    }
    let moved = moves_done(moves, &done.moved);
    items_done(call, operations, &SourceSpec::Default, done, &moved, &mut out).await?;
    out.push('}');
    Ok(Answer::raw(out))
}

/// The answer to a transaction that is not possible.
async fn answer_failed(call: &Call, took: u64, operations: &[Planned], failures: &Failures) -> Answer {
    let (status, error, items) = not_done(call, operations, &failures.operations).await;
    let mut out = Map::new();
    out.insert("took".into(), took.into());
    out.insert("committed".into(), false.into());
    if failures.otherwise {
        out.insert("branch".into(), "else".into());
    }
    out.insert("error".into(), error);
    out.insert("items".into(), items);
    out.insert("status".into(), status.into());
    Answer::of(status, Value::Object(out))
}

/// The body, within its limits.
fn parse(call: &Call, limits: &TransactionLimits) -> Result<TransactionBody> {
    if call.body.iter().all(u8::is_ascii_whitespace) {
        return Err(Error::new(ErrorKind::Parse, "request body is required"));
    }
    let defaults = BulkDefaults {
        dialect: call.dialect,
        ..BulkDefaults::default()
    };
    call.book_tree(&call.body)?;
    let body = TransactionBody::parse(&call.body, &defaults)?;
    let (first, second) = (
        body.operations.len() + body.moves.len(),
        body.otherwise.len() + body.otherwise_moves.len(),
    );
    limits.check_operations(first.max(second))?;
    if first + second == 0 {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: no operations added;",
        ));
    }
    let most = targets_max();
    if body.targets.len() > most {
        return Err(Error::illegal(format!(
            "a change takes at most [{most}] targets in [locks] but has [{}]; the limit is the setting [locks.max_targets]",
            body.targets.len()
        )));
    }
    Ok(body)
}

/// Adds the options of the body to those of the URL. Locks add up; a key and a timeout are given once.
fn add_body_options(options: &mut TransactionOptions, body: &mut TransactionBody) -> Result<()> {
    options.locks.append(&mut body.locks);
    let twice = |name: &str| Error::illegal(format!("[{name}] is given in the URL and in the body"));
    if options.key.is_some() && body.idempotency_key.is_some() {
        return Err(twice("idempotency_key"));
    }
    options.key = options.key.take().or(body.idempotency_key.take());
    if let Some(text) = &body.timeout {
        if options.timeout.is_some() {
            return Err(twice("timeout"));
        }
        options.timeout = Some(units::parse_duration(text, "timeout")?);
    }
    Ok(())
}

/// A move of the body.
fn directory_change(otherwise: bool, one: &MoveItem) -> DirectoryChange {
    let change = TreeChange {
        index: one.index.clone(),
        field: one.field.clone(),
        act: TreeAct::Move {
            from: one.from.clone(),
            to: one.to.clone(),
            merge: one.merge,
        },
    };
    DirectoryChange { otherwise, change }
}

/// A condition on a directory.
fn directory_condition(one: dsl::document::DirectoryCondition) -> DirectoryCondition {
    DirectoryCondition {
        at: DirectoryAt {
            index: one.index,
            field: one.field,
            path: one.directory,
        },
        exists: one.exists,
        empty: one.empty,
        unmoved_since: one.tree_seq,
    }
}

/// The items of moves that were done, which stand behind those of documents. An outcome that was kept under a key has no more of
/// them than that they were done.
fn moves_done(moves: &[MoveItem], done: &[TreeMoved]) -> Vec<Value> {
    let item = |(n, one): (usize, &MoveItem)| {
        let mut body = json!({ "_index": one.index, "from": one.from, "to": one.to, "status": 200 });
        if let Some(done) = done.get(n) {
            body["moved"] = done.changed.into();
            body["tree_seq"] = done.tree_seq.into();
        }
        json!({ "move": body })
    };
    moves.iter().enumerate().map(item).collect()
}

/// The conditions of `if` with the addresses of their documents.
async fn conditions_of(call: &Call, conditions: Vec<dsl::document::Condition>) -> Result<Vec<Condition>> {
    let mut out = Vec::with_capacity(conditions.len());
    for (n, condition) in conditions.into_iter().enumerate() {
        if condition.index.contains(['*', '?', ',']) {
            let reason = format!("if[{n}]: [{}] must be the name of one index or alias", condition.index);
            return Err(Error::new(ErrorKind::InvalidIndexName, reason).with("index", condition.index));
        }
        if let Some(scope) = &call.rest.scope {
            scope.check_condition(&condition.index).await?;
        }
        let typed = call.rest.index_facts(&condition.index).await.is_some_and(|known| known.typed);
        let id = match condition.doc_type {
            Some(doc_type) if typed => DocId::with_type(doc_type, condition.id),
            _ => DocId::plain(condition.id),
        };
        let expect = match (condition.if_seq_no, condition.if_primary_term, condition.version) {
            (Some(seq_no), Some(primary_term), _) => Expect::Unchanged { seq_no, primary_term },
            (_, _, Some(version)) => Expect::Version(version),
            _ => Expect::Anything,
        };
        out.push(Condition {
            at: DocAddress {
                index: IndexName::new(condition.index),
                id,
            },
            exists: condition.exists,
            expect,
        });
    }
    Ok(out)
}
