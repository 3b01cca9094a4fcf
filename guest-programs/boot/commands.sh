# Real work for a shell and its tools, of which `axplab boot` has to make what another emulator makes. Runs in an
# empty folder; what it prints depends on nothing but its programs. Each `step` tells the status before.
exec 2>&1
n=0
step() {
    s=$?
    n=$((n + 1))
    echo "== $n, $s"
}
step
seq 1 10 | sort -rn | head -n 3
step
echo hello | tr a-z A-Z
step
printf '%05d|%-8s|%x\n' 42 left 255
step
expr 6 \* 7
step
echo $((1 << 40)) $((-7 / 2)) $((-7 % 3)) $((0x7fffffffffffffff + 1))
step
seq 1000 | awk '{ s += $1 } END { print s }'
step
awk 'BEGIN { for (i = 1; i <= 5; i++) printf "%d %.6f %.3e\n", i, sqrt(i), exp(i) }'
step
awk 'BEGIN { print sin(1), cos(1), atan2(1, 2), log(10), int(-3.7) }'
step
awk 'BEGIN { x = 0.1; for (i = 0; i < 10; i++) x += 0.1; printf "%.17g\n", x }'
step
seq 5000 | md5sum
step
seq 5000 | sha1sum
step
seq 5000 | sha256sum
step
seq 5000 | sha512sum
step
seq 5000 | sha3sum
step
seq 5000 | cksum
step
seq 5000 | sum
step
seq 5000 | crc32
step
seq 2000 > numbers; wc numbers
step
ls -l numbers | awk '{ print $1, $5 }'
step
gzip -c numbers | gunzip -c | cmp - numbers && echo same
step
gzip -9 -c numbers > n.gz; gzip -t n.gz; gunzip -c n.gz | md5sum
step
bzip2 -c numbers | bunzip2 -c | md5sum
step
bzip2 -9 -k numbers; ls numbers.bz2; rm numbers.bz2
step
head -c 100000 /dev/zero | gzip -c | wc -c
step
head -c 300000 /dev/zero | tr '\0' 'x' | md5sum
step
mkdir -p a/b/c; echo one > a/one; echo two > a/b/two; echo three > a/b/c/three; find a | sort
step
find a -type f -exec cat {} \; | sort
step
find a -name 't*' -type f | sort | xargs wc -c
step
tar cf t.tar a; tar tf t.tar | sort
step
mkdir x; tar xf t.tar -C x; find x -type f | sort | xargs md5sum
step
tar czf t.tgz a; tar tzf t.tgz | wc -l
step
tar cf - a | (mkdir y; cd y; tar xf -; find . | wc -l)
step
find a | cpio -o -H newc 2>/dev/null | wc -c | awk '{ print ($1 > 500) }'
step
find a | cpio -o -H newc 2>/dev/null | (mkdir z; cd z; cpio -id 2>/dev/null; find . -type f | sort)
step
cp -r a d; diff -r a d && echo equal
step
echo changed > d/one; diff a/one d/one
step
diff -u a/one d/one | tail -n +3
step
cmp a/one d/one
step
mv d e; ls e
step
ln -s one a/link; readlink a/link; cat a/link
step
ln a/one a/hard; stat -c %h a/one
step
chmod 640 a/one; stat -c '%a %s %F' a/one
step
touch -d '2001-02-03 04:05:06' a/one; date -u -r a/one '+%Y-%m-%d %H:%M:%S'
step
date -u -d @1000000000 '+%Y-%m-%dT%H:%M:%S %j %U %a'
step
test -f a/one && test ! -d a/one && [ -L a/link ] && echo kinds
step
[ 3 -lt 5 ] && [ abc != abd ] && echo compared
step
rm -r x y z e; ls
step
du -s a > /dev/null && echo counted
step
basename /usr/lib/libc.so .so; dirname /usr/lib/libc.so
step
realpath a/../a/b/two | sed 's|.*/a/|a/|'
step
echo 'the quick brown fox jumps over the lazy dog' > fox; sed 's/quick/slow/; s/\(lazy\) dog/\1 cat/' fox
step
sed -n '1,3p; 5p' numbers
step
sed -n '$=' numbers
step
sed '1!G;h;$!d' numbers | head -n 4
step
sed -e 's/[aeiou]//g' -e 'y/xyz/XYZ/' fox
step
sed 's/ /\n/g' fox | sort | uniq -c | sort -k1,1nr -k2 | head -n 3
step
sed -E 's/([a-z]+) ([a-z]+)/\2 \1/g' fox
step
sed -e '2,$d' -e 'a appended' numbers
step
sed -i 's/fox/wolf/' fox; cat fox
step
grep -c 7 numbers
step
grep -n '^77' numbers | head -n 3
step
grep -E '^(1|2)0+$' numbers
step
grep -v '[0-8]' numbers
step
grep -o 'o.' fox
step
grep -w lazy fox; grep -q absent fox || echo absent
step
grep -F -x -e 100 -e 200 numbers
step
grep -A1 -B1 '^500$' numbers
step
egrep -i 'QUICK|DOG' fox | wc -w
step
fgrep 199 numbers | tail -n 2
step
sort -t: -k2 -n <<END | cut -d: -f1 | paste -s -d, -
x:3
y:1
z:2
END
step
sort -u <<END
b
a
b
END
step
sort -r -k2,2 -k1,1n <<END
3 b
1 a
2 b
END
step
sort -n -c numbers && echo sorted
step
printf 'a\nb\nb\nc\nc\nc\n' | uniq -c
step
printf 'a\nb\nb\nc\n' | uniq -d
step
printf 'a\nb\nb\nc\n' | uniq -u
step
cut -c 1-3,5 fox
step
echo 'a:b:c:d' | cut -d: -f2-3
step
paste -d' ' - - < numbers | head -n 3
step
printf '1 a\n2 b\n' > j1; printf '1 x\n2 y\n' > j2; awk 'NR==FNR { m[$1] = $2; next } { print $1, m[$1], $2 }' j1 j2
step
comm -12 j1 j1; comm -3 j1 j2
step
head -n 2 numbers; tail -n 2 numbers
step
tail -c 9 numbers
step
tac numbers | head -n 2
step
rev fox
step
nl fox
step
fold -w 10 fox
step
fold -s -w 15 fox
step
expand <<END
a	b
END
step
unexpand -a <<END
a       b
END
step
od -A d -t x1 -N 32 numbers
step
od -c -N 16 fox
step
hexdump -C -n 32 numbers
step
xxd -l 16 numbers
step
xxd -p -l 16 numbers | xxd -r -p | od -c
step
dd if=numbers bs=1 skip=10 count=12 2>/dev/null | od -c
step
dd if=/dev/zero of=zeros bs=1024 count=64 2>/dev/null; wc -c < zeros
step
tr -d '\n' < numbers | wc -c
step
tr -s ' ' <<END
a   b    c
END
step
tr -c 'a-z\n' _ < fox
step
seq 10 | shuf > mixed; sort -n mixed | md5sum
step
split -l 500 numbers part.; ls part.*; cat part.* | cmp - numbers && echo joined
step
tee copy < fox | wc -c; cmp fox copy && echo teed
step
yes | head -n 3
step
factor 1234567890 600851475143 97
step
echo 'scale=20; sqrt(2); 2^100; 10/3' | bc
step
echo '2 3 + 4 * p' | dc
step
base64 < fox
step
base64 < numbers | base64 -d | cmp - numbers && echo decoded
step
base32 fox
step
uuencode fox < fox | uudecode -o - | cmp - fox && echo uudecoded
step
printf 'name\tvalue\n' | cat -t
step
cat -n numbers | tail -n 1
step
cat -e fox
step
strings -n 4 n.gz > /dev/null; echo done
step
echo 'x=1;y=2' | awk -F'[=;]' '{ print $2 + $4, NF }'
step
awk '{ c[length($1)]++ } END { for (k = 1; k <= 4; k++) print k, c[k] }' numbers
step
awk 'NR % 400 == 0 { print NR ": " $0 }' numbers
step
awk 'BEGIN { s = "hello world"; print toupper(substr(s, 1, 5)), index(s, "wor"), length(s) }'
step
awk 'BEGIN { n = split("a,b,c", p, ","); print n, p[1], p[3]; gsub(/b/, "[&]", p[2]); print p[2] }'
step
awk 'function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) } BEGIN { print f(16) }'
step
awk 'BEGIN { while (("echo a; echo b" | getline l) > 0) print "got", l }'
step
awk '{ print > ("w" length($1)) }' numbers; wc -l w1 w2 w3 w4
step
awk 'BEGIN { srand(1); x = rand(); print (x >= 0 && x < 1) }'
step
awk 'BEGIN { printf "%c%c%s %5.2f|%-5d|%+d|%o\n", 65, "BC", "d", 3.14159, 42, 7, 8 }'
step
awk 'BEGIN { print 1e308 * 10, -1e308 * 10, 2 ^ 0.5, 7 % 3, 1 / 3 }'
step
awk 'match($0, /b[a-z]+/) { print RSTART, RLENGTH, substr($0, RSTART, RLENGTH) }' fox
step
x=outer; (x=inner; echo $x); echo $x
step
f() { local v=$1; [ $v -le 1 ] && echo 1 && return; echo $((v * $(f $((v - 1))))); }; f 10
step
for i in 1 2 3; do for j in a b; do printf '%s%s ' $i $j; done; done; echo
step
i=0; while [ $i -lt 5 ]; do i=$((i + 1)); [ $i = 3 ] && continue; printf '%d ' $i; done; echo
step
until [ $i -eq 0 ]; do i=$((i - 1)); done; echo $i
step
case fox.tar.gz in *.zip) echo zip ;; *.tar.*) echo tar ;; *) echo other ;; esac
step
v=path/to/file.txt; echo ${v##*/} ${v%.*} ${v#*/} ${v%%/*} ${#v}
step
echo ${undefined:-default} ${v:+set} ${v:0:4} ${v/to/from}
step
set -- one 'two three' four; echo $# "$2"; shift; echo $1; for a in "$@"; do echo "<$a>"; done
step
echo a b c | { read x y; echo "$y,$x"; }
step
printf 'k1=v1\nk2=v2\n' | while IFS== read -r k w; do echo "$w -> $k"; done
step
cat <<END | sed 's/^/> /'
here $((2 * 21)) $(echo nested)
END
step
cat <<'END'
literal $x $(y)
END
step
cat <<-END
	tabs go
	END
step
trap 'echo trapped' USR1; kill -USR1 $$; trap - USR1
step
(exit 7); echo $?
step
false || true && echo chained
step
! false; echo $?
step
{ echo out; echo err >&2; } 2>&1 | sort
step
{ echo kept; echo lost >&2; } 2>/dev/null
step
exec 3> third; echo three >&3; exec 3>&-; cat third
step
exec 4< numbers; read p <&4; read q <&4; exec 4<&-; echo $p $q
step
(sleep 0; echo background) & wait; echo waited
step
sh -c 'sleep 5 & kill $!; wait $!; echo $?' 2>/dev/null # When it tells of the signal is up to it.
step
for i in 1 2 3 4; do (seq $((i * 100)) | md5sum > s.$i) & done; wait; cat s.1 s.2 s.3 s.4
step
seq 20 | xargs -n 5 echo
step
seq 3 | xargs -I{} echo item {}
step
printf 'a\0b\0' | xargs -0 -n 1 echo
step
eval 'y=evaluated'; echo $y
step
alias say=echo; type cd | head -n 1
step
ulimit -n > /dev/null && umask 022 && umask
step
mkfifo pipe; (echo through > pipe) & cat pipe; wait
step
env -i A=1 B=2 env | sort
step
env V=given sh -c 'echo $V $0' name
step
sh -c 'exit 3'; echo $?
step
sh -c 'kill -9 $$'; echo $?
step
seq 100 | (read a; read b; echo $a $b; cat | tail -n 1)
step
seq 300 | sort | sort -n | uniq | wc -l
step
seq 3000 | sed 's/$/ line/' | grep 9 | awk '{ n += length($0) } END { print n }'
step
cat numbers numbers numbers | sort -n | uniq -c | awk '$1 != 3' | wc -l
step
seq 2000 | while read n; do case $n in *99) echo $n ;; esac; done | wc -l
step
printf '%s\n' 'ed was here' > ed.txt; printf '1s/was/is/\nw\nq\n' | ed ed.txt > /dev/null; cat ed.txt
step
printf 'b 2\na 1\nc 3\n' > s; sort s -o s; cat s
step
patch -p0 < /dev/null; diff -u numbers fox > p.diff; cp numbers q.txt; patch q.txt p.diff > /dev/null; cmp q.txt fox && echo patched
step
cal 2 2000 | sed 's/ *$//' | head -n 4
step
expr length abcdef; expr substr abcdef 2 3; expr abc : 'a\(.\)'
step
seq -w 8 11; seq 1 0.5 3
step
seq -s, 1 10
step
dos2unix < fox > u; unix2dos < fox | od -c | tail -n 2
step
ls -1 part.* | sed 's/part/PART/' | sort -r | head -n 2
step
ls -a a; ls -R a | head -n 4
step
install -m 755 fox inst; stat -c %a inst
step
truncate -s 100 trunc; stat -c %s trunc
step
sync; nice -n 1 echo nice; nohup echo nohup 2>/dev/null
step
time -p true 2>/dev/null; timeout 1 sleep 3; echo $?
step
which sort > /dev/null && echo found
step
mktemp -d tmp.XXXXXX | wc -c
step
printf '%b' 'a\tb\n\101\n'
step
printf '%s %s\n' 1 2 3
step
echo -e 'x\ty\\n'; echo -n no newline; echo
step
awk 'BEGIN { for (i = 0; i < 20000; i++) h = (h * 31 + i) % 1000003; print h }'
step
i=0; while [ $i -lt 500 ]; do i=$((i + 1)); done; echo $i
step
for f in numbers fox n.gz zeros; do md5sum < $f; done | md5sum | wc -c
step
test "$(seq 100 | md5sum)" = "$(seq 100 | cat | md5sum)" && echo stable
step
seq 64 | awk '{ x = x ? x * 2 : 1; print x }' | tail -n 1
step
awk 'BEGIN { for (i = 0; i < 1000; i++) a[i % 17] += i * 0.5; for (i = 0; i < 17; i++) s = s " " a[i]; print s }'
step
printf '%s\n' 3.14 2.71 -1 1e3 | sort -g
step
seq 200 | awk '{ printf "%s%s", $1, NR % 10 ? " " : "\n" }' | awk '{ print NF, $NF }' | tail -n 3
step
x=$(seq 50); set -- $x; echo $# ${10} ${50}
step
f() { echo "f $#: $*"; return 4; }; f a 'b c'; echo $?
step
for i in $(seq 30); do sh -c "exit $i" || s=$((${s:-0} + $?)); done; echo $s
step
seq 10000 | sort -R 2>/dev/null | sort -n | md5sum
step
rm -rf a part.* w? s.? tmp.*; ls | wc -l
step
echo "commands: $((n - 1))"
