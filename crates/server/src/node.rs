//! The node: its buckets, which share one cache, and its access keys.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_recursion::async_recursion as boxed;
use chrono::{DateTime, Utc};
use parking_lot::RwLock;
use stylobate_columnar::Cache;
use stylobate_storage::{Durability, Origin, PageCache, ReadThrough};

use crate::{
    Metrics, Result, ServerError,
    access::AccessKeys,
    admin_keys::AdminKeys,
    cluster::{Cluster, ClusterStatus, KnownNodes, NodeTraffic, SharedSettings, origin_hash},
    config::{BucketConfig, CorsRule, NodeConfig, Provenance},
    history::History,
    hot_keys::HotKeys,
    running_reads::RunningReads,
    traces::Traces,
};

/// A bucket: a name for clients, and an origin whose objects are read through the cache.
#[derive(Debug)]
pub struct Bucket {
    /// The name that clients use.
    pub name: String,
    /// Its objects.
    pub reader: ReadThrough,
    rules: RwLock<Arc<BucketRules>>,
    url: String,
    options: BTreeMap<String, String>,
    follow_links: bool,
    durability: Durability,
    hot_keys: HotKeys,
    /// Creation time reported to clients: the time at which the node was opened.
    pub created: DateTime<Utc>,
}

/// Rules of a bucket that can change while the node runs.
#[derive(Debug)]
pub struct BucketRules {
    /// True if writes are refused.
    pub read_only: bool,
    /// CORS rules.
    pub cors: Vec<CorsRule>,
}

impl BucketRules {
    fn of(config: &BucketConfig) -> Self {
        Self { read_only: config.read_only, cors: config.cors.clone() }
    }
}

impl Bucket {
    /// Returns the current rules.
    pub fn rules(&self) -> Arc<BucketRules> {
        self.rules.read().clone()
    }

    /// Returns true if a configuration refers to the same origin.
    fn is_same_place(&self, config: &BucketConfig) -> bool {
        self.url == config.url
            && self.options == config.options
            && self.follow_links == config.follow_links
            && self.durability == config.durability
    }

    /// Returns the read counts by object and folder.
    pub(crate) fn hot_keys(&self) -> &HotKeys {
        &self.hot_keys
    }

    fn reload(&self, config: &BucketConfig) {
        self.reader.set_rules(config.consistency_rules());
        *self.rules.write() = Arc::new(BucketRules::of(config));
    }
}

/// Creates the node's membership in the configured cluster.
fn join_cluster(config: &NodeConfig, origins: &[Origin]) -> Result<Option<Arc<Cluster>>> {
    let Some(cluster) = &config.cluster else { return Ok(None) };
    let buckets = config.buckets.iter().zip(origins);
    let shared = SharedSettings {
        page_size: config.settings.page_size,
        buckets: buckets.filter_map(|(it, origin)| Some((it.name.clone(), origin_hash(origin)?))).collect(),
        drain_timeout: config.settings.drain_timeout,
        has_tls: config.tls.is_some(),
    };

    let joined = Cluster::new(cluster, shared)
        .map_err(|error| ServerError::Config { at: Provenance::Default, what: format!("cluster: {error}") });
    joined.map(|cluster| Some(Arc::new(cluster)))
}

/// A storage node, shared by its doors and independent of the sockets that listen.
#[derive(Debug)]
pub struct Node {
    buckets: BTreeMap<String, Bucket>,
    keys: RwLock<Arc<AccessKeys>>,
    admin_keys: RwLock<Arc<AdminKeys>>,
    cache: Cache,
    metrics: Metrics,
    history: History,
    running_reads: RunningReads,
    region: String,
    domains: Vec<String>,
    logs_access: bool,
    /// True if any bucket has CORS rules.
    has_cors: AtomicBool,
    traces: Option<Traces>,
    cluster: Option<Arc<Cluster>>,
}

impl Node {
    /// Opens the cache and the configured buckets. Sends no request to any origin.
    ///
    /// Fails if the cache cannot be opened or an origin's URL or options cannot be used.
    #[boxed]
    pub async fn open(config: &NodeConfig) -> Result<Arc<Self>> {
        let origins = config.buckets.iter().map(|bucket| {
            let options: Vec<_> = bucket.options.clone().into_iter().collect();
            let origin = Origin::parse(&bucket.url, &options, &config.settings.request_options())?;
            let origin = origin.with_durability(bucket.durability)?;
            if bucket.follow_links { Ok(origin) } else { origin.without_links_that_leave() }
        });
        let origins: Vec<Origin> = origins.collect::<Result<_, _>>()?;
        Self::open_over(config, origins).await
    }

    /// Opens the node over origins built in code, one for each configured bucket, in their order.
    #[boxed]
    pub async fn open_over(config: &NodeConfig, origins: Vec<Origin>) -> Result<Arc<Self>> {
        let pages = PageCache::open(config.settings.cache_options()).await?;
        let created = Utc::now();
        let cluster = join_cluster(config, &origins)?;
        let buckets = config.buckets.iter().zip(origins).map(|(bucket, origin)| {
            let rules = bucket.consistency_rules();
            let options = config.settings.read_options();
            let peers = cluster.as_ref().and_then(|cluster| cluster.peers_of(&bucket.name));
            let reader = match peers {
                Some(peers) => ReadThrough::in_cluster(origin, pages.clone(), rules, options, peers),
                None => ReadThrough::new(origin, pages.clone(), rules, options),
            };
            let name = bucket.name.clone();
            let rules = RwLock::new(Arc::new(BucketRules::of(bucket)));
            let url = bucket.url.clone();
            let options = bucket.options.clone();
            let (follow_links, durability) = (bucket.follow_links, bucket.durability);
            let hot_keys = HotKeys::default();

            let bucket =
                Bucket { name, reader, rules, url, options, follow_links, durability, hot_keys, created };
            (bucket.name.clone(), bucket)
        });
        let buckets: BTreeMap<String, Bucket> = buckets.collect();
        let readers: Vec<ReadThrough> = buckets.values().map(|bucket| bucket.reader.clone()).collect();
        ReadThrough::link_overlapping(&readers);

        Ok(Arc::new(Self {
            buckets,
            keys: RwLock::new(Arc::new(AccessKeys::new(&config.access_keys))),
            admin_keys: RwLock::new(Arc::new(AdminKeys::new(&config.access_keys))),
            // Without a Flight door, no columns are decoded.
            cache: match config.settings.flight {
                Some(_) => Cache::over(pages),
                None => Cache::passing(pages),
            },
            metrics: Metrics::new(config.buckets.iter().map(|bucket| bucket.name.clone())),
            history: History::default(),
            running_reads: RunningReads::default(),
            region: config.settings.region.clone(),
            domains: config.settings.domains.clone(),
            logs_access: config.settings.access_log,
            has_cors: AtomicBool::new(config.buckets.iter().any(|bucket| !bucket.cors.is_empty())),
            traces: Traces::open(config),
            cluster,
        }))
    }

    /// Returns the bucket of this name.
    pub fn bucket(&self, name: &str) -> Option<&Bucket> {
        self.buckets.get(name)
    }

    /// Returns all buckets, sorted by name.
    pub fn buckets(&self) -> impl Iterator<Item = &Bucket> {
        self.buckets.values()
    }

    /// Returns the access keys; an empty set allows everything.
    pub fn keys(&self) -> Arc<AccessKeys> {
        self.keys.read().clone()
    }

    /// Returns the access keys in the form in which the admin door receives them.
    pub(crate) fn admin_keys(&self) -> Arc<AdminKeys> {
        self.admin_keys.read().clone()
    }

    /// Applies access keys and bucket rules from a reloaded configuration. Requests in progress keep the previous ones.
    /// Returns the other differences, which a running node cannot apply.
    ///
    /// # Errors
    ///
    /// [`ServerError::Exposed`](crate::ServerError::Exposed) if a node without keys would listen beyond
    /// loopback; the configuration then remains unchanged.
    pub fn reload(&self, config: &NodeConfig) -> Result<Vec<String>> {
        config.check_exposure()?;
        let mut left = Vec::new();
        for bucket in &config.buckets {
            match self.buckets.get(&bucket.name) {
                Some(known) if known.is_same_place(bucket) => known.reload(bucket),
                Some(_) => left.push(format!(
                    "bucket {} has another origin, or other settings of its folder",
                    bucket.name
                )),
                None => left.push(format!("bucket {} is new", bucket.name)),
            }
        }

        let has_cors = self.buckets().any(|bucket| !bucket.rules().cors.is_empty());
        self.has_cors.store(has_cors, Ordering::Relaxed);
        let is_gone = |name: &&String| !config.buckets.iter().any(|bucket| bucket.name == **name);
        left.extend(self.buckets.keys().filter(is_gone).map(|name| format!("bucket {name} is gone")));

        let is_same_cluster = match (&self.cluster, &config.cluster) {
            (Some(joined), Some(cluster)) => joined.is_of(cluster),
            (joined, cluster) => joined.is_none() && cluster.is_none(),
        };
        left.extend((!is_same_cluster).then(|| "the cluster is another one".to_owned()));

        // The doors are already bound, possibly beyond loopback.
        if config.access_keys.is_empty() && !self.keys().is_empty() {
            left.push("there are no access keys any more: the previous ones stay in use".to_owned());
            return Ok(left);
        }
        *self.keys.write() = Arc::new(AccessKeys::new(&config.access_keys));
        *self.admin_keys.write() = Arc::new(AdminKeys::new(&config.access_keys));

        Ok(left)
    }

    /// Returns the page cache, which all buckets share.
    pub fn cache(&self) -> &PageCache {
        self.cache.pages()
    }

    /// Returns the cache of decoded columns of all buckets, which shares the pages' memory budget.
    pub fn columns(&self) -> &Cache {
        &self.cache
    }

    /// Returns true if each request of the S3 door is logged.
    pub(crate) fn logs_access(&self) -> bool {
        self.logs_access
    }

    /// Returns true if any bucket has CORS rules, so that answers depend on the requesting page.
    pub(crate) fn has_cors(&self) -> bool {
        self.has_cors.load(Ordering::Relaxed)
    }

    /// Returns the request traces, if enabled.
    pub(crate) fn traces(&self) -> Option<&Traces> {
        self.traces.as_ref()
    }

    /// Returns the counters of the doors.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the recent history of the node.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// Returns the running scans and queries.
    pub(crate) fn running_reads(&self) -> &RunningReads {
        &self.running_reads
    }

    /// Returns the node's membership in its cluster, if it is in one.
    pub(crate) fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster.as_ref()
    }

    /// Returns the cluster as this node sees it, if it is in one.
    pub fn cluster_status(&self) -> Option<ClusterStatus> {
        self.cluster.as_ref().map(|cluster| cluster.status(self.traffic()))
    }

    /// Returns the nodes of the cluster, for clients that place reads themselves.
    pub(crate) fn known_nodes(&self) -> KnownNodes {
        self.cluster.as_ref().map(|cluster| cluster.known_nodes()).unwrap_or_default()
    }

    /// Returns the bytes that the readers of all buckets received.
    pub(crate) fn traffic(&self) -> NodeTraffic {
        let mut traffic = NodeTraffic::default();
        for reads in self.buckets().map(|bucket| bucket.reader.stats()) {
            let cached = reads.bytes_memory + reads.bytes_disk;
            traffic.bytes_cached += cached;
            traffic.bytes_read += cached + reads.bytes_peer + reads.bytes_origin + reads.bytes_passed_through;
            traffic.bytes_peer += reads.bytes_peer;
            traffic.bytes_to_peers += reads.bytes_to_peers;
            traffic.peer_reads += reads.peer_reads;
            traffic.deputy_reads += reads.deputy_reads;
            traffic.donor_reads += reads.donor_reads;
        }
        traffic
    }

    /// Returns the region that the node reports.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Returns the domains under which `bucket.domain` names a bucket.
    pub fn domains(&self) -> &[String] {
        &self.domains
    }

    /// Writes memory-only data to the disk tier, closes the cache, and delivers the last spans.
    #[boxed]
    pub async fn close(&self) {
        let traces = async {
            if let Some(traces) = &self.traces {
                traces.close().await;
            }
        };
        let (closed, ()) = tokio::join!(self.cache.close(), traces);
        if let Err(error) = closed {
            tracing::warn!(%error, "the cache was not closed in order: the next start may find it cold");
        }
    }
}
