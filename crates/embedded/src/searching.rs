//! From a target to the views of its indices, and from there to `search`.
//!
//! Not here: running queries (`search`), when something is published (`publish`).

use crate::alias_filters;
use crate::catalog::Catalog;
use crate::catalog::resolve::Resolved;
use crate::counts::share;
use crate::index_state::IndexState;
use crate::lanes::Turn;
use crate::open_views::ViewContent;
use crate::request_cache::{RefusalLimits, RequestKey};
use crate::scheduler::Interval;
use crate::store::Store;
use dsl::query::Query;
use dsl::query::script_source::{ScriptSource, ScriptText};
use dsl::search::{SearchRequest, SearchResponse, ShardFailure};
use engine::{See, View, ViewPromise};
use model::{Dialect, Error, ErrorKind, IndexName, Persona, Result, Target, settings};
use search::Searched;
use search::context::Context;
use search::interrupt::Interrupt;
use search::phases::Phases;
use segment::searchable::{IndexView, Searchable};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A search that runs.
struct Counted {
    states: Vec<Arc<IndexState>>,
    begun: Instant,
}

impl Counted {
    /// A search over them took so long in each phase.
    fn took(&self, phases: &Phases) {
        let fetch = share(phases.fetch.sum(), self.states.len());
        let suggest = share(phases.suggest.sum(), self.states.len());
        for state in &self.states {
            state.counts().fetch_time.add(fetch);
            state.counts().suggest_time.add(suggest);
            state
                .counts()
                .suggest
                .fetch_add(u64::from(!suggest.is_zero()), Ordering::Relaxed);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let took = share(self.begun.elapsed(), self.states.len());
        for state in &self.states {
            let before = state.counts().searching.fetch_sub(1, Ordering::Relaxed);
            assert!(before > 0, "a search that ends was counted when it began");
            state.counts().search_time.add(took);
        }
    }
}

impl Store {
    /// The sets that a request over a target sees; `view` names an open one.
    pub(crate) fn views_of(&self, target: &Target, view: Option<&str>) -> Result<Vec<Searched>> {
        if let Some(id) = view.filter(|id| engine::is_staging(id)) {
            return self.staged_views_of(target, id);
        }
        if let Some(id) = view {
            let content = self.views.use_view(id, self.env.monotonic())?;
            let (inside, failures) = content.resolve(target, self.env.wall_ms())?;
            return match failures.into_iter().next() {
                Some(failure) => Err(failure.error),
                None => self.search_views(&content.searchable, &inside),
            };
        }
        let catalog = self.catalog.now();
        let found = catalog.resolve(target, self.env.wall_ms())?;
        let searchable = self.moment(&found)?;
        self.search_views(&searchable, &found)
    }

    /// The sets that a search over some indices sees: one moment of all of them (but those that only a refresh publishes).
    fn moment(&self, found: &[Resolved]) -> Result<Arc<Searchable>> {
        let read;
        let found = if found.iter().any(|r| r.filters.is_some()) {
            read = self.with_others(found)?;
            &read
        } else {
            found
        };
        self.before_search(found)?;
        let newest = self.publication.now();
        if found.len() < 2 || self.is_aligned(&newest, found)? {
            return Ok(newest);
        }
        // Something was published between the two lines above: what one flip made is one moment.
        let timed: Vec<u32> = found
            .iter()
            .map(|r| r.entry.no)
            .filter(|no| !matches!(self.interval(*no), Interval::Never))
            .collect();
        self.publish_as(&timed, 0)
    }

    /// Whether no index lacks an operation that is older than what another index shows.
    fn is_aligned(&self, searchable: &Searchable, found: &[Resolved]) -> Result<bool> {
        let views = found.iter().filter_map(|r| Some((r, searchable.indices.get(&r.entry.no)?)));
        let highest = views.clone().map(|(_, view)| view.position).max().unwrap_or(0);
        for (r, view) in views {
            if view.position >= highest || matches!(self.interval(r.entry.no), Interval::Never) {
                continue;
            }
            let state = self.state(&r.entry)?;
            let pending = state.pending();
            if pending.last() <= view.position {
                continue;
            }
            let next = pending.first_behind(view.position);
            if state.load_built().position > view.position || next.is_none_or(|next| next <= highest) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Publishes what a search must see: writes older than the interval, and, of several indices, up to one moment.
    fn before_search(&self, found: &[Resolved]) -> Result<()> {
        let now = self.env.monotonic();
        let highest = {
            let searchable = self.publication.load();
            found
                .iter()
                .filter_map(|r| searchable.indices.get(&r.entry.no))
                .map(|view| view.position)
                .max()
                .unwrap_or(0)
        };
        let mut due = Vec::new();
        for r in found {
            let state = self.state(&r.entry)?;
            state.note_search(self.env.now_ms());
            state.counts().search.fetch_add(1, Ordering::Relaxed);
            let (oldest, overdue, first) = {
                let pending = state.pending();
                (pending.oldest(), pending.is_overdue(), pending.first_position())
            };
            let Some(oldest) = oldest else { continue };
            if !overdue && matches!(self.interval(r.entry.no), Interval::Never) {
                continue;
            }
            let late = overdue || self.is_late(r.entry.no, now.saturating_sub(oldest));
            if late || (found.len() > 1 && first.is_some_and(|first| first <= highest)) {
                due.push(r.entry.no);
            }
        }
        if due.is_empty() { Ok(()) } else { self.publish(&due, 0) }
    }

    /// The indices among these with writes that are older than their refresh interval.
    pub(crate) fn overdue(&self, found: &[Resolved]) -> Vec<u32> {
        let now = self.env.monotonic();
        let overdue = |r: &&Resolved| {
            let Ok(state) = self.state(&r.entry) else { return false };
            let oldest = state.pending().oldest();
            oldest.is_some_and(|oldest| self.is_late(r.entry.no, now.saturating_sub(oldest)))
        };
        found.iter().filter(overdue).map(|r| r.entry.no).collect()
    }

    /// Has a write of this age waited longer than the refresh interval of its index?
    fn is_late(&self, no: u32, age: Duration) -> bool {
        match self.interval(no) {
            Interval::Never => false,
            Interval::Default => age >= Duration::from_secs(1),
            Interval::Each(each) => age >= each,
        }
    }

    /// Nothing has to be published before a search, and what it goes through has an end in sight.
    pub(crate) fn is_quiet(&self, target: &Target) -> bool {
        let Ok(found) = self.catalog.now().resolve(target, self.env.wall_ms()) else {
            return false;
        };
        let searchable = self.publication.load();
        let mut docs = 0;
        found.iter().all(|r| {
            let Some(view) = searchable.indices.get(&r.entry.no) else {
                return false;
            };
            docs += view.segments.iter().map(|s| u64::from(s.reader.max_doc())).sum::<u64>();
            let state = self.indices.get(r.entry.no);
            docs <= INLINE_DOCS && state.is_some_and(|state| state.pending().oldest().is_none())
        })
    }

    /// The views of the readable indices of a target, and a failure for each other one. `Err` if none can be read.
    /// `view` names an open one.
    fn views_in_part(&self, target: &Target, view: Option<&str>) -> Result<(Vec<Searched>, Vec<ShardFailure>)> {
        if let Some(id) = view {
            let content = self.views.use_view(id, self.env.monotonic())?;
            let (inside, mut failures) = content.resolve(target, self.env.wall_ms())?;
            // Damage that was found since then.
            let sound = self.sound(inside, &mut failures);
            refuse_nothing(&sound, &failures)?;
            return Ok((self.search_views(&content.searchable, &sound)?, failures));
        }
        let mut failures = Vec::new();
        let sound = self.sound(self.catalog.now().resolve(target, self.env.wall_ms())?, &mut failures);
        refuse_nothing(&sound, &failures)?;
        for one in &sound {
            self.state(&one.entry)?;
        }
        let searchable = self.moment(&sound)?;
        Ok((self.search_views(&searchable, &sound)?, failures))
    }

    /// The indices that are not stopped for damage; the others are added to the failures.
    fn sound(&self, mut found: Vec<Resolved>, failures: &mut Vec<ShardFailure>) -> Vec<Resolved> {
        found.retain(|one| match self.state(&one.entry) {
            Err(error) if error.kind() == ErrorKind::Corruption => {
                let shards = settings::number(&one.entry.settings, settings::NUMBER_OF_SHARDS);
                failures.push(ShardFailure {
                    index: one.entry.name.as_str().to_owned(),
                    shards: u32::try_from(shards).unwrap_or(1),
                    error,
                });
                false
            }
            _ => true,
        });
        found
    }

    /// Runs a search; indices in which damage is found are left out, unless the request wants all or nothing.
    pub(crate) fn search(&self, target: &Target, request: &SearchRequest, see: See, turn: Turn<'_>) -> Result<SearchResponse> {
        let search_once = || self.search_once(target, request, see, turn);
        let found = search_once();
        let damaged = |e: &Error| matches!(e.kind(), ErrorKind::Corruption | ErrorKind::Internal);
        match found {
            // Damage that this search found first: without that index the rest can be answered.
            Err(error) if takes_parts(request) && damaged(&error) => match self.find_damage() {
                Some(damage) => search_once().map_err(|_| damage),
                None => Err(error),
            },
            found => found,
        }
    }

    /// # Errors
    /// A boost of an index that is not there. 2015 took it for none.
    fn check_boosts(&self, target: &Target, request: &SearchRequest) -> Result<()> {
        if request.dialect.rules.boosts_missing_indices {
            return Ok(());
        }
        for (name, _) in &request.indices_boost {
            let boosted = Target {
                expressions: vec![name.clone()],
                ..target.clone()
            };
            self.catalog.now().resolve(&boosted, self.env.wall_ms())?;
        }
        Ok(())
    }

    fn search_once(&self, target: &Target, request: &SearchRequest, see: See, turn: Turn<'_>) -> Result<SearchResponse> {
        let (views, failures) = if takes_parts(request) {
            self.views_in_part(target, request.view.as_deref())?
        } else {
            (self.views_of(target, request.view.as_deref())?, Vec::new())
        };
        for (view, _) in &views {
            model::blocks::check(&view.settings, view.name.as_str(), model::blocks::Level::Read)?;
        }
        self.check_boosts(target, request)?;
        let types: Vec<String> = if request.types.is_empty() {
            target.types.clone()
        } else {
            request.types.clone()
        };
        let counted = self.count_search(&views);
        self.with_context(see, request.dialect, &types, turn, |cx| {
            let joined = |filter: &Query| alias_filters::has_keys(filter);
            let kept = failures.is_empty() && !views.iter().filter_map(|(_, filter)| filter.as_ref()).any(joined);
            let asked = RequestKey {
                request,
                searched: &views,
                types: &types,
                see,
                limits: RefusalLimits {
                    max_clause_count: cx.max_clause_count,
                    max_buckets: cx.max_buckets,
                    expensive: cx.expensive,
                },
            };
            let run = |failures: Vec<ShardFailure>| {
                let mut done = run_in_part(&views, failures, request, cx);
                counted.took(&cx.phases);
                if let Ok(response) = &mut done {
                    response.fetch = cx.phases.fetch.sum();
                }
                done
            };
            if !(kept && asked.fits()) {
                return run(failures);
            }
            let figures: Vec<_> = views
                .iter()
                .map(|(view, _)| self.caches.of_index(view.no).answers.clone())
                .collect();
            let known = self.caches.answers().get(&asked);
            figures.iter().for_each(|figures| figures.look_up(known.is_some()));
            if let Some(known) = known {
                return Ok(SearchResponse {
                    fetch: Duration::ZERO,
                    ..(*known).clone()
                });
            }
            let found = run(Vec::new())?;
            if found.failures.is_empty() && !found.timed_out {
                self.caches.answers().put(&asked, &found, figures);
            }
            Ok(found)
        })
    }

    /// Counts a search of these views until it is dropped: that it runs, and how long it took.
    fn count_search(&self, views: &[Searched]) -> Counted {
        let states = self.indices.each_of(views.iter().map(|(view, _)| view.no));
        for state in &states {
            state.counts().searching.fetch_add(1, Ordering::Relaxed);
        }
        Counted {
            states,
            begun: Instant::now(),
        }
    }

    /// Calls `f` with what queries need.
    pub(crate) fn with_context<'t, T>(
        &self,
        see: See,
        dialect: Dialect,
        types: &[String],
        turn: impl Into<Turn<'t>>,
        f: impl FnOnce(&Context<'_>) -> Result<T>,
    ) -> Result<T> {
        let Turn { interrupt, helpers } = turn.into();
        let catalog = self.catalog.now();
        let (stored, compilations) = (catalog.clone(), self.script_compilations.clone());
        let scripts = move |source: &ScriptSource| {
            let program = compile(&stored.scripts, source)?;
            compilations.fetch_add(1, Ordering::Relaxed);
            Ok(program)
        };
        let number = |setting| usize::try_from(catalog.cluster_number(setting)).unwrap_or(usize::MAX);
        f(&Context {
            phases: Phases::default(),
            now_ms: self.env.wall_ms(),
            max_clause_count: number(settings::MAX_CLAUSE_COUNT),
            max_buckets: number(settings::MAX_BUCKETS),
            max_phrase_ways: number(settings::MAX_PHRASE_WAYS),
            scripts: Arc::new(scripts),
            see,
            interrupt: interrupt.clone(),
            helpers,
            lost_sorts: dialect.persona.is_opensearch() || dialect.persona == Persona::Es7,
            expensive: catalog.cluster_text(settings::ALLOW_EXPENSIVE_QUERIES) != "false",
            opensearch: matches!(dialect.persona, Persona::Opensearch2 | Persona::Opensearch3),
            bm25_factor: if dialect.persona == Persona::Opensearch3 { 1.0 } else { 2.2 },
            types: types.to_vec(),
            profile: false.into(),
            filters_score: true.into(),
        })
    }

    /// Opens a view: one moment of all indices named.
    pub(crate) fn open_view(&self, target: &Target, keep_alive: Duration) -> Result<View> {
        let catalog = self.catalog.now();
        self.check_keep_alive(&catalog, keep_alive)?;
        let found = catalog.resolve(target, self.env.wall_ms())?;
        self.check_view_count(&catalog)?;
        let id = self.fresh_view_id();
        let mut failures = Vec::new();
        let found = self.sound(found, &mut failures);
        refuse_nothing(&found, &failures)?;
        let read = self.with_others(&found)?;
        self.keep(id, (found, failures), &read, catalog, keep_alive)
    }

    /// Refuses one more view of a client where there are as many as allowed.
    pub(crate) fn check_view_count(&self, catalog: &Catalog) -> Result<()> {
        let max = catalog.cluster_number(settings::MAX_OPEN_SCROLL);
        self.expire_views();
        if self.views.count() >= max {
            return Err(Error::new(
                ErrorKind::TooManyScrolls,
                format!(
                    "Trying to create too many scroll contexts. Must be less than or equal to: [{max}]. \
                     This limit can be set by changing the [search.max_open_scroll_context] setting."
                ),
            ));
        }
        Ok(())
    }

    /// An id that nobody guesses.
    pub(crate) fn fresh_view_id(&self) -> String {
        let clock = self.env.clock();
        format!("{}{}", engine::clock::uuid(clock), engine::clock::uuid(clock))
    }

    /// Keeps a moment of some indices under an id, and of all that is read with them; and which could not be read.
    pub(crate) fn keep(
        &self,
        id: String,
        (found, failures): (Vec<Resolved>, Vec<ShardFailure>),
        read: &[Resolved],
        catalog: Arc<Catalog>,
        keep_alive: Duration,
    ) -> Result<View> {
        let searchable = self.moment(read)?;
        Ok(self.keep_moment(id, (found, failures), read, &searchable, catalog, keep_alive))
    }

    /// Keeps these sets of the indices that are read.
    pub(crate) fn keep_moment(
        &self,
        id: String,
        (found, failures): (Vec<Resolved>, Vec<ShardFailure>),
        read: &[Resolved],
        searchable: &Searchable,
        catalog: Arc<Catalog>,
        keep_alive: Duration,
    ) -> View {
        let kept: HashMap<u32, Arc<IndexView>> = read
            .iter()
            .filter_map(|r| searchable.indices.get(&r.entry.no).map(|view| (r.entry.no, view.clone())))
            .collect();
        let as_of = if kept.values().all(|view| view.position >= searchable.position) {
            Some(searchable.position)
        } else {
            kept.values().map(|v| v.position).min()
        };
        let view = View {
            id,
            as_of,
            indices: found.iter().map(|r| r.entry.name.clone()).collect(),
            promise: ViewPromise::OneMoment,
            created_ms: self.env.wall_ms(),
            keep_alive,
        };
        let searchable = Arc::new(Searchable {
            indices: kept,
            position: searchable.position,
        });
        let content = ViewContent {
            searchable,
            catalog,
            opened: found,
            failures: failures.into(),
        };
        self.views.insert(view.clone(), content, self.env.monotonic());
        view
    }

    /// Refuses to keep a view for longer than allowed.
    pub(crate) fn check_keep_alive(&self, catalog: &Catalog, keep_alive: Duration) -> Result<()> {
        let setting = settings::MAX_KEEP_ALIVE;
        let text = catalog.cluster_text(setting);
        let most = model::units::parse_duration(&text, setting.name)?;
        if keep_alive > most {
            return Err(Error::illegal(format!(
                "Keep alive for request ({}) is too large. It must be less than ({text}). \
                 This limit can be set by changing the [{}] cluster level setting.",
                model::units::render_duration(keep_alive),
                setting.name
            )));
        }
        Ok(())
    }

    pub(crate) fn validate(&self, target: &Target, query: &Query) -> Result<Vec<(IndexName, Result<String>)>> {
        let views = self.views_of(target, None)?;
        self.with_context(See::Plain, Dialect::default(), &target.types, &Interrupt::default(), |cx| {
            Ok(views
                .iter()
                .map(|one| (one.0.name.clone(), search::validate(one, query, cx)))
                .collect())
        })
    }
}

/// May indices be left out? What a transaction reads in its staged view is whole.
fn takes_parts(request: &SearchRequest) -> bool {
    request.allow_partial && !request.view.as_deref().is_some_and(engine::is_staging)
}

/// Where no index can be read, the first failure is the answer.
fn refuse_nothing(sound: &[Resolved], failures: &[ShardFailure]) -> Result<()> {
    match failures.first().filter(|_| sound.is_empty()) {
        Some(failure) => Err(failure.error.clone()),
        None => Ok(()),
    }
}

/// Runs a search over those of its indices that can answer it; what the others refuse is told beside. What all of them
/// refuse is the request's fault.
fn run_in_part(
    views: &[Searched],
    mut failures: Vec<ShardFailure>,
    request: &SearchRequest,
    cx: &Context<'_>,
) -> Result<SearchResponse> {
    let found = match search::run(views, request, cx) {
        Err(error) if request.allow_partial && views.len() > 1 && is_of_an_index(&error) => {
            let mut able = able_of(views, &mut failures, |one| search::compiles(one, request, cx));
            // A suggestion or a script field that cannot work shows it only when it is tried.
            if able.len() == views.len() && !(request.suggest.is_empty() && request.script_fields.is_empty()) {
                let alone = SearchRequest {
                    aggs: Vec::new(),
                    ..request.clone()
                };
                able = able_of(views, &mut failures, |one| search::run(std::slice::from_ref(one), &alone, cx));
            }
            if able.is_empty() || able.len() == views.len() {
                return Err(error);
            }
            search::run(&able, request, cx)?
        }
        found => found?,
    };
    Ok(SearchResponse { failures, ..found })
}

/// May the mapping or a document of one index be the cause?
fn is_of_an_index(error: &Error) -> bool {
    error.status() == 400 || error.kind() == ErrorKind::Script
}

/// The indices that can do something; the others are added to the failures.
fn able_of<T>(views: &[Searched], failures: &mut Vec<ShardFailure>, can: impl Fn(&Searched) -> Result<T>) -> Vec<Searched> {
    let mut able = Vec::with_capacity(views.len());
    for searched in views {
        match can(searched) {
            Ok(_) => able.push(searched.clone()),
            Err(error) => failures.push(ShardFailure {
                index: searched.0.name.as_str().to_owned(),
                shards: u32::try_from(searched.0.number("index.number_of_shards").unwrap_or(1)).unwrap_or(1),
                error,
            }),
        }
    }
    able
}

/// Searches over more documents are never run where they arrive.
const INLINE_DOCS: u64 = 1_000_000;

/// Compiles an inline or a stored script.
pub(crate) fn compile(stored: &std::collections::BTreeMap<String, Value>, source: &ScriptSource) -> Result<script::Program> {
    let lang = |name: Option<&str>| {
        let name = name.unwrap_or(if source.defaults_to_groovy { "groovy" } else { "painless" });
        script::Lang::parse(name)
    };
    match &source.text {
        ScriptText::Inline(text) => script::compile(text, lang(source.lang.as_deref())?),
        ScriptText::Stored(id) => {
            let body = stored.get(id).ok_or_else(|| {
                Error::new(
                    ErrorKind::ScriptMissing,
                    format!("unable to find script [{id}] in cluster state"),
                )
            })?;
            let body = if body["script"].is_object() { &body["script"] } else { body };
            script::compile(body["source"].as_str().unwrap_or_default(), lang(body["lang"].as_str())?)
        }
    }
}
