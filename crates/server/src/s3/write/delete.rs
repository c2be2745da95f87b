//! DeleteObject and DeleteObjects. Deleting a missing object succeeds.

use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectStore, ObjectStoreExt, path::Path};
use s3s::{
    S3Error, S3Request, S3Response, S3Result,
    dto::{
        DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject,
        ETagCondition, Error, ObjectIdentifier, Timestamp,
    },
    s3_error,
};
use stylobate_storage::{Folder, ReadThrough, run_blocking, traced};

use crate::{
    access::Action,
    s3::{
        auth::authenticate::Caller,
        authorize::AccessCheck,
        door::{S3Backend, refuse_version},
        read::{
            conditions::{ReadConditions, timestamp},
            open as read,
        },
        wire::{error, keys::CheckedKey},
    },
};

/// Maximum keys of one request, as in S3.
const MAX_KEYS: usize = 1000;

/// Maximum concurrent deletions of single objects.
const MAX_CONCURRENT_DELETES: usize = 16;

pub(crate) async fn delete_object(
    door: &S3Backend,
    input: DeleteObjectInput,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let bucket = door.writable(&input.bucket)?;
    refuse_version(input.version_id.as_deref())?;

    let is_conditional = input.if_match.is_some()
        || input.if_match_last_modified_time.is_some()
        || input.if_match_size.is_some();

    let path = match CheckedKey::at(bucket.reader.origin(), &input.key).map_err(|_| error::refused_key())? {
        CheckedKey::Object(path) => path,
        CheckedKey::Folder => return Ok(S3Response::new(DeleteObjectOutput::default())),
    };

    match bucket.reader.origin().folder().cloned() {
        Some(folder) if is_conditional => {
            let expected = DeleteConditions {
                tag: input.if_match,
                size: input.if_match_size,
                last_modified: input.if_match_last_modified_time,
            };
            delete_if(&bucket.reader, folder, &path, expected).await?;
        }
        _ if is_conditional => return Err(conditional()),
        _ => delete(&bucket.reader, &path).await?,
    }

    Ok(S3Response::new(DeleteObjectOutput::default()))
}

/// Conditions of a deletion.
struct DeleteConditions {
    tag: Option<ETagCondition>,
    size: Option<i64>,
    last_modified: Option<Timestamp>,
}

/// Deletes an object of a folder if it is the expected version.
async fn delete_if(
    reader: &ReadThrough,
    folder: Folder,
    path: &Path,
    expected: DeleteConditions,
) -> S3Result<()> {
    let conditions = ReadConditions { if_match: expected.tag.clone(), ..ReadConditions::default() };
    let known = read::look(reader, path, &conditions).await?.result.meta;

    let is_other = expected.size.is_some_and(|size| size != known.size as i64)
        || expected.last_modified.is_some_and(|time| time != timestamp(known.last_modified));
    if is_other {
        return Err(error::precondition_failed("If-Match"));
    }

    let reader = reader.clone();
    let target = path.clone();
    let tag = known.e_tag.clone();
    let removed = run_blocking(move || {
        let removed = folder.remove_if(&target, |now| tag.as_deref().is_none_or(|tag| tag == now));
        reader.invalidate(&target);
        removed
    })
    .await;

    removed.map_err(|_| s3_error!(InternalError))?.map_err(error::from_write)
}

pub(crate) async fn delete_objects(
    door: &S3Backend,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    let caller = request.extensions.get::<Caller>().and_then(|caller| caller.access_key.clone());
    let rights = AccessCheck { node: &door.node, access_key: caller.as_deref() };

    let input = request.input;
    let reader = &door.writable(&input.bucket)?.reader;
    let quiet = input.delete.quiet.unwrap_or_default();
    let objects = input.delete.objects;
    if objects.is_empty() || objects.len() > MAX_KEYS {
        return Err(s3_error!(MalformedXML, "one to a thousand keys can be deleted at once"));
    }

    let checked: Vec<_> = objects
        .into_iter()
        .map(|object| {
            let may = rights.check_key(&input.bucket, &object.key, Action::Write);
            (may.and_then(|()| check(reader, &object)), object.key)
        })
        .collect();

    let paths: Vec<Path> = checked.iter().filter_map(|(path, _)| path.as_ref().ok()?.clone()).collect();

    // Only individual deletions report which keys failed; repeating a deletion does no harm. A folder has no bulk
    // deletion.
    let all_gone = match reader.origin().folder() {
        Some(_) => false,
        None => {
            let together = reader.delete_stream(stream::iter(paths).map(Ok).boxed());
            together.try_for_each(|_| async { Ok(()) }).await.is_ok()
        }
    };

    let outcomes = stream::iter(checked).map(async |(checked, key)| {
        let outcome = match checked {
            Ok(Some(path)) if !all_gone => delete(reader, &path).await,
            Ok(_) => Ok(()),
            Err(refused) => Err(refused),
        };
        (outcome, key)
    });

    let outcomes: Vec<_> = outcomes.buffered(MAX_CONCURRENT_DELETES).collect().await;

    let mut deleted = Vec::new();
    let mut errors = Vec::new();
    for (outcome, key) in outcomes {
        match outcome {
            Ok(()) if quiet => {}
            Ok(()) => deleted.push(DeletedObject { key: Some(key), ..Default::default() }),
            Err(failed) => errors.push(Error {
                code: Some(failed.code().as_str().to_owned()),
                key: Some(key),
                message: failed.message().map(str::to_owned),
                version_id: None,
            }),
        }
    }

    let output = DeleteObjectsOutput { deleted: Some(deleted), errors: Some(errors), ..Default::default() };
    Ok(S3Response::new(output))
}

/// Returns the path to delete, or `None` if no object can exist there.
fn check(reader: &ReadThrough, object: &ObjectIdentifier) -> S3Result<Option<Path>> {
    refuse_version(object.version_id.as_deref())?;
    if object.e_tag.is_some() || object.last_modified_time.is_some() || object.size.is_some() {
        return Err(conditional());
    }
    match CheckedKey::at(reader.origin(), &object.key) {
        Ok(CheckedKey::Object(path)) => Ok(Some(path)),
        Ok(CheckedKey::Folder) => Ok(None),
        Err(_) => Err(error::refused_key()),
    }
}

/// Deletes an object even if the client disconnects: the cache must be invalidated once the object is gone.
async fn delete(reader: &ReadThrough, path: &Path) -> S3Result<()> {
    let deleting = reader.clone();
    let target = path.clone();
    let deleted = tokio::spawn(traced(async move {
        let deleted = deleting.delete(&target).await;
        deleting.invalidate_in_cluster(std::slice::from_ref(&target)).await;
        deleted
    }));

    match deleted.await.map_err(|_| s3_error!(InternalError))? {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(failed) => match stylobate_storage::Error::from_write(path.as_ref(), failed) {
            // An object that cannot exist is already absent.
            stylobate_storage::Error::ImpossiblePath { .. } => Ok(()),
            failed => Err(error::from_storage(&failed)),
        },
    }
}

fn conditional() -> S3Error {
    s3_error!(NotImplemented, "conditional deletes are not supported")
}
