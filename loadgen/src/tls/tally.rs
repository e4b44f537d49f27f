//! Counts of the negotiated encryption of a window's connections.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::histogram;

/// The negotiated encryption of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The version of TLS.
    pub version: &'static str,
    /// The IANA name of the cipher suite.
    pub cipher: &'static str,
    /// The group of the key exchange; `None` if there was none.
    pub group: Option<&'static str>,
    /// True if an earlier session was resumed.
    pub resumed: bool,
    /// Time from the established TCP connection to the end of the handshake, in nanoseconds.
    pub took_ns: u64,
}

/// Connections by negotiated encryption, and the handshakes of the window.
#[derive(Debug)]
pub struct Tally {
    /// Connections by version.
    pub versions: BTreeMap<&'static str, u64>,
    /// Connections by cipher suite.
    pub ciphers: BTreeMap<&'static str, u64>,
    /// Connections by group; a resumed session may have none.
    pub groups: BTreeMap<&'static str, u64>,
    /// Number of full handshakes.
    pub full: u64,
    /// Number of handshakes that resumed a session.
    pub resumed: u64,
    /// Duration of the handshakes.
    pub handshakes: Histogram<u64>,
}

impl Tally {
    /// Create empty counts.
    pub fn new() -> Self {
        Self {
            versions: BTreeMap::new(),
            ciphers: BTreeMap::new(),
            groups: BTreeMap::new(),
            full: 0,
            resumed: 0,
            handshakes: histogram::new(),
        }
    }

    /// Count a connection that is used in this window; `new`: count its handshake too.
    pub fn add(&mut self, agreed: &Agreed, new: bool) {
        *self.versions.entry(agreed.version).or_default() += 1;
        *self.ciphers.entry(agreed.cipher).or_default() += 1;
        if let Some(group) = agreed.group {
            *self.groups.entry(group).or_default() += 1;
        }
        if new {
            *(if agreed.resumed {
                &mut self.resumed
            } else {
                &mut self.full
            }) += 1;
            self.handshakes.saturating_record(agreed.took_ns);
        }
    }

    /// Add the counts of another thread.
    pub fn merge(&mut self, other: &Self) {
        for (mine, its) in [
            (&mut self.versions, &other.versions),
            (&mut self.ciphers, &other.ciphers),
            (&mut self.groups, &other.groups),
        ] {
            for (name, count) in its {
                *mine.entry(name).or_default() += count;
            }
        }
        self.full += other.full;
        self.resumed += other.resumed;
        // All histograms have the same bounds, so this cannot fail.
        let _ = self.handshakes.add(&other.handshakes);
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}
