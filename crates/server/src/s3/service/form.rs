//! Uploads by HTML form: verified here, and stored by the origin or the protocol layer.

use chrono::Utc;
use http::{HeaderMap, request::Parts};
use s3s::{Body, HttpResponse, S3Result};

use super::{DoorResponse, RefusedRequest, S3DoorInner, finish, is_error};
use crate::{
    access::Action,
    s3::{
        auth::authenticate::Caller,
        authorize::{AccessCheck, note_operation},
        forward::ForwardRequest,
        operation::S3Operation,
        wire::{
            error,
            form::multipart::is_form,
            request_id::RequestId,
            target::{QueryParameters, RequestTarget},
        },
        write::post_form::{PostForm, SuccessAction},
    },
};

/// Target of a form, for error messages and the log.
struct FormTarget {
    target: RequestTarget,
    access_key: Option<String>,
}

impl S3DoorInner {
    /// Returns the target bucket of a form; `None` for other requests.
    pub(super) fn form_bucket(
        parts: &Parts,
        target: &RequestTarget,
    ) -> S3Result<Option<(String, S3Operation)>> {
        match target {
            RequestTarget::Bucket { bucket } if is_form(&parts.method, &parts.headers) => {
                let operation =
                    S3Operation::of(&parts.method, target, &QueryParameters::of(&parts.uri), &parts.headers)?;
                Ok((operation.name == "PostObject").then(|| (bucket.clone(), operation)))
            }
            _ => Ok(None),
        }
    }

    /// Answers an upload by form to a bucket.
    pub(super) async fn handle_form(
        &self,
        (bucket, operation): (String, S3Operation),
        headers: HeaderMap,
        body: Body,
        id: RequestId,
    ) -> HttpResponse {
        note_operation(operation.name);
        let target = RequestTarget::Bucket { bucket: bucket.clone() };
        let mut named = FormTarget { target, access_key: None };
        let answered = self.answer_form(&bucket, operation, headers, body, &mut named).await;
        let mut answer = match answered {
            Ok(DoorResponse::OfOrigin(mut answer)) => {
                if is_error(&answer) {
                    answer.extensions_mut().insert(RefusedRequest::unread(named.target));
                }
                answer
            }
            Ok(DoorResponse::Ours(answer)) => finish(answer, &named.target, id).await,
            Err(error) => finish(error::to_answer(&error), &named.target, id).await,
        };

        if let Some(refusal) = answer.extensions_mut().get_mut::<RefusedRequest>() {
            refusal.access_key = named.access_key;
        }
        answer
    }

    async fn answer_form(
        &self,
        bucket_name: &str,
        operation: S3Operation,
        headers: HeaderMap,
        body: Body,
        named: &mut FormTarget,
    ) -> S3Result<DoorResponse> {
        let form = PostForm::read(&headers, body).await?;
        named.access_key = form.named_access_key().map(str::to_owned);
        if let Some(key) = form.key() {
            named.target = RequestTarget::Object { bucket: bucket_name.to_owned(), key: key.to_owned() };
        }
        let now = Utc::now();
        let access_key = form.authenticate(&self.node.keys(), now)?;
        let form = form.check(bucket_name, now)?;
        let rights = AccessCheck { node: &self.node, access_key: access_key.as_deref() };
        rights.check_key(bucket_name, &form.key, Action::Write)?;
        let bucket = self.node.bucket(bucket_name).ok_or_else(error::no_such_bucket)?;

        let caller = Caller { access_key, ..Caller::default() };
        if let Some(endpoint) = bucket.reader.origin().s3() {
            let target = &named.target;
            let method = http::Method::POST;
            let query = QueryParameters::default();
            let request =
                ForwardRequest { bucket, endpoint, operation, target, query, method, headers, caller };
            return self.forwarder.forward_form(&request, form).await.map(DoorResponse::OfOrigin);
        }

        let put = form.put_head(bucket_name)?;
        let success = SuccessAction::of(&form.fields);
        let key = form.key.clone();
        let answer =
            self.answer_by_protocol(put, form.file.into_body(), QueryParameters::default(), caller).await?;
        Ok(DoorResponse::Ours(if is_error(&answer) {
            answer
        } else {
            success.answer(bucket_name, &key, answer.headers().clone())
        }))
    }
}
