//! Mapping between peer errors and the HTTP statuses of the peer door.

use http::StatusCode;
use stylobate_storage::PeerError;

/// Returns the status for an error.
pub(crate) fn status_of(error: &PeerError) -> StatusCode {
    match error {
        PeerError::NotFound => StatusCode::NOT_FOUND,
        PeerError::Changed => StatusCode::PRECONDITION_FAILED,
        PeerError::Declined => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// Returns the error for a status.
pub(super) fn error_of(status: StatusCode) -> PeerError {
    let reason = match status {
        StatusCode::NOT_FOUND => return PeerError::NotFound,
        StatusCode::PRECONDITION_FAILED => return PeerError::Changed,
        StatusCode::SERVICE_UNAVAILABLE => return PeerError::Declined,
        StatusCode::CONFLICT => {
            "the bucket has another origin or page_size there, or is not there".to_owned()
        }
        status => format!("it answered with status {}", status.as_u16()),
    };
    PeerError::Failed { reason }
}
