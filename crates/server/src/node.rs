//! The node: its buckets, each read through one cache that they share, and who may use them.

use std::{collections::BTreeMap, sync::Arc};

use async_recursion::async_recursion as boxed;
use chrono::{DateTime, Utc};
use stylobate_columnar::Cache;
use stylobate_storage::{Origin, PageCache, ReadThrough};

use crate::{
    Metrics, Result,
    access::AccessKeys,
    config::{CorsRule, NodeConfig},
};

/// A bucket: a name for clients, and the origin that its objects are read through the cache from.
#[derive(Debug)]
pub struct Bucket {
    /// The name that clients use.
    pub name: String,
    /// Its objects.
    pub reader: ReadThrough,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Which web pages of other sites may use it.
    pub cors: Vec<CorsRule>,
    /// When the bucket came to be, as far as clients are told: when the node was opened.
    pub created: DateTime<Utc>,
}

/// A storage node. Its doors share one; nothing in it knows that a socket listens.
#[derive(Debug)]
pub struct Node {
    buckets: BTreeMap<String, Bucket>,
    keys: AccessKeys,
    cache: Cache,
    metrics: Metrics,
    region: String,
    domains: Vec<String>,
}

impl Node {
    /// Opens the cache and the buckets that the configuration names. No origin is asked anything yet.
    ///
    /// Fails if the cache cannot be opened or an origin's URL or options cannot be used.
    #[boxed]
    pub async fn open(config: &NodeConfig) -> Result<Arc<Self>> {
        let origins = config.buckets.iter().map(|bucket| {
            let options: Vec<_> = bucket.options.clone().into_iter().collect();
            Origin::parse(&bucket.url, &options, &config.server.request_options())?.without_empty_folders()
        });
        let origins: Vec<Origin> = origins.collect::<Result<_, _>>()?;
        Self::open_over(config, origins).await
    }

    /// Opens the node over origins made in code, one for each of the configuration's buckets and in their order.
    #[boxed]
    pub async fn open_over(config: &NodeConfig, origins: Vec<Origin>) -> Result<Arc<Self>> {
        let pages = PageCache::open(config.cache.options()).await?;
        let created = Utc::now();
        let buckets = config.buckets.iter().zip(origins).map(|(bucket, origin)| {
            let (rules, options) = (bucket.consistency_rules(), config.server.read_options());
            let reader = ReadThrough::new(origin, pages.clone(), rules, options);
            let name = bucket.name.clone();
            (
                name.clone(),
                Bucket { name, reader, read_only: bucket.read_only, cors: bucket.cors.clone(), created },
            )
        });
        Ok(Arc::new(Self {
            buckets: buckets.collect(),
            keys: AccessKeys::new(&config.access_keys),
            // Without a Flight door, nothing is decoded.
            cache: match config.server.flight {
                Some(_) => Cache::over(pages),
                None => Cache::passing(pages),
            },
            metrics: Metrics::new(),
            region: config.server.region.clone(),
            domains: config.server.domains.clone(),
        }))
    }

    /// The bucket of this name.
    pub fn bucket(&self, name: &str) -> Option<&Bucket> {
        self.buckets.get(name)
    }

    /// All buckets, by name.
    pub fn buckets(&self) -> impl Iterator<Item = &Bucket> {
        self.buckets.values()
    }

    /// The access keys; none at all means that everything is allowed.
    pub fn keys(&self) -> &AccessKeys {
        &self.keys
    }

    /// The page cache that all buckets share.
    pub fn cache(&self) -> &PageCache {
        self.cache.pages()
    }

    /// What the Flight door decodes the columns of all buckets into, in memory of the same budget as the pages.
    pub fn columns(&self) -> &Cache {
        &self.cache
    }

    /// The counters of the doors.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The region that the node says it is in.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// The domains under which `bucket.domain` names a bucket.
    pub fn domains(&self) -> &[String] {
        &self.domains
    }

    /// Writes what is in memory only to the disk tier, and closes the cache.
    #[boxed]
    pub async fn close(&self) {
        if let Err(error) = self.cache.close().await {
            tracing::warn!(%error, "the cache was not closed in order: the next start may find it cold");
        }
    }
}
