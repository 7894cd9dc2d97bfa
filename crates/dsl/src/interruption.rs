//! Parsing that can be interrupted.
//!
//! A body of many megabytes takes seconds to parse. The caller gives a check ([`interruptible`]), which readers of JSON and
//! parsers of clauses call every 1,024 values. This crate reads no clock: the check is the caller's.
//!
//! Not here: the clock, and what is answered (`rest`).

use model::Result;
use std::cell::{Cell, RefCell};

/// Values between two looks: a value takes less than a microsecond.
const LOOK_EACH: u32 = 1024;

/// Whether to go on, by the `timeout` that the body has, as far as it was read.
type Check = Box<dyn Fn(Option<&str>) -> Result<()>>;

struct Parse {
    check: Check,
    /// `timeout` of the body.
    timeout: Option<String>,
}

thread_local! {
    static PARSE: RefCell<Option<Parse>> = const { RefCell::new(None) };
    static LEFT: Cell<u32> = const { Cell::new(LOOK_EACH) };
}

/// Ends the interruptibility also where parsing panics.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        PARSE.set(None);
    }
}

/// Parses on this thread; `check` is called again and again with the `timeout` of the body, once it is known. Its error ends
/// the parsing and is what the parsing says.
pub fn interruptible<T>(check: impl Fn(Option<&str>) -> Result<()> + 'static, parse: impl FnOnce() -> T) -> T {
    let check: Check = Box::new(check);
    let around = PARSE.replace(Some(Parse { check, timeout: None }));
    debug_assert!(around.is_none(), "no body is parsed while another one is, on one thread");
    LEFT.set(LOOK_EACH);
    let _end = End;
    parse()
}

/// Another value is parsed.
///
/// # Errors
/// The caller wants the parsing to end.
pub(crate) fn look() -> Result<()> {
    let left = LEFT.get();
    if left > 0 {
        LEFT.set(left - 1);
        return Ok(());
    }
    LEFT.set(LOOK_EACH);
    PARSE.with_borrow(|parse| {
        let checked = parse.as_ref().map(|parse| (parse.check)(parse.timeout.as_deref()));
        checked.unwrap_or(Ok(()))
    })
}

/// The body has this `timeout`.
pub(crate) fn note_timeout(text: &str) {
    PARSE.with_borrow_mut(|parse| {
        if let Some(parse) = parse {
            parse.timeout = Some(text.to_owned());
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::json::Reading;
    use crate::search::SearchRequest;
    use model::{Dialect, Error, Persona};
    use std::cell::Cell;
    use std::rc::Rc;

    /// Parses a search; says how often was looked, and the timeout that was known then. It ends at look `most`.
    fn looks(body: &str, most: u32) -> (u32, Option<String>, bool) {
        let seen = Rc::new(Cell::new((0, None)));
        let looked = seen.clone();
        let check = move |timeout: Option<&str>| {
            let count = looked.take().0 + 1;
            looked.set((count, timeout.map(str::to_owned)));
            if count < most { Ok(()) } else { Err(Error::illegal("enough")) }
        };
        let dialect = Dialect::of(Persona::Opensearch2);
        let parsed = super::interruptible(check, || SearchRequest::read(body.as_bytes(), Reading::default(), dialect));
        // In whose words is a matter of the clause.
        let ended = parsed.is_err();
        let (count, timeout) = seen.take();
        (count, timeout, ended)
    }

    #[test]
    fn long_lists_of_a_search_are_looked_at() {
        const MANY: usize = 50_000;
        let list = |item: &str| vec![item; MANY].join(",");
        let named = |options: &str| (0..MANY).map(|n| format!("\"a{n}\":{options}")).collect::<Vec<_>>().join(",");
        let bodies = [
            format!("\"query\":{{\"terms\":{{\"n\":[{}]}}}}", list("1")),
            format!("\"query\":{{\"bool\":{{\"should\":[{}]}}}}", list("{\"term\":{\"n\":1}}")),
            format!("\"query\":{{\"ids\":{{\"values\":[{}]}}}}", list("\"1\"")),
            format!(
                "\"query\":{{\"function_score\":{{\"functions\":[{}]}}}}",
                list("{\"weight\":1}")
            ),
            format!("\"sort\":[{}]", list("\"n\"")),
            format!("\"sort\":[{}]", list("{\"n\":{\"order\":\"asc\"}}")),
            format!("\"docvalue_fields\":[{}]", list("\"n\"")),
            format!("\"rescore\":[{}]", list("{\"query\":{\"rescore_query\":{\"match_all\":{}}}}")),
            format!("\"aggs\":{{{}}}", named("{\"max\":{\"field\":\"n\"}}")),
            format!("\"highlight\":{{\"fields\":{{{}}}}}", named("{}")),
        ];
        for body in bodies {
            let body = format!("{{\"timeout\":\"7ms\",{body}}}");
            let (whole, timeout, ended) = looks(&body, u32::MAX);
            assert!(whole as usize > MANY / 1100 && !ended, "{body:.60}: {whole}");
            assert_eq!(timeout.as_deref(), Some("7ms"), "{body:.60}");
            let tree = {
                let read = || crate::json::read(body.as_bytes(), Reading::default());
                let count = Rc::new(Cell::new(0));
                let counted = count.clone();
                let check = move |_: Option<&str>| {
                    counted.set(counted.get() + 1);
                    Ok(())
                };
                assert!(super::interruptible(check, read).is_ok(), "{body:.60}");
                count.get()
            };
            assert!(
                whole > tree,
                "{body:.60}: what is read is looked at again as it is parsed: {whole} {tree}"
            );
            for most in [1, whole / 4, whole / 2] {
                assert!(looks(&body, most).2, "{body:.60} at {most} of {whole}");
                let looked = looks(&body, most).0;
                assert!(
                    looked <= most + 1,
                    "{body:.60}: nothing goes on after it: {looked} for {most}"
                );
            }
        }
        // Parsing without a check is never interrupted.
        assert!(SearchRequest::read(b"{}", Reading::default(), Dialect::of(Persona::Es8)).is_ok());
        assert!(super::look().is_ok());
    }
}
