//! Uploads by HTML form, S3's POST Object: read up to the file, verified, and stored or forwarded while the file
//! arrives.
//!
//! ```text
//! body ─▶ fields and file (multipart, fields) ─▶ signature ─▶ conditions (policy) ─▶ forward::form, for S3 origins
//!                                                                                 └▶ put ─▶ PutObject ─▶ success
//! ```
//!
//! A form is signed in its fields, so its sender is unknown until they have been read. Their size is limited, and the
//! file is never buffered.

mod policy;
mod put;
mod signature;
mod success;

use chrono::{DateTime, Utc};
use http::HeaderMap;
use s3s::{Body, S3Result, s3_error};

use self::policy::FormPolicy;
pub(in crate::s3) use self::success::SuccessAction;
use crate::{
    access::AccessKeys,
    s3::wire::form::{
        fields::{FormFields, argument},
        multipart::{FormFile, FormHead},
    },
};

/// Prefix of fields that would turn the write into a copy, for which the sender's right to read the source is not
/// checked.
const COPY: &str = "x-amz-copy-source";

/// A form read up to the bytes of its file, not yet verified.
pub(crate) struct PostForm {
    fields: FormFields,
    file: FormFile,
}

/// A form that satisfies its policy. The right to write the key is not checked yet.
pub(crate) struct VerifiedForm {
    /// Fields with `${filename}` replaced by the file's name.
    pub(crate) fields: FormFields,
    pub(crate) key: String,
    /// The file, whose stream fails if its length is outside the policy's range.
    pub(crate) file: FormFile,
}

impl PostForm {
    /// Reads a form up to the bytes of its file.
    pub(crate) async fn read(headers: &HeaderMap, body: Body) -> S3Result<Self> {
        let FormHead { mut fields, file_name, file } = FormHead::read(headers, body).await?;
        fields.expand(&file_name)?;
        Ok(Self { fields, file })
    }

    /// Returns the key that the form names.
    pub(crate) fn key(&self) -> Option<&str> {
        self.fields.get("key")
    }

    /// Returns the access key that the form names, without verifying it.
    pub(crate) fn named_access_key(&self) -> Option<&str> {
        self.fields.get("x-amz-credential")?.split('/').next()
    }

    /// Verifies the form's signature, and returns the access key; `None` on a node without keys.
    pub(crate) fn authenticate(&self, keys: &AccessKeys, now: DateTime<Utc>) -> S3Result<Option<String>> {
        if keys.is_empty() { Ok(None) } else { signature::verify(&self.fields, keys, now).map(Some) }
    }

    /// Checks the fields against the policy. A form without a policy is unrestricted; only a node without keys
    /// accepts one.
    pub(crate) fn check(self, bucket: &str, now: DateTime<Utc>) -> S3Result<VerifiedForm> {
        let Self { fields, mut file } = self;
        if let Some(policy) = fields.get("policy") {
            file = file.with_allowed_len(FormPolicy::parse(policy)?.check(bucket, &fields, now)?);
        }
        if let Some(copy) = fields.iter().map(|field| field.lower_name()).find(|name| name.starts_with(COPY))
        {
            return Err(s3_error!(InvalidArgument, "PostObject: {copy} belongs to copies"));
        }
        if let Some(named) = fields.get("bucket").filter(|named| *named != bucket) {
            let message = "The form is sent to another bucket than its field names.".to_owned();
            return Err(argument("bucket", named, message));
        }

        let key = fields.required("key")?.to_owned();
        if key.is_empty() {
            return Err(argument("key", "", "User key must have a length greater than 0.".to_owned()));
        }
        Ok(VerifiedForm { fields, key, file })
    }
}
