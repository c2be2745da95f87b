//! Full-screen access to the terminal: the alternate screen without a cursor, and unbuffered key input without echo.

use std::io::{self, Read, Write};

use anyhow::Result;
#[cfg(target_os = "linux")]
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use crate::out::out;

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// Full-screen mode of the terminal. Dropping it restores the terminal.
pub(super) struct RawTerminal {
    /// Original modes of standard input, if it is a terminal.
    #[cfg(target_os = "linux")]
    former: Option<Termios>,
}

impl RawTerminal {
    /// Enters full-screen mode. Ctrl-C still sends its signal.
    pub(super) fn open() -> Result<Self> {
        let terminal = Self {
            #[cfg(target_os = "linux")]
            former: silenced(),
        };
        write(ENTER)?;
        Ok(terminal)
    }

    /// Returns the keys pressed since the last call, without waiting.
    pub(super) fn pressed(&self) -> Vec<u8> {
        #[cfg(target_os = "linux")]
        if self.former.is_some() {
            let mut keys = [0; 64];
            let count = io::stdin().lock().read(&mut keys).unwrap_or_default();
            return keys.iter().take(count).copied().collect();
        }
        Vec::new()
    }

    /// Draws the lines of a text that fit, from the first one.
    pub(super) fn draw(&self, text: &str, height: usize) -> Result<()> {
        let lines: Vec<_> = text.lines().take(height.max(1)).collect();
        write(&format!("{HOME}{}{CLEAR_LINE}{CLEAR_BELOW}", lines.join(&format!("{CLEAR_LINE}\n"))))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = write(LEAVE);
        #[cfg(target_os = "linux")]
        if let Some(former) = &self.former {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, former);
        }
    }
}

fn write(text: &str) -> Result<()> {
    let mut out = out();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Makes reads of standard input non-blocking and disables echo. Returns the original modes, if it is a terminal.
#[cfg(target_os = "linux")]
fn silenced() -> Option<Termios> {
    let former = tcgetattr(io::stdin()).ok()?;
    let mut modes = former.clone();
    modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    modes.special_codes[SpecialCodeIndex::VMIN] = 0;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(io::stdin(), OptionalActions::Now, &modes).ok()?;
    Some(former)
}
