//! Settings of the Flight door beside its address.

use std::time::Duration;

use super::{Secret, entry::entries::SecretEntry};
use crate::Result;

/// Minimum length in characters: shorter secrets could be guessed.
const MIN_SECRET_CHARS: usize = 16;

/// The Flight door.
#[derive(Clone, Debug)]
pub struct FlightConfig {
    /// Secret that signs tickets. Nodes that share it accept each other's tickets. Default: none, a key that is
    /// generated when the door opens and never leaves the process.
    pub ticket_secret: Option<Secret>,
    /// Lifetime of a ticket. Default: 1 h.
    pub ticket_lifetime: Duration,
}

impl FlightConfig {
    /// Default lifetime of a ticket.
    pub const TICKET_LIFETIME: Duration = Duration::from_secs(60 * 60);
}

impl Default for FlightConfig {
    fn default() -> Self {
        Self { ticket_secret: None, ticket_lifetime: Self::TICKET_LIFETIME }
    }
}

/// Resolves the settings; `env` looks up environment variables.
pub(super) fn resolve(
    ticket_lifetime: Duration,
    secret: Option<&SecretEntry>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<FlightConfig> {
    let Some(entry) = secret else { return Ok(FlightConfig { ticket_secret: None, ticket_lifetime }) };
    let secret = entry.read("ticket_secret", env)?;
    if secret.expose().chars().count() < MIN_SECRET_CHARS {
        let what = format!(
            "ticket_secret: give at least {MIN_SECRET_CHARS} characters, such as `openssl rand -hex 32`"
        );
        return entry.given().from.error(what);
    }
    Ok(FlightConfig { ticket_secret: Some(secret), ticket_lifetime })
}
