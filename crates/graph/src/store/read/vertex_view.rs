//! Vertices of a type in a version, found by index or key.

use std::{pin::pin, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions},
    compute::cast,
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
};
use futures::FutureExt;

use crate::{
    Error, Result,
    store::{
        access::{Access, poll_once},
        delta::{
            rows::{ColumnArrays, arrow_error},
            vertices::KeyColumnReader,
        },
        log::alter::comma_separated,
        names::INDEX,
        parts::vertex_parts::{VertexParts, VertexSelection},
        snapshot::Snapshot,
    },
};

/// Vertices of a type in a version, with some of their properties. Cheap to clone.
#[derive(Clone)]
pub struct VertexView {
    /// Keeps the version's data alive.
    snapshot: Snapshot,
    parts: Arc<VertexParts>,
    selection: Arc<VertexSelection>,
    schema: SchemaRef,
}

/// Returns the fields of these names, or all.
pub(crate) fn pick(of: &str, all: &[FieldRef], columns: Option<&[&str]>) -> Result<Arc<[FieldRef]>> {
    let Some(columns) = columns else { return Ok(all.into()) };
    let find = |name: &&str| {
        let found = all.iter().find(|field| field.name() == name).cloned();
        found.ok_or_else(|| Error::NoSuchProperty {
            of: of.to_owned(),
            property: (*name).to_owned(),
            available: comma_separated(all.iter().map(|field| field.name().clone())),
        })
    };
    columns.iter().map(find).collect()
}

/// Builds a batch of columns whose types are known to fit.
pub(crate) fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|error| arrow_error("an answer", error))
}

impl VertexView {
    pub(crate) fn new(snapshot: Snapshot, parts: Arc<VertexParts>, columns: Option<&[&str]>) -> Result<Self> {
        let of = format!("vertices of type {}", parts.name());
        let fields = pick(&of, &parts.state.schema.fields(), columns)?;
        let index: FieldRef = Arc::new(Field::new(INDEX, DataType::Int64, false));
        let schema = Schema::new(std::iter::once(index).chain(fields.iter().cloned()).collect::<Vec<_>>());
        let selection = Arc::new(parts.select(fields));
        Ok(Self { snapshot, parts, selection, schema: Arc::new(schema) })
    }

    /// Returns the version of this view.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub(crate) fn parts(&self) -> &Arc<VertexParts> {
        &self.parts
    }

    pub(crate) fn selection(&self) -> &Arc<VertexSelection> {
        &self.selection
    }

    /// Returns the schema of results: `_index`, then the properties.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Reads the vertices with these indexes, in this order and with repetitions: `_index`, then the properties.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for an index that was never assigned, [`Error::NoSuchVertex`] for that of a deleted
    /// vertex.
    pub async fn take(&self, indexes: &[i64]) -> Result<RecordBatch> {
        let columns = match self.parts.take_cached(indexes, &self.selection) {
            Some(taken) => taken?,
            None => self.columns(Access::Loading, indexes).boxed().await?,
        };
        self.answer(indexes, columns)
    }

    /// Reads only the properties, one column each.
    pub(crate) async fn columns(&self, access: Access, indexes: &[i64]) -> Result<ColumnArrays> {
        self.parts.take(access, indexes, &self.selection).await
    }

    /// Returns [`Self::take`] if everything required is in memory.
    pub fn take_cached(&self, indexes: &[i64]) -> Option<Result<RecordBatch>> {
        let taken = self.parts.take_cached(indexes, &self.selection)?;
        Some(taken.and_then(|columns| self.answer(indexes, columns)))
    }

    pub(crate) fn answer(&self, indexes: &[i64], columns: ColumnArrays) -> Result<RecordBatch> {
        let index: ArrayRef = Arc::new(Int64Array::from(indexes.to_vec()));
        batch(&self.schema, std::iter::once(index).chain(columns).collect(), indexes.len())
    }

    /// Returns the index of the vertex with each key, null if absent.
    ///
    /// # Errors
    ///
    /// [`Error::Column`] if these cannot be keys of the type.
    pub async fn indexes_of(&self, keys: &ArrayRef) -> Result<Int64Array> {
        self.find(Access::Loading, keys).boxed().await
    }

    /// Returns [`Self::indexes_of`] if everything required is in memory.
    pub fn indexes_of_cached(&self, keys: &ArrayRef) -> Option<Result<Int64Array>> {
        poll_once(pin!(self.find(Access::Resident, keys)))
    }

    async fn find(&self, access: Access, keys: &ArrayRef) -> Result<Int64Array> {
        let keys = as_keys(&self.parts, keys)?;
        Ok(self.parts.indexes_of(access, &keys).await?.into())
    }

    /// Returns the index of the vertex of each key.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchVertex`] with the first key that has no vertex.
    pub async fn indexes_of_all(&self, keys: &ArrayRef) -> Result<Vec<i64>> {
        self.find_all(Access::Loading, keys).boxed().await
    }

    /// Returns [`Self::indexes_of_all`] if everything required is in memory.
    pub fn indexes_of_all_cached(&self, keys: &ArrayRef) -> Option<Result<Vec<i64>>> {
        poll_once(pin!(self.find_all(Access::Resident, keys)))
    }

    pub(crate) async fn find_all(&self, access: Access, keys: &ArrayRef) -> Result<Vec<i64>> {
        let keys = as_keys(&self.parts, keys)?;
        let found = self.parts.indexes_of(access, &keys).await?;
        let index = |(row, found): (usize, Option<i64>)| found.ok_or_else(|| no_key(&self.parts, &keys, row));
        found.into_iter().enumerate().map(index).collect()
    }

    /// Reads the vertices with these keys, in this order: `_index`, then the properties.
    ///
    /// # Errors
    ///
    /// Same as [`Self::indexes_of_all`].
    pub async fn by_keys(&self, keys: &ArrayRef) -> Result<RecordBatch> {
        let indexes = self.indexes_of_all(keys).await?;
        self.take(&indexes).await
    }

    /// Returns [`Self::by_keys`] if everything required is in memory.
    pub fn by_keys_cached(&self, keys: &ArrayRef) -> Option<Result<RecordBatch>> {
        match self.indexes_of_all_cached(keys)? {
            Ok(indexes) => self.take_cached(&indexes),
            Err(error) => Some(Err(error)),
        }
    }
}

pub(crate) fn no_key(parts: &VertexParts, keys: &ArrayRef, row: usize) -> Error {
    let vertex = match KeyColumnReader::new(keys) {
        Some(column) if keys.is_valid(row) => format!("with key {}", column.at(row)),
        _ => "with key null".to_owned(),
    };
    Error::NoSuchVertex { vertex_type: parts.name().to_owned(), vertex }
}

/// Casts keys to the type of the key column. Accepts integers of any width and strings of any type; a number that the
/// key type cannot represent matches no vertex.
pub(crate) fn as_keys(parts: &VertexParts, keys: &ArrayRef) -> Result<ArrayRef> {
    let to = parts.state.schema.key_type();
    let is_text =
        |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let plain = match keys.data_type() {
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        other => other.clone(),
    };
    let fits = match &to {
        DataType::Utf8 => is_text(&plain),
        _ => plain.is_integer(),
    };

    if *keys.data_type() == to {
        return Ok(keys.clone());
    }
    if fits {
        cast(keys, &to).map_err(|error| arrow_error("keys", error))
    } else if keys.is_empty() {
        Ok(arrow::array::new_empty_array(&to))
    } else {
        Err(Error::Column {
            of: format!("vertices of type {}", parts.name()),
            column: parts.state.schema.key.clone(),
            reason: format!("{} is not {to}", keys.data_type()),
        })
    }
}
