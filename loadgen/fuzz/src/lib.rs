//! The checks that the programs in `fuzz_targets/` call.

#[path = "../../tests/fuzz/checks.rs"]
pub mod checks;
