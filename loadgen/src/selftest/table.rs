//! The results of the self-test as a table.

use std::fmt;

use super::accuracy::{Accuracy, TOLERANCE};
use super::arrivals::Arrivals;
use super::report::{Capacity, Report};
use super::verdict::Verdict;

struct Us(Option<f64>);

impl fmt::Display for Us {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(us) => write!(f, "{us:.1} µs"),
            None => f.write_str("unknown"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |cpus: &[usize]| {
            let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
            cpus.join(",")
        };
        writeln!(
            f,
            "self-test of tuner-loadgen {}: generator on CPU {}, responder on CPU {}, {:.0} s\n",
            self.version,
            list(&self.cpus),
            list(&self.server_cpus),
            self.took_s
        )?;
        if self.shared_core {
            writeln!(
                f,
                "Generator and responder share one CPU, so each measures the other too: stalls look like work,\n\
                 and no request is left out.\n"
            )?;
        }
        if !self.preferred {
            writeln!(
                f,
                "Other processes of this host affect every figure. To take priority over them, run as root in\n\
                 a session of its own (setsid --wait tuner-loadgen self-test).\n"
            )?;
        }
        let floor = &self.floor;
        writeln!(
            f,
            "floor      idle responder, {:.0}/s: p50 {}, p99 {} ({} with stalls)\n           \
             p99 of {} windows: standard deviation {}; {:.1} % of the requests excluded",
            floor.rate_per_s,
            Us(floor.p50_us),
            Us(floor.p99_us),
            Us(floor.raw_p99_us),
            floor.p99_by_window_us.len(),
            Us(floor.p99_deviation_us),
            floor.excluded_share * 100.0
        )?;
        let pacing = &self.pacing;
        writeln!(
            f,
            "pacing     send lag: p50 {}, p99 {}, max {} ({} with stalls)",
            Us(pacing.p50_us),
            Us(pacing.p99_us),
            Us(pacing.max_us),
            Us(pacing.raw_max_us)
        )?;
        for accuracy in &self.accuracy {
            write!(f, "{accuracy}")?;
        }
        write!(f, "{}", self.arrivals)?;
        for capacity in &self.capacity {
            write!(f, "{capacity}")?;
        }
        for cpu in &self.stalls {
            writeln!(
                f,
                "stalls     CPU {} ({}): {} over {} µs in {:.0} s, {:.2} % of the time, longest {:.0} µs; \
                 stolen {:.2} s",
                cpu.cpu,
                cpu.role,
                cpu.count,
                self.gap_us,
                self.watched_s,
                cpu.total_us / 1e4 / self.watched_s.max(1e-9),
                cpu.longest_us,
                self.steal_s.get(&cpu.cpu).copied().unwrap_or(0.0)
            )?;
        }
        match &self.verdict {
            Some(verdict) => write!(f, "\n{verdict}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "accuracy   {}: {} requests, {:.1} % excluded",
            self.name,
            self.samples,
            self.excluded_share * 100.0
        )?;
        for point in &self.points {
            let wrong = point.error.abs() > TOLERANCE;
            writeln!(
                f,
                "{:>16}  theory {:>10.1} µs  measured {:>10.1} µs  {:>+6.2} %{}",
                format!("p{}", point.quantile * 100.0),
                point.theory_us,
                point.measured_us,
                point.error * 100.0,
                if wrong { "  off" } else { "" }
            )?;
        }
        writeln!(
            f,
            "           single requests: {} off theory at p50, {} at p99",
            Us(self.residual_p50_us),
            Us(self.residual_p99_us)
        )
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = |value: Option<f64>, digits: usize| match value {
            Some(value) => format!("{value:.digits$}"),
            None => "unknown".into(),
        };
        writeln!(
            f,
            "arrivals   {} gaps: Anderson-Darling {} (exponential up to {}), Spearman at lag 1 {} \
             (independent up to ±{})",
            self.gaps,
            found(self.anderson_darling, 2),
            self.anderson_darling_critical,
            found(self.spearman, 3),
            found(self.spearman_critical, 3)
        )
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = match self.open_per_s {
            Some(rate) => format!("{rate:.0}/s held"),
            None => "none held".into(),
        };
        writeln!(
            f,
            "rate       {} thread{}: open loop {open}, closed loop {:.0}/s, {:.2} µs of CPU time per \
             request, {:.0} % busy",
            self.threads,
            if self.threads == 1 { "" } else { "s" },
            self.closed_per_s,
            self.cpu_us_per_request,
            self.generator_busy_share * 100.0
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let result_of = format!(
            "{} of noise between windows and {} of pacing",
            Us(self.noise_us),
            Us(self.pacing_us)
        );
        match self.above_us {
            Some(above) if self.fit => writeln!(
                f,
                "fit for p99 differences above {above:.0} µs on this host ({result_of})"
            )?,
            _ => writeln!(f, "not fit on this host ({result_of})")?,
        }
        for reason in &self.reasons {
            writeln!(f, "  - {reason}")?;
        }
        Ok(())
    }
}
