//! Runs the properties of `api_gemini` on the fuzzer's input.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| midcourse_fuzz::api_gemini(data));
