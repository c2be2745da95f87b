//! Arguments for opening a store.

use anyhow::Result;
use clap::Args;
use stylobate_columnar::{Cache, Source};
use stylobate_graph::{
    Error,
    store::{GraphStore, Snapshot, StoreOptions, StoreSchema},
};
use stylobate_storage::ByteSize;

use crate::{
    failure::usage,
    rows::{open_cache, option},
};

/// The location of a store.
#[derive(Args, Clone, Debug)]
pub(super) struct StoreLocationArgs {
    /// The folder of the store, local or below s3://, gs:// or az://
    #[arg(value_name = "STORE")]
    store: String,

    /// An option of the object store, such as region=eu-west-1 or endpoint=http://127.0.0.1:9000; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = option)]
    pub(super) option: Vec<(String, String)>,
}

impl StoreLocationArgs {
    fn source(&self) -> Source {
        Source::Url { url: self.store.clone(), options: self.option.clone() }
    }

    /// Returns the location without credentials.
    pub(super) fn shown(&self) -> String {
        stylobate_storage::without_credentials(&self.store)
    }

    pub(super) async fn create(
        &self,
        cache: &Cache,
        schema: StoreSchema,
        options: StoreOptions,
    ) -> Result<GraphStore> {
        let created = GraphStore::create(cache, self.source(), schema, options).await;
        created.map_err(|error| match error {
            // Nothing was read or written yet: only the schema can be wrong.
            Error::Unwritable { .. } => usage(error.to_string()),
            error => error.into(),
        })
    }

    pub(super) async fn open(&self, cache: &Cache, options: StoreOptions) -> Result<GraphStore> {
        Ok(GraphStore::open(cache, self.source(), options).await?)
    }

    /// Opens a version of the store, by default the latest.
    pub(super) async fn snapshot(&self, memory: Option<ByteSize>, version: Option<u64>) -> Result<Snapshot> {
        let store = self.open(&open_cache(memory).await?, StoreOptions::default()).await?;
        Ok(store.snapshot(version).await?)
    }
}
