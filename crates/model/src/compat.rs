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
    /// Elasticsearch 2's behaviour.
    pub es2: &'static str,
    /// The behaviour of today's servers.
    pub today: &'static str,
}

macro_rules! rules {
    (
        $(#[$doc:meta])* $rules:ident;
        $($area:literal { $($name:ident $holds:ident $about:literal, $es2:literal, $today:literal;)* })*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $rules {
            $($(
                #[doc = concat!($about, ": ", $es2)]
                pub $name: bool,
            )*)*
        }

        /// Without the rules: they follow from persona and types, and texts of requests are made for caches.
        impl std::fmt::Debug for $rules {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($rules)).finish_non_exhaustive()
            }
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
        star_is_a_type TypedNotEs7 "The type `*` in a URL", "A type of that name.", "All types.";
        names_expressions Typed "`resource.type` in refusals of a document's index", "`index_expression`.", "`index_or_alias`.";
        removes_through_aliases TypedNotEs7 "Deleting an index by the name of an alias", "The indices behind it are deleted.", "It is refused.";
        skips_missing_indices TypedNotEs7 "Missing indices in the cluster state and `_search_shards`", "They are passed over.",
            "They are refused.";
        deletions_create_indices Typed "Deleting a document of a missing index", "The index is made.", "404.";
    }

    "URLs" {
        skips_unknown_parameters Typed "Parameters that nobody knows", "They are passed over, and booleans are words.",
            "They are refused with the nearest known one.";
        checks_escapes Typed "Broken escapes such as `%zz` in a path", "They are refused.", "They stand for themselves.";
        answers_in_request_format Typed "A body in YAML", "The answer is in YAML.", "`format` and `Accept` decide.";
        has_index_features Typed "`GET /{index}/_settings,_mappings` and the like", "The named parts of the index.", "No such endpoint.";
        takes_query_beside_body Typed "`q` beside a body", "It counts.", "It is refused where there is a body.";
        former_unknown_paths Typed "Paths without an endpoint", "A missing index, an invalid name, or a sentence as text.",
            "A refusal with the method and path.";
        has_former_search_types Typed "The search types `count` and `scan`", "They are known.", "They are unknown.";
        searches_chosen_shards TypedNotEs7 "`preference` and `routing` that choose no shard", "Nothing is found.",
            "They change nothing.";
        ignores_active_shards TypedNotEs7 "`wait_for_active_shards` of writes", "It is not read.",
            "It is checked.";
        takes_settings_in_url Typed "Settings as parameters of `PUT /{index}/_settings`", "They are taken.", "They are unknown.";
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
        validates_missing_parts Typed "Alias actions and cluster settings without their parts",
            "`action_request_validation_exception` with the list of missing parts.", "`illegal_argument_exception`.";
        empty_documents_fail_to_map Typed "A document without a body", "`mapper_parsing_exception`.", "`parse_exception`.";
        creation_refusal_words Typed "An index that cannot be made", "`index_creation_exception` and `validation_exception`.",
            "`illegal_argument_exception`, `parse_exception`.";
        settings_refusal_words Typed "Settings of an index that cannot change", "`Can't update non dynamic settings` with a list of indices.",
            "The setting and why.";
        scroll_refusal_words Typed "Scroll ids that cannot be read", "`Malformed scrollId` with the id.", "`Cannot parse scroll id`.";
        former_words TypedOrEs2 "Missing, closed and existing indices, invalid names, blocks", "The sentences of that version.",
            "The sentences of today's.";
        script_failures_are_remote Typed "A script of an update that does not compile", "`remote_transport_exception` at the root.",
            "`illegal_argument_exception`.";
        one_shard_words TypedNotEs7 "`_explain` of a query that cannot be run", "The exception of the shard by itself.",
            "The cause in the shard's failure.";
        lookups_fail_at_shards TypedNotEs7 "A terms lookup in a missing index", "`search_phase_execution_exception`.",
            "`index_not_found_exception`.";
        omits_index_uuids TypedNotEs7 "`index_uuid` in refusals", "It is left out.", "It is shown.";
        validation_asks_once Typed "`_validate/query`", "The first refusal is text, and `all_shards` is not known.",
            "Each shard explains with `all_shards`; a refusal has its cause.";
        shards_parse_items TypedNotEs7 "A search of `_msearch` that cannot be read, in its answer",
            "`search_phase_execution_exception`.", "The parser's refusal.";
        views_take_index_options TypedNotEs7 "`ignore_unavailable` beside a point in time", "It is taken.", "It is refused.";
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
        guards_updates_by_version Typed "`version` of updates, deletions and bulk lines", "A condition on the current version.",
            "It is refused, unless it is external.";
        guards_writes_by_version TypedNotEs7 "`version` of writes and reads by id", "A condition on the current version; `force` sets it.",
            "It is refused for writes, unless it is external.";
        existence_ignores_version TypedNotEs7 "`version` of `HEAD`", "It is passed over.", "It is compared.";
        sources_have_versions TypedNotEs7 "`version` of `_source`", "It is compared.", "It is passed over.";
        generated_ids_are_plain_writes Typed "The operation of a write without id", "`index`.", "`create`.";
        documents_show_fields TypedNotEs7 "`fields` of reads by id", "Stored fields, or values of the source.",
            "`stored_fields` is the name, and sources are not looked at.";
        refreshes_searched_reads TypedNotEs7 "`refresh` of a read by id", "It counts with `realtime=false`.", "It always counts.";
        missing_source_is_empty Typed "`_source` of a missing document", "404 without a body.", "404 with a refusal.";
        invalid_items_fail_alone TypedNotEs7 "Bulk items that could never be carried out", "Each fails alone.",
            "The whole bulk is refused.";
        has_percolator_type TypedNotEs7 "The type `.percolator`", "Its documents are kept queries, which searches pass over.",
            "It is a type like others.";
        has_script_languages Typed "Stored scripts", "They have a language, an id and a version.", "They have an id and a context.";
        former_document_answers TypedNotEs7 "Answers and conflicts of writes and reads by id", "`created` and `found`; refusals name the shard.",
            "`result`, `_seq_no` and `_primary_term`.";
        former_updates Typed "Scripts of updates", "`ctx.op` is empty; `ctx` has `_timestamp` and `_ttl`.", "`ctx.op` is `index`.";
    }

    "Indices" {
        bodies_are_settings Typed "A creation body without known parts", "It is the settings.", "It is refused.";
        skips_unknown_settings Typed "Settings of the cluster that nobody knows", "They are passed over.", "They are refused.";
        has_warmers Typed "Warmers", "They are kept and shown with the index.", "They are unknown.";
        has_former_templates Typed "Templates", "`template` is one pattern, `warmers` are taken; several names are one.",
            "`index_patterns` is a list.";
        former_mapping_apis TypedNotEs7 "Putting and reading mappings and fields", "Its refusals, and 404 where a type lacks a field.",
            "A field that is missing is left out.";
        shows_missing_types Typed "Reading mappings of types", "`_default_` is shown; a missing type is 404 where nothing else is found.",
            "`_default_` is left out; a missing type is always 404.";
        former_alias_answers Typed "Reading aliases", "A missing alias is empty where an index is named.", "404 with what was found.";
        tolerates_alias_mistakes Typed "Filters that cannot be read, several routings, aliases as indices, in alias actions",
            "They are taken.", "They are refused.";
        alias_removals_must_exist Typed "Removing an alias that does not exist", "404.", "404 if nothing else is asked for.";
        reads_no_exclusions Typed "`-name` behind a wildcard, where aliases are read", "A name.", "It is excluded.";
        exists_without_wildcards Typed "`HEAD` of wildcards that match no index", "404.", "200.";
        closes_something TypedNotEs7 "Closing wildcards that match no index", "404.", "Nothing is closed.";
        flush_refreshes Typed "`_flush`", "It refreshes, too.", "It does not refresh.";
        has_synced_flush Typed "`_flush/synced`", "It is known.", "It warns.";
        former_statistics Typed "`_stats`", "The members of that version.", "Those of today's versions.";
        tolerates_unknown_levels TypedNotEs7 "Unknown levels of `_stats` and health", "The totals, or nothing.", "They are refused.";
    }

    "Other answers" {
        hits_total_is_number TypedOrEs2 "`hits.total`", "A number.", "An object with `value` and `relation`.";
        shows_doc_type TypesShown "`_type` of hits and documents", "It is shown.",
            "It is left out; `es7` and `opensearch1` show `_doc`.";
        omits_later_members Typed "Members that later versions added, such as `skipped`, `_ignored`, `shards_acknowledged`",
            "They are left out.", "They are shown.";
        omits_later_node_members TypedNotEs7 "Members of nodes and the cluster that later versions added", "They are left out.",
            "They are shown.";
        deletions_count_updates Typed "`updated` in the answer of `_delete_by_query`", "It is shown.", "It is left out.";
        lacks_delete_by_query TypedEs2 "`_delete_by_query`", "The name of a type, and refused.", "An endpoint.";
        former_job_answers TypedNotEs7 "Answers of by-query jobs", "No slices, and failures of that version.", "Those of today's versions.";
        former_task_answers TypedNotEs7 "`_tasks`", "Tasks of other nodes are empty; nodes have no roles.", "A missing task is 404.";
        former_cluster_answers TypedNotEs7 "Nodes and health of the cluster", "Its counts and refusals.", "Those of today's versions.";
        shows_all_shards Typed "Shards in the cluster state and `_search_shards`", "As many as the index asks for.", "One.";
        former_node_statistics TypedNotEs7 "Statistics of nodes and thread pools", "Its pools, and `cpu_percent` of the system.",
            "Those of today's versions.";
        former_shard_apis TypedNotEs7 "`_segments`, `_recovery`, `_shard_stores`", "All shards that an index asks for.", "One shard.";
        former_cat_tables Typed "`_cat`", "Its columns.", "Those of today's versions.";
        former_analyze Typed "`_analyze`", "A body may be the text, `text` is a list, numbers are refused.",
            "A body is an object; only texts and keywords are analyzed.";
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
        has_string_fields TypedIndex "The type `string`", "It is a text or a keyword; new texts get it, and new fractions are `double`.",
            "It is unknown; new texts are `text` with a keyword, and new fractions are `float`.";
        takes_former_parameters TypedIndex "Parameters of that version", "They are taken, such as `include_in_all`, `_parent`, `multi_field`.",
            "They are refused.";
        forbids_dots_in_names TypedIndex "A name with a dot", "It is refused.", "It is a path.";
        tolerates_mapping_mistakes TypedIndex "Parameters, references and dynamic templates that make no sense", "They are taken.",
            "They are refused.";
        mapping_refusal_words TypedIndex "A mapping that cannot be read", "The sentences of that version.", "Those of today's versions.";
        former_merges TypedIndex "What an update of a mapping may change",
            "Index, store, norms and analyzer conflict; an unnamed `coerce` stays.", "Each parameter says whether it may change.";
        renders_former_defaults TypedIndex "Defaults in mappings that are shown", "Formats of dates and norms of boosts are shown.",
            "They are left out.";
        columns_for_indexed_fields TypedIndex "Columns", "Every indexed field but texts has one.", "`doc_values` decides.";
        dates_have_separators TypedIndex "New texts that look like dates", "They need two of `-` or `:`.", "They need one.";
    }

    "Documents of an index" {
        has_all_field TypedIndex "`_all`", "Every value is in it; queries without a field search it.",
            "Queries without a field search all fields.";
        documents_expire TypedIndex "`_timestamp` and `_ttl`", "Mappings turn them on; a document whose life is over is refused.",
            "They are unknown.";
        coerces_values TypedIndex "Words as booleans and texts as numbers", "They are always converted.", "`coerce` decides for numbers.";
        refuses_later_values TypedIndex "Addresses of IPv6, fractions as dates, texts with fractions as whole numbers", "They are refused.",
            "They are taken.";
        ignores_long_texts TypedIndex "`ignore_above` of analyzed texts", "It counts.", "It is for keywords.";
        document_refusal_words TypedIndex "A value that a field cannot hold", "`failed to parse [field]`.",
            "The field's type, the document and a preview of the value.";
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
        allows_negative_scores TypedIndex "Scores below 0 by scripts and fields", "They are scores like others.", "They are refused.";
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
