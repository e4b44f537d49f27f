//! Options of `backend`.

use std::net::SocketAddr;

use lexopt::{Arg, Parser, ValueExt as _};
use tuner_loadgen::sys;

use super::values::{Parsed, text, value};

const HELP: &str = "\
Answer FastCGI, uwsgi, SCGI and gRPC behind a proxy, with given sizes after given times.

Usage: tuner-loadgen backend FILE [--listen ADDRESS] [--threads N] [--pid-file FILE] [--check]

      --listen ADDRESS  Listen on this address and port; port 0 means any [default: 127.0.0.1:0]
      --threads N       Answer with N threads [default: the number of usable CPUs]
      --pid-file FILE   Write the process id into this file once it listens
      --check           Check the file and exit

FILE is a JSON object (format: README.md). One port speaks all protocols: the first bytes of a
connection tell them apart. A request names its answer by number in the header Tuner-Answer. Prints
`listening on ADDRESS` and runs until SIGTERM or SIGINT.

Exit codes: 0 success; 2 invalid argument or file; 1 any other failure.

Examples:
  tuner-loadgen backend answers.json --listen 127.0.0.1:9000
";

/// Options of `backend`.
#[derive(Debug)]
pub struct BackendOptions {
    pub file: String,
    pub listen: SocketAddr,
    pub threads: usize,
    pub pid_file: Option<String>,
    pub check: bool,
}

pub(super) fn parse(parser: &mut Parser) -> Result<Parsed<BackendOptions>, String> {
    let (mut file, mut listen) = (None, SocketAddr::from(([127, 0, 0, 1], 0)));
    let (mut threads, mut pid_file, mut check) = (0, None, false);
    while let Some(arg) = parser.next().map_err(text)? {
        match arg {
            Arg::Long("listen") => {
                listen = value(parser, "--listen", "an address such as 127.0.0.1:9000")?;
            }
            Arg::Long("threads") => {
                threads = value(parser, "--threads", "a number from 1 to 1024")?;
                if !(1..=1024).contains(&threads) {
                    return Err(format!(
                        "--threads: {threads} is not allowed; it must be a number from 1 to 1024"
                    ));
                }
            }
            Arg::Long("pid-file") => pid_file = Some(value(parser, "--pid-file", "a path")?),
            Arg::Long("check") => check = true,
            Arg::Short('h') | Arg::Long("help") => return Ok(Parsed::Print(HELP.into())),
            Arg::Value(path) if file.is_none() => file = Some(path.string().map_err(text)?),
            other => return Err(text(other.unexpected())),
        }
    }
    let file = file.ok_or("backend: no file; give one with the answers")?;
    if threads == 0 {
        threads = sys::usable_cpus(0..libc::CPU_SETSIZE as usize).len();
    }
    Ok(Parsed::Options(BackendOptions {
        file,
        listen,
        threads,
        pid_file,
        check,
    }))
}
