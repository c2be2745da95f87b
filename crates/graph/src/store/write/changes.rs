//! Changes of a writer, checked against the version that it follows and against pending changes.

use arrow::{
    array::{Array, ArrayRef, Int64Array, RecordBatch},
    datatypes::{DataType, Field, FieldRef, Schema},
};
use async_recursion::async_recursion as boxed;
use std::{collections::HashMap, ops::Range, sync::Arc};

use super::{
    arrow_input::ArrowInput,
    commit::patch,
    pending::{OwnedVertexKey, PendingVertices},
    writer::StoreWriter,
};
use crate::{
    Error, Result,
    store::{
        access::Access,
        delta::{rows::arrow_error, vertices::KeyColumnReader},
        names::INDEX,
        parts::vertex_parts::VertexParts,
        schema::{DESTINATION, SOURCE, VertexType},
    },
};

/// Form of references to vertices in a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ends {
    /// By key.
    #[default]
    Keys,
    /// By index.
    Indexes,
}

/// List of vertices.
#[derive(Clone, Debug)]
pub enum VertexIds {
    /// By key.
    Keys(ArrayRef),
    /// By index.
    Indexes(Vec<i64>),
}

/// Vertices as a writer sees them: committed ones and pending ones.
struct VertexResolver<'a> {
    schema: VertexType,
    /// `None` for a new type.
    parts: Option<Arc<VertexParts>>,
    pending: Option<&'a PendingVertices>,
}

impl VertexResolver<'_> {
    fn is_there(&self, index: i64) -> bool {
        let Ok(known) = u64::try_from(index) else { return false };
        if self.pending.is_some_and(|pending| pending.deleted.contains(known)) {
            return false;
        }
        let is_new = self
            .pending
            .is_some_and(|pending| (pending.first..pending.first + pending.rows).contains(&known));
        is_new || self.parts.as_ref().is_some_and(|parts| parts.is_there(index))
    }

    /// Returns the index of the vertex of each key.
    async fn find(&self, keys: &ArrayRef) -> Result<Vec<Option<i64>>> {
        let mut found = match &self.parts {
            Some(parts) => parts.indexes_of(Access::Loading, keys).await?,
            None => vec![None; keys.len()],
        };
        let (Some(pending), Some(column)) = (self.pending, KeyColumnReader::new(keys)) else {
            return Ok(found);
        };

        for (row, found) in found.iter_mut().enumerate() {
            if found.is_some_and(|index| pending.deleted.contains(index as u64)) {
                *found = None;
            }
            if found.is_none() && !pending.keys.is_empty() {
                *found = pending.keys.get(&OwnedVertexKey::from(column.at(row))).copied();
            }
        }

        Ok(found)
    }

    /// Resolves the vertices that a column of a batch refers to.
    async fn resolve(&self, input: &ArrowInput<'_>, name: &str, ends: Ends) -> Result<Vec<i64>> {
        if ends == Ends::Indexes {
            let indexes = input.indexes(name)?;
            let lost = indexes.values().iter().position(|index| !self.is_there(*index));
            return match lost {
                None => Ok(indexes.values().to_vec()),
                Some(row) => {
                    let index = indexes.values().get(row).copied().unwrap_or_default();
                    let reason =
                        format!("there is no vertex of type {} with index {index}", self.schema.name);
                    Err(input.wrong_row(name, row, reason))
                }
            };
        }

        let keys = input.keys(name, &self.schema.key_type())?;
        let found = self.find(&keys).await?;
        let index = |(row, found): (usize, Option<i64>)| {
            found.ok_or_else(|| {
                let key =
                    KeyColumnReader::new(&keys).map(|column| column.at(row).to_string()).unwrap_or_default();
                let reason = format!("there is no vertex of type {} with key {key}", self.schema.name);
                input.wrong_row(name, row, reason)
            })
        };

        found.into_iter().enumerate().map(index).collect()
    }
}

impl StoreWriter {
    async fn known(&self, at: usize) -> Result<VertexResolver<'_>> {
        let schema = self.record.vertices.get(at).map(|state| state.schema.clone());
        let schema =
            schema.ok_or_else(|| Error::Ended { reason: "a type that is in no record".to_owned() })?;
        let parts = if at < self.head.record().vertices.len() {
            Some(self.head.vertex_parts(at).await?)
        } else {
            None
        };
        Ok(VertexResolver { schema, parts, pending: self.pending.vertices.get(&at) })
    }

    /// Adds vertices. The batch has a column for the key, and one for each property; a property without a column is
    /// null. Returns the indexes of the vertices, in row order.
    ///
    /// # Errors
    ///
    /// [`Error::Row`] if a key is null or exists already, or if a value does not fit its property;
    /// [`Error::Column`] if a column does not. After an error, none of the batch is pending.
    #[boxed]
    pub async fn add_vertices(&mut self, vertex_type: &str, batch: &RecordBatch) -> Result<Range<u64>> {
        self.begin().await?;
        let at = self.record.vertex_type(vertex_type)?;
        let known = self.known(at).await?;
        let of = format!("vertices of type {vertex_type}");
        let input = ArrowInput { of, batch };
        let fields = known.schema.fields();
        input.check_names(&[], &fields)?;
        let keys = input.keys(&known.schema.key, &known.schema.key_type())?;
        let columns = fields.iter().map(|field| input.property(field)).collect::<Result<Vec<_>>>()?;
        let name = known.schema.key.clone();
        let twice = |row: usize| {
            let key =
                KeyColumnReader::new(&keys).map(|column| column.at(row).to_string()).unwrap_or_default();
            input.wrong_row(&name, row, format!("there is a vertex with key {key} already"))
        };

        if let Some(row) = known.find(&keys).await?.iter().position(Option::is_some) {
            return Err(twice(row));
        }

        let first = self.pending.vertices.get(&at).map(|pending| pending.first + pending.rows);
        let first = first.unwrap_or_else(|| self.record.vertices.get(at).map_or(0, |state| state.next));
        let mut new: HashMap<OwnedVertexKey, i64> = HashMap::with_capacity(keys.len());
        if let Some(column) = KeyColumnReader::new(&keys) {
            for row in 0..keys.len() {
                if new.insert(column.at(row).into(), first as i64 + row as i64).is_some() {
                    return Err(twice(row));
                }
            }
        }

        let rows = batch.num_rows() as u64;
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(schema, columns).map_err(|error| arrow_error("vertices", error))?;
        if rows > 0 {
            self.touch();
            let pending = self.pending.vertices_of(at, &self.record);
            pending.batches.push(batch);
            pending.rows += rows;
            pending.keys.extend(new);
        }

        Ok(first..first + rows)
    }

    /// Updates properties of vertices: the column of the key, or `_index`, identifies the vertex; all other
    /// columns are new values, including nulls. If a vertex occurs twice in a batch, the last row wins.
    ///
    /// # Errors
    ///
    /// [`Error::Row`] if there is no such vertex or a value does not fit; [`Error::Column`] if a column does not.
    /// After an error, none of the batch is pending.
    #[boxed]
    pub async fn update_vertices(&mut self, vertex_type: &str, batch: &RecordBatch) -> Result<()> {
        self.begin().await?;
        let at = self.record.vertex_type(vertex_type)?;
        let known = self.known(at).await?;
        let input = ArrowInput { of: format!("vertices of type {vertex_type}"), batch };
        let fields = known.schema.fields();
        input.check_names(&[INDEX], &fields)?;
        let key = known.schema.key.clone();
        if input.has(INDEX) && input.has(&key) {
            return Err(input.wrong_column(&key, "keys never change"));
        }

        let (name, ends) = if input.has(INDEX) { (INDEX, Ends::Indexes) } else { (key.as_str(), Ends::Keys) };
        let indexes = known.resolve(&input, name, ends).await?;
        let changed: Vec<FieldRef> =
            fields.into_iter().filter(|field| *field.name() != key && input.has(field.name())).collect();
        let columns = changed.iter().map(|field| input.property(field)).collect::<Result<Vec<_>>>()?;
        if !indexes.is_empty() && !changed.is_empty() {
            let patch = patch(&indexes, &changed, &columns)?;
            self.touch();
            self.pending.vertices_of(at, &self.record).patches.push(patch);
        }

        Ok(())
    }

    /// Deletes vertices, with all edges of all types that begin or end there. Their indexes are never reused; their
    /// keys may be.
    ///
    /// # Errors
    ///
    /// [`Error::Row`] if there is no such vertex. After an error, none of the deletions is pending.
    #[boxed]
    pub async fn delete_vertices(&mut self, vertex_type: &str, ids: &VertexIds) -> Result<()> {
        self.begin().await?;
        let at = self.record.vertex_type(vertex_type)?;
        let known = self.known(at).await?;
        let (name, ends, column) = match ids {
            VertexIds::Keys(keys) => (known.schema.key.clone(), Ends::Keys, keys.clone()),
            VertexIds::Indexes(indexes) => {
                (INDEX.to_owned(), Ends::Indexes, Arc::new(Int64Array::from(indexes.clone())) as ArrayRef)
            }
        };

        let batch = one_column(&name, column)?;
        let input = ArrowInput { of: format!("vertices of type {vertex_type}"), batch: &batch };
        let indexes = known.resolve(&input, &name, ends).await?;
        if !indexes.is_empty() {
            self.touch();
            let record = self.record.clone();
            self.pending.delete_vertices(at, &record, &indexes);
        }

        Ok(())
    }

    /// Adds edges: columns `src` and `dst` refer to their ends by key or by index, all other columns are properties.
    /// Parallel edges and self-loops are allowed. Returns the number of edges.
    ///
    /// # Errors
    ///
    /// [`Error::Row`] if an end does not exist, or if a value does not fit its property; [`Error::Column`] if a
    /// column does not. After an error, none of the batch is pending.
    #[boxed]
    pub async fn add_edges(&mut self, edge_type: &str, batch: &RecordBatch, ends: Ends) -> Result<u64> {
        self.begin().await?;
        let at = self.record.edge_type(edge_type)?;
        let (sources, destinations) = self.ends(at, batch, ends).await?;
        let Some(schema) = self.record.edges.get(at).map(|state| state.schema.clone()) else { return Ok(0) };
        let input = ArrowInput { of: format!("edges of type {}", schema.full_name()), batch };
        let fields = schema.fields();
        input.check_names(&[SOURCE, DESTINATION], &fields)?;
        let columns = fields.iter().map(|field| input.property(field)).collect::<Result<Vec<_>>>()?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));

        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options);
        let batch = batch.map_err(|error| arrow_error("edges", error))?;
        let rows = sources.len();
        if rows > 0 {
            self.touch();
            let pending = self.pending.edges_of(at);
            pending.is_there.resize(pending.is_there.len() + rows, true);
            pending.sources.extend(sources);
            pending.destinations.extend(destinations);
            pending.batches.push(batch);
        }

        Ok(rows as u64)
    }

    /// Deletes edges: columns `src` and `dst` refer to the ends; all parallel edges between them are deleted, including
    /// pending ones. A pair without edges is ignored.
    ///
    /// # Errors
    ///
    /// Same as [`Self::add_edges`].
    #[boxed]
    pub async fn delete_edges(&mut self, edge_type: &str, batch: &RecordBatch, ends: Ends) -> Result<()> {
        self.begin().await?;
        let at = self.record.edge_type(edge_type)?;
        let (sources, destinations) = self.ends(at, batch, ends).await?;
        let pairs: std::collections::HashSet<(i64, i64)> = sources.into_iter().zip(destinations).collect();
        if !pairs.is_empty() {
            self.touch();
            self.pending.drop_edges(at, |source, destination| pairs.contains(&(source, destination)));
            self.pending.edges_of(at).pairs.extend(pairs);
        }
        Ok(())
    }

    /// Resolves the vertices that a batch of edges refers to.
    async fn ends(&self, at: usize, batch: &RecordBatch, ends: Ends) -> Result<(Vec<i64>, Vec<i64>)> {
        let Some(schema) = self.record.edges.get(at).map(|state| state.schema.clone()) else {
            return Ok((Vec::new(), Vec::new()));
        };
        let input = ArrowInput { of: format!("edges of type {}", schema.full_name()), batch };
        let from = self.known(self.record.vertex_type(&schema.source)?).await?;
        let to = self.known(self.record.vertex_type(&schema.destination)?).await?;
        let sources = from.resolve(&input, SOURCE, ends).await?;
        let destinations = to.resolve(&input, DESTINATION, ends).await?;
        Ok((sources, destinations))
    }
}

fn one_column(name: &str, column: ArrayRef) -> Result<RecordBatch> {
    let data_type: DataType = column.data_type().clone();
    let schema = Schema::new(vec![Field::new(name, data_type, true)]);
    RecordBatch::try_new(Arc::new(schema), vec![column]).map_err(|error| arrow_error("vertices", error))
}
