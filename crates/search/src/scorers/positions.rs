//! Combines the spans or intervals of one document: lists in, a list out.
//!
//! The rules are Lucene's: those of its `spans` package for span queries, those of its `intervals` package
//! (minimal intervals, after Clarke and others, "An Algebra for Structured Text Search") for interval queries.
//! Not here: which documents come into question and where positions are read (`positional`).

use dsl::query::IntervalRelation;

/// A stretch of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// First position.
    pub start: i64,
    /// Behind the last one.
    pub end: i64,
    /// Spans: how much the match was stretched. Intervals: positions inside that no part covers.
    pub gaps: i64,
}

impl Span {
    /// One word.
    pub(crate) fn word(position: u32) -> Span {
        let start = i64::from(position);
        Span {
            start,
            end: start + 1,
            gaps: 0,
        }
    }
    /// How many positions it has.
    pub(crate) fn length(self) -> i64 {
        self.end - self.start
    }
    fn holds(self, other: Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }
    fn overlaps(self, other: Span) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// A part of an ordered `span_near`: spans, or so many positions of anything.
pub(crate) enum NearPart<'a> {
    /// Spans of a clause.
    Spans(&'a [Span]),
    /// `span_gap`.
    Gap(i64),
}

/// Whether spans rise by their beginnings: each list is read once, from its begin on.
fn rises(list: &[Span]) -> bool {
    list.is_sorted_by_key(|span| span.start)
}

/// Whether no interval holds another one: beginnings and ends rise together.
fn is_minimal(list: &[Span]) -> bool {
    list.is_sorted_by(|a, b| a.start < b.start && a.end < b.end)
}

/// Clauses in order: for each span of the first one the nearest of the next that does not overlap, and so on.
pub(crate) fn near_in_order(parts: &[NearPart<'_>], slop: i64) -> Vec<Span> {
    let mut out = Vec::new();
    let Some((NearPart::Spans(first), rest)) = parts.split_first() else {
        return out;
    };
    debug_assert!(
        parts
            .iter()
            .all(|part| matches!(part, NearPart::Gap(_)) || matches!(part, NearPart::Spans(list) if rises(list))),
        "spans of a clause rise"
    );
    let mut at = vec![0usize; rest.len()];
    for begin in *first {
        let (mut end, mut stretch) = (begin.end, 0);
        for (part, at) in rest.iter().zip(&mut at) {
            match part {
                NearPart::Gap(width) => end += width,
                NearPart::Spans(list) => {
                    while list.get(*at).is_some_and(|s| s.start < end) {
                        *at += 1;
                    }
                    let Some(next) = list.get(*at) else { return out };
                    stretch += next.start - end;
                    end = next.end;
                }
            }
        }
        if stretch <= slop {
            out.push(Span {
                start: begin.start,
                end,
                gaps: stretch,
            });
        }
    }
    out
}

/// Clauses in any order, overlaps allowed: windows with one span of each.
pub(crate) fn near_in_any_order(lists: &[Vec<Span>], slop: i64) -> Vec<Span> {
    let mut out = Vec::new();
    let mut at = vec![0usize; lists.len()];
    let Some(mut here) = lists.iter().map(|l| l.first().copied()).collect::<Option<Vec<Span>>>() else {
        return out;
    };
    let mut total: i64 = here.iter().map(|s| s.length()).sum();
    let mut end = here.iter().map(|s| s.end).max().unwrap_or(0);
    while let Some(top) = (0..here.len()).min_by_key(|i| (here[*i].start, here[*i].end)) {
        let stretch = end - here[top].start;
        if stretch - total <= slop {
            out.push(Span {
                start: here[top].start,
                end,
                gaps: stretch,
            });
        }
        at[top] += 1;
        let Some(next) = lists[top].get(at[top]) else { break };
        total += next.length() - here[top].length();
        here[top] = *next;
        end = end.max(next.end);
    }
    debug_assert!(rises(&out), "spans of a clause rise");
    out
}

/// The spans of any clause, in order.
pub(crate) fn any(lists: &[Vec<Span>]) -> Vec<Span> {
    let mut out: Vec<Span> = lists.iter().flatten().copied().collect();
    out.sort_by_key(|s| (s.start, s.end));
    out
}

/// Spans that no excluded one touches, `pre` before and `post` behind.
pub(crate) fn without(include: &[Span], exclude: &[Span], pre: i64, post: i64) -> Vec<Span> {
    debug_assert!(rises(include) && rises(exclude), "spans of a clause rise");
    let mut at = 0;
    let mut out = Vec::new();
    for span in include {
        while exclude.get(at).is_some_and(|e| e.end <= span.start - pre) {
            at += 1;
        }
        if exclude.get(at).is_none_or(|e| e.start - post >= span.end) {
            out.push(*span);
        }
    }
    out
}

/// Big spans that hold a little one.
pub(crate) fn containing(big: &[Span], little: &[Span]) -> Vec<Span> {
    debug_assert!(rises(big) && rises(little), "spans of a clause rise");
    let mut at = 0;
    let mut out = Vec::new();
    for span in big {
        while little.get(at).is_some_and(|l| l.start < span.start) {
            at += 1;
        }
        match little.get(at) {
            None => break,
            Some(little) if span.end >= little.end => out.push(*span),
            Some(_) => {}
        }
    }
    out
}

/// Little spans inside a big one.
pub(crate) fn within(big: &[Span], little: &[Span]) -> Vec<Span> {
    debug_assert!(rises(big) && rises(little), "spans of a clause rise");
    let mut at = 0;
    let mut out = Vec::new();
    for span in little {
        while big.get(at).is_some_and(|b| b.end < span.end) {
            at += 1;
        }
        match big.get(at) {
            None => break,
            Some(big) if big.start <= span.start => out.push(*span),
            Some(_) => {}
        }
    }
    out
}

/// Intervals of any rule that hold no other one.
pub(crate) fn any_minimal(lists: &[Vec<Span>]) -> Vec<Span> {
    let mut all: Vec<Span> = lists.iter().flatten().copied().collect();
    all.sort_by_key(|s| (s.end, std::cmp::Reverse(s.start)));
    let mut out: Vec<Span> = Vec::with_capacity(all.len());
    for span in all {
        if out.last().is_none_or(|last| span.start > last.start) {
            out.push(span);
        }
    }
    debug_assert!(is_minimal(&out), "an interval holds no other one");
    out
}

/// Rules right behind each other.
pub(crate) fn block(lists: &[Vec<Span>]) -> Vec<Span> {
    let mut out = Vec::new();
    let Some((first, rest)) = lists.split_first() else {
        return out;
    };
    debug_assert!(lists.iter().all(|list| rises(list)), "intervals of a rule rise");
    'starts: for begin in first {
        let mut end = begin.end;
        for list in rest {
            let at = list.partition_point(|s| s.start < end);
            match list.get(at) {
                Some(next) if next.start == end => end = next.end,
                _ => continue 'starts,
            }
        }
        out.push(Span {
            start: begin.start,
            end,
            gaps: 0,
        });
    }
    out
}

/// How much of a stretch a part of it covers: a repeated rule covers no more than its repetitions.
fn coverage(span: Span, is_repeated: bool) -> i64 {
    match is_repeated {
        true => span.length() - span.gaps,
        false => span.length(),
    }
}

/// Rules in order, the smallest stretches that have them all. `is_repeated`: which of the lists come from [`repeat`].
pub(crate) fn in_order(lists: &[Vec<Span>], is_repeated: impl Fn(usize) -> bool) -> Vec<Span> {
    let mut out: Vec<Span> = Vec::new();
    let Some((first, rest)) = lists.split_first() else {
        return out;
    };
    let mut at = vec![0usize; rest.len()];
    'starts: for begin in first {
        let (mut end, mut sum) = (begin.end, coverage(*begin, is_repeated(0)));
        for (n, (list, at)) in rest.iter().zip(&mut at).enumerate() {
            while list.get(*at).is_some_and(|s| s.start < end) {
                *at += 1;
            }
            let Some(next) = list.get(*at) else { break 'starts };
            sum += coverage(*next, is_repeated(n + 1));
            end = next.end;
        }
        let found = Span {
            start: begin.start,
            end,
            gaps: end - begin.start - sum,
        };
        // A later start with the same end is the smaller interval.
        match out.last_mut() {
            Some(last) if last.end == end => *last = found,
            _ => out.push(found),
        }
    }
    debug_assert!(rises(&out), "intervals of a rule rise");
    out
}

/// The same in any order.
pub(crate) fn in_any_order(lists: &[Vec<Span>], is_repeated: impl Fn(usize) -> bool) -> Vec<Span> {
    let mut out: Vec<Span> = Vec::new();
    let mut at = vec![0usize; lists.len()];
    let Some(mut here) = lists.iter().map(|l| l.first().copied()).collect::<Option<Vec<Span>>>() else {
        return out;
    };
    let mut end = here.iter().map(|s| s.end).max().unwrap_or(0);
    while let Some(top) = (0..here.len()).min_by_key(|i| (here[*i].start, std::cmp::Reverse(here[*i].end))) {
        let parts = here.iter().enumerate();
        let sum: i64 = parts.map(|(n, span)| coverage(*span, is_repeated(n))).sum();
        let found = Span {
            start: here[top].start,
            end,
            gaps: end - here[top].start - sum,
        };
        match out.last_mut() {
            Some(last) if last.end == end => *last = found,
            _ => out.push(found),
        }
        at[top] += 1;
        let Some(next) = lists[top].get(at[top]) else { break };
        here[top] = *next;
        end = end.max(next.end);
    }
    out
}

/// One rule so many times in a row.
pub(crate) fn repeat(list: &[Span], times: usize) -> Vec<Span> {
    list.windows(times.max(1))
        .map(|window| Span {
            start: window[0].start,
            end: window[window.len() - 1].end,
            gaps: window.windows(2).map(|w| w[1].start - w[0].end).sum(),
        })
        .collect()
}

/// Intervals that stand as asked to one of the others.
pub(crate) fn filter_by_relation(list: &[Span], others: &[Span], relation: IntervalRelation) -> Vec<Span> {
    use IntervalRelation as R;
    let fits = |span: Span| match relation {
        R::Containing => others.iter().any(|o| span.holds(*o)),
        R::NotContaining => !others.iter().any(|o| span.holds(*o)),
        R::ContainedBy => others.iter().any(|o| o.holds(span)),
        R::NotContainedBy => !others.iter().any(|o| o.holds(span)),
        R::Overlapping => others.iter().any(|o| o.overlaps(span)),
        R::NotOverlapping => !others.iter().any(|o| o.overlaps(span)),
        R::Before => others.iter().any(|o| span.end <= o.start),
        R::After => others.iter().any(|o| span.start >= o.end),
    };
    list.iter().copied().filter(|span| fits(*span)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(at: &[u32]) -> Vec<Span> {
        at.iter().map(|p| Span::word(*p)).collect()
    }

    fn check(got: &[Span], expected: &[(i64, i64)]) {
        let got: Vec<(i64, i64)> = got.iter().map(|s| (s.start, s.end)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn spans() {
        let (a, b) = (words(&[0, 4, 9]), words(&[2, 5, 8]));
        let parts = |slop| near_in_order(&[NearPart::Spans(&a), NearPart::Spans(&b)], slop);
        check(&parts(0), &[(4, 6)]);
        check(&parts(1), &[(0, 3), (4, 6)]);
        check(
            &near_in_order(&[NearPart::Spans(&a), NearPart::Gap(1), NearPart::Spans(&b)], 0),
            &[(0, 3)],
        );
        check(&near_in_any_order(&[a.clone(), b.clone()], 0), &[(4, 6), (8, 10)]);
        check(&any(&[a.clone(), words(&[4, 7])]), &[(0, 1), (4, 5), (4, 5), (7, 8), (9, 10)]);
        check(&without(&a, &b, 0, 0), &[(0, 1), (4, 5), (9, 10)]);
        check(&without(&a, &b, 1, 0), &[(0, 1), (4, 5)]);
        check(&without(&a, &b, 0, 1), &[(0, 1), (9, 10)]);
        let big = near_in_order(&[NearPart::Spans(&a), NearPart::Spans(&b)], 9);
        check(&containing(&big, &words(&[1])), &[(0, 3)]);
        check(&within(&big, &words(&[1, 3])), &[(1, 2)]);
    }

    #[test]
    fn intervals() {
        let (a, b) = (words(&[0, 1, 6]), words(&[3, 4]));
        check(&in_order(&[a.clone(), b.clone()], |_| false), &[(1, 4)]);
        check(&in_any_order(&[a.clone(), b.clone()], |_| false), &[(1, 4), (4, 7)]);
        check(&block(&[a.clone(), words(&[2, 7])]), &[(1, 3), (6, 8)]);
        check(&repeat(&a, 2), &[(0, 2), (1, 7)]);
        // From 1 to 7 with one at 4: two repetitions and it cover three of six positions.
        let gaps = in_any_order(&[repeat(&a, 2), words(&[4])], |n| n == 0).last().unwrap().gaps;
        assert_eq!(gaps, 3);
        check(&any_minimal(&[in_order(&[a.clone(), b], |_| false), words(&[2])]), &[(2, 3)]);
        check(&filter_by_relation(&a, &words(&[1]), IntervalRelation::Before), &[(0, 1)]);
        check(
            &filter_by_relation(&a, &words(&[1]), IntervalRelation::NotOverlapping),
            &[(0, 1), (6, 7)],
        );
    }
}
