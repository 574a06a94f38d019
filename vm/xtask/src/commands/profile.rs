// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask profile`: counts how often each part of the model clock's kernel runs while guests
//! work. The kernel's compiler then makes fast what runs often. The counts are kept with the
//! kernel's recipe, so every build gives the same kernel.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use weft_build::base::cache::Cache;
use weft_build::base::enter::{self, Enter};
use weft_build::base::{process, progress, workspace};
use weft_build::options::Target;
use weft_build::stages::chain::{self, Built, Kernel};
use weft_build::stages::image::{self, Compression};
use weft_build::stages::programs;
use weft_build::stages::um_kernel::{self, COUNTING, PROFILE, RECIPE};
use weft_machine::interrupt::Temporary;

/// Count how often each part of the model clock's kernel runs, for its compiler
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The kernel is compiled so that what runs often is fast. How often that is was counted once, and is kept in \
vm/um/profile.tar.xz. Count again after a change of the kernel's version, its compiler or its patches: code that has \
changed since then is compiled without. It takes about half an hour.

Examples:
  cargo xtask profile && cargo xtask bench hops --only k4-droptail")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) target: Target,
}

/// The command in a guest of each scheme. The relative counts of the kernel's parts do not depend
/// on the fabric's size.
const RUN: [&str; 7] = [
    "run",
    "fat-tree:k=4",
    "--dilation=1000",
    "--workload=web-search",
    "--load=0.6",
    "--flows=100",
    "--seed=1",
];
const SCHEMES: [&str; 8] = [
    "droptail", "dctcp", "fq_codel", "pfabric", "pase", "dibs", "bfc", "fastpass",
];
/// Those that also run with sockets that send by themselves.
const PUMPED: [&str; 2] = ["droptail", "pfabric"];

/// Runs a command with `$0` mounted at the path at which the kernel was built: the kernel adds its
/// counts to the files there, which have those of earlier guests.
const AT_PLACE: &str = r#"
mount -t tmpfs none /mnt && mkdir -p "$PLACE" && mount --bind "$0" "$PLACE" && exec "$@""#;

/// Packs the counts reproducibly, with a fixed order and fixed dates.
const PACK: &str = r#"
cd /mnt/counts/object
find . -name '*.gcda' | LC_ALL=C sort | tar -c --no-recursion -T - \
	--owner=0 --group=0 --numeric-owner --mtime=@0 --mode=0644 | xz -9e >/mnt/counts/profile"#;

/// Runs `profile`.
///
/// # Errors
/// Those of the stages, or if a guest fails.
pub(crate) fn run(cache: &Cache, options: &Args) -> Result<u8> {
    let workspace = workspace();
    let built = chain::in_place(cache, &options.target.request(), &[Kernel::Model])?;
    let base = &built.base;
    let kernel = um_kernel::ensure(&COUNTING, cache, &base.resolution, &base.rootfs, &workspace)?;
    let counting = built.clone().with_model_kernel(kernel);
    let image = image::ensure(&counting, Compression::Fast)?;
    let weft = programs::weft(&workspace, &cache.log("programs")?)?;
    let folder = Temporary::new(cache.file(format!("run/{}.profile", std::process::id())))?;
    let counts = folder.path();

    for (schemes, out, flag) in [
        (&SCHEMES[..], "results", None),
        (&PUMPED, "pumped", Some("--pump")),
    ] {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        if !enter::is_root() {
            command.arg("--map-root-user");
        }
        command.args(["--", "sh", "-c", AT_PLACE]).arg(counts);
        command.env("PLACE", um_kernel::PLACE);
        command.arg(&weft).args(RUN).args(flag);
        let schemes = schemes.iter().map(|scheme| format!("--scheme={scheme}"));
        command.args(schemes).arg("--out").arg(counts.join(out));
        command.env("WEFT_MACHINE", image::file(&image));
        let status = process::passed_on(&mut command)?;
        ensure!(status == 0, "a guest ended with status {status}");
    }
    pack(&built, counts)?;
    let path = workspace.join(RECIPE).join(PROFILE);
    fs::copy(counts.join("profile"), &path).with_context(|| path.display().to_string())?;
    progress::note(&format!(
        "{} is new: the kernel of the model clock is built by it from now on",
        path.display()
    ));
    Ok(0)
}

fn pack(built: &Built<'_>, counts: &std::path::Path) -> Result<()> {
    let root = built.base.rootfs.path().join("root");
    let enter = Enter::new(&root).with_writable(counts, "/mnt/counts");
    built.cache.log("profile")?.run(&mut enter.script(PACK))
}
