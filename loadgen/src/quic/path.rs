//! What UDP and the paths did.

/// What UDP and the paths of some connections did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Datagrams sent.
    pub datagrams_out: u64,
    /// Datagrams received.
    pub datagrams_in: u64,
    /// Packets of ours that were deemed lost.
    pub lost_packets: u64,
    /// The smallest round trip time, in nanoseconds.
    pub rtt_min_ns: Option<u64>,
    /// The largest of the smoothed ones.
    pub rtt_max_ns: Option<u64>,
}

impl Path {
    /// Those of others too.
    pub fn add(&mut self, other: &Self) {
        self.datagrams_out += other.datagrams_out;
        self.datagrams_in += other.datagrams_in;
        self.lost_packets += other.lost_packets;
        let (mine, its) = (self.rtt_min_ns, other.rtt_min_ns);
        self.rtt_min_ns = mine.into_iter().chain(its).min();
        self.rtt_max_ns = self.rtt_max_ns.max(other.rtt_max_ns);
    }
}
