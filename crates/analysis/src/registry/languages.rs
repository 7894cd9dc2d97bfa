//! Languages: what their analyzers are made of. The tokenizer is `standard`, and the words that are left out are
//! `_LANGUAGE_`, unless an analyzer names its own.

/// Languages whose analyzers are [`PLAIN_FILTERS`], and their stemmers.
const PLAIN: &[(&str, &str)] = &[
    ("armenian", "armenian"),
    ("basque", "basque"),
    ("brazilian", "brazilian"),
    ("bulgarian", "bulgarian"),
    ("czech", "czech"),
    ("danish", "danish"),
    ("estonian", "estonian"),
    ("finnish", "finnish"),
    ("hungarian", "hungarian"),
    ("indonesian", "indonesian"),
    ("latvian", "latvian"),
    ("lithuanian", "lithuanian"),
    ("norwegian", "norwegian"),
    ("portuguese", "light_portuguese"),
    ("romanian", "romanian"),
    ("russian", "russian"),
    ("spanish", "light_spanish"),
    ("swedish", "swedish"),
];

/// `exclude`: words that are not stemmed; `stemmer` alone: that of [`PLAIN`].
const PLAIN_FILTERS: &[&str] = &["lowercase", "stop", "exclude", "stemmer"];

/// The others, with their filters; what stands after a colon is the filter's language.
const OTHERS: &[(&str, &[&str])] = &[
    (
        "arabic",
        &[
            "lowercase",
            "decimal_digit",
            "stop",
            "arabic_normalization",
            "exclude",
            "stemmer:arabic",
        ],
    ),
    (
        "bengali",
        &[
            "lowercase",
            "decimal_digit",
            "exclude",
            "indic_normalization",
            "bengali_normalization",
            "stop",
            "stemmer:bengali",
        ],
    ),
    (
        "catalan",
        &["elision:catalan", "lowercase", "stop", "exclude", "stemmer:catalan"],
    ),
    ("dutch", &["lowercase", "stop", "exclude", "dutch_words", "stemmer:dutch"]),
    (
        "english",
        &[
            "stemmer:possessive_english",
            "lowercase",
            "stop",
            "exclude",
            "stemmer:english",
        ],
    ),
    ("french", &["elision", "lowercase", "stop", "exclude", "stemmer:light_french"]),
    (
        "german",
        &["lowercase", "stop", "exclude", "german_normalization", "stemmer:light_german"],
    ),
    ("greek", &["lowercase:greek", "stop", "stemmer:greek"]),
    (
        "hindi",
        &[
            "lowercase",
            "decimal_digit",
            "exclude",
            "indic_normalization",
            "hindi_normalization",
            "stop",
            "stemmer:hindi",
        ],
    ),
    (
        "irish",
        &[
            "hyphens",
            "elision:irish",
            "lowercase:irish",
            "stop",
            "exclude",
            "stemmer:irish",
        ],
    ),
    (
        "italian",
        &["elision:italian", "lowercase", "stop", "exclude", "stemmer:light_italian"],
    ),
    (
        "persian",
        &[
            "lowercase",
            "decimal_digit",
            "arabic_normalization",
            "persian_normalization",
            "stop",
        ],
    ),
    (
        "sorani",
        &[
            "sorani_normalization",
            "lowercase",
            "decimal_digit",
            "stop",
            "exclude",
            "stemmer:sorani",
        ],
    ),
    (
        "turkish",
        &["apostrophe", "lowercase:turkish", "stop", "exclude", "stemmer:turkish"],
    ),
];

/// All of them.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let plain = PLAIN.iter().map(|(name, _)| *name);
    plain.chain(OTHERS.iter().map(|(name, _)| *name))
}

/// The filters of a language's analyzer, in order; `None` if there is no such language.
pub(super) fn filters(language: &str) -> Option<&'static [&'static str]> {
    if PLAIN.iter().any(|(name, _)| *name == language) {
        return Some(PLAIN_FILTERS);
    }
    let other = OTHERS.iter().find(|(name, _)| *name == language)?;
    Some(other.1)
}

/// The stemmer of a language that is plain; for others empty.
pub(super) fn stemmer(language: &str) -> &'static str {
    let plain = PLAIN.iter().find(|(name, _)| *name == language);
    plain.map_or("", |(_, stemmer)| stemmer)
}
