//! Lookups of four columns of a row group in the chunk cache, while no chunk is evicted.

use chrono::DateTime;
use divan::Bencher;
use object_store::{ObjectMeta, path::Path};
use stylobate_columnar::measure::CachedRowGroups;
use stylobate_storage::ObjectVersion;

use crate::RUNTIME;

const ROW_GROUPS: usize = 1000;

#[divan::bench]
fn four_columns(bencher: Bencher) {
    let meta = ObjectMeta {
        location: Path::from("sample.parquet"),
        last_modified: DateTime::UNIX_EPOCH,
        size: 1 << 30,
        e_tag: Some("tag".to_owned()),
        version: None,
    };
    let object = ObjectVersion::of("store", &meta).unwrap().hash();
    let cached = RUNTIME.block_on(CachedRowGroups::new(object, ROW_GROUPS));

    let mut row_groups = (0..ROW_GROUPS).cycle();
    bencher.bench_local(|| {
        let found = row_groups.next().map_or(0, |row_group| cached.find(row_group));
        assert_eq!(found, 4);
    });
}
