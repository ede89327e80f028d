//! Runs the properties of `api_messages` on the fuzzer's input.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| midcourse_fuzz::api_messages(data));
