//! Indices of the cluster: what is known of them, a mirror of their mappings for rehearsals, and the alterations of the slice.

use crate::{Shared, marks, percent_encode, target_path, unsupported_error};
use engine::{Alteration, Altered, IndexInfo, Inspected, Inspection, Write, WriteOp};
use mapping::{Mapping, ReadOptions};
use model::{Error, ErrorKind, IndexName, Result, Target};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Settings that the cluster gives and that nobody asked for.
const NOT_SETTINGS: &[&str] = &[
    "index.uuid",
    "index.creation_date",
    "index.version.created",
    "index.provided_name",
    "index.verified_before_close",
];

/// A panic elsewhere leaves what is inside sound: it is a set of names.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) async fn indices(&self, target: &Target) -> Result<Vec<IndexInfo>> {
        let (path, parameters) = target_path(target)?;
        let answer = self
            .http
            .json("GET", &format!("/{path}?flat_settings=true&{parameters}"), None)
            .await?;
        let found: BTreeMap<String, Value> = serde_json::from_value(answer).map_err(|e| crate::answers::strange(&e))?;
        found.iter().map(|(name, about)| info(name, about)).collect()
    }

    pub(crate) async fn inspect(&self, inspection: Inspection) -> Result<Inspected> {
        match inspection {
            Inspection::Indices(target) => Ok(Inspected::Indices(self.indices(&target).await?)),
            Inspection::ClusterSettings => {
                let answer = self.http.json("GET", "/_cluster/settings?flat_settings=true", None).await?;
                let of = |scope: &str| answer[scope].as_object().cloned().unwrap_or_default();
                Ok(Inspected::ClusterSettings {
                    persistent: of("persistent"),
                    transient: of("transient"),
                })
            }
            other => {
                let shown = format!("{other:?}");
                Err(unsupported_error(&format!(
                    "the question [{}]",
                    shown.split([' ', '(']).next().unwrap_or_default()
                )))
            }
        }
    }

    pub(crate) async fn rehearse(&self, writes: &[Write]) -> Result<Vec<Result<Option<Alteration>>>> {
        let mut known: BTreeMap<&str, Result<IndexInfo>> = BTreeMap::new();
        for write in writes {
            let name = write.at.index.as_str();
            if !known.contains_key(name) {
                let found = match self.indices(&Target::index(name)).await {
                    Ok(mut found) if found.len() == 1 => Ok(found.remove(0)),
                    Ok(found) => Err(Error::illegal(format!("[{name}] is {} indices", found.len()))),
                    Err(error) if error.kind() == ErrorKind::IndexNotFound => Err(error),
                    Err(error) => return Err(error),
                };
                known.insert(name, found);
            }
        }
        Ok(writes
            .iter()
            .map(|write| rehearse_one(write, known.get(write.at.index.as_str())))
            .collect())
    }

    pub(crate) async fn alter(&self, alteration: Alteration) -> Result<Altered> {
        let (method, path, body, target) = match &alteration {
            Alteration::CreateIndex {
                name,
                settings,
                mappings,
                aliases,
                typed: false,
                if_absent,
            } => {
                let mut mappings = mappings.clone().unwrap_or_else(|| json!({}));
                for (field, kind) in marks::properties().as_object().into_iter().flatten() {
                    mappings["properties"][field] = kind.clone();
                }
                let body = json!({ "settings": settings, "mappings": mappings, "aliases": aliases });
                let altered = Altered {
                    indices: vec![IndexName::new(name.as_str())],
                    changed: true,
                };
                return match self
                    .http
                    .json("PUT", &format!("/{}", percent_encode(name)), Some(&body))
                    .await
                {
                    Err(error) if *if_absent && error.kind() == ErrorKind::IndexAlreadyExists => Ok(Altered {
                        changed: false,
                        ..altered
                    }),
                    other => other.map(|_| altered),
                };
            }
            Alteration::DeleteIndices(target) => ("DELETE", "", None, target),
            Alteration::OpenIndices(target) => ("POST", "/_open", None, target),
            Alteration::CloseIndices(target) => ("POST", "/_close", None, target),
            Alteration::PutMapping {
                target,
                doc_type: None,
                body,
            } => ("PUT", "/_mapping", Some(body), target),
            other => {
                let shown = format!("{other:?}");
                return Err(unsupported_error(&format!(
                    "the alteration [{}]",
                    shown.split([' ', '(']).next().unwrap_or_default()
                )));
            }
        };
        let any_state = Target {
            expand_closed: true,
            ..target.clone()
        };
        let indices: Vec<IndexName> = self.indices(&any_state).await?.into_iter().map(|info| info.name).collect();
        let (names, parameters) = target_path(target)?;
        self.http.json(method, &format!("/{names}{path}?{parameters}"), body).await?;
        if method == "DELETE" {
            lock(&self.marked).retain(|name| !indices.iter().any(|index| index.as_str() == name));
        }
        Ok(Altered {
            changed: !indices.is_empty(),
            indices,
        })
    }
}

fn rehearse_one(write: &Write, info: Option<&Result<IndexInfo>>) -> Result<Option<Alteration>> {
    let info = info
        .cloned()
        .unwrap_or_else(|| Err(Error::illegal("an index that was not looked at")))?;
    let value = match &write.op {
        WriteOp::Delete => return Ok(None),
        WriteOp::Put(source) => source.parse()?,
        WriteOp::Update(_) => return Err(unsupported_error("the rehearsal of an update")),
    };
    let options = ReadOptions {
        id: &write.at.id.id,
        type_name: "",
        routing: write.routing.as_deref(),
        ..ReadOptions::default()
    };
    let growth = info.mapping.read(&value, &options)?.growth;
    Ok(growth.map(|growth| Alteration::PutMapping {
        target: Target::index(info.name.as_str()),
        doc_type: None,
        body: growth.render(),
    }))
}

/// An index as the cluster tells of it; the field of marks is ours.
fn info(name: &str, about: &Value) -> Result<IndexInfo> {
    let all = about["settings"].as_object().cloned().unwrap_or_default();
    let text = |key: &str| all.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut mappings = about["mappings"].clone();
    let mut is_empty = false;
    if let Some(properties) = mappings["properties"].as_object_mut() {
        properties.remove(marks::FIELD);
        is_empty = properties.is_empty();
    }
    if let Some(mappings) = mappings.as_object_mut().filter(|_| is_empty) {
        mappings.remove("properties");
    }
    let registry = mapping::settings::registry(&all)?;
    let limits = mapping::settings::limits(&all);
    let mapping = Mapping::parse(&mappings, &registry, &limits).map_err(|cause| {
        let reason = format!(
            "the mapping of [{name}] has what cannot be rehearsed here: {}",
            cause.reason()
        );
        Error::new(ErrorKind::UnsupportedOperation, reason).with_cause(cause)
    })?;
    let settings = all
        .iter()
        .filter(|(key, _)| !NOT_SETTINGS.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    Ok(IndexInfo {
        name: IndexName::new(name),
        uuid: text("index.uuid"),
        created_ms: text("index.creation_date").parse().unwrap_or(0),
        open: text("index.verified_before_close") != "true",
        typed: false,
        settings,
        mappings: mapping.render(),
        mapping,
        registry,
        aliases: about["aliases"].as_object().cloned().unwrap_or_default(),
        stopped: None,
        troubled: false,
        restored_from: None,
    })
}
