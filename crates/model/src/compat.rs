//! The table of dialect rules: where Elasticsearch 2 behaves otherwise than today's servers, one row a rule.
//!
//! Code asks a rule by its name, which says what Elasticsearch 2 does: `dialect.rules.skips_unknown_keys`,
//! `mapping.rules().has_all_field`. docs/dialects.md is generated from the rows. Not here: types as part of an address
//! ([`crate::DocId`]), differences among today's servers ([`Persona`]), how a rule is carried out.

use crate::persona::Persona;

/// The requests for which a rule holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// Typed requests: persona `es2`, a type in the URL, or every named index is typed.
    Typed,
    /// Typed requests, except under persona `es7`, which answers them in its own shapes.
    TypedNotEs7,
    /// Typed requests and all of persona `es2`.
    TypedOrEs2,
    /// Typed requests of persona `es2`.
    TypedEs2,
    /// Typed requests, and all of personas that show the type `_doc`: `es7` and `opensearch1`.
    TypesShown,
    /// Typed indices, whoever asks.
    TypedIndex,
}

impl Holds {
    const fn includes(self, persona: Persona, typed: bool) -> bool {
        match self {
            Holds::Typed | Holds::TypedIndex => typed,
            Holds::TypedNotEs7 => typed && !matches!(persona, Persona::Es7),
            Holds::TypedOrEs2 => typed || matches!(persona, Persona::Es2),
            Holds::TypedEs2 => typed && matches!(persona, Persona::Es2),
            Holds::TypesShown => typed || matches!(persona, Persona::Es7 | Persona::Opensearch1),
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The name by which code asks; it is true where Elasticsearch 2 is followed.
    pub name: &'static str,
    /// The heading of the page under which it stands.
    pub area: &'static str,
    /// Where it holds.
    pub holds: Holds,
    /// The subject, in a few words.
    pub about: &'static str,
    /// What Elasticsearch 2 does.
    pub es2: &'static str,
    /// What today's servers do.
    pub today: &'static str,
}

macro_rules! rules {
    (
        $(#[$doc:meta])* $rules:ident;
        $($area:literal { $($name:ident $holds:ident $about:literal, $es2:literal, $today:literal;)* })*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $rules {
            $($(
                #[doc = concat!($about, ": ", $es2)]
                pub $name: bool,
            )*)*
        }

        impl $rules {
            /// Every row, in the order of the page.
            pub const ROWS: &[Rule] = &[$($(Rule {
                name: stringify!($name),
                area: $area,
                holds: Holds::$holds,
                about: $about,
                es2: $es2,
                today: $today,
            },)*)*];

            const fn new(persona: Persona, typed: bool) -> $rules {
                $rules { $($($name: Holds::$holds.includes(persona, typed),)*)* }
            }
        }
    };
}

rules! {
    /// The rules of a request: how its body is read, run and answered.
    Rules;

    "Addresses" {
        has_types Typed "Types", "A document's address is index, type and id.", "It is index and id.";
        takes_any_id Typed "Ids of bulk lines", "Any length; an empty one is an id.",
            "At most 512 bytes; an empty one is refused.";
        null_index_overrides_url Typed "`_index` of a bulk line that is null or empty", "No index is given.",
            "The index of the URL counts.";
    }

    "Bodies" {
        reads_loose_json Typed "JSON that is not strict",
            "Keys without quotes, single quotes, comments and line ends in texts are read; text behind the value is not.",
            "It is refused.";
        takes_duplicate_keys Typed "A key that is given twice in one object of a query", "It is taken.", "It is refused.";
        reads_boolean_words Typed "Booleans", "`false`, `0`, `no`, `off` and an empty text are false, everything else is true.",
            "`true` and `false` alone are read.";
        skips_unknown_keys Typed "Keys that nobody knows, outside query clauses", "They are passed over.",
            "They are refused with the nearest known key.";
        tolerates_value_types Typed "A value of another JSON type than the option has",
            "It is converted, passed over, or refused in other words.", "It is refused with both types.";
        tolerates_value_bounds Typed "Numbers out of range, such as a negative boost", "They are taken.", "They are refused.";
        tolerates_missing_options Typed "An option that is needed and missing",
            "A default stands in, or the run of the request finds it out.", "It is refused when the body is read.";
        tolerates_conflicting_options Typed "Options that exclude each other", "They are taken.", "They are refused.";
        tolerates_unknown_words Typed "An unknown word for an option with a fixed list of words", "A default stands in.",
            "It is refused.";
        takes_former_options Typed "Options that later versions removed or renamed",
            "They are taken, such as `script_id`, `fields` of an update, `minimum_number_should_match`.",
            "They are refused as unknown.";
        takes_former_times Typed "Times without unit, in weeks, and in fractions", "They are taken; no unit means milliseconds.",
            "They are refused.";
        refuses_scalar_sorts Typed "A number or a boolean as `sort`", "It is refused.", "It is a field's name.";
        tolerates_incomplete_lines Typed "The last line of `_bulk` and `_msearch`",
            "It needs no line end; a header without a body is a search for everything.",
            "It ends with a line end; a header without a body asks nothing.";
        unreadable_items_stand_alone Typed "A search of `_msearch` that cannot be read", "It fails alone.",
            "The whole request is refused.";
        checks_op_type Typed "`op_type` of a bulk line", "Other words than `create` and `index` are refused.",
            "Other words change nothing.";
    }

    "Refusals" {
        refusals_are_unwrapped Typed "The refusal of an option's value", "It stands by itself.",
            "It is the cause of one that names the option and its position.";
        fails_to_derive_content Typed "A body that is no object", "`Failed to derive xcontent`.",
            "The token that was found and the one expected.";
        shards_parse_bodies Typed "The body of a search that cannot be read",
            "`search_phase_execution_exception` with a failure of each shard, for shards parse it.",
            "The parser's refusal, for the node parses it.";
        query_parsing_exceptions Typed "A clause that cannot be read", "`query_parsing_exception` in the words of that parser.",
            "`parsing_exception` or `illegal_argument_exception`.";
        sort_refusal_words Typed "Options of a sort that cannot be read", "`sort option [x] not supported` and the like.",
            "The unknown word and its position.";
        script_parse_exceptions Typed "A script that cannot be read", "`script_parse_exception`.",
            "`x_content_parse_exception` or `illegal_argument_exception`.";
        search_parse_exceptions Typed "A search, sort or aggregation that cannot be read", "`search_parse_exception`.",
            "`parsing_exception` or `illegal_argument_exception`.";
        number_refusals_are_parser_errors Typed "A version that is no number, in `_mget` and `_bulk`",
            "The number parser's own refusal.", "`illegal_argument_exception`.";
        validates_alias_actions Typed "Alias actions without their parts",
            "`action_request_validation_exception` with the list of missing parts.", "`illegal_argument_exception`.";
    }

    "Queries" {
        allows_empty_clauses Typed "An empty clause `{}`",
            "`bool` leaves it out, a filter aggregation matches all, everything else matches nothing.", "It is refused.";
        has_legacy_clauses Typed "Clauses that later versions removed",
            "`filtered`, `and`, `or`, `not`, `missing`, `limit`, `query`, `fquery`, and names in camel case.",
            "They are unknown.";
        options_beside_field Typed "`_name`, `boost` and `_cache` beside the field of a clause", "They are options.",
            "A second field is refused.";
        filters_need_a_should Typed "`should` of a `bool` in a filter", "One must match, whatever else is there.",
            "One must match if nothing else is there.";
        caps_minimum_should_match Typed "`minimum_should_match` above the number of clauses", "All must match.", "Nothing matches.";
        lowercases_expanded_terms Typed "Wildcards and prefixes in query strings",
            "They are lowercased, unless `lowercase_expanded_terms` is false.", "The field's normalizer decides.";
        splits_on_whitespace Typed "Words of a query string", "Each is analyzed alone.", "Neighbours are analyzed together.";
        range_bounds_ignore_order Typed "`from`, `gt` and the like in one `range`",
            "`from` and `to` win, and `include_lower` changes the others, too.", "What comes later in the body counts.";
        zero_children_is_unlimited Typed "`max_children: 0` of `has_child`", "No limit.", "A limit of none.";
        ids_need_values Typed "`ids` without a list of values", "It is refused.", "It matches nothing.";
        multi_match_needs_fields Typed "`multi_match` without fields", "It is refused.", "It searches the default fields.";
        nests_queries_deeper Typed "The depth of queries",
            "At least 100, for programs of that time nest deeply.", "`indices.query.max_nested_depth`.";
        defaults_to_groovy Typed "The language of a script that names none", "Groovy.", "Painless.";
        script_options_beside_script Typed "`params` and `lang` beside a script", "They are the script's.", "They are unknown.";
    }

    "Searches" {
        counts_all_hits Typed "The total of a search", "All matches are counted.", "It is exact up to 10,000 unless asked for.";
        fields_are_stored_fields Typed "`fields` of a search", "Stored fields, or values of the source.",
            "Values as their fields read them.";
        has_free_inner_hits Typed "`inner_hits` at the top of a search", "They select nested objects and children.",
            "They are unknown.";
        terminates_across_indices Typed "`terminate_after`", "The whole search ends after so many.",
            "Each index ends after so many.";
        counts_without_scores TypedEs2 "`max_score` of a search with `size: 0`", "0.", "Null.";
        scores_without_hits Typed "`max_score` of a search with `size: 0` through a typed index of today's listeners",
            "The best score.", "Null.";
        shows_hits_of_suggestions Typed "A search that asks for suggestions alone", "It has hits.", "It has none.";
        boosts_missing_indices Typed "`indices_boost` of an index that does not exist", "It is passed over.", "It is refused.";
        shows_hits_of_exclusions Typed "Inner hits of clauses in `must_not`", "They are listed, and empty.", "They are left out.";
        minimum_score_filters_groups Typed "`min_score` and the inner hits of `collapse`",
            "It leaves members out and the totals are exact.", "It is not asked of members.";
        shows_raw_doc_values Typed "`fielddata_fields`",
            "Dates are milliseconds and booleans 1 and 0; metadata fields have no values.",
            "Values in the field's format; `_index` and `_seq_no` have values.";
        nested_sources_are_relative Typed "The source of nested inner hits", "Filters and fields are paths inside the object.",
            "They are paths from the document.";
        omits_null_script_fields Typed "A script field that is null", "It is left out.", "It is a list of null.";
        suggestions_show_output Typed "Options of the completion suggester", "They show `output` and `payload`.",
            "They show the text and the document.";
        sorts_by_score_alone Typed "`search_after` with a sort by `_score` alone", "It is taken.", "It is refused.";
    }

    "Aggregations" {
        zero_size_is_unlimited Typed "`size: 0` of `terms`", "All terms; `shard_size: -1` is the default.", "It is refused.";
        histograms_have_whole_keys Typed "Keys and intervals of `histogram`", "Intervals below 1 are refused; keys are whole numbers.",
            "Both have fractions.";
        sampler_diversifies Typed "`sampler` with a field", "It is `diversified_sampler`.", "It is refused.";
        range_bounds_have_texts Typed "Bounds of `range` and `ip_range`", "Numbers, each with a text such as `from_as_string`.",
            "Numbers, with a text where there is a format; addresses are texts.";
        sum_of_nothing_is_null Typed "`sum` in `stats` and `extended_stats` of no values", "Null.", "0.";
        former_percentiles Typed "Percentiles and their ranks", "The estimates of that version; a missing one is the text `NaN`.",
            "Those of today's version; a missing one is null.";
        aggregations_fail_at_run Typed "Aggregations that cannot run: without field, `global` inside another",
            "`aggregation_execution_exception`.", "`illegal_argument_exception`.";
        significant_ties_by_term Typed "`significant_terms` of one score", "The lesser term is first; `bg_count` is left out.",
            "The greater term is first; `bg_count` is shown.";
        single_shard_size Typed "Candidates of `significant_terms` in an index with one shard", "As many as are wanted.",
            "One and a half times as many, and ten.";
        children_need_child_type Typed "`children` of a type that is only a parent", "It is refused.", "It is empty.";
        refuses_percentile_options_of_1 Typed "`compression`, `method` and their like outside `tdigest` and `hdr`",
            "They are refused, as Elasticsearch 1 had them.", "They are taken.";
        tolerates_empty_top_hits Typed "`top_hits` with `size: 0`", "It is taken.", "It is refused.";
    }

    "Documents" {
        has_document_times Typed "`_timestamp` and `_ttl`", "A document has a time, and a life after which it is deleted.",
            "They are unknown.";
    }

    "Answers" {
        hits_total_is_number TypedOrEs2 "`hits.total`", "A number.", "An object with `value` and `relation`.";
        shows_doc_type TypesShown "`_type` of hits and documents", "It is shown.", "It is left out; `es7` and `opensearch1` show `_doc`.";
        omits_later_members Typed "Members that later versions added, such as `skipped`, `_ignored`, `shards_acknowledged`",
            "They are left out.", "They are shown.";
    }

    "Aggregations and fields of a search" {
        joda_request_patterns Typed "The letters of date patterns in aggregations", "Those of Joda.", "Those of `java.time`.";
        skips_missing_columns Typed "`fielddata_fields` of a keyword without a column", "It has no values.", "It is refused.";
    }
}

rules! {
    /// The rules of an index: how its documents are read, searched and sorted.
    IndexRules;

    "Mappings" {
        joda_patterns TypedIndex "The letters of date patterns", "Those of Joda.", "Those of `java.time`.";
    }

    "Documents of an index" {
        has_all_field TypedIndex "`_all`", "Every value is in it; queries without a field search it.", "Queries without a field search all fields.";
    }

    "Searches of an index" {
        classic_similarity TypedIndex "The default similarity", "TF/IDF with a query norm and coordination.", "BM25.";
        boosts_phrases_by_mapping TypedIndex "`boost` of a mapping", "It counts for phrases and expanded words, too.", "It counts for terms.";
        coerces_query_values TypedIndex "Values of queries and sorts", "Words are read as booleans; fractions are cut for whole numbers.",
            "They are refused.";
        ignores_columns TypedIndex "Fields that are not indexed but have a column", "Queries find nothing.", "Queries read the column.";
        dates_are_moments TypedIndex "Dates that leave parts out", "The moment when that time begins.", "All of that time.";
        has_type_fields TypedIndex "`_type`, `_uid` and `_parent`", "They are fields to sort, count and query by.", "They are unknown.";
        metadata_is_searchable TypedIndex "Queries on `_source`, `_version`, `_seq_no`, `_field_names`", "They match nothing or everything.",
            "They are refused.";
        tolerates_sort_options TypedIndex "Sort modes and fields that make no sense", "The least or greatest value counts.", "They are refused.";
        tolerates_query_bounds TypedIndex "Places, distances and numbers out of range", "They are taken.", "They are refused.";
        tolerates_unknown_names TypedIndex "Analyzers and fields that do not exist", "The default analyzer; no suggestions.", "They are refused.";
        zones_are_for_dates TypedIndex "`time_zone` of a range over other values than dates", "It is refused.", "It changes nothing.";
        planar_geo_distance TypedIndex "Distances on the Earth", "The formulas of Lucene 5.", "The formulas of today's Lucene.";
        refuses_in_former_words TypedIndex "Refusals of a query's values", "The parser's own refusal.", "`query_shard_exception` around it.";
    }

    "Queries and aggregations of an index" {
        lacks_seq_no TypedIndex "`_seq_no`", "It is no field.", "It is a number to query, aggregate and compute with.";
        ids_have_no_order TypedIndex "A sort by `_id`", "It finds no values.", "It sorts by the id.";
        epochs_ignore_zones TypedIndex "`time_zone` of a range whose bounds are numbers", "It changes nothing.",
            "The numbers are local times of that zone.";
        decay_numbers_are_milliseconds TypedIndex "`scale` and `offset` of a decay over dates that have no unit",
            "They are milliseconds.", "They are refused, except 0.";
        phrase_prefixes_score_once TypedIndex "`match_phrase_prefix` of one word", "All its terms have one score.",
            "Each term is scored by itself.";
        keeps_expanded_words TypedIndex "Patterns and fuzzy words of query strings", "They stay as they are written.",
            "Their field's analyzer normalizes them.";
        explains_empty_queries TypedIndex "`_validate?explain` of a query that matches nothing", "The query in Lucene's words.",
            "`MatchNoDocsQuery`.";
        tolerates_unfit_fields TypedIndex "Fields and formats that a function or an aggregation cannot use",
            "They are taken, and find nothing.", "They are refused.";
        nested_aggregations_fail_at_run TypedIndex "`nested` with the path of an object that is not nested",
            "`aggregation_execution_exception`.", "`illegal_argument_exception`.";
        field_chooses_highlighter TypedIndex "The highlighter of a request that names none",
            "`fvh` for fields with term vectors, else `plain`; `postings` needs offsets.", "`unified`, and so is `postings`.";
        keeps_document_times TypedIndex "`_timestamp` and `_ttl` of a mapping", "Documents have them.", "They are unknown.";
    }
}

const fn of_persona(persona: Persona) -> [Rules; 2] {
    [Rules::new(persona, false), Rules::new(persona, true)]
}

static ES2: [Rules; 2] = of_persona(Persona::Es2);
static ES7: [Rules; 2] = of_persona(Persona::Es7);
static ES8: [Rules; 2] = of_persona(Persona::Es8);
static ES9: [Rules; 2] = of_persona(Persona::Es9);
static OPENSEARCH1: [Rules; 2] = of_persona(Persona::Opensearch1);
static OPENSEARCH2: [Rules; 2] = of_persona(Persona::Opensearch2);
static OPENSEARCH3: [Rules; 2] = of_persona(Persona::Opensearch3);
static INDEX: [IndexRules; 2] = [IndexRules::new(Persona::Es8, false), IndexRules::new(Persona::Es8, true)];

impl Rules {
    /// The rules of a request to a persona; `typed`: its addresses have types.
    pub fn of(persona: Persona, typed: bool) -> &'static Rules {
        let both = match persona {
            Persona::Es2 => &ES2,
            Persona::Es7 => &ES7,
            Persona::Es8 => &ES8,
            Persona::Es9 => &ES9,
            Persona::Opensearch1 => &OPENSEARCH1,
            Persona::Opensearch2 => &OPENSEARCH2,
            Persona::Opensearch3 => &OPENSEARCH3,
        };
        &both[usize::from(typed)]
    }
}

impl IndexRules {
    /// The rules of an index; `typed`: its documents have types.
    pub fn of(typed: bool) -> &'static IndexRules {
        &INDEX[usize::from(typed)]
    }
}
