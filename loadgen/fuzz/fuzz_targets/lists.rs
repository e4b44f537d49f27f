//! The check `lists` with inputs that libFuzzer chooses by coverage.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tuner_loadgen_fuzz::checks::lists(data));
