//! Tickets: issued by `GetFlightInfo`, redeemed by `DoGet`.
//!
//! ```text
//! version (1 byte) │ keyed BLAKE3 of version and content (32 bytes) │ content (JSON)
//! ```
//!
//! A ticket contains everything needed to send its batches, so any node with the same secret can redeem it. It grants
//! no access by itself: the bearer must be the caller it was issued to, and must still be allowed to read the bucket.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::{IpcMessage, SchemaAsIpc};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use prost_types::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use stylobate_columnar::ScanPart;
use tonic::{Code, Status};

use super::{
    command::ScanCommand,
    encode::ipc_options,
    error::{invalid, status},
};
use crate::config::Secret;

const VERSION: u8 = 1;
/// Bytes of the keyed hash.
const MAC: usize = blake3::OUT_LEN;
/// Context of the key derivation from the configured secret.
const CONTEXT: &str = "stylobate 2026 key of flight tickets, version 1";

/// Signs and verifies tickets.
pub(super) struct TicketSigner {
    key: [u8; blake3::KEY_LEN],
    lifetime: Duration,
}

/// Content of a ticket.
#[derive(Clone, Debug)]
pub(super) struct ScanTicket {
    pub(super) command: ScanCommand,
    pub(super) scope: TicketScope,
}

/// Portion of the command's scan that the ticket covers.
#[derive(Clone, Debug)]
pub(super) enum TicketScope {
    /// One part, with its output schema.
    Part(Box<ScanPart>),
    /// The whole scan, with this output schema.
    Whole(SchemaRef),
}

/// Serialized content of a ticket.
#[derive(Deserialize, Serialize)]
struct TicketContent {
    command: ScanCommand,
    work: TicketScopeContent,
    /// The id of the access key that it was issued to, if the node has keys.
    owner: Option<String>,
    /// Milliseconds since 1970.
    expires: u64,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum TicketScopeContent {
    Part(Box<ScanPart>),
    /// The schema as an IPC message, in base64.
    Whole(String),
}

impl TicketSigner {
    /// Creates a signer with a key derived from the configured secret, or else with a random key.
    pub(super) fn new(secret: Option<&Secret>, lifetime: Duration) -> Self {
        let key = match secret {
            Some(secret) => blake3::derive_key(CONTEXT, secret.expose().as_bytes()),
            None => rand::random(),
        };
        Self { key, lifetime }
    }

    /// Returns the expiry of a ticket issued now.
    pub(super) fn expiry(&self, now: SystemTime) -> SystemTime {
        now.checked_add(self.lifetime).unwrap_or(now)
    }

    /// Serializes and signs a ticket for `owner`, valid until `expires`.
    pub(super) fn seal(
        &self,
        ticket: &ScanTicket,
        owner: Option<&str>,
        expires: SystemTime,
    ) -> Result<Bytes, Status> {
        let unwritable = || status(Code::Internal, "the ticket cannot be written");
        let work = match &ticket.scope {
            TicketScope::Part(part) => TicketScopeContent::Part(part.clone()),
            TicketScope::Whole(schema) => {
                let schema = IpcMessage::try_from(SchemaAsIpc::new(schema, &ipc_options()));
                TicketScopeContent::Whole(BASE64_STANDARD.encode(schema.map_err(|_| unwritable())?.0))
            }
        };

        self.seal_content(&TicketContent {
            command: ticket.command.clone(),
            work,
            owner: owner.map(str::to_owned),
            expires: milliseconds(expires),
        })
    }

    /// Serializes and signs content of any type. Its owner and expiry are part of the content.
    pub(super) fn seal_content(&self, content: &impl Serialize) -> Result<Bytes, Status> {
        let content = serde_json::to_vec(content)
            .map_err(|_| status(Code::Internal, "the ticket cannot be written"))?;
        Ok([&[VERSION], self.mac(&content).as_bytes().as_slice(), &content].concat().into())
    }

    /// Opens a ticket, if its signature is valid, it was issued to the caller, and it has not expired.
    pub(super) fn open(
        &self,
        bytes: &[u8],
        caller: Option<&str>,
        now: SystemTime,
    ) -> Result<ScanTicket, Status> {
        let content: TicketContent = self.open_content(bytes)?;
        check(content.owner.as_deref(), content.expires, caller, now)?;

        let scope = match content.work {
            TicketScopeContent::Part(part) => TicketScope::Part(part),
            TicketScopeContent::Whole(schema) => {
                let schema = BASE64_STANDARD.decode(schema).map_err(|_| unreadable())?;
                let schema = Schema::try_from(IpcMessage(schema.into())).map_err(|_| unreadable())?;
                TicketScope::Whole(Arc::new(schema))
            }
        };

        Ok(ScanTicket { command: content.command, scope })
    }

    /// Opens content with a valid signature. Its owner and expiry are still to be [checked](check).
    pub(super) fn open_content<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, Status> {
        let (version, rest) = bytes.split_first().ok_or_else(|| invalid("ticket: empty"))?;
        let (mac, content) = rest.split_at_checked(MAC).ok_or_else(|| invalid("ticket: too short"))?;
        if *version != VERSION {
            return Err(invalid("ticket: of a version that is not known here: ask for the flight again"));
        }
        let genuine = blake3::Hash::from_slice(mac).is_ok_and(|mac| mac == self.mac(content));
        if !genuine {
            return Err(denied("ticket: not one of this node, or changed: ask for the flight again"));
        }

        serde_json::from_slice(content).map_err(|_| unreadable())
    }

    /// Computes the keyed hash of the version and the content.
    fn mac(&self, content: &[u8]) -> blake3::Hash {
        // The `==` of `blake3::Hash` takes constant time.
        blake3::Hasher::new_keyed(&self.key).update(&[VERSION]).update(content).finalize()
    }
}

/// Fails if content was issued to another caller, or has expired.
pub(super) fn check(
    owner: Option<&str>,
    expires: u64,
    caller: Option<&str>,
    now: SystemTime,
) -> Result<(), Status> {
    if owner != caller {
        return Err(denied("ticket: issued to another token"));
    }
    if expires <= milliseconds(now) {
        return Err(denied("ticket: expired: ask for the flight again"));
    }
    Ok(())
}

fn unreadable() -> Status {
    invalid("ticket: of another version of this software: ask for the flight again")
}

fn denied(message: &'static str) -> Status {
    status(Code::PermissionDenied, message)
}

/// Returns the milliseconds since 1970.
pub(super) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Converts a time to a protobuf timestamp.
pub(super) fn timestamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Timestamp { seconds, nanos: since.subsec_nanos().cast_signed() }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};
    use arrow_flight::FlightDescriptor;

    use super::*;

    const LIFETIME: Duration = Duration::from_secs(10);

    fn own() -> TicketSigner {
        TicketSigner::new(None, LIFETIME)
    }

    fn shared(secret: &str) -> TicketSigner {
        TicketSigner::new(Some(&Secret::new(secret)), LIFETIME)
    }

    fn ticket() -> ScanTicket {
        let command = r#"{"version":1,"path":"lake/a","where":"a < 1","limit":5}"#;
        let name = DataType::Dictionary(DataType::UInt8.into(), DataType::Utf8.into());
        let fields = vec![Field::new("a", DataType::Int64, true), Field::new("name", name, false)];
        let schema = Schema::new(fields).with_metadata([("k".to_owned(), "v".to_owned())].into());
        let command = ScanCommand::of(&FlightDescriptor::new_cmd(command)).unwrap();
        ScanTicket { command, scope: TicketScope::Whole(Arc::new(schema)) }
    }

    fn code(opened: Result<ScanTicket, Status>) -> Code {
        opened.unwrap_err().code()
    }

    #[test]
    fn an_opened_ticket_has_its_sealed_content() {
        let tickets = shared("a secret of many nodes");
        let now = SystemTime::now();
        let sealed = tickets.seal(&ticket(), Some("me"), tickets.expiry(now)).unwrap();
        for node in [tickets, shared("a secret of many nodes")] {
            let opened = node.open(&sealed, Some("me"), now).unwrap();
            assert_eq!(opened.command, ticket().command);
            let (TicketScope::Whole(opened), TicketScope::Whole(sealed)) = (opened.scope, ticket().scope)
            else {
                panic!()
            };
            assert_eq!(opened, sealed);
        }
    }

    #[test]
    fn a_ticket_with_any_bit_changed_or_any_byte_missing_is_refused() {
        let tickets = shared("a secret of many nodes");
        let now = SystemTime::now();
        let sealed = tickets.seal(&ticket(), None, tickets.expiry(now)).unwrap();
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            let code = code(tickets.open(&changed, None, now));
            assert!(matches!(code, Code::PermissionDenied | Code::InvalidArgument), "bit {bit}: {code:?}");
        }

        for len in 0..sealed.len() {
            assert!(tickets.open(&sealed[..len], None, now).is_err(), "{len} bytes");
        }
        assert!(tickets.open(&[&sealed[..], b" "].concat(), None, now).is_err());
    }

    #[test]
    fn a_ticket_expires() {
        let tickets = own();
        let now = SystemTime::now();
        let sealed = tickets.seal(&ticket(), None, tickets.expiry(now)).unwrap();
        assert!(tickets.open(&sealed, None, now + Duration::from_secs(9)).is_ok());
        assert_eq!(code(tickets.open(&sealed, None, now + Duration::from_secs(10))), Code::PermissionDenied);
    }

    #[test]
    fn a_ticket_is_refused_to_other_callers() {
        let tickets = shared("a secret of many nodes");
        let now = SystemTime::now();
        let of = |owner| tickets.seal(&ticket(), owner, tickets.expiry(now)).unwrap();
        for (owner, caller) in [(Some("me"), Some("you")), (Some("me"), None), (None, Some("me"))] {
            assert_eq!(code(tickets.open(&of(owner), caller, now)), Code::PermissionDenied);
        }
    }

    #[test]
    fn another_nodes_ticket_is_refused_unless_both_share_the_secret() {
        let now = SystemTime::now();
        let tickets = own();
        let sealed = tickets.seal(&ticket(), None, tickets.expiry(now)).unwrap();
        for stranger in [own(), shared("another secret")] {
            assert_eq!(code(stranger.open(&sealed, None, now)), Code::PermissionDenied);
        }
    }

    #[test]
    fn noise_is_refused() {
        let tickets = own();
        for len in [0, 1, 32, 33, 34, 100, 5_000] {
            let noise: Vec<u8> = (0..len).map(|_| rand::random()).collect();
            let code = code(tickets.open(&noise, None, SystemTime::now()));
            assert!(matches!(code, Code::PermissionDenied | Code::InvalidArgument));
        }
    }
}
