//! Detection of data held back by the congestion window or its pacing.
//!
//! quinn-proto does not report that. But it asks the congestion controller for its window only when
//! there is something to send. So if it asked and then sent nothing, data was held back.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics, CubicConfig};

/// A factory of congestion controllers for one thread's connections that records when one is asked
/// for its window.
#[derive(Clone, Default)]
pub struct Gate {
    cubic: Arc<CubicConfig>,
    asked: Arc<AtomicBool>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl Gate {
    /// Reset the record.
    #[inline]
    pub fn reset(&self) {
        self.asked.store(false, Ordering::Relaxed);
    }

    /// Return whether a controller was asked since the last reset.
    #[inline]
    pub fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

impl ControllerFactory for Gate {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(RecordingController {
            inner: Arc::clone(&self.cubic).build(now, current_mtu),
            asked: Arc::clone(&self.asked),
        })
    }
}

struct RecordingController {
    inner: Box<dyn Controller>,
    asked: Arc<AtomicBool>,
}

impl Controller for RecordingController {
    fn window(&self) -> u64 {
        self.asked.store(true, Ordering::Relaxed);
        self.inner.window()
    }

    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, last: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, last);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            asked: Arc::clone(&self.asked),
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
