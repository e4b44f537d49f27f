//! Counts of a window.

/// Counts of a window's measured part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Connections opened for the first time, before the measured part.
    pub connects: u64,
    /// Connections reopened before the measured part, because the server had closed them.
    pub reopened: u64,
    /// Connections opened since the start of the measured part.
    pub reconnects: u64,
    /// Requests sent again, because the connection closed while they were written.
    pub retries: u64,
    /// Bytes received in the measured part.
    pub bytes_in: u64,
    /// Bytes sent in the measured part.
    pub bytes_out: u64,
    /// Good responses that were completed in the measured part, whenever they were intended.
    pub in_time: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.connects += other.connects;
        self.reopened += other.reopened;
        self.reconnects += other.reconnects;
        self.retries += other.retries;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.in_time += other.in_time;
    }
}
