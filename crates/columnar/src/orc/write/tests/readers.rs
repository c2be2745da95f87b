//! Random schemas, in every codec and with row groups and stripes of any size: all readers return the same rows.

use arrow::{
    array::RecordBatch,
    compute::concat,
    datatypes::{DataType, Schema, SchemaRef},
};
use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    kernels::expand::expand,
    orc::tests::{decode_coded, open},
};

/// Input of a file.
#[derive(Clone, Debug)]
struct RandomOrcSpec {
    seed: u64,
    columns: usize,
    depth: usize,
    /// Rows of each batch.
    rows: Vec<usize>,
    codec: usize,
    stride: usize,
    chunk: u64,
    stripe: u64,
    threshold: f64,
}

fn recipes() -> impl Strategy<Value = RandomOrcSpec> {
    let sizes = (
        prop::sample::select(vec![0, 1, 3, 64, 500, 1000, 10_000]),
        prop::sample::select(vec![1, 64, 1 << 10, 256 << 10]),
        prop::sample::select(vec![1, 2 << 10, 20 << 10, 64 << 20]),
        prop::sample::select(vec![0.0, 0.5, 1.0]),
    );
    let rows = prop::collection::vec(0..700_usize, 1..4);
    (any::<u64>(), 1..4_usize, 0..4_usize, rows, 0..CODECS.len(), sizes).prop_map(
        |(seed, columns, depth, rows, codec, (stride, chunk, stripe, threshold))| RandomOrcSpec {
            seed,
            columns,
            depth,
            rows,
            codec,
            stride,
            chunk,
            stripe,
            threshold,
        },
    )
}

impl RandomOrcSpec {
    fn batches(&self, random: &mut StdRng) -> Vec<RecordBatch> {
        let types: Vec<DataType> = (0..self.columns).map(|_| random::data_type(random, self.depth)).collect();
        let batch = |rows: &usize| {
            let columns = types.iter().enumerate();
            let columns = columns
                .map(|(at, data_type)| (format!("c{at}"), random::array(random, data_type, *rows), true));
            RecordBatch::try_from_iter_with_nullable(columns.collect::<Vec<_>>()).unwrap()
        };
        self.rows.iter().map(batch).collect()
    }

    fn options(&self) -> OrcOptions {
        let column = OrcColumnOptions::default().with_dictionary_threshold(self.threshold);
        let column = if self.stride > 0 { column.with_bloom_filter(0.05) } else { column };
        OrcOptions::default()
            .with_all_columns(column)
            .with_compression(CODECS[self.codec])
            .with_row_index_stride(self.stride)
            .with_chunk_size(ByteSize::bytes(self.chunk))
            .with_stripe_size(ByteSize::bytes(self.stripe))
            .with_threads(1)
    }
}

/// Returns whether the other library reads the type correctly.
fn is_read_by_others(data_type: &DataType) -> bool {
    match data_type {
        // The other library misreads timestamps before 1970 and after 2099.
        DataType::Timestamp(..) => false,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_read_by_others(item.data_type())
        }
        DataType::Map(entries, _) => is_read_by_others(entries.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_read_by_others(field.data_type())),
        _ => true,
    }
}

/// Returns the columns that the other library reads correctly, as it reads them.
fn read_by_another(file: &Bytes, columns: &[usize]) -> Option<RecordBatch> {
    let builder = orc_rust::ArrowReaderBuilder::try_new(file.clone()).unwrap();
    let root = builder.file_metadata().root_data_type();
    let names: Vec<String> = columns.iter().map(|at| format!("c{at}")).collect();
    let projection = orc_rust::projection::ProjectionMask::named_roots(root, &names);
    let reader = builder.with_projection(projection).with_batch_size(333).build();
    let batches: Vec<RecordBatch> = reader.map(|batch| batch.unwrap()).collect();
    // Each batch derives the nullability of fields from its own rows.
    let schema = batches.first()?.schema();
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batches =
        batches.iter().map(|batch| RecordBatch::try_new(schema.clone(), batch.columns().to_vec()).unwrap());

    Some(concat_batches(&schema, &batches.collect::<Vec<_>>()).unwrap())
}

fn check(recipe: &RandomOrcSpec) {
    let mut random = StdRng::seed_from_u64(recipe.seed);
    let batches = recipe.batches(&mut random);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (file, written) = runtime.block_on(write(&batches, recipe.options())).unwrap();
    let whole = concat_batches(&batches[0].schema(), &batches).unwrap();
    assert_eq!(written.rows, whole.num_rows() as u64);

    let batch_rows = random.random_range(1..1000);
    let read = read_all(&file, batch_rows).unwrap();
    let expected = cast(&whole, &read.schema());
    assert_eq!(read, expected, "batches of {batch_rows} rows");

    let coded = decode_coded(&file, &open(&file).unwrap(), batch_rows).unwrap();
    for (at, column) in expected.columns().iter().enumerate().filter(|_| !coded.is_empty()) {
        let arrays: Vec<ArrayRef> = coded.iter().map(|batch| expand(&batch[at]).unwrap()).collect();
        let arrays: Vec<_> = arrays.iter().map(|array| array.as_ref()).collect();
        assert_eq!(&concat(&arrays).unwrap(), column, "column {at}, by codes");
    }

    let schema = expected.schema();
    let fields = schema.fields().iter().enumerate();
    let columns: Vec<usize> =
        fields.filter(|(_, field)| is_read_by_others(field.data_type())).map(|(at, _)| at).collect();
    if !columns.is_empty()
        && let Some(other) = read_by_another(&file, &columns)
    {
        let expected = expected.project(&columns).unwrap();
        assert_eq!(other, cast(&expected, &other.schema()), "read by another");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 4,
        max_shrink_iters: 400,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whoever_reads_a_file_finds_what_was_written(recipe in recipes()) {
        check(&recipe);
    }
}
