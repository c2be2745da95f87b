//! Regression tests: files that fuzzing found, in the folder `found`, yield errors or rows.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::time::{Duration, SystemTime};

use stylobate_columnar::{Dictionaries, Error, ScanRequest, Source, inspect};
use support::{Folder, cache, collect};

/// Returns `true` for the error of a task that panicked.
fn broke_down<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Ended { reason }) if reason.contains("panic"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_found_breaks_nothing_any_more() {
    let found = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/found");
    for file in std::fs::read_dir(found).unwrap() {
        let file = file.unwrap().path();
        let folder = Folder::new();
        let path = folder.path("found");
        std::fs::copy(&file, &path).unwrap();
        let copy = std::fs::File::options().write(true).open(&path).unwrap();
        copy.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();

        for memory in [0, 64 << 20] {
            let cache = cache(memory).await;
            for dictionary in [Dictionaries::Auto, Dictionaries::All, Dictionaries::None] {
                let request = ScanRequest::new(&path).with_dictionary(dictionary);
                assert!(!broke_down(&collect(request, &cache).await), "{}", file.display());
            }
            let source = Source::Url { url: path.clone(), options: Vec::new() };
            assert!(!broke_down(&inspect(&source, &cache).await), "{}", file.display());
        }
    }
}
