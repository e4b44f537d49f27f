//! What was agreed on the connections of a window, counted.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::histogram;

/// What was agreed in a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The version of TLS.
    pub version: &'static str,
    /// The cipher suite, as IANA names it.
    pub cipher: &'static str,
    /// The group of the key exchange; `None` if there was none.
    pub group: Option<&'static str>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// From the established TCP connection to the end of the handshake.
    pub took_ns: u64,
}

/// Connections by what was agreed on them, and the handshakes of the window.
#[derive(Debug)]
pub struct Tally {
    /// By version, by cipher and by group.
    pub versions: BTreeMap<&'static str, u64>,
    /// By cipher.
    pub ciphers: BTreeMap<&'static str, u64>,
    /// By group; a resumed session may have none.
    pub groups: BTreeMap<&'static str, u64>,
    /// Handshakes with all that belongs to them.
    pub full: u64,
    /// Handshakes that resumed a session.
    pub resumed: u64,
    /// What they took.
    pub handshakes: Histogram<u64>,
}

impl Tally {
    /// Nothing yet.
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

    /// A connection that is used in this window; `new`: its handshake belongs to it too.
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

    /// Those of another thread too.
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
        // All have the same bounds, so nothing is refused.
        let _ = self.handshakes.add(&other.handshakes);
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}
