//! Verifies a version: every file that it refers to exists, opens, and agrees with its description.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{FieldRef, Int64Type},
};
use async_recursion::async_recursion as boxed;
use futures::StreamExt;
use stylobate_columnar::Cache;
use stylobate_storage::{ByteSize, CacheOptions, PageCache};

use crate::{
    Direction, Result,
    graphar::GraphFolder,
    store::{
        base::{BaseColumnSelection, edges::EdgeBase, keys::KeyFences, vertices::VertexBase},
        delta::deletion::DeletionSet,
        opened::StoreCore,
        parts::{
            edge_part::{EdgePart, EdgePartSource},
            edge_parts::EdgeParts,
            vertex_part::VertexPart,
            vertex_parts::VertexParts,
        },
        snapshot::Snapshot,
    },
};

/// Chunks verified concurrently.
const MAX_CONCURRENT_CHUNKS: usize = 4;
/// Memory of the page cache for reads.
const PAGES: ByteSize = ByteSize::mib(16);

/// Result of verifying a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verification {
    /// Version.
    pub version: u64,
    /// Number of bases and deltas read.
    pub parts: u64,
    /// Number of chunks of bases read, of all columns.
    pub chunks: u64,
    /// Errors, each with its file or type. The version is valid if empty.
    pub flaws: Vec<String>,
}

impl Verification {
    fn check(&mut self, is_right: bool, flaw: impl FnOnce() -> String) {
        if !is_right {
            self.flaws.push(flaw());
        }
    }

    /// Returns the value read, or records the error.
    fn take<T>(&mut self, read: Result<T>) -> Option<T> {
        read.map_err(|error| self.flaws.push(error.to_string())).ok()
    }
}

impl Snapshot {
    /// Reads all data of the version. Errors that it finds are part of the result.
    #[tracing::instrument(
        name = "store_verify",
        level = "debug",
        skip_all,
        fields(store = self.core().name(), version = self.version())
    )]
    #[boxed]
    pub async fn verify(&self) -> Verification {
        let mut found = Verification { version: self.version(), ..Verification::default() };
        let Some(reopened) = found.take(self.reopened().await) else { return found };
        for at in 0..reopened.record().vertices.len() {
            if let Some(parts) = found.take(reopened.vertex_parts(at).await) {
                vertices(&mut found, &parts).await;
            }
        }

        for at in 0..reopened.record().edges.len() {
            if let Some(parts) = found.take(reopened.edge_parts(at).await) {
                edges(&mut found, &parts).await;
            }
        }
        found
    }

    /// Reopens the version with empty caches: open segments and cached data would hide missing or damaged files.
    async fn reopened(&self) -> Result<Self> {
        let core = self.core();
        let pages = PageCache::open(CacheOptions::new(PAGES)).await?;
        let store = core.folder.store.with_origin(core.folder.store.origin().clone(), pages.clone());
        let cache = Cache::passing(pages);
        let core = StoreCore::new(GraphFolder { store, cache, ..core.folder.clone() }, core.options.clone())?;
        let record = core.log.read(self.version()).await?;
        Ok(Self::new(Arc::new(core), record))
    }
}

async fn vertices(found: &mut Verification, parts: &VertexParts) {
    let state = &parts.state;
    let name = &state.schema.name;
    let fields = state.schema.fields();
    let left = state.next.saturating_sub(parts.deleted.len());
    found.check(left == state.count, || {
        format!("vertices of type {name}: {left} are left, and the log says {}", state.count)
    });

    for part in &parts.parts {
        found.parts += 1;
        match part {
            VertexPart::Base(base) => {
                base_of_vertices(found, base, &fields).await;
                keys(found, base).await;
            }
            VertexPart::Delta(delta) => {
                found.take(delta.rows().of_fields(&fields).await);
            }
        }
    }

    for patch in &parts.patches {
        let wanted: Vec<usize> =
            fields.iter().filter_map(|field| patch.rows().position(field.name())).collect();
        found.take(patch.rows().get(&wanted).await);
        let max_index = patch.indexes().values().last().copied().unwrap_or(-1);
        found.check(max_index < state.next as i64, || {
            format!("vertices of type {name}: an update of index {max_index}")
        });
    }
}

async fn base_of_vertices(found: &mut Verification, base: &VertexBase, fields: &[FieldRef]) {
    let selection = base.select(fields);
    let read = (0..base.chunks()).map(|chunk| base.chunk(chunk, &selection));
    let mut read = futures::stream::iter(read.collect::<Vec<_>>()).buffered(MAX_CONCURRENT_CHUNKS);
    let mut rows = 0;
    while let Some(chunk) = read.next().await {
        found.chunks += 1;
        rows += found.take(chunk).map_or(0, |chunk| chunk.rows as u64);
    }

    let count = base.info().count;
    found.check(rows == count, || {
        format!("{}: {rows} vertices, where the log says {count}", base.info().path)
    });
}

async fn keys(found: &mut Verification, base: &VertexBase) {
    let Some(files) = base.keys() else { return };
    let info = files.info();
    let mut count: u64 = 0;
    let mut last: Option<String> = None;
    let mut last_number = i64::MIN;

    for chunk in 0..info.fences.chunks() {
        let Some(columns) = found.take(files.chunk(chunk as u64).await) else { continue };
        let Some(keys) = columns.first() else { continue };
        count += keys.len() as u64;

        let in_order = match &info.fences {
            KeyFences::Numbers(fences) => {
                let keys = keys.as_primitive::<Int64Type>().values();
                let ascends =
                    keys.is_sorted() && keys.first().is_some_and(|first| chunk == 0 || *first > last_number);
                last_number = keys.last().copied().unwrap_or(last_number);
                ascends && keys.first() == fences.get(chunk)
            }
            KeyFences::Texts(fences) => {
                let keys = keys.as_string::<i32>();
                let texts = || (0..keys.len()).map(|row| keys.value(row));
                let after =
                    texts().next().is_some_and(|first| last.as_deref().is_none_or(|last| last < first));
                let ascends = texts().is_sorted() && after;
                last = texts().next_back().map(str::to_owned);
                ascends && texts().next() == fences.get(chunk).map(String::as_str)
            }
        };

        found.check(in_order, || format!("{}: keys are not in order", files.file(chunk as u64)));

        let indexes = columns.get(1).and_then(|indexes| indexes.as_primitive_opt::<Int64Type>());
        let first = base.info().first as i64;
        let end = (base.info().first + base.info().count) as i64;
        let inside = indexes.is_some_and(|all| all.values().iter().all(|index| (first..end).contains(index)));
        found.check(inside, || format!("{}: a key of a vertex that is not there", files.file(chunk as u64)));
    }

    found.check(count == info.count, || {
        format!("{}: {count} keys, where the log says {}", base.info().path, info.count)
    });
}

async fn edges(found: &mut Verification, parts: &EdgeParts) {
    let state = &parts.state;
    let name = state.schema.full_name();
    let fields = state.schema.fields();
    let mut left = 0;

    for part in &parts.parts {
        found.parts += 1;
        left += part.len().saturating_sub(part.out_deleted.len());
        check_deleted(found, &name, part);
        match &part.of {
            EdgePartSource::Base(base) => {
                for direction in [Direction::Out, Direction::In] {
                    list(found, base, direction, &base.select(&fields)).await;
                }
            }
            EdgePartSource::Delta(delta) => {
                let wanted: Vec<usize> =
                    fields.iter().filter_map(|field| delta.rows().position(field.name())).collect();
                found.take(delta.rows().get(&wanted).await);
                let max_index = |direction| delta.keys(direction).values().last().copied().unwrap_or(-1);
                let inside = max_index(Direction::Out) < parts.sources as i64
                    && max_index(Direction::In) < parts.destinations as i64;
                found.check(inside, || format!("edges of type {name}: an end that no vertex has"));
            }
        }
    }

    found.check(left == state.count, || {
        format!("edges of type {name}: {left} are left, and the log says {}", state.count)
    });
}

fn check_deleted(found: &mut Verification, name: &str, part: &EdgePart) {
    let same = part.out_deleted.len() == part.in_deleted.len();
    found.check(same, || {
        format!("edges of type {name}: other edges were deleted by source than by destination")
    });
    let inside = |deleted: &DeletionSet| deleted.set().max().is_none_or(|max| max < part.len());
    let all = inside(&part.out_deleted) && inside(&part.in_deleted);
    found.check(all, || format!("edges of type {name}: edges were deleted that were never there"));
}

/// Verifies a list of a base: its offsets, and all chunks in their order.
async fn list(
    found: &mut Verification,
    base: &EdgeBase,
    direction: Direction,
    selection: &BaseColumnSelection,
) {
    let path = base.info().path.clone();
    let list = base.list(direction);
    for part in 0..list.parts() {
        if let Some(offsets) = found.take(list.offsets(part).await) {
            let is_right = ascends_to(&offsets, list.part_edges(part));
            found.check(is_right, || format!("{path}: offsets of part {part} do not fit its edges"));
        }
    }

    let read = (0..list.chunks()).map(|chunk| base.chunk(direction, chunk, selection));
    let mut read = futures::stream::iter(read.collect::<Vec<_>>()).buffered(MAX_CONCURRENT_CHUNKS);
    let mut rows = 0;
    let mut last = (i64::MIN, i64::MIN);
    while let Some(chunk) = read.next().await {
        found.chunks += 1;
        let Some(chunk) = found.take(chunk) else { continue };
        rows += chunk.vertices.len() as u64;
        let pairs = || chunk.vertices.values().iter().copied().zip(chunk.neighbors.values().iter().copied());
        let in_order = pairs().is_sorted() && pairs().next().is_none_or(|first| last <= first);
        last = pairs().next_back().unwrap_or(last);
        found.check(in_order, || format!("{path}: edges from {} on are not in order", chunk.first));
    }

    let count = base.info().count;
    found.check(rows == count, || format!("{path}: {rows} edges, where the log says {count}"));
}

fn ascends_to(offsets: &ArrayRef, edges: u64) -> bool {
    let offsets = offsets.as_primitive_opt::<Int64Type>();
    offsets.is_some_and(|offsets| {
        let values = offsets.values();
        offsets.null_count() == 0
            && values.first() == Some(&0)
            && values.is_sorted()
            && values.last() == Some(&(edges as i64))
    })
}
