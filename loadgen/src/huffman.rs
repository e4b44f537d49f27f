//! The Huffman code of header strings (RFC 7541, section 5.2 and appendix B), for HPACK and QPACK.
//!
//! The code is canonical: codes of one length follow each other in the order of their octets, and
//! shorter codes come first. So the lengths determine the code, and the tables are computed from
//! them.

/// Bits of each octet's code.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];
const LONGEST: usize = 30;

/// The tables that follow from the lengths.
struct Code {
    /// Octets by length, then by value.
    octets: [u8; 256],
    /// By length: the first code, and the position of its octet.
    first: [(u32, usize); LONGEST + 1],
    /// By length: the first code that is too large.
    limit: [u32; LONGEST + 1],
    /// Octet and length by the next eight bits, for short codes; length 0 for longer ones.
    short: [(u8, u8); 256],
    /// Each octet's code.
    codes: [u32; 256],
}

static CODE: Code = Code::new();

impl Code {
    const fn new() -> Self {
        let mut code = Self {
            octets: [0; 256],
            first: [(0, 0); LONGEST + 1],
            limit: [0; LONGEST + 1],
            short: [(0, 0); 256],
            codes: [0; 256],
        };
        let (mut next, mut at, mut length) = (0u32, 0, 1);
        while length <= LONGEST {
            next <<= 1;
            code.first[length] = (next, at);
            let mut octet = 0;
            while octet < 256 {
                if LENGTHS[octet] as usize == length {
                    code.octets[at] = octet as u8;
                    code.codes[octet] = next;
                    let mut i = 0;
                    while length <= 8 && i < 1 << (8 - length) {
                        let place = ((next as usize) << (8 - length)) + i;
                        code.short[place] = (octet as u8, length as u8);
                        i += 1;
                    }
                    next += 1;
                    at += 1;
                }
                octet += 1;
            }
            code.limit[length] = next;
            length += 1;
        }
        code
    }
}

/// The error that bytes are not Huffman-coded: wrong padding, or the end-of-string symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHuffman;

/// Decode a string, one octet at a time.
///
/// # Errors
/// [`BadHuffman`], after the octets before the error were passed on.
#[inline]
pub fn decode(bytes: &[u8], mut octet: impl FnMut(u8)) -> Result<(), BadHuffman> {
    // The next bits, from the top, and their number.
    let (mut window, mut held) = (0u64, 0u32);
    let mut rest = bytes.iter();
    loop {
        while held <= 56 {
            let Some(byte) = rest.next() else { break };
            window |= u64::from(*byte) << (56 - held);
            held += 8;
        }
        if held == 0 {
            return Ok(());
        }
        let (found, length) = match CODE.short[(window >> 56) as usize] {
            (_, 0) => long(window)?,
            (found, length) => (found, u32::from(length)),
        };
        if length > held {
            // Not a code but padding: fewer than eight bits, all ones.
            let padding = held < 8 && window >> (64 - held) == (1 << held) - 1;
            return if padding { Ok(()) } else { Err(BadHuffman) };
        }
        octet(found);
        window <<= length;
        held -= length;
    }
}

#[cold]
fn long(window: u64) -> Result<(u8, u32), BadHuffman> {
    for length in 9..=LONGEST {
        let code = (window >> (64 - length)) as u32;
        if code < CODE.limit[length] {
            let (first, at) = CODE.first[length];
            return Ok((CODE.octets[at + (code - first) as usize], length as u32));
        }
    }
    Err(BadHuffman)
}

/// Return the coded length of a string, in bytes.
pub fn coded_length(text: &[u8]) -> usize {
    let bits: usize = text
        .iter()
        .map(|octet| usize::from(LENGTHS[usize::from(*octet)]))
        .sum();
    bits.div_ceil(8)
}

/// Append a string, coded.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut held) = (0u64, 0u32);
    for octet in text {
        let length = u32::from(LENGTHS[usize::from(*octet)]);
        bits = bits << length | u64::from(CODE.codes[usize::from(*octet)]);
        held += length;
        while held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    if held > 0 {
        let padding = 8 - held;
        out.push((bits << padding) as u8 | ((1u16 << padding) - 1) as u8);
    }
}
