//! `bool` over compiled clauses: required, optional, excluded ones, and those that only filter.

use super::block_max::ScoredClauses;
use super::conjunction::{among, and};
use super::constant::{AllScorer, ConstantScorer};
use super::coord::scale_by_coord;
use super::disjunction::{Sum, or};
use super::exclusion::without;
use super::explain::Explained;
use super::live_docs::LiveDocs;
use super::lucene_string;
use super::node::{Node, Shared};
use super::optional::with_option;
use super::prune::Restriction;
use model::Result;
use segment::doc_bits::{BitsDocs, DocBits};
use segment::segment_view::{SegmentView, postings};
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, TERMINATED};

/// Why a clause refuses a document, with the clause where there are words for it.
fn refusal(why: &str, clause: &Shared) -> Explained {
    Explained::no_match(match clause.says() {
        Some(text) => format!("{why} ({text})"),
        None => why.to_owned(),
    })
}

/// The sets of clauses, but for those that match every document; `None` if one of them has none at hand.
fn all_bits<'a>(nodes: impl Iterator<Item = &'a Shared>, segment: &SegmentView) -> Result<Option<Vec<Arc<DocBits>>>> {
    let mut sets = Vec::new();
    for node in nodes.filter(|node| !node.is_all()) {
        let Some(bits) = node.bits(segment)? else { return Ok(None) };
        sets.push(bits);
    }
    Ok(Some(sets))
}

/// A conjunction, options, exclusions.
#[derive(Default)]
pub(crate) struct BoolNode {
    /// All match, and score.
    pub must: Vec<Shared>,
    /// All match.
    pub filter: Vec<Shared>,
    /// `least` match, all score.
    pub should: Vec<Shared>,
    /// None matches.
    pub must_not: Vec<Shared>,
    /// How many of `should`.
    pub least: usize,
    /// Scored by how many of the clauses that score match, too.
    pub coordinated: bool,
}

impl BoolNode {
    /// How many match makes a difference: some of several need not.
    fn counts_matches(&self) -> bool {
        self.coordinated && !self.should.is_empty() && self.must.len() + self.should.len() > 1
    }

    /// One of several, and nothing else.
    fn is_choice(&self) -> bool {
        self.filter.is_empty() && self.must_not.is_empty() && self.scores_as_choice()
    }

    /// One of several gives the score; other clauses only filter.
    fn scores_as_choice(&self) -> bool {
        self.must.is_empty() && self.least == 1 && !self.should.is_empty()
    }

    /// All clauses must match, and nothing else is asked.
    fn only_requires(&self) -> bool {
        self.should.is_empty() && self.least == 0 && self.must_not.iter().all(|node| node.is_none())
    }

    /// The sum of required clauses gives the score; other clauses only filter.
    fn scores_as_conjunction(&self) -> bool {
        self.should.is_empty() && self.least == 0 && !self.must.is_empty()
    }

    /// The one clause that gives the score, where all others only filter.
    fn scored_alone(&self) -> Option<&Shared> {
        match self.must.as_slice() {
            [only] if self.should.is_empty() => Some(only),
            _ => None,
        }
    }
}

impl Node for BoolNode {
    fn says(&self) -> Option<String> {
        lucene_string::of_bool(self)
    }
    fn is_several(&self) -> bool {
        self.least <= 1
    }
    fn squares(&self) -> f32 {
        self.must.iter().chain(&self.should).map(|node| node.squares()).sum()
    }

    fn bits(&self, segment: &SegmentView) -> Result<Option<Arc<DocBits>>> {
        if self.least > 1 || self.must_not.iter().any(|node| node.is_all()) {
            return Ok(None);
        }
        let Some(mut sets) = all_bits(self.must.iter().chain(&self.filter), segment)? else {
            return Ok(None);
        };
        if self.least == 1 {
            match all_bits(self.should.iter(), segment)? {
                Some(any) if any.len() == self.should.len() => sets.push(Arc::new(DocBits::any_of(&any))),
                _ => return Ok(None),
            }
        }
        let excluded = self.must_not.iter().filter(|node| !node.is_none());
        let Some(excluded) = all_bits(excluded, segment)? else {
            return Ok(None);
        };
        let one = match sets.len() {
            0 => None,
            1 => sets.pop(),
            _ => Some(Arc::new(DocBits::all_of(&sets))),
        };
        Ok(match one {
            Some(one) if !excluded.is_empty() => Some(Arc::new(one.without(&excluded))),
            one => one,
        })
    }

    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let mut required: Vec<(Box<dyn Scorer>, bool)> = Vec::new();
        // A clause without a score only filters.
        let filters = |node: &&Shared| node.most_score() == Some(0.0);
        for node in self.must.iter().filter(|node| !filters(node)) {
            required.push((node.scorer(segment)?, true));
        }
        let mut sets = Vec::new();
        let filters = self.must.iter().filter(filters).chain(&self.filter);
        for node in filters.filter(|node| !node.is_all()) {
            match node.bits(segment)? {
                Some(bits) => sets.push(bits),
                None => required.push((node.scorer(segment)?, false)),
            }
        }
        if sets.len() > 1 {
            sets = vec![Arc::new(DocBits::all_of(&sets))];
        }
        if let Some(bits) = sets.pop() {
            match required.pop() {
                Some((only, scored)) if required.is_empty() => required.push((among(only, bits), scored)),
                other => {
                    required.extend(other);
                    required.push((Box::new(ConstantScorer::new(BitsDocs::new(bits), 0.0)), false));
                }
            }
        }
        let mut options = Vec::new();
        for node in &self.should {
            options.push(node.scorer(segment)?);
        }
        // Without others that score, the options count themselves.
        let how = match self.must.is_empty() && self.counts_matches() {
            true => Sum::Coordinated(self.should.len()),
            false => Sum::Added,
        };
        let mut set = if self.least > 0 {
            let options = or(options, self.least, how);
            if required.is_empty() {
                options
            } else {
                required.push((options, true));
                and(required)
            }
        } else {
            let required = if required.is_empty() {
                Box::new(AllScorer::new(segment.reader.max_doc(), 0.0))
            } else {
                and(required)
            };
            if options.is_empty() {
                required
            } else {
                with_option(required, or(options, 1, how))
            }
        };
        if !self.must_not.is_empty() {
            let mut excluded = Vec::new();
            for node in &self.must_not {
                excluded.push(node.scorer(segment)?);
            }
            set = without(set, or(excluded, 1, Sum::Added));
        }
        if !self.must.is_empty() && self.counts_matches() {
            let clauses: Vec<&Shared> = self.must.iter().chain(&self.should).collect();
            return scale_by_coord(set, &clauses, segment);
        }
        Ok(set)
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let mut details = Vec::new();
        let mut failed = false;
        let (mut sum, mut matching) = (0f64, 0usize);
        for node in &self.must {
            let one = node.explain(segment, doc)?;
            if one.matched {
                sum += f64::from(one.value);
                details.push(one);
            } else {
                failed = true;
                details.push(refusal("no match on required clause", node).of(vec![one]));
            }
        }
        for node in &self.filter {
            let one = node.explain(segment, doc)?;
            if one.matched {
                let reason = vec![Explained::new(0.0, "# clause"), one];
                details.push(Explained::new(0.0, "match on required clause, product of:").of(reason));
            } else {
                failed = true;
                details.push(refusal("no match on required clause", node).of(vec![one]));
            }
        }
        for node in &self.must_not {
            let one = node.explain(segment, doc)?;
            if one.matched {
                failed = true;
                details.push(refusal("match on prohibited clause", node).of(vec![one]));
            }
        }
        for node in &self.should {
            let one = node.explain(segment, doc)?;
            if one.matched {
                matching += 1;
                sum += f64::from(one.value);
                details.push(one);
            }
        }
        if failed {
            return Ok(Explained::no_match("Failure to meet condition(s) of required/prohibited clause(s)").of(details));
        }
        if matching < self.least {
            let what = format!("Failure to match minimum number of optional clauses: {}", self.least);
            return Ok(Explained::no_match(what));
        }
        let found = matching + self.must.len();
        let all = self.must.len() + self.should.len();
        let explained = Explained::new(sum as f32, "sum of:").of(details);
        if !self.counts_matches() || found == all {
            return Ok(explained);
        }
        let part = found as f32 / all as f32;
        let coord = Explained::new(part, format!("coord({found}/{all})"));
        Ok(Explained::new(sum as f32 * part, "product of:").of(vec![explained, coord]))
    }

    fn most_score(&self) -> Option<f32> {
        if !self.should.is_empty() {
            return None;
        }
        let mut sum = 0f64;
        for node in &self.must {
            sum += f64::from(node.most_score()?);
        }
        Some(sum as f32)
    }

    fn scored_clauses(&self) -> Option<ScoredClauses> {
        if let Some(only) = self.scored_alone() {
            return only.scored_clauses();
        }
        if self.coordinated {
            return None;
        }
        let all_required = self.scores_as_conjunction();
        let parts: Vec<&Shared> = match all_required {
            true => self.must.iter().collect(),
            false if self.scores_as_choice() => self.should.iter().filter(|node| !node.is_none()).collect(),
            false => return None,
        };
        let (mut clauses, mut roundings) = (Vec::new(), 0);
        for node in parts {
            let part = node.scored_clauses()?;
            // Of a clause that is required all terms are, as in a phrase, or it has one. A choice is one of terms alone.
            let fits = match all_required {
                true => part.all_required || part.clauses.len() == 1,
                false => node.as_term().is_some(),
            };
            if !fits {
                return None;
            }
            roundings = roundings.max(part.roundings + u32::from(part.clauses.len() > 1));
            clauses.extend(part.clauses);
        }
        Some(ScoredClauses {
            clauses,
            all_required,
            roundings,
        })
    }

    fn opens_quickly(&self) -> bool {
        let mut all = self.must.iter().chain(&self.filter).chain(&self.should).chain(&self.must_not);
        all.all(|node| node.opens_quickly())
    }

    fn restrictions(&self) -> Vec<Restriction> {
        let restriction = |excludes: bool| {
            move |node: &Shared| Restriction {
                node: node.clone(),
                excludes,
            }
        };
        let mut all: Vec<Restriction> = self.filter.iter().map(restriction(false)).collect();
        all.extend(self.must_not.iter().filter(|node| !node.is_none()).map(restriction(true)));
        if self.scores_as_conjunction() {
            all.extend(self.must.iter().flat_map(|node| node.restrictions()));
        }
        all
    }

    fn quick_count(&self, segment: &SegmentView, sight: &LiveDocs, most: u64) -> Result<Option<u64>> {
        if let Some(only) = self.scored_alone()
            && self.filter.is_empty()
            && self.must_not.iter().all(|node| node.is_none())
        {
            return only.quick_count(segment, sight, most);
        }
        if self.only_requires() {
            let sets = all_bits(self.must.iter().chain(&self.filter), segment)?;
            let sets = sets.filter(|sets| !sets.is_empty());
            return Ok(sets.map(|sets| sight.count_in_all(&sets, most)));
        }
        if !self.is_choice() {
            let bits = self.bits(segment)?;
            return Ok(bits.map(|bits| sight.count_in_all(&[bits], most)));
        }
        let mut bits: Option<DocBits> = None;
        let mut sets = Vec::new();
        for node in self.should.iter().filter(|node| !node.is_none()) {
            let Some(term) = node.as_term() else { return Ok(None) };
            // One of them alone may be more than anyone wants to know.
            if let Some(one) = term.quick_count(segment, sight, most)?
                && one > most
            {
                return Ok(Some(one));
            }
            if let Some(set) = term.bits(segment)? {
                sets.push(set);
            } else if let Some(mut docs) = postings(segment, &term.term, IndexRecordOption::Basic)? {
                let bits = bits.get_or_insert_with(|| DocBits::new(segment.reader.max_doc()));
                while docs.doc() != TERMINATED {
                    bits.insert(docs.doc());
                    docs.advance();
                }
            }
        }
        sets.extend(bits.map(Arc::new));
        if sets.is_empty() {
            return Ok(Some(0));
        }
        Ok(Some(sight.count_in_any(&sets, most)))
    }
}
