//! Secrets shared between nodes: the secret of Flight tickets and the secret of a cluster.

use super::{Secret, entry::entries::SecretEntry};
use crate::Result;

/// Minimum length in characters: a shorter secret could be guessed.
const MIN_SECRET_CHARS: usize = 16;

/// Reads the secret with this key in its table; `env` looks up environment variables.
pub(super) fn resolve(
    key: &str,
    secret: Option<&SecretEntry>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Secret>> {
    let Some(entry) = secret else { return Ok(None) };
    let secret = entry.read(key, env)?;
    if secret.expose().chars().count() < MIN_SECRET_CHARS {
        let what =
            format!("{key}: give at least {MIN_SECRET_CHARS} characters, such as `openssl rand -hex 32`");
        return entry.given().from.error(what);
    }
    Ok(Some(secret))
}
