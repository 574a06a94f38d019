# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs the executable as nobody in a minimal root filesystem of a Debian release.
# usage: release.sh     /mnt/weft: the executable; writes what `weft demo` prints to /mnt/build/demo
cd /tmp
as_nobody() {
	setpriv --reuid 65534 --regid 65534 --clear-groups env -i PATH="$PATH" HOME=/nonexistent "$@"
}
as_nobody /mnt/weft doctor
as_nobody /mnt/weft demo --out /tmp/results >/mnt/build/demo
