//! Runs the properties of `config` on the fuzzer's input.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| midcourse_fuzz::config(data));
