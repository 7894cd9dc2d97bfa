//! A plain writer beside changes.

use super::mutants::Mutant;
use super::state::{Body, Carried, Form, Kind, PLAIN, Pc, Read, visible};
use super::store::Step;

impl Step<'_> {
    /// Read before a plain write; a mark is resolved first.
    pub(super) fn plain_read(&mut self) {
        let (m, s) = (self.model, self.s);
        let is = |mutant| m.is(mutant);
        for read in m.read_doc(s, 0) {
            match read.body.and_then(|body| body.mark) {
                Some(mark) if !is(Mutant::PlainIgnoresMarks) => self.resolve(mark, Pc::PlainRead),
                _ if visible(read.body).is_some() => self.go(&|p| {
                    p.pc = Pc::PlainWrite;
                    p.carried = Carried::Read(read);
                }),
                _ if read.fresh => self.to(Pc::End),
                _ => {}
            }
        }
    }

    /// The write, which keeps mark and token.
    pub(super) fn plain_write(&mut self) {
        let (m, p) = (self.model, self.p);
        let is = |mutant| m.is(mutant);
        let Carried::Read(Read {
            fresh, body: Some(body), ..
        }) = p.carried
        else {
            return;
        };
        let kept = if is(Mutant::PlainDropsMark) {
            Body {
                token: 0,
                mark: None,
                ..body
            }
        } else {
            body
        };
        let (new, serial) = if p.kind == Kind::PlainPut {
            let put = Body {
                content: PLAIN,
                form: Form::Live,
                ..kept
            };
            (Some(put), Some(PLAIN))
        } else {
            let tombstone = Body {
                content: 0,
                form: Form::Tomb,
                ..kept
            };
            let unmarked = body.token == 0 || is(Mutant::PlainDeletesAll);
            ((!unmarked).then_some(tombstone), None)
        };
        self.cas_doc(0, fresh, new, Some(serial), &|p| p.pc = Pc::End, &|p| p.pc = Pc::PlainRead);
    }
}
