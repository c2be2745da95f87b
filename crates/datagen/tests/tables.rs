//! Tables as streams: row counts, parts that make up the whole, and independence of the number of threads.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use arrow::{
    array::{AsArray, RecordBatch},
    compute::{cast, concat_batches},
    datatypes::{DataType, Field, Schema},
};
use stylobate_datagen::{Benchmark, Checksums, Part, Scale, Table};

fn scale(factor: f64) -> Scale {
    Scale::new(factor).unwrap()
}

fn rows(table: Table, factor: f64) -> usize {
    let batches = table.stream(scale(factor), Part::WHOLE, 2).unwrap();
    batches.map(|batch| batch.unwrap().num_rows()).sum()
}

/// Returns all rows of a part in one batch, with decoded dictionaries.
fn read(table: Table, factor: f64, part: Part, threads: usize) -> RecordBatch {
    let stream = table.stream(scale(factor), part, threads).unwrap();
    let plain = |data_type: &DataType| match data_type {
        DataType::Dictionary(..) => DataType::Utf8View,
        other => other.clone(),
    };
    let fields = stream.schema().fields().iter();
    let fields = fields.map(|field| Field::new(field.name(), plain(field.data_type()), field.is_nullable()));
    let schema = std::sync::Arc::new(Schema::new(fields.collect::<Vec<_>>()));

    let batches = stream.map(|batch| {
        let columns = batch.unwrap().columns().to_vec();
        let columns =
            columns.iter().zip(schema.fields()).map(|(column, field)| cast(column, field.data_type()));
        RecordBatch::try_new(schema.clone(), columns.collect::<Result<_, _>>().unwrap()).unwrap()
    });
    concat_batches(&schema, &batches.collect::<Vec<_>>()).unwrap()
}

#[test]
fn tables_have_the_rows_that_the_benchmarks_say() {
    let tpch = [
        ("lineitem", 60_175),
        ("orders", 15_000),
        ("partsupp", 8_000),
        ("part", 2_000),
        ("customer", 1_500),
        ("supplier", 100),
        ("nation", 25),
        ("region", 5),
    ];

    assert_eq!(Benchmark::TpcH.tables().len(), tpch.len());
    for (name, expected) in tpch {
        assert_eq!(rows(Benchmark::TpcH.table(name).unwrap(), 0.01), expected, "{name}");
    }
    let tpcds = [
        ("date_dim", 73_049),
        ("time_dim", 86_400),
        ("household_demographics", 7_200),
        ("income_band", 20),
        ("reason", 75),
        ("dbgen_version", 1),
        ("inventory", 261_261),
        ("customer", 1_000),
    ];

    assert_eq!(Benchmark::TpcDs.tables().len(), 25);
    for (name, expected) in tpcds {
        assert_eq!(rows(Benchmark::TpcDs.table(name).unwrap(), 0.01), expected, "{name}");
    }
}

#[test]
fn dictionaries_say_what_the_generator_says() {
    let table = Benchmark::TpcH.table("lineitem").unwrap();
    let ours = read(table, 0.01, Part::WHOLE, 2);
    let theirs = tpchgen_arrow::LineItemArrow::new(tpchgen::generators::LineItemGenerator::new(0.01, 1, 1));
    let theirs: Vec<RecordBatch> = theirs.map(Result::unwrap).collect();
    let theirs = concat_batches(&theirs[0].schema(), &theirs).unwrap();
    assert_eq!(ours.columns(), theirs.columns());
}

#[test]
fn every_table_can_be_made_and_its_dictionaries_are_narrow_enough() {
    for benchmark in [Benchmark::TpcH, Benchmark::TpcDs] {
        for table in benchmark.tables() {
            let mut stream = table.stream(scale(0.01), Part::WHOLE, 2).unwrap();
            let schema = stream.schema().clone();
            assert_eq!(schema, table.schema(scale(0.01)));

            let mut sums = Checksums::default();
            for batch in stream.by_ref() {
                let batch = batch.unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(batch.schema(), schema);
                sums.add(&batch).unwrap();
            }

            let estimated = table.estimated_rows(scale(0.01), Part::WHOLE).unwrap();
            assert!(
                estimated <= sums.rows() * 13 / 10 + 1 && sums.rows() <= estimated * 13 / 10 + 1,
                "{table:?}"
            );
        }
    }
}

#[test]
fn parts_follow_on_each_other_and_make_the_whole() {
    let cut = [
        (Benchmark::TpcH, "lineitem"),
        (Benchmark::TpcH, "partsupp"),
        (Benchmark::TpcH, "supplier"),
        (Benchmark::TpcDs, "customer"),
        (Benchmark::TpcDs, "web_returns"),
        (Benchmark::TpcDs, "item"),
        (Benchmark::TpcDs, "store"),
    ];
    for (benchmark, name) in cut {
        let table = benchmark.table(name).unwrap();
        let whole = read(table, 0.02, Part::WHOLE, 2);
        let parts = (1..=3).map(|number| read(table, 0.02, Part::new(number, 3).unwrap(), 1));
        let parts = concat_batches(&whole.schema(), &parts.collect::<Vec<_>>()).unwrap();
        assert!(whole == parts, "{name}");
    }
}

#[test]
fn a_part_of_tpch_is_what_the_reference_generator_makes_of_it() {
    let table = Benchmark::TpcH.table("lineitem").unwrap();
    for number in [1, 2, 3, 7] {
        // The boundaries of the parts lie within chunks.
        let ours = read(table, 0.05, Part::new(number, 7).unwrap(), 2);
        let theirs = tpchgen::generators::LineItemGenerator::new(0.05, number as i32, 7);
        let theirs: Vec<_> = tpchgen_arrow::LineItemArrow::new(theirs).map(Result::unwrap).collect();
        let theirs = concat_batches(&theirs[0].schema(), &theirs).unwrap();
        assert!(ours.columns() == theirs.columns(), "part {number}");
    }
}

#[test]
fn threads_change_neither_rows_nor_batches() {
    let table = Benchmark::TpcH.table("orders").unwrap();
    let lengths = |threads| {
        let stream = table.stream(scale(0.1), Part::WHOLE, threads).unwrap();
        stream.map(|batch| batch.unwrap().num_rows()).collect::<Vec<_>>()
    };
    assert_eq!(lengths(1), lengths(4));
    assert!(read(table, 0.1, Part::WHOLE, 1) == read(table, 0.1, Part::WHOLE, 4));
}

#[test]
fn a_dictionary_that_is_full_is_the_same_array_in_each_batch() {
    let table = Benchmark::TpcH.table("lineitem").unwrap();
    let batches: Vec<_> = table.stream(scale(0.1), Part::WHOLE, 2).unwrap().map(Result::unwrap).collect();
    let values = |batch: &RecordBatch| {
        batch.column_by_name("l_shipmode").unwrap().as_any_dictionary().values().clone()
    };
    let last = values(batches.last().unwrap());
    assert_eq!(last.len(), 7);
    assert!(
        batches.iter().skip(batches.len() / 2).all(|batch| std::sync::Arc::ptr_eq(&values(batch), &last))
    );
}

#[test]
fn when_tables_were_made_is_not_in_them() {
    let table = Benchmark::TpcDs.table("dbgen_version").unwrap();
    let batch = read(table, 0.01, Part::WHOLE, 1);
    assert_eq!(batch.column_by_name("dv_version").unwrap().null_count(), 0);
    assert_eq!(batch.column_by_name("dv_create_date").unwrap().null_count(), 1);
}
