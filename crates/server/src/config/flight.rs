//! What the Flight door is told beside its address.

use std::time::Duration;

use super::{Secret, entry::entries::SecretEntry};
use crate::Result;

/// Fewer characters than this could be guessed.
const LEAST_SECRET: usize = 16;

/// The Flight door.
#[derive(Clone, Debug)]
pub struct FlightConfig {
    /// What tickets are signed with. Nodes that share it accept each other's tickets. Default: none, a key that is
    /// made when the door opens and never leaves the process.
    pub ticket_secret: Option<Secret>,
    /// How long a ticket may be used. Default: 1 h.
    pub ticket_lifetime: Duration,
}

impl FlightConfig {
    /// How long a ticket may be used where nothing is said.
    pub const TICKET_LIFETIME: Duration = Duration::from_secs(60 * 60);
}

impl Default for FlightConfig {
    fn default() -> Self {
        Self { ticket_secret: None, ticket_lifetime: Self::TICKET_LIFETIME }
    }
}

/// Understands what was given; `env` gives environment variables.
pub(super) fn resolve(
    ticket_lifetime: Duration,
    secret: Option<&SecretEntry>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<FlightConfig> {
    let Some(entry) = secret else { return Ok(FlightConfig { ticket_secret: None, ticket_lifetime }) };
    let secret = entry.read("ticket_secret", env)?;
    if secret.expose().chars().count() < LEAST_SECRET {
        let what =
            format!("ticket_secret: give at least {LEAST_SECRET} characters, such as `openssl rand -hex 32`");
        return entry.given().from.error(what);
    }
    Ok(FlightConfig { ticket_secret: Some(secret), ticket_lifetime })
}
