//! Runs the properties of `hook_copilot` on the fuzzer's input.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| midcourse_fuzz::hook_copilot(data));
