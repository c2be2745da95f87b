//! Tests of the folder as a store: the object store contract, keys of every kind, headers and tags, links, listings.

use std::{os::unix::fs::PermissionsExt, path::PathBuf};

use futures::TryStreamExt;
use http::{HeaderValue, header::ETAG};
use object_store::{
    Attribute, Attributes, CopyMode, CopyOptions, GetOptions, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, UpdateVersion, integration,
};

use super::*;
use crate::{Durability, ListPage, ListRequest};

struct TestFolder {
    root: PathBuf,
    folder: Folder,
    _kept: tempfile::TempDir,
}

fn test_folder() -> TestFolder {
    test_folder_with(Durability::None)
}

fn test_folder_with(durability: Durability) -> TestFolder {
    let kept = tempfile::tempdir().unwrap();
    let root = kept.path().canonicalize().unwrap();
    let options = FolderOptions { durability, ..FolderOptions::default() };
    TestFolder { folder: Folder::open_root(&root, options).unwrap(), root, _kept: kept }
}

impl TestFolder {
    /// Returns what was synced since the last call: paths relative to the folder, or, for a file created without a name,
    /// whether it has one by now.
    fn synced(&self) -> Vec<String> {
        let synced = std::mem::take(&mut *self.folder.inner.root.synced.lock());
        let shown = |(path, links): (PathBuf, u64)| {
            let path = path.strip_prefix(&self.root).unwrap().to_str().unwrap();
            match links {
                0 => "unnamed".to_owned(),
                _ if path.ends_with(" (deleted)") => "named".to_owned(),
                _ => path.to_owned(),
            }
        };
        synced.into_iter().map(shown).collect()
    }
}

/// Returns the files and directories below a folder as paths.
fn tree(root: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            found.push(entry.path().strip_prefix(root).unwrap().display().to_string());
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

fn key(key: &str) -> Path {
    path_of_key(key).unwrap()
}

async fn put(folder: &Folder, name: &str) {
    folder.put(&key(name), name.to_owned().into()).await.unwrap();
}

fn list(folder: &Folder, prefix: &str, delimiter: &str, max_keys: usize) -> Vec<String> {
    let mut request = ListRequest {
        prefix: prefix.to_owned(),
        delimiter: delimiter.to_owned(),
        max_keys,
        ..ListRequest::default()
    };
    let mut keys = Vec::new();
    loop {
        let ListPage { objects, prefixes, next_token } = folder.list_page(&request).unwrap();
        assert!(objects.len() + prefixes.len() <= max_keys);
        let mut page: Vec<String> = objects.into_iter().map(|listed| listed.key).collect();
        page.extend(prefixes);
        page.sort();
        keys.extend(page);
        match next_token {
            Some(token) => request.token = Some(token),
            None => return keys,
        }
    }
}

#[tokio::test]
async fn a_folder_does_what_object_stores_do() {
    let TestFolder { folder, .. } = &test_folder();
    integration::put_get_delete_list(folder).await;
    integration::list_uses_directories_correctly(folder).await;
    integration::list_with_delimiter(folder).await;
    integration::rename_and_copy(folder).await;
    integration::copy_if_not_exists(folder).await;
    integration::copy_rename_nonexistent_object(folder).await;
    integration::stream_get(folder).await;
    integration::put_opts(folder, true).await;
    integration::multipart_out_of_order(folder).await;
    integration::multipart_race_condition(folder, true).await;
    integration::put_get_attributes(folder).await;
}

#[tokio::test]
async fn every_key_is_held_and_listed_in_order() {
    let TestFolder { folder, root, .. } = &test_folder();
    let mut keys = [
        "a",
        "a-b",
        "b/",
        "b/1",
        "b//2",
        "b/./3",
        "/abs",
        "c\\d",
        "e\nf",
        "../g",
        "h/../i",
        "ключ",
        "x y+z%2F",
        ".stylobate-marker",
        "t/u/",
    ];

    for name in keys {
        put(folder, name).await;
    }

    keys.sort_unstable();
    for max_keys in [1, 2, 3, 7, 100] {
        assert_eq!(list(folder, "", "", max_keys), keys, "{max_keys}");
    }

    for name in keys {
        let bytes = folder.get(&key(name)).await.unwrap().bytes().await.unwrap();
        assert_eq!(bytes, name.as_bytes());
    }
    assert_eq!(list(folder, "", "/", 4).iter().filter(|found| found.ends_with('/')).count(), 5);
    assert_eq!(list(folder, "b/", "/", 100), ["b/", "b/./", "b//", "b/1"]);
    assert_eq!(list(folder, "b//", "/", 100), ["b//2"]);
    assert_eq!(list(folder, "h/..", "", 100), ["h/../i"]);

    for name in keys {
        folder.delete(&key(name)).await.unwrap();
    }
    assert_eq!(tree(root), [] as [&str; 0]);
}

#[tokio::test]
async fn listings_go_on_anywhere_and_know_any_delimiter() {
    let TestFolder { folder, root, .. } = &test_folder();
    for name in ["a/1", "a/2", "a-1", "a-2", "b", "c/d/1", "c/d-e/2", "cc"] {
        put(folder, name).await;
    }

    std::fs::create_dir_all(root.join("empty/inner")).unwrap();

    for max_keys in 1..8 {
        assert_eq!(list(folder, "", "/", max_keys), ["a-1", "a-2", "a/", "b", "c/", "cc", "empty/"]);
        assert_eq!(list(folder, "", "-", max_keys), ["a-", "a/1", "a/2", "b", "c/d-", "c/d/1", "cc"]);
        assert_eq!(list(folder, "c", "d", max_keys), ["c/d", "cc"]);
        assert_eq!(list(folder, "a", "", max_keys), ["a-1", "a-2", "a/1", "a/2"]);
    }
    let after = |after: &str, delimiter: &str| {
        let request = ListRequest {
            start_after: Some(after.to_owned()),
            delimiter: delimiter.to_owned(),
            max_keys: 100,
            ..ListRequest::default()
        };
        let page = folder.list_page(&request).unwrap();
        let mut keys: Vec<_> = page.objects.into_iter().map(|listed| listed.key).collect();
        keys.extend(page.prefixes);
        keys.sort();
        keys
    };

    assert_eq!(after("a/1", ""), ["a/2", "b", "c/d-e/2", "c/d/1", "cc"]);
    assert_eq!(after("a/1", "/"), ["a/", "b", "c/", "cc", "empty/"]);
    assert_eq!(after("a/2", "/"), ["b", "c/", "cc", "empty/"]);
    assert_eq!(after("c/d-", ""), ["c/d-e/2", "c/d/1", "cc"]);
    assert_eq!(list(folder, "nothing/here", "/", 3), [] as [&str; 0]);

    // The last code point of Unicode is valid in a key.
    put(folder, "a/\u{10ffff}z").await;
    put(folder, "a-\u{10ffff}z").await;
    for max_keys in 1..4 {
        assert_eq!(list(folder, "a", "/", max_keys), ["a-1", "a-2", "a-\u{10ffff}z", "a/"]);
        assert_eq!(list(folder, "a", "-", max_keys), ["a-", "a/1", "a/2", "a/\u{10ffff}z"]);
    }
}

#[tokio::test]
async fn pages_of_a_large_directory_show_each_name_once() {
    let TestFolder { folder, root, .. } = &test_folder();
    let names: Vec<String> = (0..2_000).map(|i| format!("d/{i:05}")).collect();
    std::fs::create_dir(root.join("d")).unwrap();
    for name in &names {
        std::fs::write(root.join(name), "").unwrap();
    }
    assert_eq!(list(folder, "d/", "/", 300), names);

    // Cached names must reflect the current state of the directory.
    let long_ago = rustix::fs::Timespec { tv_sec: 1_000_000, tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: long_ago, last_modification: long_ago };
    rustix::fs::utimensat(rustix::fs::CWD, root.join("d"), &times, rustix::fs::AtFlags::empty()).unwrap();
    assert_eq!(list(folder, "d/", "/", 1_500), names);
    std::fs::write(root.join("d/x"), "").unwrap();
    assert_eq!(list(folder, "d/", "/", 3_000).len(), 2_001);
}

#[tokio::test]
async fn headers_and_tags_stay_with_their_object() {
    let TestFolder { folder, .. } = &test_folder();
    let path = key("a/b");
    let kept = KeptHeaders::default();
    kept.set(ETAG, HeaderValue::from_static("\"5d41402abc4b2a76b9719d911017c592\""));
    let mut attributes = Attributes::new();
    attributes.insert(Attribute::ContentType, "text/x".into());
    attributes.insert(Attribute::Metadata("who".into()), "мы".into());
    let options = PutOptions {
        attributes: attributes.clone(),
        extensions: kept.into_extensions(),
        ..Default::default()
    };
    let written = folder.put_opts(&path, "hello".into(), options).await.unwrap();
    assert_eq!(written.e_tag.as_deref(), Some("\"5d41402abc4b2a76b9719d911017c592\""));

    folder.set_tags(&path, Some("a=1&b=2")).unwrap();
    for copied in [false, true] {
        let now = if copied { key("c") } else { path.clone() };
        if copied {
            folder.copy(&path, &now).await.unwrap();
        }
        let found = folder.get_opts(&now, GetOptions::default()).await.unwrap();
        assert_eq!(found.attributes, attributes);
        assert_eq!(found.meta.e_tag, written.e_tag);
        assert_eq!(folder.tags(&now).unwrap(), "a=1&b=2");
    }

    folder.set_tags(&path, None).unwrap();
    assert_eq!(folder.tags(&path).unwrap(), "");

    folder.rename(&key("c"), &key("d/e")).await.unwrap();
    assert_eq!(folder.head(&key("d/e")).await.unwrap().e_tag, written.e_tag);
}

#[tokio::test]
async fn a_file_that_others_wrote_has_no_record() {
    let TestFolder { folder, root, .. } = &test_folder();
    let kept = KeptHeaders::default();
    kept.set(ETAG, HeaderValue::from_static("\"kept\""));
    let options = PutOptions { extensions: kept.into_extensions(), ..Default::default() };
    folder.put_opts(&key("a"), "before".into(), options).await.unwrap();
    let before = folder.head(&key("a")).await.unwrap();
    assert_eq!(before.e_tag.as_deref(), Some("\"kept\""));

    std::thread::sleep(std::time::Duration::from_millis(20));
    std::fs::write(root.join("a"), "after!").unwrap();
    let after = folder.head(&key("a")).await.unwrap();
    assert_ne!(after.e_tag, before.e_tag);
    assert_ne!(after.version, before.version);
}

#[tokio::test]
async fn a_file_of_which_only_the_times_were_put_back_is_another_version() {
    let TestFolder { folder, root, .. } = &test_folder();
    put(folder, "a").await;
    let before = folder.head(&key("a")).await.unwrap();
    let file = std::fs::File::options().write(true).open(root.join("a")).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    std::os::unix::fs::FileExt::write_all_at(&file, b"b", 0).unwrap();
    file.set_modified(modified).unwrap();

    let after = folder.head(&key("a")).await.unwrap();
    assert_eq!((after.size, after.last_modified), (before.size, before.last_modified));
    assert_ne!(after.version, before.version);
    let options = GetOptions { version: before.version, ..GetOptions::default() };
    assert!(matches!(
        folder.get_opts(&key("a"), options).await,
        Err(object_store::Error::Precondition { .. })
    ));
}

#[tokio::test]
async fn what_does_not_fit_into_attributes_lies_beside() {
    let TestFolder { folder, root, .. } = &test_folder();
    let large = "x".repeat(100_000);
    let mut attributes = Attributes::new();
    attributes.insert(Attribute::Metadata("k".into()), large.into());
    let options = PutOptions { attributes: attributes.clone(), ..Default::default() };
    folder.put_opts(&key("a"), "1".into(), options).await.unwrap();
    assert!(root.join(".stylobate-attributes").is_dir());

    folder.rename(&key("a"), &key("b")).await.unwrap();
    folder.copy(&key("b"), &key("c")).await.unwrap();
    for name in ["b", "c"] {
        assert_eq!(folder.get(&key(name)).await.unwrap().attributes, attributes, "{name}");
    }
    assert_eq!(list(folder, "", "", 10), ["b", "c"]);

    put(folder, "b").await;
    assert_eq!(folder.get(&key("b")).await.unwrap().attributes, Attributes::new());
    folder.delete(&key("b")).await.unwrap();
    folder.delete(&key("c")).await.unwrap();
    assert_eq!(tree(root), [] as [&str; 0]);
}

#[tokio::test]
async fn a_write_that_ends_early_leaves_nothing() {
    let TestFolder { folder, root, .. } = &test_folder();
    for nameless in [true, false] {
        folder.inner.lacks_nameless_files.store(!nameless, Ordering::Relaxed);
        let mut upload = folder.put_multipart(&key("a/b/c")).await.unwrap();
        upload.put_part("half".into()).await.unwrap();
        assert_eq!(list(folder, "", "", 10), [] as [&str; 0]);
        upload.abort().await.unwrap();
        drop(folder.put_multipart(&key("a/b/c")).await.unwrap());
        assert_eq!(tree(root), [] as [&str; 0], "{nameless}");

        put(folder, "a/b/c").await;
        put(folder, "a/b/c").await;
        let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let refused = folder.put_opts(&key("a/b/c"), "x".into(), create).await.unwrap_err();
        assert!(matches!(refused, object_store::Error::AlreadyExists { .. }), "{refused}");
        assert_eq!(tree(root), ["a", "a/b", "a/b/c"]);
        folder.delete(&key("a/b/c")).await.unwrap();
    }
}

#[tokio::test]
async fn an_upload_in_parts_is_completed_on_a_condition() {
    let TestFolder { folder, .. } = &test_folder();
    let upload = async |mode: PutMode, text: &'static str| {
        let mut options = PutMultipartOptions::default();
        options.extensions.insert(UploadMode(mode));
        let mut upload = folder.put_multipart_opts(&key("a"), options).await.unwrap();
        upload.put_part(text.into()).await.unwrap();
        upload.complete().await
    };
    let first = upload(PutMode::Create, "1").await.unwrap();
    assert!(upload(PutMode::Create, "2").await.is_err());
    let update = PutMode::Update(UpdateVersion::from(first));
    upload(update.clone(), "3").await.unwrap();
    assert!(upload(update, "4").await.is_err());
    assert_eq!(folder.get(&key("a")).await.unwrap().bytes().await.unwrap(), "3");
}

#[tokio::test]
async fn copies_can_be_bound_to_a_version_and_changed() {
    let TestFolder { folder, .. } = &test_folder();
    put(folder, "a").await;
    folder.set_tags(&key("a"), Some("k=v")).unwrap();
    let e_tag = folder.head(&key("a")).await.unwrap().e_tag;
    let copy = async |change: CopyChange| {
        let mut options = CopyOptions { mode: CopyMode::Overwrite, ..CopyOptions::default() };
        options.extensions.insert(change);
        folder.copy_opts(&key("a"), &key("b"), options).await
    };

    let headers = KeptHeaders::default();
    headers.set(http::header::CONTENT_TYPE, HeaderValue::from_static("text/x"));
    let change = CopyChange { e_tag, headers: Some(headers), ..CopyChange::default() };
    copy(change).await.unwrap();
    let copied = folder.get(&key("b")).await.unwrap();
    assert_eq!(copied.attributes.get(&Attribute::ContentType).unwrap().as_ref(), "text/x");
    assert_eq!(folder.tags(&key("b")).unwrap(), "k=v");

    let other = CopyChange { e_tag: Some("other".to_owned()), ..CopyChange::default() };
    assert!(matches!(copy(other).await, Err(object_store::Error::Precondition { .. })));
}

#[tokio::test]
async fn what_is_no_object_is_not_listed_and_does_not_fail_a_listing() {
    let TestFolder { folder, root, .. } = &test_folder();
    put(folder, "d/a").await;
    std::os::unix::fs::symlink("a", root.join("d/link")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.join("d/out")).unwrap();
    std::os::unix::fs::symlink("..", root.join("d/up")).unwrap();
    std::os::unix::fs::symlink("gone", root.join("d/dangling")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("d/pipe"), rustix::fs::Mode::from_raw_mode(0o600))
        .unwrap();
    let foreign = std::os::unix::ffi::OsStrExt::from_bytes(b"d/\xff\xfe");
    std::fs::write(root.join::<&std::ffi::OsStr>(foreign), "").unwrap();
    std::fs::create_dir(root.join("d/closed")).unwrap();
    std::fs::set_permissions(root.join("d/closed"), std::fs::Permissions::from_mode(0o000)).unwrap();

    assert_eq!(list(folder, "", "", 10), ["d/a", "d/link"]);
    for absent in ["d/out", "d/dangling", "d/pipe", "d/closed", "d"] {
        assert!(folder.get(&key(absent)).await.is_err(), "{absent}");
    }
    folder.delete(&key("d/link")).await.unwrap();
    assert_eq!(list(folder, "", "", 10), ["d/a"]);
    std::fs::set_permissions(root.join("d/closed"), std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn a_whole_listing_has_the_names_that_no_path_can_hold() {
    let TestFolder { folder, root, .. } = &test_folder();
    put(folder, "d/a\nb").await;
    put(folder, "d/c").await;
    for foreign in [b"d/\xff.parquet".as_slice(), b"d/e\xfe/x.parquet", b".stylobate-name-zz"] {
        let file = root.join::<&std::ffi::OsStr>(std::os::unix::ffi::OsStrExt::from_bytes(foreign));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "x").unwrap();
    }

    let listed = folder.list_all(Some(&key("d")), None).await.unwrap();
    let keys: Vec<_> = listed.objects.iter().map(|meta| super::key_of_path(&meta.location)).collect();
    assert_eq!(keys, ["d/a\nb", "d/c"]);
    assert_eq!(listed.unnameable, ["d/e\u{fffd}/", "d/\u{fffd}.parquet"]);
    assert_eq!(folder.list_all(None, None).await.unwrap().unnameable.len(), 3);
}

#[tokio::test]
async fn a_listing_enters_no_directory_below_its_depth() {
    let TestFolder { folder, .. } = &test_folder();
    for name in ["a", "d/b", "d/e/c", "d/e/f/g"] {
        put(folder, name).await;
    }

    for (directory, depth, objects, not_entered) in [
        (None, Some(1), &["a"][..], &["d/"][..]),
        (None, Some(2), &["a", "d/b"], &["d/e/"]),
        (Some(key("d")), Some(1), &["d/b"], &["d/e/"]),
        (Some(key("d")), None, &["d/b", "d/e/c", "d/e/f/g"], &[]),
    ] {
        let listed = folder.list_all(directory.as_ref(), depth).await.unwrap();
        let keys: Vec<_> = listed.objects.iter().map(|meta| super::key_of_path(&meta.location)).collect();
        assert_eq!(keys, objects);
        assert_eq!(listed.not_entered, not_entered);
    }
}

#[tokio::test]
async fn writers_and_removers_of_one_directory_do_not_disturb_each_other() {
    let TestFolder { folder, root, .. } = &test_folder();
    let work = (0..8).map(|worker| {
        let folder = folder.clone();
        tokio::spawn(async move {
            for _ in 0..60 {
                let path = key(&format!("a/b/{worker}"));
                folder.put(&path, "x".into()).await.unwrap();
                folder.delete(&path).await.unwrap();
            }
        })
    });
    futures::future::try_join_all(work).await.unwrap();
    assert_eq!(tree(root), [] as [&str; 0]);
}

#[tokio::test]
async fn paths_of_files_are_listed_without_markers() {
    let TestFolder { folder, .. } = &test_folder();
    for name in ["t/", "t/a", "t/u/b"] {
        put(folder, name).await;
    }
    let listed: Vec<_> = folder.list(None).try_collect().await.unwrap();
    let paths: Vec<_> = listed.iter().map(|meta| meta.location.as_ref()).collect();
    assert_eq!(paths, ["t/a", "t/u/b"]);
    let listed = folder.list_with_delimiter(Some(&Path::from("t"))).await.unwrap();
    assert_eq!(listed.common_prefixes, [Path::from("t/u")]);
    assert_eq!(listed.objects.len(), 1);
}

#[tokio::test]
async fn files_are_synced_before_they_have_a_name_and_directories_after_every_change() {
    let test = test_folder_with(Durability::Fsync);
    let folder = &test.folder;
    put(folder, "a/b/c").await;
    assert_eq!(test.synced(), ["unnamed", "", "a", "named", "a/b"]);
    put(folder, "a/b/c").await;
    assert_eq!(test.synced(), ["unnamed", "named", "a/b"]);

    let mut upload = folder.put_multipart(&key("d")).await.unwrap();
    upload.put_part("bytes".into()).await.unwrap();
    assert_eq!(test.synced(), [""; 0]);
    upload.complete().await.unwrap();
    assert_eq!(test.synced(), ["unnamed", "named", ""]);

    folder.copy(&key("d"), &key("a/e")).await.unwrap();
    assert_eq!(test.synced(), ["unnamed", "named", "a"]);
    folder.rename(&key("a/e"), &key("a/b/e")).await.unwrap();
    assert_eq!(test.synced(), ["a/e", "a/b", "a"]);
    folder.set_tags(&key("d"), Some("x=y")).unwrap();
    assert_eq!(test.synced(), ["d"]);

    folder.delete(&key("a/b/e")).await.unwrap();
    assert_eq!(test.synced(), ["a/b"]);
    folder.delete(&key("a/b/c")).await.unwrap();
    assert_eq!(test.synced(), [""]);
    // An object, although its path has a reserved name, and a part of an upload.
    put(folder, "/x").await;
    test.synced();
    folder.delete(&key("/x")).await.unwrap();
    assert_eq!(test.synced(), [""]);
    let part = Path::from(STAGING).join("x").join("1");
    folder.put(&part, "bytes".into()).await.unwrap();
    test.synced();
    folder.delete(&part).await.unwrap();
    assert_eq!(test.synced(), [""; 0]);

    // A record that has no room in the attributes of its file.
    let attributes = Attributes::from_iter([(Attribute::Metadata("long".into()), "x".repeat(100_000))]);
    let options = PutOptions { attributes, ..PutOptions::default() };
    folder.put_opts(&key("f"), "bytes".into(), options).await.unwrap();
    let synced = test.synced();
    let [record, above, beside, root, file, named, directory] = &synced[..] else { panic!("{synced:?}") };
    assert!(record.starts_with(&format!("{above}/")) && above.starts_with(BESIDE), "{synced:?}");
    assert_eq!([beside.as_str(), root, file, named, directory], [BESIDE, "", "unnamed", "named", ""]);
}

/// A repeated deletion was acknowledged while the first one was still syncing the directory: after a power loss, the
/// file could be there again.
#[tokio::test]
async fn a_repeated_deletion_syncs_what_the_first_has_not_synced_yet() {
    let test = test_folder_with(Durability::Fsync);
    let folder = &test.folder;
    let path = key("a/b/c");
    put(folder, "a/b/c").await;
    put(folder, "a/d").await;
    test.synced();

    // As the first deletion leaves it before its sync, with and without the directory that it leaves empty.
    folder.alone(&path).unsynced_removals += 1;
    std::fs::remove_file(test.root.join("a/b/c")).unwrap();
    let repeated = folder.delete(&path).await.unwrap_err();
    assert!(matches!(repeated, object_store::Error::NotFound { .. }), "{repeated}");
    assert_eq!(test.synced(), ["a/b", "a", ""]);
    std::fs::remove_dir(test.root.join("a/b")).unwrap();
    folder.delete(&path).await.unwrap_err();
    assert_eq!(test.synced(), ["a", ""]);
    folder.alone(&path).unsynced_removals -= 1;
}

#[tokio::test]
async fn a_finished_rename_leaves_nothing_to_sync() {
    let test = test_folder_with(Durability::Fsync);
    let folder = &test.folder;
    put(folder, "a/b").await;
    put(folder, "a/c").await;
    folder.rename_if_not_exists(&key("a/b"), &key("a/c")).await.unwrap_err();
    assert_eq!(folder.alone(&key("a/b")).unsynced_removals, 0, "the failed rename is not undone");
    folder.rename(&key("a/b"), &key("a/d")).await.unwrap();
    assert_eq!(folder.alone(&key("a/b")).unsynced_removals, 0);
    test.synced();

    folder.delete(&key("a/b")).await.unwrap_err();
    assert_eq!(test.synced(), [""; 0], "the rename was synced");
}

#[tokio::test]
async fn nothing_is_synced_without_durability() {
    let test = test_folder();
    put(&test.folder, "a/b").await;
    test.folder.set_tags(&key("a/b"), Some("x=y")).unwrap();
    test.folder.rename(&key("a/b"), &key("c/d")).await.unwrap();
    test.folder.delete(&key("c/d")).await.unwrap();
    assert_eq!(test.synced(), [""; 0]);
}
