//! The processes of instances that are stopped when it is not their turn, and their guardian.

use std::collections::HashMap;
use std::fs;
use std::io;

use crate::plan::Plan;
use crate::resources;
use crate::sys::{self, Guardian, Process};

/// Most threads of an instance per CPU that it may run on, for each millisecond of a slice: 64 in
/// slices of 20 ms.
///
/// Each thread of a stopped process wakes up once to stop and once to go on, and to the latter the
/// instance's first requests wait. On a virtual machine of one CPU, an Apache of 470 threads took
/// 10 ms for it, at each of its slices; so this is 7 % of a slice. Servers that work when it is not
/// their turn have few threads: Caddy has some 8 on one CPU.
const MOST_THREADS_PER_CPU_AND_MS: f64 = 3.2;

/// The processes of all instances that a plan freezes.
///
/// On drop, and if this process dies, all of them run.
#[derive(Debug)]
pub struct Processes<'a> {
    /// By instance; an error says why one cannot be frozen.
    found: HashMap<&'a str, Result<Vec<Named>, String>>,
    guardian: Result<Guardian, String>,
}

#[derive(Debug)]
struct Named {
    pid: i32,
    process: Process,
    /// False for a child that the instance has started since.
    planned: bool,
}

/// The processes of the instances of one window, in its order.
#[derive(Debug)]
pub struct Frozen<'a> {
    /// The processes of each.
    pub arms: Vec<Vec<&'a Process>>,
    /// The guardian of all of them.
    pub guardian: &'a Guardian,
}

impl<'a> Processes<'a> {
    /// Open the processes that a plan freezes, and start their guardian; `None` if it freezes none.
    pub fn open(plan: &'a Plan) -> Option<Self> {
        let slices = plan.windows.iter().filter_map(|w| w.slices.as_ref());
        let frozen = slices.filter(|slices| slices.freeze);
        let ids: Vec<&str> = frozen
            .flat_map(|slices| slices.instances.iter().map(String::as_str))
            .collect();
        if ids.is_empty() {
            return None;
        }
        let frozen = plan.instances.iter().filter(|i| ids.contains(&&*i.id));
        let found: HashMap<&str, Result<Vec<Named>, String>> = frozen
            .map(|instance| {
                let pids = instance.pids.iter();
                let named = pids.map(|pid| open(*pid, true).map_err(|why| of(&instance.id, &why)));
                (instance.id.as_str(), named.collect())
            })
            .collect();
        let guardian = guardian(&found);
        Some(Self { found, guardian })
    }

    /// Follow the instances: those of their children that are new are stopped with them from now on.
    /// Servers such as Apache start processes under load.
    pub fn follow(&mut self) {
        let mut changed = false;
        for (id, found) in &mut self.found {
            let Ok(named) = found else { continue };
            named.retain(|named| named.planned || named.process.probe().is_ok());
            let known: Vec<i32> = named.iter().map(|named| named.pid).collect();
            for pid in resources::with_children(&known) {
                if known.contains(&pid) {
                    continue;
                }
                changed = true;
                match open(pid, false) {
                    Ok(child) => named.push(child),
                    // It has ended meanwhile.
                    Err(_) if !fs::exists(format!("/proc/{pid}")).unwrap_or(true) => {}
                    Err(why) => {
                        *found = Err(of(id, &why));
                        break;
                    }
                }
            }
        }
        if changed {
            self.guardian = guardian(&self.found);
        }
    }

    /// Return the processes of a window's instances, or why the window is measured without freezing:
    /// all are frozen or none, because one that runs on would disturb the others only.
    pub fn of(&self, arms: &[&str], slice_ms: f64) -> Result<Frozen<'_>, String> {
        let guardian = self.guardian.as_ref().map_err(Clone::clone)?;
        let arms = arms.iter().map(|id| self.arm(id, slice_ms));
        Ok(Frozen {
            arms: arms.collect::<Result<_, _>>()?,
            guardian,
        })
    }

    fn arm(&self, id: &str, slice_ms: f64) -> Result<Vec<&Process>, String> {
        let Some(found) = self.found.get(id) else {
            return Err(of(id, "it has no processes"));
        };
        let named = found.as_ref().map_err(Clone::clone)?;
        for Named { pid, process, .. } in named {
            let probed = process.probe();
            probed.map_err(|error| of(id, &reason(*pid, &error)))?;
        }
        let pids = || named.iter().map(|named| named.pid);
        let threads: usize = pids().map(resources::threads).sum();
        let cpus = pids().map(sys::cpus_of).max().unwrap_or(1).max(1);
        if threads as f64 > MOST_THREADS_PER_CPU_AND_MS * slice_ms * cpus as f64 {
            let why = format!(
                "it has {threads} threads on {cpus} CPU{}, too many to stop and continue them in \
                 slices of {slice_ms} ms",
                if cpus == 1 { "" } else { "s" }
            );
            return Err(of(id, &why));
        }
        Ok(named.iter().map(|named| &named.process).collect())
    }
}

/// Start the guardian of all these processes.
fn guardian(found: &HashMap<&str, Result<Vec<Named>, String>>) -> Result<Guardian, String> {
    let every = found.values().flatten().flatten();
    Guardian::start(every.map(|named| &named.process))
        .map_err(|error| format!("no process could be started that continues them: {error}"))
}

fn open(pid: i32, planned: bool) -> Result<Named, String> {
    if pid as u32 == std::process::id() {
        return Err(format!("process {pid} is the generator"));
    }
    let opened = Process::open(pid);
    let process = opened.map_err(|error| reason(pid, &error))?;
    Ok(Named {
        pid,
        process,
        planned,
    })
}

fn of(id: &str, why: &str) -> String {
    format!("instance {id:?}: {why}")
}

fn reason(pid: i32, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ESRCH) => format!("process {pid} does not exist"),
        Some(libc::EPERM) => format!("process {pid} belongs to another user"),
        Some(libc::ENOSYS) => "the kernel is older than Linux 5.3".into(),
        Some(libc::EINVAL) => format!("{pid} is a thread, not a process"),
        _ => format!("process {pid}: {error}"),
    }
}

impl Drop for Processes<'_> {
    fn drop(&mut self) {
        for named in self.found.values().flatten().flatten() {
            // One that has ended needs nothing.
            let _ = named.process.resume();
        }
    }
}
