//! `html_strip`: tags, comments, scripts and styles go, entities become characters.
//!
//! Tags of blocks and `<br>` become line breaks. The named entities are those of Latin-1, XML, typography and
//! Greek, not the two thousand of HTML 5.

use super::{CharFilter, Rewrite};

/// Strips HTML.
pub(crate) struct HtmlStrip {
    /// Names of tags that stay.
    pub(crate) escaped_tags: Vec<String>,
}

/// Tags that become a line break.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "audio",
    "blockquote",
    "br",
    "canvas",
    "center",
    "col",
    "colgroup",
    "dd",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hgroup",
    "hr",
    "html",
    "isindex",
    "li",
    "main",
    "menu",
    "nav",
    "noframes",
    "noscript",
    "ol",
    "option",
    "optgroup",
    "p",
    "pre",
    "section",
    "select",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "ul",
];

/// The entities with names, and the code points they stand for. From U+00A0 on they are in `LATIN_1`.
const ENTITIES: &[(&str, char)] = &[
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("OElig", 'Œ'),
    ("oelig", 'œ'),
    ("Scaron", 'Š'),
    ("scaron", 'š'),
    ("Yuml", 'Ÿ'),
    ("fnof", 'ƒ'),
    ("circ", 'ˆ'),
    ("tilde", '˜'),
    ("ndash", '–'),
    ("mdash", '—'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("sbquo", '‚'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("bdquo", '„'),
    ("dagger", '†'),
    ("Dagger", '‡'),
    ("bull", '•'),
    ("hellip", '…'),
    ("permil", '‰'),
    ("prime", '′'),
    ("Prime", '″'),
    ("lsaquo", '‹'),
    ("rsaquo", '›'),
    ("euro", '€'),
    ("trade", '™'),
    ("larr", '←'),
    ("uarr", '↑'),
    ("rarr", '→'),
    ("darr", '↓'),
    ("harr", '↔'),
    ("minus", '−'),
    ("infin", '∞'),
    ("ne", '≠'),
    ("le", '≤'),
    ("ge", '≥'),
    ("sum", '∑'),
    ("radic", '√'),
    ("asymp", '≈'),
    ("ensp", '\u{2002}'),
    ("emsp", '\u{2003}'),
    ("thinsp", '\u{2009}'),
    ("zwnj", '\u{200c}'),
    ("zwj", '\u{200d}'),
    ("alpha", 'α'),
    ("beta", 'β'),
    ("gamma", 'γ'),
    ("delta", 'δ'),
    ("epsilon", 'ε'),
    ("zeta", 'ζ'),
    ("eta", 'η'),
    ("theta", 'θ'),
    ("iota", 'ι'),
    ("kappa", 'κ'),
    ("lambda", 'λ'),
    ("mu", 'μ'),
    ("nu", 'ν'),
    ("xi", 'ξ'),
    ("omicron", 'ο'),
    ("pi", 'π'),
    ("rho", 'ρ'),
    ("sigmaf", 'ς'),
    ("sigma", 'σ'),
    ("tau", 'τ'),
    ("upsilon", 'υ'),
    ("phi", 'φ'),
    ("chi", 'χ'),
    ("psi", 'ψ'),
    ("omega", 'ω'),
    ("Gamma", 'Γ'),
    ("Delta", 'Δ'),
    ("Theta", 'Θ'),
    ("Lambda", 'Λ'),
    ("Xi", 'Ξ'),
    ("Pi", 'Π'),
    ("Sigma", 'Σ'),
    ("Phi", 'Φ'),
    ("Psi", 'Ψ'),
    ("Omega", 'Ω'),
];

/// The entities of U+00A0 to U+00FF, in order.
const LATIN_1: &str = "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 \
    acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig \
    Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave \
    Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave \
    iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml";

fn named_entity(name: &str) -> Option<char> {
    let found = match ENTITIES.iter().find(|(known, _)| *known == name) {
        Some((_, c)) => *c,
        None => {
            let at = LATIN_1.split_ascii_whitespace().position(|known| known == name)?;
            char::from_u32(0xa0 + u32::try_from(at).ok()?)?
        }
    };
    // Lucene turns no-break spaces into plain ones.
    Some(if found == '\u{a0}' { ' ' } else { found })
}

/// The entity at the start of `text`: its length and character.
fn entity(text: &str) -> Option<(usize, char)> {
    let body = text.get(1..)?;
    let name_end = body
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '#'))
        .unwrap_or(body.len());
    let name = &body[..name_end];
    let semicolon = usize::from(body[name_end..].starts_with(';'));
    let c = if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        char::from_u32(code.ok()?).unwrap_or('\u{fffd}')
    } else {
        named_entity(name).filter(|_| semicolon == 1 || matches!(name, "amp" | "lt" | "gt" | "quot"))?
    };
    Some((1 + name_end + semicolon, c))
}

/// A tag at the start of `text`: its length, name, and whether it closes.
fn tag(text: &str) -> Option<(usize, &str, bool)> {
    let body = text.get(1..)?;
    let closes = body.starts_with('/');
    let name_start = 1 + usize::from(closes);
    let name_end = text[name_start..]
        .find(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | ':' | '.')))
        .map_or(text.len(), |n| name_start + n);
    let name = &text[name_start..name_end];
    if !name.starts_with(char::is_alphabetic) {
        return None;
    }
    let mut quote = None;
    for (at, c) in text[name_end..].char_indices() {
        match (quote, c) {
            (None, '>') => return Some((name_end + at + 1, name, closes)),
            (None, '<') => return None,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    None
}

/// Where the element ends that a tag of this name opened: behind its closing tag.
fn end_of(name: &str, text: &str) -> Option<usize> {
    let close = format!("</{name}");
    let is_close = |(at, _): &(usize, &str)| {
        text.get(*at..at + close.len())
            .is_some_and(|tag| tag.eq_ignore_ascii_case(&close))
    };
    let (start, _) = text.match_indices("</").find(is_close)?;
    text[start..].find('>').map(|end| start + end + 1)
}

impl CharFilter for HtmlStrip {
    fn filter(&self, text: &str, out: &mut Rewrite<'_>) {
        let mut at = 0;
        // Where a search for something that closes failed, it fails from there on.
        let (mut no_comment_end, mut no_tag_end, mut no_script_end) = (false, false, false);
        while let Some(next) = text[at..].find(['<', '&']).map(|n| at + n) {
            let rest = &text[next..];
            at = next + 1;
            if rest.starts_with('&') {
                if let Some((length, c)) = entity(&rest[..rest.floor_char_boundary(rest.len().min(40))]) {
                    at = next + length;
                    out.keep_to(next);
                    out.replace_to(at, c.encode_utf8(&mut [0; 4]));
                }
                continue;
            }
            if rest.starts_with("<!--") {
                let end = if no_comment_end { None } else { rest.find("-->") };
                no_comment_end = end.is_none();
                if let Some(end) = end {
                    at = next + end + 3;
                    out.keep_to(next);
                    out.replace_to(at, "");
                }
                continue;
            }
            if rest.starts_with("<!") || rest.starts_with("<?") {
                let end = if no_tag_end { None } else { rest.find('>') };
                no_tag_end = end.is_none();
                if let Some(end) = end {
                    at = next + end + 1;
                    out.keep_to(next);
                    out.replace_to(at, "");
                }
                continue;
            }
            if no_tag_end || !rest[1..].contains('>') {
                no_tag_end = true;
                continue;
            }
            // No tag is longer than this.
            let Some((length, name, closes)) = tag(&rest[..rest.floor_char_boundary(rest.len().min(8192))]) else {
                continue;
            };
            at = next + length;
            let name = name.to_lowercase();
            if self.escaped_tags.contains(&name) {
                continue;
            }
            out.keep_to(next);
            if !closes && (name == "script" || name == "style") {
                let end = if no_script_end { None } else { end_of(&name, &text[at..]) };
                no_script_end |= end.is_none();
                at += end.unwrap_or(0);
                out.replace_to(at, "\n");
                continue;
            }
            out.replace_to(at, if BLOCKS.contains(&name.as_str()) { "\n" } else { "" });
        }
    }
}
