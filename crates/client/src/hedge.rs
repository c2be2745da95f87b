//! Hedged requests: sends a second request when the first is slower than most; the first response wins.
//!
//! Follows "The Tail at Scale" (Dean and Barroso, CACM 2013): the delay is a quantile of recent latencies, so that
//! only the slow tail is requested twice.

use std::{future::Future, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

const SAMPLES: usize = 256;
const MIN_SAMPLES: usize = 32;
const MIN_DELAY: Duration = Duration::from_millis(5);

/// Decides when to send a second request.
#[derive(Debug)]
pub struct HedgePolicy {
    quantile: Option<f64>,
    latencies: Mutex<RecentLatencies>,
}

#[derive(Debug, Default)]
struct RecentLatencies {
    ring: Vec<Duration>,
    next: usize,
    /// Latencies recorded since the quantile was last computed.
    since: usize,
    computed: Option<Duration>,
}

impl RecentLatencies {
    fn record(&mut self, latency: Duration) {
        if self.ring.len() < SAMPLES {
            self.ring.push(latency);
        } else if let Some(oldest) = self.ring.get_mut(self.next) {
            *oldest = latency;
        }
        self.next = (self.next + 1) % SAMPLES;
        self.since += 1;
    }

    /// Returns the quantile, which may not include the latest few latencies.
    fn quantile(&mut self, quantile: f64) -> Option<Duration> {
        if self.ring.len() < MIN_SAMPLES {
            return None;
        }
        if self.computed.is_none() || self.since >= SAMPLES / 16 {
            let index = (quantile.clamp(0.0, 1.0) * (self.ring.len() - 1) as f64).round() as usize;
            let mut latencies = self.ring.clone();
            self.computed = Some(*latencies.select_nth_unstable(index).1);
            self.since = 0;
        }
        self.computed
    }
}

impl HedgePolicy {
    /// Creates a policy that hedges requests slower than this quantile of latencies; `None` disables hedging.
    pub fn new(quantile: Option<f64>) -> Self {
        Self { quantile, latencies: Mutex::default() }
    }

    /// Returns the time after which a second request is sent; `None` while too few latencies are known.
    pub fn delay(&self) -> Option<Duration> {
        let quantile = self.quantile?;
        self.latencies.lock().quantile(quantile).map(|delay| delay.max(MIN_DELAY))
    }

    /// Records the latency of a request.
    pub fn note(&self, latency: Duration) {
        self.latencies.lock().record(latency);
    }

    /// Returns the response of `request(0)`, or that of `request(1)`, sent after the delay, if it arrives first; the
    /// other request is then cancelled. An error of one request is returned only if the other fails too, or was not
    /// sent.
    ///
    /// The recorded latency is that of the request that was answered, without the delay: otherwise the delay would
    /// grow with each response of a second request.
    pub async fn run<T, E, F>(&self, request: impl Fn(usize) -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        let timed = |number| {
            let answer = request(number);
            async move {
                let sent_at = Instant::now();
                answer.await.map(|answer| (answer, sent_at.elapsed()))
            }
        };
        let (answer, latency) = match self.delay() {
            None => timed(0).await?,
            Some(delay) => race(delay, timed).await?,
        };
        if self.quantile.is_some() {
            self.note(latency);
        }
        Ok(answer)
    }
}

async fn race<T, E, F>(delay: Duration, request: impl Fn(usize) -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut first = std::pin::pin!(request(0));
    if let Ok(answer) = tokio::time::timeout(delay, &mut first).await {
        return answer;
    }

    let mut second = std::pin::pin!(request(1));
    tokio::select! {
        answer = &mut first => if answer.is_ok() { answer } else { second.await },
        answer = &mut second => if answer.is_ok() { answer } else { first.await },
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Returns a policy that has recorded enough latencies of 10 ms.
    fn policy() -> HedgePolicy {
        let hedge = HedgePolicy::new(Some(0.9));
        for _ in 0..MIN_SAMPLES {
            hedge.note(Duration::from_millis(10));
        }
        hedge
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_is_overtaken_by_a_second_request() {
        let sent = Cell::new(0);
        let answer: Result<usize, ()> = policy()
            .run(|number| {
                sent.set(sent.get() + 1);
                async move {
                    tokio::time::sleep(Duration::from_millis(if number == 0 { 1000 } else { 1 })).await;
                    Ok(number)
                }
            })
            .await;
        assert_eq!((answer, sent.get()), (Ok(1), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_of_the_second_request_leaves_the_first_its_chance() {
        let answer: Result<usize, &str> = policy()
            .run(|number| async move {
                tokio::time::sleep(Duration::from_millis(if number == 0 { 1000 } else { 1 })).await;
                if number == 0 { Ok(number) } else { Err("refused") }
            })
            .await;
        assert_eq!(answer, Ok(0));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_twice_before_enough_latencies_are_known() {
        let hedge = HedgePolicy::new(Some(0.9));
        let sent = Cell::new(0);
        for _ in 0..MIN_SAMPLES {
            assert_eq!(hedge.delay(), None);
            let answer = hedge.run(|_| {
                sent.set(sent.get() + 1);
                async {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    Ok::<_, ()>(())
                }
            });
            answer.await.unwrap();
        }
        assert_eq!((sent.get(), hedge.delay()), (MIN_SAMPLES, Some(Duration::from_secs(1))));
    }

    #[tokio::test]
    async fn nothing_is_sent_twice_when_hedging_is_off() {
        let hedge = HedgePolicy::new(None);
        let sent = Cell::new(0);
        for _ in 0..2 * MIN_SAMPLES {
            let answer = hedge.run(|_| {
                sent.set(sent.get() + 1);
                async { Ok::<_, ()>(()) }
            });
            answer.await.unwrap();
        }
        assert_eq!(sent.get(), 2 * MIN_SAMPLES);
    }
}
