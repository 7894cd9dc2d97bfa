//! Who asks: credentials are compared with the users and keys that are stored, and what was compared is kept for a while.
//!
//! `credentials` reads headers, `store` keeps records in the index of users and keys, `verified` what was compared lately,
//! `attempts` slows who fails, `audit` tells of decisions. Not here: what a principal may do (`security`), where that is asked
//! (`guard`).

mod attempts;
mod audit;
mod credentials;
mod store;
mod verified;

pub use audit::{Audit, AuditEvent, AuditSink, Events};
pub(crate) use credentials::{SCHEMES, claimed_user};
pub use store::{RecordStore, new_salt, random_text};

use attempts::Attempts;
use credentials::{Credentials, challenge};
use engine::Clock;
use model::settings::{LOGIN_MAX_WAITING, node_count};
use model::{Error, ErrorKind, Result};
use security::{Principal, secrets};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;
use verified::Verified;

/// Passwords that are hashed at once: each takes 19 MB.
const HASHED_AT_ONCE: usize = 2;

/// A hash of no password: who names a user that there is not waits as long as others.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Users, roles and keys, and who has proved to be one of them.
#[derive(Debug)]
pub struct Security {
    /// The records.
    pub store: RecordStore,
    pub(crate) audit: Audit,
    clock: Arc<dyn Clock>,
    verified: Verified,
    attempts: Attempts,
    hashing: Semaphore,
    waiting: AtomicUsize,
}

/// A request, as refusals name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuditedRequest<'a> {
    pub(crate) path: &'a str,
    pub(crate) peer: &'a str,
}

impl Security {
    /// Over these records.
    ///
    /// # Errors
    /// The machine gives no random numbers.
    pub fn new(store: RecordStore, clock: Arc<dyn Clock>, audit: Audit) -> Result<Security> {
        assert!(
            secrets::is_hash(NOBODY),
            "a user that there is not has a hash that can be compared, or would be told from others by the time"
        );
        Ok(Security {
            store,
            audit,
            clock,
            verified: Verified::new()?,
            attempts: Attempts::default(),
            hashing: Semaphore::new(HASHED_AT_ONCE),
            waiting: AtomicUsize::new(0),
        })
    }

    /// Who sends these `Authorization` headers.
    ///
    /// # Errors
    /// `security_exception` (401): there are none, they cannot be read, or they are of nobody. 429: too many others wait.
    pub(crate) async fn authenticate(&self, headers: &[&str], asked: AuditedRequest<'_>) -> Result<Arc<Principal>> {
        let given = match headers {
            [] => return Err(missing(asked)),
            [one] => credentials::split(one),
            // Of several a proxy in front may have looked at another one.
            _ => None,
        };
        let Some((scheme, text)) = given else {
            return Err(self.refuse(None, asked));
        };
        let records = self.store.records();
        let key = self.verified.key(scheme, text);
        let now = self.clock.monotonic();
        if let Some(principal) = self.verified.get(key, now, &records, self.clock.wall_ms()) {
            return Ok(principal);
        }
        let Some(credentials) = Credentials::decode(scheme, text) else {
            return Err(self.refuse(None, asked));
        };
        let found = match &credentials {
            Credentials::Key { id, secret } => {
                let live = records.keys.get(id).filter(|known| known.is_live(self.clock.wall_ms()));
                let hash = live.map_or("", |known| known.hash.as_str());
                match secrets::is_key(secret, hash) {
                    true => live.and_then(|known| Principal::of_key(&records, known)),
                    false => None,
                }
            }
            Credentials::Password { user, password } => {
                let _place = self.wait(user, asked).await?;
                let known = records.users.get(user);
                let hash = known.map_or(NOBODY, |known| known.password_hash.as_str()).to_owned();
                let right = self.is_password(password.clone(), hash).await?;
                known
                    .filter(|known| right && known.enabled)
                    .map(|known| Principal::of_user(&records, known))
            }
        };
        let Some(principal) = found else {
            return Err(self.refuse(Some(&credentials), asked));
        };
        self.attempts.forget(credentials.name(), asked.peer);
        let principal = Arc::new(principal);
        self.verified.put(key, principal.clone(), self.clock.monotonic());
        Ok(principal)
    }

    /// A password's hash, made beside the threads of requests.
    ///
    /// # Errors
    /// It is too short or too long.
    pub(crate) async fn hash(&self, password: String) -> Result<String> {
        secrets::check_password(&password)?;
        let salt = new_salt()?;
        let _permit = self.permit().await?;
        blocking(move || secrets::hash(&password, &salt)).await?
    }

    async fn is_password(&self, password: String, hash: String) -> Result<bool> {
        let _permit = self.permit().await?;
        blocking(move || secrets::is_password(&password, &hash)).await
    }

    async fn permit(&self) -> Result<tokio::sync::SemaphorePermit<'_>> {
        let closed = |_| Error::new(ErrorKind::Internal, "nobody hashes passwords any more");
        self.hashing.acquire().await.map_err(closed)
    }

    /// Waits for as long as earlier failures of this name and address say.
    async fn wait(&self, name: &str, asked: AuditedRequest<'_>) -> Result<LoginSlot<'_>> {
        let place = LoginSlot::take(&self.waiting)?;
        let delay = self.attempts.delay(name, asked.peer, self.clock.monotonic());
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        Ok(place)
    }

    fn refuse(&self, credentials: Option<&Credentials>, asked: AuditedRequest<'_>) -> Error {
        let name = credentials.map(Credentials::name);
        if let Some(name) = name {
            self.attempts.fail(name, asked.peer, self.clock.monotonic());
        }
        self.audit.failed_login(self.clock.wall_ms(), name, asked);
        let reason = match credentials {
            Some(Credentials::Password { user, .. }) => {
                format!("unable to authenticate user [{user}] for REST request [{}]", asked.path)
            }
            Some(Credentials::Key { .. }) => {
                format!(
                    "unable to authenticate with provided credentials and anonymous access is not allowed for this request [{}]",
                    asked.path
                )
            }
            None => format!(
                "unable to authenticate with provided credentials for REST request [{}]",
                asked.path
            ),
        };
        challenge(reason)
    }
}

fn missing(asked: AuditedRequest<'_>) -> Error {
    challenge(format!(
        "missing authentication credentials for REST request [{}]",
        asked.path
    ))
}

/// A place among those who wait for their password to be compared.
struct LoginSlot<'a>(&'a AtomicUsize);

impl<'a> LoginSlot<'a> {
    fn take(waiting: &'a AtomicUsize) -> Result<LoginSlot<'a>> {
        let most = node_count(LOGIN_MAX_WAITING);
        if waiting.fetch_add(1, Ordering::AcqRel) >= most {
            waiting.fetch_sub(1, Ordering::AcqRel);
            let reason = format!(
                "[{most}] logins wait for their turn, the limit of [{}]",
                LOGIN_MAX_WAITING.name
            );
            return Err(Error::new(ErrorKind::RejectedExecution, reason).with("setting", LOGIN_MAX_WAITING.name));
        }
        Ok(LoginSlot(waiting))
    }
}

impl Drop for LoginSlot<'_> {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "a login that ends was counted when it began to wait");
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|cause| Error::new(ErrorKind::Internal, format!("comparing a password failed: {cause}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_logins_are_bounded() {
        let waiting = AtomicUsize::new(0);
        let most = node_count(LOGIN_MAX_WAITING);
        let places: Vec<_> = (0..most).map(|_| LoginSlot::take(&waiting).expect("there is room")).collect();
        let refused = LoginSlot::take(&waiting).err().expect("there is none");
        assert_eq!(
            (refused.status(), refused.details()["setting"].as_str()),
            (429, Some(LOGIN_MAX_WAITING.name))
        );
        drop(places);
        assert!(LoginSlot::take(&waiting).is_ok());
    }
}
