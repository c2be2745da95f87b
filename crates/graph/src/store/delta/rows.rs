//! Rows of a delta: decoded if they are inline in a record of the log, or in a file whose columns are cached.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch, new_null_array},
    datatypes::{FieldRef, Schema},
    ipc::writer::{IpcWriteOptions, StreamWriter},
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use smallvec::SmallVec;
use stylobate_columnar::{
    ColumnsUse, FileColumns, IpcStreamReader,
    parquet::{ParquetOptions, ParquetWriter},
};
use stylobate_storage::{Corrupt, Destination, Overwrite, Sinks};

use crate::{
    Error, Result,
    graphar::{FileType, GraphFolder},
    store::{
        access::Access,
        budgeted::{MemoryFootprint, bytes_of},
    },
};

/// Arrays of columns that were read together.
pub(crate) type ColumnArrays = SmallVec<[ArrayRef; 4]>;

/// Columns of a delta, one array each.
pub(crate) enum DeltaRows {
    Decoded(RecordBatch),
    File { columns: FileColumns, fields: Arc<[FieldRef]> },
}

impl DeltaRows {
    /// Decodes rows that are inline in a record.
    pub(crate) fn from_text(text: &str) -> std::result::Result<Self, Corrupt> {
        let bytes = BASE64.decode(text).map_err(|error| error.to_string())?;
        let batches = IpcStreamReader::new(bytes.as_slice()).map_err(|error| error.to_string())?;
        let batches: Vec<RecordBatch> =
            batches.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        match <[RecordBatch; 1]>::try_from(batches) {
            Ok([batch]) => Ok(Self::Decoded(batch)),
            Err(_) => Err("not one batch of rows".into()),
        }
    }

    /// Opens the columns of a file that are among `fields`.
    pub(crate) async fn open(folder: &GraphFolder, path: &str, fields: &Arc<[FieldRef]>) -> Result<Self> {
        let columns = folder.open(path, FileType::Parquet, fields).await?;
        if folder.is_settled(path).await? {
            return Ok(Self::File { columns, fields: fields.clone() });
        }
        // The columns of a file opened so soon after its write would never be cached: decode them now.
        let there: Vec<usize> = (0..fields.len()).filter(|at| columns.has(*at)).collect();
        let arrays = columns.get(&there).await?;
        let named = there.iter().filter_map(|at| fields.get(*at)).zip(arrays);
        let batch =
            RecordBatch::try_from_iter_with_nullable(named.map(|(field, array)| (field.name(), array, true)));

        batch.map(Self::Decoded).map_err(|error| arrow_error("rows of a delta", error))
    }

    /// Returns the usage of columns in a file, and how much of them is cached.
    pub(crate) fn usage(&self) -> ColumnsUse {
        match self {
            Self::Decoded(_) => ColumnsUse::default(),
            Self::File { columns, .. } => columns.usage(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Decoded(batch) => batch.num_rows(),
            Self::File { columns, .. } => columns.rows(),
        }
    }

    /// Returns a field whose inline column has a different type, if any.
    pub(crate) fn unlike<'f>(&self, fields: &'f [FieldRef]) -> Option<&'f FieldRef> {
        let Self::Decoded(batch) = self else { return None };
        fields.iter().find(|field| {
            let column = batch.column_by_name(field.name());
            column.is_some_and(|column| column.data_type() != field.data_type())
        })
    }

    /// Returns the position of the column of this name.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        match self {
            Self::Decoded(batch) => batch.schema_ref().index_of(name).ok(),
            Self::File { columns, fields } => {
                fields.iter().position(|field| field.name() == name).filter(|at| columns.has(*at))
            }
        }
    }

    /// Returns all rows of a column if they are in memory.
    #[inline]
    pub(crate) fn cached(&self, column: usize) -> Option<ArrayRef> {
        match self {
            Self::Decoded(batch) => batch.columns().get(column).cloned(),
            Self::File { columns, .. } => columns.cached(column),
        }
    }

    /// Reads like [`Self::get`], with this access.
    pub(crate) async fn get_with(&self, access: Access, wanted: &[usize]) -> Result<ColumnArrays> {
        let resident = || wanted.iter().map(|at| self.cached(*at)).collect::<Option<ColumnArrays>>().map(Ok);
        access.read(resident, || self.get(wanted)).await
    }

    /// Reads all rows of several columns.
    pub(crate) async fn get(&self, wanted: &[usize]) -> Result<ColumnArrays> {
        match self {
            Self::Decoded(batch) => {
                Ok(wanted.iter().filter_map(|at| batch.columns().get(*at).cloned()).collect())
            }
            Self::File { columns, .. } => Ok(columns.get(wanted).await?),
        }
    }

    /// Reads all rows of columns, null for absent columns.
    pub(crate) async fn all(&self, positions: &[Option<usize>], fields: &[FieldRef]) -> Result<ColumnArrays> {
        let wanted: SmallVec<[usize; 4]> = positions.iter().flatten().copied().collect();
        let mut found = self.get(&wanted).await?.into_iter();
        let rows = self.len();
        let column = |(position, field): (&Option<usize>, &FieldRef)| {
            position.and_then(|_| found.next()).unwrap_or_else(|| new_null_array(field.data_type(), rows))
        };
        Ok(positions.iter().zip(fields).map(column).collect())
    }

    /// Reads all rows of these fields, null for fields added to the schema later.
    pub(crate) async fn of_fields(&self, fields: &[FieldRef]) -> Result<ColumnArrays> {
        let positions: Vec<Option<usize>> = fields.iter().map(|field| self.position(field.name())).collect();
        self.all(&positions, fields).await
    }

    /// Reads the column of this name, if it exists.
    pub(crate) async fn named(&self, name: &str) -> Result<Option<ArrayRef>> {
        match self.position(name) {
            Some(at) => Ok(self.get(&[at]).await?.pop()),
            None => Ok(None),
        }
    }
}

impl MemoryFootprint for DeltaRows {
    fn bytes(&self) -> u64 {
        match self {
            Self::Decoded(batch) => bytes_of(batch.columns()),
            Self::File { .. } => 0,
        }
    }
}

/// Encodes rows for a record: an Arrow stream, in base64.
pub(crate) fn to_text(batch: &RecordBatch) -> Result<String> {
    let encode = || {
        // Minimal alignment keeps small batches small.
        let options = IpcWriteOptions::try_new(8, false, arrow::ipc::MetadataVersion::V5)?;
        let plain = Schema::new(batch.schema_ref().fields().clone());
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &plain, options)?;
        writer.write(batch)?;
        writer.into_inner()
    };
    let bytes = encode().map_err(|source| arrow_error("a batch of a commit", source))?;
    Ok(BASE64.encode(bytes))
}

/// Writes rows to a file of the store.
pub(crate) async fn write(sinks: &Sinks, root: &Destination, path: &str, batch: &RecordBatch) -> Result<()> {
    let destination = root.join(path)?;
    let sink = match &destination {
        Destination::File(file) => sinks.file(file, Overwrite::Refuse).await?,
        Destination::Object { origin, path } => {
            sinks.object(origin.store().clone(), path.clone(), Overwrite::Replace)
        }
    };
    let name = destination.to_string();
    let mut writer = ParquetWriter::new(sink, name, batch.schema(), ParquetOptions::default())?;
    writer.write(batch).await?;
    writer.finish().await?;

    Ok(())
}

pub(crate) fn arrow_error(context: &str, source: arrow::error::ArrowError) -> Error {
    stylobate_columnar::Error::Arrow { context: context.to_owned(), source: Arc::new(source) }.into()
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn rows_come_back_from_text_and_other_text_is_an_error() {
        let batch = RecordBatch::try_from_iter([
            ("src", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
            ("name", Arc::new(StringArray::from(vec![Some("a"), None]))),
        ])
        .unwrap();
        let text = to_text(&batch).unwrap();
        assert!(text.len() < 1_200, "{}", text.len());
        let rows = DeltaRows::from_text(&text).unwrap();
        assert_eq!((rows.len(), rows.position("name"), rows.position("x")), (2, Some(1), None));
        assert_eq!(rows.cached(0).unwrap().as_primitive::<Int64Type>().values(), &[1, 2]);

        for wrong in ["", "AAAA", "%", text.get(..text.len() / 2 / 4 * 4).unwrap()] {
            assert!(DeltaRows::from_text(wrong).is_err());
        }
    }
}
