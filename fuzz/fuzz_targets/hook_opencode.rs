//! Runs the properties of `hook_opencode` on the fuzzer's input.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| midcourse_fuzz::hook_opencode(data));
