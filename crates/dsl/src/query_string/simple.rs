//! The language of `simple_query_string`, in which nothing is wrong.

use super::{DEPTH_MAX, Occur, Syntax};
use crate::query::Operator;

/// Takes the text apart; `flags` are the operators that count, all of them for `None`.
pub fn parse(text: &str, flags: Option<&[String]>, default_operator: Operator) -> Syntax {
    let occur = if default_operator == Operator::And {
        Occur::Must
    } else {
        Occur::Should
    };
    let on = |names: &[&str]| flags.is_none_or(|f| f.iter().any(|f| names.contains(&f.as_str()) || f == "ALL"));
    let signs = Signs {
        and: on(&["AND"]),
        or: on(&["OR"]),
        not: on(&["NOT"]),
        prefix: on(&["PREFIX"]),
        phrase: on(&["PHRASE"]),
        groups: on(&["PRECEDENCE"]),
        escape: on(&["ESCAPE"]),
        blank: on(&["WHITESPACE"]),
        fuzzy: on(&["FUZZY"]),
        near: on(&["NEAR", "SLOP"]),
    };
    let text = text.trim();
    if text == "*" {
        return Syntax::All;
    }
    let chars: Vec<char> = text.chars().collect();
    sequence(
        &Group {
            text: &chars,
            ends: &closings(&chars, &signs),
            offset: 0,
        },
        &signs,
        occur,
        0,
    )
    .unwrap_or_else(|| Syntax::Bool(Vec::new()))
}

/// The operators that count.
#[allow(clippy::struct_excessive_bools, reason = "one a flag")]
struct Signs {
    and: bool,
    or: bool,
    not: bool,
    prefix: bool,
    phrase: bool,
    groups: bool,
    escape: bool,
    blank: bool,
    fuzzy: bool,
    near: bool,
}

/// The clauses that were read so far, and the operator that joined them.
struct State {
    top: Option<Syntax>,
    joined_by: Option<Occur>,
    next: Option<Occur>,
    not: bool,
    /// The next clause is negated.
    negates: bool,
    usual: Occur,
}

impl State {
    fn add(&mut self, branch: Option<Syntax>) {
        let negated = std::mem::take(&mut self.negates);
        let Some(mut branch) = branch else { return };
        if negated {
            branch = Syntax::Bool(vec![(Occur::MustNot, branch), (Occur::Should, Syntax::All)]);
        }
        let Some(top) = self.top.take() else {
            self.top = Some(branch);
            self.next = None;
            return;
        };
        let occur = self.next.take().unwrap_or(self.usual);
        self.top = Some(match top {
            Syntax::Bool(mut clauses) if self.joined_by == Some(occur) => {
                clauses.push((occur, branch));
                Syntax::Bool(clauses)
            }
            top => Syntax::Bool(vec![(occur, top), (occur, branch)]),
        });
        self.joined_by = Some(occur);
    }
}

/// A part of the text, with where its parentheses are closed.
struct Group<'a> {
    text: &'a [char],
    ends: &'a [usize],
    offset: usize,
}

fn sequence(group: &Group<'_>, signs: &Signs, usual: Occur, depth: usize) -> Option<Syntax> {
    let Group { text, ends, offset } = *group;
    debug_assert_eq!(text.len(), ends.len(), "each sign of a group is told where it is closed");
    let mut state = State {
        top: None,
        joined_by: None,
        next: None,
        not: false,
        negates: false,
        usual,
    };
    let mut at = 0;
    while at < text.len() {
        // The sign stands right before the clause that it negates.
        if !(text[at] == '-' && signs.not) {
            state.negates = std::mem::take(&mut state.not);
        }
        match text[at] {
            '(' if signs.groups => {
                // The ends count from the beginning of the whole text.
                let end = ends[at].checked_sub(offset).filter(|end| *end > at && *end < text.len());
                match end {
                    Some(end) if depth < DEPTH_MAX => {
                        let inside = Group {
                            text: &text[at + 1..end],
                            ends: &ends[at + 1..end],
                            offset: offset + at + 1,
                        };
                        state.add(sequence(&inside, signs, usual, depth + 1));
                        at = end + 1;
                    }
                    _ => at += 1,
                }
            }
            ')' if signs.groups => at += 1,
            '"' if signs.phrase => {
                let (phrase, end) = read_phrase(text, at + 1, signs);
                if end.is_some() {
                    state.add(phrase);
                }
                at = end.unwrap_or(at + 1);
            }
            c @ ('+' | '|') if (c == '+' && signs.and) || (c == '|' && signs.or) => {
                if state.next.is_none() && state.top.is_some() {
                    state.next = Some(if c == '+' { Occur::Must } else { Occur::Should });
                }
                at += 1;
            }
            '-' if signs.not => {
                state.not = !state.not;
                at += 1;
            }
            c if c.is_whitespace() && signs.blank => at += 1,
            _ => {
                let (word, end) = word(text, at, signs);
                state.add(word);
                at = end.max(at + 1);
            }
        }
    }
    state.top
}

/// For every parenthesis where it is closed, else 0.
fn closings(text: &[char], signs: &Signs) -> Vec<usize> {
    let mut ends = vec![0; text.len()];
    let mut open = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            '\\' if signs.escape => at += 1,
            '(' => open.push(at),
            ')' => {
                if let Some(start) = open.pop() {
                    ends[start] = at;
                }
            }
            _ => {}
        }
        at += 1;
    }
    debug_assert!(
        ends.iter().enumerate().all(|(start, end)| *end == 0 || start < *end),
        "a parenthesis is closed behind where it is opened"
    );
    ends
}

/// A phrase from behind its quote, and where it ends with its `~n`; no end if it is not closed.
fn read_phrase(text: &[char], start: usize, signs: &Signs) -> (Option<Syntax>, Option<usize>) {
    let mut out = String::new();
    let mut at = start;
    while at < text.len() {
        match text[at] {
            '\\' if signs.escape && at + 1 < text.len() => {
                at += 1;
                out.push(text[at]);
            }
            '"' => {
                at += 1;
                let mut slop = None;
                if signs.near && text.get(at) == Some(&'~') {
                    let (number, end) = tilde(text, at + 1, signs);
                    slop = Some(number);
                    at = end;
                }
                let phrase = (!out.trim().is_empty()).then_some(Syntax::Phrase { text: out, slop });
                return (phrase, Some(at));
            }
            c => out.push(c),
        }
        at += 1;
    }
    (None, None)
}

/// The number behind a tilde, which goes as far as a word does; 2 where there is nothing, 0 where there is no number.
fn tilde(text: &[char], start: usize, signs: &Signs) -> (u32, usize) {
    let mut end = start;
    while text.get(end).is_some_and(|c| !signs.end(*c)) {
        end += 1;
    }
    let number: String = text[start..end].iter().collect();
    let number = if number.is_empty() { 2 } else { number.parse().unwrap_or(0) };
    (number, end)
}

impl Signs {
    /// Whether a word ends before this character.
    fn end(&self, c: char) -> bool {
        (c == '"' && self.phrase)
            || (c == '|' && self.or)
            || (c == '+' && self.and)
            || (matches!(c, '(' | ')') && self.groups)
            || (c.is_whitespace() && self.blank)
    }
}

fn word(text: &[char], start: usize, signs: &Signs) -> (Option<Syntax>, usize) {
    let mut out = String::new();
    let mut at = start;
    let mut star = false;
    while at < text.len() {
        let c = text[at];
        if signs.end(c) {
            break;
        }
        if c == '\\' && signs.escape {
            star = false;
            if let Some(next) = text.get(at + 1) {
                out.push(*next);
            }
            at += 2;
            continue;
        }
        if c == '~' && signs.fuzzy && at > start {
            let (edits, end) = tilde(text, at + 1, signs);
            if edits == 0 {
                return (Some(Syntax::Term(out)), end);
            }
            #[allow(clippy::cast_precision_loss, reason = "at most 2")]
            let edits = Some(edits.min(2) as f32);
            return (Some(Syntax::Fuzzy { text: out, edits }), end);
        }
        star = c == '*' && signs.prefix;
        out.push(c);
        at += 1;
    }
    if star && out.len() > 1 {
        out.pop();
        return (Some(Syntax::Prefix(out)), at);
    }
    ((!out.is_empty()).then_some(Syntax::Term(out)), at.min(text.len()))
}
