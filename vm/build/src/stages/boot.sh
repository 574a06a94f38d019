# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs inside the root filesystem: gathers what every guest has, and the kernel as QEMU boots it fastest.
# usage: boot.sh KERNEL-RELEASE OFFSET LENGTH VMLINUZ     writes /mnt/build/{tree,vmlinux}
# OFFSET and LENGTH: where the compressed kernel lies in VMLINUZ.
set -eu
release=$1
tree=/mnt/build/tree
libraries=/usr/lib/x86_64-linux-gnu

# The kernel, uncompressed: QEMU enters it directly (PVH), and nothing is unpacked in the guest.
vmlinuz=$4
tail -c +"$(($2 + 1))" "$vmlinuz" | head -c "$3" >/mnt/build/payload
case $(od -An -tx1 -N4 /mnt/build/payload | tr -d ' ') in
	28b52ffd) unpack='zstd -dc' size=4 ;;
	fd377a58) unpack='xz -dc --single-stream' size=4 ;;
	02214c18) unpack='lz4 -dc' size=4 ;;
	1f8b*) unpack='gzip -dc' size=0 ;;
	*) echo "$vmlinuz: unknown compression" >&2; exit 1 ;;
esac
# The build appends the unpacked size, which the tools would take for rubbish.
head -c -"$size" /mnt/build/payload | $unpack >/mnt/build/vmlinux
rm /mnt/build/payload

for directory in dev proc sys run tmp root out mnt etc/weft usr/bin usr/lib usr/lib64 var/lib "$libraries/tc"; do
	mkdir -p "$tree/$directory"
done
chmod 1777 "$tree/tmp"
for directory in bin lib lib64; do ln -s "usr/$directory" "$tree/$directory"; done
ln -s usr/bin "$tree/sbin"
ln -s bin "$tree/usr/sbin"
ln -s /run "$tree/var/run"
# Where this tc looks for plugins, and where its sources say it does.
cp -r "$libraries/tc/." "$tree$libraries/tc"
ln -s x86_64-linux-gnu/tc "$tree/usr/lib/tc"
cp -r /usr/share/iproute2 /usr/lib/locale/C.utf8 --parents "$tree"
for name in l/linux x/xterm x/xterm-256color v/vt100 v/vt220 s/screen s/screen-256color t/tmux-256color; do
	[ ! -e "/usr/share/terminfo/$name" ] || cp --parents "/usr/share/terminfo/$name" "$tree"
	[ ! -e "/lib/terminfo/$name" ] || cp --parents "/usr/lib/terminfo/$name" "$tree"
done
printf 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n' >"$tree/etc/passwd"
printf 'root:x:0:\ntty:x:5:\nnogroup:x:65534:\n' >"$tree/etc/group"
printf '127.0.0.1 localhost weft\n::1 localhost\n' >"$tree/etc/hosts"
printf 'PS1="\\[\\e[1m\\]\\h\\[\\e[0m\\]:\\w# "\n' >"$tree/etc/profile"

programs='bash dash ip tc ss nstat bridge rtacct ping iperf3 ethtool kmod bpftool'
for program in $programs; do
	path=$(command -v "$program") || { [ "$program" = bpftool ] && continue; echo "no $program" >&2; exit 1; }
	cp -L "$path" "$tree/usr/bin/$program"
	{ ldd "$path" || :; } | grep -o '/[^ ]*' >>/mnt/build/libraries || :
done
# The guest's own programs are Rust.
echo "$libraries/libgcc_s.so.1" >>/mnt/build/libraries
sort -u /mnt/build/libraries | while read -r library; do
	mkdir -p "$tree${library%/*}"
	cp -L "$library" "$tree$library"
done
rm /mnt/build/libraries
# The loader's index. Without it, the loader looks for each library in one more folder for each generation of x86 up to the
# processor's (glibc-hwcaps). Under the model clock each miss takes time, so a run would depend on the processor.
cp -r /etc/ld.so.conf /etc/ld.so.conf.d "$tree/etc/"
ldconfig -X -r "$tree"
cp /usr/bin/busybox "$tree/usr/bin/"
# Real programs come first; busybox's own ip, tc and so on would shadow them.
/usr/bin/busybox --list | while read -r applet; do
	[ -e "$tree/usr/bin/$applet" ] || ln -s busybox "$tree/usr/bin/$applet"
done
for name in modprobe insmod rmmod lsmod modinfo depmod; do ln -sf kmod "$tree/usr/bin/$name"; done
ln -sf dash "$tree/usr/bin/sh"

modules=$tree/usr/lib/modules/$release
mkdir -p "$modules"
cp "/usr/lib/modules/$release"/modules.builtin "/usr/lib/modules/$release"/modules.builtin.modinfo \
	"/usr/lib/modules/$release"/modules.order "$modules"
wanted='veth dummy ifb bridge vrf 8021q tun vxlan virtio_pci virtio_net
	sit ipip ip_gre ip_vti ip6_tunnel ip6_gre ip6_vti
	sch_tbf sch_htb sch_drr sch_hfsc sch_qfq sch_prio sch_mqprio sch_multiq sch_fq sch_fq_codel sch_skbprio
	sch_etf sch_ets sch_red sch_netem sch_pie sch_codel sch_cake sch_ingress sch_plug sch_sfq sch_choke sch_sfb
	sch_taprio
	act_mirred act_skbedit act_gact act_police act_bpf cls_u32 cls_matchall cls_basic cls_flow cls_flower
	cls_bpf cls_fw em_meta pktgen tcp_dctcp tcp_bbr tcp_diag inet_diag udp_diag'
for module in $wanted; do
	# Whatever is built in or not offered has no file.
	modprobe -S "$release" --show-depends "$module" 2>/dev/null || :
done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | sort -u | while read -r file; do
	target=$modules/${file#*/modules/"$release"/}
	mkdir -p "${target%/*}"
	case $file in
		*.xz) xz -dc "$file" >"${target%.xz}" ;;
		*.zst) zstd -qdc "$file" >"${target%.zst}" ;;
		*) cp "$file" "$target" ;;
	esac
done
depmod -b "$tree" "$release"
