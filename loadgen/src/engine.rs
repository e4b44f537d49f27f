//! The measurement of one window: threads, their event loops, and the record they share.
//!
//! `crew` runs one `event_loop` per thread. `connect` and `exchange` are the loop's methods for
//! connections and requests, `turns` those for several instances; `ledger` counts requests and
//! records their outcomes.

mod connect;
mod counts;
mod crew;
mod event_loop;
mod exchange;
mod freezing;
mod ledger;
mod turns;

pub use counts::{Book, Counts};
pub use crew::{Arm, AskStart, Interrupted, Raw, Settings, run};
pub use ledger::{Agenda, Ledger, Next};
