# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs the one executable where nothing else is: in mount and process namespaces of its own, which end with it.
# usage: trial.sh WEFT FOLDER KILLS     WEFT: the executable; FOLDER: empty, for roots; KILLS: how often it is killed
set -eu
weft=$1 folder=$2 kills=$3
# The caller's cache and machine are not those that are tried.
unset WEFT_CACHE WEFT_MACHINE
run='run rack:hosts=3 --dilation 1000 --scheme pfabric --workload web-search --load 0.4 --flows 20 --quiet'

# An empty root: /proc, /tmp and the one file.
root=$folder/root
mkdir -p "$root/proc" "$root/tmp"
chmod 1777 "$root/tmp"
cp "$weft" "$root/weft"
chmod 755 "$root" "$folder" "$root/weft"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"

# NAME COMMAND...: the same run as nobody, whose results are in results/NAME.
as_nobody() {
	name=$1
	shift
	echo "$name"
	env -i PATH="$PATH" "$@" chroot --userspec=65534:65534 --groups= "$root" /weft $run --out "/tmp/$name" >"$folder/$name.out" 2>&1 || {
		cat "$folder/$name.out"
		exit 1
	}
	cmp "$root/tmp/plain/pfabric-seed1.jsonl" "$root/tmp/$name/pfabric-seed1.jsonl"
}
as_nobody plain
as_nobody terminal-less setsid
as_nobody little-may-be-open prlimit --nofile=64:64
as_nobody few-processes prlimit --nproc=60:60
as_nobody little-address-space prlimit --as=4000000000:4000000000
as_nobody no-core prlimit --core=0:0
as_nobody no-privileges setpriv --no-new-privs
as_nobody other-cache XDG_CACHE_HOME=/tmp/elsewhere

# No namespace may be made. The user's own namespace is where that is forbidden for nobody else.
echo no-namespaces
unshare --user --map-root-user sh -euc '
	echo 0 >/proc/sys/user/max_user_namespaces
	root=$1
	shift
	exec env -i PATH="$PATH" chroot "$root" /weft "$@" --out /tmp/no-namespaces
' sh "$root" $run >"$folder/no-namespaces.out" 2>&1 || { cat "$folder/no-namespaces.out" && exit 1; }
cmp "$root/tmp/plain/pfabric-seed1.jsonl" "$root/tmp/no-namespaces/pfabric-seed1.jsonl"

# A run that fails in its guest says why, and leaves no results.
echo failing
if env -i PATH="$PATH" chroot --userspec=65534:65534 "$root" /weft $run --fault '0ns h1 run echo broken >&2; false' \
	--out /tmp/failing >"$folder/said" 2>&1; then
	echo 'a run that failed did not' && exit 1
fi
grep -q 'a fault of h1.*broken' "$folder/said" || { cat "$folder/said" && exit 1; }
[ ! -e "$root/tmp/failing/pfabric-seed1.jsonl" ] || { echo 'a run that failed left results' && exit 1; }

# A shell at a terminal, as nobody: root in the guest, whose status is the shell's. Its commands are typed
# before the guest has opened its terminal.
echo shell
status=0
printf 'tc qdisc add dev lo root pfabric && echo has-$((6 * 7))-$(id -u)\nexit 3\n' |
	env -i PATH="$PATH" script --quiet --return \
		--command "chroot --userspec=65534:65534 --groups= $root /weft vm" "$folder/shell.out" >"$folder/said" || status=$?
[ "$status" = 3 ] && grep -q has-42-0 "$folder/shell.out" || {
	cat "$folder/shell.out" && echo "the shell ended with $status" && exit 1
}

# A cache that cannot be written gives a clear error.
echo read-only
if env -i PATH="$PATH" XDG_CACHE_HOME=/proc chroot --userspec=65534:65534 "$root" /weft $run --out /tmp/none >"$folder/said" 2>&1; then
	echo 'a cache that cannot be written was written' && exit 1
fi
grep -q 'XDG_CACHE_HOME names another folder' "$folder/said" || { cat "$folder/said" && exit 1; }

# With the files of this machine: its programs run on a fabric, twice the same, and change nothing.
echo "this machine's programs"
export XDG_CACHE_HOME=$root/tmp/own
serve='perl -MIO::Socket::INET -e "my \$s = IO::Socket::INET->new(Listen => 1, LocalPort => 8000) or die; while (my \$c = \$s->accept) { print \$c qq(from h0\\n); close \$c }"'
ask='touch /etc/changed; tc qdisc show dev tor0; date +%T.%N; perl -MIO::Socket::INET -e "print IO::Socket::INET->new(qq(h0:8000))->getlines"; date +%T.%N'
for time in 1 2; do
	"$root/weft" lab rack:hosts=2 --dilation 1000 --scheme pfabric --quiet --on h0 "$serve" --wait-for h0:8000 \
		--from h1 sh -c "$ask" >"$folder/lab-$time" 2>&1 || { cat "$folder/lab-$time" && exit 1; }
done
grep -q 'qdisc pfabric' "$folder/lab-1" && grep -q '^from' "$folder/lab-1" || { cat "$folder/lab-1" && exit 1; }
cmp "$folder/lab-1" "$folder/lab-2"
[ ! -e /etc/changed ]
unset XDG_CACHE_HOME
rm -r "$root/tmp/own"

# Whenever it is killed, nothing is left but the cache: no process, no file elsewhere, no half result.
echo "killed $kills times"
ls -A "$root/tmp" >"$folder/before"
number=0
while [ "$number" -lt "$kills" ]; do
	number=$((number + 1))
	env -i PATH="$PATH" chroot --userspec=65534:65534 "$root" /weft $run --seed 1,2,3 --again -j 2 --out /tmp/killed >/dev/null 2>&1 &
	sleep "0.$(od -An -N2 -tu2 /dev/urandom | awk '{printf "%03d", $1 % 1000}')"
	kill -KILL $! 2>/dev/null || :
	wait $! 2>/dev/null || :
	# The kernel ends them at once, but not in no time.
	for patience in 1 2 3 4 5 6 7 8 9 10; do
		left=$(pgrep -U 65534 || :)
		[ -n "$left" ] || break
		sleep 0.1
	done
	[ -z "$left" ] || { echo "processes are left: $(ps -o pid,args -p $(echo $left))" && exit 1; }
	for file in "$root"/tmp/killed/*.jsonl; do
		[ ! -e "$file" ] || tail -n 1 "$file" | grep -q '^{"record":"summary".*}$' || { echo "$file is half" && exit 1; }
	done
done
ls -A "$root/tmp" | grep -v '^killed$' | cmp - "$folder/before"
# What was killed goes on, and what killed runs left in the cache is removed.
env -i PATH="$PATH" chroot --userspec=65534:65534 "$root" /weft $run --seed 1,2,3 -j 2 --out /tmp/killed >/dev/null
cmp "$root/tmp/plain/pfabric-seed1.jsonl" "$root/tmp/killed/pfabric-seed1.jsonl"
left=$(ls -A "$root"/tmp/weft-65534/run | grep -v '^lock$' || :)
[ -z "$left" ] || { echo "runs are left in the cache: $left" && exit 1; }
echo passed
