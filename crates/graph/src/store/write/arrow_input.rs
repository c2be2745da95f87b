//! Casts callers' batches to the columns of the schema.

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, new_null_array},
    datatypes::{DataType, FieldRef, Int64Type, TimeUnit},
};
use stylobate_columnar::{Inexact, exact_cast};

use crate::{Error, Result};

/// Batch for a type, and its name in errors.
pub(crate) struct ArrowInput<'a> {
    pub(crate) of: String,
    pub(crate) batch: &'a RecordBatch,
}

impl ArrowInput<'_> {
    pub(crate) fn wrong_row(&self, column: &str, row: usize, reason: impl Into<String>) -> Error {
        Error::Row { of: self.of.clone(), column: column.to_owned(), row, reason: reason.into() }
    }

    pub(crate) fn wrong_column(&self, column: &str, reason: impl Into<String>) -> Error {
        Error::Column { of: self.of.clone(), column: column.to_owned(), reason: reason.into() }
    }

    /// Returns a required column.
    pub(crate) fn column(&self, name: &str) -> Result<&ArrayRef> {
        self.batch.column_by_name(name).ok_or_else(|| self.wrong_column(name, "it is not in the batch"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.batch.schema_ref().index_of(name).is_ok()
    }

    /// Rejects columns other than `ends` and the fields', and duplicates.
    pub(crate) fn check_names(&self, ends: &[&str], fields: &[FieldRef]) -> Result<()> {
        let given = self.batch.schema_ref().fields();
        for (at, field) in given.iter().enumerate() {
            let name = field.name().as_str();
            if given.iter().take(at).any(|other| other.name() == name) {
                return Err(self.wrong_column(name, "it is there twice"));
            }
            if !ends.contains(&name) && !fields.iter().any(|known| known.name() == name) {
                let known = crate::store::log::alter::comma_separated(
                    fields.iter().map(|known| known.name().clone()),
                );
                return Err(self.wrong_column(name, format!("no such property; available: {known}")));
            }
        }

        Ok(())
    }

    /// Returns the column of a property; all null if the batch does not have it.
    pub(crate) fn property(&self, field: &FieldRef) -> Result<ArrayRef> {
        match self.batch.column_by_name(field.name()) {
            Some(array) => self.cast(field.name(), array, field.data_type()),
            None => Ok(new_null_array(field.data_type(), self.batch.num_rows())),
        }
    }

    /// Casts values to another type, which must represent all of them. Timestamps are whole milliseconds, as in
    /// GraphAr.
    pub(crate) fn cast(&self, name: &str, array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
        let wrong = |inexact| match inexact {
            Inexact::Row(row) => self.wrong_row(name, row, format!("the value is none that {to} has")),
            Inexact::Type(reason) => {
                self.wrong_column(name, format!("{} cannot be {to}: {reason}", array.data_type()))
            }
        };
        let array = match to {
            DataType::Timestamp(TimeUnit::Microsecond, None) => {
                let coarse = DataType::Timestamp(TimeUnit::Millisecond, None);
                &exact_cast(array, &coarse).map_err(wrong)?
            }
            _ => array,
        };

        exact_cast(array, to).map_err(wrong)
    }

    /// Casts a column of keys, which must not have nulls.
    pub(crate) fn keys(&self, name: &str, key: &DataType) -> Result<ArrayRef> {
        let keys = self.cast(name, self.column(name)?, key)?;
        self.check_valid(name, &keys)?;
        Ok(keys)
    }

    /// Casts a column of indexes, which must not have nulls.
    pub(crate) fn indexes(&self, name: &str) -> Result<Int64Array> {
        let indexes = self.cast(name, self.column(name)?, &DataType::Int64)?;
        self.check_valid(name, &indexes)?;
        Ok(indexes.as_primitive::<Int64Type>().clone())
    }

    fn check_valid(&self, name: &str, array: &ArrayRef) -> Result<()> {
        match (0..array.len()).find(|row| array.is_null(*row)) {
            Some(row) => Err(self.wrong_row(name, row, "it is null")),
            None => Ok(()),
        }
    }
}
