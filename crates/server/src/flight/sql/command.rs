//! Flight SQL messages in descriptors, tickets and actions.

use arrow_flight::{
    ActionType,
    sql::{Any, Command, ProstMessageExt},
};
use prost::Message;
use tonic::Status;

use super::super::error::invalid;

/// Common prefix of the type URLs of all messages.
const PREFIX: &str = "type.googleapis.com/arrow.flight.protocol.sql.";

/// Supported actions with their descriptions.
const ACTIONS: [(&str, &str); 2] = [
    ("CreatePreparedStatement", "Parses a query, and returns a handle of it, its columns and its parameters"),
    ("ClosePreparedStatement", "Does nothing: the handle holds all there is of the query"),
];

/// Actions for transactions and similar features, which are refused.
const REFUSED_ACTIONS: [&str; 6] = [
    "BeginSavepoint",
    "BeginTransaction",
    "CancelQuery",
    "CreatePreparedSubstraitPlan",
    "EndSavepoint",
    "EndTransaction",
];

/// Decodes the message in a descriptor or ticket; `None` if the bytes are not a Flight SQL message.
pub(in crate::flight) fn command_in(bytes: &[u8]) -> Result<Option<Command>, Status> {
    let any = Any::decode(bytes).ok().filter(|any| any.type_url.starts_with(PREFIX));
    any.map(|any| Command::try_from(any).map_err(|_| malformed())).transpose()
}

/// Returns true if an action belongs to Flight SQL.
pub(in crate::flight) fn is_action(name: &str) -> bool {
    ACTIONS.iter().any(|(known, _)| *known == name) || REFUSED_ACTIONS.contains(&name)
}

/// Lists the supported actions.
pub(in crate::flight) fn actions() -> impl Iterator<Item = ActionType> {
    ACTIONS
        .into_iter()
        .map(|(name, does)| ActionType { r#type: name.to_owned(), description: does.to_owned() })
}

/// Decodes the message of an action.
pub(super) fn request<M: ProstMessageExt>(body: &[u8]) -> Result<M, Status> {
    let any = Any::decode(body).map_err(|_| malformed())?;
    any.unpack().ok().flatten().ok_or_else(malformed)
}

/// Encodes a message with its type URL.
pub(super) fn packed(message: &impl ProstMessageExt) -> Vec<u8> {
    message.as_any().encode_to_vec()
}

fn malformed() -> Status {
    invalid("Flight SQL: the message is malformed")
}

#[cfg(test)]
mod tests {
    use arrow_flight::sql::CommandStatementQuery;

    use super::*;

    #[test]
    fn messages_are_told_from_scan_commands_and_tickets() {
        let query = CommandStatementQuery { query: "SELECT 1".to_owned(), transaction_id: None };
        let found = command_in(&packed(&query)).unwrap();
        assert_eq!(found, Some(Command::CommandStatementQuery(query)));

        let foreign = Any { type_url: "type.googleapis.com/other".to_owned(), value: "x".into() };
        let sealed = [vec![1_u8], vec![7; 200]].concat();
        let foreign = foreign.encode_to_vec();
        let scan = br#"{"version":1,"path":"lake"}"#.as_slice();
        for other in [scan, sealed.as_slice(), [255; 50].as_slice(), foreign.as_slice(), b""] {
            assert_eq!(command_in(other).unwrap(), None);
        }

        let broken = Any { type_url: format!("{PREFIX}CommandStatementQuery"), value: vec![255; 9].into() };
        assert!(command_in(&broken.encode_to_vec()).is_err());
    }
}
