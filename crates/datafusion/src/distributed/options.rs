//! Session options that also apply to tasks on other nodes, such as the time zone. They are sent in a header.

use std::collections::HashMap;

use datafusion::{common::Result, config::ConfigOptions, error::DataFusionError, prelude::SessionConfig};
use http::{HeaderMap, HeaderName, HeaderValue};

const OPTIONS: HeaderName = HeaderName::from_static("x-stylobate-sql-options");
/// Prefix of the options that operators read while they run.
const PREFIX: &str = "datafusion.execution.";

/// Returns the header with the options that differ from their defaults.
pub(super) fn to_headers(config: &SessionConfig) -> HeaderMap {
    let of = |options: &ConfigOptions| {
        let entries = options.entries().into_iter().filter(|entry| entry.key.starts_with(PREFIX));
        entries.map(|entry| (entry.key, entry.value)).collect::<HashMap<_, _>>()
    };
    let mut changed = of(config.options());
    let defaults = of(&ConfigOptions::new());
    changed.retain(|key, value| value.is_some() && defaults.get(key) != Some(value));

    let text = serde_json::to_string(&changed).unwrap_or_default();
    let header = HeaderValue::try_from(text).ok().map(|text| (OPTIONS, text));
    header.into_iter().collect()
}

/// Sets the options contained in a header.
pub(super) fn apply(headers: &HeaderMap, config: &mut SessionConfig) -> Result<()> {
    let Some(text) = headers.get(OPTIONS) else { return Ok(()) };
    let wrong = |_| DataFusionError::Plan("the options of a query cannot be read".to_owned());
    let options: HashMap<String, Option<String>> = serde_json::from_slice(text.as_bytes()).map_err(wrong)?;
    for (key, value) in options {
        if let Some(value) = value.filter(|_| key.starts_with(PREFIX)) {
            config.options_mut().set(&key, &value)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_were_set_reach_the_worker_and_others_do_not() {
        let config = SessionConfig::new().with_batch_size(1_000).with_collect_statistics(false);
        let config = config.set_str("datafusion.execution.time_zone", "Europe/Oslo");
        let mut worker = SessionConfig::new();
        apply(&to_headers(&config), &mut worker).unwrap();
        assert_eq!(worker.batch_size(), 1_000);
        assert_eq!(worker.options().execution.time_zone.as_deref(), Some("Europe/Oslo"));

        let mut headers = HeaderMap::new();
        headers.insert(OPTIONS, HeaderValue::from_static(r#"{"datafusion.catalog.location":"/etc"}"#));
        apply(&headers, &mut worker).unwrap();
        assert_eq!(worker.options().catalog.location, None);
        headers.insert(OPTIONS, HeaderValue::from_static("{"));
        assert!(apply(&headers, &mut worker).is_err());
    }
}
