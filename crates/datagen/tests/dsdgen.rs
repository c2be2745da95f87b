//! Compares the tables of TPC-DS line by line with the generator's own `.dat` output.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test may panic")]

use arrow::{
    array::{ArrayRef, RecordBatch},
    compute::cast,
    datatypes::DataType,
    util::display::{ArrayFormatter, FormatOptions},
};
use stylobate_datagen::{Benchmark, Part, Scale};
use tpcdsgen::{
    config::{SessionBuilder, Table},
    row::*,
};

/// Number of rows to compare, which spans several chunks of every table that has that many.
const FIRST_ROWS: usize = 60_000;

/// Returns the lines of a batch in `.dat` format: each value, empty for null, followed by a bar.
fn lines(batch: &RecordBatch) -> Vec<String> {
    let plain = |column: &ArrayRef| match column.data_type() {
        DataType::Dictionary(_, values) => cast(column, values).unwrap(),
        _ => column.clone(),
    };
    let columns: Vec<ArrayRef> = batch.columns().iter().map(plain).collect();
    let options = FormatOptions::default();
    let formats: Vec<_> =
        columns.iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    let line = |row| formats.iter().map(|format| format!("{}|", format.value(row))).collect();
    (0..batch.num_rows()).map(line).collect()
}

/// Returns whether the values are equal, ignoring trailing zeros after the point: `-5` equals `-5.00`.
fn is_same(one: &str, other: &str) -> bool {
    fn value(text: &str) -> &str {
        if !text.contains('.') || text.parse::<f64>().is_err() {
            return text;
        }
        text.trim_end_matches('0').trim_end_matches('.')
    }
    one == other || one.split('|').map(value).eq(other.split('|').map(value))
}

/// Asserts that the first `max_rows` rows are equal.
fn compare(name: &str, theirs: impl Iterator<Item = String>, max_rows: usize) {
    let table = Benchmark::TpcDs.table(name).unwrap();
    let batches = table.stream(Scale::new(1.0).unwrap(), Part::WHOLE, 2).unwrap();
    let ours = batches.flat_map(|batch| lines(&batch.unwrap())).take(max_rows);

    let mut theirs = theirs.take(max_rows);
    let mut rows = 0;
    for line in ours {
        let expected = theirs.next().unwrap_or_default();
        assert!(is_same(&line, &expected), "{name}, row {rows}:\n{line}\n{expected}");
        rows += 1;
    }
    assert_eq!(theirs.next(), None, "{name} has more than {rows} rows");
    assert!(rows > 0, "{name}");
}

fn compare_all(max_rows: usize) {
    macro_rules! compare {
        ($($generator:ident $table:ident,)*) => {$({
            let session = SessionBuilder::new().with_scale_factor(1.0).build().unwrap();
            let rows = session.get_scaling().get_row_count(Table::$table);
            let theirs = $generator::new(session, rows).map(|row| row.to_string());
            compare(Table::$table.get_name(), theirs, max_rows);
        })*};
    }
    // Excludes dbgen_version, which contains the time of its generation.
    compare! {
        CallCenterRowGenerator CallCenter,
        CatalogPageRowGenerator CatalogPage,
        CatalogReturnsRowGenerator CatalogReturns,
        CatalogSalesRowGenerator CatalogSales,
        CustomerAddressRowGenerator CustomerAddress,
        CustomerDemographicsRowGenerator CustomerDemographics,
        CustomerRowGenerator Customer,
        DateDimRowGenerator DateDim,
        HouseholdDemographicsRowGenerator HouseholdDemographics,
        IncomeBandRowGenerator IncomeBand,
        InventoryRowGenerator Inventory,
        ItemRowGenerator Item,
        PromotionRowGenerator Promotion,
        ReasonRowGenerator Reason,
        ShipModeRowGenerator ShipMode,
        StoreReturnsRowGenerator StoreReturns,
        StoreRowGenerator Store,
        StoreSalesRowGenerator StoreSales,
        TimeDimRowGenerator TimeDim,
        WarehouseRowGenerator Warehouse,
        WebPageRowGenerator WebPage,
        WebReturnsRowGenerator WebReturns,
        WebSalesRowGenerator WebSales,
        WebSiteRowGenerator WebSite,
    }
}

#[test]
fn tables_begin_as_the_generator_writes_them() {
    compare_all(FIRST_ROWS);
}

#[test]
#[ignore = "minutes: make soak runs it"]
fn tables_are_what_the_generator_writes() {
    compare_all(usize::MAX);
}
