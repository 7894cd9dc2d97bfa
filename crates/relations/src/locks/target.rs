//! Lock targets, and the locks that a target takes in which mode: its own, and an intention on everything
//! that lies above it.
//!
//! Not here: aliases and patterns; a target names a concrete index, existing or not.

use super::{LockPath, Mode};
use model::text::quote;
use model::{DocAddress, DocId, Error, IndexName, Result, settings};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Targets of one request.
pub fn targets_max() -> usize {
    settings::node_count(settings::LOCKS_MAX_TARGETS)
}

/// Refuses what is longer than is kept while a lock is held; `what` begins the sentence.
///
/// # Errors
/// It names the setting.
pub fn check_text(what: &str, text: &str) -> Result<()> {
    let most = settings::node_count(settings::LOCKS_MAX_TEXT_BYTES);
    if text.len() <= most {
        return Ok(());
    }
    let name = settings::LOCKS_MAX_TEXT_BYTES.name;
    let reason = format!("{what} has {} bytes, more than [{name}] = {most}", text.len());
    Err(Error::illegal(reason).with("setting", name))
}

/// A lock target, as clients name it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockTarget {
    /// The whole store: `{"name": "_all"}`.
    All,
    /// An index and all that is in it.
    Index(IndexName),
    /// A literal path prefix, by components. `/` is the index.
    Path { index: IndexName, path: LockPath },
    /// One document, under every routing.
    Document(DocAddress),
    /// A plain mutex of that name. It covers nothing and guards anything.
    Name(Arc<str>),
}

/// The subject of one lock. Its texts are those of the target: a lock has its key in several places. The order is the order of acquisition: what lies above comes first, so that
/// requests with known targets cannot wait in a circle.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockKey {
    /// The whole store.
    All,
    /// An index, by name.
    Index(IndexName),
    /// A path in an index; never `/`.
    Path { index: IndexName, path: LockPath },
    /// A document: index and `id` or `type#id`. The key without a type lies above those of the same id with one.
    Document { index: IndexName, uid: Arc<str> },
    /// A plain mutex.
    Name(Arc<str>),
}

/// One lock document that a request asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Which.
    pub key: LockKey,
    /// In which mode.
    pub mode: Mode,
    /// Only because something below is asked for.
    pub implied: bool,
}

impl LockTarget {
    /// The lock document of the target itself.
    pub fn key(&self) -> LockKey {
        match self {
            LockTarget::All => LockKey::All,
            LockTarget::Index(index) => LockKey::Index(index.clone()),
            LockTarget::Path { index, path } if path.is_root() => LockKey::Index(index.clone()),
            LockTarget::Path { index, path } => LockKey::Path {
                index: index.clone(),
                path: path.clone(),
            },
            LockTarget::Document(at) => LockKey::Document {
                index: at.index.clone(),
                uid: at.id.shared_uid(),
            },
            LockTarget::Name(name) => LockKey::Name(name.clone()),
        }
    }

    /// Every lock document that the target takes, its own last. `places` says where a document is (before and after
    /// the change, where that differs); other targets ignore it.
    pub fn claims(&self, mode: Mode, places: &[LockPath]) -> Vec<Claim> {
        let mut above = Vec::new();
        match self {
            LockTarget::All => {}
            LockTarget::Name(_) | LockTarget::Index(_) => above.push(LockKey::All),
            LockTarget::Path { index, path } => {
                above.push(LockKey::All);
                if !path.is_root() {
                    above.push(LockKey::Index(index.clone()));
                    above.extend(path.ancestors().map(|path| LockKey::Path {
                        index: index.clone(),
                        path,
                    }));
                }
            }
            LockTarget::Document(at) => {
                above.extend([LockKey::All, LockKey::Index(at.index.clone())]);
                for place in places.iter().filter(|place| !place.is_root()) {
                    above.extend(place.ancestors().chain([place.clone()]).map(|path| LockKey::Path {
                        index: at.index.clone(),
                        path,
                    }));
                }
                above.extend(untyped_key(at));
            }
        }
        let intentions = above.into_iter().map(|key| Claim {
            key,
            mode: mode.intention(),
            implied: true,
        });
        let own = Claim {
            key: self.key(),
            mode,
            implied: false,
        };
        let claims: Vec<Claim> = intentions.chain([own]).collect();
        debug_assert!(
            claims[..claims.len() - 1].iter().all(|above| {
                // Where a document is, its key does not say.
                matches!((&above.key, self), (LockKey::Path { .. }, LockTarget::Document(_))) || self.key().is_below(&above.key)
            }),
            "T13: what is held by intention lies above the target: {claims:?}"
        );
        claims
    }

    /// Is the document inside the target wherever it is? A name is a mutex of clients and covers no document.
    pub fn covers(&self, at: &DocAddress) -> bool {
        match self {
            LockTarget::All => true,
            LockTarget::Name(_) => false,
            LockTarget::Index(index) => *index == at.index,
            LockTarget::Path { index, path } => *index == at.index && path.is_root(),
            LockTarget::Document(own) => own.index == at.index && own.id.id == at.id.id && goes_with(own, at),
        }
    }

    /// Is this place of the document inside the target?
    pub fn covers_place(&self, at: &DocAddress, place: &LockPath) -> bool {
        match self {
            LockTarget::Path { index, path } => *index == at.index && path.covers(place),
            _ => self.covers(at),
        }
    }

    /// Bytes of what names it: `locks.max_bytes` bounds those of all locks together.
    pub fn text_bytes(&self) -> u64 {
        let bytes = match self {
            LockTarget::All => 0,
            LockTarget::Name(name) => name.len(),
            LockTarget::Index(index) => index.as_str().len(),
            LockTarget::Path { index, path } => index.as_str().len() + path.to_string().len(),
            LockTarget::Document(at) => at.index.as_str().len() + at.id.id.len() + at.id.doc_type.as_deref().map_or(0, str::len),
        };
        bytes as u64
    }

    /// A target of an index that is not there: the type `_doc` says no more than none.
    #[must_use]
    pub fn of_missing_index(self) -> LockTarget {
        match self {
            LockTarget::Document(at) if at.id.doc_type.as_deref() == Some("_doc") => LockTarget::Document(DocAddress {
                index: at.index,
                id: DocId::plain(at.id.id),
            }),
            other => other,
        }
    }

    /// As requests write it: `{"name"}`, `{"index"}`, `{"index","id"}` (with `"type"` in typed indices) or
    /// `{"index","path"}`; its members as the text of JSON, without the braces around them. Others are the caller's.
    pub fn write_members(&self, out: &mut String) {
        let mut member = |name: &str, value: &str| {
            if !out.ends_with('{') {
                out.push(',');
            }
            out.push('"');
            out.push_str(name);
            out.push_str("\":");
            quote(out, value);
        };
        match self {
            LockTarget::All => member("name", "_all"),
            LockTarget::Name(name) => member("name", name),
            LockTarget::Index(index) => member("index", index.as_str()),
            LockTarget::Path { index, path } => {
                member("index", index.as_str());
                member("path", &path.to_string());
            }
            LockTarget::Document(at) => {
                member("index", at.index.as_str());
                if let Some(doc_type) = &at.id.doc_type {
                    member("type", doc_type);
                }
                member("id", &at.id.id);
            }
        }
    }

    /// The inverse of [`LockTarget::write_members`]; unknown members are ignored, for the caller has read them.
    ///
    /// # Errors
    /// No form of the four; a pattern for an index; a path that is too deep.
    pub fn parse(members: &Map<String, Value>) -> Result<LockTarget> {
        let text = |name: &str| match members.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => {
                check_text(&format!("[{name}] of a lock target"), text)?;
                Ok(Some(text.as_str()))
            }
            Some(Value::Number(number)) if name == "id" => {
                Err(Error::illegal(format!("[id] of a lock target must be text: \"{number}\"")))
            }
            Some(other) => Err(Error::illegal(format!(
                "[{name}] of a lock target must be a non-empty text, but is [{other}]"
            ))),
        };
        let index = text("index")?.map(|index| {
            if index.contains(['*', ',', '?']) || index == "_all" {
                return Err(Error::illegal(format!(
                    "a lock target names one index, but [{index}] is a pattern; the whole store is {{\"name\": \"_all\"}}"
                )));
            }
            Ok(IndexName::new(index))
        });
        let (name, id, doc_type, path) = (text("name")?, text("id")?, text("type")?, text("path")?);
        match (name, index.transpose()?, id, path) {
            (Some("_all"), None, None, None) if doc_type.is_none() => Ok(LockTarget::All),
            (Some(name), None, None, None) if doc_type.is_none() => Ok(LockTarget::Name(name.into())),
            (None, Some(index), None, None) if doc_type.is_none() => Ok(LockTarget::Index(index)),
            (None, Some(index), None, Some(path)) if doc_type.is_none() => Ok(LockTarget::Path {
                index,
                path: LockPath::parse(path)?,
            }),
            (None, Some(index), Some(id), None) => Ok(LockTarget::Document(DocAddress {
                index,
                id: match doc_type {
                    Some(doc_type) => DocId::with_type(doc_type, id),
                    None => DocId::plain(id),
                },
            })),
            _ => Err(Error::illegal(
                "a lock target is {name}, {index}, {index, id} or {index, path}, and nothing between",
            )),
        }
    }
}

/// The key of the same id without a type: who locks one type of it intends to there, so that locks taken before the index
/// was made meet those taken after it, whether it came to have types or not.
fn untyped_key(at: &DocAddress) -> Option<LockKey> {
    at.id.doc_type.as_ref()?;
    Some(LockKey::Document {
        index: at.index.clone(),
        uid: at.id.id.clone(),
    })
}

/// No type goes with every type: such a target is that id in all of them. A target with a type may be older than its
/// index, which came to have none.
fn goes_with(own: &DocAddress, at: &DocAddress) -> bool {
    match (&own.id.doc_type, &at.id.doc_type) {
        (Some(own), Some(other)) => own == other,
        _ => true,
    }
}

/// Do these targets cover the document? One covers it wherever it is, or each of its places is inside one of them. What is
/// nowhere is in no path.
pub fn do_cover<'a>(targets: impl Iterator<Item = &'a LockTarget> + Clone, at: &DocAddress, places: &[LockPath]) -> bool {
    let inside = |place: &LockPath| targets.clone().any(|target| target.covers_place(at, place));
    targets.clone().any(|target| target.covers(at)) || (!places.is_empty() && places.iter().all(inside))
}

impl fmt::Display for LockTarget {
    /// As errors name it: `[fs][/clinton]`, `[fs][1]`, `[fs]`, `[name]`, `[_all]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockTarget::All => f.write_str("[_all]"),
            LockTarget::Name(name) => write!(f, "[{name}]"),
            LockTarget::Index(index) => write!(f, "[{index}]"),
            LockTarget::Path { index, path } => write!(f, "[{index}][{path}]"),
            LockTarget::Document(at) => write!(f, "[{}][{}]", at.index, at.id.id),
        }
    }
}

impl LockKey {
    /// Does it lie below this one? Of a document below a path nobody knows without its source.
    pub(crate) fn is_below(&self, above: &LockKey) -> bool {
        match (above, self) {
            (LockKey::All, other) => *other != LockKey::All,
            (LockKey::Index(index), LockKey::Path { index: own, .. } | LockKey::Document { index: own, .. }) => index == own,
            (LockKey::Path { index, path }, LockKey::Path { index: own, path: below }) => {
                index == own && path != below && path.covers(below)
            }
            (LockKey::Document { index, uid }, LockKey::Document { index: own, uid: typed }) => {
                let id = typed.split_once('#').map(|(_, id)| id);
                index == own && id == Some(&**uid)
            }
            _ => false,
        }
    }

    /// The inverse of its text form.
    pub fn parse(text: &str) -> Option<LockKey> {
        let (kind, key) = text.split_once(':')?;
        let inside = || key.split_once('/').map(|(index, rest)| (IndexName::new(index), rest));
        Some(match kind {
            "all" if key.is_empty() => LockKey::All,
            "index" => LockKey::Index(IndexName::new(key)),
            "path" => {
                let (index, path) = inside()?;
                let path = LockPath::parse(path).ok().filter(|path| !path.is_root())?;
                LockKey::Path { index, path }
            }
            "doc" => {
                let (index, uid) = inside()?;
                LockKey::Document { index, uid: uid.into() }
            }
            "name" => LockKey::Name(key.into()),
            _ => return None,
        })
    }
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockKey::All => f.write_str("all:"),
            LockKey::Index(index) => write!(f, "index:{index}"),
            LockKey::Path { index, path } => write!(f, "path:{index}{path}"),
            LockKey::Document { index, uid } => write!(f, "doc:{index}/{uid}"),
            LockKey::Name(name) => write!(f, "name:{name}"),
        }
    }
}

/// The lock documents of a whole request, each once, in the order of acquisition. What is asked for twice is asked
/// for in the join of the modes; it is implied only if nobody asked for it outright.
pub fn plan(claims: impl IntoIterator<Item = Claim>) -> Vec<Claim> {
    let mut merged: BTreeMap<LockKey, Claim> = BTreeMap::new();
    for claim in claims {
        merged
            .entry(claim.key.clone())
            .and_modify(|known| {
                known.mode = known.mode.join(claim.mode);
                known.implied &= claim.implied;
            })
            .or_insert(claim);
    }
    merged.into_values().collect()
}

/// The locks that a write of one document would have to hold: foreign owners must be compatible with them.
pub fn write_claims(at: &DocAddress, places: &[LockPath]) -> Vec<Claim> {
    plan(LockTarget::Document(at.clone()).claims(Mode::Exclusive, places))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_text_of_a_target_is_its_json() {
        for (target, expected) in [
            (LockTarget::All, r#"{"name":"_all"}"#),
            (
                LockTarget::Name("a \"quoted\" \\ name\n\u{1}é".into()),
                r#"{"name":"a \"quoted\" \\ name\n\u0001é"}"#,
            ),
            (LockTarget::Index(IndexName::new("fs")), r#"{"index":"fs"}"#),
            (
                LockTarget::Path {
                    index: IndexName::new("fs"),
                    path: path("/a/b"),
                },
                r#"{"index":"fs","path":"/a/b"}"#,
            ),
            (LockTarget::Document(at("fs", "1")), r#"{"index":"fs","id":"1"}"#),
            (
                LockTarget::Document(DocAddress {
                    index: IndexName::new("fs"),
                    id: DocId::with_type("file", "1"),
                }),
                r#"{"index":"fs","type":"file","id":"1"}"#,
            ),
        ] {
            assert_eq!(written(&target), expected);
            let read = serde_json::from_str(expected).expect("JSON");
            assert_eq!(self::target(&read).expect("a target"), target);
        }
    }

    /// `locks.max_bytes` counts the text of a target once.
    #[test]
    fn keys_share_the_text_of_their_target() {
        let name: Arc<str> = "a".into();
        let LockKey::Name(key) = LockTarget::Name(name.clone()).key() else {
            panic!("the key of a name is a name")
        };
        assert!(Arc::ptr_eq(&name, &key));
        let at = at("fs", "1");
        let LockKey::Document { uid, .. } = LockTarget::Document(at.clone()).key() else {
            panic!("the key of a document is a document")
        };
        assert!(Arc::ptr_eq(&at.id.id, &uid));
    }

    fn written(target: &LockTarget) -> String {
        let mut out = String::from("{");
        target.write_members(&mut out);
        out.push('}');
        out
    }
    fn path(text: &str) -> LockPath {
        LockPath::parse(text).expect("a short path")
    }
    fn target(value: &Value) -> Result<LockTarget> {
        LockTarget::parse(value.as_object().expect("an object"))
    }
    fn at(index: &str, id: &str) -> DocAddress {
        DocAddress {
            index: IndexName::new(index),
            id: DocId::plain(id),
        }
    }

    #[test]
    fn claims_of_each_target() {
        for (asked, mode, places, claims) in [
            (json!({"name": "_all"}), Mode::Exclusive, &[][..], "all: X"),
            (json!({"name": "a"}), Mode::Exclusive, &[], "all: IX, name:a X"),
            (json!({"name": "a"}), Mode::Shared, &[], "all: IS, name:a S"),
            (json!({"index": "fs"}), Mode::Exclusive, &[], "all: IX, index:fs X"),
            (
                json!({"index": "fs", "path": "/"}),
                Mode::Exclusive,
                &[],
                "all: IX, index:fs X",
            ),
            (
                json!({"index": "fs", "path": "/a/b"}),
                Mode::Exclusive,
                &[],
                "all: IX, index:fs IX, path:fs/a IX, path:fs/a/b X",
            ),
            (
                json!({"index": "fs", "path": "/a"}),
                Mode::Shared,
                &[],
                "all: IS, index:fs IS, path:fs/a S",
            ),
            (
                json!({"index": "fs", "id": "1"}),
                Mode::Exclusive,
                &[],
                "all: IX, index:fs IX, doc:fs/1 X",
            ),
            (
                json!({"index": "fs", "id": "1"}),
                Mode::Exclusive,
                &["/a/b", "/c"],
                "all: IX, index:fs IX, path:fs/a IX, path:fs/a/b IX, path:fs/c IX, doc:fs/1 X",
            ),
            (
                json!({"index": "fs", "type": "file", "id": "1"}),
                Mode::Shared,
                &[],
                "all: IS, index:fs IS, doc:fs/1 IS, doc:fs/file#1 S",
            ),
        ] {
            let target = target(&asked).expect("a target");
            let again: Value = serde_json::from_str(&written(&target)).expect("JSON");
            assert_eq!(again, asked);
            let places: Vec<LockPath> = places.iter().map(|p| path(p)).collect();
            let found: Vec<String> = plan(target.claims(mode, &places))
                .iter()
                .map(|c| format!("{} {}", c.key, c.mode))
                .collect();
            assert_eq!(found.join(", "), claims, "{asked}");
            for claim in target.claims(mode, &places) {
                assert_eq!(LockKey::parse(&claim.key.to_string()).as_ref(), Some(&claim.key));
                assert_eq!(claim.implied, claim.key != target.key());
            }
        }
    }

    #[test]
    fn what_is_no_target() {
        for bad in [
            json!({}),
            json!({"name": ""}),
            json!({"name": "a", "index": "b"}),
            json!({"index": "a*"}),
            json!({"index": "_all"}),
            json!({"index": "a,b"}),
            json!({"id": "1"}),
            json!({"path": "/a"}),
            json!({"index": "a", "id": "1", "path": "/a"}),
            json!({"index": "a", "id": 1}),
            json!({"index": "a", "type": "t"}),
            json!({"index": "a", "path": "/x".repeat(65)}),
        ] {
            assert!(target(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn covering_a_document() {
        for (asked, places, covers) in [
            (json!({"name": "_all"}), &[][..], true),
            (json!({"name": "any"}), &[], false),
            (json!({"index": "fs"}), &[], true),
            (json!({"index": "other"}), &[], false),
            (json!({"index": "fs", "id": "1"}), &[], true),
            (json!({"index": "fs", "id": "2"}), &[], false),
            (json!({"index": "fs", "path": "/"}), &[], true),
            (json!({"index": "fs", "path": "/a"}), &["/a/b"], true),
            (json!({"index": "fs", "path": "/a"}), &["/a/b", "/c"], false),
            (json!({"index": "fs", "path": "/a"}), &["/ab"], false),
            (json!({"index": "fs", "path": "/a"}), &[], false),
        ] {
            let places: Vec<LockPath> = places.iter().map(|p| path(p)).collect();
            let target = target(&asked).expect("a target");
            let covered = do_cover([target].iter(), &at("fs", "1"), &places);
            assert_eq!(covered, covers, "{asked} {places:?}");
        }
    }

    /// Where a document was and where it is to be may be inside different targets.
    #[test]
    fn several_targets_cover_a_move() {
        let targets: Vec<LockTarget> = [json!({"index": "fs", "path": "/a"}), json!({"index": "fs", "path": "/b"})]
            .iter()
            .map(|asked| target(asked).expect("a target"))
            .collect();
        for (places, covers) in [
            (&["/a/x", "/b/x"][..], true),
            (&["/a/x", "/b/x", "/c/x"], false),
            (&["/b/x"], true),
            (&[], false),
        ] {
            let places: Vec<LockPath> = places.iter().map(|p| path(p)).collect();
            assert_eq!(do_cover(targets.iter(), &at("fs", "1"), &places), covers, "{places:?}");
        }
        assert!(!do_cover(targets.iter(), &at("other", "1"), &[path("/a/x")]));
    }

    /// A lock taken without a type meets those of every type, and is met by them; types do not meet each other.
    #[test]
    fn types_of_one_id() {
        let typed = |doc_type: &str| {
            LockTarget::Document(DocAddress {
                index: IndexName::new("fs"),
                id: DocId::with_type(doc_type, "1"),
            })
        };
        let plain = LockTarget::Document(at("fs", "1"));
        let meet = |a: &LockTarget, b: &LockTarget| {
            let (a, b) = (a.claims(Mode::Exclusive, &[]), b.claims(Mode::Exclusive, &[]));
            a.iter()
                .any(|x| b.iter().any(|y| x.key == y.key && !x.mode.is_compatible(y.mode)))
        };
        assert!(meet(&plain, &plain) && meet(&plain, &typed("file")) && meet(&typed("file"), &plain));
        assert!(meet(&typed("file"), &typed("file")) && !meet(&typed("file"), &typed("lock")));
        assert_eq!(typed("_doc").of_missing_index(), plain);
        assert_eq!(typed("file").of_missing_index(), typed("file"));
        let LockTarget::Document(file) = typed("file") else {
            unreachable!()
        };
        for (own, covers) in [(&plain, true), (&typed("file"), true), (&typed("lock"), false)] {
            assert_eq!(own.covers(&file), covers, "{own:?}");
        }
    }

    /// Whoever covers a document exclusively meets every other writer of it in some lock document.
    #[test]
    fn covering_means_meeting() {
        let place = path("/a/b");
        let write = write_claims(&at("fs", "1"), std::slice::from_ref(&place));
        for asked in [
            json!({"name": "_all"}),
            json!({"index": "fs"}),
            json!({"index": "fs", "id": "1"}),
            json!({"index": "fs", "path": "/a"}),
            json!({"index": "fs", "path": "/a/b"}),
        ] {
            let target = target(&asked).expect("a target");
            assert!(
                do_cover([target.clone()].iter(), &at("fs", "1"), std::slice::from_ref(&place)),
                "{asked}"
            );
            for mode in [Mode::Exclusive, Mode::Shared] {
                let meet = target
                    .claims(mode, &[])
                    .iter()
                    .any(|held| write.iter().any(|w| w.key == held.key && !held.mode.is_compatible(w.mode)));
                assert!(meet, "{asked} in {mode}");
            }
        }
    }

    #[test]
    fn what_is_no_key() {
        for text in ["dir:7", "all:x", "path:fs/", "doc:fs", ""] {
            assert_eq!(LockKey::parse(text), None, "{text}");
        }
    }

    #[test]
    fn merged_claims_join_their_modes() {
        let both = [
            target(&json!({"index": "fs", "path": "/a"}))
                .expect("a target")
                .claims(Mode::Shared, &[]),
            target(&json!({"index": "fs", "path": "/a/b"}))
                .expect("a target")
                .claims(Mode::Exclusive, &[]),
        ];
        let found: Vec<String> = plan(both.concat())
            .iter()
            .map(|c| format!("{} {}{}", c.key, c.mode, if c.implied { " implied" } else { "" }))
            .collect();
        assert_eq!(
            found,
            ["all: IX implied", "index:fs IX implied", "path:fs/a SIX", "path:fs/a/b X"]
        );
    }
}
