//! The chain: character filters, a tokenizer, token filters, and the ways to run a text through it.
//!
//! [`Analyzer::for_each`] is the hot path. Where all filters look at one token at a time, a single token is
//! reused for the whole text; where one needs its neighbours (synonyms, shingles), the tokens are collected.

use crate::char_filters::{CharFilter, Filtered};
use crate::filters::{Filter, Shingles};
use crate::named::Named;
use crate::room::Room;
use crate::token::Token;
use crate::tokenizers::{Piece, Tokenizer};
use model::Result;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The gap of positions between the values of one field, if nothing else is set.
pub(crate) const DEFAULT_GAP: u32 = 100;

/// The parts of a chain.
#[derive(Clone)]
pub(crate) struct Chain {
    pub(crate) char_filters: Vec<Named<dyn CharFilter>>,
    pub(crate) tokenizer: Named<dyn Tokenizer>,
    pub(crate) filters: Vec<Named<Filter>>,
    pub(crate) gap: u32,
}

/// A chain that turns a text into tokens. Cheap to clone.
#[derive(Clone)]
pub struct Analyzer(Arc<AnalyzerParts>);

struct AnalyzerParts {
    name: String,
    chain: Chain,
    one_by_one: bool,
    /// How much more it makes of a text than it has: see [`crate::filters::All::grows`].
    grows: u32,
    overlaps: OnceLock<bool>,
}

impl fmt::Debug for Analyzer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filters: Vec<&str> = self.0.chain.filters.iter().map(|filter| &*filter.name).collect();
        f.debug_struct("Analyzer")
            .field("name", &self.0.name)
            .field("tokenizer", &&*self.0.chain.tokenizer.name)
            .field("filters", &filters)
            .finish_non_exhaustive()
    }
}

/// The result of each stage of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The text after each character filter.
    pub char_filters: Vec<CharFilterStage>,
    /// The tokens of the tokenizer.
    pub tokenizer: TokenStage,
    /// The tokens after each filter.
    pub filters: Vec<TokenStage>,
}

/// The text after one character filter.
#[derive(Clone, Debug, PartialEq)]
pub struct CharFilterStage {
    /// The filter.
    pub name: String,
    /// The text that it made.
    pub filtered_text: String,
}

/// The tokens after one stage.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenStage {
    /// The tokenizer or filter.
    pub name: String,
    /// The tokens that it made.
    pub tokens: Vec<Token>,
    /// Whether this stage or one before it knows of keywords.
    pub keywords: bool,
}

impl Analyzer {
    pub(crate) fn new(name: impl Into<String>, chain: Chain) -> Analyzer {
        let one_by_one = chain.filters.iter().all(|filter| matches!(&*filter.part, Filter::Each(_)));
        let grows = u32::from(chain.tokenizer.part.grows()) + chain.filters.iter().map(|f| f.part.grows()).sum::<u32>();
        // A text that grew may be longer than what is given.
        let grows = grows + 2 * u32::from(!chain.char_filters.is_empty());
        Analyzer(Arc::new(AnalyzerParts {
            name: name.into(),
            chain,
            grows,
            one_by_one,
            overlaps: OnceLock::new(),
        }))
    }

    /// The same after another tokenizer: that of `words`.
    #[must_use]
    pub fn after_tokenizer_of(&self, words: &Analyzer) -> Analyzer {
        let chain = Chain {
            tokenizer: words.0.chain.tokenizer.clone(),
            ..self.0.chain.clone()
        };
        Analyzer::new(self.0.name.clone(), chain)
    }

    /// Whether tokens may stand at the position of the one before. Lengths of fields do not count such tokens.
    pub fn overlaps(&self) -> bool {
        *self.0.overlaps.get_or_init(|| {
            let mut last = None;
            let mut found = !self.0.one_by_one;
            self.for_each("/one/two three-Four5 six_seven", &mut |token| {
                found |= last == Some(token.position);
                last = Some(token.position);
            });
            found
        })
    }

    /// Whether a filter makes parts of terms.
    pub fn grams(&self) -> bool {
        self.0.chain.filters.iter().any(|filter| filter.part.grams())
    }

    /// Its name in the registry.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The shingles it makes, if it makes some.
    pub fn shingles(&self) -> Option<Shingles> {
        self.0.chain.filters.iter().find_map(|filter| filter.part.shingles())
    }

    /// The positions left between two values of a field.
    pub fn position_increment_gap(&self) -> u32 {
        self.0.chain.gap
    }

    /// Refuses a text of which it would make more than `indices.analysis.max_token_bytes`.
    ///
    /// # Errors
    /// 400 with the setting's name.
    pub fn check(&self, text: &str) -> Result<()> {
        if self.0.grows == 0 || (self.0.grows == 1 && Room::holds_any(text)) {
            return Ok(());
        }
        Room::or_refuse(self.run(text, &mut |_| {}), &self.label())
    }

    /// As [`Analyzer::analyze`], of a text that was not checked.
    ///
    /// # Errors
    /// As [`Analyzer::check`].
    pub fn try_analyze(&self, text: &str) -> Result<Vec<Token>> {
        let mut tokens = Vec::new();
        let fits = self.run(text, &mut |token| tokens.push(token.clone()));
        Room::or_refuse(fits, &self.label())?;
        Ok(tokens)
    }

    /// As [`Analyzer::try_analyze`] as long as `more` says so: the first token it says no to is the last of all. Where a
    /// filter needs its neighbours they are made before they are asked about.
    ///
    /// # Errors
    /// As [`Analyzer::check`].
    pub fn try_analyze_while(&self, text: &str, more: &mut dyn FnMut(&Token) -> bool) -> Result<Vec<Token>> {
        let (mut tokens, mut stopped) = (Vec::new(), false);
        let fits = self.run_while(text, &mut |token| {
            if !stopped {
                stopped = !more(token);
                tokens.push(token.clone());
            }
            !stopped
        });
        if !stopped {
            Room::or_refuse(fits, &self.label())?;
        }
        Ok(tokens)
    }

    /// The first term of a text that is longer than so many bytes. Of a text that is not, what character filters add is
    /// not looked at.
    pub fn longer_term(&self, text: &str, max_bytes: usize) -> Option<String> {
        /// Bytes of UTF-8 for one unit of UTF-16.
        const UNIT_BYTES: usize = 3;
        let cut = self
            .0
            .chain
            .tokenizer
            .part
            .longest()
            .is_some_and(|units| units <= max_bytes / UNIT_BYTES);
        if text.len() <= max_bytes || cut && self.0.grows == 0 {
            return None;
        }
        let mut found = None;
        self.run(text, &mut |token| {
            if found.is_none() && token.term.len() > max_bytes {
                found = Some(token.term.clone());
            }
        });
        found
    }

    fn label(&self) -> String {
        format!("analyzer [{}]", self.0.name)
    }

    /// The tokens of a text that was checked; of another it may leave some out.
    pub fn analyze(&self, text: &str) -> Vec<Token> {
        let mut tokens = Vec::new();
        self.for_each(text, &mut |token| tokens.push(token.clone()));
        tokens
    }

    /// Hands each token of a text to `f`, one after another. As with [`Analyzer::analyze`], the text was checked.
    pub fn for_each(&self, text: &str, f: &mut dyn FnMut(&Token)) {
        self.run(text, f);
    }

    /// The same; false: there was no room for all of them.
    fn run(&self, text: &str, f: &mut dyn FnMut(&Token)) -> bool {
        self.run_while(text, &mut |token| {
            f(token);
            true
        })
    }

    /// The same until `f` says no: what comes after is not filtered, and false is returned.
    fn run_while(&self, text: &str, f: &mut dyn FnMut(&Token) -> bool) -> bool {
        let original = text;
        let Ok(filtered) = self.apply_char_filters(text) else {
            return false;
        };
        // Tokens that are not made of their neighbours are never longer than the text, unless the tokenizer's pieces overlap.
        let overlap = self.0.chain.tokenizer.part.grows();
        let (mut room, mut fits) = (Room::new(), true);
        let text = filtered.as_ref().map_or(text, |filtered| filtered.text.as_str());
        if self.0.one_by_one {
            let filters = &self.0.chain.filters;
            let mut token = Token::empty();
            self.tokenize(text, filtered.as_ref(), &mut |piece| {
                fits = fits && (!overlap || room.take(piece.term.len()));
                if !fits {
                    return;
                }
                fill(&mut token, piece);
                let kept = filters.iter().all(|filter| match &*filter.part {
                    Filter::Each(each) => each.each(&mut token),
                    Filter::All(_) => true,
                });
                if kept {
                    fits = f(&token);
                }
            });
            return fits;
        }
        let mut tokens = Vec::new();
        self.tokenize(text, filtered.as_ref(), &mut |piece| {
            fits = fits && (!overlap || room.take(piece.term.len()));
            if !fits {
                return;
            }
            let mut token = Token::empty();
            fill(&mut token, piece);
            tokens.push(token);
        });
        if !fits {
            return false;
        }
        for filter in &self.0.chain.filters {
            tokens = filter.part.run(tokens);
            if filter.part.grows() > 0 && !Room::holds(&tokens) {
                return false;
            }
        }
        debug_assert!(
            tokens.windows(2).all(|two| two[0].position <= two[1].position),
            "tokens leave a chain in the order of their positions"
        );
        for mut token in tokens {
            // Parts of terms that character filters changed may be anywhere: never inside a character.
            token.start = original.floor_char_boundary(token.start);
            token.end = original.floor_char_boundary(token.end).max(token.start);
            if token.kind == crate::token::TokenKind::Fingerprint {
                // It stands for the whole text.
                token.end = original.len();
            }
            if !f(&token) {
                return false;
            }
        }
        true
    }

    /// The whole text as one term: character filters, and of the filters those that change characters only.
    pub fn normalize(&self, text: &str) -> String {
        let mut token = Token::empty();
        token.term = match self.apply_char_filters(text) {
            Ok(Some(filtered)) => filtered.text,
            // Too long for any term.
            Ok(None) | Err(_) => text.to_owned(),
        };
        token.end = text.len();
        self.0.chain.tokenizer.part.normalize(&mut token.term);
        for filter in &self.0.chain.filters {
            match &*filter.part {
                Filter::Each(each) if each.normalizes() => {
                    each.each(&mut token);
                }
                Filter::Each(_) => {}
                Filter::All(all) => all.normalize(&mut token),
            }
        }
        token.term
    }

    /// The result of every stage for a text.
    ///
    /// # Errors
    /// As [`Analyzer::check`].
    pub fn explain(&self, text: &str) -> Result<Explanation> {
        let whole = self.explain_within(text, usize::MAX)?;
        whole.ok_or_else(|| Room::refusal(&self.label()))
    }

    /// The same; `None` as soon as a stage makes more than `max` tokens.
    ///
    /// # Errors
    /// As [`Analyzer::check`].
    pub fn explain_within(&self, text: &str, max: usize) -> Result<Option<Explanation>> {
        let mut char_filters = Vec::new();
        let mut filtered: Option<Filtered> = None;
        for filter in &self.0.chain.char_filters {
            let next = Filtered::after(filtered, text, &*filter.part);
            Room::or_refuse(!next.is_full(text), &self.label())?;
            char_filters.push(CharFilterStage {
                name: filter.name.to_string(),
                filtered_text: next.text.clone(),
            });
            filtered = Some(next);
        }
        let text = filtered.as_ref().map_or(text, |filtered| filtered.text.as_str());
        let overlap = self.0.chain.tokenizer.part.grows();
        let (mut room, mut fits) = (Room::new(), true);
        let mut tokens = Vec::new();
        self.tokenize(text, filtered.as_ref(), &mut |piece| {
            fits = fits && (!overlap || room.take(piece.term.len()));
            if !fits || tokens.len() > max {
                return;
            }
            let mut token = Token::empty();
            fill(&mut token, piece);
            tokens.push(token);
        });
        if tokens.len() > max {
            return Ok(None);
        }
        Room::or_refuse(fits, &self.label())?;
        let tokenizer = TokenStage {
            name: self.0.chain.tokenizer.name.to_string(),
            tokens: tokens.clone(),
            keywords: false,
        };
        let mut filters = Vec::new();
        let mut keywords = false;
        for filter in &self.0.chain.filters {
            keywords |= filter.part.keywords();
            tokens = filter.part.run(tokens);
            if tokens.len() > max {
                return Ok(None);
            }
            Room::or_refuse(filter.part.grows() == 0 || Room::holds(&tokens), &self.label())?;
            filters.push(TokenStage {
                name: filter.name.to_string(),
                tokens: tokens.clone(),
                keywords,
            });
        }
        Ok(Some(Explanation {
            char_filters,
            tokenizer,
            filters,
        }))
    }

    fn apply_char_filters(&self, text: &str) -> Result<Option<Filtered>> {
        let mut filtered = None;
        for filter in &self.0.chain.char_filters {
            let next = Filtered::after(filtered, text, &*filter.part);
            Room::or_refuse(!next.is_full(text), &self.label())?;
            filtered = Some(next);
        }
        Ok(filtered)
    }

    fn tokenize(&self, text: &str, filtered: Option<&Filtered>, f: &mut dyn FnMut(&Piece<'_>)) {
        let tokenizer = &self.0.chain.tokenizer.part;
        let mut position = 0;
        let mut check = |piece: &Piece<'_>| {
            debug_assert!(
                piece.start <= piece.end && text.is_char_boundary(piece.start) && text.is_char_boundary(piece.end),
                "a piece lies within its text, and {}..{} of {} bytes does not",
                piece.start,
                piece.end,
                text.len()
            );
            debug_assert!(
                position <= piece.position,
                "positions of a tokenizer do not fall: {} comes after {position}",
                piece.position
            );
            position = piece.position;
        };
        match filtered {
            None => tokenizer.tokenize(text, &mut |piece| {
                check(&piece);
                f(&piece);
            }),
            Some(filtered) => tokenizer.tokenize(text, &mut |mut piece| {
                check(&piece);
                piece.start = filtered.original(piece.start);
                piece.end = filtered.original(piece.end);
                debug_assert!(
                    piece.start <= piece.end,
                    "character filters keep the order of what they change"
                );
                f(&piece);
            }),
        }
    }
}

fn fill(token: &mut Token, piece: &Piece<'_>) {
    token.term.clear();
    token.term.push_str(piece.term);
    token.start = piece.start;
    token.end = piece.end;
    token.position = piece.position;
    token.position_length = 1;
    token.kind = piece.kind;
    token.keyword = false;
}
