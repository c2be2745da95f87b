//! The operations that the door serves. Each is in the file of its kind; those that are missing are answered with
//! NotImplemented. Reads of objects do not come here (`object`).

use async_trait::async_trait;
use s3s::{S3, S3Request, S3Response, S3Result, dto::*, s3_error};

use super::{
    door::Door,
    read::{list, questions},
    write::{copy, delete, multipart, put as write, tagging, uploads},
};

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

    async fn list_object_versions(
        &self,
        req: S3Request<ListObjectVersionsInput>,
    ) -> Answer<ListObjectVersionsOutput> {
        list::list_object_versions(self, req.input).await
    }

    async fn get_object_tagging(
        &self,
        req: S3Request<GetObjectTaggingInput>,
    ) -> Answer<GetObjectTaggingOutput> {
        tagging::get(self, req.input).await
    }

    async fn put_object_tagging(
        &self,
        req: S3Request<PutObjectTaggingInput>,
    ) -> Answer<PutObjectTaggingOutput> {
        tagging::put(self, req.input).await
    }

    async fn delete_object_tagging(
        &self,
        req: S3Request<DeleteObjectTaggingInput>,
    ) -> Answer<DeleteObjectTaggingOutput> {
        tagging::delete(self, req.input).await
    }

    async fn get_object_attributes(
        &self,
        req: S3Request<GetObjectAttributesInput>,
    ) -> Answer<GetObjectAttributesOutput> {
        questions::object_attributes(self, req.input).await
    }

    async fn get_object_acl(&self, req: S3Request<GetObjectAclInput>) -> Answer<GetObjectAclOutput> {
        questions::object_acl(self, req.input).await
    }

    async fn get_bucket_acl(&self, req: S3Request<GetBucketAclInput>) -> Answer<GetBucketAclOutput> {
        self.readable(&req.input.bucket)?;
        let grants = Some(questions::grants());
        Ok(S3Response::new(GetBucketAclOutput { grants, owner: Some(questions::owner()) }))
    }

    async fn get_bucket_logging(
        &self,
        req: S3Request<GetBucketLoggingInput>,
    ) -> Answer<GetBucketLoggingOutput> {
        self.readable(&req.input.bucket)?;
        Ok(S3Response::new(GetBucketLoggingOutput::default()))
    }

    async fn get_bucket_notification_configuration(
        &self,
        req: S3Request<GetBucketNotificationConfigurationInput>,
    ) -> Answer<GetBucketNotificationConfigurationOutput> {
        self.readable(&req.input.bucket)?;
        Ok(S3Response::new(GetBucketNotificationConfigurationOutput::default()))
    }

    async fn get_bucket_accelerate_configuration(
        &self,
        req: S3Request<GetBucketAccelerateConfigurationInput>,
    ) -> Answer<GetBucketAccelerateConfigurationOutput> {
        self.readable(&req.input.bucket)?;
        Ok(S3Response::new(GetBucketAccelerateConfigurationOutput::default()))
    }

    async fn get_bucket_request_payment(
        &self,
        req: S3Request<GetBucketRequestPaymentInput>,
    ) -> Answer<GetBucketRequestPaymentOutput> {
        self.readable(&req.input.bucket)?;
        let payer = Some(Payer::from_static(Payer::BUCKET_OWNER));
        Ok(S3Response::new(GetBucketRequestPaymentOutput { payer }))
    }

    async fn get_bucket_encryption(
        &self,
        req: S3Request<GetBucketEncryptionInput>,
    ) -> Answer<GetBucketEncryptionOutput> {
        let code = "ServerSideEncryptionConfigurationNotFoundError";
        let message = "The server side encryption configuration was not found";
        questions::none(self, &req.input.bucket, code, message)
    }

    async fn get_bucket_policy(&self, req: S3Request<GetBucketPolicyInput>) -> Answer<GetBucketPolicyOutput> {
        let message = "The bucket policy does not exist";
        questions::none(self, &req.input.bucket, "NoSuchBucketPolicy", message)
    }

    async fn get_bucket_policy_status(
        &self,
        req: S3Request<GetBucketPolicyStatusInput>,
    ) -> Answer<GetBucketPolicyStatusOutput> {
        let message = "The bucket policy does not exist";
        questions::none(self, &req.input.bucket, "NoSuchBucketPolicy", message)
    }

    async fn get_bucket_lifecycle_configuration(
        &self,
        req: S3Request<GetBucketLifecycleConfigurationInput>,
    ) -> Answer<GetBucketLifecycleConfigurationOutput> {
        let message = "The lifecycle configuration does not exist";
        questions::none(self, &req.input.bucket, "NoSuchLifecycleConfiguration", message)
    }

    async fn get_bucket_cors(&self, req: S3Request<GetBucketCorsInput>) -> Answer<GetBucketCorsOutput> {
        let message = "The CORS configuration does not exist";
        questions::none(self, &req.input.bucket, "NoSuchCORSConfiguration", message)
    }

    async fn get_bucket_tagging(
        &self,
        req: S3Request<GetBucketTaggingInput>,
    ) -> Answer<GetBucketTaggingOutput> {
        questions::none(self, &req.input.bucket, "NoSuchTagSet", "The TagSet does not exist")
    }

    async fn get_bucket_website(
        &self,
        req: S3Request<GetBucketWebsiteInput>,
    ) -> Answer<GetBucketWebsiteOutput> {
        let message = "The specified bucket does not have a website configuration";
        questions::none(self, &req.input.bucket, "NoSuchWebsiteConfiguration", message)
    }

    async fn get_bucket_replication(
        &self,
        req: S3Request<GetBucketReplicationInput>,
    ) -> Answer<GetBucketReplicationOutput> {
        let code = "ReplicationConfigurationNotFoundError";
        questions::none(self, &req.input.bucket, code, "The replication configuration was not found")
    }

    async fn get_bucket_ownership_controls(
        &self,
        req: S3Request<GetBucketOwnershipControlsInput>,
    ) -> Answer<GetBucketOwnershipControlsOutput> {
        let code = "OwnershipControlsNotFoundError";
        questions::none(self, &req.input.bucket, code, "The bucket ownership controls were not found")
    }

    async fn get_public_access_block(
        &self,
        req: S3Request<GetPublicAccessBlockInput>,
    ) -> Answer<GetPublicAccessBlockOutput> {
        let code = "NoSuchPublicAccessBlockConfiguration";
        let message = "The public access block configuration was not found";
        questions::none(self, &req.input.bucket, code, message)
    }

    async fn get_object_lock_configuration(
        &self,
        req: S3Request<GetObjectLockConfigurationInput>,
    ) -> Answer<GetObjectLockConfigurationOutput> {
        let code = "ObjectLockConfigurationNotFoundError";
        let message = "Object Lock configuration does not exist for this bucket";
        questions::none(self, &req.input.bucket, code, message)
    }
}
