//! TPC-H: its tables, and the chunks in which rows are generated.
//!
//! A table is divided into chunks of equal length, numbered from 1, as the generators expect: all but the last have
//! `total / chunks` units. A unit is a row of the table; for partsupp, a part with its four suppliers; for lineitem,
//! an order with its one to seven lines.

pub(super) mod comments;
pub(super) mod lineitem;
pub(super) mod text_pool;

use arrow::datatypes::SchemaRef;
use tpchgen::{
    distribution::Distributions,
    generators::{
        CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
        PartSuppGenerator, RegionGenerator, SupplierGenerator,
    },
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

use crate::{
    Part, Scale,
    chunk::{BATCH_ROWS, GeneratedBatches, TableChunk},
    tpch::{
        comments::{CommentGenerator, placeholder, with_opinions},
        lineitem::LineItemBatches,
    },
};

/// Approximate number of rows per chunk: large enough to amortize its startup, small enough that a few chunks fit
/// into memory.
const CHUNK_ROWS: u64 = 16_384;
/// Number of candidate chunk counts to try.
const CANDIDATES: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TpchTable {
    LineItem,
    Orders,
    PartSupp,
    Part,
    Customer,
    Supplier,
    Nation,
    Region,
}

use TpchTable::{Customer, LineItem, Nation, Orders, Part as PartTable, PartSupp, Region, Supplier};

/// The tables, largest first.
pub(crate) const TABLES: [TpchTable; 8] =
    [LineItem, Orders, PartSupp, PartTable, Customer, Supplier, Nation, Region];

impl TpchTable {
    pub(crate) fn name(self) -> &'static str {
        match self {
            LineItem => "lineitem",
            Orders => "orders",
            PartSupp => "partsupp",
            PartTable => "part",
            Customer => "customer",
            Supplier => "supplier",
            Nation => "nation",
            Region => "region",
        }
    }

    /// Returns the columns as generated.
    pub(crate) fn schema(self) -> SchemaRef {
        match self {
            LineItem => LineItemArrow::schema_ref(),
            Orders => OrderArrow::schema_ref(),
            PartSupp => PartSuppArrow::schema_ref(),
            PartTable => PartArrow::schema_ref(),
            Customer => CustomerArrow::schema_ref(),
            Supplier => SupplierArrow::schema_ref(),
            Nation => NationArrow::schema_ref(),
            Region => RegionArrow::schema_ref(),
        }
    }

    /// Returns whether the table is divided into parts; otherwise all of it belongs to the first part.
    pub(crate) fn is_cut(self) -> bool {
        !matches!(self, Nation | Region)
    }

    /// Returns the number of units in the whole table.
    fn units(self, scale: Scale) -> u64 {
        let factor = scale.factor();
        let units = match self {
            LineItem | Orders => OrderGenerator::calculate_row_count(factor, 1, 1),
            PartSupp | PartTable => PartGenerator::calculate_row_count(factor, 1, 1),
            Customer => CustomerGenerator::calculate_row_count(factor, 1, 1),
            Supplier => SupplierGenerator::calculate_row_count(factor, 1, 1),
            Nation => 25,
            Region => 5,
        };
        units.unsigned_abs()
    }

    /// Returns the number of rows per unit; for lineitem, the average.
    fn rows_of_unit(self) -> u64 {
        match self {
            LineItem | PartSupp => 4,
            _ => 1,
        }
    }

    /// Returns the number of rows in a part; approximate for lineitem.
    pub(crate) fn estimated_rows(self, scale: Scale, part: Part) -> u64 {
        let (start, end) = self.units_of(scale, part);
        (end - start) * self.rows_of_unit()
    }

    /// Returns the units of a part, divided as in the reference generator: the last part gets the remainder.
    fn units_of(self, scale: Scale, part: Part) -> (u64, u64) {
        let units = self.units(scale);
        let number = u64::from(part.number());
        let of = u64::from(part.of());
        if !self.is_cut() {
            return if number == 1 { (0, units) } else { (0, 0) };
        }
        let each = units / of;
        (each * (number - 1), if number == of { units } else { each * number })
    }

    /// Returns the chunks of a part, in order.
    pub(crate) fn chunks(self, scale: Scale, part: Part) -> Vec<TableChunk> {
        let (start, end) = self.units_of(scale, part);
        if start == end {
            return Vec::new();
        }
        let units = self.units(scale);
        let of = chunk_count(units, CHUNK_ROWS / self.rows_of_unit());
        let each = units / of;
        let number_of = |unit: u64| (unit / each).min(of - 1);

        let chunk = |number: u64| {
            let from = each * number;
            let to = if number + 1 == of { units } else { from + each };
            let skip = self.rows_between(from, start.max(from));
            let rows = (end < to).then(|| self.rows_between(start.max(from), end));
            TableChunk::Numbered { number: number + 1, of, skip, rows }
        };

        (number_of(start)..=number_of(end - 1)).map(chunk).collect()
    }

    /// Returns the number of rows in a range of units.
    fn rows_between(self, from: u64, to: u64) -> u64 {
        if self != LineItem || from == to {
            return (to - from) * self.rows_of_unit();
        }
        let mut counts = OrderGenerator::create_line_count_random();
        counts.advance_rows(i64::try_from(from).unwrap_or(i64::MAX));
        let count = |_| {
            let count = counts.next_value();
            counts.row_finished();
            u64::from(count.unsigned_abs())
        };

        (from..to).map(count).sum()
    }

    /// Returns all batches of the chunk with this number.
    pub(crate) fn batches(self, scale: Scale, number: u64, of: u64) -> GeneratedBatches {
        let first = if self.is_cut() { self.units(scale) / of * (number - 1) } else { 0 };
        let scale = scale.factor();
        let number = i32::try_from(number).unwrap_or(i32::MAX);
        let of = i32::try_from(of).unwrap_or(i32::MAX);
        let words = Distributions::static_default();
        let text = placeholder();
        let comments = self.comments(first);

        /// Boxes the batches of a generator.
        macro_rules! batches {
            ($arrow:ident, $generator:expr) => {
                Box::new($arrow::new($generator).with_batch_size(BATCH_ROWS))
            };
        }

        /// Boxes the batches of a generator, with comments.
        macro_rules! commented {
            ($arrow:ident, $generator:ident) => {{
                let generator =
                    $generator::new_with_distributions_and_text_pool(scale, number, of, words, text);
                comments.in_batches(batches!($arrow, generator), self.rows_of_unit())
            }};
        }

        match self {
            LineItem => Box::new(LineItemBatches::new(
                LineItemGenerator::new_with_distributions_and_text_pool(scale, number, of, words, text),
                comments,
            )),
            Orders => commented!(OrderArrow, OrderGenerator),
            PartTable => commented!(PartArrow, PartGenerator),
            Customer => commented!(CustomerArrow, CustomerGenerator),
            PartSupp => {
                let generator = PartSuppGenerator::new_with_text_pool(scale, number, of, text);
                comments.in_batches(batches!(PartSuppArrow, generator), self.rows_of_unit())
            }
            Supplier => {
                let generator =
                    SupplierGenerator::new_with_distributions_and_text_pool(scale, number, of, words, text);
                with_opinions(comments, batches!(SupplierArrow, generator))
            }
            Nation => {
                let generator = NationGenerator::new_with_distributions_and_text_pool(words, text);
                comments.in_batches(batches!(NationArrow, generator), 1)
            }
            Region => {
                let generator = RegionGenerator::new_with_distributions_and_text_pool(words, text);
                comments.in_batches(batches!(RegionArrow, generator), 1)
            }
        }
    }

    /// Returns the comments starting at a unit; their seed and average length are those of the reference generator.
    fn comments(self, first: u64) -> CommentGenerator {
        let (seed, average, rows) = match self {
            LineItem => (1_095_462_486, 27.0, 7),
            Orders => (276_090_261, 49.0, 1),
            PartSupp => (1_961_692_154, 124.0, 4),
            PartTable => (804_159_733, 14.0, 1),
            Customer => (1_335_826_707, 73.0, 1),
            Supplier => (1_341_315_363, 63.0, 1),
            Nation => (606_179_079, 72.0, 1),
            Region => (1_500_869_201, 72.0, 1),
        };
        CommentGenerator::new(seed, average, rows, first)
    }
}

/// Returns a number of chunks of about `length` units, chosen so that the last chunk is hardly longer than the
/// others.
fn chunk_count(units: u64, length: u64) -> u64 {
    let min_count = units.div_ceil(length).max(1);
    (min_count..min_count + CANDIDATES).filter(|of| *of <= units).min_by_key(|of| units % of).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use arrow::compute::{cast, concat_batches};

    use super::*;

    #[test]
    fn chunks_are_of_equal_length_or_nearly_so() {
        assert_eq!(chunk_count(5, 8_192), 1);
        for units in [1_500, 1_500_000, 15_000_000, 1_500_001, 123_457_000] {
            let of = chunk_count(units, 8_192);
            assert!(units / of <= 8_192 && units / of + units % of <= 16_384, "{units}: {of}");
        }
    }

    #[test]
    fn parts_are_cut_as_the_reference_generator_cuts_them() {
        let scale = Scale::new(0.001).unwrap();
        let parts = (1..=4).map(|number| Orders.units_of(scale, Part::new(number, 4).unwrap()));
        assert_eq!(parts.collect::<Vec<_>>(), [(0, 375), (375, 750), (750, 1125), (1125, 1500)]);
        let second = Part::new(2, 4).unwrap();
        assert!(Nation.chunks(scale, second).is_empty() && !Orders.chunks(scale, second).is_empty());
    }

    /// Returns the rows of the generators with their own text pool.
    fn reference(table: TpchTable, scale: f64, number: i32, of: i32) -> GeneratedBatches {
        match table {
            LineItem => Box::new(LineItemArrow::new(LineItemGenerator::new(scale, number, of))),
            Orders => Box::new(OrderArrow::new(OrderGenerator::new(scale, number, of))),
            PartSupp => Box::new(PartSuppArrow::new(PartSuppGenerator::new(scale, number, of))),
            PartTable => Box::new(PartArrow::new(PartGenerator::new(scale, number, of))),
            Customer => Box::new(CustomerArrow::new(CustomerGenerator::new(scale, number, of))),
            Supplier => Box::new(SupplierArrow::new(SupplierGenerator::new(scale, number, of))),
            Nation => Box::new(NationArrow::new(NationGenerator::new(scale, number, of))),
            Region => Box::new(RegionArrow::new(RegionGenerator::new(scale, number, of))),
        }
    }

    #[test]
    fn rows_are_those_of_the_generators() {
        let scale = Scale::new(0.01).unwrap();
        for table in TABLES {
            for (number, of) in [(1, 1), (1, 3), (2, 3), (3, 3)] {
                let ours: Vec<_> = table.batches(scale, number, of).map(Result::unwrap).collect();
                let theirs: Vec<_> =
                    reference(table, 0.01, number as i32, of as i32).map(Result::unwrap).collect();
                let ours = concat_batches(&ours[0].schema(), &ours).unwrap();
                let theirs = concat_batches(&theirs[0].schema(), &theirs).unwrap();
                for (column, expected) in ours.columns().iter().zip(theirs.columns()) {
                    let column = cast(column, expected.data_type()).unwrap();
                    assert_eq!(&column, expected, "{} {number} of {of}", table.name());
                }
            }
        }
    }
}
