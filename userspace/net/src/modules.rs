// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernel modules given by their files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};
use weft_words::file::{MIB, SizeLimit};

use crate::error::{Error, Result, invalid};

/// The largest file of a module, with its debug information.
const FILE: SizeLimit = SizeLimit {
    kind: "a kernel module",
    bytes: 256 * MIB,
};

/// Loads them, in this order. A module that is already loaded, from the identical file, is left
/// alone.
///
/// # Errors
///
/// If a file is not a module for this kernel, needs one that is not loaded, or a different module
/// of its name is loaded; [`Error::Privilege`].
pub(crate) fn load(modules: &[PathBuf]) -> Result<()> {
    modules.iter().try_for_each(|module| load_one(module))
}

fn load_one(path: &Path) -> Result<()> {
    let shown = path.display();
    let read = |error| Error::system(format!("reading {shown}"), error);
    let file = File::open(path).map_err(read)?;
    let errno = match finit_module(&file, c"", ModuleInitFlags::empty()) {
        Ok(()) => return Ok(()),
        Err(errno) => errno,
    };
    let what = format!("insmod {shown}");
    match errno {
        Errno::EEXIST => {
            let content = FILE.read(path).map_err(read)?;
            let Some(name) = name(&content) else {
                return invalid(format!("{what}: it is no module that says its name"));
            };
            let note = format!("/sys/module/{name}/notes/.note.gnu.build-id");
            let loaded = fs::read(note).unwrap_or_default();
            // A note identifies the build: it is complete in the file and in the kernel.
            let same = !loaded.is_empty() && content.windows(loaded.len()).any(|it| it == loaded);
            match same {
                true => Ok(()),
                false => invalid(format!(
                    "{what}: another {name} is loaded; `rmmod {name}` removes it"
                )),
            }
        }
        Errno::ENOEXEC | Errno::EINVAL => invalid(format!(
            "{what}: it is no module for this kernel; `modinfo {shown}` says which it is for, dmesg what \
             the kernel found"
        )),
        Errno::ENOENT => invalid(format!(
            "{what}: it needs what another module has, which dmesg names; say that module's file before"
        )),
        Errno::ENOSYS => invalid(format!("{what}: this kernel takes no modules")),
        errno => Err(Error::system(what, errno)),
    }
}

/// The module's name, from its table of `key=value` (`.modinfo`).
fn name(content: &[u8]) -> Option<String> {
    let mut words = content.split(|&byte| byte == 0);
    let name = words.find_map(|word| word.strip_prefix(b"name="))?;
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let name = (!name.is_empty() && name.iter().all(plain)).then_some(name)?;
    String::from_utf8(name.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modules_name_is_in_its_table() {
        let content = b"\x7fELF\0license=GPL\0name=sch_mine\0vermagic=7.2\0";
        assert_eq!(name(content).as_deref(), Some("sch_mine"));
        assert_eq!(name(b"\x7fELF\0filename=x\0"), None);
        assert_eq!(name(b"\0name=../x\0"), None);
    }
}
