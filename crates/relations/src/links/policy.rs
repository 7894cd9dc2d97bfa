//! A link policy: which fields of a source are copied into which documents, and what happens when the source goes.
//!
//! A policy is read from a request, checked against mappings (`link_policies::validate`), and kept as JSON in the control
//! index. Not here: the checks, the references inside documents (`references`).

use dsl::json::{Fields, Node};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, nearest};
use serde_json::{Value, json};

/// The longest name of a policy, in bytes.
const NAME_MAX: usize = 255;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $wire:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$of])* $variant,)* }
        impl $name {
            const ALL: &[$name] = &[$($name::$variant,)*];
            /// The word in requests and answers.
            pub fn wire(self) -> &'static str { match self { $($name::$variant => $wire,)* } }
            fn from_word(word: &str) -> Option<$name> { $name::ALL.iter().copied().find(|one| one.wire() == word) }
            /// # Errors
            /// Another word, with the nearest one.
            fn take(fields: &mut Fields, field: &str, default: $name) -> Result<$name> {
                let Some(word) = fields.take_string(field)? else { return Ok(default) };
                $name::from_word(&word).ok_or_else(|| {
                    let known: Vec<&str> = $name::ALL.iter().map(|one| one.wire()).collect();
                    let meant = nearest::question(&word, known.iter().copied());
                    Error::illegal(format!("[{field}] must be one of [{}], but was [{word}]{meant}", known.join(", ")))
                })
            }
        }
    };
}

words! {
    /// When copies follow their source.
    Mode {
        /// In the change that alters the source.
        Sync = "sync",
        /// By a job that the change leaves behind.
        Async = "async",
    }
}
words! {
    /// The effect of the deletion of a source on the documents that refer to it.
    OnDelete {
        /// The deletion is refused.
        Restrict = "restrict",
        /// They are deleted.
        Cascade = "cascade",
        /// Their key and their copies are removed.
        Unset = "unset",
        /// They stay as they are.
        Ignore = "ignore",
    }
}
words! {
    /// The effect of a new key that leads to no source.
    OnMissing {
        /// The write is refused.
        Reject = "reject",
        /// The write is taken; its copies are filled in when the source comes.
        Allow = "allow",
    }
}

/// The field of a target that has the keys, as its mapping has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyField {
    /// Its path in the source of documents: of a multi-field that of the field around it.
    pub path: String,
    /// Its values are whole numbers.
    pub integer: bool,
    /// The nested object around it.
    pub nested: Option<String>,
    /// Longer keys are not indexed.
    pub longest: Option<usize>,
}

/// One end of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The name of the index.
    pub index: String,
    /// Its uuid when the policy was put.
    pub uuid: String,
}

/// A link policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Where the fields are copied from.
    pub source: End,
    /// The fields that are copied.
    pub fields: Vec<String>,
    /// Where they are copied to.
    pub target: End,
    /// The field of the target that names the source, as in the mapping.
    pub on: String,
    /// The object of the target that gets the copies.
    pub into: String,
    /// See [`OnDelete`].
    pub on_delete: OnDelete,
    /// See [`OnMissing`].
    pub on_missing: OnMissing,
    /// See [`Mode`].
    pub mode: Mode,
    /// How keys are read.
    pub key: KeyField,
}

impl Policy {
    /// The source that a key names.
    pub(crate) fn source_at(&self, key: &str) -> DocAddress {
        DocAddress {
            index: IndexName::new(self.source.index.as_str()),
            id: DocId::plain(key),
        }
    }

    /// Reads a request. What only mappings say is not known yet.
    ///
    /// # Errors
    /// A name or a body that is none, with its position.
    pub fn parse(name: &str, body: Node) -> Result<Policy> {
        check_name(name)?;
        let mut fields = body.fields("link policy")?;
        let mut source = fields.require("source")?.fields("source")?;
        let mut target = fields.require("target")?.fields("target")?;
        let on_update = fields.take_string("on_update")?;
        if let Some(word) = on_update.filter(|word| word != "propagate") {
            return Err(Error::illegal(format!("[on_update] must be [propagate], but was [{word}]")));
        }
        let policy = Policy {
            name: name.to_owned(),
            source: End::of(take_text(&mut source, "index")?),
            fields: source.take_strings("fields")?.unwrap_or_default(),
            target: End::of(take_text(&mut target, "index")?),
            on: take_on(&mut target)?,
            into: take_text(&mut target, "into")?,
            on_delete: OnDelete::take(&mut fields, "on_delete", OnDelete::Restrict)?,
            on_missing: OnMissing::take(&mut fields, "on_missing", OnMissing::Allow)?,
            mode: Mode::take(&mut fields, "mode", Mode::Async)?,
            key: KeyField {
                path: String::new(),
                integer: false,
                nested: None,
                longest: None,
            },
        };
        source.finish()?;
        target.finish()?;
        fields.finish()?;
        if policy.fields.is_empty() {
            return Err(Error::illegal("[source.fields] must name the fields that are copied"));
        }
        if let Some(wild) = policy.fields.iter().find(|field| field.contains('*')) {
            return Err(Error::illegal(format!(
                "[source.fields] names fields, not patterns: [{wild}]"
            )));
        }
        Ok(policy)
    }

    /// The body that it was put with, with defaults.
    pub fn render(&self) -> Value {
        json!({
            "source": { "index": self.source.index, "fields": self.fields },
            "target": { "index": self.target.index, "on": { &self.on: "_id" }, "into": self.into },
            "on_update": "propagate", "on_delete": self.on_delete.wire(), "on_missing": self.on_missing.wire(), "mode": self.mode.wire(),
        })
    }

    /// As the control index keeps it.
    pub(crate) fn keep(&self) -> Value {
        let kept = json!({
            "kind": "link_policy", "name": self.name, "body": self.render(),
            "uuids": [self.source.uuid, self.target.uuid],
            "key": { "path": self.key.path, "integer": self.key.integer, "nested": self.key.nested, "longest": self.key.longest },
        });
        debug_assert!(
            Policy::recall(&kept).is_ok_and(|read| read == *self),
            "links.md K5: a start reads a policy as it was put: {kept}"
        );
        kept
    }

    /// The inverse.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn recall(kept: &Value) -> Result<Policy> {
        let unsound = || Error::new(ErrorKind::Corruption, format!("no sound link policy: {kept}"));
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let name = text(&kept["name"]).ok_or_else(unsound)?;
        let mut policy = Policy::parse(&name, Node::from_value(kept["body"].clone())).map_err(|_| unsound())?;
        policy.source.uuid = text(&kept["uuids"][0]).ok_or_else(unsound)?;
        policy.target.uuid = text(&kept["uuids"][1]).ok_or_else(unsound)?;
        policy.key = KeyField {
            path: text(&kept["key"]["path"]).ok_or_else(unsound)?,
            integer: kept["key"]["integer"].as_bool().ok_or_else(unsound)?,
            nested: text(&kept["key"]["nested"]),
            longest: kept["key"]["longest"]
                .as_u64()
                .and_then(|longest| usize::try_from(longest).ok()),
        };
        Ok(policy)
    }

    /// Is it the same but for what mappings and the catalog say?
    pub(crate) fn is_same_request(&self, other: &Policy) -> bool {
        self.render() == other.render()
    }

    /// May documents refer to a source that is not there? Then a source that comes has copies to fill in.
    pub(crate) fn may_dangle(&self) -> bool {
        self.on_missing == OnMissing::Allow || self.on_delete == OnDelete::Ignore
    }

    /// The path of the key inside the object that gets the copies; `None`: it is outside of it.
    pub(crate) fn inner_key(&self) -> Option<&str> {
        self.key.path.strip_prefix(self.into.as_str())?.strip_prefix('.')
    }
}

impl End {
    fn of(index: String) -> End {
        End {
            index,
            uuid: String::new(),
        }
    }
}

fn check_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= NAME_MAX && !name.starts_with('_') && name.chars().all(allowed) {
        return Ok(());
    }
    Err(Error::illegal(format!(
        "invalid name of a link policy [{name}]: use [a-z0-9_-], at most [{NAME_MAX}] bytes, and begin with none of [_]"
    )))
}

fn take_text(fields: &mut Fields, name: &str) -> Result<String> {
    let owner = fields.owner().to_owned();
    match fields.take_string(name)? {
        Some(text) if !text.is_empty() => Ok(text),
        _ => Err(Error::illegal(format!("[{owner}.{name}] is missing"))),
    }
}

/// `"on": { "user.id": "_id" }`
fn take_on(target: &mut Fields) -> Result<String> {
    let on = target.take_map("on")?.unwrap_or_default();
    let mut pairs = on.iter();
    match (pairs.next(), pairs.next()) {
        (Some((field, id)), None) if id == "_id" && !field.is_empty() => Ok(field.clone()),
        (Some((_, other)), None) => Err(Error::illegal(format!(
            "[target.on] maps a field of the target to [_id] of the source, but was mapped to [{other}]"
        ))),
        _ => Err(Error::illegal(
            "[target.on] must have one field of the target, mapped to [_id]",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body() -> Value {
        json!({
            "source": { "index": "user", "fields": ["name"] },
            "target": { "index": "blogpost", "on": { "user.id": "_id" }, "into": "user" },
            "on_delete": "cascade", "mode": "sync",
        })
    }

    #[test]
    fn a_policy_is_recalled() {
        let mut policy = Policy::parse("author", Node::from_value(body())).expect("a policy");
        policy.key = KeyField {
            path: "user.id".into(),
            integer: true,
            nested: Some("user".into()),
            longest: Some(9),
        };
        (policy.source.uuid, policy.target.uuid) = ("a".into(), "b".into());
        assert_eq!(Policy::recall(&policy.keep()).expect("sound"), policy);
        assert_eq!(policy.inner_key(), Some("id"));
        assert!(Policy::recall(&json!({ "name": "author" })).is_err());
    }

    #[test]
    fn requests_that_are_none() {
        let check = |name: &str, path: &str, value: Value, said: &str| {
            let mut body = body();
            model::path::set(&mut body, path, value);
            let refused = Policy::parse(name, Node::from_value(body)).expect_err(said);
            assert!(refused.reason().contains(said), "{refused}");
        };
        check("Author", "mode", json!("sync"), "invalid name");
        check("_author", "mode", json!("sync"), "invalid name");
        check("author", "mode", json!("synk"), "did you mean [sync]");
        check("author", "on_delete", json!("drop"), "[restrict, cascade, unset, ignore]");
        check("author", "on_update", json!("ignore"), "must be [propagate]");
        check("author", "source.fields", json!([]), "[source.fields]");
        check("author", "source.fields", json!(["na*"]), "not patterns");
        check("author", "source.index", json!(""), "[source.index] is missing");
        check("author", "target.on", json!({ "user.id": "email" }), "[_id]");
        check("author", "target.onto", json!("user"), "onto");
    }
}
