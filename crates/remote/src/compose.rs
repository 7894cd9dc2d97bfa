//! A write of the contract as a line of a bulk request. Pure.
//!
//! Writes that set or drop marks say which version they replace, and go as they are. Plain writes keep marks, which are
//! inside the source: they are composed from the document as it was read, and replace that version or nothing.

use crate::marks;
use engine::{
    Applied, Basis, Conflict, Document, Effect, Expect, Found, Hidden, Hide, Outcome, See, Source, Write, WriteOp, Written,
};
use model::{DocAddress, Error, ErrorKind, Result, Stamp};
use serde_json::{Map, Value, json};

/// A line, and what it means to the caller.
#[derive(Debug)]
pub(crate) struct Composed {
    /// Action, its parameters and, but for deletes, the source; each ends its line.
    pub(crate) lines: Vec<u8>,
    /// The effect of the write if the line is done; `None`: what the cluster says.
    pub(crate) effect: Option<Effect>,
    /// The new source, for updates.
    pub(crate) source: Option<Source>,
    /// Others may come between the read and the line, and the caller asked for nothing that would notice: try again.
    pub(crate) again: bool,
}

/// Does the line depend on what is there?
pub(crate) fn needs_read(write: &Write) -> bool {
    let plain = matches!(write.hide, Hide::Keep);
    let compares = matches!(write.expect, Expect::Present | Expect::Version(_)) || write.basis != Basis::Anything;
    plain || compares || matches!(write.op, WriteOp::Update(_))
}

/// The line, or the answer where nothing is to be sent. `here` is what is there, marks and all.
pub(crate) fn compose(write: &Write, here: Option<&Document>) -> Result<Composed, Outcome> {
    if write.at.id.doc_type.is_some() || write.parent.is_some() {
        return Err(Outcome::Refused(crate::unsupported_error("a mapping type or a parent")));
    }
    if matches!(
        write.expect,
        Expect::NewerThan { .. } | Expect::AbsentAt { .. } | Expect::Forced(_)
    ) {
        // A cluster refuses [if_seq_no] beside them (400), so nothing would notice a mark that comes between its read and
        // the line; and a line with [if_seq_no] alone gives the document the next version, not the client's.
        return Err(Outcome::Refused(crate::unsupported_error("an external version")));
    }
    if write.require_alias && here.is_some_and(|document| document.at.index == write.at.index) {
        let name = write.at.index.as_str();
        let reason = format!("no such index [{name}] and [require_alias] request flag is [true] and [{name}] is not an alias");
        return Err(Outcome::Refused(
            Error::new(ErrorKind::IndexNotFound, reason).with("index", name),
        ));
    }
    if needs_read(write) { over(write, here) } else { direct(write) }
}

/// A write that says itself what it replaces.
fn direct(write: &Write) -> Result<Composed, Outcome> {
    let mark = match &write.hide {
        Hide::Set(mark) => Some(mark),
        Hide::Keep | Hide::Drop => None,
    };
    let (lines, effect) = match &write.op {
        WriteOp::Delete if mark.is_none() => (line("delete", write, write.expect, None)?, None),
        WriteOp::Delete => (
            line("index", write, write.expect, Some((&empty(), hide(mark).as_ref())))?,
            Some(Effect::Deleted),
        ),
        WriteOp::Put(source) => (line("index", write, write.expect, Some((source, mark)))?, None),
        WriteOp::Update(_) => unreachable!("updates depend on what is there"),
    };
    Ok(Composed {
        lines,
        effect,
        source: None,
        again: false,
    })
}

/// A write over what was read.
fn over(write: &Write, here: Option<&Document>) -> Result<Composed, Outcome> {
    let plain = matches!(write.hide, Hide::Keep);
    let see = if plain { See::Plain } else { See::Everything };
    let mark = here.and_then(|document| document.hidden.as_ref());
    if let Some(held) = mark.filter(|mark| plain && mark.held) {
        return Err(Outcome::Held(held.body.clone()));
    }
    let seen = here.filter(|document| see == See::Everything || document.hidden.as_ref().is_none_or(|mark| mark.visible));
    let found = match (seen, here) {
        (Some(document), _) => Found::Here(document.stamp),
        (None, Some(hidden)) => Found::Deleted(hidden.stamp),
        (None, None) => Found::Nothing,
    };
    let with_marks = here.map_or(Found::Nothing, |document| Found::Here(document.stamp));
    write.check(&write.at, found, with_marks).map_err(Outcome::Conflict)?;
    let done = |effect, source| {
        Outcome::Written(Written {
            effect,
            at: here.map_or(&write.at, |document| &document.at).clone(),
            stamp: found.stamp().unwrap_or_default(),
            source,
            forced_refresh: false,
        })
    };
    let next = match next_source(write, seen).map_err(Outcome::Refused)? {
        Next::Put(source) => Some(source),
        Next::Delete => None,
        Next::Noop => {
            let source = seen.map(|document| document.source.clone());
            return Err(done(Effect::Noop, source));
        }
    };
    if next.is_none() && seen.is_none() {
        // To delete nothing is no write here: sent without a condition it could take away a stub that comes between.
        return Err(done(Effect::NotFound, None));
    }
    let expect = here.map_or(Expect::Absent, |document| expect_unchanged(document.stamp));
    let is_update = matches!(write.op, WriteOp::Update(_));
    // An update and a delete leave the document where it is.
    let stays = match next.is_none() {
        true => here,
        false => seen.filter(|_| is_update),
    };
    let routing = write.routing.clone();
    let to = Write {
        routing: routing.or_else(|| stays?.routing.clone()),
        ..write.clone()
    };
    let (lines, effect) = match &next {
        Some(source) => {
            let mark = mark_after(&write.hide, mark, true);
            let effect = if seen.is_some() { Effect::Updated } else { Effect::Created };
            (line("index", &to, expect, Some((source, mark.as_ref())))?, effect)
        }
        None => {
            let mark = mark_after(&write.hide, mark, false);
            let lines = match &mark {
                Some(mark) => line("index", &to, expect, Some((&empty(), Some(mark))))?,
                None => line("delete", &to, expect, None)?,
            };
            (lines, Effect::Deleted)
        }
    };
    Ok(Composed {
        lines,
        effect: Some(effect),
        source: next.filter(|_| is_update),
        // An update that was done and answered late must not be done again.
        again: !is_update && matches!(write.expect, Expect::Anything | Expect::Present | Expect::Version(_)),
    })
}

/// The effect of an operation on a document.
enum Next {
    Put(Source),
    Delete,
    Noop,
}

/// Applies the operation of a write to the document that its writer sees.
fn next_source(write: &Write, seen: Option<&Document>) -> Result<Next> {
    let update = match &write.op {
        WriteOp::Put(source) => return Ok(Next::Put(source.clone())),
        WriteOp::Delete => return Ok(Next::Delete),
        WriteOp::Update(update) => update,
    };
    let value = seen.map(|document| document.source.parse()).transpose()?;
    let was = value.as_ref().zip(seen.map(|document| document.stamp));
    let routing = seen.and_then(|document| document.routing.as_deref());
    let routing = write.routing.as_deref().or(routing);
    Ok(match update.apply(&write.at, was, routing)? {
        Applied::Put(value) => Next::Put(Source::from_value(&value)),
        Applied::Delete => Next::Delete,
        Applied::Noop => Next::Noop,
    })
}

/// The mark after a write. A plain write of a document makes it visible; one that is deleted under a mark is not.
fn mark_after(set: &Hide, mark: Option<&Hidden>, exists: bool) -> Option<Hidden> {
    let mark = match set {
        Hide::Keep => Hidden {
            visible: true,
            ..mark?.clone()
        },
        Hide::Set(mark) => mark.clone(),
        Hide::Drop => return None,
    };
    match exists {
        true => Some(mark),
        false => hide(Some(&mark)),
    }
}

fn empty() -> Source {
    Source((*b"{}").into())
}

fn hide(mark: Option<&Hidden>) -> Option<Hidden> {
    mark.map(|mark| Hidden {
        visible: false,
        ..mark.clone()
    })
}

fn expect_unchanged(stamp: Stamp) -> Expect {
    Expect::Unchanged {
        seq_no: stamp.seq_no,
        primary_term: stamp.primary_term,
    }
}

fn line(action: &str, write: &Write, expect: Expect, source: Option<(&Source, Option<&Hidden>)>) -> Result<Vec<u8>, Outcome> {
    let mut about = Map::new();
    about.insert("_index".into(), write.at.index.as_str().into());
    about.insert("_id".into(), (&*write.at.id.id).into());
    if let Some(routing) = &write.routing {
        about.insert("routing".into(), routing.as_str().into());
    }
    if write.require_alias {
        about.insert("require_alias".into(), Value::Bool(true));
    }
    let mut action = action;
    match expect {
        Expect::Anything => {}
        Expect::Absent if source.is_some() => action = "create",
        Expect::Unchanged { seq_no, primary_term } => {
            about.insert("if_seq_no".into(), seq_no.into());
            about.insert("if_primary_term".into(), primary_term.into());
        }
        // A delete of what must not be there.
        other => {
            let conflict = Conflict {
                at: write.at.clone(),
                expect: other,
                found: Found::Nothing,
            };
            return Err(Outcome::Conflict(conflict));
        }
    }
    let mut lines = json!({ action: about }).to_string().into_bytes();
    lines.push(b'\n');
    if let Some((source, mark)) = source {
        lines.extend_from_slice(&marks::put(source, mark).map_err(Outcome::Refused)?);
        lines.push(b'\n');
    }
    Ok(lines)
}

/// The state that was there, as far as can be told afterwards: a cluster does not say with the conflict. Deletions are not seen.
pub(crate) fn conflict(write: &Write, at: &DocAddress, now: Option<&Document>) -> Conflict {
    let see_all = !matches!(write.hide, Hide::Keep);
    let found = match now {
        Some(document) if see_all || document.hidden.as_ref().is_none_or(|mark| mark.visible) => Found::Here(document.stamp),
        Some(document) => Found::Deleted(document.stamp),
        None => Found::Nothing,
    };
    Conflict {
        at: at.clone(),
        expect: write.expect,
        found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocId, IndexName};

    fn here(mark: Option<(bool, bool)>) -> Document {
        Document {
            at: at(),
            stamp: Stamp {
                seq_no: 4,
                primary_term: 2,
                version: 3,
            },
            source: Source(br#"{"a":1}"#.as_slice().into()),
            stored_fields: None,
            routing: None,
            parent: None,
            times: mapping::Times::default(),
            tree: None,
            hidden: mark.map(|(visible, held)| Hidden {
                body: json!({ "c": 1 }),
                visible,
                held,
            }),
        }
    }

    fn at() -> DocAddress {
        DocAddress {
            index: IndexName::new("i"),
            id: DocId::plain("1"),
        }
    }

    fn check(write: Write, here: Option<&Document>, expected: &str) {
        let got = match compose(&write, here) {
            Ok(composed) => String::from_utf8_lossy(&composed.lines).replace('\n', " ").trim().to_owned(),
            Err(outcome) => format!("{outcome:?}"),
        };
        assert!(got.starts_with(expected), "{got}\ninstead of\n{expected}");
    }

    #[test]
    fn plain_writes_replace_what_was_read() {
        let put = || Write::new(at(), WriteOp::Put(Source(br#"{"a":2}"#.as_slice().into())));
        let delete = || Write::new(at(), WriteOp::Delete);
        let (bare, marked, gone, held) = (
            here(None),
            here(Some((true, false))),
            here(Some((false, false))),
            here(Some((true, true))),
        );
        check(put(), None, r#"{"create":{"_index":"i","_id":"1"}} {"a":2}"#);
        check(
            put(),
            Some(&bare),
            r#"{"index":{"_index":"i","_id":"1","if_seq_no":4,"if_primary_term":2}} {"a":2}"#,
        );
        let kept = r#"{"index":{"_index":"i","_id":"1","if_seq_no":4,"if_primary_term":2}} {"a":2,"_pleach":{"b":"{\"c\":1}","hidden":false,"held":false}}"#;
        check(put(), Some(&marked), kept);
        check(put(), Some(&gone), kept);
        check(put(), Some(&held), "Held(");
        check(delete(), None, "Written(Written { effect: NotFound");
        check(delete(), Some(&gone), "Written(Written { effect: NotFound");
        check(
            delete(),
            Some(&bare),
            r#"{"delete":{"_index":"i","_id":"1","if_seq_no":4,"if_primary_term":2}}"#,
        );
        let tombstone = r#"{"index":{"_index":"i","_id":"1","if_seq_no":4,"if_primary_term":2}} {"_pleach":{"b":"{\"c\":1}","hidden":true,"held":false}}"#;
        check(delete(), Some(&marked), tombstone);
        let expecting = |expect, write: Write| Write { expect, ..write };
        check(expecting(Expect::Absent, put()), Some(&bare), "Conflict(");
        check(expecting(Expect::Absent, put()), Some(&gone), kept);
        check(expecting(Expect::Version(3), put()), Some(&bare), r#"{"index":"#);
        check(expecting(Expect::Version(2), put()), Some(&bare), "Conflict(");
        check(expecting(Expect::Present, put()), None, "Conflict(");
        let newer = Expect::NewerThan {
            version: 9,
            or_equal: false,
        };
        check(expecting(newer, put()), Some(&bare), "Refused(");
    }

    #[test]
    fn writes_with_marks_go_as_they_are() {
        let mark = Hide::Set(Hidden {
            body: json!(1),
            visible: true,
            held: true,
        });
        let put = |expect, hide| Write {
            expect,
            hide,
            ..Write::new(at(), WriteOp::Put(Source(b"{}".as_slice().into())))
        };
        check(
            put(Expect::Absent, mark.clone()),
            None,
            r#"{"create":{"_index":"i","_id":"1"}} {"_pleach":{"b":"1","hidden":false,"held":true}}"#,
        );
        let stamp = Expect::Unchanged {
            seq_no: 7,
            primary_term: 1,
        };
        check(
            put(stamp, Hide::Drop),
            None,
            r#"{"index":{"_index":"i","_id":"1","if_seq_no":7,"if_primary_term":1}} {}"#,
        );
        let delete = Write {
            op: WriteOp::Delete,
            ..put(stamp, mark)
        };
        check(
            delete,
            None,
            r#"{"index":{"_index":"i","_id":"1","if_seq_no":7,"if_primary_term":1}} {"_pleach":{"b":"1","hidden":true,"held":true}}"#,
        );
    }
}
