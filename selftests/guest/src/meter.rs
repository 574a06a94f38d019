// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel's memory: has it grown?

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

/// Frees wait for RCU and work queues.
const SETTLE: Duration = Duration::from_secs(2);

/// What the kernel has allocated.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    /// Objects in use, by slab cache.
    slabs: BTreeMap<String, i64>,
    vmalloc_kib: i64,
    free_kib: i64,
}

/// The growth from one [`Memory`] to another.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    /// Objects more, by slab cache, the greatest growth first.
    slabs: Vec<(String, i64)>,
    vmalloc_kib: i64,
    pages: i64,
}

impl Memory {
    /// Measures after everything has come to rest.
    pub(crate) fn measure() -> Result<Self> {
        std::thread::sleep(SETTLE);
        for cache in slabs()?.keys() {
            // Objects that wait on a processor for their next use count as used. Some caches
            // cannot be shrunk, or have another name there: then the counts are less exact.
            let _ = std::fs::write(format!("/sys/kernel/slab/{cache}/shrink"), "1");
        }
        let meminfo = read("/proc/meminfo")?;
        let field = |name: &str| -> Result<i64> {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
            let number =
                line.and_then(|line| line.trim_start_matches(':').split_whitespace().next());
            number
                .with_context(|| format!("/proc/meminfo has no {name}"))?
                .parse()
                .context(meminfo.clone())
        };
        let vmalloc_kib = field("VmallocUsed")?;
        // Free pages that wait on a processor's list, up to 63 at a time, are missing in MemFree.
        let zones = read("/proc/zoneinfo")?;
        let counts = zones
            .lines()
            .filter_map(|line| line.trim().strip_prefix("count:"));
        let listed: i64 = counts
            .filter_map(|count| count.trim().parse::<i64>().ok())
            .sum();
        // Page tables of the kernel's own addresses stay for their next user, and large
        // allocations have others until the kernel takes back what it mapped before, all at once.
        let free_kib = field("MemFree")? + 4 * listed + field("PageTables")?;
        Ok(Self {
            slabs: slabs()?,
            vmalloc_kib,
            free_kib,
        })
    }

    /// What has grown since `before`.
    pub(crate) fn since(&self, before: &Self) -> Growth {
        let mut slabs: Vec<(String, i64)> = self
            .slabs
            .iter()
            .map(|(name, now)| (name.clone(), now - before.slabs.get(name).unwrap_or(&0)))
            .filter(|(_, growth)| *growth > 0)
            .collect();
        slabs.sort_by_key(|(_, growth)| -growth);
        Growth {
            slabs,
            vmalloc_kib: self.vmalloc_kib - before.vmalloc_kib,
            pages: (before.free_kib - self.free_kib) / 4,
        }
    }
}

impl Growth {
    /// Checks that `cycles` repetitions of something did not each leave an object or a page.
    pub(crate) fn ensure_less_than_one_per(&self, cycles: i64) -> Result<()> {
        self.ensure_less_than_one_object_per(cycles)?;
        ensure!(
            self.pages < cycles / 2,
            "memory grew in {cycles} cycles: {self}"
        );
        Ok(())
    }

    /// The same for pages, of which namespaces leave some to the processors.
    pub(crate) fn ensure_less_than_one_object_per(&self, cycles: i64) -> Result<()> {
        let most = self.slabs.first().map_or(0, |(_, growth)| *growth);
        ensure!(most < cycles / 2, "slab grew in {cycles} cycles: {self}");
        ensure!(
            self.vmalloc_kib < cycles / 2 * 4,
            "vmalloc grew in {cycles} cycles: {self}"
        );
        Ok(())
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, growth) in self.slabs.iter().take(3) {
            write!(f, "{name} {growth:+}, ")?;
        }
        write!(
            f,
            "vmalloc {:+} KiB, {:+} pages in use",
            self.vmalloc_kib, self.pages
        )
    }
}

/// Objects in use, by slab cache.
fn slabs() -> Result<BTreeMap<String, i64>> {
    let slabinfo = read("/proc/slabinfo")?;
    // A line on the version, and one on the columns.
    let lines = slabinfo.lines().skip(2);
    let words = lines.map(|line| line.split_whitespace());
    let caches =
        words.filter_map(|mut words| Some((words.next()?.to_owned(), words.next()?.parse().ok()?)));
    Ok(caches.collect())
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| path.to_owned())
}
