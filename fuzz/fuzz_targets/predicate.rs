//! Any text as a filter: what is understood means the same when it is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stylobate_columnar::Predicate;

fuzz_target!(|text: &str| {
    let Ok(filter) = Predicate::parse(text) else { return };
    let written = filter.to_string();
    match Predicate::parse(&written) {
        // As text, since NaN, which `0.0 % 0` becomes, is not equal to itself.
        Ok(again) => assert_eq!(format!("{filter:?}"), format!("{again:?}"), "{written}"),
        Err(error) => panic!("{written}: {error}"),
    }
});
