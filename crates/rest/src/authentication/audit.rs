//! The audit: one line of JSON for each decision that is asked for. Secrets and bodies are in none.
//!
//! Not here: where lines go (the server gives a sink).

use super::AuditedRequest;
use model::{Error, Result, nearest};
use security::{Principal, Realm};
use serde_json::{Value, json};
use std::fmt;

/// Takes lines.
pub trait AuditSink: fmt::Debug + Send + Sync {
    /// Keeps a line, without its end.
    fn line(&self, text: &str);
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditEvent {
    AccessGranted,
    AccessDenied,
    AuthenticationFailed,
}

/// Each with its name.
const NAMES: &[(&str, AuditEvent)] = &[
    ("access_granted", AuditEvent::AccessGranted),
    ("access_denied", AuditEvent::AccessDenied),
    ("authentication_failed", AuditEvent::AuthenticationFailed),
];

model::assert_words_differ!(NAMES; 0, "each decision has a name of its own");

/// The decisions that are told.
#[derive(Clone, Debug, Default)]
pub struct Events(Vec<AuditEvent>);

impl Events {
    /// Reads names with commas between them.
    ///
    /// # Errors
    /// A name that is none.
    pub fn parse(setting: &str, text: &str) -> Result<Events> {
        let mut out = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let Some((_, event)) = NAMES.iter().find(|(known, _)| *known == name) else {
                let known = NAMES.iter().map(|(known, _)| *known);
                let hint = nearest::question(name, known.clone());
                let all = known.collect::<Vec<_>>().join(", ");
                return Err(Error::illegal(format!("[{setting}]: [{name}] is none of [{all}]{hint}")));
            };
            out.push(*event);
        }
        Ok(Events(out))
    }
}

/// Where decisions are told, if they are.
#[derive(Debug, Default)]
pub struct Audit {
    events: Events,
    sink: Option<Box<dyn AuditSink>>,
}

impl Audit {
    /// To this sink.
    pub fn new(events: Events, sink: Box<dyn AuditSink>) -> Audit {
        Audit {
            events,
            sink: Some(sink),
        }
    }

    /// Is any decision written down?
    pub(crate) fn is_on(&self) -> bool {
        self.sink.is_some()
    }

    fn tell(&self, event: AuditEvent, line: impl FnOnce() -> Value) {
        let Some(sink) = &self.sink else { return };
        if self.events.0.contains(&event) {
            sink.line(&line().to_string());
        }
    }

    pub(super) fn failed_login(&self, at_ms: i64, name: Option<&str>, asked: AuditedRequest<'_>) {
        let AuditedRequest { path, peer } = asked;
        self.tell(AuditEvent::AuthenticationFailed, || {
            json!({ "@timestamp": moment(at_ms), "event": "authentication_failed", "user": name, "origin": peer, "path": path })
        });
    }

    pub(crate) fn record_decision(
        &self,
        at_ms: i64,
        principal: &Principal,
        action: &str,
        asked: AuditedRequest<'_>,
        denied: Option<&str>,
    ) {
        let event = match denied {
            Some(_) => AuditEvent::AccessDenied,
            None => AuditEvent::AccessGranted,
        };
        self.tell(event, || {
            let name = match event {
                AuditEvent::AccessDenied => "access_denied",
                _ => "access_granted",
            };
            let mut line = json!({
                "@timestamp": moment(at_ms), "event": name, "user": principal.user.name, "roles": principal.user.roles,
                "action": action, "origin": asked.peer, "path": asked.path,
            });
            if let Realm::ApiKey(key) = &principal.realm {
                line["api_key"] = key.id.as_str().into();
            }
            if let Some(reason) = denied {
                line["reason"] = reason.into();
            }
            line
        });
    }
}

/// A moment as people read it.
fn moment(at_ms: i64) -> Value {
    match model::date::DateFormat::parse_pattern("strict_date_time") {
        Ok(format) => format.render(at_ms, None).into(),
        Err(_) => at_ms.into(),
    }
}
