//! One document of a store that lies: what of it is durable, and what an isolated primary shows.
//!
//! Nothing counts versions. A read knows on which side it is still the newest version, and each write outdates the
//! other reads of that side. A write on the isolated side is a *ghost*: readable, and never acknowledged or durable.

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Document<T> {
    pub(crate) durable: T,
    isolated: Option<Isolated<T>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Isolated<T> {
    body: T,
    /// Neither side was written since the isolation began.
    same: bool,
}

/// A version that a process has read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Read<T> {
    pub(crate) body: T,
    /// Nothing durable was written since.
    fresh: bool,
    /// Nothing was written on the isolated side since.
    fresh_isolated: bool,
}

/// The outcome of a compare-and-set. Its author is told of `Done` only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Done,
    /// Durable, and its answer is lost.
    Lost,
    Ghost,
    /// Another version is there.
    Conflict,
}

impl Outcome {
    pub(crate) fn is_durable(self) -> bool {
        matches!(self, Outcome::Done | Outcome::Lost)
    }
}

impl<T> Read<T> {
    /// Somebody else wrote.
    pub(crate) fn outdate(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Done | Outcome::Lost => self.fresh = false,
            Outcome::Ghost => self.fresh_isolated = false,
            Outcome::Conflict => {}
        }
    }
    /// The primary is isolated from now on: both sides have this version, or none.
    pub(crate) fn isolate(&mut self) {
        self.fresh_isolated = self.fresh;
    }
}

impl<T: Copy> Document<T> {
    pub(crate) fn new(durable: T) -> Document<T> {
        Document { durable, isolated: None }
    }
    pub(crate) fn is_isolated(&self) -> bool {
        self.isolated.is_some()
    }
    /// The primary is isolated from now on. The reads that are held are told by [`Read::isolate`].
    pub(crate) fn isolate(&mut self) {
        self.isolated = Some(Isolated {
            body: self.durable,
            same: true,
        });
    }
    /// Everything that a read may show.
    pub(crate) fn reads(&self) -> Vec<Read<T>> {
        let same = self.isolated.as_ref().is_some_and(|isolated| isolated.same);
        let mut found = vec![Read {
            body: self.durable,
            fresh: true,
            fresh_isolated: same,
        }];
        if let Some(isolated) = self.isolated.filter(|_| !same) {
            found.push(Read {
                body: isolated.body,
                fresh: false,
                fresh_isolated: true,
            });
        }
        found
    }
    /// Everything that a compare-and-set may come to, with what is there after it. `loses`: may its answer be lost?
    pub(crate) fn cas(&self, read: &Read<T>, body: T, loses: bool) -> Vec<(Outcome, Document<T>)> {
        let mut found = Vec::new();
        if read.fresh {
            found.push((Outcome::Done, self.written(body)));
            if loses {
                found.push((Outcome::Lost, self.written(body)));
            }
        } else {
            found.push((Outcome::Conflict, *self));
        }
        if self.is_isolated() && read.fresh_isolated {
            let isolated = Some(Isolated { body, same: false });
            found.push((Outcome::Ghost, Document { isolated, ..*self }));
        }
        found
    }
    /// Written on the durable side.
    pub(crate) fn written(&self, durable: T) -> Document<T> {
        let isolated = self.isolated.map(|isolated| Isolated { same: false, ..isolated });
        Document { durable, isolated }
    }
    /// The version that the author of an acknowledged write has: it need not read again.
    pub(crate) fn read_after_write(&self) -> Read<T> {
        Read {
            body: self.durable,
            fresh: true,
            fresh_isolated: false,
        }
    }
}
