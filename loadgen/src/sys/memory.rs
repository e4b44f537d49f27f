//! Memory that is there before it is needed.

use std::io;

/// A fixed column of numbers, all zero at first, that never moves and never grows.
#[derive(Debug)]
pub struct Column<T: Copy> {
    start: *mut T,
    length: usize,
}

impl<T: Copy> Column<T> {
    /// Room for `length` numbers. With `populate` its pages are there at once, so that the first
    /// write to each of them costs no page fault; without, memory is taken as it is used.
    ///
    /// Huge pages are refused: zeroing one takes 100 µs or more, which is a stall of our own.
    pub fn new(length: usize, populate: bool) -> io::Result<Self> {
        let bytes = (length * size_of::<T>()).max(1);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new private mapping; `T` is a plain number for which zero bytes are valid
        // (the constructor is used with integers only).
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

impl<T: Copy> std::ops::Deref for Column<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `length` initialised values as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl<T: Copy> std::ops::DerefMut for Column<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl<T: Copy> Drop for Column<T> {
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
