//! Passwords by argon2id, keys by BLAKE3, both compared in constant time. Salts and keys come from the caller.
//!
//! A key is 128 random bits, so that a fast hash of it tells nothing. Not here: random numbers (`rest::security`).

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use model::{Error, ErrorKind, Result};
use subtle::ConstantTimeEq as _;

/// kB of memory, passes and lanes of a hash: what OWASP gives for argon2id.
const MEMORY_KB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;
const HASH_BYTES: usize = 32;
/// Bytes of a salt.
pub const SALT_BYTES: usize = 16;
/// The shortest salt of a hash that a client gives.
const SALT_MIN_BYTES: usize = 8;
/// The most that a hash of a client may cost, so that none takes all memory.
const MEMORY_MAX_KB: u32 = 4 * MEMORY_KB;
const PASSES_MAX: u32 = 8;
const LANES_MAX: u32 = 4;
/// Bytes of memory that hashing one password takes.
pub const HASHING_BYTES: usize = MEMORY_KB as usize * 1024;

/// The shortest password.
pub const PASSWORD_MIN: usize = 6;
/// The longest.
pub const PASSWORD_MAX: usize = 1024;

const _: () = assert!(PASSWORD_MIN <= PASSWORD_MAX, "there is a length that a password may have");
const _: () = assert!(
    SALT_BYTES >= SALT_MIN_BYTES && MEMORY_KB <= MEMORY_MAX_KB && PASSES <= PASSES_MAX && LANES <= LANES_MAX,
    "a hash that is made here has the bounds of hashes that are compared"
);

/// Is it long enough, and short enough?
///
/// # Errors
/// It is not.
pub fn check_password(password: &str) -> Result<()> {
    let bytes = password.len();
    if (PASSWORD_MIN..=PASSWORD_MAX).contains(&bytes) {
        return Ok(());
    }
    let reason = format!("passwords must be at least [{PASSWORD_MIN}] and at most [{PASSWORD_MAX}] bytes long");
    Err(Error::new(
        ErrorKind::ActionRequestValidation,
        format!("Validation Failed: 1: {reason};"),
    ))
}

/// A password's hash, with all that is needed to compare another one.
///
/// # Errors
/// Internal: argon2 refuses.
pub fn hash(password: &str, salt: &[u8; SALT_BYTES]) -> Result<String> {
    let digest = digest(password, salt, MEMORY_KB, PASSES, LANES)?;
    let (salt, digest) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(digest));
    let hash = format!("$argon2id$v=19$m={MEMORY_KB},t={PASSES},p={LANES}${salt}${digest}");
    assert!(is_hash(&hash), "a hash that is made here can be compared");
    Ok(hash)
}

/// Is it the password of this hash? A hash that cannot be read is of no password.
pub fn is_password(password: &str, hash: &str) -> bool {
    let Some((memory, passes, lanes, salt, expected)) = parts(hash) else {
        return false;
    };
    // One of another length than any that is kept is no password, and would take long.
    if password.len() > PASSWORD_MAX {
        return false;
    }
    digest(password, &salt, memory, passes, lanes).is_ok_and(|digest| same(&digest, &expected))
}

fn digest(password: &str, salt: &[u8], memory: u32, passes: u32, lanes: u32) -> Result<[u8; HASH_BYTES]> {
    let failed = |cause: argon2::Error| Error::new(ErrorKind::Internal, format!("hashing a password failed: {cause}"));
    let params = Params::new(memory, passes, lanes, Some(HASH_BYTES)).map_err(failed)?;
    let mut out = [0; HASH_BYTES];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(password.as_bytes(), salt, &mut out)
        .map_err(failed)?;
    Ok(out)
}

type Parts = (u32, u32, u32, Vec<u8>, Vec<u8>);

fn parts(hash: &str) -> Option<Parts> {
    let mut parts = hash.strip_prefix("$argon2id$v=19$")?.split('$');
    let (costs, salt, digest) = (parts.next()?, parts.next()?, parts.next()?);
    let mut costs = costs.split(',');
    let mut cost = |name: &str| costs.next()?.strip_prefix(name)?.parse::<u32>().ok();
    let (memory, passes, lanes) = (cost("m=")?, cost("t=")?, cost("p=")?);
    // Hashes of clients (`password_hash`) must not take all memory.
    if memory > MEMORY_MAX_KB || passes > PASSES_MAX || lanes > LANES_MAX {
        return None;
    }
    let bytes = |text: &str| STANDARD_NO_PAD.decode(text).ok();
    Some((memory, passes, lanes, bytes(salt)?, bytes(digest)?))
}

/// Can a hash that a client gives be compared?
pub fn is_hash(hash: &str) -> bool {
    parts(hash).is_some_and(|(.., salt, digest)| salt.len() >= SALT_MIN_BYTES && digest.len() == HASH_BYTES)
}

/// Equal, told in a time that says nothing of where they differ.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

/// The hash of an API key's secret, in hexadecimal.
pub fn key_hash(secret: &str) -> String {
    blake3::hash(secret.as_bytes()).to_hex().to_string()
}

/// Is it the secret of this hash?
pub fn is_key(secret: &str, hash: &str) -> bool {
    same(key_hash(secret).as_bytes(), hash.as_bytes())
}

/// Id and secret as `Authorization: ApiKey` carries them.
pub fn encode_key(id: &str, secret: &str) -> String {
    let encoded = STANDARD.encode(format!("{id}:{secret}"));
    debug_assert!(
        decode_pair(&encoded).is_some_and(|(name, rest)| name == id && rest == secret),
        "a key that is given to a client is read as it was made"
    );
    encoded
}

/// Name and secret of credentials in base64.
pub fn decode_pair(text: &str) -> Option<(String, String)> {
    let bytes = STANDARD
        .decode(text.trim())
        .or_else(|_| STANDARD_NO_PAD.decode(text.trim()))
        .ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (name, secret) = text.split_once(':')?;
    (!name.is_empty()).then(|| (name.to_owned(), secret.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_keys_are_compared() {
        let hash = hash("correct horse", &[7; SALT_BYTES]).expect("hashed");
        assert!(is_hash(&hash) && is_password("correct horse", &hash));
        assert!(!is_password("correct horsf", &hash) && !is_password("", &hash));
        assert!(!is_password("correct horse", "$argon2id$v=19$m=99999999,t=2,p=1$AAAA$AAAA"));
        assert!(is_key("secret", &key_hash("secret")) && !is_key("secre", &key_hash("secret")));
        let encoded = encode_key("id", "a:b");
        assert_eq!(decode_pair(&encoded), Some(("id".to_owned(), "a:b".to_owned())));
        assert_eq!(decode_pair("%%"), None);
    }

    #[test]
    fn passwords_have_bounds() {
        for (length, fits) in [(5, false), (6, true), (1024, true), (1025, false)] {
            assert_eq!(check_password(&"x".repeat(length)).is_ok(), fits, "{length}");
        }
    }
}
