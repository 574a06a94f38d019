// SPDX-License-Identifier: MIT OR Apache-2.0

//! Paths of the host's files in a guest: the same paths, so that results are the same as if the
//! host had run the command.

use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use crate::failure::Failure;

/// The folder in which a guest's command runs.
const HOME: &str = "/root";
/// Folders that the guest has itself, and that would hide files from the host.
const ITS_OWN: [&str; 6] = ["dev", "out", "proc", "run", "sys", "tmp"];

/// The guest's path for a path of the host.
///
/// # Errors
/// If the guest has other files under this path.
pub fn in_guest(path: &Path) -> Result<String> {
    let mut place = PathBuf::new();
    for part in Path::new(HOME).join(path).components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::ParentDir => {
                place.pop();
            }
            Component::CurDir | Component::Prefix(_) | Component::RootDir => {}
        }
    }
    let shown = path.display();
    if place.as_os_str().is_empty() {
        let message = "the guest has no place for it: give it by a path from another folder";
        return Err(Failure::setup(format!("{shown}: {message}")).into());
    }
    if let Some(own) = ITS_OWN.iter().find(|own| place.starts_with(own)) {
        let message =
            format!("{shown}: the guest has its own /{own}: copy it here and give it as ./NAME");
        return Err(Failure::setup(message).into());
    }
    Ok(merged(&place.to_string_lossy()))
}

/// Parses `HOST[:GUEST]`: a file or folder of the host and its place in the guest. A GUEST that
/// ends in `/` is the destination folder; the default is the guest's home. `None`: HOST has no file
/// name to use.
pub fn handed(text: &str) -> (PathBuf, Option<String>) {
    let (host, guest) = text
        .rsplit_once(':')
        .map_or((text, None), |(host, guest)| (host, Some(guest)));
    let host = PathBuf::from(host);
    let in_folder = |folder: &str| {
        let place = Path::new(folder).join(host.file_name()?);
        Some(place.to_string_lossy().into_owned())
    };
    let place = match guest {
        Some(folder) if folder.ends_with('/') => in_folder(folder),
        Some(place) => Some(place.to_owned()),
        None => in_folder(HOME),
    };
    (host, place.map(|place| merged(&place)))
}

/// The path in the guest with links resolved: a directory entry in the initramfs would replace the
/// links.
pub fn merged(guest: &str) -> String {
    let path = guest.trim_start_matches('/');
    for (link, target) in [
        ("usr/sbin/", "usr/bin/"),
        ("sbin/", "usr/bin/"),
        ("bin/", "usr/bin/"),
        ("lib/", "usr/lib/"),
        ("lib64/", "usr/lib64/"),
    ] {
        if let Some(rest) = path.strip_prefix(link) {
            return format!("{target}{rest}");
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_same_path_in_the_guest() {
        let of = |path: &str| in_guest(Path::new(path)).unwrap();
        assert_eq!(of("./Cargo.toml"), "root/Cargo.toml");
        assert_eq!(of("../xtask/src"), "xtask/src");
        assert_eq!(of("/etc/passwd"), "etc/passwd");
        assert_eq!(of("/sbin/x"), "usr/bin/x");
    }

    #[test]
    fn a_path_that_the_guest_uses_itself_is_refused() {
        for (path, said) in [
            ("/tmp", "the guest has its own /tmp"),
            ("/", "no place for it"),
        ] {
            let error = in_guest(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
