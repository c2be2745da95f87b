//! The supported operations, which delegate to the files of their kind; all others are answered with NotImplemented.
//! Reads of objects are implemented in `object`.

use async_trait::async_trait;
use s3s::{S3, S3Request, S3Response, S3Result, dto::*, s3_error};

use super::{
    door::S3Backend,
    read::{list, questions},
    write::{copy, delete, multipart, put as write, tagging, uploads},
};

type S3OperationResult<T> = S3Result<S3Response<T>>;

#[async_trait]
impl S3 for S3Backend {
    async fn list_buckets(&self, req: S3Request<ListBucketsInput>) -> S3OperationResult<ListBucketsOutput> {
        list::list_buckets(self, &req)
    }

    async fn head_bucket(&self, req: S3Request<HeadBucketInput>) -> S3OperationResult<HeadBucketOutput> {
        self.readable(&req.input.bucket)?;
        let bucket_region = Some(self.node.region().to_owned());
        Ok(S3Response::new(HeadBucketOutput { bucket_region, ..Default::default() }))
    }

    async fn get_bucket_location(
        &self,
        req: S3Request<GetBucketLocationInput>,
    ) -> S3OperationResult<GetBucketLocationOutput> {
        self.readable(&req.input.bucket)?;
        // S3 omits the region us-east-1.
        let region = Some(self.node.region()).filter(|region| *region != "us-east-1");
        let location_constraint = region.map(|region| BucketLocationConstraint::from(region.to_owned()));
        Ok(S3Response::new(GetBucketLocationOutput { location_constraint }))
    }

    async fn get_bucket_versioning(
        &self,
        req: S3Request<GetBucketVersioningInput>,
    ) -> S3OperationResult<GetBucketVersioningOutput> {
        self.readable(&req.input.bucket)?;
        Ok(S3Response::new(GetBucketVersioningOutput::default()))
    }

    async fn create_bucket(
        &self,
        req: S3Request<CreateBucketInput>,
    ) -> S3OperationResult<CreateBucketOutput> {
        match self.node.bucket(&req.input.bucket) {
            Some(_) => Err(s3_error!(BucketAlreadyOwnedByYou, "The bucket exists.")),
            None => Err(s3_error!(NotImplemented, "buckets are added in the node's configuration")),
        }
    }

    async fn list_objects(&self, req: S3Request<ListObjectsInput>) -> S3OperationResult<ListObjectsOutput> {
        list::list_objects(self, req.input).await
    }

    async fn list_objects_v2(
        &self,
        req: S3Request<ListObjectsV2Input>,
    ) -> S3OperationResult<ListObjectsV2Output> {
        list::list_objects_v2(self, req.input).await
    }

    async fn put_object(&self, req: S3Request<PutObjectInput>) -> S3OperationResult<PutObjectOutput> {
        write::put_object(self, req).await
    }

    async fn delete_object(
        &self,
        req: S3Request<DeleteObjectInput>,
    ) -> S3OperationResult<DeleteObjectOutput> {
        delete::delete_object(self, req.input).await
    }

    async fn delete_objects(
        &self,
        req: S3Request<DeleteObjectsInput>,
    ) -> S3OperationResult<DeleteObjectsOutput> {
        delete::delete_objects(self, req).await
    }

    async fn copy_object(&self, req: S3Request<CopyObjectInput>) -> S3OperationResult<CopyObjectOutput> {
        copy::copy_object(self, req).await
    }

    async fn create_multipart_upload(
        &self,
        req: S3Request<CreateMultipartUploadInput>,
    ) -> S3OperationResult<CreateMultipartUploadOutput> {
        multipart::create(self, req.input).await
    }

    async fn upload_part(&self, req: S3Request<UploadPartInput>) -> S3OperationResult<UploadPartOutput> {
        multipart::upload_part(self, req).await
    }

    async fn upload_part_copy(
        &self,
        req: S3Request<UploadPartCopyInput>,
    ) -> S3OperationResult<UploadPartCopyOutput> {
        multipart::upload_part_copy(self, req).await
    }

    async fn complete_multipart_upload(
        &self,
        req: S3Request<CompleteMultipartUploadInput>,
    ) -> S3OperationResult<CompleteMultipartUploadOutput> {
        multipart::complete(self, req.input).await
    }

    async fn abort_multipart_upload(
        &self,
        req: S3Request<AbortMultipartUploadInput>,
    ) -> S3OperationResult<AbortMultipartUploadOutput> {
        multipart::abort(self, req.input).await
    }

    async fn list_multipart_uploads(
        &self,
        req: S3Request<ListMultipartUploadsInput>,
    ) -> S3OperationResult<ListMultipartUploadsOutput> {
        uploads::list_uploads(self, req.input).await
    }

    async fn list_parts(&self, req: S3Request<ListPartsInput>) -> S3OperationResult<ListPartsOutput> {
        uploads::list_parts(self, req.input).await
    }

    async fn list_object_versions(
        &self,
        req: S3Request<ListObjectVersionsInput>,
    ) -> S3OperationResult<ListObjectVersionsOutput> {
        list::list_object_versions(self, req.input).await
    }

    async fn get_object_tagging(
        &self,
        req: S3Request<GetObjectTaggingInput>,
    ) -> S3OperationResult<GetObjectTaggingOutput> {
        tagging::get(self, req.input).await
    }

    async fn put_object_tagging(
        &self,
        req: S3Request<PutObjectTaggingInput>,
    ) -> S3OperationResult<PutObjectTaggingOutput> {
        tagging::put(self, req.input).await
    }

    async fn delete_object_tagging(
        &self,
        req: S3Request<DeleteObjectTaggingInput>,
    ) -> S3OperationResult<DeleteObjectTaggingOutput> {
        tagging::delete(self, req.input).await
    }

    async fn get_object_attributes(
        &self,
        req: S3Request<GetObjectAttributesInput>,
    ) -> S3OperationResult<GetObjectAttributesOutput> {
        questions::object_attributes(self, req.input).await
    }

    async fn get_object_acl(
        &self,
        req: S3Request<GetObjectAclInput>,
    ) -> S3OperationResult<GetObjectAclOutput> {
        questions::object_acl(self, req.input).await
    }

    async fn get_bucket_acl(
        &self,
        req: S3Request<GetBucketAclInput>,
    ) -> S3OperationResult<GetBucketAclOutput> {
        self.readable(&req.input.bucket)?;
        let grants = Some(questions::grants());
        Ok(S3Response::new(GetBucketAclOutput { grants, owner: Some(questions::owner()) }))
    }

    async fn get_bucket_logging(
        &self,
        req: S3Request<GetBucketLoggingInput>,
    ) -> S3OperationResult<GetBucketLoggingOutput> {
        self.readable(&req.input.bucket)?;
        Ok(S3Response::new(GetBucketLoggingOutput::default()))
    }

    async fn get_bucket_notification_configuration(
        &self,
        req: S3Request<GetBucketNotificationConfigurationInput>,
    ) -> S3OperationResult<GetBucketNotificationConfigurationOutput> {
        self.readable(&req.input.bucket)?;
        Ok(S3Response::new(GetBucketNotificationConfigurationOutput::default()))
    }

    async fn get_bucket_accelerate_configuration(
        &self,
        req: S3Request<GetBucketAccelerateConfigurationInput>,
    ) -> S3OperationResult<GetBucketAccelerateConfigurationOutput> {
        self.readable(&req.input.bucket)?;
        Ok(S3Response::new(GetBucketAccelerateConfigurationOutput::default()))
    }

    async fn get_bucket_request_payment(
        &self,
        req: S3Request<GetBucketRequestPaymentInput>,
    ) -> S3OperationResult<GetBucketRequestPaymentOutput> {
        self.readable(&req.input.bucket)?;
        let payer = Some(Payer::from_static(Payer::BUCKET_OWNER));
        Ok(S3Response::new(GetBucketRequestPaymentOutput { payer }))
    }

    async fn get_bucket_encryption(
        &self,
        req: S3Request<GetBucketEncryptionInput>,
    ) -> S3OperationResult<GetBucketEncryptionOutput> {
        let code = "ServerSideEncryptionConfigurationNotFoundError";
        let message = "The server side encryption configuration was not found";
        questions::none(self, &req.input.bucket, code, message)
    }

    async fn get_bucket_policy(
        &self,
        req: S3Request<GetBucketPolicyInput>,
    ) -> S3OperationResult<GetBucketPolicyOutput> {
        let message = "The bucket policy does not exist";
        questions::none(self, &req.input.bucket, "NoSuchBucketPolicy", message)
    }

    async fn get_bucket_policy_status(
        &self,
        req: S3Request<GetBucketPolicyStatusInput>,
    ) -> S3OperationResult<GetBucketPolicyStatusOutput> {
        let message = "The bucket policy does not exist";
        questions::none(self, &req.input.bucket, "NoSuchBucketPolicy", message)
    }

    async fn get_bucket_lifecycle_configuration(
        &self,
        req: S3Request<GetBucketLifecycleConfigurationInput>,
    ) -> S3OperationResult<GetBucketLifecycleConfigurationOutput> {
        let message = "The lifecycle configuration does not exist";
        questions::none(self, &req.input.bucket, "NoSuchLifecycleConfiguration", message)
    }

    async fn get_bucket_cors(
        &self,
        req: S3Request<GetBucketCorsInput>,
    ) -> S3OperationResult<GetBucketCorsOutput> {
        let message = "The CORS configuration does not exist";
        questions::none(self, &req.input.bucket, "NoSuchCORSConfiguration", message)
    }

    async fn get_bucket_tagging(
        &self,
        req: S3Request<GetBucketTaggingInput>,
    ) -> S3OperationResult<GetBucketTaggingOutput> {
        questions::none(self, &req.input.bucket, "NoSuchTagSet", "The TagSet does not exist")
    }

    async fn get_bucket_website(
        &self,
        req: S3Request<GetBucketWebsiteInput>,
    ) -> S3OperationResult<GetBucketWebsiteOutput> {
        let message = "The specified bucket does not have a website configuration";
        questions::none(self, &req.input.bucket, "NoSuchWebsiteConfiguration", message)
    }

    async fn get_bucket_replication(
        &self,
        req: S3Request<GetBucketReplicationInput>,
    ) -> S3OperationResult<GetBucketReplicationOutput> {
        let code = "ReplicationConfigurationNotFoundError";
        questions::none(self, &req.input.bucket, code, "The replication configuration was not found")
    }

    async fn get_bucket_ownership_controls(
        &self,
        req: S3Request<GetBucketOwnershipControlsInput>,
    ) -> S3OperationResult<GetBucketOwnershipControlsOutput> {
        let code = "OwnershipControlsNotFoundError";
        questions::none(self, &req.input.bucket, code, "The bucket ownership controls were not found")
    }

    async fn get_public_access_block(
        &self,
        req: S3Request<GetPublicAccessBlockInput>,
    ) -> S3OperationResult<GetPublicAccessBlockOutput> {
        let code = "NoSuchPublicAccessBlockConfiguration";
        let message = "The public access block configuration was not found";
        questions::none(self, &req.input.bucket, code, message)
    }

    async fn get_object_lock_configuration(
        &self,
        req: S3Request<GetObjectLockConfigurationInput>,
    ) -> S3OperationResult<GetObjectLockConfigurationOutput> {
        let code = "ObjectLockConfigurationNotFoundError";
        let message = "Object Lock configuration does not exist for this bucket";
        questions::none(self, &req.input.bucket, code, message)
    }
}
