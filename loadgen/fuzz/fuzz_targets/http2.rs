//! The check `http2` with inputs that libFuzzer chooses by coverage.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tuner_loadgen_fuzz::checks::http2(data));
