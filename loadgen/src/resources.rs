//! Resources used during a window: CPU time and memory of the server, time stolen by the
//! hypervisor.

use std::collections::BTreeMap;
use std::fs;

use crate::sys;

/// CPU time of processes between two readings.
#[derive(Debug)]
pub struct CpuTime {
    pids: Vec<i32>,
    start: Vec<Option<u64>>,
    end: Vec<Option<u64>>,
}

impl CpuTime {
    /// Create it without readings.
    pub fn of(pids: &[i32]) -> Self {
        Self {
            pids: pids.to_vec(),
            start: vec![None; pids.len()],
            end: vec![None; pids.len()],
        }
    }

    /// Take the first reading. It takes some 300 ns per process, and no memory.
    pub fn start(&mut self) {
        for (pid, ns) in self.pids.iter().zip(&mut self.start) {
            *ns = sys::process_cpu_ns(*pid);
        }
    }

    /// Take the second reading.
    pub fn end(&mut self) {
        for (pid, ns) in self.pids.iter().zip(&mut self.end) {
            *ns = sys::process_cpu_ns(*pid);
        }
    }

    /// Return the CPU time of the processes so far; `None` if there are none.
    pub fn now_ns(&self) -> Option<u64> {
        let times = self.pids.iter().map(|pid| sys::process_cpu_ns(*pid));
        times.flatten().reduce(|all, its| all + its)
    }

    /// Return the CPU seconds between the readings, of the processes present at both; `None` if
    /// there were none.
    pub fn seconds(&self) -> Option<f64> {
        let pairs = self.start.iter().zip(&self.end);
        let deltas: Vec<u64> = pairs
            .filter_map(|(start, end)| end.as_ref()?.checked_sub((*start)?))
            .collect();
        (!deltas.is_empty()).then(|| deltas.iter().sum::<u64>() as f64 / 1e9)
    }
}

/// Return these processes and those that they have started, and these in turn.
///
/// A kernel without CONFIG_PROC_CHILDREN shows none.
pub fn with_children(pids: &[i32]) -> Vec<i32> {
    let mut found = pids.to_vec();
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let tasks = fs::read_dir(format!("/proc/{pid}/task"));
        // Each thread has the children that it has started itself.
        for task in tasks.into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let ids = children.split_ascii_whitespace();
            for child in ids.map_while(|id| id.parse().ok()) {
                if !found.contains(&child) {
                    found.push(child);
                }
            }
        }
        next += 1;
    }
    found
}

/// Return the number of a process's threads; 0 if it has ended.
pub fn threads(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// Return the time for which each thread of the processes was ready to run but waited, since its
/// start, in nanoseconds: the second number of `/proc/PID/task/TID/schedstat`.
pub fn waited_ns(pids: &[i32]) -> BTreeMap<i32, u64> {
    let mut waited = BTreeMap::new();
    for pid in pids {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        for task in tasks.flatten() {
            let numbers = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let waiting = numbers.split_ascii_whitespace().nth(1);
            let thread = task.file_name().to_str().and_then(|tid| tid.parse().ok());
            if let (Some(thread), Some(Ok(ns))) = (thread, waiting.map(str::parse)) {
                waited.insert(thread, ns);
            }
        }
    }
    waited
}

/// Return the seconds between two readings of [`waited_ns`], of the threads present at both; `None`
/// if there were none.
pub fn waited_s(before: &BTreeMap<i32, u64>, after: &BTreeMap<i32, u64>) -> Option<f64> {
    let deltas: Vec<u64> = after
        .iter()
        .filter_map(|(thread, ns)| ns.checked_sub(*before.get(thread)?))
        .collect();
    (!deltas.is_empty()).then(|| deltas.iter().sum::<u64>() as f64 / 1e9)
}

/// Return the resident memory of the readable processes; `None` if there are none.
pub fn rss_bytes(pids: &[i32]) -> Option<u64> {
    let sizes: Vec<u64> = pids
        .iter()
        .filter_map(|pid| {
            let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
            let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
            Some(pages * sys::page_bytes())
        })
        .collect();
    (!sizes.is_empty()).then(|| sizes.iter().sum())
}

/// Return the time stolen from each CPU since boot, in seconds (`/proc/stat`, which the kernel
/// counts in units of 10 ms).
pub fn steal_s(cpus: &[usize]) -> BTreeMap<usize, f64> {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    stat.lines()
        .filter_map(|line| {
            let mut fields = line.strip_prefix("cpu")?.split_ascii_whitespace();
            let cpu: usize = fields.next()?.parse().ok()?;
            let ticks: f64 = fields.nth(7)?.parse().ok()?;
            // USER_HZ is 100 on every Linux that this program runs on.
            cpus.contains(&cpu).then_some((cpu, ticks / 100.0))
        })
        .collect()
}
