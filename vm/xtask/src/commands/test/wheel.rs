// SPDX-License-Identifier: MIT OR Apache-2.0

//! The Python wheel: installed by pip into its own environment, where `weft` runs and Python reads
//! its results.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use weft_build::base::cache::{Cache, Entry, Key, Stage};
use weft_build::base::{enter, host, progress, workspace};
use weft_build::stages::chain::Built;
use weft_build::stages::image::{self, Compression};
use weft_machine::interrupt::Temporary;
use weft_package::bundle;
use weft_package::wheel;

use crate::ktap::{self, Tally};

pub(crate) const STAGE: Stage = Stage {
    name: "python",
    keep: 1,
};

/// The test's name for `--filter`.
const NAME: &str = "python_wheel";
const TRIAL: &str = include_str!("wheel/trial.sh");
/// The libraries that the test uses to read results.
const LIBRARIES: [&str; 2] = ["pandas", "polars"];
/// `$1`: their folder; then their names.
const INSTALL: &str = r#"
virtualenv --quiet --python /usr/bin/python3 "$1/pip"
folder=$1
shift
"$folder/pip/bin/pip" install --quiet --no-cache-dir --only-binary :all: --target "$folder/libraries" "$@"
rm -r "$folder/pip"
"#;

/// Whether the test runs: with all tests, or if selected.
pub(super) fn is_selected(filter: Option<&str>) -> bool {
    ktap::selects(filter, NAME)
}

/// Builds the wheel and tests it.
///
/// # Errors
/// If it cannot be built.
pub(super) fn run(built: &Built<'_>) -> Result<Tally> {
    host::provide(built.cache, &host::WHEEL)?;
    let mut tally = Tally::default();
    let libraries = libraries(built.cache);
    if let Err(error) = &libraries {
        let all = LIBRARIES.join(" and ");
        progress::note(&format!("{NAME}: without {all}: {error:#}"));
        tally.skipped += 1;
    }
    let entry = image::ensure(built, Compression::Fast)?;
    let place = format!("run/{}.wheel", std::process::id());
    let folder = Temporary::new(built.cache.file(place))?;
    let executable = folder.path().join("weft");
    bundle::write(built, &entry, &executable)?;
    let workspace = workspace();
    let wheel = wheel::write(&workspace, &executable, folder.path())?;
    let tried = progress::step("the wheel in an environment of its own", || {
        let mut command = enter::unshared();
        command.args(["sh", "-euc", TRIAL, "trial.sh"]);
        command.args([&wheel, &workspace.join(wheel::SOURCES), folder.path()]);
        let libraries = libraries.as_ref().ok().map(Entry::path);
        command.arg(libraries.map_or(Path::new("").into(), |path| path.join("libraries")));
        built.cache.log("wheel-test")?.run(&mut command)
    });
    match tried {
        Ok(()) => tally.pass(),
        Err(error) => tally.fail(format!("{NAME}: {error:#}")),
    }
    Ok(tally)
}

/// pandas and polars; the first call needs a network.
fn libraries(cache: &Cache) -> Result<Entry> {
    let python =
        weft_build::base::process::capture(Command::new("/usr/bin/python3").arg("--version"))?;
    let key = Key::new(INSTALL).with(python).with_all(LIBRARIES);
    cache.ensure(&STAGE, key, "pandas and polars", |directory, log| {
        let mut command = Command::new("sh");
        command.args(["-euc", INSTALL, "sh"]).arg(directory);
        log.run(command.args(LIBRARIES))
    })
}
