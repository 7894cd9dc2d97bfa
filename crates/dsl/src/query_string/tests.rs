//! Texts and the trees they mean.

use super::{Occur, Syntax, expand, parse, simple};
use crate::query::{Operator, QueryStringQuery};

/// A tree in few characters.
fn show(s: &Syntax) -> String {
    match s {
        Syntax::All => "*:*".into(),
        Syntax::Term(t) => t.clone(),
        Syntax::Phrase { text, slop } => format!("\"{text}\"{}", slop.map(|s| format!("~{s}")).unwrap_or_default()),
        Syntax::Fuzzy { text, edits } => format!("{text}~{}", edits.map(|s| s.to_string()).unwrap_or_default()),
        Syntax::Prefix(t) => format!("prefix({t})"),
        Syntax::Wildcard(t) => format!("wild({t})"),
        Syntax::Regex(t) => format!("/{t}/"),
        Syntax::Range {
            low,
            high,
            with_low,
            with_high,
        } => {
            let end = |e: &Option<String>| e.clone().unwrap_or("*".into());
            format!(
                "{}{} {}{}",
                if *with_low { "[" } else { "{" },
                end(low),
                end(high),
                if *with_high { "]" } else { "}" }
            )
        }
        Syntax::Exists(f) => format!("exists({f})"),
        Syntax::Missing(f) => format!("missing({f})"),
        Syntax::Field(f, i) => format!("{f}:{}", show(i)),
        Syntax::Boost(i, b) => format!("{}^{b}", show(i)),
        Syntax::Bool(c) => {
            let one = |(o, s): &(Occur, Syntax)| {
                let sign = match o {
                    Occur::Must => "+",
                    Occur::Should => "",
                    Occur::MustNot => "-",
                };
                format!("{sign}{}", show(s))
            };
            format!("({})", c.iter().map(one).collect::<Vec<_>>().join(" "))
        }
    }
}

fn check(text: &str, expected: &str) {
    let shown = parse(text, Operator::Or).map_or_else(|e| e.reason().to_owned(), |s| show(&s));
    assert_eq!(shown, expected, "{text}");
}

fn check_and(text: &str, expected: &str) {
    assert_eq!(parse(text, Operator::And).map(|s| show(&s)).unwrap(), expected, "{text}");
}

fn check_simple(text: &str, expected: &str) {
    assert_eq!(show(&simple::parse(text, None, Operator::Or)), expected, "{text}");
}

#[test]
fn classic() {
    check("", "()");
    check("a", "a");
    // Words without operators are one text.
    check("a b", "a b");
    check("a b c^2 d e", "(a b c^2 d e)");
    check("a b AND c d", "(a +b +c d)");
    check("a \"b\" c d", "(a \"b\" c d)");
    check("a b:c", "(a b:c)");
    check("a AND b", "(+a +b)");
    check("a AND b OR c", "(+a +b c)");
    check("a OR b AND c", "(a +b +c)");
    check("+fetch -mark remove", "(+fetch -mark remove)");
    check("NOT a AND b", "(-a +b)");
    check("rename && !macro", "(+rename -macro)");
    check("a || b", "(a b)");
    check("-a", "(-a)");
    check("subject:new?*", "subject:wild(new?*)");
    check("subject.\\*:res", "subject.*:res");
    check("subject:(check hide)", "subject:check hide");
    check("\"use it\"~2", "\"use it\"~2");
    check("a~ OR b~2", "(a~ b~2)");
    check("the^3 token", "(the^3 token)");
    check("(a OR b)^2 AND c", "(+(a b)^2 +c)");
    check("n:[2 TO 5]", "n:[2 5]");
    check("n:{3 TO *]", "n:{3 *]");
    check("n:>=10 d", "(n:[10 *] d)");
    check("n:<-900", "n:[* -900}");
    check("s:/ass.*/", "s:/ass.*/");
    check("_exists_:body", "exists(body)");
    check("*:*", "*:*");
    check("*", "wild(*)");
    check("cons*", "prefix(cons)");
    check("a.b:Clara\\ Green", "a.b:Clara Green");
    check("f:\"A B\"", "f:\"A B\"");
    check("day:2010*", "day:prefix(2010)");
    check("ANDROID", "ANDROID");
    check("n:[1 TO", "Failed to parse query [n:[1 TO]");
    check("(a", "Failed to parse query [(a]");
    check("a)", "Failed to parse query [a)]");
    check("AND", "Failed to parse query [AND]");
    check("a AND", "Failed to parse query [a AND]");
    check("\"a", "Failed to parse query [\"a]");
    check("a\\", "Failed to parse query [a\\]");
    check_and("a b", "a b");
    check_and("a b +c", "(+a b +c)");
    check_and("a OR b", "(a b)");
    check_and("a b OR c", "(+a b c)");
}

#[test]
fn simple_language() {
    check_simple("a b", "(a b)");
    check_simple("a + b", "(+a +b)");
    check_simple("a + b | c", "((+a +b) c)");
    check_simple("-a", "(-a *:*)");
    check_simple("\"a b\"~2 c*", "(\"a b\"~2 prefix(c))");
    check_simple("(put support", "(put support)");
    check_simple("a + (b | c)", "(+a +(b c))");
    check_simple("fn~1", "fn~1");
    check_simple("\"a", "a");
    check_simple("", "()");
    check_simple("a\\*", "a*");
}

#[test]
fn never_panics_and_bounds_depth() {
    for text in [
        "(".repeat(100_000),
        format!("{}a{}", "(".repeat(100_000), ")".repeat(100_000)),
        "a:(".repeat(50_000),
    ] {
        let error = parse(&text, Operator::Or).unwrap_err();
        assert_eq!(error.status(), 400);
        simple::parse(&text, None, Operator::Or);
    }
    let alphabet: Vec<char> = "ab \\\"()[]{}^~*?:/+-!&|<>=ANDORTO.1é".chars().collect();
    let mut seed = 7u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..12 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.push(alphabet[(seed >> 33) as usize % alphabet.len()]);
        }
        let tree = simple::parse(&text, None, Operator::And);
        expand(&QueryStringQuery::new(""), &tree, &[("f".into(), 1.0)]);
        if let Ok(tree) = parse(&text, Operator::Or) {
            expand(&QueryStringQuery::new(""), &tree, &[("f".into(), 1.0), ("g".into(), 2.0)]);
        }
    }
}
