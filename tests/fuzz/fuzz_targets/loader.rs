//! Any bytes as an ELF file: the loader gives an image or an error. Run by cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| axp_tests::blocks::fuzz_loader(data));
