//! `_execute`, `_check` and `_stats` of a link policy.
//!
//! `_execute` is a by-query job over the documents that refer to a source: each is written once more, and a write fills its
//! copies in. So it is a task as others, with batches, counts and failures, that a restart goes on with. Not here: policies
//! themselves (`policies`).

use crate::actions::by_query::Api;
use crate::actions::jobs::{self, JobAnswerForm};
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use dsl::json::Node;
use dsl::query::{Parsing, Query};
use model::{Error, Result, Target};
use relations::jobs::{BATCH_MAX, Job, JobAction, Order};
use relations::links::body_of_all;
use serde_json::{Map, Value, json};

/// Documents that `_check` lists, unless told otherwise, and at most.
const LISTED: usize = 10;
const LISTED_MAX: usize = 1_000;

/// `POST /_link/policy/{name}/_execute`
#[boxed]
pub(crate) async fn execute(mut call: Call) -> Result<Answer> {
    let name = call.path_part("name")?;
    call.no_body()?;
    let wait = call.params.take_bool("wait_for_completion")?.unwrap_or(true);
    let refresh = call.params.flag("refresh")?;
    call.params.finish()?;
    let policy = call.rest.relations.link_policy(&name)?;
    let body = body_of_all(&policy);
    let index = policy.target.index.as_str();
    // After a restart it goes on as the by-query job that it is.
    let mut request = jobs::replayable_request(&call);
    request["api"] = Api::Update.row().1.into();
    request["path"] = format!("/{index}/_update_by_query").into();
    request["args"] = json!({ "index": index });
    request["params"] = json!({ "conflicts": "proceed", "refresh": refresh.to_string() });
    request["body"] = json!({ "query": body }).to_string().into();
    request["typed"] = false.into();
    let job = Job {
        target: Target::index(index),
        query: Query::parse(Node::from_value(body), &mut Parsing::new(call.dialect))?,
        action: JobAction::Update {
            script: None,
            source: None,
        },
        // Who writes a document meanwhile fills its copies in.
        proceed: true,
        max_docs: None,
        batch: BATCH_MAX,
        refresh,
        guards: Vec::new(),
        whole: None,
        free: Vec::new(),
        caller: call.caller.clone(),
    };
    let order = Order {
        request,
        key: None,
        keep: !wait,
    };
    let shape = JobAnswerForm {
        creates: false,
        deletes: false,
        of_2015: false,
        slice: None,
    };
    let of_task = ("indices:data/write/link/execute", format!("link policy [{name}]"));
    jobs::carry_out(&call, job, order, shape, of_task, wait).await
}

/// `GET /_link/policy/{name}/_check`
#[boxed]
pub(crate) async fn check(mut call: Call) -> Result<Answer> {
    let name = call.path_part("name")?;
    let size = call.params.take_number::<usize>("size")?.unwrap_or(LISTED);
    if size > LISTED_MAX {
        return Err(Error::illegal(format!(
            "[size] must be at most [{LISTED_MAX}] but was [{size}]"
        )));
    }
    call.params.finish()?;
    let checked = call.rest.relations.check_links(&name, size).await?;
    let one = |difference: &relations::link_policies::Difference| {
        json!({
            "_index": difference.at.index.as_str(), "_id": &*difference.at.id.id, "found": difference.found,
            "expected": difference.expected,
        })
    };
    let differences: Vec<Value> = checked.differences.iter().map(one).collect();
    Ok(Answer::ok(json!({
        "name": name, "documents": checked.documents, "copies": checked.copies, "missing": checked.missing, "different": checked.different,
        "differences": differences,
    })))
}

/// `GET /_link/policy/{name}/_stats`
#[boxed]
pub(crate) async fn stats(call: Call) -> Result<Answer> {
    let name = call.path_part("name")?;
    call.params.finish()?;
    let stats = call.rest.relations.link_stats(&name).await?;
    let mut out = Map::new();
    out.insert("name".into(), name.into());
    out.insert("pending".into(), stats.pending.into());
    out.insert("stale".into(), stats.stale.into());
    out.insert("lag_in_millis".into(), stats.lag_ms.into());
    out.insert("propagated".into(), stats.propagated.into());
    out.insert("failed".into(), stats.failed.into());
    if let Some(failure) = stats.failure {
        out.insert("failure".into(), Value::Object(failure.to_json()));
    }
    Ok(Answer::ok(Value::Object(out)))
}
