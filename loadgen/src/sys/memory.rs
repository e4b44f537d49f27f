//! Memory that is mapped before it is needed.

use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64};

/// A type of number that a [`Column`] may contain: several threads may store and load it, and zero
/// bytes are valid.
pub trait Number: Sync {}
impl Number for AtomicU64 {}
impl Number for AtomicU8 {}

/// A column of numbers of fixed length, all zero at first.
#[derive(Debug)]
pub struct Column<T: Number> {
    start: *mut T,
    length: usize,
}

// SAFETY: the mapping belongs to the column alone, and its numbers are `Sync`.
unsafe impl<T: Number> Send for Column<T> {}
// SAFETY: as above; only shared references to the numbers are given out.
unsafe impl<T: Number> Sync for Column<T> {}

impl<T: Number> Column<T> {
    /// Allocate `length` numbers. `populate` maps the pages at once, so that the first write to
    /// each causes no page fault; without it, memory is used as it is written.
    ///
    /// It uses no huge pages, because zeroing one takes 100 µs or more: a stall of the generator's
    /// own.
    pub fn new(length: usize, populate: bool) -> io::Result<Self> {
        // Miri knows no other flags of private mappings.
        let more = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
        Self::map(length, libc::MAP_PRIVATE | more, populate)
    }

    /// Allocate `length` numbers that this process shares with those that it forks.
    pub fn shared(length: usize) -> io::Result<Self> {
        Self::map(length, libc::MAP_SHARED, true)
    }

    fn map(length: usize, flags: libc::c_int, populate: bool) -> io::Result<Self> {
        let bytes = (length * size_of::<T>()).max(1);
        // SAFETY: a new mapping, aligned to a page; zero bytes are valid for `T`.
        let start = unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if start == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            if populate {
                std::ptr::write_bytes(start.cast::<u8>(), 0, bytes);
            } else {
                libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
            }
            start.cast()
        };
        Ok(Self { start, length })
    }
}

impl<T: Number> std::ops::Deref for Column<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `length` initialised values as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl<T: Number> Drop for Column<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this size.
        unsafe { libc::munmap(self.start.cast(), (self.length * size_of::<T>()).max(1)) };
    }
}

/// Return the bytes per page of memory.
pub fn page_bytes() -> u64 {
    // SAFETY: takes a number only.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    /// Numbers are zero at first, and several threads may store and load them.
    #[test]
    fn threads_share_a_column() {
        let column = Column::<AtomicU64>::new(1000, true).unwrap();
        assert!(column.iter().all(|number| number.load(Relaxed) == 0));
        std::thread::scope(|scope| {
            for part in 0..4 {
                let column = &column;
                scope.spawn(move || {
                    for place in (part..column.len()).step_by(4) {
                        column[place].store(place as u64, Relaxed);
                    }
                });
            }
        });
        let sum: u64 = column.iter().map(|number| number.load(Relaxed)).sum();
        assert_eq!(sum, 499_500);
    }

    /// A column without numbers has a mapping too, and a column may move to another thread.
    #[test]
    fn a_column_moves() {
        assert!(Column::<AtomicU8>::new(0, true).unwrap().is_empty());
        let column = Column::<AtomicU8>::new(5000, true).unwrap();
        column[4999].store(7, Relaxed);
        let last = std::thread::spawn(move || column[4999].load(Relaxed));
        assert_eq!(last.join().unwrap(), 7);
    }
}
