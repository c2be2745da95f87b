//! Describes files without their values: schema, row groups or stripes, encodings, sizes, statistics. Only footers are
//! read.

mod bound;
mod inspection;
mod leaves;
mod row_groups;
mod stripes;

use async_recursion::async_recursion as boxed;
use futures::{Stream, StreamExt, stream};
use stylobate_storage::OpenObject;

pub use self::{
    bound::BoundValue,
    inspection::{
        ChunkInspection, ColumnInspection, DictionaryUse, ExtentContent, FileExtent, FileFormat, Inspection,
        MetadataEntry, PartInspection, SchemaNode,
    },
};
use crate::{
    Cache, Error, Result,
    format::{FileMetadata, TAIL},
    orc::is_orc,
    table::locate::{LocatedFile, Source, locate_named},
};

/// Files whose footers are read concurrently.
const MAX_CONCURRENT_FOOTERS: usize = 8;

/// Describes the file at the source; the first if there are several.
///
/// Fails if there is none, or if it is neither Parquet nor ORC, or if its footer is corrupt.
#[tracing::instrument(level = "debug", skip_all, fields(%source))]
#[boxed]
pub async fn inspect(source: &Source, cache: &Cache) -> Result<Inspection> {
    let mut files = Box::pin(inspect_all(source, cache).await?);
    match files.next().await {
        Some((_, inspected)) => inspected,
        None => Err(Error::NoFiles { pattern: String::new() }),
    }
}

/// Describes all files at the source one by one, in the order of their paths. Yields the name of each, and its
/// description or error.
///
/// Fails if there is no file.
#[tracing::instrument(level = "debug", skip_all, fields(%source))]
#[boxed]
pub async fn inspect_all(
    source: &Source,
    cache: &Cache,
) -> Result<impl Stream<Item = (String, Result<Inspection>)> + Send + use<>> {
    let files = locate_named(source, cache).await?;
    Ok(stream::iter(files).map(inspect_file).buffered(MAX_CONCURRENT_FOOTERS))
}

async fn inspect_file(file: LocatedFile) -> (String, Result<Inspection>) {
    let name = file.store.origin().name_of(&file.path);
    let inspected = match file.store.open_object(&file.path).await {
        Ok(object) => inspect_object(&object).await,
        Err(error) => Err(error.into()),
    };
    (name, inspected)
}

async fn inspect_object(object: &OpenObject) -> Result<Inspection> {
    let size = object.meta().size;
    let from = size.saturating_sub(TAIL);
    let tail = object.read(std::slice::from_ref(&(from..size))).await?.pop().unwrap_or_default();

    if tail.ends_with(b"PAR1") {
        row_groups::inspect(object, tail).await
    } else if tail.ends_with(b"PARE") {
        Err(Error::Encrypted { object: object.name() })
    } else if is_orc(object, &tail).await? {
        stripes::inspect(object).await
    } else {
        Err(FileMetadata::unknown(object).await?)
    }
}
