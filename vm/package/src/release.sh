# SPDX-License-Identifier: MIT OR Apache-2.0
# Tries weft as nobody in a minimal root filesystem of a Debian release, which is writable.
# usage: release.sh executable|package     /mnt/weft: the executable, or the folder with weft_*.deb
# An executable prints what `weft demo` prints; everything else goes to standard error, which is logged.
as_nobody() {
	setpriv --reuid 65534 --regid 65534 --clear-groups env -i PATH="$PATH" HOME=/nonexistent "$@"
}

executable() {
	as_nobody /mnt/weft doctor >&2
	as_nobody /mnt/weft demo --out /tmp/results
}

files() {
	find / -xdev \( -path /var/lib/dpkg -o -path /var/cache/apt -o -path /var/lib/apt -o -path /var/log \) -prune -o \
		-print | sort
}

# Installs the package `weft` alone, uses it, and purges it.
package() {
	printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
	chmod +x /usr/sbin/policy-rc.d
	echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/test
	files >/tmp/before
	apt-get --yes --no-install-recommends install /mnt/weft/weft_*.deb
	dpkg --verify weft
	weft --version
	as_nobody weft doctor | tee /tmp/said
	grep -q 'installed' /tmp/said
	for program in weft-tag weft-pase weft-arbiter; do "$program" --help >/dev/null; done
	as_nobody weft run rack:hosts=3 --dilation 1000 --scheme pfabric,droptail --workload web-search --load 0.4 --flows 20 \
		--quiet --out /tmp/results
	as_nobody weft compare /tmp/results/pfabric-seed1.jsonl /tmp/results/droptail-seed1.jsonl
	as_nobody weft licences | grep 'carries a machine'
	zcat /usr/share/doc/weft/machine.gz | grep 'carries a machine'
	apt-get --yes purge weft
	files >/tmp/after
	cmp /tmp/before /tmp/after
}

cd /tmp
case $1 in
executable) executable ;;
package) package >&2 ;;
esac
