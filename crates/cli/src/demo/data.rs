//! The tables of the demo: TPC-H lineitem and orders, as Parquet files with several row groups.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use anyhow::Context;
use arrow::record_batch::RecordBatchReader;
use parquet::{arrow::ArrowWriter, basic::Compression, file::properties::WriterProperties};
use tpchgen::generators::{LineItemGenerator, OrderGenerator};
use tpchgen_arrow::{LineItemArrow, OrderArrow};

use crate::failure::usage;

const ROW_GROUP_ROWS: usize = 65_536;

/// A generated file.
#[derive(Clone, Debug)]
pub(super) struct DemoTable {
    /// File name in the folder and key in the bucket.
    pub(super) key: String,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    /// The columns that the demo's query reads.
    pub(super) columns: &'static [&'static str],
}

/// Checks that the folder is new or empty.
pub(super) fn check_empty(folder: &Path) -> anyhow::Result<()> {
    let mut entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| folder.display().to_string())?,
    };
    if entries.next().is_some() {
        return Err(usage(format!("{} is not empty: give a new folder", folder.display())));
    }
    Ok(())
}

/// Writes both tables into `folder`, which is created if it is missing.
pub(super) fn generate(scale: f64, folder: &Path) -> anyhow::Result<Vec<DemoTable>> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let lineitem = LineItemArrow::new(LineItemGenerator::new(scale, 1, 1));
    let orders = OrderArrow::new(OrderGenerator::new(scale, 1, 1));

    Ok(vec![
        write(
            folder,
            "lineitem.parquet",
            lineitem,
            &["l_shipdate", "l_discount", "l_quantity", "l_extendedprice"],
        )?,
        write(folder, "orders.parquet", orders, &["o_orderdate", "o_orderpriority", "o_totalprice"])?,
    ])
}

fn write(
    folder: &Path,
    key: &str,
    batches: impl RecordBatchReader,
    columns: &'static [&'static str],
) -> anyhow::Result<DemoTable> {
    let path = folder.join(key);
    let unfinished = folder.join(format!("{key}.unfinished"));
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .build();

    let file = File::create_new(&unfinished)?;
    let mut writer = ArrowWriter::try_new(file, batches.schema(), Some(properties))?;
    let mut rows = 0;
    for batch in batches {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        writer.write(&batch)?;
    }

    writer.close()?;
    fs::rename(&unfinished, &path)?;

    Ok(DemoTable { key: key.to_owned(), rows, bytes: path.metadata()?.len(), columns })
}
