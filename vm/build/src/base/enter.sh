# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs inside a new mount namespace: dresses the root filesystem for a command and enters it.
# usage: enter.sh ROOT LAYERS [ro|rw FROM TO]... -- COMMAND...
# LAYERS: options of an overlay to mount on ROOT, or nothing.
# Nothing is unmounted: the namespace, and all mounts with it, ends with its last process.
set -eu
root=$1 layers=$2
shift 2
if [ -n "$layers" ]; then
	mount -t overlay -o "$layers" overlay "$root"
else
	mount --bind "$root" "$root"
	# Stages are never changed once built. Where the kernel refuses to tighten a mount of another user
	# namespace the files are still only ours to change.
	mount -o remount,bind,ro "$root" 2>/dev/null || :
fi
for directory in dev proc sys; do
	mount --rbind "/$directory" "$root/$directory"
done
for directory in tmp run mnt var/tmp; do
	mount -t tmpfs -o mode=1777 tmpfs "$root/$directory"
done
mkdir -p "$root/run/lock" "$root/run/tmp"
while [ "$1" != -- ]; do
	how=$1 from=$2 to=$root/$3
	shift 3
	[ -e "$to" ] || if [ -d "$from" ]; then mkdir -p "$to"; else mkdir -p "${to%/*}" && : >"$to"; fi
	mount --bind "$from" "$to"
	if [ "$how" = ro ]; then mount -o remount,bind,ro "$to" 2>/dev/null || :; fi
done
shift
exec chroot "$root" "$@"
