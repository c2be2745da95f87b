//! Receives the pieces of planned fetches from disk, peers or the origin, and lands their flights.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use object_store::{GetResult, GetResultPayload, path::Path};

use crate::{
    Error, Result,
    page_cache::PagePiece,
    peers::PeerSource,
    read::{
        byte_source::ByteSource,
        fetcher::Fetcher,
        opened_file::OpenedFile,
        page_assembler::{ExpectedPiece, FetchRun, PageAssembler},
        paged::PagedObject,
        requests::{to_origin::RetryState, to_peers::PeerMiss},
    },
};

impl Fetcher {
    /// Reads blocks from disk, or fetches them from the origin if the copy on disk is damaged.
    pub(super) async fn load(self: Arc<Self>, object: PagedObject, expected: ExpectedPiece) {
        let key = object.key(expected.page);
        let flight = expected.flight.clone();
        let blocks = object.layout.block_of(flight.start())..object.layout.block_of(flight.end() - 1) + 1;
        let Some(bytes) = self.cache.read_disk(&key, blocks, flight.len()).await else {
            // Fetch from the origin, not from peers: requests from peers may have joined this flight, since it was
            // started as one that asks no peer.
            let route = self.route(&object, object.offset(expected.page)).without_peers();
            let fetch = self.fetch(object, FetchRun { pieces: vec![expected], route }, None);
            // Boxed, so that reads from disk do not move the large future of a fetch.
            return Box::pin(fetch).await;
        };

        self.counters.bytes_disk.add(bytes.len() as u64);
        flight.set_source(ByteSource::Disk);
        let piece = PagePiece::new(flight.start(), bytes, expected.charge, object.known.in_use.clone());
        self.cache.insert_read(key, &piece);
        self.flights.land(&key, &flight);
        flight.finish(piece);
    }

    /// Fetches the pieces of a run, from `answer` if a response has already begun. Reports failures to their waiters.
    pub(super) async fn fetch(
        self: Arc<Self>,
        object: PagedObject,
        mut run: FetchRun,
        answer: Option<GetResult>,
    ) {
        let peers = std::mem::take(&mut run.route.peers);
        let mut pieces = PageAssembler::new(&self.cache, &self.flights, &self.counters, &object, run);
        if let Err(error) = self.receive(&mut pieces, peers, answer).await {
            pieces.fail(&error);
        }
    }

    /// Receives the pieces from `answer`, or requests them from peers and then from the origin. After a partial
    /// failure, requests only the rest.
    async fn receive(
        &self,
        pieces: &mut PageAssembler<'_>,
        peers: Vec<PeerSource>,
        mut answer: Option<GetResult>,
    ) -> Result<()> {
        if !peers.is_empty() && self.receive_from_peers(pieces, peers).await? {
            return Ok(());
        }

        let mut retry_state = self.requests.retry_state();
        loop {
            match self.receive_from_origin(pieces, &mut retry_state, answer.take()).await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    pieces.take_back();
                    self.requests.before_retry(&mut retry_state, error).await?;
                }
            }
        }
    }

    /// Receives the pieces from one peer after another. Returns `false` if the rest must come from the origin.
    async fn receive_from_peers(
        &self,
        pieces: &mut PageAssembler<'_>,
        mut peers: Vec<PeerSource>,
    ) -> Result<bool> {
        let Some(cluster) = &self.cluster else { return Ok(false) };
        let object = pieces.object();
        let end = pieces.end();
        pieces.set_from_peer(true);

        loop {
            let origin_latency = self.requests.cost.latency();
            let opened = cluster.open(object, &mut peers, pieces.position()..end, origin_latency).await;
            let opened = opened.map_err(|_| self.requests.changed(&object.known))?;
            let Some(mut stream) = opened else { break };

            while pieces.position() < end {
                match stream.next().await {
                    Ok(run) => {
                        self.counters.bytes_peer.add(run.len() as u64);
                        pieces.push(run);
                    }
                    Err(PeerMiss::Unavailable) => break,
                    Err(PeerMiss::Changed) => return Err(self.requests.changed(&object.known)),
                }
            }

            if pieces.position() == end {
                pieces.complete();
                return Ok(true);
            }
            peers.retain(|source| source.peer != stream.peer);
        }

        pieces.set_from_peer(false);
        Ok(false)
    }

    /// Makes one attempt to receive the remaining pieces from the origin: from `answer`, or from a new request.
    async fn receive_from_origin(
        &self,
        pieces: &mut PageAssembler<'_>,
        retry_state: &mut RetryState,
        answer: Option<GetResult>,
    ) -> Result<()> {
        let start = pieces.position();
        let end = pieces.end();
        let known = &pieces.object().known;
        let path = &known.path;
        let answer = match answer {
            Some(answer) => answer,
            None => {
                let asked = Instant::now();
                let get = self.requests.get_version(known, start..end);
                let answer = self.requests.with_deadline(path, retry_state, get).await?;
                self.requests.cost.note_latency(asked.elapsed());
                answer
            }
        };

        // The response to a request that was sent before the size was known may begin within a block, and contain
        // more bytes than there was memory for.
        let mut unneeded = start.saturating_sub(answer.range.start) as usize;
        let brings_more = answer.range.end > end;
        let mut chunks = match answer.payload {
            GetResultPayload::File(file, _) => return self.read_file(pieces, file).await,
            GetResultPayload::Stream(chunks) => chunks,
        };

        let answered = Instant::now();
        let truncated = |received: u64| Error::Truncated {
            path: path.to_string(),
            start,
            end,
            expected: end - start,
            received,
        };

        while let Some(mut chunk) = self.next_chunk(path, retry_state, &mut chunks).await? {
            let skipped = chunk.split_to(unneeded.min(chunk.len())).len();
            unneeded -= skipped;
            self.counters.bytes_origin.add(skipped as u64);
            let missing = (end - pieces.position()) as usize;
            if brings_more {
                chunk.truncate(missing);
            }
            if chunk.len() > missing {
                return Err(truncated(pieces.position() - start + chunk.len() as u64));
            }

            self.counters.bytes_origin.add(chunk.len() as u64);
            pieces.push(chunk);
            self.requests.progress(retry_state);

            if brings_more && pieces.position() == end {
                break;
            }
        }

        let received = pieces.position() - start;
        if received < end - start {
            return Err(truncated(received));
        }

        self.requests.cost.note_transfer(received, answered.elapsed());
        pieces.complete();
        Ok(())
    }

    /// Returns the next chunk of a response; `None` at its end. Fails at the deadline of `retry_state`.
    async fn next_chunk(
        &self,
        path: &Path,
        retry_state: &RetryState,
        chunks: &mut BoxStream<'static, object_store::Result<Bytes>>,
    ) -> Result<Option<Bytes>> {
        let next = async {
            let chunk = chunks.next().await.transpose();
            chunk.map_err(|error| Error::from_origin(path.as_ref(), error))
        };
        self.requests.with_deadline(path, retry_state, next).await
    }

    /// Reads whole pieces of a local file. A file can be written in place while it is read, so a piece counts only if
    /// the file is unchanged after reading it.
    async fn read_file(&self, pieces: &mut PageAssembler<'_>, file: std::fs::File) -> Result<()> {
        let known = &pieces.object().known;
        let file = OpenedFile::new(file, &known.path)?;
        if !file.is(&known.meta) {
            return Err(self.requests.changed(known));
        }

        while let Some((start, len)) = pieces.next_piece() {
            let bytes =
                file.read(start, len).await.map_err(|error| self.requests.if_changed(known, error))?;
            self.counters.bytes_origin.add(bytes.len() as u64);
            pieces.push_piece(bytes);
        }

        Ok(())
    }
}
