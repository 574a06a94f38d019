# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs inside a fresh root filesystem, writable: installs, upgrades and purges the packages, as a person would.
# usage: trial.sh RELEASE OLD-VERSION VERSION NEXT-RELEASE NEXT-KERNEL'S-VERSION NEXT-KERNEL'S-SOURCE
# reads /mnt/old/*.deb and /mnt/new/*.deb; writes /mnt/build/installed, what a machine then has of them
release=$1 old=$2 new=$3 next=$4 next_version=$5 next_source=$6

say() {
	echo "== $*"
}
apt() {
	apt-get --yes --no-install-recommends "$@"
}
files() {
	find / -xdev \( -path /var/lib/dpkg -o -path /var/cache/apt -o -path /var/lib/apt -o -path /var/log \) -prune -o \
		-print | sort
}
# That DKMS has built nothing. $*: for which kernel. (`set -e` takes no notice of what `!` stands before.)
none_installed() {
	dkms status -m weft "$@" >/tmp/status
	if grep installed /tmp/status; then
		exit 1
	fi
}
# That all modules are there, of a version $1 for a kernel $2.
installed() {
	dkms status
	dkms status -m weft -v "$1" -k "$2" | grep -q ': installed'
	# The kernel itself is not installed, so modprobe has no index of its modules.
	ls /usr/src/weft-"$1"/*/sch_*.rs /usr/src/weft-"$1"/*/tcp_*.rs | sed 's|.*/||; s|\.rs$||' | while read -r module; do
		modinfo --field description "/lib/modules/$2/updates/dkms/$module.ko"*
	done
}

printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d

# Nothing of this outlives the test.
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/test

say "a kernel without Rust has no modules, and says so"
mkdir -p /lib/modules/6.12-plain/build/include
echo '# CONFIG_RUST is not set' >/lib/modules/6.12-plain/build/.config
files >/tmp/before
apt install /mnt/old/weft_*.deb /mnt/old/weft-dkms_*.deb >/tmp/said 2>&1 || { cat /tmp/said; exit 1; }
cat /tmp/said
grep -q 'weft has no modules for Linux 6.12-plain: it was built without Rust' /tmp/said
rm -r /lib/modules/6.12-plain
none_installed

say "a kernel that comes has them built"
apt install "linux-headers-$release"
installed "$old" "$release"
time_of_metadata=$(stat -c %Y "/var/cache/weft-dkms/$release/from")

say "an upgrade builds them anew, with the same metadata"
apt install /mnt/new/weft_*.deb /mnt/new/weft-dkms_*.deb
installed "$new" "$release"
[ ! -e "/usr/src/weft-$old" ]
[ "$time_of_metadata" = "$(stat -c %Y "/var/cache/weft-dkms/$release/from")" ]

say "metadata of another version of the kernel's package is made anew, and what a killed making left goes"
version=$(dpkg-query --show --showformat '${Version}' "linux-headers-$release")
sed -i "1s/ $version\$/ 0.1/" "/var/cache/weft-dkms/$release/from"
mkdir /var/cache/weft-dkms/.making.killed
"/usr/src/weft-$new/rust-metadata" "$release" "/lib/modules/$release/build" /tmp/linked
[ "$time_of_metadata" != "$(stat -c %Y "/var/cache/weft-dkms/$release/from")" ]
[ ! -e /var/cache/weft-dkms/.making.killed ]
weft --version
for program in weft-tag weft-pase weft-arbiter; do "$program" --help >/dev/null; done

say "doctor says in a sentence what a kernel lacks"
metadata=/usr/src/weft-$new/rust-metadata
tree=/lib/modules/$release/build
# What it says of a kernel that can have no modules. $1: the sentence's pattern, then what is run.
refused() {
	pattern=$1 status=0
	shift
	"$@" "$metadata" --check "$release" "$tree" 2>/tmp/said || status=$?
	cat /tmp/said
	[ $status = 77 ]
	grep -q "$pattern" /tmp/said
}
printf '#!/bin/sh\necho rustc 1.0.0\n' >/tmp/rustc
chmod +x /tmp/rustc
refused 'was built by rustc .*, but here rustc is rustc 1.0.0' env PATH="/tmp:$PATH"
refused 'is not installed. Do: apt install linux-source-' env WEFT_METADATA=/tmp/none WEFT_SOURCES=/tmp/none
# A tree that was built here has it all.
mkdir -p /tmp/own/rust
cp "$tree/.config" /tmp/own/
: >/tmp/own/rust/libkernel.rmeta
"$metadata" "$release" /tmp/own /tmp/linked
[ "$(readlink /tmp/linked)" = /tmp/own ]

say "what is installed"
mkdir /mnt/build/installed
{
	dpkg --listfiles weft
	find "/lib/modules/$release/updates" -name '*.ko*'
} | while read -r path; do
	if [ -L "$path" ] || [ -f "$path" ]; then
		to=/mnt/build/installed$(echo "$path" | sed 's|^/lib/|/usr/lib/|')
		mkdir -p "${to%/*}"
		cp -dp "$path" "$to"
	fi
done

say "a newer kernel whose headers come first has none, and says why"
apt install "linux-headers-$next=$next_version" >/tmp/said 2>&1 || { cat /tmp/said; exit 1; }
cat /tmp/said
grep -q "weft has no modules for Linux $next: .* Do: apt install $next_source=$next_version" /tmp/said
none_installed -k "$next"

say "its source comes, and with it the modules"
apt install "$next_source=$next_version"
installed "$new" "$next"
installed "$new" "$release"

say "a purge leaves nothing"
apt purge weft weft-dkms
files >/tmp/after
# What is new, except for what the kernel's headers and DKMS itself brought.
comm -13 /tmp/before /tmp/after >/tmp/new
xargs -d '\n' dpkg-query --search </tmp/new 2>&1 >/dev/null | sed -n 's/^dpkg-query: no path found matching pattern //p' |
	grep -v -e '^/var/lib/dkms/mok\.' -e "^/usr/lib/modules/$release/modules\." \
		-e "^/usr/lib/modules/$next/modules\." >/tmp/left || :
cat /tmp/left
[ ! -s /tmp/left ]
comm -23 /tmp/before /tmp/after | grep -v 6.12-plain >/tmp/lost || :
cat /tmp/lost
[ ! -s /tmp/lost ]
