//! The policy of a form: its expiry, and the conditions on its fields and its file.
//!
//! Source: "Creating a POST Policy" in the Amazon S3 API Reference.

use std::ops::RangeInclusive;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use chrono::{DateTime, Utc};
use s3s::{S3Error, S3ErrorCode, S3Result};
use serde::Deserialize;
use serde_json::Value;

use crate::s3::wire::form::fields::{FormFields, is_ignored};

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Fields that need no condition. Those of Signature Version 2 occur only on a node without keys.
const UNCONDITIONAL: [&str; 5] = ["awsaccesskeyid", "file", "policy", "signature", "x-amz-signature"];

/// A policy, as its signer wrote it.
#[derive(Debug)]
pub(super) struct FormPolicy {
    expiration: DateTime<Utc>,
    conditions: Vec<PolicyCondition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyDocument {
    expiration: String,
    conditions: Vec<Value>,
}

#[derive(Debug)]
enum PolicyCondition {
    /// A condition on a field, by its name in lower case.
    Field {
        name: String,
        test: PolicyMatch,
        operand: String,
    },
    FileLen(RangeInclusive<u64>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PolicyMatch {
    Equal,
    StartsWith,
}

impl FormPolicy {
    /// Parses the field `policy`: JSON in base64.
    pub(super) fn parse(encoded: &str) -> S3Result<Self> {
        let encoded: String = encoded.split_ascii_whitespace().collect();
        let json = BASE64.decode(encoded).map_err(|_| invalid("invalid Base64 encoding."))?;
        let document: PolicyDocument =
            serde_json::from_slice(&json).map_err(|error| invalid(&format!("Invalid JSON: {error}")))?;
        let expiration = DateTime::parse_from_rfc3339(&document.expiration)
            .map_err(|_| invalid(&format!("Invalid 'expiration' value: '{}'", document.expiration)))?;
        let conditions = document.conditions.iter().map(PolicyCondition::parse);
        Ok(Self { expiration: expiration.to_utc(), conditions: conditions.collect::<S3Result<_>>()? })
    }

    /// Checks the fields of a form against the policy. Returns the allowed range of the file's length.
    pub(super) fn check(
        &self,
        bucket: &str,
        fields: &FormFields,
        now: DateTime<Utc>,
    ) -> S3Result<RangeInclusive<u64>> {
        if self.expiration <= now {
            return Err(denied("Policy expired."));
        }
        let names = fields.iter().map(|field| field.lower_name());
        // The bucket is part of the request's URL, even without a field.
        let extra = names
            .chain(["bucket".to_owned()])
            .find(|name| !is_ignored(name) && !UNCONDITIONAL.contains(&name.as_str()) && !self.allows(name));
        if let Some(extra) = extra {
            return Err(denied(&format!("Extra input fields: {extra}")));
        }

        let mut allowed = 0..=u64::MAX;
        for condition in &self.conditions {
            match condition {
                PolicyCondition::FileLen(range) => {
                    let start = *allowed.start().max(range.start());
                    allowed = start..=*allowed.end().min(range.end());
                }
                PolicyCondition::Field { name, test, operand } => {
                    let value = if name == "bucket" { Some(bucket) } else { fields.get(name) };
                    if !value.is_some_and(|value| test.holds(name, value, operand)) {
                        let test = test.name();
                        let condition = serde_json::json!([test, format!("${name}"), operand]);
                        return Err(denied(&format!("Policy Condition failed: {condition}")));
                    }
                }
            }
        }

        Ok(allowed)
    }

    /// Returns true if a condition covers this field.
    fn allows(&self, field: &str) -> bool {
        let names = self.conditions.iter().filter_map(|condition| match condition {
            PolicyCondition::Field { name, .. } => Some(name),
            PolicyCondition::FileLen(_) => None,
        });
        names.into_iter().any(|name| name == field)
    }
}

impl PolicyCondition {
    fn parse(value: &Value) -> S3Result<Self> {
        match value {
            Value::Object(pairs) => {
                let mut pairs = pairs.iter();
                match (pairs.next(), pairs.next()) {
                    (Some((name, Value::String(operand))), None) => Ok(Self::Field {
                        name: name.to_ascii_lowercase(),
                        test: PolicyMatch::Equal,
                        operand: operand.clone(),
                    }),
                    (Some(_), None) => Err(invalid("Invalid Simple-Condition: value must be a string.")),
                    _ => Err(invalid(
                        "Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.",
                    )),
                }
            }
            Value::Array(list) => Self::parse_list(list),
            _ => Err(invalid("Invalid condition test: must be a List or Object.")),
        }
    }

    fn parse_list(list: &[Value]) -> S3Result<Self> {
        let Some(Value::String(operation)) = list.first() else {
            return Err(invalid("Invalid Condition: missing operation identifier."));
        };
        let operation = operation.to_ascii_lowercase();
        let [_, first, second] = list else {
            return Err(invalid(&format!("Invalid {operation}: wrong number of arguments.")));
        };

        let test = match operation.as_str() {
            "eq" => PolicyMatch::Equal,
            "starts-with" => PolicyMatch::StartsWith,
            "content-length-range" => {
                let bound = |value| {
                    bytes_of(value).ok_or_else(|| invalid(&format!("Invalid {operation}: not a number.")))
                };
                return Ok(Self::FileLen(bound(first)?..=bound(second)?));
            }
            _ => return Err(invalid(&format!("Invalid Condition: unknown operation '{operation}'."))),
        };

        let name = first.as_str().and_then(|name| name.strip_prefix('$')).filter(|name| !name.is_empty());
        let operand = match second {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };

        match (name, operand) {
            (Some(name), Some(operand)) => Ok(Self::Field { name: name.to_ascii_lowercase(), test, operand }),
            _ => Err(invalid(&format!("Invalid {operation}: a field such as $key and a text are needed."))),
        }
    }
}

impl PolicyMatch {
    fn name(self) -> &'static str {
        match self {
            Self::Equal => "eq",
            Self::StartsWith => "starts-with",
        }
    }

    fn holds(self, name: &str, value: &str, operand: &str) -> bool {
        match self {
            Self::Equal => value == operand,
            // A list of content types is checked element by element.
            Self::StartsWith if name == "content-type" => {
                value.split(',').all(|value| value.trim().starts_with(operand))
            }
            Self::StartsWith => value.starts_with(operand),
        }
    }
}

/// Parses a number, which S3 also accepts as a string.
fn bytes_of(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn invalid(message: &str) -> S3Error {
    S3Error::with_message(S3ErrorCode::InvalidPolicyDocument, format!("Invalid Policy: {message}"))
}

pub(super) fn denied(message: &str) -> S3Error {
    S3Error::with_message(S3ErrorCode::AccessDenied, format!("Invalid according to Policy: {message}"))
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn check(conditions: &Value, fields: &[(&str, &str)]) -> Result<RangeInclusive<u64>, String> {
        let policy = json!({"expiration": "2026-01-01T00:00:01.000Z", "conditions": conditions});
        let parsed = FormPolicy::parse(&STANDARD.encode(policy.to_string()));
        let now = NOW.parse().unwrap();
        let checked = parsed.and_then(|policy| policy.check("lake", &FormFields::of(fields), now));
        checked.map_err(|error| format!("{}: {}", error.code().as_str(), error.message().unwrap()))
    }

    fn code(conditions: Value, fields: &[(&str, &str)]) -> String {
        let failed = check(&conditions, fields).unwrap_err();
        failed.split(':').next().unwrap().to_owned()
    }

    #[test]
    fn a_form_that_meets_all_conditions_is_taken() {
        let conditions = json!([
            {"bUcKeT": "lake"},
            ["starts-with", "$key", "user/"],
            ["StArTs-WiTh", "$Content-Type", "image/"],
            ["eq", "$x-amz-meta-n", 7],
            {"acl": "private"},
            ["content-length-range", 1, "10"],
            ["content-length-range", 0, 8],
        ]);

        let fields = [
            ("kEy", "user/a"),
            ("Content-Type", "image/png, image/jpeg"),
            ("x-amz-meta-n", "7"),
            ("acl", "private"),
            ("policy", "…"),
            ("x-amz-signature", "…"),
            ("x-ignore-this", "…"),
        ];
        assert_eq!(check(&conditions, &fields), Ok(1..=8));
    }

    #[test]
    fn each_condition_that_fails_refuses_the_form() {
        let bucket = json!({"bucket": "lake"});
        for (condition, value) in [
            (json!({"key": "a"}), "b"),
            (json!(["eq", "$key", "a"]), "A"),
            (json!(["eq", "$key", ""]), "a"),
            (json!(["starts-with", "$key", "user/"]), "users/"),
            (json!(["starts-with", "$key", "a"]), ""),
        ] {
            assert_eq!(code(json!([bucket, condition]), &[("key", value)]), "AccessDenied", "{condition}");
        }

        for (conditions, fields) in [
            (json!([{"bucket": "pond"}]), &[][..]),
            (json!([["starts-with", "$bucket", "x"]]), &[]),
            (json!([{"bucket": "lake"}, ["starts-with", "$key", ""]]), &[]),
            (
                json!([{"bucket": "lake"}, ["starts-with", "$content-type", "image/"]]),
                &[("content-type", "image/png,text/html")],
            ),
        ] {
            assert_eq!(code(conditions, fields), "AccessDenied");
        }

        let failed = check(&json!([bucket, ["eq", "$acl", "private"]]), &[("acl", "public-read")]);
        assert_eq!(
            failed.unwrap_err(),
            r#"AccessDenied: Invalid according to Policy: Policy Condition failed: ["eq","$acl","private"]"#
        );
    }

    #[test]
    fn a_field_that_no_condition_is_about_refuses_the_form() {
        let conditions = json!([{"bucket": "lake"}, {"key": "a"}]);
        let extra = check(&conditions, &[("key", "a"), ("X-Amz-Meta-A", "")]).unwrap_err();
        assert_eq!(extra, "AccessDenied: Invalid according to Policy: Extra input fields: x-amz-meta-a");
        let no_bucket = check(&json!([{"key": "a"}]), &[("key", "a")]).unwrap_err();
        assert_eq!(no_bucket, "AccessDenied: Invalid according to Policy: Extra input fields: bucket");
    }

    #[test]
    fn a_policy_ends_with_its_expiration() {
        let at = |expiration: &str| {
            let policy = json!({"expiration": expiration, "conditions": [{"bucket": "lake"}]});
            let policy = FormPolicy::parse(&STANDARD.encode(policy.to_string())).unwrap();
            policy.check("lake", &FormFields::default(), NOW.parse().unwrap()).is_ok()
        };
        assert!(at("2026-01-01T00:00:00.001Z") && at("2026-01-01T02:00:00+01:00"));
        assert!(!at("2026-01-01T00:00:00Z") && !at("2025-12-31T23:59:59Z"));
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        for policy in [
            "",
            "{}",
            "[]",
            r#"{"expiration": "2026-01-01T00:00:01Z"}"#,
            r#"{"conditions": []}"#,
            r#"{"EXPIRATION": "2026-01-01T00:00:01Z", "conditions": []}"#,
            r#"{"expiration": "2026-01-01 00:00:01", "conditions": []}"#,
            r#"{"expiration": "2026-01-01T00:00:01Z", "conditions": {}}"#,
            r#"{"expiration": "2026-01-01T00:00:01Z", "conditions": [{}]}"#,
            r#"{"expiration": "2026-01-01T00:00:01Z", "conditions": [], "conditions": []}"#,
        ] {
            let refused = FormPolicy::parse(&STANDARD.encode(policy)).unwrap_err();
            assert_eq!(refused.code().as_str(), "InvalidPolicyDocument", "{policy}");
        }

        assert!(FormPolicy::parse("not base64!").is_err());
        for condition in [
            json!({"a": "b", "c": "d"}),
            json!({"a": 1}),
            json!("a"),
            json!([]),
            json!(["eq", "$key"]),
            json!(["eq", "key", "a"]),
            json!(["eq", "$", "a"]),
            json!(["eq", "$key", ["a"]]),
            json!(["matches", "$key", "a"]),
            json!(["content-length-range", 1]),
            json!(["content-length-range", -1, 5]),
            json!(["content-length-range", 1.5, 5]),
        ] {
            assert_eq!(code(json!([condition]), &[]), "InvalidPolicyDocument", "{condition}");
        }
    }
}
