//! The nodes that run a query, and the choice of the one that reads a row group.

use std::{
    collections::HashMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use datafusion::{common::Result, prelude::SessionConfig};
use datafusion_distributed::WorkerResolver;
use parking_lot::Mutex;
use stylobate_client::{ClusterNode, ClusterView, NodeAddresses, NodeId, PathHash};
use stylobate_columnar::RowGroupStart;
use url::Url;

/// Time for which a worker is skipped after it failed.
const LEFT_OUT: Duration = Duration::from_secs(10);

/// The nodes of a cluster, for queries: a fixed list or a cluster that changes.
pub trait QueryNodes: fmt::Debug + Send + Sync + 'static {
    /// Returns the URLs of the workers that are up. Called again for each run of a query.
    fn workers(&self) -> Vec<Url>;

    /// Returns the worker that reads a byte of an object in a named source; `None` if any worker may.
    fn home(&self, source: &str, path: &str, offset: u64) -> Option<Url>;

    /// Returns whether all workers read the same objects from a named source. The row groups of other sources are
    /// read only by their homes.
    fn is_shared(&self, source: &str) -> bool;

    /// Records that a worker did not answer.
    fn failed(&self, worker: &Url);
}

/// Workers that failed recently: they are skipped for ten seconds.
#[derive(Debug, Default)]
pub struct RecentFailures {
    failed: Mutex<HashMap<Url, Instant>>,
}

impl RecentFailures {
    /// Records that a worker has just failed.
    pub fn add(&self, worker: Url) {
        let mut failed = self.failed.lock();
        failed.retain(|_, at| at.elapsed() <= LEFT_OUT);
        failed.insert(worker, Instant::now());
    }

    /// Returns whether a worker has not failed recently.
    pub fn is_up(&self, worker: &Url) -> bool {
        self.failed.lock().get(worker).is_none_or(|at| at.elapsed() > LEFT_OUT)
    }
}

/// A fixed list of workers. A worker that fails is skipped for ten seconds.
#[derive(Debug)]
pub struct WorkerList {
    view: Option<ClusterView>,
    urls: HashMap<String, Url>,
    failures: RecentFailures,
}

impl WorkerList {
    /// Creates the list. The home of a row group depends only on the hosts and ports, not on their order.
    pub fn new(urls: impl IntoIterator<Item = Url>) -> Self {
        let id = |url: &Url| {
            let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
            format!("{host}:{}", url.port_or_known_default().unwrap_or_default())
        };
        let urls: HashMap<String, Url> = urls.into_iter().map(|url| (id(&url), url)).collect();
        let node = |id: &String| Some(ClusterNode::new(NodeId::new(id).ok()?, NodeAddresses::default()));
        let view = ClusterView::new(urls.keys().filter_map(node)).ok();
        Self { view, urls, failures: RecentFailures::default() }
    }
}

impl QueryNodes for WorkerList {
    fn workers(&self) -> Vec<Url> {
        let mut workers: Vec<Url> =
            self.urls.values().filter(|url| self.failures.is_up(url)).cloned().collect();
        workers.sort();
        workers
    }

    fn home(&self, source: &str, path: &str, offset: u64) -> Option<Url> {
        let view = self.view.as_ref()?;
        let ranked = view.rank(PathHash::of(source, path).stripe_at(offset), view.nodes().len());
        let mut urls = ranked.into_iter().filter_map(|node| self.urls.get(node.id().as_str()));
        urls.find(|url| self.failures.is_up(url)).cloned()
    }

    fn is_shared(&self, _source: &str) -> bool {
        true
    }

    fn failed(&self, worker: &Url) {
        self.failures.add(worker.clone());
    }
}

/// The workers for one run of a query: all its stages see the same ones.
#[derive(Clone, Debug)]
pub(super) struct RunView {
    pub(super) workers: Vec<Url>,
    nodes: Arc<dyn QueryNodes>,
}

impl RunView {
    pub(super) fn new(nodes: Arc<dyn QueryNodes>) -> Self {
        Self { workers: nodes.workers(), nodes }
    }

    /// Returns the view of a process that runs queries alone.
    pub(super) fn without_workers(self) -> Self {
        Self { workers: Vec::new(), ..self }
    }

    /// Returns the view stored in a session configuration.
    pub(super) fn of(config: &SessionConfig) -> Option<Arc<Self>> {
        config.get_extension::<Self>()
    }

    /// Returns the index of the worker for a row group, among the first `tasks` workers.
    pub(super) fn worker_of(&self, start: &RowGroupStart, source_names: &[String], tasks: usize) -> usize {
        let tasks = tasks.clamp(1, self.workers.len().max(1));
        let name = source_names.get(start.source).map(String::as_str).unwrap_or_default();
        let home = self.nodes.home(name, &start.path, start.offset);
        let known = home.and_then(|home| self.workers.iter().position(|worker| *worker == home));
        // If the home was lost after the view was taken, its row groups are spread over the others.
        let any = || PathHash::of(name, &start.path).as_u64() as usize;
        known.unwrap_or_else(any) % tasks
    }
}

impl WorkerResolver for RunView {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.workers.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(ports: impl IntoIterator<Item = u16>) -> Vec<Url> {
        ports.into_iter().map(|port| Url::parse(&format!("http://10.0.0.1:{port}")).unwrap()).collect()
    }

    fn homes(list: &WorkerList) -> Vec<Option<Url>> {
        (0..100).map(|at| list.home("lake/t", &format!("t/{at}.parquet"), 0)).collect()
    }

    #[test]
    fn homes_do_not_depend_on_the_order_of_the_list() {
        let one = WorkerList::new(urls([7, 8, 9]));
        let other = WorkerList::new(urls([9, 7, 8]));
        assert_eq!(homes(&one), homes(&other));
        for url in urls([7, 8, 9]) {
            let share = homes(&one).iter().flatten().filter(|home| **home == url).count();
            assert!((10..70).contains(&share), "{url} has {share} of 100");
        }
    }

    #[test]
    fn only_the_row_groups_of_a_worker_that_failed_move() {
        let list = WorkerList::new(urls([7, 8, 9]));
        let before = homes(&list);
        let lost = urls([8]).remove(0);
        list.failed(&lost);
        assert_eq!(list.workers(), urls([7, 9]));
        for (before, after) in before.iter().zip(homes(&list)) {
            assert!(after.as_ref() != Some(&lost));
            assert!(before.as_ref() == Some(&lost) || *before == after);
        }
    }

    #[test]
    fn a_list_without_workers_has_no_homes() {
        let list = WorkerList::new([]);
        assert_eq!((list.workers(), list.home("lake", "a", 0)), (Vec::new(), None));
    }
}
