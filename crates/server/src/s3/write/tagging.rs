//! Tags of objects in a folder: GetObjectTagging, PutObjectTagging, DeleteObjectTagging.

use object_store::path::Path;
use s3s::{
    S3Response, S3Result,
    dto::{
        DeleteObjectTaggingInput, DeleteObjectTaggingOutput, GetObjectTaggingInput, GetObjectTaggingOutput,
        PutObjectTaggingInput, PutObjectTaggingOutput, Tag,
    },
    s3_error,
};
use stylobate_storage::{Folder, run_blocking};

use crate::{
    node::Bucket,
    s3::{
        door::{S3Backend, refuse_version},
        read::{conditions::ReadConditions, open as read},
        upload::kept::{check_tags, tagging_text, tags_of},
        wire::error,
    },
};

pub(crate) async fn get(
    door: &S3Backend,
    input: GetObjectTaggingInput,
) -> S3Result<S3Response<GetObjectTaggingOutput>> {
    let bucket = door.readable(&input.bucket)?;
    refuse_version(input.version_id.as_deref())?;
    let path = read::readable_path(&bucket.reader, &input.key)?;
    let tag = |(key, value): (String, String)| Tag { key: Some(key), value: Some(value) };
    let tag_set = match bucket.reader.origin().folder() {
        Some(folder) => tags_of(&read_tags(folder, path).await?)?.into_iter().map(tag).collect(),
        // Other origins report no tags.
        None => {
            read::look(&bucket.reader, &path, &ReadConditions::default()).await?;
            Vec::new()
        }
    };

    Ok(S3Response::new(GetObjectTaggingOutput { tag_set, version_id: None }))
}

/// Returns the tags of an object in the form of a header.
pub(crate) async fn read_tags(folder: &Folder, path: Path) -> S3Result<String> {
    let folder = folder.clone();
    let tags = run_blocking(move || folder.tags(&path)).await;
    tags.map_err(|_| s3_error!(InternalError))?.map_err(error::from_store)
}

pub(crate) async fn put(
    door: &S3Backend,
    input: PutObjectTaggingInput,
) -> S3Result<S3Response<PutObjectTaggingOutput>> {
    let bucket = door.writable(&input.bucket)?;
    refuse_version(input.version_id.as_deref())?;
    let tags = input.tagging.tag_set.into_iter();
    let tags = tags.map(|tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default())).collect();
    set(bucket, &input.key, tagging_text(&check_tags(tags)?)).await?;
    Ok(S3Response::new(PutObjectTaggingOutput::default()))
}

pub(crate) async fn delete(
    door: &S3Backend,
    input: DeleteObjectTaggingInput,
) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
    let bucket = door.writable(&input.bucket)?;
    refuse_version(input.version_id.as_deref())?;
    set(bucket, &input.key, String::new()).await?;
    Ok(S3Response::with_status(DeleteObjectTaggingOutput::default(), http::StatusCode::NO_CONTENT))
}

async fn set(bucket: &Bucket, key: &str, tags: String) -> S3Result<()> {
    let path = read::readable_path(&bucket.reader, key)?;
    let Some(folder) = bucket.reader.origin().folder().cloned() else {
        return Err(s3_error!(NotImplemented, "tags of objects are kept in folders and at S3 origins only"));
    };

    let reader = bucket.reader.clone();
    let written = run_blocking(move || {
        let written = folder.set_tags(&path, Some(&tags));
        reader.invalidate(&path);
        written
    })
    .await;

    written.map_err(|_| s3_error!(InternalError))?.map_err(error::from_store)
}
