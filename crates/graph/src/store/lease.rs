//! Lease of a running load or compaction. Protects files that no version refers to yet from garbage collection,
//! regardless of their age; that of a compaction also the version that it started from, and all later ones.
//!
//! Machine clocks can be set, even backwards, so none decides the age of a lease:
//!
//! - The holder measures the time since the last renewal with [`SteadyInstant`].
//! - Others compare two times assigned by the store: that of the lease, and that of a lease that they have just put.
//! - If this machine's clock dates the store's objects, their times jump with it: the holder checks for jumps every few
//!   seconds, and renews the lease after one.

use std::{sync::Arc, time::Duration};

use object_store::{ObjectMeta, ObjectStoreExt, PutPayload, path::Path};
use parking_lot::Mutex;
use stylobate_storage::{Error as StorageError, ReadThrough, SteadyInstant};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use super::{
    names::{now_ms, uuid7},
    opened::StoreCore,
};
use crate::{Error, Result};

/// Folder of leases.
pub(super) const FOLDER: &str = "leases";
/// Extension of a compaction's lease, followed by the version that is compacted.
const COMPACTION: &str = "compaction-";
/// Extension of a request for a pause between commits.
const TURN: &str = "turn";
/// Time without a renewal after which a lease expires: its holder counts as dead.
const TERM: Duration = Duration::from_secs(60 * 60);
/// Time since the last renewal for which the holder relies on the lease: shorter than [`TERM`], since requests take
/// time and clocks differ in speed.
const HOLDER_TERM: Duration = Duration::from_secs(30 * 60);
/// Maximum time between renewals. A later renewal may be too late, and does not count.
const MAX_RENEWAL_GAP: Duration = Duration::from_secs(45 * 60);
/// Renewal interval.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Interval of the holder's checks for a due renewal, and for a change of this machine's clock.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum change of this machine's clock without a renewal.
const MAX_STEP: Duration = Duration::from_secs(60);

/// Lease that is renewed as long as it is held. Its file is removed by [`Self::end`], or after a drop.
pub(crate) struct Lease {
    path: Path,
    term: Arc<Mutex<LeaseTerm>>,
    /// Requests for a renewal now. The lease is released once it is closed.
    renewals: mpsc::Sender<RenewalRequest>,
    keeper: JoinHandle<()>,
}

/// Request for a renewal, which is answered once it was sent and completed or failed.
type RenewalRequest = oneshot::Sender<()>;

struct LeaseFile {
    store: ReadThrough,
    path: Path,
}

/// Holder's view of its lease. Decides without reading a clock.
#[derive(Debug)]
struct LeaseTerm {
    /// Time when the last renewal was sent.
    renewed: SteadyInstant,
    /// This machine's clock at that time, in milliseconds since 1970.
    clock_ms: i64,
    /// True once the lease may have expired: later renewals do not count.
    may_have_ended: bool,
}

impl LeaseTerm {
    fn new(sent: SteadyInstant, clock_ms: i64) -> Self {
        Self { renewed: sent, clock_ms, may_have_ended: false }
    }

    /// Records a renewal that was sent at `sent` and completed at `now`.
    fn renew(&mut self, sent: SteadyInstant, clock_ms: i64, now: SteadyInstant) {
        self.may_have_ended |= now.since(self.renewed) >= MAX_RENEWAL_GAP;
        self.renewed = sent;
        self.clock_ms = clock_ms;
    }

    /// Returns true if a renewal is due.
    fn is_due(&self, now: SteadyInstant, clock_ms: i64) -> bool {
        let passed = now.since(self.renewed);
        let shown = i128::from(clock_ms) - i128::from(self.clock_ms);
        let step = shown.abs_diff(i128::try_from(passed.as_millis()).unwrap_or(i128::MAX));
        passed >= RENEWAL_INTERVAL || step > MAX_STEP.as_millis()
    }

    /// Returns true if the lease has not expired, neither before nor at `now`.
    fn is_held(&self, now: SteadyInstant) -> bool {
        !self.may_have_ended && now.since(self.renewed) < HOLDER_TERM
    }
}

impl LeaseFile {
    async fn renew(&self) -> Result<()> {
        let put = self.store.put(&self.path, PutPayload::new()).await;
        put.map(drop).map_err(|error| StorageError::from_origin(self.path.as_ref(), error).into())
    }

    async fn remove(&self) {
        match self.store.delete(&self.path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => tracing::debug!(path = %self.path, %error, "lease not removed: it ends by itself"),
        }
    }

    /// Takes the lease, renews it until its holder is gone, and removes it.
    ///
    /// All requests are sent by this one task, which no holder cancels: a put that was given up midway could otherwise
    /// arrive after the removal, and leave a lease that nothing ends before it expires.
    async fn keep(
        self,
        term: Arc<Mutex<LeaseTerm>>,
        taken: oneshot::Sender<Result<()>>,
        renewals: mpsc::Receiver<RenewalRequest>,
    ) {
        let put = self.renew().await;
        let is_taken = put.is_ok();
        // The holder may be gone.
        let _ = taken.send(put);
        if is_taken {
            self.keep_renewed(&term, renewals).await;
        }

        // A put that failed may have been carried out nevertheless.
        self.remove().await;
    }

    async fn keep_renewed(&self, term: &Mutex<LeaseTerm>, mut renewals: mpsc::Receiver<RenewalRequest>) {
        loop {
            let request = match tokio::time::timeout(CHECK_INTERVAL, renewals.recv()).await {
                Ok(Some(request)) => Some(request),
                Ok(None) => return,
                Err(_) => None,
            };
            let sent = SteadyInstant::now();
            let clock_ms = now_ms();
            if request.is_none() && !term.lock().is_due(sent, clock_ms) {
                continue;
            }

            match self.renew().await {
                Ok(()) => term.lock().renew(sent, clock_ms, SteadyInstant::now()),
                Err(error) => tracing::warn!(%error, "lease not renewed"),
            }
            if let Some(request) = request {
                let _ = request.send(());
            }
        }
    }
}

/// Returns true if a lease has expired; `now_ms` is the current time by the clock that dates the lease.
pub(super) fn is_over(lease: &ObjectMeta, now_ms: i64) -> bool {
    lease.last_modified.timestamp_millis() < now_ms.saturating_sub(TERM.as_millis() as i64)
}

/// Leases of other holders, as a writer sees them between two commits.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OtherLeases {
    /// Newest version that a running compaction started from; 0 if there is none.
    pub(super) compacting: u64,
    /// True if a load, garbage collection or another writer's merge runs.
    pub(super) has_load: bool,
}

/// Request of a compaction, which keeps losing races to commits, for a pause between two of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TurnRequest {
    path: Path,
    /// Time of the latest attempt by the store's clock, in milliseconds since 1970.
    put_ms: i64,
}

impl TurnRequest {
    fn of(lease: &ObjectMeta) -> Option<Self> {
        let put_ms = lease.last_modified.timestamp_millis();
        (extension(lease) == Some(TURN)).then(|| Self { path: lease.location.clone(), put_ms })
    }
}

/// Returns the part of a lease's name that identifies its kind; `None` for that of a load.
fn extension(lease: &ObjectMeta) -> Option<&str> {
    lease.location.filename()?.split_once('.').map(|(_, extension)| extension)
}

/// Returns the version that a compaction started from, by its lease.
fn compacted_version(lease: &ObjectMeta) -> Option<u64> {
    extension(lease)?.strip_prefix(COMPACTION)?.parse().ok()
}

/// Returns the oldest version that a running compaction started from, by the leases that have not expired at `now_ms`.
pub(super) fn oldest_compacted(leases: &[ObjectMeta], now_ms: i64) -> Option<u64> {
    leases.iter().filter(|lease| !is_over(lease, now_ms)).filter_map(compacted_version).min()
}

impl OtherLeases {
    /// Classifies the leases that have not expired at `now_ms`.
    fn among(leases: &[ObjectMeta], now_ms: i64) -> Self {
        let mut others = Self::default();
        for lease in leases.iter().filter(|lease| !is_over(lease, now_ms)) {
            match compacted_version(lease) {
                Some(version) => others.compacting = others.compacting.max(version),
                None => others.has_load |= extension(lease) != Some(TURN),
            }
        }
        others
    }
}

impl StoreCore {
    /// Takes a lease: from now on garbage collection keeps files that no version refers to.
    pub(super) async fn lease(&self) -> Result<Lease> {
        self.lease_named(uuid7()).await
    }

    /// Takes a lease for a compaction of a version, whose deltas and patches writers then leave unchanged.
    pub(super) async fn compaction_lease(&self, version: u64) -> Result<Lease> {
        self.lease_named(format!("{}.{COMPACTION}{version}", uuid7())).await
    }

    /// Requests a pause between two commits from writers of other processes, for as long as it is held.
    pub(super) async fn request_turn(&self) -> Result<Lease> {
        self.lease_named(format!("{}.{TURN}", uuid7())).await
    }

    /// Lists the requests of compactions for a pause between two commits.
    pub(super) async fn turn_requests(&self) -> Result<Vec<TurnRequest>> {
        Ok(self.listed(FOLDER).await?.iter().filter_map(TurnRequest::of).collect())
    }

    async fn lease_named(&self, name: String) -> Result<Lease> {
        let path = self.folder.path(&format!("{FOLDER}/{name}"))?;
        let file = LeaseFile { store: self.folder.store.clone(), path: path.clone() };
        let term = Arc::new(Mutex::new(LeaseTerm::new(SteadyInstant::now(), now_ms())));
        let (renewals, requests) = mpsc::channel(1);
        let (taken, answer) = oneshot::channel();
        let keeper = tokio::spawn(file.keep(term.clone(), taken, requests));
        // If this is cancelled, the sender of renewals is dropped, and the keeper removes the lease once it is there.
        let ended = |_| Error::Ended { reason: "the task of a lease is gone".to_owned() };
        answer.await.map_err(ended)??;
        Ok(Lease { path, term, renewals, keeper })
    }
}

impl Lease {
    /// Checks that the lease has never expired. Called right before new files become part of a version.
    pub(super) fn check(&self) -> Result<()> {
        if self.term.lock().is_held(SteadyInstant::now()) {
            return Ok(());
        }
        let reason =
            "this process stood still for so long that its new files may be gone: start again".to_owned();
        Err(self.conflict(reason))
    }

    /// Splits a listing of leases into the store's time of this lease, in milliseconds since 1970, and the leases of
    /// others.
    pub(super) fn among(&self, mut listed: Vec<ObjectMeta>) -> Result<(i64, Vec<ObjectMeta>)> {
        let found = listed.iter().position(|lease| lease.location == self.path);
        let own = found.map(|at| listed.swap_remove(at));
        let own =
            own.ok_or_else(|| self.conflict("it is not listed, or was removed: try again".to_owned()))?;
        Ok((own.last_modified.timestamp_millis(), listed))
    }

    /// Lists the leases of other holders.
    pub(super) async fn others(&self, core: &StoreCore) -> Result<OtherLeases> {
        let (now_ms, others) = self.among(core.listed(FOLDER).await?)?;
        Ok(OtherLeases::among(&others, now_ms))
    }

    /// Renews the lease now, so that others see that its holder is alive.
    pub(super) async fn touch(&self) {
        let (request, renewed) = oneshot::channel();
        if self.renewals.send(request).await.is_ok() {
            let _ = renewed.await;
        }
    }

    /// Releases the lease, once its files are in a version or gone. Returns after its file was removed.
    pub(super) async fn end(self) {
        let Self { path, renewals, keeper, .. } = self;
        drop(renewals);
        if let Err(error) = keeper.await {
            tracing::debug!(%path, %error, "lease not removed: it ends by itself");
        }
    }

    fn conflict(&self, reason: String) -> Error {
        Error::Conflict { object: self.path.to_string(), reason }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use proptest::prelude::*;

    use super::*;

    const MINUTE: u64 = 60;

    /// Event of a holder, a store and an observer that looks for expired leases.
    #[derive(Clone, Copy, Debug)]
    enum LeaseEvent {
        /// Time passes, and the holder's task runs.
        Pass { seconds: u64 },
        /// Time passes while the holder is stalled, or its requests fail.
        Stall { seconds: u64 },
        /// The clock of the holder's machine is set.
        Set { seconds: i64 },
    }

    /// Clock that dates objects.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum LeaseClock {
        /// Clock of the store, on another machine.
        Store,
        /// Clock of the holder's machine, which also has the store.
        Holder,
    }

    struct LeaseModel {
        dates: LeaseClock,
        now: SteadyInstant,
        passed_ms: i64,
        /// Offset of the holder's clock.
        off_ms: i64,
        term: LeaseTerm,
        /// Time of the lease by the store's clock.
        put_ms: i64,
        /// True if an observer found it expired.
        was_over: bool,
    }

    impl LeaseModel {
        fn new(dates: LeaseClock) -> Self {
            let now = SteadyInstant::now();
            Self {
                dates,
                now,
                passed_ms: 0,
                off_ms: 0,
                term: LeaseTerm::new(now, 0),
                put_ms: 0,
                was_over: false,
            }
        }

        fn clock_ms(&self) -> i64 {
            self.passed_ms + self.off_ms
        }

        fn store_ms(&self) -> i64 {
            match self.dates {
                LeaseClock::Store => self.passed_ms,
                LeaseClock::Holder => self.clock_ms(),
            }
        }

        fn pass(&mut self, seconds: u64) {
            self.now = self.now + Duration::from_secs(seconds);
            self.passed_ms += seconds as i64 * 1_000;
        }

        fn run_holder(&mut self) {
            if self.term.is_due(self.now, self.clock_ms()) {
                self.put_ms = self.store_ms();
                self.term.renew(self.now, self.clock_ms(), self.now);
            }
        }

        /// Lets an observer put its own lease and compare the times of both.
        fn look(&mut self) {
            let lease = ObjectMeta {
                location: Path::from("leases/1"),
                last_modified: DateTime::from_timestamp_millis(self.put_ms).unwrap(),
                size: 0,
                e_tag: None,
                version: None,
            };
            self.was_over |= is_over(&lease, self.store_ms());
        }

        fn apply(&mut self, event: LeaseEvent) {
            match event {
                LeaseEvent::Pass { seconds } => {
                    let step = CHECK_INTERVAL.as_secs();
                    for _ in 0..seconds / step {
                        self.pass(step);
                        self.run_holder();
                        self.look();
                    }
                }
                LeaseEvent::Stall { seconds } => {
                    self.pass(seconds);
                    self.look();
                }
                LeaseEvent::Set { seconds } => {
                    self.off_ms += seconds * 1_000;
                    // If its own clock dates the lease, the holder needs a moment to notice a change.
                    if self.dates == LeaseClock::Holder {
                        self.pass(CHECK_INTERVAL.as_secs());
                        self.run_holder();
                    }
                    self.look();
                }
            }
        }
    }

    fn event() -> impl Strategy<Value = LeaseEvent> {
        let day = 24 * 60 * MINUTE as i64;
        prop_oneof![
            4 => (0..30 * MINUTE).prop_map(|seconds| LeaseEvent::Pass { seconds }),
            1 => (0..3 * 60 * MINUTE).prop_map(|seconds| LeaseEvent::Stall { seconds }),
            2 => (-400 * day..400 * day).prop_map(|seconds| LeaseEvent::Set { seconds }),
            2 => (-120_i64..120).prop_map(|seconds| LeaseEvent::Set { seconds }),
        ]
    }

    fn dates() -> impl Strategy<Value = LeaseClock> {
        prop_oneof![Just(LeaseClock::Store), Just(LeaseClock::Holder)]
    }

    proptest! {
        #[test]
        fn a_holder_never_relies_on_a_lease_that_somebody_found_over(
            dates in dates(),
            events in prop::collection::vec(event(), 1..40),
        ) {
            let mut world = LeaseModel::new(dates);
            for event in events {
                world.apply(event);
                prop_assert!(!(world.was_over && world.term.is_held(world.now)), "{event:?}");
            }
        }

        #[test]
        fn a_holder_that_is_at_work_keeps_its_lease_however_clocks_are_set(
            dates in dates(),
            events in prop::collection::vec(event(), 1..40),
        ) {
            let mut world = LeaseModel::new(dates);
            for event in events {
                let event = match event {
                    LeaseEvent::Stall { seconds } => LeaseEvent::Stall { seconds: seconds % (15 * MINUTE) },
                    other => other,
                };
                world.apply(event);
                world.run_holder();
                prop_assert!(!world.was_over, "{event:?}");
                prop_assert!(world.term.is_held(world.now), "{event:?}");
            }
        }
    }

    #[test]
    fn a_renewal_that_came_too_late_is_none() {
        let start = SteadyInstant::now();
        let minutes = |minutes: u64| start + Duration::from_secs(minutes * MINUTE);
        let mut term = LeaseTerm::new(start, 0);
        assert!(term.is_held(minutes(29)) && !term.is_held(minutes(31)));
        term.renew(minutes(40), 0, minutes(41));
        assert!(term.is_held(minutes(41)), "others grant it for longer");
        term.renew(minutes(80), 0, minutes(86));
        assert!(!term.is_held(minutes(86)), "it was put when it may have been over");
        term.renew(minutes(87), 0, minutes(87));
        assert!(!term.is_held(minutes(87)), "what may be gone does not come back");
    }
}
