//! `_analyze` in all its forms.

use crate::call::Call;
use crate::es2_errors;
use crate::respond::Answer;
use analysis::utf16::Utf16Offsets;
use analysis::{AnalyzeParts, Analyzer, Registry, Token};
use async_recursion::async_recursion as boxed;
use dsl::document::AnalyzeBody;
use model::{Error, Result, Target};
use serde_json::{Map, Value, json};

/// `GET /i/_analyze`.
#[boxed]
pub(crate) async fn analyze(mut call: Call) -> Result<Answer> {
    let index = call.arg("index").map(str::to_owned).or_else(|| call.params.take("index"));
    let former = call.dialect.rules.former_analyze;
    let mut body = options_of_url(&mut call)?;
    let content = call.content()?;
    call.params.finish()?;
    let first = content.iter().find(|b| !b.is_ascii_whitespace());
    if first == Some(&b'{') {
        let node = dsl::json::read(&content, call.reading())?;
        if former {
            known_in_2015(&node)?;
        }
        let from_body = AnalyzeBody::parse(node, call.dialect)?;
        body = merge(body, from_body);
    } else if first.is_some() && former {
        body.text = vec![String::from_utf8_lossy(&content).into_owned()];
    } else if first.is_some() {
        dsl::json::read(&content, call.reading())?;
        return Err(Error::illegal("the body of _analyze must be an object"));
    }
    if first.is_none() && body.text.is_empty() && !former {
        return Err(Error::new(
            model::ErrorKind::Parse,
            "request body or source parameter is required",
        ));
    }
    if body.text.is_empty() {
        return Err(Error::new(
            model::ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: text is missing;",
        ));
    }
    if !former {
        body.validate()?;
    }
    let Chosen { analyzer, name, max } = match choose_analyzer(&call, index.as_deref(), &body).await {
        Err(error) if former => return Err(es2_errors::in_analysis(error)),
        found => found?,
    };
    Ok(Answer::ok(if body.explain {
        explain(&analyzer, &name, &body, max, former)?
    } else {
        // An analyzer of no index has no field, and so no gap.
        let gap = match (&index, &body.tokenizer) {
            (None, None) if !former => 0,
            _ => analyzer.position_increment_gap(),
        };
        json!({ "tokens": tokens(&analyzer, &body.text, gap, former, max)? })
    }))
}

/// The options of the URL. Lists of filters have several names.
fn options_of_url(call: &mut Call) -> Result<AnalyzeBody> {
    let params = &mut call.params;
    let mut list = |names: &[&'static str]| -> Vec<Value> {
        let lists = names.iter().filter_map(|name| params.take_list(name));
        lists.flatten().map(Value::from).collect()
    };
    let filter = list(&["filter", "filters", "token_filters"]);
    let char_filter = list(&["char_filter", "char_filters"]);
    Ok(AnalyzeBody {
        analyzer: params.take("analyzer"),
        tokenizer: params.take("tokenizer").map(Value::from),
        field: params.take("field"),
        normalizer: params.take("normalizer"),
        filter,
        char_filter,
        explain: params.flag("explain")?,
        attributes: params.take_list("attributes").unwrap_or_default(),
        text: match params.take("text") {
            // In 2015 a list, as every parameter that could be one.
            Some(text) if call.dialect.rules.former_analyze => {
                text.split(',').filter(|t| !t.is_empty()).map(str::to_owned).collect()
            }
            text => text.into_iter().collect(),
        },
    })
}

/// Checks the keys of a body as Elasticsearch 2 does.
fn known_in_2015(node: &dsl::json::Node) -> Result<()> {
    let dsl::json::Json::Object(members) = &node.value else {
        return Ok(());
    };
    for (name, value) in members {
        let fits = match name.as_str() {
            "text" => value.as_str().is_some() || value.is_array(),
            "analyzer" | "field" | "tokenizer" => value.as_str().is_some(),
            "filters" | "token_filters" | "filter" | "char_filters" | "char_filter" | "attributes" => value.is_array(),
            "explain" => true,
            _ => false,
        };
        if !fits {
            let found = value.kind_name();
            return Err(Error::illegal(format!(
                "Unknown parameter [{name}] in request body or parameter is of the wrong type[{found}] "
            )));
        }
    }
    Ok(())
}

fn merge(url: AnalyzeBody, mut body: AnalyzeBody) -> AnalyzeBody {
    body.analyzer = body.analyzer.or(url.analyzer);
    body.field = body.field.or(url.field);
    body.tokenizer = body.tokenizer.or(url.tokenizer);
    body.explain |= url.explain;
    if body.attributes.is_empty() {
        body.attributes = url.attributes;
    }
    if body.text.is_empty() {
        body.text = url.text;
    }
    body
}

/// The name of what was put together of parts.
const CUSTOM: &str = "__custom__";

/// The analyzer of a request, and its name.
struct Chosen {
    analyzer: Analyzer,
    /// The tokens that `explain` shows.
    name: String,
    /// Tokens that it may make.
    max: usize,
}

async fn choose_analyzer(call: &Call, index: Option<&str>, body: &AnalyzeBody) -> Result<Chosen> {
    let info = match index {
        Some(index) => call.rest.indices(&Target::index(index)).await?.into_iter().next(),
        None => None,
    };
    let none = Map::new();
    let settings = info.as_ref().map_or(&none, |i| &i.settings);
    let max = usize::try_from(model::settings::number(settings, model::settings::MAX_ANALYZE_TOKENS)).unwrap_or(usize::MAX);
    let (analyzer, name) = analyzer_of(call, index, info, body)?;
    Ok(Chosen { analyzer, name, max })
}

fn analyzer_of(
    call: &Call,
    index: Option<&str>,
    info: Option<engine::IndexInfo>,
    body: &AnalyzeBody,
) -> Result<(Analyzer, String)> {
    let registry = info.as_ref().map_or_else(Registry::default_registry, |i| i.registry.clone());
    if let Some(name) = &body.analyzer {
        let global = match index {
            None if !call.dialect.rules.former_analyze => "global ",
            _ => "",
        };
        let missing = || Error::illegal(format!("failed to find {global}analyzer [{name}]"));
        let analyzer = registry.analyzer(name).ok_or_else(missing)?;
        let part = format!("index.analysis.analyzer.{name}.tokenizer");
        let made = call.dialect.rules.former_analyze && info.as_ref().is_some_and(|i| i.settings.contains_key(&part));
        return Ok((analyzer, if made { CUSTOM.into() } else { name.clone() }));
    }
    if let Some(name) = &body.normalizer {
        let Some(index) = index else {
            if !call.dialect.rules.former_analyze {
                let reason = "Validation Failed: 1: index is required if normalizer is specified;";
                return Err(Error::new(model::ErrorKind::ActionRequestValidation, reason));
            }
            return Err(Error::illegal("analysis based on a normalizer requires an index"));
        };
        let missing = || Error::illegal(format!("failed to find normalizer under [{index}]"));
        return Ok((registry.normalizer(name).ok_or_else(missing)?, name.clone()));
    }
    if body.tokenizer.is_some() || !body.filter.is_empty() || !body.char_filter.is_empty() {
        let parts = AnalyzeParts {
            tokenizer: body.tokenizer.clone(),
            filters: body.filter.clone(),
            char_filters: body.char_filter.clone(),
        };
        return Ok((registry.custom(&parts)?, CUSTOM.into()));
    }
    if let Some(field) = &body.field {
        let Some(info) = &info else {
            return Err(Error::illegal("analysis based on a specific field requires an index"));
        };
        if let Some(analyzer) = analyzer_of_field(call, &registry, info, field)? {
            return Ok(analyzer);
        }
    }
    let default = registry.analyzer("default").or_else(|| registry.analyzer("standard"));
    default
        .map(|a| (a, "standard".into()))
        .ok_or_else(|| Error::illegal("no default analyzer"))
}

/// The analyzer of a field with its name; none if there is no such field, or it is a text without an analyzer of its own.
fn analyzer_of_field(
    call: &Call,
    registry: &Registry,
    info: &engine::IndexInfo,
    name: &str,
) -> Result<Option<(Analyzer, String)>> {
    let Some((_, field)) = info.mapping.resolve(name) else {
        return Ok(None);
    };
    if let Some(analyzer) = field.analyzer.clone().or_else(|| field.normalizer.clone()) {
        let name = analyzer.name().to_owned();
        return Ok(Some((analyzer, name)));
    }
    if call.dialect.rules.former_analyze && field.kind.is_numeric() {
        return Err(Error::illegal(format!(
            "Can't process field [{name}], Analysis requests are not supported on numeric fields"
        )));
    }
    if !call.dialect.rules.former_analyze && !field.kind.is_text() && !field.kind.is_keyword() {
        return Err(Error::illegal(format!(
            "Can't process field [{name}], Analysis requests are only supported on tokenized fields"
        )));
    }
    if matches!(field.kind, mapping::Kind::Text) {
        return Ok(None);
    }
    let keyword = registry.analyzer("keyword");
    let keyword = keyword.ok_or_else(|| Error::illegal("no keyword analyzer"))?;
    Ok(Some((keyword, "keyword".into())))
}

fn token(token: &Token, offsets: &Utf16Offsets<'_>, start: usize, position: u32, former: bool) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("token".into(), token.term.as_str().into());
    out.insert("start_offset".into(), (start + offsets.at(token.start)).into());
    out.insert("end_offset".into(), (start + offsets.at(token.end)).into());
    out.insert("type".into(), token.kind.as_str().into());
    out.insert("position".into(), (position + token.position).into());
    if token.position_length > 1 && !former {
        out.insert("positionLength".into(), token.position_length.into());
    }
    out
}

/// Tokens of every text; later texts continue positions and offsets.
fn tokens(analyzer: &Analyzer, texts: &[String], gap: u32, former: bool, max: usize) -> Result<Vec<Value>> {
    let mut out = Vec::new();
    let (mut start, mut position) = (0, 0);
    for text in texts {
        let offsets = Utf16Offsets::new(text);
        let found = tokens_within(analyzer, text, out.len(), max)?;
        for t in &found {
            let mut shown = token(t, &offsets, start, position, former);
            if former && analyzer.grams() {
                // 2015 forgot what the parts were of.
                shown.insert("type".into(), "word".into());
            }
            out.push(Value::Object(shown));
        }
        position += found.last().map_or(0, |t| t.position + 1) + gap;
        start += offsets.at(text.len()) + 1;
    }
    Ok(out)
}

/// The tokens of a text after so many others. The first that is one too many ends the analysis.
fn tokens_within(analyzer: &Analyzer, text: &str, before: usize, max: usize) -> Result<Vec<Token>> {
    let mut count = before;
    let found = analyzer.try_analyze_while(text, &mut |_| {
        count += 1;
        count <= max
    })?;
    within(count, max)?;
    Ok(found)
}

fn within(count: usize, max: usize) -> Result<()> {
    if count <= max { Ok(()) } else { Err(too_many(max)) }
}

fn too_many(max: usize) -> Error {
    let reason = format!(
        "The number of tokens produced by calling _analyze has exceeded the allowed maximum of [{max}]. \
         This limit can be set by changing the [index.analyze.max_token_count] index level setting."
    );
    Error::new(model::ErrorKind::IllegalState, reason).status_of(400)
}

/// `explain=true`: every stage.
fn explain(analyzer: &Analyzer, name: &str, body: &AnalyzeBody, max: usize, former: bool) -> Result<Value> {
    let text = body.text.join(" ");
    let offsets = Utf16Offsets::new(&text);
    let attributes = &body.attributes;
    let list = |tokens: &[Token], keywords: bool| -> Vec<Value> {
        let tokens = tokens.iter().map(|t| {
            // 2015 told of those alone that are some.
            let mut shown = describe_token(t, &offsets, attributes, if former { t.keyword } else { keywords });
            if former {
                // An attribute that came later.
                shown.remove("termFrequency");
            }
            Value::Object(shown)
        });
        tokens.collect()
    };
    let stages = match analyzer.explain_within(&text, max)? {
        Some(stages) => stages,
        None => return Err(too_many(max)),
    };
    if name == CUSTOM {
        let charfilters: Vec<Value> = stages
            .char_filters
            .iter()
            .map(|s| json!({ "name": s.name, "filtered_text": [s.filtered_text] }))
            .collect();
        let filters: Vec<Value> = stages
            .filters
            .iter()
            .map(|s| json!({ "name": s.name, "tokens": list(&s.tokens, s.keywords) }))
            .collect();
        let mut detail = json!({ "custom_analyzer": true });
        detail["charfilters"] = charfilters.into();
        detail["tokenizer"] = json!({ "name": stages.tokenizer.name, "tokens": list(&stages.tokenizer.tokens, false) });
        detail["tokenfilters"] = filters.into();
        return Ok(json!({ "detail": detail }));
    }
    let found = tokens_within(analyzer, &text, 0, max)?;
    let keywords = stages.filters.last().is_some_and(|stage| stage.keywords);
    Ok(json!({ "detail": { "custom_analyzer": false, "analyzer": { "name": name, "tokens": list(&found, keywords) } } }))
}

/// A token with all its attributes, or those that were asked for.
fn describe_token(t: &Token, offsets: &Utf16Offsets<'_>, wanted: &[String], keywords: bool) -> Map<String, Value> {
    let mut out = token(t, offsets, 0, 0, true);
    let bytes: Vec<String> = t.term.bytes().map(|b| format!("{b:x}")).collect();
    out.insert("bytes".into(), format!("[{}]", bytes.join(" ")).into());
    if keywords {
        out.insert("keyword".into(), t.keyword.into());
    }
    out.insert("positionLength".into(), t.position_length.into());
    out.insert("termFrequency".into(), 1.into());
    if !wanted.is_empty() {
        let extra = ["bytes", "keyword", "positionLength", "termFrequency"];
        out.retain(|name, _| {
            let asked = wanted.iter().any(|w| w.eq_ignore_ascii_case(name));
            !extra.contains(&name.as_str()) || asked
        });
    }
    out
}
