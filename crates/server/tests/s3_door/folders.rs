//! Folders as origins: names that a file system rejects, abandoned uploads, and buckets over overlapping folders.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use stylobate_storage::{Origin, RequestOptions};

use crate::{
    client::{Setup, TestNode},
    eventually::eventually,
};

/// Starts a node over a folder that contains the file `file` and the folder `folder`, which contains the file `a`.
async fn folder() -> (TestNode, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    std::fs::write(folder.path().join("folder/a"), "a").unwrap();
    std::fs::write(folder.path().join("file"), "file").unwrap();
    let origin = Origin::parse(folder.path().to_str().unwrap(), &[], &RequestOptions::default()).unwrap();
    (Setup::new().origin("lake", origin).start().await, folder)
}

/// Returns keys that the folder cannot store: names that are too long, a key below a file, and a folder.
fn impossible() -> Vec<String> {
    let long = "n".repeat(256);
    let below = [format!("new/{long}"), format!("{long}/a"), "file/a".into(), "file/a/b".into()];
    [long, "folder".into()].into_iter().chain(below).collect()
}

#[tokio::test]
async fn a_key_that_the_folder_cannot_hold_is_refused_where_it_is_written_and_deleted_already() {
    let (node, folder) = folder().await;
    for key in impossible() {
        let target = format!("/lake/{key}");
        let put = node.send("PUT", &target, &[], b"x").await;
        assert_eq!((put.status, put.code()), (400, "InvalidArgument"), "PUT {key}");
        let large = node.send("PUT", &target, &[], &vec![0; 33 << 20]).await;
        assert_eq!((large.status, large.code()), (400, "InvalidArgument"), "PUT {key}, large");
        let copy = node.send("PUT", &target, &[("x-amz-copy-source", "/lake/file")], b"").await;
        assert_eq!((copy.status, copy.code()), (400, "InvalidArgument"), "copy to {key}");
        let source = [("x-amz-copy-source", target.as_str())];
        assert_eq!(node.send("PUT", "/lake/new", &source, b"").await.status, 404, "copy of {key}");
        assert_eq!(node.get(&target, &[]).await.code(), "NoSuchKey", "GET {key}");
        assert_eq!(node.send("DELETE", &target, &[], b"").await.status, 204, "DELETE {key}");
    }
    let text = |path| std::fs::read_to_string(folder.path().join(path)).unwrap();
    assert_eq!((text("file"), text("folder/a")), ("file".to_owned(), "a".to_owned()));
}

#[tokio::test]
async fn keys_that_the_folder_cannot_hold_are_among_those_deleted_together() {
    let (node, folder) = folder().await;
    let keys = impossible().into_iter().chain(["file".to_owned()]);
    let objects: String =
        keys.map(|key| format!("<Object><Key>{}</Key></Object>", key.replace("%23", "#"))).collect();
    let answer =
        node.send("POST", "/lake?delete", &[], format!("<Delete>{objects}</Delete>").as_bytes()).await;
    assert_eq!((answer.elements("Deleted").len(), answer.elements("Error").len()), (7, 0), "{}", answer.body);
    assert!(!folder.path().join("file").exists());
}

#[tokio::test]
async fn an_upload_in_parts_to_a_key_that_the_folder_cannot_hold_is_refused_when_it_is_joined() {
    let (node, _folder) = folder().await;
    let begun = node.send("POST", "/lake/file/a?uploads", &[], b"").await;
    let id = begun.element("UploadId").unwrap();
    let part = node.send("PUT", &format!("/lake/file/a?partNumber=1&uploadId={id}"), &[], b"x").await;
    let etag = part.header("etag").unwrap();
    let parts = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
    );
    let done = node.send("POST", &format!("/lake/file/a?uploadId={id}"), &[], parts.as_bytes()).await;
    assert_eq!((done.status, done.code()), (400, "InvalidArgument"));
}

/// Sets a file's modification time `days` days back.
fn age(file: &Path, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
    std::fs::File::options().write(true).open(file).unwrap().set_modified(then).unwrap();
}

/// Writes an upload with one part below `folder`; the marker and the part have the given ages in days.
fn leave_upload(folder: &Path, id: &str, marker: u64, part: u64) {
    let staged = folder.join(".stylobate-uploads").join(id);
    std::fs::create_dir_all(&staged).unwrap();
    for (name, text, days) in
        [("attributes.json", r#"{"path":"x","attributes":{}}"#, marker), ("00001", "x", part)]
    {
        std::fs::write(staged.join(name), text).unwrap();
        age(&staged.join(name), days);
    }
}

#[tokio::test]
async fn uploads_that_were_abandoned_a_week_ago_are_removed_and_no_younger_ones() {
    let (node, folder) = folder().await;
    let old = "a".repeat(32);
    let resumed = "b".repeat(32);
    let young = "c".repeat(32);
    leave_upload(folder.path(), &old, 8, 8);
    leave_upload(folder.path(), &resumed, 30, 6);
    leave_upload(folder.path(), &young, 6, 6);
    leave_upload(folder.path(), "not-an-upload", 30, 30);

    let begin = async || {
        let begun = node.send("POST", "/lake/new?uploads", &[], b"").await;
        assert_eq!(begun.status, 200, "{}", begun.body);
    };
    let files = |id: &str| {
        let staged = folder.path().join(".stylobate-uploads").join(id);
        std::fs::read_dir(staged).map_or(0, Iterator::count)
    };

    begin().await;
    eventually("the old upload to be removed", async || files(&old) == 0).await;
    assert_eq!([files(&old), files(&resumed), files(&young), files("not-an-upload")], [0, 2, 2, 2]);
    leave_upload(folder.path(), &old, 8, 8);
    begin().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(files(&old), 2, "they are looked for once an hour");
}

/// A bucket showed what was written through another bucket of the same folder only after the time of its rule.
#[tokio::test]
async fn buckets_over_overlapping_folders_see_the_writes_of_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("sub");
    std::fs::create_dir(&below).unwrap();
    std::fs::write(below.join("other"), "other").unwrap();
    // Versions of files are known at once, not only two seconds after they were written.
    let origin = |path: &Path| {
        let origin = Origin::parse(path.to_str().unwrap(), &[], &RequestOptions::default()).unwrap();
        origin.of_final_files()
    };
    let setup = Setup::new().origin("lake", origin(folder.path())).rarely_asked();
    let setup = setup.origin("twin", origin(folder.path())).rarely_asked();
    let node = setup.origin("pond", origin(&below)).rarely_asked().start().await;
    let targets = ["/lake/sub/a", "/twin/sub/a", "/pond/a"];

    for (written, text) in targets.iter().zip(["lake", "twin", "pond"]) {
        assert_eq!(node.send("PUT", written, &[], text.as_bytes()).await.status, 200);
        for read in targets {
            assert_eq!(node.get(read, &[]).await.body, text, "{read} after a write to {written}");
        }
    }

    for deleted in targets {
        assert_eq!(node.send("PUT", deleted, &[], b"again").await.status, 200);
        for read in targets {
            assert_eq!(node.get(read, &[]).await.body, "again", "{read}");
        }
        assert_eq!(node.send("DELETE", deleted, &[], b"").await.status, 204);
        for read in targets {
            assert_eq!(node.get(read, &[]).await.status, 404, "{read} after a deletion of {deleted}");
        }
    }
}
