//! Uploads by HTML form: verified, and stored by the origin or the protocol layer.

use chrono::Utc;
use http::{HeaderMap, request::Parts};
use s3s::{Body, HttpResponse, S3Result};

use super::{Answer, Refusal, Shared, finish, is_error};
use crate::{
    access::Action,
    s3::{
        auth::authenticate::Caller,
        authorize::{Rights, note_operation},
        forward::Forwarded,
        operation::Operation,
        wire::form::multipart::is_form,
        wire::{
            error,
            request_id::RequestId,
            target::{Query, Target},
        },
        write::post_form::{PostForm, Success},
    },
};

/// What a form names, for errors and the log.
struct Named {
    target: Target,
    access_key: Option<String>,
}

impl Shared {
    /// The bucket that a form is sent to; `None` if the request is of another kind.
    pub(super) fn form_bucket(parts: &Parts, target: &Target) -> S3Result<Option<(String, Operation)>> {
        match target {
            Target::Bucket { bucket } if is_form(&parts.method, &parts.headers) => {
                let operation = Operation::of(&parts.method, target, &Query::of(&parts.uri), &parts.headers)?;
                Ok((operation.name == "PostObject").then(|| (bucket.clone(), operation)))
            }
            _ => Ok(None),
        }
    }

    /// Answers an upload by form to a bucket.
    pub(super) async fn handle_form(
        &self,
        (bucket, operation): (String, Operation),
        headers: HeaderMap,
        body: Body,
        id: RequestId,
    ) -> HttpResponse {
        note_operation(operation.name);
        let target = Target::Bucket { bucket: bucket.clone() };
        let mut named = Named { target, access_key: None };
        let answered = self.answer_form(&bucket, operation, headers, body, &mut named).await;
        let mut answer = match answered {
            Ok(Answer::OfOrigin(mut answer)) => {
                if is_error(&answer) {
                    answer.extensions_mut().insert(Refusal::unread(named.target));
                }
                answer
            }
            Ok(Answer::Ours(answer)) => finish(answer, &named.target, id).await,
            Err(error) => finish(error::to_answer(&error), &named.target, id).await,
        };
        if let Some(refusal) = answer.extensions_mut().get_mut::<Refusal>() {
            refusal.access_key = named.access_key;
        }
        answer
    }

    async fn answer_form(
        &self,
        bucket_name: &str,
        operation: Operation,
        headers: HeaderMap,
        body: Body,
        named: &mut Named,
    ) -> S3Result<Answer> {
        let form = PostForm::read(&headers, body).await?;
        named.access_key = form.named_access_key().map(str::to_owned);
        if let Some(key) = form.key() {
            named.target = Target::Object { bucket: bucket_name.to_owned(), key: key.to_owned() };
        }
        let now = Utc::now();
        let access_key = form.authenticate(&self.node.keys(), now)?;
        let form = form.check(bucket_name, now)?;
        let rights = Rights { node: &self.node, access_key: access_key.as_deref() };
        rights.check_key(bucket_name, &form.key, Action::Write)?;
        let bucket = self.node.bucket(bucket_name).ok_or_else(error::no_such_bucket)?;

        let caller = Caller { access_key, chunks: None };
        if let Some(endpoint) = bucket.reader.origin().s3() {
            let (target, method) = (&named.target, http::Method::POST);
            let query = Query::default();
            let request = Forwarded { bucket, endpoint, operation, target, query, method, headers, caller };
            return self.forwarder.forward_form(&request, form).await.map(Answer::OfOrigin);
        }
        let put = form.put_head(bucket_name)?;
        let success = Success::of(&form.fields);
        let key = form.key.clone();
        let answer = self.answer_by_protocol(put, form.file.into_body(), Query::default(), caller).await?;
        Ok(Answer::Ours(match is_error(&answer) {
            true => answer,
            false => success.answer(bucket_name, &key, answer.headers().clone()),
        }))
    }
}
