//! Checks that requests leave as a Poisson process, as in Lancet (Kogias, Mallon, Bugnion: Lancet:
//! A self-correcting Latency Measuring Tool, USENIX ATC 2019, section 4).

use serde::Serialize;

/// Anderson–Darling at the 1 % level for exponential values of unknown mean, with the factor
/// 1 + 0.6/n for finite samples (Stephens, EDF Statistics for Goodness of Fit, JASA 1974, table 1).
const CRITICAL_AD: f64 = 1.957;
/// The normal quantile for the 1 % level, two-sided.
const CRITICAL_Z: f64 = 2.576;

/// The checks on the gaps between requests, as they were written.
#[derive(Clone, Debug, Serialize)]
pub struct Arrivals {
    /// Number of gaps that no stall affected.
    pub gaps: usize,
    /// The Anderson–Darling statistic against exponential gaps; `None` (null) with too few.
    pub anderson_darling: Option<f64>,
    /// Its critical value: one in a hundred Poisson processes exceeds it.
    pub anderson_darling_critical: f64,
    /// Spearman's rank correlation of each gap with the next one.
    pub spearman: Option<f64>,
    /// The critical value of its magnitude, at the same level.
    pub spearman_critical: Option<f64>,
}

/// The fewest gaps for a check.
const MIN_GAPS: usize = 100;

impl Arrivals {
    /// Check gaps, in order of time. `None` is a gap that a stall affected; the gaps before and
    /// after it are not adjacent.
    pub fn of(gaps: &[Option<u64>]) -> Self {
        let kept: Vec<f64> = gaps.iter().flatten().map(|gap| *gap as f64).collect();
        let pairs: Vec<(f64, f64)> = gaps
            .windows(2)
            .filter_map(|pair| Some((pair[0]? as f64, pair[1]? as f64)))
            .collect();
        let enough = kept.len() >= MIN_GAPS && pairs.len() >= MIN_GAPS;
        Self {
            gaps: kept.len(),
            anderson_darling: enough.then(|| anderson_darling(&kept)),
            anderson_darling_critical: CRITICAL_AD,
            spearman: enough.then(|| spearman(&pairs)),
            spearman_critical: enough.then(|| CRITICAL_Z / ((pairs.len() - 1) as f64).sqrt()),
        }
    }

    /// Return a message for each failed check.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        match self.anderson_darling {
            None => problems.push(format!(
                "arrivals were not checked: {} gaps without stalls; {MIN_GAPS} are needed",
                self.gaps
            )),
            Some(found) if found > CRITICAL_AD => problems.push(format!(
                "gaps between requests are not exponential: Anderson-Darling {found:.2}, at most \
                 {CRITICAL_AD} expected"
            )),
            Some(_) => {}
        }
        if let (Some(found), Some(critical)) = (self.spearman, self.spearman_critical)
            && found.abs() > critical
        {
            problems.push(format!(
                "successive gaps depend on one another: Spearman {found:.3}, at most \
                 {critical:.3} expected"
            ));
        }
        problems
    }
}

/// Return the statistic A² for an exponential distribution with the mean of the values, with the
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

/// Return Spearman's rank correlation; ties share their mean rank.
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

    fn rejections(draw: impl Fn(&mut Rng) -> f64, runs: u64) -> (usize, usize) {
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

    /// Each check rejects about 20 of 2000 Poisson processes: within 5 standard deviations.
    #[test]
    fn the_level_is_one_percent() {
        let (shape, order) = rejections(Rng::exponential, 2000);
        assert!((1..=43).contains(&shape), "{shape}");
        assert!((1..=43).contains(&order), "{order}");
    }

    /// A generator that sends on a grid of a fifth of the mean gap, or with alternating gaps, is
    /// always detected.
    #[test]
    fn what_is_not_poisson_is_found() {
        let (shape, _) = rejections(|rng| (rng.exponential() * 5.0).ceil() / 5.0, 50);
        assert_eq!(shape, 50);
        let mut rng = Rng::new(1);
        let gaps: Vec<_> = (0..1000)
            .map(|i| Some((rng.exponential() * [1e6, 2e6][i % 2]) as u64))
            .collect();
        let problems = Arrivals::of(&gaps).problems();
        assert!(
            problems.iter().any(|c| c.contains("Spearman")),
            "{problems:?}"
        );
    }

    /// With too few gaps, the check fails with a message.
    #[test]
    fn too_few_gaps_are_no_proof() {
        let problems = Arrivals::of(&[Some(5); 50]).problems();
        assert!(problems[0].contains("not checked"), "{problems:?}");
    }
}
