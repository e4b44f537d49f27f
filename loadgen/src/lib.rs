//! An open-loop HTTP load generator. It measures latency from the instant at which each request was
//! intended, and tells delays of the server from its own and from those of the host.
//!
//! The modules from the ground up. Each one imports only from those above its own line, and
//! `tests/test_loadgen_imports.py` checks that.
//!
//! ```text
//! ground     sys        Linux system calls; the only module with `unsafe` code
//!            errors     kinds of failures, and their counts
//!            rng        random numbers
//!            huffman    the Huffman code of header strings
//!            fields     header fields: syntax, integers, strings
//! input      profile    rates over time
//!            slices     the order of instances that are measured in turn
//!            plan       the plan: requests, instances, windows
//!            instants   recorded instants of arrival
//!            schedule   the intended instant of each request of a window
//!            control    commands on standard input
//! measures   record     outcome and times of each request
//!            cycles     busy cycles, and the requests that no stall affected
//!            histogram  latency histograms and their percentiles
//!            hgrm       HdrHistogram's percentile text
//!            stalls     spans in which a core did not run
//!            resources  CPU time, memory, stolen time
//!            listeners  the processes that listen on an address
//!            backlog    when an instance that cannot keep up is given up
//!            freeze     when instances that are not at turn are stopped
//!            processes  the processes of those instances
//!            live       figures of a running window, for a progress line
//! protocols  request    a request in the bytes of every protocol
//!            machine    the interface of a protocol's state machine
//!            http1      HTTP/1.1
//!            http2      HTTP/2
//!            http3      HTTP/3
//!            prepare    requests of a plan rendered for every protocol
//! transport  tls        TLS over TCP
//!            transport  a byte stream over TCP or TLS
//!            quic       QUIC, which carries HTTP/3
//!            carrier    one connection: a protocol over a transport
//! engine     alarms     timers of connections
//!            slots      places for requests, one for each stream
//!            pool       the connections of one thread to one instance
//!            engine     the loop that sends and receives, one for each thread
//! results    series     a window by seconds, and by pieces of its rates
//!            output     the JSON line of a window
//!            validity   whether a window's figures are valid
//! programs   session    the windows of a plan, one after another
//!            responder  a server with known delays
//!            backend    a server behind a proxy: FastCGI, uwsgi, SCGI and gRPC
//!            selftest   accuracy and highest rate on this host
//!            ticker     stalls of this host, reported line by line
//! ```
//!
//! The command line is in `src/bin/tuner-loadgen`.

pub mod alarms;
pub mod backend;
pub mod backlog;
pub mod carrier;
pub mod control;
pub mod cycles;
pub mod engine;
pub mod errors;
pub mod fields;
pub mod freeze;
pub mod hgrm;
pub mod histogram;
pub mod http1;
pub mod http2;
pub mod http3;
pub mod huffman;
pub mod instants;
pub mod listeners;
pub mod live;
pub mod machine;
pub mod output;
pub mod plan;
pub mod pool;
pub mod prepare;
pub mod processes;
pub mod profile;
pub mod quic;
pub mod record;
pub mod request;
pub mod resources;
pub mod responder;
pub mod rng;
pub mod schedule;
pub mod selftest;
pub mod series;
pub mod session;
pub mod slices;
pub mod slots;
pub mod stalls;
pub mod sys;
pub mod ticker;
pub mod tls;
pub mod transport;
pub mod validity;
