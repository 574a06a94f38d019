# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs inside the root filesystem: builds the kernel of the model clock, and keeps what modules are built against.
# usage: build.sh SOURCE-PACKAGE C-COMPILER JOBS [count]     reads /mnt/recipe and /mnt/model/source.deb, fills /mnt/model:
#   linux     the kernel, a program            release   its release
#   object    its build tree, for modules      source    the source that goes with it, for modules
#   modules   the index of what is built in
package=$1 compiler=$2 jobs=$3 count=${4-}
cd /mnt/model

# Drivers of hardware that this kernel never sees make up most of the source.
set --
for part in gpu media infiniband staging scsi net/ethernet net/wireless iio; do
	set -- "$@" --exclude="*/drivers/$part/*.[chS]"
done
for part in sound arch/arm arch/arm64 arch/mips arch/powerpc; do
	set -- "$@" --exclude="*/$part/*.[chS]"
done
dpkg-deb --fsys-tarfile source.deb | tar -xO "./usr/src/$package.tar.xz" | xz -dT0 |
	tar -x "$@" --exclude='*.dts' --exclude='*.dtsi' --exclude='*/Documentation/*.rst'
rm source.deb
mv "$package" source
for patch in /mnt/recipe/patches/*.patch; do
	echo "$patch"
	(cd source && busybox patch -p1 -i "$patch")
done

# -g0: debug information would make the build half as long again, for types (BTF) of which few matter: those that the
# kernel itself names to its BPF, without which cubic, for one, would not register. The files that name them have them.
names='\bBTF_(ID|ID_LIST|ID_LIST_[A-Z]*|SET_START|SET8_START|KFUNCS_START)\(|__bpf_kfunc |struct bpf_struct_ops [a-z_]+ = '
types=
for file in $(cd source && grep -rlE "$names" --include='*.c' kernel net mm fs lib); do
	file=${file##*/}
	types="$types CFLAGS_${file%.c}.o=-g"
done
# -mcmodel=small: the architecture compiles everything such that it may lie anywhere, as modules do. The kernel itself
# lies below 2 GiB. -fbuiltin: it also calls memset() and the like for a few bytes, as other architectures do not.
build() {
	make -C source ARCH=um O=/mnt/model/object CC=/tmp/compiler KCFLAGS='-g0 -fbuiltin' CFLAGS_KERNEL=-mcmodel=small $types \
		KRUSTFLAGS='-Cdebuginfo=0 -Crelocation-model=static' -j"$jobs" "$@"
}
mkdir object
# The profile says how often each part of the kernel ran in guests at work (`cargo xtask profile`, which calls this with
# `count`). What runs often is laid together and made fast, and the rest is made small. A profile of another compiler's
# version is ignored, as is that of a function that has changed since: such code is compiled as without it.
profile=
if [ "$count" ]; then
	# The runtime that counts has a function of that name.
	profile='-fprofile-generate -Dmangle_path=kernel_mangle_path'
	# The runtime writes its counts in a destructor, and the kernel's linker script drops destructors.
	sed -i 's/^\treturn uml_exitcode;$/\t__gcov_dump();\n&/; s/^int __init main(/void __gcov_dump(void);\n\n&/' \
		source/arch/um/os-Linux/main.c
	grep -c __gcov_dump source/arch/um/os-Linux/main.c | grep -qx 2
elif [ -e /mnt/recipe/profile.tar.xz ]; then
	xz -dc /mnt/recipe/profile.tar.xz | tar -xC object
	profile='-fprofile-use -Wno-missing-profile -Wno-coverage-mismatch'
fi
# Not in KCFLAGS, which bindgen's clang reads too. Nor for what runs in the guest's processes.
cat >/tmp/compiler <<-end
	#!/bin/sh
	case " \$* " in
	*vdso* | *stub* | *scripts/*) exec $compiler "\$@" ;;
	esac
	exec $compiler $profile "\$@"
end
chmod +x /tmp/compiler
build KCONFIG_ALLCONFIG=/mnt/recipe/config allnoconfig
# What depends on something else that is off is dropped in silence.
sed -n '/^CONFIG_/p; /^# CONFIG_.* is not set$/p' /mnt/recipe/config | while read -r line; do
	case $line in
	'#'*) name=${line#'# '} && ! grep "^${name%% *}=" object/.config ;;
	*) grep -qxF "$line" object/.config ;;
	esac || { echo "the configuration does not hold: $line" >&2 && exit 1; }
done
# Says what is missing; without it the configuration would only drop Rust, silently.
build rustavailable
build linux modules_prepare

strip -o linux object/linux
cp object/include/config/kernel.release release
if [ "$count" ]; then
	rm -rf object source
	exit
fi
mkdir modules
cp object/modules.builtin object/modules.builtin.modinfo modules/
: >modules/modules.order
mv object/vmlinux.symvers object/Module.symvers

# What modules are built against, and no more.
keep() {
	tree=$1
	shift
	mkdir kept
	(cd "$tree" && tar -c "$@") | tar -xC kept
	rm -rf "$tree"
	mv kept "$tree"
}
find object source -name '*.o' -o -name '*.a' -o -name '.*.cmd' | xargs rm -f
keep object .config Makefile Module.symvers arch/um/include arch/x86/include include rust scripts
keep source Kbuild Kconfig Makefile arch/um arch/x86/include arch/x86/Makefile arch/x86/Makefile.um arch/x86/um \
	include rust scripts tools/build tools/scripts
