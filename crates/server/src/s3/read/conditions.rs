//! Conditional requests: evaluates If-Match and its three siblings against one version of an object.
//!
//! Precedence as in S3 and RFC 9110, section 13.2.2: If-Match before If-Unmodified-Since, which is ignored if the
//! former is present; If-None-Match before If-Modified-Since, in the same way.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use s3s::{
    S3Error,
    dto::{ETag, ETagCondition, Timestamp},
};

use crate::s3::wire::error;

/// Result of evaluating a request's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionOutcome {
    /// All of them hold.
    Proceed,
    /// The client already has this version.
    NotModified,
    /// A precondition does not hold.
    Failed,
}

/// Conditions of a request; all are optional.
#[derive(Debug, Default)]
pub(crate) struct ReadConditions {
    pub(crate) if_match: Option<ETagCondition>,
    pub(crate) if_none_match: Option<ETagCondition>,
    pub(crate) if_modified_since: Option<Timestamp>,
    pub(crate) if_unmodified_since: Option<Timestamp>,
}

impl ReadConditions {
    /// Returns true if the answer is likely to be "not modified", so that reading the metadata first is worthwhile.
    pub(crate) fn revalidates(&self) -> bool {
        self.if_none_match.is_some() || self.if_modified_since.is_some()
    }

    /// Returns true if there are no conditions.
    pub(crate) fn is_empty(&self) -> bool {
        !self.revalidates() && self.if_match.is_none() && self.if_unmodified_since.is_none()
    }

    /// Returns true if a condition is `*`, which stands for any version and which servers interpret differently.
    pub(crate) fn name_any(&self) -> bool {
        [&self.if_match, &self.if_none_match].into_iter().any(|tag| *tag == Some(ETagCondition::Any))
    }

    /// Returns the error for failed conditions, which names the decisive one.
    pub(crate) fn failed(&self) -> S3Error {
        let name = match (&self.if_match, &self.if_unmodified_since) {
            (Some(_), _) => "If-Match",
            (None, Some(_)) => "If-Unmodified-Since",
            (None, None) => "If-None-Match",
        };
        error::precondition_failed(name)
    }

    /// Evaluates the conditions for a version with this ETag and modification time.
    pub(crate) fn check(&self, etag: Option<&ETag>, last_modified: DateTime<Utc>) -> ConditionOutcome {
        if self.is_empty() {
            return ConditionOutcome::Proceed;
        }
        let changed = timestamp(last_modified);
        let holds = match (&self.if_match, &self.if_unmodified_since) {
            (Some(ETagCondition::Any), _) => true,
            (Some(ETagCondition::ETag(wanted)), _) => etag.is_some_and(|etag| etag.strong_cmp(wanted)),
            (None, Some(since)) => changed <= *since,
            (None, None) => true,
        };

        if !holds {
            return ConditionOutcome::Failed;
        }
        let same = match (&self.if_none_match, &self.if_modified_since) {
            (Some(ETagCondition::Any), _) => true,
            (Some(ETagCondition::ETag(known)), _) => etag.is_some_and(|etag| etag.weak_cmp(known)),
            (None, Some(since)) => changed <= *since,
            (None, None) => false,
        };

        if same { ConditionOutcome::NotModified } else { ConditionOutcome::Proceed }
    }
}

/// Truncates a time to whole seconds, the resolution of HTTP headers.
pub(crate) fn timestamp(time: DateTime<Utc>) -> Timestamp {
    let seconds = u64::try_from(time.timestamp()).unwrap_or(0);
    Timestamp::from(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 500_000_000).unwrap()
    }

    fn check(conditions: ReadConditions) -> ConditionOutcome {
        conditions.check(Some(&ETag::Strong("now".into())), at(1_000))
    }

    fn etag(value: &str) -> Option<ETagCondition> {
        Some(ETagCondition::ETag(ETag::Strong(value.into())))
    }

    #[test]
    fn a_matching_if_match_overrules_if_unmodified_since() {
        let early = Some(timestamp(at(1)));
        let both = ReadConditions {
            if_match: etag("now"),
            if_unmodified_since: early.clone(),
            ..Default::default()
        };

        assert_eq!(check(both), ConditionOutcome::Proceed);
        assert_eq!(
            check(ReadConditions { if_unmodified_since: early, ..Default::default() }),
            ConditionOutcome::Failed
        );
    }

    #[test]
    fn a_different_if_none_match_overrules_if_modified_since() {
        let late = Some(timestamp(at(2_000)));
        let both = ReadConditions {
            if_none_match: etag("old"),
            if_modified_since: late.clone(),
            ..Default::default()
        };

        assert_eq!(check(both), ConditionOutcome::Proceed);
        assert_eq!(
            check(ReadConditions { if_modified_since: late, ..Default::default() }),
            ConditionOutcome::NotModified
        );
    }

    #[test]
    fn a_failed_precondition_comes_before_not_modified() {
        let both = ReadConditions { if_match: etag("old"), if_none_match: etag("now"), ..Default::default() };
        assert_eq!(check(both), ConditionOutcome::Failed);
        let held = ReadConditions { if_match: etag("now"), if_none_match: etag("now"), ..Default::default() };
        assert_eq!(check(held), ConditionOutcome::NotModified);
    }

    #[test]
    fn the_second_in_which_an_object_changed_counts_as_not_modified() {
        let same = ReadConditions { if_modified_since: Some(timestamp(at(1_000))), ..Default::default() };
        assert_eq!(check(same), ConditionOutcome::NotModified);
        let same = ReadConditions { if_unmodified_since: Some(timestamp(at(1_000))), ..Default::default() };
        assert_eq!(check(same), ConditionOutcome::Proceed);
    }

    #[test]
    fn a_weak_etag_proves_nothing_but_that_nothing_changed() {
        let weak = ETag::Weak("now".into());
        let conditions = ReadConditions { if_match: etag("now"), ..Default::default() };
        assert_eq!(conditions.check(Some(&weak), at(1_000)), ConditionOutcome::Failed);
        let conditions = ReadConditions { if_none_match: etag("now"), ..Default::default() };
        assert_eq!(conditions.check(Some(&weak), at(1_000)), ConditionOutcome::NotModified);
    }
}
