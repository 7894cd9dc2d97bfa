//! The results of a change's updates, kept between the runs of its plan, so that scripts run while nothing is locked.
//!
//! A plan runs inside the critical section first, where updates may take little: few of them, few steps each, small sources.
//! If that is not enough, nothing is decided: the same plan runs where nothing is locked, without any bound but the scripts' own,
//! and keeps what each update made of the document that it found. The next plan inside takes that as long as the document
//! is still the same; what has changed meanwhile is evaluated again outside. After [`ATTEMPTS_MAX`] rounds, writers of the
//! same documents have always been faster: then it is evaluated inside, with the documents held.
//!
//! Not here: which operations there are and what they see (`fold`), the rounds (`serial`).

use engine::{Applied, Source, Update};
use mapping::{Times, Timing};
use model::{DocAddress, Error, ErrorKind, Result, Stamp};
use std::collections::HashMap;

/// Rounds outside before what is still to be evaluated is evaluated inside.
pub(in crate::transactions) const ATTEMPTS_MAX: usize = 4;

/// Bounds of one run inside: updates with a script, steps of each, bytes of the sources that updates read. Together
/// about 2 ms.
const SCRIPTS_INSIDE: usize = 32;
const STEPS_INSIDE: u64 = 2_000;
const BYTES_INSIDE: usize = 256 << 10;

/// Where a plan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(in crate::transactions) enum Place {
    /// In the critical section, within bounds.
    #[default]
    Inside,
    /// Where nothing is locked.
    Outside,
    /// In the critical section, whatever it takes.
    InsideUnbounded,
}

/// An update of a change, and what it was evaluated on. The operations before it on the same document are those of the
/// change, so the document before the change says what it saw.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::transactions) struct UpdateId {
    /// Updates of the operations of `else`.
    pub(in crate::transactions) otherwise: bool,
    /// Its place among the operations.
    pub(in crate::transactions) operation: usize,
    /// The document, in the index of this uuid.
    pub(in crate::transactions) at: DocAddress,
    pub(in crate::transactions) uuid: Option<String>,
    /// The sequence number and primary term of the document before the change: none if there is no document.
    pub(in crate::transactions) before: Option<(u64, u64)>,
    /// The moves of the directories that the paths of its source are those of.
    pub(in crate::transactions) moved: u64,
}

/// The result of an update.
#[derive(Clone, Debug)]
pub(in crate::transactions) enum UpdateEffect {
    Put(Source),
    Delete,
    Noop,
}

/// The part of its document that an update reads.
pub(in crate::transactions) struct Subject<'a> {
    pub(in crate::transactions) source: Option<&'a Source>,
    pub(in crate::transactions) stamp: Stamp,
    pub(in crate::transactions) routing: Option<&'a str>,
    pub(in crate::transactions) times: Times,
    /// The times of the write.
    pub(in crate::transactions) timing: Timing,
}

/// The result of evaluating.
pub(in crate::transactions) enum UpdateOutcome {
    /// The effect, and what is to be said of the times of the document.
    Done(Result<(UpdateEffect, Timing)>),
    /// It would take too long here.
    TooLong,
}

/// The evaluations of one change.
#[derive(Debug, Default)]
pub(in crate::transactions) struct Updates {
    known: HashMap<UpdateId, Result<(UpdateEffect, Timing)>>,
    place: Place,
    scripts: usize,
    bytes: usize,
}

impl Updates {
    /// From here on plans run there.
    pub(in crate::transactions) fn begin(&mut self, place: Place) {
        self.place = place;
    }

    /// A plan begins.
    pub(in crate::transactions) fn begin_plan(&mut self) {
        self.scripts = SCRIPTS_INSIDE;
        self.bytes = BYTES_INSIDE;
    }

    /// Evaluates an update, or remembers what it came to.
    pub(in crate::transactions) fn evaluate(&mut self, which: UpdateId, update: &Update, subject: Subject<'_>) -> UpdateOutcome {
        if let Some(known) = self.known.get(&which) {
            return UpdateOutcome::Done(known.clone());
        }
        let bounded = self.place == Place::Inside;
        if bounded && !self.admits(update, &subject) {
            return UpdateOutcome::TooLong;
        }
        let steps = if bounded { STEPS_INSIDE } else { u64::MAX };
        let done = effect_of(update, steps, &which.at, subject);
        if bounded && update.budget.steps > steps && is_exhausted(&done) {
            return UpdateOutcome::TooLong;
        }
        if self.place == Place::Outside {
            self.known.insert(which, done.clone());
        }
        UpdateOutcome::Done(done)
    }

    /// Is there room for it in this run?
    fn admits(&mut self, update: &Update, subject: &Subject<'_>) -> bool {
        let bytes = subject.source.map_or(0, |source| source.0.len());
        let scripts = usize::from(update.script.is_some());
        let room = self.scripts.checked_sub(scripts).zip(self.bytes.checked_sub(bytes));
        room.map(|room| (self.scripts, self.bytes) = room).is_some()
    }
}

fn effect_of(update: &Update, steps: u64, at: &DocAddress, subject: Subject<'_>) -> Result<(UpdateEffect, Timing)> {
    let value = subject.source.map(Source::parse).transpose()?;
    let found = value.as_ref().map(|value| (value, subject.stamp));
    let mut timing = subject.timing;
    let effect = match update.apply_within(steps, at, found, subject.routing, subject.times, &mut timing)? {
        Applied::Put(value) => UpdateEffect::Put(Source::from_value(&value)),
        Applied::Delete => UpdateEffect::Delete,
        Applied::Noop => UpdateEffect::Noop,
    };
    Ok((effect, timing))
}

/// Did the script use up what it may?
fn is_exhausted(done: &Result<(UpdateEffect, Timing)>) -> bool {
    let exhausted = |error: &Error| {
        let mut causes = std::iter::successors(Some(error), |error| error.cause());
        causes.any(|error| error.kind() == ErrorKind::CircuitBreaking)
    };
    done.as_ref().is_err_and(exhausted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocId, IndexName};
    use script::{Lang, Params};

    fn which(seq_no: u64) -> UpdateId {
        UpdateId {
            otherwise: false,
            operation: 0,
            at: DocAddress {
                index: IndexName::new("i"),
                id: DocId::plain("1"),
            },
            uuid: Some("u".into()),
            before: Some((seq_no, 1)),
            moved: 0,
        }
    }

    /// `n` plus one, after so many turns of a loop.
    fn update(turns: u64) -> Update {
        let source = format!("for (int i = 0; i < {turns}; i++) {{}} ctx._source.n += 1");
        let program = script::compile(&source, Lang::Painless).expect("a script");
        Update::of_script((program, Params::default()), false, 0)
    }

    fn run(evaluations: &mut Updates, seq_no: u64, update: &Update, n: u64) -> Option<String> {
        let source = Source::from_value(&serde_json::json!({ "n": n }));
        let subject = Subject {
            source: Some(&source),
            stamp: Stamp::default(),
            routing: None,
            times: Times::default(),
            timing: Timing::default(),
        };
        match evaluations.evaluate(which(seq_no), update, subject) {
            UpdateOutcome::Done(Ok((UpdateEffect::Put(source), _))) => Some(source.parse().expect("JSON")["n"].to_string()),
            UpdateOutcome::Done(other) => panic!("{other:?}"),
            UpdateOutcome::TooLong => None,
        }
    }

    #[test]
    fn long_scripts_run_outside_once() {
        let (short, long) = (update(1), update(100_000));
        let mut all = Updates::default();
        all.begin_plan();
        assert_eq!(run(&mut all, 1, &short, 1).as_deref(), Some("2"));
        assert_eq!(run(&mut all, 1, &long, 1), None, "too many steps for a critical section");
        all.begin(Place::Outside);
        assert_eq!(run(&mut all, 1, &long, 1).as_deref(), Some("2"));
        all.begin(Place::Inside);
        assert_eq!(run(&mut all, 1, &long, 1).as_deref(), Some("2"), "it is remembered");
        assert_eq!(run(&mut all, 2, &long, 2), None, "of another document it is not");
        all.begin(Place::InsideUnbounded);
        assert_eq!(run(&mut all, 2, &long, 2).as_deref(), Some("3"));
    }

    #[test]
    fn many_scripts_are_long_together() {
        let short = update(1);
        let mut all = Updates::default();
        all.begin_plan();
        let inside = (0..100).filter(|n| run(&mut all, *n, &short, 1).is_some()).count();
        assert_eq!(inside, SCRIPTS_INSIDE);
    }
}
