//! Continuation tokens of listings: wraps the storage layer's token in a form that identifies tokens of this node.
//!
//! The form is base64url of a checksum and the inner token. It keeps nothing secret: a caller that may list may start
//! at any key. It prevents foreign tokens from reaching an origin, where they would fail with an error of the
//! origin's own.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use s3s::{
    S3Result,
    crypto::{Checksum as _, Crc32},
    s3_error,
};

/// Wraps a token for a client.
pub(crate) fn seal(inner: &str) -> String {
    let sum = Crc32::checksum(inner.as_bytes());
    URL_SAFE_NO_PAD.encode([&sum[..], inner.as_bytes()].concat())
}

/// Unwraps a client's token.
pub(crate) fn open(token: &str) -> S3Result<String> {
    let refused = || s3_error!(InvalidArgument, "The continuation token provided is incorrect");
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| refused())?;
    let (sum, inner) = bytes.split_at_checked(4).ok_or_else(refused)?;
    if inner.is_empty() || Crc32::checksum(inner) != sum {
        return Err(refused());
    }
    std::str::from_utf8(inner).map(str::to_owned).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_what_it_was_made_of() {
        for inner in ["a", "b/\u{fc} +%&", "\0"] {
            let token = seal(inner);
            assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)), "{token}");
            assert_eq!(open(&token).unwrap(), inner);
        }
    }

    #[test]
    fn a_token_that_nobody_gave_out_is_refused() {
        for token in ["", "\0", "a", "AAAA", "AAAAAA", "b/2", &seal("a").to_lowercase(), &seal("a")[1..]] {
            assert!(open(token).is_err(), "{token:?}");
        }
    }
}
