//! Prewarms the cache for the first queries: small data first, then named columns up to a limit.

use arrow::datatypes::FieldRef;
use async_recursion::async_recursion as boxed;
use futures::{StreamExt, TryStreamExt};
use stylobate_storage::ByteSize;

use crate::{
    Direction, Result,
    store::{
        delta::rows::DeltaRows,
        graph_store::GraphStore,
        parts::{
            edge_part::EdgePartSource, edge_parts::EdgeParts, vertex_part::VertexPart,
            vertex_parts::VertexParts,
        },
        snapshot::Snapshot,
    },
};

/// Chunks read concurrently.
const MAX_CONCURRENT_CHUNKS: usize = 8;
/// Default limit of bytes in memory.
const LIMIT: ByteSize = ByteSize::gib(1);

/// Data to load into the cache.
#[derive(Clone, Debug)]
pub struct PrewarmOptions {
    types: Vec<(String, Option<Vec<String>>)>,
    limit: ByteSize,
}

impl Default for PrewarmOptions {
    fn default() -> Self {
        Self { types: Vec::new(), limit: LIMIT }
    }
}

impl PrewarmOptions {
    /// Adds a vertex or edge type with all its properties: vertices with their keys, edges with the neighbours in both
    /// directions. Default: none; the offsets of all edge types are loaded in any case.
    pub fn with_type(mut self, name: impl Into<String>) -> Self {
        self.types.push((name.into(), None));
        self
    }

    /// Adds a type like [`Self::with_type`], with these properties only.
    pub fn with_columns<S: Into<String>>(
        mut self,
        name: impl Into<String>,
        columns: impl IntoIterator<Item = S>,
    ) -> Self {
        self.types.push((name.into(), Some(columns.into_iter().map(Into::into).collect())));
        self
    }

    /// Stops once this many bytes are in memory. Default: 1 GiB.
    pub fn with_limit(mut self, limit: ByteSize) -> Self {
        self.limit = limit;
        self
    }
}

/// Type by its position in the schema, and some of its properties.
enum PrewarmTarget {
    Edges(usize, Vec<FieldRef>),
    Vertices(usize, Vec<FieldRef>),
}

/// Loaded data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prewarmed {
    /// Bytes of arrays.
    pub bytes: u64,
    /// True if it stopped at the limit.
    pub at_limit: bool,
}

impl Prewarmed {
    /// Counts arrays. Returns true below the limit.
    fn add<'a>(
        &mut self,
        arrays: impl IntoIterator<Item = &'a arrow::array::ArrayRef>,
        limit: ByteSize,
    ) -> bool {
        self.bytes += arrays.into_iter().map(|array| array.get_array_memory_size() as u64).sum::<u64>();
        self.at_limit = self.bytes >= limit.as_u64();
        !self.at_limit
    }
}

impl GraphStore {
    /// Prewarms the newest known version in a background task, which runs until it is done or aborted. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    ///
    /// Errors of names, as in [`Snapshot::prewarm`]. Read errors are returned by the task.
    pub fn prewarm_in_background(
        &self,
        options: &PrewarmOptions,
    ) -> Result<tokio::task::JoinHandle<Result<Prewarmed>>> {
        let snapshot = self.latest();
        let wanted = snapshot.wanted(options)?;
        let limit = options.limit;
        Ok(tokio::spawn(async move {
            let done = snapshot.warm(&wanted, limit).await;
            if let Err(error) = &done {
                tracing::debug!(%error, "not all was brought into the cache");
            }
            done
        }))
    }
}

impl Snapshot {
    /// Reads the named types into the cache: first the metadata of bases and deltas, then the offsets of all edges,
    /// then types in the given order.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NoSuchVertexType`], [`crate::Error::NoSuchProperty`], and read errors.
    #[boxed]
    pub async fn prewarm(&self, options: &PrewarmOptions) -> Result<Prewarmed> {
        self.warm(&self.wanted(options)?, options.limit).await
    }

    /// Resolves the named types.
    fn wanted(&self, options: &PrewarmOptions) -> Result<Vec<PrewarmTarget>> {
        let record = self.record();
        let found = options.types.iter().map(|(name, columns)| {
            if let Some((at, state)) =
                record.edge_type(name).ok().and_then(|at| Some((at, record.edges.get(at)?)))
            {
                let schema = &state.schema;
                return Ok(PrewarmTarget::Edges(
                    at,
                    chosen(schema.fields(), columns.as_deref(), &schema.full_name())?,
                ));
            }

            let at = record.vertex_type(name)?;
            let fields = record.vertices.get(at).map(|state| state.schema.fields()).unwrap_or_default();
            Ok(PrewarmTarget::Vertices(at, chosen(fields, columns.as_deref(), name)?))
        });

        found.collect()
    }

    #[tracing::instrument(
        name = "store_prewarm",
        level = "debug",
        skip_all,
        fields(store = self.core().name(), version = self.version())
    )]
    async fn warm(&self, wanted: &[PrewarmTarget], limit: ByteSize) -> Result<Prewarmed> {
        let mut warmed = Prewarmed::default();
        for at in 0..self.record().vertices.len() {
            self.vertex_parts(at).await?;
        }
        for at in 0..self.record().edges.len() {
            let parts = self.edge_parts(at).await?;
            if !offsets(&parts, &mut warmed, limit).await? {
                return Ok(warmed);
            }
        }

        for wanted in wanted {
            let goes_on = match wanted {
                PrewarmTarget::Edges(at, fields) => {
                    edges(&*self.edge_parts(*at).await?, fields, &mut warmed, limit).await?
                }
                PrewarmTarget::Vertices(at, fields) => {
                    vertices(&*self.vertex_parts(*at).await?, fields, &mut warmed, limit).await?
                }
            };

            if !goes_on {
                break;
            }
        }

        Ok(warmed)
    }
}

async fn offsets(parts: &EdgeParts, warmed: &mut Prewarmed, limit: ByteSize) -> Result<bool> {
    for part in &parts.parts {
        let EdgePartSource::Base(base) = &part.of else { continue };
        for direction in [Direction::Out, Direction::In] {
            let list = base.list(direction);
            let read = (0..list.parts()).map(|part| list.offsets(part));
            let mut read =
                futures::stream::iter(read.collect::<Vec<_>>()).buffer_unordered(MAX_CONCURRENT_CHUNKS);
            while let Some(array) = read.try_next().await? {
                if !warmed.add([&array], limit) {
                    return Ok(false);
                }
            }
        }
    }

    Ok(true)
}

async fn edges(
    parts: &EdgeParts,
    fields: &[FieldRef],
    warmed: &mut Prewarmed,
    limit: ByteSize,
) -> Result<bool> {
    for part in &parts.parts {
        if let EdgePartSource::Delta(delta) = &part.of
            && !rows(delta.rows(), fields, warmed, limit).await?
        {
            return Ok(false);
        }
        let EdgePartSource::Base(base) = &part.of else { continue };

        let selection = base.select(fields);
        for direction in [Direction::Out, Direction::In] {
            let read =
                (0..base.list(direction).chunks()).map(|chunk| base.warm(direction, chunk, &selection));
            let mut read =
                futures::stream::iter(read.collect::<Vec<_>>()).buffer_unordered(MAX_CONCURRENT_CHUNKS);
            while let Some(arrays) = read.try_next().await? {
                if !warmed.add(&arrays, limit) {
                    return Ok(false);
                }
            }
        }
    }

    Ok(true)
}

async fn vertices(
    parts: &VertexParts,
    fields: &[FieldRef],
    warmed: &mut Prewarmed,
    limit: ByteSize,
) -> Result<bool> {
    for patch in &parts.patches {
        if !rows(patch.rows(), fields, warmed, limit).await? {
            return Ok(false);
        }
    }
    for part in &parts.parts {
        if let VertexPart::Delta(delta) = part
            && !rows(delta.rows(), fields, warmed, limit).await?
        {
            return Ok(false);
        }
        let VertexPart::Base(base) = part else { continue };
        if let Some(keys) = base.keys() {
            for chunk in 0..keys.info().fences.chunks() as u64 {
                if !warmed.add(&keys.chunk(chunk).await?, limit) {
                    return Ok(false);
                }
            }
        }

        let selection = base.select(fields);
        let read = (0..base.chunks()).map(|chunk| base.chunk(chunk, &selection));
        let mut read =
            futures::stream::iter(read.collect::<Vec<_>>()).buffer_unordered(MAX_CONCURRENT_CHUNKS);
        while let Some(rows) = read.try_next().await? {
            if !warmed.add(&rows.columns, limit) {
                return Ok(false);
            }
        }
    }

    Ok(true)
}

/// Loads columns of deltas. Inline ones are in memory once their record is open.
async fn rows(
    rows: &DeltaRows,
    fields: &[FieldRef],
    warmed: &mut Prewarmed,
    limit: ByteSize,
) -> Result<bool> {
    if matches!(rows, DeltaRows::Decoded(_)) {
        return Ok(true);
    }
    let wanted: Vec<usize> = fields.iter().filter_map(|field| rows.position(field.name())).collect();
    Ok(warmed.add(&rows.get(&wanted).await?, limit))
}

/// Returns the properties of these names; all if none are given.
fn chosen(fields: Vec<FieldRef>, names: Option<&[String]>, of: &str) -> Result<Vec<FieldRef>> {
    let Some(names) = names else { return Ok(fields) };
    let field = |name: &String| {
        let found = fields.iter().find(|field| field.name() == name).cloned();
        found.ok_or_else(|| crate::Error::NoSuchProperty {
            of: of.to_owned(),
            property: name.clone(),
            available: crate::store::log::alter::comma_separated(
                fields.iter().map(|field| field.name().clone()),
            ),
        })
    };
    names.iter().map(field).collect()
}
