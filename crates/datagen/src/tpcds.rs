//! TPC-DS: its tables, and the chunks in which rows are generated.
//!
//! Rows are generated from source rows: a ticket yields the lines of a sale and its returns. In all other tables,
//! each source row yields one row.

use arrow::datatypes::SchemaRef;
use tpcdsgen::config::{Session, SessionBuilder, Table};
use tpcdsgen_arrow::{
    CallCenterArrow, CatalogPageArrow, CatalogReturnsArrow, CatalogSalesArrow, CustomerAddressArrow,
    CustomerArrow, CustomerDemographicsArrow, DateDimArrow, DbgenVersionArrow, HouseholdDemographicsArrow,
    IncomeBandArrow, InventoryArrow, ItemArrow, PromotionArrow, ReasonArrow, ShipModeArrow, StoreArrow,
    StoreReturnsArrow, StoreSalesArrow, TimeDimArrow, WarehouseArrow, WebPageArrow, WebReturnsArrow,
    WebSalesArrow, WebSiteArrow,
};

use crate::{
    Error, Part, Result, Scale,
    chunk::{BATCH_ROWS, GeneratedBatches, TableChunk},
};

/// Source rows per chunk if each yields one row.
const CHUNK_ROWS: u64 = 16_384;
/// Source rows per chunk if each is a ticket.
const CHUNK_TICKETS: u64 = 2_048;
/// Minimum number of source rows of a table that is divided into parts.
const MIN_CUT: u64 = 1_000;

/// The tables, largest first.
pub(crate) const TABLES: [Table; 25] = [
    Table::Inventory,
    Table::StoreSales,
    Table::CatalogSales,
    Table::WebSales,
    Table::StoreReturns,
    Table::CatalogReturns,
    Table::WebReturns,
    Table::CustomerDemographics,
    Table::Customer,
    Table::CustomerAddress,
    Table::TimeDim,
    Table::DateDim,
    Table::Item,
    Table::CatalogPage,
    Table::HouseholdDemographics,
    Table::Promotion,
    Table::WebPage,
    Table::Store,
    Table::CallCenter,
    Table::WebSite,
    Table::Warehouse,
    Table::Reason,
    Table::IncomeBand,
    Table::ShipMode,
    Table::DbgenVersion,
];

/// Applies an expression to a table's Arrow generator of any type.
macro_rules! with_generator {
    ($table:expr, $with:ident) => {
        match $table {
            Table::CallCenter => $with!(CallCenterArrow),
            Table::CatalogPage => $with!(CatalogPageArrow),
            Table::CatalogReturns => $with!(CatalogReturnsArrow),
            Table::CatalogSales => $with!(CatalogSalesArrow),
            Table::CustomerAddress => $with!(CustomerAddressArrow),
            Table::Customer => $with!(CustomerArrow),
            Table::CustomerDemographics => $with!(CustomerDemographicsArrow),
            Table::DateDim => $with!(DateDimArrow),
            Table::DbgenVersion => $with!(DbgenVersionArrow),
            Table::HouseholdDemographics => $with!(HouseholdDemographicsArrow),
            Table::IncomeBand => $with!(IncomeBandArrow),
            Table::Inventory => $with!(InventoryArrow),
            Table::Item => $with!(ItemArrow),
            Table::Promotion => $with!(PromotionArrow),
            Table::Reason => $with!(ReasonArrow),
            Table::ShipMode => $with!(ShipModeArrow),
            Table::Store => $with!(StoreArrow),
            Table::StoreReturns => $with!(StoreReturnsArrow),
            Table::StoreSales => $with!(StoreSalesArrow),
            Table::TimeDim => $with!(TimeDimArrow),
            Table::Warehouse => $with!(WarehouseArrow),
            Table::WebPage => $with!(WebPageArrow),
            Table::WebReturns => $with!(WebReturnsArrow),
            Table::WebSales => $with!(WebSalesArrow),
            Table::WebSite => $with!(WebSiteArrow),
        }
    };
}

/// Returns the columns as generated.
pub(crate) fn schema(table: Table) -> SchemaRef {
    macro_rules! schema {
        ($generator:ident) => {
            $generator::schema_ref()
        };
    }
    with_generator!(table, schema)
}

fn session(scale: Scale, table: Table) -> Result<Session> {
    let wrong = |reason: String| Error::Generator { table: table.get_name(), reason };
    SessionBuilder::new().with_scale_factor(scale.factor()).build().map_err(|error| wrong(error.to_string()))
}

/// Returns the approximate number of rows per 1,000 source rows.
fn rows_of_source(table: Table) -> u64 {
    match table {
        Table::StoreSales | Table::WebSales => 12_000,
        Table::CatalogSales => 9_000,
        Table::StoreReturns | Table::WebReturns => 1_200,
        Table::CatalogReturns => 900,
        _ => 1_000,
    }
}

/// Returns the approximate number of rows in a part.
pub(crate) fn estimated_rows(table: Table, scale: Scale, part: Part) -> Result<u64> {
    let (start, end) = sources_of(table, scale, part)?;
    Ok((end - start) * rows_of_source(table) / 1_000)
}

/// Returns whether the table is divided into parts; otherwise all of it belongs to the first part.
pub(crate) fn is_cut(table: Table, scale: Scale) -> Result<bool> {
    Ok(session(scale, table)?.get_scaling().get_row_count(table) >= MIN_CUT)
}

/// Returns the source rows of a part, counted from 0.
fn sources_of(table: Table, scale: Scale, part: Part) -> Result<(u64, u64)> {
    let sources = session(scale, table)?.get_scaling().get_row_count(table);
    let number = u64::from(part.number());
    let of = u64::from(part.of());
    Ok(if sources >= MIN_CUT {
        (sources * (number - 1) / of, sources * number / of)
    } else if number == 1 {
        (0, sources)
    } else {
        (0, 0)
    })
}

/// Returns the chunks of a part, in order.
pub(crate) fn chunks(table: Table, scale: Scale, part: Part) -> Result<Vec<TableChunk>> {
    let (start, end) = sources_of(table, scale, part)?;
    let length = if rows_of_source(table) == 1_000 { CHUNK_ROWS } else { CHUNK_TICKETS };
    let chunk = |from: u64| TableChunk::Sources { first: from + 1, last: (from + length).min(end) };
    Ok((start..end).step_by(length as usize).map(chunk).collect())
}

/// Generates the rows of the source rows `first` to `last`, counted from 1.
pub(crate) fn batches(table: Table, scale: Scale, first: u64, last: u64) -> Result<GeneratedBatches> {
    let session = session(scale, table)?;
    macro_rules! batches {
        ($generator:ident) => {{
            let generator = $generator::new(session).with_source_row_range(first, last);
            Box::new(generator.with_batch_size(BATCH_ROWS)) as GeneratedBatches
        }};
    }
    Ok(with_generator!(table, batches))
}
