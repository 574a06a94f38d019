# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs inside the root filesystem, writable: installs packages, and gathers what of them a guest has not got.
# usage: packages.sh NAME...     reads /mnt/packages/*.deb and /mnt/base, writes /mnt/build/{tree,versions}

# Nothing is to be started.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
touch /mnt/build/before
for package in /mnt/packages/*.deb; do
	# All that was asked for may be there already.
	[ ! -e "$package" ] || dpkg --install --force-unsafe-io /mnt/packages/*.deb
	break
done
rm /usr/sbin/policy-rc.d

# The names, and what they depend on, are not indented; what is virtual is in brackets.
apt-cache --installed --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
	--no-enhances depends "$@" | grep '^[a-z0-9]' | sort -u >/mnt/build/closure
xargs dpkg-query --show --showformat '${Package} ${Version}\n' </mnt/build/closure >/mnt/build/versions

# Their files, links for alternatives, and what their scripts wrote: users, caches, settings.
{
	while read -r name; do
		dpkg-query --listfiles "$name"
	done </mnt/build/closure
	find /etc /usr /var/lib -newer /mnt/build/before ! -type d
	find /etc/alternatives -type l
} | sort -u | while read -r path; do
	case $path in
	# The guest has its own.
	/etc/profile | /etc/hosts | /etc/hostname | /etc/resolv.conf | /var/lib/dpkg/* | /var/lib/apt/*) continue ;;
	/usr/lib/modules/* | /usr/src/*) continue ;;
	esac
	if [ -L "$path" ] || [ -f "$path" ]; then
		# As in the guest, whose /sbin and /usr/sbin are links.
		case $path in
		/usr/sbin/*) to=/usr/bin/${path#/usr/sbin/} ;;
		/bin/* | /lib/* | /lib64/*) to=/usr$path ;;
		/sbin/*) to=/usr/bin/${path#/sbin/} ;;
		*) to=$path ;;
		esac
		[ -L "$path" ] || ! cmp -s "$path" "/mnt/base$to" || continue
		mkdir -p "/mnt/build/tree${to%/*}"
		cp -dp "$path" "/mnt/build/tree$to"
	fi
done
