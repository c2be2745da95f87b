//! Uploads by HTML form, S3's POST Object: read up to the file, verified, and stored or sent on while the file arrives.
//!
//! ```text
//! body ─▶ fields and file (multipart, fields) ─▶ signature ─▶ conditions (policy) ─▶ forward::form, for S3 origins
//!                                                                                 └▶ put ─▶ PutObject ─▶ success
//! ```
//!
//! What signs a form is in its fields, so nothing is known of its sender before they are read. They are few; the file is
//! never held.

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

/// The prefix of fields that would make a write a copy: nothing checks whether their sender may read the source.
const COPY: &str = "x-amz-copy-source";

/// A form read up to the bytes of its file, not yet verified.
pub(crate) struct PostForm {
    fields: FormFields,
    file: FormFile,
}

/// A form that its sender may send as far as its policy goes; whether the key may be written is not checked yet.
pub(crate) struct VerifiedForm {
    /// With the file's name in place of `${filename}`.
    pub(crate) fields: FormFields,
    pub(crate) key: String,
    /// Fails if it has fewer or more bytes than the policy allows.
    pub(crate) file: FormFile,
}

impl PostForm {
    /// Reads a form up to the bytes of its file.
    pub(crate) async fn read(headers: &HeaderMap, body: Body) -> S3Result<Self> {
        let FormHead { mut fields, file_name, file } = FormHead::read(headers, body).await?;
        fields.expand(&file_name)?;
        Ok(Self { fields, file })
    }

    /// The key that the form names.
    pub(crate) fn key(&self) -> Option<&str> {
        self.fields.get("key")
    }

    /// The access key that the form names, whether it is its sender's or not.
    pub(crate) fn named_access_key(&self) -> Option<&str> {
        self.fields.get("x-amz-credential")?.split('/').next()
    }

    /// Verifies who signed the form, and returns the access key; `None` on a node without keys.
    pub(crate) fn authenticate(&self, keys: &AccessKeys, now: DateTime<Utc>) -> S3Result<Option<String>> {
        match keys.is_empty() {
            true => Ok(None),
            false => signature::verify(&self.fields, keys, now).map(Some),
        }
    }

    /// Checks the fields against the policy. A form without one, which a node without keys takes, may be anything.
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
