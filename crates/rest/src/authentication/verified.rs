//! Credentials that were compared lately, by a keyed hash of them as they are encoded: who sends the same text again is known before
//! it is decoded. Spaces and the scheme's case do not count, or one user could fill the cache. Nothing in it can be turned into a password.
//!
//! **Invariant** (security.md S3): an entry counts for as long as the records say the same: a changed password, a disabled user and
//! an ended key are noticed by the next request.

use super::credentials::Scheme;
use super::store::random_bytes;
use model::Result;
use model::settings::{CREDENTIALS_CACHE, CREDENTIALS_CACHE_TTL, node_count, node_duration};
use security::{Principal, Realm, Records};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(super) type CacheKey = [u8; 32];

/// The cache.
pub(super) struct Verified {
    /// Drawn at the start.
    key: [u8; 32],
    entries: Mutex<HashMap<CacheKey, Entry>>,
}

struct Entry {
    principal: Arc<Principal>,
    until: Duration,
}

impl fmt::Debug for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verified")
    }
}

impl Verified {
    pub(super) fn new() -> Result<Verified> {
        Ok(Verified {
            key: random_bytes()?,
            entries: Mutex::default(),
        })
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<CacheKey, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn key(&self, scheme: Scheme, text: &str) -> CacheKey {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&[match scheme {
            Scheme::Password => 0,
            Scheme::Key => 1,
        }]);
        hasher.update(text.as_bytes());
        *hasher.finalize().as_bytes()
    }

    /// Whoever gave these credentials before, with the rights of now.
    pub(super) fn get(&self, key: CacheKey, now: Duration, records: &Records, wall_ms: i64) -> Option<Arc<Principal>> {
        let mut entries = self.entries();
        let entry = entries.get_mut(&key).filter(|entry| now < entry.until)?;
        if entry.principal.version != records.version {
            match again(&entry.principal, records) {
                Some(principal) => entry.principal = Arc::new(principal),
                None => {
                    entries.remove(&key);
                    return None;
                }
            }
        }
        debug_assert_eq!(
            entry.principal.version, records.version,
            "security.md S3: credentials count with the rights of the records of now"
        );
        match &entry.principal.realm {
            Realm::ApiKey(known) if !known.is_live(wall_ms) => None,
            _ => Some(entry.principal.clone()),
        }
    }

    pub(super) fn put(&self, key: CacheKey, principal: Arc<Principal>, now: Duration) {
        let (most, ttl) = (node_count(CREDENTIALS_CACHE), node_duration(CREDENTIALS_CACHE_TTL));
        let mut entries = self.entries();
        if entries.len() >= most {
            entries.retain(|_, entry| now < entry.until);
        }
        // Who does not fit is compared again.
        if entries.len() < most {
            let until = now + ttl;
            entries.insert(key, Entry { principal, until });
        }
    }
}

/// The same principal by other records; `None`: what was compared is not what they have.
fn again(principal: &Principal, records: &Records) -> Option<Principal> {
    match &principal.realm {
        Realm::User => {
            let user = records.users.get(&principal.user.name)?;
            let same = user.enabled && user.password_hash == principal.user.password_hash;
            same.then(|| Principal::of_user(records, user))
        }
        Realm::ApiKey(key) => {
            let now = records.keys.get(&key.id).filter(|now| now.hash == key.hash)?;
            Principal::of_key(records, now)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::credentials::split;
    use super::*;
    use security::User;
    use security::records::Record;

    #[test]
    fn changes_are_noticed_at_once() {
        let verified = Verified::new().expect("random numbers");
        let key = verified.key(Scheme::Password, "dTpw");
        let user = |hash: &str, roles: &[&str], enabled| {
            Arc::new(User {
                name: "u".into(),
                password_hash: hash.into(),
                roles: roles.iter().map(|role| (*role).to_owned()).collect(),
                enabled,
                ..User::default()
            })
        };
        let mut records = Records::default();
        records.put(Record::User(user("h", &[], true)));
        let principal = Principal::of_user(&records, &records.users["u"]);
        let zero = Duration::ZERO;
        verified.put(key, Arc::new(principal), zero);
        let roles = |records: &Records| verified.get(key, zero, records, 0).map(|known| known.user.roles.clone());
        assert_eq!(roles(&records), Some(vec![]));
        records.put(Record::User(user("h", &["superuser"], true)));
        assert_eq!(roles(&records), Some(vec!["superuser".to_owned()]));
        assert!(
            verified.get(key, Duration::from_secs(3600), &records, 0).is_none(),
            "it is too old"
        );
        records.put(Record::User(user("other", &[], true)));
        assert_eq!(roles(&records), None, "another password");
    }

    #[test]
    fn one_way_to_write_credentials_has_one_key() {
        let verified = Verified::new().expect("random numbers");
        let key = |header: &str| split(header).map(|(scheme, text)| verified.key(scheme, text));
        for headers in [
            ["Basic dTpw", "basic  dTpw", " BASIC dTpw  "],
            ["ApiKey dTpw", "Bearer dTpw", "bearer   dTpw"],
        ] {
            let first = key(headers[0]);
            assert!(first.is_some(), "{headers:?}");
            assert!(headers.iter().all(|header| key(header) == first), "{headers:?}");
        }
        assert_ne!(key("Basic dTpw"), key("ApiKey dTpw"));
        assert_ne!(key("Basic dTpw"), key("Basic dTpx"));
        for header in ["Basic", "Digest dTpw", ""] {
            assert_eq!(key(header), None, "{header}");
        }
    }

    #[test]
    fn what_was_compared_is_bounded() {
        let verified = Verified::new().expect("random numbers");
        let records = Records::default();
        let principal = Arc::new(Principal::of_user(&records, &Arc::new(User::default())));
        let most = node_count(CREDENTIALS_CACHE);
        let key = |n: usize| {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&n.to_le_bytes());
            key
        };
        (0..2 * most).for_each(|n| verified.put(key(n), principal.clone(), Duration::ZERO));
        assert_eq!(verified.entries().len(), most);
        // What is too old makes room.
        verified.put(key(most * 3), principal, node_duration(CREDENTIALS_CACHE_TTL));
        assert_eq!(verified.entries().len(), 1);
    }
}
