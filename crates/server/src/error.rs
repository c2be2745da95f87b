//! Errors that keep a node from starting or serving, and their exit codes.

use std::{fmt, io, net::SocketAddr};

use crate::provenance::Provenance;

/// The result of an operation of this crate.
pub type Result<T, E = ServerError> = std::result::Result<T, E>;

/// An error of this crate. Each formats as one line that says what to change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The certificate or the key of the doors cannot be used. Correct the file.
    #[error("{}: {reason}", path.display())]
    Tls {
        /// The file.
        path: std::path::PathBuf,
        /// The problem.
        reason: String,
    },

    /// A setting is invalid. Correct it at `at`.
    #[error("{at}: {what}")]
    Config {
        /// The file and line, the environment variable or the flag that gave the setting.
        at: Provenance,
        /// The problem, and a valid alternative.
        what: String,
    },

    /// No bucket is configured, and the default folder does not exist. Name an origin.
    #[error(
        "nothing to serve: there is no folder {folder} here; name one, such as `stylobate serve FOLDER`, \
         or a bucket: `stylobate serve s3://BUCKET`"
    )]
    NothingToServe {
        /// The default folder.
        folder: &'static str,
    },

    /// A door would listen beyond this machine without access keys. Configure an access key.
    #[error(
        "the {door} door refuses {address}: without access keys a node listens on loopback only; \
         give --access-key ID:SECRET or an [[access_key]], or listen on 127.0.0.1"
    )]
    Exposed {
        /// The door: `s3`, `flight`, `admin` or `peer`.
        door: &'static str,
        /// The address to listen on.
        address: SocketAddr,
    },

    /// The address is already in use. Stop the other process, or choose another port.
    #[error("the {door} door cannot use {address}: the port is in use; choose another with {setting}")]
    PortInUse {
        /// The door: `s3`, `flight`, `admin` or `peer`.
        door: &'static str,
        /// The address to listen on.
        address: SocketAddr,
        /// The flag or key that sets another address.
        setting: &'static str,
    },

    /// The address cannot be bound. Choose one of this machine's addresses, and a port that the process may use.
    #[error("the {door} door cannot listen on {address}: {source}")]
    Bind {
        /// The door: `s3`, `flight`, `admin` or `peer`.
        door: &'static str,
        /// The address to listen on.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },

    /// An origin is the node itself, so each read would endlessly trigger another. Name the object store's
    /// endpoint.
    #[error(
        "bucket {bucket}: the origin would be this node's own s3 door: {given_by} says {endpoint}; name the object \
         store's endpoint there, or let the node listen elsewhere with --listen"
    )]
    OwnDoor {
        /// The bucket of the origin.
        bucket: String,
        /// The endpoint, without credentials.
        endpoint: String,
        /// The option, environment variable or origin URL that names it.
        given_by: String,
    },

    /// The state of a cluster could not be fetched from a node's admin door, or the node could not be drained. Check
    /// the URL, the secret, and that the node runs.
    #[error("{url}: {reason}")]
    ClusterStatus {
        /// The URL of the admin door, without credentials.
        url: String,
        /// The problem.
        reason: String,
    },

    /// The admin door of a node did not answer as expected. Check the URL, the secret, and that the node runs.
    #[error("{url}: {reason}")]
    AdminDoor {
        /// The URL of the admin door, without credentials.
        url: String,
        /// The problem.
        reason: String,
    },

    /// An origin does not answer, or refuses the request. Check its URL, its credentials and the network.
    #[error("bucket {bucket}: origin {origin} cannot be reached: {reason}")]
    OriginUnreachable {
        /// The bucket of the origin.
        bucket: String,
        /// The origin's URL, without credentials.
        origin: String,
        /// The origin's error, without the credentials that its URLs may hold.
        reason: String,
    },

    /// The page cache cannot be opened: its folder is locked or cannot be written, or its options contradict each
    /// other. Choose another folder, or other options.
    #[error("{source}")]
    Cache {
        /// The storage crate's error.
        source: stylobate_storage::Error,
    },

    /// Any other error of the storage crate.
    #[error("{source}")]
    Storage {
        /// The storage crate's error.
        source: stylobate_storage::Error,
    },
}

impl ServerError {
    /// Returns the error of an invalid setting. It names the setting by its `key` unless a flag or a variable, which have
    /// its name, gave the value.
    pub fn invalid_setting(at: Provenance, key: &str, reason: impl fmt::Display) -> Self {
        let what = match at {
            Provenance::Flag(_) | Provenance::Env(_) => reason.to_string(),
            Provenance::File { .. } | Provenance::Default => format!("{key}: {reason}"),
        };
        Self::Config { at, what }
    }

    /// Returns the exit code of a process that ends with this error.
    ///
    /// | code | cause |
    /// |---|---|
    /// | 1 | anything not listed here |
    /// | 2 | the command line or the configuration is wrong |
    /// | 3 | an address cannot be listened on, such as a port in use |
    /// | 4 | an origin cannot be reached |
    /// | 5 | the cache cannot be opened, such as a folder that is locked or cannot be written |
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config { .. }
            | Self::NothingToServe { .. }
            | Self::Exposed { .. }
            | Self::Tls { .. }
            | Self::OwnDoor { .. } => 2,
            Self::PortInUse { .. } | Self::Bind { .. } => 3,
            Self::OriginUnreachable { .. } => 4,
            Self::Cache { .. } => 5,
            Self::ClusterStatus { .. } | Self::AdminDoor { .. } => 1,
            Self::Storage { source } => match source {
                stylobate_storage::Error::OriginConfig { .. } => 2,
                _ => 1,
            },
        }
    }
}

impl From<stylobate_storage::Error> for ServerError {
    fn from(source: stylobate_storage::Error) -> Self {
        use stylobate_storage::Error as Storage;
        match source {
            Storage::CacheLocked { .. } | Storage::CacheFolder { .. } | Storage::Cache { .. } => {
                Self::Cache { source }
            }
            _ => Self::Storage { source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_cache_folder_and_a_wrong_origin_have_codes_of_their_own() {
        let locked = stylobate_storage::Error::CacheLocked { dir: "/cache".into() };
        assert_eq!(ServerError::from(locked).exit_code(), 5);
        let origin = stylobate_storage::Error::OriginConfig { url: "x://".into(), reason: "unknown".into() };
        assert_eq!(ServerError::from(origin).exit_code(), 2);
        let gone = stylobate_storage::Error::NotFound { path: "a".into() };
        assert_eq!(ServerError::from(gone).exit_code(), 1);
    }
}
