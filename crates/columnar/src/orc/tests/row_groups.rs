//! Row groups that are read alone: they are what they are within the whole stripe, or an error, whatever their row index
//! says; and the statistics and bloom filters of each know all of its values.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
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
    orc::{
        ColumnIndex, OrcColumnOptions, OrcCompression, OrcOptions,
        write::tests::{CODECS, array, data_type, write},
    },
    predicate::{Column, Literal},
    schema::Projected,
    statistics::Statistics,
};

/// A file behind a store, and all that is in it.
struct Stored {
    _folder: tempfile::TempDir,
    object: OpenObject,
    file: OrcFile,
    whole: RecordBatch,
}

type Indexes = Vec<(usize, Arc<ColumnIndex>)>;

impl Stored {
    async fn new(bytes: &Bytes) -> Self {
        let (folder, object) = object_of(bytes).await;
        let file = OrcFile::open(&object).await.unwrap();
        Self { _folder: folder, object, file, whole: read_all(bytes, 8192).unwrap() }
    }

    async fn indexes(&self, unit: usize, columns: &[(usize, bool)]) -> Indexes {
        let read = self.file.read_indexes(&self.object, unit, columns).await.unwrap();
        columns.iter().zip(read).map(|((column, _), index)| (*column, Arc::new(index))).collect()
    }

    async fn indexes_of(&self, unit: usize, fields: &[Projected]) -> Indexes {
        let columns: Vec<_> =
            self.file.columns_of(fields).into_iter().map(|column| (column, false)).collect();
        self.indexes(unit, &columns).await
    }

    /// The rows of row groups within the whole file.
    fn rows(&self, unit: usize, groups: &Range<usize>) -> Range<usize> {
        let before: u64 = (0..unit).map(|unit| self.file.unit_rows(unit)).sum();
        let row = |group: usize| {
            (before + (group as u64 * self.file.tail.stride).min(self.file.unit_rows(unit))) as usize
        };
        row(groups.start)..row(groups.end)
    }

    /// Reads row groups; `None` where the index does not say where they are.
    async fn read(
        &self,
        unit: usize,
        fields: &[Projected],
        groups: &[Range<usize>],
        indexes: &Indexes,
    ) -> Option<Result<Vec<ArrayRef>>> {
        let first = self.rows(unit, &(0..0)).start;
        let rows = groups.iter().map(|groups| self.rows(unit, groups));
        let rows: Vec<_> = rows.map(|rows| (rows.start - first) as u64..(rows.end - first) as u64).collect();
        let selected = self.file.select(unit, fields, &rows, indexes)?;
        let selected = self.file.read_selected(&self.object, selected).await.unwrap();
        Some(self.file.decode_selected(&selected, 700).map(|batches| {
            let column = |at: usize| {
                let arrays: Vec<&dyn Array> = batches.iter().map(|(arrays, _)| arrays[at].as_ref()).collect();
                concat(&arrays).unwrap()
            };
            (0..fields.len()).map(column).collect()
        }))
    }

    fn expected(&self, unit: usize, fields: &[Projected], groups: &[Range<usize>]) -> Vec<ArrayRef> {
        let column = |field: &Projected| {
            let slices = groups.iter().map(|groups| {
                let rows = self.rows(unit, groups);
                self.whole.column(field.root).slice(rows.start, rows.len())
            });
            let slices: Vec<ArrayRef> = slices.collect();
            concat(&slices.iter().map(|slice| slice.as_ref()).collect::<Vec<_>>()).unwrap()
        };
        fields.iter().map(column).collect()
    }

    /// Row groups at random are what they are in the whole.
    async fn assert_groups_are_found(&self, random: &mut StdRng, fields: &[Projected], what: &str) {
        for unit in 0..self.file.units() {
            let indexes = self.indexes_of(unit, fields).await;
            for _ in 0..3 {
                let groups = some_groups(random, self.file.groups(unit) as usize);
                let read = self.read(unit, fields, &groups, &indexes).await;
                let read = read.unwrap_or_else(|| panic!("{what}: no places")).unwrap();
                assert_eq!(read, self.expected(unit, fields, &groups), "{what}, {groups:?} of stripe {unit}");
            }
        }
    }
}

/// Ranges of row groups, ascending and apart, and at least one.
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

fn options(random: &mut StdRng, codec: OrcCompression) -> OrcOptions {
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
    for round in 0..40 {
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
        let stored = Stored::new(&bytes).await;
        stored
            .assert_groups_are_found(&mut random, &all_fields(&stored.file), &format!("round {round}"))
            .await;
        let one = [Projected::whole(random.random_range(0..8))];
        stored
            .assert_groups_are_found(&mut random, &one, &format!("round {round}, {}", types[one[0].root]))
            .await;
    }
}

/// Files that other libraries wrote: see the programs beside them.
const OTHERS: [(&str, &[u8]); 3] = [
    ("pyarrow-plain", include_bytes!("files/pyarrow-plain.orc")),
    ("pyarrow-zstd", include_bytes!("files/pyarrow-zstd.orc")),
    ("java-zlib", include_bytes!("files/java-zlib.orc")),
];

#[tokio::test]
async fn row_groups_that_other_libraries_wrote_are_found_by_their_positions() {
    let mut random = StdRng::seed_from_u64(22);
    for (name, bytes) in OTHERS {
        let stored = Stored::new(&Bytes::from_static(bytes)).await;
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
        let stored = Stored::new(&bytes).await;
        let fields = [Projected::whole(0)];
        let indexes = stored.indexes_of(0, &fields).await;
        let rows = std::slice::from_ref(&(50_000..51_000));
        let selected = stored.file.select(0, &fields, rows, &indexes).unwrap();
        let (some, all) = (selected.bytes(), stored.file.estimated_bytes(0, &fields));
        // A row group has 8 KB, and lies in one chunk or two; where it ends, another may begin.
        assert!((8_000..70_000).contains(&some) && all > 790_000, "{codec}: {some} of {all}");
    }
}

/// The index with other places.
fn moved(index: &ColumnIndex, lists: Vec<Vec<u64>>) -> ColumnIndex {
    let groups = lists.len() as u64;
    let entry = |(group, positions): (usize, Vec<u64>)| RowIndexEntry {
        positions,
        statistics: index.statistics(group),
    };
    let message = RowIndex { entry: lists.into_iter().enumerate().map(entry).collect() }.encode_to_vec();
    ColumnIndex::parse(Some(message.into()), None, None, groups)
}

#[tokio::test]
async fn places_that_are_wrong_lead_to_no_rows_or_to_the_right_ones() {
    let mut random = StdRng::seed_from_u64(24);
    let (mut refused, mut failed, mut right) = (0, 0, 0);
    for round in 0..60 {
        let rows = random.random_range(500..4000);
        let data_type = data_type(&mut random, 1);
        let batch =
            RecordBatch::try_from_iter_with_nullable([("x", array(&mut random, &data_type, rows), true)]);
        let codec = CODECS[round % CODECS.len()];
        let options = options(&mut random, codec).with_row_index_stride(100);
        let (bytes, _) = write(&[batch.unwrap()], options).await.unwrap();
        let stored = Stored::new(&bytes).await;
        let fields = [Projected::whole(0)];
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
                (0, Some(place)) => *place = random.random(),
                (1, Some(place)) => *place ^= 1 << random.random_range(0..20),
                (2, _) => drop(list.pop()),
                (3, _) => list.push(random.random_range(0..10)),
                (4, Some(place)) => *place = random.random_range(0..5000),
                (_, Some(place)) => {
                    *place = place.wrapping_add_signed(*[-8, -1, 1, 2, 8].choose(&mut random).unwrap());
                }
            }
            indexes[at].1 = Arc::new(moved(&indexes[at].1, lists));
            match stored.read(0, &fields, &groups, &indexes).await {
                None => refused += 1,
                Some(Err(Error::Corrupt { .. } | Error::Unsupported { .. })) => failed += 1,
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
        let stored = Stored::new(&Bytes::from_static(bytes)).await;
        let stripe = &stored.file.tail.stripes[0];
        for _ in 0..60 {
            let mut damaged = bytes.to_vec();
            let bit = random.random_range(stripe.streams.start * 8..stripe.footer.start * 8) as usize;
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (_folder, object) = object_of(&damaged.into()).await;
            let file = OrcFile::open(&object).await.unwrap();
            let damaged = Stored { _folder, object, file, whole: stored.whole.clone() };
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

/// Each value of a column as a literal; `None` where it is null, or nobody looks for it.
fn literal(array: &ArrayRef, row: usize) -> Option<Literal> {
    use arrow::datatypes::*;
    if array.is_null(row) {
        return None;
    }
    let whole = |value: i64| Some(Literal::Integer(i128::from(value)));
    match array.data_type() {
        DataType::Int8 => whole(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => whole(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => whole(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => whole(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => Some(Literal::Float(array.as_primitive::<Float32Type>().value(row).into())),
        DataType::Float64 => Some(Literal::Float(array.as_primitive::<Float64Type>().value(row))),
        DataType::Date32 => Some(Literal::Date(array.as_primitive::<Date32Type>().value(row))),
        DataType::Utf8 => Some(Literal::String(array.as_string::<i32>().value(row).to_owned())),
        DataType::Binary => Some(Literal::Binary(array.as_binary::<i32>().value(row).to_vec())),
        DataType::Decimal128(_, scale) => {
            let unscaled = array.as_primitive::<Decimal128Type>().value(row);
            Some(Literal::Decimal { unscaled, scale: *scale as u8 })
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Some(Literal::Timestamp(array.as_primitive::<TimestampNanosecondType>().value(row).into()))
        }
        _ => None,
    }
}

#[tokio::test]
async fn bloom_filters_of_all_writers_know_every_value_of_their_row_group_and_few_others() {
    let mut random = StdRng::seed_from_u64(26);
    let mut files: Vec<(String, Bytes)> =
        OTHERS.iter().map(|(name, bytes)| ((*name).to_owned(), Bytes::from_static(bytes))).collect();
    for (name, bytes) in OTHERS {
        let whole = read_all(&Bytes::from_static(bytes), 8192).unwrap();
        // What is said of the columns is not of interest here.
        let whole = RecordBatch::try_from_iter_with_nullable(
            whole
                .schema()
                .fields()
                .iter()
                .zip(whole.columns())
                .map(|(it, column)| (it.name(), column.clone(), true)),
        )
        .unwrap();
        let options = options(&mut random, OrcCompression::Snappy).with_row_index_stride(100);
        files.push((
            format!("{name} anew"),
            write(&[whole], options.with_stripe_size(ByteSize::mib(4))).await.unwrap().0,
        ));
    }
    for (name, bytes) in files {
        let stored = Stored::new(&bytes).await;
        let mut columns = 0;
        for (root, field) in stored.file.schema().fields().iter().enumerate() {
            let column = Column::new(field.name());
            let id = stored.file.tail.root.children[root].id as usize;
            let indexes = stored.indexes(0, &[(id, true)]).await;
            let Some((ranges, statistics)) = stored.file.row_groups(0, indexes) else { continue };
            let array = stored.whole.column(root);
            let values: Vec<Option<Literal>> = (0..array.len()).map(|row| literal(array, row)).collect();
            let (mut asked, mut ruled_out) = (0, 0);
            for (row, value) in values.iter().enumerate().step_by(7) {
                let Some(value) = value else { continue };
                let Some(may) = statistics.may_contain(&column, std::slice::from_ref(value)) else {
                    continue;
                };
                assert_eq!(may.len(), ranges.len());
                for (group, range) in ranges.iter().enumerate() {
                    let rows = range.start as usize..range.end as usize;
                    let is_there = values[rows.clone()].contains(&Some(value.clone()));
                    assert!(
                        may.value(group) || !is_there,
                        "{name}: {value:?} of {} in {rows:?}",
                        field.name()
                    );
                    asked += usize::from(!is_there);
                    ruled_out += usize::from(!may.value(group));
                }
                let _ = row;
            }
            if asked > 0 {
                columns += 1;
                assert!(ruled_out * 10 > asked * 8, "{name}: {ruled_out} of {asked} of {}", field.name());
            }
        }
        assert!(columns >= 11, "{name}: {columns} columns");
    }
}

#[tokio::test]
async fn bounds_of_row_groups_hold_their_values() {
    for (name, bytes) in OTHERS {
        let stored = Stored::new(&Bytes::from_static(bytes)).await;
        let mut bounded = 0;
        for (root, field) in stored.file.schema().fields().iter().enumerate() {
            let column = Column::new(field.name());
            let id = stored.file.tail.root.children[root].id as usize;
            let indexes = stored.indexes(0, &[(id, false)]).await;
            let (ranges, statistics) = stored.file.row_groups(0, indexes).unwrap();
            let array = stored.whole.column(root);
            let nulls = statistics.null_counts(&column).unwrap();
            let (min, max) = (statistics.min(&column), statistics.max(&column));
            for (group, range) in ranges.iter().enumerate() {
                let part = array.slice(range.start as usize, (range.end - range.start) as usize);
                assert_eq!(nulls.value(group) as usize, part.null_count(), "{name}, {}", field.name());
                let (Some(min), Some(max)) = (&min, &max) else { continue };
                if min.is_null(group) {
                    continue;
                }
                bounded += 1;
                let within =
                    |bound: &ArrayRef, op: fn(&dyn arrow::array::Datum, &dyn arrow::array::Datum) -> _| {
                        let bound = arrow::array::Scalar::new(bound.slice(group, 1));
                        let passed: std::result::Result<
                            arrow::array::BooleanArray,
                            arrow::error::ArrowError,
                        > = op(&part, &bound);
                        passed.unwrap().iter().flatten().all(|passed| passed)
                    };
                assert!(within(min, arrow::compute::kernels::cmp::gt_eq), "{name}, {}", field.name());
                assert!(within(max, arrow::compute::kernels::cmp::lt_eq), "{name}, {}", field.name());
            }
        }
        assert!(bounded > 30, "{name}: {bounded}");
    }
}
