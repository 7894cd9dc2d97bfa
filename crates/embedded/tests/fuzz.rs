//! Bytes that nobody meant: whatever is read is refused in words or understood, never a panic or an endless loop.
//!
//! A small mutational driver of our own, since the stable toolchain has none: inputs are changed, joined and
//! repeated; one whose answer has not been seen (its words without numbers) joins the corpus. Each target runs for
//! `PLEACH_FUZZ_SECONDS` (1); `PLEACH_FUZZ_SEED` begins elsewhere. Threads have the stack of those of the server, so
//! that a recursion without a limit is found. Not here: the reader of the log (`log::tests`).

#![allow(clippy::unwrap_used, reason = "a fuzz target that cannot run has failed")]

use dsl::document::{
    AliasActions, AnalyzeBody, BulkDefaults, ByQueryBody, MgetBody, ReindexBody, ScrollBody, UpdateBody, parse_bulk,
    parse_msearch,
};
use dsl::json::{Node, Reading, read};
use dsl::query::Operator;
use dsl::search::SearchRequest;
use mapping::{Mapping, MappingLimits, ReadOptions, Registry};
use model::{Dialect, Persona, Result};
use script::{Budget, Lang, UpdateContext};
use serde_json::json;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

const STACK_BYTES: usize = 2 << 20;
const INPUT_MAX_BYTES: usize = 64 << 10;
const CORPUS_MAX: usize = 4000;
/// No input of this size may take longer, in a debug build on a busy machine.
const TOO_LONG: Duration = Duration::from_secs(20);

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound.max(1) as u64) as usize
    }
}

fn mutate(random: &mut Random, corpus: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut out = corpus[random.below(corpus.len())].clone();
    for _ in 0..1 + random.below(4) {
        let at = random.below(out.len() + 1);
        let to = (at + random.below(1 + out.len().min(40))).min(out.len());
        match random.below(9) {
            0 if at < out.len() => out[at] ^= 1 << random.below(8),
            1 => drop(out.drain(at..to)),
            2 | 3 => drop(out.splice(at..at, words[random.below(words.len())].bytes())),
            4 => drop(out.splice(at..to, words[random.below(words.len())].bytes())),
            5 => {
                let part = out[at..to].to_vec();
                let times = 1 + random.below(8);
                drop(out.splice(at..at, part.repeat(times)));
            }
            // Deep: an opening repeated very often.
            6 if random.below(40) == 0 => {
                let word = words[random.below(words.len())].as_bytes();
                let times = INPUT_MAX_BYTES / word.len().max(1);
                drop(out.splice(at..at, word.repeat(times)));
            }
            7 => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len() + 1);
                let part = other[from..(from + random.below(60)).min(other.len())].to_vec();
                drop(out.splice(at..to, part));
            }
            _ => drop(out.splice(at..to, random.bits().to_string().into_bytes())),
        }
    }
    out.truncate(INPUT_MAX_BYTES);
    out
}

/// An answer without its numbers and names: what makes two of them the same.
fn shape(answer: &str) -> String {
    let mut out = String::new();
    let mut quoted = false;
    for c in answer.chars().take(200) {
        match c {
            '[' | '"' => quoted = true,
            ']' => quoted = false,
            c if quoted || c.is_ascii_digit() => {}
            c => out.push(c),
        }
    }
    out
}

/// Runs a target on changed inputs; it answers in words.
fn fuzz(name: &'static str, inputs: &[&str], words: &'static [&'static str], target: fn(&[u8]) -> String) {
    let seed = from_env("PLEACH_FUZZ_SEED", 1);
    let seconds = Duration::from_secs(from_env("PLEACH_FUZZ_SECONDS", 1));
    let mut corpus: Vec<Vec<u8>> = inputs.iter().map(|input| input.as_bytes().to_vec()).collect();
    let run = move || {
        let mut random = Random(seed);
        let mut seen = HashSet::new();
        let begun = Instant::now();
        let mut runs = 0u64;
        while begun.elapsed() < seconds || runs < inputs_len(&corpus) {
            let input = match usize::try_from(runs) {
                Ok(n) if n < corpus.len() && n < 200 => corpus[n].clone(),
                _ => mutate(&mut random, &corpus, words),
            };
            let from = Instant::now();
            let answer = catch_unwind(AssertUnwindSafe(|| target(&input)));
            let shown = || String::from_utf8_lossy(&input[..input.len().min(4000)]).into_owned();
            let Ok(answer) = answer else {
                panic!(
                    "{name}, seed {seed}, run {runs}: a panic on {} bytes:\n{}",
                    input.len(),
                    shown()
                );
            };
            assert!(
                from.elapsed() < TOO_LONG,
                "{name}, seed {seed}, run {runs}: {:?} for {} bytes:\n{}",
                from.elapsed(),
                input.len(),
                shown()
            );
            if seen.insert(shape(&answer)) && corpus.len() < CORPUS_MAX {
                corpus.push(input);
            }
            runs += 1;
        }
        eprintln!("{name}: seed {seed}, {runs} runs, {} different answers", seen.len());
        assert!(seen.len() > 3, "{name}: the inputs reach something");
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap();
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn inputs_len(corpus: &[Vec<u8>]) -> u64 {
    corpus.len().min(200) as u64
}

fn told<T>(result: Result<T>) -> String {
    result.map_or_else(|e| e.to_string(), |_| "understood".to_owned())
}

fn dialects() -> [Dialect; 3] {
    [Persona::Es8, Persona::Opensearch2, Persona::Es2].map(Dialect::of)
}

const BODIES: &[&str] = &[
    r#"{"query":{"bool":{"must":[{"match":{"a":{"query":"x","operator":"and"}}}],"filter":{"range":{"d":{"gte":"now-1d/d"}}}}},"size":5}"#,
    r#"{"query":{"function_score":{"query":{"match_all":{}},"functions":[{"gauss":{"d":{"origin":"now","scale":"1d"}},"weight":2}]}}}"#,
    r#"{"aggs":{"a":{"terms":{"field":"f","order":{"m":"desc"}},"aggs":{"m":{"max":{"script":"_score"}},"t":{"top_hits":{"size":1}}}}}}"#,
    r#"{"query":{"nested":{"path":"p","query":{"query_string":{"query":"a:(b OR c) AND d:[1 TO 5]"}},"inner_hits":{}}},"highlight":{"fields":{"*":{}}}}"#,
    r#"{"sort":[{"a":{"order":"desc","missing":"_last"}},"_score"],"_source":{"includes":["a*"]},"search_after":[1,"x"],"track_total_hits":10}"#,
    r#"{"query":{"filtered":{"filter":{"and":[{"term":{"a":1}},{"not":{"term":{"b":2}}}]}}},"fields":["a"],"facets":{}}"#,
    r#"{"source":{"index":"a","query":{"match_all":{}}},"dest":{"index":"b","op_type":"create"},"script":{"source":"ctx.op='noop'"}}"#,
    "{\"index\":{\"_index\":\"a\",\"_id\":\"1\"}}\n{\"f\":1}\n{\"delete\":{\"_index\":\"a\",\"_id\":\"2\"}}\n{\"update\":{\"_id\":\"3\"}}\n{\"doc\":{}}\n",
    "{\"index\":\"a\"}\n{\"query\":{\"match_all\":{}}}\n{}\n{\"size\":0}\n",
    r#"{"docs":[{"_index":"a","_id":"1"}],"ids":["1"],"actions":[{"add":{"index":"a","alias":"b","filter":{"term":{"x":1}}}}]}"#,
    r#"{"doc":{"a":[1,2.5e300,null,true,"\ud83d\ude00\u0000"]},"upsert":{},"detect_noop":false,"script":{"lang":"painless","params":{"x":1}}}"#,
    r#"{"mappings":{"properties":{"a":{"type":"text","fields":{"k":{"type":"keyword"}}},"n":{"type":"nested","properties":{"d":{"type":"date","format":"yyyy-MM-dd||epoch_millis"}}}}}}"#,
    r#"{"analyzer":"x","text":["a b"],"tokenizer":{"type":"ngram"},"filter":[{"type":"synonym","synonyms":["a,b=>c"]},"lowercase"]}"#,
    r#"{"scroll_id":["x"],"keep_alive":"1m","pit":{"id":"x"},"slice":{"id":0,"max":2},"collapse":{"field":"a"},"rescore":{"query":{"rescore_query":{}}}}"#,
];
const JSON_WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\u",
    "\\ud83d",
    "null",
    "true",
    "-1",
    "1e999",
    "18446744073709551616",
    "0.1",
    "\n",
    "//",
    "/*",
    "'",
    "{\"bool\":{\"must\":",
    "[[[[",
    "{\"a\":",
    "\"query\":",
    "\"aggs\":{\"a\":",
    "\"script\":",
    "\"field\":",
    "\"boost\":",
    "\"_name\":",
    "\"match\":{\"a\":",
    "\"range\":{\"a\":{\"gte\":",
    "\"terms\":",
    "\"size\":-1",
    "\"type\":",
    "\"properties\":{",
    "\"minimum_should_match\":\"2<-25%\"",
    "{\"not\":",
    "{\"nested\":{\"path\":\"a\",\"query\":",
    "\u{feff}",
    "\u{0}",
    "\"index\":",
    "\"_id\":",
    "\"from\":",
];

fn bodies(input: &[u8]) -> String {
    let mut out = String::new();
    for dialect in dialects() {
        let how = Reading {
            lenient: dialect.rules.reads_loose_json,
            duplicates: dialect.rules.takes_duplicate_keys,
            ..Reading::default()
        };
        let parsed = read(input, how);
        out.push_str(&told(parsed.clone()));
        let node = || parsed.clone().unwrap_or_else(|_| Node::from_value(json!({})));
        out.push_str(&told(SearchRequest::parse(node(), dialect)));
        out.push_str(&told(ByQueryBody::parse(node(), dialect)));
        out.push_str(&told(ReindexBody::parse(node(), dialect)));
        out.push_str(&told(MgetBody::parse(node(), dialect)));
        out.push_str(&told(AliasActions::parse(node(), dialect)));
        out.push_str(&told(AnalyzeBody::parse(node(), dialect)));
        out.push_str(&told(UpdateBody::parse(input, dialect)));
        out.push_str(&told(parse_msearch(input, dialect)));
        let defaults = BulkDefaults {
            index: Some("i".into()),
            dialect,
            ..BulkDefaults::default()
        };
        out.push_str(&told(parse_bulk(input, &defaults)));
        if let Ok(request) = SearchRequest::parse(node(), dialect)
            && let Some(query) = request.query
        {
            // What was understood can be said again.
            drop(query.render().to_string());
        }
    }
    out.push_str(&told(ScrollBody::parse(input, false)));
    out.push_str(&told(ScrollBody::parse(input, true)));
    out
}

#[test]
fn json_bodies() {
    fuzz("bodies", BODIES, JSON_WORDS, bodies);
}

/// A mapping, then a document under it; then the same two in the other order.
fn documents(input: &[u8]) -> String {
    let Ok(node) = read(input, Reading::default()) else {
        return "no JSON".into();
    };
    let value = node.into_value();
    let registry = Registry::default_registry();
    let limits = MappingLimits::default();
    let options = ReadOptions {
        id: "1",
        type_name: "",
        routing: None,
        ..ReadOptions::default()
    };
    let body = if value["mappings"].is_object() {
        &value["mappings"]
    } else {
        &value
    };
    let mapping = Mapping::parse(body, &registry, &limits);
    let mut out = told(mapping.clone());
    let empty = Mapping::empty(&registry, &limits);
    for mapping in [mapping.unwrap_or_else(|_| empty.clone()), empty] {
        match mapping.read(&value, &options) {
            Ok(parsed) => {
                if let Some(growth) = parsed.growth {
                    out.push_str(&told(mapping.merge(&growth)));
                    drop(growth.render());
                }
            }
            Err(e) => out.push_str(&e.to_string()),
        }
    }
    out
}

#[test]
fn mappings_and_documents() {
    fuzz("documents", BODIES, JSON_WORDS, documents);
}

const SCRIPTS: &[&str] = &[
    "if (ctx._source.lock_count == null) { ctx._source.lock_count = 1 } else { ctx._source.lock_count += params.n }",
    "assert false; return ctx._source.process_id == process_id",
    "def x = [1, 2.5, 'a', [:], null]; for (int i = 0; i < 10; ++i) { x.add(i * 2 % 3) } return x.size()",
    "for (e in ctx._source.tags) { if (e.startsWith('a')) { ctx.op = 'noop'; break } else { continue } }",
    "Math.max(1, doc['n'].value) * _score + Math.log(2 + doc['n'].size()) as double",
    "String s = 'abc'; s.substring(1).toUpperCase() + s.indexOf(\"b\") + (s == 'x' ? 1L : 2.0f) + s[0]",
    "int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2) } f(10)",
    "Map m = new HashMap(); m.put('a', ['b': 1]); m.a.b += 2; m.remove('a'); while (m.isEmpty()) { m['x'] = 1 } try { 1/0 } catch (Exception e) { return e }",
    "ctx._source.list.sort((a, b) -> b.compareTo(a)); ctx._source.list.removeIf(x -> x > 1); return /a+b/.matcher('aab').find()",
    "ZonedDateTime.parse('2020-01-01T00:00:00Z').plusDays(1).getMonthValue() << 3 >>> 1 & ~7 | 5 ^ 3",
];
const SCRIPT_WORDS: &[&str] = &[
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ";",
    "((((((",
    "{{{{",
    "!",
    "-",
    "~",
    "+=",
    "==",
    "?",
    ":",
    "?.",
    "->",
    "::",
    "'",
    "\"",
    "/",
    "//",
    "/*",
    "0x",
    "1e",
    "9223372036854775807",
    "-2147483648",
    "1L",
    "2.0f",
    "def ",
    "int ",
    "List ",
    "new ",
    "for (",
    "while (true) {",
    "return ",
    "if (",
    "else ",
    "ctx",
    "._source",
    "doc['n']",
    ".value",
    "params.",
    "null",
    ".size()",
    ".add(",
    ".join(",
    ".repeat(1000000)",
    "instanceof ",
    "throw ",
    "try {",
    "catch",
    " as ",
    "lambda",
    "% 0",
    "/ 0",
    "<<",
    "[1,2,3]",
    "[:]",
    ".toString()",
    "\\u",
    "é",
];

fn scripts(input: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(input) else {
        return "no text".into();
    };
    let mut out = String::new();
    for lang in [Lang::Painless, Lang::Groovy, Lang::Expression] {
        match script::compile(text, lang) {
            Err(e) => out.push_str(&format!("{e} {:?}", e.cause().map(|cause| shape(cause.reason())))),
            Ok(program) => {
                let context = UpdateContext {
                    source: json!({ "lock_count": 1, "tags": ["a", "b"], "list": [3, 1, 2], "process_id": "p" }),
                    op: "index".into(),
                    meta: serde_json::Map::new(),
                };
                let budget = Budget {
                    steps: 5_000,
                    memory_bytes: 64 << 10,
                    ..Budget::default()
                };
                let done = script::run_update(&program, &Default::default(), context, budget, 0);
                out.push_str(&done.map_or_else(
                    |e| format!("{e} {:?}", e.cause().map(|cause| shape(cause.reason()))),
                    |result| result.op,
                ));
            }
        }
    }
    out
}

#[test]
fn script_sources() {
    fuzz("scripts", SCRIPTS, SCRIPT_WORDS, scripts);
}

const QUERIES: &[&str] = &[
    "a AND b OR NOT c",
    "title:(quick OR \"brown fox\"~2)^3 +must -not",
    "date:[2020-01-01 TO now} AND n:>=5 AND x:{* TO 3]",
    "/joh?n(ath[oa]n)/ qu?ck bro* fuzzy~1 _exists_:a",
    "a\\:b \\(c\\) \"unclosed",
    "foo | bar + baz* -(x y)~2",
];
const QUERY_WORDS: &[&str] = &[
    "(",
    ")",
    "((((",
    "\"",
    "~",
    "^",
    "*",
    "?",
    "[",
    "]",
    "{",
    "}",
    " TO ",
    " AND ",
    " OR ",
    " NOT ",
    "&&",
    "||",
    "!",
    "+",
    "-",
    "/",
    "\\",
    ":",
    ">",
    "<=",
    "a",
    " ",
    "999999999999",
    "~2.5",
    "^-1",
    "_exists_:",
    "é",
    "\u{3000}",
    "|",
];

fn query_strings(input: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(input) else {
        return "no text".into();
    };
    let mut out = String::new();
    for operator in [Operator::Or, Operator::And] {
        match dsl::query_string::parse(text, operator) {
            Err(e) => out.push_str(&e.to_string()),
            Ok(syntax) => out.push_str(&format!("{syntax:?}").chars().take(60).collect::<String>()),
        }
        out.push_str(
            &format!("{:?}", dsl::query_string::simple::parse(text, None, operator))
                .chars()
                .take(60)
                .collect::<String>(),
        );
    }
    for body in [
        json!({ "query_string": { "query": text } }),
        json!({ "simple_query_string": { "query": text } }),
    ] {
        out.push_str(&told(dsl::query::parse_query_bytes(
            body.to_string().as_bytes(),
            Dialect::default(),
        )));
    }
    out
}

#[test]
fn query_string_texts() {
    fuzz("query strings", QUERIES, QUERY_WORDS, query_strings);
}
