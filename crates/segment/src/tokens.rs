//! Our analyzers as tantivy's tokenizers, one for each text field.
//!
//! tantivy leaves a gap of 1 between the values of a field; Elasticsearch leaves `position_increment_gap`.
//! Every token therefore claims to span that many positions: only the end of a value reads it.
//!
//! Not here: what analyzers do (`analysis`).

use super::schema::{IndexSchema, tokenizer_name};
use analysis::Analyzer;
use mapping::Mapping;
use tantivy::tokenizer::{TextAnalyzer, Token, TokenStream, Tokenizer, TokenizerManager};

/// The tokenizers of a schema's text fields, every one of them: no segment is built under a schema that lacks one.
///
/// A schema keeps the slots of fields that a mapping has no more. Nothing is written to those, and `standard` stands in.
pub fn tokenizers(schema: &IndexSchema, mapping: &Mapping) -> TokenizerManager {
    let manager = TokenizerManager::default();
    for (n, slot) in schema.slots().iter().enumerate().filter(|(_, slot)| slot.kind.is_text()) {
        let field = mapping.field(&slot.shape.path);
        let own = field.and_then(|field| field.analyzer.clone());
        let Some(analyzer) = own.or_else(|| mapping.registry().analyzer("standard")) else {
            debug_assert!(false, "[standard] is built in");
            continue;
        };
        manager.register(
            &tokenizer_name(n),
            TextAnalyzer::from(Analyzed {
                analyzer,
                gap: field.map_or(0, |field| field.position_increment_gap as usize),
                tokens: Tokens::default(),
            }),
        );
    }
    manager
}

#[derive(Clone)]
struct Analyzed {
    analyzer: Analyzer,
    gap: usize,
    tokens: Tokens,
}

/// The tokens of one value: terms one behind the other, and where each ends, with its position.
#[derive(Clone, Default)]
struct Tokens {
    terms: String,
    ends: Vec<(usize, usize, usize, usize)>,
}

struct Stream<'a> {
    tokens: &'a Tokens,
    at: usize,
    token: Token,
}

impl Tokenizer for Analyzed {
    type TokenStream<'a> = Stream<'a>;
    fn token_stream<'a>(&'a mut self, text: &'a str) -> Stream<'a> {
        let tokens = &mut self.tokens;
        tokens.terms.clear();
        tokens.ends.clear();
        self.analyzer.for_each(text, &mut |token| {
            debug_assert!(
                tokens.ends.last().is_none_or(|before| before.1 <= token.position as usize),
                "positions of tokens never descend: a list keeps what lies between them"
            );
            debug_assert!(token.start <= token.end, "a token begins before it ends");
            tokens.terms.push_str(&token.term);
            tokens
                .ends
                .push((tokens.terms.len(), token.position as usize, token.start, token.end));
        });
        Stream {
            tokens,
            at: 0,
            token: Token {
                position_length: self.gap,
                ..Token::default()
            },
        }
    }
}

impl TokenStream for Stream<'_> {
    fn advance(&mut self) -> bool {
        let Some((end, position, from, to)) = self.tokens.ends.get(self.at).copied() else {
            return false;
        };
        let start = self.at.checked_sub(1).map_or(0, |before| self.tokens.ends[before].0);
        self.token.text.clear();
        self.token.text.push_str(&self.tokens.terms[start..end]);
        (self.token.position, self.token.offset_from, self.token.offset_to) = (position, from, to);
        self.at += 1;
        true
    }
    fn token(&self) -> &Token {
        &self.token
    }
    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapping::{MappingLimits, Registry};
    use serde_json::json;

    #[test]
    fn a_field_that_the_mapping_has_no_more_has_a_tokenizer() {
        let registry = Registry::default_registry();
        let mapping = |body| Mapping::parse(&body, &registry, &MappingLimits::default()).expect("a mapping");
        let schema = IndexSchema::of(&mapping(
            json!({ "properties": { "a": { "type": "text" }, "b": { "type": "long" } } }),
        ));
        let tokenizers = tokenizers(&schema, &mapping(json!({ "properties": { "c": { "type": "text" } } })));
        let texts = schema.slots().iter().enumerate().filter(|(_, slot)| slot.kind.is_text());
        let names: Vec<String> = texts.map(|(n, _)| tokenizer_name(n)).collect();
        assert_eq!(names.len(), 1);
        assert!(tokenizers.get(&names[0]).is_some(), "{names:?}");
    }
}
