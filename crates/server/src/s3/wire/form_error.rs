//! Errors of an upload by HTML form.

/// Error in a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FormError {
    /// Not multipart, or truncated.
    #[error("the form is malformed")]
    Malformed,
    /// The part before the file is too long.
    #[error("the fields before the file are too large")]
    HeadTooLarge,
    /// The file is larger than the policy allows.
    #[error("the file has more than {max} bytes")]
    FileTooLarge {
        /// Maximum bytes allowed by the policy.
        max: u64,
    },
    /// The file is smaller than the policy allows.
    #[error("the file has {len} bytes, which are fewer than {min}")]
    FileTooSmall {
        /// Minimum bytes required by the policy.
        min: u64,
        /// Bytes of the file.
        len: u64,
    },
}
