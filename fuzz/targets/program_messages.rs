//! Messages between the agent and the child process that executes programs: a message or none, and what is read is written as it was read.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| khz_sandbox::check_message(bytes));
