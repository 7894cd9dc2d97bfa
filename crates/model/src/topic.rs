//! The subjects of refusals, as data. A dialect chooses its words by the subject, and never by the text of a reason.
//!
//! Not here: the words themselves, which are those of the dialect (`rest::es2_errors`, `dsl::aggs`).

/// The subject of a refusal, where a dialect words it in its own way and the kind alone does not tell. It is never shown.
///
/// Its fields are the values that the other words need.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Topic {
    /// How scores are combined.
    ScoreMode,
    /// An aggregation has neither a field nor a script.
    ValueSource,
    /// The `interval` of a histogram of dates.
    DateInterval,
    /// Buckets are ordered by an aggregation of several values, and none of them is named.
    UnnamedMetric,
    /// `from` and `size` reach too far.
    ResultWindow,
    /// The mapping has no such field to sort by.
    UnmappedSort,
    /// A text has no values by document.
    FielddataDisabled {
        /// The path of the text.
        field: String,
    },
    /// A member that an object cannot have.
    UnknownField {
        /// The member.
        name: String,
    },
    /// A script failed when it ran.
    ScriptFailure,
    /// There is no script language of this name.
    ScriptLanguage,
    /// The name of an index has a character that it must not have.
    NameCharacters,
    /// The name of an index begins with a character that it must not begin with.
    NameStart,
    /// The name of an alias breaks a rule.
    AliasName {
        /// The name.
        alias: String,
    },
    /// An index has the name of the alias.
    AliasIsIndex {
        /// The name.
        alias: String,
    },
    /// An alias of several indices, where one is needed.
    AliasOfSeveral {
        /// The name of the alias.
        alias: String,
        /// The names of its indices.
        indices: Vec<String>,
    },
    /// A block of an index.
    IndexBlock {
        /// Its level, number and words: `FORBIDDEN/8/index write (api)`.
        block: String,
    },
    /// A template of this name exists.
    TemplateExists,
    /// There is no setting of this name.
    UnknownSetting {
        /// The setting.
        name: String,
    },
    /// A setting that is fixed when the index is made.
    FinalSetting,
    /// A setting that does not change while the index is open.
    StaticSetting {
        /// The setting.
        name: String,
    },
    /// A value that a setting cannot have.
    SettingValue {
        /// The setting.
        name: String,
        /// The value as it was given.
        value: String,
    },
    /// A number that is below the least one of its setting.
    SettingMinimum {
        /// The setting.
        name: String,
        /// The value as it was given.
        value: String,
    },
    /// A value that is neither `true` nor `false`.
    Boolean {
        /// The value as it was given.
        value: String,
    },
    /// A setting or a parameter that has no duration.
    Duration {
        /// The setting or the parameter.
        name: String,
        /// The value as it was given.
        value: String,
        /// What is wrong with the value.
        problem: &'static str,
    },
    /// A part of an analyzer is defined with a type that does not exist.
    AnalysisType {
        /// `analyzer`, `tokenizer`, `filter` and the like.
        part: &'static str,
        /// The type.
        kind: String,
        /// The name of the part.
        name: String,
        /// What the reason ends with: the nearest type, or nothing.
        hint: String,
    },
    /// There is no part of an analyzer of this name.
    AnalysisPart {
        /// `tokenizer`, `filter` or `char_filter`.
        part: &'static str,
        /// The name.
        name: String,
        /// What a part of this name needs, if there is one with parameters.
        needs: Option<&'static str>,
    },
    /// There is no field type of this name.
    FieldType {
        /// The type.
        name: String,
        /// The field.
        field: String,
    },
    /// A number is too large or too small for the type of its field.
    NumberRange,
    /// A text that no format of dates reads.
    DateText,
}
