//! Adapts statistics of parts of a file to the table that the file belongs to.

use arrow::{
    array::{Array, ArrayRef, BooleanArray, UInt64Array},
    compute::concat,
    datatypes::DataType,
};

use super::{FileColumn, TableSchema};
use crate::{
    field_path::field_path,
    file::{
        schema::{ProjectedColumn, value_type},
        statistics::PruningStatistics,
    },
    format::FileMetadata,
    kernels::exact_cast::common_cast,
    predicate::{Column, Literal},
    table::locate::LocatedFile,
};

/// Wraps the file's own statistics of its parts.
pub(crate) fn of_file<'a>(
    table: &'a TableSchema,
    located: &'a LocatedFile,
    file: &'a FileMetadata,
    inner: Box<dyn PruningStatistics + 'a>,
) -> impl PruningStatistics + 'a {
    TableFileStatistics { table, located, file, inner }
}

/// Statistics of a file with the table's wider types, missing columns and partition columns.
struct TableFileStatistics<'a> {
    table: &'a TableSchema,
    located: &'a LocatedFile,
    file: &'a FileMetadata,
    inner: Box<dyn PruningStatistics + 'a>,
}

impl TableFileStatistics<'_> {
    /// Returns the type of the column in the table: `Some(None)` if the file lacks it.
    fn target(&self, column: &Column) -> Option<Option<DataType>> {
        let (root, path) = self.table.resolve(column.name())?;
        let field = self.table.schema().field(root);
        let is_of_path = self.located.partitions.iter().any(|(name, _)| name == field.name());
        if is_of_path || self.file.position_near(field.name(), root).is_none() {
            return Some(None);
        }
        if self.table.is_cast(root) {
            return None;
        }

        if !self.is_same_in_file(column, field.name(), &path) {
            return None;
        }

        let mut data_type = field.data_type();
        for name in path {
            let DataType::Struct(fields) = data_type else { return None };
            data_type = fields.find(name)?.1.data_type();
        }

        Some(Some(value_type(data_type).clone()))
    }

    /// Returns whether a dotted name means the same field in the file as in the table. A struct of the file may lack the
    /// field, and another column of the file may have it.
    fn is_same_in_file(&self, column: &Column, root: &str, path: &[&str]) -> bool {
        let Some(of_file) = field_path(self.file.schema().fields(), column.name()) else { return false };
        let names = of_file.iter().map(|(_, field)| field.name().as_str());
        names.eq(std::iter::once(root).chain(path.iter().copied()))
    }

    /// Returns the value of a column that the file lacks: `Some(None)` is null.
    fn value(&self, column: &Column) -> Option<Option<ArrayRef>> {
        let (root, path) = self.table.resolve(column.name())?;
        if !path.is_empty() {
            return Some(None);
        }

        let whole = ProjectedColumn::whole(root);
        let values = value_type(self.table.schema().field(root).data_type());
        match self.table.column_of_file(&whole, values, self.located, self.file, "").ok()? {
            FileColumn::Value(value) if value.is_null(0) => Some(None),
            FileColumn::Value(value) => Some(Some(value)),
            FileColumn::Read(_) | FileColumn::RowNumber => None,
        }
    }

    fn bound(&self, column: &Column, inner: Option<ArrayRef>) -> Option<ArrayRef> {
        match self.target(column)? {
            Some(data_type) => {
                let inner = inner?;
                // A value that does not fit the wider type is not a bound.
                if *inner.data_type() == data_type {
                    Some(inner)
                } else {
                    common_cast(&inner, &data_type).ok()
                }
            }
            None => {
                let value = self.value(column)??;
                concat(&vec![value.as_ref() as &dyn Array; self.parts().max(1)])
                    .ok()
                    .filter(|_| self.parts() > 0)
            }
        }
    }
}

impl PruningStatistics for TableFileStatistics<'_> {
    fn parts(&self) -> usize {
        self.inner.parts()
    }

    fn min(&self, column: &Column) -> Option<ArrayRef> {
        self.bound(column, self.inner.min(column))
    }

    fn max(&self, column: &Column) -> Option<ArrayRef> {
        self.bound(column, self.inner.max(column))
    }

    fn null_counts(&self, column: &Column) -> Option<UInt64Array> {
        match self.target(column)? {
            Some(_) => self.inner.null_counts(column),
            None => match self.value(column)? {
                Some(_) => Some(vec![0_u64; self.parts()].into()),
                None => self.inner.row_counts(),
            },
        }
    }

    fn row_counts(&self) -> Option<UInt64Array> {
        self.inner.row_counts()
    }

    fn may_contain(&self, column: &Column, literals: &[Literal]) -> Option<BooleanArray> {
        self.target(column)??;
        self.inner.may_contain(column, literals)
    }
}
