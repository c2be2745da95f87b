//! Reports the state of the node to the service manager through `NOTIFY_SOCKET`; see sd_notify(3).

use std::{
    ffi::OsStr,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

/// Sends a state such as `READY=1`. Does nothing without a service manager.
pub(crate) fn notify(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let message = match state {
        "RELOADING=1" => format!("{state}\nMONOTONIC_USEC={}", monotonic_microseconds()),
        _ => state.to_owned(),
    };
    if let Err(error) = send(&name, &message) {
        tracing::debug!(%error, "the service manager was not notified");
    }
}

fn send(name: &OsStr, message: &str) -> std::io::Result<()> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(drop)
}

fn monotonic_microseconds() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_reaches_who_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), "READY=1").unwrap();
        let mut message = [0; 32];
        let length = listener.recv(&mut message).unwrap();
        assert_eq!(&message[..length], b"READY=1");
    }
}
