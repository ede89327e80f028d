//! Runs the properties of `hook_claude_code` on the fuzzer's input.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| midcourse_fuzz::hook_claude_code(data));
