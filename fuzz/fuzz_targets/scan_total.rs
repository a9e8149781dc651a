#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| palisade_testkit::properties::scan_total(data));
