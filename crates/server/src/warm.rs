//! Loads all objects with a prefix into the cache.

use futures::{StreamExt, stream};
use serde::Serialize;
use stylobate_storage::{ListRequest, ListedKey, ReadThrough, redacted};

/// Maximum objects that are loaded concurrently.
const CONCURRENCY: usize = 4;
/// Maximum errors that are reported by object; further ones are only counted.
const MAX_REPORTED_ERRORS: usize = 100;
const LISTING: usize = 1_000;

/// Result of warming.
#[derive(Default, Serialize)]
pub(crate) struct WarmReport {
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
    /// Objects that were not loaded.
    pub(crate) failed: u64,
    /// The first hundred errors.
    pub(crate) errors: Vec<WarmError>,
}

/// An object that could not be loaded, or a failed listing, which has no key.
#[derive(Serialize)]
pub(crate) struct WarmError {
    key: Option<String>,
    error: String,
}

impl WarmReport {
    fn fail(&mut self, key: Option<String>, error: &stylobate_storage::Error) {
        self.failed += 1;
        if self.errors.len() < MAX_REPORTED_ERRORS {
            self.errors.push(WarmError { key, error: redacted(&error.to_string()).into_owned() });
        }
    }
}

/// Loads the objects whose keys begin with `prefix`, four at a time. A failed object is reported and does not stop
/// the others; a failed listing ends the work, and so does a caller that disconnects.
#[tracing::instrument(
    name = "warm_prefix",
    level = "debug",
    skip_all,
    fields(origin = reader.origin().name(), prefix = prefix)
)]
pub(crate) async fn warm(reader: &ReadThrough, prefix: &str) -> WarmReport {
    let mut warmed = WarmReport::default();
    let mut token = None;
    loop {
        let request = ListRequest {
            prefix: prefix.to_owned(),
            delimiter: String::new(),
            past_prefix: None,
            start_after: None,
            token: token.take(),
            max_keys: LISTING,
        };

        let page = match reader.list_page(request).await {
            Ok(page) => page,
            Err(error) => {
                warmed.fail(None, &error);
                return warmed;
            }
        };

        let load = |ListedKey { meta: object, .. }| async move {
            let loaded = reader.warm(&object.location).await;
            (object, loaded)
        };
        let mut loads = stream::iter(page.objects).map(load).buffer_unordered(CONCURRENCY);
        while let Some((object, loaded)) = loads.next().await {
            match loaded {
                Ok(bytes) => {
                    warmed.objects += 1;
                    warmed.bytes += bytes;
                }
                Err(error) => warmed.fail(Some(object.location.to_string()), &error),
            }
        }

        token = page.next_token;
        if token.is_none() {
            return warmed;
        }
    }
}
