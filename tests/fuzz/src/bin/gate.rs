//! Guided by coverage: `targets/gate.rs`.
#![no_main]

#[path = "../../targets/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "each binary runs one of them")]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::gate::run(data));
