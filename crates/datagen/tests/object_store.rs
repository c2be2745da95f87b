//! Runs that write their files to an object store.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use stylobate_columnar::orc::OrcCompression;
use stylobate_datagen::{Benchmark, Error, Event, FileFormat, GenerateRequest, Output, Scale, verify};
use stylobate_storage::SinkOptions;

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_made_kept_and_verified_in_every_format() {
    let mut sums = Vec::new();
    let orc = FileFormat::Orc { compression: OrcCompression::default() };
    for format in [FileFormat::PARQUET, orc, FileFormat::Csv, FileFormat::Arrow] {
        let output = Output::open("memory:///bench/tpch", &[], SinkOptions::default()).unwrap();
        let request = GenerateRequest::new(Benchmark::TpcH, Scale::new(0.01).unwrap());
        let request = request.with_tables(&["nation", "orders"]).unwrap().with_format(format);
        let made = request.generate(&output, |_| {}).await.unwrap();
        assert!(made.complete && made.files.len() == 2);
        let mut kept = 0;
        let again = request.generate(&output, |event| kept += usize::from(matches!(event, Event::Kept(_))));
        assert_eq!(again.await.unwrap(), made);
        assert_eq!(kept, 2);
        let verdicts = verify(&output, |_| {}).await.unwrap();
        assert!(verdicts.len() == 2 && verdicts.iter().all(|verdict| verdict.ok), "{verdicts:?}");
        let other = GenerateRequest::new(Benchmark::TpcH, Scale::new(0.02).unwrap());
        assert!(matches!(other.generate(&output, |_| {}).await, Err(Error::Occupied { .. })));
        sums.push(made.files.iter().map(|file| file.columns.clone()).collect::<Vec<_>>());
    }
    assert!(sums.iter().all(|sums_of_format| sums_of_format == &sums[0]));
}

#[tokio::test]
async fn where_nothing_was_made_there_is_nothing_to_verify() {
    let output = Output::open("memory:///empty", &[], SinkOptions::default()).unwrap();
    assert!(matches!(verify(&output, |_| {}).await, Err(Error::Manifest { .. })));
}
