# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs inside a minimal root filesystem of a Debian release, writable: installs the package `weft` alone, uses it as nobody, and
# purges it.
# usage: release.sh     reads /mnt/packages/weft_*.deb
as_nobody() {
	setpriv --reuid 65534 --regid 65534 --clear-groups env -i PATH="$PATH" HOME=/nonexistent "$@"
}
files() {
	find / -xdev \( -path /var/lib/dpkg -o -path /var/cache/apt -o -path /var/lib/apt -o -path /var/log \) -prune -o \
		-print | sort
}
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/test

files >/tmp/before
apt-get --yes --no-install-recommends install /mnt/packages/weft_*.deb
dpkg --verify weft
cd /tmp
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
