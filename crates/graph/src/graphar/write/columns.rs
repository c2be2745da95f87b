//! Input columns, and their casts to the types in files.

use arrow::{
    array::{Array, ArrayRef, RecordBatch},
    datatypes::{DataType, Field, SchemaRef},
};
use stylobate_columnar::{Inexact, exact_cast};

use super::names::{no_property, unwritable};
use crate::{PropertyType, Result, graphar::Property};

/// Rows cast at a time: enough that threads rarely synchronize.
pub(super) const BATCH_ROWS: usize = 1 << 16;

/// Schema of the input.
#[derive(Clone, Debug)]
pub(crate) struct InputColumns {
    /// Name of the vertex or edge type in errors.
    of: String,
    schema: SchemaRef,
}

/// Column, and the type that it is cast to.
#[derive(Clone, Debug)]
pub(crate) struct InputColumnCast {
    at: usize,
    name: String,
    from: DataType,
    to: DataType,
    is_nullable: bool,
}

impl InputColumns {
    pub(super) fn new(of: &str, schema: &SchemaRef) -> Self {
        Self { of: of.to_owned(), schema: schema.clone() }
    }

    pub(super) fn of(&self) -> &str {
        &self.of
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    pub(super) fn field(&self, name: &str) -> Result<(usize, &Field)> {
        let found = self.schema.column_with_name(name);
        found.ok_or_else(|| no_property(&self.of, name, &self.names()))
    }

    /// Returns a non-nullable column cast to this type.
    pub(super) fn column(&self, name: &str, to: DataType) -> Result<InputColumnCast> {
        let (at, field) = self.field(name)?;
        let from = field.data_type().clone();
        Ok(InputColumnCast { at, name: name.to_owned(), from, to, is_nullable: field.is_nullable() })
    }

    /// Returns the column of a property.
    pub(super) fn column_of(&self, property: &Property) -> Result<InputColumnCast> {
        let column = self.column(&property.name, property.arrow())?;
        Ok(InputColumnCast { is_nullable: property.is_nullable, ..column })
    }

    /// Returns a column whose consumer checks nulls.
    pub(super) fn nullable_column(&self, name: &str, to: DataType) -> Result<InputColumnCast> {
        Ok(InputColumnCast { is_nullable: true, ..self.column(name, to)? })
    }

    /// Returns the property for a column.
    pub(super) fn property(&self, name: &str, is_primary: bool) -> Result<Property> {
        let (_, field) = self.field(name)?;
        let property_type = PropertyType::of_arrow(field.data_type()).ok_or_else(|| {
            unwritable(&self.of, format!("column {name}: GraphAr has nothing for {}", field.data_type()))
        })?;
        let property = Property::new(name, property_type);
        Ok(if is_primary {
            property.into_primary()
        } else {
            Property { is_nullable: field.is_nullable(), ..property }
        })
    }

    /// Checks a batch against the declared schema.
    pub(super) fn check(&self, batch: &RecordBatch) -> Result<()> {
        let given = batch.schema_ref().fields();
        let promised = self.schema.fields();
        if given.len() != promised.len() {
            let reason = format!("a batch of {} columns where {} were promised", given.len(), promised.len());
            return Err(unwritable(&self.of, reason));
        }

        for (given, promised) in given.iter().zip(promised) {
            if (given.name(), given.data_type()) != (promised.name(), promised.data_type()) {
                let reason = format!(
                    "a column {} of {} where {} of {} was promised",
                    given.name(),
                    given.data_type(),
                    promised.name(),
                    promised.data_type()
                );
                return Err(unwritable(&self.of, reason));
            }
        }

        Ok(())
    }

    /// Casts the column's values. `first_row` is the number of the batch's first row, for errors.
    pub(super) fn values(
        &self,
        column: &InputColumnCast,
        batch: &RecordBatch,
        first_row: u64,
    ) -> Result<ArrayRef> {
        let InputColumnCast { at, name, from, to, is_nullable } = column;
        let wrong = |reason: String| unwritable(&self.of, format!("column {name}: {reason}"));
        let array = batch.columns().get(*at).ok_or_else(|| wrong("it is missing".to_owned()))?;
        let row = |row: usize| first_row + row as u64;
        if !is_nullable && let Some(null) = first_null(array.as_ref()) {
            return Err(wrong(format!("a null in row {}, where none was promised", row(null))));
        }

        exact_cast(array, to).map_err(|inexact| match inexact {
            Inexact::Row(at) => {
                wrong(format!("the value of row {} is {from}, and not exactly {to}", row(at)))
            }
            Inexact::Type(reason) => wrong(format!("{from} does not become {to}: {reason}")),
        })
    }
}

impl InputColumnCast {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// Returns the first null row.
pub(super) fn first_null(array: &dyn Array) -> Option<usize> {
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0)?;
    (0..array.len()).find(|row| nulls.is_null(*row))
}
