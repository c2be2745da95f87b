//! Any text as a filter: what is understood means the same when it is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stylobate_columnar::Predicate;

fuzz_target!(|text: &str| {
    let Ok(filter) = Predicate::parse(text) else { return };
    let written = filter.to_string();
    match Predicate::parse(&written) {
        Ok(again) => assert_eq!(filter, again, "{written}"),
        Err(error) => panic!("{written}: {error}"),
    }
});
