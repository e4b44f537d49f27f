//! Slots for requests, each with one request at a time, and one for each stream of each connection.
//! Slot `connection * streams + stream` is one stream of one connection.
//!
//! There are two lists, with fixed memory and constant cost: the free slots to choose from, and the
//! busy ones by the age of their request. A slot in neither is withheld: its connection is closed,
//! or accepts no more requests.

use sha2::{Digest as _, Sha256};

const NONE: u32 = u32::MAX;

/// The request of a busy slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exchange {
    /// Index into the record.
    pub index: u32,
    /// Index into the plan's requests.
    pub request: u16,
    /// True if it was sent again already.
    pub retried: bool,
    /// True if the body is hashed.
    pub hashed: bool,
    /// When it was passed to the connection.
    pub dispatched: u64,
    /// When it was written, or passed to the connection if that could not write it yet.
    pub written: u64,
    /// When the first byte of the response arrived; 0 before.
    pub first: u64,
}

impl Exchange {
    /// Return whether a byte of the response arrived.
    pub fn answered(&self) -> bool {
        self.first != 0
    }
}

/// One slot.
#[derive(Debug)]
pub struct Slot {
    /// The request, if it is busy.
    pub exchange: Exchange,
    /// The hash of the response's body.
    pub hasher: Sha256,
    /// True if it has a request.
    pub busy: bool,
    /// The instance that its connection leads to.
    arm: u8,
    /// Its position in the list of free slots.
    free_at: u32,
    /// Its neighbours in the list of busy slots.
    older: u32,
    newer: u32,
}

/// All slots of a pool.
#[derive(Debug)]
pub struct Slots {
    list: Vec<Slot>,
    /// The free slots of each arm.
    free: Vec<Vec<u32>>,
    oldest: u32,
    newest: u32,
    busy: usize,
}

impl Slots {
    /// Create `n` slots for each arm, one arm after another, all withheld.
    pub fn new(n: usize, arms: usize) -> Self {
        let withheld = |slot: usize| Slot {
            exchange: Exchange::default(),
            hasher: Sha256::new(),
            busy: false,
            arm: (slot / n) as u8,
            free_at: NONE,
            older: NONE,
            newer: NONE,
        };
        Self {
            list: (0..n * arms).map(withheld).collect(),
            free: vec![Vec::with_capacity(n); arms],
            oldest: NONE,
            newest: NONE,
            busy: 0,
        }
    }

    /// Return a slot.
    #[inline]
    pub fn at(&mut self, slot: u32) -> &mut Slot {
        &mut self.list[slot as usize]
    }

    /// Return whether a slot has a request.
    #[inline]
    pub fn is_busy(&self, slot: u32) -> bool {
        self.list[slot as usize].busy
    }

    /// Return whether a slot is free.
    #[inline]
    pub fn is_free(&self, slot: u32) -> bool {
        self.list[slot as usize].free_at != NONE
    }

    /// Return whether any slot of any arm is free.
    #[inline]
    pub fn has_free(&self) -> bool {
        self.free.iter().any(|slots| !slots.is_empty())
    }

    /// Return whether any slot of an arm is free.
    #[inline]
    pub fn has_free_of(&self, arm: usize) -> bool {
        !self.free[arm].is_empty()
    }

    /// Return a random free slot of an arm: `pick` is uniform over the 32-bit numbers.
    ///
    /// Choosing the slot that was free longest would couple connections to one another, and make
    /// all of them reach the server's keepalive_requests at the same time.
    #[inline]
    pub fn choose(&self, pick: u32, arm: usize) -> Option<u32> {
        let free = &self.free[arm];
        let place = (u64::from(pick) * free.len() as u64) >> 32;
        free.get(place as usize).copied()
    }

    /// Make a withheld slot free.
    #[inline]
    pub fn release(&mut self, slot: u32) {
        let place = &mut self.list[slot as usize];
        let free = &mut self.free[usize::from(place.arm)];
        place.free_at = free.len() as u32;
        free.push(slot);
    }

    /// Remove a slot from the free ones.
    #[inline]
    pub fn withhold(&mut self, slot: u32) {
        let taken = &mut self.list[slot as usize];
        let place = std::mem::replace(&mut taken.free_at, NONE);
        if place != NONE {
            let free = &mut self.free[usize::from(taken.arm)];
            free.swap_remove(place as usize);
            if let Some(&moved) = free.get(place as usize) {
                self.list[moved as usize].free_at = place;
            }
        }
    }

    /// Return the number of busy slots.
    #[inline]
    pub fn busy(&self) -> usize {
        self.busy
    }

    /// Return a bit for each arm with a busy slot; it looks at each of them.
    pub fn busy_arms(&self) -> u64 {
        self.all_busy().fold(0, |arms, slot| arms | 1 << slot.arm)
    }

    /// Return the number of an arm's busy slots; it looks at all busy ones.
    pub fn busy_of(&self, arm: usize) -> usize {
        let own = |slot: &&Slot| usize::from(slot.arm) == arm;
        self.all_busy().filter(own).count()
    }

    /// Return the busy slots, the oldest first.
    fn all_busy(&self) -> impl Iterator<Item = &Slot> {
        let at = |slot: u32| self.list.get(slot as usize);
        std::iter::successors(at(self.oldest), move |slot| at(slot.newer))
    }

    /// Return the slot with the oldest request, and when that was dispatched.
    #[inline]
    pub fn oldest(&self) -> Option<(u32, u64)> {
        let slot = self.list.get(self.oldest as usize)?;
        Some((self.oldest, slot.exchange.dispatched))
    }

    /// Give a request to a withheld slot.
    #[inline]
    pub fn occupy(&mut self, slot: u32, exchange: Exchange) {
        let newest = std::mem::replace(&mut self.newest, slot);
        let place = self.at(slot);
        if exchange.hashed {
            place.hasher = Sha256::new();
        }
        place.exchange = exchange;
        place.busy = true;
        place.older = newest;
        place.newer = NONE;
        if newest == NONE {
            self.oldest = slot;
        } else {
            self.at(newest).newer = slot;
        }
        self.busy += 1;
    }

    /// Remove the request of a busy slot; the slot is withheld.
    #[inline]
    pub fn vacate(&mut self, slot: u32) -> Exchange {
        let place = self.at(slot);
        place.busy = false;
        let (exchange, older, newer) = (place.exchange, place.older, place.newer);
        match older {
            NONE => self.oldest = newer,
            older => self.at(older).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.at(newer).older = older,
        }
        self.busy -= 1;
        exchange
    }
}
