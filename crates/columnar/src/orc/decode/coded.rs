//! Strings that a stripe has a dictionary for, as codes and values.

use arrow::{array::ArrayRef, datatypes::Utf8Type};

use super::{Presence, bits::Rows, ints::Ints, strings::Values};
use crate::{
    chunk::SEGMENT_ROWS,
    codes::{Code, CodeWidth, Codes},
    orc::{bytes::Streams, fault::Fault, stripe::StreamKind, tree::Type},
};

/// All rows of a column of strings as a dictionary array; `None` where the stripe has no dictionary for it.
pub(in crate::orc) fn dictionary(
    column: &Type,
    streams: &Streams,
    rows: usize,
) -> Result<Option<ArrayRef>, Fault> {
    let decoded = || {
        let encoding = streams.encoding(column.id)?;
        let Some(count) = encoding.dictionary else { return Ok(None) };
        let ints = |kind| Ints::new(streams.get(column.id, kind), false, encoding.second_version);
        let data = streams.get(column.id, StreamKind::DictionaryData);
        let values = Values::read(count, ints(StreamKind::Length), data)?;
        let parent = Presence::of(0, streams).read(rows, None)?;
        let rows = Presence::of(column.id, streams).read(rows, parent.nulls.as_ref())?;
        let codes = ints(StreamKind::Data);
        Ok(Some(match CodeWidth::of(values.len()) {
            CodeWidth::U8 => coded::<u8>(codes, rows, values)?,
            CodeWidth::U16 => coded::<u16>(codes, rows, values)?,
            CodeWidth::U32 => coded::<u32>(codes, rows, values)?,
        }))
    };
    decoded().map_err(|fault: Fault| fault.of_column(&column.path).at(streams.offset(column.id)))
}

fn coded<T: Code>(mut ints: Ints, rows: Rows, values: Values) -> Result<ArrayRef, Fault> {
    let mut present: Codes<T> = Codes::with_capacity(rows.values().min(SEGMENT_ROWS));
    let mut some: Vec<u32> = Vec::with_capacity(SEGMENT_ROWS);
    let mut left = rows.values();
    while left > 0 {
        let read = ints.read(left.min(SEGMENT_ROWS))?;
        let within = |code: i64| u32::try_from(code).ok().filter(|code| (*code as usize) < values.len());
        some.clear();
        for code in &read {
            some.push(within(*code).ok_or_else(|| values.lacks(*code))?);
        }
        present.extend(&some);
        left -= read.len();
    }
    let codes = match &rows.nulls {
        None => present,
        Some(nulls) => {
            let mut codes = Codes::with_capacity(rows.len);
            codes.spread(&present, nulls.inner());
            codes
        }
    };
    codes.into_array(rows.nulls, values.into_array::<Utf8Type>()?).map_err(Fault::corrupt)
}
