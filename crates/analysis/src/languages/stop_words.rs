//! Stop words by language, the lists Lucene's analyzers use. One word a line in `stopwords/`.

/// Language and its words.
const LISTS: &[(&str, &str)] = &[
    ("arabic", include_str!("stopwords/arabic.txt")),
    ("armenian", include_str!("stopwords/armenian.txt")),
    ("basque", include_str!("stopwords/basque.txt")),
    ("bengali", include_str!("stopwords/bengali.txt")),
    ("brazilian", include_str!("stopwords/brazilian.txt")),
    ("bulgarian", include_str!("stopwords/bulgarian.txt")),
    ("catalan", include_str!("stopwords/catalan.txt")),
    ("cjk", include_str!("stopwords/cjk.txt")),
    ("czech", include_str!("stopwords/czech.txt")),
    ("danish", include_str!("stopwords/danish.txt")),
    ("dutch", include_str!("stopwords/dutch.txt")),
    ("english", include_str!("stopwords/english.txt")),
    ("estonian", include_str!("stopwords/estonian.txt")),
    ("finnish", include_str!("stopwords/finnish.txt")),
    ("french", include_str!("stopwords/french.txt")),
    ("galician", include_str!("stopwords/galician.txt")),
    ("german", include_str!("stopwords/german.txt")),
    ("greek", include_str!("stopwords/greek.txt")),
    ("hindi", include_str!("stopwords/hindi.txt")),
    ("hungarian", include_str!("stopwords/hungarian.txt")),
    ("indonesian", include_str!("stopwords/indonesian.txt")),
    ("irish", include_str!("stopwords/irish.txt")),
    ("italian", include_str!("stopwords/italian.txt")),
    ("latvian", include_str!("stopwords/latvian.txt")),
    ("lithuanian", include_str!("stopwords/lithuanian.txt")),
    ("norwegian", include_str!("stopwords/norwegian.txt")),
    ("persian", include_str!("stopwords/persian.txt")),
    ("portuguese", include_str!("stopwords/portuguese.txt")),
    ("romanian", include_str!("stopwords/romanian.txt")),
    ("russian", include_str!("stopwords/russian.txt")),
    ("sorani", include_str!("stopwords/sorani.txt")),
    ("spanish", include_str!("stopwords/spanish.txt")),
    ("swedish", include_str!("stopwords/swedish.txt")),
    ("thai", include_str!("stopwords/thai.txt")),
    ("turkish", include_str!("stopwords/turkish.txt")),
];

/// The stop words of a language.
pub(crate) fn stop_words(language: &str) -> Option<impl Iterator<Item = &'static str>> {
    LISTS
        .iter()
        .find(|(name, _)| *name == language)
        .map(|(_, words)| words.lines())
}

/// The languages there are lists for.
pub(crate) fn languages() -> impl Iterator<Item = &'static str> {
    LISTS.iter().map(|(name, _)| *name)
}
