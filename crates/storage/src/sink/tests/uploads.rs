//! Uploads are aborted at the store, whichever future is dropped meanwhile.

use std::time::Duration;

use futures::stream::BoxStream;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result, path::Path,
};

use super::*;

/// A store whose uploads begin once they are allowed to.
#[derive(Debug, Default)]
struct DelayedUploads {
    memory: InMemory,
    /// Notified to let an upload begin.
    begin: Arc<Notify>,
    aborted: Arc<AtomicUsize>,
}

impl fmt::Display for DelayedUploads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DelayedUploads")
    }
}

#[async_trait]
impl ObjectStore for DelayedUploads {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.memory.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.begin.notified().await;
        Ok(Box::new(FailingUpload { aborted: self.aborted.clone(), ..FailingUpload::default() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.memory.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.memory.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.memory.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.memory.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.memory.copy_opts(from, to, options).await
    }
}

/// Writes several parts, and drops the write once it waits for the store.
async fn drop_a_write(sink: &mut ObjectSink) {
    let bytes = [7; 100];
    let dropped = tokio::time::timeout(Duration::from_millis(50), sink.write(&bytes)).await;
    assert!(dropped.is_err(), "the write waits");
}

/// Lets all tasks run until they wait. Returns the number of aborted uploads.
async fn settled(aborted: &AtomicUsize) -> usize {
    tokio::time::sleep(Duration::from_millis(50)).await;
    aborted.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_that_is_dropped_aborts_its_upload() {
    let abort = Arc::new(Notify::new());
    let aborted = Arc::new(AtomicUsize::new(0));
    let parts = VecDeque::from([false]);
    let upload = FailingUpload { parts, aborted: aborted.clone(), abort: Some(abort.clone()) };
    let mut sink = ObjectSink::new(Arc::new(InMemory::new()), "x".into(), 10, 1, Overwrite::Replace)
        .with_upload(Box::new(upload));

    drop_a_write(&mut sink).await;
    assert!(sink.write(b"x").await.unwrap_err().to_string().contains("no more"), "the error comes again");
    drop(sink);
    assert_eq!(settled(&aborted).await, 0);

    abort.notify_one();
    assert_eq!(settled(&aborted).await, 1);
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_begins_after_its_sink_was_dropped_is_aborted() {
    let store = Arc::new(DelayedUploads::default());
    let mut sink = ObjectSink::new(store.clone(), "x".into(), 10, 1, Overwrite::Replace);
    drop_a_write(&mut sink).await;
    drop(sink);
    assert_eq!(settled(&store.aborted).await, 0);

    store.begin.notify_one();
    assert_eq!(settled(&store.aborted).await, 1);
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_begins_between_a_dropped_write_and_the_drop_of_its_sink_is_aborted() {
    let store = Arc::new(DelayedUploads::default());
    let mut sink = ObjectSink::new(store.clone(), "x".into(), 10, 1, Overwrite::Replace);
    drop_a_write(&mut sink).await;
    store.begin.notify_one();
    assert_eq!(settled(&store.aborted).await, 0);

    drop(sink);
    assert_eq!(settled(&store.aborted).await, 1);
}
