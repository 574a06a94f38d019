// SPDX-License-Identifier: MIT OR Apache-2.0

//! The server of `weft-pase show`: a Unix socket for each network namespace, which only root can
//! use.
//!
//! The socket is a file in a directory that only its owner can change, so that no other process can
//! replace it. Its name is the number of the network namespace. Answers are written in small pieces
//! between the hosts' messages, so that a large answer delays none of them.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use weft_pase::arbitrators::{Arbitrators, FlowKey};

use crate::show;
use crate::socket;

/// Maximum of clients that are served at a time.
const CLIENTS: usize = 4;
/// Flows per piece of an answer.
const FLOWS: usize = 32;
/// Maximum time to serve a client, in ns.
const PATIENCE: u64 = 10_000_000_000;

/// Accepts clients and answers them.
pub(crate) struct Listener {
    socket: UnixListener,
    path: PathBuf,
    clients: Vec<Client>,
}

struct Client {
    stream: UnixStream,
    /// When the client connected.
    since: u64,
    /// Text that is not written yet.
    text: Vec<u8>,
    rest: Rest,
}

/// The next part of an answer.
enum Rest {
    /// Flows after this one; `None`: from the first.
    Flows(Option<FlowKey>),
    Nothing,
}

impl Listener {
    /// # Errors
    ///
    /// If the directory is open to others, or another `weft-pase` serves in this network namespace.
    pub(crate) fn open() -> Result<Self> {
        private_directory(Path::new(socket::DIRECTORY))?;
        Self::at(socket::path()?)
    }

    fn at(path: PathBuf) -> Result<Self> {
        let socket = match UnixListener::bind(&path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                // A killed process leaves its file behind.
                if UnixStream::connect(&path).is_ok() {
                    bail!("another weft-pase serves in this network namespace");
                }
                fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
                UnixListener::bind(&path)
            }
            bound => bound,
        };
        let socket = socket.with_context(|| format!("listening at {}", path.display()))?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))
            .with_context(|| format!("setting the mode of {}", path.display()))?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            path,
            clients: Vec::new(),
        })
    }

    /// Accepts a client, if one is waiting and there is room for it.
    pub(crate) fn accept(&mut self, node: &str, arbitrators: &Arbitrators, now: u64) -> Result<()> {
        if self.clients.len() >= CLIENTS {
            return Ok(());
        }
        let Ok((stream, _)) = self.socket.accept() else {
            return Ok(());
        };
        if stream.set_nonblocking(true).is_ok() {
            self.clients.push(Client {
                stream,
                since: now,
                text: show::beginning(node, arbitrators)?,
                rest: Rest::Flows(None),
            });
        }
        Ok(())
    }

    /// Writes one piece to each client that can receive it.
    pub(crate) fn serve(&mut self, arbitrators: &Arbitrators, now: u64) -> Result<()> {
        let mut failed = None;
        self.clients.retain_mut(|client| {
            let is_late = now.saturating_sub(client.since) > PATIENCE;
            !is_late
                && client.serve(arbitrators, now).unwrap_or_else(|error| {
                    failed = Some(error);
                    false
                })
        });
        failed.map_or(Ok(()), Err)
    }

    /// The sockets of clients that wait for the rest of an answer.
    pub(crate) fn clients(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.clients.iter().map(|client| client.stream.as_fd())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // If that fails, the next server in this namespace detects that the file is stale.
        let _ = fs::remove_file(&self.path);
    }
}

impl Client {
    /// Returns whether the answer has more pieces.
    fn serve(&mut self, arbitrators: &Arbitrators, now: u64) -> Result<bool> {
        if self.text.is_empty() {
            match self.rest {
                Rest::Nothing => return Ok(false),
                Rest::Flows(after) => {
                    let flows = arbitrators.flows_after(after, FLOWS, now);
                    self.text = show::flows(&flows, after.is_none())?;
                    self.rest = match flows.last() {
                        Some((key, _)) => Rest::Flows(Some(*key)),
                        None => Rest::Nothing,
                    };
                }
            }
        }
        match self.stream.write(&self.text) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.text.drain(..count);
                Ok(true)
            }
            Err(error) => Ok(matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            )),
        }
    }
}

/// Ensures that the directory exists, and that this process's user owns it and alone can change it.
fn private_directory(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("creating {}", path.display()));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(path).with_context(|| path.display().to_string())?;
    let own = nix::unistd::geteuid().as_raw();
    ensure!(
        found.is_dir() && found.uid() == own && found.mode() & 0o022 == 0,
        "{} must be a directory of user {own} that nobody else can change; remove it",
        path.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use weft_mechanisms::pase::Flow;
    use weft_mechanisms::pase::message::{Message, PATH, Says};
    use weft_pase::arbitrators::{Peer, Rules};
    use weft_pase::tree::Tree;
    use weft_topo::Spec;

    use super::*;

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let name = format!("weft-pase-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            private_directory(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn arbitrators(flows: u32) -> Arbitrators {
        let spec: Spec = "rack:hosts=2".parse().unwrap();
        let tree = Tree::new(&spec.topology());
        let [to, _] = tree.hosts[1].addresses;
        let mut arbitrators = Arbitrators::new(tree, 0, Rules::default(), 1, 7);
        for id in 1..=flows {
            let flow = Flow {
                id: id.into(),
                urgency: 5,
                demand: 1,
            };
            let message = Message {
                sequence: 1,
                link: PATH,
                says: Says::Ask { flow, to },
            };
            arbitrators.receive(Peer::Host(0), &message, 1);
        }
        arbitrators
    }

    #[test]
    fn other_users_can_neither_use_nor_replace_the_socket() {
        let directory = Directory::new("mode");
        let listener = Listener::at(directory.0.join("1")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&directory.0), 0o700);
        assert_eq!(mode(&listener.path), 0o600);
        // A second one is refused. After the first one has ended, even by a signal, a new one is
        // accepted.
        let second = Listener::at(directory.0.join("1"));
        assert!(second.is_err_and(|it| it.to_string().contains("another weft-pase")));
        let path = listener.path.clone();
        drop(listener);
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        Listener::at(path).unwrap();
    }

    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        let directory = Directory::new("open");
        let open = directory.0.join("open");
        DirBuilder::new().create(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        assert!(private_directory(&open).is_err());
        let link = directory.0.join("link");
        symlink(&directory.0, &link).unwrap();
        assert!(private_directory(&link).is_err());
    }

    #[test]
    fn a_large_answer_is_written_in_pieces_of_bounded_work() {
        const COUNT: u32 = 1000;
        let directory = Directory::new("pieces");
        let arbitrators = arbitrators(COUNT);
        let mut listener = Listener::at(directory.0.join("1")).unwrap();
        let mut client = UnixStream::connect(&listener.path).unwrap();
        listener.accept("tor0", &arbitrators, 1).unwrap();
        let (mut text, mut pieces) = (Vec::new(), 0);
        while !listener.clients.is_empty() {
            listener.serve(&arbitrators, 1).unwrap();
            let mut piece = [0; 1 << 16];
            client.set_nonblocking(true).unwrap();
            if let Ok(count) = client.read(&mut piece) {
                assert!(count < FLOWS * 200, "{count} bytes at a time");
                text.extend_from_slice(&piece[..count]);
            }
            pieces += 1;
        }
        assert!(pieces > COUNT as usize / FLOWS, "{pieces}");
        let told: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(told["flows"].as_array().unwrap().len(), COUNT as usize);
        assert_eq!(told["node"], "tor0");
    }

    #[test]
    fn clients_are_limited_and_a_slow_one_delays_no_other() {
        let directory = Directory::new("few");
        let arbitrators = arbitrators(0);
        let mut listener = Listener::at(directory.0.join("1")).unwrap();
        let path = listener.path.clone();
        let clients: Vec<_> = (0..CLIENTS + 3)
            .map(|_| UnixStream::connect(&path).unwrap())
            .collect();
        for _ in 0..clients.len() {
            listener.accept("tor0", &arbitrators, 1).unwrap();
        }
        assert_eq!(listener.clients.len(), CLIENTS);
        listener.serve(&arbitrators, 2 + PATIENCE).unwrap();
        assert!(listener.clients.is_empty());
    }
}
