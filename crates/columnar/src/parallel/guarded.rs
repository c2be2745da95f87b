//! Turns panics of decoders into errors, without a message on the terminal.
//!
//! The parquet and arrow crates panic on some unexpected bytes.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Once,
};

thread_local! {
    /// `true` while this thread is within [`guarded`].
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Guard that restores the flag of this thread.
struct GuardedFlagReset(bool);

impl Drop for GuardedFlagReset {
    fn drop(&mut self) {
        IS_GUARDED.set(self.0);
    }
}

/// Runs a decoder. A panic on unexpected bytes becomes an error.
pub(crate) fn guarded<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    silence_guarded_panics();
    let _restore = GuardedFlagReset(IS_GUARDED.replace(true));
    catch_unwind(AssertUnwindSafe(decode)).map_err(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        format!("the decoder gave up: {}", said.unwrap_or("no reason given"))
    })
}

/// Installs a panic hook, once per process, that is silent about panics that [`guarded`] catches, and passes all others
/// to the previous hook.
fn silence_guarded_panics() {
    static INSTALLED: Once = Once::new();
    // A thread that panics must not change the hook.
    if INSTALLED.is_completed() || std::thread::panicking() {
        return;
    }

    INSTALLED.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // When fuzzing, panics of our own code within a guard must be visible too.
            if cfg!(fuzzing) || !IS_GUARDED.get() {
                previous(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_reason_and_the_flag_is_restored() {
        assert_eq!(guarded(|| 7), Ok(7));
        let nested = guarded(|| {
            let inner = guarded(|| -> u8 { panic!("inside") });
            assert!(IS_GUARDED.get());
            inner
        });
        assert_eq!(nested, Ok(Err("the decoder gave up: inside".to_owned())));
        assert!(!IS_GUARDED.get());
        assert!(guarded(|| -> u8 { std::panic::panic_any(7) }).unwrap_err().ends_with("no reason given"));
    }
}
