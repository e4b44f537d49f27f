//! Counts of UDP and of QUIC's paths.

/// Counts of UDP and of the paths of some connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Datagrams sent.
    pub datagrams_out: u64,
    /// Datagrams received.
    pub datagrams_in: u64,
    /// Sent packets that were declared lost.
    pub lost_packets: u64,
    /// The smallest round-trip time, in nanoseconds.
    pub rtt_min_ns: Option<u64>,
    /// The largest smoothed round-trip time, in nanoseconds.
    pub rtt_max_ns: Option<u64>,
}

impl Path {
    /// Add the counts of other connections.
    pub fn add(&mut self, other: &Self) {
        self.datagrams_out += other.datagrams_out;
        self.datagrams_in += other.datagrams_in;
        self.lost_packets += other.lost_packets;
        let (mine, its) = (self.rtt_min_ns, other.rtt_min_ns);
        self.rtt_min_ns = mine.into_iter().chain(its).min();
        self.rtt_max_ns = self.rtt_max_ns.max(other.rtt_max_ns);
    }
}
