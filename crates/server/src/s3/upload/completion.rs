//! CompleteMultipartUpload for a folder: the ETag of the parts, a checksum of all bytes, and the answer to a repeated
//! request.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use s3s::{
    S3Result,
    checksum::ChecksumHasher,
    crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256},
    dto::{Checksum, CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CompletedPart},
    s3_error,
};
use stylobate_storage::{JoinCheck, JoinMismatchError, KeptHeaders};
use tokio::sync::OwnedMutexGuard;

use super::kept::{FULL_OBJECT, keep_checksums};

/// Maximum completed uploads to remember.
const MAX_REMEMBERED: usize = 1000;

/// Returns the ETag of an object joined from parts with these ETags; `None` if one of them is not an MD5.
pub(crate) fn etag_of_parts(parts: &[(u32, String)]) -> Option<String> {
    let mut md5 = Md5::new();
    for (_, etag) in parts {
        let mut part = [0; 16];
        hex::decode_to_slice(etag.trim_matches('"'), &mut part).ok()?;
        md5.update(&part);
    }
    Some(format!("{}-{}", hex::encode(md5.finalize()), parts.len()))
}

/// Compares the checksum of all bytes with the expected one, and adds it to the object's kept headers.
struct FullChecksum {
    claimed: Checksum,
    hasher: ChecksumHasher,
    kept: KeptHeaders,
}

impl JoinCheck for FullChecksum {
    fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    fn finish(&mut self) -> Result<(), JoinMismatchError> {
        let computed = std::mem::take(&mut self.hasher).finalize();
        if computed != self.claimed {
            let reason = "The checksum you specified did not match the joined parts.".to_owned();
            return Err(JoinMismatchError { reason });
        }
        keep_checksums(&self.kept, &computed, FULL_OBJECT);
        Ok(())
    }
}

/// Returns a check for the checksum in a request, if that covers all bytes.
pub(crate) fn full_checksum(
    input: &CompleteMultipartUploadInput,
    kept: &KeptHeaders,
) -> S3Result<Option<Box<dyn JoinCheck>>> {
    let claimed = Checksum {
        checksum_crc32: input.checksum_crc32.clone(),
        checksum_crc32c: input.checksum_crc32c.clone(),
        checksum_crc64nvme: input.checksum_crc64nvme.clone(),
        checksum_sha1: input.checksum_sha1.clone(),
        checksum_sha256: input.checksum_sha256.clone(),
        ..Default::default()
    };

    if claimed == Checksum::default() {
        return Ok(None);
    }
    // A composite checksum ends with the number of parts.
    let is_composite = |value: &Option<String>| value.as_ref().is_some_and(|value| value.contains('-'));
    let values =
        [&claimed.checksum_crc32, &claimed.checksum_crc32c, &claimed.checksum_sha1, &claimed.checksum_sha256];
    let says_composite = input.checksum_type.as_ref().is_some_and(|kind| kind.as_str() != FULL_OBJECT);
    if says_composite || values.into_iter().any(is_composite) {
        return check_composite(input, &claimed).map(|()| None);
    }
    // Some clients leave out both the type and the number of parts of a composite checksum.
    if input.checksum_type.is_none()
        && has_part_checksums(input, &claimed)
        && check_composite(input, &claimed).is_ok()
    {
        return Ok(None);
    }

    let hasher = ChecksumHasher {
        crc32: claimed.checksum_crc32.is_some().then(Crc32::new),
        crc32c: claimed.checksum_crc32c.is_some().then(Crc32c::new),
        crc64nvme: claimed.checksum_crc64nvme.is_some().then(Crc64Nvme::new),
        sha1: claimed.checksum_sha1.is_some().then(Sha1::new),
        sha256: claimed.checksum_sha256.is_some().then(Sha256::new),
    };

    Ok(Some(Box::new(FullChecksum { claimed, hasher, kept: kept.clone() })))
}

/// Returns true if the request lists, for each part, the checksum of each kind that is claimed for the object.
fn has_part_checksums(input: &CompleteMultipartUploadInput, claimed: &Checksum) -> bool {
    let parts = input.multipart_upload.as_ref().and_then(|upload| upload.parts.as_deref());
    let are_listed = |part: &CompletedPart| {
        claimed.checksum_crc64nvme.is_none()
            && (claimed.checksum_crc32.is_none() || part.checksum_crc32.is_some())
            && (claimed.checksum_crc32c.is_none() || part.checksum_crc32c.is_some())
            && (claimed.checksum_sha1.is_none() || part.checksum_sha1.is_some())
            && (claimed.checksum_sha256.is_none() || part.checksum_sha256.is_some())
    };
    parts.is_some_and(|parts| !parts.is_empty() && parts.iter().all(are_listed))
}

/// Checks the checksum of the part checksums, if the request lists them.
fn check_composite(input: &CompleteMultipartUploadInput, claimed: &Checksum) -> S3Result<()> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let parts =
        input.multipart_upload.as_ref().and_then(|upload| upload.parts.as_deref()).unwrap_or_default();
    let matches = |claimed: &Option<String>, of_part: Vec<Option<&String>>, hash: fn(&[u8]) -> Vec<u8>| {
        let Some(claimed) = claimed else { return true };
        let raw: Option<Vec<Vec<u8>>> =
            of_part.into_iter().map(|value| STANDARD.decode(value?).ok()).collect();
        raw.is_none_or(|raw| {
            let digest = STANDARD.encode(hash(&raw.concat()));
            *claimed == digest || *claimed == format!("{digest}-{}", parts.len())
        })
    };

    let is_right = matches(
        &claimed.checksum_crc32,
        parts.iter().map(|part| part.checksum_crc32.as_ref()).collect(),
        |bytes| Crc32::checksum(bytes).to_vec(),
    ) && matches(
        &claimed.checksum_crc32c,
        parts.iter().map(|part| part.checksum_crc32c.as_ref()).collect(),
        |bytes| Crc32c::checksum(bytes).to_vec(),
    ) && matches(
        &claimed.checksum_sha1,
        parts.iter().map(|part| part.checksum_sha1.as_ref()).collect(),
        |bytes| Sha1::checksum(bytes).to_vec(),
    ) && matches(
        &claimed.checksum_sha256,
        parts.iter().map(|part| part.checksum_sha256.as_ref()).collect(),
        |bytes| Sha256::checksum(bytes).to_vec(),
    );

    if is_right {
        return Ok(());
    }
    Err(s3_error!(BadDigest, "The checksum you specified did not match those of the parts."))
}

/// Recently completed uploads: a client that did not receive the answer repeats the request, and gets the same
/// answer.
#[derive(Debug, Default)]
pub(crate) struct CompletedUploads {
    answers: Mutex<VecDeque<(CompletedUploadKey, CompleteMultipartUploadOutput)>>,
    /// A lock for each upload that is being completed or aborted.
    turns: Mutex<Vec<(UploadKey, Weak<tokio::sync::Mutex<()>>)>>,
}

/// Identifies an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UploadKey {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) id: String,
}

/// Identifies a completed upload together with its list of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompletedUploadKey {
    pub(crate) upload: UploadKey,
    pub(crate) parts: [u8; 32],
}

/// Returns a hash that identifies a list of parts.
pub(crate) fn hash_of_parts(parts: &[(u32, String)]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for (number, etag) in parts {
        hasher.update(&number.to_le_bytes());
        hasher.update(&(etag.len() as u64).to_le_bytes());
        hasher.update(etag.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

impl CompletedUploads {
    /// Waits until no other request completes or aborts the upload.
    pub(crate) async fn turn(&self, upload: &UploadKey) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock();
            turns.retain(|(_, turn)| turn.strong_count() > 0);
            let running =
                turns.iter().find(|(running, _)| running == upload).and_then(|(_, turn)| turn.upgrade());
            running.unwrap_or_else(|| {
                let turn = Arc::default();
                turns.push((upload.clone(), Arc::downgrade(&turn)));
                turn
            })
        };
        turn.lock_owned().await
    }

    pub(crate) fn note(&self, name: CompletedUploadKey, answer: &CompleteMultipartUploadOutput) {
        let mut all = self.answers.lock();
        if all.len() == MAX_REMEMBERED {
            all.pop_front();
        }
        all.push_back((name, copy_of(answer)));
    }

    pub(crate) fn answer(&self, name: &CompletedUploadKey) -> Option<CompleteMultipartUploadOutput> {
        let all = self.answers.lock();
        all.iter().find(|(completed, _)| completed == name).map(|(_, answer)| copy_of(answer))
    }
}

fn copy_of(answer: &CompleteMultipartUploadOutput) -> CompleteMultipartUploadOutput {
    CompleteMultipartUploadOutput {
        location: answer.location.clone(),
        bucket: answer.bucket.clone(),
        key: answer.key.clone(),
        e_tag: answer.e_tag.clone(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_etag_of_parts_is_the_md5_of_their_md5s() {
        let parts = [(1, "\"5d41402abc4b2a76b9719d911017c592\"".to_owned())];
        let etag = etag_of_parts(&parts).unwrap();
        assert!(etag.ends_with("-1") && etag.len() == 34, "{etag}");
        assert_eq!(etag_of_parts(&[(1, "\"x\"".to_owned())]), None);
    }
}
