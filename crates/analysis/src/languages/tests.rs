//! Words of each language and what a real server's analyzer of that language makes of them.

use crate::{Analyzer, Registry};

fn analyzer(language: &str) -> Analyzer {
    Registry::default_registry().analyzer(language).unwrap()
}

fn check(language: &str, text: &str, expected: &[&str]) {
    let tokens = analyzer(language).analyze(text);
    let terms: Vec<&str> = tokens.iter().map(|token| token.term.as_str()).collect();
    assert_eq!(terms, expected, "{language}: {text}");
}

#[test]
fn languages() {
    check(
        "arabic",
        "كتب الأطفال جميلة والمدرسة الكبيرة",
        &["كتب", "اطفال", "جميل", "مدرس", "كبير"],
    );
    check("armenian", "երեխաների գրքերը գեղեցիկ են", &["երեխ", "գրքերը", "գեղեց"]);
    check("basque", "haurren liburuak ederrak dira", &["haurren", "liburu", "ederr"]);
    check("bengali", "বইগুলো শিশুদের সুন্দর", &["বই", "সিসু", "সুন্দর"]);
    check(
        "brazilian",
        "os livros das crianças são bonitos trabalhando",
        &["livr", "crianc", "sao", "bonit", "trabalh"],
    );
    check("bulgarian", "книгите на хората са красиви", &["книг", "хор", "красив"]);
    check(
        "catalan",
        "els llibres dels nens són bonics l'home",
        &["llibr", "nen", "bonic", "hom"],
    );
    check("czech", "knihy dětí jsou krásné městech", &["knih", "dět", "krásn", "měst"]);
    check("estonian", "laste raamatud on ilusad", &["last", "raama", "on", "ilusa"]);
    check("greek", "τα βιβλία των ανθρώπων είναι ωραία", &["βιβλ", "ανθρωπ", "ωραι"]);
    check("hindi", "किताबें बच्चों की सुंदर हैं", &["किताब", "बचच", "सुंदर"]);
    check(
        "indonesian",
        "buku anak-anak itu indah membacakan pembelajaran",
        &["buku", "anak", "anak", "indah", "baca", "ajar"],
    );
    check("irish", "leabhair na bpáistí go hálainn", &["leabhair", "páistí", "hálainn"]);
    check(
        "italian",
        "l'amico dei libri dell'università belle case",
        &["amico", "libri", "universit", "belle", "case"],
    );
    check("latvian", "bērnu grāmatas ir skaistas", &["bērn", "grāmat", "skaist"]);
    check("lithuanian", "vaikų knygos yra gražios", &["vaik", "knyg", "graž"]);
    check("persian", "کتاب های کودکان زیبا هستند", &["كتاب", "كودكان", "زيبا"]);
    check(
        "portuguese",
        "os livros das crianças são bonitos trabalhando",
        &["livr", "crianc", "bonit", "trabalhand"],
    );
    check("sorani", "کتێبەکانی منداڵان جوانن", &["کتێبەک", "منداڵ", "جوانن"]);
}

/// Stems of words, from a real server's `stemmer` filter of a language.
#[test]
fn stemmers() {
    let check = |language: &str, text: &str, expected: &str| {
        let settings = serde_json::json!({
            "filter": { "s": { "type": "stemmer", "language": language } },
            "analyzer": { "a": { "type": "custom", "tokenizer": "whitespace", "filter": ["s"] } },
        });
        let analyzer = Registry::from_settings(&settings).unwrap().analyzer("a").unwrap();
        let terms: Vec<String> = analyzer.analyze(text).into_iter().map(|token| token.term).collect();
        assert_eq!(terms.join(" "), expected, "{language}: {text}");
    };
    check(
        "light_finnish",
        "lasten kirjat ovat kauniita taloissa",
        "las kirj ova kaun talo",
    );
    check(
        "light_finnish",
        "a gyerekek könyvei szépek házakban",
        "a gyerekek konyv szépek házakb",
    );
    check(
        "light_hungarian",
        "a gyerekek könyvei szépek házakban",
        "a gyerek konyv szep haz",
    );
    check("light_norwegian", "barnas bøker er vakre", "barn bøk er vakr");
    check(
        "light_nynorsk",
        "lasten kirjat ovat kauniita taloissa",
        "last kirjat ovat kauniit taloiss",
    );
    check(
        "minimal_norwegian",
        "a gyerekek könyvei szépek házakban",
        "a gyerekek könyvei szépek házakban",
    );
    check("minimal_nynorsk", "barnas bøker er vakre", "barn bøk er vakr");
    check("light_russian", "книги детей красивы и слова", "книг дет красив и слов");
    check("light_swedish", "barnens böcker är vackra", "barn böck är vackr");
    check(
        "minimal_portuguese",
        "os livros das crianças são barnens",
        "os livro da criança são barnem",
    );
    check("serbian", "книгите на хората са красиви", "knigi na horat sa krasiv");
}

/// Whatever a user sends, a stemmer answers: words of letters that no language has together.
#[test]
fn any_letters() {
    let letters: Vec<char> = "aeiouygnstlmkßàéîõüçğıİſκασςйияъьհիաעאنهاةيهकािं्ংি্ยว\u{300}\u{200d}'-9"
        .chars()
        .collect();
    let mut seed = 7_u64;
    let mut next = |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for language in crate::registry::languages::names() {
        let analyzer = analyzer(language);
        for _ in 0..400 {
            let length = 1 + next(14);
            let word: String = (0..length).map(|_| letters[next(letters.len())]).collect();
            drop(analyzer.analyze(&word));
        }
    }
}
