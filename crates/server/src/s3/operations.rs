//! The operations that the door serves. Each is in the file of its kind; those that are missing are answered with
//! NotImplemented. Reads of objects do not come here (`object`).

use async_trait::async_trait;
use s3s::{S3, S3Request, S3Response, S3Result, dto::*, s3_error};

use super::{copy, delete, door::Door, list, multipart, uploads, write};

type Answer<T> = S3Result<S3Response<T>>;

#[async_trait]
impl S3 for Door {
    async fn list_buckets(&self, req: S3Request<ListBucketsInput>) -> Answer<ListBucketsOutput> {
        list::list_buckets(self, &req)
    }

    async fn head_bucket(&self, req: S3Request<HeadBucketInput>) -> Answer<HeadBucketOutput> {
        self.readable(&req.input.bucket)?;
        let bucket_region = Some(self.node.region().to_owned());
        Ok(S3Response::new(HeadBucketOutput { bucket_region, ..Default::default() }))
    }

    async fn get_bucket_location(
        &self,
        req: S3Request<GetBucketLocationInput>,
    ) -> Answer<GetBucketLocationOutput> {
        self.readable(&req.input.bucket)?;
        // S3 says nothing where it means us-east-1.
        let region = Some(self.node.region()).filter(|region| *region != "us-east-1");
        let location_constraint = region.map(|region| BucketLocationConstraint::from(region.to_owned()));
        Ok(S3Response::new(GetBucketLocationOutput { location_constraint }))
    }

    async fn get_bucket_versioning(
        &self,
        req: S3Request<GetBucketVersioningInput>,
    ) -> Answer<GetBucketVersioningOutput> {
        self.readable(&req.input.bucket)?;
        Ok(S3Response::new(GetBucketVersioningOutput::default()))
    }

    async fn create_bucket(&self, req: S3Request<CreateBucketInput>) -> Answer<CreateBucketOutput> {
        match self.node.bucket(&req.input.bucket) {
            Some(_) => Err(s3_error!(BucketAlreadyOwnedByYou, "The bucket exists.")),
            None => Err(s3_error!(NotImplemented, "buckets are added in the node's configuration")),
        }
    }

    async fn list_objects(&self, req: S3Request<ListObjectsInput>) -> Answer<ListObjectsOutput> {
        list::list_objects(self, req.input).await
    }

    async fn list_objects_v2(&self, req: S3Request<ListObjectsV2Input>) -> Answer<ListObjectsV2Output> {
        list::list_objects_v2(self, req.input).await
    }

    async fn put_object(&self, req: S3Request<PutObjectInput>) -> Answer<PutObjectOutput> {
        write::put_object(self, req).await
    }

    async fn delete_object(&self, req: S3Request<DeleteObjectInput>) -> Answer<DeleteObjectOutput> {
        delete::delete_object(self, req.input).await
    }

    async fn delete_objects(&self, req: S3Request<DeleteObjectsInput>) -> Answer<DeleteObjectsOutput> {
        delete::delete_objects(self, req).await
    }

    async fn copy_object(&self, req: S3Request<CopyObjectInput>) -> Answer<CopyObjectOutput> {
        copy::copy_object(self, req.input).await
    }

    async fn create_multipart_upload(
        &self,
        req: S3Request<CreateMultipartUploadInput>,
    ) -> Answer<CreateMultipartUploadOutput> {
        multipart::create(self, req.input).await
    }

    async fn upload_part(&self, req: S3Request<UploadPartInput>) -> Answer<UploadPartOutput> {
        multipart::upload_part(self, req).await
    }

    async fn upload_part_copy(&self, req: S3Request<UploadPartCopyInput>) -> Answer<UploadPartCopyOutput> {
        multipart::upload_part_copy(self, req.input).await
    }

    async fn complete_multipart_upload(
        &self,
        req: S3Request<CompleteMultipartUploadInput>,
    ) -> Answer<CompleteMultipartUploadOutput> {
        multipart::complete(self, req.input).await
    }

    async fn abort_multipart_upload(
        &self,
        req: S3Request<AbortMultipartUploadInput>,
    ) -> Answer<AbortMultipartUploadOutput> {
        multipart::abort(self, req.input).await
    }

    async fn list_multipart_uploads(
        &self,
        req: S3Request<ListMultipartUploadsInput>,
    ) -> Answer<ListMultipartUploadsOutput> {
        uploads::list_uploads(self, req.input).await
    }

    async fn list_parts(&self, req: S3Request<ListPartsInput>) -> Answer<ListPartsOutput> {
        uploads::list_parts(self, req.input).await
    }
}
