//! Chooses the unit of merged timestamps if nanoseconds do not reach all values.

use arrow::{
    array::{ArrayRef, AsArray},
    compute::cast,
    datatypes::{DataType, Field, TimeUnit, TimestampMicrosecondType},
};

use crate::{file::schema::finer, format::FileMetadata, predicate::Column};

/// Microseconds since 1970 within the range of nanoseconds.
const REACH: i64 = i64::MAX / 1_000;

/// Returns a type whose unit reaches the values of all files, for a column that is in nanoseconds because some file is:
/// the finest unit of the files whose statistics are out of the range of nanoseconds. `None` if there are no such
/// files.
pub(crate) fn farther(field: &Field, near: usize, files: &[&FileMetadata]) -> Option<DataType> {
    let DataType::Timestamp(TimeUnit::Nanosecond, zone) = field.data_type() else { return None };
    let far = files.iter().filter_map(|file| unit_beyond_nanoseconds(field.name(), near, file));
    Some(DataType::Timestamp(far.reduce(finer)?, zone.clone()))
}

/// Returns the unit of a file's column if its values are out of the range of nanoseconds.
fn unit_beyond_nanoseconds(name: &str, near: usize, file: &FileMetadata) -> Option<TimeUnit> {
    let position = file.position_near(name, near)?;
    let unit = match file.schema().fields().get(position)?.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => return None,
        DataType::Timestamp(unit, _) => *unit,
        DataType::Date32 | DataType::Date64 => TimeUnit::Microsecond,
        _ => return None,
    };

    let row_groups: Vec<usize> = (0..file.row_group_count()).collect();
    let statistics = file.statistics(&row_groups);
    let column = Column::new(name);
    let bounds = [statistics.min(&column), statistics.max(&column)];
    bounds.iter().flatten().any(is_beyond_nanoseconds).then_some(unit)
}

fn is_beyond_nanoseconds(bounds: &ArrayRef) -> bool {
    // Without a zone, so that dates can be cast too; values out of the range of microseconds become null.
    let Ok(moments) = cast(bounds, &DataType::Timestamp(TimeUnit::Microsecond, None)) else { return false };
    let microseconds = moments.as_primitive::<TimestampMicrosecondType>();
    let is_lost = moments.null_count() > bounds.null_count();
    is_lost || microseconds.iter().flatten().any(|value| !(-REACH..=REACH).contains(&value))
}
