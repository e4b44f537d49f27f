//! A responder whose faults are a closure, and plans for it.

pub mod h2;
pub mod quic;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use tuner_loadgen::output::WindowLine;
use tuner_loadgen::plan::Plan;
use tuner_loadgen::session::Session;

/// The response of a well-behaved responder.
pub const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// A server in this process: a thread for each connection, which runs the closure.
pub struct Responder {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    /// Weak, so that a connection is closed when its closure ends.
    streams: Arc<Mutex<Vec<Weak<TcpStream>>>>,
    acceptor: Option<JoinHandle<()>>,
}

/// One accepted connection.
pub struct Client {
    pub stream: Arc<TcpStream>,
    buffer: Vec<u8>,
}

impl Client {
    /// The next request as text; `None` at the end of the stream.
    pub fn request(&mut self) -> Option<String> {
        loop {
            let found = self.buffer.windows(4).position(|w| w == b"\r\n\r\n");
            if let Some(at) = found {
                let text = String::from_utf8_lossy(&self.buffer[..at]).into_owned();
                let length = text.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    let length = name.eq_ignore_ascii_case("content-length");
                    length.then(|| value.trim().parse::<usize>().ok())?
                });
                let end = at + 4 + length.unwrap_or(0);
                if self.buffer.len() >= end {
                    self.buffer.drain(..end);
                    return Some(text);
                }
            }
            let mut piece = [0; 4096];
            match (&*self.stream).read(&mut piece) {
                Ok(0) | Err(_) => return None,
                Ok(n) => self.buffer.extend_from_slice(&piece[..n]),
            }
        }
    }

    /// Answer.
    pub fn answer(&mut self, bytes: &[u8]) -> io::Result<()> {
        (&*self.stream).write_all(bytes)
    }
}

impl Responder {
    /// Serve with the closure, which is given each connection and its number.
    pub fn start(serve: impl Fn(Client, usize) + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), serve)
    }

    /// The same on an address.
    pub fn start_at(at: SocketAddr, serve: impl Fn(Client, usize) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(at).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let streams = Arc::new(Mutex::new(Vec::new()));
        let serve = Arc::new(serve);
        let (stopping, kept) = (Arc::clone(&stop), Arc::clone(&streams));
        let acceptor = std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if stopping.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                stream.set_nodelay(true).unwrap();
                let stream = Arc::new(stream);
                kept.lock().unwrap().push(Arc::downgrade(&stream));
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || {
                    let buffer = Vec::new();
                    serve(Client { stream, buffer }, number);
                });
            }
        });
        Self {
            address,
            stop,
            streams,
            acceptor: Some(acceptor),
        }
    }

    /// Answer each request well.
    pub fn good() -> Self {
        Self::start(
            |mut client, _| {
                while client.request().is_some() && client.answer(HELLO).is_ok() {}
            },
        )
    }

    /// Close the connections there are.
    pub fn hang_up(&self) {
        let streams = self.streams.lock().unwrap().split_off(0);
        for stream in streams.iter().filter_map(Weak::upgrade) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        self.hang_up();
    }
}

/// Return an address on which no process listens.
pub fn unused_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// A plan of one open window of half a second, with changes to the window and to the plan.
pub fn plan(address: SocketAddr, window: Value, changes: Value) -> Value {
    let mut first = json!({
        "id": "w0", "instance": "a", "mode": "open", "rate_per_s": 400, "seed": 1,
        "connections": 8, "warmup_s": 0.1, "duration_s": 0.5, "timeout_s": 10.0,
    });
    merge(&mut first, window);
    let mut plan = json!({
        "version": 1,
        "spin": "off",
        "requests": [{"path": "/", "expect": {"status": 200, "length": 5}}],
        "instances": [{"id": "a", "address": address.to_string()}],
        "windows": [first],
    });
    merge(&mut plan, changes);
    plan
}

/// Set fields of an object.
pub fn merge(into: &mut Value, from: Value) {
    let from = from.as_object().cloned().unwrap_or_default();
    into.as_object_mut().unwrap().extend(from);
}

/// Measure all windows of a plan.
pub fn measure(plan: &Value) -> Vec<WindowLine> {
    let plan = Plan::parse(&plan.to_string()).unwrap();
    let mut session = Session::new(&plan).unwrap();
    let windows = plan.windows.iter();
    windows.flat_map(|w| session.measure(w).unwrap()).collect()
}

/// Measure one window of the plan above.
pub fn window(address: SocketAddr, window: Value) -> WindowLine {
    measure(&plan(address, window, json!({}))).remove(0)
}

/// Every request offered is accounted for, once.
pub fn assert_accounted(line: &WindowLine) {
    let failed: u64 = line
        .errors
        .iter()
        .filter(|(kind, _)| !kind.starts_with("connect_"))
        .map(|(_, count)| count)
        .sum();
    let sum = line.completed + line.timeouts + line.unsent + line.in_flight + failed;
    assert_eq!(line.offered, sum, "{line:?}");
    assert_eq!(line.latency.corrected.count, line.offered - failed);
}

/// Wait until a process handles a signal: before that, SIGTERM would kill it like any other, and the
/// death of its parent would go unnoticed (SIGUSR2).
pub fn await_handler(pid: u32, signal: i32) {
    let status = format!("/proc/{pid}/status");
    for _ in 0..1000 {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        if mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it never handled signal {signal}");
}

/// Return the definition that a schema refers to, or the schema itself.
pub fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(target) => root.pointer(&target[1..]).unwrap(),
        None => schema,
    }
}

/// Every key of a value has a described property, and nothing that is required is missing.
pub fn assert_described(root: &Value, schema: &Value, value: &Value, at: &str) {
    let target = resolve(root, schema);
    if let Some(items) = value.as_array() {
        let inner = schema.get("items").or(target.get("items"));
        for item in items {
            assert_described(root, inner.expect(at), item, at);
        }
    }
    let Some(object) = value.as_object() else {
        return;
    };
    if target.get("additionalProperties").is_some() {
        return;
    }
    for list in [schema, target] {
        for name in list["required"].as_array().into_iter().flatten() {
            let name = name.as_str().unwrap();
            assert!(object.contains_key(name), "{at}/{name} is required");
        }
    }
    for (name, inner) in object {
        let own = schema.get("properties").and_then(|p| p.get(name));
        let property = own.or(target.get("properties").and_then(|p| p.get(name)));
        let property = property.unwrap_or_else(|| panic!("{at}/{name} is not in the schema"));
        let words = property.get("description");
        assert!(words.is_some(), "{at}/{name} is not described");
        assert_described(root, property, inner, &format!("{at}/{name}"));
    }
}

/// Run the program; return its output, its errors and its exit code.
pub fn output_of(arguments: &[&str]) -> (String, String, Option<i32>) {
    let program = env!("CARGO_BIN_EXE_tuner-loadgen");
    let output = std::process::Command::new(program)
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code();
    (text(output.stdout), text(output.stderr), code)
}
