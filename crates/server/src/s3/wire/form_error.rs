//! What can be wrong with an upload by HTML form.

/// A form that is not what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FormError {
    /// Not multipart, or it breaks off.
    #[error("the form is malformed")]
    Malformed,
    /// More bytes came before the file than may.
    #[error("the fields before the file are too large")]
    HeadTooLarge,
    /// The file is larger than the policy allows.
    #[error("the file has more than {max} bytes")]
    FileTooLarge {
        /// Bytes that the policy allows at most.
        max: u64,
    },
    /// The file is smaller than the policy allows.
    #[error("the file has {len} bytes, which are fewer than {min}")]
    FileTooSmall {
        /// Bytes that the policy wants at least.
        min: u64,
        /// Bytes of the file.
        len: u64,
    },
}
