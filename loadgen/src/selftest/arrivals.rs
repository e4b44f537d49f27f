//! Whether requests really leave as a Poisson process: the checks of Lancet (Kogias, Mallon,
//! Bugnion: Lancet: A self-correcting Latency Measuring Tool, USENIX ATC 2019, section 4).

use serde::Serialize;

/// Anderson–Darling at the 1 % level for exponential values of unknown mean, with the factor
/// 1 + 0.6/n for finite samples (Stephens, EDF Statistics for Goodness of Fit, JASA 1974, table 1).
const CRITICAL_AD: f64 = 1.957;
/// The normal quantile for the 1 % level, two-sided.
const CRITICAL_Z: f64 = 2.576;

/// The checks on the gaps between requests, as they were written.
#[derive(Clone, Debug, Serialize)]
pub struct Arrivals {
    /// Gaps that were looked at: those that no stall touched.
    pub gaps: usize,
    /// The Anderson–Darling statistic against exponential gaps; `None` (null) with too few.
    pub anderson_darling: Option<f64>,
    /// What it must not exceed: one in a hundred Poisson processes does.
    pub anderson_darling_critical: f64,
    /// Spearman's rank correlation of each gap with the next one.
    pub spearman: Option<f64>,
    /// What its magnitude must not exceed, at the same level.
    pub spearman_critical: Option<f64>,
}

/// Fewer gaps say nothing.
const LEAST_GAPS: usize = 100;

impl Arrivals {
    /// Check gaps, in order of time. `None` is a gap that a stall touched: what lies on its two
    /// sides is not adjacent.
    pub fn of(gaps: &[Option<u64>]) -> Self {
        let kept: Vec<f64> = gaps.iter().flatten().map(|gap| *gap as f64).collect();
        let pairs: Vec<(f64, f64)> = gaps
            .windows(2)
            .filter_map(|pair| Some((pair[0]? as f64, pair[1]? as f64)))
            .collect();
        let enough = kept.len() >= LEAST_GAPS && pairs.len() >= LEAST_GAPS;
        Self {
            gaps: kept.len(),
            anderson_darling: enough.then(|| anderson_darling(&kept)),
            anderson_darling_critical: CRITICAL_AD,
            spearman: enough.then(|| spearman(&pairs)),
            spearman_critical: enough.then(|| CRITICAL_Z / ((pairs.len() - 1) as f64).sqrt()),
        }
    }

    /// What is wrong, in words.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        match self.anderson_darling {
            None => complaints.push(format!(
                "arrivals were not checked: {} gaps without stalls, {LEAST_GAPS} are needed",
                self.gaps
            )),
            Some(found) if found > CRITICAL_AD => complaints.push(format!(
                "gaps between requests are not exponential: Anderson-Darling {found:.2}, at most \
                 {CRITICAL_AD} expected"
            )),
            Some(_) => {}
        }
        if let (Some(found), Some(critical)) = (self.spearman, self.spearman_critical)
            && found.abs() > critical
        {
            complaints.push(format!(
                "successive gaps depend on one another: Spearman {found:.3}, at most \
                 {critical:.3} expected"
            ));
        }
        complaints
    }
}

/// The statistic A² for an exponential distribution whose mean is that of the values, with the
/// factor for finite samples.
pub fn anderson_darling(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let mut sorted: Vec<f64> = values.iter().map(|value| value / mean).collect();
    sorted.sort_by(f64::total_cmp);
    let sum: f64 = sorted
        .iter()
        .zip(sorted.iter().rev())
        .enumerate()
        .map(|(i, (low, high))| {
            // ln F(low) + ln (1 - F(high)); a gap of 0 would be infinitely unlikely.
            let below = (-(-low.max(1e-12)).exp_m1()).ln();
            (2 * i + 1) as f64 * (below - high)
        })
        .sum();
    (-n - sum / n) * (1.0 + 0.6 / n)
}

/// Spearman's rank correlation, ties sharing their mean rank.
pub fn spearman(pairs: &[(f64, f64)]) -> f64 {
    let x = ranks(pairs.iter().map(|pair| pair.0));
    let y = ranks(pairs.iter().map(|pair| pair.1));
    let middle = (pairs.len() as f64 - 1.0) / 2.0;
    let sum = |a: &[f64], b: &[f64]| -> f64 {
        let products = a.iter().zip(b);
        products.map(|(a, b)| (a - middle) * (b - middle)).sum()
    };
    sum(&x, &y) / (sum(&x, &x) * sum(&y, &y)).sqrt()
}

fn ranks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut order: Vec<(f64, usize)> = values.enumerate().map(|(i, v)| (v, i)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = vec![0.0; order.len()];
    let mut start = 0;
    for tied in order.chunk_by(|a, b| a.0 == b.0) {
        let rank = start as f64 + (tied.len() as f64 - 1.0) / 2.0;
        for (_, i) in tied {
            ranks[*i] = rank;
        }
        start += tied.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// The statistics of scipy 1.17 for the same values (`anderson(x, "expon")` times the factor for
    /// finite samples, `spearmanr(x[:-1], x[1:])`).
    #[test]
    fn statistics_are_those_of_scipy() {
        let values = [3.0, 1.0, 4.0, 1.5, 5.0, 9.0, 2.0, 6.0, 5.3, 5.8];
        assert!((anderson_darling(&values) - 0.942_455_184_957).abs() < 1e-9);
        let pairs: Vec<_> = values.windows(2).map(|w| (w[0], w[1])).collect();
        assert!((spearman(&pairs) - 1.0 / 12.0).abs() < 1e-9);
        let tied = [(1.0, 2.0), (1.0, 3.0), (2.0, 3.0), (4.0, 1.0)];
        assert!((spearman(&tied) + 0.5).abs() < 1e-9);
    }

    fn complaints_of(draw: impl Fn(&mut Rng) -> f64, runs: u64) -> (usize, usize) {
        let (mut shape, mut order) = (0, 0);
        for seed in 0..runs {
            let mut rng = Rng::new(seed);
            let gaps: Vec<_> = (0..1000)
                .map(|_| Some((draw(&mut rng) * 1e6) as u64))
                .collect();
            let found = Arrivals::of(&gaps);
            shape += usize::from(found.anderson_darling.unwrap() > CRITICAL_AD);
            order += usize::from(found.spearman.unwrap().abs() > found.spearman_critical.unwrap());
        }
        (shape, order)
    }

    /// Of 2000 Poisson processes about 20 are complained about by either check: within 5 standard
    /// deviations.
    #[test]
    fn the_level_is_one_percent() {
        let (shape, order) = complaints_of(Rng::exponential, 2000);
        assert!((1..=43).contains(&shape), "{shape}");
        assert!((1..=43).contains(&order), "{order}");
    }

    /// A generator that sends on a grid of a fifth of the mean gap, or whose gaps alternate, is
    /// always found out.
    #[test]
    fn what_is_not_poisson_is_found() {
        let (shape, _) = complaints_of(|rng| (rng.exponential() * 5.0).ceil() / 5.0, 50);
        assert_eq!(shape, 50);
        let mut rng = Rng::new(1);
        let gaps: Vec<_> = (0..1000)
            .map(|i| Some((rng.exponential() * [1e6, 2e6][i % 2]) as u64))
            .collect();
        let complaints = Arrivals::of(&gaps).complaints();
        assert!(
            complaints.iter().any(|c| c.contains("Spearman")),
            "{complaints:?}"
        );
    }

    /// Too few gaps are said to be too few, not passed.
    #[test]
    fn too_few_gaps_are_no_proof() {
        let complaints = Arrivals::of(&[Some(5); 50]).complaints();
        assert!(complaints[0].contains("not checked"), "{complaints:?}");
    }
}
