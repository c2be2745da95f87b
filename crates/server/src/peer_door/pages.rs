//! Page connections: one task per connection answers its requests one after another.

use std::{io, sync::Arc};

use axum::{
    Extension,
    body::Bytes,
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{CONNECTION, UPGRADE},
    },
    response::{IntoResponse, Response},
};
use futures::StreamExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use stylobate_storage::{BlockRuns, PeerRead};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::PeerContext;
use crate::cluster::{PAGES_PROTOCOL, PageRequest, PageRequests, RequestSignature, RunFrames, status_of};

/// Slot that hands the upgrade of a connection to the connection's task.
#[derive(Clone, Default)]
pub(crate) struct UpgradeSlot(Arc<Mutex<Option<PageUpgrade>>>);

struct PageUpgrade {
    upgraded: OnUpgrade,
    /// Signature of the upgrade request.
    session: RequestSignature,
}

/// Accepts an upgrade.
pub(super) async fn upgrade(
    State(context): State<Arc<PeerContext>>,
    Extension(signature): Extension<RequestSignature>,
    Extension(slot): Extension<UpgradeSlot>,
    mut request: Request,
) -> Response {
    if request.headers().get(UPGRADE).is_none_or(|protocol| *protocol != PAGES_PROTOCOL) {
        return context.refuse(signature, StatusCode::UPGRADE_REQUIRED);
    }
    let upgraded = hyper::upgrade::on(&mut request);
    *slot.0.lock() = Some(PageUpgrade { upgraded, session: signature });

    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(PAGES_PROTOCOL));
    context.cluster.key().sign_answer(&mut headers, signature, StatusCode::SWITCHING_PROTOCOLS, &[]);
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

impl PeerContext {
    /// Answers the requests on a connection after its HTTP upgrade, if it had one, until the connection ends. After
    /// `stop`, it ends with the answer in progress.
    pub(super) async fn serve_pages(&self, slot: &UpgradeSlot, stop: &CancellationToken) -> io::Result<()> {
        let upgrade = slot.0.lock().take();
        let Some(PageUpgrade { upgraded, session }) = upgrade else { return Ok(()) };
        let stream = TokioIo::new(upgraded.await.map_err(io::Error::other)?);
        let mut requests = PageRequests::new(stream, self.cluster.key().clone(), session);

        while let Some(Some(request)) = stop.run_until_cancelled(requests.next()).await.transpose()? {
            self.answer(&mut requests, &request).await?;
        }
        Ok(())
    }

    async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        requests: &mut PageRequests<S>,
        request: &PageRequest,
    ) -> io::Result<()> {
        let mut frames = RunFrames::new(self.cluster.key().clone(), request.signature);
        let mut runs = match requests.until_peer_closes(self.read(&request.content)).await? {
            Ok(runs) => runs,
            Err(status) => return requests.write(frames.end(status), Bytes::new()).await,
        };

        while let Some(run) = requests.until_peer_closes(runs.next()).await? {
            match run {
                Ok(run) => requests.write(frames.head(&run), run.bytes).await?,
                Err(error) => return requests.write(frames.end(status_of(&error)), Bytes::new()).await,
            }
        }
        Ok(())
    }

    async fn read(&self, content: &[u8]) -> Result<BlockRuns, StatusCode> {
        let (request, reader) = self.parse::<PeerRead>(content)?;
        reader.read_for_peer(request.payload).await.map_err(|error| status_of(&error))
    }
}
