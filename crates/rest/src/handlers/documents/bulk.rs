//! `_bulk`: many writes in one request, each on its own.

use crate::actions::bulk::{Planned, failure_item, settle, text};
use crate::actions::documents::take_propagates;
use crate::actions::transaction;
use crate::actions::writes::{Guarded, refuse_pipeline, send_in, with_warnings};
use crate::call::Call;
use crate::es2_errors;
use crate::list_style::ListStyle;
use crate::packed_text::PackedText;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use dsl::document::{BulkDefaults, BulkReader};
use dsl::search::SourceSpec;
use engine::{Outcome, Refresh};
use model::{Error, IndexName, Result, Target};
use serde_json::{Map, Value, json};

/// `POST /_bulk`.
#[boxed]
pub(crate) async fn bulk(mut call: Call) -> Result<Answer> {
    let start = call.rest.clock.monotonic();
    let BulkParameters {
        atomic,
        options: mut request,
        defaults,
        propagates,
    } = BulkParameters::take(&mut call)?;
    let body = call.body.clone();
    if let Some(options) = atomic {
        let limits = transaction::TransactionLimits::of(&call).await?;
        limits.check_bytes(body.len())?;
        let fields = request.default_fields.as_deref();
        let planned = planned_whole(&call, &defaults, &body, &request.locks, fields, &limits).await?;
        let source = &request.default_source;
        let answer = transaction::atomic_bulk(&call, planned, source, options, &limits, request.refresh).await?;
        if propagates {
            call.rest.relations.all_links_followed().await;
        }
        return Ok(answer);
    }
    let lines = memchr::memchr_iter(b'\n', &body).count();
    let mut answered = BulkAnswer::book(&call, &body, lines)?;
    let mut reader = BulkReader::new(&body, &defaults).map_err(|e| unread(&call, e))?;
    if lines <= CHUNK_OPERATIONS && body.len() <= CHUNK_BYTES {
        let chunk = next_chunk(&call, &mut reader, request.default_fields.as_deref()).await;
        let chunk = chunk.map_err(|e| unread(&call, e))?;
        reader.finish().map_err(|e| unread(&call, e))?;
        refuse_invalid(&call, &chunk)?;
        write_chunk(&call, &request, chunk, &mut answered).await?;
    } else {
        validate(&call, &defaults, &body, request.default_fields.as_deref()).await?;
        write_chunks(&call, &mut request, &mut reader, &mut answered).await?;
    }
    answered.unrefreshed.sort_unstable();
    answered.unrefreshed.dedup();
    for index in std::mem::take(&mut answered.unrefreshed) {
        call.rest.engine.refresh(&Target::index(index.as_str()), None).await?;
    }
    if propagates {
        call.rest.relations.all_links_followed().await;
    }
    let took = (call.rest.clock.monotonic() - start).as_millis();
    Ok(answered.finish(&call, u64::try_from(took).unwrap_or(u64::MAX), request.transaction))
}

/// Operations that are parsed and written at once. A larger bulk is written in several pieces, so that its memory does not
/// depend on how many operations its body holds.
const CHUNK_OPERATIONS: usize = 8192;

/// Bytes of sources that are written at once.
const CHUNK_BYTES: usize = 8 << 20;

/// Memory of the answer for one line of the body, about.
const ANSWER_BYTES_OF_A_LINE: usize = 128;

/// Memory of the same when it is packed: a generated id is most of it.
const PACKED_BYTES_OF_A_LINE: usize = 16;

/// So many times as much where each member has a line of its own, most of it spaces.
const LAID_OUT_TIMES: usize = 3;

/// The name of the list in an answer.
const ITEMS: &str = "items";

/// The options that hold for every item.
struct BulkOptions {
    transaction: Option<String>,
    default_source: SourceSpec,
    default_fields: Option<Vec<String>>,
    locks: Vec<String>,
    refresh: Refresh,
}

/// The parameters of a bulk.
struct BulkParameters {
    /// It is one change, with these options.
    atomic: Option<transaction::TransactionOptions>,
    options: BulkOptions,
    defaults: BulkDefaults,
    /// The answer waits for what link policies write later.
    propagates: bool,
}

impl BulkParameters {
    fn take(call: &mut Call) -> Result<BulkParameters> {
        refuse_pipeline(call)?;
        // A bulk is one batch, of whatever size.
        let least = |size: i32| size < 1;
        if !call.dialect.rules.tolerates_value_bounds && call.params.take_number("batch_size")?.is_some_and(least) {
            return Err(Error::illegal("batch_size must be greater than 0"));
        }
        let refresh = call.params.take_refresh()?;
        let transaction = call.params.take("transaction");
        let atomic = if call.params.flag("atomic")? {
            Some(transaction::TransactionOptions::take(call)?)
        } else {
            // Clients send it with every bulk; a write that is answered is durable, and nobody else has to be waited for.
            call.params.take_duration("timeout")?;
            None
        };
        crate::actions::transaction_stage::refuse_atomic(atomic.as_ref(), transaction.as_deref())?;
        let default_source = crate::actions::read::source_params(call)?;
        let routing = call.params.take("routing");
        let locks = call.take_locks()?;
        let propagates = take_propagates(call)?;
        if propagates && transaction.is_some() {
            return Err(Error::illegal(
                "[propagate] has no place in a transaction: nothing follows before its commit",
            ));
        }
        let require_alias = call.params.flag("require_alias")?;
        let default_fields = call.params.take_2015("fields").map(|f| crate::query_params::split_list(&f));
        let default_type = call.params.take("type");
        call.params.finish()?;
        let defaults = BulkDefaults {
            index: call.arg("index").map(str::to_owned),
            doc_type: call.arg("type").map(str::to_owned).or(default_type),
            routing,
            pipeline: None,
            require_alias,
            dialect: call.dialect,
        };
        let options = BulkOptions {
            transaction,
            default_source,
            default_fields,
            locks,
            refresh,
        };
        Ok(BulkParameters {
            atomic,
            options,
            defaults,
            propagates,
        })
    }
}

/// The answer so far.
#[derive(Default)]
struct BulkAnswer {
    /// The items as they are written, with what stands between them.
    items: PackedText,
    errors: bool,
    warnings: Vec<String>,
    /// Indices that are refreshed at the end: a bulk is refreshed as a whole, also for its updates that changed nothing.
    unrefreshed: Vec<IndexName>,
}

impl BulkAnswer {
    /// An empty answer to a body of some lines. Its memory is booked before anything is written: an answer that finds no
    /// memory afterwards would hide what was done.
    fn book(call: &Call, body: &[u8], lines: usize) -> Result<BulkAnswer> {
        // A delete is an item of one line, others have two.
        let deletes = memchr::memmem::find_iter(body, b"\"delete\"").count();
        let answered_lines = lines + deletes;
        let text_bytes = answered_lines.saturating_mul(ANSWER_BYTES_OF_A_LINE);
        let text_bytes = match call.style.pretty || call.style.yaml {
            true => text_bytes.saturating_mul(LAID_OUT_TIMES),
            false => text_bytes,
        };
        // An answer that is longer than its body is packed.
        let held = PackedText::bytes_held(text_bytes, body.len(), answered_lines, PACKED_BYTES_OF_A_LINE);
        call.book(held)?;
        Ok(BulkAnswer {
            items: PackedText::new(text_bytes, body.len()),
            ..BulkAnswer::default()
        })
    }

    /// The answer with what stands around its items.
    fn finish(mut self, call: &Call, took: u64, transaction: Option<String>) -> Answer {
        let mut text = self.items;
        let before = [("took", took.into()), ("errors", self.errors.into())];
        let before = before.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let behind = transaction.map(|id| ("transaction".to_owned(), id.into()));
        let list = ListStyle::new(&call.style, ITEMS);
        let (head, end) = list.around(before, behind.into_iter().collect(), !text.is_empty());
        text.end().push_str(&end);
        text.set_head(head);
        // A header is no place for thousands.
        self.warnings.truncate(16);
        with_warnings(Answer::from_packed(text), &self.warnings)
    }
}

/// A body that cannot be read, in the words of the dialect.
fn unread(call: &Call, error: Error) -> Error {
    // Each line was known by its first brace.
    let bad = |line: &&[u8]| !line.trim_ascii().is_empty() && dsl::json::check(line, call.reading()).is_err();
    let line = call.body.split(|b| *b == b'\n').find(bad).unwrap_or_default();
    es2_errors::unread_if(error, line, call.dialect)
}

/// The next operations, as many as are written at once; none at the end.
async fn next_chunk(call: &Call, reader: &mut BulkReader<'_, '_>, fields: Option<&[String]>) -> Result<Vec<Planned>> {
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    while chunk.len() < CHUNK_OPERATIONS && bytes < CHUNK_BYTES {
        let Some(item) = reader.next_item()? else { break };
        bytes += item.source.len();
        chunk.push(Planned::new(call, item, fields).await);
    }
    Ok(chunk)
}

/// Refuses the whole bulk for an item that is no update or could never be one operation.
fn refuse_invalid(call: &Call, planned: &[Planned]) -> Result<()> {
    if call.dialect.rules.invalid_items_fail_alone {
        return Ok(());
    }
    let invalid = planned.iter().filter(|item| item.invalid);
    invalid
        .filter_map(|item| item.write.as_ref().err())
        .next()
        .map_or(Ok(()), |error| Err(error.clone()))
}

/// Reads a body of several chunks to its end before any of it is written.
async fn validate(call: &Call, defaults: &BulkDefaults, body: &[u8], fields: Option<&[String]>) -> Result<()> {
    let mut reader = BulkReader::new(body, defaults).map_err(|e| unread(call, e))?;
    loop {
        let chunk = next_chunk(call, &mut reader, fields).await.map_err(|e| unread(call, e))?;
        if chunk.is_empty() {
            return reader.finish().map_err(|e| unread(call, e));
        }
        refuse_invalid(call, &chunk)?;
        // Others go on meanwhile.
        tokio::task::yield_now().await;
    }
}

/// Writes the rest of a body that is larger than a chunk, chunk by chunk.
async fn write_chunks(
    call: &Call,
    request: &mut BulkOptions,
    reader: &mut BulkReader<'_, '_>,
    answered: &mut BulkAnswer,
) -> Result<()> {
    let wait_for = matches!(request.refresh, Refresh::WaitFor);
    // Each chunk would wait; the whole is made searchable at its end instead.
    request.refresh = if wait_for { Refresh::No } else { request.refresh };
    loop {
        let chunk = next_chunk(call, reader, request.default_fields.as_deref()).await;
        let chunk = chunk.map_err(|e| unread(call, e))?;
        if chunk.is_empty() {
            return Ok(());
        }
        if wait_for {
            answered
                .unrefreshed
                .extend(chunk.iter().map(|planned| planned.at.index.clone()));
        }
        write_chunk(call, request, chunk, answered).await?;
    }
}

/// The operations of one change, within its limits.
async fn planned_whole(
    call: &Call,
    defaults: &BulkDefaults,
    body: &[u8],
    locks: &[String],
    fields: Option<&[String]>,
    limits: &transaction::TransactionLimits,
) -> Result<Vec<Planned>> {
    let mut reader = BulkReader::new(body, defaults).map_err(|e| unread(call, e))?;
    let mut planned = Vec::new();
    while let Some(item) = reader.next_item().map_err(|e| unread(call, e))? {
        let mut item = Planned::new(call, item, fields).await;
        if item.locks.is_empty() {
            item.locks = locks.to_vec();
        }
        planned.push(item);
        limits.check_operations(planned.len())?;
    }
    reader.finish().map_err(|e| unread(call, e))?;
    Ok(planned)
}

/// Writes some operations and appends their answers. One document may stand several times among them: they are sent in
/// order, and each sees what those before it did.
async fn write_chunk(call: &Call, request: &BulkOptions, mut planned: Vec<Planned>, answered: &mut BulkAnswer) -> Result<()> {
    for planned in planned.iter_mut().filter(|planned| planned.locks.is_empty()) {
        planned.locks = request.locks.clone();
    }
    let mut answers: Vec<Option<Item>> = (0..planned.len()).map(|_| None).collect();
    let mut writes = Vec::with_capacity(planned.len());
    let mut sent = Vec::with_capacity(planned.len());
    for (i, item) in planned.iter().enumerate() {
        match item.write.clone() {
            Ok(write) => {
                let locks = item.locks.clone();
                writes.push(Guarded { write, locks });
                sent.push(i);
            }
            Err(error) => {
                answered.errors = true;
                answers[i] = Some(Item::Tree(failure_item(item, error, call).await));
            }
        }
    }
    let transaction = request.transaction.as_deref();
    let done = send_in(call, transaction, writes, request.refresh).await?;
    assert_eq!(done.len(), sent.len(), "each write of a bulk has its outcome");
    let refreshed =
        transaction.is_none() && matches!(request.refresh, Refresh::Now) && !call.dialect.rules.former_document_answers;
    for (i, sent) in sent.into_iter().zip(done) {
        answered.warnings.extend(sent.warnings);
        if let (Outcome::Written(written), None) = (&sent.outcome, transaction)
            && planned[i].locks.is_empty()
            && planned[i].says_no_more(call, written, &request.default_source)?
        {
            let mut told = String::with_capacity(256);
            text(&mut told, &call.rest, planned[i].label, written, call.dialect).await;
            answers[i] = Some(Item::Text(told));
            continue;
        }
        let (mut body, bad) = settle(&planned[i], sent.outcome, &request.default_source, call).await?;
        if refreshed && body.get("result").is_some_and(|result| result == "noop") {
            body.insert("forced_refresh".into(), true.into());
            answered.unrefreshed.push(planned[i].at.index.clone());
        }
        if let Some(id) = planned[i].locks.first().filter(|_| !bad) {
            body.insert("lock".into(), id.as_str().into());
        }
        answered.errors |= bad;
        answers[i] = Some(Item::Tree(body));
    }
    debug_assert!(answers.iter().all(Option::is_some), "each operation of a bulk has its answer");
    let list = ListStyle::new(&call.style, ITEMS);
    for (planned, answer) in planned.iter().zip(answers) {
        let text = match answer {
            Some(Item::Text(text)) => text,
            Some(Item::Tree(tree)) => json!({ planned.label: tree }).to_string(),
            None => "{}".to_owned(),
        };
        let Some(text) = list.item(text) else { continue };
        let is_first = answered.items.is_empty();
        let items = answered.items.end();
        items.push_str(list.separator(is_first));
        items.push_str(&text);
    }
    // A header is no place for thousands.
    answered.warnings.truncate(16);
    answered.unrefreshed.sort_unstable();
    answered.unrefreshed.dedup();
    Ok(())
}

/// The answer of one item.
enum Item {
    /// The object under the item's label.
    Tree(Map<String, Value>),
    /// Label and answer as the text of JSON.
    Text(String),
}
