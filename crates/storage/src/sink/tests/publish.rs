//! Names are given once all bytes are written, are not taken from others if that is refused, and are given to many
//! files together. What these replace stays until the names are durable. Also tests the cleanup after dropped sinks and
//! slots.

use super::{
    super::sync::{FAILING, SYNCED},
    *,
};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_is_refused_also_where_it_came_meanwhile() {
    for is_file in [true, false] {
        let output = if is_file {
            SinkTestOutput::File(tempfile::tempdir().unwrap())
        } else {
            SinkTestOutput::Object(Arc::default())
        };
        for length in [10, 100_000] {
            let sinks = small(SinkKind::Thread);
            let new = async || match &output {
                SinkTestOutput::File(folder) => {
                    sinks.file(&folder.path().join("data/x"), Overwrite::Refuse).await.unwrap()
                }
                SinkTestOutput::Object(store) => {
                    sinks.object(store.clone(), "data/x".into(), Overwrite::Refuse)
                }
            };

            let mut late = new().await;
            let mut later = new().await;
            late.write(&noise(length, 1)).await.unwrap();
            later.write(&noise(length, 2)).await.unwrap();
            let sealed = later.seal().await.unwrap();
            assert_eq!(sealed.bytes(), length as u64);
            assert!(output.found().await.is_none(), "{length}");
            assert_eq!(late.finish().await.unwrap(), length as u64);
            let refused = sealed.publish().await.unwrap_err();
            assert!(matches!(refused, Error::Exists { .. }), "{refused}");
            assert!(output.found().await.unwrap() == noise(length, 1));
            assert!(output.leftovers() <= 1);

            match &output {
                SinkTestOutput::File(folder) => fs::remove_file(folder.path().join("data/x")).unwrap(),
                SinkTestOutput::Object(store) => store.delete(&"data/x".into()).await.unwrap(),
            }
        }
    }
}

#[tokio::test]
async fn after_a_write_that_was_dropped_half_way_nothing_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    // The ring never writes, so that a write waits forever for slots.
    let sinks = small(SinkKind::Thread);
    let (commands, _kept) = std::sync::mpsc::channel();
    let pool = SlotPool::new(3, 8192);
    *sinks.files.lock() = Some(FileEngineHandle { commands, pool, direct: false });
    let mut file = sinks.file(&folder.path().join("x"), Overwrite::Replace).await.unwrap();
    let object = ObjectSink::new(Arc::new(InMemory::new()), "x".into(), 8192, 2, Overwrite::Replace);
    let mut object: Box<dyn Sink> = Box::new(object.with_upload(Box::new(StuckUpload)));
    for sink in [&mut file, &mut object] {
        let bytes = noise(1_000_000, 1);
        let dropped = tokio::time::timeout(std::time::Duration::from_millis(50), sink.write(&bytes)).await;
        assert!(dropped.is_err(), "the write waits");
        assert!(sink.write(b"x").await.unwrap_err().to_string().contains("half-way"));
    }
    assert!(file.finish().await.unwrap_err().to_string().contains("half-way"));
    assert!(object.seal().await.unwrap_err().to_string().contains("half-way"));
    assert!(names(folder.path()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn registered_slots_are_told_apart_among_rings_and_as_they_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let groups: Vec<Sinks> = [3, 2, 5]
        .map(|slots| {
            let kind = SinkOptions::default().with_kind(SinkKind::IoUringDirect);
            Sinks::new(kind.with_slots(slots, ByteSize::kib(8)))
        })
        .into();
    let mut random = StdRng::seed_from_u64(7);
    for round in 0..30 {
        let mut open = Vec::new();
        for number in 0..12_u64 {
            let sinks = &groups[random.random_range(0..groups.len())];
            let path = folder.path().join(format!("{number}"));
            open.push((path.clone(), sinks.file(&path, Overwrite::Replace).await.unwrap(), Vec::new()));
        }
        for _ in 0..100 {
            let (_, sink, given) = &mut open[random.random_range(0..12)];
            let bytes = noise(random.random_range(1..30_000), random.random());
            sink.write(&bytes).await.unwrap();
            given.extend(bytes);
        }
        for (path, sink, given) in open {
            // A dropped sink frees its slot: a new sink gets its index, and possibly its address.
            if random.random_bool(0.3) {
                drop(sink);
                continue;
            }
            sink.finish().await.unwrap();
            assert!(fs::read(&path).unwrap() == given, "round {round}, {}", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_set_appear_together_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out/put");
    let store: Arc<InMemory> = Arc::default();
    let origin = crate::Origin::new("memory", store.clone());
    let object = Destination::Object { origin, path: "out/put".into() };

    for base in [Destination::File(path.clone()), object] {
        let sinks = small(SinkKind::Thread);
        let found = async || {
            let set = FileSet::create(sinks.clone(), base.clone(), Overwrite::Replace).await.unwrap();
            let mut names = set.names().await.unwrap();
            names.sort();
            names
        };
        let write = async |names: &[&str], overwrite: Overwrite| {
            let mut set = FileSet::create(sinks.clone(), base.clone(), overwrite).await?;
            for (number, name) in names.iter().enumerate() {
                let mut sink = set.open(name).await?;
                sink.write(&noise(10_000 * number, number as u64)).await?;
                set.add(*name, sink.seal().await?);
            }
            Ok::<FileSet, Error>(set)
        };

        drop(write(&["a", "k=%20/b"], Overwrite::Refuse).await.unwrap());
        assert!(found().await.is_empty());
        if matches!(base, Destination::File(_)) {
            assert!(names(folder.path()).is_empty(), "folders that were made are removed again");
        }

        let set = write(&["a", "k=%20/b", "k=2/c"], Overwrite::Refuse).await.unwrap();
        let late = write(&["d", "k=%20/b"], Overwrite::Refuse).await.unwrap();
        assert_eq!(set.publish(|_| true).await.unwrap().len(), 3);
        assert!(matches!(late.publish(|_| true).await.unwrap_err(), Error::Exists { .. }));
        assert_eq!(found().await, ["a", "k=%20/b", "k=2/c"]);
        assert!(matches!(write(&["e"], Overwrite::Refuse).await.unwrap_err(), Error::Exists { .. }));
        let set = write(&["k=%20/b", "f"], Overwrite::Replace).await.unwrap();
        set.publish(|name| name != "a").await.unwrap();
        assert_eq!(found().await, ["a", "f", "k=%20/b"]);
    }

    assert_eq!(names(&path), ["a", "f", "k=%20"], "an empty folder is gone");
    assert_eq!(fs::read(path.join("f")).unwrap(), noise(10_000, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_beside_others_replace_none_of_them_and_remove_those_that_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<InMemory> = Arc::default();
    let origin = crate::Origin::new("memory", store);
    let object = Destination::Object { origin, path: "out/put".into() };

    for base in [Destination::File(folder.path().to_owned()), object] {
        let sinks = small(SinkKind::Thread);
        let write = async |names: &[&str], old: &[&str]| {
            let mut set = FileSet::beside(sinks.clone(), base.clone()).await?;
            for name in names {
                let mut sink = set.open(name).await?;
                sink.write(name.as_bytes()).await?;
                set.add(*name, sink.seal().await?);
            }
            set.publish_instead_of(old.iter().map(|name| (*name).to_owned()).collect()).await
        };

        let found = async || {
            let set = FileSet::beside(sinks.clone(), base.clone()).await.unwrap();
            let mut files = set.files().await.unwrap();
            files.sort_by(|a, b| a.name.cmp(&b.name));
            let mut tails = Vec::new();
            for file in &files {
                assert_eq!(file.size, file.name.len() as u64);
                let tail = set.tail(file, 2).await.unwrap().unwrap();
                tails.push(format!("{} {}", file.name, String::from_utf8_lossy(&tail)));
            }
            let gone = FoundFile { name: "gone".to_owned(), size: 9 };
            assert!(set.tail(&gone, 2).await.unwrap().is_none());
            tails
        };

        write(&["k=1/a", "k=2/bb"], &[]).await.unwrap();
        assert!(matches!(write(&["k=1/a"], &["k=2/bb"]).await.unwrap_err(), Error::Exists { .. }));
        assert_eq!(found().await, ["k=1/a /a", "k=2/bb bb"]);
        write(&["k=1/c"], &["k=2/bb", "gone"]).await.unwrap();
        assert_eq!(found().await, ["k=1/a /a", "k=1/c /c"]);
    }

    assert_eq!(names(folder.path()), ["k=1"], "an empty folder is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_refers_to_others_is_not_there_without_them() {
    let folder = tempfile::tempdir().unwrap();
    let base = Destination::File(folder.path().to_owned());
    for is_taken in [true, false] {
        let mut set =
            FileSet::create(small(SinkKind::Thread), base.clone(), Overwrite::Refuse).await.unwrap();
        for name in ["index", "a/0", ".a/1"] {
            let mut sink = set.open(name).await.unwrap();
            sink.write(name.as_bytes()).await.unwrap();
            let sealed = sink.seal().await.unwrap();
            match name {
                "index" => set.add_last(name, sealed),
                _ => set.add(name, sealed),
            }
        }
        // A hidden file that appeared in the meantime is detected only when it is this name's turn.
        let taken = folder.path().join(".a/1");
        if is_taken {
            fs::create_dir_all(taken.parent().unwrap()).unwrap();
            fs::write(&taken, "another's").unwrap();
            assert!(matches!(set.publish(|_| true).await.unwrap_err(), Error::Exists { .. }));
            assert!(!folder.path().join("index").exists() && !folder.path().join("a/0").exists());
            fs::remove_file(&taken).unwrap();
        } else {
            assert_eq!(set.publish(|_| true).await.unwrap(), ["a/0", ".a/1", "index"]);
            assert_eq!(fs::read(folder.path().join("index")).unwrap(), b"index");
        }
    }
}

/// Creates a folder with files of these names.
fn folder_with(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x").unwrap();
    }
    folder
}

/// Begins to write `k=1/new` over the files of a folder.
async fn overwriting(folder: &Path, durability: Durability) -> FileSet {
    let sinks = Sinks::new(SinkOptions::default().with_durability(durability));
    let base = Destination::File(folder.to_owned());
    let mut set = FileSet::create(sinks, base, Overwrite::Replace).await.unwrap();
    let mut sink = set.open("k=1/new").await.unwrap();
    sink.write(b"x").await.unwrap();
    set.add("k=1/new", sink.seal().await.unwrap());
    set
}

/// Returns the number of entries that a folder had when it was last synced.
fn last_synced_entries(folder: &Path) -> Option<usize> {
    let synced = SYNCED.lock();
    let last = synced.iter().rev().find(|(path, _)| path == folder);
    last.map(|(_, entries)| *entries)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overwrite_syncs_the_folders_that_it_removes_files_from() {
    for durability in [Durability::Fsync, Durability::None] {
        let folder = folder_with(&["old", "k=1/old", "k=2/kept", "k=2/old", "k=3/x/old"]);
        let set = overwriting(folder.path(), durability).await;
        set.publish(|name| name.ends_with("old")).await.unwrap();

        assert_eq!(names(folder.path()), ["k=1", "k=2"]);
        for changed in ["", "k=1", "k=2"] {
            let changed = folder.path().join(changed);
            let entries = names(&changed).len();
            let expected = (durability == Durability::Fsync).then_some(entries);
            assert_eq!(last_synced_entries(&changed), expected, "{}", changed.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_kept_if_the_names_of_those_that_replace_them_are_not_durable() {
    for is_listed in [true, false] {
        let folder = folder_with(&["k=1/old", "k=2/old"]);
        let set = overwriting(folder.path(), Durability::Fsync).await;
        FAILING.lock().push(folder.path().join("k=1"));

        let published = if is_listed {
            set.publish_instead_of(vec!["k=1/old".to_owned(), "k=2/old".to_owned()]).await
        } else {
            set.publish(|_| true).await
        };
        let error = published.unwrap_err();
        assert!(matches!(error, Error::Unsynced { .. }), "{error}");
        assert_eq!(names(&folder.path().join("k=1")), ["new", "old"]);
        assert_eq!(names(&folder.path().join("k=2")), ["old"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removals_that_are_not_durable_are_an_error() {
    let folder = folder_with(&["k=2/kept", "k=2/old"]);
    let set = overwriting(folder.path(), Durability::Fsync).await;
    FAILING.lock().push(folder.path().join("k=2"));
    let error = set.publish(|name| name.ends_with("old")).await.unwrap_err();
    assert!(matches!(error, Error::Unsynced { .. }), "{error}");
    assert_eq!(names(&folder.path().join("k=2")), ["kept"]);
}

/// An upload whose parts never arrive.
#[derive(Debug)]
struct StuckUpload;

#[async_trait]
impl object_store::MultipartUpload for StuckUpload {
    fn put_part(&mut self, _: object_store::PutPayload) -> object_store::UploadPart {
        Box::pin(std::future::pending())
    }

    async fn complete(&mut self) -> object_store::Result<object_store::PutResult> {
        panic!("a part is missing")
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        Ok(())
    }
}
