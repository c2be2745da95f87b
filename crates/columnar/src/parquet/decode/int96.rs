//! Chooses the unit of INT96 columns: nanoseconds if all values are in range, else a coarser one.
//!
//! INT96 has nanoseconds and any year, and no Arrow type has both. The footer does not say whether a file needs the
//! resolution or the range, and INT96 statistics are unreliable. Unless the writer is known, the values are scanned
//! once, when the file is opened.

use std::{ops::RangeInclusive, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray},
    datatypes::{DataType, Field, Fields, Schema, TimeUnit, TimestampSecondType},
};
use parquet::basic::Type as PhysicalType;
use stylobate_storage::OpenObject;

use crate::{
    Result,
    chunk::{Chunk, ChunkRepresentation},
    file::schema::ProjectedColumn,
    parquet::{DecodeScratch, ParquetFile, footer::has_arrow_schema},
};

/// Key prefix that Spark leaves in footers. It writes microseconds, of any year.
const SPARK: &str = "org.apache.spark.";
/// Units from the finest, each with the seconds from 1970 that it reaches.
const REACH: [(TimeUnit, i64); 2] =
    [(TimeUnit::Nanosecond, i64::MAX / 1_000_000_000 - 1), (TimeUnit::Microsecond, i64::MAX / 1_000_000 - 1)];

impl ParquetFile {
    /// Returns the file with units that hold all values of its INT96 columns.
    pub(crate) async fn with_units_of_int96(self, object: &OpenObject) -> Result<Self> {
        let columns = self.open_units();
        if columns.is_empty() {
            return Ok(self);
        }

        let mut units = vec![None; self.leaves.len()];
        let pairs = self.metadata.file_metadata().key_value_metadata();
        let spark = pairs.is_some_and(|pairs| pairs.iter().any(|pair| pair.key.starts_with(SPARK)));
        // Seconds hold the years of all values.
        let seconds = self.with_units(&units_of(&columns, units.len(), TimeUnit::Second));

        for root in columns {
            let unit = if spark { TimeUnit::Microsecond } else { seconds.finest_unit(object, root).await? };
            if let Some(known) = units.get_mut(root) {
                *known = Some(unit);
            }
        }

        let mut file = self.with_units(&units);
        file.has_chosen_unit = units.iter().map(Option::is_some).collect();
        Ok(file)
    }

    /// Returns the top-level INT96 columns whose unit the file's Arrow schema does not state.
    fn open_units(&self) -> Vec<usize> {
        if has_arrow_schema(&self.metadata) {
            return Vec::new();
        }
        let leaves = self.metadata.file_metadata().schema_descr().columns();
        let is_int96 =
            |leaf: usize| leaves.get(leaf).is_some_and(|leaf| leaf.physical_type() == PhysicalType::INT96);
        let roots = self.leaves.iter().enumerate();
        roots.filter(|(_, leaves)| (*leaves).clone().any(is_int96)).map(|(root, _)| root).collect()
    }

    /// Returns the file with another unit for the nanosecond timestamps of some top-level columns.
    fn with_units(&self, units: &[Option<TimeUnit>]) -> Self {
        let with_units = |fields: &Fields| -> Fields {
            let each = fields.iter().zip(units);
            each.map(|(field, unit)| unit.map_or_else(|| field.clone(), |unit| in_unit(field, unit).into()))
                .collect()
        };
        let said = self.schema.metadata().clone();
        let schema = Arc::new(Schema::new_with_metadata(with_units(self.schema.fields()), said));
        Self { schema, written: with_units(&self.written), ..self.clone() }
    }

    /// Returns the finest unit that holds all values of a column, which is read in seconds here. Any unit will do for a
    /// column that cannot be read.
    async fn finest_unit(&self, object: &OpenObject, root: usize) -> Result<TimeUnit> {
        let column = ProjectedColumn::whole(root);
        let mut scratch = DecodeScratch::default();
        let mut span = 0..=0;

        for row_group in 0..self.row_group_count() {
            let bytes = self.read(object, row_group, std::slice::from_ref(&column)).await?;
            let decoded =
                self.decode(row_group, &column, &bytes, ChunkRepresentation::Native, &mut scratch, None);
            bytes.check().await?;
            match decoded {
                Ok(Chunk::Dense(segments)) => segments.iter().for_each(|array| widen(&mut span, array)),
                Ok(Chunk::Dictionary(array) | Chunk::Whole(array)) => widen(&mut span, &array),
                Err(_) => break,
            }
        }

        let fits = |reach: i64| span.start().saturating_neg() <= reach && *span.end() <= reach;
        let finest = REACH.iter().find(|(_, reach)| fits(*reach));
        Ok(finest.map_or(TimeUnit::Millisecond, |(unit, _)| *unit))
    }
}

fn units_of(columns: &[usize], count: usize, unit: TimeUnit) -> Vec<Option<TimeUnit>> {
    (0..count).map(|root| columns.contains(&root).then_some(unit)).collect()
}

/// Returns the field with all its nanosecond timestamps in another unit.
fn in_unit(field: &Field, unit: TimeUnit) -> Field {
    let inner = |field: &Field| Arc::new(in_unit(field, unit));
    let data_type = match field.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => DataType::Timestamp(unit, zone.clone()),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| inner(field)).collect()),
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(inner(item), *length),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        other => other.clone(),
    };

    field.clone().with_data_type(data_type)
}

/// Widens the span by all timestamps, in seconds, of an array.
fn widen(span: &mut RangeInclusive<i64>, array: &ArrayRef) {
    if let Some(times) = array.as_primitive_opt::<TimestampSecondType>() {
        let min = arrow::compute::min(times).unwrap_or(0).min(*span.start());
        let max = arrow::compute::max(times).unwrap_or(0).max(*span.end());
        *span = min..=max;
    } else if let Some(array) = array.as_any_dictionary_opt() {
        widen(span, array.values());
    } else if let Some(array) = array.as_struct_opt() {
        array.columns().iter().for_each(|column| widen(span, column));
    } else if let Some(array) = array.as_list_opt::<i32>() {
        widen(span, array.values());
    } else if let Some(array) = array.as_list_opt::<i64>() {
        widen(span, array.values());
    } else if let Some(array) = array.as_fixed_size_list_opt() {
        widen(span, array.values());
    } else if let Some(array) = array.as_map_opt() {
        array.entries().columns().iter().for_each(|column| widen(span, column));
    }
}
