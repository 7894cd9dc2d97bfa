//! Scripts as data: source, input, what must come of it.

use super::*;
use serde_json::json;

fn params(v: Json) -> Params {
    Params::from_json(v.as_object().expect("an object"))
}

/// Runs an update; the source it leaves and the op, or the cause's wire type.
fn update(lang: Lang, script: &str, source: Json, given: Json) -> Result<(Json, String), String> {
    let cause = |e: Error| match e.cause() {
        Some(c) => format!("{}: {}", c.kind().wire(), c.reason()),
        None => e.to_string(),
    };
    let program = compile(script, lang).map_err(cause)?;
    let context = UpdateContext {
        source,
        op: "index".into(),
        meta: serde_json::Map::new(),
    };
    let r = run_update(&program, &params(given), context, Budget::default(), 0).map_err(cause)?;
    Ok((r.source, r.op))
}

struct Doc;
impl Host for Doc {
    fn score(&mut self) -> Option<f64> {
        Some(2.0)
    }
    fn doc(&mut self, _: usize, field: &str, out: &mut DocValues) -> model::Result<bool> {
        match field {
            "n" => out.longs().push(7),
            "none" => out.longs().clear(),
            "all" => out.longs().extend([1, 2, 3]),
            "name" => out.strings().push("Ann".into()),
            "date" => out.dates().push(1_456_704_000_000),
            "place" => out.geo_points().push((0.0, 1.0)),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn value(lang: Lang, script: &str, given: Json) -> Result<Json, String> {
    let program = compile(script, lang).map_err(|e| e.cause().map_or(e.to_string(), |c| c.reason().to_owned()))?;
    let given = params(given);
    let mut env = Env {
        params: &given,
        host: &mut Doc,
        budget: Budget::default(),
    };
    let v = program.run(&mut env).map_err(|e| {
        e.cause()
            .map_or(e.to_string(), |c| format!("{}: {}", c.kind().wire(), c.reason()))
    })?;
    v.to_json().map_err(|e| e.to_string())
}

const BOTH: [Lang; 2] = [Lang::Painless, Lang::Groovy];
const LOCK: &str = "if ( ctx._source.process_id != process_id )\n  { assert false }; ctx.op = 'noop';";
const SHARED: &str = "if (ctx._source.lock_type == 'exclusive')\n  { assert false }; ctx._source.lock_count++";
const UNLOCK: &str = "if (--ctx._source.lock_count == 0) { ctx.op = 'delete' } ";

#[test]
fn locks_of_the_chapter() {
    for lang in BOTH {
        let p = json!({"process_id": 123});
        assert_eq!(
            update(lang, LOCK, json!({"process_id": 123}), p.clone()),
            Ok((json!({"process_id": 123}), "noop".into()))
        );
        let e = update(lang, LOCK, json!({"process_id": 124}), p).expect_err("locked");
        assert!(e.ends_with("assert false\n"), "{e}");
        let free = json!({"lock_type": "shared", "lock_count": 1});
        assert_eq!(
            update(lang, SHARED, free.clone(), json!({})),
            Ok((json!({"lock_type": "shared", "lock_count": 2}), "index".into()))
        );
        assert!(update(lang, SHARED, json!({"lock_type": "exclusive"}), json!({})).is_err());
        assert_eq!(
            update(lang, UNLOCK, free.clone(), json!({})).map(|r| r.1),
            Ok("delete".into())
        );
        let dash = UNLOCK.replace("--", "—").replace("'delete'", "‘delete’");
        assert_eq!(update(lang, &dash, free, json!({})).map(|r| r.1), Ok("delete".into()));
        assert!(
            update(lang, UNLOCK, json!({}), json!({}))
                .expect_err("null")
                .starts_with("null_pointer_exception")
        );
    }
}

#[test]
fn groovy_updates() {
    let start = json!({"t": ["a", "b", "c"], "n": [3, 1, 2], "o": 5});
    for (script, field, want) in [
        ("ctx._source.t += 'd'", "t", json!(["a", "b", "c", "d"])),
        ("ctx._source.t << 'd'", "t", json!(["a", "b", "c", "d"])),
        ("ctx._source.t -= 'b'", "t", json!(["a", "c"])),
        ("ctx._source.t.remove('b')", "t", json!(["a", "c"])),
        ("ctx._source.t.remove(0)", "t", json!(["b", "c"])),
        ("ctx._source.t = ctx._source.t - ['a', 'b']", "t", json!(["c"])),
        ("ctx._source.o = 'b' in ctx._source.t", "o", json!(true)),
        // The members of `java.lang.Math` are imported; a local of the same name is nearer.
        ("ctx._source.o = max(2, 7) + abs(-1) + round(2.5)", "o", json!(11)),
        ("ctx._source.o = floor(sqrt(17)) + pow(2, 3) + log(E)", "o", json!(13.0)),
        ("ctx._source.o = PI > 3 && cos(0) == 1", "o", json!(true)),
        ("def max = 4; ctx._source.o = max", "o", json!(4)),
        ("ctx._source.o = ctx._source.t[-1]", "o", json!("c")),
        ("ctx._source.o = ctx._source.t[9]", "o", json!(null)),
        ("ctx._source.t[5] = 'z'", "t", json!(["a", "b", "c", null, null, "z"])),
        ("ctx._source.t = ctx._source.t[0..1]", "t", json!(["a", "b"])),
        ("ctx._source.t = ctx._source.t as Set", "t", json!(["a", "b", "c"])),
        (
            "ctx._source.t = (ctx._source.t + 'a').unique().reverse()",
            "t",
            json!(["c", "b", "a"]),
        ),
        ("ctx._source.n = ctx._source.n.sort()", "n", json!([1, 2, 3])),
        (
            "ctx._source.o = ctx._source.n.max() + ctx._source.n.min() + ctx._source.n.sum()",
            "o",
            json!(10),
        ),
        ("for (x in ctx._source.n) { ctx._source.o += x }", "o", json!(11)),
        ("def i = 0; while (i < 3) { i++ }; ctx._source.o = i", "o", json!(3)),
        ("x = 4; ctx._source.o = x", "o", json!(4)),
        ("def x = 5\nctx._source.o = x + 1", "o", json!(6)),
        ("ctx._source.o = 7 / 2", "o", json!(3.5)),
        ("ctx._source.o = \"${ctx._source.o}-$q.r\"", "o", json!("5-1")),
        (
            "ctx._source.o = ctx._source.n.collect { it * 2 }.findAll { it > 2 }",
            "o",
            json!([6, 4]),
        ),
        (
            "def f; f = { n -> n < 2 ? 1 : n * f(n - 1) }; ctx._source.o = f(5)",
            "o",
            json!(120),
        ),
        (
            "switch (ctx._source.o) { case 5: ctx._source.o = 'five'; break; default: ctx._source.o = 'other' }",
            "o",
            json!("five"),
        ),
        (
            "if (ctx._source.o > 3 && !(ctx._source.o > 9) || false) ctx._source.o = 'in'; else ctx._source.o = 'out'",
            "o",
            json!("in"),
        ),
        ("ctx._source.o = new Date(0).getTime()", "o", json!(0)),
        ("def a = [1, 2]; def b = a; b << 3; ctx._source.o = a", "o", json!([1, 2, 3])),
    ] {
        let got = update(Lang::Groovy, script, start.clone(), json!({"q": {"r": 1}})).map(|r| r.0[field].clone());
        assert_eq!(got, Ok(want), "{script}");
    }
}

#[test]
fn painless_values() {
    for (script, want) in [
        ("7 / 2", json!(3)),
        ("2147483647 + 1", json!(-2147483648)),
        ("1 / 0", json!("arithmetic_exception: / by zero")),
        ("'a' + 1 + 2.0 + null", json!("a12.0null")),
        ("int fact(int n) { return n < 2 ? 1 : n * fact(n - 1) } fact(5)", json!(120)),
        (
            "def l = [3, 1, 2]; l.sort((a, b) -> b - a); l.removeIf(x -> x == 2); return l",
            json!([3, 1]),
        ),
        (
            "Map m = ['a': 1]; m.computeIfAbsent('b', k -> k + '!'); for (def e : m.entrySet()) { m[e.getKey()] = e.getValue() } m",
            json!({"a": 1, "b": "b!"}),
        ),
        (
            "try { def x = null; x.foo() } catch (NullPointerException e) { return 'npe' }",
            json!("npe"),
        ),
        ("throw new IllegalStateException('no')", json!("illegal_state_exception: no")),
        ("'foobar' ==~ /foo.*/ ? 1 : 2", json!(1)),
        ("[1, 2].stream().map(x -> x * 2).sum()", json!(6)),
        (
            "double total = 0; for (int i = 0; i < params.w.length; i++) { total += params.w[i] * _score } return total",
            json!(7.5),
        ),
        ("doc['n'].value / params.by", json!(3.5)),
        ("doc['none'].size() == 0 ? 'none' : doc['none'].value", json!("none")),
        ("long s = 0; for (x in doc['all']) { s += x } return s", json!(6)),
        ("doc['date'].value.getYear() - 2000 + doc['date'].value.monthValue", json!(18)),
        ("doc['name'].value.toLowerCase().substring(0, 2)", json!("an")),
        ("doc.containsKey('nope') || doc.containsKey('n')", json!(true)),
        ("saturation(doc['n'].value, 7)", json!(0.5)),
        ("doc['place'].arcDistance(0, 1)", json!(0.0)),
        ("decayNumericLinear(7, 10, 0, 0.5, doc['n'].value)", json!(1.0)),
        (
            "def m = new HashMap(); m.foo(1)",
            json!("illegal_argument_exception: dynamic method [java.util.HashMap, foo/1] not found"),
        ),
        (
            "doc['absent'].value",
            json!("illegal_argument_exception: No field found for [absent] in mapping"),
        ),
        ("this is not painless", json!("cannot resolve type [this]")),
        (
            "def a = []; a.add(a); a",
            json!("illegal_argument_exception: Iterable object is self-referencing itself"),
        ),
    ] {
        let got = match value(Lang::Painless, script, json!({"w": [0.5, 0.25, 3], "by": 2.0})) {
            Ok(v) => v,
            Err(e) => json!(e),
        };
        assert_eq!(got, want, "{script}");
    }
}

#[test]
fn expressions() {
    for (script, want) in [
        ("doc['n'].value * f + sqrt(4)", 16.0),
        ("_score > 1 ? ln(1) : 2", 0.0),
        ("7 / 2", 3.5),
    ] {
        assert_eq!(value(Lang::Expression, script, json!({"f": 2})), Ok(json!(want)), "{script}");
    }
}

#[test]
fn dates_are_read_whole_or_refused() {
    let check = |text: &str, expected: Result<i64, &str>| {
        let script = format!("ZonedDateTime.parse('{text}').toInstant().toEpochMilli()");
        match (value(Lang::Painless, &script, json!({})), expected) {
            (Ok(ms), Ok(expected)) => assert_eq!(ms, json!(expected), "{text}"),
            (Err(e), Err(part)) => assert!(e.contains(part), "{text}: {e}"),
            (got, expected) => panic!("{text}: {got:?} instead of {expected:?}"),
        }
    };
    check("1970-01-02T01:02:03.5Z", Ok(86_400_000 + 3_723_500));
    check("1970-01-01T02:00:00+02:00", Ok(0));
    check("1970-01-01T00:00:00-01:30", Ok(5_400_000));
    let unread = Err("could not be parsed");
    check("1970-01-01T00:0052603544736491113260Z", unread);
    check("1970-01-01T25:00:00Z", unread);
    check("1970-01-01T00:00:00+99999999999999999:00", unread);
    check("1970-01-01T00:00:NaNZ", unread);
    check("1970-02-30T00:00:00Z", unread);
}

#[test]
fn budgets_hold() {
    for script in [
        "while (true) { }",
        "String s = 'x'; while (true) { s += s }",
        "def l = []; while (true) { l.add(1) }",
        "int f(int n) { return f(n + 1) } f(0)",
        "def a = []; for (int i = 0; i < 9000; i++) { a = [a] } return a",
        "def a = [1]; for (int i = 0; i < 60; i++) { a = [a, a] } return a",
    ] {
        assert!(value(Lang::Painless, script, json!({})).is_err(), "{script}");
    }
    for deep in [
        "(".repeat(60_000),
        "[".repeat(60_000),
        "!".repeat(60_000),
        "{".repeat(60_000),
        format!("1{}", "+1".repeat(30_000)),
        "if(a)".repeat(10_000),
        "x->".repeat(20_000),
        "(int)".repeat(12_000),
        format!("a{}", "?1:a".repeat(10_000)),
        format!("a{}", ".b()".repeat(15_000)),
        "(".repeat(100_000),
    ] {
        for lang in [Lang::Painless, Lang::Groovy, Lang::Expression] {
            assert!(compile(&deep, lang).is_err());
        }
    }
}

#[test]
fn noise_never_panics() {
    let words = [
        "ctx",
        "._source",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        "'a'",
        "1",
        "+",
        "-",
        "*",
        "/",
        "%",
        "=",
        "==",
        "x",
        "if",
        "for",
        "while",
        "def ",
        ":",
        ";",
        ",",
        "->",
        "it",
        ".sort",
        ".each",
        "..",
        "\"${",
        "é",
        "—",
        "‘",
        "\n",
        "2147483648",
        "<<",
        "as ",
        "in ",
        "return ",
        "new ",
        "ArrayList",
        ".add",
        "null",
        "true",
        "?.",
        "?:",
        "doc",
        "params",
        "++",
        ">>>",
    ];
    let mut seed = 7u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..12 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.push_str(words[(seed >> 33) as usize % words.len()]);
        }
        for lang in [Lang::Painless, Lang::Groovy, Lang::Expression] {
            let _ = update(lang, &text, json!({"a": [1, "b"]}), json!({"x": 3}));
        }
    }
}
