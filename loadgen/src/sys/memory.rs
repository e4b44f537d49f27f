//! Memory that is there before it is needed.

use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64};

/// What a [`Column`] may hold: numbers that several threads may store and load, and for which zero
/// bytes are valid.
pub trait Number: Sync {}
impl Number for AtomicU64 {}
impl Number for AtomicU8 {}

/// A fixed column of numbers, all zero at first, that never moves and never grows.
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
    /// Room for `length` numbers. With `populate` its pages are there at once, so that the first
    /// write to each of them costs no page fault; without, memory is taken as it is used.
    ///
    /// Huge pages are refused: zeroing one takes 100 µs or more, which is a stall of our own.
    pub fn new(length: usize, populate: bool) -> io::Result<Self> {
        let bytes = (length * size_of::<T>()).max(1);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new private mapping, aligned to a page; zero bytes are valid for `T`.
        let start = unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
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

/// Bytes per page of memory.
pub fn page_bytes() -> u64 {
    // SAFETY: takes a number only.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
