//! Runs the properties of `session_files` on the fuzzer's input.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| midcourse_fuzz::session_files(data));
