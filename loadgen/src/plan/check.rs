//! Checks of a plan beyond its types.

use std::collections::{HashMap, HashSet};
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{
    Instance, Mode, Piece, Plan, PlanError, Protocol, Request, Slices, Spin, Ticker, Tls, Window,
    decode_hash, server_name,
};
use crate::fields::{is_field_value, is_token};
use crate::profile::Profile;

/// The largest process id of any Linux (PID_MAX_LIMIT).
const MAX_PID: i32 = 4_194_304;
/// The most streams of a connection, and of all of them.
const MAX_STREAMS: u32 = 1000;
const MAX_SLOTS: usize = 1_000_000;
/// The longest schedule, in requests: its columns then take some 6 GB.
const MAX_REQUESTS: f64 = 2e8;
/// The highest rate.
const MAX_PER_S: f64 = 1e7;
/// The most pieces of a ladder.
const MAX_PIECES: usize = 10_000;
/// The longest window, in seconds.
const MAX_S: f64 = 86_400.0;
/// The most instances that share a window in slices.
const MAX_ARMS: usize = 64;
/// The shortest and the longest slice, in milliseconds.
const MIN_SLICE_MS: f64 = 1.0;
const MAX_SLICE_MS: f64 = 60_000.0;
/// The longest interval at which requests may be sent together, in microseconds.
const MAX_EVERY_US: u64 = 100_000;

fn require(
    good: bool,
    path: impl fmt::Display,
    value: impl fmt::Debug,
    allowed: &str,
) -> Result<(), PlanError> {
    if good {
        return Ok(());
    }
    Err(PlanError {
        path: path.to_string(),
        message: format!("{value:?} is not allowed; it must be {allowed}"),
    })
}

impl Plan {
    /// Check the values of the plan.
    pub fn check(&self) -> Result<(), PlanError> {
        require(
            self.version == 1,
            "version",
            self.version,
            "1, the only version this program reads",
        )?;
        require(
            (1..=1_000_000).contains(&self.gap_us),
            "gap_us",
            self.gap_us,
            "1 to 1000000",
        )?;
        if let Spin::EveryUs(us) = self.spin {
            require(
                (1..=MAX_EVERY_US).contains(&us),
                "spin.every_us",
                us,
                "1 to 100000",
            )?;
        }
        if let Some(ticker) = &self.ticker {
            ticker.check()?;
        }
        require(
            (1..=65_536).contains(&self.requests.len()),
            "requests",
            self.requests.len(),
            "a list of 1 to 65536 requests",
        )?;
        for (i, request) in self.requests.iter().enumerate() {
            request.check(&format!("requests[{i}]"))?;
        }
        let mut instances = HashSet::new();
        for (i, instance) in self.instances.iter().enumerate() {
            let path = format!("instances[{i}]");
            require(
                instances.insert(instance.id.as_str()),
                format_args!("{path}.id"),
                &instance.id,
                "different from the ids before it",
            )?;
            for (j, pid) in instance.pids.iter().enumerate() {
                require(
                    (1..=MAX_PID).contains(pid),
                    format_args!("{path}.pids[{j}]"),
                    pid,
                    "a process id, 1 to 4194304",
                )?;
            }
            require(
                instance.protocol != Protocol::Http3 || instance.tls.is_some(),
                format_args!("{path}.tls"),
                &instance.tls,
                "an object (at least {}), because HTTP/3 requires TLS",
            )?;
            if let Some(tls) = &instance.tls {
                tls.check(&path)?;
            }
            let host = instance.host.as_deref().unwrap_or("a");
            require(
                is_field_value(host) && !host.is_empty(),
                format_args!("{path}.host"),
                host,
                "a host name",
            )?;
        }
        let mut windows = HashSet::new();
        for (i, window) in self.windows.iter().enumerate() {
            let path = format!("windows[{i}]");
            require(
                windows.insert(window.id.as_str()),
                format_args!("{path}.id"),
                &window.id,
                "different from the ids before it",
            )?;
            let known = |id: &str| self.instances.iter().find(|instance| instance.id == id);
            match &window.slices {
                Some(slices) => {
                    slices.check(window, &path, |id| known(id).is_some())?;
                    let arms = slices.instances.iter().filter_map(|id| known(id));
                    slices.check_freeze(&path, &arms.collect::<Vec<_>>())?;
                }
                None => require(
                    known(&window.instance).is_some(),
                    format_args!("{path}.instance"),
                    &window.instance,
                    "the id of one of the instances",
                )?,
            }
            let arms = window.arms();
            let protocols = arms.iter().filter_map(|id| Some(known(id)?.protocol));
            for protocol in protocols {
                window.check(&path, protocol)?;
            }
        }
        Ok(())
    }
}

impl Ticker {
    fn check(&self) -> Result<(), PlanError> {
        require(
            (50..=1_000_000).contains(&self.period_us),
            "ticker.period_us",
            self.period_us,
            "50 to 1000000",
        )?;
        require(
            (1..=99).contains(&self.priority),
            "ticker.priority",
            self.priority,
            "1 to 99",
        )
    }
}

impl Request {
    fn check(&self, path: &str) -> Result<(), PlanError> {
        require(
            self.weight.is_finite() && self.weight > 0.0,
            format_args!("{path}.weight"),
            self.weight,
            "a number above 0",
        )?;
        require(
            is_token(&self.method),
            format_args!("{path}.method"),
            &self.method,
            "an HTTP method such as GET",
        )?;
        let target = self.path.bytes().all(|byte| byte.is_ascii_graphic());
        let path_is_good = match self.urls_file {
            Some(_) => self.path.is_empty(),
            None => target && (self.path.starts_with('/') || self.path == "*"),
        };
        require(
            path_is_good,
            format_args!("{path}.path"),
            &self.path,
            "a path that starts with / and contains no spaces; absent with a urls_file",
        )?;
        require(
            self.body_base64.is_none() || self.body_file.is_none(),
            format_args!("{path}.body_file"),
            &self.body_file,
            "absent with body_base64",
        )?;
        for (i, (name, value)) in self.headers.iter().enumerate() {
            require(
                is_token(name),
                format_args!("{path}.headers[{i}][0]"),
                name,
                "a header name",
            )?;
            require(
                is_field_value(value),
                format_args!("{path}.headers[{i}][1]"),
                value,
                "a header value without line breaks",
            )?;
        }
        if let Some(body) = &self.body_base64 {
            require(
                STANDARD.decode(body).is_ok(),
                format_args!("{path}.body_base64"),
                body,
                "standard base64 with padding",
            )?;
        }
        let Some(expect) = &self.expect else {
            return Ok(());
        };
        if let Some(status) = expect.status {
            require(
                (200..=599).contains(&status),
                format_args!("{path}.expect.status"),
                status,
                "200 to 599",
            )?;
        }
        if let Some(sha256) = &expect.sha256 {
            require(
                decode_hash(sha256).is_some(),
                format_args!("{path}.expect.sha256"),
                sha256,
                "64 hexadecimal digits",
            )?;
        }
        Ok(())
    }
}

impl Tls {
    fn check(&self, path: &str) -> Result<(), PlanError> {
        let name = self.server_name.as_deref();
        require(
            name.is_none_or(|name| server_name(name).is_some()),
            format_args!("{path}.tls.server_name"),
            name,
            "a host name or an IP address, without a port",
        )
    }
}

impl Slices {
    fn check(
        &self,
        window: &Window,
        path: &str,
        known: impl Fn(&str) -> bool,
    ) -> Result<(), PlanError> {
        require(
            window.instance.is_empty(),
            format_args!("{path}.instance"),
            &window.instance,
            "absent with slices",
        )?;
        require(
            (2..=MAX_ARMS).contains(&self.instances.len()),
            format_args!("{path}.slices.instances"),
            self.instances.len(),
            "a list of 2 to 64 ids",
        )?;
        for (i, id) in self.instances.iter().enumerate() {
            require(
                known(id) && !self.instances[..i].contains(id),
                format_args!("{path}.slices.instances[{i}]"),
                id,
                "the id of one of the instances, different from those before it",
            )?;
        }
        require(
            (MIN_SLICE_MS..=MAX_SLICE_MS).contains(&self.length_ms),
            format_args!("{path}.slices.length_ms"),
            self.length_ms,
            "1 to 60000",
        )?;
        require(
            window.rates.is_none() && window.instants_file.is_none(),
            format_args!("{path}.slices"),
            "an object",
            "absent with rates and instants_file",
        )?;
        require(
            !self.same_arrivals || window.mode == Mode::Open,
            format_args!("{path}.slices.same_arrivals"),
            self.same_arrivals,
            "false in a closed loop",
        )?;
        require(
            window.duration_ns() > 0,
            format_args!("{path}.duration_s"),
            window.duration_s,
            "long enough for one slice of each instance",
        )
    }
}

impl Slices {
    /// Check that each instance has processes, and that no two share one.
    fn check_freeze(&self, path: &str, arms: &[&Instance]) -> Result<(), PlanError> {
        let mut owners = HashMap::new();
        for instance in arms.iter().filter(|_| self.freeze) {
            let id = &instance.id;
            require(
                !instance.pids.is_empty(),
                format_args!("{path}.slices.freeze"),
                self.freeze,
                &format!("false, because instance {id:?} has no pids"),
            )?;
            for pid in &instance.pids {
                let other = *owners.entry(*pid).or_insert(id);
                require(
                    other == id,
                    format_args!("{path}.slices.freeze"),
                    self.freeze,
                    &format!("false, because {other:?} and {id:?} share process {pid}"),
                )?;
            }
        }
        Ok(())
    }
}

impl Window {
    fn check(&self, path: &str, protocol: Protocol) -> Result<(), PlanError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-#".contains(&byte);
        require(
            !self.id.is_empty() && self.id.bytes().all(plain) && !self.id.starts_with('.'),
            format_args!("{path}.id"),
            &self.id,
            "made of letters, digits, '.', '_', '-' and '#' (it names a file)",
        )?;
        require(
            (1..=100_000).contains(&self.connections),
            format_args!("{path}.connections"),
            self.connections,
            "1 to 100000",
        )?;
        require(
            self.streams == 1 || protocol != Protocol::Http1,
            format_args!("{path}.streams"),
            self.streams,
            "1: HTTP/1.1 carries one request at a time on each connection",
        )?;
        require(
            (1..=MAX_STREAMS).contains(&self.streams)
                && self.connections * self.streams as usize <= MAX_SLOTS,
            format_args!("{path}.streams"),
            self.streams,
            "1 to 1000, and at most 1000000 on all connections",
        )?;
        require(
            self.requests_per_connection != Some(0),
            format_args!("{path}.requests_per_connection"),
            self.requests_per_connection,
            "at least 1, or null",
        )?;
        require(
            self.duration_s > 0.0 && self.duration_s <= MAX_S,
            format_args!("{path}.duration_s"),
            self.duration_s,
            "above 0 and at most 86400",
        )?;
        require(
            self.warmup_s >= 0.0 && self.warmup_s <= MAX_S,
            format_args!("{path}.warmup_s"),
            self.warmup_s,
            "0 to 86400",
        )?;
        require(
            self.timeout_s >= 0.001 && self.timeout_s <= 3600.0,
            format_args!("{path}.timeout_s"),
            self.timeout_s,
            "0.001 to 3600",
        )?;
        require(
            (0.0..1.0).contains(&self.phase),
            format_args!("{path}.phase"),
            self.phase,
            "at least 0 and below 1",
        )?;
        if self.mode == Mode::Open {
            return self.check_offer(path);
        }
        require(
            self.rates.is_none() && self.instants_file.is_none(),
            format_args!("{path}.mode"),
            self.mode,
            "open if rates or instants_file is given",
        )
    }

    /// Check the rates of an open loop.
    fn check_offer(&self, path: &str) -> Result<(), PlanError> {
        let given = [
            self.rate_per_s.is_some(),
            self.rates.is_some(),
            self.instants_file.is_some(),
        ];
        if given[1..].contains(&true) {
            require(
                given.iter().filter(|given| **given).count() == 1,
                format_args!("{path}.rate_per_s"),
                self.rate_per_s,
                "absent if rates or instants_file is given; give only one of the three",
            )?;
        } else {
            let rate = self.rate_per_s.unwrap_or(f64::NAN);
            require(
                rate > 0.0 && rate <= MAX_PER_S,
                format_args!("{path}.rate_per_s"),
                self.rate_per_s,
                "above 0 and at most 10000000 in mode open (or give rates, or instants_file)",
            )?;
        }
        let pieces = self.pieces();
        if let Some(rates) = &self.rates {
            require(
                (1..=MAX_PIECES).contains(&rates.len()),
                format_args!("{path}.rates"),
                rates.len(),
                "a list of 1 to 10000 pieces",
            )?;
            for (i, piece) in rates.iter().enumerate() {
                piece.check(&format!("{path}.rates[{i}]"))?;
            }
            let total_s: f64 = rates.iter().map(|piece| piece.for_s).sum();
            require(
                (total_s - self.duration_s).abs() < 1e-6,
                format_args!("{path}.duration_s"),
                self.duration_s,
                &format!("the sum of the for_s of its rates, {total_s}"),
            )?;
        }
        let warmup = pieces.first().map_or(0.0, |p| p.rate_per_s * self.warmup_s);
        let requests = warmup + Profile::new(&pieces).requests();
        require(
            requests <= MAX_REQUESTS,
            format_args!("{path}.duration_s"),
            self.duration_s,
            "short enough for 200 million requests in one window",
        )?;
        require(
            requests > 0.0 || self.instants_file.is_some(),
            format_args!("{path}.rates"),
            "0 requests",
            "a list with at least one rate above 0",
        )
    }
}

impl Piece {
    fn check(&self, path: &str) -> Result<(), PlanError> {
        require(
            self.for_s > 0.0 && self.for_s <= MAX_S,
            format_args!("{path}.for_s"),
            self.for_s,
            "above 0 and at most 86400",
        )?;
        let to = self.to_rate_per_s.unwrap_or(0.0);
        for (name, rate) in [("rate_per_s", self.rate_per_s), ("to_rate_per_s", to)] {
            require(
                (0.0..=MAX_PER_S).contains(&rate),
                format_args!("{path}.{name}"),
                rate,
                "0 to 10000000",
            )?;
        }
        Ok(())
    }
}
