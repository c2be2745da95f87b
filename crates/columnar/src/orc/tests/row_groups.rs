//! Row groups that are read alone: they equal those of the whole stripe, or are an error, whatever their row index
//! claims.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, RecordBatch},
    compute::concat,
    datatypes::{DataType, Field, Schema},
};
use bytes::Bytes;
use orc_rust::proto::{RowIndex, RowIndexEntry};
use prost::Message;
use rand::{
    Rng, SeedableRng,
    rngs::StdRng,
    seq::{IndexedMutRandom, IndexedRandom},
};
use stylobate_storage::{ByteSize, OpenObject};

use super::{OrcFile, all_fields, object_of, read_all};
use crate::{
    Error, Result,
    file::schema::ProjectedColumn,
    kernels::expand::expand,
    orc::{
        OrcColumnIndex, OrcColumnOptions, OrcCompression, OrcOptions,
        write::tests::{CODECS, array, data_type, write},
    },
};

/// File in a store, and its contents.
pub(super) struct StoredOrcFile {
    _folder: tempfile::TempDir,
    object: OpenObject,
    pub(super) file: OrcFile,
    pub(super) whole: RecordBatch,
}

pub(super) type OrcColumnIndexes = Vec<(usize, Arc<OrcColumnIndex>)>;

impl StoredOrcFile {
    pub(super) async fn new(bytes: &Bytes) -> Self {
        let (folder, object) = object_of(bytes).await;
        let file = OrcFile::open(&object).await.unwrap();
        Self { _folder: folder, object, file, whole: read_all(bytes, 8192).unwrap() }
    }

    pub(super) async fn indexes(&self, stripe: usize, columns: &[(usize, bool)]) -> OrcColumnIndexes {
        let read = self.file.read_indexes(&self.object, stripe, columns).await.unwrap();
        columns.iter().zip(read).map(|((column, _), index)| (*column, Arc::new(index))).collect()
    }

    async fn indexes_of(&self, stripe: usize, fields: &[ProjectedColumn]) -> OrcColumnIndexes {
        let columns: Vec<_> =
            self.file.columns_of(fields).into_iter().map(|column| (column, false)).collect();
        self.indexes(stripe, &columns).await
    }

    /// Returns the rows of row groups within the whole file.
    fn rows(&self, stripe: usize, groups: &Range<usize>) -> Range<usize> {
        let before: u64 = (0..stripe).map(|before| self.file.stripe_rows(before)).sum();
        let row = |group: usize| {
            (before + (group as u64 * self.file.tail.stride).min(self.file.stripe_rows(stripe))) as usize
        };
        row(groups.start)..row(groups.end)
    }

    /// Reads row groups; `None` if the index does not locate them.
    async fn read(
        &self,
        stripe: usize,
        fields: &[ProjectedColumn],
        groups: &[Range<usize>],
        indexes: &OrcColumnIndexes,
    ) -> Option<Result<Vec<ArrayRef>>> {
        let first = self.rows(stripe, &(0..0)).start;
        let rows = groups.iter().map(|groups| self.rows(stripe, groups));
        let rows: Vec<_> = rows.map(|rows| (rows.start - first) as u64..(rows.end - first) as u64).collect();
        let selected = self.file.select(stripe, fields, &rows, indexes)?;
        let selected = self.file.read_selected(&self.object, selected).await.unwrap();

        Some(self.file.decode_selected(&selected, 700).map(|batches| {
            let column = |at: usize| {
                let arrays = batches.iter().map(|(arrays, _)| expand(&arrays[at]).unwrap());
                let arrays: Vec<ArrayRef> = arrays.collect();
                concat(&arrays.iter().map(|array| array.as_ref()).collect::<Vec<_>>()).unwrap()
            };
            (0..fields.len()).map(column).collect()
        }))
    }

    fn expected(&self, stripe: usize, fields: &[ProjectedColumn], groups: &[Range<usize>]) -> Vec<ArrayRef> {
        let column = |field: &ProjectedColumn| {
            let slices = groups.iter().map(|groups| {
                let rows = self.rows(stripe, groups);
                self.whole.column(field.root).slice(rows.start, rows.len())
            });
            let slices: Vec<ArrayRef> = slices.collect();
            concat(&slices.iter().map(|slice| slice.as_ref()).collect::<Vec<_>>()).unwrap()
        };

        fields.iter().map(column).collect()
    }

    /// Checks that random row groups equal those of the whole.
    async fn assert_groups_are_found(&self, random: &mut StdRng, fields: &[ProjectedColumn], what: &str) {
        for stripe in 0..self.file.stripe_count() {
            let indexes = self.indexes_of(stripe, fields).await;
            for _ in 0..3 {
                let groups = some_groups(random, self.file.groups(stripe) as usize);
                let read = self.read(stripe, fields, &groups, &indexes).await;
                let read = read.unwrap_or_else(|| panic!("{what}: no positions")).unwrap();
                assert_eq!(
                    read,
                    self.expected(stripe, fields, &groups),
                    "{what}, {groups:?} of stripe {stripe}"
                );
            }
        }
    }
}

/// Returns ranges of row groups, ascending and disjoint, and at least one.
fn some_groups(random: &mut StdRng, count: usize) -> Vec<Range<usize>> {
    let share = random.random_range(0.1..0.6);
    let mut groups: Vec<Range<usize>> = Vec::new();
    for group in (0..count).filter(|_| random.random_bool(share)) {
        match groups.last_mut() {
            Some(last) if last.end == group => last.end += 1,
            _ => groups.push(group..group + 1),
        }
    }

    if groups.is_empty() {
        let group = random.random_range(0..count);
        groups.push(group..group + 1);
    }
    groups
}

pub(super) fn options(random: &mut StdRng, codec: OrcCompression) -> OrcOptions {
    let column = OrcColumnOptions::default()
        .with_bloom_filter(0.02)
        .with_dictionary_threshold(*[0.0, 0.5, 1.0].choose(random).unwrap());
    OrcOptions::default()
        .with_compression(codec)
        .with_row_index_stride(*[1, 100, 333, 1000, 1024].choose(random).unwrap())
        .with_chunk_size(ByteSize::bytes(*[512, 4096, 256 << 10].choose(random).unwrap()))
        .with_stripe_size(ByteSize::kib(*[64, 4096].choose(random).unwrap()))
        .with_all_columns(column)
}

#[tokio::test]
async fn row_groups_of_any_column_are_found_by_their_positions() {
    let mut random = StdRng::seed_from_u64(21);
    for round in 0..12 {
        let rows = random.random_range(1..6000);
        let types: Vec<DataType> = (0..8).map(|_| data_type(&mut random, 2)).collect();
        let columns: Vec<ArrayRef> = types.iter().map(|it| array(&mut random, it, rows)).collect();
        let fields = types.iter().enumerate();
        let fields =
            fields.map(|(at, it)| Field::new(format!("c{at}"), it.clone(), true)).collect::<Vec<_>>();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
        let codec = CODECS[round % CODECS.len()];
        let options = options(&mut random, codec);
        let (bytes, _) = write(&[batch], options).await.unwrap();
        let stored = StoredOrcFile::new(&bytes).await;

        stored
            .assert_groups_are_found(&mut random, &all_fields(&stored.file), &format!("round {round}"))
            .await;
        let one = [ProjectedColumn::whole(random.random_range(0..8))];
        stored
            .assert_groups_are_found(&mut random, &one, &format!("round {round}, {}", types[one[0].root]))
            .await;
    }
}

/// Files of other libraries: see the programs beside them.
pub(super) const OTHERS: [(&str, &[u8]); 3] = [
    ("pyarrow-plain", include_bytes!("files/pyarrow-plain.orc")),
    ("pyarrow-zstd", include_bytes!("files/pyarrow-zstd.orc")),
    ("java-zlib", include_bytes!("files/java-zlib.orc")),
];

#[tokio::test]
async fn row_groups_that_other_libraries_wrote_are_found_by_their_positions() {
    let mut random = StdRng::seed_from_u64(22);
    for (name, bytes) in OTHERS {
        let stored = StoredOrcFile::new(&Bytes::from_static(bytes)).await;
        assert!(stored.file.groups(0) >= 4, "{name}");
        stored.assert_groups_are_found(&mut random, &all_fields(&stored.file), name).await;
        for field in all_fields(&stored.file) {
            let what = format!("{name}, {}", stored.file.schema().field(field.root));
            stored.assert_groups_are_found(&mut random, &[field], &what).await;
        }
    }
}

#[tokio::test]
async fn few_row_groups_are_few_bytes() {
    let noise: ArrayRef = {
        let mut random = StdRng::seed_from_u64(23);
        Arc::new((0..100_000).map(|_| Some(random.random::<i64>())).collect::<arrow::array::Int64Array>())
    };
    let batch = RecordBatch::try_from_iter([("noise", noise)]).unwrap();
    for codec in CODECS {
        let options = OrcOptions::default().with_compression(codec).with_row_index_stride(1000);
        let (bytes, _) =
            write(std::slice::from_ref(&batch), options.with_chunk_size(ByteSize::kib(16))).await.unwrap();
        let stored = StoredOrcFile::new(&bytes).await;
        let fields = [ProjectedColumn::whole(0)];
        let indexes = stored.indexes_of(0, &fields).await;
        let rows = std::slice::from_ref(&(50_000..51_000));
        let selected = stored.file.select(0, &fields, rows, &indexes).unwrap();
        let some = selected.bytes();
        let all = stored.file.estimated_bytes(0, &fields);
        // A row group has 8 KB, and lies in one or two chunks; another may begin where it ends.
        assert!((8_000..70_000).contains(&some) && all > 790_000, "{codec}: {some} of {all}");
    }
}

/// Returns the index with other positions.
fn moved(index: &OrcColumnIndex, lists: Vec<Vec<u64>>) -> OrcColumnIndex {
    let groups = lists.len() as u64;
    let entry = |(group, positions): (usize, Vec<u64>)| RowIndexEntry {
        positions,
        statistics: index.statistics(group),
    };
    let message = RowIndex { entry: lists.into_iter().enumerate().map(entry).collect() }.encode_to_vec();
    OrcColumnIndex::parse(Some(message.into()), None, None, groups)
}

#[tokio::test]
async fn places_that_are_wrong_lead_to_no_rows_or_to_the_right_ones() {
    let mut random = StdRng::seed_from_u64(24);
    let mut refused = 0;
    let mut failed = 0;
    let mut right = 0;

    for round in 0..60 {
        let rows = random.random_range(500..4000);
        let data_type = data_type(&mut random, 1);
        let batch =
            RecordBatch::try_from_iter_with_nullable([("x", array(&mut random, &data_type, rows), true)]);
        let codec = CODECS[round % CODECS.len()];
        let options = options(&mut random, codec).with_row_index_stride(100);
        let (bytes, _) = write(&[batch.unwrap()], options).await.unwrap();
        let stored = StoredOrcFile::new(&bytes).await;
        let fields = [ProjectedColumn::whole(0)];
        let indexes = stored.indexes_of(0, &fields).await;

        for _ in 0..30 {
            let mut indexes = indexes.clone();
            let at = random.random_range(1..indexes.len());
            let Some(mut lists) = indexes[at].1.positions() else { continue };
            let groups = some_groups(&mut random, lists.len());
            let mut edges = groups.iter().flat_map(|groups| [groups.start, groups.end]).collect::<Vec<_>>();
            edges.retain(|edge| *edge < lists.len());
            let Some(list) = edges.choose(&mut random).map(|edge| &mut lists[*edge]) else { continue };

            match (random.random_range(0..8), list.choose_mut(&mut random)) {
                (_, None) => list.push(0),
                (0, Some(entry)) => *entry = random.random(),
                (1, Some(entry)) => *entry ^= 1 << random.random_range(0..20),
                (2, _) => drop(list.pop()),
                (3, _) => list.push(random.random_range(0..10)),
                (4, Some(entry)) => *entry = random.random_range(0..5000),
                (_, Some(entry)) => {
                    *entry = entry.wrapping_add_signed(*[-8, -1, 1, 2, 8].choose(&mut random).unwrap());
                }
            }

            indexes[at].1 = Arc::new(moved(&indexes[at].1, lists));
            match stored.read(0, &fields, &groups, &indexes).await {
                None => refused += 1,
                Some(Err(Error::Corrupt { .. } | Error::Unsupported { .. } | Error::BatchTooLong { .. })) => {
                    failed += 1;
                }
                Some(Err(error)) => panic!("{error}"),
                Some(Ok(read)) => {
                    right += 1;
                    assert_eq!(read, stored.expected(0, &fields, &groups), "round {round}, {data_type}");
                }
            }
        }
    }

    assert!(refused > 100 && failed > 100 && right > 20, "{refused}, {failed}, {right}");
}

#[tokio::test]
async fn bytes_that_changed_are_an_error_or_as_many_rows() {
    let mut random = StdRng::seed_from_u64(25);
    for (name, bytes) in OTHERS {
        let stored = StoredOrcFile::new(&Bytes::from_static(bytes)).await;
        let stripe = &stored.file.tail.stripes[0];
        for _ in 0..60 {
            let mut damaged = bytes.to_vec();
            let bit = random.random_range(stripe.streams.start * 8..stripe.footer.start * 8) as usize;
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (_folder, object) = object_of(&damaged.into()).await;
            let file = OrcFile::open(&object).await.unwrap();
            let damaged = StoredOrcFile { _folder, object, file, whole: stored.whole.clone() };
            let fields = all_fields(&damaged.file);
            let indexes = damaged.indexes_of(0, &fields).await;
            let groups = some_groups(&mut random, damaged.file.groups(0) as usize);
            let rows: usize = groups.iter().map(|groups| damaged.rows(0, groups).len()).sum();

            if let Some(Ok(read)) = damaged.read(0, &fields, &groups, &indexes).await {
                assert!(read.iter().all(|column| column.len() == rows), "{name}, bit {bit}");
            }
        }
    }
}
