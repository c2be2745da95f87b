//! Verifies the signature of a form's policy with Signature Version 4.
//!
//! Source: "Authenticating Requests in Browser-Based Uploads Using POST" in the Amazon S3 API Reference.

use chrono::{DateTime, TimeDelta, Utc};
use hmac::Mac;
use s3s::{S3Result, s3_error};

use super::policy::denied;
use crate::{
    access::AccessKeys,
    s3::{
        auth::authenticate::{CredentialScope, unknown_access_key, version_2},
        sigv4::{ALGORITHM, MAX_EXPIRES_SECONDS, MAX_SKEW_SECONDS, parse_hex, parse_time, signing_key},
        wire::{
            error::{ErrorDetail, detailed},
            form::fields::{FormFields, argument},
        },
    },
};

const SIGNATURE: &str = "x-amz-signature";
const CREDENTIAL: &str = "x-amz-credential";
const DATE: &str = "x-amz-date";
const ALGORITHM_FIELD: &str = "x-amz-algorithm";

/// Verifies that an access key of the node signed the form's policy, and returns the key's id.
pub(super) fn verify(fields: &FormFields, keys: &AccessKeys, now: DateTime<Utc>) -> S3Result<String> {
    let is_signed =
        [ALGORITHM_FIELD, CREDENTIAL, DATE, SIGNATURE].iter().any(|name| fields.get(name).is_some());
    if !is_signed && (fields.get("awsaccesskeyid").is_some() || fields.get("signature").is_some()) {
        return Err(version_2());
    }
    if !is_signed {
        return Err(s3_error!(
            AccessDenied,
            "Access Denied: this node requires forms to have a policy that is signed with an access key."
        ));
    }

    let policy = fields.required("policy")?;
    let algorithm = fields.required(ALGORITHM_FIELD)?;
    if algorithm != ALGORITHM {
        let message = format!("x-amz-algorithm only supports \"{ALGORITHM}\".");
        return Err(argument(ALGORITHM_FIELD, algorithm, message));
    }

    let credential = fields.required(CREDENTIAL)?;
    let scope = CredentialScope::parse(credential).ok_or_else(|| {
        let message = "the Credential is mal-formed; expecting \"ID/YYYYMMDD/REGION/s3/aws4_request\".";
        argument(CREDENTIAL, credential, message.to_owned())
    })?;
    let date = fields.required(DATE)?;
    let signed = parse_time(date).filter(|_| date.get(..8) == Some(scope.day.as_str())).ok_or_else(|| {
        let message = "x-amz-date must be written YYYYMMDDTHHMMSSZ and be of the credential's day.";
        argument(DATE, date, message.to_owned())
    })?;

    let age = now - signed;
    if age < -TimeDelta::seconds(i64::from(MAX_SKEW_SECONDS)) {
        return Err(s3_error!(AccessDenied, "Request is not yet valid"));
    }
    // No Signature Version 4 signature is valid for longer.
    if age > TimeDelta::seconds(MAX_EXPIRES_SECONDS as i64) {
        return Err(denied("Policy expired."));
    }

    let provided = fields.required(SIGNATURE)?;
    let secret = keys.secret(&scope.access_key).ok_or_else(|| unknown_access_key(&scope.access_key))?;
    let key =
        signing_key(secret.expose(), &scope.day, &scope.region).ok_or_else(|| s3_error!(InternalError))?;
    let mac = key.chain_update(policy);

    // The comparison takes constant time.
    let is_valid = parse_hex(provided).is_some_and(|value| mac.verify_slice(&value).is_ok());
    if !is_valid {
        return Err(detailed(
            s3_error!(
                SignatureDoesNotMatch,
                "The request signature we calculated does not match the signature you provided. Check your key and signing method."
            ),
            vec![
                ErrorDetail::new("AWSAccessKeyId", scope.access_key),
                ErrorDetail::new("StringToSign", policy.to_owned()),
                ErrorDetail::new("SignatureProvided", provided.to_owned()),
            ],
        ));
    }

    Ok(scope.access_key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AccessKeyConfig, Secret};

    /// The example of Amazon's documentation.
    const POLICY: &str = "eyAiZXhwaXJhdGlvbiI6ICIyMDE1LTEyLTMwVDEyOjAwOjAwLjAwMFoiLA0KICAiY29uZGl0aW9ucyI6IFsNCiAgICB7ImJ1Y2tldCI6ICJzaWd2NGV4YW1wbGVidWNrZXQifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRrZXkiLCAidXNlci91c2VyMS8iXSwNCiAgICB7ImFjbCI6ICJwdWJsaWMtcmVhZCJ9LA0KICAgIHsic3VjY2Vzc19hY3Rpb25fcmVkaXJlY3QiOiAiaHR0cDovL3NpZ3Y0ZXhhbXBsZWJ1Y2tldC5zMy5hbWF6b25hd3MuY29tL3N1Y2Nlc3NmdWxfdXBsb2FkLmh0bWwifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRDb250ZW50LVR5cGUiLCAiaW1hZ2UvIl0sDQogICAgeyJ4LWFtei1tZXRhLXV1aWQiOiAiMTQzNjUxMjM2NTEyNzQifSwNCiAgICB7IngtYW16LXNlcnZlci1zaWRlLWVuY3J5cHRpb24iOiAiQUVTMjU2In0sDQogICAgWyJzdGFydHMtd2l0aCIsICIkeC1hbXotbWV0YS10YWciLCAiIl0sDQoNCiAgICB7IngtYW16LWNyZWRlbnRpYWwiOiAiQUtJQUlPU0ZPRE5ON0VYQU1QTEUvMjAxNTEyMjkvdXMtZWFzdC0xL3MzL2F3czRfcmVxdWVzdCJ9LA0KICAgIHsieC1hbXotYWxnb3JpdGhtIjogIkFXUzQtSE1BQy1TSEEyNTYifSwNCiAgICB7IngtYW16LWRhdGUiOiAiMjAxNTEyMjlUMDAwMDAwWiIgfQ0KICBdDQp9";
    const EXAMPLE_SIGNATURE: &str = "8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e";

    fn keys() -> AccessKeys {
        AccessKeys::new(&[AccessKeyConfig {
            id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            token: None,
            buckets: vec!["*".into()],
            prefixes: Vec::new(),
            write: true,
        }])
    }

    fn example() -> Vec<(&'static str, &'static str)> {
        vec![
            ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request"),
            ("X-Amz-Date", "20151229T000000Z"),
            ("Policy", POLICY),
            ("X-Amz-Signature", EXAMPLE_SIGNATURE),
        ]
    }

    fn verify_at(fields: &[(&str, &str)], now: &str) -> Result<String, String> {
        let verified = verify(&FormFields::of(fields), &keys(), parse_time(now).unwrap());
        verified.map_err(|error| error.code().as_str().to_owned())
    }

    /// Verifies the example with one field changed, or left out.
    fn changed(name: &str, value: Option<&'static str>) -> Result<String, String> {
        let mut fields = example();
        fields.retain_mut(|field| {
            let is_meant = field.0.eq_ignore_ascii_case(name);
            field.1 = value.filter(|_| is_meant).unwrap_or(field.1);
            !is_meant || value.is_some()
        });
        verify_at(&fields, "20151229T010000Z")
    }

    #[test]
    fn the_example_of_the_documentation_is_verified() {
        assert_eq!(verify_at(&example(), "20151229T010000Z").unwrap(), "AKIAIOSFODNN7EXAMPLE");
        assert_eq!(verify_at(&example(), "20160106T000000Z").unwrap_err(), "AccessDenied");
        assert_eq!(verify_at(&example(), "20151228T234000Z").unwrap_err(), "AccessDenied");
    }

    #[test]
    fn a_form_that_is_signed_otherwise_is_refused() {
        for (name, value, code) in [
            ("policy", Some("e30="), "SignatureDoesNotMatch"),
            ("x-amz-signature", Some("8afd"), "SignatureDoesNotMatch"),
            ("x-amz-credential", Some("other/20151229/us-east-1/s3/aws4_request"), "InvalidAccessKeyId"),
            (
                "x-amz-credential",
                Some("AKIAIOSFODNN7EXAMPLE/20151229/x/s3/aws4_request"),
                "SignatureDoesNotMatch",
            ),
            (
                "x-amz-credential",
                Some("AKIAIOSFODNN7EXAMPLE/20151228/us-east-1/s3/aws4_request"),
                "InvalidArgument",
            ),
            (
                "x-amz-credential",
                Some("AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/sts/aws4_request"),
                "InvalidArgument",
            ),
            ("x-amz-algorithm", Some("AWS4-HMAC-SHA1"), "InvalidArgument"),
            ("x-amz-date", Some("2015-12-29"), "InvalidArgument"),
            ("policy", None, "InvalidArgument"),
            ("x-amz-signature", None, "InvalidArgument"),
            ("x-amz-date", None, "InvalidArgument"),
        ] {
            assert_eq!(changed(name, value).unwrap_err(), code, "{name} {value:?}");
        }

        let now = "20151229T010000Z";
        assert_eq!(verify_at(&[("key", "a"), ("policy", POLICY)], now).unwrap_err(), "AccessDenied");
        let version_2 = [("AWSAccessKeyId", "a"), ("policy", POLICY), ("signature", "x")];
        assert_eq!(verify_at(&version_2, now).unwrap_err(), "InvalidRequest");
    }
}
