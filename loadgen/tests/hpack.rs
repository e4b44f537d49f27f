//! Header compression: the RFC's own examples, and every form of the fields that matter.

use proptest::prelude::*;
use tuner_loadgen::fields::{BadFields, Fields};
use tuner_loadgen::http2::hpack::{self, Decoder, Keep};
use tuner_loadgen::huffman;

/// The examples of RFC 7541, C.5 and C.6: a table of 256 bytes whose entries are evicted.
#[test]
fn responses_of_the_rfc() {
    let hex = |text: &str| -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pairs = digits.chunks(2);
        pairs
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    };
    let plain = [
        "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e\
         1768747470733a2f2f7777772e6578616d706c652e636f6d",
        "4803333037c1c0bf",
        "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d\
         4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b20766572\
         73696f6e3d31",
    ];
    let coded = [
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b\
         97c8e9ae82ae43d3",
        "4883640effc1c0bf",
        "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdf\
         cd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::new();
        for (i, (block, status)) in blocks.iter().zip([302, 307, 200]).enumerate() {
            // The examples assume an agreed table size; here a size update sets it at the start.
            let mut bytes = if i == 0 {
                vec![0x3f, 0xe1, 0x01]
            } else {
                vec![]
            };
            bytes.extend(hex(block));
            let fields = decoder.decode(&bytes).unwrap();
            assert_eq!(fields.status, Some(status));
        }
    }
}

/// Status and length are decoded in every form: indexed, literal, inserted and referenced again.
#[test]
fn fields() {
    let mut decoder = Decoder::new();
    let both = Fields {
        status: Some(429),
        length: Some(1234),
        malformed: false,
        answer: None,
    };
    let mut entering = Vec::new();
    hpack::encode(":status", "429", Keep::Yes, &mut entering);
    hpack::encode("content-length", "1234", Keep::Yes, &mut entering);
    assert_eq!(decoder.decode(&entering), Ok(both));
    let mut indexed = Vec::new();
    hpack::encode_index(1, &mut indexed);
    hpack::encode_index(0, &mut indexed);
    assert_eq!(decoder.decode(&indexed), Ok(both));
    let spelt = b"\x00\x07:status\x03429\x10\x0econtent-length\x041234";
    assert_eq!(decoder.decode(spelt), Ok(both));
    assert_eq!(decoder.decode(&[0xc0]).unwrap_err(), BadFields);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Huffman coding comes back as it went in.
    #[test]
    fn huffman_there_and_back(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut coded = Vec::new();
        huffman::encode(&text, &mut coded);
        prop_assert_eq!(coded.len(), huffman::coded_length(&text));
        let mut decoded = Vec::new();
        huffman::decode(&coded, |octet| decoded.push(octet)).unwrap();
        prop_assert_eq!(decoded, text);
    }
}
