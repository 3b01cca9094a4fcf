//! Any bytes as instructions: every engine executes them alike. Run by cargo-fuzz.

#![no_main]

use std::cell::RefCell;

use axp_tests::blocks::{Bench, benches, fuzz_block};

thread_local! {
    /// Made once: engines keep code, which is a part of what is tested.
    static BENCHES: RefCell<Vec<(&'static str, Bench)>> = RefCell::new(benches());
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    BENCHES.with_borrow_mut(|benches| fuzz_block(benches, data));
});
