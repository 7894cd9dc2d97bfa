//! The tree of clauses: walks over children, and the inner hits of a clause.

use super::{Clause, InnerHits, Query};

/// The one list of the queries inside a clause, by shared and by exclusive reference.
macro_rules! each_child {
    ($clause:expr, $f:ident, $iter:ident, $as:ident) => {{
        match $clause {
            Clause::Bool(b) => {
                for q in b.must.$iter() {
                    $f(q)?;
                }
                for q in b.should.$iter() {
                    $f(q)?;
                }
                for q in b.filter.$iter() {
                    $f(q)?;
                }
                for q in b.must_not.$iter() {
                    $f(q)?;
                }
            }
            Clause::Boosting { positive, negative, .. } => {
                $f(positive)?;
                $f(negative)?;
            }
            Clause::ConstantScore { filter } => $f(filter)?,
            Clause::DisMax { queries, .. } => {
                for q in queries.$iter() {
                    $f(q)?;
                }
            }
            Clause::FunctionScore(fs) => {
                $f(fs.query.$as())?;
                for function in fs.functions.$iter() {
                    if let Some(q) = function.filter.$as() {
                        $f(q)?;
                    }
                }
            }
            Clause::ScriptScore { query, .. } => $f(query)?,
            Clause::Nested(n) => $f(n.query.$as())?,
            Clause::HasChild(h) => $f(h.query.$as())?,
            Clause::HasParent(h) => $f(h.query.$as())?,
            Clause::Join(j) => $f(j.query.$as())?,
            Clause::TermsLookup(t) => {
                if let Some(q) = t.query.$as() {
                    $f(q)?;
                }
            }
            _ => {}
        }
        Ok(())
    }};
}

impl Query {
    /// A match_all of score 1.
    pub fn all() -> Query {
        Clause::MatchAll.into()
    }
    /// The same tree with `f` applied to every clause, children first.
    ///
    /// # Errors
    /// `f` fails.
    pub fn rewrite(mut self, f: &mut dyn FnMut(Query) -> model::Result<Query>) -> model::Result<Query> {
        self.children_mut(&mut |child| {
            let taken = std::mem::replace(child, Query::all());
            *child = taken.rewrite(f)?;
            Ok(())
        })?;
        f(self)
    }
    /// Calls `f` with every direct child.
    ///
    /// # Errors
    /// `f` fails.
    pub fn children_mut(&mut self, f: &mut dyn FnMut(&mut Query) -> model::Result<()>) -> model::Result<()> {
        each_child!(&mut self.clause, f, iter_mut, as_mut)
    }
    /// Calls `f` with every direct child.
    ///
    /// # Errors
    /// `f` fails.
    pub fn children<'q>(&'q self, f: &mut dyn FnMut(&'q Query) -> model::Result<()>) -> model::Result<()> {
        each_child!(&self.clause, f, iter, as_ref)
    }
    /// Calls `f` with this clause and every one below it.
    pub fn visit<'q>(&'q self, f: &mut dyn FnMut(&'q Query)) {
        f(self);
        // Nothing fails here.
        let _ = self.children(&mut |child| {
            child.visit(f);
            Ok(())
        });
    }
    /// The `inner_hits` of this clause itself, with the name that they have in the answer.
    pub fn inner_hits(&self) -> Option<(String, &InnerHits)> {
        let (usual, spec) = match &self.clause {
            Clause::Nested(q) => (q.path.clone(), &q.inner_hits),
            Clause::HasChild(q) => (q.child_type.clone(), &q.inner_hits),
            Clause::HasParent(q) => (q.parent_type.clone(), &q.inner_hits),
            Clause::Join(q) => (q.index.join(","), &q.inner_hits),
            _ => return None,
        };
        let spec = spec.as_deref()?;
        Some((spec.name.clone().unwrap_or(usual), spec))
    }
    /// The same to be changed.
    pub fn inner_hits_mut(&mut self) -> Option<&mut InnerHits> {
        match &mut self.clause {
            Clause::Nested(q) => q.inner_hits.as_deref_mut(),
            Clause::HasChild(q) => q.inner_hits.as_deref_mut(),
            Clause::HasParent(q) => q.inner_hits.as_deref_mut(),
            Clause::Join(q) => q.inner_hits.as_deref_mut(),
            _ => None,
        }
    }
}
