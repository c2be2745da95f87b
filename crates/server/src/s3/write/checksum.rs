//! Verifies the received bytes against the client's checksums: Content-MD5 and x-amz-checksum-*, from headers or from
//! the trailers of an aws-chunked body.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use s3s::{
    S3Result,
    checksum::ChecksumHasher,
    crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256},
    dto::Checksum,
    s3_error,
};

use crate::s3::wire::chunked::Trailers;

/// Checksums that the client sent for its bytes.
#[derive(Default)]
pub(crate) struct ClaimedChecksums {
    /// Content-MD5, in base64.
    pub(crate) md5: Option<String>,
    /// The x-amz-checksum-* headers.
    pub(crate) checksum: Checksum,
    /// The x-amz-trailer header: names of the checksums that follow the body.
    pub(crate) trailer_names: Option<String>,
    /// Trailers, available once the body has been read.
    pub(crate) trailers: Option<Trailers>,
}

/// Hashes all bytes, and verifies the claimed checksums at the end.
#[derive(Default)]
pub(crate) struct BodyVerifier {
    claims: ClaimedChecksums,
    hasher: ChecksumHasher,
    md5: Option<Md5>,
}

/// Verified checksums of all bytes.
pub(crate) struct VerifiedChecksums {
    pub(crate) checksum: Checksum,
    /// The MD5, if it was claimed or requested.
    pub(crate) md5: Option<[u8; 16]>,
}

impl BodyVerifier {
    /// Prepares to verify these claims.
    pub(crate) fn new(claims: ClaimedChecksums) -> S3Result<Self> {
        if let Some(md5) = &claims.md5
            && STANDARD.decode(md5).map_or(0, |digest| digest.len()) != 16
        {
            return Err(s3_error!(InvalidDigest, "The Content-MD5 you specified is not valid."));
        }
        let trailer = |name: &str| {
            let names = claims.trailer_names.as_deref().unwrap_or_default();
            names.split(',').any(|found| found.trim().eq_ignore_ascii_case(name))
        };

        let claimed = &claims.checksum;
        let hasher = ChecksumHasher {
            crc32: (claimed.checksum_crc32.is_some() || trailer(CRC32)).then(Crc32::new),
            crc32c: (claimed.checksum_crc32c.is_some() || trailer(CRC32C)).then(Crc32c::new),
            sha1: (claimed.checksum_sha1.is_some() || trailer(SHA1)).then(Sha1::new),
            sha256: (claimed.checksum_sha256.is_some() || trailer(SHA256)).then(Sha256::new),
            crc64nvme: (claimed.checksum_crc64nvme.is_some() || trailer(CRC64NVME)).then(Crc64Nvme::new),
        };
        let md5 = claims.md5.is_some().then(Md5::new);
        Ok(Self { claims, hasher, md5 })
    }

    /// Computes the MD5 even if it is not claimed.
    pub(crate) fn want_md5(&mut self) {
        self.md5.get_or_insert_with(Md5::new);
    }

    /// Hashes the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
    }

    /// Returns the checksums of the bytes, if they match all claims.
    pub(crate) fn finish(self) -> S3Result<VerifiedChecksums> {
        let md5 = self.md5.map(Md5::finalize);
        if let (Some(md5), Some(claimed)) = (md5, &self.claims.md5)
            && STANDARD.encode(md5) != *claimed
        {
            return Err(s3_error!(
                BadDigest,
                "The Content-MD5 you specified did not match what we received."
            ));
        }

        let computed = self.hasher.finalize();
        let trailers = self.claims.trailers.as_ref().and_then(Trailers::take).unwrap_or_default();
        let claimed = &self.claims.checksum;
        for (name, computed, claimed) in [
            (CRC32, &computed.checksum_crc32, &claimed.checksum_crc32),
            (CRC32C, &computed.checksum_crc32c, &claimed.checksum_crc32c),
            (SHA1, &computed.checksum_sha1, &claimed.checksum_sha1),
            (SHA256, &computed.checksum_sha256, &claimed.checksum_sha256),
            (CRC64NVME, &computed.checksum_crc64nvme, &claimed.checksum_crc64nvme),
        ] {
            let Some(computed) = computed else { continue };
            let trailer = trailers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
            let Some(claimed) = claimed.as_deref().or(trailer) else {
                return Err(s3_error!(InvalidRequest, "the trailer {name} was announced and did not come"));
            };
            if claimed != computed {
                return Err(s3_error!(BadDigest, "The {name} you specified did not match what we received."));
            }
        }

        Ok(VerifiedChecksums { checksum: computed, md5 })
    }
}

const CRC32: &str = "x-amz-checksum-crc32";
const CRC32C: &str = "x-amz-checksum-crc32c";
const SHA1: &str = "x-amz-checksum-sha1";
const SHA256: &str = "x-amz-checksum-sha256";
const CRC64NVME: &str = "x-amz-checksum-crc64nvme";

#[cfg(test)]
mod tests {
    use super::*;

    fn verify(claims: ClaimedChecksums) -> Result<Checksum, String> {
        let verify = || {
            let mut verifier = BodyVerifier::new(claims)?;
            verifier.update(b"hel");
            verifier.update(b"lo");
            verifier.finish().map(|verified| verified.checksum)
        };
        verify().map_err(|error: s3s::S3Error| error.code().as_str().to_owned())
    }

    #[test]
    fn what_matches_is_handed_back() {
        let checksum = Checksum { checksum_crc32: Some("NhCmhg==".into()), ..Default::default() };
        let claims =
            ClaimedChecksums { md5: Some("XUFAKrxLKna5cZ2REBfFkg==".into()), checksum, ..Default::default() };
        assert_eq!(verify(claims).unwrap().checksum_crc32.as_deref(), Some("NhCmhg=="));
    }

    #[test]
    fn what_does_not_match_is_refused() {
        let md5 = |md5: &str| ClaimedChecksums { md5: Some(md5.into()), ..Default::default() };
        assert_eq!(verify(md5("1B2M2Y8AsgTpgAmY7PhCfg==")).unwrap_err(), "BadDigest");
        assert_eq!(verify(md5("not base64")).unwrap_err(), "InvalidDigest");
        let checksum = Checksum { checksum_sha256: Some("AAAA".into()), ..Default::default() };
        assert_eq!(verify(ClaimedChecksums { checksum, ..Default::default() }).unwrap_err(), "BadDigest");
    }

    #[test]
    fn an_announced_trailer_must_come() {
        let claims =
            ClaimedChecksums { trailer_names: Some("x-amz-checksum-crc32".into()), ..Default::default() };
        assert_eq!(verify(claims).unwrap_err(), "InvalidRequest");
    }
}
