//! The plan of one window, from the options of `run`.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use tuner_loadgen::plan::urls::{self, Entry};
use tuner_loadgen::plan::{
    Instance, InstantsUnit, Mode, Plan, Protocol, Request, Spin, Ticker, Tls, WHOLE_PHASE, Window,
};
use tuner_loadgen::sys;

use super::RunOptions;

/// The longest attempt to connect to one of several addresses.
const CONNECT: Duration = Duration::from_secs(1);

impl RunOptions {
    /// Return the plan of these options.
    pub fn plan(&mut self) -> Result<Plan, String> {
        let entries = self.entries()?;
        let instance = self.instance("server", &self.url)?;
        self.choose_cpus()?;
        let plan = Plan {
            version: 1,
            cpus: self.cpus.clone(),
            spin: self.spin(),
            ticker: (!self.ticker_cpus.is_empty()).then(|| Ticker {
                cpus: self.ticker_cpus.clone(),
                period_us: 500,
                priority: 50,
            }),
            gap_us: 100,
            wait_to_start: false,
            samples_dir: self.samples.clone(),
            requests: entries
                .into_iter()
                .map(|entry| self.request(entry))
                .collect(),
            instances: vec![instance],
            windows: vec![Window {
                id: "run".into(),
                instance: "server".into(),
                slices: None,
                mode: if self.closed {
                    Mode::Closed
                } else {
                    Mode::Open
                },
                rate_per_s: self.one_rate(),
                rates: self.rates.clone(),
                instants_file: self.instants.clone(),
                instants_unit: InstantsUnit::default(),
                arrival: self.arrival,
                phase: WHOLE_PHASE,
                seed: self.seed.unwrap_or(1),
                connections: self.connections,
                streams: self.streams,
                requests_per_connection: self.requests_per_connection,
                warmup_s: self.warmup_s,
                duration_s: self.duration_s,
                timeout_s: self.timeout_s,
            }],
        };
        plan.check().map_err(|error| error.to_string())?;
        plan.resolve().map_err(|error| error.to_string())
    }

    /// Return the server of a URL.
    pub(super) fn instance(&self, id: &str, url: &str) -> Result<Instance, String> {
        let (scheme, host, _) = split_url(url)?;
        let encrypted = scheme == "https";
        Ok(Instance {
            id: id.into(),
            address: resolve(host, if encrypted { 443 } else { 80 })?,
            host: Some(host.to_owned()),
            pids: Vec::new(),
            protocol: self.protocol,
            tls: self.tls(url, encrypted)?,
        })
    }

    /// Return the TLS settings, if the URL has https.
    fn tls(&self, url: &str, encrypted: bool) -> Result<Option<Tls>, String> {
        let named = [
            ("--ca-file", self.ca_file.is_some()),
            ("--insecure", self.insecure),
            ("--no-resume", self.no_resume),
            ("--http3", self.protocol == Protocol::Http3),
        ];
        if let (false, Some((name, _))) = (encrypted, named.iter().find(|(_, given)| *given)) {
            return Err(format!(
                "{name} is not allowed with {url:?}; the URL must begin with https"
            ));
        }
        Ok(encrypted.then(|| Tls {
            server_name: None,
            ca_file: self.ca_file.clone(),
            verify: !self.insecure,
            resume: !self.no_resume,
        }))
    }

    /// Return the number of the generator's threads.
    pub fn threads(&self) -> usize {
        self.cpus.len().max(1)
    }

    /// Return the rate, unless another option sets when requests are sent.
    fn one_rate(&self) -> Option<f64> {
        let other = self.closed || self.rates.is_some() || self.instants.is_some();
        (!other).then_some(self.rate_per_s)
    }

    /// Return the targets: the list, or the one URL.
    fn entries(&mut self) -> Result<Vec<Entry>, String> {
        let listed = match &self.urls {
            None if self.url.is_empty() => {
                return Err("run: no URL; give one such as http://127.0.0.1:8080/".into());
            }
            None => {
                let (_, _, path) = split_url(&self.url)?;
                return Ok(vec![Entry {
                    line: 0,
                    method: None,
                    encrypted: false,
                    authority: None,
                    path: path.into(),
                    weight: 1.0,
                }]);
            }
            Some(file) => file,
        };
        let mut entries = urls::read(listed)?;
        let file = listed.display();
        if self.url.is_empty() {
            let found = entries.iter().find_map(|entry| entry.authority.as_ref());
            let host = found.ok_or_else(|| {
                format!("run: no URL, and {file} contains only paths; give a URL such as http://127.0.0.1:8080/")
            })?;
            let scheme = if entries.iter().any(|entry| entry.encrypted) {
                "https"
            } else {
                "http"
            };
            self.url = format!("{scheme}://{host}/");
        }
        let (scheme, host, _) = split_url(&self.url)?;
        for entry in &mut entries {
            // One run has one server.
            let Some(authority) = entry.authority.take() else {
                continue;
            };
            if authority != host || entry.encrypted != (scheme == "https") {
                return Err(format!(
                    "{file}:{}: the host {authority:?} is not allowed; this run is for \
                     {scheme}://{host}",
                    entry.line
                ));
            }
        }
        Ok(entries)
    }

    fn request(&self, entry: Entry) -> Request {
        let usual = if self.body_file.is_some() {
            "POST"
        } else {
            "GET"
        };
        // A list may mix methods, and its GETs have no body.
        let bodiless = matches!(entry.method.as_deref(), Some("GET" | "HEAD"));
        let method = entry.method.or_else(|| self.method.clone());
        Request {
            weight: entry.weight,
            method: method.unwrap_or_else(|| usual.into()),
            path: entry.path,
            urls_file: None,
            headers: self.headers.clone(),
            body_base64: None,
            body_file: self.body_file.clone().filter(|_| !bodiless),
            expect: Some(self.expect.clone()),
        }
    }

    /// Choose a CPU for each of several threads: the first ones that the ticker does not watch.
    fn choose_cpus(&mut self) -> Result<(), String> {
        let (threads, cpus) = (self.threads, self.cpus.len());
        if cpus > 0 && threads > 0 && threads != cpus {
            return Err(format!(
                "--threads: {threads} is not allowed with --cpu of {cpus} CPUs; it must be {cpus}, or absent"
            ));
        }
        if self.connections < threads {
            return Err(format!(
                "--connections: {} is not allowed; it must be at least {threads}, the threads",
                self.connections
            ));
        }
        if cpus > 0 || threads < 2 {
            return Ok(());
        }
        let mut usable = sys::usable_cpus(0..libc::CPU_SETSIZE as usize);
        usable.retain(|cpu| !self.ticker_cpus.contains(cpu));
        if usable.len() < threads {
            return Err(format!(
                "--threads: {threads} is not allowed; this process may use the CPUs {usable:?}"
            ));
        }
        usable.truncate(threads);
        self.spin.get_or_insert(Spin::Off);
        self.cpus = usable;
        Ok(())
    }

    fn spin(&self) -> Spin {
        match self.spin {
            Some(spin) => spin,
            None if self.cpus.is_empty() => {
                // Without a core of its own, a spinning loop would take one from the server.
                Spin::Off
            }
            None => Spin::Full,
        }
    }
}

/// Split a URL into scheme, host (with the port, if given) and path.
pub(super) fn split_url(url: &str) -> Result<(&str, &str, &str), String> {
    urls::split(url).ok_or_else(|| {
        format!(
            "{url:?} is not allowed; the URL must have the form http://127.0.0.1:8080/path, or https"
        )
    })
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let after_address = host.rfind(']').unwrap_or(0);
    let with_port = if host[after_address..].contains(':') {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    };
    let addresses: Vec<SocketAddr> = with_port
        .to_socket_addrs()
        .map_err(|error| format!("{host}: {error}"))?
        .collect();
    // A name may have an address on which no process listens: localhost, for ::1.
    let answers = |at: &&SocketAddr| TcpStream::connect_timeout(at, CONNECT).is_ok();
    let several = addresses.len() > 1;
    let answering = addresses.iter().filter(|_| several).find(answers);
    let chosen = answering.or(addresses.first()).copied();
    chosen.ok_or_else(|| format!("{host}: no address"))
}
