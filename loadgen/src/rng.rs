//! The random numbers of schedules: xoshiro256++ 1.0 by Blackman and Vigna, seeded through
//! SplitMix64 as its authors recommend (<https://prng.di.unimi.it>).
//!
//! Implemented here, because a seed in a record must give the same schedule in every later version.

/// A generator of 64 random bits at a time.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Create the generator of a seed.
    pub fn new(seed: u64) -> Self {
        let mut split = seed;
        let state = std::array::from_fn(|_| {
            split = split.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = split;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Self { state }
    }

    /// Return the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Return a uniform number in [0, 1), a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Return an exponential number with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs for the state 1, 2, 3, 4 are those of the authors' C code.
    #[test]
    fn follows_the_reference() {
        let mut rng = Rng {
            state: [1, 2, 3, 4],
        };
        let first: Vec<u64> = (0..4).map(|_| rng.bits()).collect();
        assert_eq!(
            first,
            [41943041, 58720359, 3588806011781223, 3591011842654386]
        );
    }
}
